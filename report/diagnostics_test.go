package report

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"troupe/internal/golden"
	"troupe/report/chart"
	"troupe/sim"
)

const recordedSpec = `name = "recorded"
horizon = 400
replications = 24
record = ["actions", "spectrum", "optimism", "coverage"]
reference = "greedy"
[[environment]]
name = "arms"
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 7 }
[[policy]]
kind = "ensemble"
m = [2, 8]
[[policy]]
kind = "ts"
[[policy]]
kind = "greedy"
`

// record plays the spec into a directory.
func record(t *testing.T, spec string) string {
	t.Helper()
	x, err := sim.Parse("recorded.toml", spec, sim.Kinds())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := sim.Run(t.Context(), x, sim.Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// What the figures and tables say of the diagnostics is what the file says: means recomputed from
// diagnostics.csv, policies without a quantity left out.
func TestDiagnosticsFigures(t *testing.T) {
	dir := record(t, recordedSpec)
	paths, err := Build(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(filepath.Join(dir, sim.DiagnosticsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	column := map[string]int{}
	for c, name := range rows[0] {
		column[name] = c
	}
	means := func(policy, col string, round int) (mean float64, n int) {
		for _, r := range rows[1:] {
			if s := r[column[col]]; r[1] == policy && r[3] == strconv.Itoa(round) && s != "" {
				v, err := strconv.ParseFloat(s, 64)
				if err != nil {
					t.Fatal(err)
				}
				mean += v
				n++
			}
		}
		return mean / float64(n), n
	}
	run, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	a := Analyze(run, 0)
	also := diagnosed{a}.diagnostics("")
	if len(also) != 4 {
		t.Fatalf("%d figures, want 4", len(also))
	}
	for n, c := range []struct {
		id, column string
		policies   []string
	}{
		{"arms", "action_1", []string{"ensemble(m=2)", "ensemble(m=8)", "ts", "greedy"}},
		{"spectrum", "s_max", []string{"ensemble(m=2)", "ensemble(m=8)"}},
		{"optimism", "optimistic", []string{"ensemble(m=2)", "ensemble(m=8)"}},
		{"coverage", "distance", []string{"ensemble(m=2)", "ensemble(m=8)", "ts", "greedy"}},
	} {
		f := also[n].figure
		if f.ID != c.id || len(also[n].table.Rows) != len(c.policies) {
			t.Errorf("figure %s with %d rows, want %s with %d", f.ID, len(also[n].table.Rows), c.id, len(c.policies))
		}
		lines := map[string]chart.Mark{}
		for _, p := range f.Panels {
			for _, m := range p.Marks {
				switch {
				case m.Kind == chart.Line && m.Name == "s_max":
					lines[p.Title] = m
				case m.Kind == chart.Line && m.Name != "s_min":
					lines[m.Name] = m
				}
			}
		}
		if len(lines) != len(c.policies) {
			t.Errorf("%s shows %d policies, want %d", c.id, len(lines), len(c.policies))
		}
		for _, p := range c.policies {
			m := lines[p]
			for k, x := range m.X {
				want, count := means(p, c.column, int(x))
				if count != 24 || math.Abs(m.Y[k]-want) > 1e-12 {
					t.Fatalf("%s, %s at t = %v: drawn %v, in the file %v over %d replications", c.id, p, x, m.Y[k], want, count)
				}
			}
			if len(m.X) < 10 || m.X[len(m.X)-1] != 400 {
				t.Errorf("%s, %s: %d points", c.id, p, len(m.X))
			}
		}
	}
	page, err := os.ReadFile(paths.Page)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Which arms are played", "How evenly the members explore", "How many models are optimistic", "Is θ* in the ellipsoid?",
		`href="diagnostics.csv"`, "Against greedy", `href="tables/reference.csv"`} {
		if !strings.Contains(string(page), want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for _, id := range []string{"arms", "spectrum", "optimism", "coverage"} {
		for _, name := range []string{"figures/" + id + ".svg", "figures/" + id + ".pdf", "tables/" + id + ".csv", "tables/" + id + ".tex"} {
			if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Size() == 0 {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	// A run that records nothing has none of it.
	plain := record(t, strings.Replace(strings.Replace(recordedSpec, "record = ", "# ", 1), "reference = ", "# ", 1))
	if paths, err = Build(plain, Options{NoFigures: true}); err != nil {
		t.Fatal(err)
	}
	if page, err = os.ReadFile(paths.Page); err != nil {
		t.Fatal(err)
	}
	for _, not := range []string{"Which arms", "How evenly", "optimistic", "ellipsoid", "diagnostics.csv", "reference.csv"} {
		if strings.Contains(string(page), not) {
			t.Errorf("a page without diagnostics says %q", not)
		}
	}
}

// A damaged diagnostics.csv is refused at its place.
func TestDiagnosticsRefuseDamage(t *testing.T) {
	dir := record(t, strings.Replace(recordedSpec, "horizon = 400", "horizon = 5", 1))
	good, err := os.ReadFile(filepath.Join(dir, sim.DiagnosticsFile))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "results.csv"))
	if err != nil || len(raw) == 0 {
		t.Fatal(err)
	}
	run, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	manifest := run.Manifest
	manifest.Diagnostics = ""
	lines := strings.SplitAfter(string(good), "\n")
	edit := func(line int, from, to string) string {
		l := append([]string(nil), lines...)
		if !strings.Contains(l[line-1], from) {
			t.Fatalf("line %d is %q", line, l[line-1])
		}
		l[line-1] = strings.Replace(l[line-1], from, to, 1)
		return strings.Join(l, "")
	}
	field := func(line, n int) string { return strings.Split(strings.TrimSuffix(lines[line-1], "\n"), ",")[n] }
	for _, c := range []struct{ name, data, want string }{
		{"empty", "", "line 1, column 1: the file is empty"},
		{"header", edit(1, "s_min", "smin"), `line 1, column 1: header is "environment,policy,replication,round,action_1,`},
		{"environment", edit(2, "arms,", "army,"), `line 2, column 1: environment "army" is not in manifest.json`},
		{"policy", edit(2, "ensemble(m=2)", "ensemble(m=3)"), `line 2, column 6: policy "ensemble(m=3)" is not`},
		{"replication", edit(2, ",1,1,", ",25,1,"), `column 20: replication "25" of ensemble(m=2) in arms is not in results.csv`},
		{"round", edit(3, ",1,2,", ",1,3,"), `line 3, column 22: round "3", expected 2`},
		{"another cell", edit(3, ",1,2,", ",2,2,"), "line 3, column 1: another cell after 1 of 5 checkpoints"},
		{"not a number", edit(2, field(2, 12), "x"), `distance "x", expected a finite number`},
		{"infinite", edit(2, field(2, 12), "+Inf"), `distance "+Inf", expected a finite number`},
		{"half a column", edit(3, ","+field(3, 12)+",", ",,"), "line 3"},
		{"cut", strings.Join(lines[:len(lines)-2], ""), "the last cell has 4 checkpoints, expected 5"},
		{"twice", string(good) + strings.Join(lines[1:6], ""), "replication 1 of ensemble(m=2) in arms is given twice"},
		{"short line", edit(2, ","+field(2, 12), ""), "line 2, column 1: wrong number of fields"},
	} {
		t.Run(c.name, func(t *testing.T) {
			envs := []EnvData{{Rounds: run.Envs[0].Rounds, Cells: run.Envs[0].Cells}}
			err := parseDiagnostics("d.csv", []byte(c.data), &manifest, envs)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.HasPrefix(err.Error(), "d.csv: ") {
				t.Errorf("got %v\nwant %s", err, c.want)
			}
		})
	}
	// One byte that no rule can see is seen by the hash.
	bad := []byte(edit(2, field(2, 12), "0.25"))
	if err := os.WriteFile(filepath.Join(dir, sim.DiagnosticsFile), bad, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), "the file was changed after the run") {
		t.Errorf("changed diagnostics are read: %v", err)
	}
}

// The sentence and the table on the reference, for each of its cases. A quotient never separates
// what the leader table calls tied.
func TestReference(t *testing.T) {
	var b strings.Builder
	for _, c := range []struct {
		reference string
		reps      int
	}{{"greedy", 200}, {"ts", 200}, {"linucb", 200}, {"ensemble(m=16)", 40}, {"ts", 12}} {
		run := loaded(t, oneEnv(), troupeOfSeven(), c.reps, 10_000, 20)
		run.Manifest.Reference = c.reference
		a := Analyze(run, 0)
		head, lead := a.Verdict()
		fmt.Fprintf(&b, "## against %s, %d replications\n%s\n", c.reference, c.reps, head)
		for _, p := range lead {
			fmt.Fprintf(&b, "  %s\n", p)
		}
		b.WriteString("\n")
		if err := a.Versus("reference").Text(&b, 80, false); err != nil {
			t.Fatal(err)
		}
		b.WriteString("\n")
		if a.Best() != a.Against.Reference {
			tied := a.Pairs.Diff[a.Against.Reference].Verdict == Tied || a.Pairs.Diff[a.Against.Reference].Verdict == Behind
			if r := a.Against.Ratios[a.Best()]; tied && r.OK && r.Hi < 1 {
				t.Errorf("against %s: the quotient separates it from the best, the table does not", c.reference)
			}
		}
	}
	golden.Compare(t, "testdata/reference.txt", plainSpaces.Replace(b.String()))
}

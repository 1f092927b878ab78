package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"troupe/internal/golden"
	"troupe/report/chart"
	"troupe/sim"
)

// loaded writes a made-up run and loads it.
func loaded(t testing.TB, envs []sim.EnvironmentRow, players []player, reps, T, points int) *Run {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, envs, players, reps, T, points)
	run, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func oneEnv() []sim.EnvironmentRow { return []sim.EnvironmentRow{linearEnv("arms-50", 10, arms())} }

// A policy's look depends on the set of kinds alone; grey is for baselines; a fifth rival is told.
func TestLooks(t *testing.T) {
	run := loaded(t, oneEnv(), troupeOfSeven(), 2, 100, 5)
	looks, repeats := looksOf(run.Manifest.Policies)
	third := chart.BlueRamp(2, 3) // dashed
	if third.Light != chart.Blues[2].Light || third.Dash == nil {
		t.Errorf("the third setting of a sweep is %+v", third)
	}
	want := []chart.Look{chart.Blues[0], chart.Blues[1], third, chart.Rivals[0], chart.Rivals[1], chart.Rivals[2], chart.Baseline}
	if d := cmp.Diff(want, looks); d != "" || repeats {
		t.Errorf("looks (-want +got), repeats %v:\n%s", repeats, d)
	}
	var many []sim.PolicyRow
	for _, k := range []string{"a", "b", "c", "d", "e", "f", "uniform", "greedy"} {
		many = append(many, sim.PolicyRow{Name: k, Kind: k})
	}
	looks, repeats = looksOf(many)
	if !repeats {
		t.Error("six kinds, five hues: repeats must be said")
	}
	seen := map[string]bool{}
	for _, l := range looks {
		key := l.Light + fmt.Sprint(l.Dash)
		if seen[key] {
			t.Errorf("two policies look the same: %s", key)
		}
		seen[key] = true
	}
}

// A table in its four formats, for review.
func TestTableGolden(t *testing.T) {
	run := loaded(t, oneEnv(), troupeOfSeven(), 60, 10_000, 30)
	table := Leader(run, 0)
	var text, plain, csv, tex bytes.Buffer
	for _, err := range []error{table.Text(&text, 80, false), table.Plain().Text(&plain, 80, true), table.CSV(&csv), table.Booktabs(&tex)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range strings.Split(text.String(), "\n") {
		if n := len([]rune(line)); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	golden.Compare(t, "testdata/leader.txt", text.String()+"\n"+strings.ReplaceAll(plain.String(), "\x1b", "ESC"))
	// Nine digits: sums may differ in the last place where multiply and add are fused.
	golden.Compare(t, "testdata/leader.csv", regexp.MustCompile(`\d+\.\d+(e-?\d+)?`).ReplaceAllStringFunc(csv.String(), func(s string) string {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			t.Fatal(err)
		}
		return strconv.FormatFloat(v, 'g', 9, 64)
	}))
	golden.Compare(t, "testdata/leader.tex", tex.String())
}

// Every sentence of the verdict, from made-up analyses. No sentence says "lower" of a difference
// whose interval contains zero.
func TestWords(t *testing.T) {
	var b strings.Builder
	show := func(title string, a *Analysis) {
		head, lead := a.Verdict()
		fmt.Fprintf(&b, "## %s\n%s\n", title, head)
		for _, p := range lead {
			fmt.Fprintf(&b, "  %s\n", p)
		}
		b.WriteByte('\n')
	}
	seven := troupeOfSeven()
	for _, c := range []struct {
		title   string
		players []player
		reps    int
	}{
		{"some tied, some worse", seven, 200},
		{"few replications", seven, 12},
		{"one replication", seven, 1},
		{"one policy", seven[:1], 50},
		{"all separated", []player{seven[3], seven[5]}, 60},
		{"nothing separated", []player{seven[1], {name: "twin", kind: "twin", a: 7.5, b: 0.23, s: 0.45, fail: 0.03, rate: 0.09}}, 60},
		{"identical", []player{seven[3], {name: "ts", kind: "ts", a: 13.5, b: 0.24, s: 0.3}}, 40},
	} {
		if c.title == "identical" {
			// The same law under the same name draws the same numbers; rename afterwards.
			run := loaded(t, oneEnv(), []player{seven[3], seven[5]}, c.reps, 10_000, 20)
			run.Envs[0].Cells[1] = run.Envs[0].Cells[0]
			show(c.title, Analyze(run, 0))
			continue
		}
		show(c.title, Analyze(loaded(t, oneEnv(), c.players, c.reps, 10_000, 20), 0))
	}
	// An interrupted run: policies have different replications.
	run := loaded(t, oneEnv(), seven[:4], 60, 10_000, 20)
	for r := 30; r < 60; r++ {
		run.Envs[0].Cells[2][r] = nil
	}
	for r := range run.Envs[0].Cells[3] {
		run.Envs[0].Cells[3][r] = nil
	}
	show("interrupted", Analyze(run, 0))
	golden.Compare(t, "testdata/words.txt", plainSpaces.Replace(b.String()))

	// Several environments.
	b.Reset()
	for _, players := range [][]player{seven, {seven[3], seven[5]}, {seven[1], seven[3], seven[6]}} {
		run := loaded(t, []sim.EnvironmentRow{linearEnv("ball-10", 10, ball()), linearEnv("arms-50", 10, arms())}, players, 60, 10_000, 20)
		head, lead := Headline([]*Analysis{Analyze(run, 0), Analyze(run, 1)})
		fmt.Fprintf(&b, "%s\n", head)
		for _, p := range lead {
			fmt.Fprintf(&b, "  %s\n", p)
		}
	}
	golden.Compare(t, "testdata/headline.txt", plainSpaces.Replace(b.String()))
}

var plainSpaces = strings.NewReplacer(chart.Narrow, " ")

// No two places contradict each other: the interval of the table lies inside the band of the gap
// figure at T, the mean of the figure is the mean of the table, and the means are those of the file.
func TestPlacesAgree(t *testing.T) {
	run := loaded(t, oneEnv(), troupeOfSeven(), 100, 10_000, 40)
	a := Analyze(run, 0)
	if !a.Pairs.OK || !a.Band.OK || a.Band.Factor < a.Pairs.Factor {
		t.Fatalf("factors %v (%v) and %v (%v)", a.Pairs.Factor, a.Pairs.OK, a.Band.Factor, a.Band.OK)
	}
	if a.Band.Rounds[len(a.Band.Rounds)-1] != len(a.Rounds)-1 {
		t.Error("the band does not reach T")
	}
	gap := painter{a}.gapFigure("")
	for n, i := range a.Order[1:] {
		for _, m := range gap.Panels[n].Marks {
			if m.Kind == chart.Band {
				k := len(m.X) - 1
				if m.Lo[k] > a.Pairs.Diff[i].Lo+1e-9 || m.Hi[k] < a.Pairs.Diff[i].Hi-1e-9 {
					t.Errorf("%s: band [%v, %v] does not contain the table's [%v, %v]", a.Label(i), m.Lo[k], m.Hi[k], a.Pairs.Diff[i].Lo, a.Pairs.Diff[i].Hi)
				}
			}
		}
	}
	lin, _ := painter{a}.regretFigures("", nil)
	for _, m := range lin.Panels[0].Marks {
		if m.Kind != chart.Line {
			continue
		}
		i := slices.IndexFunc(a.Policies, func(p int) bool { return p == m.Look })
		var want float64
		for _, c := range run.Envs[0].Cells[m.Look] {
			want += c.Regret[len(a.Rounds)-1] / 100
		}
		if got := m.Y[len(m.Y)-1]; math.Abs(got-want) > 1e-9*want || math.Abs(a.Summary[i].Mean-want) > 1e-9*want {
			t.Errorf("%s: figure %v, table %v, file %v", m.Name, got, a.Summary[i].Mean, want)
		}
	}
}

// Damage is refused with line and column; nothing panics.
func TestLoadRefusesDamage(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, oneEnv(), troupeOfSeven()[3:5], 2, 100, 4)
	raw, err := os.ReadFile(filepath.Join(dir, "results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(raw), "\n")
	edit := func(f func(l []string) []string) string { return strings.Join(f(slices.Clone(lines)), "\n") }
	field := func(row, col int, v string) string {
		return edit(func(l []string) []string {
			f := strings.Split(l[row], ",")
			f[col] = v
			l[row] = strings.Join(f, ",")
			return l
		})
	}
	for _, c := range []struct{ name, data, want string }{
		{"header", field(0, 4, "regrets"), "line 1, column 1: header"},
		{"empty", "", "line 1, column 1: the file is empty"},
		{"environment", field(2, 0, "arms-5"), `line 3, column 1: environment "arms-5" is not in manifest.json`},
		{"policy", field(3, 1, "tss"), `line 4, column 9: policy "tss" is not in manifest.json`},
		{"replication", field(4, 2, "3"), `line 5, column 12: replication "3", expected a whole number from 1 to 2`},
		{"round", field(2, 3, "x"), `line 3, column 14: round "x"`},
		{"NaN", field(2, 4, "NaN"), `line 3, column 17: regret "NaN", expected a finite number`},
		{"Inf", field(2, 5, "+Inf"), `reward "+Inf", expected a finite number`},
		{"fields", edit(func(l []string) []string { l[5] += ",1"; return l }), "line 6, column 1: wrong number of fields"},
		{"short cell", edit(func(l []string) []string { return append(l[:7], l[8:]...) }), "round"},
		{"long cell", edit(func(l []string) []string { return slices.Insert(l, 4, l[4]) }), "round"},
		{"checkpoint", field(6, 3, "11"), "line 7, column 14: round 11, expected"},
		{"twice", edit(func(l []string) []string { return append(l[:len(l)-1], append(slices.Clone(l[1:5]), "")...) }), "replication 1 of ts in arms-50 is given twice"},
		{"cut in a line", string(raw[:len(raw)-9]), "does not end with a line feed"},
		{"cut in a cell", strings.Join(lines[:len(lines)-2], "\n") + "\n", "checkpoints, expected 4"},
		{"quote", field(2, 0, `"arms`), "line"},
		{"changed digit", field(2, 4, "7.5"), "the file was changed after the run"},
	} {
		t.Run(c.name, func(t *testing.T) {
			save(t, filepath.Join(dir, "results.csv"), []byte(c.data))
			_, err := Load(dir)
			if err == nil {
				t.Fatal("accepted")
			}
			if !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "results.csv") {
				t.Errorf("error %q does not say %q", err, c.want)
			}
		})
	}
	save(t, filepath.Join(dir, "results.csv"), raw)
	if _, err := Load(dir); err != nil {
		t.Errorf("the undamaged file: %v", err)
	}
	man, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, data, want string }{
		{"syntax", strings.Replace(string(man), "{", "{,", 1), "line 1, column 2"},
		{"type", strings.Replace(string(man), `"seed": 1`, `"seed": "one"`, 1), "line "},
		{"replications", strings.Replace(string(man), `"replications": 2`, `"replications": 0`, 1), "replications: is 0"},
	} {
		save(t, filepath.Join(dir, "manifest.json"), []byte(c.data))
		if _, err := Load(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("manifest, %s: error %v does not say %q", c.name, err, c.want)
		}
	}
}

// Bytes on disk never cause a panic: any edit of a small file is read or refused.
func TestLoadNeverPanics(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, oneEnv(), troupeOfSeven()[3:5], 2, 100, 4)
	run, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, "results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		data := slices.Clone(raw)
		for range rapid.IntRange(1, 4).Draw(t, "edits") {
			at := rapid.IntRange(0, len(data)-1).Draw(t, "at")
			switch rapid.IntRange(0, 2).Draw(t, "kind") {
			case 0:
				data[at] = rapid.Byte().Draw(t, "byte")
			case 1:
				data = slices.Delete(data, at, min(len(data), at+rapid.IntRange(1, 40).Draw(t, "n")))
			case 2:
				data = slices.Insert(data, at, []byte(rapid.SampledFrom([]string{"\n", ",", "\"", "1", "-", "e9", "arms-50"}).Draw(t, "text"))...)
			}
			if len(data) == 0 {
				return
			}
		}
		m := run.Manifest
		envs, err := parseResults("results.csv", data, &m)
		if err == nil && len(envs) != 1 {
			t.Fatal("no error and no data")
		}
	})
}

// Names are strangers' words: nothing of them reaches the page as markup.
func TestPageEscapes(t *testing.T) {
	evil := `<script>alert(1)</script>&"'`
	players := troupeOfSeven()[:4]
	players[3].name = evil
	players[3].kind = evil
	envs := []sim.EnvironmentRow{linearEnv(evil+"a", 10, map[string]any{"kind": evil}), linearEnv("b", 10, arms())}
	dir := t.TempDir()
	write(t, dir, envs, players, 25, 1000, 10)
	paths, err := Build(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(paths.Page)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Contains(page, []byte("<script>alert")) || bytes.Contains(page, []byte(`</script>&`)) {
		t.Error("a name reached the page as markup")
	}
	if !bytes.Contains(page, []byte("&lt;script&gt;alert(1)")) {
		t.Error("the name is not on the page")
	}
	for _, p := range slices.Concat(paths.Figures, paths.Tables) {
		if filepath.Dir(p) != filepath.Join(dir, "figures") && filepath.Dir(p) != filepath.Join(dir, "tables") {
			t.Errorf("a name led out of the directory: %s", p)
		}
	}
}

// The same files give the same bytes, in every format, at different times and on any number of
// processors; every link of the page leads to a file.
func TestDeterministicAndLinked(t *testing.T) {
	dirs := []string{t.TempDir(), t.TempDir()}
	var all [2]map[string][]byte
	for i, dir := range dirs {
		write(t, dir, []sim.EnvironmentRow{linearEnv("ball-10", 10, ball()), linearEnv("arms-50", 10, arms())}, troupeOfSeven(), 25, 1000, 20)
		paths, err := Build(dir, Options{Sizes: chart.Sizes[1:2]})
		if err != nil {
			t.Fatal(err)
		}
		all[i] = map[string][]byte{}
		for _, p := range slices.Concat([]string{paths.Page}, paths.Figures, paths.Tables) {
			data, err := os.ReadFile(p)
			if err != nil {
				t.Fatal(err)
			}
			rel, err := filepath.Rel(dir, p)
			if err != nil {
				t.Fatal(err)
			}
			all[i][filepath.ToSlash(rel)] = data
		}
	}
	today := []byte(time.Now().UTC().Format("20060102"))
	for name, data := range all[0] {
		if strings.HasSuffix(name, ".pdf") && bytes.Contains(data, append([]byte("(D:"), today...)) {
			t.Errorf("%s holds the time at which it was made", name) // both builds may be of one second
		}
		if !bytes.Equal(data, all[1][name]) {
			t.Errorf("%s differs from one build to the next", name)
		}
	}
	page := string(all[0]["report.html"])
	for _, m := range regexp.MustCompile(`href="([^"#]+)"`).FindAllStringSubmatch(page, -1) {
		link := m[1]
		if strings.HasPrefix(link, "data:") || link == "results.csv" || link == "manifest.json" {
			continue
		}
		if _, ok := all[0][link]; !ok {
			t.Errorf("the page links to %s, which was not written", link)
		}
	}
	if strings.Contains(page, "http://") || strings.Contains(page, "https://") || regexp.MustCompile(`\b(NaN|Inf)\b`).MatchString(page) || strings.Contains(page, "ZgotmplZ") {
		t.Error("the page holds an address, a NaN, an Inf or something html/template refused")
	}
	left, err := filepath.Glob(filepath.Join(dirs[0], "*", ".tmp-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("temporary files left: %v %v", left, err)
	}
}

// Budgets: 20 policies × 60 checkpoints × 200 replications in one page of at most 1 MB (target
// 400 kB); the script at most 6 kB. How long it takes is in the test's log. Without TROUPE_LONG there are 60
// replications, whose page is 43 kB smaller, and so is the target.
func TestBudgets(t *testing.T) {
	reps, target := 60, 357_000
	if os.Getenv("TROUPE_LONG") != "" {
		reps, target = 200, 400_000
	}
	var players []player
	for i := range 20 {
		p := troupeOfSeven()[i%7]
		p.name = fmt.Sprintf("%s %d", p.name, i)
		players = append(players, p)
	}
	run := loaded(t, oneEnv(), players, reps, 10_000, 66)
	if n := len(run.Envs[0].Rounds); n < 58 {
		t.Fatalf("%d checkpoints", n)
	}
	d := compose(run, Options{}) // with the resampling
	var page bytes.Buffer
	start := time.Now()
	for _, e := range d.envs {
		e.lin, e.loglog = painter{e.a}.regretFigures("", nil)
		e.final, e.tail, e.gap = painter{e.a}.finalFigure(""), painter{e.a}.tailFigure(""), painter{e.a}.gapFigure("")
	}
	if err := d.writePage(&page); err != nil {
		t.Fatal(err)
	}
	t.Logf("page of 20 × 60 × %d: %d kB, %v", reps, page.Len()/1000, time.Since(start))
	if page.Len() > target {
		t.Errorf("%d bytes, target %d, limit 1 000 000", page.Len(), target)
	}
	script, err := pageFiles.ReadFile("page/page.js")
	if err != nil {
		t.Fatal(err)
	}
	if len(script) > 6000 {
		t.Errorf("the script has %d bytes", len(script))
	}
}

// Golden marks of a small figure: one decimal at most, for review in a diff.
func TestFigureGolden(t *testing.T) {
	run := loaded(t, oneEnv(), troupeOfSeven()[2:5], 24, 1000, 6)
	a := Analyze(run, 0)
	lin, _ := painter{a}.regretFigures("", nil)
	breaks := strings.NewReplacer("<path", "\n<path", "<span", "\n<span")
	golden.Compare(t, "testdata/regret.html", breaks.Replace(string(lin.HTML()))+"\n")
	var svg bytes.Buffer
	looks, _ := looksOf(run.Manifest.Policies)
	if err := (painter{a}).growthFigure("").WriteSVG(&svg, looks, chart.Sizes[0]); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(svg.String(), "ensemble(m=64)") || !strings.HasPrefix(svg.String(), "<?xml") {
		t.Error("the exported SVG has no names")
	}
}

// Sweeps of every shape: numbers, nested options, words; one option and two; over environments.
func TestSweeps(t *testing.T) {
	var players []player
	for _, m := range []int{2, 8, 32} {
		for _, init := range []string{"corrected", "matched"} {
			players = append(players, player{name: fmt.Sprintf("ensemble(m=%d,init=%s)", m, init), kind: "ensemble",
				options: map[string]any{"m": m, "init": init, "scale": map[string]any{"kind": "constant", "value": 1.5}},
				swept:   []string{"init", "m"}, a: 5 + 20/float64(m), b: 0.3, s: 0.3})
		}
	}
	players = append(players, troupeOfSeven()[3])
	envs := []sim.EnvironmentRow{linearEnv("d=5", 5, ball(), "d"), linearEnv("d=20", 20, ball(), "d"), linearEnv("d=80", 80, ball(), "d")}
	run := loaded(t, envs, players, 25, 1000, 10)
	a := Analyze(run, 0)
	figures, heats := swept{a}.sweepFigures("x-")
	var titles []string
	for _, f := range figures {
		titles = append(titles, f.ID+": "+f.Title)
	}
	if d := cmp.Diff([]string{"x-sweep-ensemble-init: Regret against init", "x-sweep-ensemble-m: Regret against m"}, titles); d != "" {
		t.Error(d)
	}
	h := heats[figures[0]]
	if h == nil || len(h.RowVal) != 2 || len(h.ColVal) != 3 {
		t.Fatalf("no map of 2 × 3: %+v", h)
	}
	for r, init := range h.RowVal {
		for c, m := range h.ColVal {
			i := slices.IndexFunc(a.Policies, func(p int) bool {
				return run.Manifest.Policies[p].Name == fmt.Sprintf("ensemble(m=%s,init=%s)", m, init)
			})
			if h.Cell[r][c] != a.Summary[i].Mean {
				t.Errorf("cell %s, %s is %v, the policy's mean %v", init, m, h.Cell[r][c], a.Summary[i].Mean)
			}
		}
	}
	if ax := figures[1].Panels[0].X; !ax.Log || len(ax.Ticks) != 3 {
		t.Errorf("m over a factor of 16 wants a log axis with its values as ticks: %+v", ax)
	}
	across := acrossFigures(run, []*Analysis{a, Analyze(run, 1), Analyze(run, 2)})
	titles = nil
	for _, f := range across {
		titles = append(titles, f.Title)
	}
	if d := cmp.Diff([]string{"Regret against d"}, titles); d != "" {
		t.Error(d)
	}
	// Three swept options: a panel for each value of the shortest other one, the same line in the same look.
	var cube []player
	for _, m := range []string{"5", "20"} {
		for _, law := range []string{"uniform", "gaussian", "sphere", "signs", "pair", "coordinate"} {
			for _, init := range []string{"corrected", "matched", "none"} {
				cube = append(cube, player{name: fmt.Sprintf("ensemble(m=%s, targets=%s, init=%s)", m, law, init), kind: "ensemble",
					options: map[string]any{"m": m, "init": init, "targets": law}, swept: []string{"init", "m", "targets"}, a: 5, b: 0.3, s: 0.3})
			}
		}
	}
	cubes, _ := swept{Analyze(loaded(t, oneEnv(), cube, 5, 1000, 10), 0)}.sweepFigures("")
	for _, f := range cubes {
		look := map[string]int{}
		for _, p := range f.Panels {
			for _, m := range p.Marks {
				if l, ok := look[m.Name]; ok && l != m.Look {
					t.Errorf("%s: %s wears two looks", f.ID, m.Name)
				}
				look[m.Name] = m.Look
			}
		}
		if want := map[string]int{"sweep-ensemble-init": 2, "sweep-ensemble-m": 3, "sweep-ensemble-targets": 1}[f.ID]; len(f.Panels) != want || (want > 1) != (len(f.Legend) > 0) {
			t.Errorf("%s has %d panels and a legend of %d, want %d panels", f.ID, len(f.Panels), len(f.Legend), want)
		}
	}
	if n := len(across[0].Panels[0].Marks); n != 2*len(players) {
		t.Errorf("regret against d has %d marks, want a line and points for each of %d policies", n, len(players))
	}
}

// The rivals of a sweep: those up to three times its top have a line, and the caption names the others.
func TestRivalsOfSweep(t *testing.T) {
	players := []player{{name: "near", kind: "ts", a: 12, b: 0.3, s: 0.1}, {name: "far", kind: "linucb", a: 60, b: 0.3, s: 0.1}}
	for _, m := range []int{2, 8, 32} {
		players = append(players, player{name: fmt.Sprintf("ensemble(m=%d)", m), kind: "ensemble", options: map[string]any{"m": m}, swept: []string{"m"}, a: 5, b: 0.3, s: 0.1})
	}
	a := Analyze(loaded(t, oneEnv(), players, 5, 1000, 10), 0)
	figures, _ := swept{a}.sweepFigures("x-")
	p := figures[0].Panels[0]
	drawn := map[string]bool{}
	for _, m := range p.Marks {
		drawn[m.Name] = true
		for _, y := range m.Y {
			if y > p.Y.Hi {
				t.Errorf("%s at %v is above the axis, which ends at %v", m.Name, y, p.Y.Hi)
			}
		}
	}
	if !drawn["near"] || drawn["far"] {
		t.Errorf("lines of %v, want that of near and not that of far", drawn)
	}
	if how := figures[0].How; !strings.Contains(how, "Without a line: far at ") || strings.Contains(how, "near") {
		t.Errorf("the caption is %q", how)
	}
}

// The bounds of the theorems: shown for a linear environment with unit noise, in words with 2T when
// they say nothing, and left out where the theorem does not speak.
func TestBounds(t *testing.T) {
	players := troupeOfSeven()[1:5]
	players[0].options = map[string]any{"m": 16, "lambda": 5.0, "delta": 0.2}
	run := loaded(t, oneEnv(), players, 25, 10_000, 20)
	d := compose(run, Options{Bounds: []Bound{{Env: "arms-50", Label: "mine", Name: "a bound of mine", Rounds: []int{100, 10_000}, Values: []float64{50, 150}}}})
	notes := plainSpaces.Replace(strings.Join(d.envs[0].boundNotes(), "\n"))
	for _, want := range []string{"Ensemble sampling, r_t = 7 β_t, λ = 5, δ = 0.2, m = ", "(thm:es)", "larger than losing every round (2T = 20,000): it says nothing here", "A bound of mine: 150.0 at T."} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q is not in\n%s", want, notes)
		}
	}
	drawn := 0
	for _, m := range d.envs[0].loglog.Panels[0].Marks {
		if m.Kind == chart.BoundLine {
			drawn++
		}
	}
	if log := d.envs[0].loglog; !slices.ContainsFunc(log.Panels[0].Marks, func(m chart.Mark) bool { return m.Kind == chart.Guide && m.Name == "mine" && len(m.Y) == 2 }) ||
		!slices.ContainsFunc(log.Panels[0].Ends, func(e chart.End) bool { return e.Label == "mine" && e.Y == 150 }) || !strings.Contains(log.How, "A bound of mine: ") {
		t.Error("the bound that was asked for has no line in the figure that papers get, no label, or no words in the caption")
	}
	if drawn == 0 {
		t.Error("the bound of a theorem that fits is not drawn")
	}
	noisy := oneEnv()
	noisy[0].Options["noise"] = map[string]any{"kind": "gaussian", "sigma": 2.0}
	if n := len(compose(loaded(t, noisy, players, 2, 1000, 10), Options{}).envs[0].bounds); n != 0 {
		t.Errorf("%d bounds for noise of 2, which the theorems do not cover", n)
	}
}

// What the script shows is what amount writes, digit by digit.
func TestReadoutDigits(t *testing.T) {
	run := loaded(t, oneEnv(), troupeOfSeven(), 20, 10_000, 30)
	d := compose(run, Options{})
	raw, err := d.envs[0].readout()
	if err != nil {
		t.Fatal(err)
	}
	var data struct {
		T []int
		D int
		P []struct {
			I int
			M []float64
		}
	}
	if err := json.Unmarshal(raw, &data); err != nil {
		t.Fatal(err)
	}
	a := d.envs[0].a
	for i, p := range data.P {
		m, _ := painter{a}.curve(i)
		for k := range m {
			dec := data.D
			if math.Abs(p.M[k]) >= 1000 {
				dec = 0
			}
			if got, want := chart.Number(p.M[k], dec), chart.Amount(m[k], a.Dec); got != want && math.Abs(m[k]-1000) > 1 {
				t.Errorf("%s at %d: read-out %s, prose %s", a.Label(i), data.T[k], got, want)
			}
		}
	}
}

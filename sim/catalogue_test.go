package sim

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/env"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// Own kinds of every table, nested in kinds of troupe and in each other.

type corners struct {
	Length float64 `key:"length" doc:"norm"`
}

func (*corners) Doc() string            { return "two arms" }
func (*corners) Dim(d int) (int, error) { return 2, nil }
func (c *corners) Build(int, rng.Source) (bandit.ActionSet, error) {
	return actionset.NewFinite([][]float64{{c.Length, 0}, {0, c.Length}})
}

type shifted struct {
	env.Gaussian
	Shift float64 `key:"shift" doc:"added to every reward"`
}

func (*shifted) Doc() string { return "normal noise around a shifted mean" }
func (s *shifted) Check() error {
	if s.Shift < 0 {
		return spec.Refuse("shift", s.Shift, "expected at least 0")
	}
	return nil
}
func (s *shifted) Pay(mean float64, draw rng.Source) float64 { return mean + s.Shift + draw.Normal(0) }
func (s *shifted) Sigma() (float64, bool)                    { return 1, true }

// wrapping is a wrapper of one's own around a policy of the catalogue.
type wrapping struct {
	Base policy.Base `key:"base" doc:"what it wraps"`
}

func (*wrapping) Doc() string                                   { return "its base" }
func (w *wrapping) New(p policy.Problem) (bandit.Policy, error) { return w.Base.New(p) }

func ownKinds() Catalogue {
	kinds := Kinds()
	kinds.Policies["mine"] = func() policy.Options { return &policy.FixedOptions{} }
	kinds.Policies["wrapping"] = func() policy.Options { return new(wrapping) }
	kinds.Sets["corners"] = func() actionset.Builder { return &corners{1} }
	kinds.Noise["shifted"] = func() env.Law { return new(shifted) }
	return kinds
}

const ownSpec = `
horizon = 30
replications = 2
[[environment]]
kind = "linear"
theta = "given"
value = [0.5, 0.1]
set = { kind = "corners", length = [0.5, 1.0] }
noise = { kind = "shifted", shift = [0.0, 2.0] }
[[policy]]
kind = "mixed"
epsilon = 0.25
base = { kind = "wrapping", base = { kind = "mixed", base = { kind = "mine", index = [0, 1] } } }
`

// One catalogue serves nested tables as it does their parents: sweeps, defaults, faults with their place. The
// registries of the packages stay as they are.
func TestNestedKinds(t *testing.T) {
	kinds := ownKinds()
	x, err := Parse("own.toml", ownSpec, kinds)
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Environments) != 4 || len(x.Policies) != 2 || !strings.Contains(x.Policies[1].Name, "index=1") {
		t.Fatalf("%d environments, policies %q", len(x.Environments), x.Policies[len(x.Policies)-1].Name)
	}
	out := run(t, x, Options{Dir: filepath.Join(t.TempDir(), "out")})
	if len(strings.Fields(out.Manifest.Program)) != 1 || len(out.Manifest.Program) != 64 {
		t.Errorf("an own set in a built-in environment is computed by %q", out.Manifest.Program)
	}
	reward := func(e int) (sum float64) {
		for row := range out.Rows() {
			if row.Environment == x.Environments[e].Name && row.Policy == x.Policies[0].Name && row.Round == 30 {
				sum += row.Reward
			}
		}
		return sum
	}
	if d := reward(2) - reward(0); math.Abs(d-2*30*2) > 1e-9 { // shift 2 instead of 0, 30 rounds, 2 replications
		t.Errorf("the shift adds %v", d)
	}
	for _, name := range []string{"mine", "wrapping", "corners", "shifted"} {
		_, a := policy.Kinds[name]
		_, b := actionset.Kinds[name]
		_, c := env.Laws[name]
		if a || b || c {
			t.Errorf("%s is in a registry of its package", name)
		}
	}
	for from, want := range map[string]string{
		`kind = "corners", length`: `own.toml:8:27: unknown key "lenght"; did you mean "length"?`,
		`kind = "mine", index`:     `unknown kind "mime"; did you mean "mine"?`,
		`shift = [0.0, 2.0]`:       `shift is -1, expected at least 0`,
	} {
		to := strings.NewReplacer("length", "lenght", `"mine"`, `"mime"`, "[0.0, 2.0]", "-1.0").Replace(from)
		if _, err := Parse("own.toml", strings.Replace(ownSpec, from, to, 1), kinds); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, expected %s", to, err, want)
		}
	}
	if _, err := Parse("own.toml", ownSpec, Kinds()); err == nil || !strings.Contains(err.Error(), `unknown kind "shifted"`) {
		t.Errorf("the kinds of troupe alone have it: %v", err)
	}
}

// greatest observes the largest reward, and the round.
type greatest struct{ reward, t float64 }

func (g *greatest) Round(r Round) error {
	if r.Set == nil || r.Action.X == nil || r.Regret < 0 {
		return fmt.Errorf("round %d has no set or action", r.T)
	}
	if r.T == 1 || r.Reward > g.reward {
		g.reward = r.Reward
	}
	g.t = float64(r.T)
	return nil
}

func (g *greatest) Values(dst []float64) error { dst[0], dst[1] = g.reward, g.t; return nil }

// A recorder of one's own writes its columns, changes no result, and makes its cells those of this program.
func TestRecorder(t *testing.T) {
	kinds := Kinds()
	kinds.Recorders["greatest"] = Recorder{Doc: "largest reward so far", Columns: []string{"greatest", "t"}, New: func(c RecordedCell) Probe {
		if _, ok := c.Policy.(*policy.Fixed); ok {
			return nil // the cell does not have it
		}
		return &greatest{}
	}}
	text := sideBySide + "[[policy]]\nkind = 'fixed'\nindex = 0\n"
	with := `record = ["greatest", "actions"]` + "\n" + text
	x, err := Parse("x.toml", with, kinds)
	if err != nil {
		t.Fatal(err)
	}
	out := run(t, x, Options{})
	if !bytes.Equal(out.Results, run(t, parseReal(t, text), Options{}).Results) {
		t.Error("recording changed results.csv")
	}
	if len(out.Manifest.Program) != 64 || len(out.Manifest.Recorders) != 1 || out.Manifest.Recorders[0].Name != "greatest" {
		t.Errorf("program %q, recorders %+v", out.Manifest.Program, out.Manifest.Recorders)
	}
	rows := strings.Split(strings.TrimSpace(string(out.Also)), "\n")
	if !strings.HasSuffix(rows[0], ",action_5,greatest,t") {
		t.Fatalf("columns %q", rows[0])
	}
	none, some := 0, 0
	for _, row := range rows[1:] {
		f := strings.Split(row, ",")
		switch n := len(f); {
		case f[n-1] == "" && f[n-2] == "":
			none++
		case f[n-1] == f[3]: // the round
			some++
		default:
			t.Fatalf("row %q", row)
		}
	}
	if none == 0 || some == 0 {
		t.Errorf("%d rows with, %d without values", some, none)
	}
	for name, c := range map[string]struct {
		r    Recorder
		want string
	}{
		"actions": {Recorder{Columns: []string{"a"}}, "has a quantity of this name"},
		"empty":   {Recorder{}, "has no columns"},
		"taken":   {Recorder{Columns: []string{"s_min"}}, `spectrum has a column "s_min"`},
		"space":   {Recorder{Columns: []string{"a b"}}, "lower-case"},
		"mute":    {Recorder{Columns: []string{"a"}}, "has no New"},
	} {
		bad := kinds
		bad.Recorders = maps.Clone(kinds.Recorders)
		bad.Recorders[name] = c.r
		if _, err := Parse("x.toml", strings.Replace(with, "actions", name, 1), bad); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("recorder %s: error %v, expected %s", name, err, c.want)
		}
	}
	if _, err := Parse("x.toml", strings.Replace(with, "greatest", "gretest", 1), kinds); err == nil || !strings.Contains(err.Error(), `did you mean "greatest"?`) {
		t.Errorf("error %v", err)
	}
}

// Rows are the lines of results.csv.
func TestRows(t *testing.T) {
	out := run(t, parse(t, mixed), Options{})
	b := bytes.NewBufferString(ResultsHeader + "\n")
	for r := range out.Rows() {
		fmt.Fprintf(b, "%s,%s,%d,%d,%v,%v\n", field(r.Environment), field(r.Policy), r.Replication, r.Round, r.Regret, r.Reward)
	}
	if !bytes.Equal(b.Bytes(), out.Results) {
		t.Errorf("the rows are\n%s", b)
	}
	for range out.Rows() {
		break // may stop
	}
}

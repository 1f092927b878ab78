package sim

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"troupe/bandit"
	"troupe/env"
	"troupe/policy"
	"troupe/rng"
)

const recorded = `seed = 3
horizon = 300
replications = 3
record = ["coverage", "actions", "optimism", "spectrum"]
[[environment]]
name = "arms"
kind = "linear"
d = 3
set = { kind = "random-sphere", arms = 4 }
[[environment]]
name = "ball"
kind = "linear"
d = 3
set = { kind = "ball" }
[[policy]]
kind = "ensemble"
m = [2, 7]
delta = 0.2
[[policy]]
name = "floor"
kind = "mixed"
epsilon = 0.2
base = { kind = "ensemble", m = 5 }
[[policy]]
kind = "atoms"
m = 4
[[policy]]
kind = "ts"
[[policy]]
kind = "uniform"
[[policy]]
name = "growing"
kind = "ensemble"
m = "grow"
targets = "gaussian"
`

func recordedExperiment(t *testing.T, text string) *Experiment {
	t.Helper()
	x, err := Parse("x.toml", text, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// onlyArms is recorded without the ball, on which a floor of uniform play does not exist.
func onlyArms() string {
	head, rest, _ := strings.Cut(recorded, "[[environment]]\nname = \"ball\"")
	_, rest, _ = strings.Cut(rest, "[[policy]]")
	return head + "[[policy]]" + rest
}

// Every number of an ensemble's diagnostics is computed a second time, from the definitions: the
// loop by hand, V as a sum of outer products, singular values by gonum's SVD of L⁻¹S, arms ranked
// by their means, models enumerated.
func TestDiagnosticsAreTheDefinitions(t *testing.T) {
	x := recordedExperiment(t, onlyArms())
	out := run(t, x, Options{Workers: 1})
	rows, err := csv.NewReader(bytes.NewReader(out.Also)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(rows[0], ","), "environment,policy,replication,round,action_1,action_2,action_3,action_4,action_5,s_min,s_max,optimistic,distance,distance_max"; got != want {
		t.Fatalf("header %s\nwant   %s", got, want)
	}
	at := make(map[string][]string)
	for _, r := range rows[1:] {
		at[strings.Join(r[:4], "|")] = r[4:]
	}
	const d, m, delta = 3, 7, 0.2
	for rep := 1; rep <= 3; rep++ {
		key := x.Key(rep)
		world, err := x.Environments[0].Options.Build(key, nil)
		if err != nil {
			t.Fatal(err)
		}
		theta := world.(env.Truth).Theta()
		e, err := policy.NewEnsemble(policy.EnsembleOptions{M: m, Delta: delta}, policy.Problem{
			Dim: d, Arms: 4, Horizon: x.Horizon, Sigma: 1, Init: key.Stream(rng.Init)})
		if err != nil {
			t.Fatal(err)
		}
		v := mat.NewSymDense(d, []float64{1, 0, 0, 0, 1, 0, 0, 0, 1})
		var b [d]float64
		counts := make([]float64, 5)
		largest, next := 0.0, 0
		var a bandit.Action
		for round := 1; round <= x.Horizon; round++ {
			set, err := world.Offer(key.Stream(rng.Offer).Round(uint64(round)))
			if err != nil {
				t.Fatal(err)
			}
			arms := set.(bandit.Finite)
			if err := e.Select(&a, set, key.Stream(rng.Select).Round(uint64(round))); err != nil {
				t.Fatal(err)
			}
			better, top := 0, math.Inf(-1)
			for i := range arms.Len() {
				if floats.Dot(arms.At(i), theta) > floats.Dot(a.X, theta) {
					better++
				}
				top = max(top, floats.Dot(arms.At(i), theta))
			}
			counts[better]++

			var chol mat.Cholesky
			if !chol.Factorize(v) {
				t.Fatal("V is not positive definite")
			}
			var hat mat.VecDense
			if err := chol.SolveVecTo(&hat, mat.NewVecDense(d, b[:])); err != nil {
				t.Fatal(err)
			}
			var diff, image mat.VecDense
			diff.SubVec(mat.NewVecDense(d, theta), &hat)
			image.MulVec(v, &diff)
			beta := 1 + math.Sqrt(2*math.Log(1/delta)+chol.LogDet())
			ratio := math.Sqrt(mat.Dot(&diff, &image)) / beta
			largest = max(largest, ratio)

			if round == x.Checkpoints[next] {
				next++
				var l mat.TriDense
				chol.LTo(&l)
				var gamma mat.Dense
				if err := gamma.Solve(&l, mat.NewDense(m, d, e.Sums()).T()); err != nil {
					t.Fatal(err)
				}
				var svd mat.SVD
				svd.Factorize(&gamma, mat.SVDNone)
				s := svd.Values(nil)
				optimistic, model := 0, make([]float64, d)
				for j := range m {
					for _, sign := range []float64{1, -1} {
						e.Model(model, j, sign)
						best := math.Inf(-1)
						for i := range arms.Len() {
							best = max(best, floats.Dot(arms.At(i), model))
						}
						if best >= top {
							optimistic++
						}
					}
				}
				n := float64(round)
				want := []float64{counts[0] / n, counts[1] / n, counts[2] / n, counts[3] / n, math.NaN(),
					s[d-1] / math.Sqrt(m), s[0] / math.Sqrt(m), float64(optimistic) / (2 * m), ratio, largest}
				got := at[strings.Join([]string{"arms", "ensemble(m=7)", strconv.Itoa(rep), strconv.Itoa(round)}, "|")]
				if len(got) != len(want) {
					t.Fatalf("replication %d, round %d: %d values", rep, round, len(got))
				}
				for k, w := range want {
					if math.IsNaN(w) {
						if got[k] != "" {
							t.Errorf("%s is %s, want nothing: there are four arms", rows[0][4+k], got[k])
						}
						continue
					}
					g, err := strconv.ParseFloat(got[k], 64)
					if err != nil || math.Abs(g-w) > 1e-9*(1+math.Abs(w)) {
						t.Fatalf("replication %d, round %d: %s is %s, by its definition %v", rep, round, rows[0][4+k], got[k], w)
					}
				}
			}
			y, err := world.Reward(a, key.Stream(rng.Reward).Round(uint64(round)))
			if err != nil {
				t.Fatal(err)
			}
			v.SymRankOne(v, 1, mat.NewVecDense(d, a.X))
			floats.AddScaled(b[:], y, a.X)
			if err := e.Update(a, y, key.Stream(rng.Perturb).Round(uint64(round))); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// Who has what: a policy without members has no spectrum, uniform play has nothing but its actions,
// and on the ball there are no arms. A wrapper's members are those of its base.
func TestDiagnosticsAreWhereTheyExist(t *testing.T) {
	text := strings.Replace(recorded, "[[policy]]\nname = \"floor\"\nkind = \"mixed\"\nepsilon = 0.2\nbase = { kind = \"ensemble\", m = 5 }\n", "", 1)
	for _, c := range []struct {
		text string
		want map[string]string // the columns that are not empty, by group
	}{
		{onlyArms(), map[string]string{
			"arms|ensemble(m=2)": "AAAA.SSOCC", "arms|ensemble(m=7)": "AAAA.SSOCC", "arms|floor": "AAAA.SSOCC", "arms|atoms": "AAAA.SSOCC", "arms|growing": "AAAA.SSOCC",
			"arms|ts": "AAAA....CC", "arms|uniform": "AAAA......",
		}},
		{text, map[string]string{
			"ball|ensemble(m=2)": ".....SSOCC", "ball|atoms": ".....SSOCC", "ball|growing": ".....SSOCC", "ball|ts": "........CC", "ball|uniform": "",
		}},
	} {
		rows, err := csv.NewReader(bytes.NewReader(run(t, recordedExperiment(t, c.text), Options{}).Also)).ReadAll()
		if err != nil {
			t.Fatal(err)
		}
		got := make(map[string]string)
		for _, r := range rows[1:] {
			shape := ""
			for k, s := range r[4:] {
				if s == "" {
					shape += "."
				} else {
					shape += "AAAAASSOCC"[k : k+1]
				}
			}
			name := r[0] + "|" + r[1]
			if before, ok := got[name]; ok && before != shape {
				t.Errorf("%s has %s in one row and %s in another", name, before, shape)
			}
			got[name] = shape
		}
		for name, want := range c.want {
			if got[name] != want {
				t.Errorf("%s has %q, want %q", name, got[name], want)
			}
		}
	}
}

// Recording changes no result, and diagnostics.csv keeps the promise of results.csv: the same bytes
// for one worker and for eight, and after a kill at any byte of the journal.
func TestDiagnosticsKeepThePromise(t *testing.T) {
	x := recordedExperiment(t, onlyArms())
	plain := run(t, recordedExperiment(t, strings.Replace(onlyArms(), "record = ", "# ", 1)), Options{})
	if plain.Also != nil {
		t.Error("diagnostics that nobody asked for")
	}
	dir := filepath.Join(t.TempDir(), "out")
	whole := run(t, x, Options{Workers: 1, Dir: dir})
	if !bytes.Equal(plain.Results, whole.Results) {
		t.Error("recording changes results.csv")
	}
	if eight := run(t, x, Options{Workers: 8}); !bytes.Equal(eight.Also, whole.Also) || !bytes.Equal(eight.Results, whole.Results) {
		t.Error("eight workers give other bytes than one")
	}
	if !bytes.Equal(read(t, dir, DiagnosticsFile), whole.Also) {
		t.Error("the file differs from what is in memory")
	}
	m, err := ReadManifest(dir)
	if err != nil || m.Diagnostics != hash(whole.Also) || strings.Join(m.Record, " ") != "actions spectrum optimism coverage" {
		t.Errorf("manifest: record %v, hash %s, %v", m.Record, m.Diagnostics, err)
	}
	journal := read(t, dir, JournalFile)
	for _, cut := range []int{0, len(journal) / 3, len(journal)/2 + 7, len(journal) - 1} {
		if err := os.WriteFile(filepath.Join(dir, JournalFile), journal[:cut], 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(filepath.Join(dir, DiagnosticsFile)); err != nil {
			t.Fatal(err)
		}
		again := run(t, x, Options{Dir: dir})
		if !bytes.Equal(again.Also, whole.Also) || !bytes.Equal(read(t, dir, DiagnosticsFile), whole.Also) {
			t.Errorf("cut at byte %d of %d: the diagnostics differ after the run went on", cut, len(journal))
		}
	}
	// A complete run whose diagnostics were changed by hand gets its own back.
	if err := os.WriteFile(filepath.Join(dir, DiagnosticsFile), []byte("x\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if again := run(t, x, Options{Dir: dir}); again.Played != 0 || !bytes.Equal(read(t, dir, DiagnosticsFile), whole.Also) {
		t.Error("changed diagnostics stay changed")
	}
}

func TestRecordAndReferenceFaults(t *testing.T) {
	const rest = "[[environment]]\nkind='linear'\nd=2\nset={kind='ball'}\n[[policy]]\nkind='uniform'\n[[policy]]\nname='es'\nkind='ts'\nscale=[1.0, 2.0]\n"
	for _, c := range []struct{ head, want string }{
		{"record = ['spectra']", `x.toml:1:11: record[0] is "spectra"; did you mean "spectrum"?`},
		{"record = ['actions', 'actions']", `x.toml:1:22: record[1] is "actions" for the second time`},
		{"record = 'actions'", `x.toml:1:1: record is the string "actions", expected a list`},
		{"record = ['actions']", `x.toml:1:1: record is "actions", which nothing in this experiment has: it is for environments with finite action sets`},
		{"record = ['optimism']", `x.toml:1:1: record is "optimism", which nothing in this experiment has: it is for policies with members in environments with a θ*`},
		{"reference = 'es'", `x.toml:1:1: reference is "es", which is no policy of this experiment; expected one of es(scale=1), es(scale=2), uniform`},
	} {
		x, err := Parse("x.toml", c.head+"\nhorizon=10\nreplications=2\n"+rest, Kinds())
		if err == nil {
			_, err = Run(t.Context(), x, Options{})
		}
		if err == nil || err.Error() != c.want {
			t.Errorf("%s\n gives %v\n want  %s", c.head, err, c.want)
		}
	}
	x, err := Parse("x.toml", "reference = 'es(scale=2)'\nhorizon=10\nreplications=2\n"+rest, Kinds())
	if err != nil {
		t.Fatal(err)
	}
	if m := run(t, x, Options{}).Manifest; m.Reference != "es(scale=2)" || m.Record != nil {
		t.Errorf("manifest: reference %q, record %v", m.Reference, m.Record)
	}
}

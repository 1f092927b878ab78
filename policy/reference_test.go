package policy_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
)

var (
	references = []string{"coordinate", "pair", "signs", "gaussian", "sphere"}
	targets    = []string{"uniform", "gaussian", "rademacher", "sphere", "coordinate"}
)

// mixture returns ζ/√m of a reference law from the round's source, by the definitions in
// policy/reference.go: the model is θ̂ + r V⁻¹Σ_j (ζ_j/√m) S^j.
func mixture(name string, m int, src rng.Source) []float64 {
	z, root := make([]float64, m), math.Sqrt(float64(m))
	switch name {
	case "coordinate":
		z[src.Intn(0, m)] = src.Sign(1)
	case "pair":
		i, j := src.Intn(0, m), src.Intn(2, m-1)
		if j >= i {
			j++
		}
		z[i], z[j] = src.Sign(1)/math.Sqrt2, src.Sign(3)/math.Sqrt2
	case "signs":
		for j := range z {
			z[j] = src.Sign(j) / root
		}
	case "gaussian":
		for j := range z {
			z[j] = src.Normal(j) / root
		}
	case "sphere":
		src.Sphere(z, 0)
	}
	return z
}

// target returns U_t ∈ ℝ^m of a law of the targets.
func target(name string, m int, src rng.Source) []float64 {
	u := make([]float64, m)
	switch name {
	case "sphere":
		src.Sphere(u, 0)
		for j := range u {
			u[j] *= math.Sqrt(float64(m))
		}
	case "coordinate":
		u[src.Intn(0, m)] = math.Sqrt(float64(m)) * src.Sign(1)
	default:
		draw := map[string]func(uint32) float64{"uniform": rng.UniformWord, "gaussian": rng.NormalWord, "rademacher": rng.SignWord}[name]
		for j := range u {
			u[j] = draw(src.Word(uint32(j)))
		}
	}
	return u
}

// TestReferenceIsItsFormula replays 60 rounds of every cell of the grid reference × targets from V, b
// and S as sums: the parameter that the oracle is asked for agrees to 1e-9.
func TestReferenceIsItsFormula(t *testing.T) {
	const d, m, n, lambda, r = 3, 5, 60, 0.7, 0.9
	for _, ref := range references {
		for _, law := range targets {
			t.Run(ref+"/"+law, func(t *testing.T) {
				w := &listener{world: newWorld(31, d, 8)}
				e, err := policy.NewEnsemble(policy.EnsembleOptions{M: m, Lambda: lambda, Scale: policy.Constant(r), Init: "corrected",
					Targets: law, Reference: ref}, w.problem(0))
				if err != nil {
					t.Fatal(err)
				}
				s := e.Sums()
				state := newSums(d, lambda)
				var a bandit.Action
				for round := uint64(1); round <= n; round++ {
					draw := w.key.Stream(rng.Select).Round(round)
					if err := e.Select(&a, w, draw); err != nil {
						t.Fatal(err)
					}
					sum := make([]float64, d)
					for j, z := range mixture(ref, m, draw) {
						linalg.Axpy(z, s[j*d:j*d+d], sum)
					}
					b := state.b
					state.b = newSums(d, 1).b // V⁻¹ of another right-hand side
					for i, v := range sum {
						state.b.SetVec(i, v)
					}
					want := state.hat()
					for i := range want {
						want[i] *= r
					}
					state.b = b
					linalg.Axpy(1, state.hat(), want)
					for i := range want {
						if math.Abs(want[i]-w.theta[i]) > 1e-9 {
							t.Fatalf("round %d: θ = %v, want %v", round, w.theta, want)
						}
					}
					y := linalg.Dot(a.X, w.world.theta) + w.key.Stream(rng.Reward).Round(round).Normal(0)
					per := w.key.Stream(rng.Perturb).Round(round)
					if err := e.Update(a, y, per); err != nil {
						t.Fatal(err)
					}
					state.add(a.X, y)
					for j, u := range target(law, m, per) {
						linalg.Axpy(u, a.X, s[j*d:j*d+d])
					}
				}
				for i, v := range e.Sums() {
					if math.Abs(v-s[i]) > 1e-9 {
						t.Fatalf("S = %v, want %v", e.Sums(), s)
					}
				}
			})
		}
	}
}

// TestReferenceMoments: E ζζᵀ = I for every reference law and E UUᵀ = I for the joint targets, from
// n = 50 000 draws. The entries are in [−4, 4] but for the Gaussian law, so by Hoeffding an average is
// off by more than 8√(log(2/α)/(2n)) = 0.12 with probability at most α = 1e-9; for a Gaussian ζ_i² the
// inequality of Laurent and Massart gives 0.05. A law that is scaled by 1.1, or one that never draws
// a member, is caught.
func TestReferenceMoments(t *testing.T) {
	const m, n = 4, 50_000
	check := func(what string, scale float64, draw func(src rng.Source) []float64) {
		cov := make([]float64, m*m)
		for i := range uint64(n) {
			z := draw(rng.NewKey(7).Stream(rng.Select).Round(i))
			for i := range m {
				for j := range m {
					cov[i*m+j] += scale * z[i] * z[j] / n
				}
			}
		}
		for i := range m {
			for j := range m {
				want := 0.0
				if i == j {
					want = 1
				}
				if math.Abs(cov[i*m+j]-want) > 0.12 {
					t.Errorf("%s: E ζ_%d ζ_%d = %v, want %v", what, i, j, cov[i*m+j], want)
				}
			}
		}
	}
	for _, ref := range references {
		check("reference "+ref, m, func(src rng.Source) []float64 { return mixture(ref, m, src) })
	}
	for _, law := range []string{"sphere", "coordinate"} {
		check("targets "+law, 1, func(src rng.Source) []float64 { return target(law, m, src) })
	}
}

// TestReferenceCount: the law over a finite set is the count over all 2m(m−1) signed pairs, or over
// all 2^m sign vectors, each formed by the definition; it adds up to that total, and draws of Select
// match it (40 000, with TROUPE_LONG 10⁶ for pair and 10⁵ for signs): Hoeffding for each arm, 1e-9 over all.
func TestReferenceCount(t *testing.T) {
	const d, m = 4, 5
	for _, c := range []struct {
		ref   string
		total uint64
		draws int
	}{{"pair", 2 * m * (m - 1), sized(40_000, 1_000_000)}, {"signs", 1 << m, sized(40_000, 100_000)}} {
		w := newWorld(17, d, 25)
		e, err := policy.NewEnsemble(policy.EnsembleOptions{M: m, Lambda: 1, Reference: c.ref}, w.problem(0))
		if err != nil {
			t.Fatal(err)
		}
		w.play(t, e, 30, nil)
		var law bandit.Law
		if err := e.Prob(&law, w, rng.Source{}); err != nil {
			t.Fatal(err)
		}
		// Members by the public method, combined here.
		hat := e.Ridge().Theta()
		p := make([][]float64, m)
		for j := range p {
			p[j] = make([]float64, d)
			e.Model(p[j], j, 1)
			linalg.Axpy(-1, hat, p[j])
		}
		want := make([]uint64, len(w.arms))
		one := func(z []float64) {
			theta := slices.Clone(hat)
			for j, v := range z {
				linalg.Axpy(v, p[j], theta)
			}
			var a bandit.Action
			w.ArgMax(&a, theta)
			want[a.Index]++
		}
		if c.ref == "pair" {
			for i := range m {
				for j := range i {
					for k := range 4 {
						z := make([]float64, m)
						z[i], z[j] = float64(1-k&2)/math.Sqrt2, float64(1-k&1*2)/math.Sqrt2
						one(z)
					}
				}
			}
		} else {
			for bits := range 1 << m {
				z := make([]float64, m)
				for j := range z {
					z[j] = float64(1-2*(bits>>j&1)) / math.Sqrt(m)
				}
				one(z)
			}
		}
		var sum uint64
		for i, atom := range law.Atoms {
			sum += atom.Count
			if atom.Count != want[i] {
				t.Errorf("%s: arm %d has count %d, want %d", c.ref, i, atom.Count, want[i])
			}
		}
		if sum != c.total || law.Total != c.total {
			t.Errorf("%s: counts add up to %d of %d, want %d", c.ref, sum, law.Total, c.total)
		}
		seen := make([]float64, len(w.arms))
		var a bandit.Action
		sel := w.key.Child("draws").Stream(rng.Select)
		n := float64(c.draws)
		for i := range uint64(c.draws) {
			if err := e.Select(&a, w, sel.Round(i)); err != nil {
				t.Fatal(err)
			}
			seen[a.Index]++
		}
		limit := math.Sqrt(n * math.Log(4*float64(len(w.arms))/1e-9) / 2)
		for i, atom := range law.Atoms {
			if math.Abs(seen[i]-n*atom.P) > limit {
				t.Errorf("%s: arm %d drawn %v times of %v, probability %v", c.ref, i, seen[i], c.draws, atom.P)
			}
		}
	}
}

// TestReferenceRefusals: a law that is an integral is refused by its name where a propensity is
// asked, as is a count over more than 2¹⁶ models; options that do not go together are named.
func TestReferenceRefusals(t *testing.T) {
	w := newWorld(1, 3, 4)
	for _, c := range []struct {
		ref  string
		m    int
		want string
	}{{"gaussian", 4, `combine = "gaussian" is an integral`}, {"sphere", 4, `combine = "sphere" is an integral`}, {"signs", 17, "counted for m ≤ 16, and m is 17"}} {
		e, err := policy.NewEnsemble(policy.EnsembleOptions{M: c.m, Reference: c.ref}, w.problem(0))
		if err != nil {
			t.Fatal(err)
		}
		var law bandit.Law
		if err := e.Prob(&law, w, rng.Source{}); !errors.Is(err, bandit.ErrUnsupported) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.ref, err, c.want)
		}
	}
	for want, o := range map[string]policy.Options{
		`combine is "cube"; expected one of`:                 &policy.EnsembleOptions{Reference: "cube"},
		`combine is "guassian"; did you mean "gaussian"?`:    &policy.EnsembleOptions{Reference: "guassian"},
		`symmetric is false, but combine = "pair"`:           &policy.EnsembleOptions{Reference: "pair", OneSided: true},
		`select is "max", which maximises over single`:       &policy.EnsembleOptions{Reference: "signs", Select: "max"},
		"m is 1, expected at least 2 for combine = \"pair\"": &policy.EnsembleOptions{Reference: "pair", M: 1},
		`engine is "lazy", but targets = "sphere"`:           &policy.EnsembleOptions{Targets: "sphere", Engine: "lazy", OneSided: true},
		`targets is "coordinate", which needs kind`:          &policy.IncrementalOptions{Targets: "coordinate"},
		`targets is "coordinat"; did you mean "coordinate"?`: &policy.EnsembleOptions{Targets: "coordinat", OneSided: true},
	} {
		if _, err := o.New(w.problem(10)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: error %v, want %q", o, err, want)
		}
	}
}

// TestReferenceEngines: the engine does not change a number of a mixture.
func TestReferenceEngines(t *testing.T) {
	for _, ref := range []string{"pair", "gaussian"} {
		var first []int
		for _, engine := range []string{"auto", "eager", "blocked", "lazy"} {
			w := newWorld(23, 5, 30)
			e, err := policy.NewEnsemble(policy.EnsembleOptions{M: 20, Reference: ref, Engine: engine}, w.problem(0))
			if err != nil {
				t.Fatal(err)
			}
			var arms []int
			w.play(t, e, 200, func(_ int, a *bandit.Action, _ float64) { arms = append(arms, a.Index) })
			if first == nil {
				first = arms
			}
			if !slices.Equal(first, arms) {
				t.Errorf("%s: engine %s plays other arms than auto", ref, engine)
			}
		}
	}
}

func ExampleEnsemble_reference() {
	// Two signed members instead of one: 2m(m−1) equally likely models.
	w := newWorld(1, 2, 3)
	e, _ := policy.NewEnsemble(policy.EnsembleOptions{M: 8, Reference: "pair"}, w.problem(0))
	var law bandit.Law
	e.Prob(&law, w, rng.Source{})
	fmt.Println("models", law.Total)
	// Output: models 112
}

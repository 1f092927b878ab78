package policy_test

import (
	"math"
	"strings"
	"testing"

	"gonum.org/v1/gonum/mat"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// minimiser finds argmin Σ_i [log(1 + e^{⟨x_i, θ⟩}) − y_i⟨x_i, θ⟩] + λ/2‖θ‖² − ⟨w, θ⟩ from 0 by 200 steps of
// Newton's method with gonum, event by event, with half steps at first: the policies' members written down a
// second time.
func minimiser(log []event, lambda float64, w []float64) []float64 {
	d := len(w)
	theta := make([]float64, d)
	for step := range 200 {
		g, h := mat.NewVecDense(d, nil), mat.NewSymDense(d, nil)
		for i := range d {
			g.SetVec(i, w[i]-lambda*theta[i])
			h.SetSym(i, i, lambda)
		}
		for _, e := range log {
			z := 0.0
			for i, v := range e.x.X {
				z += v * theta[i]
			}
			p := 1 / (1 + math.Exp(-z))
			x := mat.NewVecDense(d, append([]float64(nil), e.x.X...))
			g.AddScaledVec(g, e.y-p, x)
			h.SymRankOne(h, p*(1-p), x)
		}
		var c mat.Cholesky
		var s mat.VecDense
		if !c.Factorize(h) || c.SolveVecTo(&s, g) != nil {
			panic("no step")
		}
		size := 1.0
		if step < 20 {
			size = 0.5
		}
		for i := range theta {
			theta[i] += size * s.AtVec(i)
		}
	}
	return theta
}

// TestPerturbedLikelihoods replays 40 rounds of EVILL and GLM-ES on six arms: the parameter that the oracle is
// asked for is the minimiser of the perturbed likelihood of the single events, found by gonum, with the
// perturbation of the definition; to 1e-6. GLM-ES also keeps Prob, a count of the models.
func TestPerturbedLikelihoods(t *testing.T) {
	const d, m, lambda, a = 3, 4, 0.7, 0.9
	for _, kind := range []string{"evill", "glm-es"} {
		w := newWorld(31, d, 6)
		prob := w.problem(0)
		var p bandit.Policy
		var err error
		if kind == "evill" {
			p, err = policy.NewEVILL(policy.EVILLOptions{A: a, Lambda: lambda}, prob)
		} else {
			p, err = policy.NewGLMES(policy.GLMESOptions{A: a, Lambda: lambda, M: m}, prob)
		}
		if err != nil {
			t.Fatal(err)
		}
		set := &listener{world: w}
		var log []event
		var order []int // arms in the order of their first event
		members := make([][]float64, m)
		for j := range members {
			members[j] = make([]float64, d)
			prob.Init.Round(uint64(j)).Normals(members[j], 0)
			for i := range members[j] {
				members[j][i] *= math.Sqrt(lambda)
			}
		}
		var x bandit.Action
		for round := range uint64(40) {
			hat := minimiser(log, lambda, make([]float64, d))
			slope := func(arm []float64) float64 {
				z := 0.0
				for i, v := range arm {
					z += v * hat[i]
				}
				p := 1 / (1 + math.Exp(-z))
				return p * (1 - p)
			}
			draw := w.key.Stream(rng.Select).Round(round)
			want := make([]float64, d)
			if kind == "evill" {
				draw.Normals(want, 0)
				for i := range want {
					want[i] *= a * math.Sqrt(lambda)
				}
				for k, arm := range order {
					n := 0.0
					for _, e := range log {
						if e.x.Index == arm {
							n++
						}
					}
					for i, v := range w.arms[arm] {
						want[i] += a * math.Sqrt(n*slope(w.arms[arm])) * draw.Normal(d+k) * v
					}
				}
			} else {
				for i, v := range members[draw.Intn(0, m)] {
					want[i] = a * draw.Sign(1) * v
				}
			}
			theta := minimiser(log, lambda, want)
			if err := p.Select(&x, set, draw); err != nil {
				t.Fatal(err)
			}
			for i := range theta {
				if math.Abs(theta[i]-set.theta[i]) > 1e-6 {
					t.Fatalf("%s, round %d: θ = %v, want %v", kind, round, set.theta, theta)
				}
			}
			y := float64(draw.Intn(7, 2))
			perturb := w.key.Stream(rng.Perturb).Round(round)
			for j := range members {
				for i, v := range x.X {
					members[j][i] += math.Sqrt(slope(x.X)) * perturb.Normal(j) * v
				}
			}
			if err := p.Update(x, y, perturb); err != nil {
				t.Fatal(err)
			}
			seen := false
			for _, arm := range order {
				seen = seen || arm == x.Index
			}
			if !seen {
				order = append(order, x.Index)
			}
			log = append(log, event{bandit.Action{X: append([]float64(nil), x.X...), Index: x.Index}, y})
		}
		if err := p.Update(x, 2, rng.Source{}); err == nil || !strings.Contains(err.Error(), "reward is 2") {
			t.Errorf("%s: reward 2: %v", kind, err)
		}
		prob.Low, prob.High = -1, 1
		if _, err := policy.NewEVILL(policy.EVILLOptions{}, prob); err == nil || !strings.Contains(err.Error(), "[-1, 1]") {
			t.Errorf("range [-1, 1]: %v", err)
		}
	}
}

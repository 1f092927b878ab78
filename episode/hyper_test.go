package episode

import (
	"math"
	"testing"

	"troupe/rng"
)

// TestHyperAgentIsItsFormula: the values of an agent that learned some visits are those of the formula of HyperAgentOptions, computed here from the
// counts and the random numbers, by backward induction.
func TestHyperAgentIsItsFormula(t *testing.T) {
	const m, sigma, prior = 5, 0.3, 2.0
	world, err := (&RandomOptions{States: 3, Actions: 2, Steps: 3, Noise: 0.2}).Problem(rng.NewKey(3))
	if err != nil {
		t.Fatal(err)
	}
	key := rng.NewKey(8)
	setting := SettingOf(world, key, 1)
	agent, err := (&HyperAgentOptions{M: m, Sigma: sigma, Prior: prior, Redraw: "episode"}).Agent(setting)
	if err != nil {
		t.Fatal(err)
	}
	z := world.Size()
	lambda := sigma * sigma / (prior * prior)
	vectors := map[int][]float64{}
	n, sum, next := map[int]float64{}, map[int]float64{}, map[int]map[int]float64{}
	unit := make([]float64, m)
	vector := func(c int) []float64 {
		if vectors[c] == nil {
			setting.Init.Round(uint64(c)).Sphere(unit, 0)
			for _, v := range unit {
				vectors[c] = append(vectors[c], lambda*prior*v)
			}
		}
		return vectors[c]
	}
	know := agent.(*tabular)
	explore(t, world, agent, key, 60)
	// The counts are the table's own, which TestExact holds; the vectors are summed anew from what learned was given.
	hyper := know.noise.(*hyper)
	for c := range know.n {
		n[c], sum[c], next[c] = know.n[c], know.sum[c], map[int]float64{}
		for _, f := range know.after[c] {
			next[c][int(f.next)] += f.n
		}
		// A perturbation of n visits has the squared length σ²n + (λ·prior)² on average; here its vector is taken as it is.
		if own := hyper.vector(c); know.n[c] > 0 {
			vectors[c] = append([]float64(nil), own...)
		}
	}
	draw := key.Stream(rng.Select).Round(900)
	agent.Begin(900, draw)
	index := make([]float64, m)
	draw.Normals(index, 0)
	v := make([]float64, z.States)
	for h := z.Steps - 1; h >= 0; h-- {
		now := make([]float64, z.States)
		for s := range z.States {
			best := math.Inf(-1)
			for a := range z.Actions {
				c := z.cell(h, s, a)
				if n[c] == 0 && !know.seen[h*z.States+s] {
					continue
				}
				q := sum[c]
				for to, k := range next[c] {
					q += k * v[to]
				}
				for k, x := range vector(c) {
					q += x * index[k]
				}
				q /= n[c] + lambda
				if math.Abs(q-know.q[c]) > 1e-9*(1+math.Abs(q)) {
					t.Errorf("Q_%d(%d, %d) is %v, expected %v", h, s, a, know.q[c], q)
				}
				best = max(best, q)
			}
			if !math.IsInf(best, -1) {
				now[s] = best
			}
		}
		v = now
	}
}

// TestHyperAgentVectors: after n visits the squared length of a cell's vector is σ²n + (λ·prior)² on average (400 cells, five standard errors), and
// two cells have a mean squared correlation of 1/M: with M members that is what separates them from noise of their own in each cell.
func TestHyperAgentVectors(t *testing.T) {
	const m, n, cells, sigma = 8, 12, 400, 0.5
	lambda := sigma * sigma
	setting := Setting{Size: Size{States: cells, Actions: 1, Steps: 1}, Init: rng.NewKey(4).Stream(rng.Init)}
	agent, err := (&HyperAgentOptions{M: m, Sigma: sigma, Prior: 1, Redraw: "episode"}).Agent(setting)
	if err != nil {
		t.Fatal(err)
	}
	e := agent.(*tabular).noise.(*hyper)
	var square, fourth, cosine float64
	last := []float64(nil)
	for c := range cells {
		e.saw(0, c)
		for k := range n {
			e.learned(c, rng.NewKey(uint64(c)).Stream(rng.Perturb).Round(uint64(k)))
		}
		own, norm := e.vector(c), 0.0
		for _, v := range own {
			norm += v * v
		}
		square, fourth = square+norm/cells, fourth+norm*norm/cells
		if last != nil {
			dot, other := 0.0, 0.0
			for k, v := range own {
				dot, other = dot+v*last[k], other+last[k]*last[k]
			}
			cosine += dot * dot / norm / other / (cells - 1)
		}
		last = append([]float64(nil), own...)
	}
	if want, se := sigma*sigma*n+lambda*lambda, math.Sqrt((fourth-square*square)/cells); math.Abs(square-want) > 5*se {
		t.Errorf("mean squared length %v ± %v, expected %v", square, se, want)
	}
	if math.Abs(cosine-1.0/m) > 5*1.2/m/math.Sqrt(cells) {
		t.Errorf("mean squared correlation %v, expected 1/M = %v", cosine, 1.0/m)
	}
}

// TestHyperAgentSolves: DeepSea by bsuite's rule, 20 seeds, M = 4 and 20; the index drawn in every step solves none or one (an ablation).
func TestHyperAgentSolves(t *testing.T) {
	for _, m := range []int{4, 20} {
		o := NewHyperAgent()
		o.M = m
		for _, b := range []struct{ size, limit, most int }{{10, 400, 110}, {20, 900, 400}} {
			n, median := summary(solves(t, sea(b.size), o, 20, b.limit))
			t.Logf("M = %d, N = %d: %d of 20, median %v", m, b.size, n, median)
			if n < 18 || median > float64(b.most) {
				t.Errorf("M = %d, N = %d: %d of 20, median %v, expected at least 18 and at most %d", m, b.size, n, median, b.most)
			}
		}
		o.Redraw = "step"
		if n, _ := summary(solves(t, sea(20), o, 6, 250)); n > 1 {
			t.Errorf("M = %d, redrawn in every step: %d of 6 solved", m, n)
		}
	}
}

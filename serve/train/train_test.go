package train

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/fold"
	"troupe/serve/model"
	"troupe/spec"
)

const dim = 5

func compiled(t *testing.T, raw spec.Raw) *model.Compiled {
	t.Helper()
	c := model.Default("m")
	c.Dim, c.Sigma = dim, 0.5
	if raw["kind"] == "sparse" {
		c.Sigma = 0
	}
	if err := c.Policy.DecodeSpec(raw, "policy"); err != nil {
		t.Fatal(err)
	}
	out, err := c.Admit(model.DefaultLimits)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// events are n events of a linear world.
func events(n int) []Event {
	draw := rng.NewKey(9).Stream(rng.Reward)
	out := make([]Event, n)
	for i := range out {
		r := draw.Round(uint64(i))
		x := make([]float64, dim)
		for k := range x {
			x[k] = (2*r.Float64(k) - 1) / math.Sqrt(dim)
		}
		out[i] = Event{X: x, Reward: x[0] - 0.5*x[1] + 0.1*(r.Float64(dim)-0.5), Given: true, Draw: rng.NewKey(3).Stream(rng.Perturb).Round(uint64(i))}
	}
	return out
}

func learn(t *testing.T, c *model.Compiled, o Options, all []Event) *fold.Saved {
	t.Helper()
	tr, err := New(c, rng.NewKey(7), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		if err := tr.Add(e); err != nil {
			t.Fatal(err)
		}
	}
	s, err := tr.Finish(fold.Memory{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func restored(t *testing.T, s *fold.Saved) model.Policy {
	t.Helper()
	p, err := s.Compiled.NewPolicy(s.Seed)
	if err == nil {
		err = p.Restore(s.Policy)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// regression returns θ̂ and log det V/λ^d of a policy that has them.
func regression(t *testing.T, p model.Policy) (theta []float64, logDet float64) {
	t.Helper()
	switch p := p.(type) {
	case interface{ Ridge() policy.Regression }:
		return p.Ridge().Theta(), p.Ridge().LogDetRatio()
	case *policy.Atoms:
		return p.Root().Theta(), p.Root().LogDetRatio()
	}
	t.Fatalf("a %T has no regression", p)
	return nil, 0
}

// TestTrain: null: the bytes depend on the number of workers, or the state is further than 1e-9 from one update after the other.
// 1000 events in blocks of 64, so that the tree has uneven branches.
func TestTrain(t *testing.T) {
	all := events(1000)
	for _, raw := range []spec.Raw{{"kind": "atoms"}, {"kind": "atoms", "key": "epoch"}, {"kind": "ensemble", "m": int64(8)}, {"kind": "auto"}, {"kind": "logistic"}, {"kind": "greedy"}} {
		t.Run(fmt.Sprint(raw["kind"]), func(t *testing.T) {
			c := compiled(t, raw)
			mine := all
			if raw["kind"] == "logistic" {
				mine = events(1000)
				for i := range mine {
					mine[i].Reward = math.Round(min(max(mine[i].Reward+0.5, 0), 1))
				}
			}
			one := learn(t, c, Options{block: 64}, mine)
			for _, workers := range []int{3, 8} {
				if s := learn(t, c, Options{block: 64, Workers: workers}, mine); !bytes.Equal(s.Policy, one.Policy) {
					t.Errorf("%d workers make other bytes than one", workers)
				}
			}
			direct, err := c.NewPolicy(rng.NewKey(7))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range mine {
				if err := direct.Update(bandit.Action{X: e.X, Index: bandit.NoIndex}, e.Reward, e.Draw); err != nil {
					t.Fatal(err)
				}
			}
			if _, ok := direct.(*policy.Atoms); !ok {
				b, err := direct.AppendSnapshot(nil)
				if err != nil || !bytes.Equal(b, one.Policy) {
					t.Errorf("learned in order, and other bytes than one update after the other: %v", err)
				}
				return
			}
			theta, logDet := regression(t, restored(t, one))
			wantTheta, wantLogDet := regression(t, direct)
			for k, v := range wantTheta {
				if d := math.Abs(theta[k] - v); d > 1e-9 {
					t.Errorf("θ[%d] is off by %g", k, d)
				}
			}
			if d := math.Abs(logDet - wantLogDet); d > 1e-9 {
				t.Errorf("log det V is off by %g", d)
			}
		})
	}
}

// TestCap: a cap of N keeps the estimate of a long log within what λ does, and V has the size of N events. Kinds whose state is no
// sum learn as many events, evenly spaced.
func TestCap(t *testing.T) {
	all := events(4000)
	for _, kind := range []string{"atoms", "ensemble", "ensemble-incremental"} {
		c := compiled(t, spec.Raw{"kind": kind, "m": int64(8)})
		theta, _ := regression(t, restored(t, learn(t, c, Options{}, all)))
		capped, size := regression(t, restored(t, learn(t, c, Options{Cap: 1000, Events: len(all)}, all)))
		_, want := regression(t, restored(t, learn(t, c, Options{}, all[:1000])))
		for k, v := range theta {
			if d := math.Abs(capped[k] - v); d > 0.03 {
				t.Errorf("%s: θ[%d] is %v with a cap, %v without", kind, k, capped[k], v)
			}
		}
		if d := math.Abs(size - want); d > 0.2 {
			t.Errorf("%s: log det V is %v with a cap of 1000, that of 1000 events %v", kind, size, want)
		}
	}
	for _, x := range []struct {
		raw  spec.Raw
		sums bool
	}{
		{spec.Raw{"kind": "auto"}, false}, {spec.Raw{"kind": "logistic"}, false}, {spec.Raw{"kind": "sparse"}, false},
		{spec.Raw{"kind": "squarecb"}, false}, {spec.Raw{"kind": "bag"}, false}, {spec.Raw{"kind": "atoms", "discount": 0.99}, false},
		{spec.Raw{"kind": "linucb", "discount": 0.9}, false}, {spec.Raw{"kind": "ids"}, true}, {spec.Raw{"kind": "ensemble-incremental"}, true},
		{spec.Raw{"kind": "linucb"}, true}, {spec.Raw{"kind": "lvr"}, true},
		{spec.Raw{"kind": "mixed", "epsilon": 0.1, "base": map[string]any{"kind": "atoms"}}, true},
		{spec.Raw{"kind": "mixed", "epsilon": 0.1, "base": map[string]any{"kind": "auto"}}, false},
	} {
		c, mine := compiled(t, x.raw), all[:700]
		if x.raw["kind"] == "logistic" {
			mine = slices.Clone(mine)
			for i := range mine {
				mine[i].Reward = float64(i % 2)
			}
		}
		tr, err := New(c, rng.NewKey(7), Options{Cap: 200, Events: len(mine)})
		if err != nil || tr.Thins() == x.sums {
			t.Errorf("%v with a cap: it leaves events out: %v, %v", x.raw, err == nil && tr.Thins(), err)
			continue
		}
		if x.sums {
			continue
		}
		var spaced []Event // one in each of 200 parts
		for i := range 200 {
			spaced = append(spaced, mine[(700*(i+1)-1)/200])
		}
		capped, want := learn(t, c, Options{Cap: 200, Events: len(mine)}, mine), learn(t, c, Options{}, spaced)
		if capped.Learned != 200 || !bytes.Equal(capped.Policy, want.Policy) {
			t.Errorf("%v: %d events were learned, and not those that are evenly spaced", x.raw, capped.Learned)
		}
		if whole := learn(t, c, Options{Cap: 700, Events: len(mine)}, mine); whole.Learned != 700 {
			t.Errorf("%v: a cap of all events leaves %d", x.raw, whole.Learned)
		}
	}
}

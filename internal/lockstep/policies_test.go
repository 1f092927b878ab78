package lockstep_test

import (
	"bytes"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/cpu"
	"troupe/internal/linalg"
	"troupe/internal/lockstep"
	"troupe/policy"
	"troupe/rng"
)

// replication is one with arms, a θ* and a key of its own.
type replication struct {
	set   *actionset.Finite
	theta []float64
	key   rng.Key
}

func newReplications(t testing.TB, seed uint64, n, d, arms int) (out []replication) {
	t.Helper()
	for l := range n {
		rep := replication{theta: make([]float64, d), key: rng.NewKey(seed + uint64(1000*l))}
		instance := rep.key.Stream(rng.Instance)
		instance.Round(0).Sphere(rep.theta, 0)
		var list [][]float64
		for i := range arms {
			x := make([]float64, d)
			instance.Round(uint64(i+1)).Sphere(x, 0)
			list = append(list, x)
		}
		var err error
		if rep.set, err = actionset.NewFinite(list); err != nil {
			t.Fatal(err)
		}
		out = append(out, rep)
	}
	return out
}

// ofAnySize puts policies side by side where it does not matter what pays.
func ofAnySize(of []bandit.Policy, sets []bandit.ActionSet, keys []rng.Key) *lockstep.Ensembles {
	return lockstep.NewEnsembles(of, sets, keys, func(int) bool { return true })
}

// checkBatch plays the same policies side by side and each alone, at one level: the same arms in every
// round, and after rounds that are drawn at random, and the last, the same bytes of a snapshot. Between
// them the policies sometimes go on alone for some rounds and are put side by side again.
func checkBatch(t *testing.T, seed uint64, n, d, arms, rounds int, o policy.EnsembleOptions) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 4))
	reps := newReplications(t, seed, n, d, arms)
	mk := func() (out []bandit.Policy) {
		for _, rep := range reps {
			e, err := policy.NewEnsemble(o, policy.Problem{Dim: d, Arms: arms, Horizon: rounds, Init: rep.key.Stream(rng.Init)})
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, e)
		}
		return out
	}
	alone, together := mk(), mk()
	var sets []bandit.ActionSet
	var keys []rng.Key
	for _, rep := range reps {
		sets, keys = append(sets, rep.set), append(keys, rep.key)
	}
	batch := ofAnySize(together, sets, keys)
	if batch == nil {
		t.Fatalf("%+v cannot be put side by side", o)
	}
	pay := func(l, arm int, round uint64) float64 {
		return linalg.Dot(reps[l].set.At(arm), reps[l].theta) + keys[l].Stream(rng.Reward).Round(round).Normal(0)
	}
	single := func(p bandit.Policy, l int, round uint64) (arm int, err error) {
		var a bandit.Action
		if err := p.Select(&a, sets[l], keys[l].Stream(rng.Select).Round(round)); err != nil {
			return 0, err
		}
		return a.Index, p.Update(a, pay(l, a.Index, round), keys[l].Stream(rng.Perturb).Round(round))
	}
	var chosen [8]int
	var y [8]float64
	for round := uint64(1); round <= uint64(rounds); round++ {
		if !batch.Select(&chosen, round) {
			t.Fatalf("round %d: the choice is refused", round)
		}
		if again := chosen; r.IntN(10) == 0 { // Select reads
			if !batch.Select(&chosen, round) || chosen != again {
				t.Fatalf("round %d: arms %v, and asked again %v", round, again, chosen)
			}
		}
		for l := range y {
			k := l
			if l >= n {
				k = 0
				if chosen[l] != chosen[0] {
					t.Fatalf("lane %d does not copy lane 0", l)
				}
			}
			y[l] = pay(k, chosen[l], round)
		}
		for l, p := range alone {
			arm, err := single(p, l, round)
			if err != nil {
				t.Fatal(err)
			}
			if arm != chosen[l] {
				t.Fatalf("%d lanes, d=%d K=%d, %+v: lane %d plays arm %d in round %d, alone %d", n, d, arms, o, l, chosen[l], round, arm)
			}
		}
		if r.IntN(40) == 0 { // what cannot be learned changes nothing
			bad := y
			bad[r.IntN(n)] = math.Inf(1)
			if batch.Update(&chosen, &bad, round) {
				t.Fatal("an infinite reward is learned")
			}
		}
		if !batch.Update(&chosen, &y, round) {
			t.Fatalf("round %d: the update is refused", round)
		}
		last := round == uint64(rounds)
		if !last && r.IntN(30) != 0 {
			continue
		}
		batch.Part()
		for l := range alone {
			a, err := alone[l].(bandit.Snapshotter).AppendSnapshot(nil)
			if err != nil {
				t.Fatal(err)
			}
			b, err := together[l].(bandit.Snapshotter).AppendSnapshot(nil)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(a, b) {
				t.Fatalf("%d lanes, d=%d K=%d, %+v: the state of lane %d differs after round %d", n, d, arms, o, l, round)
			}
		}
		if last || r.IntN(2) == 0 {
			continue
		}
		for range 1 + r.IntN(6) {
			if round++; round > uint64(rounds) {
				return
			}
			for l := range alone {
				a, errA := single(alone[l], l, round)
				b, errB := single(together[l], l, round)
				if a != b || errA != nil || errB != nil {
					t.Fatalf("round %d: alone again, arm %d and %d, errors %v, %v", round, a, b, errA, errB)
				}
			}
		}
		batch = ofAnySize(together, sets, keys)
	}
}

var batchOptions = []policy.EnsembleOptions{
	{M: 20, OneSided: true},
	{M: 7, Lambda: 5, Init: "corrected"},
	{M: 6, Targets: "gaussian", Scale: policy.Constant(0.7), Init: "prior", OneSided: true},
	{M: 5, Targets: "rademacher", Scale: policy.Scale{Kind: "beta", Value: 0.3}},
	{M: 1, Scale: policy.Scale{Kind: "betatilde", Value: 1}, Init: "none", OneSided: true},
	{M: 3, Lambda: 1e-9, Init: "printed", Engine: "eager", OneSided: true},
}

// TestEnsembles: lock-step gives the numbers of one policy at a time, for every option that it takes, at every
// level of kernels, with one to eight replications.
func TestEnsembles(t *testing.T) {
	for level := cpu.Portable; level <= cpu.Best(); level++ {
		t.Run(level.String(), func(t *testing.T) {
			defer cpu.Force(level)()
			for i, o := range batchOptions {
				for _, n := range []int{8, 1 + i} {
					checkBatch(t, uint64(10*i+n), n, 3+i*3, 4+5*i, 300, o)
				}
			}
			checkBatch(t, 99, 8, 1, 1, 50, policy.EnsembleOptions{M: 2})
		})
	}
}

func FuzzEnsembles(f *testing.F) {
	f.Add(uint64(1), uint8(8), uint8(10), uint8(10), uint8(0))
	f.Add(uint64(2), uint8(3), uint8(17), uint8(30), uint8(3))
	f.Fuzz(func(t *testing.T, seed uint64, n, d, arms, o uint8) {
		opts := batchOptions[int(o)%len(batchOptions)]
		opts.M = 1 + int(seed%40)
		checkBatch(t, seed, 1+int(n)%8, 1+int(d)%24, 1+int(arms)%40, 120, opts)
	})
}

// TestEnsemblesRefuses: what lock-step cannot do is played alone.
func TestEnsemblesRefuses(t *testing.T) {
	reps := newReplications(t, 3, 2, 4, 5)
	problem := policy.Problem{Dim: 4, Arms: 5, Horizon: 100}
	try := func(sets []bandit.ActionSet, opts ...policy.EnsembleOptions) *lockstep.Ensembles {
		var of []bandit.Policy
		for _, o := range opts {
			e, err := policy.NewEnsemble(o, problem)
			if err != nil {
				t.Fatal(err)
			}
			of = append(of, e)
		}
		return ofAnySize(of, sets, []rng.Key{reps[0].key, reps[1].key}[:len(of)])
	}
	sets := []bandit.ActionSet{reps[0].set, reps[1].set}
	good := policy.EnsembleOptions{M: 5, OneSided: true}
	if try(sets, good, good) == nil {
		t.Fatal("two equal ensembles cannot be put side by side")
	}
	for name, o := range map[string]policy.EnsembleOptions{
		"max": {M: 5, Select: "max"}, "exact-law": {M: 5, Targets: "gaussian", Engine: "exact-law"}, "blocked": {M: 5, Engine: "blocked"},
		"lazy": {M: 5, Engine: "lazy"}, "pair": {M: 5, Reference: "pair"}, "joint targets": {M: 5, Targets: "sphere"},
	} {
		if try(sets, o, o) != nil {
			t.Errorf("%s: put side by side", name)
		}
	}
	ball, err := actionset.NewBall(4)
	if err != nil {
		t.Fatal(err)
	}
	other := newReplications(t, 3, 1, 4, 6)[0].set
	for name, sets := range map[string][]bandit.ActionSet{"ball": {reps[0].set, ball}, "lengths": {reps[0].set, other}} {
		if try(sets, good, good) != nil {
			t.Errorf("%s: put side by side", name)
		}
	}
	if try(sets, good, policy.EnsembleOptions{M: 6, OneSided: true}) != nil || try(sets, good, policy.EnsembleOptions{M: 5, Lambda: 2, OneSided: true}) != nil {
		t.Error("ensembles of different options are put side by side")
	}
	keys := []rng.Key{reps[0].key}
	greedy, err := policy.NewGreedy(policy.GreedyOptions{}, problem)
	if err != nil {
		t.Fatal(err)
	}
	if ofAnySize([]bandit.Policy{greedy}, sets[:1], keys) != nil {
		t.Error("greedy is put side by side")
	}

	// A model beyond all bounds is refused by Select, as it is alone.
	big, err := policy.NewEnsemble(policy.EnsembleOptions{M: 5, OneSided: true}, problem)
	if err != nil {
		t.Fatal(err)
	}
	batch := ofAnySize([]bandit.Policy{big}, sets[:1], keys)
	var arms [8]int
	y := [8]float64{1e200, 1e200, 1e200, 1e200, 1e200, 1e200, 1e200, 1e200}
	if !batch.Select(&arms, 1) || !batch.Update(&arms, &y, 1) || batch.Select(&arms, 2) {
		t.Error("a model of 1e200 is used")
	}
	batch.Part()
	var a bandit.Action
	if err := big.Select(&a, sets[0], keys[0].Stream(rng.Select).Round(2)); err == nil {
		t.Error("the same alone is no error")
	}
}

// TestEnsemblesAllocatesNothing in a steady round.
func TestEnsemblesAllocatesNothing(t *testing.T) {
	reps := newReplications(t, 5, 8, 10, 10)
	var of []bandit.Policy
	var sets []bandit.ActionSet
	var keys []rng.Key
	for _, rep := range reps {
		e, err := policy.NewEnsemble(policy.EnsembleOptions{M: 20, Scale: policy.Scale{Kind: "beta", Value: 1}, Targets: "gaussian"}, policy.Problem{Dim: 10, Arms: 10})
		if err != nil {
			t.Fatal(err)
		}
		of, sets, keys = append(of, e), append(sets, rep.set), append(keys, rep.key)
	}
	batch := ofAnySize(of, sets, keys)
	var arms [8]int
	var y [8]float64
	round := uint64(0)
	if n := testing.AllocsPerRun(600, func() {
		round++
		if !batch.Select(&arms, round) || !batch.Update(&arms, &y, round) {
			t.Fatal("refused")
		}
	}); n != 0 {
		t.Errorf("%v allocations in a round", n)
	}
}

// TestEnsemblesSizes: the rule of sizes is on with vectors and off without, and ends.
func TestEnsemblesSizes(t *testing.T) {
	for level := cpu.Portable; level <= cpu.Best(); level++ {
		func() {
			defer cpu.Force(level)()
			for _, c := range []struct {
				d, arms, m int
				pays       bool
			}{{10, 10, 20, level >= cpu.AVX2}, {20, 100, 100, level == cpu.AVX512}, {100, 10, 40, false}} {
				rep := newReplications(t, 5, 1, c.d, c.arms)[0]
				e, err := policy.NewEnsemble(policy.EnsembleOptions{M: c.m, OneSided: true}, policy.Problem{Dim: c.d})
				if err != nil {
					t.Fatal(err)
				}
				if got := lockstep.NewEnsembles([]bandit.Policy{e}, []bandit.ActionSet{rep.set}, []rng.Key{rep.key}, linalg.BatchesPay) != nil; got != c.pays {
					t.Errorf("%v: d=%d K=%d m=%d in lock-step: %v", level, c.d, c.arms, c.m, got)
				}
			}
		}()
	}
}

// TestMemory is TestMemory of package policy for eight replications in lock-step, their ensembles included.
func TestMemory(t *testing.T) {
	for _, c := range []struct{ d, arms, m int }{{10, 10, 20}, {10, 50, 400}, {40, 20, 80}} {
		var sets []bandit.ActionSet
		var policies []bandit.Policy
		var keys []rng.Key
		for l := range 8 {
			rep := newReplications(t, uint64(l), 1, c.d, c.arms)[0]
			sets, keys = append(sets, rep.set), append(keys, rep.key)
		}
		before := heap()
		for l := range sets {
			e, err := policy.NewEnsemble(policy.EnsembleOptions{M: c.m, Engine: "eager"}, policy.Problem{Dim: c.d, Arms: c.arms, Horizon: 1000, Sigma: 1, Init: keys[l].Stream(rng.Init)})
			if err != nil {
				t.Fatal(err)
			}
			policies = append(policies, e)
		}
		o := lockstep.NewEnsembles(policies, sets, keys, linalg.BatchesPay)
		if o == nil {
			t.Logf("d = %d, K = %d, m = %d: not played side by side with these kernels", c.d, c.arms, c.m)
			continue
		}
		var arms [8]int
		var y [8]float64
		for round := range uint64(600) {
			o.Select(&arms, round+1)
			o.Update(&arms, &y, round+1)
		}
		bytes := heap() - before
		runtime.KeepAlive(o)
		runtime.KeepAlive(sets)
		runtime.KeepAlive(policies)
		up := func(n, k int) int { return (n + k - 1) / k * k }
		alone := c.d*up(c.d, 8) + up(c.d, 16)*c.d + up(c.m, 16)*c.d + 1280
		numbers := 8 * (alone + c.arms*c.d + c.m*c.d + 2*c.d*c.d + 4*c.m + 32*c.d)
		t.Logf("d = %d, K = %d, m = %d: %.3f MB, formula %.3f", c.d, c.arms, c.m, float64(bytes)/1e6, 8e-6*float64(numbers))
		if bytes > 8*numbers || float64(bytes) < 0.9*float64(8*numbers)-8*65_536 {
			t.Errorf("d = %d, K = %d, m = %d: %d bytes, the formula says %d", c.d, c.arms, c.m, bytes, 8*numbers)
		}
	}
}

// heap returns the bytes in use after a collection.
func heap() int {
	runtime.GC()
	runtime.GC() // what finalizers held
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int(s.HeapAlloc)
}

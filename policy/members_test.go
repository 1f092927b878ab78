package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"troupe/bandit"
	"troupe/internal/cpu"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
)

var engines = []string{"eager", "blocked", "lazy", "auto"}

// script is what happens to a policy in a test of the engines: rounds in order, or jumps in time,
// streams that change, propensities and snapshots in between.
type script struct {
	name    string
	d, m, n int
	arms    int // 0: the ball
	targets string
	jumps   bool // rounds and streams that are not consecutive
	pauses  bool // Prob, Sums and snapshots in between
	anytime bool // the policy does not know the horizon
}

// perform plays the script with the engines in turn: at each snapshot the next one takes over. It
// returns the actions of all rounds and the sums at the end.
func (s script) perform(t *testing.T, order []string) (trace, sums []float64) {
	t.Helper()
	w := newWorld(21, s.d, s.arms)
	horizon := s.n
	if s.anytime {
		horizon = 0
	}
	build := func(engine string) *policy.Ensemble {
		e, err := policy.NewEnsemble(policy.EnsembleOptions{
			M: s.m, Targets: s.targets, Engine: engine,
		}, w.problem(horizon))
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	e := build(order[0])
	r := rand.New(rand.NewPCG(uint64(s.n), 5))
	var a, again bandit.Action
	var law bandit.Law
	key, round := w.key, uint64(0)
	for i := range s.n {
		round++
		if s.jumps {
			switch r.IntN(40) {
			case 0:
				round = r.Uint64()
			case 1:
				key = w.key.At(r.Uint64N(3))
			case 2:
				round += r.Uint64N(7)
			}
		}
		draw := key.Stream(rng.Select).Round(round)
		if err := e.Select(&a, w.set(), draw); err != nil {
			t.Fatal(err)
		}
		trace = append(trace, a.X...)
		if s.pauses {
			switch r.IntN(60) {
			case 0:
				if err := e.Prob(&law, w.set(), rng.Source{}); err != nil {
					t.Fatal(err)
				}
				for _, atom := range law.Atoms {
					trace = append(trace, float64(atom.Count))
				}
			case 1:
				sums := e.Sums()
				trace = append(trace, sums[r.IntN(len(sums))])
			case 2:
				b, err := e.AppendSnapshot(nil)
				if err != nil {
					t.Fatal(err)
				}
				e = build(order[i%len(order)])
				if err := e.Restore(b); err != nil {
					t.Fatal(err)
				}
			case 3:
				if err := e.Select(&again, w.set(), key.Stream(rng.Select).Round(round+1000)); err != nil {
					t.Fatal(err)
				}
				trace = append(trace, again.X...)
			}
		}
		if err := e.Select(&again, w.set(), draw); err != nil {
			t.Fatal(err)
		}
		sameNumbers(t, fmt.Sprintf("%s: round %d, the same Select twice", s.name, i), again.X, a.X)
		y := linalg.Dot(a.X, w.theta) + w.key.Stream(rng.Reward).Round(uint64(i)).Normal(0)
		if err := e.Update(a, y, key.Stream(rng.Perturb).Round(round)); err != nil {
			t.Fatal(err)
		}
	}
	return trace, e.Sums()
}

func sameNumbers(t *testing.T, what string, got, want []float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
			t.Fatalf("%s: number %d is %v, want %v", what, i, got[i], want[i])
		}
	}
}

// levels are the lowest and the highest level of kernels, with TROUPE_LONG those between, too.
func levels() (out []cpu.Level) {
	for l := cpu.Portable; l <= cpu.Best(); l++ {
		if sized(0, 1) > 0 || l == cpu.Portable || l == cpu.Best() {
			out = append(out, l)
		}
	}
	return out
}

// TestEnginesAgree: the engines, alone and taking over from each other at snapshots, choose the same
// actions and end with the same S, bit for bit, at the levels of kernels. Ensembles have m ≥ d.
func TestEnginesAgree(t *testing.T) {
	for _, s := range []script{
		{name: "ball", d: 3, m: 20, n: 300},
		{name: "ball, m no multiple of 16", d: 10, m: 21, n: 300},
		{name: "ball, more members than rounds", d: 5, m: 900, n: 500},
		{name: "arms", d: 13, m: 33, n: 200, arms: 17},
		{name: "rademacher", d: 4, m: 16, n: 200, targets: "rademacher"},
		{name: "gaussian", d: 4, m: 16, n: 130, targets: "gaussian"},
		{name: "jumps", d: 4, m: 40, n: 400, jumps: true},
		{name: "pauses", d: 4, m: 100, n: 600, arms: 6, pauses: true},
		{name: "jumps and pauses", d: 6, m: 60, n: 600, jumps: true, pauses: true},
		{name: "above the size where auto is eager", d: 10, m: 500, n: 600, pauses: true},
		{name: "auto is blocked", d: 42, m: 100, n: 450},
		{name: "auto turns from lazy to blocked", d: 12, m: 352, n: 1500, anytime: true},
		{name: "auto turns early on a stream with jumps", d: 12, m: 352, n: 1000, anytime: true, jumps: true},
	} {
		t.Run(s.name, func(t *testing.T) {
			restore := cpu.Force(cpu.Portable)
			trace, sums := s.perform(t, []string{"eager"})
			restore()
			for _, l := range levels() {
				restore := cpu.Force(l)
				for _, order := range [][]string{{"eager"}, {"blocked"}, {"lazy"}, {"auto"}, engines} {
					got, s := s.perform(t, order)
					what := fmt.Sprint(l, " ", order)
					sameNumbers(t, what+": actions", got, trace)
					sameNumbers(t, what+": sums", s, sums)
				}
				restore()
			}
		})
	}
}

// TestLazyMemory: lazy that may keep few steps brings all rows up to date now and then.
func TestLazyMemory(t *testing.T) {
	s := script{name: "memory", d: 5, m: 100, n: 500}
	trace, sums := s.perform(t, []string{"lazy"})
	for _, limit := range []int{0, 400, 1234} {
		undo := policy.LimitLazySteps(limit)
		got, gotSums := s.perform(t, []string{"lazy"})
		undo()
		sameNumbers(t, fmt.Sprint("limit ", limit), got, trace)
		sameNumbers(t, fmt.Sprint("limit ", limit), gotSums, sums)
	}
}

// TestSums: S is what the formula says, each number a chain of fused multiply-adds over time, with
// the targets of random access.
func TestSums(t *testing.T) {
	const d, m, n = 4, 19, 150
	for _, engine := range engines {
		w := newWorld(4, d, 0)
		e, err := policy.NewEnsemble(policy.EnsembleOptions{M: m, Engine: engine}, w.problem(n))
		if err != nil {
			t.Fatal(err)
		}
		want := e.Sums()
		w.play(t, e, n, func(round int, a *bandit.Action, _ float64) {
			u := w.key.Stream(rng.Perturb).Round(uint64(round))
			for j := range m {
				for i, x := range a.X {
					want[j*d+i] = math.FMA(rng.UniformWord(u.Word(uint32(j))), x, want[j*d+i])
				}
			}
		})
		sameNumbers(t, engine, e.Sums(), want)
	}
}

// BenchmarkEngines plays the configurations of the numpy comparator with each engine that suits them.
func BenchmarkEngines(b *testing.B) {
	for _, c := range []struct {
		name       string
		d, arms, m int
		horizon    int
		engines    []string
	}{
		{"A", 10, 10, 20, 10_000, []string{"eager", "blocked"}},
		{"B", 20, 100, 100, 10_000, []string{"eager", "blocked"}},
		{"C", 50, 1000, 200, 10_000, []string{"eager", "blocked"}},
		{"D", 100, 100, 1000, 10_000, []string{"eager", "blocked"}},
		{"E", 10, 0, 40_000, 10_000, []string{"blocked", "lazy"}},
		{"E2", 10, 0, 40_000, 100_000, []string{"blocked", "lazy"}},
		{"G", 100, 0, 20_000, 10_000, []string{"blocked", "lazy"}},
	} {
		for _, engine := range c.engines {
			b.Run(c.name+"/"+engine, func(b *testing.B) {
				w := newWorld(1, c.d, c.arms)
				b.ReportAllocs()
				b.ResetTimer()
				for range b.N { // one op is one replication
					e, err := policy.NewEnsemble(policy.EnsembleOptions{M: c.m, Engine: engine}, w.problem(c.horizon))
					if err != nil {
						b.Fatal(err)
					}
					w.play(b, e, c.horizon, nil)
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(c.horizon), "ns/round")
			})
		}
	}
}

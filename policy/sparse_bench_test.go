package policy_test

import (
	"syscall"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// benchSets returns sets of 10 actions with 137 nonzeros each, as pendigits in bins with all pairs has:
// 1370 coordinates of 2^18.
func benchSets(b testing.TB, n int) []*actionset.Sparse {
	sets := make([]*actionset.Sparse, n)
	for s := range sets {
		draw := rng.NewKey(3).Stream(rng.Offer).Round(uint64(s))
		from, at, x := []int{0}, []uint32{}, []float64{}
		for a := range 10 {
			for k := range 137 {
				level := draw.Intn(k, 10) // shared by the actions
				h := uint32((a*137+k)*10+level) * 0x9e3779b1
				at = append(at, h>>(32-18))
				x = append(x, 0.0854357657716761)
			}
			from = append(from, len(at))
		}
		var err error
		if sets[s], err = actionset.SparseOf(1<<18, from, at, x); err != nil {
			b.Fatal(err)
		}
	}
	return sets
}

// processor returns the processor time of the process in nanoseconds.
func processor() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return float64(u.Utime.Nano() + u.Stime.Nano())
}

// measure runs f and reports processor time, which other programs on the machine change less than the
// time of the clock.
func measure(b *testing.B, f func()) {
	b.ReportAllocs()
	from, n := processor(), 0
	for b.Loop() {
		f()
		n++
	}
	b.ReportMetric((processor()-from)/float64(n), "cpu-ns/op")
}

// BenchmarkSparse: a decision of one member, the whole law with m = 16, and an update, on 1370 nonzeros.
func BenchmarkSparse(b *testing.B) {
	sets := benchSets(b, 256)
	p, err := policy.NewSparse(policy.SparseOptions{}, policy.Problem{Dim: 1 << 18, Init: rng.NewKey(1).Stream(rng.Init)})
	if err != nil {
		b.Fatal(err)
	}
	draws := rng.NewKey(2).Stream(rng.Select)
	var a bandit.Action
	var law bandit.Law
	t := 0
	learn := func(b *testing.B, i int) {
		at, x := sets[t%256].Nonzeros(i)
		if err := p.Update(bandit.Action{X: x, At: at, Index: i}, float64(t%10/9), rng.Source{}); err != nil {
			b.Fatal(err)
		}
		t++
	}
	for i := range 20_000 {
		at, x := sets[i%256].Nonzeros(i % 10)
		if err := p.Update(bandit.Action{X: x, At: at}, float64(i%10/9), rng.Source{}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("select", func(b *testing.B) {
		measure(b, func() {
			t++
			if err := p.Select(&a, sets[t%256], draws.Round(uint64(t))); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("law", func(b *testing.B) {
		measure(b, func() {
			t++
			if err := p.Prob(&law, sets[t%256], draws.Round(uint64(t))); err != nil {
				b.Fatal(err)
			}
		})
	})
	b.Run("update", func(b *testing.B) {
		measure(b, func() {
			learn(b, t%10)
		})
	})
}

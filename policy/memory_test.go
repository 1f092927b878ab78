package policy_test

import (
	"fmt"
	"runtime"
	"testing"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// TestMemory holds the formulas of docs/reference/performance.md against the heap: an ensemble that has played is
// no larger than they say, and no smaller than nine tenths of it, so that they say something. With -v it
// prints the table of the page.
func TestMemory(t *testing.T) {
	up := func(n, k int) int { return (n + k - 1) / k * k }
	// Numbers of 8 bytes.
	regression := func(d int) int { return d*up(d, 8) + up(d, 16)*d + 64*d + 2*d*d }
	// The exact law keeps 128 members in a page, which the allocator rounds up to 8 KiB.
	pages := func(d, drawn int) int { return up(drawn, 128) / 128 * up(128*d*(d+3)/2, 1024) }
	const scratch = 8192 // what the runtime allocates beside it included
	for _, c := range []struct {
		engine  string
		d, m, n int
		arms    int
		prob    bool
		extra   func(d, m, n, drawn int) int // beyond regression, scratch and, but for exact-law, m̄·d
	}{
		{engine: "eager", d: 10, m: 20, n: 2000, arms: 10},
		{engine: "eager", d: 20, m: 100, n: 2000, arms: 100},
		{engine: "eager", d: 20, m: 10_000, n: 100, extra: func(_, m, _, _ int) int { return 4 * up(m, 16) }},
		{engine: "blocked", d: 50, m: 200, n: 2000, arms: 1000, extra: func(d, _, _, _ int) int { return 64 * d }},
		{engine: "blocked", d: 100, m: 1000, n: 2000, arms: 100, extra: func(d, _, _, _ int) int { return 64 * d }},
		{engine: "blocked", d: 100, m: 1000, n: 2000, arms: 100, prob: true,
			extra: func(d, m, _, _ int) int { return 64*d + 27*100*up(m, 16)/16 + 2*100*d + 41*100 + 36*up(m, 16) }},
		{engine: "lazy", d: 10, m: 40_000, n: 10_000, extra: func(d, m, n, _ int) int { return n*d + m + 16*16*d + 2048 }},
		{engine: "lazy", d: 100, m: 2000, n: 4000, extra: func(d, m, n, _ int) int { return n*d + m + 16*16*d + 2048 }},
		{engine: "exact-law", d: 10, m: 40_000, n: 10_000, extra: func(d, m, _, drawn int) int { return pages(d, drawn) + m + 2*drawn }},
		{engine: "exact-law", d: 50, m: 1000, n: 500, extra: func(d, m, _, drawn int) int { return pages(d, drawn) + m + 2*drawn }},
	} {
		name := fmt.Sprintf("%s, d = %d, m = %d, T = %d, K = %d, prob %v", c.engine, c.d, c.m, c.n, c.arms, c.prob)
		w := newWorld(3, c.d, c.arms)
		o := policy.EnsembleOptions{M: c.m, Engine: c.engine}
		if c.engine == "exact-law" {
			o.Targets = "gaussian"
		}
		drawn := make(map[int]bool)
		before := heap()
		e, err := policy.NewEnsemble(o, w.problem(c.n))
		if err != nil {
			t.Fatal(err)
		}
		var law bandit.Law
		w.play(t, e, c.n, func(round int, _ *bandit.Action, _ float64) {
			drawn[w.key.Stream(rng.Select).Round(uint64(round)).Intn(0, c.m)] = true
			if c.prob && round%100 == 0 {
				if err := e.Prob(&law, w.set(), rng.Source{}); err != nil {
					t.Fatal(err)
				}
			}
		})
		n := len(drawn)
		drawn = nil
		law = bandit.Law{}
		bytes := heap() - before
		runtime.KeepAlive(e)
		runtime.KeepAlive(w)
		numbers := regression(c.d) + scratch
		if c.engine != "exact-law" {
			numbers += up(c.m, 16) * c.d
		}
		if c.extra != nil {
			numbers += c.extra(c.d, c.m, c.n, n)
		}
		t.Logf("%s: %.3f MB, formula %.3f", name, float64(bytes)/1e6, 8e-6*float64(numbers))
		if bytes > 8*numbers || float64(bytes) < 0.9*float64(8*numbers)-65_536 {
			t.Errorf("%s: %d bytes, the formula says %d", name, bytes, 8*numbers)
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

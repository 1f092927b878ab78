package policy_test

import (
	"fmt"
	"testing"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// BenchmarkAtoms measures the parts of a round where the goals are stated (d = 26, K = 3, m = 8:
// Select and Update 2 µs each, nothing allocated), and at larger sizes.
func BenchmarkAtoms(b *testing.B) {
	for _, c := range []struct{ d, arms, m int }{{26, 3, 8}, {26, 3, 64}, {50, 1000, 8}} {
		for _, kind := range []string{"decision", "epoch", "round", "lazy"} {
			w := newWorld(1, c.d, c.arms)
			var o policy.Options = &policy.AtomsOptions{M: c.m, Key: kind}
			if kind == "lazy" {
				o = &policy.LazyOptions{M: c.m}
			}
			p, err := o.New(w.problem(0))
			if err != nil {
				b.Fatal(err)
			}
			w.play(b, p, 1000, nil)
			name := fmt.Sprintf("d=%d,K=%d,m=%d/%s/", c.d, c.arms, c.m, kind)
			var a bandit.Action
			var law bandit.Law
			sel := w.key.Stream(rng.Select)
			t := uint64(0)
			b.Run(name+"Select", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					t++
					if err := p.Select(&a, w, sel.Round(t)); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(name+"Prob", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := p.(bandit.Prober).Prob(&law, w, sel.Round(t)); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.Run(name+"Update", func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if err := p.Update(a, 0.1, sel.Round(t)); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

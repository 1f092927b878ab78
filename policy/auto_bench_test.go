package policy_test

import (
	"testing"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// BenchmarkAuto measures the parts of a round beside those of atoms, which has the same m: update at most
// 1.5 times theirs, nothing allocated between choices of λ.
func BenchmarkAuto(b *testing.B) {
	const d, arms, m = 26, 3, 32
	for name, o := range map[string]policy.Options{
		"atoms": &policy.AtomsOptions{M: m}, "auto": &policy.AutoOptions{},
		"logistic": &policy.LogisticOptions{}, "two-links": &policy.AutoOptions{Link: "auto"},
	} {
		w := newWorld(1, d, arms)
		p, err := o.New(w.problem(0))
		if err != nil {
			b.Fatal(err)
		}
		var a bandit.Action
		var law bandit.Law
		sel := w.key.Stream(rng.Select)
		t := uint64(0)
		round := func(b *testing.B) {
			t++
			if err := p.Select(&a, w, sel.Round(t)); err != nil {
				b.Fatal(err)
			}
			if err := p.Update(a, float64(t%3)/2, sel.Round(t)); err != nil {
				b.Fatal(err)
			}
		}
		for range 1000 {
			round(b)
		}
		b.Run(name+"/Select", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t++
				if err := p.Select(&a, w, sel.Round(t)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/Prob", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t++
				if err := p.(bandit.Prober).Prob(&law, w, sel.Round(t)); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/Update", func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				t++
				if err := p.Update(a, float64(t%3)/2, sel.Round(t)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

package policy_test

import (
	"slices"
	"testing"
	"time"

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

// BenchmarkAutoBesideAtoms compares updates of the two in turns, so that what else the machine does falls on both: the
// metric is the median over pairs of blocks of the time of auto over that of atoms. The bar is 1.5.
func BenchmarkAutoBesideAtoms(b *testing.B) {
	const d, arms, m, block = 26, 3, 32, 16
	type player struct {
		p bandit.Policy
		a bandit.Action
	}
	w := newWorld(1, d, arms)
	sel := w.key.Stream(rng.Select)
	var players [2]player
	for i, o := range []policy.Options{&policy.AtomsOptions{M: m}, &policy.AutoOptions{}} {
		p, err := o.New(w.problem(0))
		if err != nil {
			b.Fatal(err)
		}
		players[i].p = p
		for t := range uint64(1000) {
			if err := p.Select(&players[i].a, w, sel.Round(t)); err != nil {
				b.Fatal(err)
			}
			if err := p.Update(players[i].a, float64(t%3)/2, sel.Round(t)); err != nil {
				b.Fatal(err)
			}
		}
	}
	var ratios []float64
	t := uint64(1000)
	for b.Loop() {
		var took [2]time.Duration
		for i := range players {
			begin := time.Now()
			for range block {
				t++
				if err := players[i].p.Update(players[i].a, float64(t%3)/2, sel.Round(t)); err != nil {
					b.Fatal(err)
				}
			}
			took[i] = time.Since(begin)
		}
		ratios = append(ratios, float64(took[1])/float64(took[0]))
	}
	slices.Sort(ratios)
	b.ReportMetric(ratios[len(ratios)/2], "auto/atoms")
}

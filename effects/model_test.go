package effects

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"troupe/bandit"
	"troupe/rng"
)

func word(field uint64, text string) Atom {
	h := uint64(14695981039346656037)
	for _, c := range []byte(text) {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return Atom{bandit.TagAtom(mix(field), bandit.LevelRole, mix(h)) >> 11, 1}
}

func num(field uint64, v float64) Atom {
	return Atom{bandit.TagAtom(mix(field), bandit.NumberRole, 0) >> 11, v}
}

func TestSegments(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		const segments, actions = 8, 6
		var mu [segments][actions]float64
		for i := range mu {
			for k := range mu[i] {
				mu[i][k] = .05 + .55*r.Float64()
			}
		}
		m := New(Options{}, rng.NewKey(seed).Stream(rng.Init))
		var acts [][]Atom
		for k := range actions {
			acts = append(acts, []Atom{word(99, fmt.Sprint("a", k))})
		}
		var got, best, uni float64
		marks := ""
		for n := range 2000 {
			g := r.IntN(segments)
			ctx := []Atom{word(1, fmt.Sprint("s", g)), num(2, float64(18+r.IntN(62)))}
			votes, winner := m.Votes(ctx, acts, nil, uint64(n))
			k := winner[r.IntN(voters)]
			if votes[k] == 0 {
				t.Fatal("no vote")
			}
			y := 0.
			if r.Float64() < mu[g][k] {
				y = 1
			}
			got += mu[g][k]
			b, s := 0., 0.
			for _, v := range mu[g] {
				b, s = max(b, v), s+v
			}
			best, uni = best+b, uni+s/actions
			m.Decided(uint64(n), ctx, acts[k])
			m.Learn(uint64(n), ctx, acts[k], y)
			if n+1 == 250 || n+1 == 500 || n+1 == 1000 || n+1 == 2000 {
				marks += fmt.Sprintf(" %.2f", (got-uni)/(best-uni))
			}
		}
		t.Log(seed, marks, m.s.changes, len(m.s.lay.coords), m.s.h.s2, m.s.h.variance)
	}
}

package effects

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"troupe/rng"
)

// finite fails the test when a number of the model is none.
func finite(t *testing.T, m *Model) {
	t.Helper()
	check := func(name string, list ...float64) {
		for _, x := range list {
			if x-x != 0 {
				t.Fatalf("after %d events: %s is %v", m.s.events, name, x)
			}
		}
	}
	check("the noise", m.s.h.s2, m.s.h.mean, m.s.h.variance)
	check("a variance", m.s.h.tau...)
	for _, s := range append([]*sums{m.s.main}, m.s.copies...) {
		check("evidence", s.weigh)
		for _, b := range s.blocks {
			if b != nil {
				check("a mean", b.post.m...)
				check("a covariance", b.post.p...)
			}
		}
	}
}

// TestMoreNumbersThanEvents: with many more coefficients than events the fixed point of a variance diverged, from 20
// events on, until the factor of the precision lost all its digits and the model was NaN for good.
func TestMoreNumbersThanEvents(t *testing.T) {
	for _, joint := range []bool{false, true} {
		r := rand.New(rand.NewPCG(1, 2))
		m := New(Options{}, rng.NewKey(1).Stream(rng.Init))
		const numbers, actions = 32, 8
		for n := range 200 {
			var context []Atom
			action := []Atom{word(99, fmt.Sprint("a", r.IntN(actions)))}
			y, to := 0., &context
			if joint {
				to = &action
			}
			for i := range numbers {
				x := r.NormFloat64()
				*to = append(*to, num(uint64(i), x))
				y += x
			}
			if y > 2 {
				y = 1
			} else {
				y = 0
			}
			m.Learn(uint64(n), context, action, y)
			finite(t, m)
		}
		if m.s.h.s2 > .9*m.s.h.variance {
			t.Errorf("joint %v: the noise is %.3g of a variance of %.3g: nothing was learned", joint, m.s.h.s2, m.s.h.variance)
		}
	}
}

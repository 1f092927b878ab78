package effects

import (
	"fmt"
	"math"
	"testing"

	"troupe/rng"
)

// TestWideRequests: an action with 18 numbers in a context of 19 has some 1,300 products, most of which have no coordinate.
// Each of them learned all of the residual of an event, together a thousand times too much, and after 200 events the model was
// NaN.
func TestWideRequests(t *testing.T) {
	m := New(Options{}, rng.NewKey(1).Stream(rng.Init))
	type d struct{ c, a []Atom }
	var all []d
	for n := range 3000 {
		at := n / 100 * 100
		var context []Atom
		action := []Atom{word(99, fmt.Sprint("p", n%5))}
		if n%2 == 0 {
			action = []Atom{word(99, "r")}
		}
		for i := range 19 {
			context = append(context, num(uint64(i), float64((i*7+at*3)%10)/3))
		}
		for i := range 18 {
			action = append(action, num(uint64(50+i), float64((i*7+at*3)%10)/3))
		}
		m.Decided(uint64(n), context, action)
		all = append(all, d{context, action})
	}
	for n, e := range all[:3000] {
		m.Learn(uint64(n), e.c, e.a, float64(n%2))
		if n%50 == 0 || n < 100 {
			finite(t, m)
		}
		for _, p := range m.s.main.tail.pages {
			for i := range p.cells {
				if r := p.cells[i].r; math.Abs(r) > 1e6 || r != r {
					t.Fatalf("after %d events a value has the sum %v: rewards are 0 and 1", n, r)
				}
			}
		}
	}
	if z := m.Estimate(all[2999].c, all[2999].a); math.Abs(z-1) > .2 {
		t.Errorf("the estimate is %v, want 1", z)
	}
}

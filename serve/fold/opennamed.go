package fold

import (
	"math/bits"

	"troupe/eventlog"
	"troupe/serve/model"
)

// openNamed is what an open window has of rewards with names, from the first one on. Each name is folded by the rule of
// its decision. The reward of the event, openEvent.y, is the weighted sum, in which a name without a value counts 0. By a rule
// that settles the sum is learned as soon as every name has its value, otherwise when the window closes.
type openNamed struct {
	n       uint8
	given   uint8 // bit i: the i-th name has a value
	learned bool
	y       [eventlog.MaxNamed]float64
}

func (o *openNamed) has(i int) bool { return o.given>>i&1 == 1 }

// settled reports whether every name has its value.
func (o *openNamed) settled() bool { return uint(o.given) == 1<<o.n-1 }

// take folds the values of a mask of names by a rule, and reports whether one of them counts.
func (o *openNamed) take(rule model.Rule, mask uint64, values []float64) (counts bool) {
	for at := 0; mask != 0; at, mask = at+1, mask&(mask-1) {
		i := bits.TrailingZeros64(mask)
		if o.has(i) && rule.Settles() {
			continue
		}
		o.y[i] = rule.Fold(o.y[i], values[at], !o.has(i))
		o.given |= 1 << i
		counts = true
	}
	return counts
}

package effects

import "math"

// Draws is how many draws a law counts.
const Draws = 64

// The constants of the model; docs/design/default.md says what was tried.
const (
	guess      = .2 // first guess of a variance, in units of its base and of the variance of the rewards
	strength   = .5 // its weight, in coefficients
	widen      = 3. // the prior that plays is so many times as wide as what was estimated
	firstFit   = 6  // events before the first estimate
	growth     = 1.25
	rounds     = 1
	leastShare = 1e-7 // a group's variance is at least so much of the variance of the rewards,
	leastNoise = 1e-3 // that of the noise at least so much,
	mostShare  = 4    // and both at most so much: with few events the fixed point of a group may diverge
	narrow     = .45  // scale of a draw, by scaleOf
	wideShare  = .05  // share of the draws of scale 1, by scaleOf
	cut        = 2.5
	maxCoords  = 160
	crossed    = .6
	scaleSize  = 30 // values after which the scale of a number is fixed
)

const (
	voters   = Draws
	maxJoint = 256
)

// scaleOf is by how much the scales of draws are smaller where d values say what is expected: d^(−¼). The uncertainty of
// the sum of d coefficients is explored less than that of one.
func scaleOf(d int) float64 { return 1 / math.Sqrt(math.Sqrt(float64(d))) }

// hyper is what is estimated from all blocks together. Rewards are relative to the offset of the model.
type hyper struct {
	mean     float64   // of the rewards
	variance float64   // of the rewards, 0 while all were equal
	s2       float64   // of the noise
	tau      []float64 // of each group
	lists    *scales   // of a model of lists, nil otherwise
}

// known reports whether two rewards differed at the last estimate.
func (h *hyper) known() bool { return h.variance > 0 }

// prior is the variance of a coefficient before its first event, as it plays.
func (h *hyper) prior(group int32) float64 {
	if h.lists != nil {
		return listWiden * h.tau[group]
	}
	return widen * h.tau[group]
}

// first is the first guess of a group's variance.
func (h *hyper) first(g group) float64 {
	v := h.variance
	if v == 0 {
		v = 1
	}
	switch {
	case h.lists == nil:
		return guess * g.base() * v
	case g.kind == ofAction && g.a == 0:
		return v
	case g.gated():
		return shutShare * v
	}
	return g.listBase() * v
}

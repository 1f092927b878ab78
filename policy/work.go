package policy

import (
	"math"
	"reflect"
	"time"
)

// Load is what a decision brings: K actions of d numbers, or of a request so many values in the context and in all actions
// together; where numbers are played, how many and the cells of all actions.
type Load struct{ Actions, Dim, Context, Own, Numbers, Cells int }

// Work is about how long a policy computes on one processor of today: an estimate from sizes alone, so that a server can
// refuse what takes too long before it begins. It is within a factor of two of what was measured for large loads
// (docs/record/work.md); small ones take less than it says.
type Work struct {
	Decide time.Duration // a choice and its law
	Update time.Duration // an event
}

// Worked is implemented by options whose policies take longer than others.
type Worked interface{ Work(l Load) Work }

// WorkOf estimates the work of a policy. Unless its options are [Worked], a decision takes .5 ns for each action, number
// and member, and 20 ns for each entry of a d×d matrix; an event 5 ns for each entry, and 1 ns for each number of a member.
func WorkOf(o Options, l Load) Work {
	if w, ok := o.(Worked); ok {
		return w.Work(l)
	}
	m, d := membersOf(o, l.Dim), float64(l.Dim)
	return Work{Decide: nanoseconds(.5*d*m*float64(l.Actions) + 20*d*d), Update: nanoseconds(5*d*d + m*d)}
}

// membersOf is the option m, the largest default where it is not given, and 2 where there is none.
func membersOf(o Options, d int) float64 {
	v := reflect.Indirect(reflect.ValueOf(o))
	f := v.FieldByName("M")
	switch {
	case !f.IsValid() || !f.CanInt():
		return 2
	case f.Int() > 0:
		return float64(f.Int())
	}
	return float64(max(32, 2*d))
}

// nanoseconds is a duration, at most the longest.
func nanoseconds(ns float64) time.Duration {
	return time.Duration(min(ns, math.MaxInt64/2))
}

// Work implements Worked: the members are drawn for each number of each action.
func (o *SparseOptions) Work(l Load) Work {
	m, d := membersOf(o, l.Dim), float64(max(l.Dim, 1))
	if l.Context+l.Own > 0 {
		d = float64(l.Context) + float64(l.Own)/float64(max(l.Actions, 1))
	}
	return Work{Decide: nanoseconds(5 * d * m * float64(l.Actions)), Update: nanoseconds(5 * d * m)}
}

// Work implements Worked: each action has a width.
func (o *LinUCBOptions) Work(l Load) Work {
	d := float64(l.Dim)
	return Work{Decide: nanoseconds(.5*d*d*float64(l.Actions) + 20*d*d), Update: nanoseconds(5 * d * d)}
}

// Work implements Worked: each replicate has a covariance.
func (o *BagOptions) Work(l Load) Work {
	m, d := membersOf(o, l.Dim), float64(l.Dim)
	return Work{Decide: nanoseconds(1.3*d*m*float64(l.Actions) + m*d*d), Update: nanoseconds(4 * m * d * d)}
}

// Work implements Worked: each member is found anew at each event. Events are kept, and what they add is not in the estimate.
func (o *GLMESOptions) Work(l Load) Work {
	m, d := membersOf(o, l.Dim), float64(l.Dim)
	return Work{Decide: nanoseconds(5 * d * m * float64(l.Actions)), Update: nanoseconds(3 * m * d * d * d)}
}

// Work implements Worked. An action meets the context by the products of their values, which are as many as there are
// coordinates at most; the variance of its reward has a term for each two coordinates.
func (o *EffectsOptions) Work(l Load) Work {
	k, c := float64(max(l.Actions, 1)), float64(l.Context)
	a := float64(l.Own) / k
	coords, entry := 1+3*(c+a), 10.
	ns := 1000 + 50*c + 100*a
	if a > 0 {
		parts := min(2*c+1, effectsParts) * min(2*a+1, effectsParts)
		coords, ns = min(coords+parts, effectsJoint), ns+25*parts
	} else { // each action has a block, and the variances are found over all blocks
		coords, entry = min(coords+c*c/2, effectsCoords), 25
	}
	if l.Numbers > 0 {
		parts := min(1+2*c+2*a, effectsParts)
		waves := effectsWaves[min(l.Numbers, len(effectsWaves)-1)]
		coords = min(coords+waves*parts, effectsJoint)
		ns += waves * parts * (60 + coords/4)   // the coefficients of the waves and their covariance
		ns += waves * waves * (10 + waves/8)    // its factor, and the draws
		ns += waves * 15 * float64(l.Cells) / k // the curves in the cells
	}
	ns += coords * coords
	return Work{Decide: nanoseconds(k * ns), Update: nanoseconds(100*(c+a) + float64(entry*coords)*coords)}
}

// Sizes of package effects: the coordinates of a block for all actions, of one for each, and the values of one side that
// have products.
const (
	effectsJoint  = 256
	effectsCoords = 160
	effectsParts  = 128
)

// effectsWaves is how many waves package effects has for so many numbers.
var effectsWaves = [...]float64{0, 15, 58, 54}

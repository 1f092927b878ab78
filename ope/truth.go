package ope

import (
	"fmt"
	"math"

	"troupe/internal/decimal"
)

// falseAlarm is the probability that a log whose propensities are true is said to contradict them, at any look.
const falseAlarm = 1e-3

// truthSteps are the λ of the mixture in truth: 2^j for j in [−16, 3].
const (
	truthLeast = -16
	truthMost  = 3
)

// truth is the evidence against the promise that the terms of a sum have the mean 0: the logarithm of the mean over λ of
//
//	exp(λ|S| − V(e^λ − 1 − λ)),   S = Σ x_i,   V = Σ Var(x_i | past),   |x_i| ≤ 1.
//
// Each is a supermartingale that begins at 1 (Freedman 1975), so at every n at once, for loggers that learn, it is above
// log(1/α) with probability at most α on either side. A count far from its small expectation has little evidence here
// where a z-score, which takes it for normal, has much: one play where .01 were promised has z = 9.9 and evidence 1.4.
func truth(s, variance float64) float64 {
	s = math.Abs(s)
	most, sum := math.Inf(-1), 0.0
	var all [truthMost - truthLeast + 1]float64
	for i := range all {
		l := math.Ldexp(1, i+truthLeast)
		all[i] = float64(l*s) - float64(variance*(math.Expm1(l)-l))
		most = max(most, all[i])
	}
	for _, x := range all {
		sum += math.Exp(x - most)
	}
	return most + math.Log(sum/float64(len(all)))
}

// untrue says which logged propensities cannot be true, "" where none is contradicted: an action was played far more or
// far less often than its propensities promise. All actions and both sides share half of falseAlarm; the other half is
// for the weights. Decisions of one unit share a draw, so their counts say nothing.
func (e *evidence) untrue(actions []ActionSeen) string {
	a := e.total
	if a.noLaw > 0 || e.p.lists || len(a.actions) == 0 || a.dependent() {
		return ""
	}
	need := math.Log(4 * float64(len(a.actions)) / falseAlarm)
	worst, most := -1, need
	scale := max(a.vMost, 1)
	for k := range a.actions {
		s := &a.actions[k]
		if t := truth(s.diff/scale, s.variance/(scale*scale)); t > most {
			worst, most = k, t
		}
	}
	if worst < 0 {
		return ""
	}
	x := actions[worst]
	return fmt.Sprintf("the logged propensities do not tell the truth about action %s: it was played %d times, and %s "+
		"were promised (z = %.1f)", x.Name, x.Played, decimal.Short(x.Promised, 3), x.Z)
}

// heavy says that the weights of a target cannot have a mean of at most 1, as they have where the propensities are true,
// "" where they may.
func (e *evidence) heavy(ta *targetSums) string {
	if e.total.dropped > 0 || e.p.lists || e.total.dependent() {
		return ""
	}
	if lo := ta.weights.bound(falseAlarm/2/float64(len(e.p.o.Targets)), 0, unboundedValue); lo > 1 {
		return fmt.Sprintf("the weights have mean %s, and at most 1 is expected: the logged propensities are too small, or the "+
			"law of the target knows what was played", short(ta.w1.value()/ta.v.value()))
	}
	return ""
}

package policy

import (
	"math"

	"troupe/internal/logs"
)

// This file is how models of hashed come back that have left, with change = "restarts". A model leaves when it is 60
// behind. Had it stayed, its log likelihood would be discounted like that of the others, and after
// compare_over·log(60/log 32) events (2.8·compare_over) it would be less than log 32 behind, and play. So all models
// that have left begin anew, empty, every so many events; and they do when a change was noticed, because what they lost
// by was before it. A model that has just begun predicts badly and would soon be 60 behind again. So in its first
// trialLength events it is never more than trialLag behind (Page 1954: the sum is held at a bound, and rises from there
// once the model predicts better than the best one). After them it is judged like the others.

const (
	trialLength = 1000
	trialLag    = 6 // above log 32, so it plays only after it has predicted better than the best model
)

// returned reports whether the start is the first one of a model that came back. Models come back one event after a
// multiple of startGap, and all other starts begin at a multiple.
func (t *smallStart) returned() bool { return t.born%startGap == 1 }

// returnGap is how many events are between two returns, a multiple of startGap, where errors are compared over so many.
func returnGap(over float64) uint64 {
	gap := float64(over * logs.Log(givenUp/logs.Log(1/weightLow)))
	return startGap * uint64(1+gap/startGap)
}

// bring brings models back when it is time, and holds those that came back lately at trialLag. errs are the discounted
// squared errors of the sparse models.
func (x *mixture) bring(folds []*sparseFold, errs []float64, wide []bool, over float64) {
	gap := returnGap(over)
	stated := x.changes.last.Seen
	if x.n > startGap && x.n%startGap == 1 {
		changed := stated > 0 && x.n-stated <= startGap
		if changed {
			x.forgive()
		}
		if changed || x.n%gap == 1 {
			x.returnSmalls()
			x.returnSparse(folds, errs, wide)
		}
	}
	least := x.best() - trialLag
	length := min(trialLength, gap/2)
	ended := (x.n < gap || x.n%gap > length) && (stated == 0 || x.n-stated > length)
	for _, s := range x.smalls {
		if s.trial {
			s.like, s.trial = max(s.like, least), !ended
		}
	}
	for k := range x.trial {
		if x.trial[k] {
			x.likes[k], x.trial[k] = max(x.likes[k], least), !ended
		}
	}
}

// forgive brings models back that have stayed but are further behind than those that come back: what they lost by was
// before a change. They keep what they know. One that was so far behind that it has one start begins another one.
func (x *mixture) forgive() {
	best := x.best()
	for _, s := range x.smalls {
		if s.gone || s.like >= best-trialLag {
			continue
		}
		if s.like < best-startReach {
			x.beginStart(s)
		}
		s.like, s.trial = best-trialLag, true
	}
	for k, l := range x.likes {
		if !x.gone[k] && l < best-trialLag {
			x.likes[k], x.trial[k] = best-trialLag, true
		}
	}
}

// returnSmalls begins small models anew that have left, but for those that have too many
// numbers or whose vectors are still too long.
func (x *mixture) returnSmalls() {
	best := x.best()
	for _, s := range x.smalls {
		if !s.gone || x.crowded(s.kind) {
			continue
		}
		if x.terms(s); len(x.phi) >= s.limit() {
			continue
		}
		gen := s.gen
		*s = *x.newSmall(s.kind, s.field)
		s.gen, s.listed = gen, gen
		s.born, s.first = x.n, x.offset()
		s.sum, s.like, s.trial = s.first, best-trialLag, true
	}
}

// returnSparse begins sparse models anew that have left, with the errors of the one with the other link.
func (x *mixture) returnSparse(folds []*sparseFold, errs []float64, wide []bool) {
	best := x.best()
	for k := range folds {
		if !x.gone[k] {
			continue
		}
		least := math.Inf(1)
		for l := range folds {
			if wide[l] == wide[k] && !x.gone[l] {
				least = min(least, errs[l])
			}
		}
		if math.IsInf(least, 1) {
			continue
		}
		x.gone[k], x.trial[k], x.likes[k], errs[k] = false, true, best-trialLag, least
		if !folds[k].logistic {
			folds[k].offset = x.offset()
		}
	}
}

package policy

import (
	"troupe/bandit"
	"troupe/internal/logs"
)

// This file is what rules 3 add to the small models: numbers read by four ranges that overlap (ADR 42). A number is a
// z-score here (feature.Standard), so the ranges need no state: they have their middles at −1.2, −.4, .4 and 1.2, and a
// number between two middles belongs to both, by shares that are linear in it and have the sum 1. The reward is then
// piecewise linear in the number, with four coefficients where bins have twelve.
//
// Three kinds of models read them, where the context has one to mostNumbers numbers:
//
//   - smallRange: the ranges of one number, for each action. Where the context has other fields, too.
//   - smallRanges: those of all numbers, and the values of all other fields, for each action.
//   - smallGrid: ids, values of the actions' fields, and ranges of an action's number × ranges of one of the context,
//     shared by all actions. Where there are at most mostGrids such pairs of numbers.
//
// They are weighted by what they predicted, like the others.

// Constants of ranges. ADR 42 says how they were chosen.
const (
	rangeCount = 4
	rangeWidth = .8 // between two middles, in standard deviations
	mostGrids  = 4  // pairs of a number of the actions and one of the context
)

// rangesOf returns the first of two neighbouring ranges to which z-score z belongs, and the share of the second one.
func rangesOf(z float64) (first int, share float64) {
	t := min(max(float64(z/rangeWidth)+(rangeCount-1)/2., 0), rangeCount-1)
	first = min(int(t), rangeCount-2)
	return first, t - float64(first)
}

// rangeKey is the key of the coefficient of a number's range.
func rangeKey(number uint64, i int) uint64 {
	k := (number ^ uint64(i+1)*0x9e3779b97f4a7c15) * 0xff51afd7ed558ccd
	return (k ^ k>>32) * 0xc4ceb9fe1a85ec53
}

// appendRanges appends the shares of a number in its ranges.
func (a *smallAtom) appendRanges(phi []term, prior float64) []term {
	i, share := rangesOf(a.value)
	for k, v := range [2]float64{1 - share, share} {
		if v > 0 {
			phi = append(phi, term{rangeKey(a.key, i+k), prior, v, -1})
		}
	}
	return phi
}

// rangeTerms appends φ of an action under smallRange or smallRanges.
func (s *smallModel) rangeTerms(phi []term, a *smallAtoms, f *fieldTable) []term {
	phi = append(phi, term{0, meanPrior, 1, -1})
	for k := range a.context {
		c := &a.context[k]
		if s.kind == smallRange && c.field != s.field {
			continue
		}
		switch {
		case c.role == bandit.ValueRole:
			if f.reads(c, false) {
				phi = c.appendRanges(phi, levelPrior)
			}
		case c.role == bandit.LevelRole && s.kind == smallRanges && f.reads(c, false):
			phi = append(phi, term{c.key, levelPrior, c.value, -1})
		}
	}
	bound(phi[1:], ownPrior-meanPrior)
	return phi
}

// appendGrid appends the shares of an action's number and every number of the context in their ranges.
func (c *smallAtom) appendGrid(phi []term, context []smallAtom, f *fieldTable) []term {
	if c.role != bandit.ValueRole {
		return phi
	}
	from := len(phi)
	phi = c.appendRanges(phi, meanPrior)
	own := len(phi)
	for l := range context {
		x := &context[l]
		if x.role != bandit.ValueRole || !f.reads(x, false) {
			continue
		}
		i, share := rangesOf(x.value)
		for k, v := range [2]float64{1 - share, share} {
			for o := from; o < own && v > 0; o++ {
				phi = append(phi, term{rangeKey(phi[o].key^x.key, i+k), meanPrior, float64(phi[o].value * v), -1})
			}
		}
	}
	return append(phi[:from], phi[own:]...)
}

// ranged reports whether numbers are so few that a kind reads them by ranges.
func (f *fieldTable) ranged(kind smallKind) bool {
	context := f.numbers(false)
	if context == 0 || context > mostNumbers {
		return false
	}
	switch kind {
	case smallRange:
		fields := 0
		for i := range f.entries {
			if !f.entries[i].action {
				fields++
			}
		}
		return fields > 1
	case smallGrid:
		action := f.numbers(true)
		return action > 0 && context*action <= mostGrids
	}
	return true
}

// addRanges begins the models of rules 3 that the fields call for; so many of these are of the context. Models of one
// number share the weight of one among the fields, of which any may be the one that matters.
func (x *mixture) addRanges(fields int) {
	f := x.fields
	for _, kind := range [...]smallKind{smallRanges, smallGrid} {
		if f.ranged(kind) {
			x.begin(kind, 0, newcomer)
		}
	}
	for i := range f.entries {
		if e := &f.entries[i]; e.number && !e.action && f.ranged(smallRange) {
			x.begin(smallRange, e.field, newcomer+logs.Log(float64(fields)))
		}
	}
}

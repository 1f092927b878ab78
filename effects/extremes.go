package effects

import "slices"

// extremes bound what one reward can do: the largest counts as the second largest, and the smallest as the second
// smallest; one that is far from all others counts as their mean, which says nothing. Their events are kept, so that a
// bound that moves corrects what was learned of them.
type extremes struct {
	top, low []record // at most two each: the largest first, the smallest first
}

// record is an event with an extreme reward.
type record struct {
	event uint64 // number of the learned event, from 1
	t     uint64 // of its decision
	block int32
	place int // of a list: placeOf

	weight float64 // of the event, which fades
	raw    float64
	y      float64 // as it was learned
	v      vector
}

// rank returns a list with a record in its order, the best first: two at most. The list itself does not change, unless
// it is returned.
func rank(list []record, r record, before func(a, b *record) bool) []record {
	at := len(list)
	for at > 0 && before(&r, &list[at-1]) {
		at--
	}
	if at >= 2 {
		return list
	}
	list = slices.Insert(slices.Clone(list), at, r)
	return list[:min(len(list), 2)]
}

func higher(a, b *record) bool { return a.raw > b.raw }

func lower(a, b *record) bool { return a.raw < b.raw }

// bounds returns the least and the largest reward that counts.
func (x *extremes) bounds() (lo, hi float64) {
	hi, lo = x.top[len(x.top)-1].raw, x.low[len(x.low)-1].raw
	return min(lo, hi), hi
}

// bounded reports whether a reward of a block counts as less, or as more, than it is.
func (x *extremes) bounded(block int32) bool {
	for _, list := range [][]record{x.top, x.low} {
		for i := range list {
			if r := &list[i]; r.block == block && r.raw != r.y {
				return true
			}
		}
	}
	return false
}

// far is how many times the range of the others a reward may be beyond it.
const far = 4

// counts returns what a reward counts as between two bounds.
func counts(raw, lo, hi, mean float64) float64 {
	if wide := far * (hi - lo); raw-hi > wide || lo-raw > wide {
		raw = mean
	}
	return min(max(raw, lo), hi)
}

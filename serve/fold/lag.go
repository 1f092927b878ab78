package fold

import (
	"slices"

	"troupe/eventlog"
)

// This file lets a model lag behind its log. The policy auto chooses λ anew after 16, 32, 64, … events, which takes
// 7d³/3 operations, seconds at d = 1024, and the other models would wait for it. In a fold that defers, such a choice
// is left to the caller: until it is done, the events of the model queue, and its state stays that of before. What
// comes out is the same, bit for bit, because the policy sees the same updates in the same order.

// maxWaiting is how many events may queue. The fold settles the model when there are more.
const maxWaiting = 1 << 16

// update is an event that a policy is to learn.
type update struct {
	x   Features
	y   float64
	key eventlog.Event
	seq uint64 // entry of the reward, or that closed the window
}

// lag is what the policy of a model has not learned yet.
type lag struct {
	lagging bool     // a choice of λ is under way, see Fold.Defer
	waiting []update // events since then
}

// Lagging reports whether the state of the model misses events that were applied.
func (l *lag) Lagging() bool { return l.lagging }

// wait queues an event, and reports false when as many wait as may. The record that it is from may be used again.
func (l *lag) wait(u update) bool {
	if !l.lagging || len(l.waiting) >= maxWaiting {
		return false
	}
	u.x.X = slices.Clone(u.x.X)
	l.waiting = append(l.waiting, u)
	return true
}

// next takes the event that waits longest.
func (l *lag) next() update {
	u := l.waiting[0]
	l.waiting[0] = update{}
	l.waiting = l.waiting[1:]
	return u
}

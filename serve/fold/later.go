package fold

import (
	"fmt"
	"slices"

	"troupe/bandit"
	"troupe/eventlog"
)

// This file lets a model lag behind its log. The policy auto chooses λ anew after 16, 32, 64, … events, which takes
// 7d³/3 operations, seconds at d = 1024, and the other models would wait for it. In a fold that defers, such a choice
// is left to the caller: until it is done, the events of the model queue, and its state stays that of before. What
// comes out is the same, bit for bit, because the policy sees the same updates in the same order.

const (
	deferFrom  = 128     // the dimension from which a choice of λ is deferred; below it takes a few milliseconds
	maxWaiting = 1 << 16 // events that may queue; the fold settles the model when there are more
	slice      = 1 << 22 // operations of updates in a step of Advance, some milliseconds
)

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

// Defer lets models lag from here on. The caller looks for Lagging models after every Apply, does the work that
// Advance returns, and calls Advance again until it says that the model is there.
func (f *Fold) Defer() {
	f.deferring = true
	for _, m := range f.models {
		f.defers(m)
	}
}

// defers tells the policy of m whether it may leave a choice of λ to others.
func (f *Fold) defers(m *Model) {
	if a := m.deferrer(); a != nil && f.deferring && m.Compiled.Dim >= deferFrom {
		a.Defer(true)
	}
}

// deferrer returns the policy of m where some of its updates may wait, nil otherwise.
func (m *Model) deferrer() bandit.Deferrer {
	d, _ := m.policy.(bandit.Deferrer)
	return d
}

// Lagging returns how many models lag.
func (g *registry) Lagging() (n int) {
	for _, m := range g.models {
		if m.lagging {
			n++
		}
	}
	return n
}

// Advance does a slice of what a lagging model waits for. done is the work that it returned last, which the caller has
// finished; nil at first. It returns more work, to be done without the fold, or nil: then the caller calls it again,
// unless the model does not lag any more.
func (f *Fold) Advance(m *Model, done bandit.Work) bandit.Work {
	a := m.deferrer()
	if !m.lagging || a == nil {
		m.settled()
		return nil
	}
	if c := a.Pending(); c != nil && c != done {
		return c
	}
	a.Finish() // takes what was chosen
	d := m.Compiled.Dim
	for n := max(1, slice/(d*d)); n > 0 && len(m.waiting) > 0; n-- {
		u := m.next()
		m.update(u, bandit.Action{X: u.x.X, Index: bandit.NoIndex}, nil)
		if c := a.Pending(); c != nil {
			return c
		}
	}
	if len(m.waiting) == 0 {
		m.settled()
		f.markChanged(m)
	}
	return nil
}

// Settle lets a model catch up at once.
func (f *Fold) Settle(m *Model) {
	if m.lagging {
		m.settle()
		f.markChanged(m)
	}
}

// settle does all that a lagging model waits for.
func (m *Model) settle() {
	for _, u := range m.waiting {
		m.update(u, bandit.Action{X: u.x.X, Index: bandit.NoIndex}, nil)
	}
	if a := m.deferrer(); a != nil {
		a.Finish()
	}
	m.settled()
}

func (m *Model) settled() {
	m.lag = lag{}
	if !m.aside { // its state is all that there is of it
		m.dropState()
	}
}

// update moves the policy by one event. err, if any, is why the event has no vector.
func (m *Model) update(u update, a bandit.Action, err error) {
	if m.Failed != "" {
		return
	}
	if err == nil {
		err = m.policy.Update(a, u.y, m.Targets(u.key))
	}
	if err != nil {
		m.Failed = fmt.Sprintf("entry %d: event %v/%d/%d: %v", u.seq, u.key.Epoch, u.key.Batch, u.key.Index, err)
		return
	}
	m.Counts.Learned++
}

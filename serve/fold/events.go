package fold

import (
	"fmt"
	"time"

	"troupe/eventlog"
)

// Expiry returns the record that closes the windows of a model's open events in an entry, and how many they
// are, nil and 0 when none is open.
func (f *Fold) Expiry(x Window, now int64) (r *eventlog.Expire, events int) {
	b := f.still(x.at, x.Seq)
	if b == nil {
		return nil, 0
	}
	m := f.places[x.Model]
	for _, e := range f.events(b) {
		if e.model != x.Model {
			continue
		}
		if r == nil {
			r = &eventlog.Expire{Event: f.batch(b).event(uint32(e.index)), Model: m.ID, Time: now}
		}
		r.Count = uint32(e.index) - r.Event.Index + 1
		events++
	}
	if r == nil {
		return nil, 0
	}
	if m := f.Current(m); !m.Deleted {
		if y, ok := m.MissingReward(); ok {
			r.Default, r.Y = true, y
		}
	}
	return r, events
}

func (f *Fold) decision(i uint32, r *eventlog.Decision) Outcome {
	m := f.models[r.Model]
	if m == nil {
		return Ignored
	}
	if f.nodes != nil && len(r.Idempotency) == 32 {
		if _, known := f.Key([16]byte(r.Idempotency)); known { // another node was first
			return Duplicate
		}
	}
	h := f.Current(m)
	h.Counts.Decisions++
	if h.Compiled.FloorEnds(h.Counts.Decisions) {
		f.markChanged(h)
	}
	h.Counts.Open++
	f.waiting++
	h.Counts.Last = time.Unix(0, r.Time).UTC()
	for i := range h.Notes {
		h.Notes[i] += uint64(r.Notes >> i & 1)
	}
	if r.Notes != 0 {
		f.markChanged(h)
	}
	e := openEvent{index: uint16(i), model: m.place, deadline: r.Deadline}
	if r.Deferred {
		e.state |= inactive
	}
	if r.Mode == eventlog.Shadow || r.Mode == eventlog.Frozen {
		e.state |= noLearning
	}
	if len(r.Request) > 0 {
		e.state |= hasRequest
		if h.Learning != nil {
			h.Learning.Requests++
			h.Learning.Bytes += uint64(len(r.Request))
		}
	}
	e.state = e.state.withRule(m.Compiled.Config.Reward.Rule)
	f.reserve(h, &e, r)
	f.guards(h, f.entry.event(i), r)
	if len(r.Idempotency) == 32 {
		e.key = f.remember([16]byte(r.Idempotency), KeyUse{[16]byte(r.Idempotency[16:]), f.entry.event(i), f.seq})
	}
	f.await(f.entry.batchKey, f.seq, f.entry.hash, e)
	return Accepted
}

func (f *Fold) reward(r *eventlog.Reward) (Outcome, error) {
	m := f.models[r.Model]
	if m == nil {
		return Ignored, nil
	}
	h := f.Current(m)
	b, e := f.lookup(r.Event)
	if e == nil || e.model != m.place {
		h.Counts.Late++
		return Late, nil
	}
	rule := e.state.rule()
	if r.OnlyCost && f.knowsCost(e, r.Event, r.Key) || !r.OnlyCost && f.knows(e, r.Event, r.Key) {
		h.Counts.Duplicates++
		return Duplicate, nil
	}
	f.noteKey(e, r.Event, r.Key)
	if r.Costed {
		f.pays(h, e, r.Cost)
	}
	if r.OnlyCost {
		return Accepted, nil
	}
	e.y = rule.Fold(e.y, r.Y, e.state&rewarded == 0)
	e.state = e.state&^inactive | rewarded
	if rule.Settles() {
		f.guardSettles(h, r.Event, e.y, true)
	}
	p := f.learner(m, b.seq)
	if p == nil || e.state&noLearning != 0 {
		h.Counts.Ignored++
		return Ignored, nil
	}
	p.Counts.Rewards++
	p.Counts.RewardSum += r.Y
	if !rule.Settles() {
		return Accepted, nil
	}
	return Accepted, f.learn(p, Features{X: r.X, Atoms: r.Atoms, seq: b.seq, kept: e.state&hasRequest != 0}, r.Y, true,
		r.Event)
}

func (f *Fold) activate(r *eventlog.Activate) Outcome {
	_, e := f.lookup(r.Event)
	switch {
	case e == nil:
		return Late
	case e.state&inactive == 0:
		return Duplicate
	}
	e.state &^= inactive
	return Accepted
}

// expire closes windows. This is where the rules sum and last learn, and where defaults count.
func (f *Fold) expire(r *eventlog.Expire) (Outcome, error) {
	k := batchKey{r.Event.Epoch, r.Event.Batch}
	b, at := f.windows.entry(k)
	if b == nil {
		return Late, nil
	}
	var decisions []*eventlog.Decision // of the whole entry, read when the first event needs it
	events := f.events(b)
	left := events[:0]
	for _, e := range events {
		m, index := f.places[e.model], uint32(e.index)
		if index < r.Event.Index || index >= r.Event.Index+r.Count || m.ID != r.Model || f.nodes != nil &&
			e.deadline > f.clock {
			left = append(left, e)
			continue
		}
		if e.key != 0 {
			f.closed.Push(closedKey{f.clock, e.key - 1})
		}
		key := k.event(index)
		delete(f.rewardKeys, key)
		h := f.Current(m)
		h.Counts.Open--
		f.waiting--
		f.close(h, &e)
		f.guardExpires(h, &e, key, r)
		p := f.learner(m, b.seq)
		y, learns := e.y, e.state&noLearning == 0 && p != nil
		if e.state&rewarded != 0 {
			learns = learns && !e.state.rule().Settles()
		} else {
			h.Counts.Expired++
			if p != nil && e.state&(noLearning|inactive) == 0 {
				if err := f.missed(p, r.Default, r.Y); err != nil {
					return None, err
				}
			}
			y = r.Y
			if learns = learns && r.Default && e.state&inactive == 0; learns {
				p.Counts.Defaulted++
				p.Counts.RewardSum += y
			}
		}
		if learns && p.HasPolicy() {
			if decisions == nil {
				var err error
				if decisions, err = f.past.decisions(k, b.seq, b.hash); err != nil {
					return None, err
				}
			}
			if int(index) >= len(decisions) || decisions[index] == nil {
				return None, fmt.Errorf("entry %d has no decision at place %d", b.seq, index)
			}
			d := decisions[index]
			x := Features{X: d.X, Atoms: d.Atoms, seq: b.seq, kept: e.state&hasRequest != 0, decision: d}
			if err := f.learn(p, x, y, e.state&rewarded != 0, key); err != nil {
				return None, err
			}
		}
	}
	f.leave(b, at, left)
	return Accepted, nil
}

// OldestOpen returns the entry of the oldest open window, one past the fold when none is open.
func (f *Fold) OldestOpen() uint64 {
	oldest := f.seq + 1
	for at := range f.open.All() {
		oldest = min(oldest, f.entries.At(at).seq)
	}
	return oldest
}

// keysKept is KeysKept, but in tests.
func (f *Fold) keysKept() int {
	if f.past != nil && f.past.KeysKept != 0 {
		return max(0, f.past.KeysKept)
	}
	return KeysKept
}

// OldestNeeded returns the oldest entry with a decision that a window or a remembered key needs, one past the
// fold when there is none.
func (f *Fold) OldestNeeded() uint64 {
	oldest := f.OldestOpen()
	for at := range f.keys.All() {
		oldest = min(oldest, f.used.At(at).seq)
	}
	return oldest
}

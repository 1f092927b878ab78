package fold

import (
	"fmt"
	"slices"
	"time"

	"troupe/eventlog"
)

// events folds what happens to events: decisions, rewards, activations, and the ends of their windows.
type events struct {
	at      *position
	models  *registry
	windows *windows
	keys    *usedKeys
	cluster *cluster
	teacher *teacher
	past    past // nil: no window of the rules sum and last closes
	ledger  ledger
	guards  guards
	places  *places // of decisions of other servers
}

// Expiry returns the record that closes the windows of a model's open events in an entry, and how many they
// are, nil and 0 when none is open.
func (e *events) Expiry(x Window, now int64) (r *eventlog.Expire, events int) {
	b := e.windows.still(x.at, x.Seq)
	if b == nil {
		return nil, 0
	}
	m := e.models.byPlace[x.Model]
	if e.models.Current(m).Moving != nil {
		return nil, 0
	}
	for _, o := range e.windows.events(b) {
		if o.model != x.Model {
			continue
		}
		if r == nil {
			r = &eventlog.Expire{Event: e.windows.batch(b).event(uint32(o.index)), Model: m.ID, Time: now}
		}
		r.Count = uint32(o.index) - r.Event.Index + 1
		events++
	}
	if r == nil {
		return nil, 0
	}
	if m := e.models.Current(m); !m.Deleted {
		if y, ok := m.MissingReward(); ok {
			r.Default, r.Y = true, y
		}
	}
	return r, events
}

// OldestOpen returns the entry of the oldest open window, one past the fold when none is open.
func (e *events) OldestOpen() uint64 { return e.windows.oldest(e.at.seq + 1) }

// OldestNeeded returns the oldest entry with a decision that a window or a remembered key needs, one past the
// fold when there is none.
func (e *events) OldestNeeded() uint64 { return e.keys.oldest(e.OldestOpen()) }

// forget drops the idempotency keys that need not be remembered any more.
func (e *events) forget() {
	kept := KeysKept
	if e.past != nil {
		kept = e.past.keysKept()
	}
	e.keys.forget(kept, e.cluster.clock)
}

// decision opens the window of an event.
func (e *events) decision(r *eventlog.Decision) (Outcome, error) {
	m := e.models.byID[r.Model]
	if m == nil {
		return Ignored, nil
	}
	keyed := len(r.Idempotency) == 32
	if e.cluster.nodes != nil && keyed {
		if _, known := e.keys.Key([16]byte(r.Idempotency)); known { // another node was first
			return Duplicate, nil
		}
	}
	h := e.models.Current(m)
	if h.Moving != nil { // it came behind the act that closed the model: its caller gets no answer
		return Conflict, nil
	}
	if h.decided(r) {
		e.models.markChanged(h)
	}
	key := e.at.event(e.at.record)
	o := openEvent{index: uint16(e.at.record), model: m.place, deadline: r.Deadline,
		state: stateOf(r, m.Compiled.Config.Reward.Rule)}
	e.ledger.reserve(h, &o, r)
	e.guards.decided(h, key, r)
	if keyed {
		o.key = e.keys.remember([16]byte(r.Idempotency), KeyUse{[16]byte(r.Idempotency[16:]), key, e.at.seq})
	}
	if r.List != nil {
		e.windows.openList(key, newOpenList(r.List))
	}
	if o.state&noLearning == 0 {
		see := e.teacher.decided
		if r.List != nil {
			see = e.teacher.decidedList
		}
		if err := see(h, r, key); err != nil {
			return None, err
		}
	}
	e.windows.waiting++
	e.windows.await(e.at.batchKey, e.at.seq, e.at.hash, o)
	return Accepted, nil
}

// decided counts a decision, and reports whether decisions of the model are made otherwise from here on.
func (m *Model) decided(r *eventlog.Decision) (changed bool) {
	m.Counts.Decisions++
	m.Counts.Open++
	m.Counts.Last = time.Unix(0, r.Time).UTC()
	for i := range m.Notes {
		m.Notes[i] += uint64(r.Notes >> i & 1)
	}
	return r.Notes != 0 || m.Compiled.FloorEnds(m.Counts.Decisions)
}

// reward takes a reward, or what an event has cost, and lets a rule that settles learn it.
func (e *events) reward(r *eventlog.Reward) (Outcome, error) {
	m := e.models.byID[r.Model]
	if m == nil {
		return Ignored, nil
	}
	h := e.models.Current(m)
	if h.Moving != nil {
		return Conflict, nil
	}
	b, o := e.windows.lookup(r.Event)
	if o == nil || e.models.Current(e.models.byPlace[o.model]) != h {
		h.Counts.Late++
		return Late, nil
	}
	list := e.windows.list(r.Event)
	if list != nil && r.OnlyCost {
		if list.see(r.Shown); !r.Costed {
			return Accepted, nil
		}
	}
	switch {
	case list == nil && len(r.Positions) > 0:
		h.Counts.Ignored++
		return Ignored, nil
	case list != nil && !r.OnlyCost && !list.whole:
		if r.Costed {
			e.ledger.pays(h, o, r.Cost)
		}
		return e.rewardList(r, m, b, o, list)
	case !r.OnlyCost && (r.Named != 0) != (len(h.Compiled.Config.Rewards) > 0):
		h.Counts.Ignored++
		return Ignored, nil
	case r.Named != 0:
		return e.rewardNamed(r, m, b, o)
	}
	rule := o.state.rule()
	if r.OnlyCost && e.windows.knowsCost(o, r.Event, r.Key) || !r.OnlyCost && e.windows.knows(o, r.Event, r.Key) {
		h.Counts.Duplicates++
		return Duplicate, nil
	}
	e.windows.noteKey(o, r.Event, r.Key)
	if r.Costed {
		e.ledger.pays(h, o, r.Cost)
	}
	if r.OnlyCost {
		return Accepted, nil
	}
	o.y = rule.Fold(o.y, r.Y, o.state&rewarded == 0)
	o.state = o.state&^inactive | rewarded
	if list != nil {
		list.see(r.Shown)
	}
	if rule.Settles() {
		e.guards.settled(h, r.Event, o.y, true)
	}
	p := e.models.learner(m, b.seq)
	if p == nil || o.state&noLearning != 0 {
		h.Counts.Ignored++
		return Ignored, nil
	}
	p.Counts.Rewards++
	p.Counts.RewardSum += r.Y
	if !rule.Settles() {
		return Accepted, nil
	}
	if list != nil {
		return Accepted, e.teacher.learnWhole(p, r.Atoms, int(list.shown), r.Y, true, r.Event)
	}
	x := Features{X: r.X, Atoms: r.Atoms}
	return Accepted, e.teacher.learn(p, x, r.Y, true, r.Event)
}

// rewardList takes rewards of positions.
func (e *events) rewardList(r *eventlog.Reward, m *Model, b *openEntry, o *openEvent, l *openList) (Outcome, error) {
	h := e.models.Current(m)
	rule := o.state.rule()
	if r.Key != 0 && slices.Contains(e.windows.rewardKeys[r.Event], r.Key) {
		h.Counts.Duplicates++
		return Duplicate, nil
	}
	l.see(r.Shown)
	p := e.models.learner(m, b.seq)
	teaches := p != nil && o.state&noLearning == 0
	out := Duplicate
	if len(r.Positions) == 0 {
		out = Accepted
	}
	for i, at := range r.Positions {
		if at >= uint64(l.k) || l.has(int(at)) && rule.Settles() {
			continue
		}
		out = Accepted
		l.y[at] = rule.Fold(l.y[at], r.Ys[i], !l.has(int(at)))
		l.given |= 1 << at
		if teaches {
			p.Counts.Rewards++
			p.Counts.RewardSum += r.Ys[i]
		}
	}
	if out == Duplicate {
		h.Counts.Duplicates++
	} else if len(r.Positions) > 0 {
		e.windows.noteKey(o, r.Event, r.Key)
		o.state = o.state&^inactive | rewarded
		o.y = 0
		for _, y := range l.y {
			o.y += y
		}
	}
	if !teaches {
		h.Counts.Ignored++
		return Ignored, nil
	}
	// The last record of a call has what the list showed.
	if rule.Settles() && l.settled() && !l.learned && len(r.Atoms) > 0 {
		l.learned = true
		return out, e.teacher.learnList(p, r.Atoms, l, 0, r.Event)
	}
	return out, nil
}

// rewardNamed takes a reward with names.
func (e *events) rewardNamed(r *eventlog.Reward, m *Model, b *openEntry, o *openEvent) (Outcome, error) {
	h := e.models.Current(m)
	of := h.Compiled.Config.Rewards
	if !of.Has(r.Named) {
		h.Counts.Ignored++
		return Ignored, nil
	}
	rule := o.state.rule()
	n := e.windows.namedOf(r.Event)
	if n == nil {
		n = &openNamed{n: uint8(len(of))}
	}
	if r.Key != 0 && slices.Contains(e.windows.rewardKeys[r.Event], r.Key) || !n.take(rule, r.Named, r.Values) {
		h.Counts.Duplicates++
		return Duplicate, nil
	}
	e.windows.openNamed(r.Event, n)
	e.windows.noteKey(o, r.Event, r.Key)
	if r.Costed {
		e.ledger.pays(h, o, r.Cost)
	}
	before := o.y
	o.y = of.Sum(n.y[:n.n])
	o.state = o.state&^inactive | rewarded
	settled := rule.Settles() && n.settled()
	if settled {
		n.learned = true
		e.guards.settled(h, r.Event, o.y, true)
	}
	p := e.models.learner(m, b.seq)
	if p == nil || o.state&noLearning != 0 {
		h.Counts.Ignored++
		return Ignored, nil
	}
	p.Counts.Rewards++
	p.Counts.RewardSum += o.y - before
	if !settled {
		return Accepted, nil
	}
	return Accepted, e.teacher.learn(p, Features{X: r.X, Atoms: r.Atoms}, o.y, true, r.Event)
}

// activate notes that a deferred action was played.
func (e *events) activate(r *eventlog.Activate) (Outcome, error) {
	_, o := e.windows.lookup(r.Event)
	if l := e.windows.list(r.Event); o != nil && l != nil {
		l.see(r.Shown)
	}
	switch {
	case o == nil:
		return Late, nil
	case e.models.Current(e.models.byPlace[o.model]).Moving != nil:
		return Conflict, nil
	case o.state&inactive == 0:
		return Duplicate, nil
	}
	o.state &^= inactive
	return Accepted, nil
}

// expire closes windows. This is where the rules sum and last learn, and where defaults count.
func (e *events) expire(r *eventlog.Expire) (Outcome, error) {
	k := batchKey{r.Event.Epoch, r.Event.Batch}
	b, at := e.windows.entry(k)
	if b == nil {
		return Late, nil
	}
	c := closing{events: e, r: r, batch: k, entry: b}
	open := e.windows.events(b)
	left := open[:0]
	for _, o := range open {
		if !c.ends(&o) {
			left = append(left, o)
			continue
		}
		if err := c.end(o); err != nil {
			return None, err
		}
	}
	e.windows.leave(b, at, left)
	return Accepted, nil
}

// closing is the end of windows of one entry.
type closing struct {
	*events
	r         *eventlog.Expire
	batch     batchKey
	entry     *openEntry
	decisions []*eventlog.Decision // of the whole entry, read when the first event needs it
}

// ends reports whether the record ends the window of an event.
func (c *closing) ends(o *openEvent) bool {
	first, index := c.r.Event.Index, uint32(o.index)
	return index >= first && index < first+c.r.Count && c.models.byPlace[o.model].ID == c.r.Model &&
		c.models.Current(c.models.byPlace[o.model]).Moving == nil &&
		(c.cluster.nodes == nil || o.deadline <= c.cluster.clock)
}

// end ends the window of an event.
func (c *closing) end(o openEvent) error {
	m, key := c.models.byPlace[o.model], c.batch.event(uint32(o.index))
	if o.key != 0 {
		c.keys.closed.Push(closedKey{c.cluster.clock, o.key - 1})
	}
	delete(c.windows.rewardKeys, key)
	c.windows.waiting--
	h := c.models.Current(m)
	h.Counts.Open--
	c.ledger.close(h, &o)
	c.guards.expired(h, &o, key, c.r)
	p := c.models.learner(m, c.entry.seq)
	list := c.windows.list(key)
	delete(c.windows.lists, key)
	named := c.windows.namedOf(key)
	delete(c.windows.named, key)
	if list != nil && !list.whole {
		if o.state&rewarded == 0 {
			h.Counts.Expired++
		}
		return c.endList(o, list, p, key)
	}
	y, learns := o.y, o.state&noLearning == 0 && p != nil
	if o.state&rewarded != 0 {
		learns = learns && (!o.state.rule().Settles() || named != nil && !named.learned)
	} else {
		h.Counts.Expired++
		if p != nil && o.state&(noLearning|inactive) == 0 {
			if err := c.teacher.missed(p, c.r.Default, c.r.Y); err != nil {
				return err
			}
		}
		y = c.r.Y
		if learns = learns && c.r.Default && o.state&inactive == 0; learns {
			p.Counts.Defaulted++
			p.Counts.RewardSum += y
		}
	}
	if !learns || !p.HasPolicy() {
		if p != nil && o.state&noLearning == 0 {
			return c.teacher.dropped(p, key)
		}
		return nil
	}
	x, err := c.features(&o)
	if err != nil {
		return err
	}
	if list != nil {
		return c.teacher.learnWhole(p, x.Atoms, int(list.shown), y, o.state&rewarded != 0, key)
	}
	return c.teacher.learn(p, x, y, o.state&rewarded != 0, key)
}

// endList ends the window of a list: positions that were shown and have no reward get the default, and what is not learned
// yet is.
func (c *closing) endList(o openEvent, l *openList, p *Model, key eventlog.Event) error {
	defaulted := uint64(0)
	if !l.whole {
		for at := range int(l.shown) {
			if l.has(at) || o.state&inactive != 0 || p == nil || o.state&noLearning != 0 {
				continue
			}
			if err := c.teacher.missed(p, c.r.Default, c.r.Y); err != nil {
				return err
			}
			if c.r.Default {
				l.y[at], l.given, defaulted = c.r.Y, l.given|1<<at, defaulted|1<<at
				p.Counts.Defaulted++
				p.Counts.RewardSum += c.r.Y
			}
		}
	}
	seen := uint64(1)<<l.shown - 1
	switch {
	case l.learned:
		return nil
	case p == nil || o.state&noLearning != 0:
		return nil
	case !p.HasPolicy() || o.state&inactive != 0 || l.given&seen == 0:
		return c.teacher.dropped(p, key)
	}
	x, err := c.features(&o)
	if err != nil {
		return err
	}
	return c.teacher.learnList(p, x.Atoms, l, defaulted, key)
}

// features returns what the log has of the action that was chosen.
func (c *closing) features(o *openEvent) (x Features, err error) {
	seq := c.entry.seq
	if c.entry.hash == (eventlog.Hash{}) { // it is of another server
		m := c.models.byPlace[o.model]
		d, err := c.places.decision(c.past, m.ID, c.batch.event(uint32(o.index)))
		if err != nil {
			return x, err
		}
		return Features{X: d.X, Atoms: d.Atoms}, nil
	}
	if c.decisions == nil {
		if c.decisions, err = c.past.decisions(c.batch, seq, c.entry.hash); err != nil {
			return x, err
		}
	}
	if int(o.index) >= len(c.decisions) || c.decisions[o.index] == nil {
		return x, fmt.Errorf("entry %d has no decision at place %d", seq, o.index)
	}
	d := c.decisions[o.index]
	return Features{X: d.X, Atoms: d.Atoms}, nil
}

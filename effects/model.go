package effects

import (
	"maps"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/rng"
)

// Atom is a value of a request: the upper 53 bits of its hash (bandit.TagAtom), which say its field and its role, and
// the value itself: that of a number, 1 for a word or an id.
type Atom struct {
	Hash  uint64
	Value float64
}

func (a *Atom) field() fieldKey {
	f, _ := bandit.FieldOf(a.Hash)
	return fieldKey(f)
}

func (a *Atom) number() bool {
	_, role := bandit.FieldOf(a.Hash)
	return role == bandit.NumberRole
}

// Model is one Gaussian model of random effects. See the package comment.
type Model struct {
	s       state // what it has learned
	options Options
	keys    rng.Stream // of the draws
	find    index
	trial   *trial
	lent    *share // the last one

	reading reading
	scratch scratch
	solver  solver
	drawing drawing
	lists   listDraw
	late    func() error // see Until
}

// state is what a model has learned. What others share of it is copied before it changes.
type state struct {
	lay layout
	h   hyper

	main   *sums
	copies []*sums // at most four
	fit    *fit    // an estimate that is under way, nil otherwise

	offset   float64 // the first reward, then the median of the early ones; sums are of rewards less it
	events   uint64  // learned events
	rewards  uint64  // of lists: learned rewards of entries
	n        uint64  // those that the main sums have
	t        uint64  // decisions until the last event was learned
	next     uint64  // events at the next estimate
	extremes extremes
	numbers  map[fieldKey][]float64 // first values of numbers whose scale is not fixed
	seen     sketch
	early    []event // the first events, which are learned again when scales are fixed
	grown    bool    // there are no early events any more
	changes  []Change
	births   [4]uint64 // decisions at which the last copy of each slot began
	clock    clock
	life     *byte  // of the layout: another one begins another life
	shared   *share // the map of numbers is
}

// event is one of the first events.
type event struct {
	context, action []Atom
	y               float64
	t               uint64
	list            []Entry // of a list, then there is no action
	whole           bool    // the list has one reward
}

// entries are those of its list, of one action a list of one.
func (e *event) entries() []Entry {
	if e.list == nil {
		return []Entry{{Action: e.action, Y: e.y, Given: true}}
	}
	return e.list
}

// sums are what a copy of the model knows: blocks, and the tail.
type sums struct {
	blocks []*block // by layout.ids, nil without events
	tail   tail
	born   uint64 // decision
	slot   int
	weigh  float64 // evidence for a copy
}

// Change is a change of the rewards that was noticed.
type Change struct {
	Born, Seen uint64 // decision after which the new model learns, decision at which it took over
	Before     float64
	Since      float64 // mean rewards
}

// New returns a model without events, whose draws are numbers of a stream.
func New(o Options, init rng.Stream) *Model {
	m := &Model{options: o, keys: init, trial: newTrial()}
	m.s.next, m.s.numbers = firstFit, map[fieldKey][]float64{}
	m.empty(false)
	return m
}

// empty gives the model a layout that has no more than the action itself, and no sums.
func (m *Model) empty(joint bool) {
	m.s.lay, m.find, m.s.h, m.s.main = layout{joint: joint}, newIndex(), hyper{s2: 1}, &sums{}
	m.s.life = new(byte)
	m.place(oneKey, m.group(group{kind: ofAction}))
	if joint {
		m.group(group{kind: ofAction, a: actionField})
	}
}

// blockOf returns the place of the block that an action is in.
func (m *Model) blockOf(id uint64) int32 {
	if m.s.lay.joint {
		id = 0
	}
	k, ok := m.find.blocks[id]
	if !ok {
		k = int32(len(m.s.lay.ids))
		m.s.lay.ids = append(m.s.lay.ids, id)
		m.find.blocks[id] = k
	}
	return k
}

// at returns block k of a copy for a change; it is made if it is not there.
func (s *sums) at(k int32, h *hyper) *block {
	for int(k) >= len(s.blocks) {
		s.blocks = append(s.blocks, nil)
	}
	if s.blocks[k] == nil {
		s.blocks[k] = &block{post: posterior{mean: h.mean, s2: h.s2}}
	}
	return s.own(int(k))
}

// own returns block k for a change.
func (s *sums) own(k int) *block {
	if s.blocks[k].shared != nil {
		s.blocks[k] = s.blocks[k].clone()
	}
	return s.blocks[k]
}

// estimate returns the mean and the variance of the expected reward of a vector in block k, relative to the offset.
func (m *Model) estimate(s *sums, k int32, v *vector) (z, q float64) {
	var p *posterior
	if k >= 0 && int(k) < len(s.blocks) && s.blocks[k] != nil {
		p = &s.blocks[k].post
	} else {
		p = &posterior{mean: m.s.h.mean, s2: m.s.h.s2}
	}
	z = p.mean + p.estimate(v)
	q = p.quadratic(v, &m.s.h, m.s.lay.coords, &m.scratch)
	if len(v.tail) > 0 {
		tz, tq := tailEstimate(&s.tail, k, v, &m.s.h, p.s2)
		z, q = z+tz, q+tq
	}
	return z, q
}

// The methods of learner.

func (m *Model) see(f fieldKey, v float64) {
	if m.s.lay.fields[m.find.fields[f]].number || !m.s.grown {
		return
	}
	if m.s.shared != nil {
		m.s.numbers, m.s.shared = maps.Clone(m.s.numbers), nil
	}
	if m.s.numbers[f] = append(slices.Clip(m.s.numbers[f]), v); len(m.s.numbers[f]) >= scaleSize {
		m.ownFields()[m.find.fields[f]].scale(m.s.numbers[f])
		delete(m.s.numbers, f)
	}
}

// ownFields returns the fields for a change: readers have the list as it was.
func (m *Model) ownFields() []field {
	m.s.lay.fields = slices.Clone(m.s.lay.fields)
	return m.s.lay.fields
}

func (m *Model) level(at int32) { m.ownFields()[at].levels++ }

func (m *Model) field(f fieldKey) int32 {
	at := int32(len(m.s.lay.fields))
	m.s.lay.fields = append(m.s.lay.fields, field{key: f})
	m.find.fields[f] = at
	return at
}

func (m *Model) group(g group) int32 {
	at, ok := m.find.groups[g]
	if !ok {
		at = int32(len(m.s.lay.groups))
		m.s.lay.groups = append(m.s.lay.groups, g)
		m.find.groups[g] = at
		m.s.h.tau = append(slices.Clip(m.s.h.tau), m.s.h.first(g))
	}
	return at
}

func (m *Model) seenBefore(key uint64) bool { return m.s.seen.seenBefore(key) }

func (m *Model) room(g group) bool {
	limit := m.limit()
	switch {
	case g.kind == ofProducts, g.kind == ofIDs, g.kind == ofPlaces:
		limit = int(crossed * float64(limit))
	case g.kind > ofWavePairs && g.octave() == 3:
		limit = int(waveRoom * float64(limit))
	case g.kind > ofWavePairs:
		limit = int(midRoom * float64(limit))
	}
	return len(m.s.lay.coords) < limit
}

// limit is how many coordinates a block may have.
func (m *Model) limit() int {
	if m.s.lay.joint {
		return maxJoint
	}
	return min(maxCoords, int(math.Cbrt(4e7/float64(max(1, len(m.s.lay.ids))))))
}

func (m *Model) place(key uint64, g int32) int32 {
	at := int32(len(m.s.lay.coords))
	m.s.lay.coords = append(m.s.lay.coords, coord{key, g})
	m.find.coords[key] = at
	return at
}

// read makes the vector of an action, and learns what is new in it if so.
func (m *Model) read(context, action []Atom, learns bool) (k int32, v *vector) {
	var to learner
	if learns {
		to = m
	}
	id := action[0].Hash
	k = m.blockAt(id, learns)
	m.reading.context(&m.s.lay, &m.find, context, to)
	if m.s.lay.joint {
		m.reading.action(&m.s.lay, &m.find, id, action[1:], to)
	}
	return k, &m.reading.vector
}

// readNext is read of another action with the context that was read last, which is not learned.
func (m *Model) readNext(action []Atom) (k int32, v *vector) {
	if m.s.lay.joint {
		m.reading.action(&m.s.lay, &m.find, action[0].Hash, action[1:], nil)
	}
	return m.blockAt(action[0].Hash, false), &m.reading.vector
}

func (m *Model) blockAt(id uint64, learns bool) int32 {
	if learns {
		return m.blockOf(id)
	}
	if m.s.lay.joint {
		id = 0
	}
	if k, ok := m.find.blocks[id]; ok && int(k) < len(m.s.lay.ids) {
		return k
	}
	return -1
}

// Decided notes a decision that is to be judged when it is settled: its key, and the action that was played. Decisions
// are noted in their order. It costs d² operations for d values of the request, in the model and in each copy; 4,096 decisions
// that wait for a reward are kept, and later ones are learned and not judged.
func (m *Model) Decided(key uint64, context, action []Atom) {
	m.trial.decided++
	if m.trial.full() {
		return
	}
	p := pending{key: key, t: m.trial.decided, known: m.s.h.known(), open: uint32(m.trial.open + 1)}
	if p.known {
		k, v := m.read(context, action, false)
		p.z, p.q = m.estimate(m.s.main, k, v)
		for i, c := range m.s.copies {
			p.copies[i].born, p.copies[i].slot = c.born, c.slot
			p.copies[i].z, p.copies[i].q = m.estimate(c, k, v)
		}
	}
	m.trial.add(p)
}

// largest bounds the size of a reward, and of a number of a request.
const largest = 1e100

// Learn moves the model by the reward of a decision that was noted with this key, or of one that was not. y is finite; beyond
// ±10¹⁰⁰ it counts as that.
//
// It costs D² operations for D coordinates of the action's block, in the model and in each copy, and a slice of the estimate
// under way: about D³ for one block in an event (docs/design/default.md, cost).
func (m *Model) Learn(key uint64, context, action []Atom, y float64) {
	if m.s.h.lists != nil { // a list of one
		m.LearnList(key, context, []Entry{{Action: action, Y: y, Given: true}}, false)
		return
	}
	y = min(max(y, -largest), largest)
	if m.s.events == 0 {
		m.s.offset = y
	}
	m.s.events++
	m.s.t = m.trial.decided
	m.beginCopies()
	m.forget()
	y = m.learn(context, action, y, m.trial.decision(key, m.s.t))
	m.trial.settle(key, true, y)
	m.judge()
}

// Dropped notes that a decision gets no reward, at no cost that depends on the model. What is chosen next does not change before the next reward.
func (m *Model) Dropped(key uint64) {
	m.trial.settle(key, false, 0)
}

// earlyFits are the numbers of early events after which the scales of numbers are found, and all is learned again.
var earlyFits = [...]int{8, 16, 32}

// learn learns the reward of decision t, and returns what it counted as, relative to the offset.
func (m *Model) learn(context, action []Atom, y float64, t uint64) float64 {
	if !m.s.grown {
		m.s.early = append(m.s.early, event{context: slices.Clone(context), action: slices.Clone(action), y: y, t: t})
	}
	features := len(action) > 1 && !m.s.lay.joint
	if features || !m.s.grown && slices.Contains(earlyFits[:], len(m.s.early)) {
		m.s.lay.joint = m.s.lay.joint || features
		return m.restart(context, action, y, t)
	}
	return m.take(m.s.events, context, action, y-m.s.offset, t)
}

// restart learns the early events again, with what is known of the scales of numbers by now, and relative to the median
// of their rewards: the first one may be far from all others. When they are not kept any more the model begins with this
// event.
func (m *Model) restart(context, action []Atom, y float64, t uint64) float64 {
	m.empty(m.s.lay.joint)
	m.s.copies, m.s.fit = nil, nil
	m.s.n, m.s.next, m.s.extremes, m.s.seen = 0, firstFit, extremes{}, sketch{}
	if m.s.grown {
		m.s.numbers, m.s.shared = map[fieldKey][]float64{}, nil
		return m.take(m.s.events, context, action, y-m.s.offset, t)
	}
	m.scales()
	var rewards []float64
	for _, e := range m.s.early {
		rewards = append(rewards, e.y)
	}
	slices.Sort(rewards)
	m.s.offset = rewards[(len(rewards)-1)/2]
	for i, e := range m.s.early {
		y = m.take(uint64(i+1), e.context, e.action, e.y-m.s.offset, e.t)
	}
	if m.s.grown = len(m.s.early) >= earlyFits[len(earlyFits)-1]; m.s.grown {
		m.s.early = nil
	}
	return y
}

// scales fixes the scale of each number of which the early events have some values.
func (m *Model) scales() {
	m.s.numbers, m.s.shared = map[fieldKey][]float64{}, nil
	var order []fieldKey
	note := func(f fieldKey, v float64) {
		if m.s.numbers[f] == nil {
			order = append(order, f)
		}
		m.s.numbers[f] = append(m.s.numbers[f], v)
	}
	fix := func() {
		for _, f := range order {
			if v := m.s.numbers[f]; len(v) >= fewValues {
				m.s.lay.fields[m.field(f)].scale(v)
				delete(m.s.numbers, f)
			}
		}
		order = order[:0]
	}
	for _, e := range m.s.early {
		for _, a := range e.context {
			if a.number() {
				note(a.field(), a.Value)
			}
		}
		for _, x := range e.entries() {
			for _, a := range x.Action[1:] {
				if a.number() {
					note(a.field()|actionField, a.Value)
				}
			}
		}
	}
	fix()
	r := &m.reading
	for _, e := range m.s.early {
		r.scan(&m.s.lay, &m.find, 0, e.context, nil)
		for _, x := range e.entries() {
			r.scan(&m.s.lay, &m.find, actionField, x.Action[1:], nil)
			r.comparisons(&m.s.lay, note)
		}
	}
	fix()
}

// fewValues is how many values of a number fix its scale among the early events.
const fewValues = 6

// take learns an event, which has a number from 1 on.
func (m *Model) take(number uint64, context, action []Atom, y float64, t uint64) float64 {
	k, v := m.read(context, action, true)
	m.s.n++
	y = m.bound(record{event: number, t: t, block: k, weight: 1, raw: y}, v)
	m.s.main.learn(m, k, v, y)
	for _, c := range m.s.copies {
		if c.born < t {
			c.learn(m, k, v, y)
		}
	}
	m.estimates()
	return y
}

// bound returns what the reward of an event counts as, and corrects what earlier ones counted as: those that are among the
// extremes, and those that are no more.
func (m *Model) bound(r record, v *vector) float64 {
	x := &m.s.extremes
	before := [2][]record{x.top, x.low}
	x.top, x.low = rank(x.top, r, higher), rank(x.low, r, lower)
	lo, hi := x.bounds()
	fix := func(c *record) {
		if y := counts(c.raw, lo, hi, m.s.h.mean); y != c.y {
			m.correct(c, y)
		}
	}
	for i := range before { // an event may be in both lists
		for k := range before[i] {
			if c := &before[i][k]; i == 0 || !holds(before[0], c.event) {
				fix(c)
			}
		}
	}
	r.y = counts(r.raw, lo, hi, m.s.h.mean)
	for _, list := range []*[]record{&x.top, &x.low} {
		own := slices.Clone(*list) // readers have the list as it was
		for i := range own {
			if own[i].event == r.event {
				if r.v.at == nil {
					r.v = v.clone()
				}
				own[i].v = r.v
			}
			own[i].y = counts(own[i].raw, lo, hi, m.s.h.mean)
		}
		*list = own
	}
	return r.y
}

// holds reports whether a list has an event.
func holds(list []record, event uint64) bool {
	return slices.ContainsFunc(list, func(r record) bool { return r.event == event })
}

// correct changes what the reward of an event counts as.
func (m *Model) correct(r *record, y float64) {
	for _, s := range append([]*sums{m.s.main}, m.s.copies...) {
		if s != m.s.main && s.born >= r.t {
			continue
		}
		if m.s.h.lists != nil {
			m.correctAt(s, r, y)
			continue
		}
		b := s.at(r.block, &m.s.h)
		b.grow(&m.s.h, m.s.lay.coords)
		b.correct(&r.v, r.y, y, r.weight, m.s.h.known(), &m.scratch)
		if m.s.h.known() {
			for i := range r.v.tail {
				l := &r.v.tail[i]
				c := s.tail.change(tailKey(r.block, l.key), l.group)
				c.r += float64(l.x * float64(r.weight*(y-r.y)))
				s.tail.settle(c)
			}
		}
		b.digest()
	}
}

// learn moves a copy by one event.
func (s *sums) learn(m *Model, k int32, v *vector, y float64) {
	b := s.at(k, &m.s.h)
	b.grow(&m.s.h, m.s.lay.coords)
	known := m.s.h.known()
	var expects float64
	if len(v.tail) > 0 {
		expects, _ = tailEstimate(&s.tail, k, v, &m.s.h, b.post.s2)
	}
	b.learn(v, y-expects, y, known, &m.scratch)
	var e float64
	if known {
		e = y - b.post.mean - expects - b.post.estimate(v)
		e /= max(1, s.tail.gain(k, v, &m.s.h, b.post.s2))
	}
	for i := range v.tail {
		l := &v.tail[i]
		c := s.tail.change(tailKey(k, l.key), l.group)
		own := float64(l.x*c.r) / (c.n + b.post.s2/m.s.h.prior(l.group))
		c.r += float64(l.x * (e + own))
		c.n += float64(l.x * l.x)
		c.last = uint32(m.s.events)
		s.tail.settle(c)
		if l.value && !m.s.lay.joint {
			any := s.tail.change(tailKey(anyBlock, l.key), l.group)
			any.last = uint32(m.s.events)
			s.tail.settle(any)
		}
	}
	b.digest()
}

package effects

import (
	"slices"
)

// A list is several actions in an order, of which each has a reward. The reward of the entry at position l is
//
//	y_l = e_s·φ(x, i, B)ᵀθ_φ + ψ(l, i)ᵀθ_ψ + ε,   ε ~ N(0, σ_s²),   s = (l, was an entry above rewarded),
//
// where φ has the groups of an action with features and, for each field of words of the actions, whether an entry above
// has the same value (ofRepeated, ofRepeatedValues); ψ has the position and item × position. e_s is the examination, a
// learned scale: 1 at the first position, elsewhere N(1, scaleSpread), and below a reward N(that of the position, scaleSpread). σ_s² is
// learned by position, too. The group item × position is behind a gate: until the evidence for it is gateOpens nats its
// variance is that of nothing.
//
// An entry with scale e and noise σ_s² is learned as the vector e√w·φ + √w·ψ with the reward √w·y, w = σ²/σ_s², so the
// block, its posterior and the variances of groups are those of one action. What is learned of e and σ_s² changes the past
// too: the sums of each place are kept without them (placed), and the block's are made of them at each estimate. No mean
// is subtracted: e multiplies the constant, which is a coefficient as the others.

// places is how many places of a list have sums of their own: positions 1, 2, 3, 4, 5–6, 7–9 and from 10 on, each without
// and with a reward above.
const (
	places  = 2 * classes
	classes = 7
)

// placeOf is the place of a position, from 0, in sums.
func placeOf(position int, above bool) int {
	c := position
	switch {
	case position >= 9:
		c = 6
	case position >= 6:
		c = 5
	case position >= 4:
		c = 4
	}
	if above {
		return c + classes
	}
	return c
}

// scales are what is learned of the places of lists. They never change: an estimate makes new ones.
type scales struct {
	e, s2 [places]float64
	n     [places]float64 // weight of the events at the last estimate
	prec  [places]float64 // precision of e, in units of 1
	open  bool            // the gate
	gain  float64         // evidence for what is behind the gate, in nats
	any   bool            // something is behind it
}

func newScales() *scales {
	l := &scales{}
	for i := range l.e {
		l.e[i], l.s2[i] = 1, 1
	}
	return l
}

// placed are the sums of a place in a block, without scale and noise.
type placed struct {
	n, sy, syy float64
	rest       float64   // Σ of the squares of y less what the tail expects
	a          []float64 // Σ xxᵀ
	v          []float64 // Σ x(y − tail)
	shared     *share
}

func (p *placed) clone() *placed {
	c := *p
	c.a, c.v, c.shared = copied(p.a), copied(p.v), nil
	return &c
}

func (p *placed) grow(d int) {
	for j := len(p.v); j < d; j++ {
		p.v = append(p.v, 0)
		p.a = append(p.a, make([]float64, j+1)...)
	}
}

// ownPlace returns the sums of a place for a change.
func (b *block) ownPlace(at int) *placed {
	for len(b.placed) < places {
		b.placed = append(b.placed, nil)
	}
	switch p := b.placed[at]; {
	case p == nil:
		b.placed[at] = &placed{}
	case p.shared != nil:
		b.placed[at] = p.clone()
	}
	return b.placed[at]
}

// unscaled reports whether the coefficients of a group are not multiplied by the examination.
func (g group) unscaled() bool { return g.kind == ofPosition || g.kind == ofPlaces }

// gated reports whether a group is behind the gate.
func (g group) gated() bool { return g.kind == ofPlaces }

// listBases are the first guesses of the groups' variances of a model of lists, as shares of the variance of the rewards.
var listBases = [...]float64{ofAction: .15, ofValues: .05, ofSlope: .05, ofRanges: .05, ofPairs: .05, ofGrid: .05,
	ofProducts: .05, ofIDs: .1, ofRepeated: .15, ofRepeatedValues: .05, ofPosition: .05, ofPlaces: .05}

// listBase is that of a group. That of the constant is its square, and not asked for here.
func (g group) listBase() float64 {
	if g.kind == ofValues|ofOwnFeatures {
		return .1
	}
	return listBases[g.kind&(ofOwnFeatures-1)]
}

// Entry is one entry of a list as it is learned.
type Entry struct {
	Action []Atom
	Y      float64
	Given  bool // it has a reward, Y: otherwise it was shown and nothing is known
}

// above are the values of entries above a position.
type above []uint64

func (s *above) add(action []Atom) {
	for i := range action[1:] {
		if a := &action[1+i]; !a.number() && !slices.Contains(*s, a.Hash) {
			*s = append(*s, a.Hash)
		}
	}
}

// entry makes the vector of an action at a position in the context that was read last. repeats are the values of the entries
// above.
func (m *Model) entry(action []Atom, position int, repeats above, learns bool) *vector {
	var to learner
	if learns {
		to = m
	}
	r, l, x := &m.reading, &m.s.lay, &m.find
	id := action[0].Hash
	r.action(l, x, id, action[1:], to)
	if len(repeats) > 0 {
		var last fieldKey
		for i := range action[1:] {
			a := &action[1+i]
			if a.number() || !slices.Contains(repeats, a.Hash) {
				continue
			}
			f := a.field() | actionField
			if f != last {
				r.put(l, x, repeatKey(f), group{kind: ofRepeated, a: f}, 1, to)
			}
			last = f
			if key := repeatedKey(a.Hash); r.has(l, x, key) || to != nil && to.seenBefore(key) {
				r.put(l, x, key, group{kind: ofRepeatedValues, a: f}, 1, to)
			}
		}
	}
	if position >= 0 {
		r.put(l, x, positionKey(position), group{kind: ofPosition}, 1, to)
		if idKey := mix2(id, 4); r.has(l, x, idKey) {
			g := group{kind: ofPlaces}
			if key := mix2(idKey, uint64(position)+9); r.has(l, x, key) || to != nil && to.room(g) {
				r.put(l, x, key, g, 1, to)
			}
		}
	}
	r.sort()
	return &r.vector
}

func repeatKey(f fieldKey) uint64 { return mix2(uint64(f)|6<<32, 1) }

func repeatedKey(hash uint64) uint64 { return mix2(hash, 6) }

func positionKey(position int) uint64 { return mix2(7<<32, uint64(position)) }

// has reports whether a key has a coordinate.
func (r *reading) has(l *layout, x *index, key uint64) bool {
	j, ok := x.coords[key]
	return ok && int(j) < len(l.coords)
}

// scaled makes of a vector the one that a block learns: e√w on coordinates of φ, √w on those of ψ.
func (m *Model) scaled(v *vector, e, root float64) {
	by := float64(e * root)
	groups := m.s.lay.groups
	for i, j := range v.at {
		if groups[m.s.lay.coords[j].group].unscaled() {
			v.x[i] = float64(v.x[i] * root)
		} else {
			v.x[i] = float64(v.x[i] * by)
		}
	}
	for i := range v.tail {
		if groups[v.tail[i].group].unscaled() {
			v.tail[i].x = float64(v.tail[i].x * root)
		} else {
			v.tail[i].x = float64(v.tail[i].x * by)
		}
	}
}

// weight returns √w of a place.
func (h *hyper) root(place int) float64 {
	if !h.known() {
		return 1
	}
	return sqrt(h.s2 / h.lists.s2[place])
}

// LearnList moves the model by the rewards of a list that was noted with this key (DecidedList), or of one that was not.
// Entries are those that were shown, from the top. whole: the list has one reward, that of the first entry; the others have
// none. A model whose first events were of actions without features begins anew with its first list, from the early events
// as far as they are kept: a list compares actions in one block.
//
// It costs what Learn costs for an action with features, for each entry with a reward.
func (m *Model) LearnList(key uint64, context []Atom, entries []Entry, whole bool) {
	if !slices.ContainsFunc(entries, func(e Entry) bool { return e.Given }) || whole && !entries[0].Given {
		m.Dropped(key)
		return
	}
	entries = slices.Clone(entries)
	for i := range entries {
		entries[i].Y = min(max(entries[i].Y, -largest), largest)
	}
	m.s.events++
	m.s.t = m.trial.decided
	m.beginCopies()
	m.forget()
	t := m.trial.decision(key, m.s.t)
	if !m.s.grown {
		m.s.early = append(m.s.early, event{context: slices.Clone(context), list: cloneEntries(entries), whole: whole, t: t})
	}
	var y []float64
	if m.s.h.lists == nil || !m.s.grown && slices.Contains(earlyFits[:], len(m.s.early)) {
		y = m.restartLists(context, entries, whole, t)
	} else {
		y = m.takeList(context, entries, whole, t)
	}
	m.settleList(key, entries, y, whole)
	m.judge()
}

func cloneEntries(entries []Entry) []Entry {
	out := slices.Clone(entries)
	for i := range out {
		out[i].Action = slices.Clone(out[i].Action)
	}
	return out
}

// restartLists learns the early events again as lists, and returns what the rewards of the last one counted as.
func (m *Model) restartLists(context []Atom, entries []Entry, whole bool, t uint64) (y []float64) {
	m.empty(true)
	m.s.h.lists, m.s.lay.lists = newScales(), true
	m.s.copies, m.s.fit, m.s.offset = nil, nil, 0
	m.s.n, m.s.next, m.s.extremes, m.s.seen = 0, firstFit, extremes{}, sketch{keys: make([]uint64, listSketch)}
	if m.s.grown {
		m.s.numbers, m.s.shared = map[fieldKey][]float64{}, nil
		return m.takeList(context, entries, whole, t)
	}
	m.scales()
	for _, e := range m.s.early {
		y = m.takeList(e.context, e.entries(), e.whole, e.t)
	}
	if m.s.grown = len(m.s.early) >= earlyFits[len(earlyFits)-1]; m.s.grown {
		m.s.early = nil
	}
	return y
}

// takeList learns a list. It returns what its rewards counted as.
func (m *Model) takeList(context []Atom, entries []Entry, whole bool, t uint64) (ys []float64) {
	k := m.blockAt(0, true)
	m.reading.context(&m.s.lay, &m.find, context, m)
	var seen above
	if whole {
		v := m.wholeVector(entries, true)
		ys = append(ys, m.place1(k, &v, entries[0].Y, 0, t))
		m.estimates()
		return ys
	}
	rewarded := false
	for l := range entries {
		e := &entries[l]
		v := m.entry(e.Action, l, seen, true)
		seen.add(e.Action)
		if !e.Given {
			ys = append(ys, 0)
			continue
		}
		c := v.clone()
		ys = append(ys, m.place1(k, &c, e.Y, placeOf(l, rewarded), t))
		rewarded = rewarded || e.Y > 0
	}
	m.estimates()
	return ys
}

// wholeVector is the sum of the vectors of the entries.
func (m *Model) wholeVector(entries []Entry, learns bool) vector {
	var seen above
	var sum vector
	for l := range entries {
		v := m.entry(entries[l].Action, l, seen, learns)
		seen.add(entries[l].Action)
		sum.add(v)
	}
	return sum
}

// add adds a vector, and keeps coordinates in ascending order.
func (v *vector) add(w *vector) {
	for i, j := range w.at {
		at, ok := slices.BinarySearch(v.at, j)
		if !ok {
			v.at, v.x = slices.Insert(v.at, at, j), slices.Insert(v.x, at, 0)
		}
		v.x[at] += w.x[i]
	}
	for _, l := range w.tail {
		if i := slices.IndexFunc(v.tail, func(t loose) bool { return t.key == l.key }); i >= 0 {
			v.tail[i].x += l.x
		} else {
			v.tail = append(v.tail, l)
		}
	}
}

// place1 learns one reward of a list at a place, and returns what it counted as. It keeps v.
func (m *Model) place1(k int32, v *vector, y float64, place int, t uint64) float64 {
	m.s.n++
	m.s.rewards++
	y = m.bound(record{event: m.s.rewards, t: t, block: k, place: place, weight: 1, raw: y}, v)
	m.s.main.learnAt(m, k, v, y, place)
	for _, c := range m.s.copies {
		if c.born < t {
			c.learnAt(m, k, v, y, place)
		}
	}
	return y
}

// learnAt moves a copy by one reward of a list.
func (s *sums) learnAt(m *Model, k int32, v *vector, y float64, place int) {
	b := s.at(k, &m.s.h)
	b.grow(&m.s.h, m.s.lay.coords)
	p := b.ownPlace(place)
	p.grow(len(m.s.lay.coords))
	root := m.s.h.root(place)
	w := v.clone()
	m.scaled(&w, m.s.h.lists.e[place], root)
	rest := y
	if len(w.tail) > 0 {
		expects, _ := tailEstimate(&s.tail, k, &w, &m.s.h, b.post.s2)
		rest -= expects / root
	}
	p.n++
	p.sy += y
	p.syy += float64(y * y)
	p.rest += float64(rest * rest)
	for i, j := range v.at {
		row := p.a[triangle(int(j)):]
		for k := range i + 1 {
			row[v.at[k]] += float64(v.x[i] * v.x[k])
		}
		p.v[j] += float64(v.x[i] * rest)
	}
	s.learn(m, k, &w, float64(y*root))
}

// correctAt changes what a reward of a list counts as.
func (m *Model) correctAt(s *sums, r *record, y float64) {
	b := s.at(r.block, &m.s.h)
	b.grow(&m.s.h, m.s.lay.coords)
	p := b.ownPlace(r.place)
	p.grow(len(m.s.lay.coords))
	delta := float64(r.weight * (y - r.y))
	p.sy += delta
	squares := float64(r.weight * (float64(y*y) - float64(r.y*r.y)))
	p.syy += squares
	p.rest += squares
	for i, j := range r.v.at {
		p.v[j] += float64(r.v.x[i] * delta)
	}
	root := m.s.h.root(r.place)
	w := r.v.clone()
	m.scaled(&w, m.s.h.lists.e[r.place], root)
	b.correct(&w, float64(r.y*root), float64(y*root), r.weight, m.s.h.known(), &m.scratch)
	b.digest()
}

// Examination is what a model of lists has learned of a position.
type Examination struct {
	From, To int     // positions that are learned together, from 0; To is -1 where all from From on are
	Scale    float64 // e: 1 at the first position
	Below    float64 // e below an entry with a reward
	Sd       float64 // standard deviation of Scale, the coefficients unknown too; 0 at the first position, which is the unit
	SdBelow  float64
	Rewards  float64 // that were learned at the position, and below a reward
	RewBelow float64
}

// Examined returns what is known of the positions up to the last one with rewards, nil for a model without lists.
func (m *Model) Examined() (out []Examination) {
	l := m.s.h.lists
	if l == nil {
		return nil
	}
	last := 0
	for c := range classes {
		if l.n[c] > 0 || l.n[c+classes] > 0 {
			last = c
		}
	}
	for c, from := range []int{0, 1, 2, 3, 4, 6, 9}[:last+1] {
		x := Examination{From: from, To: []int{0, 1, 2, 3, 5, 8, -1}[c], Scale: l.e[c], Below: l.e[c+classes], Rewards: l.n[c], RewBelow: l.n[c+classes]}
		if c > 0 && l.prec[c] > 0 {
			x.Sd = 1 / sqrt(l.prec[c])
		}
		if l.prec[c+classes] > 0 {
			x.SdBelow = 1 / sqrt(l.prec[c+classes])
		}
		out = append(out, x)
	}
	return out
}

// Gate returns whether item × position plays, and the evidence for it in nats. There is none where nothing is known of
// items at positions.
func (m *Model) Gate() (open bool, nats float64, any bool) {
	if l := m.s.h.lists; l != nil {
		return l.open, l.gain, l.any
	}
	return false, 0, false
}

package effects

// listExpected is what was expected of an entry of a list when it was decided.
type listExpected struct {
	main   expectedAt
	copies [4]expectedAt
}

// expectedAt is what a copy expected of an entry: without and with a reward above.
type expectedAt struct {
	z [2]float64
	q float64
}

// DecidedList notes the decision of a list that is to be judged when it is settled: its key, and the actions that were played,
// from the top. It costs what Decided costs for each entry, once there are copies of the model.
func (m *Model) DecidedList(key uint64, context []Atom, actions [][]Atom) {
	m.trial.decided++
	if m.trial.full() {
		return
	}
	p := pending{key: key, t: m.trial.decided, open: uint32(m.trial.open + 1)}
	if p.known = m.s.h.known() && m.s.h.lists != nil && len(m.s.copies) > 0; p.known {
		p.list = make([]listExpected, len(actions))
		for i, c := range m.s.copies {
			p.copies[i].born, p.copies[i].slot = c.born, c.slot
		}
		m.reading.context(&m.s.lay, &m.find, context, nil)
		var seen above
		for l, a := range actions {
			v := m.entry(a, l, seen, false).clone()
			seen.add(a)
			p.list[l].main = m.expectsAt(m.s.main, &v, l)
			for i, c := range m.s.copies {
				p.list[l].copies[i] = m.expectsAt(c, &v, l)
			}
		}
	}
	m.trial.add(p)
}

func (m *Model) expectsAt(s *sums, v *vector, l int) (x expectedAt) {
	for above := range 2 {
		w := v.clone()
		m.scaled(&w, m.s.h.lists.e[placeOf(l, above == 1)], 1)
		z, q := m.estimate(s, 0, &w)
		if x.z[above] = z; above == 0 {
			x.q = q
		}
	}
	return x
}

// settleList notes the rewards of a list: the evidence for each copy is the mean of its entries', for they are those of one
// visitor. y is what they counted as.
func (m *Model) settleList(key uint64, entries []Entry, y []float64, whole bool) {
	t := m.trial
	at, ok := t.at[key]
	if !ok {
		return
	}
	p := &t.queue[at-t.first]
	if p.done {
		return
	}
	t.open--
	p.done, p.given = true, true
	if len(p.list) < len(entries) || whole { // of one reward nothing is judged
		p.known = false
		return
	}
	// One pending decision whose expectations and reward have the mean of the entries' evidence is made at once, because
	// noise and examination of the places are those of now.
	p.evidence = &[4]float64{}
	n, rewarded := 0., 0
	for l := range entries {
		e := &entries[l]
		if !e.Given {
			continue
		}
		n++
		sd := sqrt(m.s.h.lists.s2[placeOf(l, rewarded == 1)])
		for i := range p.copies {
			if p.copies[i].born == 0 {
				continue
			}
			x, o := p.list[l].main, p.list[l].copies[i]
			p.evidence[i] += evidenceFor(sd, y[l], x.z[rewarded], o.z[rewarded], float64(float64(p.open)*max(x.q, o.q)))
		}
		if e.Y > 0 {
			rewarded = 1
		}
	}
	for i := range p.evidence {
		p.evidence[i] /= max(n, 1)
	}
	p.list = nil
}

package effects

import "troupe/internal/linalg"

// Curve computes what the model expects of an action where its knob number knob, from 0, is at each place of u in [0, 1], and the others are as
// they stand: means, and standard deviations under the variances of groups and noise as they were estimated. It reports whether the
// action has such a knob; mean and sd are as long as u. The model does not change. It costs O(R·D² + len(u)·R²) for R waves of the request and D coordinates.
func Curve(m *Model, context, action []Atom, knob int, u, mean, sd []float64) bool {
	at := 0
	for i := 1; i < len(action) && at == 0; i++ {
		if !action[i].played() {
			continue
		}
		if knob == 0 {
			at = i
		}
		knob--
	}
	if at == 0 {
		return false
	}
	cells := make([][]Atom, len(u))
	for i := range cells {
		cells[i] = append([]Atom(nil), action...)
		cells[i][at].Value = u[i]
	}
	m.reading.context(&m.s.lay, &m.find, context, nil)
	id := action[0].Hash
	m.reading.curveAction(&m.s.lay, &m.find, id, action[1:])
	c := &m.drawing.curve
	r := m.curveOf(c, id)
	c.cells(&m.reading, cells, r)
	m.moments(c, m.s.main, m.blockAt(id, false), r)
	for i := range u {
		h := c.rows[i*r:][:r]
		mean[i] = linalg.Dot(h, c.mean[:r]) + m.s.offset
		v := 0.
		for j := range r {
			row := c.s[j*r:][:r]
			v += float64(h[j] * (float64(row[j]*h[j]) + float64(2*linalg.Dot(h[:j], row[:j]))))
		}
		sd[i] = sqrt(max(v, 0))
	}
	return true
}

// BestList returns the list of the largest expected value among some actions, the candidate at each position, and what each
// entry is expected to earn below those above it, none of them rewarded; nil for a model that has learned no list. The search is that of the draws: approximate says
// that it may have missed the best one. The model does not change.
func BestList(m *Model, context []Atom, actions [][]Atom, shape ListShape) (list []int32, value []float64, approximate bool) {
	if m.s.h.lists == nil || shape.K < 1 || shape.K > len(actions) {
		return nil, nil, false
	}
	d, n := &m.lists, len(actions)
	d.out.Places = m.s.h.lists.open
	d.read(m, context, actions, shape.K)
	d.scales(m, shape.K)
	d.expects(m, n, shape.K)
	s := &d.search
	s.begin(n, shape, d.out.Scale, d.again[:n], d.out.Places)
	p := &posterior{s2: m.s.h.s2}
	if b := m.s.main.blocks; len(b) > 0 && b[0] != nil {
		p = &b[0].post
	}
	of := func(j int32) float64 {
		if int(j) < len(p.m) {
			return p.m[j]
		}
		return 0
	}
	d.from = -1 // few is that of no draw
	d.few = resize(d.few, n)
	s.a = d.few
	for i := range n {
		s.a[i] = d.attraction(m, p, i)
		for _, t := range d.pos[i] {
			s.extra[i*shape.K+t.l] += of(t.at)
		}
	}
	for i, at := range d.terms {
		s.x[i] = of(d.used[at-1])
	}
	list = make([]int32, shape.K)
	approximate = s.best(list)
	for l, i := range list {
		v := d.out.Value[int(i)*shape.K+l]
		for _, r := range s.again[i] {
			for _, above := range list[:l] {
				if s.values > 0 && s.holds(above, r.value) {
					v += float64(d.out.Scale[l] * s.x[r.x])
					break
				}
			}
		}
		value = append(value, v)
	}
	return list, value, approximate
}

package ope

import (
	"strings"

	"troupe/logged"
)

// listKey is an action at a position: by its id where it has one.
type listKey struct {
	slot, action int
	id           string
}

// mostListCells bounds what a model of lists keeps, about 60 bytes each.
const mostListCells = 1 << 18

// listCell is Σ r and their number.
type listCell struct {
	n int
	r sum
}

// listModel predicts the reward of an action at a position: (Σ r + 5 mean)/(n + 5), mean that of the position. It is 0 before the
// first fit. Estimators use it on later lists only.
type listModel struct {
	cells     map[listKey]*listCell
	positions []listCell
}

func cellOf(ev *logged.Event, slot, action int) listKey {
	if action < len(ev.Actions) && ev.Actions[action].ID != "" {
		return listKey{slot, -1, ev.Actions[action].ID}
	}
	return listKey{slot, action, ""}
}

func (m *listModel) cell(k listKey) *listCell {
	c := m.cells[k]
	if c == nil && len(m.cells) < mostListCells {
		if m.cells == nil {
			m.cells = map[listKey]*listCell{}
		}
		k.id = strings.Clone(k.id)
		c = &listCell{}
		m.cells[k] = c
	}
	return c
}

// add learns from a list.
func (m *listModel) add(ev *logged.Event) {
	for len(m.positions) < len(ev.Slots) {
		m.positions = append(m.positions, listCell{})
	}
	for l := range ev.Slots {
		s := &ev.Slots[l]
		m.positions[l].n++
		m.positions[l].r.add(s.Reward)
		if c := m.cell(cellOf(ev, l, s.Allowed[0])); c != nil {
			c.n++
			c.r.add(s.Reward)
		}
	}
}

// merge adds what the lists that come next say.
func (m *listModel) merge(o *listModel) {
	for len(m.positions) < len(o.positions) {
		m.positions = append(m.positions, listCell{})
	}
	for l := range o.positions {
		m.positions[l].n += o.positions[l].n
		m.positions[l].r.merge(o.positions[l].r)
	}
	if len(m.cells)+len(o.cells) > mostListCells { // which cells there is room for must not depend on the order of a map
		return
	}
	for k, x := range o.cells {
		c := m.cell(k)
		c.n += x.n
		c.r.merge(x.r)
	}
}

// clone is the model as it is now.
func (m *listModel) clone() *listModel {
	c := &listModel{positions: append([]listCell(nil), m.positions...), cells: make(map[listKey]*listCell, len(m.cells))}
	for k, x := range m.cells {
		y := *x
		c.cells[k] = &y
	}
	return c
}

// predict is q_l(a). Of a nil model it is 0.
func (m *listModel) predict(ev *logged.Event, slot, action int) float64 {
	if m == nil || slot >= len(m.positions) {
		return 0
	}
	p := &m.positions[slot]
	mean := p.r.value() / float64(p.n)
	c := m.cells[cellOf(ev, slot, action)]
	if c == nil {
		return mean
	}
	return (c.r.value() + float64(5*mean)) / float64(c.n+5)
}

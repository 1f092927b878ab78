package fold

import (
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/policy"
)

// list returns that of an open event, nil for an action.
func (w *windows) list(key eventlog.Event) *openList { return w.lists[key] }

func (w *windows) openList(key eventlog.Event, l *openList) {
	if w.lists == nil {
		w.lists = map[eventlog.Event]*openList{}
	}
	w.lists[key] = l
}

// Positions is what is known of the list of an event with an open window.
type Positions struct {
	K     int
	Shown int
	Y     []float64 // nil where the list has one reward
	Given []bool
}

// List returns what is known of the list of an event with an open window, not ok where there is none.
func (w *windows) List(key eventlog.Event) (p Positions, ok bool) {
	l := w.lists[key]
	if l == nil {
		return p, false
	}
	p.K, p.Shown, p.Y = int(l.k), int(l.shown), slices.Clone(l.y)
	for i := range l.y {
		p.Given = append(p.Given, l.has(i))
	}
	return p, true
}

// learnList moves a model by the rewards of a list. defaulted are the positions whose reward is a default. A list without a
// policy that learns it is counted.
func (t *teacher) learnList(m *Model, atoms []byte, l *openList, defaulted uint64, key eventlog.Event) error {
	if !m.HasPolicy() {
		return nil
	}
	if err := t.policies.wake(m); err != nil {
		return err
	}
	if m.Compiled.Atoms == nil || len(atoms) == 0 {
		m.Counts.Ignored++
		return nil
	}
	y, given := make([]float64, l.k), make([]bool, l.k)
	n := int(l.shown)
	for p := range min(n, len(l.y)) {
		if l.has(p) {
			y[p], given[p] = m.clamp(l.y[p], t.at.seq), true
			t.rewarded(m, y[p], defaulted>>p&1 == 0)
		}
	}
	return t.moveList(m, atoms, n, y, given, false, key)
}

// learnWhole moves a model by the one reward of a list. given is false for a default.
func (t *teacher) learnWhole(m *Model, atoms []byte, shown int, y float64, given bool, key eventlog.Event) error {
	if !m.HasPolicy() {
		return nil
	}
	if err := t.policies.wake(m); err != nil {
		return err
	}
	if m.Compiled.Atoms == nil || len(atoms) == 0 || shown == 0 {
		m.Counts.Ignored++
		return nil
	}
	y = m.clamp(y, t.at.seq)
	t.rewarded(m, y, given)
	return t.moveList(m, atoms, shown, []float64{y}, []bool{true}, true, key)
}

func (t *teacher) moveList(m *Model, atoms []byte, shown int, y []float64, given []bool, whole bool, key eventlog.Event) error {
	if done := m.cost.measure(); done != nil {
		defer done()
	}
	t.policies.Settle(m)
	entries, err := t.vectors.list(m, atoms)
	if t.brief && err == nil && m.state.retire() {
		m.policy.(policy.Sharer).Reclaim()
		m.dropState()
	}
	if c, ok := m.policy.(policy.Clocked); ok {
		c.Tick(t.at.now)
	}
	if err == nil {
		entries = entries[:min(shown, len(entries))]
		if p, ok := bandit.Innermost(m.policy).(policy.Lister); ok {
			err = p.SettledList(eventKey(key), entries, y, given, whole)
		} else {
			err = fmt.Errorf("the policy learns no lists")
		}
	}
	if err != nil {
		m.refuse(err, t.at.seq)
	} else {
		m.Counts.Learned++
	}
	return t.touch(m)
}

// decidedList lets a policy that looks at decisions see a list.
func (t *teacher) decidedList(m *Model, r *eventlog.Decision, key eventlog.Event) error {
	if !m.HasPolicy() || !m.Compiled.Witnesses() || m.Compiled.Atoms == nil {
		return nil
	}
	if err := t.policies.wake(m); err != nil {
		return err
	}
	p, ok := bandit.Innermost(m.policy).(policy.Lister)
	if !ok {
		return nil
	}
	if entries, err := t.vectors.list(m, r.Atoms); err == nil {
		_ = p.DecidedList(eventKey(key), entries) // entries that are refused are refused with their rewards
	}
	return nil
}

// list makes the vectors of the entries of a list. They have memory of their own.
func (v *vectors) list(m *Model, atoms []byte) (entries []bandit.Action, err error) {
	context, rest, err := feature.ReadAtoms(nil, atoms)
	for err == nil && len(rest) > 0 {
		var action []feature.Atom
		if action, rest, err = feature.ReadAtoms(nil, rest); err != nil || len(action) == 0 {
			break
		}
		at, x := m.Compiled.Atoms.AppendVector(nil, nil, context, action)
		entries = append(entries, bandit.Action{At: at, X: x, Index: bandit.NoIndex})
	}
	if err == nil && (len(rest) > 0 || len(entries) == 0) {
		err = fmt.Errorf("the atoms of a decision are not those of a context and a list")
	}
	return entries, err
}

// list writes what the window of an event has of a list.
func (w *writer) list(l *openList) {
	w.b = append(w.b, listWindow, l.k, l.shown)
	w.bool(l.whole)
	w.bool(l.learned)
	w.fixed(l.given)
	for _, y := range l.y {
		w.fixed(math.Float64bits(y))
	}
}

func (r *reader) list() *openList {
	l := &openList{k: r.byte(), shown: r.byte(), whole: r.bool(), learned: r.bool(), given: r.fixed()}
	if l.k == 0 || l.k > eventlog.MaxPositions || l.shown > l.k || l.given>>l.k != 0 {
		r.fail("a list of no positions")
		return nil
	}
	if !l.whole {
		l.y = make([]float64, l.k)
		for i := range l.y {
			l.y[i] = math.Float64frombits(r.fixed())
		}
	}
	return l
}

// KnownKey reports whether a reward of an event had this key.
func (w *windows) KnownKey(event eventlog.Event, key eventlog.ID) bool {
	return slices.Contains(w.rewardKeys[event], key)
}

package fold

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"

	"troupe/budget"
	"troupe/eventlog"
	"troupe/serve/model"
)

// Spending is the state of a model's budget: the price and what was spent. It is a fold over the decisions that were
// made under it and what became of their costs; a rollback keeps it, because what was spent is spent. A decision
// reserves the stated cost of its action. The first call that says what it cost pays that in its place, the end of its
// window pays the stated cost, or nothing when it was deferred and never activated. Decisions that played a baseline
// spend nothing.
type Spending struct {
	budget.Pacer
	Seq uint64 // entry that changed it last
}

// beginBudget gives a model the state of its budget, where its configuration was from before: it goes on with the state
// that it has, under the new limit.
func (m *Model) beginBudget(from model.Budget) {
	switch to := m.Compiled.Config.Budget; {
	case to.IsZero():
		m.Spending = nil
	case m.Spending == nil:
		m.Spending = &Spending{}
	case from.Limit() != to.Limit():
		m.Spending.Change(from.Limit(), to.Limit())
	}
}

// reserve notes what a decision under a budget may cost.
func (f *Fold) reserve(h *Model, e *openEvent, r *eventlog.Decision) {
	if r.Price == 0 || h.Spending == nil || r.Mode != eventlog.Online && r.Mode != eventlog.Frozen {
		return
	}
	e.cost = r.Costs[r.Index]
	e.state |= budgeted
	h.Spending.Decide(h.Compiled.Config.Budget.Limit(), r.Time, r.Expects, e.cost, r.Play == eventlog.PlayStop)
	f.spent(h)
}

// pay replaces what is reserved by what was paid. A negative cost takes back what an earlier call has said too much.
func (f *Fold) pay(h *Model, reserved, cost float64) {
	if h.Spending != nil {
		h.Spending.Pay(reserved, max(cost, -h.Spending.Spent))
		f.spent(h)
	}
}

func (f *Fold) spent(h *Model) {
	h.Spending.Seq = f.seq
	f.markChanged(h) // decisions see the price of the next version
}

// pays takes what an event cost, by the rule of its rewards: the first one, the sum or the last one. h is the model
// that spends.
func (f *Fold) pays(h *Model, e *openEvent, cost float64) {
	first, rule := e.state&costed == 0, e.state.rule()
	switch {
	case first:
		if e.state&budgeted != 0 {
			f.pay(h, e.cost, cost)
		}
		e.cost = rule.Fold(0, cost, true)
	case !rule.Settles():
		was := e.cost
		if e.cost = rule.Fold(was, cost, false); e.state&budgeted != 0 {
			f.pay(h, 0, e.cost-was)
		}
	}
	e.state |= costed
}

// close pays the stated cost of an event whose window ends, where no call has said another one.
func (f *Fold) close(h *Model, e *openEvent) {
	switch {
	case e.state&budgeted == 0 || e.state&costed != 0:
	case e.state&inactive != 0: // it was not played
		f.pay(h, e.cost, 0)
	default:
		f.pay(h, e.cost, e.cost)
	}
}

// Prices lists the models with a budget, ascending.
func (g *registry) Prices() (out []eventlog.Price) {
	for id, m := range g.models {
		if m.Spending != nil && !m.Deleted && m.Successor == 0 {
			out = append(out, m.price(id))
		}
	}
	slices.SortFunc(out, func(a, b eventlog.Price) int { return cmp.Compare(a.Model, b.Model) })
	return out
}

func (m *Model) price(id eventlog.ID) eventlog.Price {
	return eventlog.Price{Model: id, Price: m.Spending.Price(m.Compiled.Config.Budget.Limit()), Spent: m.Spending.Spent}
}

// append and readSpending are the bytes of a state: the numbers of the pacer and the entry.
func (s *Spending) append(b []byte) []byte {
	for _, v := range s.Numbers() {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return binary.LittleEndian.AppendUint64(b, s.Seq)
}

func readSpending(r *reader) (*Spending, error) {
	var s Spending
	v := s.Numbers()
	for i := range v {
		v[i] = math.Float64frombits(r.fixed())
	}
	s.Seq = r.fixed()
	if r.err != nil {
		return nil, r.err
	}
	return &s, s.Set(v)
}

package fold

import (
	"troupe/eventlog"
)

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

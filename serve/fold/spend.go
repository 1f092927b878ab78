package fold

import (
	"troupe/eventlog"
	"troupe/serve/model"
)

// ledger keeps what models with a budget spend.
type ledger struct {
	at     *position
	models *registry
}

// reserve notes what a decision under a budget may cost.
func (l *ledger) reserve(h *Model, e *openEvent, r *eventlog.Decision) {
	if r.Price == 0 || h.Spending == nil || r.Mode != eventlog.Online && r.Mode != eventlog.Frozen {
		return
	}
	e.cost = r.Costs[r.Index]
	e.state |= budgeted
	h.Spending.Decide(h.Compiled.Config.Budget.Limit(), r.Time, r.Expects, e.cost, r.Play == eventlog.PlayStop)
	l.spent(h)
}

// pay replaces what is reserved by what was paid. A negative cost takes back what an earlier call has said too much.
func (l *ledger) pay(h *Model, reserved, cost float64) {
	if h.Spending != nil {
		h.Spending.Pay(reserved, max(cost, -h.Spending.Spent))
		l.spent(h)
	}
}

// spent notes that the state of a budget has changed.
func (l *ledger) spent(h *Model) {
	h.Spending.Seq = l.at.seq
	l.models.markChanged(h) // decisions see the price of the next version
}

// pays takes what an event cost, by the rule of its rewards: the first one, the sum or the last one. h is the model
// that spends.
func (l *ledger) pays(h *Model, e *openEvent, cost float64) {
	first, rule := e.state&costed == 0, e.state.rule()
	switch {
	case first:
		if e.state&budgeted != 0 {
			l.pay(h, e.cost, cost)
		}
		e.cost, _ = model.CostInput.Clamp(rule.Fold(0, cost, true))
	case !rule.Settles():
		was := e.cost
		if e.cost, _ = model.CostInput.Clamp(rule.Fold(was, cost, false)); e.state&budgeted != 0 {
			l.pay(h, 0, e.cost-was)
		}
	}
	e.state |= costed
}

// close pays the stated cost of an event whose window ends, where no call has said another one.
func (l *ledger) close(h *Model, e *openEvent) {
	switch {
	case e.state&budgeted == 0 || e.state&costed != 0:
	case e.state&inactive != 0: // it was not played
		l.pay(h, e.cost, 0)
	default:
		l.pay(h, e.cost, e.cost)
	}
}

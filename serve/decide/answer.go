package decide

import (
	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/model"
)

// Decision answers a Request.
type Decision struct {
	EventID    string          `json:"event_id" doc:"id of the event: send it with the reward"`
	Action     choose.Chosen   `json:"action,omitzero" doc:"what is played; absent where numbers alone are"`
	Propensity choose.Fraction `json:"propensity,omitzero" doc:"probability of what is played; absent where density is there"` // 1 for a baseline
	// Numbers are the numbers that are played. Where one of them has no steps the decision has a density in place of a
	// propensity.
	Numbers  map[string]float64 `json:"numbers,omitempty" doc:"the numbers that are played, by name"`
	Density  *Density           `json:"density,omitempty"`
	Mode     model.Mode         `json:"mode" doc:"how the action was chosen"`
	Seq      uint64             `json:"seq" doc:"log entry that holds the decision"`
	BasisSeq uint64             `json:"basis_seq" doc:"last entry of the log that the deciding state had learned from"`
	Durable  bool               `json:"durable" doc:"always true: the decision is on the disk"`
	// Repeated: an earlier call with the same idempotency key made this decision.
	Repeated bool `json:"repeated,omitempty" doc:"an earlier call with the same Idempotency-Key made this decision"`
	// Group is that of a model with a control group, "" otherwise.
	Group string `json:"group,omitempty" enum:"model,control" doc:"of a model with a control group: whether the model chose, or the control group; the propensity is that of both together"`
	// Would is what the policy would have played, in modes Apprentice and Shadow.
	Would *Would `json:"would,omitempty"`
	// Warnings say what the model could not use of this request; only the first affected decisions have them.
	Warnings []string `json:"warnings,omitempty" doc:"what the model could not use of this request; only the first affected decisions have them"`
	// List is the entries of a list, in place of Action and Propensity.
	List []ListEntry `json:"list,omitempty" doc:"of a list, its entries in place of action and propensity"`
	// Approximate is set with an explanation. The law is that of the lists that the draws play, so the propensities are exact all the same.
	Approximate bool `json:"approximate,omitempty" doc:"of a list, with explain: a category repeats among the actions, and the list of a draw was searched and not found for certain to be its best; propensities are exact all the same"`
	// Explain has one entry for each available candidate, when asked for. Repeated decisions have
	// none.
	Explain []choose.Explained `json:"explain,omitempty" doc:"one entry for each available action, where it was asked for"`
}

// ListEntry is one entry of the list that a decision played.
type ListEntry struct {
	Position   int             `json:"position" doc:"from 0, in the order of the slots"`
	Slot       string          `json:"slot,omitempty" doc:"name of the position, where the request has slots"`
	ID         string          `json:"id" doc:"name of the action"`
	Index      int             `json:"index" doc:"its place among the actions of the request, or of its slot where that has its own"`
	Propensity choose.Fraction `json:"propensity" doc:"probability of this action at this position"`
	// Prefix and Examination are there where an explanation was asked for.
	Prefix      *float64 `json:"prefix,omitempty" doc:"with explain: probability of the entries from the top to this one"`
	Examination *float64 `json:"examination,omitempty" doc:"with explain: learned scale of the position, 1 at the first"`
}

// Density is the probability of the cell in which numbers without steps lie. Within it they are uniform, so the density at the
// numbers is Num/Den divided by the product of the widths of the cell.
type Density struct {
	Num  uint64                `json:"num" doc:"numerator of the probability of the cell"`
	Den  uint64                `json:"den" doc:"denominator, greater than 0"`
	Cell map[string][2]float64 `json:"cell" doc:"bounds of the cell, of each number without steps; the density is num/den divided by the product of the widths"`
}

// Would is a choice of the policy that was not played.
type Would struct {
	Action     string          `json:"action,omitempty" doc:"name of the action; absent of a list"`
	Propensity choose.Fraction `json:"propensity,omitzero"`
	List       []ListEntry     `json:"list,omitempty" doc:"of a list, its entries"`
}

// Item is one answer of Batch: a decision or an error.
type Item struct {
	Decision Decision
	Err      error
}

// tellNumbers fills in the numbers of a record, with a density in place of the propensity where one of them has no steps.
func (d *Decision) tellNumbers(r *eventlog.Decision) {
	if len(r.Numbers) == 0 {
		return
	}
	d.Numbers = map[string]float64{}
	for _, n := range r.Numbers {
		d.Numbers[n.Name] = n.Value
		if n.High == n.Low {
			continue
		}
		if d.Density == nil {
			d.Density, d.Propensity = &Density{Num: r.Num, Den: r.Den, Cell: map[string][2]float64{}}, choose.Fraction{}
		}
		d.Density.Cell[n.Name] = [2]float64{n.Low, n.High}
	}
}

// wouldOf is what the policy would have played in place of the baseline of a record.
func wouldOf(r *eventlog.Decision) *Would {
	would := r.Would()
	if would == nil {
		return &Would{Action: r.WouldAction, Propensity: choose.Fraction{Num: r.WouldNum, Den: r.Den}}
	}
	out := &Would{List: Entries(would)}
	for p, name := range r.List.Slots {
		out.List[p].Slot = name
	}
	return out
}

// Entries returns what an answer has of the list of a record, nil for one without a list. Those of a baseline have probability 1.
func Entries(r *eventlog.Decision) (out []ListEntry) {
	l := r.List
	if l == nil {
		return nil
	}
	for p, id := range l.IDs {
		e := ListEntry{Position: p, ID: id, Index: int(l.Index[p]), Propensity: choose.Fraction{Num: 1, Den: 1}}
		if r.WouldList == nil {
			e.Propensity = choose.MarginalOf(l, p, uint64(r.Floor), eventlog.FloorUnit)
		}
		if len(l.Slots) > 0 {
			e.Slot = l.Slots[p]
		}
		out = append(out, e)
	}
	return out
}

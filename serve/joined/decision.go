package joined

import "troupe/eventlog"

// State is what became of a decision.
type State string

const (
	Paid     State = "paid"     // a reward counts
	Default  State = "default"  // the window closed without one, and a default reward counts
	None     State = "none"     // the window closed without one, and nothing counts
	Pending  State = "pending"  // the window was open at the end of the log
	Inactive State = "inactive" // deferred and never activated
	Ignored  State = "ignored"  // of a model that the fold does not know, or repeated: it has no effect
)

// Decided is a decision with what became of it.
type Decided struct {
	Key    eventlog.Event
	Seq    uint64
	Name   string             // of the model
	Record *eventlog.Decision // without Request and Idempotency, and without X and Atoms unless Options.Features
	State  State
	Reward float64 // NaN unless State, or AtEnd of a pending one, is Paid or Default
	// AtEnd is, of a pending decision that Rest yields, the state in which End would emit it; "" of those that it would
	// leave.
	AtEnd State
	// Cost is what it cost: as a call said it by the rule of rewards, otherwise as the request stated it; NaN where
	// neither did.
	Cost float64
	// Positions are those of a list, nil for an action. Reward is then the sum of theirs, or the one of the list.
	Positions []Position
	// Rewards are those with names, in ascending order, nil of a model with one reward. Reward is then their weighted sum.
	Rewards []Named
}

// Position is one of a list.
type Position struct {
	Reward  float64 // NaN where nothing counts
	Default bool    // it is the default of the closed window
	Hidden  bool    // it was not on the screen
}

// Named is a reward with a name. NaN: nothing counts.
type Named struct {
	Name  string
	Value float64
}

// Became is the state of a decision, and of a pending one that which it has where the log ends.
func (d *Decided) Became() State {
	if d.State == Pending && d.AtEnd != "" {
		return d.AtEnd
	}
	return d.State
}

// Played reports whether the model's own choice was played: in the modes online and frozen.
func (d *Decided) Played() bool { return played(d.Record) }

// Baseline is what Skipped calls decisions of this one's mode.
func (d *Decided) Baseline() string {
	return "mode " + Mode(d.Record) + ": a baseline was played"
}

// CountedAsZero is what Skipped calls the events that are not left out: they have no reward and no default, and count as 0.
const CountedAsZero = "(counted as 0) no reward and no default"

// Mode names the mode of a decision: that of its record, and guarded where a guarded model played the baseline, which
// the record calls apprentice.
func Mode(r *eventlog.Decision) string {
	if r.Play == eventlog.PlayBaseline {
		return "guarded"
	}
	return r.Mode.String()
}

// decision is one that is not settled yet.
type decision struct {
	Decided
	settles  bool // its first reward, by the rule
	rewarded bool
	active   bool
	closed   bool
	fallback bool // closed without a reward, with a default
	partial  bool // a reward with a name has no value yet
}

// became is the state of a decision of which nothing more is to come.
func (e *decision) became() State {
	switch {
	case !e.active:
		return Inactive
	case e.rewarded:
		return Paid
	case e.fallback:
		return Default
	}
	return None
}

// played reports whether the model's own choice was played.
func played(r *eventlog.Decision) bool { return r.Mode == eventlog.Online || r.Mode == eventlog.Frozen }

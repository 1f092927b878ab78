package logged

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"troupe/feature"
)

// Event is one decision: what was known, what was offered, what was played and what came of it.
//
// A Reader fills it and reuses its storage: what an Event holds is valid until it is read into again.
// Slices are nil where the log does not say.
type Event struct {
	ID      string
	Time    time.Time // zero: not recorded
	Context []float64 // the context as numbers
	Named   []byte    // the context as a JSON object of named features; not together with Context
	K       int       // how many actions were offered; 0: not known
	Actions []Action  // nil, or K of them
	// Atoms is the context of a model with hashed features, whose actions have atoms too. Only the log of a server has
	// them.
	Atoms []feature.Atom

	Chosen     int     // from 0
	Reward     float64 // NaN when BadReward
	Propensity float64 // π_b(chosen|x) ∈ [LeastPropensity, 1]
	// Outcomes is how many rewards the log has for the event, of which Reward is one (Options.Outcome); 0: it has one.
	Outcomes int
	// BadReward: the reward was damaged or outside the range and the rest of the event is good. Only with
	// Options.SkipBad: intervals must then allow both ends of the range.
	BadReward bool

	Law    []float64 // π_b(·|x), K of them, sums to 1
	Target []float64 // a target's law beside the event, likewise
	Q      []float64 // a reward model's predictions, K of them
	Group  []string  // labels of groups of actions, K of them

	// Unit is whom the decision was for, "" where nothing is known: decisions of one unit depend on each other. The log of a
	// server has it as a keyed hash.
	Unit string
	// Again: the unit had a decision before those that are looked at, so its draw was known. A Reader leaves it false.
	Again bool

	// Control is the control group of the model, nil without one. Law and Propensity are then those before the group was drawn.
	// Only the log of a server has it.
	Control *Control
	// Early: the reward is final, and the window of the decision was open at the end of the log. Later decisions may wait.
	Early bool

	// Money is what the actions cost. Only the log of a server has it.
	Money *Money

	// Redraws are fresh draws of the logger at this decision. Only the log of a server has them, when they were asked
	// for.
	Redraws *Redraws

	Drop     float64 // the event is here with probability 1 − Drop
	Position int     // place in a list from 0, NoPosition when there is none
	Slots    []Slot  // of a list: then Chosen, Propensity and Law above are not used, and Reward only with OneReward
	// OneReward: the list has one reward, Reward, and none for each slot.
	OneReward bool
	// ListLaw is the logger's law of whole lists, TargetListLaw that of a target beside the event; nil: not known. A Reader
	// fills from them what the slots say.
	ListLaw, TargetListLaw *ListLaw
	// Observed is what a decision service recorded of the outcome, a JSON list as it was found.
	Observed []byte

	buf []byte    // text that the fields point into
	num []float64 // numbers that they point into
	odd uint8     // what was mended
}

// Money is what a decision cost and what its actions would have cost, in units of money.
type Money struct {
	Costs   []float64 // of each action, as it was stated
	Cost    float64   // of the decision, as a call said it, otherwise as it was stated; NaN: not known
	Action  string    // the id of the one that was played
	Stopped bool      // the hard stop of a budget took actions away; Law is that of what was left
}

// Redraws are draws of one decision anew: of the same state and the same candidates, each with numbers of its own.
type Redraws struct {
	N       int      // draws that were counted
	Counts  []uint32 // of these, how many took each action; K of them, with sum N
	Further []uint32 // actions of further draws
}

// NoPosition is the Position of an event that is no part of a list.
const NoPosition = -1

// Action is one offered action.
type Action struct {
	ID    string
	X     []float64      // features as numbers
	Named []byte         // features as a JSON object; not together with X
	Atoms []feature.Atom // hashed features; not together with the others
}

// Slot is one place of a list: which actions were left, which one was put there, and its own reward.
type Slot struct {
	ID         string
	Named      []byte // features of the slot, a JSON object
	Allowed    []int  // indices of the actions that could stand here, the chosen one first
	Reward     float64
	Propensity float64   // of the chosen one, given the entries above; 0: not known
	Law        []float64 // over Allowed, given the entries above; nil when only the propensity is known
	Prefix     float64   // the probability that the list begins with the entries up to this one; 0: not known
	Marginal   float64   // the probability that the chosen one stands here, whatever stands above; 0: not known
	Marginals  []float64 // of all K actions; nil: not known
	Hidden     bool      // was not on the screen, so its reward is 0
	Target     *Standing // what a target's law, beside the event, says of the slot; nil: nothing
}

// reset empties the event and keeps its storage.
func (e *Event) reset() {
	actions, slots := e.Actions[:0], e.Slots[:0]
	*e = Event{Position: NoPosition, buf: e.buf[:0], num: e.num[:0], Actions: actions, Slots: slots}
}

// numbers returns room for n numbers in the event's storage.
func (e *Event) numbers(n int) []float64 {
	at := len(e.num)
	for range n {
		e.num = append(e.num, 0)
	}
	return e.num[at : at+n : at+n]
}

// Tolerance is how far a law may be from summing to 1, and from its propensity. A Reader takes laws of rounded numbers too,
// of any format: those whose sum is off by at most half a unit in the last digit of each number, and by .01. It scales them
// to 1 and counts them in Warnings.
const Tolerance = 1e-6

// LeastPropensity is the smallest propensity of an action that was played: weights beyond 1e100 lose the others.
const LeastPropensity = 1e-100

// MaxActions is the largest number of actions of an event.
const MaxActions = 100_000

// Check returns an *Error, without a place, unless the event is one that an estimator can use: finite
// numbers, a propensity in [LeastPropensity, 1], laws that sum to 1 within Tolerance and agree with the propensity,
// indices in range. The reward is looked at last.
func (e *Event) Check() error {
	if err := e.check(nil); err != nil {
		return err
	}
	return nil
}

func (e *Event) check(o *Options) *Error {
	if err := e.checkShape(); err != nil {
		return err
	}
	if len(e.Slots) > 0 {
		return e.checkSlots(o)
	}
	switch {
	case e.Chosen < 0 || e.K > 0 && e.Chosen >= e.K:
		return bad("action", strconv.Itoa(e.Chosen), "an index from 0 to %d", max(e.K-1, 0))
	}
	if err := checkPropensity("propensity", e.Propensity); err != nil {
		return err
	}
	var err *Error
	if e.Propensity, err = e.checkPlayed("", e.Law, e.Chosen, e.Propensity, o); err != nil {
		return err
	}
	if err := e.checkLaw("target", e.Target, o); err != nil {
		return err
	}
	if e.BadReward {
		return nil
	}
	return checkReward("reward", e.Reward, o)
}

// checkShape looks at lengths and at what lists and single decisions share.
func (e *Event) checkShape() *Error {
	for _, l := range []struct {
		field string
		n     int
		is    bool
	}{
		{"actions", len(e.Actions), len(e.Actions) > 0}, {"law", len(e.Law), e.Law != nil},
		{"target", len(e.Target), e.Target != nil},
		{"q", len(e.Q), e.Q != nil}, {"group", len(e.Group), e.Group != nil},
	} {
		if l.is && l.n != e.K {
			return bad(l.field, strconv.Itoa(l.n)+" entries", "%d, one for each action", e.K)
		}
	}
	if e.K > MaxActions {
		return bad("actions", strconv.Itoa(e.K), "at most %d", MaxActions)
	}
	if !(e.Drop >= 0 && e.Drop < 1) {
		return bad("drop", number(e.Drop), "a number in [0, 1)")
	}
	if e.Position < NoPosition {
		return bad("position", strconv.Itoa(e.Position), "a place from 0")
	}
	if err := finite("context", e.Context); err != nil {
		return err
	}
	for i := range e.Actions {
		if err := finite("actions", e.Actions[i].X); err != nil {
			err.Field = "actions[" + strconv.Itoa(i) + "]" + strings.TrimPrefix(err.Field, "actions")
			return err
		}
	}
	return finite("q", e.Q)
}

func (e *Event) checkSlots(o *Options) *Error {
	if e.Law != nil || e.Target != nil {
		return bad("law", "a law of the list", "one in each slot")
	}
	before := 0.0
	for i := range e.Slots {
		s, at := &e.Slots[i], "slots["+strconv.Itoa(i)+"]"
		if len(s.Allowed) == 0 {
			return bad(at, "no action", "the chosen one first")
		}
		for _, a := range s.Allowed {
			if a < 0 || e.K > 0 && a >= e.K {
				return bad(at, "action "+strconv.Itoa(a), "an index from 0 to %d", max(e.K-1, 0))
			}
		}
		if s.Law != nil && len(s.Law) != len(s.Allowed) {
			return bad(at+".law", strconv.Itoa(len(s.Law))+" entries", "%d, one for each action that was left",
				len(s.Allowed))
		}
		if s.Law != nil && s.Propensity == 0 {
			s.Propensity = s.Law[0]
		}
		if err := e.checkStanding(i, before, o); err != nil {
			return err
		}
		before = s.Prefix
		if err := e.checkTarget(i, o); err != nil {
			return err
		}
		if s.Law != nil {
			var err *Error
			if s.Propensity, err = e.checkPlayed(at+".", s.Law, 0, s.Propensity, o); err != nil {
				return err
			}
		}
		if e.OneReward {
			if s.Reward != 0 {
				return bad(at+".reward", number(s.Reward), "none where the list has one reward")
			}
		} else if err := checkReward(at+".reward", s.Reward, o); err != nil {
			return err
		}
	}
	if e.OneReward {
		return checkReward("reward", e.Reward, o)
	}
	return nil
}

func checkPropensity(field string, p float64) *Error {
	switch {
	case !(p > 0 && p <= 1):
		return bad(field, number(p), "a number in (0, 1]")
	case p < LeastPropensity:
		return bad(field, number(p), "at least %s: the action was played", number(LeastPropensity))
	}
	return nil
}

func checkReward(field string, r float64, o *Options) *Error {
	if r-r != 0 {
		return bad(field, number(r), "a finite number")
	}
	if o != nil && o.Rewards != nil && !(r >= o.Rewards[0] && r <= o.Rewards[1]) {
		flag := "--rewards min,max"
		if o.Outcome != "" {
			flag = "--outcome " + o.Outcome + "=MIN:MAX"
		}
		return bad(field, number(r), "a reward in [%s, %s]; %s sets the range", number(o.Rewards[0]), number(o.Rewards[1]), flag)
	}
	return nil
}

func finite(field string, x []float64) *Error {
	for i, v := range x {
		if v-v != 0 {
			return bad(field+"["+strconv.Itoa(i)+"]", number(v), "a finite number")
		}
	}
	return nil
}

// Size is about how many bytes the event holds.
func (e *Event) Size() int {
	return 200 + len(e.buf) + 8*len(e.num) + 80*len(e.Actions) + 100*len(e.Slots)
}

// Clone returns a copy that shares nothing with the event.
func (e *Event) Clone() *Event {
	c := *e
	c.buf, c.num = nil, nil
	c.Context, c.Law, c.Target, c.Q = slices.Clone(e.Context), slices.Clone(e.Law), slices.Clone(e.Target),
		slices.Clone(e.Q)
	c.Named, c.Observed, c.Group = slices.Clone(e.Named), slices.Clone(e.Observed), slices.Clone(e.Group)
	c.Atoms = slices.Clone(e.Atoms)
	if r := e.Redraws; r != nil {
		c.Redraws = &Redraws{r.N, slices.Clone(r.Counts), slices.Clone(r.Further)}
	}
	c.Actions, c.Slots = slices.Clone(e.Actions), slices.Clone(e.Slots)
	for i := range c.Actions {
		c.Actions[i].X, c.Actions[i].Named = slices.Clone(c.Actions[i].X), slices.Clone(c.Actions[i].Named)
		c.Actions[i].Atoms = slices.Clone(c.Actions[i].Atoms)
	}
	c.ListLaw, c.TargetListLaw = e.ListLaw.clone(), e.TargetListLaw.clone()
	for i := range c.Slots {
		c.Slots[i].Marginals, c.Slots[i].Target = slices.Clone(c.Slots[i].Marginals), c.Slots[i].Target.clone()
		c.Slots[i].Allowed = slices.Clone(c.Slots[i].Allowed)
		c.Slots[i].Law, c.Slots[i].Named = slices.Clone(c.Slots[i].Law), slices.Clone(c.Slots[i].Named)
	}
	return &c
}

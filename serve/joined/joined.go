// Package joined makes the log of a decision server into events: decisions with what became of them.
//
// A [Joiner] is given the entries of a log in order. It runs the server's own fold beside them, without policies, so
// what counts here is what counted there: repeated keys, late rewards, acts that came too late, rollbacks and losses.
// It yields the decisions of a model in their order, each when it is settled: its window is over by the clock of the
// log, or was closed. What counts as its reward is what the model's rule makes of the records: the first reward, the
// sum or the last one of the window, or the default of the closed window. Memory is bounded by the decisions whose
// window is open.
//
// The end of the log is cut by time of decision: decisions whose window was open at the last entry are pending, whether
// or not they have a reward, and so are all later ones. To keep those that were paid already would select on the
// outcome. [Joiner.End] cuts later, at the first decision without a final reward.
package joined

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"math"
	"slices"
	"time"

	"troupe/eventlog"
	"troupe/logged"
	"troupe/serve/candidates"
	"troupe/serve/fold"
	"troupe/serve/model"
)

// Options says which decisions.
type Options struct {
	Model string // name; "" takes the only one
	All   bool   // the decisions of every model
	ID    func(e eventlog.Event, seq uint64) string
	// Base gives the fold at the base of a log that was trimmed and begins with entry first.
	Base func(first uint64) (*fold.Fold, error)
	// Features keeps what the model saw of the chosen action (X or Atoms of the record).
	Features bool
	// Vector, with Features, is what to keep as X of a decision of this model, which is as it was when it decided.
	Vector func(m *fold.Model, d *eventlog.Decision) []float64
	// Outcome is the name of the reward that events have, of a model whose rewards have names; "": their weighted sum.
	Outcome string
	// From leaves out decisions up to this entry, To those of later ones unless it is 0; they are not counted as
	// skipped.
	From, To uint64
	// Fold is the state before the first entry that is given, without policies; nil: entry 1, or the base, is the
	// first.
	Fold *fold.Fold
}

// Joiner joins one log. Not safe for concurrent use.
type Joiner struct {
	o      Options
	f      *fold.Fold
	base   uint64
	open   map[eventlog.Event]*decision
	queues map[string]*[]*decision // by model, in the order of the log; the first of each is not settled
	clock  int64
	rules  map[string]model.Rule
	newest [2]float64 // of the newest decision

	// Model is the name of the joined model once a decision of it was seen.
	Model string
	// Range is the range of rewards in force at first, Ranges how many there were; Declared: the configuration says it.
	Range    [2]float64
	Ranges   int
	Declared bool
	// Widened: a reward lay outside a range that was not declared.
	Widened bool
	Skipped map[string]int
	// Notes says what happened in the log that a reader of estimates should know, with the entry.
	Notes []string
	// Early is how many decisions End has added whose windows were open.
	Early int
	// inactive checks that activation does not depend on the action: Σ (1{a = k} − p_k) and Σ p_k(1 − p_k) by place.
	inactive []struct{ sum, variance float64 }
	lawless  int // inactive decisions without a law
	gap      error
}

// New returns a Joiner at the beginning of a log.
func New(o Options) *Joiner {
	return &Joiner{
		o: o, f: o.Fold, open: map[eventlog.Event]*decision{}, queues: map[string]*[]*decision{},
		rules: map[string]model.Rule{}, Skipped: map[string]int{},
	}
}

// Base is the entry of the base of a log that was trimmed: decisions up to it are not joined. 0: the log is whole.
func (j *Joiner) Base() uint64 { return j.base }

// Fold is the state of names, configurations and windows after the last entry, nil before the first one. It has no
// policies.
func (j *Joiner) Fold() *fold.Fold { return j.f }

// Gap returns an error when an entry was missing. Entries behind the gap are not joined.
func (j *Joiner) Gap() error { return j.gap }

// Apply joins one entry and calls emit for every decision that is settled by it. An entry that was stored twice has no
// effect.
func (j *Joiner) Apply(d eventlog.Delivery, emit func(*Decided) error) error {
	if j.f == nil {
		if err := j.begin(d.Seq); err != nil {
			return err
		}
	}
	if d.Seq <= j.base {
		for _, r := range d.Events() {
			if r, ok := r.(*eventlog.Decision); ok && j.wants(j.nameOf(r.Model)) && !d.Repeat {
				j.Skipped["decided before the base of the trimmed log"]++
			}
		}
		return nil
	}
	if j.gap == nil && d.Seq != j.f.Seq()+1 {
		j.gap = fmt.Errorf("entry %d comes after entry %d: the log is damaged", d.Seq, j.f.Seq())
	}
	if j.gap != nil {
		return nil
	}
	outcomes, err := j.f.Apply(d)
	if err != nil {
		return err
	}
	j.f.TakeOpened()
	j.f.TakeChanged()
	if d.Repeat {
		return nil
	}
	j.clock = max(j.clock, d.Time)
	for i, r := range d.Events() {
		switch r := r.(type) {
		case *eventlog.Control:
			if outcomes[i] == fold.Accepted {
				j.control(d.Seq, r)
			}
		case *eventlog.Decision:
			err = j.decision(d, i, r, outcomes[i])
		case *eventlog.Activate:
			if e := j.open[r.Event]; e != nil {
				if e.see(j.f); outcomes[i] == fold.Accepted {
					e.active = true
				}
			}
		case *eventlog.Reward:
			j.reward(d.Seq, r, outcomes[i])
		case *eventlog.Expire:
			if outcomes[i] == fold.Accepted {
				j.expire(r)
			}
		case *eventlog.Loss:
			j.note(d.Seq, fmt.Sprintf("entries %d to %d are lost: %s", r.First, r.Last, r.Reason))
		}
		if err != nil {
			return fmt.Errorf("entry %d, record %d: %w", d.Seq, i, err)
		}
	}
	return j.settle(emit)
}

// begin makes the fold: empty for a whole log, that of the base for one that was trimmed.
func (j *Joiner) begin(first uint64) error {
	if j.f = fold.New(nil); first > 1 {
		if j.o.Base == nil {
			return fmt.Errorf("the log begins with entry %d: what was trimmed is in the base, a snapshot beside the "+
				"log", first)
		}
		var err error
		if j.f, err = j.o.Base(first); err != nil {
			return err
		}
		j.base = j.f.Seq()
	}
	j.f.DropPolicies()
	return nil
}

func (j *Joiner) note(seq uint64, text string) {
	if len(j.Notes) < 100 {
		j.Notes = append(j.Notes, fmt.Sprintf("entry %d: %s", seq, text))
	}
}

func (j *Joiner) nameOf(id eventlog.ID) string {
	if m := j.f.Model(id); m != nil {
		return m.Name()
	}
	return ""
}

// wants reports whether decisions of a model are joined.
func (j *Joiner) wants(name string) bool { return j.o.All || j.o.Model == "" || name == j.o.Model }

// control notes what a reader should know: other rules, rollbacks, clones, another model of the name.
func (j *Joiner) control(seq uint64, r *eventlog.Control) {
	m := j.f.Model(r.Model)
	if m == nil || j.o.All || !j.wants(m.Name()) {
		return
	}
	rule, had := j.rules[m.Name()]
	now := m.Compiled.Config.Reward.Rule
	j.rules[m.Name()] = now
	switch r.Act {
	case eventlog.Create, eventlog.Import:
		if had {
			j.note(seq, "another model of the name "+m.Name()+" was made")
		}
	case eventlog.Clone:
		j.note(seq, "the model was cloned from another one")
	case eventlog.Rollback:
		j.note(seq, fmt.Sprintf("the model was rolled back to entry %d", r.AtSeq))
	case eventlog.Configure:
		if had && rule != now {
			j.note(seq, "rewards count by the rule "+string(now)+" from here on")
		}
	}
}

func (j *Joiner) decision(d eventlog.Delivery, i uint32, r *eventlog.Decision, outcome fold.Outcome) error {
	m := j.f.Model(r.Model)
	switch {
	case m == nil && (j.o.All || j.o.Model == ""):
		j.Skipped["of a model that the log does not have"]++
	case m != nil && outcome == fold.Conflict && j.wants(m.Name()):
		j.Skipped["refused: the model was closed, about to move to another server"]++
	case m != nil && outcome != fold.Accepted && j.wants(m.Name()):
		j.Skipped["repeated: another node decided first"]++
	}
	if m == nil || outcome != fold.Accepted {
		return nil
	}
	name := m.Name()
	switch {
	case !j.wants(name), d.Seq <= j.o.From, j.o.To > 0 && d.Seq > j.o.To:
		return nil
	case j.o.All:
	case j.Model == "":
		j.Model = name
	case name != j.Model:
		return fmt.Errorf("decisions of the models %q and %q: name one", j.Model, name)
	}
	reward := &m.Compiled.Config.Reward
	now := [2]float64{reward.Min, reward.Max}
	switch {
	case j.o.All:
	case j.Ranges == 0:
		j.Range, j.Ranges, j.Declared = now, 1, !reward.Adapt
	case now != j.newest:
		j.Ranges++
		j.note(d.Seq, fmt.Sprintf("the range of rewards became [%g, %g]", now[0], now[1]))
	}
	j.newest = now
	kept := *r // the entry's storage belongs to the reader of the log
	kept.X, kept.Full, kept.Law, kept.Groups = nil, slices.Clone(r.Full), slices.Clone(r.Law), slices.Clone(r.Groups)
	kept.Costs = slices.Clone(r.Costs)
	kept.Atoms, kept.Idempotency = nil, nil
	if j.o.Features {
		x := r.X
		if j.o.Vector != nil {
			x = j.o.Vector(m, r)
		}
		kept.X, kept.Atoms = slices.Clone(x), slices.Clone(r.Atoms)
	}
	e := &decision{
		Decided: Decided{Key: d.Key(i), Seq: d.Seq, Name: name, Record: &kept, Reward: math.NaN(), Cost: stated(r)},
		settles: reward.Rule.Settles(), active: !r.Deferred,
	}
	e.list(r)
	e.names(m.Compiled.Config.Rewards)
	j.open[e.Key] = e
	q := j.queues[name]
	if q == nil {
		q = new([]*decision)
		j.queues[name] = q
	}
	*q = append(*q, e)
	return nil
}

// stated returns the cost of the action that was played as the request had it, NaN without one.
func stated(r *eventlog.Decision) float64 {
	if int(r.Index) < len(r.Costs) {
		return r.Costs[r.Index]
	}
	return math.NaN()
}

// reward takes what the fold has made of the event.
func (j *Joiner) reward(seq uint64, r *eventlog.Reward, outcome fold.Outcome) {
	e := j.open[r.Event]
	if e == nil || outcome != fold.Accepted && outcome != fold.Ignored {
		return // late, repeated, or of another model
	}
	if c, ok := j.f.Cost(r.Event); ok {
		e.Cost = c
	}
	e.see(j.f)
	status, y := j.f.Event(r.Event)
	if status != fold.Rewarded {
		return
	}
	e.Reward, e.rewarded, e.active = y, true, true
	e.counted(j.f)
	for _, one := range r.Ys { // of a list the range is that of a position
		y = one
	}
	if c := &j.f.Model(e.Record.Model).Compiled.Config.Reward; c.Adapt && (y < c.Min || y > c.Max) && !j.Widened &&
		!j.o.All {
		j.Widened = true
		j.note(seq, fmt.Sprintf("a reward of %g lay outside [%g, %g], a range that was not declared", y, c.Min, c.Max))
	}
}

func (j *Joiner) expire(r *eventlog.Expire) {
	for i := range r.Count {
		key := r.Event
		key.Index += i
		e := j.open[key]
		if e == nil || e.closed || e.Record.Model != r.Model {
			continue
		}
		e.closed = true
		if e.split() {
			e.close(r)
		} else if !e.rewarded && r.Default {
			e.Reward, e.fallback = r.Y, true
			e.setRewards(r.Y)
		}
	}
}

// settle emits the decisions at the front of the queues that are settled: closed, or paid by the rule first with a
// window that is over by the clock of the log.
func (j *Joiner) settle(emit func(*Decided) error) error {
	for _, q := range j.queues {
		n := 0
		for _, e := range *q {
			if !e.closed && !(e.settles && e.final() && e.Record.Deadline <= j.clock) {
				break
			}
			n++
			if err := j.settled(e, emit); err != nil {
				return err
			}
		}
		if n > 0 {
			*q = append((*q)[:0], (*q)[n:]...)
		}
	}
	return nil
}

// settled emits a decision with its state.
func (j *Joiner) settled(e *decision, emit func(*Decided) error) error {
	delete(j.open, e.Key)
	e.State = e.became()
	if e.State == Inactive {
		e.Reward = math.NaN()
		e.setRewards(e.Reward)
	}
	return emit(&e.Decided)
}

// End emits what is final already of the decisions that are left at the end of the log: by the rule first a reward
// counts when it comes, whatever the window does. It stops at the first decision of the modes online and frozen
// without such a reward; those of the other modes stay. A prefix of the log that ends there is right for what holds at
// every n at once, and for nothing else: the last decisions of it are those that were paid.
func (j *Joiner) End(emit func(*Decided) error) error {
	for _, q := range j.queues {
		j.Early += j.ended(*q)
		kept := (*q)[:0]
		for _, e := range *q {
			if e.AtEnd == "" {
				kept = append(kept, e)
				continue
			}
			e.AtEnd = ""
			if err := j.settled(e, emit); err != nil {
				return err
			}
		}
		*q = kept
	}
	return nil
}

// ended sets AtEnd of the decisions that are left, and returns how many of the modes online and frozen count with a
// reward while their windows are open.
func (j *Joiner) ended(q []*decision) (early int) {
	end := false
	for _, e := range q {
		e.AtEnd = ""
		paid := e.settles && e.final()
		switch {
		case !end && (e.closed || paid):
			e.AtEnd = e.became()
			if played(e.Record) && paid && !e.closed && e.Record.Deadline > j.clock {
				early++
			}
		case played(e.Record):
			end = true
		}
	}
	return early
}

// Ended is what a reader of estimates should know of a log that was joined to its end, beside the decisions.
type Ended struct {
	Range      [2]float64     `json:"range"` // of rewards, at the first decision
	Ranges     int            `json:"ranges"`
	Declared   bool           `json:"declared"`
	Widened    bool           `json:"widened"`
	Early      int            `json:"early"` // decisions whose reward is final while their window is open
	Notes      []string       `json:"notes"`
	Skipped    map[string]int `json:"skipped"`
	Activation string         `json:"activation"` // the error of Joiner.Activation, "" for none
}

// Ended says it. Decisions that were not made into events by j are not in Skipped, and Activation knows those that
// Inactive was called with.
func (j *Joiner) Ended() *Ended {
	out := &Ended{Range: j.Range, Ranges: j.Ranges, Declared: j.Declared, Widened: j.Widened,
		Early: j.Early, Notes: slices.Clone(j.Notes), Skipped: maps.Clone(j.Skipped)}
	for _, q := range j.queues { // none of them after End
		out.Early += j.ended(*q)
	}
	if err := j.Activation(); err != nil {
		out.Activation = err.Error()
	}
	return out
}

// Rest yields the decisions that are not settled: they were decided less than a window before the last entry, or later
// than such a one.
func (j *Joiner) Rest() iter.Seq[*Decided] {
	return func(yield func(*Decided) bool) {
		for _, q := range j.queues {
			j.ended(*q)
			for _, e := range *q {
				e.State = Pending
				if !yield(&e.Decided) {
					return
				}
			}
		}
	}
}

// Waiting returns how many decisions are not settled.
func (j *Joiner) Waiting() int { return len(j.open) }

// Pending returns how many decisions of the modes online and frozen Rest has.
func (j *Joiner) Pending() (n int) {
	for _, q := range j.queues {
		for _, e := range *q {
			if played(e.Record) {
				n++
			}
		}
	}
	return n
}

// Event returns a decision as a logged event: candidates that were available, the propensity num/den, and from log
// version 2 on the law of the draw. nil: the decision is no event, and Skipped counts why.
func (j *Joiner) Event(e *Decided) (*logged.Event, error) {
	switch {
	case !played(e.Record):
		j.Skipped[e.Baseline()]++
		return nil, nil
	case e.State == Inactive:
		j.Skipped["inactive: deferred and never activated"]++
		j.Inactive(e.Record)
		return nil, nil
	case e.State != Paid && e.State != Default && e.State != None:
		return nil, fmt.Errorf("entry %d: a decision that is %s is no event", e.Seq, e.State)
	}
	out, err := Event(e)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", e.Seq, err)
	}
	if j.o.Outcome != "" {
		y, ok := e.outcome(j.o.Outcome)
		if !ok {
			return nil, &NoOutcomeError{e.Name, j.o.Outcome, e.rewardNames()}
		}
		if out.Reward, out.Outcomes = 0, len(e.Rewards); y == y {
			out.Reward = y
		}
	}
	if j.o.ID != nil {
		out.ID = j.o.ID(e.Key, e.Seq)
	}
	if e.State == None {
		j.Skipped[CountedAsZero]++
	}
	return out, nil
}

// Event returns a decision as a logged event without an id. A missing reward is 0.
func Event(e *Decided) (*logged.Event, error) {
	r := e.Record
	if r.List != nil {
		return listEvent(e)
	}
	out := &logged.Event{Time: time.Unix(0, r.Time).UTC(), K: int(r.Offered), Chosen: int(r.Index), Reward: e.Reward,
		Propensity: float64(r.Num) / float64(r.Den), Position: logged.NoPosition}
	if e.Reward-e.Reward != 0 {
		out.Reward = 0
	}
	set, err := candidates.Parse(r.Full)
	if err != nil {
		return nil, err
	}
	switch {
	case set.Actions != nil:
		out.Atoms = set.Context
		for _, a := range set.Actions {
			out.Actions = append(out.Actions, logged.Action{Atoms: a})
		}
	default:
		for k := range set.K {
			out.Actions = append(out.Actions, logged.Action{X: set.X[k*set.D : (k+1)*set.D : (k+1)*set.D]})
		}
	}
	if set.K > 0 {
		out.K = set.K
	}
	if r.Unit != 0 {
		out.Unit = r.Unit.String()
	}
	if out.K == 0 || out.Chosen >= out.K {
		return nil, fmt.Errorf("action %d of %d candidates", out.Chosen, out.K)
	}
	out.Law, out.Control = Law(r), Group(r)
	if len(r.Costs) > 0 {
		out.Money = &logged.Money{Costs: r.Costs, Cost: e.Cost, Action: r.Action, Stopped: r.Play == eventlog.PlayStop}
	}
	return out, out.Check()
}

// Law returns the law of a draw, nil where the record does not have it: candidate i has the probability
// (1 − ε)·votes/voters/g + ε/K, g the number of candidates in its group. The only candidate has probability 1. With a
// control group of share s it is the law before the group was drawn, (1 − s) of that and s of the control's.
func Law(r *eventlog.Decision) []float64 {
	K := len(r.Law)
	if r.Offered == 1 && r.Num == r.Den {
		return []float64{1}
	}
	if r.Voters == 0 || K == 0 || K != int(r.Offered) {
		return nil
	}
	size := map[uint32]int{}
	for _, g := range r.Groups {
		size[g]++
	}
	eps := float64(r.Floor) / eventlog.FloorUnit
	out := make([]float64, K)
	for i, v := range r.Law {
		g := 1
		if r.Groups != nil {
			g = size[r.Groups[i]]
		}
		out[i] = (1-eps)*float64(v)/float64(r.Voters)/float64(g) + eps/float64(K)
	}
	if c := Group(r); c != nil {
		c.Mix(out)
	}
	return out
}

// Group returns the control group of the model of a decision, nil where there is none.
func Group(r *eventlog.Decision) *logged.Control {
	if r.Group == eventlog.NoGroup {
		return nil
	}
	return &logged.Control{Share: float64(r.Control) / eventlog.FloorUnit, First: r.ControlFirst,
		In: r.Group == eventlog.GroupControl}
}

// GroupColumns are the columns of an export that Group gives, empty without one.
func GroupColumns(r *eventlog.Decision) (group string, share *float64, plays string) {
	c := Group(r)
	if c == nil {
		return "", nil, ""
	}
	plays = string(model.PlaysUniform)
	if c.First {
		plays = string(model.PlaysFirst)
	}
	return r.Group.String(), &c.Share, plays
}

// Budget returns the price of a decision under a budget and whether the hard stop took actions away, nil without one.
func Budget(r *eventlog.Decision) (price *float64, stopped *bool) {
	if r.Price == 0 {
		return nil, nil
	}
	p, s := r.Price, r.Play == eventlog.PlayStop
	return &p, &s
}

// Inactive adds a decision that was never activated to the check of what activation depends on. Event calls it.
func (j *Joiner) Inactive(r *eventlog.Decision) {
	law := Law(r)
	if law == nil || int(r.Index) >= len(law) {
		j.lawless++
		return
	}
	for len(j.inactive) < min(len(law), 1024) {
		j.inactive = append(j.inactive, struct{ sum, variance float64 }{})
	}
	for k, p := range law[:min(len(law), len(j.inactive))] {
		x := &j.inactive[k]
		x.sum -= p
		if k == int(r.Index) {
			x.sum++
		}
		x.variance += float64(p * (1 - p))
	}
}

// ErrActivation: whether a decision was activated depends on what it chose, so the decisions that are left are not
// those of the law that is recorded.
var ErrActivation = errors.New("activation depended on the action")

// Activation returns an error that wraps ErrActivation unless the inactive decisions chose as their law says: |z| ≤ 4
// at every place, z = Σ(1{a = k} − p_k)/√Σ p_k(1 − p_k). Inactive decisions without a law cannot be checked; that is an
// error too.
func (j *Joiner) Activation() error {
	if j.lawless > 0 {
		return fmt.Errorf("%w, or cannot be checked: %d decisions that were never activated have no law", ErrActivation,
			j.lawless)
	}
	for k, x := range j.inactive {
		if x.variance < 1 {
			continue
		}
		if z := x.sum / math.Sqrt(x.variance); math.Abs(z) > 4 {
			return fmt.Errorf("%w: among those never activated, action %d was chosen %.1f standard errors away from "+
				"its law", ErrActivation, k, z)
		}
	}
	return nil
}

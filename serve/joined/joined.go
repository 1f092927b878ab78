// Package joined makes the log of a decision server into events: decisions with what became of them.
//
// A [Joiner] is given the entries of a log in order and yields the decisions of one model in their order, each when it
// is settled: its window is over by the clock of the log, or was closed. What counts as its reward is what the model
// learned from: the first reward, or the sum or the last one of the window, or the default of the closed window.
// Memory is bounded by the decisions whose window is open.
//
// The end of the log is cut by time of decision: decisions whose window was open at the last entry are pending, whether
// or not they have a reward, and so are all later ones. To keep those that were paid already would select on the
// outcome.
package joined

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"troupe/eventlog"
	"troupe/logged"
	"troupe/serve/candidates"
	"troupe/serve/model"
)

// Options says which decisions.
type Options struct {
	Model string                 // name; "" takes the only one
	Names map[eventlog.ID]string // of incarnations whose creation was trimmed away
	ID    func(e eventlog.Event, seq uint64) string
}

// Joiner joins one log. Not safe for concurrent use.
type Joiner struct {
	o       Options
	names   map[eventlog.ID]string
	configs map[eventlog.ID]model.Reward
	open    map[eventlog.Event]*decision
	queue   []*decision // in the order of the log; the first one is not settled
	clock   int64

	// Model is the name of the joined model once a decision of it was seen.
	Model string
	// Range is the range of rewards in force at first; Ranges counts how many there were.
	Range   [2]float64
	Ranges  int
	Skipped map[string]int
	// Notes says what happened in the log that a reader of estimates should know, with the entry.
	Notes []string
	// Slots: several decisions of one call filled the slots of a list.
	Slots bool
}

// decision is one that is not settled yet.
type decision struct {
	key      eventlog.Event
	seq      uint64
	r        *eventlog.Decision
	rule     string
	y        float64
	keys     []eventlog.ID
	rewarded bool
	active   bool
	closed   bool
	fallback bool // closed without a reward, with a default
}

// New returns a Joiner at the beginning of a log.
func New(o Options) *Joiner {
	j := &Joiner{o: o, names: map[eventlog.ID]string{}, configs: map[eventlog.ID]model.Reward{}, open: map[eventlog.Event]*decision{}, Skipped: map[string]int{}}
	for id, name := range o.Names {
		j.names[id] = name
	}
	return j
}

// Apply joins one entry and calls emit for every decision that is settled by it. An entry that was stored twice has no
// effect.
func (j *Joiner) Apply(d eventlog.Delivery, emit func(*logged.Event) error) error {
	if d.Repeat {
		return nil
	}
	j.clock = max(j.clock, d.Time)
	for i, r := range d.Events() {
		var err error
		switch r := r.(type) {
		case *eventlog.Control:
			err = j.control(d.Seq, r)
		case *eventlog.Decision:
			err = j.decision(d, i, r)
		case *eventlog.Activate:
			if e := j.open[r.Event]; e != nil {
				e.active = true
			}
		case *eventlog.Reward:
			j.reward(r)
		case *eventlog.Expire:
			j.expire(r)
		case *eventlog.Loss:
			j.note(d.Seq, fmt.Sprintf("entries %d to %d are lost: %s", r.First, r.Last, r.Reason))
		}
		if err != nil {
			return fmt.Errorf("entry %d, record %d: %w", d.Seq, i, err)
		}
	}
	return j.settle(emit)
}

func (j *Joiner) note(seq uint64, text string) {
	if len(j.Notes) < 100 {
		j.Notes = append(j.Notes, fmt.Sprintf("entry %d: %s", seq, text))
	}
}

// control follows names, rules and ranges.
func (j *Joiner) control(seq uint64, r *eventlog.Control) error {
	if r.Name != "" {
		j.names[r.Model] = r.Name
	} else if j.names[r.Model] == "" {
		j.names[r.Model] = j.names[r.From]
	}
	mine := j.mine(r.Model)
	if len(r.Config) > 0 {
		var c struct {
			Config model.Config `json:"config"`
		}
		if err := json.Unmarshal(r.Config, &c); err != nil {
			return fmt.Errorf("configuration: %w", err)
		}
		old, had := j.configs[r.Model]
		j.configs[r.Model] = c.Config.Reward
		if mine {
			now := [2]float64{c.Config.Reward.Min, c.Config.Reward.Max}
			switch {
			case c.Config.Reward.Adapt: // not declared: nothing is known of rewards that were not seen
			case j.Ranges == 0:
				j.Range, j.Ranges = now, 1
			case now != j.Range:
				j.Ranges++
				j.note(seq, fmt.Sprintf("the range of rewards became [%g, %g]", now[0], now[1]))
			}
			if had && old.Rule != c.Config.Reward.Rule {
				j.note(seq, "rewards count by the rule "+c.Config.Reward.Rule+" from here on")
			}
		}
	} else if _, had := j.configs[r.Model]; !had && r.From != 0 {
		j.configs[r.Model] = j.configs[r.From]
	}
	if mine && r.From != 0 {
		j.note(seq, "the model was rolled back or cloned")
	}
	return nil
}

// mine reports whether a model is the one that is joined.
func (j *Joiner) mine(id eventlog.ID) bool {
	name := j.names[id]
	return name != "" && (name == j.o.Model || j.o.Model == "" && (j.Model == "" || j.Model == name))
}

func (j *Joiner) decision(d eventlog.Delivery, i uint32, r *eventlog.Decision) error {
	name := j.names[r.Model]
	switch {
	case j.o.Model != "" && name != j.o.Model:
		return nil
	case j.Model == "":
		j.Model = name
	case name != j.Model:
		return fmt.Errorf("decisions of the models %q and %q: name one", j.Model, name)
	}
	if r.Mode != eventlog.Online && r.Mode != eventlog.Frozen {
		j.Skipped["mode "+r.Mode.String()+": a baseline was played"]++
		return nil
	}
	if r.Slot != "" {
		j.Slots = true
	}
	kept := *r // the entry's storage belongs to the reader of the log
	kept.X, kept.Full, kept.Law, kept.Groups = nil, slices.Clone(r.Full), slices.Clone(r.Law), slices.Clone(r.Groups)
	kept.Atoms, kept.Request, kept.Idempotency = nil, nil, nil
	e := &decision{key: d.Key(i), seq: d.Seq, r: &kept, rule: j.configs[r.Model].Rule, active: !r.Deferred}
	j.open[e.key] = e
	j.queue = append(j.queue, e)
	return nil
}

func (j *Joiner) reward(r *eventlog.Reward) {
	e := j.open[r.Event]
	switch {
	case e == nil || e.closed || e.r.Model != r.Model:
		return // late, or of another model
	case e.rule != "sum" && e.rule != "last" && e.rewarded, r.Key != 0 && slices.Contains(e.keys, r.Key):
		return // repeated
	}
	if r.Key != 0 {
		e.keys = append(e.keys, r.Key)
	}
	if e.rule == "sum" {
		e.y += r.Y
	} else {
		e.y = r.Y
	}
	e.rewarded, e.active = true, true
}

func (j *Joiner) expire(r *eventlog.Expire) {
	for i := range r.Count {
		key := r.Event
		key.Index += i
		e := j.open[key]
		if e == nil || e.closed || e.r.Model != r.Model {
			continue
		}
		if e.closed = true; !e.rewarded && r.Default {
			e.y, e.fallback = r.Y, true
		}
	}
}

// settle emits the decisions at the front of the queue that are settled: closed, or paid by the rule first with a
// window that is over by the clock of the log.
func (j *Joiner) settle(emit func(*logged.Event) error) error {
	n := 0
	for _, e := range j.queue {
		first := e.rule != "sum" && e.rule != "last"
		if !e.closed && !(first && e.rewarded && e.r.Deadline <= j.clock) {
			break
		}
		n++
		delete(j.open, e.key)
		switch {
		case !e.active:
			j.Skipped["inactive: deferred and never activated"]++
			continue
		case !e.rewarded && !e.fallback:
			j.Skipped["(counted as 0) no reward and no default"]++
		}
		ev, err := j.event(e)
		if err == nil {
			err = emit(ev)
		}
		if err != nil {
			return err
		}
	}
	if n > 0 {
		j.queue = append(j.queue[:0], j.queue[n:]...)
	}
	return nil
}

// event is the decision as a logged event: candidates that were available, the propensity num/den, and from log version
// 2 on the law of the draw.
func (j *Joiner) event(e *decision) (*logged.Event, error) {
	r := e.r
	out := &logged.Event{Time: time.Unix(0, r.Time).UTC(), K: int(r.Offered), Chosen: int(r.Index), Reward: e.y,
		Propensity: float64(r.Num) / float64(r.Den), Position: logged.NoPosition}
	if j.o.ID != nil {
		out.ID = j.o.ID(e.key, e.seq)
	}
	set, err := candidates.Parse(r.Full)
	if err != nil {
		return nil, err
	}
	for k := range set.K {
		out.Actions = append(out.Actions, logged.Action{X: set.X[k*set.D : (k+1)*set.D]})
	}
	if set.K > 0 {
		out.K = set.K
	}
	if out.K == 0 || out.Chosen >= out.K {
		return nil, fmt.Errorf("entry %d: action %d of %d candidates", e.seq, out.Chosen, out.K)
	}
	if len(r.Law) == out.K && r.Voters > 0 {
		out.Law = law(r)
	}
	return out, out.Check()
}

// law is (1 − ε)·votes/voters/g + ε/K, g the number of candidates in the group.
func law(r *eventlog.Decision) []float64 {
	K := len(r.Law)
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
	return out
}

// Pending returns how many decisions of the model are left: they were decided less than a window before the last
// entry, or later than such a one.
func (j *Joiner) Pending() int { return len(j.queue) }

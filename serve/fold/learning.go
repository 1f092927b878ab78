package fold

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/serve/model"
)

// This file is about models whose features say learn = { after = N }. Such a model begins with hashed features, and its
// decisions keep their requests in the log. The fold lists the events that the model has learned. After N, 2N and 4N of
// them the server learns a schema from the requests, lets the policy auto learn the events of the list in their order,
// and writes what came of it into the log (eventlog.Adopt). The fold then does the same, from the schema of that
// record, and from there on the model is the learned one, if it predicted better.
// docs/design/adr/0018-learned-schemas.md

// Learning is what a model of this kind keeps beside its policy. It is part of the state.
type Learning struct {
	Events   []Kept // that were learned and whose requests are in the log, in their order
	Requests uint64 // that were kept
	Bytes    uint64 // of them
	Tries    []Try
	Dropped  uint64 // events that were listed and are not any more, because there were too many
	Adopted  uint64 // entry from which the learned model decides, 0: it does not
	Was      []byte // the configuration before that
	Done     bool   // there are no more tries, and requests are not kept any more

	digest eventlog.ID // of all events that were ever in the list
}

// Kept is an event that was learned.
type Kept struct {
	Key   eventlog.Event
	Seq   uint64 // entry of the decision
	Y     float64
	Error float64 // square of the reward less what the hashed model had expected
}

// Try is a schema that was learned, and how its model did. It is the data of an Adopt record.
type Try struct {
	Number   int      `json:"number"`       // from 0
	Seq      uint64   `json:"seq,omitzero"` // entry of the record; not in the record itself
	From     uint64   `json:"from_seq"`     // requests of earlier entries were not used
	Dropped  uint64   `json:"dropped,omitzero"`
	Events   int      `json:"events"`            // of the list
	Rewards  int      `json:"rewards"`           // of these events were learned
	Dim      int      `json:"dim,omitzero"`      // of the learned model
	Schema   string   `json:"schema,omitzero"`   // its identity
	Hashed   float64  `json:"hashed_error"`      // mean square of one-step errors on the later half
	Learned  float64  `json:"learned_error"`     //
	TookOver bool     `json:"took_over"`         //
	Why      string   `json:"why"`               // in words
	Reasons  []string `json:"reasons,omitempty"` // of the schema: what is in it and what is not
	Version  uint64   `json:"base_version"`      // of the configuration that the try was made with
}

// MaxTries is how often a schema is learned: after N, 2N and 4N rewards.
const MaxTries = 3

// maxKept is how many times N events are listed at most; then the older half goes.
const maxKept = 8

// LearnedDim is the most coordinates of a schema that is learned.
const LearnedDim = 512

// learnAfter returns N, 0 for a model that learns no schema.
func learnAfter(c *model.Compiled) int {
	if h := c.Config.Features.Hashed; h != nil {
		return h.Learn.After
	}
	return 0
}

// ownConfig is the configuration of the log, also where the fold has cast the model into another policy.
func (m *Model) ownConfig() *model.Compiled {
	if m.uncast != nil {
		return m.uncast
	}
	return m.Compiled
}

// Keeps reports whether decisions of the model keep their requests.
func (m *Model) Keeps() bool { return m.Learning.keeps() }

// keeps reports whether requests are kept, for a model without a Learning not.
func (l *Learning) keeps() bool { return l != nil && !l.Done }

// beginLearning gives a model that is to learn a schema its list, and takes one away that its configuration does not
// want: what it was copied from may have another.
func (m *Model) beginLearning() {
	switch learns := learnAfter(m.ownConfig()) > 0; {
	case learns && m.Learning == nil:
		m.Learning = &Learning{}
	case !learns && m.Learning != nil && m.Learning.Adopted == 0:
		m.Learning = nil
	}
}

// inherited returns a copy that goes on from what l is now.
func (l *Learning) inherited() *Learning {
	if l == nil {
		return nil
	}
	c := *l
	c.Events, c.Tries = slices.Clip(l.Events), slices.Clip(l.Tries)
	return &c
}

// at returns what l was after an entry, as far as it is known without its events.
func (l *Learning) at(seq uint64) *Learning {
	c := l.inherited()
	if c == nil || c.Adopted <= seq && (len(c.Tries) == 0 || c.Tries[len(c.Tries)-1].Seq <= seq) {
		return c
	}
	n := 0
	for n < len(c.Tries) && c.Tries[n].Seq <= seq {
		n++
	}
	c.Tries, c.Adopted, c.Was, c.Done = c.Tries[:n:n], 0, nil, n == MaxTries
	return c
}

// adoptedAfter reports whether a learned model took over after an entry.
func (l *Learning) adoptedAfter(seq uint64) bool { return l != nil && l.Adopted > seq }

// ConfigAt returns the present configuration with the features and the policy of the time after an entry.
func (m *Model) ConfigAt(seq uint64) (*model.Compiled, error) {
	own := m.ownConfig()
	if !m.Learning.adoptedAfter(seq) {
		return own, nil
	}
	var was model.Config
	if err := json.Unmarshal(m.Learning.Was, &was); err != nil {
		return nil, err
	}
	return own.Config.As(was)
}

// usable returns how many of the listed events have their requests in a log that begins with entry first.
func (l *Learning) usable(first uint64) int {
	if first <= 1 {
		return len(l.Events)
	}
	n := 0
	for i := range l.Events {
		if l.Events[i].Seq >= first {
			n++
		}
	}
	return n
}

// Progress returns how many rewards have come of those after which a schema is learned next, in a log that begins with
// entry first. next is 0 for a model that learns none, or none any more.
func (m *Model) Progress(first uint64) (have, next int) {
	if !m.Keeps() || m.Deleted || m.Successor != 0 {
		return 0, 0
	}
	n := learnAfter(m.ownConfig())
	return m.Learning.usable(first), n << len(m.Learning.Tries)
}

// Due reports whether a schema is to be learned now.
func (m *Model) Due(first uint64) bool {
	if !m.Keeps() || !m.HasPolicy() || len(m.Learning.Events) < learnAfter(m.ownConfig())<<len(m.Learning.Tries) {
		return false
	}
	have, next := m.Progress(first)
	return next > 0 && have >= next
}

// keep lists an event before the hashed policy learns it.
func (f *Fold) keep(m *Model, a bandit.Action, y float64, x *Features, key eventlog.Event) {
	p, ok := m.policy.(bandit.Scorer)
	if !ok || !m.Keeps() || !x.kept {
		return
	}
	l := m.Learning
	if n := maxKept * learnAfter(m.ownConfig()); n > 0 && len(l.Events) >= n {
		l.Events, l.Dropped = slices.Clone(l.Events[n/2:]), l.Dropped+uint64(n/2)
	}
	e := y - p.Score(a)
	k := Kept{Key: key, Seq: x.seq, Y: y, Error: float64(e * e)}
	l.Events = append(l.Events, k)
	l.digest = Digest(k.append(binary.LittleEndian.AppendUint64(nil, uint64(l.digest))))
}

func (k *Kept) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(k.Key.Epoch))
	b = binary.AppendUvarint(b, k.Key.Batch)
	b = binary.AppendUvarint(b, uint64(k.Key.Index))
	b = binary.AppendUvarint(b, k.Seq)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(k.Y))
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(k.Error))
}

// toSchema gives an event that was decided with hashed features the vector of the schema that the model has since. It
// returns false when the request was not kept, so that the event cannot be learned.
func (f *Fold) toSchema(m *Model, x *Features, key eventlog.Event) (bool, error) {
	d := x.decision
	if d == nil {
		if !x.kept {
			return false, nil
		}
		var err error
		d, err = f.past.Decision(key, x.seq)
		if f.lost > 0 && errors.Is(err, eventlog.ErrNotFound) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
	r, err := readRequest(d)
	if err != nil {
		return false, nil
	}
	v, err := newSchemaEncoder(m.Compiled).vector(&r)
	if err != nil {
		return false, nil
	}
	x.X = slices.Clone(v)
	return true, nil
}

// Learner returns it for a model that is Due.
func (f *Fold) Learner(m *Model, first uint64) Learner {
	lo, hi := m.Range()
	return Learner{
		ID: m.ID, Name: m.Name(), Compiled: m.Compiled, Version: m.Version, Seed: m.Seed, Number: len(m.Learning.Tries),
		Low: lo, High: hi,
		Events: m.Learning.from(first), Dropped: m.Learning.Dropped, From: max(1, first), Lost: f.lost > 0,
	}
}

// from returns the events whose decisions are in entries from first on.
func (l *Learning) from(first uint64) (out []Kept) {
	for _, e := range l.Events {
		if e.Seq >= first {
			out = append(out, e)
		}
	}
	return out
}

// adopt folds what came of a try. A record that is not about the present list and configuration came too late.
func (f *Fold) adopt(m *Model, cfg *model.Compiled, r *eventlog.Control, at Stamp) (Outcome, error) {
	var try Try
	if err := json.Unmarshal(r.Data, &try); err != nil {
		return None, fmt.Errorf("data of adopt: %w", err)
	}
	if !m.Keeps() || try.Number != len(m.Learning.Tries) || try.Version != m.Version || try.TookOver != (cfg != nil) {
		return Conflict, nil
	}
	if try.TookOver && try.From <= f.base.Seq { // the requests that it learned from may be gone
		return Conflict, nil
	}
	if err := f.wake(m); err != nil {
		return None, err
	}
	l := m.Learning.inherited() // states that were published keep the old one
	m.Learning = l
	try.Seq = f.seq
	l.Tries = append(l.Tries, try)
	if !try.TookOver {
		if l.Done = len(l.Tries) == MaxTries; l.Done {
			l.Events = nil
		}
		return Accepted, f.touch(m)
	}
	l.Was = m.ownConfig().JSON
	if m.uncast != nil {
		m.uncast = cfg
	} else {
		if m.policy != nil {
			fit, err := f.fitted(m, cfg, &try, r.Digest)
			if err != nil {
				return None, err
			}
			m.policy, m.Counts.Learned = fit.policy, fit.Learned
		}
		m.Compiled = cfg
		if m.policy != nil {
			f.defers(m)
		}
	}
	m.Memory.SetStatistics(nil)
	l.Events, l.Done, l.Adopted = nil, true, f.seq
	m.Version++
	m.Changed = at
	return Accepted, f.touch(m)
}

// fitted returns the learned policy after all events of the list.
func (f *Fold) fitted(m *Model, cfg *model.Compiled, try *Try, digest eventlog.ID) (*Fit, error) {
	events := m.Learning.from(try.From)
	if f.past == nil {
		return nil, errors.New("a learned model takes over, and the log with its requests is not at hand")
	}
	fit := f.past.fits.take(f.past.fitKey(m.ID, cfg, try.Number))
	same := try.Dropped == m.Learning.Dropped // otherwise events of the try have left the list since
	if fit == nil || !same {
		var err error
		if fit, err = f.past.newFit(cfg, m.Seed); err != nil {
			return nil, err
		}
	}
	if fit.n == 0 && same {
		if try.Events > len(events) {
			return nil, fmt.Errorf("the model %v has %d events to learn, the record says %d", m.ID, len(events),
				try.Events)
		}
		if err := fit.learn(context.Background(), events[:try.Events], m.Seed, f.lost > 0); err != nil {
			return nil, err
		}
		got, err := fit.digest() // the record has that of the policy after the events of the try
		if err != nil {
			return nil, err
		}
		if f.lost == 0 && got != digest {
			return nil, fmt.Errorf("the learned model of %v has the digest %v, the record says %v", m.ID, got, digest)
		}
	}
	return fit, fit.learn(context.Background(), events, m.Seed, f.lost > 0)
}

// appendState appends what the digest of a state depends on.
func (l *Learning) appendState(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(l.digest))
	b = binary.LittleEndian.AppendUint64(b, l.Adopted)
	return binary.LittleEndian.AppendUint64(b, uint64(len(l.Tries)))
}

// append appends the bytes of the whole.
func (l *Learning) append(b []byte) ([]byte, error) {
	w := writer{b}
	w.uint(l.Requests)
	w.uint(l.Bytes)
	w.fixed(uint64(l.digest))
	w.uint(l.Dropped)
	w.uint(l.Adopted)
	w.bytes(l.Was)
	w.bool(l.Done)
	tries, err := json.Marshal(l.Tries)
	if err != nil {
		return b, err
	}
	w.bytes(tries)
	w.uint(uint64(len(l.Events)))
	for i := range l.Events {
		w.b = l.Events[i].append(w.b)
	}
	return w.b, nil
}

func readLearning(b []byte) (*Learning, error) {
	r := reader{b: b}
	l := &Learning{Requests: r.uint(), Bytes: r.uint(), digest: eventlog.ID(r.fixed()), Dropped: r.uint(),
		Adopted: r.uint(), Was: r.bytes(), Done: r.bool()}
	tries := r.bytes()
	n := r.count()
	if n > 0 {
		l.Events = make([]Kept, n)
	}
	for i := range l.Events {
		l.Events[i] = Kept{
			Key: eventlog.Event{Epoch: eventlog.ID(r.fixed()), Batch: r.uint(), Index: uint32(r.uint())}, Seq: r.uint(),
			Y: math.Float64frombits(r.fixed()), Error: math.Float64frombits(r.fixed()),
		}
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes too many", len(r.b))
	}
	if r.err != nil {
		return nil, r.err
	}
	return l, json.Unmarshal(tries, &l.Tries)
}

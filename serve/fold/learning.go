package fold

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"

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
	Lacks    []string `json:"lacks,omitempty"`   // of these, those of what requests have and the schema does not
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

// keeps reports whether requests are kept, for a model without a Learning not.
func (l *Learning) keeps() bool { return l != nil && !l.Done }

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

func (k *Kept) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(k.Key.Epoch))
	b = binary.AppendUvarint(b, k.Key.Batch)
	b = binary.AppendUvarint(b, uint64(k.Key.Index))
	b = binary.AppendUvarint(b, k.Seq)
	b = binary.LittleEndian.AppendUint64(b, math.Float64bits(k.Y))
	return binary.LittleEndian.AppendUint64(b, math.Float64bits(k.Error))
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

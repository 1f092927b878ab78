package fold

import (
	"encoding/json"
	"errors"
	"fmt"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/model"
)

// This file is about the requests that decisions keep in the log.

// Request is the form in which a decision keeps its request, and one that can be sent again.
type Request struct {
	Actions []RequestAction `json:"actions"` // the candidates, or only the one that was chosen where all are too many
	Context json.RawMessage `json:"context,omitempty"`
}

// RequestAction is a candidate of a Request.
type RequestAction struct {
	Features json.RawMessage `json:"features,omitempty"`
	ID       string          `json:"id,omitempty"`
}

// Bytes returns what a decision keeps of a request: with all candidates, with the chosen one alone where that is more
// than limit bytes, or nil.
func (r Request) Bytes(chosen, limit int) []byte {
	if b, err := json.Marshal(r); err == nil && len(b) <= limit {
		return b
	}
	r.Actions = r.Actions[chosen : chosen+1]
	if b, err := json.Marshal(r); err == nil && len(b) <= limit {
		return b
	}
	return nil
}

// keptRequest is the request of a decision and the action that was chosen.
type keptRequest struct {
	Request
	size   int
	chosen RequestAction
}

func readRequest(d *eventlog.Decision) (r keptRequest, err error) {
	if err = json.Unmarshal(d.Request, &r.Request); err != nil {
		return r, err
	}
	r.size = len(d.Request)
	switch n := len(r.Actions); {
	case n == 1:
		r.chosen = r.Actions[0]
	case int(d.Index) < n:
		r.chosen = r.Actions[d.Index]
	default:
		err = errors.New("a kept request without the action that was chosen")
	}
	return r, err
}

// schemaEncoder makes vectors of kept requests.
type schemaEncoder struct{ b *feature.Batch }

func newSchemaEncoder(c *model.Compiled) schemaEncoder {
	b := feature.NewBatch(c.Encoder)
	b.Lenient(true)
	return schemaEncoder{b}
}

// vector returns that of the chosen action, valid until the next call. A request that the schema cannot read has none.
func (e schemaEncoder) vector(r *keptRequest) ([]float64, error) {
	if err := e.b.Begin(r.Context); err != nil {
		return nil, err
	}
	if err := e.b.Add(r.chosen.ID, r.chosen.Features); err != nil {
		return nil, err
	}
	return e.b.Row(0), nil
}

// RequestEncoder makes vectors of the requests that decisions keep. It is the scratch space of one goroutine.
type RequestEncoder struct{ e schemaEncoder }

// NewRequestEncoder returns the encoder of a configuration with a schema.
func NewRequestEncoder(c *model.Compiled) *RequestEncoder {
	return &RequestEncoder{newSchemaEncoder(c)}
}

// Vector returns what the schema makes of the action that was chosen, valid until the next call. It returns nil for a
// decision that keeps no request, and for one that the schema cannot read: the fold does not learn these either.
func (e *RequestEncoder) Vector(d *eventlog.Decision) []float64 {
	if len(d.Request) == 0 {
		return nil
	}
	r, err := readRequest(d)
	if err != nil {
		return nil
	}
	x, err := e.e.vector(&r)
	if err != nil {
		return nil
	}
	return x
}

// requestReader reads kept requests from the log, one entry at a time.
type requestReader struct {
	log       Log
	seq       uint64
	header    eventlog.Header
	decisions []eventlog.Record
}

func (r *requestReader) read(key eventlog.Event, seq uint64) (*eventlog.Decision, error) {
	if r.decisions == nil || r.seq != seq {
		e, err := r.log.Get(seq)
		if err != nil {
			return nil, err
		}
		if r.header, r.decisions, err = eventlog.ParseRecords(e.Data); err != nil {
			return nil, fmt.Errorf("entry %d: %w", seq, err)
		}
		r.seq = seq
	}
	if int(key.Index) >= len(r.decisions) {
		return nil, fmt.Errorf("entry %d has no record %d: %w", seq, key.Index, eventlog.ErrNotFound)
	}
	return isDecision(r.header, r.decisions[key.Index], key, seq)
}

package fold

import (
	"context"
	"errors"
	"sync"

	"troupe/bandit"
	"troupe/eventlog"
	"troupe/rng"
	"troupe/serve/model"
)

// This file learns a schema from kept requests, and lets a model with it learn the events of a list.

// Fit is a learned model under way: a policy that learned the first events of a list.
type Fit struct {
	compiled *model.Compiled
	policy   model.Policy
	encode   schemaEncoder
	read     requestReader
	n        int    // events of the list that were looked at
	Learned  uint64 // of these were learned
	judged   []judged
}

// judged is an event that both models predicted before they learned it.
type judged struct {
	weight  float64 // 1/(K·p): of K candidates its action was chosen with probability p
	hashed  float64 // square of the one-step error of the hashed model
	learned float64 // and of that of the schema
}

func newFit(log Log, c *model.Compiled, seed rng.Key) (*Fit, error) {
	p, err := c.NewPolicy(seed)
	if err != nil {
		return nil, err
	}
	return &Fit{compiled: c, policy: p, encode: newSchemaEncoder(c), read: requestReader{log: log}}, nil
}

// learn goes on to the end of events, of which the first f.n were learned. With lost an event that is not in the log is
// left out.
func (f *Fit) learn(ctx context.Context, events []Kept, seed rng.Key, lost bool) error {
	m := Model{Seed: seed}
	for _, e := range events[f.n:] {
		if err := ctx.Err(); err != nil {
			return err
		}
		f.n++
		d, err := f.read.read(e.Key, e.Seq)
		if lost && errors.Is(err, eventlog.ErrNotFound) {
			continue
		}
		if err != nil {
			return err
		}
		r, err := readRequest(d)
		if err != nil {
			continue
		}
		x, err := f.encode.vector(&r)
		if err != nil {
			continue
		}
		if p, ok := f.policy.(interface{ Estimate([]float64) float64 }); ok {
			v := e.Y - p.Estimate(x)
			rarity := float64(d.Den) / (float64(max(1, d.Offered)) * float64(d.Num))
			f.judged = append(f.judged, judged{rarity, e.Error, float64(v * v)})
		}
		if err := f.policy.Update(bandit.Action{X: x, Index: bandit.NoIndex}, e.Y, m.Targets(e.Key)); err != nil {
			return err
		}
		f.Learned++
	}
	return nil
}

// fits keeps the newest fit, so that a fold that applies its record need not repeat it.
type fits struct {
	mu  sync.Mutex
	key fitKey
	fit *Fit
}

type fitKey struct {
	model  eventlog.ID
	config eventlog.ID
	number int
}

func fitKeyOf(id eventlog.ID, c *model.Compiled, number int) fitKey {
	return fitKey{id, Digest(c.JSON), number}
}

func (x *fits) put(k fitKey, f *Fit) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.key, x.fit = k, f
}

// take returns a fit, to the first caller.
func (x *fits) take(k fitKey) (f *Fit) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.key == k {
		f, x.fit = x.fit, nil
	}
	return f
}

func (f *Fit) digest() (eventlog.ID, error) {
	b, err := f.policy.AppendSnapshot(nil)
	return Digest(b), err
}

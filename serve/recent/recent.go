// Package recent finds decisions by their event ids. It keeps the newest ones in memory, so that a reward need not read
// the log, and those of entries that were asked for twice.
package recent

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"troupe/eventlog"
	"troupe/serve/fault"
	"troupe/serve/fold"
)

// wanted are the entries that were read from the log last.
type wanted struct {
	mu   sync.Mutex
	seqs [128]uint64
	at   int
}

// again reports whether an entry is among them, and adds it.
func (w *wanted) again(seq uint64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if slices.Contains(w.seqs[:], seq) {
		return true
	}
	w.seqs[w.at] = seq
	w.at = (w.at + 1) % len(w.seqs)
	return false
}

// turns let one caller read an entry at a time; entries share them.
type turns [64]chan struct{}

func (t *turns) init() {
	for i := range t {
		t[i] = make(chan struct{}, 1)
	}
}

// take waits for the turn of an entry. done gives it back.
func (t *turns) take(ctx context.Context, seq uint64) (done func(), err error) {
	turn := t[seq%uint64(len(t))]
	select {
	case turn <- struct{}{}:
		return func() { <-turn }, nil
	case <-ctx.Done():
		return nil, &fault.Error{Code: fault.Unavailable, Want: "the log does not answer", RetryAfter: time.Second,
			Err: ctx.Err()}
	}
}

// Options configure New.
type Options struct {
	Keys eventlog.IDKeys // of event ids
	Log  eventlog.Log
	Past *fold.History // reads a decision from the log
	// Here waits until an entry that another node has answered is applied.
	Here func(ctx context.Context, seq uint64) error
	// Places returns the entries in which a decision of another server may stand; nil: none has come.
	Places func(key eventlog.Event) []uint64
	Logger *slog.Logger
}

// Decisions finds decisions by their event ids, the newest ones without reading the log. It is safe for concurrent use.
type Decisions struct {
	opt    Options
	newest memory
	reread memory // decisions of entries that were read again
	turns  turns
	wanted wanted

	carried carried

	forged    atomic.Uint64
	malformed atomic.Uint64
	missing   atomic.Uint64
}

// New returns Decisions that remember none.
func New(o Options) *Decisions {
	d := &Decisions{opt: o}
	d.turns.init()
	return d
}

// Put remembers a decision. It copies what k refers to.
func (d *Decisions) Put(key eventlog.Event, k Known) { d.newest.put(key, k, newestBytes) }

// Forget lets go of all decisions.
func (d *Decisions) Forget() {
	for _, m := range []*memory{&d.newest, &d.reread} {
		for i := range m {
			p := &m[i]
			p.mu.Lock()
			p.empty()
			p.mu.Unlock()
		}
	}
}

// Keep forgets the decisions of all models but those that keep reports true for, and gives their memory back. Rewards of
// the others read the log. Cost: one pass over what is kept, a sixteenth of it at a time under its mutex.
func (d *Decisions) Keep(keep func(model eventlog.ID) bool) {
	for _, m := range []*memory{&d.newest, &d.reread} {
		for i := range m {
			m[i].keep(keep)
		}
	}
}

// Holds reports whether the decision of an event id is in memory.
func (d *Decisions) Holds(text string) bool {
	id, err := d.parse(text)
	if err != nil {
		return false
	}
	_, newest := d.newest.get(id.Event)
	_, reread := d.reread.get(id.Event)
	return newest || reread
}

// Forged counts event ids that this server did not make, Malformed texts that are no event ids, Missing the event ids
// whose decision the log has lost.
func (d *Decisions) Forged() uint64 { return d.forged.Load() }

// Malformed is explained at Forged.
func (d *Decisions) Malformed() uint64 { return d.malformed.Load() }

// Missing is explained at Forged.
func (d *Decisions) Missing() uint64 { return d.missing.Load() }

// Turn waits until no other caller reads an entry, or one that shares its turn. done lets the next one go on.
func (d *Decisions) Turn(ctx context.Context, seq uint64) (done func(), err error) {
	return d.turns.take(ctx, seq)
}

// Find returns what is known of the decision of an event id, from memory or from the log.
func (d *Decisions) Find(ctx context.Context, text string) (eventlog.EventID, Known, error) {
	id, other, err := d.read(ctx, text)
	if err != nil {
		return id, Known{}, err
	}
	if other != nil {
		r, err := decided(other)
		if err != nil {
			return id, Known{}, err
		}
		return id, Of(id.Hint, r), nil
	}
	if k, ok := d.newest.get(id.Event); ok {
		return id, k, nil
	}
	if k, ok := d.reread.get(id.Event); ok {
		return id, k, nil
	}
	if err := d.opt.Here(ctx, id.Hint); err != nil {
		return id, Known{}, err
	}
	// After a restart, or when many decisions are newer, late rewards often come for several decisions of one
	// entry. The second time that an entry is wanted, all its decisions are kept; the first time that would
	// only cost more.
	done, err := d.turns.take(ctx, id.Hint)
	if err != nil {
		return id, Known{}, err
	}
	defer done()
	if k, ok := d.reread.get(id.Event); ok {
		return id, k, nil
	}
	var r *eventlog.Decision
	if d.wanted.again(id.Hint) {
		r, err = d.opt.Past.DecisionAmong(id.Event, id.Hint, func(key eventlog.Event, r *eventlog.Decision) {
			d.reread.put(key, Of(id.Hint, r), rereadBytes)
		})
	} else {
		r, err = d.opt.Past.Decision(id.Event, id.Hint)
	}
	if err != nil {
		return id, Known{}, d.lost(ctx, id, err)
	}
	return id, Of(id.Hint, r), nil
}

// Whole returns the decision of an event id, with its candidates, from the log.
func (d *Decisions) Whole(ctx context.Context, text string) (eventlog.EventID, *eventlog.Decision, error) {
	id, other, err := d.read(ctx, text)
	if err != nil {
		return id, nil, err
	}
	if other != nil {
		r, err := decided(other)
		return id, r, err
	}
	if err := d.opt.Here(ctx, id.Hint); err != nil {
		return id, nil, err
	}
	r, err := d.opt.Past.Decision(id.Event, id.Hint)
	if err != nil {
		return id, nil, d.lost(ctx, id, err)
	}
	return id, r, nil
}

// read returns what an event id says, and the decision where it came here from another server; Hint is then its entry here.
func (d *Decisions) read(ctx context.Context, text string) (eventlog.EventID, *fold.Carried, error) {
	id, err := d.opt.Keys.Parse(text)
	if d.opt.Places != nil && (err != nil || len(d.opt.Places(id.Event)) > 0) && err != eventlog.ErrNotID {
		if id, c, err := d.foreign(ctx, text); err != nil || c != nil {
			return id, c, err
		}
	}
	id, err = d.parse(text)
	return id, nil, err
}

// Carried returns the decision of another server with a key, which came here with its model, and its entry; nil for every other
// one.
func (d *Decisions) Carried(key eventlog.Event) (c *fold.Carried, seq uint64, err error) {
	if d.opt.Places == nil {
		return nil, 0, nil
	}
	for _, seq := range d.opt.Places(key) {
		all, e := d.carried.in(d.opt.Past, seq)
		if e != nil {
			err = e
			continue
		}
		if c := fold.FindCarried(all, key); c != nil {
			return c, seq, nil
		}
	}
	return nil, 0, err
}

// foreign returns the decision of another server whose event id this is, nil where the text is not the id of one. Its mark vouches
// for the text.
func (d *Decisions) foreign(ctx context.Context, text string) (id eventlog.EventID, c *fold.Carried, err error) {
	id, mark, err := eventlog.Peek(text)
	if err != nil || id.Shard != 0 || id.Token {
		return id, nil, nil
	}
	c, seq, err := d.Carried(id.Event)
	switch {
	case err != nil:
		return id, nil, d.lost(ctx, eventlog.EventID{Event: id.Event, Hint: seq}, err)
	case c == nil || c.Hint != id.Hint || !c.Vouches(mark):
		return id, nil, nil
	}
	id.Hint = seq
	return id, c, nil
}

func (d *Decisions) parse(text string) (eventlog.EventID, error) {
	id, err := d.opt.Keys.Parse(text)
	if err != nil || id.Shard != 0 || id.Token {
		if err == eventlog.ErrNotID {
			d.malformed.Add(1)
		} else {
			d.forged.Add(1)
		}
		return id, &fault.Error{Code: fault.BadEventID, Field: "event_id", Want: "expected an event id of this server", Err: err}
	}
	return id, nil
}

// lost returns why a decision was not found in the log.
func (d *Decisions) lost(ctx context.Context, id eventlog.EventID, err error) error {
	if !errors.Is(err, eventlog.ErrNotFound) {
		return &fault.Error{Code: fault.Unavailable, Want: "the log cannot be read", RetryAfter: time.Second, Err: err}
	}
	if info, e := d.opt.Log.Info(ctx, 0); e == nil && id.Hint < info.First {
		return &fault.Error{Code: fault.Gone, Field: "event_id", Want: "the decision is no longer kept"}
	}
	// An id is signed only after its decision is durable, so the log has lost something.
	d.missing.Add(1)
	d.opt.Logger.Error("an acknowledged decision is not in the log", "seq", id.Hint, "batch", id.Event.Batch, "epoch",
		id.Event.Epoch.String())
	return &fault.Error{Code: fault.NotFound, Field: "event_id", Want: "the decision is not in the log", Err: err}
}

package decide

import (
	"context"
	"time"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/choose"
	"troupe/serve/fold"
	"troupe/serve/numbers"
)

// Versions are the models as decisions see them.
type Versions interface {
	// Ready returns a model and the version that decides, one that has at least the sequence minSeq. It changes
	// nothing.
	Ready(ctx context.Context, name string, minSeq uint64) (Model, *choose.Version, error)
}

// Declarer fixes the numbers of a model that has none, as its first request with numbers declares them. It returns when the
// change is applied, or when another call has fixed some meanwhile.
type Declarer interface {
	Declare(ctx context.Context, name string, list []numbers.Range, caller string) error
}

// Model is a model that decides.
type Model interface {
	// Worker returns a worker in the state of v, or of the newest version when v's state is gone. Done takes it back.
	Worker(v *choose.Version) (*choose.Worker, error)
	Done(w *choose.Worker)
	// Broken returns the error of a decision that the policy of a version could not make, and notes it.
	Broken(v *choose.Version, err error) error
	// Observe notes in a record what encoding its request met. Warnings are those of the answer.
	Observe(w *choose.Worker, r *eventlog.Decision)
	Warnings(n eventlog.Notes, v *choose.Version) []string
}

// Log takes the records of decisions, and knows which were made with a key.
type Log interface {
	// Append returns when the records are durable. An error with Unknown set: they may be in the log.
	Append(ctx context.Context, records ...eventlog.Record) (eventlog.Receipt, error)
	// Applied waits until an entry is applied, or the server stops; Settled, until that is so of every record whose
	// fate was unknown.
	Applied(seq uint64) error
	Settled()
	// Key returns the use of an idempotency key, Decision the record of a decision.
	Key(key [16]byte) (fold.KeyUse, bool)
	Decision(key eventlog.Event, seq uint64) (*eventlog.Decision, error)
	// Enter counts a call that goes on after its caller has left, Leave ends one.
	Enter()
	Leave()
}

// Recent remembers the newest decisions, so that a reward need not read the log.
type Recent interface {
	// Put gets a decision that is durable. name is that of the model in the request, which belongs to the caller.
	Put(m Model, name string, q *Request, r *eventlog.Decision, key eventlog.Event, seq uint64)
}

// Options configure a Decider.
type Options struct {
	Limits feature.Limits  // of the features of one request
	Keys   eventlog.IDKeys // of event ids
	Joint  bool            // other nodes decide too
	// EventID returns the id that the caller of the first decision with a key got, also where another server has made it; nil: those
	// of this server.
	EventID func(use fold.KeyUse) string
	// Turns shares the processors among the models, Work bounds the estimated work of a call.
	Turns  *Turns
	Work   time.Duration
	Random func() eventlog.ID
	Now    func() time.Time
	// Clock is that of the log, 0 where this machine's is. It closes windows: where this node's clock is behind it, a
	// window has its whole length by that one.
	Clock func() int64
}

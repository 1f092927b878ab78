package eventlog

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"troupe/timing"
)

// CommitterOptions configure a Committer.
type CommitterOptions struct {
	Shard uint16
	// Head is the end of the log, from a Chain that has checked it (Tail).
	Head Head
	// Epoch names this writer. Two committers never have the same. 0 means a random one.
	Epoch ID
	// Queue is how many bytes may wait, default 8 MiB. Beyond it Append returns ErrBusy.
	Queue int
	// Batch is the size at which a batch is closed, in bytes, default 256 KiB, at most MaxBatch.
	Batch int
	// Try is how long one attempt to store a batch may take, default 5 s, and FirstTry how long the first one may,
	// default Try; it doubles up to Try. A repetition is the same bytes under the same id, so one that was not
	// needed does no harm.
	Try, FirstTry time.Duration
	// Patience is how long callers wait for the outcome of all attempts before they get ErrUnknown,
	// default 15 s.
	Patience time.Duration
	// Version is the log version that batches have, until Raise. 0 means LogVersion.
	Version uint16
	// Now is the time of day that batches have; without one it is 0. Nothing depends on it. Clock is what attempts wait
	// by, the machine's when it is not set.
	Now   func() time.Time
	Clock timing.Clock
	// Format is the format of the batches; 0 means Format1. A log of format 3 stays one (Chain.Format), and Head
	// is then Chain.Rolling. It needs Keys, which vouch for the batches.
	Format uint16
	Keys   *BatchKeys
	// Applied returns the newest entry that the server has applied and the rolling hash there. In format 3 every
	// batch names it. It must not go back. Without it this is the only writer.
	Applied func() Head
}

// Errors of Committer.Append. Like the refusals of Log they mean that the records are not in the log and
// never will be.
var (
	// ErrBusy: too much is waiting already. Try again in a moment.
	ErrBusy = errors.New("too much is waiting for the log")
	// ErrUnsettled: the outcome of an earlier batch is not known yet. It passes when the log answers.
	ErrUnsettled = errors.New("the outcome of an earlier batch is not known yet")
	// ErrStopped: the committer stopped because the log cannot answer for an earlier batch any more. Open
	// the log again.
	ErrStopped = errors.New("committer has stopped")
	// ErrVoid: the batch was stored too far behind the newest entry that this writer had applied, so it has no
	// effect. In logs of format 3 only.
	ErrVoid = errors.New("stored too late to count")
)

// Receipt is the place of records that are durable.
type Receipt struct {
	Seq   uint64 // of the entry
	Event Event  // key of the first record; those of the same call follow it
}

// Committer writes the records of many callers to one shard. The engine syncs once for each entry, so
// all records that wait while an entry is being stored become the next entry together: with 64 callers
// a sync serves about 64 records.
//
// A batch goes through six phases. The first two run in the goroutine of the caller; the others in one
// goroutine, so that one batch is in flight and never two: the second could be stored without the first.
//
//  1. Encode: Append checks and encodes the records of one call.
//  2. Join: they become part of the newest waiting batch, or begin one.
//  3. Take: the oldest waiting batch is closed for more.
//  4. Seal: it gets its header: number, the entry before it with its hash, checksum.
//  5. Send: the same bytes go to the log under the same id until it answers.
//  6. Settle: the callers of the batch get their receipts, or an error.
//
// A committer is open, unsettled or stopped:
//
//   - open: it takes records.
//   - unsettled: a batch was sent and got no answer for Patience, or the engine has failed. Its callers
//     got ErrUnknown. A batch behind it could be stored without it, so everything else is refused with
//     ErrUnsettled. Phase 5 goes on. When the log answers, the batch is in it, once, and the committer is
//     open again under the same epoch; what was refused in between was never sent.
//   - stopped: the log returned ErrBroken or ErrClosed, or answered with an old sequence. The committer
//     takes nothing any more; opening the log again shows what became of the batch.
type Committer struct {
	log Log
	opt CommitterOptions

	// Only the goroutine of run uses these.
	no    uint64 // of the last batch that was stored, in this epoch
	after Head   // the last entry that this writer stored, or the end of the log where it began
	own   uint64 // the last entry that this writer stored

	epoch   atomic.Uint64
	version atomic.Uint32 // of the batches that begin from now on

	mu      sync.Mutex
	queue   []*flight // the last one takes more records, the others are full
	waiting int       // bytes in queue
	closing bool
	stats   CommitterStats
	spare   [][]byte // of batches that are stored: one fills while another is being stored

	now    atomic.Pointer[committerState] // never nil; changed under mu
	wake   chan struct{}                  // capacity 1: there is work
	done   chan struct{}                  // closed when run has ended
	ctx    context.Context                // ends when Close gives up
	cancel context.CancelFunc
}

// committerState is open, unsettled or stopped. err is nil, wraps ErrUnsettled, or wraps ErrStopped.
type committerState struct{ err error }

var committerOpen = &committerState{}

func (s *committerState) stopped() bool { return errors.Is(s.err, ErrStopped) }

// CommitterStats count since the committer was made.
type CommitterStats struct {
	Batches uint64 // stored
	Events  uint64 // in them
	Retries uint64 // attempts after the first
	Refused uint64 // batches that the log refused
	Void    uint64 // batches that were stored too late to count
	Waiting int    // bytes in the queue, now
	Head    Head   // the end of the log as far as this writer knows
}

// flight is a batch that is filling, waiting or being stored.
type flight struct {
	buf     []byte // HeaderSize bytes of room, then records
	count   uint32
	version uint16
	settled bool          // its callers have their answer; only the goroutine of run looks at it
	done    chan struct{} // closed when seq, no and err are set
	seq     uint64
	epoch   ID
	no      uint64
	err     error
}

var recordBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// NewCommitter begins to write. Close must be called. There must be one committer for a shard.
func NewCommitter(log Log, opt CommitterOptions) (*Committer, error) {
	opt.defaults()
	if err := opt.check(); err != nil {
		return nil, err
	}
	if opt.Epoch == 0 {
		var err error
		if opt.Epoch, err = randomID(); err != nil {
			return nil, fmt.Errorf("committer: epoch: %w", err)
		}
	}
	c := &Committer{log: log, opt: opt, after: opt.Head, wake: make(chan struct{}, 1), done: make(chan struct{})}
	c.epoch.Store(uint64(opt.Epoch))
	c.version.Store(uint32(opt.Version))
	c.now.Store(committerOpen)
	c.stats.Head = opt.Head
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.run()
	return c, nil
}

func (o *CommitterOptions) defaults() {
	if o.Queue == 0 {
		o.Queue = 8 << 20
	}
	if o.Batch == 0 {
		o.Batch = 256 << 10
	}
	if o.Try == 0 {
		o.Try = 5 * time.Second
	}
	if o.FirstTry == 0 {
		o.FirstTry = o.Try
	}
	if o.Patience == 0 {
		o.Patience = 15 * time.Second
	}
	if o.Version == 0 {
		o.Version = LogVersion
	}
	if o.Format == 0 {
		o.Format = Format1
	}
}

func (o *CommitterOptions) check() error {
	switch {
	case o.Batch < HeaderSize || o.Batch > MaxBatch:
		return fmt.Errorf("committer: batch = %d bytes, want %d to %d", o.Batch, HeaderSize, MaxBatch)
	case o.Queue < o.Batch:
		return fmt.Errorf("committer: queue = %d bytes, want at least a batch of %d", o.Queue, o.Batch)
	case !readable(o.Version):
		return fmt.Errorf("committer: log version %d, this code writes %s", o.Version, readableVersions())
	case o.Format != Format1 && o.Format != Format3 || o.Applied != nil && o.Format != Format3:
		return fmt.Errorf("committer: format %d, want %d, or %d, which several writers need", o.Format, Format1,
			Format3)
	case o.Format == Format3 && (o.Keys == nil || o.Keys.secrets[o.Keys.current] == nil):
		return fmt.Errorf("committer: format %d needs a current key", o.Format)
	case o.Try < 0 || o.FirstTry < 0 || o.Patience < 0:
		return fmt.Errorf("committer: try = %v, first try = %v, patience = %v, want positive times", o.Try, o.FirstTry,
			o.Patience)
	case (o.Head.Seq == 0) != (o.Head.Hash == Hash{}):
		return fmt.Errorf("committer: head %d with hash %v is not the end of a log that was checked", o.Head.Seq,
			o.Head.Hash)
	}
	return nil
}

// Epoch returns the writer's name at present. In format 3 it changes when the writer was silent or cut off for
// many entries.
func (c *Committer) Epoch() ID { return ID(c.epoch.Load()) }

// Version returns the log version of the batches that begin now.
func (c *Committer) Version() uint16 { return uint16(c.version.Load()) }

// Raise gives the batches that begin from now on a higher log version, at most LogVersion. A lower one changes nothing.
func (c *Committer) Raise(version uint16) {
	version = min(version, newestVersion())
	for old := c.version.Load(); uint32(version) > old && !c.version.CompareAndSwap(old, uint32(version)); {
		old = c.version.Load()
	}
}

// Append stores records together, in one batch, in order, and returns when they are durable. An error
// that wraps ErrUnknown, because ctx ended or the log did not answer while they were under way, means
// that they are in the log once or not at all. After every other error they are not in the log and never
// will be.
func (c *Committer) Append(ctx context.Context, records ...Record) (Receipt, error) {
	if err := ctx.Err(); err != nil {
		return Receipt{}, err
	}
	// 1. Encode.
	buf := recordBuffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 64<<10 {
			recordBuffers.Put(buf)
		}
	}()
	b, version := (*buf)[:0], c.Version()
	var err error
	for _, r := range records {
		if r.Kind() == KindLoss {
			return Receipt{}, fmt.Errorf("a loss is written by repair only: %w", ErrMalformed)
		}
		if b, err = AppendRecord(b, r); err != nil {
			return Receipt{}, err
		}
	}
	*buf = b
	if len(records) == 0 || len(records) > MaxEvents || HeaderSize+len(b)+trailer(c.opt.Format) > MaxBatch {
		return Receipt{}, fmt.Errorf("%d records of %d bytes in one call: %w", len(records), len(b), ErrTooLarge)
	}
	// 2. Join.
	f, index, err := c.join(b, uint32(len(records)), version)
	if err != nil {
		return Receipt{}, err
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		select {
		case <-f.done: // both at once: the outcome is known
		default:
			return Receipt{}, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
		}
	}
	if f.err != nil {
		return Receipt{}, f.err
	}
	return Receipt{f.seq, Event{f.epoch, f.no, index}}, nil
}

// join adds encoded records of a log version to the newest batch that waits, or begins one.
func (c *Committer) join(b []byte, n uint32, version uint16) (*flight, uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch now := c.now.Load(); {
	case now.stopped():
		return nil, 0, now.err
	case c.closing:
		return nil, 0, ErrClosed
	case now.err != nil:
		return nil, 0, now.err
	case c.waiting+len(b) > c.opt.Queue && c.waiting > 0:
		return nil, 0, ErrBusy
	}
	var f *flight
	if k := len(c.queue); k > 0 {
		f = c.queue[k-1]
		if f.version != version || f.count+n > MaxEvents || len(f.buf)+len(b)+trailer(c.opt.Format) > c.opt.Batch {
			f = nil
		}
	}
	if f == nil {
		f = &flight{version: version, done: make(chan struct{})}
		if k := len(c.spare); k > 0 {
			f.buf, c.spare = c.spare[k-1][:HeaderSize], c.spare[:k-1]
		} else {
			f.buf = make([]byte, HeaderSize, 4096)
		}
		c.queue = append(c.queue, f)
	}
	index := f.count
	f.buf, f.count = append(f.buf, b...), f.count+n
	c.waiting += len(b)
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return f, index, nil
}

// run stores the batches one after the other.
func (c *Committer) run() {
	defer close(c.done)
	defer c.cancel()
	for {
		f, end := c.take()
		switch {
		case f != nil:
			if err := c.store(f); err != nil {
				c.stop(err)
				return
			}
		case end:
			return
		default:
			<-c.wake
		}
	}
}

// take closes the oldest batch for more (phase 3). end says that there is none and will be none.
func (c *Committer) take() (f *flight, end bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, c.closing
	}
	f = c.queue[0]
	c.queue = slices.Delete(c.queue, 0, 1)
	c.waiting -= len(f.buf) - HeaderSize
	return f, false
}

// hashAlone is the size up to which a batch is hashed before it is sent: a goroutine beside the log costs more.
const hashAlone = 4 << 10

// Pauses between two attempts to send a batch.
const (
	firstWait = 5 * time.Millisecond
	lastWait  = 250 * time.Millisecond
)

// store takes one batch through phases 4 to 6. An error stops the committer.
func (c *Committer) store(f *flight) error {
	// 4. Seal. The hash is for the header of the next batch; the callers of this one do not wait for it.
	h, hash, err := c.seal(f)
	if err != nil {
		f.settle(0, h, err)
		return err
	}
	var hashed chan Hash
	switch {
	case h.Format == Format3: // its MAC is made of its hash
	case len(f.buf) <= hashAlone:
		hash = HashBatch(f.buf)
	default:
		hashed = make(chan Hash, 1)
		go func(b []byte) { hashed <- HashBatch(b) }(f.buf)
	}

	until, began := c.ctx, c.opt.Clock.Mark() // the attempts end with until; the first one has a limit of its own
	wait := firstWait
	for try := 1; ; try++ {
		// 5. Send.
		seq, err := c.send(until, min(c.opt.Try, c.opt.Patience, c.opt.FirstTry<<min(try-1, 20)), h, f.buf)
		if err == nil {
			// 6. Settle: it is stored.
			if hashed != nil {
				hash = <-hashed
			}
			c.no, c.own, c.after = h.No, seq, c.next(h, seq, hash)
			if h.Format == Format3 && Void(seq, h.After) {
				c.no, err = 0, fmt.Errorf("%w: entry %d names entry %d", ErrVoid, seq, h.After)
			}
			c.stored(f, try, err)
			f.settle(seq, h, err)
			return nil
		}
		if try == 1 && refused(err) {
			// 6. Settle: it was refused. After a second attempt a refusal says nothing about the first.
			c.refused()
			f.settle(0, h, err)
			if errors.Is(err, ErrFull) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrDown) {
				return nil
			}
			return err
		}
		if try == 1 {
			patience, cancel := context.WithTimeout(c.ctx, c.opt.Patience-c.opt.Clock.Since(began))
			defer cancel()
			until = patience
		}
		final := errors.Is(err, errSeqWentBack) || errors.Is(err, ErrBroken) || errors.Is(err, ErrClosed)
		if again := !final && !errors.Is(err, ErrDown) && c.opt.Clock.Sleep(until, wait); !again {
			// 6. Settle: the outcome is unknown. err is not wrapped: the last attempt may have been
			// refused, the batch was not.
			err = fmt.Errorf("%w: batch %d after %d attempts: %v", ErrUnknown, h.No, try, err)
			if final || c.ctx.Err() != nil { // and stays so
				f.settle(0, h, err)
				return err
			}
			if !f.settled {
				c.unsettled(err) // first, because Err must not return nil when a caller knows of a failed write
				f.settle(0, h, err)
				until = c.ctx
			}
			if !c.opt.Clock.Sleep(until, wait) {
				return err
			}
		}
		wait = min(2*wait, lastWait)
	}
}

// seal writes the header of a batch and returns it, in format 3 with the hash of the batch.
func (c *Committer) seal(f *flight) (Header, Hash, error) {
	after := c.after
	if c.opt.Applied != nil {
		after = c.opt.Applied()
	}
	if c.opt.Format == Format3 && (c.no == 0 && c.own > 0 || c.no > 0 && after.Seq > c.own+silent) {
		// The last batch was void, or readers may soon forget this writer.
		epoch, err := randomID()
		if err != nil {
			return Header{}, Hash{}, fmt.Errorf("committer: epoch: %w", err)
		}
		c.no = 0
		c.epoch.Store(uint64(epoch))
	}
	h := Header{Format: c.opt.Format, Shard: c.opt.Shard, Version: f.version, Count: f.count, Epoch: c.Epoch(),
		No: c.no + 1, After: after.Seq, Prev: after.Hash}
	if c.opt.Now != nil {
		h.Time = c.opt.Now().UnixNano()
	}
	var hash Hash
	f.buf, hash = seal(f.buf, h, c.opt.Keys)
	return h, hash, nil
}

// next returns the end of the log as this writer knows it after its batch was stored.
func (c *Committer) next(h Header, seq uint64, hash Hash) Head {
	if h.Format == Format3 {
		hash = rollHash(h.Prev, hash) // right for the only writer; with others Applied says it
	}
	return Head{seq, hash}
}

// errSeqWentBack: the log acknowledged a batch with a sequence that was there before.
var errSeqWentBack = errors.New("the log answers with an old sequence")

// send makes one attempt to store a batch.
func (c *Committer) send(until context.Context, limit time.Duration, h Header, batch []byte) (seq uint64, err error) {
	ctx, cancel := context.WithTimeout(until, limit)
	defer cancel()
	id := h.MessageID()
	if h.Format == Format3 {
		// The log stores nothing under an id that it knows, so the id is one that only a holder of the key can tell
		// before the batch is there.
		id += "/" + hex.EncodeToString(batch[len(batch)-batchMACSize/2:])
	}
	seq, _, err = c.log.Append(ctx, c.opt.Shard, id, batch)
	switch {
	case err == nil && seq <= max(h.After, c.own):
		err = fmt.Errorf("%w: %d after %d", errSeqWentBack, seq, max(h.After, c.own))
	case err == nil && h.Format == Format3 && c.opt.Applied == nil && seq != h.After+1:
		err = fmt.Errorf("%w: %d after %d: there is another writer", errSeqWentBack, seq, h.After)
	}
	return seq, err
}

// settle gives the callers of a batch their answer. They keep the first one.
func (f *flight) settle(seq uint64, h Header, err error) {
	if !f.settled {
		f.settled, f.seq, f.epoch, f.no, f.err = true, seq, h.Epoch, h.No, err
		close(f.done)
	}
}

// stored opens the committer if it was unsettled, counts the batch and keeps its memory.
func (c *Committer) stored(f *flight, tries int, void error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now.Store(committerOpen)
	c.stats.Retries += uint64(tries - 1)
	if void != nil {
		c.stats.Void++
	} else {
		c.stats.Batches++
		c.stats.Events += uint64(f.count)
	}
	c.stats.Head = c.after
	if len(c.spare) < 2 {
		c.spare = append(c.spare, f.buf)
	}
	f.buf = nil
}

func (c *Committer) refused() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Refused++
}

// unsettled refuses the batches that wait, which were never sent, and new ones, until a batch is stored.
func (c *Committer) unsettled(err error) {
	if closing := c.refuse(fmt.Errorf("%w: %v", ErrUnsettled, err)); closing { // only Close waits for it now
		c.opt.Clock.AfterFunc(c.opt.Patience, c.cancel)
	}
}

// stop refuses the batches that wait, and new ones, for good.
func (c *Committer) stop(err error) { c.refuse(fmt.Errorf("%w: %v", ErrStopped, err)) }

// refuse makes err the state and the answer of the batches that wait.
func (c *Committer) refuse(err error) (closing bool) {
	c.mu.Lock()
	c.now.Store(&committerState{err})
	queue := c.queue
	c.queue, c.waiting = nil, 0
	closing = c.closing
	c.mu.Unlock()
	for _, f := range queue {
		f.settle(0, Header{}, err)
	}
	return closing
}

// Close stores what waits and ends. When ctx ends first it gives up: the batch under way has an
// unknown outcome, the others are refused. For a batch whose outcome is unknown already it waits
// Patience once more. It returns why the committer stopped, if it did.
func (c *Committer) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closing = true; c.now.Load().err != nil {
		c.opt.Clock.AfterFunc(c.opt.Patience, c.cancel)
	}
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	select {
	case <-c.done:
	case <-ctx.Done():
		c.cancel()
		<-c.done
	}
	return c.Err()
}

// Done is closed when the committer has ended, by Close or because it stopped.
func (c *Committer) Done() <-chan struct{} { return c.done }

// Err returns nil while the committer takes records and after a Close that stored everything, otherwise
// why not: an error that wraps ErrUnsettled, which passes, or ErrStopped, which does not.
func (c *Committer) Err() error { return c.now.Load().err }

// Stats returns the counts.
func (c *Committer) Stats() CommitterStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Waiting = c.waiting
	return s
}

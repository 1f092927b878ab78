package eventlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// CommitterOptions configure a Committer.
type CommitterOptions struct {
	Shard uint16
	// Head is the end of the log, from a Chain that has checked it (Tail).
	Head Head
	// Epoch names this writer, once: two committers never have the same. A random one when 0.
	Epoch ID
	// Queue is how many bytes may wait, default 8 MiB. Beyond it Append is refused with ErrBusy.
	Queue int
	// Batch is the size at which a batch is closed, in bytes; default 256 KiB, at most MaxBatch.
	Batch int
	// Try is how long one attempt to store a batch may take, default 5 s; Patience is how long callers
	// wait for the outcome of all attempts before they are told that it is unknown, default 15 s.
	Try, Patience time.Duration
	// Now is the clock that batches bear. They bear 0 when it is nil; nothing depends on it.
	Now func() time.Time
}

// Errors of Committer.Append which say, like those of Log, that the records are not in the log and
// never will be.
var (
	// ErrBusy: too much is waiting already. Try again in a moment.
	ErrBusy = errors.New("too much is waiting for the log")
	// ErrUnsettled: nobody knows yet what became of an earlier batch. It passes when the log answers.
	ErrUnsettled = errors.New("the outcome of an earlier batch is not known yet")
	// ErrStopped: the committer stopped because the log will not say what became of an earlier batch.
	// Open the log again.
	ErrStopped = errors.New("committer has stopped")
)

// Receipt says where records are. They are durable.
type Receipt struct {
	Seq   uint64 // of the entry
	Event Event  // key of the first record; those of the same call follow it
}

// Committer writes the records of many callers to one shard. The engine syncs once for each entry,
// so whatever waits while an entry is being stored becomes the next entry together: with 64 callers a
// sync serves about 64 records. One batch is in flight, never two, for the second could be stored
// without the first.
//
// When an attempt gets no answer, the same bytes are sent again under the same id until there is
// one, so no record is lost or stored twice. If that takes longer than Patience, or if the engine
// has failed, the callers of that batch get ErrUnknown; nobody may write behind a batch whose fate is
// open, so everything else is refused with ErrUnsettled. The committer goes on asking. Once the log
// answers, the batch is in it, once, and work goes on under the same epoch: what was refused in
// between was never sent. Only ErrBroken and ErrClosed stop the committer for good; opening the log
// again then shows what became of the batch.
type Committer struct {
	log Log
	opt CommitterOptions

	// Only the goroutine of run uses these.
	no    uint64
	after Head

	mu      sync.Mutex
	queue   []*flight // the last one is open for more, the others are full
	waiting int       // bytes in queue
	closing bool
	stopped error       // for good
	open    error       // wraps ErrUnsettled; nil when the fate of every batch is known
	down    atomic.Bool // one of them is set: Err is asked at every call
	stats   CommitterStats
	spare   [][]byte      // of batches that are stored: one fills while another is being stored
	wake    chan struct{} // capacity 1: there is work
	done    chan struct{} // closed when run has ended
	ctx     context.Context
	cancel  context.CancelFunc
}

// CommitterStats count since the committer was made.
type CommitterStats struct {
	Batches uint64 // stored
	Events  uint64 // in them
	Retries uint64 // attempts after the first
	Refused uint64 // batches that the log refused
	Waiting int    // bytes in the queue, now
	Head    Head   // the end of the log as far as this writer knows
}

// flight is a batch that is filling, waiting or being stored.
type flight struct {
	buf   []byte // HeaderSize bytes of room, then records
	count uint32
	done  chan struct{} // closed when seq and err are set
	seq   uint64
	no    uint64
	err   error
}

var recordBuffers = sync.Pool{New: func() any { b := make([]byte, 0, 1024); return &b }}

// NewCommitter begins to write. Close must be called. There must be one committer for a shard.
func NewCommitter(log Log, opt CommitterOptions) (*Committer, error) {
	if opt.Queue == 0 {
		opt.Queue = 8 << 20
	}
	if opt.Batch == 0 {
		opt.Batch = 256 << 10
	}
	if opt.Try == 0 {
		opt.Try = 5 * time.Second
	}
	if opt.Patience == 0 {
		opt.Patience = 15 * time.Second
	}
	if opt.Batch < HeaderSize || opt.Batch > MaxBatch || opt.Queue < opt.Batch || opt.Try < 0 || opt.Patience < 0 {
		return nil, fmt.Errorf("committer: batch = %d, queue = %d, try = %v, patience = %v", opt.Batch, opt.Queue, opt.Try, opt.Patience)
	}
	if opt.Head.Seq == 0 && opt.Head.Hash != (Hash{}) || opt.Head.Seq != 0 && opt.Head.Hash == (Hash{}) {
		return nil, fmt.Errorf("committer: head %d with hash %v is not the end of a log that was checked", opt.Head.Seq, opt.Head.Hash)
	}
	for opt.Epoch == 0 {
		var b [8]byte
		if _, err := rand.Read(b[:]); err != nil {
			return nil, fmt.Errorf("committer: epoch: %w", err)
		}
		opt.Epoch = ID(binary.LittleEndian.Uint64(b[:]))
	}
	c := &Committer{log: log, opt: opt, after: opt.Head, wake: make(chan struct{}, 1), done: make(chan struct{})}
	c.stats.Head = opt.Head
	c.ctx, c.cancel = context.WithCancel(context.Background())
	go c.run()
	return c, nil
}

// Epoch returns the writer's name.
func (c *Committer) Epoch() ID { return c.opt.Epoch }

// Append stores records together, in one batch, in order, and returns when they are durable. Every
// error but two kinds says that they are not in the log and never will be: an error that wraps
// ErrUnknown, because ctx ended or the committer stopped while they were under way, means once or
// not at all.
func (c *Committer) Append(ctx context.Context, records ...Record) (Receipt, error) {
	if err := ctx.Err(); err != nil {
		return Receipt{}, err
	}
	buf := recordBuffers.Get().(*[]byte)
	defer func() {
		if cap(*buf) <= 64<<10 {
			recordBuffers.Put(buf)
		}
	}()
	b := (*buf)[:0]
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
	if len(records) == 0 || len(records) > MaxEvents || HeaderSize+len(b) > MaxBatch {
		return Receipt{}, fmt.Errorf("%d records of %d bytes in one call: %w", len(records), len(b), ErrTooLarge)
	}
	f, index, err := c.join(b, uint32(len(records)))
	if err != nil {
		return Receipt{}, err
	}
	select {
	case <-f.done:
	case <-ctx.Done():
		select {
		case <-f.done: // both: the better news
		default:
			return Receipt{}, fmt.Errorf("%w: %w", ErrUnknown, ctx.Err())
		}
	}
	if f.err != nil {
		return Receipt{}, f.err
	}
	return Receipt{f.seq, Event{c.opt.Epoch, f.no, index}}, nil
}

// join adds encoded records to the open batch, or begins one.
func (c *Committer) join(b []byte, n uint32) (*flight, uint32, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.stopped != nil:
		return nil, 0, c.stopped
	case c.closing:
		return nil, 0, ErrClosed
	case c.open != nil:
		return nil, 0, c.open
	case c.waiting+len(b) > c.opt.Queue && c.waiting > 0:
		return nil, 0, ErrBusy
	}
	var f *flight
	if k := len(c.queue); k > 0 {
		f = c.queue[k-1]
		if f.count+n > MaxEvents || len(f.buf)+len(b) > c.opt.Batch {
			f = nil
		}
	}
	if f == nil {
		f = &flight{done: make(chan struct{})}
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

// take closes the oldest batch for more. end says that there is none and will be none.
func (c *Committer) take() (f *flight, end bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, c.closing
	}
	f, c.queue = c.queue[0], c.queue[1:]
	c.waiting -= len(f.buf) - HeaderSize
	return f, false
}

// store gets one batch into the log and tells its callers. An error means that the outcome will stay
// unknown, or that there is no point in going on.
func (c *Committer) store(f *flight) error {
	h := Header{Shard: c.opt.Shard, Version: LogVersion, Count: f.count, Epoch: c.opt.Epoch, No: c.no + 1, After: c.after.Seq, Prev: c.after.Hash}
	if c.opt.Now != nil {
		h.Time = c.opt.Now().UnixNano()
	}
	seal(f.buf, h)
	id := h.MessageID()
	hash := make(chan Hash, 1) // the next batch needs it, not this one's callers
	go func(b []byte) { hash <- HashBatch(b) }(f.buf)
	patience, cancel := context.WithTimeout(c.ctx, c.opt.Patience)
	defer cancel()
	until := patience // of the attempts
	wait := 5 * time.Millisecond
	for try := 1; ; try++ {
		ctx, cancel := context.WithTimeout(until, c.opt.Try)
		seq, _, err := c.log.Append(ctx, c.opt.Shard, id, f.buf)
		cancel()
		told := until != patience // the callers know that the outcome is unknown
		lies := err == nil && seq <= c.after.Seq
		if lies {
			err = fmt.Errorf("the log answers with sequence %d after %d", seq, c.after.Seq)
		}
		if err == nil {
			c.no, c.after = h.No, Head{seq, <-hash}
			c.count(f, try, nil)
			if !told {
				f.finish(seq, h.No, nil)
			}
			return nil
		}
		// A refusal counts only if nothing was sent before: an earlier attempt may still arrive.
		if try == 1 && refused(err) {
			c.count(f, try, err)
			f.finish(0, 0, err)
			if errors.Is(err, ErrFull) || errors.Is(err, ErrTooLarge) || errors.Is(err, ErrDown) {
				return nil
			}
			return err
		}
		final := lies || errors.Is(err, ErrBroken) || errors.Is(err, ErrClosed)
		if !final && !errors.Is(err, ErrDown) && pause(until, wait) {
			wait = min(2*wait, time.Second)
			continue
		}
		// Not with %w: the last attempt may have been refused, the batch was not.
		err = fmt.Errorf("%w: batch %d after %d attempts: %v", ErrUnknown, h.No, try, err)
		end := final || c.ctx.Err() != nil
		if !told {
			if !end { // before they are told: who then asks Err must not be told that all is well
				c.unsettled(err)
				until = c.ctx
			}
			f.finish(0, 0, err)
		}
		if end {
			return err
		}
		if !pause(until, wait) {
			return err
		}
		wait = min(2*wait, time.Second)
	}
}

// unsettled refuses what waits, which was never sent, and what comes, until a batch is counted.
func (c *Committer) unsettled(err error) {
	c.mu.Lock()
	c.open = fmt.Errorf("%w: %v", ErrUnsettled, err)
	c.down.Store(true)
	if c.closing { // there is nobody left to wait for it but Close
		time.AfterFunc(c.opt.Patience, c.cancel)
	}
	queue := c.queue
	c.queue, c.waiting = nil, 0
	c.mu.Unlock()
	for _, f := range queue {
		f.finish(0, 0, c.open)
	}
}

// pause waits; false means that ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

func (f *flight) finish(seq, no uint64, err error) {
	f.seq, f.no, f.err = seq, no, err
	close(f.done)
}

func (c *Committer) count(f *flight, tries int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stats.Retries += uint64(tries - 1)
	if err != nil {
		c.stats.Refused++
		return
	}
	c.open = nil
	c.down.Store(false)
	c.stats.Batches++
	c.stats.Events += uint64(f.count)
	c.stats.Head = c.after
	if len(c.spare) < 2 {
		c.spare = append(c.spare, f.buf)
	}
	f.buf = nil
}

// stop ends the committer. What waits was never sent.
func (c *Committer) stop(err error) {
	err = fmt.Errorf("%w: %v", ErrStopped, err)
	c.mu.Lock()
	c.stopped, c.open = err, nil
	c.down.Store(true)
	queue := c.queue
	c.queue, c.waiting = nil, 0
	c.mu.Unlock()
	for _, f := range queue {
		f.finish(0, 0, err)
	}
}

// Close stores what waits and ends. When ctx ends first it gives up: the batch under way has an
// unknown outcome, the others are refused. A batch whose outcome is unknown already has Patience once
// more. It returns why the committer stopped, if it did.
func (c *Committer) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closing = true; c.open != nil {
		time.AfterFunc(c.opt.Patience, c.cancel)
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
func (c *Committer) Err() error {
	if !c.down.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stopped != nil {
		return c.stopped
	}
	return c.open
}

// Stats returns the counts.
func (c *Committer) Stats() CommitterStats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Waiting = c.waiting
	return s
}

package eventlog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"troupe/timing"
)

// JetStreamOptions configure OpenJetStream.
type JetStreamOptions struct {
	// Shards is the number of shards, 1 when 0. It is fixed when the directory is made; afterwards 0
	// takes what is there and another number is an error.
	Shards uint16
	// MaxBytes is the limit of each shard, default 64 GiB. A full log refuses, it never forgets.
	MaxBytes int64
	// Reserve is what stays free on the disk, default 256 MiB, negative for nothing. Below it
	// Append is refused with ErrFull, which passes; an engine that meets a full disk stops for good.
	Reserve int64
	// Duplicates is how long message ids are remembered, default 2 minutes: a Committer repeats a batch within seconds
	// unless the engine does not answer, and readers drop one that is stored twice. An id takes 134 bytes.
	Duplicates time.Duration
	// Keys are those of the cluster that wrote the log, if one did.
	Keys *BatchKeys
	// Logf gets the engine's warnings and errors. It may be nil.
	Logf func(format string, a ...any)
	// Clock is the machine's when it is not set.
	Clock timing.Clock

	noSync bool // only for the control runs of the tests, which must fail with it
}

func (o *JetStreamOptions) defaults() {
	if o.MaxBytes == 0 {
		o.MaxBytes = 64 << 30
	}
	if o.Reserve == 0 {
		o.Reserve = 256 << 20
	}
	if o.Duplicates == 0 {
		o.Duplicates = 2 * time.Minute
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
}

// JetStream is a Log in a directory of this machine: NATS JetStream inside this process, listening
// nowhere, one stream for each shard, a sync of the file before every acknowledgement. That sync is
// not an option.
//
// The engine skips what it cannot read, and cuts files to make them readable. So OpenJetStream reads
// all files itself before it starts the engine, keeps an acknowledged-end record beside them, and
// refuses a directory in which something is missing (*DamagedError). It takes its own lock, too
// (*LockedError).
//
// An engine that has met a write error stores nothing any more. When the error leaves no doubt about
// what was stored before, a new engine takes its place (reopen); otherwise the log has stopped
// (ErrBroken) and can only be read.
type JetStream struct {
	dir    string
	opt    JetStreamOptions
	report *Report
	lock   *dirLock
	shards []*streamShard
	done   chan struct{}  // closed by Close
	calls  sync.WaitGroup // under way
	work   sync.WaitGroup // reopen and syncAcked

	mu     sync.Mutex
	closed bool
	now    atomic.Pointer[condition] // never nil
}

// OpenJetStream opens the log in a directory, or makes one where there is none. It reads all files
// first, on all processors (docs/record has the rate), and writes nothing when that finds damage.
func OpenJetStream(ctx context.Context, dir string, opt JetStreamOptions) (*JetStream, error) {
	opt.defaults()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := refuseNetwork(dir); err != nil {
		return nil, err
	}
	if err := refuseNode(dir); err != nil {
		return nil, err
	}
	lock, err := lockDir(dir, true)
	if err != nil {
		return nil, err
	}
	l := &JetStream{dir: dir, opt: opt, lock: lock, done: make(chan struct{})}
	e, err := l.open(ctx)
	if l.set(e, err); err != nil {
		return nil, errors.Join(err, l.stop())
	}
	l.work.Go(l.syncAcked)
	l.work.Go(l.reopen)
	return l, nil
}

// open makes an engine of the files: at the beginning, and again when an engine has failed and what is
// on the disk is not in doubt.
//
//  1. Read the files and compare them with what was acknowledged.
//  2. Make durable what was stored and never acknowledged.
//  3. Start the engine.
//  4. Compare what the engine has with what the files have.
func (l *JetStream) open(ctx context.Context) (*engine, error) {
	// 1. Read the files.
	r, err := l.readFiles(ctx)
	if err != nil {
		return nil, err
	}
	if l.report == nil {
		l.report = r
		for i := range r.Shards {
			a, err := openAcked(l.dir, uint16(i))
			if err != nil {
				return nil, fmt.Errorf("shard %d: %w", i, err)
			}
			l.shards = append(l.shards, &streamShard{n: uint16(i), file: a, acked: a.end, more: make(chan struct{})})
		}
	}
	// 2. Sync the unanswered. These entries belong to the log from now on. They may still be in the
	// system's memory only, and the acknowledged-end record must not be ahead of the disk.
	for _, s := range r.Shards {
		for _, name := range s.tail {
			if err := syncFile(name); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrBroken, err)
			}
		}
	}
	// 3. Start the engine.
	e := &engine{broken: make(chan struct{})}
	e.srv, e.nc, err = startEngine(ctx, l.dir, !l.opt.noSync, l.opt.Clock,
		func(level, text string) { l.engineSays(e, level, text) })
	if err != nil {
		return nil, err
	}
	// 4. Compare.
	if e.js, err = jetstream.New(e.nc); err == nil {
		for i := range r.Shards {
			if err = l.openShard(ctx, e, &r.Shards[i]); err != nil {
				break
			}
		}
	}
	if err == nil && e.failed() {
		err = errors.New(e.cause)
	}
	if err != nil {
		e.stop()
		return nil, err
	}
	return e, nil
}

// readFiles reads all files without the engine. It makes an empty log where there is none.
func (l *JetStream) readFiles(ctx context.Context) (*Report, error) {
	h := hooks{hashes: true, keys: l.opt.Keys, stop: ctx.Err}
	for _, s := range l.shards {
		s.mu.Lock()
		h.known = append(h.known, s.acked)
		s.mu.Unlock()
	}
	r, err := scan(l.dir, h)
	if errors.Is(err, ErrNoLog) && l.report == nil {
		if err = makeLog(l.dir, max(l.opt.Shards, 1)); err == nil {
			r, err = scan(l.dir, h)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case r.Damage == nil && l.opt.Shards != 0 && int(l.opt.Shards) != len(r.Shards):
		return nil, fmt.Errorf("%s has %d shards, not %d; the number is fixed when a log is made", l.dir, len(r.Shards),
			l.opt.Shards)
	case !r.OK():
		return nil, &DamagedError{r}
	}
	return r, nil
}

// Report returns what was found when the log was opened.
func (l *JetStream) Report() *Report { return l.report }

// Shards returns the number of shards.
func (l *JetStream) Shards() uint16 { return uint16(len(l.shards)) }

// begin enters a call that Close waits for.
func (l *JetStream) begin(shard uint16) (*streamShard, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if int(shard) >= len(l.shards) {
		return nil, fmt.Errorf("shard %d of %d: %w", shard, len(l.shards), ErrShard)
	}
	l.calls.Add(1)
	return l.shards[shard], nil
}

// bound returns a context that also ends when the log or the channel broken is closed.
func (l *JetStream) bound(ctx context.Context, broken <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	go func() {
		select {
		case <-l.done:
			cancel(ErrClosed)
		case <-broken:
			cancel(ErrBroken)
		case <-stop:
		}
	}()
	return ctx, func() { close(stop); cancel(nil) }
}

// Trim implements Log. The acknowledged-end record is written first, and durably: a crash in between
// leaves entries to remove, which the next OpenJetStream does.
func (l *JetStream) Trim(ctx context.Context, shard uint16, upTo uint64) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	s, err := l.begin(shard)
	if err != nil {
		return err
	}
	defer l.calls.Done()
	e, err := l.up()
	if err != nil {
		return err
	}
	s.mu.Lock()
	end := s.acked
	switch {
	case upTo < end.First:
		s.mu.Unlock()
		return nil
	case upTo >= end.Last:
		s.mu.Unlock()
		return trimError(shard, upTo, end.Last)
	}
	end.First = upTo + 1
	if err = s.file.writeBoth(end); err == nil {
		s.acked = end
	}
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("shard %d: trim: %w", shard, err)
	}
	if err := e.streams[shard].Purge(ctx, jetstream.WithPurgeSequence(upTo+1)); err != nil {
		return fmt.Errorf("shard %d: trim: %w", shard, err)
	}
	return nil
}

// Info implements Log.
func (l *JetStream) Info(ctx context.Context, shard uint16) (Info, error) {
	s, err := l.begin(shard)
	if err != nil {
		return Info{}, err
	}
	defer l.calls.Done()
	e, _, err := l.state()
	if e == nil {
		return Info{}, err
	}
	info, err := e.streams[shard].Info(ctx)
	if err != nil {
		return Info{}, fmt.Errorf("shard %d: info: %w", shard, err)
	}
	i := Info{First: s.first(), Last: s.last.Load(), Bytes: info.State.Bytes, Limit: uint64(info.Config.MaxBytes),
		Sync: "fsync"}
	if info.State.LastSeq < i.Last {
		return i, &GapError{shard, info.State.LastSeq + 1, i.Last}
	}
	return i, nil
}

// Err returns nil while the log stores, otherwise why not: an error that wraps ErrDown, which passes by
// itself, or ErrBroken, which does not.
func (l *JetStream) Err() error {
	_, err := l.up()
	return err
}

// Close ends the calls under way, stops the engine, and releases the directory. Appends that are
// interrupted have an unknown outcome; close the committers first. Close waits for every Read to end,
// so a loop over Read must not call it.
func (l *JetStream) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	l.mu.Unlock()
	close(l.done)
	l.calls.Wait()
	l.work.Wait()
	return l.stop()
}

func (l *JetStream) stop() error {
	if e, _, _ := l.state(); e != nil {
		e.stop()
	}
	var errs []error
	for _, s := range l.shards {
		errs = append(errs, s.file.close())
	}
	return errors.Join(append(errs, l.lock.Close())...)
}

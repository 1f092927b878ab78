package eventlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
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
	// Duplicates is how long message ids are remembered, default 10 minutes.
	Duplicates time.Duration
	// Logf gets the engine's warnings and errors. It may be nil.
	Logf func(format string, a ...any)

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
		o.Duplicates = 10 * time.Minute
	}
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
}

// JetStream is a Log in a directory of this machine: NATS JetStream inside this process, listening
// nowhere, one stream for each shard, a sync of the file before every acknowledgement. That sync is
// not an option.
//
// The engine is good at storing and bad at noticing: it skips what it cannot read and cuts files to
// make them readable. So OpenJetStream reads everything itself before it lets the engine near, keeps
// a witness of what was acknowledged, and refuses a directory in which something is missing
// (*DamagedError). It takes its own lock, too (*LockedError).
type JetStream struct {
	dir    string
	opt    JetStreamOptions
	report *Report
	lock   *os.File
	shards []*streamShard
	done   chan struct{}  // closed by Close
	calls  sync.WaitGroup // under way
	work   sync.WaitGroup // mend and syncWitnesses

	mu     sync.Mutex
	closed bool
	now    atomic.Pointer[condition] // never nil
}

// condition is what the log can do at present. A new one takes its place when that changes.
type condition struct {
	engine *running      // nil while there is none
	err    error         // why nothing is stored: it wraps ErrDown or ErrBroken
	change chan struct{} // closed when there is a new one
}

// running is one run of the engine.
type running struct {
	srv     *server.Server
	nc      *nats.Conn
	js      jetstream.JetStream
	streams []jetstream.Stream
	broken  chan struct{} // closed when it has failed
	cause   string        // why, in the engine's words or the system's
	once    sync.Once
}

func (e *running) fail(cause string) {
	e.once.Do(func() { e.cause = cause; close(e.broken) })
}

func (e *running) failed() bool {
	select {
	case <-e.broken:
		return true
	default:
		return false
	}
}

func (e *running) stop() {
	if e.nc != nil {
		e.nc.Close()
	}
	if e.srv != nil {
		e.srv.Shutdown()
		e.srv.WaitForShutdown()
	}
}

type streamShard struct {
	n    uint16
	last atomic.Uint64 // newest entry known to be durable

	mu      sync.Mutex
	witness *witness
	told    testimony     // what the witness was told, written or not
	blocks  []blockSpan   // of the opening
	more    chan struct{} // closed and replaced when last grows

	followers int      // readers that want what is kept
	newest    [8]*kept // entry seq at seq mod 8, where there is one
}

// kept is a copy of an entry that this process has stored, for those who follow the log: asking the engine
// for it means waiting for the sync of the next one, and four more copies.
type kept struct {
	seq     uint64
	data    []byte
	readers int // that look at data now: it must not be overwritten
}

// keep makes a copy of a new entry in place of an old one. The caller holds mu.
func (s *streamShard) keep(seq uint64, batch []byte) {
	if s.followers == 0 {
		return
	}
	at := &s.newest[seq%uint64(len(s.newest))]
	if *at == nil || (*at).readers > 0 { // the readers have the old one to themselves now
		*at = new(kept)
	}
	(*at).seq, (*at).data = seq, append((*at).data[:0], batch...)
}

// lend returns what is kept of an entry, or nil. It must be given back. The caller holds mu.
func (s *streamShard) lend(seq uint64) *kept {
	k := s.newest[seq%uint64(len(s.newest))]
	if k == nil || k.seq != seq {
		return nil
	}
	k.readers++
	return k
}

func (s *streamShard) giveBack(k *kept) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k.readers--
}

func (s *streamShard) follow(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.followers += n; s.followers == 0 {
		clear(s.newest[:])
	}
}

// OpenJetStream opens the log in a directory, or makes one where there is none. It reads all files
// first, on all processors (docs/reference/eventlog.md has the rate), and writes nothing when that finds damage.
func OpenJetStream(ctx context.Context, dir string, opt JetStreamOptions) (*JetStream, error) {
	opt.defaults()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := refuseNetwork(dir); err != nil {
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
	l.work.Go(l.syncWitnesses)
	l.work.Go(l.mend)
	return l, nil
}

// open reads the files, compares them with what was acknowledged and starts the engine on them: at
// the beginning, and again whenever the engine has failed and what is on the disk is not in doubt.
func (l *JetStream) open(ctx context.Context) (*running, error) {
	h := hooks{hashes: true, stop: ctx.Err}
	for _, s := range l.shards {
		s.mu.Lock()
		h.known = append(h.known, s.told)
		s.mu.Unlock()
	}
	r, err := scan(l.dir, h)
	if errors.Is(err, ErrNoLog) && l.report == nil {
		if err = makeLog(l.dir, max(l.opt.Shards, 1)); err == nil {
			r, err = scan(l.dir, h)
		}
	}
	if err != nil {
		return nil, err
	}
	if r.Damage == nil && l.opt.Shards != 0 && int(l.opt.Shards) != len(r.Shards) {
		return nil, fmt.Errorf("%s has %d shards, not %d; the number is fixed when a log is made", l.dir, len(r.Shards), l.opt.Shards)
	}
	if !r.OK() {
		return nil, &DamagedError{r}
	}
	if l.report == nil {
		l.report = r
		for i := range r.Shards {
			w, err := openWitness(l.dir, uint16(i))
			if err != nil {
				return nil, fmt.Errorf("shard %d: %w", i, err)
			}
			l.shards = append(l.shards, &streamShard{n: uint16(i), witness: w, told: w.t, more: make(chan struct{})})
		}
	}
	// What was stored and never acknowledged belongs to the log from now on; it may still be in the
	// system's memory only, and the witness must not be ahead of the disk.
	for _, s := range r.Shards {
		for _, name := range s.tail {
			if err := syncFile(name); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrBroken, err)
			}
		}
	}
	e := &running{broken: make(chan struct{})}
	e.srv, e.nc, err = startEngine(ctx, l.dir, !l.opt.noSync, func(level, text string) { l.engineSays(e, level, text) })
	if err != nil {
		return nil, err
	}
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

// syncFile makes what stands in a file durable, whoever wrote it.
func syncFile(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// state returns the engine, a channel that is closed when it or the error changes, and why nothing is
// stored if so. An engine that has failed is returned until mend has looked at it.
func (l *JetStream) state() (*running, <-chan struct{}, error) {
	now := l.now.Load()
	return now.engine, now.change, now.err
}

// set makes a condition the present one. Only mend calls it, and OpenJetStream before it.
func (l *JetStream) set(e *running, err error) {
	if old := l.now.Swap(&condition{e, err, make(chan struct{})}); old != nil {
		close(old.change)
	}
}

// passes says whether what an engine failed of leaves no doubt about what it had stored before: a
// write that the system refused for want of room or handles. After a sync that failed the system may
// have dropped what was written and still show it, and nobody who reads the files can tell; so that,
// and whatever is not known here, does not pass.
func passes(cause string) bool {
	if strings.Contains(cause, "sync ") {
		return false
	}
	for _, e := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, io.ErrShortWrite} {
		if strings.Contains(cause, e.Error()) {
			return true
		}
	}
	return false
}

// mend waits until the engine fails. When that passes it stops the engine and opens the log again
// under the same lock, as often as it takes: the files are read as at the start, compared with what
// this process has acknowledged, and what became of the batch under way is then in the log or is not,
// for its committer to find out by sending it again.
func (l *JetStream) mend() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l.work.Go(func() {
		select {
		case <-l.done:
			cancel()
		case <-ctx.Done():
		}
	})
	const soonest, latest = 50 * time.Millisecond, 30 * time.Second // a try reads all files
	wait := soonest
	for e, _, _ := l.state(); ; {
		since := time.Now()
		select {
		case <-ctx.Done():
			return
		case <-e.broken:
		}
		if time.Since(since) > time.Minute {
			wait = soonest
		}
		if !passes(e.cause) {
			l.opt.Logf("the log has stopped: %s", e.cause)
			l.set(e, fmt.Errorf("%w: %s", ErrBroken, e.cause)) // what it has can still be read
			return
		}
		l.opt.Logf("the log is opened again: %s", e.cause)
		down := ErrDown
		if strings.Contains(e.cause, syscall.ENOSPC.Error()) || strings.Contains(e.cause, syscall.EDQUOT.Error()) {
			down = fmt.Errorf("%w: %w", ErrDown, ErrFull)
		}
		err := fmt.Errorf("%w: %s", down, e.cause)
		l.set(e, err) // it is still read from, until there is room to try
		var next *running
		for ; next == nil; wait = min(2*wait, latest) {
			t := time.NewTimer(wait)
			select {
			case <-ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
			if err := l.room(0); err != nil {
				l.set(e, fmt.Errorf("%w: %w", ErrDown, err))
				continue
			}
			if e != nil {
				l.set(nil, err)
				e.stop()
				e = nil
			}
			next, err = l.open(ctx)
			var damaged *DamagedError
			switch {
			case err == nil:
				l.opt.Logf("the log is open again")
				l.set(next, nil)
			case errors.As(err, &damaged), errors.Is(err, ErrBroken):
				l.opt.Logf("the log cannot be opened again: %v", err)
				l.set(nil, fmt.Errorf("%w: %w", ErrBroken, err))
				return
			default:
				l.set(nil, fmt.Errorf("%w: %w", ErrDown, err))
			}
		}
		e = next
	}
}

// room refuses when a batch of n bytes would take the disk below its reserve.
func (l *JetStream) room(n int) error {
	if l.opt.Reserve <= 0 {
		return nil
	}
	free, err := diskFree(l.dir)
	if err != nil {
		return fmt.Errorf("%w: free space of %s: %v", ErrFull, l.dir, err)
	}
	if free < uint64(l.opt.Reserve)+uint64(n) {
		return fmt.Errorf("%w: %d bytes are free on the disk of %s, %d are reserved", ErrFull, free, l.dir, l.opt.Reserve)
	}
	return nil
}

// makeLog makes an empty log: witnesses first, the marker last, so that a crash in between leaves
// either no log or a whole one.
func makeLog(dir string, shards uint16) error {
	for n := range shards {
		if err := createWitness(dir, n, testimony{First: 1}); err != nil {
			return err
		}
	}
	var id [8]byte
	if _, err := rand.Read(id[:]); err != nil {
		return err
	}
	return writeMarker(dir, marker{ID(binary.LittleEndian.Uint64(id[:])), shards})
}

func writeMarker(dir string, m marker) error {
	tmp := filepath.Join(dir, markerFile+".tmp")
	if err := writeFileSync(tmp, []byte(m.text())); err != nil {
		return err
	}
	if err := os.Rename(tmp, filepath.Join(dir, markerFile)); err != nil {
		return err
	}
	return errors.Join(syncDir(dir), syncDir(filepath.Dir(filepath.Clean(dir))))
}

// startEngine starts a server that listens nowhere, with its files in dir, and connects to it.
func startEngine(ctx context.Context, dir string, sync bool, says func(level, text string)) (*server.Server, *nats.Conn, error) {
	fatal := make(chan string, 1)
	srv, err := server.NewServer(&server.Options{
		ServerName:         "troupe",
		DontListen:         true,
		NoSigs:             true,
		JetStream:          true,
		StoreDir:           dir,
		SyncAlways:         sync,
		JetStreamMaxStore:  math.MaxInt64 / 4,
		JetStreamMaxMemory: 1 << 20,
		MaxPayload:         MaxBatch + 64<<10,
		// Two writes of the largest size must fit before a slow reader is cut off.
		MaxPending: 64 << 20,
	})
	if err != nil {
		return nil, nil, fmt.Errorf("engine: %w", err)
	}
	srv.SetLogger(engineLogger{func(level, text string) {
		if says(level, text); level == "fatal" { // it will never be ready
			select {
			case fatal <- text:
			default:
			}
		}
	}}, false, false)
	srv.Start()
	for start := time.Now(); !srv.ReadyForConnections(20 * time.Millisecond); {
		var err error
		select {
		case text := <-fatal:
			err = fmt.Errorf("engine: %s", text)
		case <-ctx.Done():
			err = ctx.Err()
		default:
			if time.Since(start) < 30*time.Second {
				continue
			}
			err = errors.New("engine: not ready after 30 s")
		}
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, nil, err
	}
	// The queue of a subscription is made whole: the default of 65,536 places is half a megabyte for
	// every reader. A page has readEntries answers and a last word, and the rest of one before it, whose
	// end nobody waited for, may still be coming in.
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.SyncQueueLen(2*(readEntries+1)))
	if err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, nil, fmt.Errorf("engine: %w", err)
	}
	return srv, nc, nil
}

type engineLogger struct{ says func(level, text string) }

func (l engineLogger) Noticef(string, ...any)         {}
func (l engineLogger) Debugf(string, ...any)          {}
func (l engineLogger) Tracef(string, ...any)          {}
func (l engineLogger) Warnf(format string, v ...any)  { l.says("warning", fmt.Sprintf(format, v...)) }
func (l engineLogger) Errorf(format string, v ...any) { l.says("error", fmt.Sprintf(format, v...)) }
func (l engineLogger) Fatalf(format string, v ...any) { l.says("fatal", fmt.Sprintf(format, v...)) }

// engineSays gets the engine's log lines. A write error is told nowhere else: the engine stores
// nothing any more and leaves its callers waiting. The engine may hold its locks here.
func (l *JetStream) engineSays(e *running, level, text string) {
	l.opt.Logf("engine: %s: %s", level, text)
	if level == "fatal" || strings.Contains(text, "write error") || strings.Contains(text, "failed to store a msg") || strings.Contains(text, "disabling JetStream") {
		e.fail(text)
	}
}

// streamConfig is what a shard's stream must be. Nothing is ever removed but by Trim.
func (l *JetStream) streamConfig(shard uint16) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        streamName(shard),
		Subjects:    []string{subjectName(shard)},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		MaxBytes:    l.opt.MaxBytes,
		MaxMsgSize:  MaxBatch + 4096, // and the headers
		Replicas:    1,
		Duplicates:  l.opt.Duplicates,
		AllowDirect: true,
		DenyDelete:  true,
	}
}

func (l *JetStream) openShard(ctx context.Context, e *running, r *ShardReport) error {
	want := l.streamConfig(r.Shard)
	fail := func(format string, a ...any) error {
		return fmt.Errorf("shard %d: %s", r.Shard, fmt.Sprintf(format, a...))
	}
	stream, err := e.js.Stream(ctx, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && r.seen.Last == 0 && r.Last == 0:
		stream, err = e.js.CreateStream(ctx, want)
	case err == nil && r.seen.Last == 0 && r.Last == 0 && stream.CachedInfo().State.LastSeq != 0:
		// The first entry of all was never stored, and the engine remembers that it tried.
		if err = e.js.DeleteStream(ctx, want.Name); err == nil {
			stream, err = e.js.CreateStream(ctx, want)
		}
	case err == nil:
		have := stream.CachedInfo().Config
		if d := configDiff(want, have); d != "" {
			return fail("the stream's settings are not ours: %s", d)
		}
		if have.MaxBytes != want.MaxBytes || have.Duplicates != want.Duplicates {
			want.FirstSeq, want.Metadata = have.FirstSeq, have.Metadata
			stream, err = e.js.UpdateStream(ctx, want)
		}
	}
	if err != nil {
		return fail("%v", err)
	}
	// A trim that was decided and not finished.
	state := stream.CachedInfo().State
	if r.Last >= r.First && state.FirstSeq < r.First {
		if err := stream.Purge(ctx, jetstream.WithPurgeSequence(r.First)); err != nil {
			return fail("%v", err)
		}
		if info, err := stream.Info(ctx); err == nil {
			state = info.State
		}
	}
	// The engine must see what we saw in its files.
	if state.LastSeq != r.Last || state.NumDeleted != 0 || r.Last >= r.First && (state.FirstSeq != r.First || state.Msgs != r.Last-r.First+1) {
		return fail("the engine has entries %d–%d (%d of them), its files have %d–%d", state.FirstSeq, state.LastSeq, state.Msgs, r.First, r.Last)
	}
	s := l.shards[r.Shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := (testimony{r.First, r.Last, r.sum}); r.Last > r.seen.Last {
		// Stored, and the answer never arrived. It is the log's end from now on.
		err = s.witness.swear(now)
		s.told = now
	} else if s.witness.t != s.told { // it could not be written when it was told
		err = s.witness.swear(s.told)
	}
	if err != nil {
		return fail("%v", err)
	}
	e.streams = append(e.streams, stream)
	s.blocks = r.blocks
	s.grow(r.Last)
	return nil
}

// configDiff names the settings that matter and differ.
func configDiff(want, have jetstream.StreamConfig) string {
	var d []string
	diff := func(name string, want, have any) {
		if fmt.Sprint(want) != fmt.Sprint(have) {
			d = append(d, fmt.Sprintf("%s is %v, want %v", name, have, want))
		}
	}
	diff("subjects", want.Subjects, have.Subjects)
	diff("retention", want.Retention, have.Retention)
	diff("storage", want.Storage, have.Storage)
	diff("discard", want.Discard, have.Discard)
	diff("max_msgs", int64(-1), have.MaxMsgs)
	diff("max_age", want.MaxAge, have.MaxAge)
	diff("max_msgs_per_subject", int64(-1), have.MaxMsgsPerSubject)
	diff("max_msg_size", want.MaxMsgSize, have.MaxMsgSize)
	diff("num_replicas", want.Replicas, have.Replicas)
	diff("compression", want.Compression, have.Compression)
	diff("allow_direct", want.AllowDirect, have.AllowDirect)
	diff("deny_delete", want.DenyDelete, have.DenyDelete)
	diff("persist_mode", want.PersistMode, have.PersistMode)
	return strings.Join(d, ", ")
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

// up returns the engine if it stores, otherwise why it does not.
func (l *JetStream) up() (*running, error) {
	e, _, err := l.state()
	if err == nil && e.failed() {
		if err = fmt.Errorf("%w: %s", ErrBroken, e.cause); passes(e.cause) {
			err = fmt.Errorf("%w: %s", ErrDown, e.cause)
		}
	}
	return e, err
}

// replaced says that an error of an engine is none of the log's: it has failed in a way that passes,
// and another one takes its place.
func (l *JetStream) replaced(e *running) bool {
	now, _, _ := l.state()
	return now != e || e.failed() && passes(e.cause)
}

// bound returns a context that also ends when the log is closed, or broken is.
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

// Append implements Log.
func (l *JetStream) Append(ctx context.Context, shard uint16, id string, batch []byte) (seq uint64, dup bool, err error) {
	if err := ctx.Err(); err != nil {
		return 0, false, err
	}
	s, err := l.begin(shard)
	if err != nil {
		return 0, false, err
	}
	defer l.calls.Done()
	if len(batch) > MaxBatch {
		return 0, false, fmt.Errorf("batch of %d bytes: %w", len(batch), ErrTooLarge)
	}
	e, down := l.up()
	if errors.Is(down, ErrBroken) {
		return 0, false, down
	}
	if err := l.room(len(batch)); err != nil {
		return 0, false, err
	}
	if down != nil {
		return 0, false, down
	}
	bctx, cancel := l.bound(ctx, e.broken)
	defer cancel()
	msg := &nats.Msg{Subject: subjectName(shard), Data: batch}
	ack, err := e.js.PublishMsg(bctx, msg, jetstream.WithMsgID(id), jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, false, publishError(ctx, bctx, err)
	}
	if ack.Stream != streamName(shard) || ack.Sequence == 0 {
		return 0, false, fmt.Errorf("%w: the engine answers for stream %q, sequence %d", ErrUnknown, ack.Stream, ack.Sequence)
	}
	if err := s.acked(ack.Sequence, batch); err != nil {
		// The entry is durable and that is the answer. Without a witness there will be no other.
		l.opt.Logf("%v: %v", witnessName(shard), err)
		e.fail(err.Error())
	}
	return ack.Sequence, ack.Duplicate, nil
}

// publishError sorts the errors of a publish into refusals and unknown outcomes.
func publishError(ctx, bctx context.Context, err error) error {
	var api *jetstream.APIError
	switch {
	case errors.As(err, &api) && (strings.Contains(api.Description, "maximum bytes exceeded") || api.ErrorCode == 10047 || api.ErrorCode == 10023):
		return fmt.Errorf("%w: engine: %s", ErrFull, api.Description)
	case errors.As(err, &api) && api.ErrorCode == 10054, errors.Is(err, nats.ErrMaxPayload):
		return fmt.Errorf("%w: engine: %v", ErrTooLarge, err)
	case ctx.Err() != nil:
		return ctx.Err()
	case bctx.Err() != nil: // closed or broken in the middle: not a refusal
		return fmt.Errorf("%w: %v", ErrUnknown, context.Cause(bctx))
	}
	return fmt.Errorf("%w: engine: %v", ErrUnknown, err)
}

// acked notes that the entry at seq is durable and wakes the readers.
func (s *streamShard) acked(seq uint64, batch []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if seq <= s.last.Load() {
		return nil
	}
	s.told = testimony{s.told.First, seq, crc32.Checksum(batch, castagnoli)}
	err := s.witness.say(s.told)
	s.keep(seq, batch)
	s.grow(seq)
	return err
}

// grow wakes the readers for entries up to seq. The caller holds mu.
func (s *streamShard) grow(seq uint64) {
	if seq > s.last.Load() {
		s.last.Store(seq)
		close(s.more)
		s.more = make(chan struct{})
	}
}

// syncWitnesses makes the witnesses durable once a second.
func (l *JetStream) syncWitnesses() {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-tick.C:
		}
		for _, s := range l.shards {
			// Not under the mutex: an Append must not wait for this. The file is only written
			// with pwrite, and what is written meanwhile is synced in a second.
			s.mu.Lock()
			dirty := s.witness.dirty
			s.witness.dirty = false
			s.mu.Unlock()
			if !dirty {
				continue
			}
			if err := s.witness.f.Sync(); err != nil {
				l.opt.Logf("%v: %v", witnessName(s.n), err)
				if e, _, _ := l.state(); e != nil {
					e.fail(err.Error())
				} else { // once more, when there is an engine to stop
					s.mu.Lock()
					s.witness.dirty = true
					s.mu.Unlock()
				}
			}
		}
	}
}

const (
	readEntries = 512     // in one request
	readBytes   = 4 << 20 // in one request, about
	readTimeout = 10 * time.Second
	readTries   = 3
)

// Read implements Log.
func (l *JetStream) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[Entry, error] {
	return l.read(ctx, shard, from, false)
}

// read is Read. One who follows gets the newest entries without the engine; their bytes are then lent
// until the next entry is asked for.
func (l *JetStream) read(ctx context.Context, shard uint16, from uint64, follow bool) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		s, err := l.begin(shard)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer l.calls.Done()
		bctx, cancel := l.bound(ctx, nil) // a broken engine still reads
		defer cancel()
		if first := s.first(); from < first {
			yield(Entry{}, &GapError{shard, from, first - 1})
			return
		}
		var page []Entry
		p := pager{s: s}
		defer p.end()
		if follow {
			s.follow(1)
			defer s.follow(-1)
		}
		for {
			e, change, err := l.state()
			s.mu.Lock()
			last, more := s.last.Load(), s.more
			var k *kept
			if follow && bctx.Err() == nil {
				k = s.lend(from)
			}
			s.mu.Unlock()
			switch {
			case k != nil:
				goOn := yield(Entry{from, k.data}, nil)
				if s.giveBack(k); !goOn {
					return
				}
				from++
				continue
			case e == nil && errors.Is(err, ErrBroken):
				yield(Entry{}, err)
				return
			case from > last || e == nil:
				select {
				case <-more:
				case <-change:
				case <-bctx.Done():
				}
			default:
				if page, err = p.page(bctx, e, page[:0], from, last); err == nil || bctx.Err() != nil {
					break
				}
				if !l.replaced(e) {
					yield(Entry{}, err)
					return
				}
				page = page[:0]
				select { // the next engine has it
				case <-change:
				case <-bctx.Done():
				}
			}
			if bctx.Err() != nil {
				if err = ctx.Err(); err == nil {
					err = ErrClosed
				}
				yield(Entry{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				from++
			}
			page = page[:0]
		}
	}
}

// stored yields the entries from sequence from up to until that were there when the log was opened, from
// the block files, which is what a restart reads: half of the work of asking the engine, on all
// processors. Where the files do not say it plainly (a block that was trimmed, a bit that rotted) it ends,
// and the engine has the word. Entries that are there never move, and the engine writes behind them.
func (l *JetStream) stored(ctx context.Context, shard uint16, from, until uint64) iter.Seq[parsedEntry] {
	return func(yield func(parsedEntry) bool) {
		s, err := l.begin(shard)
		if err != nil {
			return
		}
		defer l.calls.Done()
		s.mu.Lock()
		blocks := s.blocks
		s.mu.Unlock()
		var names []string
		var numbers []uint32
		for _, b := range blocks {
			if b.last >= from {
				names, numbers = append(names, b.name), append(numbers, b.number)
			}
		}
		if from < s.first() || len(names) == 0 || until < from+window { // a few are not worth a file
			return
		}
		for block := range readBlocks(names, numbers, shard, true) {
			select {
			case <-l.done:
				return
			default:
			}
			if block.err != nil || ctx.Err() != nil {
				return
			}
			for _, p := range block.parts {
				switch {
				case p.size == 0, p.seq > from, p.parsed != nil:
					return
				case p.tomb, p.erased, p.seq < from:
					continue
				}
				if !yield(parsedEntry{p.seq, p.batch, nil}) {
					return
				}
				if from++; from > until {
					return
				}
			}
		}
	}
}

func (s *streamShard) first() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.told.First
}

// pager reads pages through one subscription: making one for each page costs more than the page,
// because every change of the subscriptions empties the engine's cache of routes.
type pager struct {
	s     *streamShard
	e     *running           // that sub belongs to
	sub   *nats.Subscription // nil before the first page and after an error
	inbox string
	asked int
}

func (p *pager) end() {
	if p.sub != nil {
		_ = p.sub.Unsubscribe()
		p.sub = nil
	}
}

// page reads some entries from from on, at most up to last. That they exist is known; so an engine
// that does not have them has lost them, and one that does not answer is asked again.
func (p *pager) page(ctx context.Context, e *running, page []Entry, from, last uint64) ([]Entry, error) {
	if p.e != e {
		p.end()
		p.e = e
	}
	for try := 1; ; try++ {
		if p.sub == nil {
			p.inbox = e.nc.NewInbox()
			sub, err := e.nc.SubscribeSync(p.inbox + ".*")
			if err != nil {
				return nil, fmt.Errorf("shard %d: read: %w", p.s.n, err)
			}
			p.sub = sub
		}
		p.asked++
		tctx, cancel := context.WithTimeout(ctx, readTimeout)
		page, err := e.ask(tctx, p.s, p.sub, p.inbox+"."+strconv.Itoa(p.asked), page[:0], from, last)
		cancel()
		if err != nil {
			p.end() // answers may still come; nobody looks for them here
		}
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || try == readTries {
			return page, err
		}
	}
}

// ask sends one request and collects its answers.
func (e *running) ask(ctx context.Context, s *streamShard, sub *nats.Subscription, reply string, page []Entry, from, last uint64) ([]Entry, error) {
	request, err := json.Marshal(map[string]uint64{"seq": from, "batch": min(last-from+1, readEntries), "max_bytes": readBytes})
	if err != nil {
		return nil, err
	}
	if err := e.nc.PublishRequest("$JS.API.DIRECT.GET."+streamName(s.n), reply, request); err != nil {
		return nil, fmt.Errorf("shard %d: read: %w", s.n, err)
	}
	for {
		m, err := sub.NextMsgWithContext(ctx)
		if err != nil {
			return nil, fmt.Errorf("shard %d: read from entry %d: %w", s.n, from, err)
		}
		if m.Subject != reply {
			continue // an answer to a question that was given up
		}
		switch status := m.Header.Get("Status"); {
		case status == "204" && len(page) > 0:
			return page, nil
		case status == "204" || status == "404":
			return nil, &GapError{s.n, from, last}
		case status != "":
			return nil, fmt.Errorf("shard %d: read from entry %d: engine: %s %s", s.n, from, status, m.Header.Get("Description"))
		}
		want := from + uint64(len(page))
		seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
		if err != nil || seq < want {
			return nil, fmt.Errorf("shard %d: the engine answers with entry %q for %d", s.n, m.Header.Get("Nats-Sequence"), want)
		}
		if seq > want {
			if len(page) > 0 { // deliver what is good; the next page begins with the gap
				return page, nil
			}
			return nil, &GapError{s.n, want, seq - 1}
		}
		page = append(page, Entry{seq, m.Data})
	}
}

// Get implements Log.
func (l *JetStream) Get(ctx context.Context, shard uint16, seq uint64) (Entry, error) {
	s, err := l.begin(shard)
	if err != nil {
		return Entry{}, err
	}
	defer l.calls.Done()
	if seq < s.first() || seq > s.last.Load() {
		return Entry{}, notFound(shard, seq)
	}
	e, _, err := l.state()
	if e == nil {
		return Entry{}, err
	}
	m, err := e.streams[shard].GetMsg(ctx, seq)
	switch {
	case err != nil && l.replaced(e):
		return Entry{}, fmt.Errorf("%w: entry %d: %v", ErrDown, seq, err)
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return Entry{}, notFound(shard, seq)
	case err != nil:
		return Entry{}, fmt.Errorf("shard %d: entry %d: %w", shard, seq, err)
	case m.Sequence != seq:
		return Entry{}, fmt.Errorf("shard %d: the engine answers with entry %d for %d", shard, m.Sequence, seq)
	}
	return Entry{seq, m.Data}, nil
}

// Trim implements Log. The witness is told first, and durably: a crash in between leaves entries to
// remove, which the next OpenJetStream does.
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
	t := s.told
	switch {
	case upTo < t.First:
		s.mu.Unlock()
		return nil
	case upTo >= t.Last:
		s.mu.Unlock()
		return trimError(shard, upTo, t.Last)
	}
	t.First = upTo + 1
	if err = s.witness.swear(t); err == nil {
		s.told = t
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
	i := Info{First: s.first(), Last: s.last.Load(), Bytes: info.State.Bytes, Limit: uint64(info.Config.MaxBytes), Sync: "fsync"}
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

// Close ends the calls under way, stops the engine, and gives the directory free. Appends that are
// interrupted have an unknown outcome; drain the committers first. Close waits for every Read to end,
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
		errs = append(errs, s.witness.close())
	}
	return errors.Join(append(errs, l.lock.Close())...)
}

package eventlog

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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
	dir     string
	opt     JetStreamOptions
	report  *Report
	lock    *os.File
	srv     *server.Server
	nc      *nats.Conn
	js      jetstream.JetStream
	shards  []*streamShard
	done    chan struct{} // closed by Close
	broken  chan struct{} // closed after a write error
	once    sync.Once
	calls   sync.WaitGroup
	closing sync.Mutex
	closed  bool
	syncer  sync.WaitGroup
}

type streamShard struct {
	n      uint16
	stream jetstream.Stream
	last   atomic.Uint64 // newest entry known to be durable

	mu      sync.Mutex
	witness *witness
	more    chan struct{} // closed and replaced when last grows
}

// OpenJetStream opens the log in a directory, or makes one where there is none. It reads the whole
// log first (about a second for a gigabyte) and writes nothing when that finds damage.
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
	l := &JetStream{dir: dir, opt: opt, lock: lock, done: make(chan struct{}), broken: make(chan struct{})}
	if err := l.open(ctx); err != nil {
		l.stop()
		return nil, err
	}
	l.syncer.Go(l.syncWitnesses)
	return l, nil
}

func (l *JetStream) open(ctx context.Context) (err error) {
	if l.report, err = scan(l.dir, hooks{}); errors.Is(err, ErrNoLog) {
		if err = makeLog(l.dir, max(l.opt.Shards, 1)); err == nil {
			l.report, err = scan(l.dir, hooks{})
		}
	}
	if err != nil {
		return err
	}
	if l.report.Damage == nil && l.opt.Shards != 0 && int(l.opt.Shards) != len(l.report.Shards) {
		return fmt.Errorf("%s has %d shards, not %d; the number is fixed when a log is made", l.dir, len(l.report.Shards), l.opt.Shards)
	}
	if !l.report.OK() {
		return &DamagedError{l.report}
	}
	if l.srv, l.nc, err = startEngine(l.dir, !l.opt.noSync, l.engineSays); err != nil {
		return err
	}
	if l.js, err = jetstream.New(l.nc); err != nil {
		return err
	}
	for i := range l.report.Shards {
		s, err := l.openShard(ctx, &l.report.Shards[i])
		if err != nil {
			return err
		}
		l.shards = append(l.shards, s)
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
func startEngine(dir string, sync bool, says func(level, text string)) (*server.Server, *nats.Conn, error) {
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
	srv.SetLogger(engineLogger{says}, false, false)
	srv.Start()
	if !srv.ReadyForConnections(30 * time.Second) {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, nil, errors.New("engine: not ready after 30 s")
	}
	// Each page is read through a subscription of its own, whose queue is made whole: the default of
	// 65,536 places is half a megabyte for every batch that is applied. A page has readEntries answers,
	// and one that was given up may still be coming in.
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.MaxReconnects(-1), nats.ReconnectWait(10*time.Millisecond),
		nats.SyncQueueLen(readTries*(readEntries+1)))
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
// nothing any more and leaves its callers waiting.
func (l *JetStream) engineSays(level, text string) {
	l.opt.Logf("engine: %s: %s", level, text)
	if level == "fatal" || strings.Contains(text, "write error") || strings.Contains(text, "failed to store a msg") || strings.Contains(text, "disabling JetStream") {
		l.breakDown()
	}
}

func (l *JetStream) breakDown() { l.once.Do(func() { close(l.broken) }) }

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

func (l *JetStream) openShard(ctx context.Context, r *ShardReport) (*streamShard, error) {
	want := l.streamConfig(r.Shard)
	fail := func(format string, a ...any) (*streamShard, error) {
		return nil, fmt.Errorf("shard %d: %s", r.Shard, fmt.Sprintf(format, a...))
	}
	stream, err := l.js.Stream(ctx, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && r.seen.Last == 0 && r.Last == 0:
		stream, err = l.js.CreateStream(ctx, want)
	case err == nil:
		have := stream.CachedInfo().Config
		if d := configDiff(want, have); d != "" {
			return fail("the stream's settings are not ours: %s", d)
		}
		if have.MaxBytes != want.MaxBytes || have.Duplicates != want.Duplicates {
			want.FirstSeq, want.Metadata = have.FirstSeq, have.Metadata
			stream, err = l.js.UpdateStream(ctx, want)
		}
	}
	if err != nil {
		return fail("%v", err)
	}
	s := &streamShard{n: r.Shard, stream: stream, more: make(chan struct{})}
	if s.witness, err = openWitness(l.dir, r.Shard); err != nil {
		return fail("%v", err)
	}
	// A trim that was decided and not finished.
	state := stream.CachedInfo().State
	if r.Last >= r.First && state.FirstSeq < r.First {
		if err := stream.Purge(ctx, jetstream.WithPurgeSequence(r.First)); err != nil {
			_ = s.witness.close()
			return fail("%v", err)
		}
		if info, err := stream.Info(ctx); err == nil {
			state = info.State
		}
	}
	// The engine must see what we saw in its files.
	if state.LastSeq != r.Last || state.NumDeleted != 0 || r.Last >= r.First && (state.FirstSeq != r.First || state.Msgs != r.Last-r.First+1) {
		_ = s.witness.close()
		return fail("the engine has entries %d–%d (%d of them), its files have %d–%d", state.FirstSeq, state.LastSeq, state.Msgs, r.First, r.Last)
	}
	if r.Last > r.seen.Last {
		// Stored, and the answer never arrived. It is the log's end from now on.
		err = s.witness.swear(testimony{r.First, r.Last, r.sum})
		if err != nil {
			_ = s.witness.close()
			return fail("%v", err)
		}
	}
	s.last.Store(r.Last)
	return s, nil
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
	l.closing.Lock()
	defer l.closing.Unlock()
	if l.closed {
		return nil, ErrClosed
	}
	if int(shard) >= len(l.shards) {
		return nil, fmt.Errorf("shard %d of %d: %w", shard, len(l.shards), ErrShard)
	}
	l.calls.Add(1)
	return l.shards[shard], nil
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
	select {
	case <-l.broken:
		return 0, false, ErrBroken
	default:
	}
	if l.opt.Reserve > 0 {
		free, err := diskFree(l.dir)
		if err != nil {
			return 0, false, fmt.Errorf("%w: free space of %s: %v", ErrFull, l.dir, err)
		}
		if free < uint64(l.opt.Reserve)+uint64(len(batch)) {
			return 0, false, fmt.Errorf("%w: %d bytes are free on the disk of %s, %d are reserved", ErrFull, free, l.dir, l.opt.Reserve)
		}
	}
	bctx, cancel := l.bound(ctx, l.broken)
	defer cancel()
	msg := &nats.Msg{Subject: subjectName(shard), Data: batch}
	ack, err := l.js.PublishMsg(bctx, msg, jetstream.WithMsgID(id), jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, false, publishError(ctx, bctx, err)
	}
	if ack.Stream != streamName(shard) || ack.Sequence == 0 {
		return 0, false, fmt.Errorf("%w: the engine answers for stream %q, sequence %d", ErrUnknown, ack.Stream, ack.Sequence)
	}
	if err := s.acked(ack.Sequence, batch); err != nil {
		// The entry is durable and that is the answer. Without a witness there will be no other.
		l.opt.Logf("%v: %v", witnessName(shard), err)
		l.breakDown()
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
	err := s.witness.say(testimony{s.witness.t.First, seq, crc32.Checksum(batch, castagnoli)})
	s.last.Store(seq)
	close(s.more)
	s.more = make(chan struct{})
	return err
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
				l.breakDown()
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
		for {
			s.mu.Lock()
			last, more := s.last.Load(), s.more
			s.mu.Unlock()
			if from > last {
				select {
				case <-more:
				case <-bctx.Done():
				}
			} else if page, err = l.page(bctx, s, page[:0], from, last); err != nil {
				if bctx.Err() == nil {
					yield(Entry{}, err)
					return
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

func (s *streamShard) first() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.witness.t.First
}

// page reads some entries from from on, at most up to last. That they exist is known; so an engine
// that does not have them has lost them, and one that does not answer is asked again.
func (l *JetStream) page(ctx context.Context, s *streamShard, page []Entry, from, last uint64) ([]Entry, error) {
	inbox := l.nc.NewInbox()
	sub, err := l.nc.SubscribeSync(inbox + ".*")
	if err != nil {
		return nil, fmt.Errorf("shard %d: read: %w", s.n, err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	for try := 1; ; try++ {
		tctx, cancel := context.WithTimeout(ctx, readTimeout)
		page, err := l.ask(tctx, s, sub, inbox+"."+strconv.Itoa(try), page[:0], from, last)
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil || try == readTries {
			return page, err
		}
	}
}

// ask sends one request and collects its answers.
func (l *JetStream) ask(ctx context.Context, s *streamShard, sub *nats.Subscription, reply string, page []Entry, from, last uint64) ([]Entry, error) {
	request, err := json.Marshal(map[string]uint64{"seq": from, "batch": min(last-from+1, readEntries), "max_bytes": readBytes})
	if err != nil {
		return nil, err
	}
	if err := l.nc.PublishRequest("$JS.API.DIRECT.GET."+streamName(s.n), reply, request); err != nil {
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
	m, err := s.stream.GetMsg(ctx, seq)
	switch {
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
	s.mu.Lock()
	t := s.witness.t
	switch {
	case upTo < t.First:
		s.mu.Unlock()
		return nil
	case upTo >= t.Last:
		s.mu.Unlock()
		return trimError(shard, upTo, t.Last)
	}
	t.First = upTo + 1
	err = s.witness.swear(t)
	s.mu.Unlock()
	if err != nil {
		return fmt.Errorf("shard %d: trim: %w", shard, err)
	}
	if err := s.stream.Purge(ctx, jetstream.WithPurgeSequence(upTo+1)); err != nil {
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
	info, err := s.stream.Info(ctx)
	if err != nil {
		return Info{}, fmt.Errorf("shard %d: info: %w", shard, err)
	}
	i := Info{First: s.first(), Last: s.last.Load(), Bytes: info.State.Bytes, Limit: uint64(info.Config.MaxBytes), Sync: "fsync"}
	if info.State.LastSeq < i.Last {
		return i, &GapError{shard, info.State.LastSeq + 1, i.Last}
	}
	return i, nil
}

// Err returns ErrBroken when the engine has stopped after a write error.
func (l *JetStream) Err() error {
	select {
	case <-l.broken:
		return ErrBroken
	default:
		return nil
	}
}

// Close ends the calls under way, stops the engine, and gives the directory free. Appends that are
// interrupted have an unknown outcome; drain the committers first. Close waits for every Read to end,
// so a loop over Read must not call it.
func (l *JetStream) Close() error {
	l.closing.Lock()
	if l.closed {
		l.closing.Unlock()
		return nil
	}
	l.closed = true
	l.closing.Unlock()
	close(l.done)
	l.calls.Wait()
	l.syncer.Wait()
	return l.stop()
}

func (l *JetStream) stop() error {
	if l.nc != nil {
		l.nc.Close()
	}
	if l.srv != nil {
		l.srv.Shutdown()
		l.srv.WaitForShutdown()
	}
	var errs []error
	for _, s := range l.shards {
		errs = append(errs, s.witness.close())
	}
	return errors.Join(append(errs, l.lock.Close())...)
}

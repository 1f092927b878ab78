package eventlog

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/timing"
)

// engine is one run of NATS JetStream inside this process.
type engine struct {
	srv     *server.Server
	nc      *nats.Conn
	js      jetstream.JetStream
	streams []jetstream.Stream
	broken  chan struct{} // closed when it has failed
	cause   string        // why, in the engine's or the system's words; set before broken is closed
	once    sync.Once
}

func (e *engine) fail(cause string) {
	e.once.Do(func() { e.cause = cause; close(e.broken) })
}

func (e *engine) failed() bool {
	select {
	case <-e.broken:
		return true
	default:
		return false
	}
}

func (e *engine) stop() {
	if e.nc != nil {
		e.nc.Close()
	}
	if e.srv != nil {
		e.srv.Shutdown()
		e.srv.WaitForShutdown()
	}
}

// startEngine starts a server that listens nowhere, with its files in dir, and connects to it.
func startEngine(ctx context.Context, dir string, sync bool, clock timing.Clock,
	logf func(level, text string)) (*server.Server, *nats.Conn, error) {
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
		if logf(level, text); level == "fatal" { // it will never be ready
			select {
			case fatal <- text:
			default:
			}
		}
	}}, false, false)
	srv.Start()
	for start := clock.Mark(); !srv.ReadyForConnections(20 * time.Millisecond); {
		var err error
		select {
		case text := <-fatal:
			err = fmt.Errorf("engine: %s", text)
		case <-ctx.Done():
			err = ctx.Err()
		default:
			if clock.Since(start) < 30*time.Second {
				continue
			}
			err = errors.New("engine: not ready after 30 s")
		}
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, nil, err
	}
	// The queue of a subscription is allocated whole; the default of 65,536 places is half a megabyte for
	// every reader. A page has readEntries answers and a closing one, and the rest of a page that was given
	// up may still be coming in.
	nc, err := nats.Connect("", nats.InProcessServer(srv), nats.Timeout(engineAnswers), nats.MaxReconnects(-1),
		nats.ReconnectWait(10*time.Millisecond),
		nats.SyncQueueLen(2*(readEntries+1)))
	if err != nil {
		srv.Shutdown()
		srv.WaitForShutdown()
		return nil, nil, fmt.Errorf("engine: %w", err)
	}
	return srv, nc, nil
}

// engineAnswers is how long the engine in this process may take to answer a new connection. The client's own limit of 2
// s passes on a machine that is busy.
const engineAnswers = 30 * time.Second

// engineLogger passes the engine's warnings and errors on.
type engineLogger struct{ logf func(level, text string) }

func (l engineLogger) Noticef(string, ...any)         {}
func (l engineLogger) Debugf(string, ...any)          {}
func (l engineLogger) Tracef(string, ...any)          {}
func (l engineLogger) Warnf(format string, v ...any)  { l.logf("warning", fmt.Sprintf(format, v...)) }
func (l engineLogger) Errorf(format string, v ...any) { l.logf("error", fmt.Sprintf(format, v...)) }
func (l engineLogger) Fatalf(format string, v ...any) { l.logf("fatal", fmt.Sprintf(format, v...)) }

// engineSays gets the engine's log lines. A write error stands nowhere else: the engine stores nothing
// any more, and its callers get no answer. The engine may hold its locks during this call.
func (l *JetStream) engineSays(e *engine, level, text string) {
	l.opt.Logf("engine: %s: %s", level, text)
	if level == "fatal" || strings.Contains(text, "write error") || strings.Contains(text, "failed to store a msg") ||
		strings.Contains(text, "disabling JetStream") {
		e.fail(text)
	}
}

// streamConfig is what a shard's stream must be. Only Trim ever removes something.
func (o *JetStreamOptions) streamConfig(shard uint16) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:        streamName(shard),
		Subjects:    []string{subjectName(shard)},
		Retention:   jetstream.LimitsPolicy,
		Storage:     jetstream.FileStorage,
		Discard:     jetstream.DiscardNew,
		MaxBytes:    o.MaxBytes,
		MaxMsgSize:  MaxBatch + batchHeaders,
		Replicas:    1,
		Duplicates:  o.Duplicates,
		AllowDirect: true,
		DenyDelete:  true,
	}
}

// openShard makes the stream of a shard ready: its settings are ours, a trim that was decided is
// finished, and the engine has the entries that r found in the files.
func (l *JetStream) openShard(ctx context.Context, e *engine, r *ShardReport) error {
	want := l.opt.streamConfig(r.Shard)
	fail := func(format string, a ...any) error {
		return fmt.Errorf("shard %d: %s", r.Shard, fmt.Sprintf(format, a...))
	}
	stream, err := e.js.Stream(ctx, want.Name)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound) && r.acked.Last == 0 && r.Last == 0:
		stream, err = e.js.CreateStream(ctx, want)
	case err == nil && r.acked.Last == 0 && r.Last == 0 && stream.CachedInfo().State.LastSeq != 0:
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
	// Finish a trim that was decided.
	state := stream.CachedInfo().State
	if r.Last >= r.First && state.FirstSeq < r.First {
		if err := stream.Purge(ctx, jetstream.WithPurgeSequence(r.First)); err != nil {
			return fail("%v", err)
		}
		if info, err := stream.Info(ctx); err == nil {
			state = info.State
		}
	}
	// Compare the engine with its files.
	if state.LastSeq != r.Last || state.NumDeleted != 0 || r.Last >= r.First &&
		(state.FirstSeq != r.First || state.Msgs != r.Last-r.First+1) {
		return fail("the engine has entries %d–%d (%d of them), its files have %d–%d", state.FirstSeq, state.LastSeq,
			state.Msgs, r.First, r.Last)
	}
	s := l.shards[r.Shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := (ackedEnd{r.First, r.Last, r.sum}); r.Last > r.acked.Last {
		// Entries that were stored and never acknowledged are the end of the log from now on.
		err = s.file.writeBoth(now)
		s.acked = now
	} else if s.file.end != s.acked { // an earlier write of the file failed
		err = s.file.writeBoth(s.acked)
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

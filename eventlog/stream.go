package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// StreamOptions configure OpenStream.
type StreamOptions struct {
	// Shards is the number of shards, 1 when 0. MaxBytes is the limit of each, default 64 GiB. Duplicates is how long
	// message ids are remembered, default 10 minutes; it must be longer than the patience of a Committer.
	Shards     uint16
	MaxBytes   int64
	Duplicates time.Duration
	// Replicas is how many servers have the log, default 1.
	Replicas int
	// Create allows to make streams that are not there. Only the first start of a cluster does: a stream that is
	// gone afterwards is an error and never a second empty log.
	Create bool
	// Logf gets what the operator should know. It may be nil.
	Logf func(format string, a ...any)
}

// Stream is a Log on a NATS connection: a JetStream stream for each shard, whose servers may be embedded in other
// processes (Node) or a cluster of NATS that is there. An acknowledgement means that a majority of the replicas
// has the batch. The servers must sync always; a Stream cannot see whether they do.
//
// A direct get is answered by any replica, also by one that is behind or damaged, so a miss is asked again at the
// leader. Read goes through a consumer with a heartbeat; silence and holes are never the end of the log.
type Stream struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	opt     StreamOptions
	streams []jetstream.Stream

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	mu    sync.Mutex
	calls sync.WaitGroup
}

const (
	streamHeartbeat = 500 * time.Millisecond // the least that the client allows
	streamWait      = 5 * time.Second        // for an answer of the API
	apiTry          = time.Second            // for one of several tries
	pollEvery       = 20 * time.Millisecond
	firstRetry      = 50 * time.Millisecond
	lastRetry       = time.Second
	holeTries       = 8 // at the leader, before a hole is one
)

// OpenStream opens the log on a connection, which stays the caller's. It waits until the servers answer, as long as
// ctx allows.
func OpenStream(ctx context.Context, nc *nats.Conn, o StreamOptions) (*Stream, error) {
	base := JetStreamOptions{Shards: max(o.Shards, 1), MaxBytes: o.MaxBytes, Duplicates: o.Duplicates, Logf: o.Logf}
	base.defaults()
	o.Logf, o.Replicas = base.Logf, max(o.Replicas, 1)
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	l := &Stream{nc: nc, js: js, opt: o}
	l.ctx, l.stop = context.WithCancel(context.Background())
	for shard := range base.Shards {
		want := base.streamConfig(shard)
		want.Replicas = o.Replicas
		s, err := l.openShard(ctx, want)
		if err != nil {
			l.stop()
			return nil, fmt.Errorf("shard %d: %w", shard, err)
		}
		l.streams = append(l.streams, s)
	}
	return l, nil
}

// openShard finds the stream of a shard or makes it, and waits until it has a leader.
func (l *Stream) openShard(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	wait := firstRetry
	for {
		tctx, cancel := context.WithTimeout(ctx, streamWait)
		s, err := l.js.Stream(tctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			if !l.opt.Create {
				cancel()
				return nil, fmt.Errorf("the stream %s is gone, which no troupe does: restore it, and do not begin with an empty one", want.Name)
			}
			if s, err = l.js.CreateStream(tctx, want); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				s, err = l.js.Stream(tctx, want.Name) // another node was first
			}
		}
		cancel()
		if err == nil {
			if d := configDiff(want, s.CachedInfo().Config); d != "" {
				return nil, fmt.Errorf("the stream's settings are not ours: %s", d)
			}
			return s, nil
		}
		if !pause(ctx, wait) {
			return nil, fmt.Errorf("%w: %v", ctx.Err(), err)
		}
		wait = min(2*wait, lastRetry)
	}
}

// begin enters a call. The context that it returns ends with the caller's and with Close.
func (l *Stream) begin(ctx context.Context, shard uint16) (context.Context, func(), error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ctx.Err() != nil {
		return nil, nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	if int(shard) >= len(l.streams) {
		return nil, nil, fmt.Errorf("shard %d of %d: %w", shard, len(l.streams), ErrShard)
	}
	l.calls.Add(1)
	both, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(l.ctx, func() { cancel(ErrClosed) })
	return both, func() { stop(); cancel(nil); l.calls.Done() }, nil
}

// Append implements Log.
func (l *Stream) Append(ctx context.Context, shard uint16, id string, batch []byte) (seq uint64, dup bool, err error) {
	both, end, err := l.begin(ctx, shard)
	if err != nil {
		return 0, false, err
	}
	defer end()
	if len(batch) > MaxBatch {
		return 0, false, fmt.Errorf("batch of %d bytes: %w", len(batch), ErrTooLarge)
	}
	ack, err := l.js.PublishMsg(both, &nats.Msg{Subject: subjectName(shard), Data: batch}, jetstream.WithMsgID(id), jetstream.WithRetryAttempts(0))
	if err != nil {
		return 0, false, publishError(ctx, both, err)
	}
	if ack.Stream != streamName(shard) || ack.Sequence == 0 {
		return 0, false, fmt.Errorf("%w: the engine answers for stream %q, sequence %d", ErrUnknown, ack.Stream, ack.Sequence)
	}
	return ack.Sequence, ack.Duplicate, nil
}

// Info implements Log. It is asked at the leader, and again while there is none.
func (l *Stream) Info(ctx context.Context, shard uint16) (Info, error) {
	both, end, err := l.begin(ctx, shard)
	if err != nil {
		return Info{}, err
	}
	defer end()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) { // an election takes seconds
		i, err := l.info(both, shard)
		if err == nil {
			return i, nil
		}
		if !pause(both, wait) {
			if e := ctx.Err(); e != nil {
				return Info{}, fmt.Errorf("%w: %v", e, err)
			}
			return Info{}, ErrClosed
		}
	}
}

func (l *Stream) info(ctx context.Context, shard uint16) (Info, error) {
	ctx, cancel := context.WithTimeout(ctx, apiTry) // without a leader there is no answer at all
	defer cancel()
	info, err := l.streams[shard].Info(ctx)
	if err != nil {
		return Info{}, fmt.Errorf("shard %d: info: %w", shard, err)
	}
	i := Info{First: info.State.FirstSeq, Last: info.State.LastSeq, Bytes: info.State.Bytes, Limit: uint64(info.Config.MaxBytes), Sync: "majority"}
	if info.State.Msgs == 0 {
		i.First = i.Last + 1
	}
	return i, nil
}

// Get implements Log. It asks any replica, and for what that does not have the leader.
func (l *Stream) Get(ctx context.Context, shard uint16, seq uint64) (Entry, error) {
	both, end, err := l.begin(ctx, shard)
	if err != nil {
		return Entry{}, err
	}
	defer end()
	if seq == 0 {
		return Entry{}, notFound(shard, seq)
	}
	tctx, cancel := context.WithTimeout(both, streamWait)
	defer cancel()
	if m, err := l.streams[shard].GetMsg(tctx, seq); err == nil && m.Sequence == seq {
		return Entry{seq, m.Data}, nil
	}
	if tctx.Err() != nil && both.Err() == nil { // no replica answers; the leader gets its own time
		tctx, cancel = context.WithTimeout(both, streamWait)
		defer cancel()
	}
	return l.leaderGet(tctx, shard, seq)
}

// leaderGet asks the leader of a stream for an entry.
func (l *Stream) leaderGet(ctx context.Context, shard uint16, seq uint64) (Entry, error) {
	request, err := json.Marshal(map[string]uint64{"seq": seq})
	if err != nil {
		return Entry{}, err
	}
	m, err := l.nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+streamName(shard), request)
	if err != nil {
		return Entry{}, fmt.Errorf("shard %d: entry %d: %w", shard, seq, err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Seq  uint64 `json:"seq"`
			Data []byte `json:"data"`
		} `json:"message"`
	}
	switch err := json.Unmarshal(m.Data, &answer); {
	case err != nil:
		return Entry{}, fmt.Errorf("shard %d: entry %d: engine: %w", shard, seq, err)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return Entry{}, notFound(shard, seq)
	case answer.Error != nil:
		return Entry{}, fmt.Errorf("shard %d: entry %d: engine: %w", shard, seq, answer.Error)
	case answer.Message == nil || answer.Message.Seq != seq:
		return Entry{}, fmt.Errorf("shard %d: the engine answers with another entry for %d", shard, seq)
	}
	return Entry{seq, answer.Message.Data}, nil
}

// Read implements Log.
func (l *Stream) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		both, end, err := l.begin(ctx, shard)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer end()
		wait, holes := firstRetry, 0
		for {
			next, more, err := l.session(both, shard, from, yield)
			switch {
			case !more:
				return
			case both.Err() != nil:
				if err = ctx.Err(); err == nil {
					err = ErrClosed
				}
				yield(Entry{}, err)
				return
			case next > from:
				from, wait, holes = next, firstRetry, 0
			}
			var gap *GapError
			if errors.As(err, &gap) {
				if holes++; gap.Last < from || holes >= holeTries { // trimmed, or the leader does not have it
					yield(Entry{}, gap)
					return
				}
			}
			l.opt.Logf("shard %d: reading again from entry %d: %v", shard, from, err)
			if !pause(both, wait) {
				continue
			}
			wait = min(2*wait, lastRetry)
		}
	}
}

// session reads through one consumer, from entry from on, until it ends. It returns the entry that is wanted next,
// whether the reader wants more, and why the session has ended; a *GapError when the leader has later entries and
// not this one.
func (l *Stream) session(ctx context.Context, shard uint16, from uint64, yield func(Entry, error) bool) (next uint64, more bool, err error) {
	info, err := l.info(ctx, shard)
	if err != nil {
		return from, true, err
	}
	if from < info.First {
		return from, false, l.tell(yield, &GapError{shard, from, info.First - 1})
	}
	sctx, end := context.WithCancel(ctx)
	defer end()
	made := make(chan jetstream.Consumer, 1)
	start := from
	l.calls.Go(func() { l.makeConsumer(sctx, shard, start, made) })
	var consumer jetstream.Consumer
	poll := time.NewTicker(pollEvery)
	defer poll.Stop()
	for consumer == nil {
		select {
		case <-ctx.Done():
			return from, true, ctx.Err()
		case consumer = <-made:
		case <-poll.C:
			// The engine's meta group makes consumers, and may be electing. Entries are there meanwhile.
			for {
				tctx, cancel := context.WithTimeout(ctx, streamHeartbeat)
				m, err := l.streams[shard].GetMsg(tctx, from)
				cancel()
				if err != nil || m.Sequence != from {
					break
				}
				if !yield(Entry{from, m.Data}, nil) {
					return from, false, nil
				}
				from++
			}
		}
	}
	defer func() {
		// No other reader has its name. Servers that are away drop it by themselves.
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), streamHeartbeat)
		defer cancel()
		_ = l.js.DeleteConsumer(c, streamName(shard), consumer.CachedInfo().Name)
	}()
	messages, err := consumer.Messages(jetstream.PullMaxBytes(2*readBytes),
		jetstream.PullHeartbeat(streamHeartbeat), jetstream.PullExpiry(30*time.Second))
	if err != nil {
		return from, true, fmt.Errorf("consumer: %w", err)
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return from, true, fmt.Errorf("consumer: %w", err)
		}
		meta, err := m.Metadata()
		switch {
		case err != nil:
			return from, true, fmt.Errorf("consumer: %w", err)
		case meta.Sequence.Stream < from: // it was polled
			continue
		case meta.Sequence.Stream > from:
			// A message was dropped on its way, or this replica does not have it: #7549 of the engine.
			tctx, cancel := context.WithTimeout(ctx, streamWait)
			e, err := l.leaderGet(tctx, shard, from)
			cancel()
			switch {
			case errors.Is(err, ErrNotFound):
				return from, true, &GapError{shard, from, meta.Sequence.Stream - 1}
			case err != nil:
				return from, true, err
			case !yield(e, nil):
				return from, false, nil
			}
			return from + 1, true, fmt.Errorf("a replica delivers entry %d and not %d, which the leader has", meta.Sequence.Stream, from)
		}
		if !yield(Entry{from, m.Data()}, nil) {
			return from, false, nil
		}
		from++
	}
}

// makeConsumer makes a consumer from an entry on, as soon as the engine does.
func (l *Stream) makeConsumer(ctx context.Context, shard uint16, from uint64, made chan<- jetstream.Consumer) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		tctx, cancel := context.WithTimeout(ctx, apiTry)
		c, err := l.streams[shard].CreateConsumer(tctx, jetstream.ConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from, AckPolicy: jetstream.AckNonePolicy,
			MemoryStorage: true, Replicas: 1, InactiveThreshold: 10 * time.Second,
		})
		cancel()
		if err == nil {
			made <- c
			return
		}
		if !pause(ctx, wait) {
			return
		}
	}
}

// tell yields an error that ends a Read.
func (l *Stream) tell(yield func(Entry, error) bool, err error) error {
	yield(Entry{}, err)
	return err
}

// Trim implements Log.
func (l *Stream) Trim(ctx context.Context, shard uint16, upTo uint64) error {
	both, end, err := l.begin(ctx, shard)
	if err != nil {
		return err
	}
	defer end()
	info, err := l.info(both, shard)
	switch {
	case err != nil:
		return err
	case upTo < info.First:
		if upTo == 0 || info.Last > 0 {
			return nil
		}
		fallthrough
	case upTo >= info.Last:
		return trimError(shard, upTo, info.Last)
	}
	if err := l.streams[shard].Purge(both, jetstream.WithPurgeSequence(upTo+1)); err != nil {
		return fmt.Errorf("shard %d: trim: %w", shard, err)
	}
	return nil
}

// Replica is a server that has the log.
type Replica struct {
	Name    string        `json:"name"`
	Leader  bool          `json:"leader"`
	Current bool          `json:"current"` // it has what the leader has
	Offline bool          `json:"offline"`
	Lag     uint64        `json:"lag"`    // entries
	Active  time.Duration `json:"active"` // since it was heard of
}

// Replicas returns the servers that have shard 0, as the leader sees them.
func (l *Stream) Replicas(ctx context.Context) ([]Replica, error) {
	both, end, err := l.begin(ctx, 0)
	if err != nil {
		return nil, err
	}
	defer end()
	info, err := l.streams[0].Info(both)
	if err != nil || info.Cluster == nil {
		return nil, err
	}
	out := []Replica{{Name: info.Cluster.Leader, Leader: true, Current: true}}
	for _, r := range info.Cluster.Replicas {
		out = append(out, Replica{Name: r.Name, Current: r.Current, Offline: r.Offline, Lag: r.Lag, Active: r.Active})
	}
	return out, nil
}

// StepDown lets another server lead every shard and waits until one does.
func (l *Stream) StepDown(ctx context.Context) error {
	both, end, err := l.begin(ctx, 0)
	if err != nil {
		return err
	}
	defer end()
	for shard, s := range l.streams {
		info, err := s.Info(both)
		if err != nil {
			return err
		}
		if info.Cluster == nil || len(info.Cluster.Replicas) == 0 {
			continue
		}
		was := info.Cluster.Leader
		if _, err := l.nc.RequestWithContext(both, "$JS.API.STREAM.LEADER.STEPDOWN."+streamName(uint16(shard)), nil); err != nil {
			return fmt.Errorf("shard %d: step down: %w", shard, err)
		}
		for {
			tctx, cancel := context.WithTimeout(both, time.Second)
			info, err := s.Info(tctx)
			cancel()
			if err == nil && info.Cluster != nil && info.Cluster.Leader != "" && info.Cluster.Leader != was {
				break
			}
			if !pause(both, firstRetry) {
				return fmt.Errorf("shard %d: no other server leads: %w", shard, both.Err())
			}
		}
	}
	return nil
}

// HandOver is StepDown when the server of the connection leads, otherwise nothing.
func (l *Stream) HandOver(ctx context.Context) error {
	replicas, err := l.Replicas(ctx)
	if err != nil || len(replicas) < 2 || replicas[0].Name != l.nc.ConnectedServerName() {
		return err
	}
	return l.StepDown(ctx)
}

// Close ends the calls under way. Appends that are interrupted have an unknown outcome. It waits for every Read to
// end, so a loop over Read must not call it. The connection stays open.
func (l *Stream) Close() error {
	l.mu.Lock()
	l.stop()
	l.mu.Unlock()
	l.calls.Wait()
	return nil
}

package eventlog

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/timing"
)

// streamDuplicates is the default of StreamOptions.Duplicates: nodes that are cut off repeat a batch for long.
const streamDuplicates = 10 * time.Minute

// StreamOptions configure OpenStream.
type StreamOptions struct {
	// Shards is the number of shards, 1 when 0. MaxBytes is the limit of each, default 64 GiB; a stream that has less
	// is raised to it, one that has more keeps it. Duplicates is how long message ids are remembered, default 10
	// minutes; it must be longer than the patience of a Committer.
	Shards     uint16
	MaxBytes   int64
	Duplicates time.Duration
	// Replicas is how many servers have the log, default 1.
	Replicas int
	// Create allows to make streams that are not there. Only the first start of a cluster does: a stream that is
	// gone afterwards is an error and never a second empty log.
	Create bool
	// Node is the server of the connection when it is embedded in this process, nil otherwise; see HandOver.
	Node *Node
	// Remote: the servers are those of others. HandOver leaves them alone. Metadata goes into the description of a
	// stream that is made.
	Remote   bool
	Metadata map[string]string
	// Await lets OpenStream wait for a log that an ImportLog makes.
	Await bool
	// Suspect is called when the server of the connection led and did not give an entry that it must have. It may be
	// nil.
	Suspect func()
	// Logf gets what the operator should know. It may be nil.
	Logf func(format string, a ...any)
	// Clock is the machine's when it is not set.
	Clock timing.Clock
}

// Stream is a Log on a NATS connection: a JetStream stream for each shard, whose servers may be embedded in other
// processes (Node) or a cluster of NATS that is there. An acknowledgement means that a majority of the replicas
// has the batch. The servers must sync always; a Stream cannot see whether they do.
//
// A direct get is answered by any replica, also by one that is behind or damaged, so a miss is asked again at the
// leader; where that one misses what others have, another one is to lead. Read goes through a consumer with a
// heartbeat; silence and holes are never the end of the log.
type Stream struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	opt     StreamOptions
	streams []jetstream.Stream

	imported     uint64 // see Imported
	importedBase Base   // see ImportedBase
	importedKeys string // see ImportedKeys

	ctx   context.Context // ends with Close
	stop  context.CancelFunc
	mu    sync.Mutex
	moved timing.Instant // when leadership was moved away from a server that missed entries
	calls sync.WaitGroup

	gone     atomic.Pointer[GoneError] // the servers say that there is no stream
	doubting atomic.Bool               // doubt asks

	seen []atomic.Uint64 // of each shard: the last entry that was stored or read through this value
}

const (
	pageBytes       = 4 << 20                // in one request, about
	streamHeartbeat = 500 * time.Millisecond // the least that the client allows
	streamWait      = 5 * time.Second        // for an answer of the API
	apiTry          = time.Second            // for one of several tries
	pollEvery       = 25 * time.Millisecond  // while the consumer is silent
	leaderEvery     = 500 * time.Millisecond // where any replica says that the log ends
	stepEvery       = 10 * time.Millisecond  // during a step-down
	doubtEvery      = 2 * time.Second        // while nothing is stored
	stepTry         = 250 * time.Millisecond
	firstRetry      = 50 * time.Millisecond
	lastRetry       = time.Second
	holeTries       = 8 // at the leader, before a hole is one
	moveEvery       = 10 * time.Second
)

// OpenStream opens the log on a connection, which stays the caller's. It waits until the servers answer, as long as
// ctx allows.
func OpenStream(ctx context.Context, nc *nats.Conn, o StreamOptions) (*Stream, error) {
	shards, duplicates := max(o.Shards, 1), cmp.Or(o.Duplicates, streamDuplicates)
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return nil, err
	}
	l := &Stream{nc: nc, js: js, opt: o, seen: make([]atomic.Uint64, shards)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	for shard := range shards {
		want := streamConfig(shard, o.MaxBytes, duplicates)
		want.Replicas = max(o.Replicas, 1)
		want.Metadata = o.Metadata
		s, err := l.openShard(ctx, want)
		if err != nil {
			l.stop()
			return nil, fmt.Errorf("shard %d: %w", shard, err)
		}
		l.streams = append(l.streams, s)
	}
	l.opt.Replicas = l.streams[0].CachedInfo().Config.Replicas
	return l, nil
}

// openShard finds the stream of a shard or makes it, and waits until it has a leader.
func (l *Stream) openShard(ctx context.Context, want jetstream.StreamConfig) (jetstream.Stream, error) {
	wait, said := firstRetry, ""
	try := apiTry          // without a leader there is no answer at all; a machine that is busy takes longer for one
	var off timing.Instant // since when the account has no JetStream, which a server that just starts says too
	for {
		tctx, cancel := context.WithTimeout(ctx, try)
		s, err := l.js.Stream(tctx, want.Name)
		cancel()
		try = min(2*try, streamWait)
		tctx, cancel = context.WithTimeout(ctx, streamWait)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			if !l.opt.Create && !l.opt.Await {
				cancel()
				return nil, &GoneError{want.Name}
			}
			if l.opt.Await {
				err = errImporting
			} else if s, err = l.js.CreateStream(tctx, want); errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
				s, err = l.js.Stream(tctx, want.Name) // another node was first
			} else if l.opt.Remote && refusedForGood(err) {
				cancel()
				return nil, notMade(want, err)
			}
		}
		cancel()
		if err == nil {
			cfg := s.CachedInfo().Config
			limit := want.MaxBytes
			if l.opt.Node != nil && cfg.Replicas > 1 { // Fit changes them with the nodes of the cluster
				want.Replicas = cfg.Replicas
			}
			if l.opt.Remote {
				limit = l.opt.MaxBytes
				if l.opt.Replicas == 0 {
					want.Replicas = cfg.Replicas
				}
			}
			if d := configDiff(want, cfg); d != "" {
				return nil, fmt.Errorf("the stream's settings are not ours: %s", d)
			}
			// one node may raise the limit, and none lowers it: another one was started with more
			if limit > cfg.MaxBytes {
				if s, err = l.raise(ctx, cfg, limit); refusedByEngine(err) || storage(err) {
					return nil, fmt.Errorf("its limit of %d bytes cannot be raised to %d: %w", cfg.MaxBytes, limit, err)
				}
			}
			if err == nil {
				l.importedKeys = cfg.Metadata[importKeys]
				if l.importedBase, err = importedBase(cfg); err != nil {
					return nil, err
				}
				if l.imported, err = imported(cfg); err == nil {
					return s, nil
				}
			}
		}
		switch {
		case !noJetStream(err):
			off = 0
		case off == 0:
			off = l.opt.Clock.Mark()
		case l.opt.Remote && l.opt.Clock.Since(off) > streamWait:
			return nil, notMade(want, err)
		}
		if text := err.Error(); l.opt.Remote && text != said {
			l.opt.Logf("waiting for the stream %s: %s", want.Name, text)
			said = text
		}
		if !l.opt.Clock.Sleep(ctx, wait) {
			return nil, fmt.Errorf("%w: %v", ctx.Err(), err)
		}
		wait = min(2*wait, lastRetry)
	}
}

// raise gives a stream a larger limit.
func (l *Stream) raise(ctx context.Context, cfg jetstream.StreamConfig, limit int64) (jetstream.Stream, error) {
	ctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	cfg.MaxBytes = limit
	return l.js.UpdateStream(ctx, cfg)
}

// refusedByEngine reports an answer of the engine that will not change: not that of an engine without a leader.
func refusedByEngine(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.Code < 500
}

// noJetStream reports that the engine does not serve the account.
func noJetStream(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && api.ErrorCode == jetstream.JSErrCodeJetStreamNotEnabledForAccount
}

// notMade is the error of a log that the servers do not take.
func notMade(want jetstream.StreamConfig, err error) error {
	switch {
	case storage(err):
		err = fmt.Errorf("the account or the servers have no room for the %d bytes of --max-log: %w", want.MaxBytes,
			err)
	case noJetStream(err):
		err = fmt.Errorf("the account of the log has no JetStream: enable it for the account: %w", err)
	}
	return fmt.Errorf("the stream %s is not made: %w", want.Name, err)
}

// storage reports that an account or the servers have too little room.
func storage(err error) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && slices.Contains([]jetstream.ErrorCode{10002, 10047}, api.ErrorCode)
}

// refusedForGood reports an answer of the engine to a new stream that waiting does not change: not one of an engine
// that has no leader, or just starts, nor that it has too few servers at present.
func refusedForGood(err error) bool {
	const noPeers = 10005 // its description says why
	var api *jetstream.APIError
	switch {
	case !errors.As(err, &api):
		return false
	case api.ErrorCode == noPeers:
		return strings.Contains(api.Description, "insufficient")
	}
	return !slices.Contains([]jetstream.ErrorCode{10004, 10008, 10009, jetstream.JSErrCodeJetStreamNotEnabled},
		api.ErrorCode)
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

// MostBatch returns the size of the largest batch: the servers of others may take less than MaxBatch.
func (l *Stream) MostBatch() int {
	if payload := l.nc.MaxPayload(); l.opt.Remote && payload > 0 {
		return int(min(MaxBatch, payload-batchHeaders))
	}
	return MaxBatch
}

// batchHeaders is more than what a message has beside the batch.
const batchHeaders = 4096

// Err returns what is wrong with the server of the connection when it is embedded in this process, see Node.Err.
func (l *Stream) Err() error {
	if gone := l.gone.Load(); gone != nil {
		return gone
	}
	if l.opt.Node == nil {
		return nil
	}
	return l.opt.Node.Err()
}

// doubt asks the servers, until they answer, whether the stream is there: an append had no answer. Two answers that it
// is not make it a *GoneError of Err.
func (l *Stream) doubt() {
	if !l.doubting.CompareAndSwap(false, true) {
		return
	}
	both, end, err := l.begin(l.ctx, 0)
	if err != nil {
		return
	}
	go func() {
		defer end()
		defer l.doubting.Store(false)
		for misses := 0; ; {
			ctx, cancel := context.WithTimeout(both, streamWait)
			_, err := l.js.Stream(ctx, streamName(0))
			cancel()
			switch {
			case err == nil:
				l.gone.Store(nil)
				return
			case !errors.Is(err, jetstream.ErrStreamNotFound):
				misses = 0
			default:
				if misses++; misses == 2 {
					l.gone.Store(&GoneError{streamName(0)})
					l.opt.Logf("%v", l.gone.Load())
				}
			}
			if !l.opt.Clock.Sleep(both, doubtEvery) {
				return
			}
		}
	}()
}

// Append implements Log.
func (l *Stream) Append(ctx context.Context, shard uint16, id string, batch []byte) (seq uint64, dup bool, err error) {
	both, end, err := l.begin(ctx, shard)
	if err != nil {
		return 0, false, err
	}
	defer end()
	if most := l.MostBatch(); len(batch) > most {
		return 0, false, fmt.Errorf("batch of %d bytes, at most %d: %w", len(batch), most, ErrTooLarge)
	}
	ack, err := l.js.PublishMsg(both, &nats.Msg{Subject: subjectName(shard), Data: batch}, jetstream.WithMsgID(id),
		jetstream.WithRetryAttempts(0))
	if err != nil {
		if err = publishError(ctx, both, err); !refused(err) {
			l.doubt()
		}
		return 0, false, err
	}
	if ack.Stream != streamName(shard) || ack.Sequence == 0 {
		return 0, false, fmt.Errorf("%w: the engine answers for stream %q, sequence %d", ErrUnknown, ack.Stream,
			ack.Sequence)
	}
	l.saw(shard, ack.Sequence)
	return ack.Sequence, ack.Duplicate, nil
}

// saw notes that the log has an entry.
func (l *Stream) saw(shard uint16, seq uint64) {
	seen := &l.seen[shard]
	for at := seen.Load(); at < seq && !seen.CompareAndSwap(at, seq); at = seen.Load() {
	}
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
		if !l.opt.Clock.Sleep(both, wait) {
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
	i := Info{First: info.State.FirstSeq, Last: info.State.LastSeq, Bytes: info.State.Bytes,
		Limit: uint64(info.Config.MaxBytes), Sync: "majority"}
	if info.State.Msgs == 0 {
		i.First = i.Last + 1
	}
	return i, nil
}

// Get implements Log. It asks any replica, and for what that does not have the leader: without any answer for about 6
// s. That no entry is there is the word of the leader and of its end of the log, unless this value has seen the entry: a
// server that leads no more and has not heard so yet, because it was cut off, ends before it.
func (l *Stream) Get(ctx context.Context, shard uint16, seq uint64) (Entry, error) {
	both, end, err := l.begin(ctx, shard)
	if err != nil {
		return Entry{}, err
	}
	defer end()
	if seq == 0 {
		return Entry{}, notFound(shard, seq)
	}
	// A machine that stands still is asked like the others, and keeps silent.
	short, cancel := context.WithTimeout(both, streamHeartbeat)
	m, err := l.streams[shard].GetMsg(short, seq)
	cancel()
	if err == nil && m.Sequence == seq {
		return Entry{seq, m.Data}, nil
	}
	tctx, cancel := context.WithTimeout(both, streamWait)
	defer cancel()
	e, err := leaderGet(tctx, l.nc, shard, seq)
	if !errors.Is(err, ErrNotFound) {
		return e, err
	}
	info, ierr := l.info(tctx, shard)
	tries := holeTries
	switch {
	case ierr != nil: // the leader may be another one now, and has not said what it has
		return Entry{}, entryError(shard, seq, ierr)
	case seq > info.Last && seq <= l.seen[shard].Load(): // the word of a server that leads no more
		tries = math.MaxInt
	case seq < info.First || seq > info.Last: // it is not in the log
		return Entry{}, err
	default:
		l.distrust(tctx, shard, seq)
	}
	// the replicas that a get asks are chosen anew each time, and the leader may be another one now
	for range tries {
		if m, err := l.streams[shard].GetMsg(tctx, seq); err == nil && m.Sequence == seq {
			return Entry{seq, m.Data}, nil
		}
		if e, err := leaderGet(tctx, l.nc, shard, seq); !errors.Is(err, ErrNotFound) {
			return e, err
		}
		if !l.opt.Clock.Sleep(tctx, firstRetry) {
			return Entry{}, entryError(shard, seq, tctx.Err())
		}
	}
	return Entry{}, notFound(shard, seq)
}

// distrust lets another server lead a shard, because its leader does not give an entry that is in the log: the leader's
// files are damaged, which the engine does not notice. It does so at most once in moveEvery, and never fails: readers
// go on either way.
func (l *Stream) distrust(ctx context.Context, shard uint16, seq uint64) {
	l.mu.Lock()
	early := l.opt.Clock.Since(l.moved) < moveEvery
	if !early {
		l.moved = l.opt.Clock.Mark()
	}
	l.mu.Unlock()
	if early {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	info, err := l.streams[shard].Info(ctx)
	if err != nil || info.Cluster == nil || info.Cluster.Leader == "" || len(info.Cluster.Replicas) == 0 {
		return
	}
	was := info.Cluster.Leader
	if was == l.nc.ConnectedServerName() && l.opt.Suspect != nil {
		l.opt.Suspect()
	}
	if err := l.stepDown(ctx, shard, was, heir(info.Cluster, was)); err != nil {
		l.opt.Logf("shard %d: %s leads and does not have entry %d, and no other server leads yet: %v", shard, was, seq,
			err)
		return
	}
	l.opt.Logf("shard %d: %s led and does not have entry %d; another server leads now", shard, was, seq)
}

// leaderGet asks the leader of a stream for an entry.
func leaderGet(ctx context.Context, nc *nats.Conn, shard uint16, seq uint64) (Entry, error) {
	request, err := json.Marshal(map[string]uint64{"seq": seq})
	if err != nil {
		return Entry{}, err
	}
	m, err := nc.RequestWithContext(ctx, "$JS.API.STREAM.MSG.GET."+streamName(shard), request)
	if err != nil {
		return Entry{}, entryError(shard, seq, err)
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
		return Entry{}, entryError(shard, seq, fmt.Errorf("engine: %w", answer.Error))
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
			if !l.opt.Clock.Sleep(both, wait) {
				continue
			}
			wait = min(2*wait, lastRetry)
		}
	}
}

// arrival is what a session was given: an entry, or the error of the consumer.
type arrival struct {
	seq     uint64
	data    []byte
	err     error
	trimmed bool // what is wanted is gone
}

// session reads from entry from on until its consumer ends. It returns the entry that is wanted next, whether the
// reader wants more, and why the session has ended; a *GapError when the leader has later entries and not this one.
//
// Entries come through a consumer. While it is silent the wanted entry is asked for: the engine places consumers on any
// server, and when that one is gone its silence is noticed after a second only. The engine's meta group, which makes
// consumers, may be electing too.
func (l *Stream) session(ctx context.Context, shard uint16, from uint64, yield func(Entry, error) bool) (next uint64,
	more bool, err error) {
	sctx, end := context.WithCancel(ctx)
	defer end()
	arrived := make(chan arrival)
	give := func(a arrival) bool {
		select {
		case arrived <- a:
			return a.err == nil
		case <-sctx.Done():
			return false
		}
	}
	var wanted atomic.Uint64
	delivered := new(atomic.Int64) // by the consumer, twice each, from 2 on; odd while one waits; 0 while there is no consumer
	wanted.Store(from)
	l.calls.Go(func() { l.beginning(sctx, shard, from, give) })
	l.calls.Go(func() { l.consume(sctx, shard, from, delivered, give) })
	l.calls.Go(func() { l.poll(sctx, shard, &wanted, delivered, give) })
	for {
		var a arrival
		select {
		case <-ctx.Done():
			return from, true, ctx.Err()
		case a = <-arrived:
		}
		switch {
		case a.trimmed:
			return from, false, l.tell(yield, a.err)
		case a.err != nil:
			return from, true, a.err
		case a.seq < from: // it came the other way too
			continue
		case a.seq > from:
			// A message was dropped on its way, or this replica does not have it: #7549 of the engine.
			tctx, cancel := context.WithTimeout(ctx, streamWait)
			e, err := leaderGet(tctx, l.nc, shard, from)
			cancel()
			switch {
			case errors.Is(err, ErrNotFound):
				if info, err := l.info(ctx, shard); err == nil && from >= info.First { // it was not trimmed
					l.distrust(ctx, shard, from)
				}
				return from, true, &GapError{shard, from, a.seq - 1}
			case err != nil:
				return from, true, err
			case !l.hand(shard, e, yield):
				return from, false, nil
			}
			return from + 1, true, fmt.Errorf("a replica delivers entry %d and not %d, which the leader has", a.seq,
				from)
		}
		if !l.hand(shard, Entry{from, a.data}, yield) {
			return from, false, nil
		}
		from++
		wanted.Store(from)
	}
}

// hand gives the reader an entry and returns whether it wants more.
func (l *Stream) hand(shard uint16, e Entry, yield func(Entry, error) bool) bool {
	l.saw(shard, e.Seq)
	return yield(e, nil)
}

// beginning finds out whether the log still has an entry. No reader waits for it: while the engine's meta group elects
// it answers no question, but gives entries.
func (l *Stream) beginning(ctx context.Context, shard uint16, from uint64, give func(arrival) bool) {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		if info, err := l.info(ctx, shard); err == nil {
			if from < info.First {
				give(arrival{err: &GapError{shard, from, info.First - 1}, trimmed: true})
			}
			return
		}
		if !l.opt.Clock.Sleep(ctx, wait) {
			return
		}
	}
}

// silentMost is how many entries a session asks for one at a time, while it has a consumer that delivers none of them,
// before it takes another consumer.
const silentMost = 256

// errConsumer ends a session whose consumer is alive and delivers nothing, as that of a server whose disk has failed
// does.
var errConsumer = errors.New("the consumer is silent, and the log goes on")

// poll asks for the wanted entry while the consumer delivers nothing: any replica, or the leader alone. A server whose
// disk has failed takes its share of the questions to any replica and does not answer, so what answered last is asked
// first. A replica that has stopped following the leader says that the log ends where it stopped, and the engine asks
// the replica of this server first; so the leader is asked for the end of the log too, every leaderEvery.
func (l *Stream) poll(ctx context.Context, shard uint16, wanted *atomic.Uint64, delivered *atomic.Int64,
	give func(arrival) bool) {
	tick := l.opt.Clock.Ticker(pollEvery)
	defer tick.Stop()
	leader := false // is asked next
	asked := l.opt.Clock.Mark()
	silent := 0 // entries that came this way since the consumer delivered one
	for before := delivered.Load(); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if now := delivered.Load(); now != before {
			before, silent = now, 0
			continue
		}
		for before%2 == 0 && delivered.Load() == before {
			seq := wanted.Load()
			tctx, cancel := context.WithTimeout(ctx, streamHeartbeat)
			e, err := l.ask(tctx, shard, seq, leader)
			cancel()
			if leader {
				asked = l.opt.Clock.Mark()
			}
			if err != nil {
				leader = !leader && (!errors.Is(err, jetstream.ErrMsgNotFound) || l.opt.Clock.Since(asked) >= leaderEvery)
				break
			}
			if !give(arrival{seq: seq, data: e.Data}) {
				return
			}
			if silent++; silent >= silentMost && before > 0 {
				give(arrival{err: errConsumer})
				return
			}
			for wanted.Load() == seq { // it is being yielded
				if !l.opt.Clock.Sleep(ctx, time.Millisecond) {
					return
				}
			}
		}
	}
}

// ask asks for an entry: the leader, or any replica.
func (l *Stream) ask(ctx context.Context, shard uint16, seq uint64, leader bool) (Entry, error) {
	if leader {
		return leaderGet(ctx, l.nc, shard, seq)
	}
	m, err := l.streams[shard].GetMsg(ctx, seq)
	if err == nil && m.Sequence != seq {
		err = jetstream.ErrMsgNotFound
	}
	if err != nil {
		return Entry{}, err
	}
	return Entry{seq, m.Data}, nil
}

// consume reads from a consumer until it ends.
func (l *Stream) consume(ctx context.Context, shard uint16, from uint64, delivered *atomic.Int64,
	give func(arrival) bool) {
	consumer := l.makeConsumer(ctx, shard, from)
	if consumer == nil {
		return
	}
	delivered.Store(2)
	defer func() {
		// No other reader has its name. Servers that are away drop it by themselves.
		c, cancel := context.WithTimeout(context.WithoutCancel(ctx), streamHeartbeat)
		defer cancel()
		_ = l.js.DeleteConsumer(c, streamName(shard), consumer.CachedInfo().Name)
	}()
	messages, err := consumer.Messages(jetstream.PullMaxBytes(2*pageBytes),
		jetstream.PullHeartbeat(streamHeartbeat), jetstream.PullExpiry(30*time.Second))
	if err != nil {
		give(arrival{err: fmt.Errorf("consumer: %w", err)})
		return
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		var meta *jetstream.MsgMetadata
		if err == nil {
			meta, err = m.Metadata()
		}
		if err != nil {
			give(arrival{err: fmt.Errorf("consumer: %w", err)})
			return
		}
		delivered.Add(1)
		if !give(arrival{seq: meta.Sequence.Stream, data: m.Data()}) {
			return
		}
		delivered.Add(1)
	}
}

// makeConsumer makes a consumer from an entry on, as soon as the engine does; nil when ctx ends before.
func (l *Stream) makeConsumer(ctx context.Context, shard uint16, from uint64) jetstream.Consumer {
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		tctx, cancel := context.WithTimeout(ctx, apiTry)
		c, err := l.streams[shard].CreateConsumer(tctx, jetstream.ConsumerConfig{
			DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from,
			AckPolicy:     jetstream.AckNonePolicy,
			MemoryStorage: true, Replicas: 1, InactiveThreshold: 10 * time.Second,
		})
		cancel()
		if err == nil {
			return c
		}
		if !l.opt.Clock.Sleep(ctx, wait) {
			return nil
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
	if err := purge(both, l.streams[shard], jetstream.WithPurgeSequence(upTo+1)); err != nil {
		return fmt.Errorf("shard %d: trim: %w", shard, err)
	}
	return nil
}

// Replica is a server that has the log.
type Replica struct {
	Name    string        `json:"name" doc:"name of the server"`
	Leader  bool          `json:"leader" doc:"it leads the log"`
	Current bool          `json:"current" doc:"it has what the leader has"`
	Offline bool          `json:"offline" doc:"the leader does not reach it"`
	Lag     uint64        `json:"lag" doc:"entries that it lacks"`
	Active  time.Duration `json:"active" doc:"time since the server was heard of, in ns"`
	// Behind says why a majority with it would wait for it, empty when it would not.
	Behind string `json:"behind,omitempty" doc:"why a majority with it would wait for it; absent when it would not"`
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
		out = append(out, Replica{r.Name, false, r.Current, r.Offline, r.Lag, r.Active, lacking(r, fewEntries)})
	}
	return out, nil
}

// HandOver lets another server lead every shard that the server of the connection leads, and with StreamOptions.Node
// the engine's own group too, and waits until one does. It chooses the replica that is the least behind; while all are
// silent or far behind it leads on, and that is an error. With StreamOptions.Remote there is nothing to hand over: the
// servers go on without this process.
func (l *Stream) HandOver(ctx context.Context) error {
	both, end, err := l.begin(ctx, 0)
	if err != nil {
		return err
	}
	defer end()
	if l.opt.Remote {
		return nil
	}
	self := l.nc.ConnectedServerName()
	for shard, s := range l.streams {
		info, next, err := l.awaitHeir(both, s, self)
		if err != nil {
			return err
		}
		if l.opt.Node != nil && shard == 0 {
			if err := l.opt.Node.handOver(both, next); err != nil {
				return err
			}
		}
		if info.Cluster == nil || info.Cluster.Leader != self || len(info.Cluster.Replicas) == 0 {
			continue
		}
		if err := l.stepDown(both, uint16(shard), self, next); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return nil
}

// heirWait is how long a hand-over waits for a server that can lead at once.
const heirWait = 2 * time.Second

// awaitHeir returns what the leader of a stream says of its replicas, and heir, for which it waits when self leads: the
// engine alone would let any server lead that it hears, also one that has nothing, and after that one the others elect
// for seconds.
func (l *Stream) awaitHeir(ctx context.Context, s jetstream.Stream, self string) (*jetstream.StreamInfo, string, error) {
	for since := l.opt.Clock.Mark(); ; {
		info, err := s.Info(ctx)
		if err != nil {
			return nil, "", err
		}
		next := heir(info.Cluster, self)
		switch {
		case next != "" || info.Cluster == nil || info.Cluster.Leader != self || len(info.Cluster.Replicas) == 0:
			return info, next, nil
		case l.opt.Clock.Since(since) > heirWait || !l.opt.Clock.Sleep(ctx, stepEvery):
			var why []string
			for _, r := range info.Cluster.Replicas {
				why = append(why, r.Name+" "+lacking(r, fewEntries))
			}
			return nil, "", errors.New("no other server can lead: " + strings.Join(why, ", "))
		}
	}
}

// heir returns the server that leads after self: the present leader when that is another one, otherwise the replica
// that is there and has the least to catch up with; empty when there is none. What it lacks of a busy log is on its way
// to it before the request to lead.
func heir(c *jetstream.ClusterInfo, self string) (name string) {
	switch {
	case c == nil:
		return ""
	case c.Leader != self:
		return c.Leader
	}
	least := uint64(math.MaxUint64)
	for _, r := range c.Replicas {
		if lacking(r, fewEntries) == "" && r.Lag < least {
			name, least = r.Name, r.Lag
		}
	}
	return name
}

// stepDown lets next lead a shard and waits until a server other than was does.
func (l *Stream) stepDown(ctx context.Context, shard uint16, was, next string) error {
	if err := stepDown(ctx, l.nc, "$JS.API.STREAM.LEADER.STEPDOWN."+streamName(shard), next); err != nil {
		return err
	}
	for {
		tctx, cancel := context.WithTimeout(ctx, stepTry)
		info, err := l.streams[shard].Info(tctx)
		cancel()
		if err == nil && info.Cluster != nil && info.Cluster.Leader != "" && info.Cluster.Leader != was {
			return nil
		}
		if !l.opt.Clock.Sleep(ctx, stepEvery) {
			return fmt.Errorf("no other server leads: %w", ctx.Err())
		}
	}
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

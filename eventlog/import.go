package eventlog

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/timing"
)

// What the description of a stream says of the log that it was imported from.
const (
	importOf   = "troupe-import"   // id of the log
	importLast = "troupe-imported" // its last entry, once all are there
	importBase = "troupe-base"     // of a log that was trimmed: its base, as baseText writes it
	importKeys = "troupe-keys"     // at servers of others: the keys of its event ids, by their fingerprint
)

// errImporting: the stream is there, and not all of its entries are.
var errImporting = errors.New("the import of its log is not complete: go on with troupe cluster import")

// imported returns the last entry that was imported, 0 for a log that was not, and an error while an import is under
// way.
func imported(cfg jetstream.StreamConfig) (last uint64, err error) {
	if cfg.Metadata[importOf] == "" {
		return 0, nil
	}
	if last, err = strconv.ParseUint(cfg.Metadata[importLast], 10, 64); err != nil {
		return 0, errImporting
	}
	return last, nil
}

// Imported returns the last entry that came from a log of before the cluster, 0 when there is none.
func (l *Stream) Imported() uint64 { return l.imported }

// ImportedBase returns the base that came with a log that was trimmed, without a record; its Seq is 0 when there is
// none.
func (l *Stream) ImportedBase() Base { return l.importedBase }

// ImportedKeys returns the fingerprint that the import was given (ForeignKeys), empty without one.
func (l *Stream) ImportedKeys() string { return l.importedKeys }

// ImportBase is the state that a log which was trimmed is folded from: that after entry Seq. The log holds every entry
// that the fold from there needs, which ImportLog cannot see.
type ImportBase struct {
	Seq   uint64
	State []byte
}

func baseText(b Base) string { return fmt.Sprintf("%d %d %x", b.Seq, b.Size, b.Sum) }

// importedBase returns what a stream says of the base of its log.
func importedBase(cfg jetstream.StreamConfig) (b Base, err error) {
	text := cfg.Metadata[importBase]
	if text == "" {
		return b, nil
	}
	var sum []byte
	if _, err := fmt.Sscanf(text, "%d %d %x", &b.Seq, &b.Size, &sum); err != nil || len(sum) != len(b.Sum) ||
		b.Seq == 0 || b.Size <= 0 {
		return Base{}, fmt.Errorf("the stream's base is %q, which is not readable", text)
	}
	b.Sum = [sha256.Size]byte(sum)
	return b, nil
}

const (
	importEntries = 512     // under way at once
	importBytes   = 8 << 20 //
)

// ImportLog makes the log of a cluster from that of a single machine: the same entries with the same sequence numbers.
// state, which is nil for a log that is whole, is stored beside it before the import is complete; the stream's
// description has its SHA-256. The cluster must have no log yet, or one whose import from the same log was interrupted;
// then it goes on. The nodes wait for its end (StreamOptions.Await). says, if not nil, is told how far it is, about
// once a second. keys are as in Verify.
func ImportLog(ctx context.Context, nc *nats.Conn, from *Disk, keys *BatchKeys, state *ImportBase, o StreamOptions,
	says func(done, last uint64)) (Info, error) {
	if n := from.Shards(); n != 1 {
		return Info{}, fmt.Errorf("the log has %d shards, a cluster's has 1", n)
	}
	source, err := from.Info(ctx, 0)
	if err != nil {
		return source, err
	}
	if source.Last == 0 {
		return source, errors.New("the log is empty: start the nodes without an import")
	}
	if trimmed := source.First > 1; trimmed && state == nil || state != nil &&
		(!trimmed || state.Seq+1 < source.First || state.Seq > source.Last || len(state.State) == 0) {
		return source, fmt.Errorf("the log has entries %d to %d: one that was trimmed needs the state after one of "+
			"them, or after entry %d, and one that is whole none", source.First, source.Last, source.First-1)
	}
	js, err := jetstream.New(nc)
	if err != nil {
		return source, err
	}
	o.Create, o.Await = false, false
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	want := streamConfig(0, o.MaxBytes, cmp.Or(o.Duplicates, streamDuplicates))
	if source.Bytes > uint64(want.MaxBytes) {
		return source, fmt.Errorf("the log has %d bytes, the limit of the new one is %d", source.Bytes, want.MaxBytes)
	}
	want.Replicas, want.FirstSeq = max(o.Replicas, 1), source.First
	want.Metadata = map[string]string{importOf: from.ID().String()}
	maps.Copy(want.Metadata, o.Metadata)
	s, have, err := importStream(ctx, js, want, o)
	if err != nil {
		return source, err
	}
	l := &Stream{nc: nc, js: js, opt: o, streams: []jetstream.Stream{s},
		seen: make([]atomic.Uint64, 1)}
	l.ctx, l.stop = context.WithCancel(context.Background())
	defer l.Close()
	if last, err := imported(have); err == nil && last > 0 {
		if last != source.Last {
			return source, fmt.Errorf("the cluster has this log up to entry %d, it has gone on to %d since: what "+
				"both recorded after that cannot be one log", last, source.Last)
		}
		return source, nil
	}
	var told timing.Instant
	tell := func(done uint64) {
		if says != nil && o.Clock.Since(told) >= time.Second {
			told = o.Clock.Mark()
			says(done, source.Last)
		}
	}
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		done, err := l.copied(ctx, from, source)
		if err == nil && done < source.Last {
			err = l.copyEntries(ctx, from, done+1, source.Last, tell)
		}
		var other *otherLogError
		switch {
		case err == nil && done == source.Last:
			if err := l.readBack(ctx, source, keys); err != nil {
				return source, err
			}
			if err = l.importState(ctx, state, have.Metadata); err == nil {
				have.Metadata[importLast] = strconv.FormatUint(source.Last, 10)
				_, err = js.UpdateStream(ctx, have)
				return source, err
			}
		case errors.As(err, &other):
			return source, err
		case o.Remote && errors.Is(err, jetstream.ErrStreamNotFound):
			return source, fmt.Errorf("the stream %s is gone during the import: %w", want.Name, err)
		}
		switch {
		case err != nil:
			o.Logf("import: going on after %v", err)
			if !o.Clock.Sleep(ctx, wait) {
				return source, fmt.Errorf("%w: %v", ctx.Err(), err)
			}
		default:
			wait = firstRetry
		}
	}
}

// importStream finds the stream of an import or makes it. Servers of others may refuse that.
func importStream(ctx context.Context, js jetstream.JetStream, want jetstream.StreamConfig,
	o StreamOptions) (jetstream.Stream, jetstream.StreamConfig, error) {
	begun := o.Clock.Mark()
	for wait := firstRetry; ; wait = min(2*wait, lastRetry) {
		tctx, cancel := context.WithTimeout(ctx, streamWait)
		s, err := js.Stream(tctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			s, err = js.CreateStream(tctx, want)
		}
		cancel()
		if o.Remote && (refusedForGood(err) || noJetStream(err) && o.Clock.Since(begun) > streamWait) {
			return nil, want, notMade(want, err)
		}
		if err == nil {
			info := s.CachedInfo()
			if id := info.Config.Metadata[importOf]; id != want.Metadata[importOf] {
				what, needs := "not from an import",
					"an import needs nodes with empty data directories, and cluster.toml from troupe cluster init "+
						"--import"
				if o.Remote {
					needs = "an import needs an account without a log"
				}
				if id != "" {
					what = "from log " + id
				}
				return nil, info.Config, fmt.Errorf("the cluster has a log already, entries %d to %d, %s: %s",
					info.State.FirstSeq, info.State.LastSeq, what, needs)
			}
			if d := configDiff(want, info.Config); d != "" {
				return nil, info.Config, fmt.Errorf("the stream's settings are not ours: %s", d)
			}
			return s, info.Config, nil
		}
		if !o.Clock.Sleep(ctx, wait) {
			return nil, want, fmt.Errorf("%w: %v", ctx.Err(), err)
		}
	}
}

// otherLogError: what is there is not what was to be copied.
type otherLogError struct {
	seq  uint64
	what string
}

func (e *otherLogError) Error() string { return fmt.Sprintf("entry %d: %s", e.seq, e.what) }

// copied returns the last entry of an import that the cluster has, First − 1 for none.
func (l *Stream) copied(ctx context.Context, from Log, source Info) (uint64, error) {
	i, err := l.info(ctx, 0)
	switch {
	case err != nil:
		return 0, err
	case i.First > i.Last:
		return source.First - 1, nil
	case i.First != source.First || i.Last > source.Last:
		return 0, &otherLogError{i.Last, fmt.Sprintf("the cluster has entries %d to %d, the log has %d to %d", i.First,
			i.Last, source.First, source.Last)}
	}
	tctx, cancel := context.WithTimeout(ctx, streamWait)
	defer cancel()
	here, err := leaderGet(tctx, l.nc, 0, i.Last)
	if err != nil {
		return 0, err
	}
	there, err := from.Get(ctx, 0, i.Last)
	if err == nil && !bytes.Equal(here.Data, there.Data) {
		err = &otherLogError{i.Last, "the cluster has other bytes than the log"}
	}
	return i.Last, err
}

// copyEntries publishes entries, each on the condition that the one before it is the last. After an error it is not
// known which of those under way are stored.
func (l *Stream) copyEntries(ctx context.Context, from Log, first, last uint64, tell func(uint64)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	type sent struct {
		seq    uint64
		size   int
		future jetstream.PubAckFuture
	}
	var under []sent
	size := 0
	settle := func() error { // the oldest
		x := under[0]
		under, size = under[1:], size-x.size
		select {
		case ack := <-x.future.Ok():
			if ack.Sequence != x.seq {
				return &otherLogError{x.seq, fmt.Sprintf("the cluster stored it as %d", ack.Sequence)}
			}
			tell(x.seq)
			return nil
		case err := <-x.future.Err():
			return fmt.Errorf("entry %d: %w", x.seq, err)
		case <-l.opt.Clock.After(streamWait):
			return fmt.Errorf("entry %d: no answer", x.seq)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	for e, err := range from.Read(ctx, 0, first) {
		if err != nil {
			return err
		}
		f, err := l.js.PublishMsgAsync(&nats.Msg{Subject: subjectName(0), Data: e.Data},
			jetstream.WithExpectLastSequence(e.Seq-1), jetstream.WithRetryAttempts(0))
		if errors.Is(err, nats.ErrMaxPayload) {
			return &otherLogError{e.Seq, fmt.Sprintf("the servers do not take its %d bytes: raise their max_payload "+
				"to %d", len(e.Data), MaxBatch+batchHeaders)}
		}
		if err != nil {
			return err
		}
		under, size = append(under, sent{e.Seq, len(e.Data), f}), size+len(e.Data)
		for len(under) > 0 && (len(under) >= importEntries || size > importBytes || e.Seq == last) {
			if err := settle(); err != nil {
				return err
			}
		}
		if e.Seq == last {
			return nil
		}
	}
	return ctx.Err()
}

// importState stores the base of the log, reads it back and adds what the stream says of it. Without a base there is
// nothing to do.
func (l *Stream) importState(ctx context.Context, state *ImportBase, says map[string]string) error {
	if state == nil {
		return nil
	}
	b := Base{Seq: state.Seq, Size: int64(len(state.State)), Sum: sha256.Sum256(state.State)}
	err := l.PutBase(ctx, b, state.State)
	if err == nil {
		_, err = l.GetBase(ctx, b)
	}
	says[importBase] = baseText(b)
	return err
}

// readBack reads what was imported as every node will.
func (l *Stream) readBack(ctx context.Context, source Info, keys *BatchKeys) error {
	c := NewChain(0, source.First).Trust(keys)
	for _, err := range Replay(ctx, l, c, source.Last) {
		if err != nil {
			return fmt.Errorf("reading back: %w", err)
		}
	}
	return nil
}

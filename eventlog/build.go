package eventlog

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"troupe/timing"
)

// buildDir is where a Builder works, in the directory that becomes a log.
const buildDir = "building"

// Builder makes the log of a single machine from entries that it is given in order. What is interrupted goes on: the
// entries that were added stay in the directory.
type Builder struct {
	dir, work string
	first     uint64
	lock      *dirLock
	srv       *server.Server
	nc        *nats.Conn
	js        jetstream.JetStream
	stream    jetstream.Stream
	chain     *Chain
	sum       uint32
	under     []jetstream.PubAckFuture
	unusable  map[uint64]error // entries that are not declared void by one that was added
}

// OpenBuilder begins to build a log in a directory, or goes on. first is its first entry. A directory that holds a log
// is an error. keys are as in Verify.
func OpenBuilder(ctx context.Context, dir string, keys *BatchKeys, first uint64) (_ *Builder, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := refuseNetwork(dir); err != nil {
		return nil, err
	}
	if err := refuseNode(dir); err != nil {
		return nil, err
	}
	if exists(filepath.Join(dir, markerFile)) {
		return nil, &OtherKindError{dir, "a log already; name another directory"}
	}
	b := &Builder{dir: dir, work: filepath.Join(dir, buildDir), first: first, chain: NewChain(0, first).Trust(keys)}
	if b.lock, err = lockDir(dir, true); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if err = os.MkdirAll(b.work, 0o700); err != nil {
		return nil, err
	}
	if b.srv, b.nc, err = startEngine(ctx, b.work, false, timing.Clock{}, func(string, string) {}); err != nil {
		return nil, err
	}
	if b.js, err = jetstream.New(b.nc); err != nil {
		return nil, err
	}
	opt := JetStreamOptions{MaxBytes: 1 << 50}
	opt.defaults()
	cfg := opt.streamConfig(0)
	if first > 1 {
		cfg.FirstSeq = first
	}
	b.stream, err = b.js.Stream(ctx, cfg.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		b.stream, err = b.js.CreateStream(ctx, cfg)
	}
	if err != nil {
		return nil, err
	}
	return b, b.readBack(ctx)
}

// readBack checks the entries that are there.
func (b *Builder) readBack(ctx context.Context) error {
	state := b.stream.CachedInfo().State
	if state.Msgs == 0 {
		return nil
	}
	if state.FirstSeq != b.first {
		return fmt.Errorf("%s has a part of another log, which begins with entry %d and not %d: remove it", b.work,
			state.FirstSeq, b.first)
	}
	for seq := b.first; seq <= state.LastSeq; seq++ {
		m, err := b.stream.GetMsg(ctx, seq)
		if err == nil {
			err = b.check(Entry{seq, m.Data})
		}
		if err != nil {
			return fmt.Errorf("%s: %w: remove it", b.work, err)
		}
	}
	return nil
}

func (b *Builder) check(e Entry) error {
	batch, _, err := b.chain.Next(e)
	if b.chain.unusable() { // an entry that comes may declare it void
		if b.unusable == nil {
			b.unusable = map[uint64]error{}
		}
		b.unusable[e.Seq] = err
		b.chain.declare(e.Seq, declaration{hash: HashBatch(e.Data)})
		b.chain.err = nil
		batch, _, err = b.chain.Next(e)
	}
	if err != nil {
		return err
	}
	if len(b.unusable) > 0 {
		for _, r := range batch.records {
			if x, ok := r.(*Control); ok && x.Act == VoidEntry {
				delete(b.unusable, x.AtSeq)
			}
		}
	}
	b.sum = crc32.Checksum(e.Data, castagnoli)
	return nil
}

// Last returns the last entry that was added, first − 1 for none.
func (b *Builder) Last() uint64 { return b.chain.Last() }

// Has reports whether the last entry is this one, so that the entries behind it fit.
func (b *Builder) Has(ctx context.Context, e Entry) bool {
	m, err := b.stream.GetMsg(ctx, e.Seq)
	return err == nil && bytes.Equal(m.Data, e.Data)
}

// Add adds the next entry. The chain checks it.
func (b *Builder) Add(ctx context.Context, e Entry) error {
	if err := b.check(e); err != nil {
		return err
	}
	// Without a message id: a batch that was stored twice stays so.
	f, err := b.js.PublishMsgAsync(&nats.Msg{Subject: subjectName(0), Data: bytes.Clone(e.Data)},
		jetstream.WithExpectLastSequence(e.Seq-1))
	if err != nil {
		return err
	}
	if b.under = append(b.under, f); len(b.under) >= 256 {
		return b.settle(ctx)
	}
	return nil
}

// settle waits until all that was added is stored.
func (b *Builder) settle(ctx context.Context) error {
	for _, f := range b.under {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	b.under = b.under[:0]
	return nil
}

// Finish makes the log durable and puts it into its place. The builder is of no use afterwards, but must be closed.
func (b *Builder) Finish(ctx context.Context) error {
	if b.Last() < b.first {
		return errors.New("no entries were added")
	}
	if len(b.unusable) > 0 {
		return b.unusable[slices.Min(slices.Collect(maps.Keys(b.unusable)))]
	}
	if err := b.settle(ctx); err != nil {
		return err
	}
	b.stop()
	if err := createAcked(b.work, 0, ackedEnd{First: b.first, Last: b.Last(), Sum: b.sum}); err != nil {
		return err
	}
	err := filepath.WalkDir(b.work, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncDir(path) // opens, syncs, closes: good for files too
	})
	if err != nil {
		return err
	}
	for _, name := range []string{"jetstream", ackedName(0)} {
		if err := os.Rename(filepath.Join(b.work, name), filepath.Join(b.dir, name)); err != nil {
			return err
		}
	}
	id, err := randomID()
	if err == nil {
		err = writeMarker(b.dir, marker{id, 1})
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(b.work)
}

func (b *Builder) stop() {
	if b.nc != nil {
		b.nc.Close()
		b.nc = nil
	}
	if b.srv != nil {
		b.srv.Shutdown()
		b.srv.WaitForShutdown()
		b.srv = nil
	}
}

// Close releases the directory.
func (b *Builder) Close() error {
	b.stop()
	return b.lock.Close()
}

// ReplicaReport is what CheckReplica found in the files of a stopped node.
type ReplicaReport struct {
	First, Last uint64   // entries; Last < First for none
	Damage      []Damage // entries that are not what was written; what is missing at the end is none
}

// CheckReplica reads the files of a cluster's node without the engine and gives f, if it is not nil, every entry that
// the chain accepts until the first damage. A replica may end before what was answered: its engine has the rest in
// another file, and the other nodes have it. A directory that a process uses is a *LockedError. keys are those of
// the cluster.
func CheckReplica(dir string, keys *BatchKeys, f func(Entry) error) (*ReplicaReport, error) {
	if !exists(filepath.Join(dir, nodeMarker)) {
		return nil, fmt.Errorf("%s: no replica of a cluster's log here", dir)
	}
	lock, err := lockDir(dir, false)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	return readReplica(dir, keys, f)
}

// readReplica is CheckReplica for the holder of the lock.
func readReplica(dir string, keys *BatchKeys, f func(Entry) error) (*ReplicaReport, error) {
	return pacedReplica(dir, keys, f, func() error { return nil })
}

// entriesWhole reports whether no entry is damaged, although another file of the engine may be.
func (r *ReplicaReport) entriesWhole() bool {
	return !slices.ContainsFunc(r.Damage, func(d Damage) bool { return strings.HasSuffix(d.File, ".blk") })
}

// pacedReplica is readReplica that calls pace after each block file. An error of pace ends it.
func pacedReplica(dir string, keys *BatchKeys, f func(Entry) error, pace func() error) (*ReplicaReport, error) {
	return replicaWith(dir, keys, nil, f, pace)
}

// replicaWith is pacedReplica with other files instead of some.
func replicaWith(dir string, keys *BatchKeys, instead map[string]string, f func(Entry) error,
	pace func() error) (*ReplicaReport, error) {
	r := &ReplicaReport{First: 1}
	stream := streamDir(dir, 0)
	names, numbers, err := blockFiles(filepath.Join(stream, "msgs"))
	if errors.Is(err, os.ErrNotExist) {
		return r, nil
	} else if err != nil {
		return nil, err
	}
	for i, name := range names {
		names[i] = cmp.Or(instead[name], name)
	}
	damaged := func(file string, at int64, seq uint64, format string, a ...any) {
		name, err := filepath.Rel(dir, file)
		if err != nil {
			name = file
		}
		d := Damage{File: filepath.ToSlash(name), Offset: at, What: fmt.Sprintf(format, a...)}
		if seq > 0 {
			d.First, d.Last = seq, seq
		}
		r.Damage = append(r.Damage, d)
	}
	if file, err := checkMeta(stream, streamName(0)); err != nil {
		damaged(file, 0, 0, "%v", err)
	}
	if file, what, err := checkSnapshots(dir); err != nil {
		return nil, err
	} else if what != "" {
		damaged(file, 0, 0, "%s", what)
	}
	first, err := replicaFirst(names, numbers, pace)
	if err != nil {
		return nil, err
	}
	if r.First, r.Last = first, first-1; first == 0 {
		r.First, r.Last = 1, 0
		return r, nil
	}
	var unread *unreadable // at the end it is a write that was cut off
	chain := NewChain(0, first).Trust(keys)
	for block := range readBlocks(names, numbers, 0, true, keys) {
		if block.err == nil {
			block.err = pace()
		}
		if block.err != nil {
			return nil, block.err
		}
		for _, p := range block.parts {
			switch {
			case p.size == 0:
				if unread == nil {
					unread = &unreadable{block.name, p.offset, p.at}
				}
				continue
			case p.tomb, p.seq < first:
				continue
			}
			if unread != nil {
				damaged(unread.file, unread.from, chain.Last()+1, "bytes %d to %d are not readable", unread.from,
					unread.to)
				return r, nil
			}
			if p.erased {
				damaged(block.name, p.offset, p.seq, "it was erased")
				return r, nil
			}
			_, _, err := chain.next(p.seq, p.batch, p.parsed)
			if err != nil && chain.forgiveIn(names, numbers) {
				_, _, err = chain.next(p.seq, p.batch, p.parsed)
			}
			if err != nil {
				if later := (*VersionError)(nil); errors.As(err, &later) {
					return nil, err
				}
				damaged(block.name, p.offset, chain.Last()+1, "%v", err)
				return r, nil
			}
			r.Last = chain.Last()
			if f != nil {
				if err := f(Entry{p.seq, bytes.Clone(p.data)}); err != nil {
					return nil, err
				}
			}
		}
	}
	if unread != nil && unread.file != names[len(names)-1] {
		damaged(unread.file, unread.from, chain.Last()+1, "bytes %d to %d are not readable", unread.from, unread.to)
	}
	return r, nil
}

// replicaFirst returns the entry at which a replica begins, 0 when it is empty: the first behind what was trimmed.
func replicaFirst(names []string, numbers []uint32, pace func() error) (uint64, error) {
	var first, trimmed uint64
	for block := range readBlocks(names, numbers, 0, false, nil) {
		if block.err == nil {
			block.err = pace()
		}
		if block.err != nil {
			return 0, block.err
		}
		for _, p := range block.parts {
			switch {
			case p.size == 0:
			case p.tomb:
				trimmed = max(trimmed, p.seq)
			case p.erased:
			case first == 0 && p.seq > trimmed:
				first = p.seq
			}
		}
	}
	if first > 0 && trimmed >= first {
		first = trimmed + 1
	}
	return first, nil
}

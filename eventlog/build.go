package eventlog

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"troupe/eventlog/segment"
)

// buildDir is where a Builder works, in the directory that becomes a log.
const buildDir = "building"

// Builder makes the log of a single machine from entries that it is given in order. What is interrupted goes on: the
// entries that were added stay in the directory.
type Builder struct {
	dir, work string
	first     uint64
	lock      *dirLock
	store     *segment.Store
	chain     *Chain
	unusable  map[uint64]error // entries that are not declared void by one that was added
}

// OpenBuilder begins to build a log in a directory, or goes on. first is its first entry. A directory that holds a log
// is an error. keys are as in Verify.
func OpenBuilder(_ context.Context, dir string, keys *BatchKeys, first uint64) (_ *Builder, err error) {
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
	// Nothing is synced before Finish.
	b.store, _, err = segment.Open(segment.Options{Dir: filepath.Join(b.work, segment.GroupDir(0)), First: first,
		NoSync: true})
	if err != nil {
		return nil, fmt.Errorf("%s: %w: remove it", b.work, err)
	}
	return b, b.readBack()
}

// readBack checks the entries that are there.
func (b *Builder) readBack() error {
	if have := b.store.Oldest(); have != b.first {
		return fmt.Errorf("%s has a part of another log, which begins with entry %d and not %d: remove it", b.work,
			have, b.first)
	}
	last, _ := b.store.Last()
	r := b.store.Reader(b.first)
	defer r.Close()
	for {
		rec, err := r.Next(last)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && len(rec.Data) < idSize {
			err = fmt.Errorf("entry %d is too short", rec.Index)
		}
		if err == nil {
			err = b.check(Entry{rec.Index, rec.Data[idSize:]})
		}
		if err != nil {
			return fmt.Errorf("%s: %w: remove it", b.work, err)
		}
	}
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
	return nil
}

// Last returns the last entry that was added, first − 1 for none.
func (b *Builder) Last() uint64 { return b.chain.Last() }

// Has reports whether the last entry is this one, so that the entries behind it fit.
func (b *Builder) Has(_ context.Context, e Entry) bool {
	r, err := b.store.Get(e.Seq)
	return err == nil && len(r.Data) >= idSize && bytes.Equal(r.Data[idSize:], e.Data)
}

// Add adds the next entry. The chain checks it.
func (b *Builder) Add(_ context.Context, e Entry) error {
	if err := b.check(e); err != nil {
		return err
	}
	return storeCopy(b.store, e.Seq, storedID(e), e.Data)
}

// storeCopy appends an entry that has its sequence already.
func storeCopy(s *segment.Store, seq uint64, id batchID, data []byte) error {
	got, err := s.Append(soloTerm, segment.Batch, id[:], data)
	if err == nil {
		err = s.Sync()
	}
	if err == nil && got != seq {
		err = fmt.Errorf("entry %d was given the sequence %d", seq, got)
	}
	return err
}

// hashID is how an id stands in a record.
func hashID(id string) batchID {
	sum := sha256.Sum256([]byte(id))
	return batchID(sum[:idSize])
}

// storedID returns the id under which a committer stored an entry; one that no committer wrote gets one of its own.
func storedID(e Entry) batchID {
	h, err := ParseHeader(e.Data)
	if err != nil || h.Epoch == 0 {
		return hashID("entry/" + strconv.FormatUint(e.Seq, 10))
	}
	id := h.MessageID()
	if h.Format == Format3 {
		id += "/" + hex.EncodeToString(e.Data[len(e.Data)-batchMACSize/2:])
	}
	return hashID(id)
}

// Finish makes the log durable and puts it into its place. The builder is of no use afterwards, but must be closed.
func (b *Builder) Finish(context.Context) error {
	if b.Last() < b.first {
		return errors.New("no entries were added")
	}
	if len(b.unusable) > 0 {
		return b.unusable[slices.Min(slices.Collect(maps.Keys(b.unusable)))]
	}
	last, link := b.store.Last()
	if err := b.closeStore(); err != nil {
		return err
	}
	group := filepath.Join(b.work, segment.GroupDir(0))
	if err := segment.CreateAcked(segment.OS, group, 0, segment.Acked{First: b.first, Last: last, Link: link}); err != nil {
		return err
	}
	if err := syncTree(b.work); err != nil {
		return err
	}
	if err := os.Rename(group, filepath.Join(b.dir, segment.GroupDir(0))); err != nil {
		return err
	}
	m, err := newMarker(1)
	if err == nil {
		err = writeMarker(b.dir, m)
	}
	if err != nil {
		return err
	}
	return os.RemoveAll(b.work)
}

// syncTree makes all files and names below a directory durable.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return syncDir(path) // opens, syncs, closes: good for files too
	})
}

func (b *Builder) closeStore() error {
	if b.store == nil {
		return nil
	}
	err := b.store.Close()
	b.store = nil
	return err
}

// Close releases the directory.
func (b *Builder) Close() error { return errors.Join(b.closeStore(), b.lock.Close()) }

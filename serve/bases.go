package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"slices"

	"troupe/eventlog"
	"troupe/serve/fold"
)

// bases makes and keeps the states from which what is left of a trimmed log is folded: in files of this machine, and in
// the store that the nodes of a cluster share. It changes nothing that the server answers. Methods may be called at
// once.
type bases struct {
	log      eventlog.Log
	batches  *eventlog.BatchKeys
	past     *fold.History
	files    fold.Files
	logger   *slog.Logger
	imported eventlog.Base // that came with the log, its Seq 0 for none
	taken    eventlog.Base // at the start, from the store
}

// store returns the store.
func (k *bases) store() (eventlog.KeepsBases, error) {
	if l, ok := k.log.(eventlog.KeepsBases); ok {
		return l, nil
	}
	return nil, errors.New("serve: a log is not trimmed without a store for its bases")
}

// baseOf returns what the store calls a base.
func baseOf(b fold.Base) eventlog.Base {
	return eventlog.Base{Seq: b.Seq, Record: b.Record, Sum: b.Sum}
}

// compute returns the bytes of the state after entry to, folded from the base before it or from the beginning of
// the log: every node has the same.
func (k *bases) compute(from fold.Base, to uint64) ([]byte, error) {
	switch {
	case from.Seq > 0:
		b, err := k.files.Read(from.Seq)
		if err == nil {
			err = baseOf(from).Verify(b)
		}
		if err != nil {
			return nil, err
		}
		return k.foldOn(b, to)
	case k.past.First.Load() > 1:
		return nil, errNoBase
	}
	return k.foldOn(nil, to)
}

var errNoBase = errors.New("the log was trimmed, and this node does not have its base")

// foldOn returns the bytes of the state after entry to, folded from that in b or from nothing.
func (k *bases) foldOn(b []byte, to uint64) ([]byte, error) {
	f, c := fold.New(k.past), k.past.Chain(1)
	if b != nil {
		var err error
		if f, c, err = fold.Restore(b, k.past); err != nil {
			return nil, err
		}
	}
	if err := k.past.Log.Replay(c, to, func(d eventlog.Delivery) error {
		_, err := f.Apply(d)
		return err
	}); err != nil {
		return nil, err
	}
	return f.AppendState(nil, c)
}

// summed is what is written, and its SHA-256.
type summed struct {
	from io.WriterTo
	sum  hash.Hash
}

// WriteTo implements io.WriterTo.
func (s summed) WriteTo(w io.Writer) (int64, error) { return s.from.WriteTo(io.MultiWriter(w, s.sum)) }

// write makes the file of a base, of an image or of bytes in a reader, and reads it back.
func (k *bases) write(seq uint64, from io.WriterTo) error {
	if k.files == "" {
		return errors.New("serve: a log is not trimmed without a directory for its base")
	}
	written := summed{from, sha256.New()}
	if err := k.files.Write(seq, written); err != nil {
		return err
	}
	back, err := k.files.Read(seq)
	if sum := sha256.Sum256(back); err == nil && !bytes.Equal(written.sum.Sum(nil), sum[:]) {
		err = fmt.Errorf("serve: %s is not read back as it was written", fold.FileName(seq))
	}
	if err == nil {
		_, _, err = fold.Restore(back, k.past)
	}
	return err
}

// other returns the bytes of a base at a node that does not know the base before it: from its oldest snapshot, or
// from the store, which has it, or one before it from which the log goes on.
func (k *bases) other(ctx context.Context, base fold.Base) ([]byte, error) {
	if from := k.past.Base.Load(); from > 0 && from <= base.Seq {
		if b, err := k.files.Read(from); err == nil {
			if b, err = k.foldOn(b, base.Seq); err == nil && baseOf(base).Verify(b) == nil {
				return b, nil
			}
		}
	}
	b, err := k.fetch(ctx, baseOf(base))
	if err == nil {
		return b, nil
	}
	store, failed := k.store()
	if failed != nil {
		return nil, err
	}
	list, failed := store.Bases(ctx)
	if failed != nil {
		return nil, err
	}
	for _, x := range list {
		if x.Seq >= base.Seq {
			continue
		}
		if b, failed = k.verified(ctx, store, x); failed == nil {
			b, failed = k.foldOn(b, base.Seq)
		}
		if failed == nil && baseOf(base).Verify(b) == nil {
			return b, nil
		}
	}
	return nil, err
}

func (k *bases) fetch(ctx context.Context, b eventlog.Base) ([]byte, error) {
	store, err := k.store()
	if err != nil {
		return nil, err
	}
	list, err := store.Bases(ctx)
	if err != nil {
		return nil, err
	}
	for _, x := range list {
		if x.Seq == b.Seq && x.Sum == b.Sum {
			return store.GetBase(ctx, x)
		}
	}
	return nil, fmt.Errorf("the base of entry %d is not stored: %w", b.Seq, eventlog.ErrNotFound)
}

// put returns nil when the store has the whole base, which it writes if need be: where each node has files of its own, in its own.
func (k *bases) put(ctx context.Context, base fold.Base) error {
	b := baseOf(base)
	if _, own := k.log.(eventlog.TrimsOwn); !own {
		if _, err := k.fetch(ctx, b); err == nil {
			return nil
		}
	}
	store, err := k.store()
	if err != nil {
		return err
	}
	data, err := k.files.Read(base.Seq)
	if err == nil {
		err = b.Verify(data)
	}
	if err == nil {
		err = store.PutBase(ctx, b, data)
	}
	if err == nil {
		_, err = k.fetch(ctx, b)
	}
	if err != nil {
		return fmt.Errorf("the base is not stored, so nothing is removed: %w", err)
	}
	return nil
}

// restore stores a base again whose head is gone.
func (k *bases) restore(ctx context.Context, base fold.Base) error {
	store, err := k.store()
	if err != nil {
		return err
	}
	list, err := store.Bases(ctx)
	if err != nil || slices.ContainsFunc(list, func(b eventlog.Base) bool {
		return b.Seq == base.Seq &&
			b.Sum == base.Sum
	}) {
		return err
	}
	return k.put(ctx, base)
}

// take gives a node that has no state the newest base in the store from which a log that begins with entry first
// can be folded.
func (k *bases) take(ctx context.Context, first uint64) error {
	store, err := k.store()
	if err != nil {
		return err
	}
	list, err := store.Bases(ctx)
	if err != nil {
		return err
	}
	errs := []error{}
	for _, b := range list {
		data, err := k.verified(ctx, store, b)
		if err == nil {
			err = k.write(b.Seq, bytes.NewReader(data))
		}
		if err == nil {
			_, _, err = k.files.Load(b.Seq, first, k.past)
		}
		if err == nil {
			k.logger.Info("the base of the log was taken from the other nodes", "base", b.Seq, "bytes", len(data))
			k.taken = b
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(append([]error{fmt.Errorf("%d bases are stored", len(list))}, errs...)...)
}

// verified reads a base whose SHA-256 is in the trim record that it names, or that came with the log.
func (k *bases) verified(ctx context.Context, store eventlog.KeepsBases, b eventlog.Base) ([]byte, error) {
	if k.cameWith(b) {
		return store.GetBase(ctx, b)
	}
	e, err := k.log.Get(ctx, 0, b.Record)
	if err != nil {
		return nil, err
	}
	batch, err := k.batches.Parse(e.Data)
	if err != nil {
		return nil, fmt.Errorf("entry %d: %w", b.Record, err)
	}
	for _, r := range batch.Events() {
		if c, ok := r.(*eventlog.Control); ok && c.Act == eventlog.Trim && c.AtSeq == b.Seq &&
			bytes.Equal(c.Data, b.Sum[:]) {
			return store.GetBase(ctx, b)
		}
	}
	return nil, fmt.Errorf("entry %d does not say that the base of entry %d has the SHA-256 %x", b.Record, b.Seq, b.Sum)
}

// cameWith reports whether a base is the one that an imported log was trimmed to.
func (k *bases) cameWith(b eventlog.Base) bool {
	return b.Seq > 0 && b.Seq == k.imported.Seq && b.Sum == k.imported.Sum
}

// confirm refuses a base that was taken when the log, folded from there, does not name it, unless it came with the
// log.
func (k *bases) confirm(named fold.Base) error {
	if k.taken.Seq > 0 && k.cameWith(k.taken) {
		return nil
	}
	if k.taken.Seq > named.Seq || k.taken.Seq == named.Seq && k.taken.Sum != named.Sum {
		return fmt.Errorf("serve: the base of entry %d was taken from the other nodes, and the log does not confirm it",
			k.taken.Seq)
	}
	return nil
}

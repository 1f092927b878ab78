package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"troupe/eventlog"
	"troupe/serve/fold"
)

// Trimming in a cluster. One node decides what may go by the rules of retention.go, computes the base and writes a
// record with its entry and its SHA-256. The fold takes the record, or finds a conflict; from then on no act looks
// behind the base at any node. Each node computes the base by itself, from the log that is still whole, and states in
// its checkpoints that it has one with this SHA-256. When all nodes have stated it, and the base is whole in the store
// that all share, the first live node removes the entries. A node that comes later, with an empty disk, takes the base
// from the store and verifies it against the record.

// baseStore keeps the bases of the log of a cluster: eventlog.Stream does.
type baseStore interface {
	PutBase(ctx context.Context, b eventlog.Base, data []byte) error
	Bases(ctx context.Context) ([]eventlog.Base, error)
	GetBase(ctx context.Context, b eventlog.Base) ([]byte, error)
	DropBases(ctx context.Context, before uint64) error
}

// bases returns the store.
func (s *Server) bases() (baseStore, error) {
	if l, ok := s.log.(baseStore); ok {
		return l, nil
	}
	return nil, errors.New("serve: a log is not trimmed without a store for its bases")
}

// agreed is how far a node is with the newest base. nodes.mu guards it.
type agreed struct {
	held    fold.Base // the newest base that is in a file of this node, verified
	upTo    uint64    // the entries up to it may go when all have it
	done    uint64    // the base whose entries are gone
	differs uint64    // the base that this node has computed with other bytes than the log says
	waits   string    // why the entries before the newest base are still there
	tried   time.Time // when the newest trim record was applied here
}

const (
	baseTime  = 10 * time.Minute // to store a base, or to read it
	baseRetry = 10 * time.Second // after an error
	baseCheck = 10 * time.Minute // whether the store still has the base
)

// errTrimming: one trim at a time.
var errTrimming = errors.New("the trim before is under way")

// baseOf returns what the store calls a base.
func baseOf(b fold.Base) eventlog.Base {
	return eventlog.Base{Seq: b.Seq, Record: b.Record, Sum: b.Sum}
}

// baseIn returns the base that a node states.
func baseIn(r *eventlog.Checkpoint) (b fold.Base) {
	if b.Seq = r.BaseSeq; b.Seq > 0 {
		b.Sum = [sha256.Size]byte(r.Base)
	}
	return b
}

// kept returns the first entry that acts may still need.
func (s *Server) kept() uint64 {
	if base := s.based.Load(); base > 0 {
		return max(s.past.First.Load(), base+1)
	}
	return s.past.First.Load()
}

// noteBase takes the newest base of the fold. The caller holds mu, or is alone.
func (s *Server) noteBase() {
	b := s.fold.Base().Seq
	if s.based.Swap(b) == b || s.nodes == nil {
		return
	}
	s.nodes.mu.Lock()
	defer s.nodes.mu.Unlock()
	s.nodes.agreed.tried = time.Now()
}

// trimAgreed is Trim in a cluster: it proposes a base. The entries go when all nodes have it.
func (s *Server) trimAgreed(ctx context.Context, info eventlog.Info) error {
	n := s.nodes
	if _, err := s.bases(); err != nil {
		return err
	}
	s.mu.RLock()
	base := s.fold.Base()
	s.mu.RUnlock()
	n.mu.Lock()
	held, done, differs, waits := n.agreed.held, n.agreed.done, n.agreed.differs, n.agreed.waits
	n.mu.Unlock()
	if n.ImportedBase.Seq > base.Seq {
		return fmt.Errorf("%w: the log does not name the base that it was imported with yet", errTrimming)
	}
	if base.Seq > 0 && done != base.Seq && differs != base.Seq {
		if waits == "" {
			waits = "it is not finished yet"
		}
		return fmt.Errorf("%w: %s", errTrimming, waits)
	}
	to, err := s.expendable(ctx, info)
	if err != nil || to <= base.Seq || to < info.First {
		return err
	}
	data, err := s.computeBase(held, to)
	if err != nil {
		return err
	}
	s.snapshots.keep(to)
	if err := s.writeBase(to, data); err != nil {
		s.snapshots.keep(0)
		return err
	}
	accepted, err := s.propose(ctx, to, sha256.Sum256(data))
	if !accepted {
		s.snapshots.keep(0)
	}
	return err
}

// propose writes the record of a trim, with what this node has applied when it looks for what is needed.
func (s *Server) propose(ctx context.Context, to uint64, sum [sha256.Size]byte) (accepted bool, err error) {
	s.admin.Lock()
	defer s.admin.Unlock()
	seen := s.progress.applied.Load()
	most, err := s.needed(ctx, to)
	if err != nil || most < to {
		return false, err // next time
	}
	now := s.opt.Now().UnixNano()
	receipt, err := s.append(ctx, s.nodes.checkpoint(now, seen), &eventlog.Control{Act: eventlog.Trim, AtSeq: to,
		Data: sum[:], Time: now})
	if err != nil {
		return true, err // it may be there
	}
	out, err := s.applied(ctx, receipt, 2)
	if err == nil && out[1] != fold.Accepted {
		return false, errors.New("a model has changed meanwhile")
	}
	if err == nil {
		s.opt.Logger.Info("the log is to be trimmed", "base", to, "sha256", fmt.Sprintf("%x", sum))
	}
	return true, err
}

// computeBase returns the bytes of the state after entry to, folded from the base before it or from the beginning of
// the log: every node has the same.
func (s *Server) computeBase(from fold.Base, to uint64) ([]byte, error) {
	switch {
	case from.Seq > 0:
		b, err := s.snapshots.files.Read(from.Seq)
		if err == nil {
			err = baseOf(from).Verify(b)
		}
		if err != nil {
			return nil, err
		}
		return s.foldOn(b, to)
	case s.past.First.Load() > 1:
		return nil, errNoBase
	}
	return s.foldOn(nil, to)
}

var errNoBase = errors.New("the log was trimmed, and this node does not have its base")

// foldOn returns the bytes of the state after entry to, folded from that in b or from nothing.
func (s *Server) foldOn(b []byte, to uint64) ([]byte, error) {
	f, c := fold.New(s.past), s.past.Chain(1)
	if b != nil {
		var err error
		if f, c, err = fold.Restore(b, s.past); err != nil {
			return nil, err
		}
	}
	if err := s.past.Log.Replay(c, to, func(d eventlog.Delivery) error {
		_,
			err := f.Apply(d)
		return err
	}); err != nil {
		return nil, err
	}
	return f.AppendState(nil, c)
}

// writeBase makes the file of a base and reads it back.
func (s *Server) writeBase(seq uint64, data []byte) error {
	if s.snapshots.files == "" {
		return errors.New("serve: a log is not trimmed without a directory for its base")
	}
	if err := s.snapshots.files.Write(seq, data); err != nil {
		return err
	}
	back, err := s.snapshots.files.Read(seq)
	if err == nil && !bytes.Equal(data, back) {
		err = fmt.Errorf("serve: %s is not read back as it was written", fold.FileName(seq))
	}
	if err == nil {
		_, _, err = fold.Restore(back, s.past)
	}
	return err
}

// baseLoop brings the newest base to its end.
func (s *Server) baseLoop() {
	n := s.nodes
	tick := time.NewTicker(n.Every)
	defer tick.Stop()
	var pause, checked time.Time
	said := ""
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if s.progress.failure() != nil {
			return
		}
		if time.Now().Before(pause) {
			continue
		}
		s.mu.RLock()
		base := s.fold.Base()
		s.mu.RUnlock()
		n.mu.Lock()
		done := n.agreed.done == base.Seq
		n.mu.Unlock()
		if n.ImportedBase.Seq > base.Seq {
			done = false
		}
		if done && (base.Seq == 0 || time.Since(checked) < baseCheck || n.rank() > 0) {
			continue
		}
		if checked = time.Now(); done {
			ctx, cancel := context.WithTimeout(s.ctx, baseTime)
			if err := s.keepStored(ctx, base); err != nil && s.ctx.Err() == nil {
				s.opt.Logger.Warn("the base of the log is not stored for a node that loses its disk", "error",
					err.Error())
			}
			cancel()
			continue
		}
		ctx, cancel := context.WithTimeout(s.ctx, baseTime)
		var waits string
		var err error
		if n.ImportedBase.Seq > base.Seq {
			err = s.nameImported(ctx)
		} else {
			waits, err = s.tendBase(ctx, base)
		}
		cancel()
		if err != nil && s.ctx.Err() == nil {
			waits = err.Error()
			pause = time.Now().Add(min(baseRetry, 10*n.Every))
			if waits != said {
				s.opt.Logger.Warn("the log is not trimmed", "error", waits)
			}
			said = waits
		}
		n.mu.Lock()
		n.agreed.waits = waits
		n.mu.Unlock()
	}
}

// nameImported writes the record of the base that came with the log, if this is the first live node. From then on it is
// like one that the nodes have agreed on.
func (s *Server) nameImported(ctx context.Context) error {
	b := s.nodes.ImportedBase
	if s.nodes.rank() > 0 {
		return nil
	}
	accepted, err := s.propose(ctx, b.Seq, b.Sum)
	if err == nil && !accepted {
		err = fmt.Errorf("something needs what is before the base that the log was imported with, of entry %d", b.Seq)
	}
	return err
}

// tendBase takes the next steps with the newest base. It returns what they wait for, nothing when the entries are gone.
func (s *Server) tendBase(ctx context.Context, base fold.Base) (waits string, err error) {
	n := s.nodes
	n.mu.Lock()
	have := n.agreed.held == base
	n.mu.Unlock()
	if !have {
		upTo, err := s.obtainBase(ctx, base)
		if err != nil {
			return "", err
		}
		s.past.Base.Store(base.Seq)
		s.snapshots.keep(0) // past.Base keeps it now
		n.mu.Lock()
		n.agreed.held, n.agreed.upTo = base, upTo
		n.mu.Unlock()
	}
	info, err := s.log.Info(ctx, 0)
	if err != nil {
		return "", err
	}
	n.mu.Lock()
	upTo := n.agreed.upTo
	missing := slices.DeleteFunc(slices.Clone(n.Nodes), func(name string) bool {
		b := n.heard[name].base
		return b.Seq == base.Seq && b.Sum == base.Sum
	})
	n.mu.Unlock()
	if info.First <= upTo {
		switch {
		case len(missing) > 0:
			return "the base of entry " + fmt.Sprint(base.Seq) + " is not known to be at " +
				strings.Join(missing, " and "), nil
		case n.rank() > 0:
			return "another node removes the entries", nil
		}
		store, err := s.bases()
		if err == nil {
			err = s.storeBase(ctx, base)
		}
		if err == nil {
			err = s.log.Trim(ctx, 0, upTo)
		}
		if err != nil {
			return "", err
		}
		if err := store.DropBases(ctx, base.Seq); err != nil {
			s.opt.Logger.Warn("an old base is still stored", "error", err.Error())
		}
		s.opt.Logger.Info("the log is trimmed", "first", upTo+1, "base", base.Seq)
		info.First = upTo + 1
	}
	s.past.First.Store(info.First)
	n.mu.Lock()
	n.agreed.done = base.Seq
	n.mu.Unlock()
	return "", s.snapshots.prune()
}

// obtainBase makes the file of a base that the log names: it is there, or is computed, or is taken from the store when
// the log no longer has what it is computed from. It returns the last entry that may go.
func (s *Server) obtainBase(ctx context.Context, base fold.Base) (upTo uint64, err error) {
	n := s.nodes
	b, err := s.snapshots.files.Read(base.Seq)
	if err != nil || baseOf(base).Verify(b) != nil {
		n.mu.Lock()
		held := n.agreed.held
		n.mu.Unlock()
		b, err = s.computeBase(held, base.Seq)
		if err == nil {
			// the fold of this node, or of the one that wrote the record, is wrong
			if err := baseOf(base).Verify(b); err != nil {
				n.mu.Lock()
				n.agreed.differs = base.Seq
				n.mu.Unlock()
				return 0, fmt.Errorf("this node computes another base: %w", err)
			}
		} else if b, err = s.otherBase(ctx, base); err != nil {
			return 0, err
		}
		s.snapshots.keep(base.Seq)
		if err := s.writeBase(base.Seq, b); err != nil {
			return 0, err
		}
	}
	f, _, err := fold.Restore(b, s.past)
	if err != nil {
		return 0, err
	}
	return min(base.Seq, f.OldestOpen()-1), nil
}

// otherBase returns the bytes of a base at a node that does not know the base before it: from its oldest snapshot, or
// from the store.
func (s *Server) otherBase(ctx context.Context, base fold.Base) ([]byte, error) {
	if from := s.past.Base.Load(); from > 0 && from <= base.Seq {
		if b, err := s.snapshots.files.Read(from); err == nil {
			if b, err = s.foldOn(b, base.Seq); err == nil && baseOf(base).Verify(b) == nil {
				return b, nil
			}
		}
	}
	return s.fetchBase(ctx, baseOf(base))
}

func (s *Server) fetchBase(ctx context.Context, b eventlog.Base) ([]byte, error) {
	store, err := s.bases()
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

// storeBase returns nil when the store has the whole base, which it writes if need be.
func (s *Server) storeBase(ctx context.Context, base fold.Base) error {
	b := baseOf(base)
	if _, err := s.fetchBase(ctx, b); err == nil {
		return nil
	}
	store, err := s.bases()
	if err != nil {
		return err
	}
	data, err := s.snapshots.files.Read(base.Seq)
	if err == nil {
		err = b.Verify(data)
	}
	if err == nil {
		err = store.PutBase(ctx, b, data)
	}
	if err == nil {
		_, err = s.fetchBase(ctx, b)
	}
	if err != nil {
		return fmt.Errorf("the base is not stored, so nothing is removed: %w", err)
	}
	return nil
}

// keepStored stores a base again whose head is gone.
func (s *Server) keepStored(ctx context.Context, base fold.Base) error {
	store, err := s.bases()
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
	return s.storeBase(ctx, base)
}

// takeBase gives a node that has no state the newest base in the store from which a log that begins with entry first
// can be folded.
func (s *Server) takeBase(ctx context.Context, first uint64) error {
	store, err := s.bases()
	if err != nil {
		return err
	}
	list, err := store.Bases(ctx)
	if err != nil {
		return err
	}
	errs := []error{}
	for _, b := range list {
		data, err := s.verifiedBase(ctx, store, b)
		if err == nil {
			err = s.writeBase(b.Seq, data)
		}
		if err == nil {
			_, _, err = s.snapshots.files.Load(b.Seq, first, s.past)
		}
		if err == nil {
			s.opt.Logger.Info("the base of the log was taken from the other nodes", "base", b.Seq, "bytes", len(data))
			s.taken = b
			return nil
		}
		errs = append(errs, err)
	}
	return errors.Join(append([]error{fmt.Errorf("%d bases are stored", len(list))}, errs...)...)
}

// verifiedBase reads a base whose SHA-256 is in the trim record that it names, or that came with the log.
func (s *Server) verifiedBase(ctx context.Context, store baseStore, b eventlog.Base) ([]byte, error) {
	if s.nodes.cameWith(b) {
		return store.GetBase(ctx, b)
	}
	e, err := s.log.Get(ctx, 0, b.Record)
	if err != nil {
		return nil, err
	}
	batch, err := s.batches.Parse(e.Data)
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
func (n *nodes) cameWith(b eventlog.Base) bool {
	return b.Seq > 0 && b.Seq == n.ImportedBase.Seq && b.Sum == n.ImportedBase.Sum
}

// confirmBase refuses a base that was taken when the log, folded from there, does not name it, unless it came with the
// log.
func (s *Server) confirmBase() error {
	if s.taken.Seq > 0 && s.nodes.cameWith(s.taken) {
		return nil
	}
	if b := s.fold.Base(); s.taken.Seq > b.Seq || s.taken.Seq == b.Seq && s.taken.Sum != b.Sum {
		return fmt.Errorf("serve: the base of entry %d was taken from the other nodes, and the log does not confirm it",
			s.taken.Seq)
	}
	return nil
}

// trimmedLately reports whether a node has written the record of a trim for less than Options.TrimEvery.
func (n *nodes) trimmedLately(every time.Duration) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.agreed.tried.IsZero() && time.Since(n.agreed.tried) < every*9/10
}

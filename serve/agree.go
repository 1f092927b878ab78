package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/timing"
)

// Trimming in a cluster. One node decides what may go by the rules of needs.go, computes the base and writes a
// record with its entry and its SHA-256. The fold takes the record, or finds a conflict; from then on no act looks
// behind the base at any node. Each node computes the base by itself, from the log that is still whole, and states in
// its checkpoints that it has one with this SHA-256. When all nodes have stated it, and the base is whole in the store
// that all share, the first live node removes the entries. A node that comes later, with an empty disk, takes the base
// from the store and verifies it against the record.

const (
	baseTime  = 10 * time.Minute // to store a base, or to read it
	baseRetry = 10 * time.Second // after an error
	baseCheck = 10 * time.Minute // whether the store still has the base
)

// errTrimming: one trim at a time.
var errTrimming = errors.New("the trim before is under way")

// agreement brings the nodes of a cluster to one base, and removes what is before it.
type agreement struct {
	*lifetime
	needs
	admin     *sync.Mutex // of control acts
	snapshots *snapshots
	bases     *bases
}

// propose is Trim in a cluster: it proposes a base. The entries go when all nodes have it.
func (s *agreement) propose(ctx context.Context, info eventlog.Info) error {
	n := s.nodes
	if _, err := s.bases.store(); err != nil {
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
	data, err := s.bases.compute(held, to)
	if err != nil {
		return err
	}
	s.snapshots.keep(to)
	if err := s.bases.write(to, bytes.NewReader(data)); err != nil {
		s.snapshots.keep(0)
		return err
	}
	accepted, err := s.name(ctx, to, sha256.Sum256(data))
	if !accepted {
		s.snapshots.keep(0)
	}
	return err
}

// name writes the record of a trim, with what this node has applied when it looks for what is needed.
func (s *agreement) name(ctx context.Context, to uint64, sum [sha256.Size]byte) (accepted bool, err error) {
	s.admin.Lock()
	defer s.admin.Unlock()
	seen := s.progress.applied.Load()
	most, err := s.needed(ctx, to)
	if err != nil || most < to {
		return false, err // next time
	}
	now := s.opt.Clock.Now().UnixNano()
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

// baseLoop brings the newest base to its end.
func (s *agreement) baseLoop() {
	n := s.nodes
	tick := s.opt.Clock.Ticker(n.Every)
	defer tick.Stop()
	var failed, checked timing.Instant
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
		if s.opt.Clock.Since(failed) < min(baseRetry, 10*n.Every) {
			continue
		}
		s.mu.RLock()
		base := s.fold.Base()
		s.mu.RUnlock()
		n.mu.Lock()
		stage := n.agreed.stage(base, n.ImportedBase.Seq)
		n.mu.Unlock()
		if stage == trimNone || stage == trimDone && (s.opt.Clock.Since(checked) < baseCheck || n.rank() > 0) {
			continue
		}
		checked = s.opt.Clock.Mark()
		ctx, cancel := context.WithTimeout(s.ctx, baseTime)
		waits, err := s.tendBase(ctx, base)
		cancel()
		if err != nil && s.ctx.Err() == nil {
			waits = err.Error()
			failed = s.opt.Clock.Mark()
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
func (s *agreement) nameImported(ctx context.Context) error {
	b := s.nodes.ImportedBase
	if s.nodes.rank() > 0 {
		return nil
	}
	accepted, err := s.name(ctx, b.Seq, b.Sum)
	if err == nil && !accepted {
		err = fmt.Errorf("something needs what is before the base that the log was imported with, of entry %d", b.Seq)
	}
	return err
}

// tendBase takes the next steps with the newest base, until one has to wait. It returns what it waits for, nothing when
// the entries are gone.
func (s *agreement) tendBase(ctx context.Context, base fold.Base) (waits string, err error) {
	for {
		action, first, missing, err := s.nextTrim(ctx, base)
		if err != nil {
			return "", err
		}
		switch action {
		case trimName:
			return "", s.nameImported(ctx)
		case trimObtain:
			if _, waits := s.hold(base.Seq); waits != "" {
				return waits, nil
			}
			s.without(base.Seq)
			err = s.obtainBase(ctx, base)
		case trimAwait:
			return "the base of entry " + fmt.Sprint(base.Seq) + " is not known to be at " +
				strings.Join(missing, " and "), nil
		case trimYield:
			return "another node removes the entries", nil
		case trimRemove:
			if first, err = s.removeEntries(ctx, base); err == nil {
				return "", s.finishTrim(base, first)
			}
		case trimFinish:
			return "", s.finishTrim(base, first)
		case trimRestore:
			if err := s.bases.restore(ctx, base); err != nil && s.ctx.Err() == nil {
				s.opt.Logger.Warn("the base of the log is not stored for a node that loses its disk", "error",
					err.Error())
			}
			return "", nil
		default:
			return "", nil
		}
		if err != nil {
			return "", err
		}
	}
}

// nextTrim looks at what the next action depends on: where the log begins, and which nodes have not stated the base.
func (s *agreement) nextTrim(ctx context.Context, base fold.Base) (a trimAction, first uint64, missing []string, err error) {
	n := s.nodes
	n.mu.Lock()
	now, imported := n.agreed, n.ImportedBase.Seq
	n.mu.Unlock()
	stage := now.stage(base, imported)
	if stage == trimHeld {
		info, err := s.log.Info(ctx, 0)
		if err != nil {
			return trimRest, 0, nil, err
		}
		first = info.First
		n.mu.Lock()
		missing = slices.DeleteFunc(slices.Clone(n.list()), func(name string) bool {
			b := n.heard[name].base
			return b.Seq == base.Seq && b.Sum == base.Sum
		})
		n.mu.Unlock()
	}
	rank := n.rank()
	if _, ok := s.log.(eventlog.TrimsOwn); ok { // no other node does it
		rank = 0
	}
	return now.next(stage, first, len(missing) > 0, rank, true), first, missing, nil
}

// removeEntries removes from the log what a base stands for, and bases before it from the store. All nodes have stated
// the base; the store has it afterwards, for one that loses its disk.
func (s *agreement) removeEntries(ctx context.Context, base fold.Base) (first uint64, err error) {
	s.nodes.mu.Lock()
	upTo := s.nodes.agreed.upTo
	s.nodes.mu.Unlock()
	store, err := s.bases.store()
	if err == nil {
		err = s.bases.put(ctx, base)
	}
	if err == nil {
		err = s.log.Trim(ctx, 0, upTo)
	}
	if err != nil {
		return 0, err
	}
	if err := store.DropBases(ctx, base.Seq); err != nil {
		s.opt.Logger.Warn("an old base is still stored", "error", err.Error())
	}
	s.opt.Logger.Info("the log is trimmed", "first", upTo+1, "base", base.Seq)
	return upTo + 1, nil
}

// finishTrim notes that the entries of a base are gone.
func (s *agreement) finishTrim(base fold.Base, first uint64) error {
	n := s.nodes
	s.past.First.Store(first)
	n.mu.Lock()
	n.agreed.done = base.Seq
	n.mu.Unlock()
	return s.snapshots.prune()
}

// obtainBase makes the file of a base that the log names: it is there, or is computed, or is taken from the store when
// the log no longer has what it is computed from.
func (s *agreement) obtainBase(ctx context.Context, base fold.Base) error {
	n := s.nodes
	b, err := s.snapshots.files.Read(base.Seq)
	if err != nil || baseOf(base).Verify(b) != nil {
		n.mu.Lock()
		held := n.agreed.held
		n.mu.Unlock()
		b, err = s.bases.compute(held, base.Seq)
		if err == nil {
			// the fold of this node, or of the one that wrote the record, is wrong
			if err := baseOf(base).Verify(b); err != nil {
				n.mu.Lock()
				n.agreed.differs = base.Seq
				n.mu.Unlock()
				return fmt.Errorf("this node computes another base: %w", err)
			}
		} else if b, err = s.bases.other(ctx, base); err != nil {
			return err
		}
		s.snapshots.keep(base.Seq)
		if err := s.bases.write(base.Seq, bytes.NewReader(b)); err != nil {
			return err
		}
	}
	f, _, err := fold.Restore(b, s.past)
	if err != nil {
		return err
	}
	s.past.Base.Store(base.Seq)
	s.snapshots.keep(0) // past.Base keeps it now
	n.mu.Lock()
	n.agreed.held, n.agreed.upTo = base, min(base.Seq, f.OldestOpen()-1)
	n.mu.Unlock()
	return nil
}

package serve

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/shelf"
)

// Retention. The log forgets nothing by itself; with Options.Keep or KeepBytes the server trims it. The
// fold can then not begin with nothing any more, so the state of the last entry before what is kept, the
// base, takes the place of what goes: it is computed by folding what goes, written as a snapshot, read
// back, and only then is the log trimmed. Everything that looks back is refused before the base.
//
// What stays in the log whatever its age: the decisions of open windows and of remembered idempotency
// keys, the decisions whose windows were open at the base (a replay from there closes them), and
// everything since the state that a kept clone or rollback begins with.

// trimmer removes from the log what is not kept.
type trimmer struct {
	*lifetime
	*state
	*writer
	needs     needs
	agreement *agreement  // of the nodes of a cluster
	admin     *sync.Mutex // of control acts
	retaining sync.Mutex  // one trim at a time
	snapshots *snapshots
	bases     *bases
}

// retainLoop trims every now and then.
func (s *trimmer) retainLoop() {
	tick := s.opt.Clock.Ticker(s.opt.TrimEvery)
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if s.nodes != nil && s.nodes.trimmedLately(s.opt.TrimEvery) { // by another node
			continue
		}
		// the status says what it waits for
		if _, err := s.trim(s.ctx); err != nil && s.ctx.Err() == nil && !errors.Is(err, errTrimming) {
			s.opt.Logger.Warn("the log is not trimmed", "error", err.Error())
		}
	}
}

// trim is Server.Trim.
func (s *trimmer) trim(ctx context.Context) (first uint64, err error) {
	s.retaining.Lock()
	defer s.retaining.Unlock()
	info, err := s.log.Info(ctx, 0)
	if err != nil || s.opt.Keep <= 0 && s.opt.KeepBytes <= 0 {
		return info.First, err
	}
	if s.snapshots.files == "" {
		return info.First, errors.New("serve: a log is not trimmed without a directory for its base")
	}
	if s.nodes != nil {
		return info.First, s.agreement.propose(ctx, info)
	}
	to, err := s.needs.expendable(ctx, info)
	if err != nil || to <= s.past.Base.Load() || to < info.First {
		return info.First, err
	}
	on, err := shelf.Open(s.opt.Dir) // of its own: it ends with the fold
	if err != nil {
		return info.First, err
	}
	defer on.Close()
	f, chain, err := s.past.FoldOn(nil, to, on)
	if err != nil {
		return info.First, err
	}
	image, err := f.Image(chain)
	if err != nil {
		return info.First, err
	}
	s.snapshots.keep(to)
	defer s.snapshots.keep(0)
	if err := s.bases.write(to, image); err != nil {
		return info.First, err
	}
	return s.trimTo(ctx, info, f)
}

// trimTo makes f the base. No control act is under way meanwhile: one that looks back before the base
// and was admitted before would find nothing there.
func (s *trimmer) trimTo(ctx context.Context, info eventlog.Info, f *fold.Fold) (first uint64, err error) {
	s.admin.Lock()
	defer s.admin.Unlock()
	// Acts whose callers have left may still be on their way. A record behind them is applied after them.
	s.mu.RLock()
	c := &eventlog.Checkpoint{Seq: s.fold.Seq(), Prices: s.fold.Prices(), Time: s.opt.Clock.Now().UnixNano()}
	s.mu.RUnlock()
	if _, _, err := s.write(ctx, c); err != nil {
		return info.First, err
	}
	most, err := s.needs.needed(ctx, f.Seq())
	if err != nil || most < f.Seq() {
		return info.First, err // next time
	}
	upTo := min(f.Seq(), f.OldestOpen()-1)
	s.past.Base.Store(f.Seq())
	if upTo < info.First {
		return info.First, nil
	}
	s.needs.without(upTo)
	if err := s.log.Trim(ctx, 0, upTo); err != nil {
		return info.First, err
	}
	s.past.First.Store(upTo + 1)
	s.opt.Logger.Info("the log is trimmed", "first", upTo+1, "base", f.Seq())
	return upTo + 1, s.snapshots.prune()
}

// Base returns the entry whose state a log that begins with entry first is folded from, 0 for a log that
// is whole: that of the oldest snapshot in a data directory that can be it. Without one the log cannot be
// opened, and the error says what there is. Nothing is written.
func Base(dir string, first uint64) (seq uint64, err error) {
	if first <= 1 {
		return 0, nil
	}
	files := snapshotFiles(dir)
	seqs, err := files.List()
	if err != nil {
		return 0, err
	}
	errs := []error{fmt.Errorf("the log was trimmed, it begins with entry %d; no snapshot in %s can be its base", first,
		files)}
	for _, seq := range slices.Backward(seqs) {
		if _, _, err := files.Load(seq, first, nil); err == nil {
			return seq, nil
		} else {
			errs = append(errs, fmt.Errorf("%s: %w", fold.FileName(seq), err))
		}
	}
	return 0, errors.Join(errs...)
}

// BaseOf returns a function that gives the fold at the base of the log in a data directory, for readers of a log that
// was trimmed and begins with entry first.
func BaseOf(dir string) func(first uint64) (*fold.Fold, error) {
	return func(first uint64) (*fold.Fold, error) {
		seq, err := Base(dir, first)
		if err != nil {
			return nil, err
		}
		f, _, err := snapshotFiles(dir).Load(seq, first, nil)
		return f, err
	}
}

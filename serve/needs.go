package serve

import (
	"context"
	"fmt"
	"slices"

	"troupe/eventlog"
)

// needs says what the log must keep.
type needs struct {
	*state
	*writer
	followers *followers
}

// expendable returns the last entry that need not be kept.
func (s *needs) expendable(ctx context.Context, info eventlog.Info) (to uint64, err error) {
	most := s.progress.applied.Load()
	if most = min(most, info.Last); most < 2 {
		return 0, nil
	}
	young := s.opt.Clock.Now().Add(-s.opt.Keep).UnixNano()
	left, before := info.Bytes, int64(0)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for e, err := range s.log.Read(ctx, 0, info.First) {
		if err != nil {
			return 0, err
		}
		h, err := eventlog.ParseHeader(e.Data)
		if err != nil && s.nodes == nil {
			return 0, fmt.Errorf("entry %d: %w", e.Seq, err)
		} else if err != nil {
			h.Time = before // of what no node has written nothing is known
		}
		before = h.Time
		old := s.opt.Keep > 0 && h.Time < young
		large := s.opt.KeepBytes > 0 && left > uint64(s.opt.KeepBytes)
		if !old && !large || e.Seq >= most {
			break
		}
		to, left = e.Seq, left-min(left, uint64(len(e.Data)))
	}
	return s.needed(ctx, to)
}

// needed lowers to until nothing needs what lies before the state of entry to.
func (s *needs) needed(ctx context.Context, to uint64) (uint64, error) {
	s.mu.RLock()
	to = min(to, s.fold.OldestNeeded()-1)
	begun := slices.Collect(s.fold.Inherited())
	s.mu.RUnlock()
	to, _ = s.hold(to)
	for again := true; again; {
		again = false
		for i, x := range begun {
			if x.Since <= to {
				continue
			}
			if x.Whole {
				return 0, nil
			}
			if x.At == 0 {
				var err error
				if x.At, err = s.cloned(ctx, x.Since, x.Model); err != nil {
					return 0, err
				}
				begun[i] = x
			}
			if x.At < to {
				to, again = x.At, true
			}
		}
	}
	return to, nil
}

// cloned returns the entry whose state the clone id began with, from its record in entry seq.
func (s *needs) cloned(ctx context.Context, seq uint64, id eventlog.ID) (uint64, error) {
	e, err := s.log.Get(ctx, 0, seq)
	if err != nil {
		return 0, err
	}
	b, err := eventlog.ParseBatch(e.Data)
	if err != nil {
		return 0, fmt.Errorf("entry %d: %w", seq, err)
	}
	for _, r := range b.Events() {
		if c, ok := r.(*eventlog.Control); ok && c.Model == id && c.From != 0 {
			return c.AtSeq, nil
		}
	}
	return 0, fmt.Errorf("entry %d has no record of the beginning of model %v", seq, id)
}

// hold returns up to where the log may be trimmed, at most to, and what waits otherwise.
func (s *needs) hold(to uint64) (most uint64, waits string) {
	if x, _ := s.followers.behind(to, s.opt.Clock.Now()); x != nil {
		return x.Last, fmt.Sprintf("the backup %s has entries up to %d", x.Name, x.Last)
	}
	return to, ""
}

// without says which backup lacks entries when those up to one are gone, once.
func (s *needs) without(to uint64) {
	if _, x := s.followers.behind(to, s.opt.Clock.Now()); x != nil && s.followers.drop(*x) {
		s.opt.Logger.Warn("the log is trimmed, and a backup that follows lacks entries then: begin another one",
			"backup", x.Name, "lacks", fmt.Sprintf("%d to %d", x.Last+1, to), "asked", x.Time)
	}
}

package serve

import (
	"context"
	"errors"
	"fmt"

	"troupe/eventlog"
)

// briefEntry is the number of events of an entry during which decisions of a model that learns may wait.
const briefEntry = 4

// applier follows the log and changes the state.
type applier struct {
	*lifetime
	*state
	*writer
	*member
	chain     *eventlog.Chain // only the applier uses it after Open
	snapshots *snapshots
	unwritten *unwritten
}

// apply follows the log until Close. When it meets damage it stops, and then nothing is written any more.
func (s *applier) apply() {
	for d, err := range eventlog.Follow(s.ctx, s.log, s.chain) {
		if err == nil && d.Unwritten != "" {
			s.unwritten.tell(s.chain, d, s.opt.Logger)
		}
		if err == nil {
			err = s.applyOne(d)
		}
		if err != nil {
			if s.ctx.Err() == nil {
				s.opt.Logger.Error("the server has stopped", "error", err.Error())
			}
			s.progress.fail(err)
			// the next start must not take the state from them
			if differs := (*DifferError)(nil); errors.As(err, &differs) {
				s.snapshots.wait()
				if err := s.snapshots.files.SetAside(s.past.Base.Load()+1, ".differs"); err != nil {
					s.opt.Logger.Error("snapshots are not set aside", "error", err.Error())
				}
			}
			return
		}
		s.snapshots.maybeSnapshot(int(d.Count), s.chain)
	}
}

func (s *applier) applyOne(d eventlog.Delivery) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	clock := s.fold.Clock()
	s.fold.Brief(d.Count <= briefEntry)
	out, err := s.fold.Apply(d)
	if err == nil {
		err = s.publish()
	}
	if err == nil && s.nodes != nil {
		err = s.superseded(d)
	}
	if err == nil && s.nodes != nil {
		s.nodes.advance(s.chain, s.fold.Clock())
		if err = s.mark(d.Seq, clock, s.fold.Clock()); err == nil {
			err = s.hear(d)
		}
	}
	if err == nil {
		if s.noteBase() {
			s.nodes.noteTrim()
		}
		s.progress.advance(d.Seq, out)
	}
	return err
}

// catchUp folds the entries up to last.
func (s *applier) catchUp(ctx context.Context, last uint64, r *Recovery) error {
	for d, err := range eventlog.Replay(ctx, s.log, s.chain, last) {
		if err != nil {
			return err
		}
		if _, err := s.fold.Apply(d); err != nil {
			return fmt.Errorf("serve: %w", err)
		}
		r.version = max(r.version, d.Version)
		r.Batches++
		r.Events += uint64(d.Count)
	}
	return nil
}

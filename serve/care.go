package serve

import (
	"context"
	"time"
)

const (
	mendFirst = 5 * time.Second // after a repair that was not possible; each try costs the others a read of their logs
	mendLast  = 10 * time.Minute
	walkLook  = time.Minute // how often to look whether it is time
)

// mendLoop makes the files of this node anew from the others whenever they are damaged.
func (s *member) mendLoop() {
	n := s.nodes
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-n.mend:
		}
		for wait := mendFirst; n.damaged.Load() != nil && s.ctx.Err() == nil; wait = min(2*wait, mendLast) {
			err := s.mend()
			if err == nil {
				n.unmended.Store(nil)
				s.replica.note(nil)
				s.replica.forget()
				break
			}
			if s.ctx.Err() != nil {
				return
			}
			text := err.Error()
			if old := n.unmended.Swap(&text); old == nil || *old != text {
				s.opt.Logger.Warn("the files of this node's replica are not made anew yet", "error", text)
			}
			t := s.opt.Clock.Timer(wait)
			select {
			case <-s.ctx.Done():
				t.Stop()
				return
			case <-t.C:
			}
		}
	}
}

// mend lets another node lead and repairs the files once.
func (s *member) mend() error {
	ctx, cancel := context.WithTimeout(s.ctx, handOverFor)
	err := s.handOver(ctx)
	cancel()
	if err == nil {
		err = s.nodes.Replica.Repair(s.ctx)
	}
	return err
}

// walkLoop reads all files of the replica when that was done WalkEvery ago.
func (s *member) walkLoop() {
	n := s.nodes
	tick := s.opt.Clock.Ticker(min(walkLook, n.WalkEvery))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if s.opt.Clock.Now().Sub(n.Replica.Care().Verified) < n.WalkEvery || n.damaged.Load() != nil {
			continue
		}
		r, err := n.Walk(s.ctx, n.WalkShare)
		if s.ctx.Err() != nil {
			return
		}
		// A trim may have removed files meanwhile: look again, without pauses.
		if err != nil || len(r.Damage) > 0 {
			s.replica.suspect()
		}
	}
}

package serve

import (
	"context"
	"errors"
	"time"

	"troupe/eventlog"
)

// Replica is what a node does for the files of its replica. Any of its functions may be nil.
type Replica struct {
	// Check reads the files, for CheckReplica. Walk does so for a share of the time. Repair makes them anew from the
	// other nodes when they are damaged, and Care says what was done.
	Check  func() (*eventlog.ReplicaReport, error)
	Walk   func(ctx context.Context, share float64) (*eventlog.ReplicaReport, error)
	Repair func(context.Context) error
	Care   func() eventlog.Care
	// Damage is what the start found wrong with the files, empty for nothing, and Suspect says that they may be
	// damaged: then they are read.
	Damage  string
	Suspect <-chan struct{}
	// WalkEvery is how long after the newest read of all files they are read again, 0 for never; WalkShare is the share
	// of the time, in (0, 1], default 0.1.
	WalkEvery time.Duration
	WalkShare float64
}

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
				s.noteReplica(nil)
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
			t := time.NewTimer(wait)
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
	tick := time.NewTicker(min(walkLook, n.WalkEvery))
	defer tick.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-tick.C:
		}
		if time.Since(n.Replica.Care().Verified) < n.WalkEvery || n.damaged.Load() != nil {
			continue
		}
		r, err := n.Walk(s.ctx, n.WalkShare)
		if s.ctx.Err() != nil {
			return
		}
		// A trim may have removed files meanwhile: look again, without pauses.
		if err != nil || len(r.Damage) > 0 {
			s.checkSuspect()
		}
	}
}

// check returns why the settings are not usable.
func (r *Replica) check() error {
	if r.WalkShare == 0 {
		r.WalkShare = 0.1
	}
	switch {
	case !(r.WalkShare > 0 && r.WalkShare <= 1):
		return errors.New("serve: WalkShare is not above 0 and at most 1")
	case r.WalkEvery < 0:
		return errors.New("serve: WalkEvery is negative")
	}
	return nil
}

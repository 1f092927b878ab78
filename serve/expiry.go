package serve

import (
	"context"
	"time"

	"troupe/eventlog"
	"troupe/timing"
)

const sayAgain = time.Minute // what lasts is not logged more often

// expiry closes the windows that have ended.
type expiry struct {
	*lifetime
	*state
	*writer
}

func (s *expiry) expireLoop() {
	tick := s.opt.Clock.Ticker(s.opt.ExpireEvery)
	defer tick.Stop()
	said := timing.Instant(0) // when it was logged that windows wait; zero while they do not
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.windows.stopped():
			return
		case <-tick.C:
		}
		_, err := s.expire(s.ctx)
		switch {
		case err == nil:
			said = 0
		case CodeOf(err) != Full && s.opt.Clock.Since(said) >= sayAgain:
			s.opt.Logger.Warn("windows wait to be closed", "error", err.Error())
			said = s.opt.Clock.Mark()
		}
		if s.full.Load() {
			s.probe()
		}
	}
}

// probe finds out whether the log takes records again. A load balancer sends no calls to a server that is not
// ready, so the server itself must try.
func (s *expiry) probe() {
	_, _ = s.append(s.ctx, &eventlog.Checkpoint{Seq: s.progress.applied.Load(), Time: s.opt.Clock.Now().UnixNano()})
}

// expire is Server.Expire.
func (s *expiry) expire(ctx context.Context) (events int, err error) {
	if err := s.stopped(); err != nil {
		return 0, err
	}
	s.windows.pass.Lock()
	defer s.windows.pass.Unlock()
	for {
		select {
		case <-s.windows.stopped():
			return events, nil
		default:
		}
		now := s.opt.Clock.Now().UnixNano()
		if s.nodes != nil { // the fold closes by the cluster's clock; the next node waits for the one before it
			s.mu.RLock()
			now = s.fold.Clock() - int64(s.nodes.rank())*int64(2*time.Second)
			s.mu.RUnlock()
		}
		due := s.windows.due(now, 512)
		if len(due) == 0 {
			return events, nil
		}
		var records []eventlog.Record
		n := 0
		s.mu.RLock()
		for _, w := range due {
			if r, k := s.fold.Expiry(w, now); r != nil {
				records = append(records, r)
				n += k
			}
		}
		s.mu.RUnlock()
		if len(records) == 0 {
			continue
		}
		receipt, err := s.append(ctx, records...)
		if err != nil {
			s.windows.back(due)
			return events, err
		}
		if _, err := s.applied(ctx, receipt, len(records)); err != nil {
			return events, err
		}
		events += n
	}
}

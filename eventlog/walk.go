package eventlog

import (
	"context"
	"errors"
	"time"

	"troupe/eventlog/segment"
)

// walkRate is how many bytes a second a walk reads.
const walkRate = 32 << 20

// walkLoop reads the sealed segments again and again, all of them in each period, and notes the first one that is not
// what was sealed.
func (l *Disk) walkLoop() {
	tick := l.opt.Clock.Ticker(l.opt.VerifyEvery)
	defer tick.Stop()
	for {
		select {
		case <-l.done:
			return
		case <-tick.C:
		}
		for _, s := range l.shards {
			s.walk()
		}
	}
}

// walk reads the sealed segments of a shard once.
func (s *diskShard) walk() {
	l := s.log
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		select {
		case <-l.done:
			cancel()
		case <-ctx.Done():
		}
	}()
	err := s.store.CheckSealed(func(bytes int64) error {
		if !l.opt.Clock.Sleep(ctx, time.Duration(bytes)*time.Second/walkRate) {
			return ErrClosed
		}
		return nil
	})
	var d *segment.DamageError
	switch {
	case err == nil, errors.Is(err, ErrClosed):
	case errors.As(err, &d):
		damage := segmentDamage(s.n, d.Damage)
		if l.damaged.CompareAndSwap(nil, &damage) {
			l.opt.Logf("the log is damaged: %v", damage)
		}
	default:
		l.opt.Logf("shard %d: reading the sealed segments: %v", s.n, err)
	}
}

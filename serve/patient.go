package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"troupe/eventlog"
	"troupe/timing"
)

const (
	readSlow  = time.Second            // without an answer for longer, the applier waits
	readPause = 100 * time.Millisecond // before a read is asked again
	openFor   = time.Minute            // how long the log may be silent while a server opens
)

// logReader gives a history the log. A read that gets no answer fails (eventlog.ErrSilent).
type logReader struct {
	ctx context.Context
	log eventlog.Log
}

func (l logReader) Get(seq uint64) (eventlog.Entry, error) { return l.log.Get(l.ctx, 0, seq) }

func (l logReader) Replay(c *eventlog.Chain, until uint64, f func(eventlog.Delivery) error) error {
	for d, err := range eventlog.Replay(l.ctx, l.log, c, until) {
		if err == nil {
			err = f(d)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// patientReader gives the fold the log. The fold needs older entries in the middle of an entry, and a half-applied
// entry can be neither left nor repeated. So a read that gets no answer is asked again for as long as ctx lasts, and
// progress says meanwhile what is waited for. What says something about an entry is returned at once. One goroutine at
// a time may use it: the one that holds the fold.
type patientReader struct {
	ctx      context.Context // of the opening, then of the server
	most     time.Duration   // of silence; 0 is no limit
	log      eventlog.Log
	clock    timing.Clock
	progress *progress
	logger   *slog.Logger
}

// Get implements fold.Log.
func (p *patientReader) Get(seq uint64) (eventlog.Entry, error) {
	for p.wants(seq); ; {
		e, err := p.log.Get(p.ctx, 0, seq)
		if again, err := p.again(err); !again {
			return e, err
		}
	}
}

// Replay implements fold.Log. After a silence it goes on behind the last delivery.
func (p *patientReader) Replay(c *eventlog.Chain, until uint64, f func(eventlog.Delivery) error) error {
	for p.wants(c.Last() + 1); ; {
		var own error
		err := logReader{p.ctx, p.log}.Replay(c, until, func(d eventlog.Delivery) error {
			p.answered()
			if own = f(d); own == nil { // which may have read other entries
				p.wants(d.Seq + 1)
			}
			return own
		})
		if own != nil {
			return own
		}
		if again, err := p.again(err); !again {
			return err
		}
	}
}

// wants notes the entry that is asked for.
func (p *patientReader) wants(seq uint64) {
	p.progress.lack.Store(&lack{seq: seq, since: p.clock.Mark()})
}

// answered notes that the fold has what it asked for.
func (p *patientReader) answered() {
	if l := p.progress.lack.Swap(nil); l != nil && l.err != nil {
		p.logger.Info("the log answers again, and the state goes on", "entry", l.seq, "after",
			p.clock.Since(l.since).Round(time.Millisecond))
	}
}

// again takes what came of a read. After a silence it waits before the next try; otherwise it returns false and the
// error to return. While the server runs, that of its end does not wrap context.Canceled: a fold that ends in the
// middle of an entry has not ended clean, and no snapshot may be made of it.
func (p *patientReader) again(err error) (bool, error) {
	l := p.progress.lack.Load()
	switch {
	case err != nil && p.ctx.Err() != nil && p.most == 0:
		p.progress.lack.Store(nil)
		return false, fmt.Errorf("the server stops while it waits for entry %d of the log: %v", l.seq, err)
	case !errors.Is(err, eventlog.ErrSilent):
		p.answered()
		return false, err
	case p.most > 0 && p.clock.Since(l.since) >= p.most:
		p.progress.lack.Store(nil)
		return false, err
	case l.err == nil:
		p.logger.Warn("the state waits for an entry of the log", "entry", l.seq, "error", err.Error())
	}
	p.progress.lack.Store(&lack{l.seq, l.since, err})
	p.clock.Sleep(p.ctx, readPause) // when ctx ends, the next try fails
	return true, nil
}

// untilAnswered calls act until it has an answer, at most for as long as most and ctx allow, and returns what came of
// the last call. The nodes of a cluster that is started may be electing.
func untilAnswered(ctx context.Context, clock timing.Clock, most time.Duration, act func() error) error {
	for since := clock.Mark(); ; {
		err := act()
		if !errors.Is(err, eventlog.ErrSilent) || clock.Since(since) >= most || !clock.Sleep(ctx, readPause) {
			return err
		}
	}
}

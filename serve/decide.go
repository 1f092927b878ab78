package serve

import (
	"context"
	"errors"
	"math"
	"time"

	"troupe/eventlog"
	"troupe/serve/choose"
	"troupe/serve/decide"
	"troupe/serve/fold"
	"troupe/serve/numbers"
	"troupe/serve/recent"
)

// decisions makes decisions.
type decisions struct {
	*writer
	decider *decide.Decider
	turns   *decide.Turns
}

// newDecider connects package decide to the state, the log and the newest decisions.
func newDecider(d deciding, o decide.Options) *decide.Decider {
	o.Limits, o.Joint, o.Random, o.Now, o.Clock = d.opt.Limits.Feature, d.nodes != nil, random, d.opt.Clock.Now, d.clock
	o.EventID = func(use fold.KeyUse) string { return eventIDOf(d.recent, o.Keys, use) }
	return decide.New(d, d, d, d, o)
}

// Decide implements Service.
func (s *decisions) Decide(ctx context.Context, model string, r DecideRequest) (Decision, error) {
	done, err := s.beginWrite(ctx)
	if err != nil {
		return Decision{}, err
	}
	defer done()
	return s.decider.Decide(ctx, model, &r)
}

// DecideBatch implements Service.
func (s *decisions) DecideBatch(ctx context.Context, model string, rs []DecideRequest) ([]DecideItem, error) {
	if len(rs) == 0 || len(rs) > s.opt.Limits.Batch {
		return nil, invalid("requests", len(rs), "expected 1 to %d requests", s.opt.Limits.Batch)
	}
	done, err := s.beginWrite(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	return s.decider.Batch(ctx, model, rs)
}

// deciding is what package decide needs of a server: its models, its log and its memory of the newest decisions.
type deciding struct {
	*lifetime
	*state
	*writer
	recent *recent.Decisions

	control *control
}

// Ready implements decide.Versions.
func (d deciding) Ready(ctx context.Context, name string, minSeq uint64) (decide.Model, *choose.Version, error) {
	s := d
	// A model that another node has just made is here when minSeq is.
	if _, _, err := s.model(name); err != nil && minSeq <= s.progress.applied.Load() {
		return nil, nil, err
	}
	if s.open.Load() >= int64(s.opt.Limits.Open) {
		s.refused.Add(1)
		return nil, nil, &Error{Code: TooBusy, Want: "too many decisions wait for their reward",
			RetryAfter: 5 * time.Second}
	}
	if minSeq > s.progress.applied.Load() {
		wait, cancel := context.WithTimeout(ctx, s.opt.Wait)
		defer cancel()
		if _, err := s.progress.until(wait, minSeq); err != nil {
			return nil, nil, &Error{Code: Unavailable, Field: "min_seq",
				Want: "the state of that sequence is not here yet", RetryAfter: time.Second, Err: err}
		}
	}
	e, v, err := s.model(name)
	if err == nil && minSeq > v.Seq {
		if err = s.caughtUp(ctx, name); err == nil {
			e, v, err = s.model(name)
		}
	}
	if err == nil {
		err = usable(v)
	}
	if err != nil {
		return nil, nil, err
	}
	return e, v, nil
}

// Declare implements decide.Declarer.
func (d deciding) Declare(ctx context.Context, name string, list []numbers.Range, caller string) error {
	d.control.admin.Lock()
	defer d.control.admin.Unlock()
	err := d.control.changeLocked(ctx, func() (*eventlog.Control, error) {
		if err := d.caughtUp(ctx, name); err != nil {
			return nil, err
		}
		_, v, err := d.model(name)
		if err != nil || len(v.Compiled.Config.Numbers) > 0 {
			return nil, err
		}
		config := v.Compiled.Config
		config.Numbers = list
		return d.control.configure(name, 0, config, caller)
	})
	if err == errMeanwhile { // another node was first, the decision looks at what it said
		return nil
	}
	return err
}

// Append implements decide.Log.
func (d deciding) Append(ctx context.Context, records ...eventlog.Record) (eventlog.Receipt, error) {
	receipt, err := d.append(ctx, records...)
	if err == nil && d.away.doubtful(records, receipt.Seq) {
		err = whetherTheyCount(ctx, d, receipt, records)
	}
	return receipt, err
}

// whetherTheyCount waits until decisions are applied, and returns why they do not count: their model was closed before them in the log.
// Nobody has their answers.
func whetherTheyCount(ctx context.Context, d deciding, at eventlog.Receipt, records []eventlog.Record) error {
	out, err := d.applied(ctx, at, len(records))
	if err != nil {
		return err
	}
	for i, r := range records {
		if x, ok := r.(*eventlog.Decision); ok && out[i] == fold.Conflict {
			return closedModel(d.state, x.Model)
		}
	}
	return nil
}

// Applied implements decide.Log.
func (d deciding) Applied(seq uint64) error {
	_, err := d.progress.until(d.ctx, seq)
	return err
}

// Settled implements decide.Log.
func (d deciding) Settled() {
	s := d
	tick := s.opt.Clock.Ticker(20 * time.Millisecond)
	defer tick.Stop()
	for errors.Is(s.committer.Err(), eventlog.ErrUnsettled) {
		select {
		case <-tick.C:
		case <-s.ctx.Done():
			return
		}
	}
	_, _ = s.progress.until(s.ctx, s.committer.Stats().Head.Seq)
}

// Key implements decide.Log.
func (d deciding) Key(key [16]byte) (fold.KeyUse, bool) {
	return d.keyUse(key)
}

// Decision implements decide.Log.
func (d deciding) Decision(key eventlog.Event, seq uint64) (*eventlog.Decision, error) {
	return d.past.Decision(key, seq)
}

// Enter implements decide.Log.
func (d deciding) Enter() { d.enter() }

// Leave implements decide.Log.
func (d deciding) Leave() { d.end() }

// Put implements decide.Recent.
func (d deciding) Put(m decide.Model, name string, q *DecideRequest, r *eventlog.Decision, key eventlog.Event,
	seq uint64) {
	d.recent.Put(key, recent.Of(seq, r))
	if m.(*entry).pace.due(r.Time) {
		d.shown.put(name, key, seq, q)
	}
}

// clock is that of the log, before all times where there is none but this machine's.
func (d deciding) clock() int64 {
	if d.nodes == nil {
		return math.MinInt64
	}
	return d.nodes.clock.Load()
}

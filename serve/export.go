package serve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync/atomic"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/joined"
)

// warmUp is how far before a page the chain begins where a batch may have been stored twice, so that it is given once. Entries have
// up to a megabyte, so reading so many is not free.
const warmUp = 256

// before is how far before a page the chain begins.
func (s *exports) before() uint64 {
	if _, ok := s.log.(eventlog.StoresOnce); ok {
		return 1
	}
	return warmUp
}

// exports give pieces of the log, as it is stored, as records and as decisions.
type exports struct {
	*state
	*writer
	keys  eventlog.IDKeys
	files fold.Files // of snapshots
	joint bool       // several nodes have written the log

	followers *followers
}

// Log implements Service. The records of a model are those of its incarnations, which share a name
// and a past: rollbacks make new ones. A loss belongs to every model. from 0 means the beginning;
// what was trimmed is Gone. Entries that are in the log when the call comes are applied first, so that a
// caller finds what was answered before; the page ends earlier when that takes longer than Options.Wait.
func (s *exports) Log(ctx context.Context, model string, from uint64, entries int) (LogPage, error) {
	none := LogPage{}
	if entries < 1 {
		return none, invalid("page_size", entries, "expected at least 1")
	}
	done, err := s.begin(ctx)
	if err != nil {
		return none, err
	}
	defer done()
	info, err := s.log.Info(ctx, 0)
	if err != nil {
		return none, &Error{Code: Unavailable, Want: "the log cannot be read", Err: err}
	}
	if err := s.awaitApplied(ctx, info.Last); err != nil {
		return none, err
	}
	first := info.First
	if s.joint {
		first = max(first, s.past.Base.Load()+1) // which decisions count is known from there on
	}
	switch {
	case from == 0:
		from = first
	case from < first:
		return none, &Error{Code: Gone, Field: "from", Want: fmt.Sprintf("the log begins with entry %d", first)}
	}
	s.mu.RLock()
	m, applied := s.fold.Named(model), s.fold.Seq()
	mine := map[eventlog.ID]bool{}
	if m != nil {
		for x := range s.fold.Models() {
			mine[x.ID] = x.Root == m.Root
		}
	}
	s.mu.RUnlock()
	if m == nil {
		return none, missing(s.state, model)
	}
	p := LogPage{From: from, Next: from, Applied: applied}
	if from <= applied {
		p.Next = from + min(uint64(entries), applied-from+1)
	}
	p.All = s.logRecords(ctx, &p, info.First, mine)
	p.Records = func(yield func(LogRecord, error) bool) {
		for r, err := range p.All {
			if !r.Ignored && !yield(r, err) {
				return
			}
		}
	}
	return p, nil
}

// logRecords gives the records of a page, of models that are mine.
func (s *exports) logRecords(
	ctx context.Context, p *LogPage, first uint64, mine map[eventlog.ID]bool,
) iter.Seq2[LogRecord, error] {
	from, next, read := p.From, p.Next, &atomic.Int64{}
	p.Read = read.Load
	return func(yield func(LogRecord, error) bool) {
		if next == from {
			return
		}
		done, err := s.begin(ctx)
		if err != nil {
			yield(LogRecord{}, err)
			return
		}
		defer done()
		give := func(d eventlog.Delivery, outcomes []fold.Outcome) error {
			read.Add(int64(d.Size))
			for i, r := range d.Events() {
				out, ok := s.logRecord(d, i, r, mine)
				// another node was first, or the batch came too late or twice
				out.Ignored = d.Repeat || outcomes != nil && r.Kind() == eventlog.KindDecision &&
					outcomes[i] == fold.Duplicate
				if ok && !yield(out, nil) {
					return errEnough
				}
			}
			return nil
		}
		if s.joint {
			err = s.counted(from, next-1, give)
		} else {
			err = s.plain(ctx, max(first, from-min(from, s.before())), from, next-1, give)
		}
		if err != nil && !errors.Is(err, errEnough) {
			yield(LogRecord{}, &Error{Code: Unavailable, Want: "the log cannot be read", Err: err})
		}
	}
}

// plain gives the entries of a log that one server writes. It begins to read with entry first.
func (s *exports) plain(
	ctx context.Context, first, from, to uint64, give func(eventlog.Delivery, []fold.Outcome) error,
) error {
	for d, err := range eventlog.Replay(ctx, s.log, s.nodes.chain(s.past, first), to) {
		if err != nil {
			return err
		}
		if d.Seq < from {
			continue
		}
		if err := give(d, nil); err != nil {
			return err
		}
	}
	return nil
}

// counted gives the entries of a cluster's log with what the fold makes of their records: a decision that several nodes
// wrote under one key counts once. It folds the log from the nearest snapshot before the page, without policies.
func (s *exports) counted(from, to uint64, give func(eventlog.Delivery, []fold.Outcome) error) error {
	f, chain, err := s.past.Fold(map[eventlog.ID]bool{}, from-1)
	if err != nil {
		return err
	}
	f.DropPolicies()
	return s.past.Log.Replay(chain, to, func(d eventlog.Delivery) error {
		outcomes, err := f.Apply(d)
		if err != nil {
			return err
		}
		return give(d, outcomes)
	})
}

// awaitApplied waits until entry seq is applied, at most Options.Wait. It does not wait when the applier has stopped.
func (s *exports) awaitApplied(ctx context.Context, seq uint64) error {
	limit := s.opt.Clock.Timer(s.opt.Wait)
	defer limit.Stop()
	if _, err := s.progress.within(ctx, seq, limit.C); err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	return nil
}

// logRecord returns a record with its event, not ok when it concerns none of the incarnations.
func (s *exports) logRecord(d eventlog.Delivery, i uint32, r eventlog.Record, mine map[eventlog.ID]bool) (LogRecord,
	bool) {
	out, model := LogRecord{Seq: d.Seq, Record: r}, eventlog.ID(0)
	switch r := r.(type) {
	case *eventlog.Decision:
		model, out.Event = r.Model, d.Key(i)
		out.EventID = s.keys.Format(eventlog.EventID{Event: out.Event, Hint: d.Seq})
	case *eventlog.Activate:
		model, out.Event = r.Model, r.Event
	case *eventlog.Reward:
		model, out.Event = r.Model, r.Event
		if r.Named != 0 && mine[model] {
			out.Reward = s.namedOf(r)
		}
	case *eventlog.Expire:
		model, out.Event = r.Model, r.Event
	case *eventlog.Control:
		model = r.Model
	case *eventlog.Loss:
		return out, true
	}
	return out, mine[model]
}

// namedOf returns the values of a reward with names, nil where its model does not have them.
func (s *exports) namedOf(r *eventlog.Reward) map[string]float64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	m := s.fold.Model(r.Model)
	if m == nil || !m.Compiled.Config.Rewards.Has(r.Named) {
		return nil
	}
	out, at := map[string]float64{}, 0
	for i, x := range m.Compiled.Config.Rewards {
		if r.Named>>i&1 == 1 {
			out[x.Name] = r.Values[at]
			at++
		}
	}
	return out
}

var errEnough = errors.New("enough")

// Decisions implements Service. It folds the log from the nearest snapshot before the page, without policies, and reads
// on behind the page until the page's windows are over. Decisions whose window is open at the end of the log are
// pending: those of a page change.
func (s *exports) Decisions(ctx context.Context, model string, from uint64, entries int) (DecisionPage, error) {
	first := max(1, s.past.Base.Load()+1)
	switch {
	case from == 0:
		from = first
	case from < first:
		return DecisionPage{}, &Error{Code: Gone, Field: "from",
			Want: fmt.Sprintf("the log was trimmed; the first sequence whose state is known is %d", first)}
	}
	page, err := s.Log(ctx, model, from, entries)
	if err != nil {
		return DecisionPage{}, err
	}
	ended := &joined.Ended{}
	p := DecisionPage{From: page.From, Next: page.Next, Applied: page.Applied,
		Ended: func() *joined.Ended { return ended }}
	s.mu.RLock()
	if m := s.fold.Named(model); m != nil {
		p.Rewards = m.Compiled.Config.Rewards.Names()
	}
	s.mu.RUnlock()
	p.Decisions = func(yield func(JoinedDecision, error) bool) {
		if p.Next == p.From {
			return
		}
		done, err := s.begin(ctx)
		if err != nil {
			yield(JoinedDecision{}, err)
			return
		}
		defer done()
		stopped := false
		var j *joined.Joiner
		give := func(d *joined.Decided) error {
			if d.Became() == joined.Inactive && d.Played() {
				j.Inactive(d.Record)
			}
			if !yield(JoinedDecision{d, s.keys.Format(eventlog.EventID{Event: d.Key, Hint: d.Seq})}, nil) {
				stopped = true
				return errEnough
			}
			return nil
		}
		f, chain, err := s.past.Fold(map[eventlog.ID]bool{}, p.From-1)
		if err == nil {
			f.DropPolicies()
			j = joined.New(joined.Options{Model: model, Fold: f, From: p.From - 1, To: p.Next - 1})
			err = s.past.Log.Replay(chain, p.Applied, func(d eventlog.Delivery) error {
				if err := cmp.Or(j.Apply(d, give), ctx.Err()); err != nil {
					return err
				}
				if d.Seq >= p.Next-1 && j.Waiting() == 0 {
					return errEnough
				}
				return nil
			})
			if errors.Is(err, errEnough) {
				err = nil
			}
			if err == nil {
				for d := range j.Rest() {
					if stopped || give(d) != nil {
						break
					}
				}
				ended = j.Ended()
			}
		}
		if err != nil && !stopped {
			yield(JoinedDecision{}, &Error{Code: Unavailable, Want: "the log cannot be read", Err: err})
		}
	}
	return p, nil
}

// Labels are what a data directory has beside its log: the ids that callers got, and the names of models whose records
// of creation were trimmed away.
type Labels struct {
	keys  eventlog.IDKeys
	Names map[eventlog.ID]string // by incarnation
}

// ReadLabels reads them while no server runs there. A directory without keys or snapshots (a log alone)
// has none, and that is no error; keys that cannot be read are.
func ReadLabels(dir string) (Labels, error) {
	l := Labels{Names: map[eventlog.ID]string{}}
	if _, err := os.Stat(filepath.Join(dir, KeyFile)); err == nil {
		if l.keys, err = loadKeys(dir, false, 0); err != nil {
			return l, err
		}
	}
	files := snapshotFiles(dir)
	seqs, err := files.List()
	if err != nil {
		return l, err
	}
	for _, seq := range seqs {
		b, err := files.Read(seq)
		if err != nil {
			continue
		}
		if f, _, err := fold.Restore(b, nil); err == nil {
			for m := range f.Models() {
				l.Names[m.ID] = m.Name()
			}
			break
		}
	}
	return l, nil
}

// EventID returns the id that the caller of a decision in entry seq got, "" without keys.
func (l Labels) EventID(e eventlog.Event, seq uint64) string {
	if len(l.keys.Keys) == 0 {
		return ""
	}
	return l.keys.Format(eventlog.EventID{Event: e, Hint: seq})
}

package serve

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"

	"troupe/eventlog"
	"troupe/serve/fold"
)

// LogPage is the records of one model in a range of the log. The same range is always the same page.
type LogPage struct {
	// Entries From to Next−1 were looked at; go on with Next. When Next is past Applied, the page
	// reaches the end of the log as it was.
	From, Next, Applied uint64
	// Records reads the page, in the order of the log. It ends after an error: the context's, or that
	// of a log that is not what was written; what came before it is good.
	Records iter.Seq2[LogRecord, error]
}

// LogRecord is one record and where it stands.
type LogRecord struct {
	Seq    uint64
	Record eventlog.Record
	// Event is the decision that it is or concerns, zero for a control record and a loss.
	Event eventlog.Event
	// EventID is what the caller got; for decisions only.
	EventID string
}

// warmUp is how far before a page the chain begins, so that a batch which was stored twice is given
// once.
const warmUp = 256

// Log implements Service. The records of a model are those of its incarnations, which share a name
// and a past: rollbacks make new ones. A loss belongs to every model. from 0 means the beginning;
// what was trimmed is Gone.
func (s *Server) Log(ctx context.Context, model string, from uint64, entries int) (LogPage, error) {
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
	switch {
	case from == 0:
		from = info.First
	case from < info.First:
		return none, &Error{Code: Gone, Field: "from", Want: fmt.Sprintf("the log begins with entry %d", info.First)}
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
		return none, noModel(model)
	}
	p := LogPage{From: from, Next: from, Applied: applied}
	if from <= applied {
		p.Next = from + min(uint64(entries), applied-from+1)
	}
	p.Records = func(yield func(LogRecord, error) bool) {
		if p.Next == from {
			return
		}
		done, err := s.begin(ctx)
		if err != nil {
			yield(LogRecord{}, err)
			return
		}
		defer done()
		c := eventlog.NewChain(0, max(info.First, from-min(from, warmUp)))
		for d, err := range eventlog.Replay(ctx, s.log, c, p.Next-1) {
			if err != nil {
				yield(LogRecord{}, &Error{Code: Unavailable, Want: "the log cannot be read", Err: err})
				return
			}
			if d.Seq < from || d.Repeat {
				continue
			}
			for i, r := range d.Events() {
				if out, ok := s.logRecord(d, i, r, mine); ok && !yield(out, nil) {
					return
				}
			}
		}
	}
	return p, nil
}

// logRecord returns a record with its event, not ok when it concerns none of the incarnations.
func (s *Server) logRecord(d eventlog.Delivery, i uint32, r eventlog.Record, mine map[eventlog.ID]bool) (LogRecord, bool) {
	out, model := LogRecord{Seq: d.Seq, Record: r}, eventlog.ID(0)
	switch r := r.(type) {
	case *eventlog.Decision:
		model, out.Event = r.Model, d.Key(i)
		out.EventID = s.keys.Format(eventlog.EventID{Event: out.Event, Hint: d.Seq})
	case *eventlog.Activate:
		model, out.Event = r.Model, r.Event
	case *eventlog.Reward:
		model, out.Event = r.Model, r.Event
	case *eventlog.Expire:
		model, out.Event = r.Model, r.Event
	case *eventlog.Control:
		model = r.Model
	case *eventlog.Loss:
		return out, true
	}
	return out, mine[model]
}

// Labels are what a data directory has beside its log: the ids that callers got, and the names of models whose records of creation were trimmed away.
type Labels struct {
	keys  eventlog.IDKeys
	Names map[eventlog.ID]string // by incarnation
}

// ReadLabels reads them while no server runs there. A directory without keys or snapshots (a log alone)
// has none, and that is no error; keys that cannot be read are.
func ReadLabels(dir string) (Labels, error) {
	l := Labels{Names: map[eventlog.ID]string{}}
	if _, err := os.Stat(filepath.Join(dir, keyFile)); err == nil {
		if l.keys, err = loadKeys(dir, false); err != nil {
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

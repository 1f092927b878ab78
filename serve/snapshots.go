package serve

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"

	"troupe/eventlog"
	"troupe/serve/fold"
	"troupe/serve/shelf"
	"troupe/timing"
)

// snapshots writes the state to files in the background. While the log is whole a snapshot only shortens
// recovery, and losing all of them costs time and nothing else. A trimmed log needs at least one.
type snapshots struct {
	state   *state
	opt     *Options
	log     eventlog.Log
	past    *fold.History // of the fold that a file becomes
	files   fold.Files    // empty: none are written
	shelf   *shelf.Shelf  // of the fold, nil without a data directory
	since   int           // records since the last one; only the applier uses it
	at      timing.Instant
	skipped []string // that could not be used at the start, and why

	mu      sync.Mutex
	last    uint64
	err     string
	writing sync.WaitGroup
	busy    bool
	kept    uint64 // not to be removed, 0 for none
}

// snapshotFiles are the snapshots of a data directory.
func snapshotFiles(dir string) fold.Files {
	if dir == "" {
		return ""
	}
	return fold.Files(filepath.Join(dir, "snapshots"))
}

// keep protects the snapshot of an entry that is not the base yet; 0 ends it.
func (p *snapshots) keep(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = seq
}

func (p *snapshots) status() (seq uint64, err string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.last, p.err
}

func (p *snapshots) wait() { p.writing.Wait() }

// maybeSnapshot is called by the applier after every entry.
func (s *snapshots) maybeSnapshot(records int, chain *eventlog.Chain) {
	s.since += records
	if s.files == "" || s.opt.SnapshotEvery < 0 || s.since < s.opt.SnapshotEvery &&
		(s.opt.SnapshotAfter < 0 || s.opt.Clock.Since(s.at) < s.opt.SnapshotAfter) {
		return
	}
	s.state.mu.RLock()
	lagging := s.state.fold.Lagging()
	s.state.mu.RUnlock()
	if lagging > 0 { // only the applier makes a model lag
		return // the state of a model is not there yet; the next entry tries again
	}
	if err := s.writeSnapshot(chain); err != nil {
		s.opt.Logger.Error("snapshot", "error", err.Error())
	}
}

// writeSnapshot takes an image of the state now and writes it in the background. Only the applier calls it, or
// Close after it.
func (s *snapshots) writeSnapshot(chain *eventlog.Chain) error {
	s.mu.Lock()
	if s.files == "" || s.busy || s.last == s.state.fold.Seq() || s.state.fold.Seq() == 0 {
		s.mu.Unlock()
		return nil
	}
	s.busy = true
	s.mu.Unlock()
	s.since, s.at = 0, s.opt.Clock.Mark()
	s.state.mu.RLock() // readers go on; only the applier, which is here, changes the fold
	seq := s.state.fold.Seq()
	image, err := s.state.fold.Image(chain) // entries wait to be applied meanwhile
	s.state.mu.RUnlock()
	if err != nil {
		s.finish(0, err)
		return err
	}
	s.writing.Go(func() {
		err := s.files.Write(seq, image)
		if err == nil {
			err = s.prune()
		}
		s.finish(seq, err)
	})
	return nil
}

func (s *snapshots) finish(seq uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.busy, s.err = false, ""
	if err != nil {
		s.err = err.Error()
	} else {
		s.last = seq
	}
}

func (s *snapshots) prune() error {
	return s.files.Prune(func() (base, keep uint64) {
		s.mu.Lock()
		keep = s.kept
		s.mu.Unlock()
		return s.state.past.Base.Load(), keep // the base last: it is set before keep ends
	})
}

// newest returns the newest state that can be used, nil when there is none. A file that is damaged, or does
// not belong to this log, is skipped and named in the recovery. A snapshot of an entry that the log does not
// have is an error: the log has lost its end.
func (s *snapshots) newest(ctx context.Context, info eventlog.Info) (*fold.Fold, *eventlog.Chain, error) {
	seqs, err := s.files.List()
	if err != nil {
		return nil, nil, err
	}
	for _, seq := range seqs {
		f, c, err := s.load(ctx, seq, info, s.shelf)
		var unusable *unusableError
		switch {
		case errors.As(err, &unusable):
			s.skipped = append(s.skipped, fold.FileName(seq)+": "+err.Error())
			s.opt.Logger.Warn("snapshot skipped", "file", fold.FileName(seq), "error", err.Error())
		case err != nil:
			return nil, nil, err
		default:
			s.last = seq
			return f, c, nil
		}
	}
	return nil, nil, nil
}

// oldest returns the entry of the oldest snapshot that can be used: the base of a log that was trimmed.
func (s *snapshots) oldest(ctx context.Context, info eventlog.Info) (uint64, error) {
	seqs, err := s.files.List()
	if err != nil {
		return 0, err
	}
	for _, seq := range slices.Backward(seqs) {
		_, _, err := s.load(ctx, seq, info, nil)
		var unusable *unusableError
		switch {
		case errors.As(err, &unusable):
			s.opt.Logger.Warn("snapshot cannot be the base of the log", "file", fold.FileName(seq), "error",
				err.Error())
		case err != nil:
			return 0, err
		default:
			return seq, nil
		}
	}
	return 0, errors.New("serve: no snapshot can be the base of the log")
}

// unusableError: a snapshot is skipped.
type unusableError struct{ error }

// load restores the snapshot of an entry and compares it with the log. An error that is no
// *unusableError means that the snapshot was made from another log, or that the log has lost its end.
func (s *snapshots) load(ctx context.Context, seq uint64, info eventlog.Info, on *shelf.Shelf) (*fold.Fold,
	*eventlog.Chain, error) {
	f, c, err := s.files.LoadOn(seq, info.First, s.past, on)
	switch {
	case err != nil:
		return nil, nil, &unusableError{err}
	case seq > info.Last:
		return nil, nil, &eventlog.GapError{Shard: 0, First: info.Last + 1, Last: seq}
	case seq >= info.First:
		e, err := s.log.Get(ctx, 0, seq)
		if err != nil {
			return nil, nil, err
		}
		if h := eventlog.HashBatch(e.Data); h != c.Head().Hash {
			return nil, nil, &eventlog.ChainError{Shard: 0, Seq: seq,
				What: fmt.Sprintf("it has the hash %v, a snapshot says %v", h, c.Head().Hash)}
		}
	}
	return f, c, nil
}

// Repair is eventlog.Repair for the log of a data directory. When a loss is accepted, snapshots of the
// first lost entry and of later ones are set aside, appending ".lost" to their names: they hold what was in
// the log, and with them the server would go on with another state than the log has.
func Repair(ctx context.Context, dir string, o eventlog.RepairOptions) (*eventlog.RepairReport, error) {
	log := filepath.Join(dir, "log")
	try := o
	try.AcceptLoss = false
	r, err := eventlog.Repair(ctx, log, try)
	var loss *eventlog.LossError
	if !o.AcceptLoss || !errors.As(err, &loss) {
		return r, err
	}
	from := uint64(math.MaxUint64)
	for _, shard := range loss.Shards {
		for _, l := range shard.Lost {
			from = min(from, l.First)
		}
	}
	if err := snapshotFiles(dir).SetAside(from, ".lost"); err != nil {
		return nil, err
	}
	return eventlog.Repair(ctx, log, o)
}

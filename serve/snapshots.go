package serve

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"troupe/eventlog"
	"troupe/serve/fold"
)

// snapshots writes the state to files in the background. While the log is whole a snapshot only shortens
// recovery, and losing all of them costs time and nothing else. A trimmed log needs at least one.
type snapshots struct {
	files fold.Files    // empty: none are written
	base  func() uint64 // entry before whose state nothing can be computed
	since int           // records since the last one; only the applier uses it
	size  int           // of the next one, about; only the applier uses it
	at    time.Time

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
func (s *Server) maybeSnapshot(records int) {
	p := &s.snapshots
	p.since += records
	if p.files == "" || s.opt.SnapshotEvery < 0 || p.since < s.opt.SnapshotEvery &&
		(s.opt.SnapshotAfter < 0 || time.Since(p.at) < s.opt.SnapshotAfter) {
		return
	}
	s.mu.RLock()
	lagging := s.fold.Lagging()
	s.mu.RUnlock()
	if lagging > 0 { // only the applier makes a model lag
		return // the state of a model is not there yet; the next entry tries again
	}
	if err := s.writeSnapshot(); err != nil {
		s.opt.Logger.Error("snapshot", "error", err.Error())
	}
}

// writeSnapshot encodes the state now and writes it in the background. Only the applier calls it, or
// Close after it.
func (s *Server) writeSnapshot() error {
	p := &s.snapshots
	p.mu.Lock()
	if p.files == "" || p.busy || p.last == s.fold.Seq() || s.fold.Seq() == 0 {
		p.mu.Unlock()
		return nil
	}
	p.busy = true
	p.mu.Unlock()
	p.since, p.at = 0, time.Now()
	s.mu.RLock() // readers go on; only the applier, which is here, changes the fold
	seq := s.fold.Seq()
	// entries wait to be applied meanwhile: avoid growing
	b, err := s.fold.AppendUnsigned(make([]byte, 0, p.size), s.chain)
	s.mu.RUnlock()
	p.size = len(b) + len(b)/8 + sha256.Size
	if err != nil {
		p.finish(0, err)
		return err
	}
	p.writing.Go(func() {
		err := p.files.Write(seq, fold.Sign(b, 0))
		if err == nil {
			err = p.prune()
		}
		p.finish(seq, err)
	})
	return nil
}

func (p *snapshots) finish(seq uint64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.busy, p.err = false, ""
	if err != nil {
		p.err = err.Error()
	} else {
		p.last = seq
	}
}

func (p *snapshots) prune() error {
	return p.files.Prune(func() (base, keep uint64) {
		p.mu.Lock()
		keep = p.kept
		p.mu.Unlock()
		return p.base(), keep // the base last: it is set before keep ends
	})
}

// newest returns the newest state that can be used, nil when there is none. A file that is damaged, or does
// not belong to this log, is skipped and named in the recovery. A snapshot of an entry that the log does not
// have is an error: the log has lost its end.
func (s *Server) newest(ctx context.Context, info eventlog.Info) (*fold.Fold, *eventlog.Chain, error) {
	seqs, err := s.snapshots.files.List()
	if err != nil {
		return nil, nil, err
	}
	for _, seq := range seqs {
		f, c, err := s.load(ctx, seq, info)
		var unusable *unusableError
		switch {
		case errors.As(err, &unusable):
			s.recovery.Skipped = append(s.recovery.Skipped, fold.FileName(seq)+": "+err.Error())
			s.opt.Logger.Warn("snapshot skipped", "file", fold.FileName(seq), "error", err.Error())
		case err != nil:
			return nil, nil, err
		default:
			s.snapshots.last = seq
			return f, c, nil
		}
	}
	return nil, nil, nil
}

// oldest returns the entry of the oldest snapshot that can be used: the base of a log that was trimmed.
func (s *Server) oldest(ctx context.Context, info eventlog.Info) (uint64, error) {
	seqs, err := s.snapshots.files.List()
	if err != nil {
		return 0, err
	}
	for _, seq := range slices.Backward(seqs) {
		_, _, err := s.load(ctx, seq, info)
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
func (s *Server) load(ctx context.Context, seq uint64, info eventlog.Info) (*fold.Fold, *eventlog.Chain, error) {
	f, c, err := s.snapshots.files.Load(seq, info.First, s.past)
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

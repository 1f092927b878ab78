package serve

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"troupe/eventlog"
)

// snapshots writes states to files named by their sequence, 16 hexadecimal digits and ".snap", and
// keeps the newest three, and the base of a log that was trimmed. While the log is whole a snapshot is
// only a shorter way to the same state, and losing them all costs time and nothing else. Of a trimmed
// log at least one is needed.
type snapshots struct {
	dir   string // empty: none are written
	since int    // records since the last one; only the applier uses it
	size  int    // room for the next one, about; only the applier uses it
	at    time.Time

	mu      sync.Mutex
	last    uint64
	err     string
	writing sync.WaitGroup
	busy    bool
	kept    uint64        // not to be removed, 0 for none
	base    func() uint64 // entry before whose state nothing can be computed
}

// keep protects the snapshot of an entry that is not the base yet; 0 ends it.
func (p *snapshots) keep(seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept = seq
}

const snapshotsKept = 3

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
	if p.dir == "" || s.opt.SnapshotEvery < 0 || p.since < s.opt.SnapshotEvery && (s.opt.SnapshotAfter < 0 || time.Since(p.at) < s.opt.SnapshotAfter) {
		return
	}
	if err := s.writeSnapshot(); err != nil {
		s.opt.Logger.Error("snapshot", "error", err.Error())
	}
}

// writeSnapshot takes the state now and writes it in the background. Only the applier calls it, or
// Close after it.
func (s *Server) writeSnapshot() error {
	p := &s.snapshots
	p.mu.Lock()
	if p.dir == "" || p.busy || p.last == s.fold.seq || s.fold.seq == 0 {
		p.mu.Unlock()
		return nil
	}
	p.busy = true
	p.mu.Unlock()
	p.since, p.at = 0, time.Now()
	s.mu.RLock() // the applier alone changes the fold, and is here; who reads it goes on
	seq := s.fold.seq
	b, err := s.fold.appendUnsigned(make([]byte, 0, p.size), s.chain) // what is stored waits to be applied: no growing
	s.mu.RUnlock()
	p.size = len(b) + len(b)/8 + sha256.Size
	if err != nil {
		p.finish(0, err)
		return err
	}
	p.writing.Go(func() {
		err := writeDurable(p.dir, snapshotName(seq), sign(b, 0))
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

func snapshotName(seq uint64) string { return fmt.Sprintf("%016x.snap", seq) }

// list returns the sequences of the files, newest first.
func (p *snapshots) list() ([]uint64, error) {
	if p.dir == "" {
		return nil, nil
	}
	files, err := os.ReadDir(p.dir)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			err = nil
		}
		return nil, err
	}
	var seqs []uint64
	for _, f := range files {
		digits, ok := strings.CutSuffix(f.Name(), ".snap")
		if seq, err := strconv.ParseUint(digits, 16, 64); ok && err == nil && f.Name() == snapshotName(seq) {
			seqs = append(seqs, seq)
		}
	}
	slices.Sort(seqs)
	slices.Reverse(seqs)
	return seqs, nil
}

func (p *snapshots) prune() error {
	seqs, err := p.list()
	if err != nil {
		return err
	}
	p.mu.Lock()
	kept := p.kept
	p.mu.Unlock()
	base := p.base()
	for i, seq := range seqs {
		if seq >= base && (i < snapshotsKept || seq == kept || base > 0 && (i == len(seqs)-1 || seqs[i+1] < base)) {
			continue
		}
		if err := os.Remove(filepath.Join(p.dir, snapshotName(seq))); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

// newest returns the newest state that can be used, nil when there is none. A file that is damaged,
// or does not belong to this log, is passed over and named in the recovery. A snapshot of an entry
// that the log does not have says that the log has lost its end: that is an error.
func (s *Server) newest(ctx context.Context, info eventlog.Info) (*fold, *eventlog.Chain, error) {
	p := &s.snapshots
	seqs, err := p.list()
	if err != nil {
		return nil, nil, err
	}
	skip := func(seq uint64, err error) {
		s.recovery.Skipped = append(s.recovery.Skipped, snapshotName(seq)+": "+err.Error())
		s.opt.Logger.Warn("snapshot passed over", "file", snapshotName(seq), "error", err.Error())
	}
	for _, seq := range seqs {
		f, c, err := s.load(ctx, seq, info)
		var unusable *unusableError
		switch {
		case errors.As(err, &unusable):
			skip(seq, err)
		case err != nil:
			return nil, nil, err
		default:
			p.last = seq
			return f, c, nil
		}
	}
	return nil, nil, nil
}

// unusableError: a snapshot is passed over.
type unusableError struct{ error }

// load restores the snapshot of an entry and compares it with the log. An error that is no
// *unusableError says that the log is not the one that the snapshot was made of.
func (s *Server) load(ctx context.Context, seq uint64, info eventlog.Info) (*fold, *eventlog.Chain, error) {
	unusable := func(err error) (*fold, *eventlog.Chain, error) { return nil, nil, &unusableError{err} }
	b, err := os.ReadFile(filepath.Join(s.snapshots.dir, snapshotName(seq)))
	if err != nil {
		return unusable(err)
	}
	f, c, err := restoreState(b, s.past)
	if err == nil {
		err = f.fits(seq, info.First)
	}
	switch {
	case err != nil:
		return unusable(err)
	case seq > info.Last:
		return nil, nil, &eventlog.GapError{Shard: 0, First: info.Last + 1, Last: seq}
	case seq >= info.First:
		e, err := s.log.Get(ctx, 0, seq)
		if err != nil {
			return nil, nil, err
		}
		if h := eventlog.HashBatch(e.Data); h != c.Head().Hash {
			return nil, nil, &eventlog.ChainError{Shard: 0, Seq: seq, What: fmt.Sprintf("it has the hash %v, a snapshot says %v", h, c.Head().Hash)}
		}
	}
	return f, c, nil
}

// oldest returns the entry of the oldest snapshot that can be used: the base of a log that was trimmed.
func (s *Server) oldest(ctx context.Context, info eventlog.Info) (uint64, error) {
	seqs, err := s.snapshots.list()
	if err != nil {
		return 0, err
	}
	for _, seq := range slices.Backward(seqs) {
		_, _, err := s.load(ctx, seq, info)
		var unusable *unusableError
		switch {
		case errors.As(err, &unusable):
			s.opt.Logger.Warn("snapshot cannot be the base of the log", "file", snapshotName(seq), "error", err.Error())
		case err != nil:
			return 0, err
		default:
			return seq, nil
		}
	}
	return 0, errors.New("serve: no snapshot can be the base of the log")
}

// nearest implements history.nearest: bytes that can be read and are whole.
func (s *Server) nearest(seq uint64) []byte {
	seqs, err := s.snapshots.list()
	if err != nil {
		return nil
	}
	for _, q := range seqs {
		if q > seq {
			continue
		}
		b, err := os.ReadFile(filepath.Join(s.snapshots.dir, snapshotName(q)))
		if err != nil {
			continue
		}
		if f, _, err := restoreState(b, s.past); err == nil && f.seq == q {
			return b
		}
	}
	return nil
}

// writeDurable makes a file that is there as a whole or not at all, also after a loss of power.
func writeDurable(dir, name string, b []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	tmp := filepath.Join(dir, name+".tmp")
	f, err := os.OpenFile(tmp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, filepath.Join(dir, name)); err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// keyFile is keys.json: {"current": 1, "keys": {"1": "base64"}, "check": "16 hexadecimal digits"}, mode
// 0600. Without it the ids that were given out before are not recognised, so it belongs to every
// backup, and a log with entries is not opened without it or with another one by accident: check is the
// first half of the SHA-256 of the rest. {} in its place asks for new keys.
const keyFile = "keys.json"

type keyText struct {
	Current byte            `json:"current"`
	Keys    map[byte][]byte `json:"keys"`
	Check   string          `json:"check,omitempty"` // files of before it was invented have none
}

// sum returns what check must be.
func (t keyText) sum() (string, error) {
	t.Check = ""
	b, err := json.Marshal(t)
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8]), err
}

// loadKeys reads the keys of event ids, or makes them for a log that is empty.
func loadKeys(dir string, empty bool) (eventlog.IDKeys, error) {
	if dir == "" {
		return eventlog.IDKeys{}, errors.New("serve: Keys is empty and there is no Dir to keep them in")
	}
	name := filepath.Join(dir, keyFile)
	fail := func(format string, a ...any) (eventlog.IDKeys, error) {
		return eventlog.IDKeys{}, fmt.Errorf("%s: %w: without it no event id that was given out is recognised; restore it from a backup, or put {} in its place to begin with new keys",
			name, fmt.Errorf(format, a...))
	}
	b, err := os.ReadFile(name)
	missing := errors.Is(err, os.ErrNotExist)
	switch {
	case missing && !empty:
		return fail("it is not there, and the log has entries")
	case err != nil && !missing:
		return eventlog.IDKeys{}, err
	}
	if missing || string(bytes.TrimSpace(b)) == "{}" {
		t := keyText{Current: 1, Keys: map[byte][]byte{1: make([]byte, 32)}}
		rand.Read(t.Keys[1]) // never fails: crypto/rand ends the program first
		if t.Check, err = t.sum(); err == nil {
			b, err = json.Marshal(t)
		}
		if err == nil {
			err = writeDurable(dir, keyFile, append(b, '\n'))
		}
		if err != nil {
			return eventlog.IDKeys{}, err
		}
	}
	var t keyText
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&t); err != nil {
		return fail("%w", err)
	}
	if sum, err := t.sum(); err != nil || t.Check != "" && t.Check != sum {
		return fail("it is damaged: check is %q, the keys have %q", t.Check, sum)
	}
	k := eventlog.IDKeys{Current: t.Current, Keys: t.Keys}
	if err := k.Check(); err != nil {
		return fail("%w", err)
	}
	return k, nil
}

// Repair is eventlog.Repair for the log of a data directory. When a loss is accepted, snapshots of the
// first entry that is lost and later ones are put aside, with ".lost" behind their names: they know what
// was in the log, and with them the server would go on with another state than the log has.
func Repair(ctx context.Context, dir string, o eventlog.RepairOptions) (*eventlog.RepairReport, error) {
	log := filepath.Join(dir, "log")
	try := o
	try.AcceptLoss = false
	r, err := eventlog.Repair(ctx, log, try)
	var loss *eventlog.LossError
	if !o.AcceptLoss || !errors.As(err, &loss) {
		return r, err
	}
	p := snapshots{dir: filepath.Join(dir, "snapshots")}
	seqs, err := p.list()
	if err != nil {
		return nil, err
	}
	from := uint64(math.MaxUint64)
	for _, shard := range loss.Shards {
		for _, l := range shard.Lost {
			from = min(from, l.First)
		}
	}
	for _, seq := range seqs {
		if seq < from {
			continue
		}
		name := filepath.Join(p.dir, snapshotName(seq))
		if err := os.Rename(name, name+".lost"); err != nil {
			return nil, err
		}
	}
	return eventlog.Repair(ctx, log, o)
}

package eventlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"troupe/eventlog/segment"
)

const (
	repairDir  = "repairing"
	repairDone = "done"
	repairFile = "repair.json"
)

// RepairOptions configure Repair.
type RepairOptions struct {
	// From are copies of the data directory (backups, or what an earlier repair put aside) in which
	// to look for what is lost here.
	From []string
	// AcceptLoss rebuilds the log although something is lost. Without it Repair stops with a
	// *LossError and has changed nothing.
	AcceptLoss bool
	// Keys are those of the cluster that wrote the log, if one did.
	Keys *BatchKeys
	// Time is written into the records of the loss, ns since 1970.
	Time int64
}

// RepairReport is what Repair did. It is kept in the directory as repair-1.json, repair-2.json, …
type RepairReport struct {
	Damage   []Damage     `json:"damage"`              // what was found
	Shards   []RepairInfo `json:"shards"`              //
	PutAside string       `json:"put_aside,omitempty"` // where the damaged files are, relative to the directory
	Time     int64        `json:"time,omitempty"`
	// Unrecorded are the shards without an acknowledged-end record. Entries after the last one that is
	// there may be missing from them.
	Unrecorded []uint16 `json:"unwitnessed,omitempty"`
}

// RepairInfo is what became of one shard.
type RepairInfo struct {
	Shard    uint16 `json:"shard"`
	First    uint64 `json:"first"`
	Last     uint64 `json:"last"`
	FromCopy uint64 `json:"from_copy"` // entries that came from a copy
	Lost     []Loss `json:"lost,omitempty"`
}

// LossError is the error of a Repair that would lose entries.
type LossError struct{ Shards []RepairInfo }

// Error says in one line what is wrong.
func (e *LossError) Error() string {
	var parts []string
	n := uint64(0)
	for _, s := range e.Shards {
		for _, l := range s.Lost {
			parts = append(parts, fmt.Sprintf("shard %d: entries %s: %s", s.Shard, span(l.First, l.Last), l.Reason))
			n += l.Last - l.First + 1
		}
	}
	what := fmt.Sprintf("%d entries", n)
	if n == 1 {
		what = "one entry"
	}
	return fmt.Sprintf("%s cannot be saved:\n  %s", what, strings.Join(parts, "\n  "))
}

// Repair rebuilds a damaged data directory from what is whole in it and in the copies. Every entry
// keeps its sequence. In the place of a lost entry a Loss stands from then on, so that every reader
// meets it. The damaged files are put aside and kept. A directory without damage is not changed. After a
// crash in the middle, call Repair again.
func Repair(ctx context.Context, dir string, opt RepairOptions) (*RepairReport, error) {
	lock, err := lockDir(dir, true)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if exists(filepath.Join(dir, repairDir, repairDone)) {
		if err := finishRepair(dir); err != nil {
			return nil, fmt.Errorf("finish the earlier repair: %w", err)
		}
	}
	entries := map[uint16]map[uint64][]entryRef{}
	collect := func(shard uint16, seq uint64, at entryRef, _ []byte) {
		if entries[shard] == nil {
			entries[shard] = map[uint64][]entryRef{}
		}
		entries[shard][seq] = append(entries[shard][seq], at)
	}
	found, err := scan(dir, hooks{keys: opt.Keys, entry: collect})
	if err != nil {
		return nil, err
	}
	report := &RepairReport{Damage: found.All(), Time: opt.Time}
	if found.OK() {
		for _, s := range found.Shards {
			report.Shards = append(report.Shards, RepairInfo{Shard: s.Shard, First: s.First, Last: s.Last,
				Lost: s.Lost})
		}
		return report, nil
	}
	for _, from := range opt.From {
		copied := func(shard uint16, seq uint64, at entryRef, data []byte) {
			at.copied = true
			collect(shard, seq, at, data)
		}
		if _, err := scan(from, hooks{keys: opt.Keys, entry: copied}); err != nil {
			return nil, fmt.Errorf("copy: %w", err)
		}
	}
	plans := make([]*plan, len(found.Shards))
	lost := false
	for i := range found.Shards {
		if plans[i], err = makePlan(&found.Shards[i], entries[uint16(i)], opt.Keys); err != nil {
			return nil, err
		}
		for j := range plans[i].info.Lost {
			plans[i].info.Lost[j].Time = opt.Time
			lost = true
		}
		if found.Shards[i].acked == (segment.Acked{}) {
			report.Unrecorded = append(report.Unrecorded, uint16(i))
		}
		report.Shards = append(report.Shards, plans[i].info)
	}
	if lost && !opt.AcceptLoss {
		return report, &LossError{report.Shards}
	}
	if err := rebuild(ctx, dir, found, plans, report); err != nil {
		return report, err
	}
	return report, finishRepair(dir)
}

// plan is what a shard will be.
type plan struct {
	info RepairInfo
	refs []entryRef // of entries First to Last; file "" means lost
	keys *BatchKeys // of a log of format 3, otherwise nil
}

// makePlan chooses for every sequence the first copy that the chain accepts.
func makePlan(s *ShardReport, have map[uint64][]entryRef, keys *BatchKeys) (*plan, error) {
	p := &plan{info: RepairInfo{Shard: s.Shard, First: s.First, Last: s.acked.Last}}
	lowest := uint64(0)
	for seq := range have {
		p.info.Last = max(p.info.Last, seq)
		if lowest == 0 || seq < lowest {
			lowest = seq
		}
	}
	if s.acked == (segment.Acked{}) && lowest > 0 { // no acknowledged end: it begins where something is
		p.info.First = lowest
	}
	reason := func(seq uint64) string {
		for _, d := range s.Damage {
			if d.First <= seq && seq <= d.Last {
				return d.String()
			}
		}
		return "not found"
	}
	chain := NewChain(s.Shard, p.info.First).Trust(keys)
	chain.voided = s.voided
	for seq := p.info.First; seq <= p.info.Last; seq++ {
		ref := entryRef{}
		for _, r := range have[seq] {
			b, err := r.read()
			if err != nil {
				return nil, err
			}
			if seq == s.acked.Last && r.link != s.acked.Link {
				continue
			}
			if _, _, err := chain.Next(Entry{seq, b[idSize:]}); err != nil {
				chain.err = nil // the chain stands where it stood
				continue
			}
			ref = r
			break
		}
		if p.refs = append(p.refs, ref); ref.file != "" {
			if ref.copied {
				p.info.FromCopy++
			}
			continue
		}
		chain.accept(link{})
		if n := len(p.info.Lost); n > 0 && p.info.Lost[n-1].Last == seq-1 {
			p.info.Lost[n-1].Last = seq
		} else {
			why := reason(seq)
			if len(why) > maxText {
				why = strings.ToValidUTF8(why[:maxText], "")
			}
			p.info.Lost = append(p.info.Lost, Loss{First: seq, Last: seq, Reason: why})
		}
	}
	if chain.Format() == Format3 {
		p.keys = keys
	}
	return p, nil
}

func (r entryRef) read() ([]byte, error) {
	f, err := os.Open(r.file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b := make([]byte, r.size)
	_, err = f.ReadAt(b, r.offset)
	return b, err
}

// rebuild writes the new log into the directory repairing and makes it durable; the file done says
// that it is whole, and holds the number of the repair.
func rebuild(ctx context.Context, dir string, found *Report, plans []*plan, report *RepairReport) (err error) {
	work := filepath.Join(dir, repairDir)
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	for _, p := range plans {
		if err := p.write(ctx, work); err != nil {
			return fmt.Errorf("rebuild shard %d: %w", p.info.Shard, err)
		}
	}
	number := 1
	for exists(filepath.Join(dir, asideName(number))) || exists(filepath.Join(dir, reportName(number))) {
		number++
	}
	report.PutAside = asideName(number)
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFileSync(filepath.Join(work, repairFile), append(text, '\n')); err != nil {
		return err
	}
	m, err := newMarker(uint16(len(found.Shards)))
	if err != nil {
		return err
	}
	if found.ID != 0 {
		m.ID = found.ID
	}
	if err := writeFileSync(filepath.Join(work, markerFile), []byte(m.text())); err != nil {
		return err
	}
	if err := syncTree(work); err != nil {
		return err
	}
	if err := writeFileSync(filepath.Join(work, repairDone), []byte(strconv.Itoa(number))); err != nil {
		return err
	}
	return errors.Join(syncDir(work), syncDir(dir))
}

func reportName(n int) string { return "repair-" + strconv.Itoa(n) + ".json" }

// write writes the entries of a plan into new files below a directory.
func (p *plan) write(ctx context.Context, work string) (err error) {
	group := filepath.Join(work, segment.GroupDir(p.info.Shard))
	s, _, err := segment.Open(segment.Options{Dir: group, Group: p.info.Shard, First: p.info.First, NoSync: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	losses := p.info.Lost
	before := Head{} // the entry that a Loss names
	for i, ref := range p.refs {
		if err := ctx.Err(); err != nil {
			return err
		}
		seq := p.info.First + uint64(i)
		var b []byte
		var id batchID
		if ref.file != "" {
			if b, err = ref.read(); err != nil {
				return err
			}
			id, b = batchID(b), b[idSize:]
		} else {
			for losses[0].Last < seq {
				losses = losses[1:]
			}
			after := before
			if i == 0 {
				after = Head{Seq: seq - 1} // unknown: it was trimmed, or it is the beginning
			}
			id = hashID("loss/" + strconv.FormatUint(seq, 10))
			h := Header{Shard: p.info.Shard, No: 1, After: after.Seq, Prev: after.Hash, Time: losses[0].Time}
			if p.keys != nil {
				h.Format = Format3
			}
			if b, err = p.keys.Append(nil, h, &losses[0]); err != nil {
				return err
			}
		}
		if err := storeCopy(s, seq, id, b); err != nil {
			return err
		}
		before = Head{seq, HashBatch(b)}
	}
	last, link := s.Last()
	return segment.CreateAcked(segment.OS, group, p.info.Shard, segment.Acked{First: p.info.First, Last: last, Link: link})
}

// finishRepair puts the new log in the place of the old one. Every step can be repeated, so it may
// be interrupted anywhere.
func finishRepair(dir string) error {
	work := filepath.Join(dir, repairDir)
	text, err := os.ReadFile(filepath.Join(work, repairDone))
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(repairDir, repairDone), err)
	}
	aside := filepath.Join(dir, asideName(number))
	if err := os.MkdirAll(aside, 0o700); err != nil {
		return err
	}
	names := []string{markerFile}
	groups, err := filepath.Glob(filepath.Join(work, "g[0-9]*"))
	if err != nil {
		return err
	}
	for _, name := range groups {
		names = append(names, filepath.Base(name))
	}
	for _, name := range names {
		from, to, old := filepath.Join(work, name), filepath.Join(dir, name), filepath.Join(aside, name)
		if !exists(from) {
			continue // moved already, or there is none
		}
		if exists(to) && !exists(old) {
			if err := os.Rename(to, old); err != nil {
				return err
			}
		}
		if err := os.Rename(from, to); err != nil {
			return err
		}
	}
	if from := filepath.Join(work, repairFile); exists(from) {
		if err := os.Rename(from, filepath.Join(dir, reportName(number))); err != nil {
			return err
		}
	}
	if err := errors.Join(syncDir(aside), syncDir(dir)); err != nil {
		return err
	}
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	return syncDir(dir)
}

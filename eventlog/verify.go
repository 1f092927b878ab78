package eventlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"strings"
)

// Damage is a place where a data directory is not what was acknowledged.
type Damage struct {
	File   string `json:"file"`            // relative to the directory
	Offset int64  `json:"offset"`          // in the file
	Shard  uint16 `json:"shard"`           //
	First  uint64 `json:"first,omitempty"` // the entries concerned, 0 when none in particular
	Last   uint64 `json:"last,omitempty"`
	What   string `json:"what"`
}

func (d Damage) String() string {
	s := d.File
	if d.Offset > 0 {
		s += fmt.Sprintf(" at byte %d", d.Offset)
	}
	if d.First > 0 {
		s += fmt.Sprintf(": shard %d, entries %s", d.Shard, span(d.First, d.Last))
	}
	return s + ": " + d.What
}

// ShardReport is what Verify found in one shard.
type ShardReport struct {
	Shard   uint16 `json:"shard"`
	First   uint64 `json:"first"`   // oldest entry; Last+1 when empty
	Last    uint64 `json:"last"`    // newest entry
	Acked   uint64 `json:"acked"`   // newest entry that the witness knows of
	Batches uint64 `json:"batches"` // entries that were checked
	Events  uint64 `json:"events"`  // records in them, repeats not counted
	Repeats uint64 `json:"repeats"` // entries stored twice, harmless
	Writers uint64 `json:"writers"` // beginnings of a writer
	Bytes   uint64 `json:"bytes"`   // of the batches
	Torn    int64  `json:"torn"`    // bytes of an unfinished, never acknowledged write at the end
	Lost    []Loss `json:"lost,omitempty"`
	// Damage is empty when everything that was acknowledged is there.
	Damage []Damage `json:"damage,omitempty"`

	sum     uint32   // CRC-32C of the entry at Last, if it is not before the witness
	tail    []string // block files with entries behind the witness
	blocks  []blockSpan
	seen    testimony
	trimmed uint64 // highest sequence that the engine notes as removed
}

// Report is what Verify found.
type Report struct {
	Dir    string        `json:"dir"`
	ID     ID            `json:"id"`
	Shards []ShardReport `json:"shards"`
	Damage []Damage      `json:"damage,omitempty"` // of the directory itself
}

// OK says whether everything that was acknowledged is there and whole. Losses that were declared by
// Repair do not count against it; they are in the report, and in the log.
func (r *Report) OK() bool { return len(r.All()) == 0 }

// All returns every damage.
func (r *Report) All() []Damage {
	all := r.Damage
	for _, s := range r.Shards {
		all = append(all[:len(all):len(all)], s.Damage...)
	}
	return all
}

// DamagedError is the error of opening a directory in which something is missing or changed. Nothing
// was written to it.
type DamagedError struct{ Report *Report }

func (e *DamagedError) Error() string {
	all := e.Report.All()
	lines := []string{fmt.Sprintf("%s is damaged:", e.Report.Dir)}
	for i, d := range all {
		if i == 5 {
			lines = append(lines, fmt.Sprintf("and %d more places", len(all)-i))
			break
		}
		lines = append(lines, d.String())
	}
	return strings.Join(lines, "\n  ")
}

// LockedError is the error of opening a directory that another process uses.
type LockedError struct {
	Dir    string
	Holder string // what the other one wrote about itself
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%s is in use by %s", e.Dir, e.Holder)
}

// ErrNoLog: the directory holds no event log.
var ErrNoLog = errors.New("no event log here")

// Verify reads a whole data directory, without the engine and without writing, and reports what is
// there and what is damaged. The error is about the attempt: no such log, in use (*LockedError), a
// file that cannot be read. A damaged log is a report whose OK is false.
func Verify(dir string) (*Report, error) {
	lock, err := lockDir(dir, false)
	if err != nil {
		return nil, err
	}
	if lock != nil {
		defer lock.Close()
	}
	return scan(dir, hooks{})
}

// hooks are told what a scan meets, in the order of the files; each may be nil.
type hooks struct {
	// hashes: records are not decoded. Checksums, hashes, numbers and order say whether the log is
	// what its writers wrote; that they wrote records is for whoever reads them to find out.
	hashes bool
	// known says what was acknowledged by shard, beyond what the witness files say.
	known  []testimony
	stop   func() error                                             // an error ends the scan
	entry  func(shard uint16, seq uint64, at entryRef, data []byte) // every whole entry, in the chain or not
	batch  func(Delivery)                                           // what the chain accepted
	damage func(Damage)
}

// entryRef is where the bytes of an entry are.
type entryRef struct {
	file   string
	offset int64
	size   int
}

// scan is Verify under the caller's lock.
func scan(dir string, h hooks) (*Report, error) {
	r := &Report{Dir: dir}
	damaged := func(file, what string) {
		d := Damage{File: file, What: what}
		if r.Damage = append(r.Damage, d); h.damage != nil {
			h.damage(d)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, markerFile))
	shards := 0
	if err == nil {
		m, perr := parseMarker(string(text))
		if perr != nil {
			damaged(markerFile, perr.Error())
		}
		r.ID, shards = m.ID, int(m.Shards)
	} else if !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if shards == 0 { // no marker: count what is there
		for exists(filepath.Join(dir, witnessName(uint16(shards)))) || exists(streamDir(dir, uint16(shards))) {
			shards++
		}
		if shards == 0 && len(r.Damage) == 0 {
			return nil, fmt.Errorf("%s: %w", dir, ErrNoLog)
		}
		if len(r.Damage) == 0 {
			damaged(markerFile, "is missing")
		}
	}
	if exists(filepath.Join(dir, repairDir, repairDone)) {
		damaged(repairDir, "a repair was interrupted; repair again to finish it")
	}
	for n := range shards {
		s, err := scanShard(dir, uint16(n), h)
		if err != nil {
			return nil, err
		}
		r.Shards = append(r.Shards, s)
	}
	return r, nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

func streamDir(dir string, shard uint16) string {
	return filepath.Join(dir, filepath.FromSlash(storePrefix), streamName(shard))
}

func scanShard(dir string, shard uint16, h hooks) (ShardReport, error) {
	r := ShardReport{Shard: shard, First: 1}
	rel := func(name string) string {
		if s, err := filepath.Rel(dir, name); err == nil {
			return filepath.ToSlash(s)
		}
		return name
	}
	damaged := func(file string, offset int64, first, last uint64, format string, a ...any) {
		d := Damage{rel(file), offset, shard, first, last, fmt.Sprintf(format, a...)}
		if r.Damage = append(r.Damage, d); h.damage != nil {
			h.damage(d)
		}
	}

	wname := filepath.Join(dir, witnessName(shard))
	witnessed := false
	if b, err := os.ReadFile(wname); err == nil {
		if _, t, err := parseWitness(b, shard); err != nil {
			damaged(wname, 0, 0, 0, "%v", err)
		} else {
			r.seen, witnessed = t, true
		}
	} else if errors.Is(err, os.ErrNotExist) {
		damaged(wname, 0, 0, 0, "is missing")
	} else {
		return r, err
	}

	sdir := streamDir(dir, shard)
	if !exists(sdir) {
		r.Last = r.First - 1
		if witnessed {
			r.First, r.Last, r.Acked = r.seen.First, r.seen.First-1, r.seen.Last
			if r.seen.Last > 0 {
				damaged(sdir, 0, r.seen.First, r.seen.Last, "the whole stream is missing")
			}
		}
		return r, nil
	}
	if file, err := checkMeta(sdir, streamName(shard)); err != nil {
		damaged(file, 0, 0, 0, "%v", err)
	}
	msgs := filepath.Join(sdir, "msgs")
	names, numbers, err := blockFiles(msgs)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return r, err
	}

	// want is the next entry; 0 until the first one is seen when there is no witness to say.
	var want uint64
	var chain *Chain
	if witnessed {
		r.First, r.Acked, want = r.seen.First, r.seen.Last, r.seen.First
		chain = NewChain(shard, want)
	}
	if int(shard) < len(h.known) && witnessed && h.known[shard].Last >= r.seen.Last {
		r.seen = h.known[shard]
		r.First, r.Acked, want = r.seen.First, r.seen.Last, r.seen.First
		chain = NewChain(shard, want)
	}
	type torn struct {
		file     string
		from, to int64
	}
	var open *torn // damage at the end of a block: it is only a torn write if nothing comes after
	lastName, lastEnd := msgs, int64(0)
	for block := range readBlocks(names, numbers, shard, !h.hashes) {
		if block.err == nil && h.stop != nil {
			block.err = h.stop()
		}
		if block.err != nil {
			return r, block.err
		}
		name := block.name
		lastName, lastEnd = name, block.size
		// missing reports entries want to seq−1, which should have been here.
		missing := func(offset int64, seq uint64, what string) {
			damaged(name, offset, want, seq-1, "%s", what)
			chain, want = NewChain(shard, seq), seq
		}
		r.blocks = append(r.blocks, blockSpan{name: name, number: block.number})
		for _, b := range block.parts {
			if b.size == 0 {
				if open == nil {
					open = &torn{name, b.offset, b.at}
				}
				continue
			}
			if b.tomb {
				r.trimmed = max(r.trimmed, b.seq)
				continue
			}
			if b.erased && b.seq < max(want, 1) {
				continue
			}
			if want == 0 {
				r.First, want = b.seq, b.seq
				chain = NewChain(shard, want)
			}
			if h.entry != nil && !b.erased && b.seq > 0 {
				h.entry(shard, b.seq, entryRef{name, b.at, len(b.data)}, b.data)
			}
			switch {
			case b.seq < r.First:
				continue // trimmed away, not yet cleaned up
			case b.seq < want:
				damaged(name, b.offset, b.seq, b.seq, "it stands here again")
				continue
			case b.seq > want:
				what := "missing"
				at := b.offset
				if open != nil {
					what = fmt.Sprintf("bytes %d to %d of %s are not readable", open.from, open.to, rel(open.file))
					at = open.from
				}
				missing(at, b.seq, what)
			case open != nil:
				damaged(open.file, open.from, 0, 0, "bytes %d to %d are not readable, and no entry is missing", open.from, open.to)
			}
			open = nil
			if b.erased {
				damaged(name, b.offset, b.seq, b.seq, "it was erased")
				chain, want = NewChain(shard, want+1), want+1
				continue
			}
			r.blocks[len(r.blocks)-1].last = b.seq
			batch, repeat, err := chain.next(b.seq, b.batch, b.parsed)
			want++
			r.Batches++
			r.Bytes += uint64(len(b.data))
			if b.seq >= r.seen.Last {
				r.sum = crc32.Checksum(b.data, castagnoli)
			}
			if b.seq > r.seen.Last && (len(r.tail) == 0 || r.tail[len(r.tail)-1] != name) {
				r.tail = append(r.tail, name)
			}
			if err != nil {
				what := err.Error()
				var ce *ChainError
				if errors.As(err, &ce) {
					what = ce.What
				}
				damaged(name, b.offset, b.seq, b.seq, "%s", what)
				chain = NewChain(shard, want)
				continue
			}
			if b.seq == r.seen.Last && witnessed && r.sum != r.seen.Sum {
				damaged(name, b.offset, b.seq, b.seq, "it is not the entry that was acknowledged")
			}
			if h.batch != nil {
				h.batch(Delivery{b.seq, batch, repeat})
			}
			switch {
			case repeat:
				r.Repeats++
			case batch.Epoch == 0:
				for _, x := range batch.Events() {
					r.Lost = append(r.Lost, *x.(*Loss))
				}
			default:
				r.Events += uint64(batch.Count)
				if batch.No == 1 {
					r.Writers++
				}
			}
		}
	}
	if want == 0 {
		want = 1
	}
	r.Last = want - 1
	if open != nil {
		// Nothing whole follows. If all that was acknowledged is here, this is a write that the
		// process did not survive; the engine cuts it off.
		if witnessed && r.Last >= r.seen.Last && open.file == lastName {
			r.Torn = open.to - open.from
		} else {
			damaged(open.file, open.from, 0, 0, "bytes %d to %d are not readable", open.from, open.to)
		}
	}
	if witnessed && r.Last < r.seen.Last {
		damaged(lastName, lastEnd, r.Last+1, r.seen.Last, "acknowledged, and missing at the end")
	}
	return r, nil
}

package eventlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"troupe/eventlog/segment"
)

// hooks are called with what a scan meets, in the order of the files; each may be nil.
type hooks struct {
	keys   *BatchKeys                                               // of a cluster's log
	stop   func() error                                             // an error ends the scan
	entry  func(shard uint16, seq uint64, at entryRef, data []byte) // every whole entry, in the chain or not
	batch  func(Delivery)                                           // what the chain accepted
	damage func(Damage)
}

// entryRef is where the bytes of an entry are, with the id of the batch before them.
type entryRef struct {
	file   string
	offset int64
	size   int
	link   segment.Link
	copied bool // of a copy that a repair reads, not of the log itself
}

const interruptedRepair = "a repair was interrupted; repair again to finish it"

// scan reads a data directory under the caller's lock.
func scan(dir string, h hooks) (*Report, error) {
	r := &Report{Dir: dir}
	damaged := func(file, what string) {
		d := Damage{File: file, What: what}
		if r.Damage = append(r.Damage, d); h.damage != nil {
			h.damage(d)
		}
	}
	if err := refuseNode(dir); err != nil {
		return nil, err
	}
	m, err := readMarker(dir)
	var unreadable *segment.DamageError
	switch missing := errors.Is(err, ErrNoLog); {
	case missing && exists(filepath.Join(dir, oldDir)):
		return nil, refuseRemains(dir)
	case missing && countShards(dir) == 0:
		return nil, err
	case missing:
		damaged(markerFile, "is missing")
	case errors.As(err, &unreadable):
		damaged(markerFile, unreadable.What)
	case err != nil:
		return nil, err
	}
	r.ID = m.ID
	shards := int(m.Shards)
	if shards == 0 { // no marker: count what is there
		shards = countShards(dir)
	}
	if exists(filepath.Join(dir, repairDir, repairDone)) {
		damaged(repairDir, interruptedRepair)
	}
	for n := range shards {
		s := shardScan{dir: dir, hooks: h, r: ShardReport{Shard: uint16(n), First: 1}}
		if err := s.run(); err != nil {
			return nil, err
		}
		r.Shards = append(r.Shards, s.r)
	}
	return r, nil
}

func exists(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// shardScan reads the files of one shard and compares every entry with the one that should come next. Package segment
// checks checksums, links and the order of the entries; here are the acknowledged end and the chain of the batches.
type shardScan struct {
	dir   string
	hooks hooks
	r     ShardReport

	recorded bool   // there is an acknowledged end
	chain    *Chain // nil until the first entry is known
	later    *VersionError
	failed   error // of hooks.stop
}

var errScanEnds = errors.New("the scan ends")

func (s *shardScan) group() string { return filepath.Join(s.dir, segment.GroupDir(s.r.Shard)) }

func (s *shardScan) run() error {
	shard := s.r.Shard
	r := &s.r
	acked, err := segment.ReadAcked(segment.OS, s.group(), shard)
	var bad *segment.DamageError
	switch {
	case errors.As(err, &bad):
		s.damaged(bad.Damage)
	case err != nil:
		return err
	default:
		s.recorded, r.acked = true, acked
		r.First, r.Acked = acked.First, acked.Last
		s.expect(acked.First)
	}
	end, err := segment.Walk(s.group(), shard, segment.Visitor{Record: s.record, Damage: s.damaged,
		Pace: func(int64) error {
			if s.hooks.stop != nil {
				s.failed = s.hooks.stop()
			}
			return s.failed
		}})
	switch {
	case s.later != nil:
		return s.later
	case s.failed != nil:
		return s.failed
	case err != nil:
		return err
	}
	return s.finish(end)
}

// expect begins a new chain with entry seq.
func (s *shardScan) expect(seq uint64) {
	c := NewChain(s.r.Shard, seq).Trust(s.hooks.keys)
	if s.chain != nil {
		c.voided = s.chain.voided
	}
	s.chain = c
}

// record takes a whole record.
func (s *shardScan) record(file string, offset int64, rec segment.Record) error {
	r := &s.r
	if rec.Kind != segment.Batch || len(rec.Data) < idSize {
		s.damaged(segment.Damage{File: file, Offset: offset, First: rec.Index, Last: rec.Index,
			What: fmt.Sprintf("an entry of kind %d, which no single machine writes", rec.Kind)})
		return nil
	}
	if rec.Index < r.First && s.recorded { // trimmed away, and still in the file
		return nil
	}
	if s.chain == nil { // no acknowledged end: the log begins where something is
		r.First = rec.Index
		s.expect(rec.Index)
	}
	data := rec.Data[idSize:]
	if s.hooks.entry != nil {
		s.hooks.entry(r.Shard, rec.Index, entryRef{file: filepath.Join(s.group(), file), offset: offset + segment.HeadSize,
			size: len(rec.Data), link: rec.Link}, data)
	}
	if rec.Index != s.chain.Last()+1 { // Walk has said that entries are missing
		s.expect(rec.Index)
	}
	if rec.Index == r.acked.Last && s.recorded && rec.Link != r.acked.Link {
		s.damaged(segment.Damage{File: file, Offset: offset, First: rec.Index, Last: rec.Index,
			What: "it is not the entry that was acknowledged"})
	}
	batch, parsed := parseBatch(data, true, nil, s.hooks.keys)
	batch, repeat, err := s.chain.next(rec.Index, batch, parsed)
	if err != nil && s.forgive() {
		again, parsed := parseBatch(data, true, nil, s.hooks.keys)
		batch, repeat, err = s.chain.next(rec.Index, again, parsed)
		r.voided = s.chain.voided
	}
	r.Batches++
	r.Bytes += uint64(len(data))
	if err != nil {
		if errors.As(err, &s.later) {
			return errScanEnds
		}
		what := err.Error()
		var ce *ChainError
		if errors.As(err, &ce) {
			what = ce.What
		}
		s.damaged(segment.Damage{File: file, Offset: offset, First: rec.Index, Last: rec.Index, What: what})
		s.expect(rec.Index + 1)
		return nil
	}
	if s.hooks.batch != nil {
		s.hooks.batch(Delivery{rec.Index, batch, repeat})
	}
	s.count(batch, repeat)
	return nil
}

// forgive looks for a record behind that declares the entry void at which the chain ended.
func (s *shardScan) forgive() bool {
	c := s.chain
	if !c.unusable() {
		return false
	}
	_, err := segment.Walk(s.group(), s.r.Shard, segment.Visitor{Record: func(_ string, _ int64, r segment.Record) error {
		if r.Kind == segment.Batch && len(r.Data) >= idSize && r.Index > c.last+1 {
			b, bad := parseBatch(r.Data[idSize:], true, nil, c.keys)
			c.declarations(r.Index, &b, bad)
		}
		return nil
	}})
	return err == nil && c.goOn()
}

// count counts an entry that the chain accepted.
func (s *shardScan) count(batch Batch, repeat bool) {
	r := &s.r
	switch {
	case batch.Declared > 0:
		r.Declared++
	case batch.Unwritten != "":
		r.Unwritten++
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

// finish judges the end of the log.
func (s *shardScan) finish(end segment.End) error {
	r := &s.r
	r.Last = end.Last
	if !s.recorded && s.chain == nil {
		r.First = end.First
	}
	if end.Torn > 0 {
		// Nothing whole follows. If all that was acknowledged is here, this is a write that the process did not survive;
		// the next opening cuts it off.
		if s.recorded && r.Last >= r.acked.Last {
			r.Torn = end.Torn
		} else {
			s.damaged(segment.Damage{File: end.File, Offset: end.Size,
				What: fmt.Sprintf("bytes %d to %d are not readable", end.Size, end.Size+end.Torn)})
		}
	}
	if s.recorded && r.First < end.First && r.acked.Last >= r.First {
		s.damaged(segment.Damage{File: ".", First: r.First, Last: min(end.First-1, r.acked.Last),
			What: "missing at the beginning"})
	}
	if s.recorded && r.Last < r.acked.Last {
		file := end.File
		if file == "" {
			file = "."
		}
		s.damaged(segment.Damage{File: file, Offset: end.Size, First: r.Last + 1, Last: r.acked.Last,
			What: "acknowledged, and missing at the end"})
	}
	r.Last = max(r.Last, r.First-1)
	return nil
}

// damaged notes a damage. What concerns trimmed entries only is none.
func (s *shardScan) damaged(x segment.Damage) {
	if s.recorded && x.First > 0 && x.Last < s.r.acked.First {
		return
	}
	d := segmentDamage(s.r.Shard, x)
	if s.r.Damage = append(s.r.Damage, d); s.hooks.damage != nil {
		s.hooks.damage(d)
	}
}

package eventlog

import (
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
)

// hooks are called with what a scan meets, in the order of the files; each may be nil.
type hooks struct {
	// hashes: records are not decoded. Checksums, hashes, numbers and order say whether the log is
	// what its writers wrote; readers of the records find out whether they wrote records.
	hashes bool
	keys   *BatchKeys // of a cluster's log
	// known is what was acknowledged, by shard, when it is newer than the acknowledged-end records.
	known  []ackedEnd
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
	shards := 0
	switch text, err := os.ReadFile(filepath.Join(dir, markerFile)); {
	case err == nil:
		m, perr := parseMarker(string(text))
		if perr != nil {
			damaged(markerFile, perr.Error())
		}
		r.ID, shards = m.ID, int(m.Shards)
	case !errors.Is(err, os.ErrNotExist):
		return nil, err
	}
	if shards == 0 { // no marker: count what is there
		for exists(filepath.Join(dir, ackedName(uint16(shards)))) || exists(streamDir(dir, uint16(shards))) {
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

// streamDir is where the engine keeps the files of a shard: those of a node belong to the account of the log.
func streamDir(dir string, shard uint16) string {
	prefix := storePrefix
	if exists(filepath.Join(dir, nodeMarker)) {
		prefix = nodeStorePrefix
	}
	return filepath.Join(dir, filepath.FromSlash(prefix), streamName(shard))
}

// shardScan reads the files of one shard and compares every entry with the one that should come next.
//
//  1. readAcked: what was acknowledged.
//  2. the description of the stream.
//  3. the block files in order, part by part: an entry, a note of the engine, or bytes that are neither.
//  4. finish: is the end there, and are unreadable bytes at the end damage or an unfinished write.
type shardScan struct {
	dir   string
	hooks hooks
	r     ShardReport

	recorded bool   // there is an acknowledged-end record
	chain    *Chain // nil until the first entry is known
	want     uint64 // the next entry; 0 until the first one is known

	file, end  string // present block file; the last one that was read, or the directory
	endOffset  int64  // its length
	unreadable *unreadable
	later      *VersionError // of an entry that this program cannot read

	names   []string // of the block files
	numbers []uint32
}

// unreadable is a range of bytes in a block file that are no record, with no record after them so far.
// It is only an unfinished write if none follows.
type unreadable struct {
	file     string
	from, to int64
}

func (s *shardScan) run() error {
	shard := s.r.Shard
	// 1. What was acknowledged.
	if err := s.readAcked(); err != nil {
		return err
	}
	stream := streamDir(s.dir, shard)
	if !exists(stream) {
		s.noStream(stream)
		return nil
	}
	// 2. The description of the stream.
	if file, err := checkMeta(stream, streamName(shard)); err != nil {
		s.damaged(file, 0, 0, 0, "%v", err)
	}
	// 3. The block files.
	msgs := filepath.Join(stream, "msgs")
	names, numbers, err := blockFiles(msgs)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	s.end, s.names, s.numbers = msgs, names, numbers
	for block := range readBlocks(names, numbers, shard, !s.hooks.hashes, s.hooks.keys) {
		if block.err == nil && s.hooks.stop != nil {
			block.err = s.hooks.stop()
		}
		if block.err != nil {
			return block.err
		}
		s.file, s.end, s.endOffset = block.name, block.name, block.size
		s.r.blocks = append(s.r.blocks, blockSpan{name: block.name, number: block.number})
		for i := range block.parts {
			if s.part(&block.parts[i]); s.later != nil {
				return s.later
			}
		}
	}
	// 4. The end.
	s.finish()
	return nil
}

// readAcked reads the acknowledged-end record, or takes the newer one that the caller knows.
func (s *shardScan) readAcked() error {
	name := filepath.Join(s.dir, ackedName(s.r.Shard))
	b, err := os.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		s.damaged(name, 0, 0, 0, "is missing")
		return nil
	} else if err != nil {
		return err
	}
	_, end, err := parseAcked(b, s.r.Shard)
	if err != nil {
		s.damaged(name, 0, 0, 0, "%v", err)
		return nil
	}
	if n := int(s.r.Shard); n < len(s.hooks.known) && s.hooks.known[n].Last >= end.Last {
		end = s.hooks.known[n]
	}
	s.recorded, s.r.acked = true, end
	s.r.First, s.r.Acked = end.First, end.Last
	s.expect(end.First)
	return nil
}

// expect begins a new chain with entry seq.
func (s *shardScan) expect(seq uint64) {
	c := NewChain(s.r.Shard, seq).Trust(s.hooks.keys)
	if s.chain != nil {
		c.voided = s.chain.voided
	}
	s.chain, s.want = c, seq
}

func (s *shardScan) noStream(dir string) {
	s.r.Last = s.r.First - 1
	if s.recorded && s.r.acked.Last > 0 {
		s.damaged(dir, 0, s.r.acked.First, s.r.acked.Last, "the whole stream is missing")
	}
}

// part takes the next part of a block file.
func (s *shardScan) part(p *blockPart) {
	switch {
	case p.size == 0:
		if s.unreadable == nil {
			s.unreadable = &unreadable{s.file, p.offset, p.at}
		}
	case p.tomb:
		s.r.trimmed = max(s.r.trimmed, p.seq)
	case p.erased && p.seq < max(s.want, 1):
	default:
		s.record(p)
	}
}

// record takes a record that is, or was, an entry. It checks that it is the next one.
func (s *shardScan) record(p *blockPart) {
	if s.want == 0 { // no acknowledged-end record: the log begins where something is
		s.r.First = p.seq
		s.expect(p.seq)
	}
	if s.hooks.entry != nil && !p.erased && p.seq > 0 {
		s.hooks.entry(s.r.Shard, p.seq, entryRef{s.file, p.at, len(p.data)}, p.data)
	}
	switch {
	case p.seq < s.r.First: // trimmed away, and not yet removed from the file
		return
	case p.seq < s.want:
		s.damaged(s.file, p.offset, p.seq, p.seq, "it stands here again")
		return
	case p.seq > s.want:
		what, at := "missing", p.offset
		if u := s.unreadable; u != nil {
			what, at = fmt.Sprintf("bytes %d to %d of %s are not readable", u.from, u.to, s.rel(u.file)), u.from
		}
		s.damaged(s.file, at, s.want, p.seq-1, "%s", what)
		s.expect(p.seq)
	case s.unreadable != nil:
		u := s.unreadable
		s.damaged(u.file, u.from, 0, 0, "bytes %d to %d are not readable, and no entry is missing", u.from, u.to)
	}
	s.unreadable = nil
	if p.erased {
		s.damaged(s.file, p.offset, p.seq, p.seq, "it was erased")
		s.expect(s.want + 1)
		return
	}
	s.entry(p)
}

// entry takes the next entry. It gives it to the chain and counts it.
func (s *shardScan) entry(p *blockPart) {
	r := &s.r
	r.blocks[len(r.blocks)-1].last = p.seq
	batch, repeat, err := s.chain.next(p.seq, p.batch, p.parsed)
	if err != nil && s.chain.forgiveIn(s.names, s.numbers) {
		batch, repeat, err = s.chain.next(p.seq, p.batch, p.parsed)
		r.voided = s.chain.voided
	}
	s.want++
	r.Batches++
	r.Bytes += uint64(len(p.data))
	if p.seq >= r.acked.Last {
		r.sum = crc32.Checksum(p.data, castagnoli)
	}
	if p.seq > r.acked.Last && (len(r.tail) == 0 || r.tail[len(r.tail)-1] != s.file) {
		r.tail = append(r.tail, s.file)
	}
	if err != nil {
		if errors.As(err, &s.later) {
			return
		}
		what := err.Error()
		var ce *ChainError
		if errors.As(err, &ce) {
			what = ce.What
		}
		s.damaged(s.file, p.offset, p.seq, p.seq, "%s", what)
		s.expect(s.want)
		return
	}
	if p.seq == r.acked.Last && s.recorded && r.sum != r.acked.Sum {
		s.damaged(s.file, p.offset, p.seq, p.seq, "it is not the entry that was acknowledged")
	}
	if s.hooks.batch != nil {
		s.hooks.batch(Delivery{p.seq, batch, repeat})
	}
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
func (s *shardScan) finish() {
	r := &s.r
	r.Last = max(s.want, 1) - 1
	if u := s.unreadable; u != nil {
		// Nothing whole follows. If all that was acknowledged is here, this is a write that the
		// process did not survive; the engine cuts it off.
		if s.recorded && r.Last >= r.acked.Last && u.file == s.end {
			r.Torn = u.to - u.from
		} else {
			s.damaged(u.file, u.from, 0, 0, "bytes %d to %d are not readable", u.from, u.to)
		}
	}
	if s.recorded && r.Last < r.acked.Last {
		s.damaged(s.end, s.endOffset, r.Last+1, r.acked.Last, "acknowledged, and missing at the end")
	}
}

func (s *shardScan) damaged(file string, offset int64, first, last uint64, format string, a ...any) {
	d := Damage{s.rel(file), offset, s.r.Shard, first, last, fmt.Sprintf(format, a...)}
	if s.r.Damage = append(s.r.Damage, d); s.hooks.damage != nil {
		s.hooks.damage(d)
	}
}

// rel is a name relative to the data directory.
func (s *shardScan) rel(name string) string {
	if r, err := filepath.Rel(s.dir, name); err == nil {
		return filepath.ToSlash(r)
	}
	return name
}

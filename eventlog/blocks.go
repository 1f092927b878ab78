package eventlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strconv"
	"strings"

	"github.com/minio/highwayhash"
)

// The engine keeps a stream in block files msgs/1.blk, 2.blk, …, records one after the other:
//
//	length u32 (bit 31: has headers) | sequence u64 (bit 63: erased, bit 62: tombstone) | time i64 |
//	subject length u16 | subject | [header length u32 | headers] | message | HighwayHash-64
//
// little-endian; the length counts everything; the hash covers sequence, time, subject, headers and
// message, its key is the SHA-256 of "<stream>-<block number>". This reader is our second opinion:
// the engine skips what it cannot read, and it may cut files when it opens them. This one changes
// nothing, names the file and the offset, and goes on after the damage.

const (
	blockHead  = 22
	blockHash  = 8
	blockMax   = 32 << 20 // the engine's bound of a record
	erasedBit  = 1 << 63
	tombBit    = 1 << 62
	headersBit = 1 << 31
)

func streamName(shard uint16) string { return "TROUPE_EV_" + strconv.Itoa(int(shard)) }
func subjectName(shard uint16) string {
	return "troupe.ev." + strconv.Itoa(int(shard))
}

// blockRecord is one record of a block file.
type blockRecord struct {
	offset, size int64
	seq          uint64
	erased       bool  // nothing is stored under seq any more
	tomb         bool  // a note that seq was removed
	at           int64 // offset of data
	data         []byte
	raw          []byte // all of it
}

// blockSum returns the hash of the records of a block.
func blockSum(stream string, block uint32) hash.Hash {
	key := sha256.Sum256([]byte(fmt.Sprintf("%s-%d", stream, block)))
	hh, err := highwayhash.New64(key[:])
	if err != nil {
		panic("eventlog: highwayhash: " + err.Error()) // a key of 32 bytes is never refused
	}
	return hh
}

// recordSum returns the checksum of a record, whose lengths are right.
func recordSum(hh hash.Hash, b []byte) []byte {
	subject := blockHead + int(binary.LittleEndian.Uint16(b[20:]))
	body := b[subject : len(b)-blockHash]
	if binary.LittleEndian.Uint32(b)&headersBit != 0 {
		body = body[4:]
	}
	hh.Reset()
	hh.Write(b[4:20])
	hh.Write(b[blockHead:subject])
	hh.Write(body)
	return hh.Sum(nil)
}

// scanBlock yields the records of a block in order. Where bytes are no record it calls damage with
// the offsets they take, from to to, looks for the next whole record of the subject and goes on.
func scanBlock(buf []byte, stream string, block uint32, subject string, record func(blockRecord),
	damage func(from, to int64)) {
	hh := blockSum(stream, block)
	parse := func(off int) (r blockRecord, ok bool) {
		b := buf[off:]
		if len(b) < blockHead+blockHash {
			return r, false
		}
		le := binary.LittleEndian
		size := le.Uint32(b)
		headers := size&headersBit != 0
		size &^= headersBit
		slen := int(le.Uint16(b[20:]))
		if size > blockMax || int(size) > len(b) || int(size) < blockHead+slen+blockHash {
			return r, false
		}
		b = b[:size]
		subj, body := b[blockHead:blockHead+slen], b[blockHead+slen:len(b)-blockHash]
		seq := le.Uint64(b[4:])
		data := body
		if headers {
			if len(body) < 4 || uint64(le.Uint32(body)) > uint64(len(body)-4) {
				return r, false
			}
			body = body[4:]
			data = body[le.Uint32(b[blockHead+slen:]):]
		}
		if !bytes.Equal(recordSum(hh, b), b[len(b)-blockHash:]) {
			return r, false
		}
		r = blockRecord{offset: int64(off), size: int64(size), seq: seq &^ (erasedBit | tombBit),
			erased: seq&erasedBit != 0, tomb: seq&tombBit != 0,
			at: int64(off+len(b)-blockHash) - int64(len(data)), data: data, raw: b}
		return r, r.erased || r.tomb || string(subj) == subject
	}
	for off := 0; off < len(buf); {
		if r, ok := parse(off); ok {
			record(r)
			off += int(r.size)
			continue
		}
		next := -1
		for from := off + 1; from < len(buf); {
			i := bytes.Index(buf[from:], []byte(subject))
			if i < 0 {
				break
			}
			at := from + i - blockHead
			if at > off {
				if _, ok := parse(at); ok {
					next = at
					break
				}
			}
			from += i + 1
		}
		if next < 0 {
			damage(int64(off), int64(len(buf)))
			return
		}
		damage(int64(off), int64(next))
		off = next
	}
}

// blockParts is a block file taken apart: everything about it that can be found out without the blocks
// before it.
type blockParts struct {
	name   string
	number uint32
	size   int64
	parts  []blockPart
	err    error // the file cannot be read
}

// blockPart is a record, its batch parsed; or, with size 0, damage from offset to at.
type blockPart struct {
	blockRecord
	batch  Batch
	parsed error
}

// readBlocks reads block files and takes them apart, one on each processor, and yields them in order.
// What it yields is good until the next one. With keys the MACs are compared. Memory: the files that are under way, one
// more than there are processors, and their records when decode is set.
func readBlocks(names []string, numbers []uint32, shard uint16, decode bool,
	keys *BatchKeys) iter.Seq[blockParts] {
	return func(yield func(blockParts) bool) {
		type job struct {
			buf  []byte
			done chan blockParts
		}
		stream, subject := streamName(shard), subjectName(shard)
		n := min(runtime.GOMAXPROCS(0)+1, len(names))
		jobs := make([]*job, n)
		start := func(i int) {
			j := jobs[i%n]
			if j == nil {
				j = &job{done: make(chan blockParts, 1)} // its answer may be left there
				jobs[i%n] = j
			}
			go func() {
				b := blockParts{name: names[i], number: numbers[i]}
				if j.buf, b.err = readInto(j.buf, names[i]); b.err == nil {
					b.size = int64(len(j.buf))
					scanBlock(j.buf, stream, numbers[i], subject, func(r blockRecord) {
						p := blockPart{blockRecord: r}
						if !r.tomb && !r.erased {
							p.batch, p.parsed = parseBatch(r.data, decode, nil, keys)
						}
						b.parts = append(b.parts, p)
					}, func(from, to int64) {
						b.parts = append(b.parts, blockPart{blockRecord: blockRecord{offset: from, at: to}})
					})
				}
				j.done <- b
			}()
		}
		for i := range n {
			start(i)
		}
		for i := range names {
			if !yield(<-jobs[i%n].done) {
				return
			}
			if i+n < len(names) {
				start(i + n)
			}
		}
	}
}

// readInto reads a whole file into buf, or into a larger one.
func readInto(buf []byte, name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return buf, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return buf, err
	}
	if size := info.Size(); int64(cap(buf)) < size {
		buf = make([]byte, size)
	} else {
		buf = buf[:size]
	}
	n, err := io.ReadFull(f, buf)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = nil // cut while it was read: it is what is there
	}
	return buf[:n], err
}

// blockFiles lists the block files of a stream, by number.
func blockFiles(msgs string) (names []string, numbers []uint32, err error) {
	entries, err := os.ReadDir(msgs)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		digits, ok := strings.CutSuffix(e.Name(), ".blk")
		if n, err := strconv.ParseUint(digits, 10, 32); ok && err == nil {
			names, numbers = append(names, filepath.Join(msgs, e.Name())), append(numbers, uint32(n))
		}
	}
	sort.Sort(byNumber{names, numbers})
	return names, numbers, nil
}

type byNumber struct {
	names   []string
	numbers []uint32
}

func (b byNumber) Len() int           { return len(b.names) }
func (b byNumber) Less(i, j int) bool { return b.numbers[i] < b.numbers[j] }
func (b byNumber) Swap(i, j int) {
	b.names[i], b.names[j] = b.names[j], b.names[i]
	b.numbers[i], b.numbers[j] = b.numbers[j], b.numbers[i]
}

// checkMeta checks the engine's description of a stream: without a good one it forgets the stream,
// and would make an empty one of the same name.
func checkMeta(dir, stream string) (file string, err error) {
	file = filepath.Join(dir, "meta.inf")
	b, err := os.ReadFile(file)
	if err != nil {
		return file, err
	}
	sumFile := filepath.Join(dir, "meta.sum")
	sum, err := os.ReadFile(sumFile)
	if err != nil {
		return sumFile, err
	}
	key := sha256.Sum256([]byte(stream))
	hh, err := highwayhash.New64(key[:])
	if err != nil {
		return file, err
	}
	hh.Write(b)
	if hex.EncodeToString(hh.Sum(nil)) != string(sum) {
		return file, fmt.Errorf("it does not have the checksum in meta.sum")
	}
	return file, nil
}

package eventlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"iter"
	"strconv"
)

const (
	// HeaderSize is the length of the fixed part of a batch.
	HeaderSize = 72
	// MaxBatch is the largest batch, header included, in bytes.
	MaxBatch = 1 << 20
	// MaxEvents is the largest number of records in a batch.
	MaxEvents = 2048

	// Format1 is the batch of a log with one writer at a time, Format3 that of a log with several: at its end stand
	// the id of a key and a MAC (BatchKeys). Programs before the first release wrote clusters in format 2, without
	// them, which is refused.
	Format1 = 1
	Format3 = 3 // see Format1

	format2 = 2
)

var (
	magic      = [4]byte{'T', 'R', 'P', 'B'}
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Hash is the first half of the SHA-256 of a batch.
type Hash [16]byte

// String returns 32 hexadecimal digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes what String returns.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// HashBatch returns the hash of an encoded batch.
func HashBatch(batch []byte) (h Hash) {
	sum := sha256.Sum256(batch)
	copy(h[:], sum[:])
	return h
}

// Header is the fixed part of a batch.
type Header struct {
	// Format is Format1 or Format3; AppendBatch takes 0 for Format1.
	Format  uint16
	Shard   uint16
	Version uint16 // of the records
	Count   uint32 // of the records, at least 1
	// Epoch is the writer: a random number for every time that one begins to write, 0 for Repair.
	Epoch ID
	// No counts the writer's batches: 1, 2, 3, …
	No uint64
	// After is the sequence of the writer's batch before this one. For its first batch it is the end
	// of the log as the writer found it, 0 when that was empty. In format 3 it is the newest entry that the
	// writer had applied, of any writer.
	After uint64
	// Prev is the hash of the batch at After, in format 3 the rolling hash there; zero when After is 0.
	Prev Hash
	// Time is the writer's clock, ns since 1970. Nothing depends on it.
	Time int64
	// Key is, in format 3, the id of the key of the MAC. BatchKeys.Append sets it.
	Key ID
}

// MessageID names a batch for ever: sending it again under this name does not store it twice.
func (h Header) MessageID() string {
	var room [64]byte
	b := append(strconv.AppendUint(room[:0], uint64(h.Shard), 10), '/')
	b = append(h.Epoch.append(b), '/')
	return string(strconv.AppendUint(b, h.No, 10))
}

// Batch is a decoded batch whose bytes passed every check that needs no other batch.
type Batch struct {
	Header
	Hash Hash
	Size int // in bytes, where it was read
	// Void: a Chain found that the batch was stored too far behind After. No record of it has an effect.
	Void bool
	// Unwritten says why a Chain found that no node of the cluster has written the entry, or that an operator has
	// declared it void; empty otherwise. It has no records then, and of the header nothing is known.
	Unwritten string
	// Declared is the entry whose record declares this one void, 0 for one that is not declared.
	Declared uint64
	records  []Record
	mark     mark
}

// Events yields the records in order with their places. They do not refer to the batch's bytes, unless the
// batch is a delivery of Follow.
func (b Batch) Events() iter.Seq2[uint32, Record] {
	return func(yield func(uint32, Record) bool) {
		for i, r := range b.records {
			if !yield(uint32(i), r) {
				return
			}
		}
	}
}

// Key returns the key of the record at place i.
func (b Batch) Key(i uint32) Event { return Event{b.Epoch, b.No, i} }

// appendHeader appends a header with room for length and checksum, which seal fills in.
func appendHeader(b []byte, h Header) []byte {
	le := binary.LittleEndian
	b = append(b, magic[:]...)
	b = le.AppendUint16(b, max(h.Format, Format1))
	b = le.AppendUint16(b, 0) // flags
	b = le.AppendUint16(b, h.Shard)
	b = le.AppendUint16(b, h.Version)
	b = le.AppendUint32(b, h.Count)
	b = le.AppendUint64(b, uint64(h.Epoch))
	b = le.AppendUint64(b, h.No)
	b = le.AppendUint64(b, h.After)
	b = append(b, h.Prev[:]...)
	b = le.AppendUint64(b, uint64(h.Time))
	return append(b, 0, 0, 0, 0, 0, 0, 0, 0)
}

// trailer is how many bytes stand behind the records of a batch of a format.
func trailer(format uint16) int {
	if format == Format3 {
		return trailerSize
	}
	return 0
}

// seal writes h, the length and the checksum into the first HeaderSize bytes of b; the records follow there already. In
// format 3 it appends the id of the current key and the MAC, and returns the batch with its hash.
func seal(b []byte, h Header, k *BatchKeys) (batch []byte, hash Hash) {
	records := len(b) - HeaderSize
	appendHeader(b[:0], h)
	if h.Format == Format3 {
		b = binary.LittleEndian.AppendUint64(b, uint64(k.current))
		b = append(b, make([]byte, batchMACSize)...)
	}
	binary.LittleEndian.PutUint32(b[64:], uint32(records))
	binary.LittleEndian.PutUint32(b[68:], checksum(b, h.Format))
	if h.Format == Format3 {
		return b, k.sign(b)
	}
	return b, Hash{}
}

// checksum is that of everything but itself and the MAC.
func checksum(b []byte, format uint16) uint32 {
	end := len(b)
	if format == Format3 {
		end -= batchMACSize
	}
	return crc32.Update(crc32.Checksum(b[:68], castagnoli), castagnoli, b[HeaderSize:end])
}

// AppendBatch appends the batch of h, which is of format 1, and the records. h.Count is set from their number, and
// h.Version to LogVersion when it is 0. It is for tools and tests; the Committer packs its own.
func AppendBatch(dst []byte, h Header, records ...Record) ([]byte, error) {
	return (*BatchKeys)(nil).Append(dst, h, records...)
}

// Append is AppendBatch also for batches of format 3, which get the current key and its MAC.
func (k *BatchKeys) Append(dst []byte, h Header, records ...Record) ([]byte, error) {
	if h.Version == 0 {
		h.Version = LogVersion
	}
	if !readable(h.Version) {
		return dst, fmt.Errorf("batch: log version %d, this code writes %s: %w", h.Version, readableVersions(), ErrVersion)
	}
	if h.Format == Format3 && k == nil {
		return dst, fmt.Errorf("batch: format %d without keys: %w", h.Format, ErrMalformed)
	}
	start := len(dst)
	b := append(dst, make([]byte, HeaderSize)...)
	var err error
	for _, r := range records {
		if b, err = AppendRecord(b, r); err != nil {
			return dst, err
		}
	}
	if len(records) == 0 || len(records) > MaxEvents || len(b)-start+trailer(h.Format) > MaxBatch {
		return dst, fmt.Errorf("batch of %d records and %d bytes: %w", len(records), len(b)-start, ErrTooLarge)
	}
	h.Count = uint32(len(records))
	sealed, _ := seal(b[start:], h, k)
	return append(b[:start], sealed...), nil
}

// ParseBatch checks everything about a batch that can be seen without its neighbours and without keys: form, length,
// checksum, that every record decodes and their number is right. A batch of another log version is a *VersionError. The
// batch does not refer to b.
func ParseBatch(b []byte) (Batch, error) { return public(parseBatch(b, true, nil, nil)) }

// Parse is ParseBatch for the log of a cluster: a batch without a right MAC is an error that wraps ErrMalformed.
func (k *BatchKeys) Parse(b []byte) (Batch, error) {
	batch, err := parseBatch(b, true, nil, k)
	if err == nil && batch.mark != marked {
		err = malformedBatch("%s", batch.mark)
	}
	return public(batch, err)
}

// ParseHeader checks a batch as ParseBatch does, but for its records, which it does not decode.
func ParseHeader(b []byte) (Header, error) {
	batch, err := public(parseBatch(b, false, nil, nil))
	return batch.Header, err
}

// public leaves nothing of what is malformed.
func public(b Batch, err error) (Batch, error) {
	if err != nil {
		return Batch{}, err
	}
	return b, nil
}

// parseBatch is ParseBatch, or without decode everything but the decoding of the records. A batch of Repair is always
// decoded. With a slate the records are there and refer to b. With keys the MAC of a batch of format 3 is compared. Of
// bytes that are no batch the hash and the mark are returned with the error.
func parseBatch(b []byte, decode bool, in *slate, k *BatchKeys) (Batch, error) {
	mark, hash := k.check(b)
	fail := func(err error) (Batch, error) { return Batch{Hash: hash, Size: len(b), mark: mark}, err }
	h, rest, err := parseHeader(b)
	if err != nil {
		return fail(err)
	}
	if !decode && h.Epoch != 0 {
		return Batch{Header: h, Hash: hash, Size: len(b), mark: mark}, nil
	}
	records := in.begin(atMost(h.Count, rest))
	for i := range h.Count {
		r, next, err := decodeRecord(rest, in)
		if err != nil {
			return fail(fmt.Errorf("batch: record %d: %w", i, err))
		}
		if r.Kind() == KindLoss && (h.Epoch != 0 || h.Count != 1) || h.Epoch == 0 && r.Kind() != KindLoss {
			return fail(malformedBatch("record %d: a %v from epoch %v", i, r.Kind(), h.Epoch))
		}
		records, rest = append(records, r), next
	}
	if len(rest) > 0 {
		return fail(malformedBatch("%d bytes after the last record", len(rest)))
	}
	if in != nil {
		in.records = records
	}
	return Batch{Header: h, Hash: hash, Size: len(b), mark: mark, records: records}, nil
}

// parseHeader checks the form and the checksum of a batch. It returns its header and the bytes of its
// records.
func parseHeader(b []byte) (h Header, records []byte, err error) {
	le := binary.LittleEndian
	bad := func(format string, a ...any) (Header, []byte, error) {
		return Header{}, nil, malformedBatch(format, a...)
	}
	switch {
	case len(b) < HeaderSize:
		return bad("%d bytes, the header alone has %d", len(b), HeaderSize)
	case len(b) > MaxBatch:
		return bad("%d bytes, at most %d are allowed", len(b), MaxBatch)
	case !bytes.Equal(b[:4], magic[:]):
		return bad("it begins with %q, want %q", b[:4], magic[:])
	case le.Uint16(b[4:]) == format2:
		return bad("format 2, which the clusters of an earlier program had: " + WayOver)
	case le.Uint16(b[4:]) != Format1 && le.Uint16(b[4:]) != Format3:
		return bad("format %d, this code reads %d and %d", le.Uint16(b[4:]), Format1, Format3)
	}
	format := le.Uint16(b[4:])
	end := len(b) - trailer(format)
	switch {
	case end < HeaderSize:
		return bad("%d bytes, header and MAC alone have %d", len(b), HeaderSize+trailerSize)
	case uint64(le.Uint32(b[64:])) != uint64(end-HeaderSize):
		return bad("%d bytes of records, the header says %d", end-HeaderSize, le.Uint32(b[64:]))
	case le.Uint32(b[68:]) != checksum(b, format):
		return bad("checksum %08x, the header says %08x", checksum(b, format), le.Uint32(b[68:]))
	case le.Uint16(b[6:]) != 0:
		return bad("flags %#x are unknown", le.Uint16(b[6:]))
	}
	h = Header{
		Format: le.Uint16(b[4:]), Shard: le.Uint16(b[8:]), Version: le.Uint16(b[10:]), Count: le.Uint32(b[12:]),
		Epoch: ID(le.Uint64(b[16:])), No: le.Uint64(b[24:]), After: le.Uint64(b[32:]),
		Prev: Hash(b[40:56]), Time: int64(le.Uint64(b[56:])),
	}
	if format == Format3 {
		h.Key = ID(le.Uint64(b[end:]))
	}
	switch {
	case h.Version == 0:
		return bad("log version 0, this code reads %s", readableVersions())
	case !readable(h.Version): // the checksum is right, so another program has written it
		return Header{}, nil, &VersionError{Shard: h.Shard, Version: h.Version}
	case h.Count == 0 || h.Count > MaxEvents:
		return bad("%d records", h.Count)
	case h.No == 0:
		return bad("batch number 0")
	case h.After == 0 && h.Prev != Hash{}:
		return bad("a hash before the first batch")
	}
	return h, b[HeaderSize:end], nil
}

func malformedBatch(format string, a ...any) error {
	return fmt.Errorf("batch: %s: %w", fmt.Sprintf(format, a...), ErrMalformed)
}

// atMost is the number of records to make room for. The smallest record has 4 bytes, so a count that does
// not fit into the batch cannot make a reader allocate for it.
func atMost(count uint32, records []byte) int { return min(int(count), len(records)/4) }

// ParseRecord returns the header of a batch and its record at place i, for readers that want one of many:
// the checksum of the whole batch must be right, the other records are not decoded. ErrNotFound when
// there are not so many. The record does not refer to b.
func ParseRecord(b []byte, i uint32) (Header, Record, error) {
	h, rest, err := parseHeader(b)
	if err != nil {
		return h, nil, err
	}
	if i >= h.Count {
		return h, nil, fmt.Errorf("batch: record %d of %d: %w", i, h.Count, ErrNotFound)
	}
	for range i {
		_, n := uvarint(rest)
		size, k := uvarint(rest[n:])
		if n == 0 || k == 0 || size > uint64(len(rest)-n-k) {
			return h, nil, malformedBatch("bad length before record %d", i)
		}
		rest = rest[n+k+int(size):]
	}
	r, _, err := decodeRecord(rest, nil)
	if err != nil {
		return h, nil, fmt.Errorf("batch: record %d: %w", i, err)
	}
	return h, r, nil
}

// ParseRecords is ParseRecord for all records of a batch. Bytes in them, such as a decision's Full, are
// those of b; vectors and texts are not.
func ParseRecords(b []byte) (Header, []Record, error) {
	h, rest, err := parseHeader(b)
	if err != nil {
		return h, nil, err
	}
	in := &slate{}
	records := make([]Record, 0, atMost(h.Count, rest))
	for i := range h.Count {
		var r Record
		if r, rest, err = decodeRecord(rest, in); err != nil {
			return h, nil, fmt.Errorf("batch: record %d: %w", i, err)
		}
		records = append(records, r)
	}
	return h, records, nil
}

package segment

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"hash/crc32"
)

const (
	// HeadSize is the length of a record without its data.
	HeadSize = 44
	// MaxData is the largest data of a record.
	MaxData = 1<<20 + 4096
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Link vouches for an entry and all before it: the first 16 bytes of SHA-256(link before ‖ index ‖ term ‖ kind ‖ group
// ‖ data).
type Link [16]byte

// String returns 32 hexadecimal digits.
func (l Link) String() string { return hex.EncodeToString(l[:]) }

// Kind is what an entry is.
type Kind uint8

// The kinds of entries. A single machine writes batches only.
const (
	Batch   Kind = 1 // of records
	Empty   Kind = 2 // the first entry of a leader
	Members Kind = 3 // a change of the nodes
)

// Record is an entry with its place.
type Record struct {
	Index, Term uint64
	Kind        Kind
	Group       uint16
	Link        Link
	Data        []byte
}

// linker computes links.
type linker struct {
	h   hash.Hash
	sum [sha256.Size]byte
}

func newLinker() *linker { return &linker{h: sha256.New()} }

// next returns the link of a record whose bytes, without length, checksum and link, are in b.
func (l *linker) next(before Link, b []byte) (next Link) {
	l.h.Reset()
	l.h.Write(before[:])
	l.h.Write(b[8:27])
	l.h.Write(b[HeadSize:])
	copy(next[:], l.h.Sum(l.sum[:0]))
	return next
}

// appendRecord appends the record of r, whose link it computes from the one before, and returns that link.
func (l *linker) appendRecord(b []byte, r Record, before Link, data ...[]byte) ([]byte, Link) {
	le := binary.LittleEndian
	start := len(b)
	b = append(b, 0, 0, 0, 0, 0, 0, 0, 0)
	b = le.AppendUint64(b, r.Index)
	b = le.AppendUint64(b, r.Term)
	b = append(b, byte(r.Kind))
	b = le.AppendUint16(b, r.Group)
	b = append(b, 0)
	b = append(b, make([]byte, len(r.Link))...)
	for _, d := range data {
		b = append(b, d...)
	}
	own := b[start:]
	link := l.next(before, own)
	copy(own[28:], link[:])
	le.PutUint32(own, uint32(len(own)-HeadSize)+1)
	le.PutUint32(own[4:], crc32.Checksum(own[8:], castagnoli))
	return b, link
}

// length returns the length of the record that begins with head, false when no record begins so.
func length(head []byte) (n int, ok bool) {
	size := binary.LittleEndian.Uint32(head)
	return HeadSize + int(size) - 1, size > 0 && size <= MaxData+1 && head[27] == 0
}

// parse returns the record in b, which has its length, false when its checksum is wrong. Data is in b.
func parse(b []byte) (r Record, ok bool) {
	le := binary.LittleEndian
	if le.Uint32(b[4:]) != crc32.Checksum(b[8:], castagnoli) {
		return r, false
	}
	return Record{Index: le.Uint64(b[8:]), Term: le.Uint64(b[16:]), Kind: Kind(b[24]), Group: le.Uint16(b[25:]),
		Link: Link(b[28:HeadSize]), Data: b[HeadSize:]}, true
}

// Damage is a place where the files are not what was written.
type Damage struct {
	File        string // its name in the directory of the group
	Offset      int64
	First, Last uint64 // the entries concerned, 0 when none in particular
	What        string
}

// DamageError is the error of opening or reading files that are not what was written. Nothing was changed.
type DamageError struct{ Damage }

// Error says in one line what is wrong.
func (e *DamageError) Error() string {
	at := e.File
	if e.Offset > 0 {
		at += fmt.Sprintf(" at byte %d", e.Offset)
	}
	if e.First > 0 {
		at += fmt.Sprintf(": entries %d to %d", e.First, e.Last)
	}
	return at + ": " + e.What
}

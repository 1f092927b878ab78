package eventlog

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// A log of format 3 has several writers. What one of them wrote says nothing about the others' entries, so every
// batch names the newest entry that its writer has applied and the rolling hash there:
//
//	R_0 = 0, R_k = the first 16 bytes of SHA-256(R_{k−1} ‖ H_k)
//
// where H_k is the hash of entry k. In a log that begins with batches of format 1, which vouch for each other,
// R_k = H_k for these.

// VoidAfter is how many entries a batch of format 3 may be stored behind the one that it names. One that is
// further behind is void: it stays in the log, and no record of it has an effect. So a writer that was cut off
// loses its calls and does not stop the readers, which remember no more than this.
const VoidAfter = 16_384

// Void reports whether a batch of format 3 that names entry after and was stored at seq is void. Readers and the
// writer compute it from the same two numbers.
func Void(seq, after uint64) bool { return seq-after > VoidAfter }

// silent is how many entries back a writer's last batch may be before it begins a new epoch; readers remember a
// writer for forgetWriter entries. A batch that is not void is stored at most VoidAfter behind the place where
// its writer looked, so a reader never forgets a writer that goes on.
const (
	silent       = VoidAfter / 2
	forgetWriter = 2 * VoidAfter
)

// rollHash returns R_k from R_{k−1} and H_k.
func rollHash(before, entry Hash) (h Hash) {
	var b [32]byte
	copy(b[:16], before[:])
	copy(b[16:], entry[:])
	sum := sha256.Sum256(b[:])
	copy(h[:], sum[:])
	return h
}

// rolling is what a chain knows of a log of format 3.
type rolling struct {
	ring []Hash // R of entry k at k mod len; H while pending
	from uint64 // the oldest entry whose R is known; while pending the oldest whose H is
	// pending: the chain began in the middle, or behind a loss. The first batch that names an entry from from−1 on
	// says what R is there.
	pending bool
	base    uint64 // writers that wrote nothing since are not known
	writers map[ID]lane
}

// lane is the newest batch of a writer that counts.
type lane struct {
	no, seq uint64
	hash    Hash
}

func (r *rolling) at(seq uint64) *Hash { return &r.ring[seq%uint64(len(r.ring))] }

// knows reports whether R of an entry is known, when last is the newest entry.
func (r *rolling) knows(seq, last uint64) bool {
	return !r.pending && seq >= r.from && seq <= last && last-seq < uint64(len(r.ring))
}

// newRolling begins behind the entries that c has accepted, which are of format 1.
func newRolling(c *Chain) *rolling {
	r := &rolling{ring: make([]Hash, VoidAfter+1), from: c.oldest(), base: c.base, writers: map[ID]lane{}}
	for s := r.from; s <= c.last; s++ {
		*r.at(s) = c.at(s).hash
	}
	switch {
	case c.base == 1 && r.from == 1:
		r.from = 0 // R_0 = 0
	case c.last < c.base || c.unsure > 0:
		r.pending = true
	}
	return r
}

// checkRolling compares a batch of format 3 with what came before it. drop means that it has no effect.
func (c *Chain) checkRolling(seq uint64, b *Batch) (drop bool, what string) {
	if c.roll == nil {
		c.roll = newRolling(c)
	}
	r := c.roll
	switch {
	case b.Shard != c.shard:
		return false, fmt.Sprintf("it is a batch of shard %d", b.Shard)
	case b.After >= seq:
		return false, fmt.Sprintf("writer %v names entry %d as one before it", b.Epoch, b.After)
	case Void(seq, b.After):
		b.Void = true
		return true, ""
	case r.knows(b.After, c.last) && *r.at(b.After) != b.Prev:
		return false, fmt.Sprintf("writer %v has the rolling hash %v for entry %d, where it is %v", b.Epoch, b.Prev,
			b.After, *r.at(b.After))
	}
	w, known := r.writers[b.Epoch]
	known = known && seq-w.seq <= forgetWriter
	switch {
	case known && b.No == w.no && b.Hash != w.hash:
		return false, fmt.Sprintf("batch %d of writer %v differs from the one at entry %d", b.No, b.Epoch, w.seq)
	case known && b.No <= w.no: // its numbers were all there
		return true, ""
	case known && b.No != w.no+1:
		return false, fmt.Sprintf("batch %d of writer %v after its batch %d", b.No, b.Epoch, w.no)
	case !known && b.No > 1 && (r.base == 1 || seq-r.base > forgetWriter):
		return false, fmt.Sprintf("writer %v begins with batch %d", b.Epoch, b.No)
	}
	return false, ""
}

// skipped takes an entry without effect, which is c.last now, into the rolling hash. Its bytes are in the log like
// those of every other entry.
func (c *Chain) skipped(hash Hash) {
	r := c.roll
	switch {
	case r == nil: // newRolling takes it
	case r.pending:
		*r.at(c.last) = hash
	default:
		*r.at(c.last) = rollHash(*r.at(c.last - 1), hash)
	}
}

// Unwritten returns how many entries the chain has found that no node has written, and the newest of them; 0, 0 for
// none.
func (c *Chain) Unwritten() (count, newest uint64) { return c.voids, c.voidAt }

// Declared returns how many entries the chain has found that are declared void.
func (c *Chain) Declared() uint64 { return c.given }

// rolled takes an entry that was accepted, which is c.last now, into the rolling hash.
func (c *Chain) rolled(b *Batch, drop bool) {
	r := c.roll
	if b.Epoch == 0 { // of what was lost nothing is known
		r.pending, r.from, r.base = true, c.last, c.last
		clear(r.writers)
		*r.at(c.last) = b.Hash
		return
	}
	if !drop {
		if len(r.writers) >= 64 {
			maps.DeleteFunc(r.writers, func(_ ID, w lane) bool { return c.last-w.seq > forgetWriter })
		}
		r.writers[b.Epoch] = lane{b.No, c.last, b.Hash}
	}
	if r.pending && !b.Void && b.After+1 >= r.from {
		// The entries behind it, which the ring has the hashes of, follow from what it says.
		*r.at(b.After) = b.Prev
		for s := b.After + 1; s < c.last; s++ {
			*r.at(s) = rollHash(*r.at(s - 1), *r.at(s))
		}
		r.pending, r.from = false, b.After
	}
	if r.pending {
		*r.at(c.last) = b.Hash
		if c.last-r.from >= VoidAfter {
			r.from = c.last - VoidAfter
		}
		return
	}
	*r.at(c.last) = rollHash(*r.at(c.last - 1), b.Hash)
}

// Format returns the format of the newest batch, 0 when the chain has seen none.
func (c *Chain) Format() uint16 {
	switch {
	case c.roll != nil:
		return Format3
	case c.last >= c.base:
		return Format1
	}
	return 0
}

// Rolling returns the last entry with the rolling hash there, which a batch of format 3 names. It is not ok while
// the chain does not know it: it began in the middle of a log, or behind a loss, and no batch has said it yet.
func (c *Chain) Rolling() (h Head, ok bool) {
	switch {
	case c.roll == nil && c.last < c.base:
		return Head{Seq: c.last}, c.base == 1
	case c.roll == nil:
		return c.Head(), true
	case c.roll.pending:
		return Head{Seq: c.last}, false
	}
	return Head{c.last, *c.roll.at(c.last)}, true
}

// appendRolling appends what a position has of a log of format 3.
func (c *Chain) appendRolling(b []byte) []byte {
	r, last := c.roll, c.last
	le := binary.LittleEndian
	pending := byte(0)
	if r.pending {
		pending = 1
	}
	b = append(b, pending)
	b = le.AppendUint64(b, c.voids)
	b = le.AppendUint64(b, c.voidAt)
	b = le.AppendUint64(b, r.base)
	from := max(r.from, last+1-min(last+1, VoidAfter))
	b = le.AppendUint64(b, from)
	for s := from; s <= last; s++ {
		b = append(b, r.at(s)[:]...)
	}
	ids := slices.SortedFunc(maps.Keys(r.writers), func(x, y ID) int { return cmp.Compare(x, y) })
	ids = slices.DeleteFunc(ids, func(id ID) bool { return last-r.writers[id].seq > forgetWriter })
	b = le.AppendUint32(b, uint32(len(ids)))
	for _, id := range ids {
		w := r.writers[id]
		b = le.AppendUint64(b, uint64(id))
		b = le.AppendUint64(b, w.no)
		b = le.AppendUint64(b, w.seq)
		b = append(b, w.hash[:]...)
	}
	if c.given > 0 {
		b = le.AppendUint64(b, c.given)
	}
	return b
}

// readRolling reads what appendRolling wrote; nothing may be left.
func (c *Chain) readRolling(b []byte) bool {
	const fixed, each = 33, 40
	le := binary.LittleEndian
	last := c.last
	if len(b) < fixed || b[0] > 1 {
		return false
	}
	c.voids, c.voidAt = le.Uint64(b[1:]), le.Uint64(b[9:])
	r := &rolling{ring: make([]Hash, VoidAfter+1), pending: b[0] == 1, base: le.Uint64(b[17:]), from: le.Uint64(b[25:]),
		writers: map[ID]lane{}}
	b = b[fixed:]
	if c.voidAt > last || (c.voids == 0) != (c.voidAt == 0) || r.from > last+1 ||
		last+1-r.from > VoidAfter || uint64(len(b)) < (last+1-r.from)*16+4 {
		return false
	}
	for s := r.from; s <= last; s++ {
		*r.at(s) = Hash(b[:16])
		b = b[16:]
	}
	n := le.Uint32(b)
	if b = b[4:]; uint64(len(b)) == uint64(n)*each+8 {
		end := len(b) - 8
		if c.given, b = le.Uint64(b[end:]), b[:end]; c.given == 0 {
			return false
		}
	}
	if uint64(len(b)) != uint64(n)*each {
		return false
	}
	before := ID(0)
	for ; len(b) > 0; b = b[each:] {
		id, w := ID(le.Uint64(b)), lane{le.Uint64(b[8:]), le.Uint64(b[16:]), Hash(b[24:40])}
		if id <= before || w.seq > last || last-w.seq > forgetWriter {
			return false
		}
		r.writers[id], before = w, id
	}
	c.roll = r
	return true
}

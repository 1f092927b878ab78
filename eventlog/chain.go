package eventlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// window is how many entries back the entry may be that a batch names: the writer's own last batch, or
// the end of the log where the writer began. A writer that was silent for longer begins a new epoch. So
// a reader remembers no more than this.
const window = 256

// ChainError is the error of an entry that is not what its writer wrote. Nothing after it may be used.
type ChainError struct {
	Shard uint16
	Seq   uint64 // the first entry that is in doubt
	What  string
	// Written: a node of the cluster wrote the entry, so it is not passed over; it can be declared void.
	Written bool
}

// Error says in one line what is wrong.
func (e *ChainError) Error() string {
	hint := ""
	if e.Written {
		hint = "; a node wrote it: if it is the same at every node, see troupe cluster void"
	}
	return fmt.Sprintf("shard %d: entry %d: %s%s", e.Shard, e.Seq, e.What, hint)
}

// link is what the chain remembers of an entry.
type link struct {
	hash  Hash
	epoch ID
	no    uint64 // 0: a Loss stands here
}

// Chain checks the entries of a shard one by one, in order: every sequence is there, every batch is whole, every
// writer's numbers are 1, 2, 3, … and every batch names the hash of the one before it, or in format 3 the rolling hash
// of the log. So the last entry confirms all earlier ones. The zero Chain is not usable. A Chain may be used by one
// goroutine at a time.
//
// A chain cannot see that the end of the log is missing (the acknowledged-end record shows that), nor
// what happened before the place where it began.
type Chain struct {
	shard uint16
	base  uint64 // entries below are unknown: not checked, or trimmed away
	last  uint64 // last entry accepted
	ring  [window]link
	roll  *rolling // of a log of format 3, otherwise nil
	err   error

	keys   *BatchKeys
	unsure uint64 // entries without a right MAC at the beginning of a chain that begins in the middle of a log
	voids  uint64 // entries without effect
	voidAt uint64 // the newest of them
	given  uint64 // entries that were declared void, which are not among them

	voided *voided // what the log behind an unusable entry declares void, by entry; see void.go
}

// NewChain returns a chain that begins with entry from: 1 for the whole log, Info.First for what a
// trim has left.
func NewChain(shard uint16, from uint64) *Chain {
	if from == 0 {
		panic("eventlog: sequences begin with 1")
	}
	return &Chain{shard: shard, base: from, last: from - 1}
}

// Trust gives the chain the keys of a cluster and returns it. From the first batch with a right MAC on, an entry
// without one has no effect (Batch.Unwritten), and the chain goes on behind it. Before that one, which is the first
// that a node has written, it is an error: the log is that of a single machine, or the keys are those of another
// cluster. A chain that begins in the middle of a log passes over what it finds there before its first batch.
func (c *Chain) Trust(k *BatchKeys) *Chain {
	c.keys = k
	return c
}

// Several tells a chain that begins in the middle of a log, with keys, that a cluster has written it from there on, and
// returns it. Without that its first entries may be batches of a single machine, which need no MAC.
func (c *Chain) Several() *Chain {
	if c.roll == nil {
		c.roll = newRolling(c)
	}
	return c
}

// Shard returns the shard.
func (c *Chain) Shard() uint16 { return c.shard }

// Last returns the sequence of the last entry that was accepted.
func (c *Chain) Last() uint64 { return c.last }

// Head returns the last entry and its hash, which the first batch of the next writer names.
func (c *Chain) Head() Head {
	if c.last < c.base {
		return Head{Seq: c.last}
	}
	return Head{c.last, c.at(c.last).hash}
}

// Head is the end of a log that was checked.
type Head struct {
	Seq  uint64
	Hash Hash
}

// Err returns the error that ended the chain, if any.
func (c *Chain) Err() error { return c.err }

func (c *Chain) at(seq uint64) *link { return &c.ring[seq%window] }

// knows says whether the link of an entry is remembered.
func (c *Chain) knows(seq uint64) bool { return seq >= c.base && seq <= c.last && c.last-seq < window }

// Next checks the next entry. repeat means that the batch must be dropped: it was stored before, by a retry that the
// engine did not recognise, and was delivered already; or it has no effect (Batch.Void, Batch.Unwritten). After an
// error the chain has ended and always returns the same error, which names the first sequence in doubt: a *ChainError,
// or a *VersionError where another program has written it.
func (c *Chain) Next(e Entry) (b Batch, repeat bool, err error) { return c.read(e, nil) }

// read is Next on a slate.
func (c *Chain) read(e Entry, on *slate) (b Batch, repeat bool, err error) {
	if c.err != nil {
		return Batch{}, false, c.err
	}
	b, err = parseBatch(e.Data, true, on, c.keys)
	return c.next(e.Seq, b, err)
}

// next is Next for an entry that was parsed before, with this result.
func (c *Chain) next(at uint64, b Batch, parsed error) (_ Batch, repeat bool, err error) {
	if c.err != nil {
		return Batch{}, false, c.err
	}
	seq := c.last + 1
	var what string
	var later *VersionError
	errors.As(parsed, &later)
	unwritten := at == seq && b.mark != marked && c.passes() &&
		(c.roll != nil || b.mark != unmarked || parsed != nil && later == nil)
	switch {
	case at != seq:
		what = fmt.Sprintf("entry %d comes instead", at)
	case unwritten:
		return c.skip(b, parsed), true, nil
	case b.mark == unchecked || b.mark == wrongMAC || b.mark == unknownKey:
		if what = b.mark.String(); b.mark == unknownKey {
			what += ": give every node the same keys.json"
		}
	case later != nil:
		c.err = &VersionError{c.shard, seq, later.Version}
		return Batch{}, false, c.err
	case parsed != nil:
		what = parsed.Error()
	case b.Format == Format3 && b.Epoch != 0:
		repeat, what = c.checkRolling(seq, &b)
	case c.unsure > 0 && b.Epoch != 0:
		what = fmt.Sprintf("a batch of format 1 after entry %d, which is none", c.last)
	default:
		repeat, what = c.check(seq, &b)
	}
	if by, void := c.declared(seq, b.Hash); what != "" && at == seq && void && c.passes() {
		return c.skipDeclared(b, by, what), true, nil
	} else if what != "" {
		c.err = &ChainError{c.shard, seq, what, at == seq && c.passes()}
		return Batch{}, false, c.err
	}
	if b.Epoch == 0 {
		c.accept(link{hash: b.Hash})
	} else {
		c.accept(link{b.Hash, b.Epoch, b.No})
	}
	if c.roll != nil {
		c.rolled(&b, repeat)
	}
	return b, repeat, nil
}

// passes reports whether an entry without a right MAC has no effect, and is not an error.
func (c *Chain) passes() bool {
	return c.keys != nil && (c.roll != nil || c.base > 1 && c.last+1 == c.base+c.unsure)
}

// skip takes the next entry, which has no effect.
func (c *Chain) skip(b Batch, parsed error) Batch {
	b = Batch{Hash: b.Hash, Unwritten: b.mark.String()}
	if parsed != nil {
		b.Unwritten = parsed.Error()
	}
	c.pass(b.Hash)
	c.voids, c.voidAt = c.voids+1, c.last
	return b
}

// skipDeclared takes the next entry, which entry by declares void.
func (c *Chain) skipDeclared(b Batch, by uint64, what string) Batch {
	b = Batch{Hash: b.Hash, Unwritten: voidText(by, what), Declared: by}
	c.pass(b.Hash)
	c.given++
	return b
}

// pass goes on behind an entry without effect.
func (c *Chain) pass(hash Hash) {
	if c.accept(link{hash: hash}); c.roll == nil {
		c.unsure++
	}
	c.skipped(hash)
}

// check compares a batch with what came before it. what is empty when it may stand at seq.
func (c *Chain) check(seq uint64, b *Batch) (repeat bool, what string) {
	// The shard, and the entry that it follows.
	switch before := c.at(b.After); {
	case b.Shard != c.shard:
		return false, fmt.Sprintf("it is a batch of shard %d", b.Shard)
	case b.After >= seq || seq-b.After > window:
		return false, fmt.Sprintf("writer %v names entry %d as the one before it", b.Epoch, b.After)
	case c.roll == nil && c.knows(b.After) && before.hash != b.Prev && (before.no != 0 || b.Epoch == 0):
		// Where a Loss stands, the hash of what was there is not known to later writers; a batch of
		// Repair names the hash of the Loss.
		return false, fmt.Sprintf("writer %v has the hash %v for entry %d, whose hash is %v", b.Epoch, b.Prev, b.After,
			before.hash)
	case b.Epoch == 0:
		return false, checkLoss(seq, b)
	}
	// The writer's numbers.
	newest, same := c.numbers(seq, b)
	if same != 0 {
		if c.at(same).hash != b.Hash {
			return false, fmt.Sprintf("batch %d of writer %v differs from the one at entry %d", b.No, b.Epoch, same)
		}
		return true, ""
	}
	switch known, before := c.knows(b.After), c.at(b.After); {
	case known && before.no == 0 && b.No > newest:
		// It goes on after a Loss; how many of its batches were lost is not known.
	case newest == 0 && b.No > 1 && (known || b.After == 0):
		return false, fmt.Sprintf("writer %v begins with batch %d", b.Epoch, b.No)
	case newest == 0:
		// A new writer, or one whose earlier batches were before the place where the chain began.
	case newest+1 != b.No:
		return false, fmt.Sprintf("batch %d of writer %v after its batch %d", b.No, b.Epoch, newest)
	case !known || before.epoch != b.Epoch || before.no != newest:
		return false, fmt.Sprintf("batch %d of writer %v names entry %d, which is not the writer's batch before", b.No,
			b.Epoch, b.After)
	}
	return false, ""
}

// checkLoss compares a batch of Repair with the place where it stands.
func checkLoss(seq uint64, b *Batch) (what string) {
	for _, r := range b.Events() {
		if loss := r.(*Loss); seq < loss.First || seq > loss.Last || b.After != seq-1 {
			return fmt.Sprintf("a loss of %s stands here", span(loss.First, loss.Last))
		}
	}
	return ""
}

// numbers returns the newest batch number of b's writer in the window before seq, 0 when there is
// none, and the newest entry that has b's own number, 0 when there is none.
func (c *Chain) numbers(seq uint64, b *Batch) (newest, same uint64) {
	for s := max(c.base, seq-min(seq, window)); s < seq; s++ {
		l := c.at(s)
		if l.epoch != b.Epoch || l.no == 0 {
			continue
		}
		if newest = max(newest, l.no); l.no == b.No {
			same = s
		}
	}
	return newest, same
}

func (c *Chain) accept(l link) {
	c.last++
	*c.at(c.last) = l
}

// AppendPosition appends the state of the chain, to go on from here after a restart (RestoreChain).
// It has about 32 bytes for each of the last 256 entries, and of a log of format 3 another 16 bytes for each of
// the last VoidAfter. A chain that ended with an error panics:
// there is no position to go on from.
func (c *Chain) AppendPosition(b []byte) []byte {
	if c.err != nil {
		panic("eventlog: position of a chain that ended")
	}
	start := len(b)
	le := binary.LittleEndian
	b = append(b, positionMagic...)
	b = le.AppendUint16(b, c.shard)
	b = le.AppendUint64(b, c.base)
	b = le.AppendUint64(b, c.last)
	for s := c.oldest(); s <= c.last; s++ {
		l := c.at(s)
		b = append(b, l.hash[:]...)
		b = le.AppendUint64(b, uint64(l.epoch))
		b = le.AppendUint64(b, l.no)
	}
	if c.roll != nil {
		b = c.appendRolling(append(b, 1))
	} else {
		b = append(b, 0)
	}
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// positionMagic begins a position. A byte behind the links says whether the rolling hashes of a log of format 3 follow.
const positionMagic = "TRPP\x04\x00"

// oldest returns the first entry that is remembered, last+1 when none is.
func (c *Chain) oldest() uint64 { return max(c.base, c.last+1-min(c.last, window)) }

// RestoreChain returns the chain of a position. Bytes that AppendPosition did not write are an error
// that wraps ErrMalformed.
func RestoreChain(b []byte) (*Chain, error) {
	const fixed, each = 24, 32
	le := binary.LittleEndian
	bad := func(what string) (*Chain, error) { return nil, fmt.Errorf("position: %s: %w", what, ErrMalformed) }
	if len(b) < fixed+5 || string(b[:6]) != positionMagic {
		return bad("wrong length or magic")
	}
	body := b[:len(b)-4]
	if le.Uint32(b[len(body):]) != crc32.Checksum(body, castagnoli) {
		return bad("wrong checksum")
	}
	c := &Chain{shard: le.Uint16(b[6:]), base: le.Uint64(b[8:]), last: le.Uint64(b[16:])}
	if c.base == 0 || c.last > 1<<62 || c.base > c.last+1 {
		return bad("impossible sequences")
	}
	if links := (c.last + 1 - c.oldest()) * each; uint64(len(body)-fixed) < links+1 {
		return bad("wrong number of links")
	}
	rest := body[fixed:]
	for s := c.oldest(); s <= c.last; s++ {
		*c.at(s) = link{Hash(rest[:16]), ID(le.Uint64(rest[16:])), le.Uint64(rest[24:])}
		rest = rest[each:]
	}
	switch flag := rest[0]; {
	case flag > 1, flag == 0 && len(rest) > 1:
		return bad("wrong number of links")
	case flag == 1 && !c.readRolling(rest[1:]):
		return bad("the rolling hashes are not whole")
	}
	return c, nil
}

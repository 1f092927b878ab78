package eventlog

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"iter"
)

// window is how many entries back a writer may hold on to: its own last batch, or the end of the
// log where it began. A writer that was silent for longer begins a new epoch. It bounds what a
// reader has to remember.
const window = 256

// ChainError says that the log is not what its writers wrote. Nothing after it may be used.
type ChainError struct {
	Shard uint16
	Seq   uint64 // the first entry that is in doubt
	What  string
}

func (e *ChainError) Error() string {
	return fmt.Sprintf("shard %d: entry %d: %s", e.Shard, e.Seq, e.What)
}

// link is what the chain remembers of an entry.
type link struct {
	hash  Hash
	epoch ID
	no    uint64 // 0: a Loss stands here
}

// Chain checks the entries of a shard one by one, in order: every sequence is there, every batch is
// whole, every writer's numbers are 1, 2, 3, … and every batch names the hash of the one before it.
// So the last entry vouches for all. The zero Chain is not usable.
//
// What a chain cannot see: that the end of the log is missing (the witness file can), and what
// happened before the place where it began.
type Chain struct {
	shard uint16
	base  uint64 // entries below are unknown: not checked, or trimmed away
	last  uint64 // last entry accepted
	ring  [window]link
	err   error
}

// NewChain returns a chain that begins with entry from: 1 for the whole log, Info.First for what a
// trim has left.
func NewChain(shard uint16, from uint64) *Chain {
	if from == 0 {
		panic("eventlog: sequences begin with 1")
	}
	return &Chain{shard: shard, base: from, last: from - 1}
}

// Shard returns the shard.
func (c *Chain) Shard() uint16 { return c.shard }

// Last returns the sequence of the last entry that was accepted.
func (c *Chain) Last() uint64 { return c.last }

// Head returns what the next writer holds on to: the last entry and its hash.
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

// Next checks the next entry. repeat means that the batch was stored before, by a retry that the
// engine did not recognise: it was delivered already and must be dropped. After an error the chain
// has ended and returns the same error for ever; it names the first sequence in doubt.
func (c *Chain) Next(e Entry) (b Batch, repeat bool, err error) {
	return c.read(e, nil)
}

// read is Next on a slate.
func (c *Chain) read(e Entry, on *slate) (b Batch, repeat bool, err error) {
	if c.err != nil {
		return Batch{}, false, c.err
	}
	b, err = parseBatch(e.Data, true, on)
	return c.next(e.Seq, b, err)
}

// next is Next for an entry that was parsed before, with this result.
func (c *Chain) next(at uint64, b Batch, parsed error) (_ Batch, repeat bool, err error) {
	if c.err != nil {
		return Batch{}, false, c.err
	}
	seq := c.last + 1
	fail := func(format string, a ...any) (Batch, bool, error) {
		c.err = &ChainError{c.shard, seq, fmt.Sprintf(format, a...)}
		return Batch{}, false, c.err
	}
	if at != seq {
		return fail("entry %d comes instead", at)
	}
	if parsed != nil {
		return fail("%v", parsed)
	}
	if b.Shard != c.shard {
		return fail("it is a batch of shard %d", b.Shard)
	}
	if b.After >= seq || seq-b.After > window {
		return fail("writer %v holds on to entry %d", b.Epoch, b.After)
	}
	// Where a Loss stands, the hash of what was there is no longer known; Repair itself holds on to it.
	if l := c.at(b.After); c.knows(b.After) && l.hash != b.Prev && (l.no != 0 || b.Epoch == 0) {
		return fail("writer %v says entry %d has the hash %v; it has %v", b.Epoch, b.After, b.Prev, l.hash)
	}
	if b.Epoch == 0 {
		for _, r := range b.Events() {
			if loss := r.(*Loss); seq < loss.First || seq > loss.Last || b.After != seq-1 {
				return fail("a loss of %s stands here", span(loss.First, loss.Last))
			}
		}
		c.accept(link{hash: b.Hash})
		return b, false, nil
	}
	// The writer's own numbers: the newest that is remembered, and this one if it is an old one.
	var newest uint64
	for s := max(c.base, seq-min(seq, window)); s < seq; s++ {
		l := c.at(s)
		if l.epoch != b.Epoch || l.no == 0 {
			continue
		}
		if newest = max(newest, l.no); l.no == b.No {
			if l.hash != b.Hash {
				return fail("batch %d of writer %v differs from the one at entry %d", b.No, b.Epoch, s)
			}
			repeat = true
		}
	}
	known, pred := c.knows(b.After), c.at(b.After)
	switch {
	case repeat:
	case known && pred.no == 0 && b.No > newest:
		// It goes on after what was lost; how many of its batches were there, nobody knows.
	case newest > 0 && newest+1 != b.No:
		return fail("batch %d of writer %v after its batch %d", b.No, b.Epoch, newest)
	case newest > 0 && (!known || pred.epoch != b.Epoch || pred.no != newest):
		return fail("batch %d of writer %v holds on to entry %d, which is not its batch before", b.No, b.Epoch, b.After)
	case newest == 0 && b.No > 1 && (known || b.After == 0):
		return fail("writer %v begins with batch %d", b.Epoch, b.No)
	}
	c.accept(link{b.Hash, b.Epoch, b.No})
	return b, repeat, nil
}

func (c *Chain) accept(l link) {
	c.last++
	*c.at(c.last) = l
}

// AppendPosition appends the state of the chain, to go on from here after a restart (RestoreChain).
// It has about 32 bytes for each of the last 256 entries. A chain that ended with an error panics:
// there is no position to go on from.
func (c *Chain) AppendPosition(b []byte) []byte {
	if c.err != nil {
		panic("eventlog: position of a chain that ended")
	}
	start := len(b)
	le := binary.LittleEndian
	b = append(b, "TRPP\x01\x00"...)
	b = le.AppendUint16(b, c.shard)
	b = le.AppendUint64(b, c.base)
	b = le.AppendUint64(b, c.last)
	for s := c.oldest(); s <= c.last; s++ {
		l := c.at(s)
		b = append(b, l.hash[:]...)
		b = le.AppendUint64(b, uint64(l.epoch))
		b = le.AppendUint64(b, l.no)
	}
	return le.AppendUint32(b, crc32.Checksum(b[start:], castagnoli))
}

// oldest returns the first entry that is remembered, last+1 when none is.
func (c *Chain) oldest() uint64 { return max(c.base, c.last+1-min(c.last, window)) }

// RestoreChain returns the chain of a position. Bytes that AppendPosition did not write are an error
// that wraps ErrMalformed.
func RestoreChain(b []byte) (*Chain, error) {
	const fixed, each = 24, 32
	le := binary.LittleEndian
	bad := func(what string) (*Chain, error) { return nil, fmt.Errorf("position: %s: %w", what, ErrMalformed) }
	if len(b) < fixed+4 || string(b[:6]) != "TRPP\x01\x00" {
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
	if uint64(len(body)-fixed) != (c.last+1-c.oldest())*each {
		return bad("wrong number of links")
	}
	rest := body[fixed:]
	for s := c.oldest(); s <= c.last; s++ {
		*c.at(s) = link{Hash(rest[:16]), ID(le.Uint64(rest[16:])), le.Uint64(rest[24:])}
		rest = rest[each:]
	}
	return c, nil
}

// Delivery is a batch that the chain has accepted.
type Delivery struct {
	Seq uint64
	Batch
	// Repeat: the batch was delivered before, under a lower sequence. Drop it.
	Repeat bool
}

// Replay reads the log from where c stands and yields what c accepts, up to and including sequence
// until; nothing when c is there already, as with until = 0, the Last of an empty log. An engine that
// has fewer entries than until makes it wait: it never takes silence for the end. The last thing it
// yields may be an error: ctx's, a *GapError, a *ChainError, or one of the engine.
func Replay(ctx context.Context, log Log, c *Chain, until uint64) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		if c.err != nil {
			yield(Delivery{}, c.err)
			return
		}
		if c.last >= until {
			return
		}
		// Reading and parsing run ahead on other processors; the caller's work is the rest.
		type answer struct {
			parsedEntry
			err error // of the log
		}
		ahead := make(chan answer, 8)
		ctx, cancel := context.WithCancel(ctx)
		go func(from uint64) {
			defer close(ahead)
			if l, ok := log.(*JetStream); ok { // what stands in its files needs no engine
				for p := range l.stored(ctx, c.shard, from, until) {
					ahead <- answer{parsedEntry: p}
					if from = p.seq + 1; from > until {
						return
					}
				}
			}
			for e, err := range log.Read(ctx, c.shard, from) {
				a := answer{err: err}
				if a.seq = e.Seq; err == nil {
					a.batch, a.bad = ParseBatch(e.Data)
				}
				if ahead <- a; err != nil || e.Seq >= until {
					return
				}
			}
		}(c.last + 1)
		defer func() {
			cancel()
			for range ahead { // until the reader has ended
			}
		}()
		for p := range ahead {
			if p.err != nil {
				yield(Delivery{}, p.err)
				return
			}
			b, repeat, err := c.next(p.seq, p.batch, p.bad)
			if err != nil {
				yield(Delivery{}, err)
				return
			}
			if !yield(Delivery{p.seq, b, repeat}, nil) {
				return
			}
		}
	}
}

// parsedEntry is an entry whose batch was parsed, with the result.
type parsedEntry struct {
	seq   uint64
	batch Batch
	bad   error
}

// Follow is Replay without an end: it waits for what will be stored until ctx is done. A delivery and its
// records, with everything they refer to but strings, are valid until the next one is asked for: the memory
// is used again.
func Follow(ctx context.Context, log Log, c *Chain) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		if c.err != nil {
			yield(Delivery{}, c.err)
			return
		}
		entries := log.Read(ctx, c.shard, c.last+1)
		if l, ok := log.(*JetStream); ok { // what this process has just stored need not be asked for
			entries = l.read(ctx, c.shard, c.last+1, true)
		}
		var on slate
		for e, err := range entries {
			if err != nil {
				yield(Delivery{}, err)
				return
			}
			b, repeat, err := c.read(e, &on)
			if err != nil {
				yield(Delivery{}, err)
				return
			}
			if !yield(Delivery{e.Seq, b, repeat}, nil) {
				return
			}
		}
	}
}

// Tail checks a shard from its first entry to its present end and returns the chain.
func Tail(ctx context.Context, log Log, shard uint16) (*Chain, error) {
	info, err := log.Info(ctx, shard)
	if err != nil {
		return nil, err
	}
	c := NewChain(shard, info.First)
	for _, err := range Replay(ctx, log, c, info.Last) {
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

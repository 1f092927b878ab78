package eventlog

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"troupe/timing"
)

// A batch that a node of a cluster wrote, and that is malformed or does not fit the chain, stops every reader: passing
// over it would lose what was acknowledged. An operator can declare it void. The declaration is a control record behind
// it in the log, which names the entry and its hash. A reader that cannot use an entry looks for such a record in the
// rest of the log; where there is one, the entry has no effect, stays in the rolling hash, and is counted with those
// that no node has written. A record that names an entry which readers can use has no effect. So two readers that know
// all before an entry never differ in what counts, only in whether they stop. A chain that begins in the middle may not
// see that a number or a hash is wrong, with declarations as without; folds never begin so.

// declaration says that an entry is void.
type declaration struct {
	hash Hash
	by   uint64 // the entry that says so, 0 while it is not written
}

// voided are declarations by the entry that they are about.
type voided struct{ of map[uint64][]declaration }

// declared returns the entry that declares the entry at seq, of this hash, void.
func (c *Chain) declared(seq uint64, hash Hash) (by uint64, ok bool) {
	if c.voided == nil {
		return 0, false
	}
	for _, d := range c.voided.of[seq] {
		if d.hash == hash {
			return d.by, true
		}
	}
	return 0, false
}

func (c *Chain) declare(seq uint64, d declaration) {
	if c.voided == nil {
		c.voided = &voided{map[uint64][]declaration{}}
	}
	c.voided.of[seq] = append(c.voided.of[seq], d)
}

// declarations takes those of an entry that was parsed.
func (c *Chain) declarations(seq uint64, b *Batch, bad error) {
	if bad != nil || b.mark != marked {
		return
	}
	for _, r := range b.records {
		if x, ok := r.(*Control); ok && x.Act == VoidEntry && x.AtSeq < seq {
			c.declare(x.AtSeq, declaration{Hash(x.Data), seq})
		}
	}
}

// unusable reports whether the chain ended at an entry that a node wrote, and that can be declared void.
func (c *Chain) unusable() bool {
	var e *ChainError
	return errors.As(c.err, &e) && e.Written
}

// goOn lets a chain that ended at an entry go on there, after the rest of the log was looked through, if something
// there declares that entry void.
func (c *Chain) goOn() bool {
	if c.voided == nil || len(c.voided.of[c.last+1]) == 0 {
		return false
	}
	c.err = nil
	return true
}

// forgive looks for a record that declares the entry void at which the chain ended.
func (c *Chain) forgive(ctx context.Context, log Log) bool {
	if !c.unusable() {
		return false
	}
	info, err := log.Info(ctx, c.shard)
	from := c.last + 2
	if err != nil || info.Last < from {
		return false
	}
	for e, err := range log.Read(ctx, c.shard, from) {
		if err != nil {
			return false
		}
		b, bad := parseBatch(e.Data, true, nil, c.keys)
		if c.declarations(e.Seq, &b, bad); e.Seq >= info.Last {
			break
		}
	}
	return c.goOn()
}

// forgiveIn is forgive for block files.
func (c *Chain) forgiveIn(names []string, numbers []uint32) bool {
	if !c.unusable() {
		return false
	}
	for block := range readBlocks(names, numbers, c.shard, true, c.keys) {
		if block.err != nil {
			return false
		}
		for i := range block.parts {
			if p := &block.parts[i]; p.size > 0 && !p.tomb && !p.erased && p.seq > c.last+1 {
				c.declarations(p.seq, &p.batch, p.parsed)
			}
		}
	}
	return c.goOn()
}

// Unusable is an entry that a node wrote and that no reader can use.
type Unusable struct {
	Seq     uint64
	Bytes   int
	Hash    Hash
	What    string // why
	Records int    // that can be read of it, though it does not fit the log; -1 for none
	By      uint64 // the entry that declares it void; 0 for none
}

// Survey is what FindUnusable found in a log.
type Survey struct {
	// Unusable are the entries that no reader can use, also those that are declared void, in the order of the log.
	Unusable []Unusable

	log     Log
	keys    *BatchKeys
	several bool
	chain   *Chain // at the end
	version uint16 // the highest one of a batch
}

// FindUnusable reads a cluster's log from its first entry to its end and finds the entries that a node wrote and no
// reader can use. imported is the last entry that came from a single machine, 0 for none. What cannot be declared void
// is an error.
func FindUnusable(ctx context.Context, log Log, keys *BatchKeys, imported uint64) (*Survey, error) {
	info, err := log.Info(ctx, 0)
	if err != nil {
		return nil, err
	}
	s := &Survey{log: log, keys: keys, several: info.First > 1 && info.First > imported}
	s.chain = NewChain(0, info.First).Trust(keys)
	if s.several {
		s.chain.Several()
	}
	return s, s.read(ctx, info.Last)
}

// read goes on up to entry until.
func (s *Survey) read(ctx context.Context, until uint64) error {
	c := s.chain
	for c.Last() < until {
		for d, err := range Replay(ctx, s.log, c, until) {
			var bad *ChainError
			switch {
			case err == nil && d.Declared > 0:
				err = s.add(ctx, d.Seq, d.Unwritten, d.Declared)
			case err == nil:
				s.version = max(s.version, d.Version)
			case c.unusable() && errors.As(err, &bad):
				err = s.add(ctx, bad.Seq, bad.What, 0)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// add takes an entry that no reader can use. Where nothing declares it void, the chain goes on as if something did.
func (s *Survey) add(ctx context.Context, seq uint64, what string, by uint64) error {
	e, err := s.log.Get(ctx, 0, seq)
	if err != nil {
		return err
	}
	u := Unusable{Seq: seq, Bytes: len(e.Data), Hash: HashBatch(e.Data), What: what, Records: -1, By: by}
	if b, err := ParseBatch(e.Data); err == nil {
		u.Records = int(b.Count)
	}
	s.Unusable = append(s.Unusable, u)
	if by == 0 {
		s.chain.declare(seq, declaration{hash: u.Hash})
		s.chain.err = nil
	}
	return nil
}

// Left returns the entries that nothing declares void yet.
func (s *Survey) Left() []Unusable {
	return slices.DeleteFunc(slices.Clone(s.Unusable), func(u Unusable) bool { return u.By > 0 })
}

// DeclareVoid writes the record that declares Left void, reads the log again as every node will, and returns the entry
// of the record, 0 where nothing is left. Several processes may do it at a time.
func (s *Survey) DeclareVoid(ctx context.Context, caller string, now time.Time) (uint64, error) {
	left := s.Left()
	if len(left) == 0 {
		return 0, nil
	}
	head, ok := s.chain.Rolling()
	if !ok {
		return 0, fmt.Errorf("the rolling hash at entry %d is not known: no entry says it", s.chain.Last())
	}
	epoch, err := randomID()
	if err != nil {
		return 0, err
	}
	var records []Record
	id := sha256.New()
	for _, u := range left {
		records = append(records, &Control{Act: VoidEntry, AtSeq: u.Seq, Data: u.Hash[:], Caller: caller,
			Time: now.UnixNano()})
		fmt.Fprintf(id, "%d %v\n", u.Seq, u.Hash)
	}
	b, err := s.keys.Append(nil, Header{Format: Format3, Version: s.version, Epoch: epoch, No: 1, After: head.Seq,
		Prev: head.Hash, Time: now.UnixNano()}, records...)
	if err != nil {
		return 0, err
	}
	var seq uint64
	for { // under one id it is stored once
		seq, _, err = s.log.Append(ctx, 0, "void/"+hex.EncodeToString(id.Sum(nil)[:16]), b)
		if err == nil || !errors.Is(err, ErrUnknown) && !errors.Is(err, ErrDown) ||
			!(timing.Clock{}).Sleep(ctx, firstRetry) {
			break
		}
	}
	if err != nil {
		return 0, err
	}
	for _, err := range Replay(ctx, s.log, s.again(), seq) {
		if err != nil {
			return seq, err
		}
	}
	return seq, nil
}

// again returns a chain at the beginning of the log.
func (s *Survey) again() *Chain {
	c := NewChain(0, s.chain.base).Trust(s.keys)
	if s.several {
		c.Several()
	}
	return c
}

// voidText says what an entry has that was declared void.
func voidText(by uint64, what string) string {
	if by == 0 {
		return what
	}
	return fmt.Sprintf("declared void by entry %d: %s", by, strings.TrimPrefix(what, "batch: "))
}

package eventlog

import (
	"context"
	"iter"
)

// Delivery is a batch that the chain has accepted.
type Delivery struct {
	Seq uint64
	Batch
	// Repeat: the batch was delivered before, under a lower sequence. Drop it.
	Repeat bool
}

// Replay reads the log from where c stands and yields what c accepts, up to and including sequence
// until; nothing when c is there already, as with until = 0, the Last of an empty log. It waits for an
// engine that has fewer entries than until: silence is not the end. The last thing that it yields may be
// an error: ctx's, a *GapError, a *ChainError, or one of the engine.
func Replay(ctx context.Context, log Log, c *Chain, until uint64) iter.Seq2[Delivery, error] {
	return func(yield func(Delivery, error) bool) {
		if c.err != nil {
			yield(Delivery{}, c.err)
			return
		}
		if c.last >= until {
			return
		}
		// Reading and parsing run ahead in another goroutine.
		type answer struct {
			parsedEntry
			err error // of the log
		}
		ahead := make(chan answer, 8)
		ctx, cancel := context.WithCancel(ctx)
		go func(from uint64) {
			defer close(ahead)
			for e, err := range log.Read(ctx, c.shard, from) {
				a := answer{err: err}
				if a.seq = e.Seq; err == nil {
					a.batch, a.bad = parseBatch(e.Data, true, nil, c.keys)
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
			if err != nil && c.forgive(ctx, log) {
				b, repeat, err = c.next(p.seq, p.batch, p.bad)
			}
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

// lendingLog is an optional ability of a Log: follow is Read, but the bytes of an entry are valid only until the next
// one is asked for.
type lendingLog interface {
	follow(ctx context.Context, shard uint16, from uint64) iter.Seq2[Entry, error]
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
		if l, ok := log.(lendingLog); ok {
			entries = l.follow(ctx, c.shard, c.last+1)
		}
		var on slate
		for e, err := range entries {
			if err != nil {
				yield(Delivery{}, err)
				return
			}
			b, repeat, err := c.read(e, &on)
			if err != nil && c.forgive(ctx, log) {
				b, repeat, err = c.read(e, &on)
			}
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

// Tail checks a shard from its first entry to its present end and returns the chain. keys are as in Verify.
func Tail(ctx context.Context, log Log, shard uint16, keys *BatchKeys) (*Chain, error) {
	info, err := log.Info(ctx, shard)
	if err != nil {
		return nil, err
	}
	c := NewChain(shard, info.First).Trust(keys)
	for _, err := range Replay(ctx, log, c, info.Last) {
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

// NewestVersion returns the log version of the newest batch of a shard, 0 when nothing was ever stored. A
// writer never uses a lower one. With keys, behind entries without a right MAC, the newest is the one before them; of a
// log that ends with more than 64 such entries it is 0.
func NewestVersion(ctx context.Context, log Log, shard uint16, keys *BatchKeys) (uint16, error) {
	info, err := log.Info(ctx, shard)
	if err != nil || info.Last == 0 {
		return 0, err
	}
	for seq := info.Last; ; seq-- {
		e, err := log.Get(ctx, shard, seq)
		if err != nil {
			return 0, err
		}
		b, err := parseBatch(e.Data, false, nil, keys)
		switch ours := b.mark == marked || b.mark == unmarked && err == nil; {
		case ours || keys == nil:
			return b.Version, err
		case seq == info.First || info.Last-seq >= 64: // the version of what is folded counts then
			return 0, nil
		}
	}
}

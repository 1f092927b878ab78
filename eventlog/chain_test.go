package eventlog

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// scribe writes batches as a Committer does, without one.
type scribe struct {
	epoch ID
	no    uint64
	after Head
}

func (w *scribe) next(t failer, shard uint16, records ...Record) []byte {
	t.Helper()
	if len(records) == 0 {
		records = []Record{&Activate{Event: Event{w.epoch, w.no + 1, 0}}}
	}
	b, err := AppendBatch(nil, Header{Shard: shard, Epoch: w.epoch, No: w.no + 1, After: w.after.Seq, Prev: w.after.Hash}, records...)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// wrote tells the scribe where its batch is.
func (w *scribe) wrote(b []byte, seq uint64) { w.no, w.after = w.no+1, Head{seq, HashBatch(b)} }

// genLog draws a log of n entries by several writers, some of whom begin late.
func genLog(t *rapid.T, n int) []Entry {
	var log []Entry
	var writers []*scribe
	var head Head
	for len(log) < n {
		k := rapid.IntRange(0, len(writers)).Draw(t, "writer")
		if k == len(writers) {
			writers = append(writers, &scribe{epoch: ID(100 + k), after: head})
		}
		w := writers[k]
		b := w.next(t, 3)
		seq := uint64(len(log) + 1)
		log = append(log, Entry{seq, b})
		w.wrote(b, seq)
		head = w.after
	}
	return log
}

func feed(c *Chain, log []Entry) (repeats int, err error) {
	for _, e := range log {
		_, repeat, err := c.Next(e)
		if err != nil {
			return repeats, err
		}
		if repeat {
			repeats++
		}
	}
	return repeats, nil
}

// renumber gives entries the sequences 1, 2, 3, … as an engine that lost or doubled something does.
func renumber(log []Entry) []Entry {
	out := slices.Clone(log)
	for i := range out {
		out[i].Seq = uint64(i + 1)
	}
	return out
}

// TestChain: logs that writers wrote are accepted, from the beginning, from any position and from
// any place after a trim; and every way to change one entry or its place is refused.
func TestChain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 40).Draw(t, "n")
		log := genLog(t, n)
		c := NewChain(3, 1)
		if repeats, err := feed(c, log); err != nil || repeats != 0 {
			t.Fatalf("%d repeats, error %v", repeats, err)
		}
		if c.Last() != uint64(n) || c.Head() != (Head{uint64(n), HashBatch(log[n-1].Data)}) {
			t.Fatalf("head %v", c.Head())
		}
		k := rapid.IntRange(1, n-1).Draw(t, "k")

		// From a position.
		half := NewChain(3, 1)
		if _, err := feed(half, log[:k]); err != nil {
			t.Fatal(err)
		}
		pos := half.AppendPosition(nil)
		back, err := RestoreChain(pos)
		if err != nil || *back != *half || !bytes.Equal(back.AppendPosition(nil), pos) {
			t.Fatalf("position: %v", err)
		}
		if _, err := feed(back, log[k:]); err != nil || back.Head() != c.Head() {
			t.Fatalf("from a position: %v", err)
		}
		// From the middle.
		if _, err := feed(NewChain(3, uint64(k+1)), log[k:]); err != nil {
			t.Fatalf("from %d: %v", k+1, err)
		}

		// Now the faults. Each must be an error at or after the place, never silence.
		refuse := func(what string, bad []Entry, from int) {
			t.Helper()
			_, err := feed(NewChain(3, 1), bad)
			var ce *ChainError
			if !errors.As(err, &ce) || ce.Seq < uint64(from+1) || ce.Shard != 3 {
				t.Fatalf("%s at %d of %d: error %v", what, from+1, n, err)
			}
		}
		i := k - 1
		refuse("gap", slices.Delete(slices.Clone(log), i, i+1), i)
		flipped := slices.Clone(log)
		flipped[i].Data = bytes.Clone(log[i].Data)
		flipped[i].Data[rapid.IntRange(0, len(log[i].Data)-1).Draw(t, "byte")] ^= 1
		refuse("bit flip", flipped, i)
		swapped := slices.Clone(log)
		swapped[i].Data, swapped[i+1].Data = log[i+1].Data, log[i].Data
		if _, err := feed(NewChain(3, 1), swapped); err == nil {
			// Two writers who knew nothing of each other may have come in either order; anything
			// that holds on to what was swapped must be refused.
			if a, _ := ParseBatch(log[i+1].Data); a.After == uint64(i+1) {
				t.Fatalf("entries %d and %d swapped unnoticed", i+1, i+2)
			}
			for _, e := range log[i+2:] {
				if b, _ := ParseBatch(e.Data); b.After == uint64(i+1) || b.After == uint64(i+2) {
					t.Fatalf("entries %d and %d swapped unnoticed by entry %d", i+1, i+2, e.Seq)
				}
			}
		}
		// A lost entry whose sequence was used again: noticed unless nothing later knows of it.
		refused := false
		for _, e := range log[i+1:] {
			if b, _ := ParseBatch(e.Data); b.After > uint64(i) {
				refused = true
			}
		}
		if _, err := feed(NewChain(3, 1), renumber(slices.Delete(slices.Clone(log), i, i+1))); (err != nil) != refused {
			t.Fatalf("entry %d of %d lost, renumbered: error %v, want one: %v", i+1, n, err, refused)
		}
		// Doubled by a retry, next to each other and before its writer went on: a repeat.
		doubled := renumber(slices.Insert(slices.Clone(log[:k]), k, log[i]))
		if repeats, err := feed(NewChain(3, 1), doubled); err != nil || repeats != 1 {
			t.Fatalf("doubled at %d: %d repeats, error %v", i+1, repeats, err)
		}
	})
}

// TestChainRules: one example for each sentence the chain can refuse with.
func TestChainRules(t *testing.T) {
	make3 := func() []Entry {
		w := &scribe{epoch: 7}
		var log []Entry
		for seq := uint64(1); seq <= 3; seq++ {
			b := w.next(t, 0)
			log = append(log, Entry{seq, b})
			w.wrote(b, seq)
		}
		return log
	}
	batch := func(h Header, r ...Record) []byte {
		if len(r) == 0 {
			r = []Record{&Activate{Event: Event{1, 1, 0}}}
		}
		b, err := AppendBatch(nil, h, r...)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	log := make3()
	h3 := HashBatch(log[2].Data)
	for _, c := range []struct {
		what string
		next Entry
		want string // "" accepts
	}{
		{"next", Entry{4, batch(Header{Epoch: 7, No: 4, After: 3, Prev: h3})}, ""},
		{"new writer", Entry{4, batch(Header{Epoch: 8, No: 1, After: 3, Prev: h3})}, ""},
		{"new writer who saw less", Entry{4, batch(Header{Epoch: 8, No: 1, After: 2, Prev: HashBatch(log[1].Data)})}, ""},
		{"new writer who saw nothing", Entry{4, batch(Header{Epoch: 8, No: 1})}, ""},
		{"repeat", Entry{4, log[2].Data}, ""},
		{"loss", Entry{4, batch(Header{Epoch: 0, No: 1, After: 3, Prev: h3}, &Loss{First: 4, Last: 9})}, ""},
		{"gap", Entry{5, log[2].Data}, "entry 5 comes instead"},
		{"again", Entry{3, log[2].Data}, "entry 3 comes instead"},
		{"other shard", Entry{4, batch(Header{Shard: 1, Epoch: 7, No: 4, After: 3, Prev: h3})}, "batch of shard 1"},
		{"future", Entry{4, batch(Header{Epoch: 8, No: 1, After: 4, Prev: h3})}, "names entry 4 as the one before it"},
		{"wrong hash", Entry{4, batch(Header{Epoch: 7, No: 4, After: 3, Prev: Hash{1}})}, "has the hash 01000000000000000000000000000000 for entry 3, whose hash is " + h3.String()},
		{"skipped number", Entry{4, batch(Header{Epoch: 7, No: 5, After: 3, Prev: h3})}, "batch 5 of writer 0000000000000007 after its batch 3"},
		{"old number", Entry{4, batch(Header{Epoch: 7, No: 2, After: 3, Prev: h3})}, "batch 2 of writer 0000000000000007 differs from the one at entry 2"},
		{"fork", Entry{4, batch(Header{Epoch: 7, No: 3, After: 2, Prev: HashBatch(log[1].Data), Time: 1})}, "batch 3 of writer 0000000000000007 differs from the one at entry 3"},
		{"second beginning", Entry{4, batch(Header{Epoch: 7, No: 1, After: 3, Prev: h3})}, "differs from the one at entry 1"},
		{"not its own batch", Entry{4, batch(Header{Epoch: 7, No: 4, After: 2, Prev: HashBatch(log[1].Data)})}, "is not the writer's batch before"},
		{"no beginning", Entry{4, batch(Header{Epoch: 8, No: 2, After: 3, Prev: h3})}, "begins with batch 2"},
		{"no beginning, empty", Entry{4, batch(Header{Epoch: 8, No: 2})}, "begins with batch 2"},
		{"loss elsewhere", Entry{4, batch(Header{Epoch: 0, No: 1, After: 3, Prev: h3}, &Loss{First: 5, Last: 9})}, "a loss of 5–9 stands here"},
		{"loss not linked", Entry{4, batch(Header{Epoch: 0, No: 1, After: 2, Prev: HashBatch(log[1].Data)}, &Loss{First: 4, Last: 4})}, "a loss of 4 stands here"},
		{"garbage", Entry{4, []byte("garbage")}, "the header alone has 72"},
	} {
		chain := NewChain(0, 1)
		if _, err := feed(chain, log); err != nil {
			t.Fatal(err)
		}
		_, repeat, err := chain.Next(c.next)
		if c.want == "" {
			if err != nil || repeat != (c.what == "repeat") {
				t.Errorf("%s: repeat %v, error %v", c.what, repeat, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", c.what, err, c.want)
			continue
		}
		// It has ended for good, and changed nothing.
		if _, _, again := chain.Next(Entry{4, batch(Header{Epoch: 7, No: 4, After: 3, Prev: h3})}); again != err || chain.Last() != 3 {
			t.Errorf("%s: went on after its error: %v", c.what, again)
		}
	}

	// After a loss, a writer that held on to what was lost goes on; its batch still vouches for the
	// order but nobody can check the hash.
	lost := NewChain(0, 1)
	if _, err := feed(lost, log[:1]); err != nil {
		t.Fatal(err)
	}
	after := HashBatch(log[0].Data)
	for seq := uint64(2); seq <= 3; seq++ {
		b := batch(Header{Epoch: 0, No: 1, After: seq - 1, Prev: after}, &Loss{First: 2, Last: 3, Reason: "test"})
		if _, _, err := lost.Next(Entry{seq, b}); err != nil {
			t.Fatal(err)
		}
		after = HashBatch(b)
	}
	if _, _, err := lost.Next(Entry{4, batch(Header{Epoch: 7, No: 4, After: 3, Prev: h3})}); err != nil {
		// Writer 7's batch 1 is remembered and 2 and 3 are lost: its number jumps, over a loss.
		t.Errorf("after a loss: %v", err)
	}
}

// TestChainWindow: a long log is checked with bounded memory, and a batch that names an entry too far back
// is refused.
func TestChainWindow(t *testing.T) {
	old := &scribe{epoch: 1}
	var log []Entry
	put := func(w *scribe) {
		b := w.next(t, 0)
		log = append(log, Entry{uint64(len(log) + 1), b})
		w.wrote(b, uint64(len(log)))
	}
	put(old)
	busy := &scribe{epoch: 2, after: old.after}
	for range window - 1 {
		put(busy)
	}
	ok := append(slices.Clone(log), Entry{window + 1, old.next(t, 0)})
	if _, err := feed(NewChain(0, 1), ok); err != nil {
		t.Errorf("%d entries back: %v", window, err)
	}
	put(busy)
	late := append(slices.Clone(log), Entry{window + 2, old.next(t, 0)})
	if _, err := feed(NewChain(0, 1), late); err == nil || !strings.Contains(err.Error(), "names entry 1 as the one before it") {
		t.Errorf("%d entries back: %v", window+1, err)
	}
	for range 3 * window {
		put(busy)
	}
	c := NewChain(0, 1)
	if _, err := feed(c, log); err != nil {
		t.Fatal(err)
	}
	if n := len(c.AppendPosition(nil)); n > 29+32*window {
		t.Errorf("a position of %d bytes", n)
	}
}

func FuzzPosition(f *testing.F) {
	c := NewChain(2, 1)
	w := &scribe{epoch: 7}
	for seq := uint64(1); seq <= 3; seq++ {
		f.Add(c.AppendPosition(nil))
		b := w.next(f, 2)
		if _, _, err := c.Next(Entry{seq, b}); err != nil {
			f.Fatal(err)
		}
		w.wrote(b, seq)
	}
	f.Add(c.AppendPosition(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		c, err := RestoreChain(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if again := c.AppendPosition(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x is accepted and written %x", b, again)
		}
		_, _, _ = c.Next(Entry{c.Last() + 1, []byte(fmt.Sprint(c.Head()))})
	})
}

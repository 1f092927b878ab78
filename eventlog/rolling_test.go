package eventlog

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// rolls computes the rolling hashes of a log of format 3 by their definition; element k is R_k.
func rolls(log []Entry) []Hash {
	out := []Hash{{}}
	for i, e := range log {
		out = append(out, rollHash(out[i], HashBatch(e.Data)))
	}
	return out
}

// node writes batches of format 3.
type node struct {
	epoch ID
	no    uint64
}

func (w *node) next(t failer, after uint64, roll Hash, time int64) []byte {
	t.Helper()
	b, err := testBatchKeys.Append(nil, Header{Format: Format3, Shard: 3, Epoch: w.epoch, No: w.no + 1, After: after, Prev: roll, Time: time},
		&Activate{Event: Event{w.epoch, w.no + 1, 0}})
	if err != nil {
		t.Fatal(err)
	}
	w.no++
	return b
}

// genNodes draws a log of n entries by three nodes, each of which is some entries behind. seen is the newest entry
// that a batch names, so everything up to it is vouched for.
func genNodes(t *rapid.T, n int) (log []Entry, seen uint64) {
	nodes := []*node{{epoch: 7}, {epoch: 8}, {epoch: 9}}
	applied := make([]uint64, len(nodes))
	for len(log) < n {
		k := rapid.IntRange(0, len(nodes)-1).Draw(t, "writer")
		applied[k] = rapid.Uint64Range(applied[k], uint64(len(log))).Draw(t, "applied")
		roll := rolls(log)[applied[k]]
		log = append(log, Entry{uint64(len(log) + 1), nodes[k].next(t, applied[k], roll, rapid.Int64Range(1, 1<<40).Draw(t, "time"))})
		seen = max(seen, applied[k])
	}
	return log, seen
}

// TestRolling: the logs of several writers are accepted, from the beginning, from a position and from the middle,
// with the same rolling hash; and an entry that a later batch has seen cannot be exchanged, left out or moved.
func TestRolling(t *testing.T) {
	beside(t)
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(3, 30).Draw(t, "n")
		log, seen := genNodes(t, n)
		want := rolls(log)[n]
		c := NewChain(3, 1).Trust(testBatchKeys)
		if repeats, err := feed(c, log); err != nil || repeats != 0 {
			t.Fatalf("%d repeats, error %v", repeats, err)
		}
		if h, ok := c.Rolling(); !ok || h != (Head{uint64(n), want}) || c.Head() != (Head{uint64(n), HashBatch(log[n-1].Data)}) || c.Format() != Format3 {
			t.Fatalf("rolling %v, %v, head %v, format %d", h, ok, c.Head(), c.Format())
		}
		k := rapid.IntRange(1, n-1).Draw(t, "k")
		half := NewChain(3, 1).Trust(testBatchKeys)
		if _, err := feed(half, log[:k]); err != nil {
			t.Fatal(err)
		}
		position := half.AppendPosition(nil)
		back, err := RestoreChain(position)
		if err != nil || !bytes.Equal(back.AppendPosition(nil), position) {
			t.Fatalf("position: %v", err)
		}
		_, err = feed(back.Trust(testBatchKeys), log[k:])
		if h, ok := back.Rolling(); err != nil || !ok || h.Hash != want {
			t.Fatalf("from a position: %v, rolling %v", err, h)
		}
		// From the middle the rolling hash is known as soon as a batch names an entry from there on.
		middle := NewChain(3, uint64(k+1)).Trust(testBatchKeys)
		if _, err = feed(middle, log[k:]); err != nil {
			t.Fatal(err)
		}
		if h, ok := middle.Rolling(); ok != (seen >= uint64(k)) || ok && h.Hash != want {
			t.Fatalf("from %d: rolling %v, %v, newest seen %d", k+1, h, ok, seen)
		}
		if again, err := RestoreChain(middle.AppendPosition(nil)); err != nil || !bytes.Equal(again.AppendPosition(nil), middle.AppendPosition(nil)) {
			t.Fatalf("position from the middle: %v", err)
		}

		refuse := func(what string, bad []Entry) {
			t.Helper()
			var ce *ChainError
			if _, err := feed(NewChain(3, 1).Trust(testBatchKeys), bad); !errors.As(err, &ce) || ce.Seq < uint64(k) {
				t.Fatalf("%s at %d of %d, seen up to %d: error %v", what, k, n, seen, err)
			}
		}
		if uint64(k) > seen {
			return
		}
		old, _ := ParseBatch(log[k-1].Data)
		other := slices.Clone(log)
		other[k-1].Data = must(testBatchKeys.Append(nil, old.Header, &Activate{Event: Event{1, 1, 0}, Time: 5}))
		refuse("another whole batch with the right number", other)
		refuse("left out", renumber(slices.Delete(slices.Clone(log), k-1, k)))
		swapped := slices.Clone(log)
		swapped[k-1].Data, swapped[k].Data = log[k].Data, log[k-1].Data
		refuse("swapped", swapped)
	})
}

// TestRollingRules: one example for each sentence, and for what has no effect.
func TestRollingRules(t *testing.T) {
	a, b := &node{epoch: 7}, &node{epoch: 8}
	log := []Entry{{1, a.next(t, 0, Hash{}, 1)}}
	log = append(log, Entry{2, b.next(t, 1, rolls(log)[1], 1)})
	log = append(log, Entry{3, a.next(t, 2, rolls(log)[2], 1)})
	r := rolls(log)
	batch := func(h Header, records ...Record) []byte {
		if h.Shard = 3; h.Epoch != 0 && h.Format == 0 {
			h.Format = Format3
		}
		if h.Epoch == 0 {
			h.Format = Format3
		}
		if len(records) == 0 {
			records = []Record{&Activate{Event: Event{1, 1, 0}}}
		}
		return must(testBatchKeys.Append(nil, h, records...))
	}
	for _, c := range []struct {
		what string
		data []byte
		want string // "" accepts
		drop bool
	}{
		{"next", batch(Header{Epoch: 7, No: 3, After: 3, Prev: r[3]}), "", false},
		{"behind", batch(Header{Epoch: 8, No: 2, After: 1, Prev: r[1]}), "", false},
		{"new writer", batch(Header{Epoch: 9, No: 1}), "", false},
		{"repeat", log[1].Data, "", true},
		{"old number", log[0].Data, "", true},
		{"other batch", batch(Header{Epoch: 8, No: 1, After: 3, Prev: r[3]}), "differs from the one at entry 2", false},
		{"skipped", batch(Header{Epoch: 7, No: 4, After: 3, Prev: r[3]}), "batch 4 of writer 0000000000000007 after its batch 2", false},
		{"no beginning", batch(Header{Epoch: 9, No: 2, After: 3, Prev: r[3]}), "begins with batch 2", false},
		{"wrong hash", batch(Header{Epoch: 7, No: 3, After: 3, Prev: r[2]}), "rolling hash " + r[2].String(), false},
		{"future", batch(Header{Epoch: 7, No: 3, After: 4, Prev: r[3]}), "names entry 4", false},
		{"format 1", batch(Header{Format: Format1, Epoch: 7, No: 3, After: 3, Prev: HashBatch(log[2].Data)}), "", true},
		{"loss", batch(Header{No: 1, After: 3, Prev: HashBatch(log[2].Data)}, &Loss{First: 4, Last: 4}), "", false},
	} {
		chain := NewChain(3, 1).Trust(testBatchKeys)
		if _, err := feed(chain, log); err != nil {
			t.Fatal(err)
		}
		_, drop, err := chain.Next(Entry{4, c.data})
		if c.want == "" && (err != nil || drop != c.drop) || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: drop %v, error %v, want %q", c.what, drop, err, c.want)
		}
	}
	// Behind a batch of format 1, whose hash is the rolling hash there.
	w := &scribe{epoch: 5}
	first := w.next(t, 3)
	mixed := []Entry{{1, first}, {2, a.nextFrom(t, 1, HashBatch(first))}}
	chain := NewChain(3, 1).Trust(testBatchKeys)
	if _, err := feed(chain, mixed); err != nil {
		t.Error(err)
	}
	if h, ok := chain.Rolling(); !ok || h.Hash != rollHash(HashBatch(first), HashBatch(mixed[1].Data)) {
		t.Errorf("rolling %v, %v", h, ok)
	}
}

// nextFrom is next of a writer with another epoch.
func (w *node) nextFrom(t failer, after uint64, roll Hash) []byte {
	return (&node{epoch: w.epoch + 100}).next(t, after, roll, 1)
}

// TestVoid: a batch that names an entry too far back has no effect, wherever it is read from; the others go on, and
// so does its writer under another epoch.
func TestVoid(t *testing.T) {
	beside(t)
	idle, busy := &node{epoch: 7}, &node{epoch: 8}
	log := []Entry{{1, idle.next(t, 0, Hash{}, 1)}}
	roll := []Hash{{}, rollHash(Hash{}, HashBatch(log[0].Data))}
	put := func(b []byte) {
		log = append(log, Entry{uint64(len(log) + 1), b})
		roll = append(roll, rollHash(roll[len(roll)-1], HashBatch(b)))
	}
	for len(log) < VoidAfter {
		put(busy.next(t, uint64(len(log)), roll[len(log)], 1))
	}
	for _, late := range []bool{false, true} {
		if late {
			put(busy.next(t, uint64(len(log)), roll[len(log)], 1))
		}
		c := NewChain(3, 1).Trust(testBatchKeys)
		if _, err := feed(c, log); err != nil {
			t.Fatal(err)
		}
		back, err := RestoreChain(c.AppendPosition(nil))
		if err != nil {
			t.Fatal(err)
		}
		back.Trust(testBatchKeys)
		at := uint64(len(log) + 1)
		b := (&node{epoch: 7, no: 1}).next(t, 1, roll[1], 1)
		after := busy.next(t, at, rollHash(roll[at-1], HashBatch(b)), 1)
		busy.no--
		middle := NewChain(3, at-100).Trust(testBatchKeys)
		if _, err := feed(middle, log[len(log)-100:]); err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]*Chain{"all": c, "position": back, "middle": middle} {
			got, drop, err := c.Next(Entry{at, b})
			if err != nil || drop != late || got.Void != late || Void(at, 1) != late {
				t.Errorf("%s: at %d: drop %v, void %v, error %v", name, at, drop, got.Void, err)
			}
			if _, drop, err = c.Next(Entry{at + 1, after}); err != nil || drop {
				t.Errorf("%s: the others do not go on: %v, %v", name, drop, err)
			}
		}
	}
	if testing.Short() {
		return
	}
	// A position holds what the next batches need, and no more however long the log is.
	c := NewChain(3, 1).Trust(testBatchKeys)
	for len(log) < 3*VoidAfter {
		put(busy.next(t, uint64(len(log)), roll[len(log)], 1))
	}
	if _, err := feed(c, log); err != nil {
		t.Fatal(err)
	}
	if n := len(c.AppendPosition(nil)); n > 28+32*window+16*VoidAfter+100 {
		t.Errorf("a position of %d bytes", n)
	}
	back, err := RestoreChain(c.AppendPosition(nil))
	if err != nil {
		t.Fatal(err)
	}
	back.Trust(testBatchKeys)
	if _, err := feed(back, []Entry{{uint64(len(log) + 1), busy.next(t, uint64(len(log)-VoidAfter+1), roll[len(log)-VoidAfter+1], 1)}}); err != nil {
		t.Error(err)
	}
}

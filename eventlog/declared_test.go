package eventlog

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// sliceLog is a log that ends.
type sliceLog struct {
	Log
	entries []Entry
	ids     map[string]uint64
}

func (l *sliceLog) Info(context.Context, uint16) (Info, error) {
	return Info{First: l.entries[0].Seq, Last: l.entries[len(l.entries)-1].Seq}, nil
}
func (l *sliceLog) Get(_ context.Context, shard uint16, seq uint64) (Entry, error) {
	if i := int(seq) - int(l.entries[0].Seq); i >= 0 && i < len(l.entries) {
		return l.entries[i], nil
	}
	return Entry{}, notFound(shard, seq)
}
func (l *sliceLog) Read(ctx context.Context, shard uint16, from uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for ; ; from++ {
			e, err := l.Get(ctx, shard, from)
			if !yield(e, err) || err != nil {
				return
			}
		}
	}
}
func (l *sliceLog) Append(_ context.Context, _ uint16, id string, data []byte) (uint64, bool, error) {
	if seq := l.ids[id]; seq > 0 {
		return seq, true, nil
	}
	seq := l.entries[len(l.entries)-1].Seq + 1
	l.entries = append(l.entries, Entry{seq, data})
	l.ids[id] = seq
	return seq, false, nil
}

// signed returns a batch of format 3 whose records are these bytes.
func signed(h Header, count uint32, records ...byte) []byte {
	h.Format, h.Version, h.Count = Format3, LogVersion, count
	b, _ := seal(append(make([]byte, HeaderSize), records...), h, testBatchKeys)
	return b
}

// unusables are entries that a node wrote, behind six others of three nodes, and no reader can use. roll is the rolling hash
// at entry 6.
func unusables(t failer, roll Hash) map[string][]byte {
	batch := func(h Header) []byte {
		h.Format = Format3
		return must(testBatchKeys.Append(nil, h, event(1), event(2)))
	}
	return map[string][]byte{
		"records that are none":            signed(Header{Epoch: 7, No: 3, After: 6, Prev: roll}, 1, 250, 1, 1, 1),
		"another rolling hash":             batch(Header{Epoch: 7, No: 3, After: 6, Prev: Hash{1}}),
		"a number that is not the next":    batch(Header{Epoch: 7, No: 5, After: 6, Prev: roll}),
		"a writer that begins with 2":      batch(Header{Epoch: 70, No: 2, After: 6, Prev: roll}),
		"it names an entry that comes yet": batch(Header{Epoch: 7, No: 3, After: 9, Prev: roll}),
		"of another shard":                 batch(Header{Shard: 5, Epoch: 7, No: 3, After: 6, Prev: roll}),
	}
}

// alone are those of unusables that show it without what is before them.
var alone = map[string]bool{"records that are none": true, "it names an entry that comes yet": true, "of another shard": true}

// nodesLog is threeNodes in shard 0.
func nodesLog(t failer, n int) (log []Entry) {
	for k := range n {
		roll := rolls(log)[k]
		log = append(log, Entry{uint64(k + 1), must(testBatchKeys.Append(nil, Header{Format: Format3, Epoch: ID(7 + k%3), No: uint64(k/3 + 1),
			After: uint64(k), Prev: roll}, event(1)))})
	}
	return log
}

// TestDeclaredVoid: an entry that a node wrote and no reader can use stops every reader. One record behind it, under the keys
// of the cluster, with its number and its hash, lets all of them go on: from the beginning, from a position, from the middle,
// those that follow, those that read files, and those of a copy. They count it alike.
func TestDeclaredVoid(t *testing.T) {
	beside(t)
	ctx := t.Context()
	log := nodesLog(t, 6)
	for what, bad := range unusables(t, rolls(log)[6]) {
		t.Run(what, func(t *testing.T) {
			l := &sliceLog{entries: append(slices.Clone(log), Entry{7, bad}), ids: map[string]uint64{}}
			// a batch that was under way
			l.entries = append(l.entries, Entry{8, must(testBatchKeys.Append(nil, Header{Format: Format3, Epoch: 8, No: 3, After: 6,
				Prev: rolls(log)[6]}, event(1)))})
			var e *ChainError
			if _, err := Tail(ctx, l, 0, testBatchKeys); !errors.As(err, &e) || e.Seq != 7 || !e.Written || !strings.Contains(err.Error(), "troupe cluster void") {
				t.Fatalf("before: %v", err)
			}
			found, err := FindUnusable(ctx, l, testBatchKeys, 0)
			if err != nil || len(found.Left()) != 1 || found.Left()[0].Seq != 7 || found.Left()[0].Hash != HashBatch(bad) {
				t.Fatalf("found %+v, %v", found, err)
			}
			for range 2 { // two processes
				if seq, err := found.DeclareVoid(ctx, "test", time.Unix(1, 0)); err != nil || seq != 9 {
					t.Fatalf("declared in entry %d: %v", seq, err)
				}
			}
			put := func() { // the nodes go on, each under another epoch
				n := uint64(len(l.entries))
				l.entries = append(l.entries, Entry{n + 1, must(testBatchKeys.Append(nil, Header{Format: Format3, Epoch: ID(100 + n), No: 1, After: n,
					Prev: rolls(l.entries)[n]}, event(1)))})
			}
			put()
			want := rolls(l.entries)[10]
			half := NewChain(0, 1).Trust(testBatchKeys)
			if _, err := feed(half, l.entries[:5]); err != nil {
				t.Fatal(err)
			}
			back, err := RestoreChain(half.AppendPosition(nil))
			if err != nil {
				t.Fatal(err)
			}
			for from, c := range map[string]*Chain{
				"the beginning": NewChain(0, 1).Trust(testBatchKeys), "a position": back.Trust(testBatchKeys),
				"the middle": NewChain(0, 4).Trust(testBatchKeys).Several(), "the entry": NewChain(0, 7).Trust(testBatchKeys).Several(),
			} {
				if from == "the entry" && !alone[what] || from == "the middle" && what == "a writer that begins with 2" {
					continue // such a chain cannot see what is wrong with it
				}
				for d, err := range Replay(ctx, l, c, 10) {
					if err != nil {
						t.Fatalf("from %s: %v", from, err)
					}
					if (d.Seq == 7) != (d.Declared == 9) || d.Repeat != (d.Seq == 7) || d.Seq == 7 && !strings.HasPrefix(d.Unwritten, "declared void by entry 9: ") {
						t.Errorf("from %s: entry %d: %+v", from, d.Seq, d)
					}
				}
				if h, ok := c.Rolling(); !ok || h.Hash != want || c.Declared() != 1 {
					t.Errorf("from %s: rolling %v %v, %d declared", from, h, ok, c.Declared())
				}
				if n, _ := c.Unwritten(); n != 0 {
					t.Errorf("from %s: %d unwritten", from, n)
				}
				if again, err := RestoreChain(c.AppendPosition(nil)); err != nil || again.Declared() != 1 {
					t.Errorf("from %s: the position: %v", from, err)
				}
			}
			n := 0
			for d, err := range Follow(ctx, l, NewChain(0, 1).Trust(testBatchKeys)) {
				if n++; n == 10 {
					break
				} else if err != nil || (d.Seq == 7) != (d.Declared == 9) {
					t.Fatalf("following: %+v, %v", d, err)
				}
			}
			copied(t, l.entries)
		})
	}
}

// copied builds a log of the entries and reads its files; without the record nothing is built.
func copied(t *testing.T, entries []Entry) {
	t.Helper()
	ctx := t.Context()
	build := func(dir string, to int) error {
		b, err := OpenBuilder(ctx, dir, testBatchKeys, 1)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		for _, e := range entries[:to] {
			if err := b.Add(ctx, e); err != nil {
				t.Fatal(err)
			}
		}
		return b.Finish(ctx)
	}
	if err := build(filepath.Join(t.TempDir(), "log"), 8); err == nil || !strings.Contains(err.Error(), "entry 7: ") {
		t.Errorf("a copy without the record: %v", err)
	}
	dir := filepath.Join(t.TempDir(), "log")
	if err := build(dir, len(entries)); err != nil {
		t.Fatal(err)
	}
	r, err := Verify(dir, testBatchKeys)
	if err != nil || !r.OK() || r.Shards[0].Declared != 1 || r.Shards[0].Unwritten != 0 || r.Shards[0].Last != uint64(len(entries)) {
		t.Errorf("the copy: %+v, %v", r, err)
	}
	l, err := OpenDisk(ctx, dir, DiskOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if c, err := Tail(ctx, l, 0, testBatchKeys); err != nil || c.Declared() != 1 {
		t.Errorf("opened: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNotDeclared: what is no record of this cluster for this entry lets no reader go on, and a record for an entry that
// readers can use, or for one that was passed over already, changes nothing.
func TestNotDeclared(t *testing.T) {
	ctx := t.Context()
	log := nodesLog(t, 6)
	bad := unusables(t, rolls(log)[6])["another rolling hash"]
	thief := IDKeys{Current: 1, Keys: map[byte][]byte{1: []byte("a secret of others")}}.Batches()
	hash := HashBatch(bad)
	with := func(k *BatchKeys, first Entry, at uint64, hash Hash) *sliceLog {
		entries := append(slices.Clone(log), first)
		h := Header{Format: Format3, Epoch: 50, No: 1, After: 7, Prev: rolls(entries)[7]}
		b := must(k.Append(nil, h, &Control{Act: VoidEntry, AtSeq: at, Data: hash[:]}))
		return &sliceLog{entries: append(entries, Entry{8, b})}
	}
	if c, err := Tail(ctx, with(testBatchKeys, Entry{7, bad}, 7, hash), 0, testBatchKeys); err != nil || c.Declared() != 1 {
		t.Fatal(err)
	}
	for what, l := range map[string]*sliceLog{
		"other keys":     with(thief, Entry{7, bad}, 7, hash),
		"another entry":  with(testBatchKeys, Entry{7, bad}, 6, hash),
		"another hash":   with(testBatchKeys, Entry{7, bad}, 7, Hash{1}),
		"of an entry on": with(testBatchKeys, Entry{7, bad}, 8, hash),
	} {
		var e *ChainError
		if _, err := Tail(ctx, l, 0, testBatchKeys); !errors.As(err, &e) || e.Seq != 7 {
			t.Errorf("%s: %v", what, err)
		}
	}
	good := must(testBatchKeys.Append(nil, Header{Format: Format3, Epoch: 7, No: 3, After: 6, Prev: rolls(log)[6]}, event(1)))
	for what, x := range map[string][]byte{"a good one": good, "garbage": bytes.Repeat([]byte{1}, 70)} {
		c, err := Tail(ctx, with(testBatchKeys, Entry{7, x}, 7, HashBatch(x)), 0, testBatchKeys)
		if n, _ := c.Unwritten(); err != nil || c.Declared() != 0 || n != map[bool]uint64{false: 0, true: 1}[what == "garbage"] {
			t.Errorf("%s: %d declared, %d unwritten, %v", what, c.Declared(), n, err)
		}
	}
	h := Header{Version: LogVersion + 9, Count: 1, Epoch: 7, No: 3, After: 6, Prev: rolls(log)[6], Format: Format3}
	future, _ := seal(make([]byte, HeaderSize), h, testBatchKeys)
	var v *VersionError
	if _, err := Tail(ctx, with(testBatchKeys, Entry{7, future}, 7, HashBatch(future)), 0, testBatchKeys); !errors.As(err, &v) {
		t.Errorf("a later version: %v", err)
	}
}

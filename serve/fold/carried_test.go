package fold

import (
	"bytes"
	"slices"
	"testing"

	"troupe/eventlog"
)

// TestCarriedParts: decisions are packed into parts of a size, in the order of their keys whatever order they come in; each is read
// back from the one part that its place names, and damage is an error. A decision that is larger than a part is refused.
func TestCarriedParts(t *testing.T) {
	var all []*Carried
	for i := range 200 {
		d := &eventlog.Decision{Model: 7, Num: 1, Den: 2, Action: "a", Offered: 2, X: make([]float64, i%9), Time: int64(i)}
		raw, err := eventlog.AppendRecord(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		key := eventlog.Event{Epoch: eventlog.ID(1 + i*37%3), Batch: uint64(1 + i*53%50), Index: uint32(i)}
		all = append(all, &Carried{Event: key, Hint: uint64(i + 1), Marks: []eventlog.Mark{{1, byte(i)}}, Model: 7, raw: raw})
	}
	want := slices.Clone(all)
	parts, err := chunksOf(all, 1000)
	if err != nil || len(parts) < 10 {
		t.Fatalf("%d parts, %v", len(parts), err)
	}
	var p places
	for i, part := range parts {
		some, other, err := readChunk(part)
		if err != nil || other || len(part) > 1000 {
			t.Fatalf("part %d of %d bytes: %v", i, len(part), err)
		}
		p.list = append(p.list, place{7, some[0].Event, some[len(some)-1].Event, uint64(i + 100)})
		for cut := range len(part) - len(carriedMagic) {
			if _, _, err := readChunk(part[:len(part)-cut-1]); err == nil {
				t.Fatalf("part %d without its last %d bytes was read", i, cut+1)
			}
		}
	}
	var w writer
	w.places(&p)
	r := reader{b: w.b}
	if p.list = r.places(); r.err != nil || len(r.b) > 0 {
		t.Fatal(r.err)
	}
	for _, c := range want {
		seqs := slices.Collect(p.of(c.Event))
		if len(seqs) != 1 || p.in(map[eventlog.ID]bool{7: true}, c.Event, 1) != seqs[0] || p.in(map[eventlog.ID]bool{8: true}, c.Event, 1) != 1 {
			t.Fatalf("%v stands in the entries %v", c.Event, seqs)
		}
		some, _, _ := readChunk(parts[seqs[0]-100])
		got := FindCarried(some, c.Event)
		if got == nil || got.Hint != c.Hint || !bytes.Equal(got.raw, c.raw) || !got.Vouches(c.Marks[0]) || got.Vouches(eventlog.Mark{2}) {
			t.Fatalf("%v: %+v", c.Event, got)
		}
	}
	if _, err := chunksOf(all, 60); err == nil {
		t.Error("a decision that is larger than a part was packed")
	}
}

package eventlog

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// threeNodes returns a log of n entries by three nodes, one after the other, each of which has seen all before.
func threeNodes(t failer, n int) (log []Entry) {
	nodes := []*node{{epoch: 7}, {epoch: 8}, {epoch: 9}}
	roll := Hash{}
	for k := range n {
		b := nodes[k%3].next(t, uint64(k), roll, 1)
		log, roll = append(log, Entry{uint64(k + 1), b}), rollHash(roll, HashBatch(b))
	}
	return log
}

// TestUnwritten: an entry that no node of the cluster has written has no effect, whatever it is: the batches behind it
// are accepted, also from a position, from the middle of the log and by a chain that begins with such an entry; the
// rolling hash covers its bytes; the chain counts it.
func TestUnwritten(t *testing.T) {
	log := threeNodes(t, 6)
	thief := IDKeys{Current: 1, Keys: map[byte][]byte{1: []byte("a secret of others")}}.Batches()
	r := rolls(log)
	h := Header{Format: Format3, Shard: 3, Epoch: 7, No: 3, After: 6, Prev: r[6]}
	ours := must(testBatchKeys.Append(nil, h, event(1)))
	flipped := bytes.Clone(ours)
	flipped[len(flipped)-1] ^= 1
	theirs := must(thief.Append(nil, h, event(1)))
	h.Format = Format1
	future := must(AppendBatch(nil, h, event(1)))
	future[10] = LogVersion + 9
	seal(future, Header{Version: LogVersion + 9, Count: 1, Epoch: 1, No: 1}, nil)
	for _, c := range []struct {
		what string
		data []byte
		want string
	}{
		{"70 bytes", bytes.Repeat([]byte{0xfe}, 70), "70 bytes, the header alone has 72"},
		{"nothing", nil, "0 bytes"},
		{"a whole batch of a single machine", must(AppendBatch(nil, h, event(1))), "no MAC"},
		{"a later version", future, "later"},
		{"a loss", must(AppendBatch(nil, Header{Shard: 3, No: 1, After: 6, Prev: HashBatch(log[5].Data)}, &Loss{First: 7, Last: 7})), "no MAC"},
		{"one bit of a MAC", flipped, "its MAC is not right"},
		{"another cluster's", theirs, "a key that keys.json does not have"},
		{"cut off", ours[:len(ours)-1], "the header says"},
	} {
		bad := append(slices.Clone(log), Entry{7, c.data})
		roll := rolls(bad)
		bad = append(bad, Entry{8, must(testBatchKeys.Append(nil, Header{Format: Format3, Shard: 3, Epoch: 8, No: 3, After: 7, Prev: roll[7]}, event(1)))})
		for from, chain := range map[int]*Chain{1: NewChain(3, 1), 4: NewChain(3, 4), 7: NewChain(3, 7).Trust(testBatchKeys).Several()} {
			chain.Trust(testBatchKeys)
			if _, err := feed(chain, bad[from-1:6]); err != nil {
				t.Fatal(err)
			}
			b, drop, err := chain.Next(bad[6])
			if err != nil || !drop || !strings.Contains(b.Unwritten, c.want) && c.want != "later" {
				t.Errorf("%s, from %d: drop %v, %q, error %v, want %q", c.what, from, drop, b.Unwritten, err, c.want)
				continue
			}
			for range b.Events() {
				t.Errorf("%s: it has records", c.what)
			}
			if from == 1 {
				if chain, err = RestoreChain(chain.AppendPosition(nil)); err != nil {
					t.Fatal(err)
				}
				chain.Trust(testBatchKeys)
			}
			if b, drop, err = chain.Next(bad[7]); err != nil || drop || b.Unwritten != "" {
				t.Errorf("%s, from %d: the next one: drop %v, %q, error %v", c.what, from, drop, b.Unwritten, err)
			}
			if n, at := chain.Unwritten(); n != 1 || at != 7 {
				t.Errorf("%s, from %d: %d entries, the newest %d", c.what, from, n, at)
			}
			if h, ok := chain.Rolling(); !ok || h.Hash != rolls(bad)[8] {
				t.Errorf("%s, from %d: rolling hash %v, %v", c.what, from, h, ok)
			}
		}
		other := slices.Clone(bad)
		other[6].Data = append(bytes.Clone(c.data), 1) // another bad entry in its place is noticed
		if _, err := feed(NewChain(3, 1).Trust(testBatchKeys), other); err == nil || !strings.Contains(err.Error(), "rolling hash") {
			t.Errorf("%s, exchanged: %v", c.what, err)
		}
	}
}

// TestUnwrittenFirst: before the first batch with a right MAC nothing is passed over: a log under other keys, without
// keys, of a single machine, or of clusters before the first release is refused in words.
func TestUnwrittenFirst(t *testing.T) {
	log := threeNodes(t, 2)
	thief := IDKeys{Current: 1, Keys: map[byte][]byte{1: []byte("a secret of others")}}.Batches()
	old := bytes.Clone(log[0].Data)
	old[4] = format2
	single := &scribe{epoch: 5}
	first := single.next(t, 3)
	for _, c := range []struct {
		what string
		keys *BatchKeys
		log  []Entry
		want string
	}{
		{"other keys", thief, log, "entry 1: its MAC is of a key that keys.json does not have"},
		{"no keys", nil, log, "entry 1: its MAC was not checked: keys.json is not beside the log"},
		{"format 2", testBatchKeys, []Entry{{1, old}}, "entry 1: batch: format 2, which the clusters of an earlier program had: `troupe train` of the program that wrote it"},
		{"a single machine", testBatchKeys, []Entry{{1, first}, {2, []byte("garbage")}}, "entry 2: batch: 7 bytes"},
	} {
		var e *ChainError
		if _, err := feed(NewChain(3, 1).Trust(c.keys), c.log); !errors.As(err, &e) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.what, err, c.want)
		}
	}
	// In the middle of a log of a single machine it is an error one entry later.
	second := single.next(t, 3)
	if _, err := feed(NewChain(3, 2).Trust(testBatchKeys), []Entry{{2, []byte("garbage")}, {3, second}}); err == nil || !strings.Contains(err.Error(), "after entry 2, which is none") {
		t.Errorf("in the middle: %v", err)
	}
}

// TestAnyBytes: bytes that nobody signed, at any place behind the first entry of a node, however many, stop no chain,
// and chains that begin at different places find the same.
func TestAnyBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		nodes := []*node{{epoch: 7}, {epoch: 8}, {epoch: 9}}
		var log []Entry
		written := map[uint64]bool{}
		for k := range rapid.IntRange(1, 25).Draw(t, "n") {
			seq := uint64(k + 1)
			var data []byte
			switch kind := rapid.IntRange(0, 5).Draw(t, "kind"); {
			case kind < 3 || seq == 1:
				data, written[seq] = nodes[kind%3].next(t, seq-1, rolls(log)[seq-1], 1), true
			case kind == 3:
				data = rapid.SliceOfN(rapid.Byte(), 0, 120).Draw(t, "bytes")
			default: // one of a node, changed
				data = bytes.Clone(log[rapid.IntRange(0, len(log)-1).Draw(t, "of")].Data)
				if len(data) == 0 {
					break
				}
				data[rapid.IntRange(0, len(data)-1).Draw(t, "at")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
				if slices.ContainsFunc(log, func(e Entry) bool { return written[e.Seq] && bytes.Equal(e.Data, data) }) {
					data = data[1:] // changed twice, it was what a node wrote, which is a repetition
				}
			}
			log = append(log, Entry{seq, data})
		}
		for _, from := range []int{1, rapid.IntRange(1, len(log)).Draw(t, "from")} {
			chain := NewChain(3, uint64(from)).Trust(testBatchKeys)
			for _, e := range log[from-1:] {
				b, drop, err := chain.Next(e)
				if err != nil || drop == written[e.Seq] || (b.Unwritten == "") != written[e.Seq] {
					t.Fatalf("from %d, entry %d: drop %v, %q, error %v; written %v", from, e.Seq, drop, b.Unwritten, err, written[e.Seq])
				}
			}
		}
	})
}

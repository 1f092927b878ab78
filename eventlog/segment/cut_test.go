package segment

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
)

// TestCut: entries are cut away and written anew, at random, with restarts in between. Content, terms, sequence numbers and
// the bytes of the files are those of a store that was never cut.
func TestCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(48, 1))
	type entry struct {
		term uint64
		kind Kind
		data []byte
	}
	for round := range 5 {
		o := Options{Dir: t.TempDir(), Size: 2000, Grouped: true}
		s, _, err := Open(o)
		if err != nil {
			t.Fatal(err)
		}
		var want []entry
		put := func(s *Store, e entry) {
			if _, err := s.Append(e.term, e.kind, e.data); err != nil {
				t.Fatal(err)
			}
		}
		term := uint64(1)
		for range 60 {
			switch k := rng.IntN(10); {
			case k < 6:
				for range rng.IntN(12) {
					e := entry{term, Batch, payload(rng.Uint64N(1000))}
					if rng.IntN(6) == 0 {
						e.kind, e.data = Empty, nil
					}
					put(s, e)
					want = append(want, e)
				}
				if err := s.Sync(); err != nil {
					t.Fatal(err)
				}
			case k < 9:
				term++
				put(s, entry{term, Batch, []byte("never synced")})
				n := len(want) - min(len(want), rng.IntN(40))
				if want = want[:n]; true {
					if err := s.Cut(uint64(n)); err != nil {
						t.Fatal(err)
					}
				}
			default:
				if o.Acked = acked(s); rng.IntN(2) == 0 {
					err = s.Close()
				} else {
					err = s.Abandon()
				}
				if err != nil {
					t.Fatal(err)
				}
				if s, _, err = Open(o); err != nil {
					t.Fatal(err)
				}
			}
			if last, _ := s.Last(); last != uint64(len(want)) {
				t.Fatalf("round %d: the last entry is %d, want %d", round, last, len(want))
			}
		}
		plain, _, err := Open(Options{Dir: t.TempDir(), Size: 2000})
		if err != nil {
			t.Fatal(err)
		}
		seq := uint64(0)
		for i, e := range want {
			put(plain, e)
			if err := plain.Sync(); err != nil {
				t.Fatal(err)
			}
			index := uint64(i + 1)
			r, err := s.Get(index)
			if err != nil || r.Term != e.term || r.Kind != e.kind || !bytes.Equal(r.Data, e.data) {
				t.Fatalf("entry %d: %+v, %v, want %+v", index, r, err, e)
			}
			if e.kind == Batch {
				seq++
				if got, err := s.Index(seq); err != nil || got != index {
					t.Fatalf("sequence number %d: entry %d, %v, want %d", seq, got, err, index)
				}
			}
			if got, err := s.Seq(index); err != nil || got != seq {
				t.Fatalf("entry %d: sequence number %d, %v, want %d", index, got, err, seq)
			}
			if got, err := s.Term(index); err != nil || got != e.term {
				t.Fatalf("entry %d: term %d, %v, want %d", index, got, err, e.term)
			}
		}
		if _, err := s.Index(seq + 1); !errors.Is(err, ErrNotFound) {
			t.Errorf("sequence number %d: %v", seq+1, err)
		}
		if len(want) == 0 {
			continue
		}
		a, b := must(s.Segments(uint64(len(want)))), must(plain.Segments(uint64(len(want))))
		if len(a) != len(b) {
			t.Fatalf("%d segments, want %d", len(a), len(b))
		}
		for i := range a {
			if a[i] != b[i] || ParseInfo(a[i].AppendTo(nil)) != a[i] {
				t.Fatalf("segment %+v, want %+v", a[i], b[i])
			}
			x := must(os.ReadFile(filepath.Join(s.opt.Dir, SegmentName(a[i].First))))
			y := must(os.ReadFile(filepath.Join(plain.opt.Dir, SegmentName(a[i].First))))
			if !bytes.Equal(x[:a[i].Size], y[:a[i].Size]) {
				t.Fatalf("segment %d has other bytes", a[i].First)
			}
		}
		if err := s.CheckSealed(func(int64) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(s.Close(), plain.Close()); err != nil {
			t.Fatal(err)
		}
	}
}

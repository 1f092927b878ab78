package segment

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

const small = 4000 // size of a segment

// payload is the data of an entry, some of it empty or zeros.
func payload(i uint64) []byte {
	switch i % 7 {
	case 0:
		return nil
	case 1:
		return make([]byte, i%50)
	}
	return bytes.Repeat([]byte{byte(i), byte(i >> 8), 'x'}, int(i%90)+1)
}

func fill(t *testing.T, s *Store, from, to uint64) {
	t.Helper()
	for i := from; i <= to; i++ {
		kind := Batch
		if i%7 == 0 {
			kind = Empty
		}
		if got, err := s.Append(i/10, kind, payload(i)); err != nil || got != i {
			t.Fatalf("entry %d is stored as %d, %v", i, got, err)
		}
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
	}
}

// same compares the entries of a store from first to last with what fill wrote, one by one and in order.
func same(t *testing.T, s *Store, first, last uint64) {
	t.Helper()
	if got, _ := s.Last(); got != last {
		t.Fatalf("the last entry is %d, want %d", got, last)
	}
	r := s.Reader(first)
	defer r.Close()
	for i := first; i <= last; i++ {
		for what, get := range map[string]func() (Record, error){
			"read": func() (Record, error) { return r.Next(last) },
			"get":  func() (Record, error) { return s.Get(i) },
		} {
			x, err := get()
			if err != nil || x.Index != i || x.Term != i/10 || !bytes.Equal(x.Data, payload(i)) || (x.Kind == Empty) != (i%7 == 0) {
				t.Fatalf("%s %d: %+v, %v", what, i, x, err)
			}
		}
	}
	if _, err := r.Next(last); !errors.Is(err, io.EOF) {
		t.Fatalf("behind the end: %v", err)
	}
}

func acked(s *Store) Acked {
	last, link := s.Last()
	return Acked{First: 1, Last: last, Link: link}
}

// TestStore: entries of all kinds, also empty ones, come back in order, one by one, after a restart with and without
// Close, and behind a trim.
func TestStore(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, Group: 3, Size: small}
	s, _, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Get(1); !errors.Is(err, ErrNotFound) {
		t.Errorf("entry 1 of none: %v", err)
	}
	const n = 200
	fill(t, s, 1, n)
	same(t, s, 1, n)
	for round := range 3 {
		o.Acked = acked(s)
		if round == 1 { // what was allocated ahead stays behind the end, as after a kill
			if err := s.closeFiles(); err != nil {
				t.Fatal(err)
			}
		} else if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		var found Found
		if s, found, err = Open(o); err != nil || found.Torn > 0 || len(found.Rebuilt) > 0 {
			t.Fatalf("%+v, %v", found, err)
		}
		last := uint64(n + 20*round)
		same(t, s, 1, last)
		fill(t, s, last+1, last+20)
	}
	total := must(s.Bytes(1))
	if part := must(s.Bytes(100)); part == 0 || part >= total {
		t.Errorf("%d of %d bytes from entry 100 on", part, total)
	}
	if err := s.Trim(100); err != nil {
		t.Fatal(err)
	}
	first := s.Oldest()
	if first <= 1 || first > 100 {
		t.Fatalf("the oldest entry is %d", first)
	}
	if _, err := s.Get(first - 1); !errors.Is(err, ErrNotFound) {
		t.Errorf("a trimmed entry: %v", err)
	}
	same(t, s, first, n+60)
	if err := s.CheckSealed(func(int64) error { return nil }); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var damages []Damage
	records := uint64(0)
	end, err := Walk(dir, 3, Visitor{Record: func(string, int64, Record) error { records++; return nil },
		Damage: func(d Damage) { damages = append(damages, d) }})
	if err != nil || len(damages) > 0 || end.First != first || end.Last != n+60 || end.Torn != 0 || records != end.Last-first+1 {
		t.Fatalf("%+v, %d records, %v, %v", end, records, damages, err)
	}
}

// TestSameBytes: sealed segments depend on the entries only: a store that was opened again and again, and killed, has
// the same files as one that was written in one go.
func TestSameBytes(t *testing.T) {
	var dirs [2]string
	for i := range dirs {
		dirs[i] = t.TempDir()
		o := Options{Dir: dirs[i], Size: small}
		s := must2(Open(o))
		for from := uint64(1); from <= 300; from += 50 {
			fill(t, s, from, from+49)
			if i == 1 {
				o.Acked = acked(s)
				if err := s.closeFiles(); err != nil {
					t.Fatal(err)
				}
				s = must2(Open(o))
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	sealed := 0
	for _, name := range must(filepath.Glob(dirs[0] + "/*")) {
		a, b := must(os.ReadFile(name)), must(os.ReadFile(filepath.Join(dirs[1], filepath.Base(name))))
		if !bytes.Equal(a, b) {
			t.Errorf("%s differs", filepath.Base(name))
		}
		sealed++
	}
	if sealed < 7 {
		t.Errorf("%d files", sealed)
	}
}

func must2(s *Store, _ Found, err error) *Store {
	if err != nil {
		panic(err)
	}
	return s
}

// TestTorn: the newest file ends in a part of a record, of any length, or in garbage, and nothing of it was
// acknowledged: it is cut off, whatever stands in it. The same behind what was acknowledged last is damage, as is a
// whole record behind it. Nothing is changed then.
func TestTorn(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir}
	s := must2(Open(o))
	fill(t, s, 1, 20)
	at20 := acked(s)
	size20 := s.size
	fill(t, s, 21, 21)
	at21 := acked(s)
	fill(t, s, 22, 22)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(dir, segmentName(1))
	whole := must(os.ReadFile(name))
	size21 := int(s.newest().offsets[21])
	open := func(b []byte, a Acked) (*Store, Found, error) {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		o.Acked = a
		return Open(o)
	}
	zeros := make([]byte, 5000)
	for cut := int(size20) + 1; cut < size21; cut++ {
		for _, tail := range [][]byte{nil, zeros} {
			b := append(bytes.Clone(whole[:cut]), tail...)
			s, found, err := open(b, at20)
			rest := bytes.TrimRight(b[size20:], "\x00")
			if err != nil || found.Torn != int64(len(rest)) {
				t.Fatalf("cut at %d: %+v, %v", cut, found, err)
			}
			same(t, s, 1, 20)
			fill(t, s, 21, 22)
			same(t, s, 1, 22)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			if got := must(os.ReadFile(name)); !bytes.Equal(got, whole) {
				t.Fatalf("cut at %d: other bytes than before", cut)
			}
			if _, _, err := open(b, at21); !isDamage(err) || !bytes.Equal(must(os.ReadFile(name)), b) {
				t.Fatalf("acknowledged, cut at %d: %v", cut, err)
			}
		}
	}
	for at := int(size20); at < size21; at++ { // the record before a whole one is not an interrupted write
		b := bytes.Clone(whole)
		b[at] ^= 64
		if _, _, err := open(b, at20); !isDamage(err) {
			t.Fatalf("a bit at %d of %d: %v", at-int(size20), size21-int(size20), err)
		}
	}
	// The newest record is whole, and not the one that was acknowledged.
	wrong := at21
	wrong.Link[3] ^= 1
	if _, _, err := open(whole, wrong); !isDamage(err) || !strings.Contains(err.Error(), "not the entry that was acknowledged") {
		t.Errorf("another entry: %v", err)
	}
}

func isDamage(err error) bool { return errors.As(err, new(*DamageError)) }

// TestSealInterrupted: a crash after each step of the end of a segment. The store goes on with the same entries.
func TestSealInterrupted(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, Size: small}
	s := must2(Open(o))
	n := uint64(0)
	for len(s.pieces) < 3 {
		n++
		fill(t, s, n, n)
	}
	o.Acked = acked(s)
	before := s.pieces[1].last
	link := s.pieces[1].link
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	third, second := segmentName(before+1), s.pieces[1].first
	for what, harm := range map[string]func(dir string) error{
		"end file not renamed": func(dir string) error {
			return errors.Join(os.Remove(filepath.Join(dir, third)), os.Rename(filepath.Join(dir, endName(second)), filepath.Join(dir, endName(second)+tmpSuffix)))
		},
		"no next segment": func(dir string) error { return os.Remove(filepath.Join(dir, third)) },
		"next segment not renamed": func(dir string) error {
			return os.Rename(filepath.Join(dir, third), filepath.Join(dir, third+tmpSuffix))
		},
		"next segment empty": func(dir string) error { return os.Truncate(filepath.Join(dir, third), headerSize) },
	} {
		copied := filepath.Join(t.TempDir(), "copy")
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		if err := harm(copied); err != nil {
			t.Fatal(err)
		}
		o := Options{Dir: copied, Size: small, Acked: Acked{1, before, link}}
		s, _, err := Open(o)
		if err != nil {
			t.Errorf("%s: %v", what, err)
			continue
		}
		same(t, s, 1, before)
		fill(t, s, before+1, before+50)
		same(t, s, 1, before+50)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if tmp := must(filepath.Glob(copied + "/*" + tmpSuffix)); len(tmp) > 0 {
			t.Errorf("%s: %v are left", what, tmp)
		}
		if _, _, err := Open(Options{Dir: copied, Size: small, Acked: o.Acked}); err != nil {
			t.Errorf("%s: opened again: %v", what, err)
		}
	}
}

// TestEndRebuilt: an end file that is missing or damaged is written anew from its segment, with the same bytes; a
// segment that is damaged too is a *DamageError.
func TestEndRebuilt(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, Size: small}
	s := must2(Open(o))
	fill(t, s, 1, 200)
	o.Acked = acked(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	ends := must(filepath.Glob(dir + "/*" + endSuffix))
	good := must(os.ReadFile(ends[1]))
	for what, b := range map[string][]byte{"missing": nil, "cut": good[:50], "flipped": append([]byte{good[0] ^ 1}, good[1:]...)} {
		if err := os.Remove(ends[1]); err != nil {
			t.Fatal(err)
		}
		if b != nil {
			if err := os.WriteFile(ends[1], b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		s, found, err := Open(o)
		if err != nil || len(found.Rebuilt) != 1 {
			t.Fatalf("%s: %+v, %v", what, found, err)
		}
		same(t, s, 1, 200)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(must(os.ReadFile(ends[1])), good) {
			t.Errorf("%s: the end file has other bytes", what)
		}
	}
	seg := strings.TrimSuffix(ends[1], endSuffix) + segmentSuffix
	b := must(os.ReadFile(seg))
	b[200] ^= 1
	if err := errors.Join(os.Remove(ends[1]), os.WriteFile(seg, b, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(o); !isDamage(err) {
		t.Errorf("both are damaged: %v", err)
	}
}

// TestMissing: a segment that is gone, at the beginning, in the middle or at the end, is a *DamageError.
func TestMissing(t *testing.T) {
	dir := t.TempDir()
	o := Options{Dir: dir, Size: small}
	s := must2(Open(o))
	fill(t, s, 1, 200)
	o.Acked = acked(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range must(filepath.Glob(dir + "/*" + segmentSuffix)) {
		if err := os.Rename(name, name+".away"); err != nil {
			t.Fatal(err)
		}
		if _, _, err := Open(o); !isDamage(err) {
			t.Errorf("without %s: %v", filepath.Base(name), err)
		}
		if err := os.Rename(name+".away", name); err != nil {
			t.Fatal(err)
		}
	}
	same(t, must2(Open(o)), 1, 200)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Open(o); !isDamage(err) {
		t.Errorf("all gone: %v", err)
	}
}

// FuzzParse: any bytes behind the records of a file are cut off, or damage; no entry changes, and nothing panics.
func FuzzParse(f *testing.F) {
	dir := f.TempDir()
	s := must2(Open(Options{Dir: dir}))
	for i := uint64(1); i <= 3; i++ {
		must(s.Append(1, Batch, payload(i+1)))
		if err := s.Sync(); err != nil {
			f.Fatal(err)
		}
	}
	a := acked(s)
	if err := s.Close(); err != nil {
		f.Fatal(err)
	}
	good := must(os.ReadFile(filepath.Join(dir, segmentName(1))))
	f.Add([]byte{})
	f.Add(good[headerSize:])
	f.Add(good[headerSize : len(good)-3])
	f.Add([]byte("\x01\x00\x00\x00"))
	f.Fuzz(func(t *testing.T, junk []byte) {
		dir := t.TempDir()
		if len(junk) > 1<<16 || os.WriteFile(filepath.Join(dir, segmentName(1)), append(bytes.Clone(good), junk...), 0o600) != nil {
			return
		}
		s, found, err := Open(Options{Dir: dir, Acked: a})
		if err != nil {
			if !isDamage(err) {
				t.Fatal(err)
			}
			return
		}
		if last, _ := s.Last(); last == 3 && found.Torn != int64(len(bytes.TrimRight(junk, "\x00"))) {
			t.Fatalf("%+v of %d bytes", found, len(junk))
		}
		for i := uint64(1); i <= 3; i++ {
			if r, err := s.Get(i); err != nil || !bytes.Equal(r.Data, payload(i+1)) {
				t.Fatalf("entry %d: %v", i, err)
			}
		}
		_ = s.Close()
	})
}

func FuzzAcked(f *testing.F) {
	b := make([]byte, slotStride+slotSize)
	appendSlot(b[:0], 3, 7, Acked{2, 9, Link{11}})
	appendSlot(b[:slotStride], 3, 8, Acked{2, 10, Link{12}})
	if count, a, ok := parseAcked(b, 3); !ok || count != 8 || a != (Acked{2, 10, Link{12}}) {
		f.Fatal(count, a, ok)
	}
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		count, said, ok := parseAcked(b, 3)
		if !ok {
			return
		}
		slot := appendSlot(nil, 3, count, said)
		if !bytes.HasPrefix(b, slot) && !(len(b) > slotStride && bytes.HasPrefix(b[slotStride:], slot)) {
			t.Fatalf("%+v is in no slot", said)
		}
	})
}

// TestReadersBeside: readers of all places run beside a writer and a trim.
func TestReadersBeside(t *testing.T) {
	s := must2(Open(Options{Dir: t.TempDir(), Size: small, NoSync: true}))
	defer s.Close()
	fill(t, s, 1, 50)
	done := make(chan error, 4)
	stop := make(chan struct{})
	for k := range 4 {
		go func() {
			rnd := rand.New(rand.NewPCG(uint64(k), 1))
			for {
				select {
				case <-stop:
					done <- nil
					return
				default:
				}
				last, _ := s.Last()
				from := s.Oldest() + rnd.Uint64N(last-s.Oldest()+1)
				r := s.Reader(from)
				for i := from; i <= last; i++ {
					x, err := r.Next(last)
					if errors.Is(err, ErrNotFound) && i < s.Oldest() {
						break
					}
					if err != nil || x.Index != i || !bytes.Equal(x.Data, payload(i)) {
						done <- fmt.Errorf("entry %d of %d to %d: %v", i, from, last, err)
						return
					}
				}
				r.Close()
			}
		}()
	}
	for i := uint64(51); i <= 3000; i += 50 {
		fill(t, s, i, i+49)
		if err := s.Trim(i - min(i-1, 400)); err != nil {
			t.Fatal(err)
		}
	}
	close(stop)
	for range 4 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

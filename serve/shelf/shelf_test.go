package shelf

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"testing"
)

func open(t *testing.T, dir string) *Shelf {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func some(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// TestPlaces: places keep what was put there while others come and go at once, and the file is never longer than all that
// was on the shelf at once.
func TestPlaces(t *testing.T) {
	s := open(t, t.TempDir())
	var all sync.WaitGroup
	const most = 40 * block
	for k := range 4 {
		all.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(k)))
			type kept struct {
				p *Place
				b []byte
			}
			var have []kept
			bytesOf := 0
			for range 200 {
				n := r.IntN(5 * block)
				for bytesOf+n+block > most {
					i := r.IntN(len(have))
					bytesOf -= (have[i].p.Len() + block - 1) / block * block
					have[i].p.Free()
					have[i] = have[len(have)-1]
					have = have[:len(have)-1]
				}
				b := some(r, n)
				p, err := s.Put(b)
				if err != nil {
					t.Error(err)
					return
				}
				have, bytesOf = append(have, kept{p, b}), bytesOf+(n+block-1)/block*block
				x := have[r.IntN(len(have))]
				if got, err := x.p.Append([]byte("ab")); err != nil || !bytes.Equal(got[2:], x.b) || string(got[:2]) != "ab" {
					t.Errorf("%d bytes, %v; want %d others", len(got), err, len(x.b))
					return
				}
			}
			if st := s.Status(); st.Bytes > 4*most {
				t.Errorf("the file has %d bytes, expected at most %d", st.Bytes, 4*most)
			}
			for _, x := range have {
				x.p.Free()
			}
		})
	}
	all.Wait()
	if st := s.Status(); st != (Status{}) {
		t.Errorf("an empty shelf has %+v", st)
	}
	if i, err := s.file.Stat(); err != nil || i.Size() != 0 {
		t.Errorf("its file has %d bytes (%v)", i.Size(), err)
	}
}

// TestReused: the blocks of what is given up are taken first, in several runs if need be.
func TestReused(t *testing.T) {
	s := open(t, t.TempDir())
	r := rand.New(rand.NewPCG(1, 2))
	var p []*Place
	for range 6 {
		x, err := s.Put(some(r, block))
		if err != nil {
			t.Fatal(err)
		}
		p = append(p, x)
	}
	for _, i := range []int{0, 2, 3} {
		p[i].Free()
	}
	b := some(r, 3*block-7)
	x, err := s.Put(b)
	if err != nil || len(x.runs) != 2 || s.Status().Bytes != 6*block {
		t.Fatalf("%v, %+v, %v", x.runs, s.Status(), err)
	}
	if got, err := x.Append(nil); err != nil || !bytes.Equal(got, b) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

// TestDamage: a byte that changes in the file is found, wherever it is in the place.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	r := rand.New(rand.NewPCG(1, 3))
	b := some(r, 2*block+5)
	p, err := s.Put(b)
	if err != nil {
		t.Fatal(err)
	}
	for _, at := range []int64{0, block, 2*block + 4} {
		if _, err := s.file.WriteAt([]byte{b[at] ^ 1}, at); err != nil {
			t.Fatal(err)
		}
		got, err := p.Append(nil)
		var damage *DamageError
		if !errors.As(err, &damage) || len(got) > 0 || damage.Size != len(b) || !strings.Contains(err.Error(), dir) {
			t.Errorf("byte %d is wrong: %d bytes, %v", at, len(got), err)
		}
		if _, err := s.file.WriteAt(b[at:at+1], at); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := p.Append(nil); err != nil || !bytes.Equal(got, b) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if err := s.file.Truncate(block); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Append(nil); err == nil {
		t.Error("a file that is cut short is read")
	}
}

// TestNoName: the file has no name while it is open, and what another process left under its name is removed.
func TestNoName(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/"+FileName, []byte("of another process"), 0o600); err != nil {
		t.Fatal(err)
	}
	s, other := open(t, dir), open(t, dir)
	for _, s := range []*Shelf{s, other} {
		if p, err := s.Put([]byte("x")); err != nil || s.name == "" && p.Len() != 1 {
			t.Fatal(err)
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) > 0 && s.name == "" {
		t.Errorf("%d files, %v", len(files), err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Put([]byte("x")); err == nil || s.Status().Err == nil || s.Status().Used != block {
		t.Errorf("a shelf that is closed takes bytes: %v, %+v", err, s.Status())
	}
	var none *Shelf
	if none.Close() != nil || none.Status() != (Status{}) {
		t.Error("no shelf has something")
	}
}

// Package shelf keeps bytes in a file that has no name: states of models that are laid aside, which would take memory
// otherwise. The file is no promise. It ends with the process, and everything in it can be computed from the log.
package shelf

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/bits"
	"os"
	"path/filepath"
	"sync"
)

// A shelf is a file of blocks. A place has whole blocks, which it does not share and which do not move, so it is read
// without a lock. New places take the first blocks that are free, in as many runs as it needs, and the file is cut when
// its last blocks become free. It is at most as long as all that was in it at once, each place rounded up to a block.
const block = 4 << 10

// MaxPlace bounds the bytes of one place.
const MaxPlace = 1 << 31

// FileName is the name that the file of a shelf has while it is opened, and, on a system that removes no open file,
// until it is closed.
const FileName = "aside.tmp"

// Shelf keeps bytes in places. A nil *Shelf has none: see Put. Safe for concurrent use.
type Shelf struct {
	file *os.File
	dir  string
	name string // of the file while it has one

	mu    sync.Mutex
	taken []uint64 // a bit for each block
	first int      // no block before it is free
	end   int      // blocks of the file
	used  int64    // blocks of places
	err   error    // of the last Put
}

// Open returns an empty shelf in a directory, which is made if needed. A file that a process left there is removed.
func Open(dir string) (*Shelf, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	name := filepath.Join(dir, FileName)
	for try := 0; ; try++ {
		f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if errors.Is(err, os.ErrExist) && try < 3 {
			if err = os.Remove(name); err == nil || errors.Is(err, os.ErrNotExist) {
				continue
			}
		}
		if err != nil {
			return nil, fmt.Errorf("the file of the models that are laid aside: %w", err)
		}
		s := &Shelf{file: f, dir: dir}
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			s.name = name // the system removes no file that is open
		}
		return s, nil
	}
}

// Close gives the file up. Places cannot be read any more.
func (s *Shelf) Close() error {
	if s == nil {
		return nil
	}
	err := s.file.Close()
	if s.name != "" {
		err = errors.Join(err, os.Remove(s.name))
	}
	return err
}

// Status is what a shelf takes on the disk.
type Status struct {
	Bytes int64 // of the file
	Used  int64 // of these, in places
	Err   error // why the last Put failed, nil if it did not
}

// Status returns what the shelf takes. A nil shelf takes nothing.
func (s *Shelf) Status() Status {
	if s == nil {
		return Status{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Status{int64(s.end) * block, s.used * block, s.err}
}

// Place is where bytes are kept, until Free.
type Place struct {
	shelf *Shelf
	runs  []run
	size  int
	sum   uint32 // CRC-32C
}

// run is a number of blocks that follow one another.
type run struct{ first, n uint32 }

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Put keeps a copy of b. The write is not synced. An error leaves nothing behind: the disk may be full.
// Cost: one write for each run of free blocks.
func (s *Shelf) Put(b []byte) (*Place, error) {
	if len(b) > MaxPlace {
		return nil, fmt.Errorf("%d bytes to lay aside, expected at most %d", len(b), MaxPlace)
	}
	p := &Place{shelf: s, size: len(b), sum: crc32.Checksum(b, castagnoli)}
	s.mu.Lock()
	p.runs = s.take((len(b) + block - 1) / block)
	s.mu.Unlock()
	err := p.each(func(at int64, from, to int) error {
		_, err := s.file.WriteAt(b[from:to], at)
		return err
	})
	if err != nil {
		p.Free()
		err = fmt.Errorf("a file without a name in %s: %w", s.dir, err)
	}
	s.mu.Lock()
	s.err = err
	s.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return p, nil
}

// Len returns the number of bytes.
func (p *Place) Len() int { return p.size }

// Append appends the bytes of the place. Bytes that are not those of Put are a *DamageError.
func (p *Place) Append(b []byte) ([]byte, error) {
	start := len(b)
	b = append(b, make([]byte, p.size)...)
	err := p.each(func(at int64, from, to int) error {
		n, err := p.shelf.file.ReadAt(b[start+from:start+to], at)
		if n < to-from && err == io.EOF {
			return io.ErrUnexpectedEOF
		}
		if n == to-from {
			return nil
		}
		return err
	})
	if sum := crc32.Checksum(b[start:], castagnoli); err == nil && sum != p.sum {
		err = fmt.Errorf("their checksum is %08x, expected %08x", sum, p.sum)
	}
	if err != nil {
		return b[:start], &DamageError{Dir: p.shelf.dir, At: p.at(), Size: p.size, Err: err}
	}
	return b, nil
}

// Free gives the place up. It must not be used any more, and nothing may read it.
func (p *Place) Free() {
	s := p.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range p.runs {
		for i := r.first; i < r.first+r.n; i++ {
			s.taken[i/64] &^= 1 << (i % 64)
		}
		s.first, s.used = min(s.first, int(r.first)), s.used-int64(r.n)
	}
	p.runs = nil
	s.cut()
}

// at returns where the place begins in the file.
func (p *Place) at() int64 {
	if len(p.runs) == 0 {
		return 0
	}
	return int64(p.runs[0].first) * block
}

// each calls f for every run, with its place in the file and the bytes of p that it has.
func (p *Place) each(f func(at int64, from, to int) error) error {
	from := 0
	for _, r := range p.runs {
		to := min(from+int(r.n)*block, p.size)
		if err := f(int64(r.first)*block, from, to); err != nil {
			return err
		}
		from = to
	}
	return nil
}

// take takes the first n blocks that are free. The caller holds mu.
func (s *Shelf) take(n int) (runs []run) {
	s.used += int64(n)
	for ; n > 0; n-- {
		i := s.next()
		s.taken[i/64] |= 1 << (i % 64)
		s.first, s.end = i+1, max(s.end, i+1)
		if last := len(runs) - 1; last >= 0 && runs[last].first+runs[last].n == uint32(i) {
			runs[last].n++
		} else {
			runs = append(runs, run{uint32(i), 1})
		}
	}
	return runs
}

// next returns the first free block.
func (s *Shelf) next() int {
	for w := s.first / 64; w < len(s.taken); w++ {
		if free := ^s.taken[w]; free != 0 {
			return 64*w + bits.TrailingZeros64(free)
		}
	}
	s.taken = append(s.taken, 0)
	return 64 * (len(s.taken) - 1)
}

// cut shortens the file by the blocks at its end that are free. The caller holds mu.
func (s *Shelf) cut() {
	w := len(s.taken)
	for w > 0 && s.taken[w-1] == 0 {
		w--
	}
	s.taken = s.taken[:w]
	end := 0
	if w > 0 {
		end = 64*w - bits.LeadingZeros64(s.taken[w-1])
	}
	if end < s.end && s.file.Truncate(int64(end)*block) == nil {
		s.end = end
	}
}

// DamageError says that bytes on a shelf are not those that were put there.
type DamageError struct {
	Dir  string // of the file, which has no name
	At   int64  // where the place begins in the file
	Size int    // its bytes
	Err  error  // what is wrong
}

// Error says in one line what is wrong and what to do.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%d bytes at %d of the file without a name in %s, where models are laid aside, are damaged: "+
		"%v; look after the disk and start again: the state is computed from the newest snapshot and the log",
		e.Size, e.At, e.Dir, e.Err)
}

// Unwrap returns what is wrong.
func (e *DamageError) Unwrap() error { return e.Err }

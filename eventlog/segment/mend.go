package segment

import (
	"crypto/sha256"
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// Sealed is a sealed segment as it should be, and whether it is so. Its bytes are the same at all machines.
type Sealed struct {
	Info           // what its end file says; without a readable one Size is 0, and the next segment says the rest
	NextSeq uint64 // of the first batch behind it
	Whole   bool   // both files are what was sealed
	File    bool   // the segment file is
}

// Check returns whether a file is the segment: by its SHA-256, or where that is not known by its header and the links of all
// its records, of which the next segment has the last one.
func (x Sealed) Check(f File, group uint16) (bool, error) {
	size, err := f.Size()
	if err != nil {
		return false, err
	}
	if x.Size > 0 {
		h := sha256.New()
		err := copyFile(h, f)
		return err == nil && size == x.Size && [32]byte(h.Sum(nil)) == x.Sum, err
	}
	h, ok, err := headerOf(f)
	if err != nil || !ok || h.group != group || h.first != x.First || x.Last == 0 {
		return false, err
	}
	w, err := walk(f, size, h, nil)
	return w.last == x.Last && w.link == x.Link && w.size == size && h.seq+w.batches == x.NextSeq, err
}

func headerOf(f File) (h header, ok bool, err error) {
	b := make([]byte, headerSize)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return h, false, err
	}
	h, ok = parseHeader(b)
	return h, ok, nil
}

// Inspect looks at all sealed segments of a group whose store is closed, and changes nothing. It reads all their bytes. A
// segment of which neither file is there is not in the list; nor is the newest one, which is not sealed.
func Inspect(fs FS, dir string, group uint16) ([]Sealed, error) {
	firsts, ends, _, err := list(fs, dir)
	if err != nil || len(firsts) == 0 {
		return nil, err
	}
	all := map[uint64]bool{}
	for _, first := range firsts {
		all[first] = true
	}
	for first := range ends {
		if first > firsts[0] && first < firsts[len(firsts)-1] { // others are left over from a removal
			all[first] = true
		}
	}
	order := slices.Sorted(maps.Keys(all))
	var out []Sealed
	for i, first := range order[:len(order)-1] {
		x, err := inspect(fs, dir, group, first, order[i+1])
		if err != nil {
			return nil, err
		}
		out = append(out, x)
	}
	return out, nil
}

func inspect(fs FS, dir string, group uint16, first, next uint64) (x Sealed, err error) {
	x.First = first
	if f, err := fs.Open(filepath.Join(dir, segmentName(next)), os.O_RDONLY); err == nil {
		h, ok, err := headerOf(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return x, err
		}
		if ok && h.group == group && h.first == next {
			x.Last, x.Link, x.NextSeq = next-1, h.before, h.seq
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return x, err
	}
	e, endOK, err := wholeEnd(fs, dir, group, first)
	if err != nil {
		return x, err
	}
	if endOK {
		x.Info = Info{first, e.last, e.size, e.link, e.sum}
	}
	f, err := fs.Open(filepath.Join(dir, segmentName(first)), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return x, nil
	} else if err != nil {
		return x, err
	}
	x.File, err = x.Check(f, group)
	x.Whole = x.File && endOK
	return x, errors.Join(err, f.Close())
}

// wholeEnd returns an end file, ok false when it or one of its offsets is not readable.
func wholeEnd(fs FS, dir string, group uint16, first uint64) (e end, ok bool, err error) {
	b, err := readFile(fs, filepath.Join(dir, endName(first)))
	if errors.Is(err, os.ErrNotExist) {
		return e, false, nil
	} else if err != nil {
		return e, false, err
	}
	e, ok = parseEnd(b)
	return e, ok && e.group == group && e.first == first && int64(len(b)) == endSize+4*int64(e.last-e.first+1) && checkOffsets(e, b), nil
}

// Damaged returns the next sealed segment of an open store, behind the one that begins with from, that is not what was sealed, ok
// false when there is none. It reads all bytes up to there, and calls pace after each segment. It may run beside all other calls.
func (s *Store) Damaged(from uint64, pace func(bytes int64) error) (x Sealed, ok bool, err error) {
	for {
		s.mu.RLock()
		var p *piece
		for i, y := range s.pieces {
			if y.sealed && y.first > from && y.sum != nil {
				p = y
				x = Sealed{Info: Info{p.first, p.last, p.size, p.link, *p.sum}, NextSeq: s.pieces[i+1].seq}
				break
			}
		}
		s.mu.RUnlock()
		if p == nil {
			return x, false, nil
		}
		from = x.First
		f, err := s.opt.FS.Open(filepath.Join(s.opt.Dir, segmentName(x.First)), os.O_RDONLY)
		switch {
		case err == nil:
			x.File, err = x.Check(f, s.opt.Group)
			err = errors.Join(err, f.Close())
		case errors.Is(err, os.ErrNotExist):
			err = nil
		}
		if err != nil {
			return x, false, err
		}
		e, endOK, err := wholeEnd(s.opt.FS, s.opt.Dir, s.opt.Group, x.First)
		if err != nil {
			return x, false, err
		}
		if x.Whole = x.File && endOK && e.sum == x.Sum; !x.Whole && s.sealedAs(x) {
			return x, true, nil
		}
		if err := pace(x.Size); err != nil {
			return x, false, err
		}
	}
}

// sealedAs returns whether a segment is there, sealed with this SHA-256: neither trimmed nor cut.
func (s *Store) sealedAs(x Sealed) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := s.in(x.First)
	return p != nil && p.first == x.First && p.sealed && p.sum != nil && *p.sum == x.Sum
}

// Mend puts a file, which has passed Sealed.Check and is durable, into the place of a sealed segment, and writes its end file anew. With
// an empty name the segment file stays. It changes nothing when the segment was trimmed or cut meanwhile, or the file is gone. It
// may be called where Append may be.
func (s *Store) Mend(x Sealed, name string) error {
	if !s.sealedAs(x) {
		return nil
	}
	path := filepath.Join(s.opt.Dir, segmentName(x.First))
	if name != "" {
		if err := s.opt.FS.Rename(filepath.Join(s.opt.Dir, name), path); errors.Is(err, os.ErrNotExist) {
			return nil
		} else if err != nil {
			return err
		}
		if err := s.syncDir(); err != nil {
			return err
		}
		s.handles.drop(segmentName(x.First))
	}
	f, err := s.opt.FS.Open(path, os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	h, _, err := headerOf(f)
	if err != nil {
		return err
	}
	w, err := walk(f, x.Size, h, nil)
	if err != nil {
		return err
	}
	if w.last != x.Last || w.link != x.Link {
		return damage(segmentName(x.First), w.size, w.last+1, w.last+1, "it is not the file that was sealed")
	}
	e := end{group: h.group, first: x.First, last: x.Last, seq: h.seq, size: x.Size, link: x.Link, sum: x.Sum}
	if err := writeFile(s.opt.FS, filepath.Join(s.opt.Dir, endName(x.First)), e.encode(w.offsets), !s.opt.NoSync); err != nil {
		return err
	}
	s.handles.drop(endName(x.First))
	return s.syncDir()
}

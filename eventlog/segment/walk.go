package segment

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"
)

// walked is what walk found.
type walked struct {
	last    uint64 // first-1 for none
	link    Link
	size    int64 // up to where records are whole and follow each other
	offsets []uint32
	batches uint64
	heads   heads
	wrong   uint64 // index of a whole record behind them that does not continue them, 0 for none
}

// walk reads the records of a segment file of size bytes, from its header on, up to the first bytes that are not the
// next one. sum, if not nil, gets the bytes up to there.
func walk(f io.ReaderAt, size int64, h header, sum hash.Hash) (w walked, err error) {
	w = walked{last: h.first - 1, link: h.before, size: headerSize}
	if sum != nil {
		sum.Reset()
		sum.Write(h.append(nil))
	}
	c, l := cursor{f: f, size: size}, newLinker()
	for {
		b, err := c.record(w.size)
		if err != nil || b == nil {
			return w, err
		}
		r, ok := parse(b)
		switch {
		case !ok:
			return w, nil
		case r.Index != w.last+1 || r.Group != h.group || l.next(w.link, b) != r.Link:
			w.wrong = r.Index
			return w, nil
		}
		w.offsets = append(w.offsets, uint32(w.size))
		w.last, w.link, w.size = r.Index, r.Link, w.size+int64(len(b))
		if w.heads.add(r.Index, r.Term, r.Kind); r.Kind == Batch {
			w.batches++
		}
		if sum != nil {
			sum.Write(b)
		}
	}
}

// cursor reads a file from the front in large parts.
type cursor struct {
	f    io.ReaderAt
	size int64
	buf  []byte
	at   int64 // offset of buf
}

// bytes returns n bytes at an offset, valid until the next call; nil when the file has not so many.
func (c *cursor) bytes(off int64, n int) ([]byte, error) {
	if off+int64(n) > c.size {
		return nil, nil
	}
	if from := off - c.at; from >= 0 && from+int64(n) <= int64(len(c.buf)) {
		return c.buf[from : from+int64(n)], nil
	}
	want := int(min(max(int64(n), readAhead), c.size-off))
	if cap(c.buf) < want {
		c.buf = make([]byte, want)
	}
	c.buf, c.at = c.buf[:want], off
	got, err := c.f.ReadAt(c.buf, off)
	if c.buf = c.buf[:got]; got < n {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, err
	}
	return c.buf[:n], nil
}

// record returns the bytes of the record at an offset, nil when no record can begin there.
func (c *cursor) record(off int64) ([]byte, error) {
	head, err := c.bytes(off, HeadSize)
	if head == nil {
		return nil, err
	}
	n, ok := length(head)
	if !ok {
		return nil, nil
	}
	return c.bytes(off, n)
}

// remainder returns how many bytes behind the records are not zero, up to the last such one, and the index of the first
// whole record among them, 0 for none. w.wrong is looked at by the caller.
func remainder(f io.ReaderAt, w walked, size int64, group uint16) (rest int64, next uint64, err error) {
	b := make([]byte, size-w.size)
	if n, err := f.ReadAt(b, w.size); err != nil && !errors.Is(err, io.EOF) {
		return 0, 0, err
	} else {
		b = b[:n]
	}
	rest = int64(len(bytes.TrimRight(b, "\x00")))
	for off := int64(1); off < rest; off++ { // a record may end with zeros
		if r, n := recordAt(b[off:], group, w.last); n > 0 {
			return off, r.Index, nil
		}
	}
	return rest, 0, nil
}

// recordAt returns the record with which b begins if it can stand behind entry last, n = 0 otherwise.
func recordAt(b []byte, group uint16, last uint64) (r Record, n int) {
	if len(b) < HeadSize {
		return r, 0
	}
	n, ok := length(b)
	if !ok || n > len(b) || b[24] == 0 || b[24] > byte(Members) {
		return r, 0
	}
	r, ok = parse(b[:n])
	if !ok || r.Group != group || r.Index <= last {
		return r, 0
	}
	return r, n
}

// Visitor is told what Walk meets, in the order of the files. Either may be nil.
type Visitor struct {
	// Record is given every whole record, also where it does not continue the one before it. Data are valid during the
	// call. An error ends the walk.
	Record func(file string, offset int64, r Record) error
	Damage func(Damage)
	// Pace is called after each file; an error ends the walk.
	Pace func(bytes int64) error
}

// End is the end of the files of a group.
type End struct {
	First, Last uint64 // whole entries; Last = First-1 for none
	Link        Link   // of the last one
	File        string // the last file
	Size        int64  // of it, up to where records are whole
	Torn        int64  // bytes behind that, which are no record and not zero
}

// Walk reads all files of a group, those of its entries and those that describe them, and changes nothing. It tells
// the visitor of every record and of every damage. What stands behind the last whole record is in End.Torn: the caller
// judges whether it is an interrupted write. An error is about the attempt.
func Walk(dir string, group uint16, v Visitor) (e End, err error) {
	firsts, ends, _, err := list(OS, dir)
	if err != nil {
		return e, err
	}
	x := walker{dir: dir, group: group, v: v, linker: newLinker()}
	for i, first := range firsts {
		if err := x.file(first, ends[first], i == len(firsts)-1); err != nil {
			return x.end, err
		}
	}
	if x.end.First == 0 {
		x.end.First = 1
		if len(firsts) > 0 {
			x.end.First = firsts[0]
		}
		x.end.Last = x.end.First - 1
	}
	return x.end, nil
}

type walker struct {
	dir    string
	group  uint16
	v      Visitor
	linker *linker
	end    End
	link   *Link // of the entry before, nil when not known
	began  bool
}

func (x *walker) damage(d *DamageError) {
	if x.v.Damage != nil {
		x.v.Damage(d.Damage)
	}
}

// file reads one segment file and its end file.
func (x *walker) file(first uint64, hasEnd, last bool) error {
	name := segmentName(first)
	b, err := os.ReadFile(filepath.Join(x.dir, name))
	if err != nil {
		return err
	}
	if !last {
		x.end.Torn = 0
	}
	h, ok := parseHeader(b)
	switch {
	case !ok || h.first != first || h.group != x.group:
		x.damage(damage(name, 0, 0, 0, "its header is not readable"))
		h = header{x.group, first, first, Link{}}
		x.link = nil
	case x.began && first > x.end.Last+1:
		x.damage(damage(name, 0, x.end.Last+1, first-1, "missing"))
		x.link = &h.before
	case x.began && first <= x.end.Last:
		x.damage(damage(name, 0, 0, 0, "it begins with entry %d, the file before it ends with entry %d", first, x.end.Last))
		x.link = &h.before
	case x.began && x.link != nil && *x.link != h.before:
		x.damage(damage(name, 0, 0, 0, "it does not continue the file before it"))
		x.link = &h.before
	default:
		x.link = &h.before
	}
	if !x.began {
		x.end.First, x.end.Last, x.end.Link, x.began = first, first-1, h.before, true
	}
	x.end.File, x.end.Size = name, min(headerSize, int64(len(b)))
	found := walked{last: first - 1, link: h.before}
	bad := -1 // where bytes begin that are no record
	written := len(bytes.TrimRight(b, "\x00"))
	for off := headerSize; off < written; { // a record may end with zeros
		r, n := recordAt(b[off:], x.group, 0)
		if n == 0 {
			if bad < 0 {
				bad = off
			}
			off++
			continue
		}
		if err := x.record(name, b[off:off+n], off, bad, r, &found); err != nil {
			return err
		}
		bad, off = -1, off+n
		x.end.Size = int64(off)
	}
	switch size := int(x.end.Size); {
	case last && bad >= 0:
		x.end.Torn = int64(written - bad)
	case !last && len(b) > size: // not even zeros
		x.damage(damage(name, int64(size), 0, 0, "bytes %d to %d are not readable", size, len(b)))
	}
	if err := x.endFile(h, b, found, hasEnd, last); err != nil {
		return err
	}
	if x.v.Pace != nil {
		return x.v.Pace(int64(len(b)))
	}
	return nil
}

// record takes the next whole record, which stands behind bytes from bad on that are none.
func (x *walker) record(name string, b []byte, off, bad int, r Record, found *walked) error {
	want := x.end.Last + 1
	continues := x.link != nil && x.linker.next(*x.link, b) == r.Link
	switch {
	case r.Index < want:
		x.damage(damage(name, int64(off), r.Index, r.Index, "it stands here again"))
		return nil
	case r.Index > want && bad >= 0:
		x.damage(damage(name, int64(bad), want, r.Index-1, "bytes %d to %d are not readable", bad, off))
	case r.Index > want:
		x.damage(damage(name, int64(off), want, r.Index-1, "missing"))
	case bad >= 0:
		x.damage(damage(name, int64(bad), 0, 0, "bytes %d to %d are not readable, and no entry is missing", bad, off))
	case x.link != nil && !continues:
		x.damage(damage(name, int64(off), r.Index, r.Index, "it does not continue entry %d", r.Index-1))
	}
	link := r.Link
	x.link = &link
	x.end.Last, x.end.Link = r.Index, r.Link
	found.offsets = append(found.offsets, uint32(off))
	found.last, found.link, found.size = r.Index, r.Link, int64(off+len(b))
	if x.v.Record != nil {
		return x.v.Record(name, int64(off), r)
	}
	return nil
}

// endFile compares the end file of a segment with the segment.
func (x *walker) endFile(h header, b []byte, found walked, hasEnd, last bool) error {
	name := endName(h.first)
	if !hasEnd {
		if !last {
			x.damage(damage(name, 0, 0, 0, "is missing"))
		}
		return nil
	}
	text, err := os.ReadFile(filepath.Join(x.dir, name))
	if err != nil {
		return err
	}
	e, ok := parseEnd(text)
	if !ok || e.group != x.group || e.first != h.first || len(text) != endSize+4*int(e.last-e.first+1) ||
		!checkOffsets(e, text) {
		x.damage(damage(name, 0, 0, 0, "it is not readable"))
		return nil
	}
	if e.seq != h.seq || e.size != int64(len(b)) || e.last != found.last || e.link != found.link ||
		!bytes.Equal(e.encode(found.offsets), text) || sha256.Sum256(b) != e.sum {
		x.damage(damage(name, 0, 0, 0, "%s is not the file that was sealed", segmentName(h.first)))
	}
	return nil
}

// CheckSealed reads every sealed segment, oldest first, and compares it with the SHA-256 of its end file. It calls pace
// after each, with its size; an error of pace ends it. A *DamageError: it is not the file that was sealed. It may run
// beside all other calls.
func (s *Store) CheckSealed(pace func(bytes int64) error) error {
	for from := uint64(0); ; {
		s.mu.RLock()
		var p *piece
		for _, x := range s.pieces {
			if x.sealed && x.first > from {
				p = x
				break
			}
		}
		s.mu.RUnlock()
		if p == nil {
			return nil
		}
		from = p.first
		if err := s.checkSealed(p); err != nil {
			if s.Oldest() > p.first { // trimmed meanwhile
				continue
			}
			return err
		}
		if err := pace(p.size); err != nil {
			return err
		}
	}
}

func (s *Store) checkSealed(p *piece) error {
	name := segmentName(p.first)
	e, ok, err := readEnd(s.opt.FS, s.opt.Dir, p.header)
	if err != nil {
		return err
	}
	if !ok {
		return damage(endName(p.first), 0, 0, 0, "it is not readable")
	}
	f, err := s.opt.FS.Open(filepath.Join(s.opt.Dir, name), os.O_RDONLY)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	if err := copyFile(h, f); err != nil {
		return err
	}
	if [32]byte(h.Sum(nil)) == e.sum {
		return nil
	}
	size, err := f.Size()
	if err != nil {
		return err
	}
	w, err := walk(f, size, p.header, nil) // where
	if err != nil {
		return err
	}
	return damage(name, w.size, w.last+1, w.last+1, "it is not the file that was sealed")
}

// Newest returns the index of the first entry of the newest segment.
func (s *Store) Newest() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.newest().first
}

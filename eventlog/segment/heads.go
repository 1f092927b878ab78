package segment

import (
	"encoding/binary"
	"errors"
	"io"
	"slices"
	"sort"
)

// heads is what is known of the entries of a segment without reading them: their terms, and which are no batches.
type heads struct {
	terms  []run
	others []uint64 // indices, ascending
}

// run is a term and the first entry that has it.
type run struct{ first, term uint64 }

func (h *heads) add(index, term uint64, kind Kind) {
	if n := len(h.terms); n == 0 || h.terms[n-1].term != term {
		h.terms = append(h.terms, run{index, term})
	}
	if kind != Batch {
		h.others = append(h.others, index)
	}
}

func (h *heads) term(index uint64) uint64 {
	i := sort.Search(len(h.terms), func(i int) bool { return h.terms[i].first > index })
	return h.terms[i-1].term
}

// upTo returns how many entries up to an index are no batches.
func (h *heads) upTo(index uint64) uint64 {
	n, _ := slices.BinarySearch(h.others, index+1)
	return uint64(n)
}

// Term returns the term of an entry that was synced. ErrNotFound: there is none.
func (s *Store) Term(index uint64) (uint64, error) {
	s.mu.RLock()
	p := s.in(index)
	if p != nil && p.heads != nil {
		defer s.mu.RUnlock()
		return p.heads.term(index), nil
	}
	s.mu.RUnlock()
	if p == nil {
		return 0, ErrNotFound
	}
	r, err := s.Get(index)
	return r.Term, err
}

// in returns the segment of an entry, nil when there is none. The caller holds mu.
func (s *Store) in(index uint64) *piece {
	i := sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].first > index }) - 1
	if i < 0 || index > s.pieces[i].last {
		return nil
	}
	return s.pieces[i]
}

// known returns the heads of the entries of a segment, which it reads when it has some that are no batches.
func (s *Store) known(p *piece) (*heads, error) {
	s.mu.RLock()
	h := p.heads
	batches := p.last - p.first + 1
	for i, x := range s.pieces {
		if x == p && i+1 < len(s.pieces) {
			batches = s.pieces[i+1].seq - p.seq
		}
	}
	s.mu.RUnlock()
	switch {
	case h != nil:
		return h, nil
	case batches == p.last-p.first+1:
		return &heads{}, nil
	}
	h = &heads{}
	r := s.Reader(p.first)
	defer r.Close()
	for range p.last - p.first + 1 {
		e, err := r.Next(p.last)
		if err != nil {
			return nil, err
		}
		h.add(e.Index, e.Term, e.Kind)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.heads = h
	return h, nil
}

// Seq returns how many batches there are up to an entry that was synced, those that were trimmed included: the sequence
// number of the newest batch up to there. The entry before the oldest one is allowed. ErrNotFound: there is no such entry.
func (s *Store) Seq(index uint64) (uint64, error) {
	s.mu.RLock()
	p := s.in(index)
	if p == nil && index+1 == s.pieces[0].first {
		defer s.mu.RUnlock()
		return s.pieces[0].seq - 1, nil
	}
	if p == nil {
		s.mu.RUnlock()
		return 0, ErrNotFound
	}
	if p == s.newest() { // whose heads grow
		defer s.mu.RUnlock()
		return p.seq - 1 + (index - p.first + 1) - p.heads.upTo(index), nil
	}
	s.mu.RUnlock()
	h, err := s.known(p)
	if err != nil {
		return 0, err
	}
	return p.seq - 1 + (index - p.first + 1) - h.upTo(index), nil
}

// Index returns the index of the batch with a sequence number. ErrNotFound: there is none.
func (s *Store) Index(seq uint64) (uint64, error) {
	s.mu.RLock()
	i := sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].seq > seq }) - 1
	if i < 0 {
		s.mu.RUnlock()
		return 0, ErrNotFound
	}
	p := s.pieces[i]
	last := p.last
	var others []uint64
	if p.heads != nil {
		others = slices.Clone(p.heads.others)
	}
	known := p.heads != nil
	s.mu.RUnlock()
	if !known {
		h, err := s.known(p)
		if err != nil {
			return 0, err
		}
		others = h.others
	}
	index := p.first + (seq - p.seq)
	for _, o := range others {
		if o > index {
			break
		}
		index++
	}
	if index > last {
		return 0, ErrNotFound
	}
	return index, nil
}

// Info is a segment as another machine needs to know it to fetch it.
type Info struct {
	First, Last uint64
	Size        int64
	Link        Link     // of the last entry
	Sum         [32]byte // SHA-256 of the bytes of a sealed segment, zero of one that is not sealed
}

// AppendTo appends 72 bytes.
func (i Info) AppendTo(b []byte) []byte {
	le := binary.LittleEndian
	b = le.AppendUint64(b, i.First)
	b = le.AppendUint64(b, i.Last)
	b = le.AppendUint64(b, uint64(i.Size))
	b = append(b, i.Link[:]...)
	return append(b, i.Sum[:]...)
}

// InfoSize is the length of what AppendTo appends.
const InfoSize = 72

// ParseInfo returns what AppendTo wrote; b has InfoSize bytes.
func ParseInfo(b []byte) Info {
	le := binary.LittleEndian
	return Info{le.Uint64(b), le.Uint64(b[8:]), int64(le.Uint64(b[16:])), Link(b[24:40]), [32]byte(b[40:72])}
}

// Segments returns the segments with the entries up to one that was synced, of the last one only the part up to there.
func (s *Store) Segments(upTo uint64) ([]Info, error) {
	at, _, _, err := s.locate(upTo)
	if err != nil {
		return nil, err
	}
	r, err := s.Get(upTo)
	if err != nil {
		return nil, err
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []Info
	for _, p := range s.pieces {
		if p.first > upTo {
			break
		}
		i := Info{First: p.first, Last: p.last, Size: p.size, Link: p.link}
		if p.sum != nil {
			i.Sum = *p.sum
		}
		if p.last > upTo || !p.sealed {
			i = Info{First: p.first, Last: upTo, Size: at.offset + at.length, Link: r.Link}
		}
		out = append(out, i)
	}
	return out, nil
}

// ReadSegment fills b from the segment that begins with an entry. ErrNotFound: it was trimmed.
func (s *Store) ReadSegment(first uint64, b []byte, at int64) error {
	return s.handles.readAt(segmentName(first), b, at)
}

// SegmentName is the name of the file of the segment that begins with an entry.
func SegmentName(first uint64) string { return segmentName(first) }

// CheckFile returns whether the records of a file are those of a segment that is described, by their links: all of them, up to
// its last one.
func CheckFile(f File, group uint16, i Info) (bool, error) {
	b := make([]byte, headerSize)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return false, err
	}
	h, ok := parseHeader(b)
	if !ok || h.group != group || h.first != i.First {
		return false, nil
	}
	w, err := walk(f, i.Size, h, nil)
	return w.last == i.Last && w.link == i.Link && w.size == i.Size, err
}

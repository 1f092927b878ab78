package segment

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sort"
	"sync"
)

// DefaultSize is the size that a segment file passes before it is sealed.
const DefaultSize = 64 << 20

// ahead is how many bytes are allocated behind the end of the newest file at a time, so that most syncs do not change
// its length.
const ahead = 1 << 20

// Options configure Open.
type Options struct {
	FS    FS     // OS when nil
	Dir   string // of the group; it is made if need be
	Group uint16
	// Size is what a segment passes before it is sealed, DefaultSize when 0. It is the same for all that have the same
	// sealed segments.
	Size int64
	// First is the index of the first entry of a store that is made, 1 when 0.
	First uint64
	// Acked is the acknowledged end, which must be there.
	Acked Acked
	// Grouped says that several entries may be written before a sync. Then whole records may stand behind unreadable bytes
	// after a loss of power, and all that is behind the acknowledged end is an interrupted write. Without it every entry
	// is synced before the next one is written, and a whole record behind unreadable bytes is always damage.
	Grouped bool
	// NoSync leaves out all syncs: for control runs of tests, which must fail with it, and for copies that
	// are synced at the end.
	NoSync bool
}

// Found is what Open found and mended.
type Found struct {
	Torn    int64    // bytes of an interrupted, never acknowledged write that were cut off
	Rebuilt []string // end files that were missing or damaged, and were written anew from whole segments
}

// piece is a segment file.
type piece struct {
	header
	last    uint64 // first-1 when empty
	link    Link   // of the last entry
	size    int64  // with the header, without what is allocated behind
	sealed  bool
	offsets []uint32  // of the entries, of a segment that is not sealed
	heads   *heads    // of the entries, nil when not known
	sum     *[32]byte // of a sealed segment, nil when not read yet
}

// Store is the entries of a group. One goroutine at a time may call Append, Sync, Trim and Close; the others may be
// called from many.
type Store struct {
	opt Options

	mu     sync.RWMutex
	pieces []*piece // ascending; the last one takes entries
	closed bool

	// Only the caller of Append and Sync uses these.
	f       File      // of the last piece
	size    int64     // of its bytes, synced or not
	room    int64     // up to where it is allocated
	pending []pending // entries that are not synced
	batches uint64    // in the last piece, synced or not
	full    bool      // the last piece has an end file, so it takes no more entries
	link    Link      // of the newest entry, synced or not
	noRoom  bool      // the file system does not allocate
	linker  *linker
	buf     []byte
	sum     hash.Hash // of the bytes of the last piece

	handles handles
}

// pending is an entry that is written and not synced.
type pending struct {
	offset uint32
	term   uint64
	kind   Kind
}

// Open opens the files of a group, or makes the first one where there is none. It reads the heads of all files and the
// whole of the newest one. Files that are not what was written are a *DamageError; nothing was changed then.
func Open(o Options) (_ *Store, found Found, err error) {
	if o.Size == 0 {
		o.Size = DefaultSize
	}
	if o.FS == nil {
		o.FS = OS
	}
	o.First = max(o.First, 1)
	if err := o.FS.MkdirAll(o.Dir); err != nil {
		return nil, found, err
	}
	s := &Store{opt: o, linker: newLinker(), sum: sha256.New()}
	s.handles.fs, s.handles.dir = o.FS, o.Dir
	firsts, _, tmp, err := list(o.FS, o.Dir)
	if err != nil {
		return nil, found, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.closeFiles())
		}
	}()
	if len(firsts) == 0 {
		if a := o.Acked; a.Last >= max(a.First, 1) {
			return nil, found, damage(".", 0, a.First, a.Last, "all segment files are missing")
		}
		return s, found, s.create(header{o.Group, o.First, o.First, Link{}})
	}
	var rebuild []*piece
	for i, first := range firsts {
		p, whole, err := s.openPiece(first, i == len(firsts)-1)
		if err != nil {
			return nil, found, err
		}
		if i > 0 {
			before := s.pieces[i-1]
			if p.first != before.last+1 {
				return nil, found, damage(segmentName(first), 0, before.last+1, p.first-1, "missing")
			}
			if p.before != before.link {
				return nil, found, damage(segmentName(first), 0, 0, 0, "it does not continue the file before it")
			}
		}
		if s.pieces = append(s.pieces, p); !whole && i < len(firsts)-1 {
			rebuild = append(rebuild, p)
		}
	}
	if found.Torn, err = s.openLast(); err != nil {
		return nil, found, err
	}
	// A process that was killed may have made a file without making its name durable.
	if err := s.syncDir(); err != nil {
		return nil, found, err
	}
	for _, name := range tmp { // of a write that was interrupted
		if err := s.opt.FS.Remove(filepath.Join(o.Dir, name)); err != nil {
			return nil, found, err
		}
	}
	for _, p := range rebuild {
		if err := s.writeEnd(p, nil); err != nil {
			return nil, found, err
		}
		found.Rebuilt = append(found.Rebuilt, endName(p.first))
	}
	return s, found, s.dropTrimmed(o.Acked.First)
}

func damage(file string, offset int64, first, last uint64, format string, a ...any) *DamageError {
	return &DamageError{Damage{file, offset, first, last, fmt.Sprintf(format, a...)}}
}

// openPiece reads the heads of a segment. whole says that its end file is there and fits; otherwise a segment that is
// not the last one is read in full.
func (s *Store) openPiece(first uint64, last bool) (p *piece, whole bool, err error) {
	name := segmentName(first)
	f, err := s.opt.FS.Open(filepath.Join(s.opt.Dir, name), os.O_RDONLY)
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return nil, false, err
	}
	b := make([]byte, headerSize)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, false, err
	}
	h, ok := parseHeader(b)
	if !ok || h.first != first || h.group != s.opt.Group {
		return nil, false, damage(name, 0, 0, 0, "its header is not readable")
	}
	p = &piece{header: h, last: first - 1, link: h.before, size: headerSize}
	if last {
		return p, false, nil // openLast reads it
	}
	if e, ok, err := readEnd(s.opt.FS, s.opt.Dir, h); err != nil {
		return nil, false, err
	} else if ok && e.size == size {
		p.last, p.link, p.size, p.sealed, p.sum = e.last, e.link, e.size, true, &e.sum
		return p, true, nil
	}
	w, err := walk(f, size, h, nil)
	if err != nil {
		return nil, false, err
	}
	if w.size != size || w.last < first {
		return nil, false, damage(name, w.size, w.last+1, w.last+1, "bytes %d to %d are not readable", w.size, size)
	}
	p.take(w)
	p.sealed = true
	return p, false, nil
}

// readEnd returns what the end file of a segment says, ok false when it is missing, or does not fit the header.
func readEnd(fs FS, dir string, h header) (e end, ok bool, err error) {
	f, err := fs.Open(filepath.Join(dir, endName(h.first)), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return e, false, nil
	} else if err != nil {
		return e, false, err
	}
	defer f.Close()
	b := make([]byte, endSize)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return e, false, err
	}
	size, err := f.Size()
	if err != nil {
		return e, false, err
	}
	e, ok = parseEnd(b)
	return e, ok && e.group == h.group && e.first == h.first && e.seq == h.seq &&
		size == endSize+4*int64(e.last-e.first+1), nil
}

// openLast reads the newest segment, compares it with what was acknowledged, and cuts off an interrupted write.
func (s *Store) openLast() (torn int64, err error) {
	p := s.pieces[len(s.pieces)-1]
	name := segmentName(p.first)
	if s.f, err = s.opt.FS.Open(filepath.Join(s.opt.Dir, name), os.O_RDWR); err != nil {
		return 0, err
	}
	size, err := s.f.Size()
	if err != nil {
		return 0, err
	}
	w, err := walk(s.f, size, p.header, s.sum)
	if err != nil {
		return 0, err
	}
	p.take(w)
	s.size, s.room, s.link, s.batches = w.size, size, w.link, w.batches
	e, full, err := readEnd(s.opt.FS, s.opt.Dir, p.header)
	if err != nil {
		return 0, err
	}
	s.full = full
	rest, next, err := remainder(s.f, w, size, p.header.group)
	if err != nil {
		return 0, err
	}
	a := s.opt.Acked
	grouped := s.opt.Grouped && p.last >= a.Last // what is behind was never acknowledged
	switch {
	case full && p.last < e.last:
		return 0, damage(name, w.size, p.last+1, e.last, "bytes %d to %d are not readable", w.size, e.size)
	case w.wrong > 0 && !grouped:
		return 0, damage(name, w.size, w.wrong, w.wrong, "it does not continue entry %d", w.last)
	case next > 0 && !grouped: // whole records are written behind a sync only
		return 0, damage(name, w.size, w.last+1, next-1, "bytes %d to %d are not readable", w.size, w.size+rest)
	case p.last < a.Last:
		return 0, damage(name, w.size, p.last+1, a.Last, "acknowledged, and missing at the end")
	case a.Last >= s.pieces[0].first:
		at := p.before
		if a.Last >= p.first || a.Last < p.first-1 {
			r, err := s.Get(a.Last)
			if err != nil {
				return 0, err
			}
			at = r.Link
		}
		if at != a.Link {
			return 0, damage(name, 0, a.Last, a.Last, "it is not the entry that was acknowledged")
		}
	}
	if first := s.opt.Acked.First; first > 0 && first < s.pieces[0].first {
		return 0, damage(segmentName(s.pieces[0].first), 0, first, s.pieces[0].first-1, "missing at the beginning")
	}
	if rest > 0 { // of a write that was interrupted
		torn = rest
	}
	if size > s.size {
		if err := s.cut(); err != nil {
			return 0, err
		}
	}
	// Entries that were stored and never acknowledged belong to the log from now on. They may be in the system's
	// memory only; after a sync that failed the system takes them for durable, so they are written once more.
	if err := s.rewrite(p, a.Last+1); err != nil {
		return 0, err
	}
	if !s.opt.NoSync {
		if err := s.f.SyncData(); err != nil {
			return 0, &SyncError{err}
		}
	}
	return torn, nil
}

// take makes what was read of a segment its content.
func (p *piece) take(w walked) {
	p.last, p.link, p.size, p.offsets, p.heads = w.last, w.link, w.size, w.offsets, &w.heads
}

// rewrite writes the entries from an index on once more, with the same bytes.
func (s *Store) rewrite(p *piece, from uint64) error {
	from = max(from, p.first)
	if from > p.last {
		return nil
	}
	at := int64(p.offsets[from-p.first])
	b := make([]byte, min(s.size-at, 4<<20))
	for ; at < s.size; at += int64(len(b)) {
		b = b[:min(int64(len(b)), s.size-at)]
		if _, err := s.f.ReadAt(b, at); err != nil {
			return err
		}
		if _, err := s.f.WriteAt(b, at); err != nil {
			return err
		}
	}
	return nil
}

// cut removes what stands behind the last whole record of the newest file.
func (s *Store) cut() error {
	if err := s.f.Truncate(s.size); err != nil {
		return err
	}
	s.room = s.size
	return nil
}

// create makes the next segment file and opens it for entries.
func (s *Store) create(h header) error {
	b := h.append(nil)
	// An end file of a segment that began here before and was cut away would be taken for this one's.
	if err := s.opt.FS.Remove(filepath.Join(s.opt.Dir, endName(h.first))); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if err := writeFile(s.opt.FS, filepath.Join(s.opt.Dir, segmentName(h.first)), b, !s.opt.NoSync); err != nil {
		return err
	}
	if err := s.syncDir(); err != nil {
		return err
	}
	f, err := s.opt.FS.Open(filepath.Join(s.opt.Dir, segmentName(h.first)), os.O_RDWR)
	if err != nil {
		return err
	}
	if s.f != nil {
		_ = s.f.Close() // it was synced
	}
	s.f, s.size, s.room, s.link, s.pending = f, headerSize, headerSize, h.before, s.pending[:0]
	s.batches, s.full, s.noRoom = 0, false, false
	s.sum.Reset()
	s.sum.Write(b)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pieces = append(s.pieces, &piece{header: h, last: h.first - 1, link: h.before, size: headerSize, heads: &heads{}})
	return nil
}

func (s *Store) syncDir() error {
	if s.opt.NoSync {
		return nil
	}
	return syncDir(s.opt.FS, s.opt.Dir)
}

func (s *Store) newest() *piece { return s.pieces[len(s.pieces)-1] }

// Last returns the index of the newest synced entry and its link, First-1 of a store without entries.
func (s *Store) Last() (index uint64, link Link) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	p := s.newest()
	return p.last, p.link
}

// Oldest returns the index of the oldest entry that is stored.
func (s *Store) Oldest() uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.pieces[0].first
}

// Append writes an entry behind the newest one and returns its index. It is durable, and readers see it, after Sync.
// The data are written one behind the other. After an error nothing was stored, or, when the error is a *SyncError,
// it is not known what is on the disk.
func (s *Store) Append(term uint64, kind Kind, data ...[]byte) (index uint64, err error) {
	p := s.newest()
	if s.size >= s.opt.Size || s.full {
		if len(s.pending) > 0 {
			if err := s.Sync(); err != nil {
				return 0, err
			}
		}
		if err := s.seal(); err != nil {
			return 0, err
		}
		p = s.newest()
	}
	r := Record{Index: p.last + uint64(len(s.pending)) + 1, Term: term, Kind: kind, Group: s.opt.Group}
	var link Link
	s.buf, link = s.linker.appendRecord(s.buf[:0], r, s.link, data...)
	if len(s.buf) > HeadSize+MaxData {
		return 0, fmt.Errorf("segment: an entry of %d bytes, at most %d", len(s.buf)-HeadSize, MaxData)
	}
	if n := int64(len(s.buf)); s.size+n > s.room && !s.noRoom {
		if s.f.Allocate(s.size, n+ahead) {
			s.room = s.size + n + ahead
		} else {
			s.noRoom = true
		}
	}
	if _, err := s.f.WriteAt(s.buf, s.size); err != nil {
		// What was written of it must not stand behind a later, shorter record.
		if cut := s.cut(); cut != nil {
			return 0, &SyncError{errors.Join(err, cut)}
		}
		return 0, err
	}
	s.sum.Write(s.buf)
	s.pending = append(s.pending, pending{uint32(s.size), term, kind})
	s.size, s.link = s.size+int64(len(s.buf)), link
	if kind == Batch {
		s.batches++
	}
	s.room = max(s.room, s.size)
	if cap(s.buf) > 4<<20 {
		s.buf = nil
	}
	return r.Index, nil
}

// Sync makes what was written durable and visible to readers. After an error the store takes no more entries.
func (s *Store) Sync() error {
	if !s.opt.NoSync {
		if err := s.f.SyncData(); err != nil {
			return &SyncError{err}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.newest()
	for _, e := range s.pending {
		p.last++
		p.offsets = append(p.offsets, e.offset)
		p.heads.add(p.last, e.term, e.kind)
	}
	p.size, p.link = s.size, s.link
	s.pending = s.pending[:0]
	return nil
}

// seal ends the newest segment and begins the next one. It may be called again after an error that is no *SyncError.
func (s *Store) seal() error {
	p := s.newest()
	if s.room > s.size {
		if err := s.cut(); err != nil {
			return err
		}
	}
	if !s.opt.NoSync {
		if err := s.f.Sync(); err != nil {
			return &SyncError{err}
		}
	}
	var sum [32]byte
	s.sum.Sum(sum[:0])
	if err := s.writeEnd(p, &sum); err != nil {
		return err
	}
	if err := s.create(header{s.opt.Group, p.last + 1, p.seq + s.batches, p.link}); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	p.sealed, p.offsets, p.sum = true, nil, &sum
	return nil
}

// writeEnd writes the end file of a segment, whose offsets are known. Without a sum it reads the file.
func (s *Store) writeEnd(p *piece, sum *[32]byte) error {
	if sum == nil {
		f, err := s.opt.FS.Open(filepath.Join(s.opt.Dir, segmentName(p.first)), os.O_RDONLY)
		if err != nil {
			return err
		}
		h := sha256.New()
		err = copyFile(h, f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
		sum = (*[32]byte)(h.Sum(nil))
	}
	e := end{group: p.group, first: p.first, last: p.last, seq: p.seq, size: p.size, link: p.link, sum: *sum}
	if err := writeFile(s.opt.FS, filepath.Join(s.opt.Dir, endName(p.first)), e.encode(p.offsets), !s.opt.NoSync); err != nil {
		return err
	}
	if err := s.syncDir(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.sealed {
		p.offsets, p.sum = nil, sum
	}
	return nil
}

// Trim removes the segment files whose entries are all before first. Entries before first may stay in the oldest one.
func (s *Store) Trim(first uint64) error { return s.dropTrimmed(first) }

// Trimmed returns which entry is the oldest one after Trim.
func (s *Store) Trimmed(first uint64) uint64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, p := range s.pieces[:len(s.pieces)-1] {
		if p.last >= first {
			return p.first
		}
	}
	return s.newest().first
}

func (s *Store) dropTrimmed(first uint64) error {
	removed := false
	for {
		s.mu.Lock()
		p := s.pieces[0]
		if len(s.pieces) == 1 || p.last >= first {
			s.mu.Unlock()
			break
		}
		s.pieces = s.pieces[1:]
		s.mu.Unlock()
		// In this order: a segment without its end file would be read in full.
		for _, name := range []string{segmentName(p.first), endName(p.first)} {
			s.handles.drop(name)
			if err := s.opt.FS.Remove(filepath.Join(s.opt.Dir, name)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return err
			}
		}
		removed = true
	}
	// End files without a segment are left over from a removal that was interrupted.
	firsts, ends, _, err := list(s.opt.FS, s.opt.Dir)
	if err != nil {
		return err
	}
	for _, f := range firsts {
		delete(ends, f)
	}
	for f := range ends {
		if f < first {
			if err := s.opt.FS.Remove(filepath.Join(s.opt.Dir, endName(f))); err != nil {
				return err
			}
			removed = true
		}
	}
	if !removed {
		return nil
	}
	return s.syncDir()
}

// Bytes returns how many bytes the records from first on take.
func (s *Store) Bytes(first uint64) (uint64, error) {
	s.mu.RLock()
	total := uint64(0)
	var in *piece
	for _, p := range s.pieces {
		if p.last < first {
			continue
		}
		if total += uint64(p.size) - headerSize; p.first < first {
			in = p
		}
	}
	s.mu.RUnlock()
	if in == nil {
		return total, nil
	}
	at, _, _, err := s.locate(first)
	if err != nil {
		return 0, err
	}
	return total - uint64(at.offset-headerSize), nil
}

// Close ends the store. The newest file keeps its bytes and nothing that was allocated behind them.
func (s *Store) Close() error {
	var err error
	if s.f != nil && s.room > s.size {
		err = s.cut()
	}
	if s.f != nil && !s.opt.NoSync {
		err = errors.Join(err, s.f.Sync())
	}
	return errors.Join(err, s.closeFiles())
}

// Abandon closes the files and writes nothing.
func (s *Store) Abandon() error { return s.closeFiles() }

func (s *Store) closeFiles() error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.handles.close()
	if s.f == nil {
		return nil
	}
	return s.f.Close()
}

// place is where an entry stands.
type place struct {
	file   string
	first  uint64 // of its segment
	offset int64
	length int64 // 0 when not known
}

// locate returns where an entry stands, and the last entry and the size of its segment.
func (s *Store) locate(index uint64) (at place, last uint64, size int64, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	i := sort.Search(len(s.pieces), func(i int) bool { return s.pieces[i].first > index }) - 1
	if i < 0 || index > s.pieces[i].last {
		return at, 0, 0, ErrNotFound
	}
	p := s.pieces[i]
	at, last, size = place{file: segmentName(p.first), first: p.first}, p.last, p.size
	k := index - p.first
	if p.offsets != nil {
		if at.offset = int64(p.offsets[k]); k+1 < uint64(len(p.offsets)) {
			at.length = int64(p.offsets[k+1]) - at.offset
		} else {
			at.length = size - at.offset
		}
		return at, last, size, nil
	}
	var b [8]byte
	n := 8
	if index == last {
		n = 4
	}
	if err := s.handles.readAt(endName(p.first), b[:n], int64(endSize+4*k)); err != nil {
		return at, 0, 0, err
	}
	at.offset = int64(binary.LittleEndian.Uint32(b[:]))
	to := size
	if n == 8 {
		to = int64(binary.LittleEndian.Uint32(b[4:]))
	}
	if at.length = to - at.offset; at.offset < headerSize || at.length < HeadSize || to > size {
		return at, 0, 0, damage(endName(p.first), int64(endSize+4*k), index, index,
			"it says that the entry has bytes %d to %d of %d", at.offset, to, size)
	}
	return at, last, size, nil
}

// checkOffsets returns whether the offsets in the bytes of an end file are those of e.
func checkOffsets(e end, b []byte) bool { return crc32.Checksum(b[endSize:], castagnoli) == e.offsets }

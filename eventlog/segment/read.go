package segment

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
)

// ErrNotFound: no entry has this index, or it was trimmed.
var ErrNotFound = errors.New("segment: no such entry")

// handles keeps a few files open for reading.
type handles struct {
	fs   FS
	dir  string
	mu   sync.Mutex
	open map[string]File
}

const openFiles = 16

func (h *handles) get(name string) (File, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.open[name]; f != nil {
		return f, nil
	}
	f, err := h.fs.Open(filepath.Join(h.dir, name), os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	if len(h.open) >= openFiles {
		for other, f := range h.open { // any one; who reads it opens it again
			_ = f.Close()
			delete(h.open, other)
			break
		}
	}
	if h.open == nil {
		h.open = map[string]File{}
	}
	h.open[name] = f
	return f, nil
}

// readAt fills b from a file.
func (h *handles) readAt(name string, b []byte, at int64) error {
	for {
		f, err := h.get(name)
		if err != nil {
			if errors.Is(err, os.ErrNotExist) { // trimmed meanwhile, or removed by others
				return ErrNotFound
			}
			return err
		}
		n, err := f.ReadAt(b, at)
		switch {
		case n == len(b):
			return nil
		case errors.Is(err, os.ErrClosed): // another reader needed the place
			continue
		case errors.Is(err, io.EOF):
			return damage(name, at, 0, 0, "it ends before byte %d", at+int64(len(b)))
		}
		return err
	}
}

func (h *handles) drop(name string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if f := h.open[name]; f != nil {
		_ = f.Close()
		delete(h.open, name)
	}
}

func (h *handles) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for name, f := range h.open {
		_ = f.Close()
		delete(h.open, name)
	}
}

// Get returns an entry that was synced. Data belongs to the receiver. ErrNotFound: there is none. A *DamageError: the
// bytes are not what was written.
func (s *Store) Get(index uint64) (Record, error) {
	at, _, _, err := s.locate(index)
	if err != nil {
		return Record{}, err
	}
	if at.length > HeadSize+MaxData {
		return Record{}, damage(at.file, at.offset, index, index, "%d bytes", at.length)
	}
	b := make([]byte, at.length)
	if err := s.handles.readAt(at.file, b, at.offset); err != nil {
		return Record{}, err
	}
	return s.check(b, at.file, at.offset, index)
}

// check returns the record of an entry from its bytes.
func (s *Store) check(b []byte, file string, offset int64, index uint64) (Record, error) {
	bad := func(what string) (Record, error) { return Record{}, damage(file, offset, index, index, "%s", what) }
	n, ok := length(b)
	if !ok || n != len(b) {
		return bad("its length is wrong")
	}
	r, ok := parse(b)
	switch {
	case !ok:
		return bad("its checksum is wrong")
	case r.Index != index || r.Group != s.opt.Group:
		return bad("another entry stands here")
	}
	return r, nil
}

// Prefix returns the first n bytes of the data of an entry, without a check of its checksum.
func (s *Store) Prefix(index uint64, n int) ([]byte, error) {
	at, _, _, err := s.locate(index)
	if err != nil {
		return nil, err
	}
	b := make([]byte, max(0, min(int64(n), at.length-HeadSize)))
	return b, s.handles.readAt(at.file, b, at.offset+HeadSize)
}

// Reader reads the entries of a store in order. It may be used by one goroutine at a time.
type Reader struct {
	s      *Store
	next   uint64
	last   uint64 // of the present segment, as far as it was known
	size   int64
	file   string
	offset int64 // of the next record
	f      File
	buf    []byte
	at     int64 // offset of buf
}

// Reader returns a reader of the entries from an index on. Close must be called.
func (s *Store) Reader(from uint64) *Reader { return &Reader{s: s, next: from} }

// readAhead is how much a reader reads at a time.
const readAhead = 256 << 10

// Next returns the next entry, whose index is at most until, which was synced. The data are valid until the next call.
// io.EOF: the next entry is behind until. ErrNotFound: it was trimmed. A *DamageError: it is not what was written.
func (r *Reader) Next(until uint64) (Record, error) {
	if r.next > until {
		return Record{}, io.EOF
	}
	if r.f == nil || r.next > r.last {
		if err := r.place(); err != nil {
			return Record{}, err
		}
	}
	head, err := r.bytes(HeadSize)
	if err != nil {
		return Record{}, err
	}
	n, ok := length(head)
	if !ok {
		return Record{}, damage(r.file, r.offset, r.next, r.next, "its length is wrong")
	}
	b, err := r.bytes(n)
	if err != nil {
		return Record{}, err
	}
	rec, err := r.s.check(b, r.file, r.offset, r.next)
	if err == nil {
		r.offset, r.next = r.offset+int64(n), r.next+1
	}
	return rec, err
}

// place finds the next entry, in the present segment or in the next one.
func (r *Reader) place() error {
	at, last, size, err := r.s.locate(r.next)
	if err != nil {
		return err
	}
	if r.last, r.size = last, size; r.f != nil && at.file == r.file {
		return nil
	}
	r.Close()
	f, err := r.s.opt.FS.Open(filepath.Join(r.s.opt.Dir, at.file), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return ErrNotFound
	} else if err != nil {
		return err
	}
	r.f, r.file, r.offset, r.buf = f, at.file, at.offset, r.buf[:0]
	return nil
}

// bytes returns the next n bytes, without going on.
func (r *Reader) bytes(n int) ([]byte, error) {
	if from := r.offset - r.at; from >= 0 && from+int64(n) <= int64(len(r.buf)) {
		return r.buf[from : from+int64(n)], nil
	}
	if r.offset+int64(n) > r.size {
		return nil, damage(r.file, r.offset, r.next, r.next, "it goes on behind the end of the file")
	}
	want := int(min(max(int64(n), readAhead), r.size-r.offset))
	if cap(r.buf) < want {
		r.buf = make([]byte, want)
	}
	r.buf, r.at = r.buf[:want], r.offset
	got, err := r.f.ReadAt(r.buf, r.at)
	r.buf = r.buf[:got]
	if got < n {
		if errors.Is(err, io.EOF) {
			return nil, damage(r.file, r.offset, r.next, r.next, "the file ends before byte %d", r.offset+int64(n))
		}
		return nil, err
	}
	return r.buf[:n], nil
}

// Close releases the file.
func (r *Reader) Close() {
	if r.f != nil {
		_ = r.f.Close()
		r.f = nil
	}
}

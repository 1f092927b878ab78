package fold

import (
	"bytes"
	"encoding/binary"
	"errors"
)

// writer and reader of the formats of this package: numbers as uvarint unless they are fixed. After the first fault a
// reader returns zero values.
type writer struct{ b []byte }

func (w *writer) uint(v uint64) { w.b = binary.AppendUvarint(w.b, v) }

func (w *writer) fixed(v uint64) { w.b = binary.LittleEndian.AppendUint64(w.b, v) }

func (w *writer) bytes(v []byte) { w.uint(uint64(len(v))); w.b = append(w.b, v...) }

func (w *writer) bool(v bool) {
	if v {
		w.b = append(w.b, 1)
	} else {
		w.b = append(w.b, 0)
	}
}

type reader struct {
	b   []byte
	err error
}

// fail notes a fault, unless there was one.
func (r *reader) fail(text string) {
	if r.err == nil {
		r.err = errors.New(text)
	}
}

func (r *reader) take(n int) []byte {
	if r.err != nil || n < 0 || n > len(r.b) {
		r.fail("cut short")
		return nil
	}
	out := r.b[:n:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || r.err != nil {
		r.take(len(r.b) + 1)
		return 0
	}
	r.take(n)
	return v
}

// count reads a number of things that take at least a byte each.
func (r *reader) count() int {
	n := r.uint()
	if n > uint64(len(r.b)) {
		r.take(len(r.b) + 1)
		return 0
	}
	return int(n)
}

func (r *reader) fixed() uint64 {
	if b := r.take(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) key() (k [16]byte) {
	copy(k[:], r.take(16))
	return k
}

func (r *reader) byte() byte {
	if b := r.take(1); b != nil {
		return b[0]
	}
	return 0
}

func (r *reader) bool() bool { return r.byte() != 0 }

func (r *reader) bytes() []byte { return bytes.Clone(r.take(r.count())) }

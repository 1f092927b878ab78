package fold

import (
	"crypto/sha256"
	"io"

	"troupe/serve/shelf"
)

// Image is a state of a fold that can be written while the fold goes on. It has the bytes of the state in pieces, and
// of models the states where these have bytes. With a shelf the first pieces are in memory and the others there, and
// each is read when its turn to be written comes. Use it once, from one goroutine at a time.
type Image struct {
	pieces []piece
	size   int
}

// piece is bytes of an image, and the state whose bytes follow them, nil for none.
type piece struct {
	b     []byte       // nil: on the shelf
	place *shelf.Place // nil: in memory
	state *State
}

const (
	pieceSize = 256 << 10 // bytes of a piece, about, so that nothing grows by copying all that was written
	smallSize = 16 << 10  // bytes of pieces that stay in memory
)

// inMemory is how many bytes of pieces are in memory before others go to the shelf. Tests change it.
var inMemory = 8 << 20

// imager makes an image.
type imager struct {
	writer
	image    Image
	on       *shelf.Shelf
	used     int    // bytes of pieces in memory
	snapshot []byte // of a model, used again for the next one
}

// push ends the piece, with a state behind it.
func (w *imager) push(behind *State) {
	p := piece{b: w.b, state: behind}
	w.image.size += len(w.b) + behind.size()
	if w.b = nil; w.on != nil && w.used >= inMemory && len(p.b) >= min(smallSize, inMemory) {
		if place, err := w.on.Put(p.b); err == nil { // otherwise it stays in memory
			w.b, p.b, p.place = p.b[:0], nil, place
		}
	}
	w.used += len(p.b)
	w.image.pieces = append(w.image.pieces, p)
}

// cut begins another piece when this one is large.
func (w *imager) cut() {
	if len(w.b) >= pieceSize {
		if w.push(nil); w.b == nil {
			w.b = make([]byte, 0, pieceSize+pieceSize/8)
		}
	}
}

// policy writes the snapshot of a model.
func (w *imager) policy(m *Model) error {
	if s := m.state; s.size() > 0 && s.Hold() {
		w.uint(uint64(s.size()))
		w.push(s)
		return nil
	}
	b, err := m.appendSnapshot(w.snapshot[:0])
	if err == nil {
		w.bytes(b)
		w.snapshot = b
	}
	return err
}

// Len returns the number of bytes that WriteTo writes.
func (m *Image) Len() int { return m.size + sha256.Size }

// WriteTo writes the state with its checksum, and releases the image: equal states have equal bytes, on a shelf or not.
// Bytes that are damaged on the shelf are a *shelf.DamageError; they are not written.
func (m *Image) WriteTo(w io.Writer) (n int64, err error) {
	defer m.Release()
	sum := sha256.New()
	var buffer []byte
	write := func(b []byte, at *shelf.Place) {
		if err == nil && at != nil {
			buffer, err = at.Append(buffer[:0])
			b = buffer
		}
		if err != nil {
			return
		}
		k := 0
		k, err = w.Write(b)
		n += int64(k)
		sum.Write(b)
	}
	for i := range m.pieces {
		p := &m.pieces[i]
		write(p.b, p.place)
		if s := p.state; s != nil {
			write(s.bytes, s.place)
		}
		p.release()
	}
	write(sum.Sum(nil), nil)
	return n, err
}

// Release gives up an image that is not written. It may be called twice.
func (m *Image) Release() {
	for i := range m.pieces {
		m.pieces[i].release()
	}
	m.pieces = nil
}

func (p *piece) release() {
	if p.state.Release(); p.place != nil {
		p.place.Free()
	}
	*p = piece{}
}

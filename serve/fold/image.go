package fold

import (
	"crypto/sha256"
	"io"
)

// Image is a state of a fold that can be written while the fold goes on. It has the bytes of the state in pieces. Of
// models it holds the states where these have bytes; what is on a shelf is read when its turn to be written comes. Use it
// once, from one goroutine at a time.
type Image struct {
	pieces []piece
	size   int
}

// piece is bytes of an image, and the state whose bytes follow them, nil for none.
type piece struct {
	b     []byte
	state *State
}

// pieceSize is about how many bytes a piece has, so that nothing grows by copying all that was written.
const pieceSize = 256 << 10

// imager makes an image.
type imager struct {
	writer
	image    Image
	snapshot []byte // of a model, used again for the next one
}

// push ends the piece, with a state behind it.
func (w *imager) push(behind *State) {
	w.image.pieces = append(w.image.pieces, piece{w.b, behind})
	w.image.size += len(w.b) + behind.size()
	w.b = nil
}

// cut begins another piece when this one is large.
func (w *imager) cut() {
	if len(w.b) >= pieceSize {
		w.push(nil)
		w.b = make([]byte, 0, pieceSize+pieceSize/8)
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

// WriteTo writes the state with its checksum, and releases the image: equal states have equal bytes, on a shelf or not. A
// snapshot that is damaged on the shelf is a *shelf.DamageError; nothing of it is written then.
func (m *Image) WriteTo(w io.Writer) (n int64, err error) {
	defer m.Release()
	sum := sha256.New()
	write := func(b []byte) {
		if err == nil {
			k := 0
			k, err = w.Write(b)
			n += int64(k)
			sum.Write(b)
		}
	}
	var snapshot []byte
	for i, p := range m.pieces {
		write(p.b)
		m.pieces[i].b = nil
		if s := p.state; s != nil && s.place == nil {
			write(s.bytes)
		} else if s != nil && err == nil {
			if snapshot, err = s.place.Append(snapshot[:0]); err == nil {
				write(snapshot)
			}
		}
	}
	write(sum.Sum(nil))
	return n, err
}

// Release gives up an image that is not written. It may be called twice.
func (m *Image) Release() {
	for _, p := range m.pieces {
		p.state.Release()
	}
	m.pieces = nil
}

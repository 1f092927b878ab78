package eventlog

import (
	"bytes"
	"fmt"
)

// MaxData is the largest Data of a Piece, and the largest Atoms of a Decision or a Reward, in bytes.
const MaxData = 512 << 10

// Piece is a part of the state that a model starts from, which is too large for one record.
type Piece struct {
	Model  ID     `json:"model"`
	Part   uint32 `json:"part"`            // from 0
	Parts  uint32 `json:"parts"`           // how many there are
	Data   []byte `json:"data"`            // 1 to MaxData bytes
	Digest ID     `json:"digest,omitzero"` // of the whole state, on the last piece
}

// Kind implements Record.
func (*Piece) Kind() Kind { return KindPiece }

func (r *Piece) check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("piece: %s: %w", fmt.Sprintf(format, a...), ErrMalformed)
	}
	switch {
	case r.Model == 0:
		return bad("model is 0")
	case r.Part >= r.Parts:
		return bad("part = %d of %d", r.Part, r.Parts)
	case len(r.Data) == 0 || len(r.Data) > MaxData:
		return bad("data has %d bytes, want 1 to %d", len(r.Data), MaxData)
	case (r.Digest != 0) != (r.Part == r.Parts-1):
		return bad("digest %v on part %d of %d; the last part has it", r.Digest, r.Part, r.Parts)
	}
	return nil
}

func (r *Piece) append(b []byte) []byte {
	b = putFixed(b, 1, uint64(r.Model))
	b = putUint(b, 2, uint64(r.Part))
	b = putUint(b, 3, uint64(r.Parts))
	b = putBytes(b, 4, r.Data)
	return putFixed(b, 5, uint64(r.Digest))
}

func (r *Piece) field(d *decoder) {
	switch d.num {
	case 1:
		r.Model = ID(d.fixed())
	case 2:
		r.Part = d.uint32()
	case 3:
		r.Parts = d.uint32()
	case 4:
		r.Data = bytes.Clone(d.bytes())
	case 5:
		r.Digest = ID(d.fixed())
	default:
		d.unknown()
	}
}

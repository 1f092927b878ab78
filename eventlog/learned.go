package eventlog

import (
	"bytes"
	"fmt"
)

// Measure is what a Learned record has.
type Measure uint32

const (
	// of a number feature: Values are mean, standard deviation, center, width, and 1 when its numbers are levels
	NumberStatistics Measure = 1
	LearnedSchema    Measure = 2 // a schema learned from many requests: Data is its JSON
)

var measureNames = [...]string{NumberStatistics: "number-statistics", LearnedSchema: "schema"}

// String returns the name in JSON, and the number of a value without one.
func (m Measure) String() string {
	if m != 0 && int(m) < len(measureNames) {
		return measureNames[m]
	}
	return fmt.Sprintf("measure %d", uint32(m))
}

// MarshalText implements encoding.TextMarshaler.
func (m Measure) MarshalText() ([]byte, error) { return []byte(m.String()), nil }

// MaxData is the largest Data of a Learned or a Piece, and the largest Atoms of a Decision or a Reward, in
// bytes.
const MaxData = 512 << 10

// Learned is something that a model measured, which is part of its encoder from here on. The first record
// of a (Model, What, Name, Generation) counts; later ones have no effect.
type Learned struct {
	Model      ID        `json:"model"`
	What       Measure   `json:"what"`
	Name       string    `json:"name,omitzero"` // path of the feature
	Generation uint32    `json:"generation"`    // from 1
	Values     []float64 `json:"values,omitempty"`
	Data       JSON      `json:"data,omitempty"`
	Time       int64     `json:"time,omitzero"`
	Feature    ID        `json:"feature,omitzero"` // hash of the name; of statistics
}

// Kind implements Record.
func (*Learned) Kind() Kind { return KindLearned }

func (r *Learned) check() error {
	bad := func(format string, a ...any) error {
		return fmt.Errorf("learned: %s: %w", fmt.Sprintf(format, a...), ErrMalformed)
	}
	switch {
	case r.Model == 0:
		return bad("model is 0")
	case r.Generation == 0:
		return bad("generation is 0, want at least 1")
	}
	switch r.What {
	case NumberStatistics:
		switch {
		case r.Name == "":
			return bad("statistics without the name of a feature")
		case len(r.Values) != 5 || len(r.Data) > 0:
			return bad("statistics of %d values and %d bytes of data, want mean, standard deviation, center, width "+
				"and levels", len(r.Values), len(r.Data))
		case r.Values[1] < 0 || r.Values[3] < 0:
			return bad("standard deviation %v and width %v, want none below 0", r.Values[1], r.Values[3])
		case r.Values[4] != 0 && r.Values[4] != 1:
			return bad("levels is %v, want 0 or 1", r.Values[4])
		}
	case LearnedSchema:
		if r.Feature != 0 || len(r.Values) > 0 || len(r.Data) == 0 || len(r.Data) > MaxData {
			return bad("schema of %d bytes and %d values, want 1 to %d bytes", len(r.Data), len(r.Values), MaxData)
		}
	default:
		return bad("what = %d is unknown", r.What)
	}
	return firstError(checkText("learned: name", r.Name), checkVector("learned: values", r.Values))
}

func (r *Learned) append(b []byte) []byte {
	b = putFixed(b, 1, uint64(r.Model))
	b = putUint(b, 2, uint64(r.What))
	b = putBytes(b, 3, r.Name)
	b = putUint(b, 4, uint64(r.Generation))
	b = putFloats(b, 5, r.Values)
	b = putBytes(b, 6, []byte(r.Data))
	b = putInt(b, 7, r.Time)
	return putFixed(b, 8, uint64(r.Feature))
}

func (r *Learned) field(d *decoder) {
	switch d.num {
	case 1:
		r.Model = ID(d.fixed())
	case 2:
		r.What = Measure(d.uint32())
	case 3:
		r.Name = d.text()
	case 4:
		r.Generation = d.uint32()
	case 5:
		r.Values = d.floats()
	case 6:
		r.Data = bytes.Clone(d.bytes())
	case 7:
		r.Time = d.int()
	case 8:
		r.Feature = ID(d.fixed())
	default:
		d.unknown()
	}
}

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

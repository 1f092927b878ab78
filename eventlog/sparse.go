package eventlog

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
)

// MaxSparse is the largest number of coordinates of a Sparse.
const MaxSparse = 1 << 16

// Sparse is a vector by its coordinates that are not 0. The zero value is no vector.
type Sparse struct {
	Index []uint32  `json:"index"` // ascending; the encoder's 32-bit names of coordinates
	Value []float64 `json:"value"` // of the same length; finite and not 0
}

// IsZero returns whether there is no vector.
func (s Sparse) IsZero() bool { return len(s.Index) == 0 && len(s.Value) == 0 }

// The forms of the values in the encoding of a Sparse.
const (
	sparseDouble = 0 // float64
	sparseSingle = 1 // float32, and all values are exact in it
	sparseOnes   = 2 // all values are 1, and none is written
)

var sparseWidth = [...]int{sparseDouble: 8, sparseSingle: 4, sparseOnes: 0}

// form returns the shortest form that keeps the values.
func (s Sparse) form() byte {
	form := byte(sparseOnes)
	for _, v := range s.Value {
		switch {
		case v == 1:
		case float64(float32(v)) == v:
			form = sparseSingle
		default:
			return sparseDouble
		}
	}
	return form
}

func (s Sparse) check(name string) error {
	switch {
	case len(s.Index) != len(s.Value):
		return fmt.Errorf("%s has %d indices and %d values: %w", name, len(s.Index), len(s.Value), ErrMalformed)
	case len(s.Index) > MaxSparse:
		return fmt.Errorf("%s has %d coordinates, at most %d are allowed: %w", name, len(s.Index), MaxSparse, ErrMalformed)
	}
	for i, v := range s.Value {
		switch {
		case i > 0 && s.Index[i] <= s.Index[i-1]:
			return fmt.Errorf("%s: index %d after %d, want ascending indices: %w", name, s.Index[i], s.Index[i-1], ErrMalformed)
		case v == 0:
			return fmt.Errorf("%s: the value at index %d is 0; zeros are left out: %w", name, s.Index[i], ErrMalformed)
		case math.IsNaN(v) || math.IsInf(v, 0):
			return fmt.Errorf("%s: the value at index %d is %v, which is not a finite number: %w", name, s.Index[i], v, ErrMalformed)
		}
	}
	return nil
}

// putSparse writes count, form, differences of the indices, and values.
func putSparse(b []byte, num uint32, s Sparse) []byte {
	if len(s.Index) == 0 {
		return b
	}
	form := s.form()
	size := uvarintLen(uint64(len(s.Index))) + 1 + sparseWidth[form]*len(s.Index)
	before := uint32(0)
	for _, at := range s.Index {
		size += uvarintLen(uint64(at - before))
		before = at
	}
	b = binary.AppendUvarint(putTag(b, num, wireBytes), uint64(size))
	b = append(binary.AppendUvarint(b, uint64(len(s.Index))), form)
	before = 0
	for _, at := range s.Index {
		b = binary.AppendUvarint(b, uint64(at-before))
		before = at
	}
	for _, v := range s.Value {
		switch form {
		case sparseDouble:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		case sparseSingle:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(float32(v)))
		}
	}
	return b
}

func (d *decoder) sparse() (s Sparse) {
	if !d.want(wireBytes) {
		return s
	}
	p := d.data
	n, k := uvarint(p)
	if k == 0 || n == 0 || n > MaxSparse || k == len(p) || n > uint64(len(p)-k-1) { // an index takes a byte
		d.fail("bad count of coordinates")
		return s
	}
	form := p[k]
	if int(form) >= len(sparseWidth) {
		d.fail("form %d of the values is unknown", form)
		return s
	}
	p = p[k+1:]
	s.Index = d.slate.indices(int(n))
	at := uint64(0)
	for i := range s.Index {
		step, k := uvarint(p)
		if at += step; k == 0 || i > 0 && step == 0 || step > math.MaxUint32 || at > math.MaxUint32 {
			d.fail("bad index")
			return Sparse{}
		}
		s.Index[i], p = uint32(at), p[k:]
	}
	width := sparseWidth[form]
	if len(p) != width*int(n) {
		d.fail("%d bytes of values for %d coordinates", len(p), n)
		return Sparse{}
	}
	s.Value = d.slate.vector(int(n))
	for i := range s.Value {
		switch form {
		case sparseDouble:
			s.Value[i] = math.Float64frombits(binary.LittleEndian.Uint64(p[8*i:]))
		case sparseSingle:
			s.Value[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(p[4*i:])))
		case sparseOnes:
			s.Value[i] = 1
		}
	}
	if s.form() != form {
		d.fail("the values have a shorter form")
		return Sparse{}
	}
	return s
}

// uvarintLen returns the length of a varint.
func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

package eventlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"unicode/utf8"
)

// Fields are those of the Protocol Buffers wire format (varint, fixed64 and bytes), so that other
// tools can look at a record. On top of it the encoding is canonical: fields ascend, varints are
// minimal, zero values are left out, unknown fields are refused. So there is one encoding of a
// record, and a decoder that accepts bytes gives them back unchanged.

// ErrMalformed is wrapped by every error about bytes that are not what they should be.
var ErrMalformed = errors.New("malformed")

const (
	wireVarint = 0
	wireFixed  = 1
	wireBytes  = 2
)

const (
	maxText = 1024    // bytes of a name or an id
	maxList = 1 << 16 // numbers of a list
)

func putTag(b []byte, num uint32, wire uint32) []byte {
	return binary.AppendUvarint(b, uint64(num<<3|wire))
}

func putUint(b []byte, num uint32, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(putTag(b, num, wireVarint), v)
}

func putBool(b []byte, num uint32, v bool) []byte {
	if !v {
		return b
	}
	return putUint(b, num, 1)
}

// putInt writes a signed number, zigzag (sint64).
func putInt(b []byte, num uint32, v int64) []byte {
	return putUint(b, num, uint64(v)<<1^uint64(v>>63))
}

func putFixed(b []byte, num uint32, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.LittleEndian.AppendUint64(putTag(b, num, wireFixed), v)
}

func putFloat(b []byte, num uint32, v float64) []byte { return putFixed(b, num, math.Float64bits(v)) }

func putBytes[T string | []byte](b []byte, num uint32, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = binary.AppendUvarint(putTag(b, num, wireBytes), uint64(len(v)))
	return append(b, v...)
}

// putFloats writes a vector, packed.
func putFloats(b []byte, num uint32, x []float64) []byte {
	if len(x) == 0 {
		return b
	}
	b = binary.AppendUvarint(putTag(b, num, wireBytes), uint64(8*len(x)))
	for _, v := range x {
		b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
	}
	return b
}

// uvarintLen returns the length of a varint.
func uvarintLen(v uint64) int { return (bits.Len64(v|1) + 6) / 7 }

// putUints writes numbers, packed varints.
func putUints[T uint32 | uint64](b []byte, num uint32, x []T) []byte {
	if len(x) == 0 {
		return b
	}
	size := 0
	for _, v := range x {
		size += uvarintLen(uint64(v))
	}
	b = binary.AppendUvarint(putTag(b, num, wireBytes), uint64(size))
	for _, v := range x {
		b = binary.AppendUvarint(b, uint64(v))
	}
	return b
}

// decoder walks over the fields of one record. The first error stays; after it every method
// returns zero values.
type decoder struct {
	rest  []byte
	what  string // the record, for errors
	num   uint32 // current field
	wire  uint32
	u     uint64 // value of a varint or fixed64
	data  []byte // value of bytes; aliases the input
	slate *slate // nil: what is decoded does not refer to the input
	err   error
}

func (d *decoder) fail(format string, a ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("%s: field %d: %s: %w", d.what, d.num, fmt.Sprintf(format, a...), ErrMalformed)
	}
}

// uvarint reads a minimal varint from b. n is its length, 0 when there is none.
func uvarint(b []byte) (v uint64, n int) {
	v, n = binary.Uvarint(b)
	if n <= 0 || n > 1 && b[n-1] == 0 {
		return 0, 0
	}
	return v, n
}

// next moves to the next field. It returns false at the end and after an error.
func (d *decoder) next() bool {
	if d.err != nil || len(d.rest) == 0 {
		return false
	}
	tag, n := uvarint(d.rest)
	if n == 0 || tag>>3 == 0 || tag>>3 > 1<<20 {
		d.fail("bad tag after this field")
		return false
	}
	last := d.num
	d.num, d.wire = uint32(tag>>3), uint32(tag&7)
	if d.num <= last {
		d.fail("comes after field %d", last)
		return false
	}
	d.rest = d.rest[n:]
	switch d.wire {
	case wireVarint:
		if d.u, n = uvarint(d.rest); n == 0 {
			d.fail("bad number")
			return false
		}
	case wireFixed:
		if n = 8; len(d.rest) < n {
			d.fail("cut short")
			return false
		}
		d.u = binary.LittleEndian.Uint64(d.rest)
	case wireBytes:
		size, k := uvarint(d.rest)
		if k == 0 || size > uint64(len(d.rest)-k) {
			d.fail("bad length")
			return false
		}
		n = k + int(size)
		d.data, d.u = d.rest[k:n:n], size
	default:
		d.fail("unknown wire type %d", d.wire)
		return false
	}
	if d.u == 0 {
		d.fail("zero values are left out")
		return false
	}
	d.rest = d.rest[n:]
	return true
}

func (d *decoder) want(wire uint32) bool {
	if d.wire != wire {
		d.fail("wire type %d, want %d", d.wire, wire)
	}
	return d.err == nil
}

func (d *decoder) uint() uint64 {
	if !d.want(wireVarint) {
		return 0
	}
	return d.u
}

func (d *decoder) uint32() uint32 {
	v := d.uint()
	if v > math.MaxUint32 {
		d.fail("%d is too large", v)
		return 0
	}
	return uint32(v)
}

func (d *decoder) bool() bool {
	v := d.uint()
	if v > 1 {
		d.fail("%d is not a truth value", v)
	}
	return v == 1
}

func (d *decoder) int() int64 {
	v := d.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *decoder) fixed() uint64 {
	if !d.want(wireFixed) {
		return 0
	}
	return d.u
}

func (d *decoder) float() float64 { return math.Float64frombits(d.fixed()) }

// bytes returns a copy, or on a slate the bytes themselves.
func (d *decoder) bytes() []byte {
	if !d.want(wireBytes) {
		return nil
	}
	if d.slate != nil {
		return d.data
	}
	return append([]byte(nil), d.data...)
}

func (d *decoder) text() string {
	if !d.want(wireBytes) {
		return ""
	}
	return string(d.data)
}

func (d *decoder) floats() []float64 {
	if !d.want(wireBytes) {
		return nil
	}
	if len(d.data)%8 != 0 {
		d.fail("%d bytes are no vector", len(d.data))
		return nil
	}
	x := d.slate.vector(len(d.data) / 8)
	for i := range x {
		x[i] = math.Float64frombits(binary.LittleEndian.Uint64(d.data[8*i:]))
	}
	return x
}

// list returns the numbers of a packed list of varints. take gives it memory.
func list[T uint32 | uint64](d *decoder, take func(n int) []T) []T {
	if !d.want(wireBytes) {
		return nil
	}
	n := 0
	for _, c := range d.data {
		if c < 0x80 {
			n++
		}
	}
	if n > maxList {
		d.fail("%d numbers, at most %d are allowed", n, maxList)
		return nil
	}
	x, p := take(n), d.data
	for i := range x {
		v, k := uvarint(p)
		if k == 0 || uint64(T(v)) != v {
			d.fail("bad number at place %d", i)
			return nil
		}
		x[i], p = T(v), p[k:]
	}
	if len(p) > 0 {
		d.fail("it is cut short")
		return nil
	}
	return x
}

// unknown refuses the current field.
func (d *decoder) unknown() { d.fail("unknown in log version %d", LogVersion) }

// The checks of values, used before a record is written and after one is read.

func checkFinite(name string, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("%s = %v is not a finite number: %w", name, v, ErrMalformed)
	}
	return nil
}

func checkVector(name string, x []float64) error {
	for i, v := range x {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("%s[%d] = %v is not a finite number: %w", name, i, v, ErrMalformed)
		}
	}
	return nil
}

func checkText(name, s string) error {
	if len(s) > maxText {
		return fmt.Errorf("%s has %d bytes, at most %d are allowed: %w", name, len(s), maxText, ErrMalformed)
	}
	if !utf8.ValidString(s) {
		return fmt.Errorf("%s = %q is not UTF-8: %w", name, s, ErrMalformed)
	}
	return nil
}

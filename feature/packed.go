package feature

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
)

// Unpack reads packed numbers, a JSON object
//
//	{"dtype": "float32", "shape": [20, 32], "data": "…"}
//
// with dtype float32 or float64, one or two sides in shape, and in data the numbers in row-major
// order, little-endian, in standard base64 with padding. It stores them in dst, whose storage is
// reused, and returns the shape; cols is 0 for a shape of one side. NaN and infinities are refused
// with their place. limits bounds the bytes.
func Unpack(dst []float64, packed []byte, limits Limits) (numbers []float64, rows, cols int, err error) {
	limits = limits.filled()
	var r reader
	var shape [2]int
	if err = r.start(packed, &limits); err == nil {
		if numbers, shape, err = r.packed(dst); err == nil {
			err = r.end()
		}
	}
	if err != nil {
		if e, ok := err.(*Error); ok && e.Path == "" {
			e.Path = "packed"
		}
		return dst, 0, 0, err
	}
	return numbers, shape[0], shape[1], nil
}

// AppendPacked appends the JSON object that Unpack reads, of rows×cols numbers as float64; cols 0
// means the shape [rows]. It panics when the numbers do not fill the shape.
func AppendPacked(b []byte, numbers []float64, rows, cols int) []byte {
	if n := rows * max(cols, 1); n != len(numbers) {
		panic("feature: the numbers do not fill the shape")
	}
	raw := make([]byte, 0, 8*len(numbers))
	for _, x := range numbers {
		raw = binary.LittleEndian.AppendUint64(raw, math.Float64bits(x))
	}
	b = append(b, `{"dtype":"float64","shape":[`...)
	b = strconv.AppendInt(b, int64(rows), 10)
	if cols > 0 {
		b = append(b, ',')
		b = strconv.AppendInt(b, int64(cols), 10)
	}
	b = append(b, `],"data":"`...)
	b = base64.StdEncoding.AppendEncode(b, raw)
	return append(b, `"}`...)
}

var strict = base64.StdEncoding.Strict()

// packed reads the object of Unpack.
func (r *reader) packed(dst []float64) ([]float64, [2]int, error) {
	var p packedObject
	if err := p.read(r); err != nil {
		return dst, p.shape, err
	}
	if p.width == 0 || p.sides < 0 || !p.there {
		return dst, p.shape, badPacked("expected an object with dtype, shape and data")
	}
	n := p.shape[0]
	if p.sides == 2 {
		n *= p.shape[1]
	}
	if n > r.limits.Bytes || strict.EncodedLen(n*p.width) != len(p.data) {
		return dst, p.shape, badPacked(expected("data of %d bytes for the shape, found base64 of length %d", n*p.width,
			len(p.data)))
	}
	dst = slices.Grow(dst[:0], n)[:n]
	return dst, p.shape, p.decode(dst)
}

// packedObject is what the object of Unpack has.
type packedObject struct {
	width int // of a number in bytes, 0 before dtype is read
	shape [2]int
	sides int    // of shape, −1 before it is read
	data  []byte // base64, in the input or in r.text
	there bool   // data is read
}

func badPacked(problem string) error { return &Error{Code: Value, Problem: problem} }

// read reads the members, each at most once.
func (p *packedObject) read(r *reader) error {
	p.sides = -1
	if r.peek() != '{' {
		return r.syntax("an object with dtype, shape and data")
	}
	if err := r.down(); err != nil {
		return err
	}
	from, escaped := 0, false
	for first := true; ; first = false {
		more, err := r.more(first, '}')
		if err != nil {
			return err
		}
		if !more {
			break
		}
		if err := r.count(); err != nil {
			return err
		}
		key, err := r.key()
		if err != nil {
			return err
		}
		var twice bool
		switch string(key) {
		case "dtype":
			twice = p.width != 0
			p.width, err = r.dtype()
		case "shape":
			twice = p.sides >= 0
			p.shape, p.sides, err = r.shape()
		case "data":
			twice = p.there
			if r.peek() != '"' {
				return badPacked("data: expected base64 in a string")
			}
			from, p.there = r.i, true
			p.data, err = r.string(r.limits.Bytes)
			// Keys that come later may reuse r.text; such a string is read again at the end.
			escaped = len(p.data) != r.i-from-2
		default:
			return badPacked("expected an object with dtype, shape and data, found the key \"" + shorten(key, 60) + `"`)
		}
		if err != nil {
			return err
		}
		if twice {
			return duplicate()
		}
	}
	r.depth--
	if escaped {
		end := r.i
		r.i = from
		p.data, _ = r.string(r.limits.Bytes)
		r.i = end
	}
	return nil
}

// dtype reads the type of the numbers and returns the width of one.
func (r *reader) dtype() (width int, err error) {
	const wanted = `dtype: expected "float32" or "float64"`
	if r.peek() != '"' {
		return 0, badPacked(wanted)
	}
	t, err := r.string(r.limits.String)
	if err != nil {
		return 0, err
	}
	switch string(t) {
	case "float32":
		return 4, nil
	case "float64":
		return 8, nil
	}
	return 0, badPacked(wanted)
}

// decode stores the numbers, which fill dst.
func (p *packedObject) decode(dst []float64) error {
	data, n := p.data, len(dst)
	var chunk [24 * 64]byte // a multiple of 3 and of 8, so that no number is cut in two
	for i := 0; len(data) > 0; {
		part := data[:min(len(data), len(chunk)/3*4)]
		data = data[len(part):]
		got, err := strict.Decode(chunk[:], part)
		if err != nil || got%p.width != 0 {
			return badPacked("data: expected standard base64 with padding")
		}
		end := i + got/p.width
		if end > n || len(data) == 0 && end != n {
			return badPacked("data: expected standard base64 with padding")
		}
		b, out := chunk[:got], dst[i:end]
		if p.width == 4 {
			for k := range out {
				out[k] = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[4*k:])))
			}
		} else {
			for k := range out {
				out[k] = math.Float64frombits(binary.LittleEndian.Uint64(b[8*k:]))
			}
		}
		for k, x := range out {
			if x-x != 0 { // NaN or infinite
				return &Error{Code: Value, Value: strconv.FormatFloat(x, 'g', -1, 64) + " in number " +
					strconv.Itoa(i+k) + " of data", Problem: "expected finite numbers"}
			}
		}
		i = end
	}
	return nil
}

// shape reads [n] or [rows, cols] and returns the number of sides.
func (r *reader) shape() (shape [2]int, sides int, err error) {
	if r.peek() != '[' {
		return shape, 0, badShape()
	}
	if err := r.down(); err != nil {
		return shape, 0, err
	}
	for {
		more, err := r.more(sides == 0, ']')
		if err != nil {
			return shape, 0, err
		}
		if !more {
			break
		}
		if c := r.peek(); sides == 2 || c < '1' || c > '9' {
			return shape, 0, badShape()
		}
		x, _, err := r.number()
		if err != nil {
			return shape, 0, err
		}
		if x > 1e6 || x != math.Trunc(x) {
			return shape, 0, badShape()
		}
		shape[sides] = int(x)
		sides++
	}
	r.depth--
	if sides == 0 {
		return shape, 0, badShape()
	}
	return shape, sides, nil
}

func badShape() error {
	return &Error{Code: Value, Problem: "shape: expected one or two positive whole numbers, such as [20, 32]"}
}

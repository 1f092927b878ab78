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
	var shape [2]int
	bad := func(problem string) ([]float64, [2]int, error) {
		return dst, shape, &Error{Code: Value, Problem: problem}
	}
	if r.peek() != '{' {
		return dst, shape, r.syntax("an object with dtype, shape and data")
	}
	if err := r.down(); err != nil {
		return dst, shape, err
	}
	width := 0
	sides := -1
	var data []byte // base64, in the input or in r.text
	haveData, from, escaped := false, 0, false
	for first := true; ; first = false {
		more, err := r.more(first, '}')
		if err != nil {
			return dst, shape, err
		}
		if !more {
			break
		}
		if err := r.count(); err != nil {
			return dst, shape, err
		}
		key, err := r.key()
		if err != nil {
			return dst, shape, err
		}
		var twice bool
		switch string(key) {
		case "dtype":
			twice = width != 0
			if r.peek() != '"' {
				return bad(`dtype: expected "float32" or "float64"`)
			}
			t, err := r.string(r.limits.String)
			if err != nil {
				return dst, shape, err
			}
			switch string(t) {
			case "float32":
				width = 4
			case "float64":
				width = 8
			default:
				return bad(`dtype: expected "float32" or "float64"`)
			}
		case "shape":
			twice = sides >= 0
			if shape, sides, err = r.shape(); err != nil {
				return dst, shape, err
			}
		case "data":
			twice = haveData
			if r.peek() != '"' {
				return bad("data: expected base64 in a string")
			}
			from, haveData = r.i, true
			d, err := r.string(r.limits.Bytes)
			if err != nil {
				return dst, shape, err
			}
			// Keys that come later may reuse r.text; such a string is read again at the end.
			escaped = len(d) != r.i-from-2
			data = d
		default:
			return bad("expected an object with dtype, shape and data, found the key \"" + shorten(key, 60) + `"`)
		}
		if twice {
			return dst, shape, duplicate()
		}
	}
	r.depth--
	if width == 0 || sides < 0 || !haveData {
		return bad("expected an object with dtype, shape and data")
	}
	if escaped {
		end := r.i
		r.i = from
		data, _ = r.string(r.limits.Bytes)
		r.i = end
	}
	n := shape[0]
	if sides == 2 {
		n *= shape[1]
	}
	if n > r.limits.Bytes || strict.EncodedLen(n*width) != len(data) {
		return bad(expected("data of %d bytes for the shape, found base64 of length %d", n*width, len(data)))
	}
	dst = slices.Grow(dst[:0], n)[:n]
	var chunk [24 * 64]byte // a multiple of 3 and of 8, so that no number is cut in two
	for i := 0; len(data) > 0; {
		part := data[:min(len(data), len(chunk)/3*4)]
		data = data[len(part):]
		got, err := strict.Decode(chunk[:], part)
		if err != nil || got%width != 0 {
			return bad("data: expected standard base64 with padding")
		}
		end := i + got/width
		if end > n || len(data) == 0 && end != n {
			return bad("data: expected standard base64 with padding")
		}
		b, out := chunk[:got], dst[i:end]
		if width == 4 {
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
				return dst, shape, &Error{Code: Value, Value: strconv.FormatFloat(x, 'g', -1, 64) + " in number " +
					strconv.Itoa(i+k) + " of data", Problem: "expected finite numbers"}
			}
		}
		i = end
	}
	return dst, shape, nil
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

package api

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"

	"troupe/internal/decimal"
)

// plainJSON reads a text value by value. It reports false for what is no JSON, and for JSON that is not plain.
type plainJSON struct {
	b     []byte
	i     int
	names [][]byte // of the objects that are being read, one behind the other
}

// space skips white space and returns the byte behind it, 0 at the end.
func (s *plainJSON) space() byte {
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; c {
		case ' ', '\t', '\n', '\r':
		default:
			return c
		}
	}
	return 0
}

// take skips white space and one byte, which must be c.
func (s *plainJSON) take(c byte) bool {
	if s.space() != c {
		return false
	}
	s.i++
	return true
}

// over reports whether nothing but white space is left.
func (s *plainJSON) over() bool {
	s.space()
	return s.i == len(s.b)
}

// text reads a string without escapes; its bytes belong to the body.
func (s *plainJSON) text() ([]byte, bool) {
	if s.space() != '"' {
		return nil, false
	}
	from := s.i + 1
	if !s.quoted() || bytes.IndexByte(s.b[from:s.i-1], '\\') >= 0 {
		return nil, false
	}
	return s.b[from : s.i-1], true
}

// special is 0 where none of eight bytes is a quote, a backslash or below a space. Otherwise its lowest bit is the top
// bit of the first such byte: a zero byte of x makes the top bit of its byte in (x − ones) &^ x, and perhaps those
// above it.
func special(w uint64) uint64 {
	const ones = 0x0101010101010101
	quote, slash := w^ones*'"', w^ones*'\\'
	return ((quote-ones)&^quote | (slash-ones)&^slash | (w-ones*' ')&^w) & (ones << 7)
}

// quoted skips a string, which begins here. It knows the escapes of one letter.
func (s *plainJSON) quoted() bool {
	i := s.i + 1
	for {
		// Up to a byte that is a quote, a backslash or below a space.
		rest := s.b[i:]
		for len(rest) >= 16 && special(binary.LittleEndian.Uint64(rest))|special(binary.LittleEndian.Uint64(rest[8:])) == 0 {
			rest = rest[16:]
		}
		for len(rest) >= 8 {
			if hit := special(binary.LittleEndian.Uint64(rest)); hit != 0 {
				rest = rest[bits.TrailingZeros64(hit)/8:]
				break
			}
			rest = rest[8:]
		}
		i = len(s.b) - len(rest)
		if i >= len(s.b) {
			return false
		}
		switch c := s.b[i]; {
		case c == '"':
			s.i = i + 1
			return true
		case c == '\\':
			if i+1 >= len(s.b) || bytes.IndexByte([]byte(`"\/bfnrt`), s.b[i+1]) < 0 {
				return false
			}
			i += 2
		case c < ' ':
			return false
		default:
			i++
		}
	}
}

// number skips a number, which begins here, and returns its text.
func (s *plainJSON) number() ([]byte, bool) {
	from := s.i
	end, ok := decimal.End(s.b, from)
	if s.i = end; !ok {
		return nil, false
	}
	return s.b[from:end], true
}

// word skips a word, which must be here.
func (s *plainJSON) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// value skips a value that depth objects and lists are around, and returns its text.
func (s *plainJSON) value(depth int) (json.RawMessage, bool) {
	c := s.space()
	from := s.i
	ok := false
	switch {
	case c == '"':
		ok = s.quoted()
	case c == '{':
		ok = s.object(depth)
	case c == '[':
		ok = s.list(depth, func() bool {
			_, ok := s.value(depth + 1)
			return ok
		})
	case c == 't':
		ok = s.word("true")
	case c == 'f':
		ok = s.word("false")
	case c == 'n':
		ok = s.word("null")
	default:
		_, ok = s.number()
	}
	return json.RawMessage(s.b[from:s.i:s.i]), ok
}

// list reads a list, whose entries f reads.
func (s *plainJSON) list(depth int, f func() bool) bool {
	if depth == maxDepth || !s.take('[') {
		return false
	}
	if s.space() == ']' {
		s.i++
		return true
	}
	for f() {
		switch s.space() {
		case ',':
			s.i++
		case ']':
			s.i++
			return true
		default:
			return false
		}
	}
	return false
}

// object skips an object.
func (s *plainJSON) object(depth int) bool {
	first := len(s.names)
	var seen uint64 // a bit for each name
	ok := s.members(depth, func(name []byte) bool {
		hash := uint64(len(name))
		if len(name) > 0 {
			hash += uint64(name[0])*7 + uint64(name[len(name)-1])*31 + uint64(name[len(name)/2])*3
		}
		bit := uint64(1) << (hash & 63)
		if seen&bit != 0 {
			if len(s.names)-first > 1000 {
				return false
			}
			for _, other := range s.names[first:] {
				if bytes.Equal(name, other) {
					return false
				}
			}
		}
		seen |= bit
		s.names = append(s.names, name)
		_, ok := s.value(depth + 1)
		return ok
	})
	s.names = s.names[:first]
	return ok
}

// members reads an object, whose values f reads.
func (s *plainJSON) members(depth int, f func(name []byte) bool) bool {
	if depth == maxDepth || !s.take('{') {
		return false
	}
	if s.space() == '}' {
		s.i++
		return true
	}
	for {
		name, ok := s.text()
		if !ok || !s.take(':') || !f(name) {
			return false
		}
		switch s.space() {
		case ',':
			s.i++
		case '}':
			s.i++
			return true
		default:
			return false
		}
	}
}

// fields reads an object of named fields: f reads the value of the field with a number, its place in names, which is
// there once.
func (s *plainJSON) fields(depth int, names []string, f func(field int) bool) bool {
	var seen uint
	return s.members(depth, func(name []byte) bool {
		for i, n := range names {
			if string(name) == n {
				bit := uint(1) << i
				if seen&bit != 0 {
					return false
				}
				seen |= bit
				return f(i)
			}
		}
		return false
	})
}

// raw reads a value that is not null.
func (s *plainJSON) raw(into *json.RawMessage, depth int) bool {
	v, ok := s.value(depth)
	*into = v
	return ok && v[0] != 'n'
}

// whole reads a whole number of at most 15 digits.
func (s *plainJSON) whole() (n uint64, ok bool) {
	s.space()
	t, ok := s.number()
	if !ok || len(t) > 15 {
		return 0, false
	}
	for _, c := range t {
		if c -= '0'; c > 9 {
			return 0, false
		}
		n = 10*n + uint64(c)
	}
	return n, true
}

// truth reads true or false.
func (s *plainJSON) truth(into *bool) bool {
	if s.space() == 't' {
		*into = true
		return s.word("true")
	}
	*into = false
	return s.word("false")
}

// printable reads a text of printable ASCII.
func (s *plainJSON) printable() (string, bool) {
	t, ok := s.text()
	for _, c := range t {
		if c < ' ' || c > '~' {
			return "", false
		}
	}
	return string(t), ok
}

// float reads a number that fits a float64.
func (s *plainJSON) float(into *float64) bool {
	s.space()
	t, ok := s.number()
	if !ok {
		return false
	}
	v, _, fault := decimal.Read(t)
	*into = v
	return fault == decimal.None
}

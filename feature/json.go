package feature

import (
	"encoding/binary"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"

	"troupe/internal/decimal"
)

// Limits bound what a request may cost. A zero field stands for its default.
type Limits struct {
	Bytes   int // length of one JSON value: 1 MiB
	Depth   int // objects and lists inside each other: 8
	Values  int // keys and list elements in the context, and in each action: 1024
	String  int // bytes of one string: 8192 (packed numbers are bounded by Bytes)
	Actions int // K: 1000
	Cells   int // K·d: 10⁶
}

func (l Limits) filled() Limits {
	for _, f := range []struct {
		at *int
		v  int
	}{{&l.Bytes, 1 << 20}, {&l.Depth, 8}, {&l.Values, 1024}, {&l.String, 8192}, {&l.Actions, 1000}, {&l.Cells, 1e6}} {
		if *f.at <= 0 {
			*f.at = f.v
		}
	}
	return l
}

// reader walks over the bytes of one JSON value, RFC 8259 and nothing more. Its methods return
// nil-Path errors; the caller knows the path.
type reader struct {
	b      []byte
	i      int
	depth  int
	values int
	limits *Limits
	text   []byte // strings with escapes are unescaped here
}

func (r *reader) start(b []byte, l *Limits) error {
	*r = reader{b: b, limits: l, text: r.text}
	if len(b) > l.Bytes {
		return &Error{Code: Limit, Problem: expected("at most %d bytes, found %d", l.Bytes, len(b))}
	}
	return nil
}

// peek skips white space and returns the next byte, 0 at the end.
func (r *reader) peek() byte {
	for r.i < len(r.b) {
		switch c := r.b[r.i]; c {
		case ' ', '\t', '\n', '\r':
			r.i++
		default:
			return c
		}
	}
	return 0
}

// empty says whether only white space is left.
func (r *reader) empty() bool {
	r.peek()
	return r.i == len(r.b)
}

// end refuses anything after the value.
func (r *reader) end() error {
	if !r.empty() {
		return r.syntax("the end")
	}
	return nil
}

func (r *reader) syntax(want string) error {
	found := "the end of the bytes"
	if r.i < len(r.b) {
		found = "'" + shorten(r.b[r.i:r.i+1], 1) + "'"
	}
	return &Error{Code: Syntax, Problem: "is not JSON: offset " + strconv.Itoa(r.i) + ": found " + found +
		", expected " + want}
}

// down enters an object or a list; the caller does depth-- when it leaves.
func (r *reader) down() error {
	r.i++
	if r.depth++; r.depth > r.limits.Depth {
		return &Error{Code: Limit, Problem: expected("at most %d objects and lists inside each other", r.limits.Depth)}
	}
	return nil
}

// count bounds the number of keys and elements.
func (r *reader) count() error {
	if r.values++; r.values > r.limits.Values {
		return &Error{Code: Limit, Problem: expected("at most %d keys and list elements", r.limits.Values)}
	}
	return nil
}

// more is called after the opening bracket and after each element: is there another one? It
// consumes the comma or the closing bracket. first tells the two cases apart.
func (r *reader) more(first bool, closing byte) (bool, error) {
	switch c := r.peek(); {
	case c == closing:
		r.i++
		return false, nil
	case first:
		return true, nil
	case c == ',':
		r.i++
		return true, nil
	}
	return false, r.syntax("',' or '" + string(rune(closing)) + "'")
}

// next is more for values that count against the limits. It leaves the object or list at its end.
func (r *reader) next(first bool, closing byte) (bool, error) {
	more, err := r.more(first, closing)
	switch {
	case err != nil:
		return false, err
	case !more:
		r.depth--
		return false, nil
	}
	return true, r.count()
}

// key reads a key and its colon. The bytes are valid until the next string is read.
func (r *reader) key() ([]byte, error) {
	if r.peek() != '"' {
		return nil, r.syntax("a key in quotes")
	}
	k, err := r.string(r.limits.String)
	if err != nil {
		return nil, err
	}
	if len(k) == 0 {
		return nil, &Error{Code: Value, Problem: "a key is empty, expected a name"}
	}
	if r.peek() != ':' {
		return nil, r.syntax("':'")
	}
	r.i++
	return k, nil
}

// literal reads one of null, true, false.
func (r *reader) literal(word string) error {
	if len(r.b)-r.i < len(word) || string(r.b[r.i:r.i+len(word)]) != word {
		return r.syntax("a value")
	}
	r.i += len(word)
	return nil
}

// string reads a string of at most limit bytes. The result lies in the input, or in r.text until
// the next call.
func (r *reader) string(limit int) ([]byte, error) {
	r.i++
	from := r.i
	ascii := true
	b := r.b[from:]
	for len(b) >= 16 && plain(binary.LittleEndian.Uint64(b)) && plain(binary.LittleEndian.Uint64(b[8:])) {
		b = b[16:]
	}
	r.i = len(r.b) - len(b)
	for r.i < len(r.b) {
		switch c := r.b[r.i]; {
		case c == '"':
			s := r.b[from:r.i]
			if len(s) > limit {
				return nil, tooLong(limit, len(s))
			}
			if !ascii && !utf8.Valid(s) {
				return nil, &Error{Code: Syntax, Problem: "is not JSON: a string is not valid UTF-8"}
			}
			r.i++
			return s, nil
		case c == '\\':
			return r.unescape(from, limit)
		case c < 0x20:
			return nil, r.syntax("no control character in a string")
		case c >= utf8.RuneSelf:
			ascii = false
		}
		r.i++
	}
	return nil, r.syntax("a closing quote")
}

// plain says that eight bytes are ASCII and neither a quote, a backslash nor a control character. Packed
// matrices are strings of some thousands of bytes.
func plain(w uint64) bool {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	quote, slash := w^'"'*ones, w^'\\'*ones
	// Of bytes below 128, x − 1 has its top bit set where x is 0, and x − 32 where x is below 32; a borrow
	// goes only out of a byte that is found.
	return (w|(quote-ones)|(slash-ones)|(w-0x20*ones))&tops == 0
}

func tooLong(limit, n int) error {
	return &Error{Code: Limit, Problem: expected("a string of at most %d bytes, found %d", limit, n)}
}

func (r *reader) unescape(from, limit int) ([]byte, error) {
	r.text = append(r.text[:0], r.b[from:r.i]...)
	for r.i < len(r.b) {
		c := r.b[r.i]
		switch {
		case c == '"':
			if len(r.text) > limit {
				return nil, tooLong(limit, len(r.text))
			}
			if !utf8.Valid(r.text) {
				return nil, &Error{Code: Syntax, Problem: "is not JSON: a string is not valid UTF-8"}
			}
			r.i++
			return r.text, nil
		case c < 0x20:
			return nil, r.syntax("no control character in a string")
		case c != '\\':
			r.text = append(r.text, c)
			r.i++
			continue
		}
		r.i++
		if r.i == len(r.b) {
			break
		}
		switch e := r.b[r.i]; e {
		case '"', '\\', '/':
			r.text = append(r.text, e)
		case 'b':
			r.text = append(r.text, '\b')
		case 'f':
			r.text = append(r.text, '\f')
		case 'n':
			r.text = append(r.text, '\n')
		case 'r':
			r.text = append(r.text, '\r')
		case 't':
			r.text = append(r.text, '\t')
		case 'u':
			c, ok := r.hex(r.i + 1)
			if !ok {
				return nil, r.syntax("four hexadecimal digits")
			}
			r.i += 4
			if utf16.IsSurrogate(c) {
				low, ok := rune(0), false
				if r.i+2 < len(r.b) && r.b[r.i+1] == '\\' && r.b[r.i+2] == 'u' {
					low, ok = r.hex(r.i + 3)
				}
				if c = utf16.DecodeRune(c, low); !ok || c == utf8.RuneError {
					return nil, r.syntax("both halves of a surrogate pair")
				}
				r.i += 6
			}
			r.text = utf8.AppendRune(r.text, c)
		default:
			return nil, r.syntax("an escape")
		}
		r.i++
	}
	return nil, r.syntax("a closing quote")
}

func (r *reader) hex(at int) (rune, bool) {
	if at+4 > len(r.b) {
		return 0, false
	}
	var c rune
	for _, h := range r.b[at : at+4] {
		switch {
		case '0' <= h && h <= '9':
			h -= '0'
		case 'a' <= h && h <= 'f':
			h -= 'a' - 10
		case 'A' <= h && h <= 'F':
			h -= 'A' - 10
		default:
			return 0, false
		}
		c = c<<4 | rune(h)
	}
	return c, true
}

// number reads a number: its value, correctly rounded, and its literal.
func (r *reader) number() (float64, []byte, error) {
	x, n, fault := decimal.Read(r.b[r.i:])
	lit := r.b[r.i : r.i+n]
	r.i += n
	switch fault {
	case decimal.None, decimal.TooLarge:
	case decimal.NoNumber:
		return 0, nil, r.syntax("a value")
	case decimal.LeadingZeros:
		return 0, nil, r.syntax("a number without leading zeros")
	default:
		return 0, nil, r.syntax("a digit")
	}
	if len(lit) > r.limits.String {
		return 0, nil, tooLong(r.limits.String, len(lit))
	}
	if fault == decimal.TooLarge {
		return 0, nil, &Error{Code: Value, Value: shorten(lit, 40), Problem: "expected a number that float64 can hold"}
	}
	return x, lit, nil
}

// skip passes over a value that is not read; it must still be JSON.
func (r *reader) skip() error {
	switch c := r.peek(); c {
	case '{', '[':
		if err := r.down(); err != nil {
			return err
		}
		for first := true; ; first = false {
			more, err := r.more(first, c+2) // '{'+2 is '}', '['+2 is ']'
			if err != nil {
				return err
			}
			if !more {
				r.depth--
				return nil
			}
			if c == '{' {
				if _, err := r.key(); err != nil {
					return err
				}
			}
			if err := r.skip(); err != nil {
				return err
			}
		}
	case '"':
		_, err := r.string(r.limits.Bytes)
		return err
	case 't':
		return r.literal("true")
	case 'f':
		return r.literal("false")
	case 'n':
		return r.literal("null")
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		_, _, err := r.number()
		return err
	}
	return r.syntax("a value")
}

// tree reads a value into maps and lists, as TOML would give them: int64 where a number is a whole
// one, otherwise float64. path is for errors.
func (r *reader) tree(path string) (any, error) {
	switch c := r.peek(); c {
	case '{':
		return r.table(path)
	case '[':
		return r.list(path)
	case '"':
		s, err := r.string(r.limits.String)
		if err != nil {
			return nil, within(err, path)
		}
		return string(s), nil
	case 't', 'f', 'n':
		at := r.i
		if err := r.skip(); err != nil {
			return nil, within(err, path)
		}
		switch r.b[at] {
		case 't':
			return true, nil
		case 'f':
			return false, nil
		}
		return nil, nil
	case '-', '0', '1', '2', '3', '4', '5', '6', '7', '8', '9':
		x, lit, err := r.number()
		if err != nil {
			return nil, within(err, path)
		}
		if n, err := strconv.ParseInt(string(lit), 10, 64); err == nil {
			return n, nil
		}
		return x, nil
	}
	return nil, within(r.syntax("a value"), path)
}

// within adds a path to an error that has none.
func within(err error, path string) error {
	if e, ok := err.(*Error); ok && e.Path == "" {
		e.Path = path
	}
	return err
}

// table reads an object.
func (r *reader) table(path string) (any, error) {
	if err := r.down(); err != nil {
		return nil, within(err, path)
	}
	table := map[string]any{}
	for first := true; ; first = false {
		more, err := r.next(first, '}')
		if err != nil {
			return nil, within(err, path)
		}
		if !more {
			return table, nil
		}
		k, err := r.key()
		if err != nil {
			return nil, within(err, path)
		}
		key := string(k)
		at := join(path, shorten(k, 80))
		if _, twice := table[key]; twice {
			return nil, &Error{Code: Duplicate, Path: at, Problem: "is given twice"}
		}
		if table[key], err = r.tree(at); err != nil {
			return nil, err
		}
	}
}

// list reads an array.
func (r *reader) list(path string) (any, error) {
	if err := r.down(); err != nil {
		return nil, within(err, path)
	}
	list := []any{}
	for first := true; ; first = false {
		more, err := r.next(first, ']')
		if err != nil {
			return nil, within(err, path)
		}
		if !more {
			return list, nil
		}
		v, err := r.tree(path + "[" + strconv.Itoa(len(list)) + "]")
		if err != nil {
			return nil, err
		}
		list = append(list, v)
	}
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

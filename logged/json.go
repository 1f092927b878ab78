package logged

import (
	"bytes"
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// value is a JSON value inside a line that was found valid (no key twice, valid UTF-8), and where it is.
type value struct {
	raw []byte
	at  int // offset in the line
}

func (v value) kind() byte {
	if len(v.raw) == 0 {
		return 0
	}
	return v.raw[0]
}

// validJSON checks one line: one JSON value and nothing else. It returns the value without blanks.
func validJSON(dec *jsontext.Decoder, buf *bytes.Buffer, line []byte) (value, *Error) {
	*buf = *bytes.NewBuffer(line)
	dec.Reset(buf)
	raw, err := dec.ReadValue()
	if err != nil {
		e := &Error{Found: err.Error(), Want: "one JSON object on the line", Reason: "json"}
		var syntax *jsontext.SyntacticError
		e.twice = errors.Is(err, jsontext.ErrDuplicateName)
		if errors.As(err, &syntax) {
			e.Column = int(syntax.ByteOffset) + 1
			e.Found = strings.TrimPrefix(syntax.Err.Error(), "jsontext: ")
			if syntax.JSONPointer != "" {
				e.Field = strings.ReplaceAll(strings.TrimPrefix(string(syntax.JSONPointer), "/"), "/", ".")
			}
			if bytes.Contains([]byte(e.Found), []byte("EOF")) {
				e.Found = "the line ends inside a value"
			}
		}
		return value{}, e
	}
	end := int(dec.InputOffset())
	start := end - len(raw)
	if rest := bytes.TrimSpace(line[end:]); len(rest) > 0 {
		return value{}, &Error{Column: end + 1, Found: shown(rest), Want: "one JSON object on the line", Reason: "json"}
	}
	return value{line[start:end], start}, nil
}

// skipValue returns the offset behind the value that begins at i.
func skipValue(b []byte, i int) int {
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		depth := 0
		for {
			switch b[i] {
			case '"':
				i = skipString(b, i)
				continue
			case '{', '[':
				depth++
			case '}', ']':
				if depth--; depth == 0 {
					return i + 1
				}
			}
			i++
		}
	}
	for i < len(b) && b[i] != ',' && b[i] != '}' && b[i] != ']' && b[i] > ' ' {
		i++
	}
	return i
}

func skipString(b []byte, i int) int {
	for i++; b[i] != '"'; i++ {
		if b[i] == '\\' {
			i++
		}
	}
	return i + 1
}

func skipBlank(b []byte, i int) int {
	for b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r' {
		i++
	}
	return i
}

// fields calls f for each key of an object, in order. The key is unquoted.
func (v value) fields(f func(key []byte, w value) *Error) *Error {
	b := v.raw
	i := skipBlank(b, 1)
	for b[i] != '}' {
		end := skipString(b, i)
		key := b[i+1 : end-1]
		if bytes.IndexByte(key, '\\') >= 0 {
			key, _ = jsontext.AppendUnquote(nil, b[i:end])
		}
		i = skipBlank(b, skipBlank(b, end)+1) // the colon
		end = skipValue(b, i)
		if err := f(key, value{b[i:end], v.at + i}); err != nil {
			return err
		}
		if i = skipBlank(b, end); b[i] == ',' {
			i = skipBlank(b, i+1)
		}
	}
	return nil
}

// each calls f for each element of a list.
func (v value) each(f func(i int, w value) *Error) *Error {
	b := v.raw
	i := skipBlank(b, 1)
	for n := 0; b[i] != ']'; n++ {
		end := skipValue(b, i)
		if err := f(n, value{b[i:end], v.at + i}); err != nil {
			return err
		}
		if i = skipBlank(b, end); b[i] == ',' {
			i = skipBlank(b, i+1)
		}
	}
	return nil
}

// wrong is the error of a value with the wrong type or content.
func (v value) wrong(field, want string, args ...any) *Error {
	e := bad(field, shown(v.raw), want, args...)
	e.Column = v.at + 1
	return e
}

// number reads a finite number.
func (v value) number(field string) (float64, *Error) {
	if c := v.kind(); c != '-' && (c < '0' || c > '9') {
		return math.NaN(), v.wrong(field, "a number")
	}
	x, ok := parseFloat(v.raw)
	if !ok {
		return math.NaN(), v.wrong(field, "a finite number")
	}
	return x, nil
}

// payoff reads a reward: a finite number, or true and false as 1 and 0.
func (v value) payoff(field string) (float64, *Error) {
	switch string(v.raw) {
	case "true":
		return 1, nil
	case "false":
		return 0, nil
	}
	return v.number(field)
}

// whole reads an integer.
func (v value) whole(field string) (int, *Error) {
	x, err := v.number(field)
	if err != nil {
		return 0, err
	}
	if x != math.Trunc(x) || math.Abs(x) > 1<<53 {
		return 0, v.wrong(field, "a whole number")
	}
	return int(x), nil
}

// text reads a string.
func (v value) text(field string) (string, *Error) {
	if v.kind() != '"' {
		return "", v.wrong(field, "a text")
	}
	return v.unquote(), nil
}

// label reads a string, or a number as it is written.
func (v value) label(field string) (string, *Error) {
	if c := v.kind(); c == '-' || c >= '0' && c <= '9' {
		return string(v.raw), nil
	}
	return v.text(field)
}

func (v value) unquote() string {
	if bytes.IndexByte(v.raw, '\\') < 0 {
		return string(v.raw[1 : len(v.raw)-1])
	}
	s, _ := jsontext.AppendUnquote(nil, v.raw)
	return string(s)
}

// list reads a list of numbers into the event's storage.
func (v value) list(e *Event, field string) ([]float64, *Error) {
	if v.kind() != '[' {
		return nil, v.wrong(field, "a list of numbers")
	}
	at := len(e.num)
	err := v.each(func(i int, w value) *Error {
		if c := w.kind(); c == '-' || c >= '0' && c <= '9' {
			if x, ok := parseFloat(w.raw); ok {
				e.num = append(e.num, x)
				return nil
			}
		}
		return w.wrong(field+"["+strconv.Itoa(i)+"]", "a finite number")
	})
	if err != nil {
		return nil, err
	}
	return e.num[at:len(e.num):len(e.num)], nil
}

// powers of ten that are exact.
var tens = [...]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17,
	1e18, 1e19, 1e20, 1e21, 1e22}

// parseFloat is strconv.ParseFloat for JSON and plain decimal text, false when the number is not finite.
// Up to 15 digits are divided by an exact power of ten, which rounds once and is therefore correct
// (Clinger 1990).
func parseFloat(b []byte) (float64, bool) {
	i, neg := 0, false
	if len(b) > 0 && b[0] == '-' {
		neg, i = true, 1
	}
	digits, after, point := uint64(0), 0, false
	n := 0
	for ; i < len(b); i++ {
		switch c := b[i]; {
		case c >= '0' && c <= '9':
			digits = digits*10 + uint64(c-'0')
			if n++; n > 15 {
				return slowFloat(b)
			}
			if point {
				after++
			}
		case c == '.' && !point && n > 0:
			point = true
		default:
			return slowFloat(b)
		}
	}
	if n == 0 || point && after == 0 {
		return slowFloat(b)
	}
	x := float64(digits) / tens[after]
	if neg {
		x = -x
	}
	return x, true
}

func slowFloat(b []byte) (float64, bool) {
	x, err := strconv.ParseFloat(string(b), 64)
	if err != nil || x-x != 0 {
		return 0, false
	}
	if len(b) > 1 && (b[1] == 'x' || b[1] == 'X' || b[len(b)-1] == '.') || bytes.IndexByte(b, '_') >= 0 {
		return 0, false
	}
	return x, true
}

// appendText appends a JSON string.
func appendText(b []byte, s string) []byte {
	out, err := jsontext.AppendQuote(b, s)
	if err != nil { // not UTF-8
		out, _ = jsontext.AppendQuote(b, strings.ToValidUTF8(s, "\uFFFD"))
	}
	return out
}

func appendNumber(b []byte, v float64) []byte { return strconv.AppendFloat(b, v, 'g', -1, 64) }

func appendList(b []byte, x []float64) []byte {
	b = append(b, '[')
	for i, v := range x {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendNumber(b, v)
	}
	return append(b, ']')
}

package feature

import (
	"bytes"
	"strconv"
)

// Met is a set of what reading a request met that the vectors do not show.
type Met uint8

// The elements of Met.
const (
	MetIgnored Met = 1 << iota // a feature that the schema does not name, or a level that it does not list
	MetClamped                 // a number outside its range, or a vector outside its bound, was clamped
	MetType                    // a value of another type than the schema says was read, or read as missing (Lenient)
)

// maxMet is of how many features a batch keeps the names.
const maxMet = 16

// meeting is one thing that was met, and the feature's name in Batch.metNames.
type meeting struct {
	met      Met
	from, to int
}

// Met returns what was met since Begin, in the context and in all actions. Keys that begin with _ and nulls are
// not met: they are no features.
func (b *Batch) Met() Met { return b.met }

// EachMet calls f for what was met since Begin, with the name of the feature, such as context.user.age or
// action.price: each pair once, the first 16. The bytes are valid until the next Begin.
func (b *Batch) EachMet(f func(what Met, name []byte)) {
	for _, m := range b.meetings {
		f(m.met, b.metNames[m.from:m.to])
	}
}

// Given is a value of a request, as an encoder met it.
type Given struct {
	Name []byte // of the feature; valid until the next Begin
	// 'n' a number, 's' a string, 't' a text of several words, 'b' a boolean, '0' a null; 0 where the batch does not
	// keep it
	Kind    byte
	X       float64 // the number
	Number  bool    // X is the value
	Outside bool    // the number is outside what is told apart: the model reads the nearest end

	Feature uint64 // hash of the name, of a AtomBatch only, and so are the next two
	// text of a string or boolean, or decimal form of a number that is a level; cut at 64 bytes; valid until the next
	// Begin
	Level []byte
	Atom  uint64 // hash of the atom of Level, 0 without one
}

// Values calls f for each feature of the schema of which the request has a value: once, and for numbers with the
// smallest and the largest one among the actions.
func (b *Batch) Values(f func(Given)) {
	for i := range b.sighted {
		s := &b.sighted[i]
		if s.request != b.request {
			continue
		}
		name := b.enc.columns[i].label
		if !s.number {
			f(Given{Name: name})
			continue
		}
		f(Given{Name: name, Kind: 'n', X: s.low, Number: true})
		if s.high != s.low {
			f(Given{Name: name, Kind: 'n', X: s.high, Number: true})
		}
	}
}

// glance is what a request has of a column.
type glance struct {
	request   uint64
	number    bool
	low, high float64
}

// sight notes a value of column i.
func (b *Batch) sight(i int, v *scalar) {
	s := &b.sighted[i]
	if s.request != b.request {
		*s = glance{request: b.request}
	}
	if _, number := b.enc.columns[i].block.(*number); !number || v.kind != 'n' {
		return
	}
	if !s.number {
		s.number, s.low, s.high = true, v.x, v.x
	}
	s.low, s.high = min(s.low, v.x), max(s.high, v.x)
}

// Lenient says how values of another type than the schema's are read. A batch begins strict: such a value is an error
// with code Value. For a schema that was learned from some requests, and that no person declared, an error would
// refuse requests that are merely unlike those. A lenient batch reads
//
//   - a number or a boolean that was sent as text, a boolean sent as 0 or 1, a number sent as true (1) or false (0), a
//     list of one value in place of the value, a number or a boolean where text is expected;
//   - every other value of a wrong type, a list of a wrong length and an action without an id as missing.
//
// Each but the last is noted as MetType. What is no JSON, given twice or beyond the limits stays an error, and so
// does what the options of the schema refuse (unknown, outside, unseen = refuse; required). Where nothing is of
// another type the vectors are those of a strict batch.
func (b *Batch) Lenient(on bool) { b.lenient = on }

// meet notes something about the feature prefix+"."+rest; rest may be empty.
func (b *Batch) meet(what Met, prefix string, rest []byte) {
	b.met |= what
	if len(b.meetings) == maxMet {
		return
	}
	from := len(b.metNames)
	b.metNames = append(b.metNames, prefix...)
	if len(rest) > 0 {
		b.metNames = append(append(b.metNames, '.'), rest...)
	}
	name := b.metNames[from:]
	for _, m := range b.meetings {
		if m.met == what && bytes.Equal(b.metNames[m.from:m.to], name) {
			b.metNames = b.metNames[:from]
			return
		}
	}
	b.meetings = append(b.meetings, meeting{what, from, len(b.metNames)})
}

// meetValue notes what a block met in a value of column c.
func (b *Batch) meetValue(c *column) {
	for what := MetIgnored; what <= MetType; what <<= 1 {
		if b.scalar.met&what != 0 {
			b.meet(what, c.name, nil)
		}
	}
	b.scalar.met = 0
}

// spoiled is more values than any block takes.
const spoiled = 1 << 30

// spoil leaves out a value of column i that has no meaning there: one of a list of levels or words, or all of a
// number, a boolean or a vector, which finish then reads as missing.
func (b *Batch) spoil(i int, c *column) {
	b.meet(MetType, c.name, nil)
	switch c.block.(type) {
	case *number, boolean, *vector:
		b.given[i] = spoiled
	}
}

// conversion is what a lenient batch does with a scalar that a block does not take.
type conversion uint8

const (
	refused    conversion = iota // it has the right type
	converted                    // it has one meaning of the right type
	unreadable                   // it has none
)

// convert changes v into what a block of kind k reads.
func (v *scalar) convert(k block) conversion {
	switch k.(type) {
	case *number:
		return v.toNumber()
	case boolean:
		return v.toBoolean()
	case *text:
		if v.kind != '0' {
			v.buf = v.label(v.buf[:0])
			v.kind, v.text, v.buf = 's', v.buf, nil
			return converted
		}
	case *vector:
	default:
		if v.kind != '0' {
			return refused
		}
	}
	return unreadable
}

func (v *scalar) toNumber() conversion {
	if v.kind == 'n' && !v.list {
		return refused // it is outside the range
	}
	switch v.kind {
	case 't':
		v.x = 1
	case 'f':
		v.x = 0
	case 's':
		text := bytes.TrimSpace(v.text)
		if len(text) == 0 || len(text) > 40 || text[0] != '-' && (text[0] < '0' || text[0] > '9') {
			return unreadable
		}
		x, err := strconv.ParseFloat(string(text), 64)
		if err != nil || x-x != 0 {
			return unreadable
		}
		v.x = x
	case '0':
		return unreadable
	}
	v.kind, v.list = 'n', false // a list of one; finish sees whether there are others
	return converted
}

func (v *scalar) toBoolean() conversion {
	word := string(bytes.ToLower(bytes.TrimSpace(v.text)))
	switch {
	case v.kind == 't' || v.kind == 'n' && v.x == 1 || v.kind == 's' && (word == "true" || word == "1"):
		v.kind = 't'
	case v.kind == 'f' || v.kind == 'n' && v.x == 0 || v.kind == 's' && (word == "false" || word == "0"):
		v.kind = 'f'
	default:
		return unreadable
	}
	v.list = false
	return converted
}

package api

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf8"

	"troupe/internal/decimal"
	"troupe/serve"
)

// scan reads the bodies of the hot routes (hot.go) in one pass, without copying what package feature reads again. It
// knows plain JSON only: what it does not accept is not an error but left to decodeJSON, which decides and names the
// field. What it accepts, decodeJSON accepts with the same values; TestPathsAgree and FuzzPathsAgree hold it to that.
// Raw values and what it returns belong to the body.
type scan struct {
	b     []byte
	i     int
	names [][]byte // of the objects that are being read, one behind the other

	ids       []byte  // text of the ids that were read
	pieces    []piece // their places
	actions   []serve.Action
	available []bool
	numbers   []float64
	decides   []serve.DecideRequest
	rewards   []serve.RewardRequest
}

// piece is an id: ids[from:to], for a place that is a string.
type piece struct {
	from, to int
	into     *string
}

// begin prepares for a body. It reports whether the body is UTF-8.
func (s *scan) begin(body []byte) bool {
	s.b, s.i, s.names = body, 0, s.names[:0]
	s.ids, s.pieces, s.actions, s.available, s.numbers = s.ids[:0], s.pieces[:0], s.actions[:0], s.available[:0],
		s.numbers[:0]
	s.decides, s.rewards = s.decides[:0], s.rewards[:0]
	return utf8.Valid(body)
}

// end forgets the texts of a body, so that the scanner can wait for the next one.
func (s *scan) end() {
	s.b = nil
	clear(s.pieces)
	clear(s.actions)
	clear(s.decides)
	clear(s.rewards)
}

// space skips white space and returns the byte behind it, 0 at the end.
func (s *scan) space() byte {
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
func (s *scan) take(c byte) bool {
	if s.space() != c {
		return false
	}
	s.i++
	return true
}

// over reports whether nothing but white space is left.
func (s *scan) over() bool {
	s.space()
	return s.i == len(s.b)
}

// text reads a string without escapes; its bytes belong to the body.
func (s *scan) text() ([]byte, bool) {
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
func (s *scan) quoted() bool {
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
func (s *scan) number() ([]byte, bool) {
	from := s.i
	end, ok := decimal.End(s.b, from)
	if s.i = end; !ok {
		return nil, false
	}
	return s.b[from:end], true
}

// word skips a word, which must be here.
func (s *scan) word(w string) bool {
	if len(s.b)-s.i < len(w) || string(s.b[s.i:s.i+len(w)]) != w {
		return false
	}
	s.i += len(w)
	return true
}

// value skips a value that depth objects and lists are around, and returns its text.
func (s *scan) value(depth int) (json.RawMessage, bool) {
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
func (s *scan) list(depth int, f func() bool) bool {
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
func (s *scan) object(depth int) bool {
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
func (s *scan) members(depth int, f func(name []byte) bool) bool {
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
func (s *scan) fields(depth int, names []string, f func(field int) bool) bool {
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
func (s *scan) raw(into *json.RawMessage, depth int) bool {
	v, ok := s.value(depth)
	*into = v
	return ok && v[0] != 'n'
}

// id reads an id of printable ASCII. It is stored when all are read, by settle.
func (s *scan) id(into *string) bool {
	t, ok := s.text()
	for _, c := range t {
		if c < ' ' || c > '~' {
			return false
		}
	}
	s.pieces = append(s.pieces, piece{len(s.ids), len(s.ids) + len(t), into})
	s.ids = append(s.ids, t...)
	return ok
}

// settle stores the ids, which share one string.
func (s *scan) settle() {
	all := string(s.ids)
	for _, p := range s.pieces {
		*p.into = all[p.from:p.to]
	}
}

// idList reads a list of ids.
func (s *scan) idList(into *[]string, depth, most int) bool {
	first := len(s.pieces)
	if !s.list(depth, func() bool { return len(s.pieces)-first < most && s.id(nil) }) {
		return false
	}
	*into = make([]string, len(s.pieces)-first)
	for i := range *into {
		s.pieces[first+i].into = &(*into)[i]
	}
	return true
}

// whole reads a whole number of at most 15 digits.
func (s *scan) whole() (n uint64, ok bool) {
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
func (s *scan) truth(into *bool) bool {
	if s.space() == 't' {
		*into = true
		return s.word("true")
	}
	*into = false
	return s.word("false")
}

var decideFields = []string{"context", "actions", "packed", "ids", "available", "exclude", "baseline", "mode",
	"defer_activation", "min_seq", "explain", "costs", "numbers"}

// decide reads a decideBody.
func (s *scan) decide(r *serve.DecideRequest, depth, most int) bool {
	return s.fields(depth, decideFields, func(field int) bool {
		switch field {
		case 0:
			return s.raw(&r.Context, depth+1)
		case 1:
			first, at := len(s.actions), len(s.pieces)
			if !s.list(depth+1, func() bool { return len(s.actions)-first < most && s.action(depth+2) }) {
				return false
			}
			if r.Actions = s.actions[first:len(s.actions):len(s.actions)]; r.Actions == nil {
				r.Actions = []serve.Action{}
			}
			for i := range r.Actions { // stay where they are from now on
				if a := &r.Actions[i]; a.ID != "" {
					s.pieces[at].into = &a.ID
					at++
				}
			}
			return true
		case 2:
			return s.raw(&r.Packed, depth+1)
		case 3:
			return s.idList(&r.IDs, depth+1, most)
		case 4:
			first := len(s.available)
			if !s.list(depth+1, func() bool {
				var v bool
				ok := s.truth(&v)
				s.available = append(s.available, v)
				return ok && len(s.available)-first <= most
			}) {
				return false
			}
			if r.Available = s.available[first:len(s.available):len(s.available)]; r.Available == nil {
				r.Available = []bool{}
			}
			return true
		case 5:
			return s.idList(&r.Exclude, depth+1, most)
		case 6:
			n, ok := s.whole()
			at := int(n)
			r.Baseline = &at
			return ok && n < 1<<31
		case 7:
			t, ok := s.text()
			for _, m := range []serve.Mode{serve.Online, serve.Apprentice, serve.Shadow, serve.Frozen, serve.Guarded} {
				if string(t) == string(m) {
					r.Mode = m
					return ok
				}
			}
			return false
		case 8:
			return s.truth(&r.Deferred)
		case 9:
			n, ok := s.whole()
			r.MinSeq = n
			return ok
		case 11:
			first := len(s.numbers)
			if !s.list(depth+1, func() bool {
				_, ok := s.cost()
				return ok && len(s.numbers)-first <= most
			}) {
				return false
			}
			if r.Costs = s.numbers[first:len(s.numbers):len(s.numbers)]; r.Costs == nil {
				r.Costs = []float64{}
			}
			return true
		case 12:
			r.Numbers = []serve.NumberAsk{}
			return s.list(depth+1, func() bool {
				r.Numbers = append(r.Numbers, serve.NumberAsk{})
				return len(r.Numbers) <= mostNumbers && s.numberAsk(&r.Numbers[len(r.Numbers)-1], depth+2)
			})
		}
		t, ok := s.text()
		r.Explain = string(t) == "full"
		return ok && r.Explain
	})
}

// mostNumbers is how many numbers a request may have.
const mostNumbers = 3

var numberFields = []string{"name", "min", "max", "step", "cyclic", "log"}

// printable reads a text of printable ASCII.
func (s *scan) printable() (string, bool) {
	t, ok := s.text()
	for _, c := range t {
		if c < ' ' || c > '~' {
			return "", false
		}
	}
	return string(t), ok
}

// numberAsk reads what a request says of a number.
func (s *scan) numberAsk(n *serve.NumberAsk, depth int) bool {
	return s.fields(depth, numberFields, func(field int) (ok bool) {
		switch field {
		case 0:
			n.Name, ok = s.printable()
			return ok && n.Name != ""
		case 1:
			n.Min, ok = s.cost()
		case 2:
			n.Max, ok = s.cost()
		case 3:
			n.Step, ok = s.cost()
		case 4:
			n.Cyclic = new(bool)
			ok = s.truth(n.Cyclic)
		case 5:
			n.Log = new(bool)
			ok = s.truth(n.Log)
		}
		return ok
	})
}

// someID takes the place of an id that is read and not yet stored.
const someID = "?"

var actionFields = []string{"id", "features", "cost", "numbers"}

// action reads a candidate.
func (s *scan) action(depth int) bool {
	var a serve.Action
	ok := s.fields(depth, actionFields, func(field int) bool {
		switch field {
		case 1:
			return s.raw(&a.Features, depth+1)
		case 2:
			c, ok := s.cost()
			a.Cost = c
			return ok
		case 3:
			a.Numbers = []string{}
			return s.list(depth+1, func() bool {
				t, ok := s.printable()
				a.Numbers = append(a.Numbers, t)
				return ok && len(a.Numbers) <= mostNumbers
			})
		}
		n := len(s.ids)
		if !s.id(nil) {
			return false
		}
		if len(s.ids) == n { // refused, with its field
			return false
		}
		a.ID = someID
		return true
	})
	s.actions = append(s.actions, a)
	return ok
}

// oneDecide reads a whole body of :decide.
func (s *scan) oneDecide(most int) bool {
	s.decides = append(s.decides, serve.DecideRequest{})
	if !s.decide(&s.decides[0], 0, most) || !s.over() {
		return false
	}
	s.settle()
	return true
}

// manyDecides reads a whole body of :decideBatch.
func (s *scan) manyDecides(most, requests int) bool {
	ok := s.fields(0, []string{"requests"}, func(int) bool {
		return s.list(1, func() bool {
			if len(s.decides) == requests {
				return false
			}
			s.decides = append(s.decides, serve.DecideRequest{})
			return s.decide(&s.decides[len(s.decides)-1], 2, most)
		})
	})
	if !ok || !s.over() || len(s.decides) == 0 {
		return false
	}
	s.settle()
	return true
}

// float reads a number that fits a float64.
func (s *scan) float(into *float64) bool {
	s.space()
	t, ok := s.number()
	if !ok {
		return false
	}
	v, _, fault := decimal.Read(t)
	*into = v
	return fault == decimal.None
}

// cost reads a number. Its place stays as it is until the next body.
func (s *scan) cost() (*float64, bool) {
	var v float64
	ok := s.float(&v)
	s.numbers = append(s.numbers, v)
	return &s.numbers[len(s.numbers)-1], ok
}

var rewardFields = []string{"value", "cost", "key", "event_id"}

// reward reads a reward, with its event in a batch. Its value or its cost must be there.
func (s *scan) reward(r *serve.RewardRequest, depth, fields int) bool {
	value := false
	r.OnlyCost = true
	ok := s.fields(depth, rewardFields[:fields], func(field int) bool {
		switch field {
		case 0:
			value, r.OnlyCost = true, false
			return s.float(&r.Value)
		case 1:
			c, ok := s.cost()
			value, r.Cost = true, c
			return ok
		case 2:
			t, ok := s.text()
			r.Key = string(t)
			return ok
		}
		t, ok := s.text()
		r.EventID = string(t)
		return ok
	})
	return ok && value
}

// oneReward reads a whole body of :reward.
func (s *scan) oneReward() bool {
	s.rewards = append(s.rewards, serve.RewardRequest{})
	return s.reward(&s.rewards[0], 0, 3) && s.over()
}

// manyRewards reads a whole body of rewards:batch.
func (s *scan) manyRewards(most int) bool {
	ok := s.fields(0, []string{"rewards"}, func(int) bool {
		return s.list(1, func() bool {
			if len(s.rewards) == most {
				return false
			}
			s.rewards = append(s.rewards, serve.RewardRequest{})
			return s.reward(&s.rewards[len(s.rewards)-1], 2, 4)
		})
	})
	return ok && s.over() && len(s.rewards) > 0
}

// Package candidates is the binary form in which the record of a decision keeps what could have been
// chosen (the field Full of eventlog.Decision), version 1:
//
//	1 | flags u8 | places: count, each the distance to the one before |
//	K | d | bitmap of K·d bits: not 0 | the numbers that are not 0, f32 or f64 little-endian |
//	K | atoms of the context | atoms of each candidate, as feature.AppendAtoms writes them
//	numbers: count, each its name, a byte (1 cyclic, 2 log), min, max, step, low, high | a byte for each action
//
// Flags: 1: the places of the candidates among the actions of the request are there, because some were not
// available; 2: numbers are float32, exactly; 4: the vectors are there; 8: atoms are there, of a model
// with hashed features; 16: numbers are played: the K actions have atoms, and each one candidate for each cell of the
// numbers whose bits its byte has (numbers.Grid). Counts are uvarint.
package candidates

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"troupe/eventlog"
	"troupe/feature"
	"troupe/serve/numbers"
)

const (
	withPlaces  = 1
	single      = 2
	withVectors = 4
	withAtoms   = 8
	withNumbers = 16
)

// MaxBytes is the largest form that is recorded: with it, the chosen vector and all texts at their longest, a
// record still fits into a batch of the log.
const MaxBytes = eventlog.MaxBatch - 8*feature.MaxDim - 8<<10

// Set is the candidates of a decision.
type Set struct {
	Places []int     // among the actions of the request, ascending; nil: all of them
	K, D   int       // 0 without vectors
	X      []float64 // K×D, row by row

	// With hashed features K candidates have atoms, and D is 0.
	Context []feature.Atom
	Actions [][]feature.Atom

	// Where numbers are played, the candidates are the cells of the actions. Grid is nil otherwise.
	Grid  *numbers.Grid
	Of    []int32 // the action of each candidate, which Places are of
	Masks []uint8 // which numbers each action plays
}

// Place returns the place of candidate i among the actions of the request.
func (s *Set) Place(i int) (int, error) {
	if s.Grid != nil {
		if i >= len(s.Of) {
			return 0, fmt.Errorf("candidates: %d of %d", i, len(s.Of))
		}
		i = int(s.Of[i])
	}
	if s.Places == nil {
		return i, nil
	}
	if i >= len(s.Places) {
		return 0, fmt.Errorf("candidates: %d of %d", i, len(s.Places))
	}
	return s.Places[i], nil
}

// Append appends the form of candidates to b: the places, nil for all, and the rows of d numbers in x, which
// is nil when the vectors are not kept.
func Append(b []byte, places []int, x []float64, d int) []byte {
	flags := byte(0)
	if len(places) > 0 {
		flags |= withPlaces
	}
	if x != nil {
		flags |= withVectors | single
	}
	mark := len(b) + 1
	b = appendPlaces(append(b, 1, flags), places)
	if x == nil {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(x)/d))
	b = binary.AppendUvarint(b, uint64(d))
	from, to := len(b), len(b)+(len(x)+7)/8 // bitmap
	if out, ok := appendNumbers(b[:from], x, to, 4); ok {
		return out
	}
	b[mark] &^= single
	b, _ = appendNumbers(b[:from], x, to, 8)
	return b
}

func appendPlaces(b []byte, places []int) []byte {
	if len(places) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(len(places)))
	last := 0
	for _, i := range places {
		b = binary.AppendUvarint(b, uint64(i-last))
		last = i
	}
	return b
}

// AppendAtoms appends the form of candidates with hashed features.
func AppendAtoms(b []byte, places []int, context []feature.Atom, actions [][]feature.Atom) []byte {
	flags := byte(withAtoms)
	if len(places) > 0 {
		flags |= withPlaces
	}
	b = appendPlaces(append(b, 1, flags), places)
	b = binary.AppendUvarint(b, uint64(len(actions)))
	b = feature.AppendAtoms(b, context)
	for _, a := range actions {
		b = feature.AppendAtoms(b, a)
	}
	return b
}

// AppendNumbers appends the form of actions with hashed features that play the numbers of a grid, and which of them each
// plays.
func AppendNumbers(b []byte, places []int, context []feature.Atom, actions [][]feature.Atom, g *numbers.Grid, masks []uint8) []byte {
	mark := len(b) + 1
	b = AppendAtoms(b, places, context, actions)
	b[mark] |= withNumbers
	b = binary.AppendUvarint(b, uint64(len(g.Numbers)))
	for i := range g.Numbers {
		p := &g.Numbers[i]
		b = append(binary.AppendUvarint(b, uint64(len(p.Name))), p.Name...)
		flags := byte(0)
		if p.Cyclic {
			flags |= 1
		}
		if p.Log {
			flags |= 2
		}
		b = append(b, flags)
		for _, v := range []float64{p.Min, p.Max, p.Step, p.Low, p.High} {
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(v))
		}
	}
	return append(b, masks...)
}

// appendNumbers appends the bitmap, which ends at to, and the numbers in size bytes each. It is not ok when a
// number has no equal float32.
func appendNumbers(b []byte, x []float64, to, size int) (_ []byte, ok bool) {
	at, n := len(b), to
	most := to + size*len(x)
	b = slices.Grow(b, most-at)[:most]
	for i := 0; i < len(x); i, at = i+8, at+1 {
		if size == 4 && i+8 <= len(x) && narrowed((*[32]byte)(b[n:n+32]), (*[8]float64)(x[i:])) {
			b[at], n = 0xff, n+32
			continue
		}
		var set byte
		for k, v := range x[i:min(i+8, len(x))] {
			if v == 0 {
				continue
			}
			set |= 1 << k
			if size == 8 {
				binary.LittleEndian.PutUint64(b[n:], math.Float64bits(v))
			} else if f, ok := narrow(v); ok {
				binary.LittleEndian.PutUint32(b[n:], f)
			} else {
				return nil, false
			}
			n += size
		}
		b[at] = set
	}
	return b[:n], true
}

// narrowed is narrow for eight numbers, which are nearly always normal float32s. If it is false, what dst holds means
// nothing.
func narrowed(dst *[32]byte, x *[8]float64) bool {
	var lost, out uint64
	for k, v := range x {
		u := math.Float64bits(v)
		lost |= u << 35
		out |= (253 - (u>>52&0x7ff - 897)) >> 63 // below or above the exponents of normal float32s
		out |= (u>>52&0x7ff - 897) >> 63
		binary.LittleEndian.PutUint32(dst[4*k:], uint32(u>>63)<<31|uint32(u<<1>>30-896<<23))
	}
	return lost|out == 0
}

// narrow returns the bits of v as a float32, and whether that has the value of v. Integer operations are
// faster here than conversions there and back.
func narrow(v float64) (uint32, bool) {
	u := math.Float64bits(v)
	if e := u >> 52 & 0x7ff; e-897 > 253 { // not a normal float32
		f := float32(v)
		return math.Float32bits(f), float64(f) == v
	}
	return uint32(u>>63)<<31 | uint32(u<<1>>30-896<<23), u<<35 == 0
}

// Parse reads what Append wrote; other bytes are an error. No bytes are a Set without anything.
func Parse(b []byte) (Set, error) {
	if len(b) == 0 {
		return Set{}, nil
	}
	if len(b) < 2 || b[0] != 1 || b[1]&^(withPlaces|single|withVectors|withAtoms|withNumbers) != 0 || b[1]&(withAtoms|withNumbers) == withNumbers || b[1]&withAtoms != 0 &&
		b[1]&(single|withVectors) != 0 {
		return Set{}, errors.New("candidates: an unknown form")
	}
	flags := b[1]
	r := reader{b: b[2:]}
	var s Set
	if flags&withPlaces != 0 {
		s.Places = r.places()
	}
	if flags&withVectors != 0 {
		r.vectors(&s, flags&single != 0)
	}
	if flags&withAtoms != 0 {
		r.atoms(&s)
	}
	if flags&withNumbers != 0 {
		r.numbers(&s)
	}
	if r.err == nil && len(r.b) > 0 {
		r.err = errors.New("too long")
	}
	if r.err != nil {
		return Set{}, fmt.Errorf("candidates: %w", r.err)
	}
	return s, nil
}

// reader reads the form. After the first fault it returns zero values.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(what string) {
	if r.err == nil {
		r.err = errors.New(what)
	}
	r.b = nil
}

func (r *reader) take(n int) []byte {
	if n > len(r.b) {
		r.fail("cut short")
		return nil
	}
	out := r.b[:n]
	r.b = r.b[n:]
	return out
}

func (r *reader) uint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail("cut short")
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) places() []int {
	n := r.uint()
	if n > uint64(len(r.b)) { // each takes a byte at least
		r.fail("cut short")
		return nil
	}
	out, last := make([]int, n), uint64(0)
	for i := range out {
		if last += r.uint(); last > 1<<20 {
			r.fail("an impossible place")
			return nil
		}
		out[i] = int(last)
	}
	return out
}

func (r *reader) atoms(s *Set) {
	k := r.uint()
	if r.err != nil || k == 0 || k > uint64(len(r.b)) {
		r.fail("an impossible number of candidates")
		return
	}
	read := func() (out []feature.Atom) {
		if r.err == nil {
			out, r.b, r.err = feature.ReadAtoms(nil, r.b)
		}
		return out
	}
	s.K, s.Context, s.Actions = int(k), read(), make([][]feature.Atom, k)
	for i := range s.Actions {
		if s.Actions[i] = read(); r.err == nil && len(s.Actions[i]) == 0 {
			r.fail("a candidate without atoms")
		}
	}
}

// numbers reads the numbers that are played, and makes the candidates of the actions.
func (r *reader) numbers(s *Set) {
	n := r.uint()
	if r.err != nil || n == 0 || n > numbers.Most {
		r.fail("an impossible number of numbers")
		return
	}
	list, bounds := make([]numbers.Range, n), make([][2]float64, n)
	for i := range list {
		x := &list[i]
		x.Name = string(r.take(int(min(r.uint(), 1<<10))))
		if flags := r.take(1); flags != nil {
			x.Cyclic, x.Log = flags[0]&1 != 0, flags[0]&2 != 0
		}
		for _, to := range []*float64{&x.Min, &x.Max, &x.Step, &bounds[i][0], &bounds[i][1]} {
			if v := r.take(8); v != nil {
				*to = math.Float64frombits(binary.LittleEndian.Uint64(v))
			}
		}
	}
	s.Masks = append([]uint8(nil), r.take(s.K)...)
	if r.err != nil {
		return
	}
	if err := numbers.CheckAll(list); err != nil {
		r.fail(err.Error())
		return
	}
	g := numbers.Whole(list)
	for i, b := range bounds {
		if err := g.Narrow(i, b[0], b[1]); err != nil {
			r.fail(err.Error())
			return
		}
	}
	cells := 0
	for _, m := range s.Masks {
		if m > g.All() {
			r.fail("an action plays a number that is not there")
			return
		}
		if cells += g.Cells(m); cells > numbers.MaxCells {
			r.fail("too many cells")
			return
		}
	}
	s.Grid = g
	s.Actions, s.Of = g.Expand(s.Actions, s.Masks)
	s.K = len(s.Actions)
}

func (r *reader) vectors(s *Set, single bool) {
	k, d := r.uint(), r.uint()
	if r.err != nil || k == 0 || d == 0 || k > 1<<20 || d > feature.MaxDim || (k*d+7)/8 > uint64(len(r.b)) {
		r.fail("an impossible shape")
		return
	}
	s.K, s.D = int(k), int(d)
	s.X = make([]float64, s.K*s.D)
	bitmap := r.take((len(s.X) + 7) / 8)
	for i := range s.X {
		if bitmap[i/8]>>(i%8)&1 == 0 {
			continue
		}
		if single {
			if v := r.take(4); v != nil {
				s.X[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(v)))
			}
		} else if v := r.take(8); v != nil {
			s.X[i] = math.Float64frombits(binary.LittleEndian.Uint64(v))
		}
		if s.X[i]-s.X[i] != 0 {
			r.fail(fmt.Sprintf("number %d is not finite", i))
			return
		}
	}
}

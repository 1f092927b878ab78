package feature

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"troupe/spec"
)

// Kind says how the value of one feature becomes numbers. The registry Kinds lists them.
type Kind interface {
	spec.Documented
	// compile checks the options; the error's path is the option's key.
	compile() (block, error)
}

// Kinds is the registry of feature kinds.
var Kinds = spec.Registry[Kind]{
	"number":   func() Kind { return &Number{Outside: "refuse"} },
	"boolean":  func() Kind { return &Boolean{} },
	"category": func() Kind { return &Category{Unseen: "refuse"} },
	"text":     func() Kind { return &Text{Bigrams: true} },
	"vector":   func() Kind { return &Vector{Bound: 1, Outside: "refuse"} },
	"hash":     func() Kind { return &Hash{} },
}

// block is a compiled kind. Its norm is at most 1 after finish.
type block interface {
	width() int
	// add puts the n-th scalar of a value into dst. When it does not take v it returns what it
	// expects.
	add(dst []float64, n int, v *scalar) (want string)
	// finish is called once when n ≥ 0 scalars of a present value have been added. It notes in v.met what it
	// met.
	finish(dst []float64, n int, v *scalar) (want string)
	// coordinate names coordinate i, to be put after the feature's name.
	coordinate(i int) string
}

// scalar is one JSON value that is neither an object nor a list.
type scalar struct {
	kind byte    // 's' string, 'n' number, 't' true, 'f' false, '0' null
	x    float64 // of a number
	text []byte  // of a string; the literal of a number
	list bool    // it stands in a list
	seed uint32  // of the feature's hashes
	path []byte  // for the kind hash: where the value stands
	buf  []byte  // scratch
	met  Met     // what blocks met, until the batch has taken it
}

// label appends the text that a category sees: a string itself, true, false, or a number in its
// shortest decimal form (1, 1.0 and 1e0 are one level; long whole numbers keep all digits).
func (v *scalar) label(buf []byte) []byte {
	switch v.kind {
	case 't':
		return append(buf, "true"...)
	case 'f':
		return append(buf, "false"...)
	case 'n':
		if v.x == 0 {
			return append(buf, '0')
		}
		for _, c := range v.text {
			if c == '.' || c|0x20 == 'e' {
				return strconv.AppendFloat(buf, v.x, 'g', -1, 64)
			}
		}
	}
	return append(buf, v.text...)
}

// Number is one coordinate z = 2(x − min)/(max − min) − 1: min is −1, max is 1, the middle is 0. A
// symmetric range keeps 0 at 0.
type Number struct {
	Range   []float64 `key:"range" doc:"[min, max], mapped to [-1, 1]"`
	Outside string    `key:"outside" doc:"a value outside the range: refuse, or clamp to the nearer end"`
}

// Doc implements spec.Documented.
func (*Number) Doc() string { return "one coordinate, a declared range mapped to [-1, 1]" }

func (o *Number) compile() (block, error) {
	if len(o.Range) != 2 {
		return nil, spec.Errorf("range", "has %d numbers, expected [min, max]", len(o.Range))
	}
	lo, hi := o.Range[0], o.Range[1]
	if w := hi - lo; !(lo < hi) || math.IsInf(w, 0) || w < 1e-300 {
		return nil, spec.Errorf("range", "is [%v, %v], expected finite min < max", lo, hi)
	}
	clamp, err := choice("outside", o.Outside, "clamp", "refuse")
	return &number{lo, hi, clamp == 0}, err
}

type number struct {
	lo, hi float64
	clamp  bool
}

func (*number) width() int            { return 1 }
func (*number) coordinate(int) string { return "" }

func (k *number) want() string { return expected("a number in [%v, %v]", k.lo, k.hi) }

func (k *number) add(dst []float64, n int, v *scalar) string {
	if v.kind != 'n' || v.list {
		return k.want()
	}
	x := v.x
	if x < k.lo || x > k.hi {
		if !k.clamp {
			return k.want()
		}
		x = min(max(x, k.lo), k.hi)
		v.met |= MetClamped
	}
	dst[0] = float64(2*((x-k.lo)/(k.hi-k.lo))) - 1
	return ""
}

func (k *number) finish(_ []float64, n int, _ *scalar) string {
	if n != 1 {
		return k.want()
	}
	return ""
}

// Boolean is one coordinate: true is 1, false is −1.
type Boolean struct{}

// Doc implements spec.Documented.
func (*Boolean) Doc() string { return "one coordinate: true is 1, false is -1, missing is 0" }

func (*Boolean) compile() (block, error) { return boolean{}, nil }

type boolean struct{}

func (boolean) width() int            { return 1 }
func (boolean) coordinate(int) string { return "" }

func (boolean) add(dst []float64, n int, v *scalar) string {
	switch {
	case v.list:
	case v.kind == 't':
		dst[0] = 1
		return ""
	case v.kind == 'f':
		dst[0] = -1
		return ""
	}
	return "expected true or false"
}

func (k boolean) finish(_ []float64, n int, _ *scalar) string {
	if n != 1 {
		return "expected true or false"
	}
	return ""
}

// Category is a coordinate for each level, or hashed buckets where the levels are too many to
// declare. A list of values is the sum of their blocks, divided by its length where that is
// above 1. Numbers and booleans are levels under their text: 3, true.
type Category struct {
	Levels  []string `key:"levels" doc:"the values it can take, one coordinate each"`
	Unseen  string   `key:"unseen" doc:"a value that is not a level: refuse, ignore (zeros), or other (one coordinate for all of them)"`
	Buckets int      `key:"buckets" doc:"instead of levels: this many hashed buckets with signs"`
}

// Doc implements spec.Documented.
func (*Category) Doc() string { return "one-hot over declared levels, or hashed into buckets" }

func (o *Category) compile() (block, error) {
	switch {
	case o.Buckets != 0 && len(o.Levels) > 0:
		return nil, spec.Errorf("buckets", "is %d beside %d levels, expected one of the two", o.Buckets, len(o.Levels))
	case o.Buckets != 0:
		if o.Unseen != "refuse" {
			return nil, spec.Errorf("unseen", "is %q, but hashed buckets have room for every value", o.Unseen)
		}
		return &hashed{buckets: o.Buckets}, checkBuckets(o.Buckets)
	case len(o.Levels) == 0:
		return nil, spec.Errorf("levels", "is missing; a category needs levels or buckets")
	}
	k := &category{levels: slices.Clone(o.Levels), index: make(map[string]int, len(o.Levels))}
	for i, l := range o.Levels {
		if j, twice := k.index[l]; twice {
			return nil, spec.Errorf("levels["+strconv.Itoa(i)+"]", "is %q, like levels[%d]", l, j)
		}
		if !utf8.ValidString(l) {
			return nil, spec.Errorf("levels["+strconv.Itoa(i)+"]", "is %q, which is not UTF-8", l)
		}
		k.index[l] = i
	}
	var err error
	k.unseen, err = choice("unseen", o.Unseen, "refuse", "ignore", "other")
	return k, err
}

type category struct {
	levels []string
	index  map[string]int
	unseen int // 0 refuse, 1 ignore, 2 other
}

func (k *category) width() int { return len(k.levels) + k.unseen/2 }

func (k *category) coordinate(i int) string {
	if i == len(k.levels) {
		return "=(other)"
	}
	return "=" + k.levels[i]
}

func (k *category) add(dst []float64, n int, v *scalar) string {
	if v.kind == '0' {
		return "expected a string"
	}
	v.buf = v.label(v.buf[:0])
	i, ok := k.index[string(v.buf)]
	switch {
	case ok:
		dst[i]++
	case k.unseen == 0:
		return expected("one of the %d levels%s", len(k.levels), near(k.levels))
	default:
		if v.met |= MetIgnored; k.unseen == 2 {
			dst[len(k.levels)]++
		}
	}
	return ""
}

func (k *category) finish(dst []float64, _ int, _ *scalar) string { shrink(dst); return "" }

// near lists the first levels.
func near(levels []string) string {
	s := strings.Join(levels[:min(len(levels), 6)], ", ")
	if len(levels) > 6 {
		s += ", …"
	}
	return " (" + shorten([]byte(s), 120) + ")"
}

type hashed struct{ buckets int }

func (k *hashed) width() int              { return k.buckets }
func (k *hashed) coordinate(i int) string { return "#" + strconv.Itoa(i) }

func (k *hashed) add(dst []float64, n int, v *scalar) string {
	if v.kind == '0' {
		return "expected a string"
	}
	v.buf = v.label(v.buf[:0])
	bucket(dst, murmur3(v.buf, v.seed), 1)
	return ""
}

func (k *hashed) finish(dst []float64, _ int, _ *scalar) string { shrink(dst); return "" }

// Text counts words, and with bigrams pairs of neighbouring words, in hashed buckets with signs;
// the block of a text with at least one word has length 1 (or 0 where buckets cancel).
type Text struct {
	Buckets int  `key:"buckets" doc:"how many coordinates the words share"`
	Bigrams bool `key:"bigrams" doc:"count pairs of neighbouring words too"`
}

// Doc implements spec.Documented.
func (*Text) Doc() string { return "words and pairs of words, hashed into buckets" }

func (o *Text) compile() (block, error) {
	return &text{o.Buckets, o.Bigrams}, checkBuckets(o.Buckets)
}

type text struct {
	buckets int
	bigrams bool
}

func (k *text) width() int              { return k.buckets }
func (k *text) coordinate(i int) string { return "#" + strconv.Itoa(i) }

func (k *text) add(dst []float64, n int, v *scalar) string {
	if v.kind != 's' {
		return "expected text"
	}
	last := -1
	v.buf = words(v.buf[:0], v.text, func(buf []byte, start, end int) {
		bucket(dst, murmur3(buf[start:end], v.seed), 1)
		if k.bigrams && last >= 0 {
			bucket(dst, murmur3(buf[last:end], v.seed), 1)
		}
		last = start
	})
	return ""
}

func (k *text) finish(dst []float64, _ int, _ *scalar) string { shrink(dst); return "" }

// Vector is a list of size numbers, divided by the bound on its norm; with bound 1 the numbers
// themselves. A norm that is above the bound by at most one part in a million is rounding (of
// float32, of a decimal text) and is scaled down to it.
type Vector struct {
	Size    int     `key:"size" doc:"how many numbers"`
	Bound   float64 `key:"bound" doc:"the largest Euclidean norm; the numbers are divided by it"`
	Outside string  `key:"outside" doc:"a longer vector: refuse, or clamp to the bound, keeping its direction"`
}

// Doc implements spec.Documented.
func (*Vector) Doc() string {
	return "a list of numbers, or packed float32 or float64, divided by a bound on its norm"
}

func (o *Vector) compile() (block, error) {
	if o.Size < 1 {
		return nil, spec.Errorf("size", "is %d, expected at least 1", o.Size)
	}
	if !(o.Bound > 1e-300) || math.IsInf(o.Bound, 0) {
		return nil, spec.Errorf("bound", "is %v, expected a positive number", o.Bound)
	}
	clamp, err := choice("outside", o.Outside, "clamp", "refuse")
	return &vector{o.Size, o.Bound, clamp == 0}, err
}

type vector struct {
	size  int
	bound float64
	clamp bool
}

func (k *vector) width() int              { return k.size }
func (k *vector) coordinate(i int) string { return "[" + strconv.Itoa(i) + "]" }

func (k *vector) want() string { return expected("a list of %d numbers", k.size) }

func (k *vector) add(dst []float64, n int, v *scalar) string {
	if v.kind != 'n' || !v.list || n >= k.size {
		return k.want()
	}
	dst[n] = v.x
	return ""
}

func (k *vector) finish(dst []float64, n int, v *scalar) string {
	if n != k.size {
		return k.want()
	}
	if k.bound == 1 && squares(dst) <= 1-1e-9 {
		return "" // what follows would find the same, and change nothing
	}
	var most float64
	for _, v := range dst {
		most = max(most, math.Abs(v))
	}
	if most == 0 {
		return ""
	}
	// ‖x‖ = most·√q with 1 ≤ q ≤ d: no square overflows or vanishes.
	var q float64
	for _, v := range dst {
		v /= most
		q += float64(v * v)
	}
	if length := most / k.bound * math.Sqrt(q); !(length <= 1+1e-6) {
		if !k.clamp {
			return expected("a vector of norm at most %v", k.bound)
		}
		f := shave / math.Sqrt(q)
		for i, x := range dst {
			dst[i] = x / most * f
		}
		v.met |= MetClamped
		return ""
	}
	for i := range dst {
		dst[i] /= k.bound
	}
	shrink(dst)
	return ""
}

// Hash takes everything below a name: context.* takes what no other context feature reads,
// action.item.* what no other feature reads below action.item. A string s at path p counts 1 in
// the bucket of "p=s", so does a boolean or an element of a list; a number x counts x/(1+|x|)
// (rounded to a multiple of 2⁻³⁰) in the bucket of "p". The block is divided by its length where
// that is above 1.
type Hash struct {
	Buckets int `key:"buckets" doc:"how many coordinates they share"`
}

// Doc implements spec.Documented.
func (*Hash) Doc() string { return "everything below a name (item.*), hashed into buckets" }

func (o *Hash) compile() (block, error) { return &namespace{o.Buckets}, checkBuckets(o.Buckets) }

type namespace struct{ buckets int }

func (k *namespace) width() int              { return k.buckets }
func (k *namespace) coordinate(i int) string { return "#" + strconv.Itoa(i) }

func (k *namespace) add(dst []float64, n int, v *scalar) string {
	if v.kind == '0' {
		return "expected a string, a number or a boolean"
	}
	v.buf = append(v.buf[:0], v.path...)
	x := 1.0
	if v.kind == 'n' {
		x = math.RoundToEven(v.x/(1+math.Abs(v.x))*(1<<30)) / (1 << 30)
	} else {
		v.buf = v.label(append(v.buf, '='))
	}
	bucket(dst, murmur3(v.buf, v.seed), x)
	return ""
}

func (k *namespace) finish(dst []float64, _ int, _ *scalar) string { shrink(dst); return "" }

func checkBuckets(n int) error {
	if n < 1 || n > MaxDim {
		return spec.Errorf("buckets", "is %d, expected 1 to %d", n, MaxDim)
	}
	return nil
}

// choice returns the place of s among the valid words.
func choice(key, s string, valid ...string) (int, error) {
	if i := slices.Index(valid, s); i >= 0 {
		return i, nil
	}
	return 0, spec.Errorf(key, "is %q%s", s, spec.Suggest(s, slices.Clone(valid)))
}

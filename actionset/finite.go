package actionset

import (
	"fmt"
	"math"
	"sync/atomic"

	"troupe/bandit"
	"troupe/internal/linalg"
)

// Finite is a list of K arms in ℝᵈ, stored as one row-major K×d block. It implements
// bandit.Finite, Bounded, Rescaled and Container.
type Finite struct {
	x      []float64 // K×d
	d      int
	factor float64
	// 1 + the bits of max ‖x‖; 0 until Radius is called: most lists that are drawn anew in each round are never asked
	radius atomic.Uint64

	unread atomic.Bool // the numbers are not checked yet: ArgMax and Check do

	// A list that is asked often gets a copy in another order, which takes a third of the time: a long
	// one a prefilter, half of x's memory more, a short one arms, a block of 16 for each 16 begun. In portable
	// Go every list has arms, a third of x's memory more from d = 16 on.
	asked     atomic.Uint32
	prefilter atomic.Pointer[linalg.Prefilter]
	arms      atomic.Pointer[linalg.Arms]
}

const (
	prefilterFrom = 4096 // entries from which on a prefilter pays, with 64 arms at least
	copyAfter     = 8    // questions: a list that is drawn anew in each round is asked once or twice
	readAtOnce    = 1280 // entries that are looked at and multiplied while they are in the first cache
)

// NewFinite returns the set of the given arms, in order, copied. It refuses an empty list, rows of
// different lengths and numbers that are not finite, with their place. Equal arms are allowed.
func NewFinite(arms [][]float64) (*Finite, error) {
	if len(arms) == 0 {
		return nil, fmt.Errorf("actionset: arms is empty, expected at least one arm")
	}
	d := len(arms[0])
	block := make([]float64, 0, len(arms)*d)
	for i, a := range arms {
		if len(a) != d {
			return nil, fmt.Errorf("actionset: arms[%d] has length %d, expected %d like arms[0]", i, len(a), d)
		}
		block = append(block, a...)
	}
	return FiniteOf(d, block)
}

// FiniteOf returns the set whose arm i is block[i·d : (i+1)·d]. It keeps the block, which must not
// be changed afterwards. Errors as in NewFinite. Cost: one look at each number, and no copy.
func FiniteOf(d int, block []float64) (*Finite, error) {
	f, err := FiniteUnread(d, block)
	if err != nil {
		return nil, err
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return f, nil
}

// FiniteUnread is FiniteOf without the look at the numbers, for a list that is asked once: the first ArgMax looks at
// them in the pass in which it multiplies them, so a list that does not fit the caches is read from memory once. Where
// a number is not finite, ArgMax returns the error of FiniteOf, as do Select and Prob of all policies of this module,
// before they draw or change anything; Check returns it, too. At, Flat, Radius and Contains do not look. A caller that
// reads the arms by them calls Check before.
func FiniteUnread(d int, block []float64) (*Finite, error) {
	if d <= 0 {
		return nil, fmt.Errorf("actionset: arms have %d entries, expected at least one", d)
	}
	if len(block) == 0 || len(block)%d != 0 {
		return nil, fmt.Errorf("actionset: a block of %d numbers is not a list of arms with %d entries", len(block), d)
	}
	f := &Finite{x: block, d: d, factor: 1}
	f.unread.Store(true)
	return f, nil
}

// Check looks at the numbers of a list that FiniteUnread made, unless that was done before, and returns the first that
// is not finite, with its place. Every other list was looked at when it was made.
func (f *Finite) Check() error {
	if !f.unread.Load() {
		return nil
	}
	if !linalg.Within(f.x, limit) {
		return f.bad(0)
	}
	f.unread.Store(false)
	return nil
}

// bad is the error about the first entry that is not finite; there is one, and none before the entry from.
func (f *Finite) bad(from int) error {
	for i := from; ; i++ {
		if v := f.x[i]; !(math.Abs(v) <= limit) {
			return badEntry(fmt.Sprintf("arms[%d]", i/f.d), i%f.d, v)
		}
	}
}

// Dim returns d.
func (f *Finite) Dim() int { return f.d }

// Len returns K.
func (f *Finite) Len() int { return len(f.x) / f.d }

// At returns arm i. The slice belongs to the set and must not be changed.
func (f *Finite) At(i int) []float64 { return f.x[i*f.d : (i+1)*f.d : (i+1)*f.d] }

// Flat returns the arms as one row-major K×d block, for kernels. It belongs to the set and must
// not be changed.
func (f *Finite) Flat() []float64 { return f.x }

// Radius returns max ‖x‖₂. The first call costs K·d multiplications.
func (f *Finite) Radius() float64 {
	if bits := f.radius.Load(); bits != 0 {
		return math.Float64frombits(bits - 1)
	}
	var most float64 // max ‖x‖²
	for x := f.x; len(x) > 0; x = x[f.d:] {
		var q float64
		for _, v := range x[:f.d] {
			q += float64(v * v)
		}
		most = max(most, q)
	}
	r := math.Sqrt(most)
	f.radius.Store(math.Float64bits(r) + 1)
	return r
}

// Factor returns what Scale multiplied the arms by, otherwise 1.
func (f *Finite) Factor() float64 { return f.factor }

// ArgMax returns the arm with the largest ⟨x, theta⟩, the lowest index among equals. Every product
// is summed in the same order (linalg.Dot), so the answer does not depend on where in the list an arm
// stands. Cost: K·d multiplications.
func (f *Finite) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	if arms := f.arms.Load(); arms != nil && len(theta) == f.d {
		x := dst.X
		if cap(x) < f.d {
			x = make([]float64, f.d)
		}
		x = x[:f.d]
		if k, value := arms.ArgMax(x, theta, limit); k >= 0 {
			dst.X, dst.Index = x, k
			return value, nil
		}
	}
	if s := f.prefilter.Load(); s != nil && len(theta) == f.d {
		// It has looked at the length of theta, which is less than limit.
		if k, value, ok := s.ArgMax(theta); ok {
			dst.Set(f.x[k*f.d:(k+1)*f.d], k)
			return value, nil
		}
	}
	if err := check(theta, f.d); err != nil {
		return 0, err
	}
	if f.unread.Load() {
		k, value, err := f.read(theta)
		if err == nil {
			dst.Set(f.x[k*f.d:(k+1)*f.d], k)
		}
		return value, err
	}
	k, value := f.scan(theta)
	dst.Set(f.x[k*f.d:(k+1)*f.d], k)
	return value, nil
}

// read is scan of a list that is not checked yet: it checks some arms and then multiplies them.
func (f *Finite) read(theta []float64) (at int, value float64, err error) {
	value = math.Inf(-1)
	for from, step := 0, max(8, readAtOnce/f.d&^7)*f.d; from < len(f.x); from += step {
		x := f.x[from:min(from+step, len(f.x))]
		if !linalg.Within(x, limit) {
			return 0, 0, f.bad(from)
		}
		if k, v := linalg.ArgMax(x, theta); v > value {
			at, value = from/f.d+k, v
		}
	}
	f.unread.Store(false)
	f.asked.Add(1)
	return at, value, nil
}

// scan is linalg.ArgMax of the arms. It makes the copies.
func (f *Finite) scan(theta []float64) (int, float64) {
	if f.asked.Load() < copyAfter && f.asked.Add(1) == copyAfter {
		var prefilter *linalg.Prefilter
		if len(f.x) >= prefilterFrom && len(f.x) >= 64*f.d {
			prefilter = linalg.NewPrefilter(f.x, f.d)
		}
		if prefilter != nil {
			f.prefilter.Store(prefilter)
		} else {
			f.arms.Store(linalg.NewArms(f.x, f.d)) // may be nil
		}
	}
	return linalg.ArgMax(f.x, theta)
}

// Contains reports whether x is within tol of an arm.
func (f *Finite) Contains(x []float64, tol float64) bool {
	checkPoint(x, f.d)
	diff := make([]float64, f.d)
	for i := range f.Len() {
		for j, v := range f.At(i) {
			diff[j] = v - x[j]
		}
		if norm(diff) <= tol {
			return true
		}
	}
	return false
}

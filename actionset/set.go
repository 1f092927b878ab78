package actionset

import (
	"fmt"
	"math"

	"troupe/bandit"
)

// Bounded is a set that knows how large it is.
type Bounded interface {
	bandit.ActionSet
	// Radius returns max ‖x‖₂ over the set, or a bound above it where the doc comment says so.
	Radius() float64
}

// Rescaled is a set whose elements were multiplied by a factor to bring them into the unit ball.
type Rescaled interface {
	bandit.ActionSet
	Factor() float64
}

// Container is a set that can tell whether a point is in it.
type Container interface {
	bandit.ActionSet
	// Contains reports whether x is within tol of the set, in the units of x. It panics when x has
	// the wrong length.
	Contains(x []float64, tol float64) bool
}

// limit bounds the entries of theta and of sets: products stay below 2¹⁰⁰⁰ and their sums finite.
const limit = 0x1p500

// Tolerance is how far beyond 1 a radius may lie and still count as the unit ball's: rounding.
const Tolerance = 1e-9

// Factor returns what the set's elements were multiplied by: 1 unless the set is Rescaled.
func Factor(set bandit.ActionSet) float64 {
	if r, ok := set.(Rescaled); ok {
		return r.Factor()
	}
	return 1
}

// Fit returns the set itself when it lies in the unit ball (to Tolerance). Otherwise it returns
// Scale(set, 1/Radius) when rescale is true and an error that names the radius when it is not.
func Fit(set Bounded, rescale bool) (bandit.ActionSet, error) {
	r := set.Radius()
	if r <= 1+Tolerance {
		return set, nil
	}
	if !rescale {
		return nil, outside(r)
	}
	return Scale(set, 1/r), nil
}

func outside(radius float64) error {
	return fmt.Errorf("the set has radius %.6g and leaves the unit ball; make it smaller or say rescale = true, "+
		"which multiplies every action by %.6g", radius, 1/radius)
}

// Scale returns the set {f·x : x ∈ set} with Factor f·Factor(set), f > 0. The result is a
// *Finite when the set is finite and a *Scaled otherwise.
func Scale(set Bounded, f float64) bandit.ActionSet {
	if !(f > 0 && f <= limit) {
		panic("actionset: Scale: the factor is not positive")
	}
	switch set := set.(type) {
	case bandit.Finite:
		d := set.Dim()
		block := make([]float64, 0, set.Len()*d)
		for i := range set.Len() {
			for _, v := range set.At(i) {
				block = append(block, f*v)
			}
		}
		fin, err := FiniteOf(d, block)
		if err != nil {
			panic("actionset: Scale: the factor is too large")
		}
		fin.factor = f * Factor(set)
		return fin
	case *Scaled:
		return &Scaled{set: set.set, f: f * set.f, factor: f * set.factor}
	}
	return &Scaled{set: set, f: f, factor: f * Factor(set)}
}

// Scaled is {f·x : x ∈ 𝒳} for a set 𝒳 that is not finite. Make it with Scale.
type Scaled struct {
	set    Bounded
	f      float64 // what this wrapper multiplies by
	factor float64 // f times what the set inside was multiplied by
}

// Dim returns d.
func (s *Scaled) Dim() int { return s.set.Dim() }

// ArgMax returns f times the answer of the set inside.
func (s *Scaled) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	value, err := s.set.ArgMax(dst, theta)
	if err != nil {
		return 0, err
	}
	for i := range dst.X {
		dst.X[i] *= s.f
	}
	return s.f * value, nil
}

// Radius returns f times the radius of the set inside.
func (s *Scaled) Radius() float64 { return s.f * s.set.Radius() }

// Factor returns what the elements were multiplied by in all.
func (s *Scaled) Factor() float64 { return s.factor }

// Unwrap returns the set inside.
func (s *Scaled) Unwrap() Bounded { return s.set }

// Contains reports whether x is within tol of the set. It panics when the set inside is not a
// Container; all sets of this package are.
func (s *Scaled) Contains(x []float64, tol float64) bool {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = x[i] / s.f
	}
	return s.set.(Container).Contains(y, tol/s.f)
}

// check panics when theta has the wrong length and returns an error for entries that are not
// finite or beyond limit.
func check(theta []float64, d int) error {
	if len(theta) != d {
		panic("actionset: theta has the wrong length")
	}
	for i, v := range theta {
		if !(math.Abs(v) <= limit) {
			return badEntry("theta", i, v)
		}
	}
	return nil
}

// checkedMax is check and maxAbs in one pass: without its sign, the larger of two numbers is the one whose bits are
// the larger whole number, infinities and NaN above all others.
func checkedMax(theta []float64, d int) (float64, error) {
	const sign = 1 << 63
	var m0, m1, m2, m3 uint64
	x := theta
	for ; len(x) >= 4; x = x[4:] {
		m0 = max(m0, math.Float64bits(x[0])&^sign)
		m1 = max(m1, math.Float64bits(x[1])&^sign)
		m2 = max(m2, math.Float64bits(x[2])&^sign)
		m3 = max(m3, math.Float64bits(x[3])&^sign)
	}
	for _, v := range x {
		m0 = max(m0, math.Float64bits(v)&^sign)
	}
	m := math.Float64frombits(max(m0, m1, m2, m3))
	if len(theta) != d || !(m <= limit) {
		return 0, check(theta, d)
	}
	return m, nil
}

// badEntry says what is wrong with entry i of a vector; v is not finite or beyond limit.
func badEntry(name string, i int, v float64) error {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("actionset: %s[%d] is %v: %w", name, i, v, bandit.ErrNotFinite)
	}
	return fmt.Errorf("actionset: %s[%d] is %v, beyond ±2^500: %w", name, i, v, bandit.ErrNumerical)
}

// checkVector is badEntry's search: the first bad entry of data that a caller hands in.
func checkVector(name string, x []float64) error {
	for i, v := range x {
		if !(math.Abs(v) <= limit) {
			return badEntry(name, i, v)
		}
	}
	return nil
}

func checkPoint(x []float64, d int) {
	if len(x) != d {
		panic("actionset: x has the wrong length")
	}
}

// grow makes dst.X a vector of length d, without an index, reusing its storage.
func grow(dst *bandit.Action, d int) []float64 {
	if cap(dst.X) < d {
		dst.X = make([]float64, d)
	}
	dst.X = dst.X[:d]
	dst.Index = bandit.NoIndex
	return dst.X
}

// dot returns Σ x_i y_i, summed from left to right.
func dot(x, y []float64) float64 {
	y = y[:len(x)]
	var s float64
	for i, v := range x {
		s += float64(v * y[i])
	}
	return s
}

// maxAbs returns max |x_i|, 0 for an empty vector.
func maxAbs(x []float64) float64 {
	var m float64
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}

// unit returns the power of two s with s·m ∈ [1/2, 1), for 0 < m ≤ limit: multiplying by it is
// exact unless the result is subnormal. For subnormal m it returns 2¹⁰²², which is enough.
func unit(m float64) float64 {
	_, e := math.Frexp(m)
	return math.Ldexp(1, min(-e, 1022))
}

// norm returns ‖x‖₂ without overflow or underflow of the squares.
func norm(x []float64) float64 {
	m := maxAbs(x)
	if m == 0 {
		return 0
	}
	s := unit(m)
	var q float64
	for _, v := range x {
		v *= s
		q += float64(v * v)
	}
	return math.Sqrt(q) / s
}

// maxSize bounds the number of entries that a constructor makes up by itself (vertices of a cube,
// edges of a layered graph, random arms): a slip of the pen should not ask for all memory.
const maxSize = 1 << 28

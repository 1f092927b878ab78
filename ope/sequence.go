package ope

import (
	"errors"
	"fmt"
	"math"
)

// clips are the values k of the clipped correction, steps the number of λ = 2⁻ʲ: the mixture of docs/design/ope.md.
var clips = [...]float64{0, 1, 4, 16, 64}

const steps = 20

// capital is one side of the log-mixture sequence: for each k and each λ = 2⁻ʲ, j < 20, the product
//
//	Π_i (1 + λ(φ_i(k) + c_k)),   φ_i(k) ≥ −c_k,
//
// as a number and a power of two. Factors are at least 1, so products only grow.
//
// Theorem (docs/design/ope.md). If the conditional mean of φ_i(k) given the past is at most V_i, then with
// probability at least 1 − α, at every n at once,
//
//	M_n(V̄) = mean over (k, λ) of Π_i (1 + λ(φ_i + c_k)) / (1 + λ(V̄ + c_k))ⁿ < 1/α,   V̄ = (1/n) Σ V_i.
//
// M_n falls in V, so the V with M_n(V) = 1/α is a lower bound of V̄.
type capital struct {
	shift []float64 // c_k
	prod  [][steps]float64
	exp   [][steps]int64 // nil: all 0
	n     int
	// Terms φ + c of the last held events, which are not in the products yet: event by event, so that an event touches
	// one line of memory and the products are multiplied in registers.
	terms []float64
	held  int
}

// mostHeld is how many events are held, mostTerm the largest term among them: 16 factors up to 2³¹ and a product up to
// 2⁴⁰⁰ stay finite.
const (
	mostHeld = 16
	mostTerm = 1 << 30
)

func newCapital(shift ...float64) *capital {
	c := &capital{shift: shift, prod: make([][steps]float64, len(shift))}
	for k := range c.prod {
		c.prod[k] = ones
	}
	return c
}

var ones = func() (o [steps]float64) {
	for j := range o {
		o[j] = 1
	}
	return o
}()

// lambdas are 2⁻ʲ: products with them are exact.
var lambdas = func() (l [steps]float64) {
	for j := range l {
		l[j] = math.Ldexp(1, -j)
	}
	return l
}()

// add multiplies the factors of one event: phi[k] is φ(k).
func (c *capital) add(phi []float64) {
	c.n++
	K := len(c.shift)
	if c.terms == nil {
		c.terms = make([]float64, mostHeld*K)
	}
	row, large := c.terms[c.held*K:(c.held+1)*K], false
	for k, f := range phi[:K] {
		t := max(f+c.shift[k], 0)
		row[k], large = t, large || t > mostTerm
	}
	if large {
		c.settle()
		c.large(row)
		return
	}
	if c.held++; c.held == mostHeld {
		c.settle()
	}
}

// run is add for n events, with the same bits: their terms φ + c ≥ 0 stand in rows, event by event, and most is the
// largest one.
func (c *capital) run(rows []float64, n int, most float64) {
	if n == 0 {
		return
	}
	c.settle()
	c.n += n
	K := len(c.shift)
	if most > mostTerm {
		for i := range n {
			c.large(rows[i*K : (i+1)*K])
		}
		return
	}
	together := mostHeld // factors whose product stays below 2⁵⁷⁶
	switch {
	case most < 15:
		together = 128
	case most < 511:
		together = 64
	}
	for k := range c.prod {
		p := &c.prod[k]
		for at := 0; at < n; at += together {
			growSmall(p, rows[at*K+k:], K, min(together, n-at))
			if p[0] > 1<<400 {
				c.normalise(k)
			}
		}
	}
}

// settle multiplies what is held.
func (c *capital) settle() {
	if c.held == 0 {
		return
	}
	K := len(c.shift)
	for k := range c.prod {
		p := &c.prod[k]
		growSmall(p, c.terms[k:], K, c.held)
		if p[0] > 1<<400 {
			c.normalise(k)
		}
	}
	c.held = 0
}

// large multiplies the factors of an event with a large term.
func (c *capital) large(row []float64) {
	for k, t := range row {
		if t > 1<<100 {
			c.normalise(k)
		}
		grow(&c.prod[k], row[k:], 1, 1)
		if c.prod[k][0] > 1<<400 {
			c.normalise(k)
		}
	}
}

// normalise takes the exponents out of the products.
func (c *capital) normalise(k int) {
	if c.exp == nil {
		c.exp = make([][steps]int64, len(c.prod))
	}
	p, e := &c.prod[k], &c.exp[k]
	for j := range p {
		f, n := frexp(p[j])
		p[j], e[j] = f, e[j]+n
	}
}

// frexp is math.Frexp of a finite x ≥ 2⁻¹⁰²².
func frexp(x float64) (fraction float64, exponent int64) {
	const bias, bits = 1022, 52
	b := math.Float64bits(x)
	return math.Float64frombits(b&(1<<bits-1) | bias<<bits), int64(b>>bits) - bias
}

func (c *capital) merge(o *capital) {
	c.settle()
	o.settle()
	c.n += o.n
	for k := range c.prod {
		c.normalise(k)
		p, e, q := &c.prod[k], &c.exp[k], &o.prod[k]
		for j := range p {
			f, n := frexp(q[j])
			p[j] *= f
			e[j] += n
		}
		if o.exp != nil {
			for j, n := range o.exp[k] {
				e[j] += n
			}
		}
	}
}

// wealth returns log M_n as a function of V, which falls in V. It keeps the products of the moment.
func (c *capital) wealth() func(v float64) float64 {
	c.settle()
	var logs [8 * steps]float64
	m := 0
	for k := range c.prod {
		for j := range c.prod[k] {
			logs[m] = math.Log(c.prod[k][j])
			if c.exp != nil {
				logs[m] += float64(float64(c.exp[k][j]) * math.Ln2)
			}
			m++
		}
	}
	share, n := math.Log(float64(m)), float64(c.n)
	return func(v float64) float64 {
		most := math.Inf(-1)
		var t [8 * steps]float64
		m := 0
		for k := range c.prod {
			for j := range c.prod[k] {
				t[m] = logs[m] - float64(n*math.Log1p(lambdas[j]*(v+c.shift[k])))
				most = max(most, t[m])
				m++
			}
		}
		s := 0.0
		for _, x := range t[:m] {
			if x -= most; x > -50 {
				s += math.Exp(x)
			}
		}
		return most + math.Log(s) - share
	}
}

// bound returns the V in [lo, hi] with M_n(V) = 1/α: lo where M_n(lo) < 1/α, hi where M_n(hi) ≥ 1/α.
func (c *capital) bound(alpha, lo, hi float64) float64 {
	if c.n == 0 {
		return lo
	}
	wealth, want := c.wealth(), math.Log(1/alpha)
	over := func(v float64) float64 { return wealth(v) - want }
	at := over(lo)
	if at < 0 {
		return lo
	}
	end := over(hi)
	if end >= 0 {
		return hi
	}
	lo, _ = root(over, lo, hi, at, end)
	return lo
}

// root brackets the zero of a falling function with f(a) = fa ≥ 0 > f(b) = fb: regula falsi with the Illinois step, and
// a bisection where that is slow. The bracket ends below 1e-15 of its ends' size, or after 200 steps.
func root(f func(float64) float64, a, b, fa, fb float64) (lo, hi float64) {
	side := 0
	width := b - a
	for i := range 200 {
		m := b - fb*(b-a)/(fb-fa)
		if i%4 == 3 && b-a > width/8 || !(m > a && m < b) {
			m = (a + b) / 2
		}
		if i%4 == 3 {
			width = b - a
		}
		if m <= a || m >= b || b-a <= 1e-15*max(1e-3, math.Abs(a), math.Abs(b)) {
			break
		}
		v := f(m)
		if v >= 0 {
			if a, fa = m, v; side == 1 {
				fb /= 2
			}
			side = 1
		} else {
			if b, fb = m, v; side == -1 {
				fa /= 2
			}
			side = -1
		}
	}
	return a, b
}

// twoSided is a lower and an upper capital: the upper one is that of the reflected process.
type twoSided struct{ lower, upper *capital }

func newTwoSided(shift ...float64) twoSided {
	return twoSided{newCapital(shift...), newCapital(shift...)}
}

func (t *twoSided) merge(o *twoSided) {
	t.lower.merge(o.lower)
	t.upper.merge(o.upper)
}

// errContradict: the two sides of a sequence contradict each other.
var errContradict = errors.New("the two sides contradict each other: propensities, range or q are wrong")

// value is the interval of a mean of values in [0, 1].
func (t *twoSided) value(level float64) (lo, hi float64, err error) {
	alpha := (1 - level) / 2
	lo, hi = t.lower.bound(alpha, 0, 1), 1-t.upper.bound(alpha, 0, 1)
	if lo > hi {
		err = errContradict
	}
	return lo, hi, err
}

// difference is the interval of a difference in [−1, 1].
func (t *twoSided) difference(level float64) (lo, hi float64, err error) {
	alpha := (1 - level) / 2
	lo, hi = t.lower.bound(alpha, -1, 1), -t.upper.bound(alpha, -1, 1)
	if lo > hi {
		err = errContradict
	}
	return lo, hi, err
}

// centre is the sequence's own point: the V in [lo, hi] where the side below and the side above have equal wealth, M_n
// of φ at V and M_n of the reflected process at mirror − V. Wherever the interval of some level is not empty, it has
// this point: at its lower end the first is 1/α and the second at most that.
func (t *twoSided) centre(mirror, lo, hi float64) float64 {
	below, above := t.lower.wealth(), t.upper.wealth()
	f := func(v float64) float64 { return below(v) - above(mirror-v) }
	a, b := f(lo), f(hi)
	switch {
	case a <= 0:
		return lo
	case b >= 0:
		return hi
	}
	lo, hi = root(f, lo, hi, a, b)
	return lo + (hi-lo)/2
}

// Sequence is the log-mixture sequence for values that come one after the other: the interval of the average of
// conditional means V_i of φ_i ≥ −c, valid at every n at once. It needs no variance, no bound from above and no
// sample size.
type Sequence struct{ c *capital }

// NewSequence returns an empty one for φ_i ≥ −shift, shift ≥ 0.
func NewSequence(shift float64) *Sequence { return &Sequence{newCapital(shift)} }

// Add appends φ.
func (s *Sequence) Add(phi float64) { s.c.add([]float64{phi}) }

// Lower returns the bound that holds with probability 1 − alpha, at least lo and at most hi.
func (s *Sequence) Lower(alpha, lo, hi float64) float64 { return s.c.bound(alpha, lo, hi) }

// Settle makes the state one of the terms alone, in the order in which they were added: a Sequence that is settled
// after each of the same terms has the same bits, whenever it was stored and read back.
func (s *Sequence) Settle() {
	s.c.settle()
	for k := range s.c.prod {
		s.c.normalise(k)
	}
}

// Numbers returns the state of a settled sequence: how many terms, and for each λ a fraction and an exponent.
func (s *Sequence) Numbers() (n int, fraction [steps]float64, exponent [steps]int64) {
	s.Settle()
	return s.c.n, s.c.prod[0], s.c.exp[0]
}

// SequenceOf returns a sequence with such a state. An error: the numbers are none.
func SequenceOf(shift float64, n int, fraction [steps]float64, exponent [steps]int64) (*Sequence, error) {
	s := NewSequence(shift)
	for j, f := range fraction {
		if !(f >= 0.5 && f < 1) || exponent[j] < 0 {
			return nil, fmt.Errorf("ope: a sequence has the fraction %v and the exponent %d, expected [½, 1) and 0 at least", f,
				exponent[j])
		}
	}
	if n < 0 {
		return nil, fmt.Errorf("ope: a sequence of %d terms", n)
	}
	s.c.n, s.c.prod[0], s.c.exp = n, fraction, [][steps]int64{exponent}
	return s, nil
}

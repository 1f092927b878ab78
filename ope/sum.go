package ope

import "math"

// sum is a compensated sum: hi + lo, with errors of the order of 2⁻¹⁰⁰ of the terms. Sums of blocks are merged in
// the order of the log, so that the result does not depend on the number of workers.
type sum struct{ hi, lo float64 }

// add adds x (Knuth's TwoSum).
func (s *sum) add(x float64) {
	t := s.hi + x
	b := t - s.hi
	s.lo += (s.hi - (t - b)) + (x - b)
	s.hi = t
}

// product adds a·b with the rounding of the product.
func (s *sum) product(a, b float64) {
	p := a * b
	s.add(p)
	s.lo += math.FMA(a, b, -p)
}

func (s *sum) merge(o sum) {
	s.add(o.hi)
	s.lo += o.lo
}

func (s sum) value() float64 { return s.hi + s.lo }

// scaled is s·x, rounded twice.
func (s sum) scaled(x float64) sum {
	p := s.hi * x
	return sum{p, math.FMA(s.hi, x, -p) + float64(s.lo*x)}
}

// variables of an event under a target: all plain estimators are functions of their means and second moments.
const (
	vOne  = iota // 1
	vR           // r
	vW           // w = π_e(a)/p
	vWR          // w r
	vDM          // Σ_a π_e(a) q(a)
	vWE          // w (r − q)
	vBase        // r − q + Σ_a π_b(a) q(a): what the logger got, with its control variate; r without a law
	variables
)

// moments holds Σ v u and Σ v² u uᵀ of the variables u.
type moments struct {
	n     int
	first [variables]sum
	pair  [variables * (variables + 1) / 2]sum
	// Σ v w r w and Σ v w w, which differ from the pairs where events were dropped
	wrw, ww sum
	// of the events with a prediction of the reward model (the others have vDM = 0): their number, Σ v and Σ v²
	predicted    int
	seen, seenSq sum
	mixed        bool // some v was not 1; until then pairs with vOne are the first moments

	// With the second moments of units (units.robust): how many there are, how many of them have a prediction, and
	// Σ v·Σ v DM of their events with one. 0: the second moments are those of events.
	groups, seenGroups int
	seenDM             sum
}

// predicts counts an event, which add has added, as one with a prediction.
func (m *moments) predicts(v float64) {
	m.predicted++
	m.seen.add(v)
	m.seenSq.product(v, v)
}

// direct is the mean of vDM over the events with a prediction, and its standard error.
func (m *moments) direct() (value, se float64) {
	if m.predicted == m.n {
		return m.mean(vDM), m.se(&[variables]float64{vDM: 1, vOne: -m.mean(vDM)})
	}
	k, of, cross := float64(m.predicted), m.seen.value(), m.second(vOne, vDM)
	if m.groups > 0 {
		k, cross = float64(m.seenGroups), m.seenDM
	}
	value = m.first[vDM].value() / of
	s := m.second(vDM, vDM) // Σ v²(DM − value)² over these events
	s.merge(cross.scaled(-2 * value))
	s.merge(m.seenSq.scaled(value).scaled(value))
	return value, math.Sqrt(k/(k-1)*max(s.value(), 0)) / of
}

func (m *moments) add(v float64, u *[variables]float64) {
	m.n++
	if v == 1 && !m.mixed {
		if u[vW] == 0 {
			m.unplayed(u)
			return
		}
		k := 0
		for i := range u {
			m.first[i].add(u[i])
			m.pair[k] = m.first[i]
			k++
			for j := 1; j <= i; j++ {
				m.pair[k].product(u[i], u[j])
				k++
			}
		}
		m.wrw, m.ww = m.second(vWR, vW), m.second(vW, vW)
		return
	}
	m.mixed = true
	m.wrw.product(v*u[vWR], u[vW])
	m.ww.product(v*u[vW], u[vW])
	k := 0
	for i := range u {
		m.first[i].product(v, u[i])
		vi := v * u[i]
		for j := 0; j <= i; j++ {
			m.pair[k].product(vi, float64(v*u[j]))
			k++
		}
	}
}

// unplayed is add of an event with v = 1 and w = 0, most events of a target that plays few actions: sums that get zeros
// stay as they are, bit by bit.
func (m *moments) unplayed(u *[variables]float64) {
	for _, i := range [...]int{vOne, vR, vDM, vBase} {
		m.first[i].add(u[i])
		m.pair[i*(i+1)/2] = m.first[i]
	}
	m.pair[vR*(vR+1)/2+vR].product(u[vR], u[vR])
	m.pair[vDM*(vDM+1)/2+vR].product(u[vDM], u[vR])
	m.pair[vDM*(vDM+1)/2+vDM].product(u[vDM], u[vDM])
	m.pair[vBase*(vBase+1)/2+vR].product(u[vBase], u[vR])
	m.pair[vBase*(vBase+1)/2+vDM].product(u[vBase], u[vDM])
	m.pair[vBase*(vBase+1)/2+vBase].product(u[vBase], u[vBase])
}

func (m *moments) merge(o *moments) {
	m.n += o.n
	m.mixed = m.mixed || o.mixed
	m.predicted += o.predicted
	m.seen.merge(o.seen)
	m.seenSq.merge(o.seenSq)
	m.wrw.merge(o.wrw)
	m.ww.merge(o.ww)
	for i := range m.first {
		m.first[i].merge(o.first[i])
	}
	for i := range m.pair {
		m.pair[i].merge(o.pair[i])
	}
}

// presented is N = Σ v.
func (m *moments) presented() float64 { return m.first[vOne].value() }

// mean is mean[u_i] = Σ v u_i/N.
func (m *moments) mean(i int) float64 { return m.first[i].value() / m.presented() }

func (m *moments) second(i, j int) sum {
	if i < j {
		i, j = j, i
	}
	return m.pair[i*(i+1)/2+j]
}

// form is Σ v² (cᵀu)².
func (m *moments) form(c *[variables]float64) float64 {
	var s sum
	for i := range c {
		for j := range c {
			if x := float64(c[i] * c[j]); x != 0 {
				s.merge(m.second(i, j).scaled(x))
			}
		}
	}
	return max(s.value(), 0)
}

// se is √(n/(n−1) · Σ v² (cᵀu)²)/N, or that of units; NaN below two of them.
func (m *moments) se(c *[variables]float64) float64 {
	n := float64(m.n)
	if m.groups > 0 {
		n = float64(m.groups)
	}
	return math.Sqrt(n/(n-1)*m.form(c)) / m.presented()
}

package actionset

import (
	"fmt"
	"math"
	"sort"
	"strings"
	"sync"

	"troupe/bandit"
)

// Polytope is {x ∈ ℝᵈ : A·x ≤ b}, bounded and not empty. Its answers are vertices.
//
// The solver is the primal simplex method on vertices, written for this shape of problem (gonum's
// lp.Simplex wants the standard form A·x = b, x ≥ 0 with full row rank, and gives up on degenerate
// problems, which action sets are all the time: a simplex written as two inequalities is). A vertex
// is kept as d tight, independent rows, its basis; an edge leaves along the slack of one of them.
// Dantzig's rule chooses the edge; after a step of length zero Bland's rule takes over until the
// next real one, so the method cannot cycle (20 000 random degenerate programs did not cycle without
// it either; the guard is for the one that would). Each call starts from the same vertex.
//
// One vertex can have several bases, and a basis is reached with different rounding on different
// ways. So the last step computes the vertex anew from the set of all its tight rows: two theta
// with the same best vertex give the same bits.
//
// Rows and b are scaled by powers of two, which changes no digit, so that the largest entry of a
// row and the largest |b_r| lie in [1/2, 1). Then a row counts as satisfied when it is violated by
// at most 1e-11·max(1, ‖y‖_∞), and everything said about the set holds for all points so counted.
type Polytope struct {
	d      int
	a, b   []float64 // the caller's rows, n×d, and right sides
	unit   float64   // x = unit·y, where y is what the solver sees
	lp     program
	start  []int     // basis of the start vertex
	inv    []float64 // its inverse, see simplex.w
	radius float64
	exact  bool
	pool   sync.Pool // *simplex
}

// program is {y ∈ ℝᵈ : a·y ≤ b}, n rows.
type program struct {
	d, n int
	a, b []float64
}

func (p *program) row(r int) []float64 { return p.a[r*p.d : (r+1)*p.d] }

const (
	feasTol  = 1e-11 // a row may be violated by this much, times max(1, ‖y‖_∞)
	tightTol = 1e-10 // and be slack by this much and called tight
	stepTol  = 1e-13 // rows that fill up within this much of each other are equal
	pivotTol = 1e-9  // smaller rates of approach, relative to the edge, are parallel
	costTol  = 1e-11 // a multiplier above −costTol·‖w‖₁ is not negative
)

// NewPolytope returns {x : a·x ≤ b}, a of n rows with d entries. It proves at construction that
// the set is
//
//   - not empty: it finds a vertex. Otherwise the error names rows that contradict each other
//     (non-negative weights with which the rows sum to 0 and their right sides to less than 0);
//   - bounded: for each ±e_i it finds weights λ ≥ 0 with Aᵀλ = ±e_i, hence ±x_i ≤ bᵀλ. Otherwise the
//     error names a coordinate without a bound.
//
// Data too ill-conditioned to decide is refused with bandit.ErrNumerical.
func NewPolytope(a [][]float64, b []float64) (*Polytope, error) {
	if len(a) == 0 {
		return nil, fmt.Errorf("actionset: a is empty, expected the rows of a·x ≤ b")
	}
	d := len(a[0])
	if err := checkDim(d); err != nil {
		return nil, err
	}
	if len(b) != len(a) {
		return nil, fmt.Errorf("actionset: a has length %d and b has %d, expected one bound for each row", len(a),
			len(b))
	}
	if err := checkSpread("b", b); err != nil {
		return nil, err
	}
	p := &Polytope{d: d, unit: 1, b: append([]float64(nil), b...)}
	if m := maxAbs(b); m > 0 {
		p.unit = 1 / unit(m)
	}
	p.lp.d = d
	var rows []int // row numbers of the caller
	for r, row := range a {
		if len(row) != d {
			return nil, fmt.Errorf("actionset: a[%d] has length %d, expected %d like a[0]", r, len(row), d)
		}
		if err := checkSpread(fmt.Sprintf("a[%d]", r), row); err != nil {
			return nil, err
		}
		p.a = append(p.a, row...)
		m := maxAbs(row)
		if m == 0 {
			if b[r] < 0 {
				return nil, fmt.Errorf("actionset: the polytope is empty: row %d says 0 ≤ %v", r, b[r])
			}
			continue // 0 ≤ b says nothing
		}
		s := unit(m)
		for _, v := range row {
			p.lp.a = append(p.lp.a, v*s)
		}
		p.lp.b = append(p.lp.b, b[r]*s/p.unit)
		rows = append(rows, r)
		p.lp.n++
	}
	if err := p.findVertex(rows); err != nil {
		return nil, err
	}
	p.pool.New = func() any { return newSimplex(&p.lp) }
	if err := p.findBounds(); err != nil {
		return nil, err
	}
	return p, nil
}

// checkSpread refuses numbers that are not finite and those so large or small that scaling them by
// powers of two would not be exact.
func checkSpread(name string, x []float64) error {
	for i, v := range x {
		if !(math.Abs(v) <= 0x1p200) || v != 0 && math.Abs(v) < 0x1p-200 {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return badEntry(name, i, v)
			}
			return fmt.Errorf("actionset: %s[%d] is %v, expected 0 or a size between 2^-200 and 2^200: %w", name, i, v,
				bandit.ErrNumerical)
		}
	}
	return nil
}

// findVertex sets the start vertex, by the simplex method on one more variable s ≥ 0, the largest
// violation: maximise −s under a·y − s ≤ b for the rows that the first basis violates and a·y ≤ b
// for the others.
func (p *Polytope) findVertex(rows []int) error {
	lp, d := &p.lp, p.d
	first := lp.independentRows()
	if len(first) < d {
		return fmt.Errorf("actionset: the rows of a span only %d of %d dimensions: the polytope is unbounded or empty",
			len(first), d)
	}
	s := newSimplex(lp)
	copy(s.basis, first)
	if !s.refactor() {
		return fmt.Errorf("actionset: the rows of a are too close to dependent: %w", bandit.ErrNumerical)
	}
	worst, most := -1, 0.0
	violated := make([]bool, lp.n)
	for r := range lp.n {
		if v := dot(lp.row(r), s.y) - lp.b[r]; v > 1e-12 && !s.inBasis[r] {
			violated[r] = true
			if v > most {
				worst, most = r, v
			}
		}
	}
	if worst >= 0 {
		// Row 0 is s ≥ 0, so that Bland's rule prefers it; row r+1 is row r.
		up := program{d: d + 1, n: lp.n + 1, b: append([]float64{0}, lp.b...)}
		up.a = make([]float64, up.n*up.d)
		up.a[d] = -1
		for r := range lp.n {
			copy(up.row(r+1), lp.row(r))
			if violated[r] {
				up.row(r + 1)[d] = -1
			}
		}
		u := newSimplex(&up)
		for i, r := range first {
			u.basis[i] = r + 1
		}
		u.basis[d] = worst + 1
		down := make([]float64, d+1)
		down[d] = -1
		if !u.refactor() || u.maximise(down) != optimal {
			return fmt.Errorf("actionset: no vertex was found: %w", bandit.ErrNumerical)
		}
		if u.y[d] > feasTol*max(1, maxAbs(u.y[:d])) {
			return p.contradiction(u, rows)
		}
		if !u.inBasis[0] { // s is as good as 0: let s ≥ 0 take the place of the row that moves it most
			at, rate := 0, 0.0
			for i := range u.basis {
				if v := math.Abs(u.w[i*up.d+d]); v > rate {
					at, rate = i, v
				}
			}
			u.basis[at] = 0
		}
		i := 0
		for _, r := range u.basis {
			if r > 0 {
				s.basis[i] = r - 1
				i++
			}
		}
		if !s.refactor() {
			return fmt.Errorf("actionset: the start vertex is too ill-conditioned: %w", bandit.ErrNumerical)
		}
	}
	if !s.feasible(s.y, feasTol) {
		return fmt.Errorf("actionset: the start vertex is too ill-conditioned: %w", bandit.ErrNumerical)
	}
	p.start = append([]int(nil), s.basis...)
	p.inv = append([]float64(nil), s.w...)
	return nil
}

// contradiction turns the multipliers of an optimum with s > 0 into an error.
func (p *Polytope) contradiction(u *simplex, rows []int) error {
	var words []string
	order := append([]int(nil), u.basis...)
	sort.Ints(order)
	for _, r := range order {
		for i := range u.basis {
			if u.basis[i] == r && r > 0 && u.lambda[i] > 1e-9 {
				words = append(words, fmt.Sprintf("%d", rows[r-1]))
			}
		}
	}
	return fmt.Errorf("actionset: the polytope is empty: rows %s contradict each other, by at least %.3g",
		strings.Join(words, ", "), u.y[p.d]*p.unit)
}

// findBounds proves that every coordinate is bounded and sets the radius.
//
// With weights λ ≥ 0 and the rounding error ρ = e − Aᵀλ, a point y that counts as feasible has
// ⟨e, y⟩ ≤ (b + feasTol·max(1, ‖y‖_∞))ᵀλ + ρᵀy ≤ bᵀλ + q·max(1, ‖y‖_∞), q = ‖ρ‖₁ + feasTol·‖λ‖₁.
// With m and q their largest values over all ±e_i it follows that ‖y‖_∞ ≤ (m + q)/(1 − q): the
// proof does not depend on how λ was found.
func (p *Polytope) findBounds() error {
	lp, d := &p.lp, p.d
	s := newSimplex(lp)
	e, rho := make([]float64, d), make([]float64, d)
	side := make([]float64, d) // |y_i| ≤ side_i, up to the rounding error
	var most, worst float64
	for i := range d {
		for _, sign := range []float64{1, -1} {
			clear(e)
			e[i] = sign
			s.reset(p)
			switch s.maximise(e) {
			case unbounded:
				return fmt.Errorf("actionset: the polytope is unbounded: x[%d] has no %s bound", i,
					map[float64]string{1: "upper", -1: "lower"}[sign])
			case stuck:
				return fmt.Errorf("actionset: the bounds of x[%d] were not found: %w", i, bandit.ErrNumerical)
			}
			copy(rho, e)
			var bound, q float64
			for k, r := range s.basis {
				l := max(0, s.lambda[k])
				bound += float64(l * lp.b[r])
				q += float64(l * feasTol)
				for j, v := range lp.row(r) {
					rho[j] -= float64(l * v)
				}
			}
			for _, v := range rho {
				q += math.Abs(v)
			}
			worst = max(worst, q)
			side[i] = max(side[i], bound)
			most = max(most, bound)
		}
	}
	if !(worst < 1e-6) {
		return fmt.Errorf("actionset: the bounds of the polytope are too ill-conditioned: %w", bandit.ErrNumerical)
	}
	slack := float64(worst * max(1, (most+worst)/(1-worst)))
	for i := range side {
		side[i] += slack
	}
	p.radius = norm(side) * p.unit
	if r, ok := lp.largestVertex(); ok {
		p.radius, p.exact = min(p.radius, r*p.unit), true
	}
	return nil
}

// Dim returns d.
func (p *Polytope) Dim() int { return p.d }

// Radius returns max ‖x‖₂ when ExactRadius, otherwise the norm of the furthest corner of the
// bounding box, a bound above it that can be too large by the factor √d (the exact number is
// NP-hard).
func (p *Polytope) Radius() float64 { return p.radius }

// ExactRadius reports whether Radius was found by visiting all vertices, which is done when there
// are at most 20 000 ways to choose d of the rows and no choice is close to dependent.
func (p *Polytope) ExactRadius() bool { return p.exact }

// ArgMax returns a vertex with the largest ⟨x, theta⟩, see Polytope. The value is within 1e-9 of
// the maximum in units of ‖theta‖·Radius. Cost: about d pivots of n·d + d² multiplications on
// well-behaved sets. An optimum that cannot be certified is refused with bandit.ErrNumerical.
func (p *Polytope) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	if err := check(theta, p.d); err != nil {
		return 0, err
	}
	s := p.pool.Get().(*simplex)
	defer p.pool.Put(s)
	scale := 1.0
	if m := maxAbs(theta); m > 0 {
		scale = unit(m)
	}
	for i, t := range theta {
		s.theta[i] = t * scale
	}
	s.reset(p)
	if s.maximise(s.theta) != optimal {
		return 0, fmt.Errorf("actionset: the linear program of the polytope was not solved: %w", bandit.ErrNumerical)
	}
	s.canonical()
	if !s.feasible(s.y, feasTol) {
		return 0, fmt.Errorf("actionset: the vertex found is outside the polytope: %w", bandit.ErrNumerical)
	}
	x := grow(dst, p.d)
	var value float64
	for i, v := range s.y {
		x[i] = v * p.unit
		value += float64(x[i] * theta[i])
	}
	return value, nil
}

// Contains reports whether every row is violated by at most tol times its norm.
func (p *Polytope) Contains(x []float64, tol float64) bool {
	checkPoint(x, p.d)
	for r, bound := range p.b {
		row := p.a[r*p.d : (r+1)*p.d]
		if !(dot(row, x) <= bound+float64(tol*norm(row))) {
			return false
		}
	}
	return true
}

// independentRows returns up to d independent rows, by elimination with complete pivoting.
func (p *program) independentRows() []int {
	m := append([]float64(nil), p.a...)
	used := make([]bool, p.n)
	done := make([]bool, p.d)
	var rows []int
	for len(rows) < p.d {
		at, col, big := -1, -1, 1e-10
		for r := range p.n {
			if used[r] {
				continue
			}
			for c := range p.d {
				if v := math.Abs(m[r*p.d+c]); !done[c] && v > big {
					at, col, big = r, c, v
				}
			}
		}
		if at < 0 {
			break
		}
		used[at], done[col] = true, true
		rows = append(rows, at)
		pivot := m[at*p.d : (at+1)*p.d]
		for r := range p.n {
			if used[r] {
				continue
			}
			row := m[r*p.d : (r+1)*p.d]
			f := row[col] / pivot[col]
			for c := range row {
				row[c] -= float64(f * pivot[c])
			}
		}
	}
	return rows
}

// largestVertex returns the largest norm of a vertex by visiting all choices of d rows, ok = false
// when there are too many or one is neither clearly dependent nor clearly independent.
func (p *program) largestVertex() (radius float64, ok bool) {
	choices := 1.0
	for i := range p.d {
		choices *= float64(p.n-i) / float64(i+1)
		if choices > 20_000 {
			return 0, false
		}
	}
	s := newSimplex(p)
	pick := make([]int, p.d)
	numbered(pick)
	for {
		switch rank := s.solve(pick, 1e-6); {
		case rank == p.d:
			if s.feasible(s.z, 100*feasTol) {
				radius = max(radius, norm(s.z))
			}
		case s.residue > 1e-13:
			return 0, false
		}
		// The next choice in lexicographic order.
		i := p.d - 1
		for i >= 0 && pick[i] == p.n-p.d+i {
			i--
		}
		if i < 0 {
			return radius, true
		}
		pick[i]++
		for i++; i < p.d; i++ {
			pick[i] = pick[i-1] + 1
		}
	}
}

// simplex is the working space of one run.
type simplex struct {
	*program
	basis   []int     // d independent rows that are tight at y
	inBasis []bool    // n
	w       []float64 // d×d: row i is w_i with ⟨a_basis[k], w_i⟩ = 1 for k = i, otherwise 0
	y       []float64 // the vertex: a_basis·y = b_basis
	lambda  []float64 // multipliers ⟨w_i, θ⟩: θ = Σ λ_i·a_basis[i]
	theta   []float64
	rate    []float64 // n: ⟨a_r, −w_i⟩, how fast row r fills up along the edge
	slack   []float64 // n: b_r − ⟨a_r, y⟩

	square, inverse []float64 // d×d, for refactor

	elim    []float64 // d×(d+1): rows of an elimination with their right sides
	col     []int     // pivot column of each
	isPivot []bool
	tight   []int
	z       []float64 // solution of solve
	residue float64   // largest entry that solve took for 0
}

func newSimplex(p *program) *simplex {
	d, n := p.d, p.n
	f := func(n int) []float64 { return make([]float64, n) }
	return &simplex{
		program: p, basis: make([]int, d), inBasis: make([]bool, n), w: f(d * d), y: f(d), lambda: f(d),
		theta: f(d), rate: f(n), slack: f(n), elim: f(d * (d + 1)),
		square: f(d * d), inverse: f(d * d), col: make([]int, d),
		isPivot: make([]bool, d), tight: make([]int, 0, n), z: f(d),
	}
}

// reset returns to the start vertex.
func (s *simplex) reset(p *Polytope) {
	copy(s.basis, p.start)
	copy(s.w, p.inv)
	s.settle()
}

// settle computes inBasis and y from basis and w.
func (s *simplex) settle() {
	clear(s.inBasis)
	clear(s.y)
	for i, r := range s.basis {
		s.inBasis[r] = true
		w := s.w[i*s.d : (i+1)*s.d]
		for j := range s.y {
			s.y[j] += float64(s.b[r] * w[j])
		}
	}
}

// refactor computes w and y from the basis, by Gauss-Jordan elimination with row pivoting; false
// when the rows of the basis are dependent.
func (s *simplex) refactor() bool {
	d := s.d
	m, inv := s.square, s.inverse // with m = a_basis, w = (m⁻¹)ᵀ
	clear(inv)
	for i, r := range s.basis {
		copy(m[i*d:], s.row(r))
		inv[i*d+i] = 1
	}
	for c := range d {
		at := c
		for r := c + 1; r < d; r++ {
			if math.Abs(m[r*d+c]) > math.Abs(m[at*d+c]) {
				at = r
			}
		}
		if math.Abs(m[at*d+c]) < 1e-12 {
			return false
		}
		if at != c {
			for j := range d {
				m[at*d+j], m[c*d+j] = m[c*d+j], m[at*d+j]
				inv[at*d+j], inv[c*d+j] = inv[c*d+j], inv[at*d+j]
			}
		}
		f := 1 / m[c*d+c]
		for j := range d {
			m[c*d+j] *= f
			inv[c*d+j] *= f
		}
		for r := range d {
			if g := m[r*d+c]; r != c && g != 0 {
				for j := range d {
					m[r*d+j] -= float64(g * m[c*d+j])
					inv[r*d+j] -= float64(g * inv[c*d+j])
				}
			}
		}
	}
	for i := range d {
		for j := range d {
			s.w[i*d+j] = inv[j*d+i]
		}
	}
	s.settle()
	return true
}

type outcome int

const (
	optimal outcome = iota
	unbounded
	stuck // out of steps or out of precision
)

// maximise moves from the vertex to one that maximises ⟨theta, y⟩ and leaves its multipliers in
// lambda. theta should have its largest entry near 1.
func (s *simplex) maximise(theta []float64) outcome {
	d := s.d
	bland := false
	for k := range 200 + 50*(s.n+d) {
		if k%50 == 49 && !s.refactor() {
			return stuck
		}
		// Which edge? ⟨θ, −w_i⟩ = −λ_i per unit of slack of row basis[i].
		leave, least := -1, 0.0
		for i := range d {
			w := s.w[i*d : (i+1)*d]
			var l, size float64
			for j, t := range theta {
				l += float64(w[j] * t)
				size += math.Abs(w[j])
			}
			s.lambda[i] = l
			if l >= -costTol*size {
				continue
			}
			if l /= size; bland {
				if leave < 0 || s.basis[i] < s.basis[leave] {
					leave = i
				}
			} else if l < least {
				leave, least = i, l
			}
		}
		if leave < 0 {
			return optimal
		}

		// How far? The first row to fill up; rows within a hair of the first count as equal, and
		// the one that fills up fastest is the best conditioned pivot (Harris 1973). Bland's rule
		// wants the lowest of them.
		edge := s.w[leave*d : (leave+1)*d]
		size := maxAbs(edge)
		first := math.Inf(1)
		for r := range s.n {
			if s.inBasis[r] {
				continue
			}
			row := s.row(r)
			s.rate[r] = -dot(row, edge)
			if s.rate[r] > pivotTol*size {
				s.slack[r] = max(0, s.b[r]-dot(row, s.y))
				first = min(first, (s.slack[r]+stepTol)/s.rate[r])
			}
		}
		if math.IsInf(first, 1) {
			return unbounded
		}
		enter := -1
		for r := range s.n {
			if s.inBasis[r] || s.rate[r] <= pivotTol*size || s.slack[r]/s.rate[r] > first {
				continue
			}
			if enter < 0 || !bland && s.rate[r] > s.rate[enter] {
				enter = r
			}
		}
		step := s.slack[enter] / s.rate[enter]
		bland = step*size <= 10*stepTol
		s.pivot(leave, enter, step)
	}
	return stuck
}

// pivot goes step units along edge leave and puts row enter in its place.
func (s *simplex) pivot(leave, enter int, step float64) {
	d := s.d
	edge := s.w[leave*d : (leave+1)*d]
	for j, v := range edge {
		s.y[j] -= float64(step * v)
	}
	row := s.row(enter)
	f := -1 / s.rate[enter] // 1/⟨a_enter, w_leave⟩
	for j := range edge {
		edge[j] *= f
	}
	for i := range d {
		if i == leave {
			continue
		}
		w := s.w[i*d : (i+1)*d]
		if g := dot(row, w); g != 0 {
			for j, v := range edge {
				w[j] -= float64(g * v)
			}
		}
	}
	s.inBasis[s.basis[leave]] = false
	s.inBasis[enter] = true
	s.basis[leave] = enter
}

// feasible reports whether no row is violated by more than tol·max(1, ‖y‖_∞).
func (s *simplex) feasible(y []float64, tol float64) bool {
	tol *= max(1, maxAbs(y))
	for r, bound := range s.b {
		if !(dot(s.row(r), y)-bound <= tol) {
			return false
		}
	}
	return true
}

// canonical replaces y by the solution of the first d independent rows among all that are tight
// at y: a function of the vertex alone. When these rows are ill-conditioned it computes y anew
// from the basis.
func (s *simplex) canonical() {
	if !s.polish() {
		s.refactor()
	}
}

func (s *simplex) polish() bool {
	s.tight = s.tight[:0]
	for r, bound := range s.b {
		if bound-dot(s.row(r), s.y) <= tightTol {
			s.tight = append(s.tight, r)
		}
	}
	if s.solve(s.tight, 1e-7) < s.d {
		return false
	}
	for j, v := range s.z {
		if math.Abs(v-s.y[j]) > 1e-7 {
			return false
		}
	}
	if !s.feasible(s.z, feasTol) {
		return false
	}
	copy(s.y, s.z)
	return true
}

// solve puts into z the solution of a_r·z = b_r for the first d independent rows of the list and
// returns how many it found, d when there is a solution. A row counts as dependent when its
// largest entry is at most tol after elimination; residue is the largest such entry.
func (s *simplex) solve(rows []int, tol float64) int {
	d := s.d
	clear(s.isPivot)
	s.residue = 0
	k := 0
	for _, r := range rows {
		if k == d {
			break
		}
		e := s.elim[k*(d+1) : (k+1)*(d+1)]
		copy(e, s.row(r))
		e[d] = s.b[r]
		for i := range k {
			p := s.elim[i*(d+1) : (i+1)*(d+1)]
			if f := e[s.col[i]] / p[s.col[i]]; f != 0 {
				for j := range e {
					e[j] -= float64(f * p[j])
				}
				e[s.col[i]] = 0
			}
		}
		c, big := -1, 0.0
		for j, v := range e[:d] {
			if math.Abs(v) > big && !s.isPivot[j] {
				c, big = j, math.Abs(v)
			}
		}
		if big <= tol {
			s.residue = max(s.residue, big)
			continue
		}
		s.col[k], s.isPivot[c] = c, true
		k++
	}
	if k < d {
		return k
	}
	// Row k has zeros in the pivot columns of the rows before it.
	clear(s.z)
	for i := d - 1; i >= 0; i-- {
		p := s.elim[i*(d+1) : (i+1)*(d+1)]
		s.z[s.col[i]] = (p[d] - dot(p[:d], s.z)) / p[s.col[i]]
	}
	return d
}

package theory

import (
	"errors"
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// InstanceBound is the constant of the asymptotic lower bound of a linear bandit with finitely many arms.
type InstanceBound struct {
	Value float64 // c: no consistent policy has less regret than c·log T·(1 + o(1))
	Gap   float64 // Value minus a lower bound of c by duality; Value itself is reached, so it is an upper bound
}

// MaxInstanceArms is the largest K of InstanceLower: a step costs K³.
const MaxInstanceArms = 300

// ErrInstance: the arms and θ* have no such constant.
var ErrInstance = errors.New("theory: instance lower bound")

// InstanceLower returns the constant of Lattimore and Szepesvári (2017, Theorem 1),
//
//	c(𝒜, θ*) = min over α ≥ 0 of Σ_x α_x Δ_x   such that   ‖x‖²_{H(α)⁻¹} ≤ Δ_x²/(2σ²) for all x with Δ_x > 0,
//
// with H(α) = Σ α_x x xᵀ and α = ∞ on the best arm, for Gaussian noise of standard deviation sigma: α_x log T is
// how often a consistent policy has to play arm x. For orthogonal arms c is Σ 2σ²/Δ_x.
//
// The best arm must be the only one. arms has K rows of d numbers. The program is convex and solved by a barrier
// method; Gap is computed from its dual, whatever the method did: for weights λ on the constraints and
// M = Σ λ_y y yᵀ/b_y every design has max_y ‖y‖²/b_y ≥ tr(H⁻¹M)²/max_x (xᵀH⁻¹MH⁻¹x/Δ_x) for any positive
// definite H of cost 1. Cost: about 40 steps of K³; K ≤ 300.
func InstanceLower(arms [][]float64, theta []float64, sigma float64) (InstanceBound, error) {
	p, err := newDesign(arms, theta, sigma)
	if err != nil {
		return InstanceBound{}, err
	}
	if len(p.gap) == 0 {
		return InstanceBound{}, nil // one arm
	}
	return p.solve()
}

// design is the program in coordinates of the span of the arms without the direction of the best one, which has
// infinitely much information.
type design struct {
	x      *mat.Dense // k×r: suboptimal arms
	gap, b []float64  // Δ and Δ²/2σ²
	k, r   int
}

// meansOf returns the mean of each arm, and the first one whose mean is largest.
func meansOf(arms [][]float64, theta []float64) (mean []float64, best int, err error) {
	mean = make([]float64, len(arms))
	for i, x := range arms {
		if len(x) != len(theta) {
			return nil, 0, fmt.Errorf("%w: arm %d has length %d, expected %d", ErrInstance, i, len(x), len(theta))
		}
		for j, v := range x {
			mean[i] += v * theta[j]
		}
		if mean[i]-mean[i] != 0 {
			return nil, 0, fmt.Errorf("%w: arm %d has a mean that is not finite", ErrInstance, i)
		}
		if mean[i] > mean[best] {
			best = i
		}
	}
	return mean, best, nil
}

func newDesign(arms [][]float64, theta []float64, sigma float64) (*design, error) {
	wrong := func(format string, args ...any) (*design, error) {
		return nil, fmt.Errorf("%w: %s", ErrInstance, fmt.Sprintf(format, args...))
	}
	k, d := len(arms), len(theta)
	if k < 1 || k > MaxInstanceArms || d < 1 {
		return wrong("%d arms in dimension %d, expected 1 to %d arms", k, d, MaxInstanceArms)
	}
	if !(sigma > 0) || math.IsInf(sigma, 0) {
		return wrong("sigma is %v, expected a positive number", sigma)
	}
	mean, best, err := meansOf(arms, theta)
	if err != nil {
		return nil, err
	}
	p := &design{}
	norm := 0.0
	for _, v := range arms[best] {
		norm += v * v
	}
	var rows [][]float64
	for i, x := range arms {
		if i == best {
			continue
		}
		gap := mean[best] - mean[i]
		if !(gap > 1e-9) {
			return wrong("arms %d and %d are both best", best, i)
		}
		row := append([]float64(nil), x...)
		if norm > 0 { // without the direction of the best arm
			dot := 0.0
			for j, v := range x {
				dot += v * arms[best][j]
			}
			for j, v := range arms[best] {
				row[j] -= dot / norm * v
			}
		}
		size := 0.0
		for _, v := range row {
			size += v * v
		}
		if size < 1e-24 {
			continue // a multiple of the best arm is known for nothing
		}
		rows = append(rows, row)
		p.gap = append(p.gap, gap)
		p.b = append(p.b, gap*gap/(2*sigma*sigma))
	}
	if p.k = len(rows); p.k == 0 {
		return p, nil
	}
	full := mat.NewDense(p.k, d, nil)
	for i, row := range rows {
		full.SetRow(i, row)
	}
	var svd mat.SVD
	if !svd.Factorize(full, mat.SVDThin) {
		return wrong("the singular values of the arms do not converge")
	}
	s := svd.Values(nil)
	for p.r = 0; p.r < len(s) && s[p.r] > 1e-10*s[0]; p.r++ {
	}
	var v mat.Dense
	svd.VTo(&v)
	p.x = new(mat.Dense)
	p.x.Mul(full, v.Slice(0, d, 0, p.r))
	return p, nil
}

// products stores A = X H(α)⁻¹ Xᵀ; false where H is not positive definite.
func (p *design) products(a *mat.SymDense, alpha []float64) bool {
	h := mat.NewSymDense(p.r, nil)
	for i := range p.k {
		h.SymRankOne(h, alpha[i], p.x.RowView(i))
	}
	var chol mat.Cholesky
	if !chol.Factorize(h) {
		return false
	}
	var l mat.TriDense
	chol.LTo(&l)
	half := mat.NewDense(p.r, p.k, nil) // L⁻¹Xᵀ
	var far mat.Condition
	if err := half.Solve(&l, p.x.T()); err != nil && !errors.As(err, &far) {
		return false
	}
	a.SymOuterK(1, half.T())
	return true
}

// whiten changes the coordinates so that H(α) is the identity: the program is the same in all coordinates, and the
// numbers are the most accurate in these.
func (p *design) whiten(alpha []float64) {
	h := mat.NewSymDense(p.r, nil)
	for i := range p.k {
		h.SymRankOne(h, alpha[i], p.x.RowView(i))
	}
	var chol mat.Cholesky
	if !chol.Factorize(h) {
		return
	}
	var l mat.TriDense
	chol.LTo(&l)
	var far mat.Condition
	half := mat.NewDense(p.r, p.k, nil)
	if err := half.Solve(&l, p.x.T()); err == nil || errors.As(err, &far) {
		p.x.Copy(half.T())
	}
}

// value returns the barrier function t·Σ αΔ − Σ log α − Σ log(b − ‖y‖²); +Inf outside its domain.
func (p *design) value(a *mat.SymDense, alpha []float64, t float64) float64 {
	for _, v := range alpha {
		if !(v > 0) {
			return math.Inf(1)
		}
	}
	if !p.products(a, alpha) {
		return math.Inf(1)
	}
	f := 0.0
	for i, v := range alpha {
		slack := p.b[i] - a.At(i, i)
		if !(slack > 0) {
			return math.Inf(1)
		}
		f += t*v*p.gap[i] - math.Log(v) - math.Log(slack)
	}
	return f
}

// instanceGap is the largest gap, as a share of the value, with which a value is returned.
const instanceGap = 1e-6

// solve follows the central path until the gap is a tenth of instanceGap.
func (p *design) solve() (InstanceBound, error) {
	a := mat.NewSymDense(p.k, nil)
	alpha := make([]float64, p.k)
	for i := range alpha {
		alpha[i] = 1
	}
	if !p.products(a, alpha) {
		return InstanceBound{}, fmt.Errorf("%w: the arms do not span their space", ErrInstance)
	}
	worst := 0.0
	for i := range p.k {
		worst = max(worst, a.At(i, i)/p.b[i])
	}
	cost := 0.0
	for i := range alpha {
		alpha[i] = 2 * worst
		cost += alpha[i] * p.gap[i]
	}
	best := InstanceBound{Value: math.Inf(1), Gap: math.Inf(1)}
	step := make([]float64, p.k)
	next := make([]float64, p.k)
path:
	for t := float64(2*p.k) / cost; ; t *= 4 {
		p.whiten(alpha)
		for range 60 {
			f := p.value(a, alpha, t)
			slope, err := p.newton(step, a, alpha, t)
			if err != nil {
				break path // what is reached counts
			}
			if slope < 1e-9 {
				break
			}
			size := 1.0
			for ; size > 1e-12; size /= 2 {
				for i := range next {
					next[i] = alpha[i] + size*step[i]
				}
				// Near the centre the difference is below the rounding of f, and the full step is right.
				if v := p.value(a, next, t); v <= f-0.1*size*slope || slope < 0.05 && !math.IsInf(v, 1) {
					break
				}
			}
			if size <= 1e-12 {
				break
			}
			copy(alpha, next)
		}
		if b := p.bound(a, alpha, t); b.Gap < best.Gap {
			best = b
		} else if t*best.Value > 1e13 {
			break
		}
		if best.Gap <= instanceGap/10*best.Value {
			break
		}
	}
	if !(best.Gap <= instanceGap*best.Value) {
		return best, fmt.Errorf("%w: the gap is %.2g of the value", ErrInstance, best.Gap/best.Value)
	}
	return best, nil
}

// newton stores the Newton step of the barrier function and returns its decrement, gᵀH⁻¹g.
func (p *design) newton(step []float64, a *mat.SymDense, alpha []float64, t float64) (float64, error) {
	if !p.products(a, alpha) {
		return 0, fmt.Errorf("%w: the design is singular", ErrInstance)
	}
	k := p.k
	grad := mat.NewVecDense(k, nil)
	scaled := mat.NewDense(k, k, nil)  // A D^{1/2}, D = diag(1/slack)
	squares := mat.NewDense(k, k, nil) // (A∘A) diag(1/slack)
	for y := range k {
		slack := p.b[y] - a.At(y, y)
		for x := range k {
			v := a.At(x, y)
			scaled.Set(x, y, v/math.Sqrt(slack))
			squares.Set(x, y, v*v/slack)
		}
	}
	for x := range k {
		g := t*p.gap[x] - 1/alpha[x]
		for y := range k {
			g -= squares.At(x, y)
		}
		grad.SetVec(x, g*alpha[x]) // in units of α: the barrier of α is then the identity
	}
	var inner, outer mat.SymDense
	inner.SymOuterK(1, scaled)
	outer.SymOuterK(1, squares)
	hess := mat.NewSymDense(k, nil)
	for x := range k {
		for z := x; z < k; z++ {
			v := (2*a.At(x, z)*inner.At(x, z) + outer.At(x, z)) * alpha[x] * alpha[z]
			if x == z {
				v++
			}
			hess.SetSym(x, z, v)
		}
	}
	size := make([]float64, k) // the matrix with diagonal 1 is better conditioned
	for x := range size {
		size[x] = 1 / math.Sqrt(hess.At(x, x))
	}
	for x := range k {
		for z := x; z < k; z++ {
			hess.SetSym(x, z, hess.At(x, z)*size[x]*size[z])
		}
		grad.SetVec(x, grad.AtVec(x)*size[x])
	}
	var chol mat.Cholesky
	if !chol.Factorize(hess) {
		return 0, fmt.Errorf("%w: the Newton step is singular", ErrInstance)
	}
	dir := mat.NewVecDense(k, nil)
	var far mat.Condition // near the end of the path; the step is checked by what it gains
	if err := chol.SolveVecTo(dir, grad); err != nil && !errors.As(err, &far) {
		return 0, fmt.Errorf("%w: %w", ErrInstance, err)
	}
	for i := range step {
		step[i] = -dir.AtVec(i) * size[i] * alpha[i]
	}
	return mat.Dot(grad, dir), nil
}

// bound returns the cost of α, scaled so that every constraint holds, and the gap to the dual bound with the weights
// of the barrier.
func (p *design) bound(a *mat.SymDense, alpha []float64, t float64) InstanceBound {
	if !p.products(a, alpha) {
		return InstanceBound{math.Inf(1), math.Inf(1)}
	}
	cost, worst, total := 0.0, 0.0, 0.0
	weights := make([]float64, p.k)
	for i := range p.k {
		cost += alpha[i] * p.gap[i]
		worst = max(worst, a.At(i, i)/p.b[i])
		weights[i] = 1 / max(p.b[i]-a.At(i, i), 1e-300)
		total += weights[i] * p.b[i]
	}
	// In units of cost: the value is max over y of ‖y‖²/b for a design of cost 1. Weights of the dual are λ ∝ b/slack.
	trace := 0.0
	half := mat.NewDense(p.k, p.k, nil)
	for y := range p.k {
		lambda := weights[y] * p.b[y] / total
		trace += lambda * a.At(y, y) / p.b[y]
		for x := range p.k {
			half.Set(x, y, a.At(x, y)*math.Sqrt(lambda/p.b[y]))
		}
	}
	top := 0.0
	for x := range p.k {
		sum := 0.0
		for _, v := range half.RawRowView(x) {
			sum += v * v
		}
		top = max(top, sum/p.gap[x])
	}
	value := cost * worst
	return InstanceBound{Value: value, Gap: max(0, value-trace*trace/top)}
}

package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/rng"
)

// This file has the law of an action of ATS given the state, where it is known: on two arms, and on arms that are
// orthogonal in the norm of V⁻¹.

// absoluteArm is what the law needs of an arm: its value at θ̂, less its price, and ‖x‖_{V⁻¹}, both in units of r/c_m.
type absoluteArm struct{ value, width float64 }

// leastSquare is a square of a width below which products of widths are not exact.
const leastSquare = 1e-250

// law returns the probability of each arm. Cost d² an arm, and an integral: two arms some 5000 normal distribution
// functions, K orthogonal arms some 1000 K². An error is bandit.ErrUnsupported.
func (a *ATS) law(set bandit.Finite) ([]float64, error) {
	n := set.Len()
	if n > atsMostArms {
		return nil, fmt.Errorf("policy: ats: the law on %d arms is known with groups only, expected at most %d: %w", n, atsMostArms,
			bandit.ErrUnsupported)
	}
	unit := a.Scale() / a.norm
	arms := make([]absoluteArm, n)
	prices, priced := set.(bandit.Priced)
	for i := range arms {
		x := set.At(i)
		v := linalg.Dot(x, a.ridge.Theta())
		if priced {
			v -= prices.Price(i)
		}
		square := math.Max(0, a.ridge.Width2(x))
		if square < leastSquare && slices.ContainsFunc(x, func(v float64) bool { return v != 0 }) {
			return nil, fmt.Errorf("policy: ats: action %d is so small that its width is not a number to compute with: the law is known with "+
				"groups only: %w", i+1, bandit.ErrUnsupported)
		}
		arms[i] = absoluteArm{v / unit, math.Sqrt(square)}
	}
	m := float64(a.opts.M)
	switch n {
	case 1:
		return []float64{1}, nil
	case 2:
		first, second := 0, 1 // in an order of their own, so that the law does not depend on that of the set
		if arms[1].before(arms[0]) {
			first, second = 1, 0
		}
		a.ridge.Solve(a.other, set.At(second))
		law := make([]float64, 2)
		law[first] = absoluteTwo(arms[first], arms[second], linalg.Dot(set.At(first), a.other), m)
		law[second] = 1 - law[first]
		return law, nil
	}
	for j := range n {
		a.ridge.Solve(a.other, set.At(j))
		for i := range j {
			const rounding = 1e-9
			if math.Abs(linalg.Dot(set.At(i), a.other)) > rounding*arms[i].width*arms[j].width {
				return nil, fmt.Errorf("policy: ats: the law on arms that are not orthogonal is known with groups only: %w",
					bandit.ErrUnsupported)
			}
		}
	}
	order := make([]int, n) // so that the law does not depend on the order of the arms, to the bit
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Or(cmp.Compare(arms[i].value, arms[j].value), cmp.Compare(arms[i].width, arms[j].width))
	})
	sorted := make([]absoluteArm, n)
	for k, i := range order {
		sorted[k] = arms[i]
	}
	law := make([]float64, n)
	for k, p := range absoluteOrthogonal(sorted, m) {
		law[order[k]] = p
	}
	return law, nil
}

// before orders arms by value and width.
func (x absoluteArm) before(y absoluteArm) bool {
	return x.value < y.value || x.value == y.value && x.width < y.width
}

// absoluteTwo is the probability that the first of two arms has the larger value + max_j |u_j|, u_j and v_j, j ≤ m,
// normal with the widths as standard deviations and this covariance. With κ the lead of the first arm's value and F(s, t)
// = P(|u| ≤ s, |v| ≤ t) it is
//
//	∫_{max(0, −κ)}^∞ m F(s, s + κ)^{m−1} F_1(s, s + κ) ds,
//
// F_1 the density of |u| at s times P(|v| ≤ t | |u| = s), and F along the diagonal is 1 minus the integral of F_1 + F_2
// beyond s. By Simpson's rule on panels that are small where the integrand turns; the absolute error is below 1e-6.
func absoluteTwo(x, y absoluteArm, covariance, m float64) float64 {
	kappa := x.value - y.value
	if x.width == 0 || y.width == 0 { // an arm without a perturbation
		switch {
		case x.width == 0 && y.width == 0:
			return ahead(kappa)
		case x.width == 0:
			return absoluteBelow(kappa/y.width, m)
		}
		return 1 - absoluteBelow(-kappa/x.width, m)
	}
	rho := math.Max(-1, math.Min(covariance/(x.width*y.width), 1))
	root := math.Sqrt((1 - rho) * (1 + rho))
	if root < 1e-7 { // one perturbation for both
		switch lead := x.width - y.width; {
		case math.Abs(lead) <= 1e-7*x.width:
			return ahead(kappa)
		case lead > 0:
			return 1 - absoluteBelow(-kappa/lead, m)
		default:
			return absoluteBelow(-kappa/lead, m)
		}
	}
	density := func(s, t float64, own, other absoluteArm) float64 { // of |u| at s, and |v| ≤ t
		if s < 0 || t <= 0 {
			return 0
		}
		w, mean := other.width*root, rho*s*other.width/own.width
		z := s / own.width
		return 2 / own.width * math.Exp(-float64(z*z)/2) / math.Sqrt(2*math.Pi) * between(-(t+mean)/w, (t-mean)/w)
	}
	lo := math.Max(0, -kappa)
	const far = 9.0
	top := math.Max(far*x.width, float64(far*y.width)-kappa)
	if top <= lo {
		return ahead(kappa)
	}
	cuts := absoluteCuts(x, y, kappa, rho, root, lo, top)
	beyond, sum := 0.0, 0.0 // 1 − F, and the integral from s on
	power := func(u float64) float64 {
		if m == 1 {
			return 1
		}
		return math.Exp((m - 1) * logs.Log1p(-math.Min(u, 1)))
	}
	for i := len(cuts) - 1; i > 0; i-- {
		a, b := cuts[i-1], cuts[i]
		const parts = 4
		h := float64((b - a) / (2 * parts))
		if h <= 0 {
			continue
		}
		at := func(s float64) (first, both float64) {
			first = density(s, s+kappa, x, y)
			return first, first + density(s+kappa, s, y, x)
		}
		f2, g2 := at(b)
		for k := range parts {
			s := b - float64(float64(2*k)*h)
			f1, g1 := at(s - h)
			f0, g0 := at(math.Max(s-float64(2*h), lo))
			middle := beyond + float64(h/12*(float64(5*g2)+float64(8*g1)-g0))
			after := beyond + float64(h/3*(g2+float64(4*g1)+g0))
			sum += float64(h / 3 * (float64(f2*power(beyond)) + float64(4*f1*power(middle)) + float64(f0*power(after))))
			beyond, f2, g2 = after, f0, g0
		}
	}
	return math.Max(0, math.Min(m*sum, 1))
}

// absoluteCuts returns the ends of the panels of absoluteTwo in [lo, top], ascending: close together where one of the two
// densities falls, and where one arm's interval begins or ends to hold the other's.
func absoluteCuts(x, y absoluteArm, kappa, rho, root, lo, top float64) []float64 {
	cuts := []float64{lo, top}
	grade := func(at, width float64, from, to int) {
		for k := from; k <= to; k++ {
			if s := at + float64(float64(k)*width); s > lo && s < top {
				cuts = append(cuts, s)
			}
		}
	}
	grade(0, x.width/4, 0, 36)
	grade(-kappa, y.width/4, 0, 36)
	for _, turn := range [...][2]absoluteArm{{x, y}, {y, x}} { // where t = ±ρ s·(width ratio)
		own, other := turn[0], turn[1]
		k := kappa
		if own == y {
			k = -kappa
		}
		ratio := rho * other.width / own.width
		for _, slope := range [...]float64{1 - ratio, 1 + ratio} {
			if slope == 0 {
				continue
			}
			at := -k / slope // own |u| there
			if own == y {
				at -= kappa
			}
			grade(at, other.width*root/math.Abs(slope)/2, -12, 12)
		}
	}
	slices.Sort(cuts)
	return cuts
}

// between is P(a < Z ≤ b) of a normal Z, 0 for b ≤ a.
func between(a, b float64) float64 {
	if b <= a {
		return 0
	}
	if a > 0 {
		return (math.Erfc(a/math.Sqrt2) - math.Erfc(b/math.Sqrt2)) / 2
	}
	return (math.Erfc(-b/math.Sqrt2) - math.Erfc(-a/math.Sqrt2)) / 2
}

// ahead is 1 where the first arm leads or is level: of equal arms the first wins.
func ahead(kappa float64) float64 {
	if kappa >= 0 {
		return 1
	}
	return 0
}

// absoluteBelow is P(max_{j≤m} |Z_j| ≤ s).
func absoluteBelow(s, m float64) float64 {
	if s <= 0 {
		return 0
	}
	p := math.Erfc(s / math.Sqrt2)
	if p >= 1 {
		return 0
	}
	return math.Exp(m * logs.Log1p(-p))
}

// absoluteOrthogonal is the law on arms with independent perturbations: ∫ Π_{y≠x} G_y(s + a_x − a_y) dG_x(s), G_y(s) =
// (2Φ(s/width_y) − 1)^m, by adaptive quadrature to 1e-12 an arm, scaled to the sum 1.
func absoluteOrthogonal(arms []absoluteArm, m float64) []float64 {
	law := make([]float64, len(arms))
	total := 0.0
	for i, x := range arms {
		others := func(s float64) float64 { // log Π G_y
			sum := 0.0
			for k, y := range arms {
				if k == i {
					continue
				}
				room := s + x.value - y.value
				if y.width == 0 {
					if room < 0 || room == 0 && k < i {
						return math.Inf(-1)
					}
					continue
				}
				p := math.Erfc(room / y.width / math.Sqrt2)
				if room <= 0 || p >= 1 {
					return math.Inf(-1)
				}
				sum += float64(m * logs.Log1p(-p))
			}
			return sum
		}
		if x.width == 0 {
			law[i] = math.Exp(others(0))
		} else {
			density := func(s float64) float64 {
				z := s / x.width
				p := math.Erfc(z / math.Sqrt2)
				log := others(s)
				if m > 1 {
					log += float64((m - 1) * logs.Log1p(-math.Min(p, 1)))
				}
				if math.IsInf(log, -1) {
					return 0
				}
				return 2 * m / x.width * math.Exp(log-float64(float64(z*z)/2)) / math.Sqrt(2*math.Pi)
			}
			lo, step := 0.0, float64(x.width*9/36)
			for _, y := range arms {
				lo = math.Max(lo, y.value-x.value)
			}
			for k := range 36 {
				a := float64(float64(k) * step)
				if a+step > lo {
					law[i] += adaptive(density, math.Max(a, lo), a+step, 1e-12/36)
				}
			}
		}
		total += law[i]
	}
	for i := range law {
		law[i] /= total
	}
	return law
}

// adaptive is the integral of f by Simpson's rule with halving, to an absolute error of about tol.
func adaptive(f func(float64) float64, a, b, tol float64) float64 {
	mid := (a + b) / 2
	fa, fm, fb := f(a), f(mid), f(b)
	return halved(f, a, b, fa, fm, fb, (b-a)/6*(fa+float64(4*fm)+fb), tol, 24)
}

func halved(f func(float64) float64, a, b, fa, fm, fb, whole, tol float64, depth int) float64 {
	mid := float64((a + b) / 2)
	fl, fr := f((a+mid)/2), f((mid+b)/2)
	left, right := float64((mid-a)/6*(fa+float64(4*fl)+fm)), float64((b-mid)/6*(fm+float64(4*fr)+fb))
	if off := left + right - whole; depth == 0 || math.Abs(off) <= 15*tol && depth < 23 {
		return left + right + float64(off/15)
	}
	return halved(f, a, mid, fa, fl, fm, left, tol/2, depth-1) + halved(f, mid, b, fm, fr, fb, right, tol/2, depth-1)
}

// count writes the law over the groups of a decision.
func (a *ATS) count(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	var x bandit.Action
	f, finite := set.(bandit.Finite)
	if finite {
		zeros(dst, f.Len())
	} else {
		dst.Atoms = dst.Atoms[:0]
	}
	for g := range a.opts.Groups {
		if !finite {
			x = bandit.Action{}
		}
		if err := a.choose(&x, set, draw, g); err != nil {
			return err
		}
		if finite {
			dst.Atoms[x.Index].Count++
		} else {
			dst.Atoms = append(dst.Atoms, bandit.Atom{Action: x, Count: 1})
		}
	}
	if !finite {
		gather(dst)
	}
	share(dst, uint64(a.opts.Groups))
	return nil
}

package logs

import "math"

// Exp returns eˣ with the same bits on every machine; its relative error is below 2 units in the last
// place. It is 0 below −745.2, +∞ above 709.78, and NaN for NaN.
func Exp(x float64) float64 {
	switch {
	case x != x:
		return x
	case x > 7.09782712893383973096e+02:
		return math.Inf(1)
	case x < -7.45133219101941108420e+02:
		return 0
	}
	// FreeBSD's e_exp.c, as in Root.
	k := math.Floor(float64(x*(1/math.Ln2)) + 0.5)
	hi, lo := math.FMA(-k, ln2Hi, x), float64(k*ln2Lo)
	r := hi - lo
	t := float64(r * r)
	p := math.FMA(exp5, t, exp4)
	p = math.FMA(p, t, exp3)
	p = math.FMA(p, t, exp2)
	p = math.FMA(p, t, exp1)
	c := r - float64(t*p)
	v := 1 - ((lo - float64(r*c)/(2-c)) - hi)
	if k >= -1020 && k <= 1022 { // exact, as math.Ldexp is
		return v * math.Float64frombits(uint64(int64(k)+1023)<<52)
	}
	return math.Ldexp(v, int(k))
}

// Sigmoids returns μ(x) and μ(−x) = 1 − μ(x), each as Sigmoid does, from one exponential.
func Sigmoids(x float64) (mu, rest float64) {
	e := Exp(-math.Abs(x))
	mu, rest = 1/(1+e), e/(1+e)
	if x < 0 {
		return rest, mu
	}
	return mu, rest
}

// Sigmoid returns μ(x) = 1/(1 + e⁻ˣ), from one exponential of −|x|. 1 − μ(x) is Sigmoid(−x), without
// cancellation.
func Sigmoid(x float64) float64 {
	e := Exp(-math.Abs(x))
	if x < 0 {
		return e / (1 + e)
	}
	return 1 / (1 + e)
}

// mostSteps bounds the steps of LogisticRoot; 31 were the most up to q = 10⁴.
const mostSteps = 40

// LogisticRoot returns the root s of s = z + q(y − μ(s)), y ∈ [0, 1], q ≥ 0, and the number of Newton
// steps. With it θ̂ + (y − μ(s))·H⁻¹x, z = ⟨x, θ̂⟩ and q = xᵀH⁻¹x, minimises ½‖θ − θ̂‖²_H plus the
// logistic loss of (x, y).
//
// h(s) = s − z − q(y − μ(s)) increases, is convex below 0 and concave above, so that Newton's method is
// monotone from the starts below and needs no bracket.
func LogisticRoot(z, q, y float64) (s float64, steps int) {
	at := func(s float64) (h, slope float64) {
		mu, rest := Sigmoids(s)
		return (s - z) - float64(q*Residual(y, s, mu, rest)), 1 + float64(float64(q*mu)*rest)
	}
	mu, rest := Sigmoids(z)
	below, above := -z-float64(q*(y-0.5)) > 0, Residual(y, z, mu, rest) > 0
	switch {
	case below && !above:
		s = min(z, 0)
	case !below && above:
		s = max(z, 0)
	}
	h, slope := at(s)
	down := h > 0
	for steps < mostSteps {
		next := s - h/slope
		if !(down && next < s || !down && next > s) {
			break
		}
		s = next
		steps++
		h, slope = at(s)
	}
	return s, steps
}

// Residual returns y − μ(s) for mu = μ(s) and rest = μ(−s), without cancellation where s is large.
func Residual(y, s, mu, rest float64) float64 {
	if s > 0 {
		return (y - 1) + rest
	}
	return y - mu
}

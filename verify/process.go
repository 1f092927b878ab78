package verify

import (
	"fmt"
	"math"
	"slices"

	"troupe/rng"
	"troupe/theory"
)

// This file examines the process R_t(u) for a fixed direction u. Only ⟨u, S^j⟩ and ‖u‖²_V matter, so
// a member is one number and the theorem's own m is cheap. An action is its projection ⟨u, X⟩; the
// rules that choose it may look at R_t, as the proofs allow.

// rule chooses ⟨u, X_{t+1}⟩ ∈ [−1, 1] from t and R_t.
type rule struct {
	name string
	x    func(t int, r float64) float64
}

var rules = []rule{
	{"always u", func(int, float64) float64 { return 1 }},
	{"alternating", func(t int, _ float64) float64 { return float64(1 - 2*(t&1)) }},
	{"only above 0.3", func(_ int, r float64) float64 { return step(r > 0.3) }},
	{"only below 0.36", func(_ int, r float64) float64 { return step(r < 0.36) }},
	{"small", func(int, float64) float64 { return 0.1 }},
	{"1/√t", func(t int, _ float64) float64 { return 1 / math.Sqrt(float64(t)) }},
}

func step(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// process is ⟨u, S_t^j⟩, j = 1 … m, and ‖u‖²_{V_t}.
type process struct {
	den float64
	a   []float64
}

// newProcess starts with ‖u‖² = λ and random members with R_0 = r0 exactly.
func newProcess(src rng.Source, m int, lambda, r0 float64) *process {
	p := &process{den: lambda, a: make([]float64, m)}
	src.Sphere(p.a, 0)
	for j := range p.a {
		p.a[j] *= math.Sqrt(float64(m) * lambda * r0)
	}
	return p
}

// mean returns R_t.
func (p *process) mean() float64 {
	var s float64
	for _, a := range p.a {
		s += a * a
	}
	return s / (p.den * float64(len(p.a)))
}

// play runs T steps. observe is told R_t, Q_t and W_{t+1} (with the centring v) of each, and R_T at
// the end as R_t of step T. Where the action is 0 nothing moves and no target is drawn.
func (p *process) play(key rng.Key, T int, choose rule, draw func(uint32) float64, v float64,
	observe func(t int, r, q, w float64)) {
	stream := key.Stream(rng.Perturb)
	var c rng.Columns
	r := p.mean()
	for t := range T {
		x := choose.x(t+1, r)
		if x == 0 {
			observe(t, r, 0, 0)
			continue
		}
		for j, word := range c.Words(stream.Round(uint64(t)), len(p.a)) {
			p.a[j] += draw(word) * x
		}
		next := p.den + x*x
		expected := (r*p.den + v*x*x) / next
		p.den = next
		after := p.mean()
		observe(t, r, x*x/next, after-expected)
		r = after
	}
	observe(T, r, 0, 0)
}

// levels are the values of R_0 that the process lemma allows.
var levels = []float64{0.5, 1, 1.5}

// processStays: lem:process-max-lower-bound. R_t ∈ [lo, hi] for t ≤ T fails with probability at most
// q = T e^{−m/400}; m is chosen so that q = 10⁻³. Every run is one (rule, R_0) with numbers of its
// own.
func processStays(lo, hi float64) func(s *session) Finding {
	return func(s *session) Finding {
		T := s.size(500, 10_000)
		const q = 1e-3
		m := int(math.Ceil(400 * math.Log(float64(T)/q)))
		draw, about := rng.UniformWord, "uniform targets"
		if s.planted {
			draw, about = func(w uint32) float64 { return 0.2 * rng.UniformWord(w) }, "targets on [-0.2, 0.2]"
		}
		low, high := math.Inf(1), math.Inf(-1)
		var curves []Curve
		var all runs
		n := 0
		for i, choose := range rules {
			for l, r0 := range levels {
				if s.stopped() {
					return Finding{}
				}
				p := newProcess(s.source(n), m, 5, r0)
				worst := 0.0
				c := Curve{Group: i, Name: fmt.Sprintf("%s, R_0 = %g", choose.name, r0)}
				p.play(s.universe(n), T, choose, draw, 1./3, func(t int, r, _, _ float64) {
					low, high = math.Min(low, r), math.Max(high, r)
					if t > 0 {
						worst = max(worst, r/hi, lo/r)
					}
					if (i < 2 || i == 3) && (t < 20 || t%(T/50) == 0) {
						c.X, c.Y = append(c.X, float64(t)), append(c.Y, r)
					}
				})
				all.see(worst)
				n++
				if len(c.X) > 0 && (l != 1 || i == 0) {
					curves = append(curves, c)
				}
			}
		}
		f := all.finding(q, "runs that leave [%.4g, %.4g]; %d rules × R_0 ∈ {½, 1, 3/2}, T = %d, m = %d, %s; seen "+
			"%.3f … %.3f",
			lo, hi, len(rules), T, m, about, low, high)
		guides := []Curve{level("1/3", 1./3, curves), level("claimed", lo, curves), level("claimed", hi, curves)}
		f.Plot = &Plot{Title: "R_t drifts to 1/3", X: "round t", Y: "R_t", Curves: append(curves, guides...)}
		return f
	}
}

// noiseSums: lem:noise-sum-bound. For all τ ≤ t: |Σ_{i=τ}^t W_{i+1}| ≤ α(K + Σ Q_iR_i) fails with
// probability at most T e^{−m/c}. The supremum over τ is a running minimum, so a run costs O(T).
func noiseSums(c, alpha, k float64) func(s *session) Finding {
	return func(s *session) Finding {
		T := s.size(500, 10_000)
		const q = 1e-3
		m := int(math.Ceil(c * math.Log(float64(T)/q)))
		v := 1. / 3
		if s.planted {
			v = 2. / 3 // the printed centring
		}
		var all runs
		n, top := 0, 0.0
		starts := []float64{0.5, 1, 2}
		if c < 100 { // m is small
			starts = slices.Repeat(starts, 6)
		}
		for _, choose := range rules {
			for _, r0 := range starts {
				if s.stopped() {
					return Finding{}
				}
				var up, down, lowUp, lowDown, worst float64
				newProcess(s.source(n), m, 5, r0).play(s.universe(n), T, choose, rng.UniformWord, v,
					func(_ int, r, q, w float64) {
						up += w - alpha*q*r
						down += -w - alpha*q*r
						worst = math.Max(worst, math.Max(up-lowUp, down-lowDown))
						lowUp, lowDown = math.Min(lowUp, up), math.Min(lowDown, down)
					})
				all.see(worst / (alpha * k))
				top = math.Max(top, worst/(alpha*k))
				n++
			}
		}
		return all.finding(q, "runs in which a sum of noises exceeds %.3g(%.3g + ΣQR), T = %d, m = %d; the largest "+
			"excess (|ΣW| − αΣQR)/(αK) seen is %.3f",
			alpha, k, T, m, top)
	}
}

// claims 25 and 26 and the chain that proves the latter are sure inequalities on paths; so the
// targets may be an adversary's.
type adversary struct {
	name string
	u    func(src rng.Source, j, t int, x, a float64) float64
}

var adversaries = []adversary{
	{"uniform", func(src rng.Source, j, _ int, _, _ float64) float64 { return src.Uniform(j) }},
	{"sign of X", func(_ rng.Source, _, _ int, x, _ float64) float64 { return math.Copysign(1, x) }},
	{"push outwards", func(_ rng.Source, _, _ int, x, a float64) float64 { return math.Copysign(1, x*a) }},
	{"push inwards", func(_ rng.Source, _, _ int, x, a float64) float64 { return -math.Copysign(1, x*a) }},
	{"zero", func(rng.Source, int, int, float64, float64) float64 { return 0 }},
}

// adversarialPaths calls see for every path: its R_0 ≤ 2 and the sequences of R_t, Q_t, ⟨u, X_t⟩ and
// R_t^j of member 0. scale multiplies the targets, lambda is ‖u‖²_{V_0}.
func adversarialPaths(s *session, lambda, scale float64, see func(name string, r, q, x, r0j, rj []float64)) {
	const m = 8
	T := s.size(200, 2000)
	more := append([]rule{
		{"bang-bang", func(t int, r float64) float64 { return step(r < 1)*2 - 1 }},
		{"half", func(int, float64) float64 { return 0.5 }},
	}, rules...)
	n := 0
	for _, choose := range more {
		for _, who := range adversaries {
			for _, r0 := range []float64{0, 0.5, 2} {
				p := newProcess(s.source(n), m, lambda, r0)
				first := p.a[0] * p.a[0] / lambda
				var r, q, x, r0j, rj []float64
				for t := range T {
					src := s.universe(n).Stream(rng.Perturb).Round(uint64(t))
					now := p.mean()
					step := choose.x(t+1, now)
					for j := range p.a {
						p.a[j] += scale * who.u(src, j, t, step, p.a[j]) * step
					}
					p.den += step * step
					r, q, x = append(r, now), append(q, step*step/p.den), append(x, step)
					r0j, rj = append(r0j, first), append(rj, p.a[0]*p.a[0]/p.den)
				}
				see(fmt.Sprintf("%s, targets %s, R_0 = %g", choose.name, who.name, r0), r, q, x, r0j, rj)
				n++
			}
		}
	}
}

// varianceSums: claim:sum-Q-RQ, 1 + Σσ_i² ≤ K + Σ Q_iR_i over every window [τ, t]; the left side minus
// the right is largest for the whole path, because its terms 2Q² are positive.
func varianceSums(k func(lambda float64) float64) func(s *session) Finding {
	return func(s *session) Finding {
		var w tightest
		for _, lambda := range []float64{5, 20} {
			at := lambda
			if s.planted {
				at = 0.1 // λ ≥ 5 ignored
			}
			adversarialPaths(s, at, 1, func(name string, r, q, _, _, _ []float64) {
				lhs, rhs := 1.0, k(lambda)
				for i := range q {
					lhs += 2*q[i]*q[i] + q[i]*r[i]
					rhs += q[i] * r[i]
				}
				w.see(lhs, rhs, func() string { return name })
			})
		}
		return w.finding("1 + Σσ² against K + ΣQR on adversarial paths")
	}
}

// varianceCap: claim:sum-Q-RQ2, 1 + Σσ_i² ≤ (3 + cT)² on R_0 ≤ 2.
func varianceCap(c float64) func(s *session) Finding {
	return func(s *session) Finding {
		scale := 1.0
		if s.planted {
			scale = 40 // targets far outside [−1, 1]
		}
		var w tightest
		adversarialPaths(s, 5, scale, func(name string, r, q, _, _, _ []float64) {
			lhs := 1.0
			for i := range q {
				lhs += 2*q[i]*q[i] + q[i]*r[i]
				T := float64(i + 1)
				w.see(lhs, (3+c*T)*(3+c*T), func() string { return fmt.Sprintf("%s, T = %g", name, T) })
			}
		})
		return w.finding("1 + Σσ² against (3 + %gT)² on adversarial paths", c)
	}
}

// growthChain: the display that proves claim:sum-Q-RQ2. As printed its middle expression is
// 2R_0^j + 2(Σ⟨u, X_l⟩)²/‖u‖²_V, which alternating actions break; with |⟨u, X_l⟩| it holds, and so does
// the end, 2R_0^j + 2i.
func growthChain(absolute bool) func(s *session) Finding {
	return func(s *session) Finding {
		abs := absolute != s.planted
		var w tightest
		adversarialPaths(s, 5, 1, func(name string, _, _, x, r0j, rj []float64) {
			den, sum := 5.0, 0.0
			for i := range x {
				den += x[i] * x[i]
				if abs {
					sum += math.Abs(x[i])
				} else {
					sum += x[i]
				}
				at := func() string { return fmt.Sprintf("%s, i = %d", name, i+1) }
				w.see(rj[i], 2*r0j[i]+2*sum*sum/den, at)
				w.see(rj[i], 2*r0j[i]+2*float64(i+1), at)
			}
		})
		return w.finding("R_i^j against 2R_0^j + 2(Σ⟨u, X⟩)²/‖u‖²_V")
	}
}

// boundaryCrossing: lem:time-unif-bound for Rademacher steps of size c, several c, δ = 0.1 and 0.5.
// The runs of all (c, δ) with the same δ are pooled; each crosses with probability at most δ.
func boundaryCrossing(delta float64) func(s *session) Finding {
	return func(s *session) Finding {
		sizes := []float64{0.3, 1, 2}
		if s.planted {
			sizes = []float64{0.1}
		}
		T, n := s.size(3000, 30_000), s.size(400, 4000)
		var all runs
		for ci, c := range sizes {
			limit := make([]float64, T)
			for t := range limit {
				tau := float64(t + 1)
				y := c*c*tau + 1
				if s.planted {
					y = c * c * (tau + 1) // the misprint of the source
				}
				limit[t] = 1 / math.Sqrt(math.Max(0, 2*y*math.Log(math.Sqrt(y)/delta)))
			}
			for i := range n {
				if s.stopped() {
					return Finding{}
				}
				src := s.source(ci*n + i)
				sum, top := 0, 0.0
				for t := 0; t < T; t += 64 {
					top = max(top, nearest(src.Uint64(t>>6), min(64, T-t), &sum, limit[t:]))
				}
				all.see(c * top)
			}
		}
		return all.finding(delta, "Rademacher walks with steps %v that cross within %d steps", sizes, T)
	}
}

// nearest adds n signs to the sum and returns the largest |sum|/limit on the way, given 1/limit.
func nearest(bits uint64, n int, sum *int, inverse []float64) (top float64) {
	for i := range n {
		*sum += int(bits>>i&1)*2 - 1
		top = max(top, math.Abs(float64(*sum))*inverse[i])
	}
	return top
}

// selfNormalised: lem:pena-concentration-uniform with predictable B_i that react to the path.
func selfNormalised(s *session) Finding {
	const x, y = 2.0, 0.5
	T, n := s.size(1000, 20_000), s.size(600, 6000)
	var all runs
	for i := range n {
		if s.stopped() {
			return Finding{}
		}
		src := s.source(i)
		var sum, v, top float64
		for t := range T {
			// B_i is large while the sum is away from its goal, small near 0: predictable.
			b := 0.2 + math.Min(1, math.Abs(sum)/(1+math.Sqrt(v)))
			if i%2 == 1 {
				b = 1 / (1 + float64(t)/100)
			}
			step := b * src.Sign(t)
			if i%4 >= 2 {
				step = b * src.Uniform(t) // 1/√3-subgaussian, so b-subgaussian
			}
			sum += step
			v += b * b
			limit := (v + y) * (x + math.Log1p(v/y))
			if s.planted {
				limit = (v + y) * x / 2
			}
			top = max(top, sum*sum/limit)
		}
		all.see(top)
	}
	return all.finding(math.Exp(-x/2), "runs that cross within %d steps, x = %g, y = %g, B reacting to the past", T, x,
		y)
}

// sharpSums are the constants of theory.Members60 in the notation of noiseSums: α and K.
var sharpAlpha = 0.2292 * math.Sqrt(4./60)

const sharpK = 0.597 / 0.2292

// sharpRange: with them the process stays where thm:sing-val-gamma with r = 3.04β needs it.
func sharpRange(s *session) Finding {
	alpha, r := sharpAlpha, 3.04
	if s.planted {
		r = 2.5
	}
	lo, hi, err := theory.ProcessRange(1./3, alpha, sharpK)
	if err != nil {
		panic(err)
	}
	sd, s1, err := theory.SingularRange(lo, hi)
	if err != nil {
		panic(err)
	}
	var w tightest
	w.see(1, r*sd, func() string { return "optimism: r s_d/√m ≥ 1" })
	w.see(2*r*s1, 7.95, func() string { return "b/p: 2 r s_1/√m ≤ 7.95" })
	return w.finding("m = 60 log(NT/δ): R_t ∈ [%.4f, %.4f], s_d/√m ≥ %.4f, s_1/√m ≤ %.4f", lo, hi, sd, s1)
}

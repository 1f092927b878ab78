package policy

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
)

// LinUCBOptions configures the optimistic policy.
type LinUCBOptions struct {
	// Lambda is the ridge parameter λ > 0; 0 means 1.
	Lambda float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
	// Delta is the confidence level δ in (0, 1]; 0 means 0.1.
	Delta float64 `key:"delta" doc:"confidence level δ" default:"0.1"`
	// Scale is the radius r_t of the confidence ellipsoid; the zero value means β_t. A constant is the tuned radius α
	// of LinUCB as Li et al. (2010) play it, which a spec sweeps: scale = [0.1, 0.3, 1].
	Scale Scale `key:"scale" doc:"radius r_t of the confidence ellipsoid; a number is the tuned radius α of LinUCB" default:"beta 1"`
	// Discount is γ in (0, 1], the weight of an event against the next one; 0 means 1, nothing is forgotten.
	Discount float64 `key:"discount" doc:"γ in (0, 1]: an event counts γ times less with each later one" default:"1"`
	// Change is restarts or none, and HalfLife what restarts forget by; see Restarts.
	Change   string   `key:"change" doc:"restarts: models begun at different times, weighted by what they predicted, notice a change; or none" default:"none"`
	HalfLife HalfLife `key:"half_life" doc:"with restarts: the number of later events after which an event counts half, or a time such as 7d; 0: events keep their weight while the world stays"`
	// Pending is none or hallucinate, see LinUCB.
	Pending string `key:"pending" doc:"where rewards are late: hallucinate: actions whose rewards are open count in the widths, not in the estimate; none: they do not count" default:"none"`
}

// Doc implements spec.Documented.
func (*LinUCBOptions) Doc() string {
	return "LinUCB/OFUL: optimism over the confidence ellipsoid; finite sets and the unit ball"
}

// New implements Options.
func (o *LinUCBOptions) New(p Problem) (bandit.Policy, error) {
	one, err := NewLinUCB(*o, p)
	if err != nil || o.Change != restarts {
		return one, err
	}
	return newRestarts("linucb", *o, o.HalfLife, p, func() (hypothesis, error) { return NewLinUCB(*o, p) })
}

// LinUCB is OFUL (Abbasi-Yadkori, Pál & Szepesvári 2011), optimism over the confidence ellipsoid
// {θ : ‖θ − θ̂_{t−1}‖_V ≤ r_{t−1}}:
//
//	X_t ∈ argmax_x max_θ ⟨x, θ⟩ = argmax_x ⟨x, θ̂_{t−1}⟩ + r_{t−1} ‖x‖_{V_{t−1}⁻¹}.
//
// On a finite set this is a scan; among equal values the lowest index wins. On the unit ball it is
// the point of the ellipsoid farthest from 0, normalised (farthest). On other sets a convex
// function has to be maximised, which is NP-hard already for a box or a polytope: Select and Prob
// return bandit.ErrUnsupported. The next action is not random.
//
// With discount = γ < 1 the regression forgets,
//
//	V_t = γV_{t−1} + (1 − γ)λI + X_tX_tᵀ,  b_t = γb_{t−1} + Y_tX_t,
//
// so that event i has the weight γ^{t−i} and λ stays: D-LinUCB (Russac, Vernade & Cappé 2019) with one matrix in place
// of its two, and with the radius r_t of the present V_t.
//
// With pending = "hallucinate" the widths are ‖x‖_{W⁻¹}, W_t = V_t + Σ xxᵀ over the actions that were played and whose
// rewards are open (Pend); θ̂ and r stay those of what was learned. It is the rule of batched optimism (Desautels,
// Krause & Burdick 2014): without it the same action is played until its rewards come. Without late rewards W = V, to
// the bit.
//
// Cost of a round: Select K·d² on K arms, 9d³ + O(d) on the ball; Update 3d², with a discount d³; Pend 3d².
type LinUCB struct {
	regression
	wide  *linalg.Ridge // W, nil without pending
	open  int           // actions in W and not in V
	eigen *linalg.Eigen // of V⁻¹, for the ball
	theta []float64
	b, c  []float64 // scratch of farthest
}

// Discount returns γ, 1 where nothing is forgotten.
func (u *LinUCB) Discount() float64 { return u.discount }

// NewLinUCB returns the policy before round 1. The error names the option that is wrong.
func NewLinUCB(o LinUCBOptions, p Problem) (*LinUCB, error) {
	g, err := newRegression(p, o.Lambda, o.Delta, o.Scale, betaScale(1))
	if err != nil {
		return nil, err
	}
	fill(&o.Discount, 1)
	if err := level("discount", o.Discount); err != nil {
		return nil, err
	}
	if _, err := (changeOptions{o.Change, o.HalfLife, o.Discount}).resolve(p.Timed); err != nil {
		return nil, err
	}
	g.discount = o.Discount
	d := p.Dim
	var wide *linalg.Ridge
	switch fill(&o.Pending, pendingNone); {
	case o.Pending == pendingNone:
	case o.Pending != hallucinate:
		return nil, oneOf("pending", o.Pending, pendingNone, hallucinate)
	case o.Discount < 1:
		return nil, spec.Refuse("pending", o.Pending, "but discount is %v: expected one of them", o.Discount)
	case o.Change == restarts:
		return nil, spec.Refuse("pending", o.Pending, "but change is %q: expected one of them", o.Change)
	default:
		wide = linalg.NewRidge(d, g.ridge.Lambda())
	}
	return &LinUCB{
		regression: g, wide: wide, eigen: linalg.NewEigen(d),
		theta: make([]float64, d), b: make([]float64, d), c: make([]float64, d),
	}, nil
}

// Select implements bandit.Policy. It uses no random numbers.
func (u *LinUCB) Select(dst *bandit.Action, set bandit.ActionSet, _ rng.Source) error {
	return u.choose(dst, set)
}

func (u *LinUCB) choose(dst *bandit.Action, set bandit.ActionSet) error {
	if err := checkSet(set, u.ridge.Dim()); err != nil {
		return err
	}
	r := u.Scale()
	switch set := set.(type) {
	case bandit.Finite:
		best, at := math.Inf(-1), 0
		prices, priced := set.(bandit.Priced)
		for i := range set.Len() {
			x := set.At(i)
			v := linalg.Dot(x, u.ridge.Theta()) + float64(r*math.Sqrt(u.widths().Width2(x)))
			if priced {
				v -= prices.Price(i)
			}
			if v > best {
				best, at = v, i
			}
		}
		dst.Set(set.At(at), at)
		return nil
	case bandit.UnitBall:
		if !u.farthest(r) {
			return fmt.Errorf("policy: linucb: eigenvalues of V⁻¹: %w", bandit.ErrNumerical)
		}
		_, err := set.ArgMax(dst, u.theta)
		return err
	}
	return fmt.Errorf("policy: linucb: optimism needs a finite set or the unit ball, this is %s, on which its maximum is "+
		"NP-hard in general: %w", described(set), bandit.ErrUnsupported)
}

// farthest stores in theta the point of the ellipsoid {θ̂ + r V^{-1/2} y : |y| ≤ 1} that is
// farthest from 0. In the eigenbasis of V⁻¹ = Σ w_i q_i q_iᵀ let c_i = ⟨q_i, θ̂⟩, a_i = r²w_i,
// b_i = √a_i c_i: the problem is to maximise Σ (c_i + √a_i y_i)² over |y| ≤ 1, a trust-region
// problem whose stationary points are
//
//	y_i = b_i/(μ − a_i),  μ ≥ max a,  with μ the root of Σ b_i²/(μ − a_i)² = 1.
//
// Everything is written in ν = μ − max a ≥ 0 and the gaps g_i = max a − a_i ≥ 0, so that nothing
// cancels when ν is tiny. s(ν) = Σ b_i²/(ν + g_i)² falls from its value at 0, and 1/√s is concave
// and nearly linear: Newton's method on 1/√s = 1 from the left climbs to the root without passing
// it. Each term is at most 1 at the root, so ν ≥ |b_i| − g_i is where it starts. The hard case is
// s(0) < 1, possible only when θ̂ has no part in the top eigenspace: then ν = 0 and the missing
// mass goes to a top eigenvector; both signs are equally far, we take +. Parts of θ̂ below its
// rounding error count as 0: they change the value by no more, and ν could be subnormal for them.
//
// It reports false when the eigenvalues fail. Cost 9d³ and a few iterations of 3d.
func (u *LinUCB) farthest(r float64) bool {
	if !u.eigen.Set(u.widths().Inv()) {
		return false
	}
	w, b, c := u.eigen.Values(), u.b, u.c
	top := 0
	for i := range w {
		if w[i] > w[top] {
			top = i
		}
	}
	gap := func(i int) float64 { return float64(r * r * (w[top] - w[i])) }
	negligible := max(0x1p-53*linalg.Norm(u.ridge.Theta()), 1e-100*r*math.Sqrt(w[top]))
	var lo, hi float64 // lo ≤ ν ≤ hi
	for i := range w {
		c[i] = linalg.Dot(u.eigen.Vector(i), u.ridge.Theta())
		if math.Abs(c[i]) <= negligible {
			c[i] = 0
		}
		b[i] = r * math.Sqrt(max(0, w[i])) * c[i]
		lo = max(lo, math.Abs(b[i])-gap(i))
	}
	hi = max(lo, linalg.Norm(b))

	nu, missing := lo, 0.0
	if lo == 0 {
		var s float64
		for i := range b {
			if b[i] != 0 { // then gap(i) ≥ |b_i| > 0, because lo is 0
				s += float64(b[i] / gap(i) * (b[i] / gap(i)))
			}
		}
		if s < 1 {
			missing = math.Sqrt(1 - s)
		}
	}
	if missing == 0 {
		for range 100 {
			var s, ds float64 // s(ν) and −s'(ν)/2
			for i := range b {
				if b[i] == 0 {
					continue
				}
				q := 1 / (nu + gap(i))
				y := b[i] * q
				s += float64(y * y)
				ds += float64(y * y * q)
			}
			root := math.Sqrt(s)
			if math.Abs(root-1) <= 4e-16*float64(len(b)) {
				break
			}
			if root > 1 {
				lo = nu
			} else {
				hi = nu
			}
			next := nu + float64(s*(root-1))/ds
			if !(next > lo && next < hi) {
				next = lo + float64((hi-lo)/2)
			}
			if next == nu || next == lo || next == hi {
				break
			}
			nu = next
		}
	}

	clear(u.theta)
	mu := nu + float64(r*r*w[top])
	for i := range c {
		if c[i] != 0 { // c_i + √a_i y_i = c_i (1 + a_i/(ν + g_i)) = c_i μ/(ν + g_i)
			linalg.Axpy(c[i]*(mu/(nu+gap(i))), u.eigen.Vector(i), u.theta)
		}
	}
	if missing > 0 {
		linalg.Axpy(missing*r*math.Sqrt(w[top]), u.eigen.Vector(top), u.theta)
	}
	return true
}

// Prob implements bandit.Prober: one action has probability 1.
func (u *LinUCB) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	return certain(dst, set, u.choose)
}

// Update implements bandit.Policy.
func (u *LinUCB) Update(a bandit.Action, y float64, _ rng.Source) error {
	if err := u.learn(a, y); err != nil || u.wide == nil {
		return err
	}
	if u.open > 0 { // it is in W
		u.open--
		return nil
	}
	return u.widen(a)
}

// Pends implements bandit.Pender.
func (u *LinUCB) Pends() bool { return u.wide != nil }

// Pend implements bandit.Pender.
func (u *LinUCB) Pend(a bandit.Action) error {
	if u.wide == nil {
		return nil
	}
	if err := checkAction(a, 0, u.ridge.Dim()); err != nil {
		return err
	}
	u.open++
	return u.widen(a)
}

// widen adds an action to W.
func (u *LinUCB) widen(a bandit.Action) error {
	if _, ok := u.wide.Update(a.X, 0); !ok {
		return fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	return nil
}

// widths is the regression whose V the widths are of.
func (u *LinUCB) widths() *linalg.Ridge {
	if u.wide != nil {
		return u.wide
	}
	return u.ridge
}

const (
	pendingNone = "none"
	hallucinate = "hallucinate"
)

// reckon implements hypothesis.
func (u *LinUCB) reckon(a bandit.Action, y float64, _ rng.Source) (predicted, error) {
	if err := checkAction(a, y, u.ridge.Dim()); err != nil {
		return predicted{}, err
	}
	e := y - linalg.Dot(a.X, u.ridge.Theta())
	q := max(0, u.ridge.Width2(a.X))
	return predicted{square: float64(e*e) / (1 + q), spread: logs.Log1p(q)}, u.learn(a, y)
}

// fade implements hypothesis.
func (u *LinUCB) fade(gamma float64) bool {
	return u.ridge.Forget(gamma, make([]float64, u.ridge.Dim()), 0)
}

// AppendSnapshot implements bandit.Snapshotter.
func (u *LinUCB) AppendSnapshot(b []byte) ([]byte, error) {
	if u.wide != nil {
		return appendSnapshot(b, "linucb-pending", append(append(u.ridge.State(), u.wide.State()...), []float64{float64(u.open)})), nil
	}
	return appendSnapshot(b, "linucb", u.ridge.State()), nil
}

// Restore implements bandit.Snapshotter.
func (u *LinUCB) Restore(b []byte) error {
	if u.wide != nil {
		n := u.ridge.StateLengths()
		v, err := readSnapshot(b, "linucb-pending", append(append(n, u.wide.StateLengths()...), 1))
		if err != nil {
			return err
		}
		u.ridge.Restore(v[:len(n)])
		u.wide.Restore(v[len(n) : 2*len(n)])
		u.open = int(v[2*len(n)][0])
		return nil
	}
	v, err := readSnapshot(b, "linucb", u.ridge.StateLengths())
	if err == nil {
		u.ridge.Restore(v)
	}
	return err
}

// Additive implements bandit.Additive.
func (u *LinUCB) Additive() error { return forgets(u.discount) }

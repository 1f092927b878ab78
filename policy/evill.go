package policy

import (
	"encoding/binary"
	"errors"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
)

// EVILLOptions configures exploration by perturbed maximum likelihood.
type EVILLOptions struct {
	A      float64 `key:"a" doc:"scale of the perturbation" default:"1"`
	Lambda float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
}

// Doc implements spec.Documented.
func (*EVILLOptions) Doc() string {
	return "EVILL on a logistic model: a fresh linear perturbation of the likelihood in each round (Janz et al. 2023); " +
		"keeps all events"
}

// New implements Options.
func (o *EVILLOptions) New(p Problem) (bandit.Policy, error) { return NewEVILL(*o, p) }

// EVILL is exploration via linearly perturbed loss minimisation (Janz, Liu, Ayoub and Szepesvári 2023, arXiv
// 2311.07565) for rewards in [0, 1] with a logistic mean. In each round, with θ̂ the regularised maximum
// likelihood estimate of all events,
//
//	W = a(√λ Z' + Σ_i √μ'(⟨x_i, θ̂⟩) Z_i x_i),   θ_t = argmin ℓ(θ) + λ/2‖θ‖² − ⟨W, θ⟩,
//
// Z' and Z_i fresh standard normals. Events of equal actions are kept together and perturbed together,
// which is the same law. There is no exact propensity.
//
// A rival for experiments: it keeps all events, and a round costs a few passes over the distinct actions,
// each d² and more. Rewards outside [0, 1], and a declared range other than that, are refused.
type EVILL struct {
	opts  EVILLOptions
	glm   likelihood
	w     []float64
	theta []float64
}

// NewEVILL returns the policy before round 1. The error names the option that is wrong.
func NewEVILL(o EVILLOptions, p Problem) (*EVILL, error) {
	fill(&o.A, 1)
	fill(&o.Lambda, 1)
	if err := checkLikelihood("evill", p, o.A, o.Lambda); err != nil {
		return nil, err
	}
	return &EVILL{opts: o, glm: newLikelihood(p.Dim, o.Lambda), w: make([]float64, p.Dim),
		theta: make([]float64, p.Dim)}, nil
}

// Select implements bandit.Policy. It uses numbers 0 to d − 1 of the source for Z', and number d + i for the
// i-th distinct action.
func (e *EVILL) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if err := checkSet(set, e.glm.d); err != nil {
		return err
	}
	draw.Normals(e.w, 0)
	scale := e.opts.A * math.Sqrt(e.opts.Lambda)
	for i := range e.w {
		e.w[i] *= scale
	}
	for i, g := range e.glm.groups {
		mu, rest := logs.Sigmoids(linalg.Dot(g.x, e.glm.theta))
		linalg.Axpy(e.opts.A*math.Sqrt(g.n*mu*rest)*draw.Normal(e.glm.d+i), g.x, e.w)
	}
	copy(e.theta, e.glm.theta)
	if !e.glm.minimise(e.theta, e.w) {
		return bandit.ErrNumerical
	}
	_, err := set.ArgMax(dst, e.theta)
	return err
}

// Update implements bandit.Policy. It draws nothing.
func (e *EVILL) Update(a bandit.Action, y float64, _ rng.Source) error {
	return e.glm.learn("evill", a, y)
}

// AppendSnapshot implements bandit.Snapshotter: all events.
func (e *EVILL) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "evill", e.glm.state()), nil
}

// Restore implements bandit.Snapshotter.
func (e *EVILL) Restore(b []byte) error {
	v, err := readSnapshot(b, "evill", []int{e.glm.d, -1})
	if err != nil {
		return err
	}
	return e.glm.restore(v)
}

// GLMESOptions configures ensemble sampling on perturbed maximum likelihood.
type GLMESOptions struct {
	A      float64 `key:"a" doc:"scale of the perturbation" default:"1"`
	Lambda float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
	M      int     `key:"m" doc:"members m: propensities are counts over 2m" default:"32"`
}

// Doc implements spec.Documented.
func (*GLMESOptions) Doc() string {
	return "ensemble sampling on a logistic model: members minimise a perturbed likelihood (Sun et al. 2025), without " +
		"the paper's warm-up and doubling, so its theorem is not about this policy"
}

// New implements Options.
func (o *GLMESOptions) New(p Problem) (bandit.Policy, error) { return NewGLMES(*o, p) }

// GLMES is ensemble sampling for rewards in [0, 1] with a logistic mean, after Sun, Wang and Xu (arXiv
// 2510.10730): member j minimises the likelihood with a linear perturbation that grows with the events,
//
//	S_0^j = √λ Z^j,   S_t^j = S_{t−1}^j + U_t^j √μ'(⟨X_t, θ̂_{t−1}⟩) X_t,   U ~ N(0, 1),
//	θ_t = argmin ℓ(θ) + λ/2‖θ‖² − aξ⟨S^J, θ⟩,
//
// J uniform, ξ a fair sign. The weights √μ' are those of EVILL. Events are kept as in EVILL.
type GLMES struct {
	opts  GLMESOptions
	glm   likelihood
	s     []float64 // m×d
	w     []float64
	theta []float64
	drawn []float64 // 2m×d: the models that were computed since the last update, where have
	have  []bool
}

// NewGLMES returns the policy before round 1. The error names the option that is wrong.
func NewGLMES(o GLMESOptions, p Problem) (*GLMES, error) {
	fill(&o.A, 1)
	fill(&o.Lambda, 1)
	fill(&o.M, 32)
	if err := checkLikelihood("glm-es", p, o.A, o.Lambda); err != nil {
		return nil, err
	}
	if err := checkMembers(o.M, p.Dim); err != nil {
		return nil, err
	}
	e := &GLMES{
		opts: o, glm: newLikelihood(p.Dim, o.Lambda), s: make([]float64, o.M*p.Dim),
		w: make([]float64, p.Dim), theta: make([]float64, p.Dim),
		drawn: make([]float64, 2*o.M*p.Dim), have: make([]bool, 2*o.M),
	}
	for j := range o.M {
		p.Init.Round(uint64(j)).Normals(e.s[j*p.Dim:j*p.Dim+p.Dim], 0)
	}
	for i := range e.s {
		e.s[i] *= math.Sqrt(o.Lambda)
	}
	return e, nil
}

// model computes θ of member j with sign ξ.
func (e *GLMES) model(j int, sign float64) error {
	d, k := e.glm.d, 2*j
	if sign < 0 {
		k++
	}
	kept := e.drawn[k*d : k*d+d]
	if !e.have[k] {
		for i, v := range e.s[j*d : j*d+d] {
			e.w[i] = sign * e.opts.A * v
		}
		copy(kept, e.glm.theta)
		if !e.glm.minimise(kept, e.w) {
			return bandit.ErrNumerical
		}
		e.have[k] = true
	}
	copy(e.theta, kept)
	return nil
}

// Select implements bandit.Policy. It uses numbers 0 (J) and 1 (ξ) of the source.
func (e *GLMES) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if err := checkSet(set, e.glm.d); err != nil {
		return err
	}
	if err := e.model(draw.Intn(0, e.opts.M), draw.Sign(1)); err != nil {
		return err
	}
	_, err := set.ArgMax(dst, e.theta)
	return err
}

// Prob implements bandit.Prober: a count over 2m.
func (e *GLMES) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	if err := checkSet(set, e.glm.d); err != nil {
		return err
	}
	return count(dst, set, uint64(2*e.opts.M), func(add func([]float64) error) error {
		for k := range 2 * e.opts.M {
			if err := e.model(k/2, float64(1-2*(k%2))); err != nil {
				return err
			}
			if err := add(e.theta); err != nil {
				return err
			}
		}
		return nil
	})
}

// Update implements bandit.Policy. Number j of the source perturbs member j.
func (e *GLMES) Update(a bandit.Action, y float64, draw rng.Source) error {
	if err := checkAction(a, y, e.glm.d); err != nil {
		return err
	}
	mu, rest := logs.Sigmoids(linalg.Dot(a.X, e.glm.theta))
	if err := e.glm.learn("glm-es", a, y); err != nil {
		return err
	}
	clear(e.have)
	d := e.glm.d
	for j := range e.opts.M {
		linalg.Axpy(math.Sqrt(mu*rest)*draw.Normal(j), a.X, e.s[j*d:j*d+d])
	}
	return nil
}

// AppendSnapshot implements bandit.Snapshotter: the members' perturbations and all events.
func (e *GLMES) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "glm-es", append(e.glm.state(), e.s)), nil
}

// Restore implements bandit.Snapshotter.
func (e *GLMES) Restore(b []byte) error {
	v, err := readSnapshot(b, "glm-es", []int{e.glm.d, -1, len(e.s)})
	if err != nil {
		return err
	}
	if err := e.glm.restore(v); err != nil {
		return err
	}
	copy(e.s, v[2])
	clear(e.have)
	return nil
}

func checkLikelihood(kind string, p Problem, a, lambda float64) error {
	if err := p.check(); err != nil {
		return err
	}
	if err := positive("a", a); err != nil {
		return err
	}
	if err := positive("lambda", lambda); err != nil {
		return err
	}
	if p.Dim > 2048 {
		return spec.Refuse("dimension", p.Dim, "%s expects at most 2048", kind)
	}
	return p.unitRange(kind)
}

// likelihood is the regularised logistic log-likelihood of all events, and its minimiser.
type likelihood struct {
	d      int
	lambda float64
	groups []clickGroup
	at     map[string]int // by the bytes of the action
	theta  []float64      // the minimiser

	zero, grad, old, h []float64
	f                  *linalg.Factor
	name               []byte
}

// clickGroup is n events of one action, with rewards that add up to y.
type clickGroup struct {
	x    []float64
	n, y float64
}

func newLikelihood(d int, lambda float64) likelihood {
	return likelihood{
		d: d, lambda: lambda, at: map[string]int{}, theta: make([]float64, d),
		zero: make([]float64, d), grad: make([]float64, d), old: make([]float64, d), h: make([]float64, d*d),
		f: linalg.NewFactor(d, lambda),
	}
}

// learn adds an event and finds the minimiser anew.
func (l *likelihood) learn(kind string, a bandit.Action, y float64) error {
	if err := checkAction(a, y, l.d); err != nil {
		return err
	}
	if !(y >= 0 && y <= 1) {
		return spec.Refuse("reward", y, "%s expects a number in [0, 1]", kind)
	}
	if !(linalg.Dot(a.X, a.X) <= 0x1p100) {
		return bandit.ErrNumerical
	}
	k, fresh := l.group(a.X)
	l.groups[k].n++
	l.groups[k].y += y
	theta := append([]float64(nil), l.theta...)
	if l.minimise(theta, l.zero) {
		copy(l.theta, theta)
		return nil
	}
	l.groups[k].n--
	l.groups[k].y -= y
	if fresh {
		l.groups = l.groups[:k]
		delete(l.at, string(l.name))
	}
	return bandit.ErrNumerical
}

// group returns the place of an action, which it makes when there is none.
func (l *likelihood) group(x []float64) (k int, fresh bool) {
	l.name = l.name[:0]
	for _, v := range x {
		l.name = binary.LittleEndian.AppendUint64(l.name, math.Float64bits(v))
	}
	k, ok := l.at[string(l.name)]
	if !ok {
		k = len(l.groups)
		l.at[string(l.name)] = k
		l.groups = append(l.groups, clickGroup{x: append([]float64(nil), x...)})
	}
	return k, !ok
}

// minimise moves theta to the minimiser of ℓ(θ) + λ/2‖θ‖² − ⟨w, θ⟩ by Newton's method with halved steps,
// until a step is shorter than 10⁻⁹ in the norm of the Hessian. It reports false when that does not happen.
func (l *likelihood) minimise(theta, w []float64) bool {
	d := l.d
	for range 100 {
		clear(l.h)
		for i, v := range theta {
			l.grad[i] = w[i] - float64(l.lambda*v)
			l.h[i*d+i] = l.lambda
		}
		for _, g := range l.groups {
			mu, rest := logs.Sigmoids(linalg.Dot(g.x, theta))
			linalg.Axpy(g.y-float64(g.n*mu), g.x, l.grad)
			c := float64(g.n*mu) * rest
			for i, v := range g.x {
				if v != 0 {
					linalg.Axpy(float64(c*v), g.x[:i+1], l.h[i*d:i*d+i+1])
				}
			}
		}
		if !l.f.Set(l.h) {
			return false
		}
		l.f.SolveL(l.grad)
		length := linalg.Norm(l.grad)
		l.f.SolveLT(l.grad)
		if !(length < math.MaxFloat64) {
			return false
		}
		copy(l.old, theta)
		before := l.loss(theta, w)
		for c := 1.0; ; c /= 2 {
			copy(theta, l.old)
			linalg.Axpy(c, l.grad, theta)
			if length < 1e-4 || c < 1e-12 || l.loss(theta, w) <= before {
				break
			}
		}
		if length < 1e-9 {
			return true
		}
	}
	return false
}

// loss returns ℓ(θ) + λ/2‖θ‖² − ⟨w, θ⟩.
func (l *likelihood) loss(theta, w []float64) float64 {
	s := float64(l.lambda/2*linalg.Dot(theta, theta)) - linalg.Dot(w, theta)
	for _, g := range l.groups {
		z := linalg.Dot(g.x, theta)
		s += float64(g.n*(math.Max(z, 0)+logs.Log1p(logs.Exp(-math.Abs(z))))) - float64(g.y*z)
	}
	return s
}

// state lists θ̂ and the events, d + 2 numbers for each distinct action.
func (l *likelihood) state() [][]float64 {
	events := make([]float64, 0, len(l.groups)*(l.d+2))
	for _, g := range l.groups {
		events = append(append(events, g.x...), g.n, g.y)
	}
	return [][]float64{l.theta, events}
}

func (l *likelihood) restore(v [][]float64) error {
	bad := errors.New("policy: snapshot holds no events of a logistic model")
	if len(v[1])%(l.d+2) != 0 {
		return bad
	}
	back := newLikelihood(l.d, l.lambda)
	for e := v[1]; len(e) > 0; e = e[l.d+2:] {
		n, y := e[l.d], e[l.d+1]
		k, fresh := back.group(e[:l.d])
		if !fresh || !(n >= 1 && n == math.Trunc(n) && y >= 0 && y <= n) {
			return bad
		}
		back.groups[k].n, back.groups[k].y = n, y
	}
	copy(back.theta, v[0])
	*l = back
	return nil
}

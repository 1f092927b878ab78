package policy

import (
	"errors"
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
	"troupe/theory"
)

// LogisticOptions configures atoms on a logistic model of clicks.
type LogisticOptions struct {
	A        float64  `key:"a" doc:"scale of the members, in posterior standard deviations" default:"1"`
	Lambda   float64  `key:"lambda" doc:"ridge parameter λ" default:"1"`
	BaseRate float64  `key:"base_rate" doc:"mean reward before the first event: the prior mean of an intercept of value 1" default:"0.5"`
	M        int      `key:"m" doc:"members m: propensities are counts over 2m" default:"32"`
	Key      string   `key:"key" doc:"when members are redrawn: decision, epoch, fixed or round, as for atoms" default:"decision"`
	Change   string   `key:"change" doc:"restarts: models begun at different times, weighted by what they predicted, notice a change; or none" default:"none"`
	HalfLife HalfLife `key:"half_life" doc:"with restarts: the number of later events after which an event counts half, or a time such as 7d; 0: events keep their weight while the world stays"`
}

// Doc implements spec.Documented.
func (*LogisticOptions) Doc() string {
	return "rewards in [0, 1]: atoms on a logistic model that learns in one pass (docs/design/auto.md)"
}

// New implements Options.
func (o *LogisticOptions) New(p Problem) (bandit.Policy, error) {
	one, err := NewLogistic(*o, p)
	if err != nil || one.opts.Change != restarts {
		return one, err
	}
	return newRestarts("logistic", one.opts, o.HalfLife, p, func() (hypothesis, error) { return NewLogistic(*o, p) })
}

func (o LogisticOptions) resolve(p Problem) (LogisticOptions, error) {
	fill(&o.A, 1)
	fill(&o.Lambda, 1)
	fill(&o.BaseRate, 0.5)
	if o.M == 0 {
		o.M = 32
	}
	if o.Key == "" {
		o.Key = theory.DecisionKey
	}
	if err := positive("a", o.A); err != nil {
		return o, err
	}
	if err := positive("lambda", o.Lambda); err != nil {
		return o, err
	}
	if err := checkBaseRate(o.BaseRate); err != nil {
		return o, err
	}
	c, err := changeOptions{change: o.Change, halfLife: o.HalfLife}.resolve(p.Timed)
	if err != nil {
		return o, err
	}
	o.Change = c.change
	if err := checkKey(o.Key); err != nil {
		return o, err
	}
	if err := p.unitRange("logistic"); err != nil {
		return o, err
	}
	return o, checkMembers(o.M, p.Dim)
}

func checkBaseRate(v float64) error {
	if !(v > 0 && v < 1) {
		return spec.Refuse("base_rate", v, "expected a number above 0 and below 1")
	}
	return nil
}

// unitRange refuses a declared range of rewards other than [0, 1].
func (p Problem) unitRange(what string) error {
	if (p.Low != 0 || p.High != 0) && (p.Low != 0 || p.High != 1) {
		return fmt.Errorf("%s needs rewards in [0, 1], the declared range is [%v, %v]: send (reward − %v)/%v and "+
			"declare [0, 1]",
			what, p.Low, p.High, p.Low, p.High-p.Low)
	}
	return nil
}

// Logistic is atoms on a logistic model, E[Y | x] = μ(⟨x, θ⟩), μ(s) = 1/(1 + e⁻ˢ), that is learned in
// one pass: no event is kept. State: H = λI and θ̂ = 0 at first. For reward y ∈ [0, 1] of x, with
// z = ⟨x, θ̂⟩ and q = xᵀH⁻¹x,
//
//	s = z + q(y − μ(s)),  θ̂ += (y − μ(s))·H⁻¹x,  H += μ'(s)·xxᵀ,
//
// so that the new θ̂ minimises ½‖θ − θ̂‖²_H + ℓ(θ), ℓ the logistic loss of (x, y): a step of implicit
// online mirror descent (its order of regret in arXiv 2507.11847). The models are
//
//	θ̂ + a·ξ·L⁻ᵀg(e, j),  LLᵀ = H,  ξ a fair sign, j < m,
//
// with the directions and keys of Atoms. arXiv 2311.07565 (EVILL) and 2510.10730 (GLM-ES) have theorems
// for relatives of this policy; none is a theorem about it. Where contexts vary by themselves, greedy
// play on the same model loses less.
//
// base_rate moves the origin: a logit is ⟨x, θ⟩ + log(base_rate/(1 − base_rate)), which is a prior mean of
// that size for an intercept of value 1 in each action, and needs no intercept.
//
// The state is a fold over the events and depends on their order; Merge is refused. Cost of a round:
// Select d²/2, one direction and one call of the oracle, Update 5d² and the root s (6 to 40 exponentials),
// Prob m·d²/2 + K·m·d. The state is d(d+1)/2 + d + 1 numbers.
type Logistic struct {
	models
	opts   LogisticOptions
	fold   logisticFold
	logRho float64
	g      directions
	member []float64
}

// NewLogistic returns the policy before round 1. The error names the option that is wrong; a declared
// range of rewards other than [0, 1] is refused.
func NewLogistic(o LogisticOptions, p Problem) (*Logistic, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	o, err := o.resolve(p)
	if err != nil {
		return nil, err
	}
	return &Logistic{
		models: newModels(o.M, p.Dim, true), opts: o, fold: newLogisticFold(p.Dim, o.Lambda, o.BaseRate),
		logRho: logs.Log(2), g: newDirections(p.Init, o.M, p.Dim), member: make([]float64, p.Dim),
	}, nil
}

// Options returns the configuration with every default filled in.
func (l *Logistic) Options() LogisticOptions { return l.opts }

// Theta returns θ̂. It belongs to the policy.
func (l *Logistic) Theta() []float64 { return l.fold.theta }

// Factor returns the Cholesky factor L of H. It belongs to the policy.
func (l *Logistic) Factor() *linalg.Factor { return l.fold.f }

// Mean returns the predicted reward μ(⟨x, θ̂⟩ + log(base_rate/(1 − base_rate))).
func (l *Logistic) Mean(x []float64) float64 { return l.fold.mean(x) }

// Scale returns a, the size of a member in posterior standard deviations.
func (l *Logistic) Scale() float64 { return l.opts.A }

// Key returns the key e of a decision, as Atoms.Key with det H and ρ = 2.
func (l *Logistic) Key(decision uint64) uint64 {
	return keyAt(l.opts.Key, decision, l.fold.n, l.fold.logDet(), l.logRho)
}

// solve stores all members of a decision in block, m×d.
func (l *Logistic) solve(block []float64, decision uint64) {
	l.fold.solve(block, &l.g, l.Key(decision))
}

// Model stores θ̂ + a ξ L⁻ᵀg(e, j) of a decision in dst, 0 ≤ j < m, sign ξ = ±1. Cost d²/2.
func (l *Logistic) Model(dst []float64, decision uint64, j int, sign float64) {
	copy(l.member, l.g.at(l.Key(decision), j))
	l.fold.f.SolveLT(l.member)
	shift(dst, l.fold.theta, sign*l.opts.A, l.member)
}

// Select implements bandit.Policy. It uses numbers 0 (J) and 1 (ξ) of the source.
func (l *Logistic) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	return l.choose(dst, set, draw, l.Model)
}

// Prob implements bandit.Prober: a count over 2m.
func (l *Logistic) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	return l.law(dst, set, draw.At(), l.fold.theta, l.opts.A, l.solve, l.Model)
}

// Update implements bandit.Policy. It draws nothing. A reward outside [0, 1] is refused.
func (l *Logistic) Update(x bandit.Action, y float64, _ rng.Source) error {
	if err := checkAction(x, y, l.d); err != nil {
		return err
	}
	return l.fold.learn("logistic", x.X, y)
}

// reckon implements hypothesis.
func (l *Logistic) reckon(x bandit.Action, y float64, _ rng.Source) (predicted, error) {
	if err := checkAction(x, y, l.d); err != nil {
		return predicted{}, err
	}
	like := l.fold.likelihood(x.X, y)
	if err := l.fold.learn("logistic", x.X, y); err != nil {
		return predicted{}, err
	}
	return predicted{like: like, knows: true}, nil
}

// fade implements hypothesis.
func (l *Logistic) fade(gamma float64) bool { return l.fold.fade(gamma) }

// Merge is refused: one-pass learning depends on the order of the events.
func (l *Logistic) Merge(*Logistic) error {
	return errors.New("policy: logistic models do not merge, they depend on the order of events: replay the merged log")
}

// AppendSnapshot implements bandit.Snapshotter.
func (l *Logistic) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "logistic", l.fold.state()), nil
}

// Restore implements bandit.Snapshotter.
func (l *Logistic) Restore(b []byte) error {
	v, err := readSnapshot(b, "logistic", lengthsOf(l.fold.state()))
	if err != nil {
		return err
	}
	if !l.fold.valid(v) {
		return errors.New("policy: snapshot holds no state of a logistic regression")
	}
	l.fold.put(v)
	return nil
}

// logisticFold is the one-pass logistic regression of Logistic.
type logisticFold struct {
	f      *linalg.Factor // of H
	theta  []float64
	lambda float64
	offset float64 // log(base_rate/(1 − base_rate))
	n      uint64
	u      []float64 // scratch
}

func newLogisticFold(d int, lambda, baseRate float64) logisticFold {
	offset := 0.0
	if baseRate != 0.5 {
		offset = logs.Log(baseRate) - logs.Log1p(-baseRate)
	}
	return logisticFold{
		f: linalg.NewBlockFactor(d, lambda), theta: make([]float64, d), lambda: lambda, offset: offset,
		u: make([]float64, d),
	}
}

func (l *logisticFold) mean(x []float64) float64 {
	return logs.Sigmoid(linalg.Dot(x, l.theta) + l.offset)
}

// logDet returns log det H/λ^d.
func (l *logisticFold) logDet() float64 {
	return max(0, l.f.LogDet()-float64(float64(l.f.Dim())*logs.Log(l.lambda)))
}

// solve stores L⁻ᵀg(key, j) in row j of block.
func (l *logisticFold) solve(block []float64, g *directions, key uint64) {
	for j := range g.have {
		copy(block[j*g.d:j*g.d+g.d], g.at(key, j))
	}
	l.f.SolveLTRows(block)
}

// likelihood returns y·log p + (1 − y)·log(1 − p) before y is learned, p = μ(z/√(1 + πq/8)): the mean of μ over
// N(z, q), nearly (MacKay 1992).
func (l *logisticFold) likelihood(x []float64, y float64) float64 {
	copy(l.u, x)
	l.f.SolveL(l.u)
	z := linalg.Dot(x, l.theta) + l.offset
	p, rest := logs.Sigmoids(z / math.Sqrt(1+float64(math.Pi/8*linalg.Dot(l.u, l.u))))
	const least = 0x1p-60
	return float64(y*logs.Log(max(p, least))) + float64((1-y)*logs.Log(max(rest, least)))
}

// fade makes all events count gamma times less: H' = γH + (1 − γ)λI, and θ̂ is what minimises
// γ/2‖θ − θ̂‖²_H + (1 − γ)λ/2‖θ‖². Cost d³.
func (l *logisticFold) fade(gamma float64) bool {
	d := l.f.Dim()
	h, b := make([]float64, d*d), make([]float64, d)
	lower := l.f.L()
	for i := range d {
		for j := range i + 1 {
			v := float64(gamma * linalg.Dot(lower[i*d:i*d+j+1], lower[j*d:j*d+j+1]))
			if i == j {
				v += float64((1 - gamma) * l.lambda)
			}
			h[i*d+j], h[j*d+i] = v, v
		}
	}
	for i := range d { // Lᵀθ̂
		for j := range i + 1 {
			b[j] += float64(lower[i*d+j] * l.theta[i])
		}
	}
	f := linalg.NewBlockFactor(d, l.lambda)
	if !f.Set(h) {
		return false
	}
	theta := make([]float64, d)
	l.f.MulL(theta, b)
	for i := range theta {
		theta[i] *= gamma
	}
	f.SolveL(theta)
	f.SolveLT(theta)
	if !linalg.Finite(theta) {
		return false
	}
	l.f, l.theta = f, theta
	return true
}

// learn does the step of Logistic. It refuses what it cannot learn and has changed nothing then.
func (l *logisticFold) learn(kind string, x []float64, y float64) error {
	if !(y >= 0 && y <= 1) {
		return fmt.Errorf("policy: reward is %v, %s expects a number in [0, 1]", y, kind)
	}
	if !(linalg.Dot(x, x) <= 0x1p899) {
		return fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	copy(l.u, x)
	l.f.SolveL(l.u)
	q := linalg.Dot(l.u, l.u)
	z := linalg.Dot(x, l.theta) + l.offset
	if math.IsInf(q, 0) || z-z != 0 {
		return fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	s, _ := logs.LogisticRoot(z, q, y)
	l.f.SolveLT(l.u) // H⁻¹x
	mu, rest := logs.Sigmoids(s)
	linalg.Axpy(logs.Residual(y, s, mu, rest), l.u, l.theta)
	weight := math.Sqrt(mu * rest)
	for i, v := range x {
		l.u[i] = weight * v
	}
	l.f.Update(l.u)
	l.n++
	return nil
}

func (l *logisticFold) state() [][]float64 {
	return [][]float64{l.f.Pack(), l.theta, {float64(l.n)}}
}

// valid reports whether v can be put back.
func (l *logisticFold) valid(v [][]float64) bool {
	least := math.Sqrt(l.lambda) * (1 - 1e-6) // H ⪰ λI
	for i, at := 0, 0; i < l.f.Dim(); i++ {
		at += i
		if !(v[0][at] >= least) {
			return false
		}
		at++
	}
	n := v[2][0]
	return n >= 0 && n <= 1<<53 && n == math.Trunc(n)
}

// put puts back what state returned and valid has seen.
func (l *logisticFold) put(v [][]float64) {
	l.f.Unpack(v[0], 0)
	copy(l.theta, v[1])
	l.n = uint64(v[2][0])
}

// Redraws implements bandit.Redrawer.
func (l *Logistic) Redraws() bool { return l.opts.Key == theory.DecisionKey }

// Resolved implements Resolver.
func (l *Logistic) Resolved() any { return l.opts }

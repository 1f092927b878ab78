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
)

// LazyOptions configures a lazily refreshed ensemble.
type LazyOptions struct {
	M        int     `key:"m" doc:"number of members" default:"8"`
	Rho      float64 `key:"rho" doc:"growth of det V at which the members are redrawn" default:"2"`
	Lambda   float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
	Delta    float64 `key:"delta" doc:"confidence level δ, for beta and betatilde" default:"0.1"`
	Scale    Scale   `key:"scale" doc:"perturbation scale r_t" default:"constant σ"`
	OneSided bool    `key:"symmetric" doc:"draw a sign too, so that 2m models take part" not:"true"`
}

// Doc implements spec.Documented.
func (*LazyOptions) Doc() string {
	return "members frozen until det V doubles, then redrawn (docs/papers/atoms.md)"
}

// New implements Options.
func (o *LazyOptions) New(p Problem) (bandit.Policy, error) { return NewLazy(*o, p) }

// Lazy is the frozen form of Atoms. The members are drawn at a refresh and kept until the next one,
// which comes when det V_t ≥ ρ det V_ref, V_ref being V at the last refresh:
//
//	θ_t = θ̂_{t−1} + r_{t−1} ξ_t P^{J_t},  P^j = L_ref⁻ᵀ g(e, j),  V_ref = L_ref L_refᵀ,
//
// e the number of refreshes so far. θ̂ is always the current one. Between refreshes a member is too
// wide by at most a factor √ρ, which is the price in the bound (docs/papers/atoms.md); in exchange a
// decision costs no more than d and the oracle. Unlike Atoms the refresh times depend on the order
// of the events, so the state is a fold over the log and not a sum: Merge adds V and b and then
// refreshes.
//
// Cost of a round: Select d and one call of the oracle (d²/2 more for a member's first time after a
// refresh), Update 4d², Prob K·m·d. The state is (d+1)² + d numbers beside a cache of m·d.
type Lazy struct {
	atomic
	opts      LazyOptions
	logRho    float64
	ref       *linalg.Factor // L_ref
	refLogDet float64        // log det V_ref/λ^d
	epoch     uint64

	g     directions
	drawn []float64 // m×d: P^j where have[j]
	have  []bool
}

// NewLazy returns the policy before round 1. The error names the option that is wrong.
func NewLazy(o LazyOptions, p Problem) (*Lazy, error) {
	if o.M == 0 {
		o.M = 8
	}
	if o.Rho == 0 {
		o.Rho = 2
	}
	if o.Lambda == 0 {
		o.Lambda = 1
	}
	if err := checkMembers(o.M, p.Dim); err != nil {
		return nil, err
	}
	if !(o.Rho > 1) || math.IsInf(o.Rho, 0) {
		return nil, spec.Refuse("rho", o.Rho, "expected a number above 1")
	}
	core, err := newAtomic(p, o.M, o.Lambda, o.Delta, o.Scale, !o.OneSided)
	if err != nil {
		return nil, err
	}
	d := p.Dim
	return &Lazy{
		atomic: core, opts: o, logRho: logs.Log(o.Rho), ref: linalg.NewBlockFactor(d, o.Lambda),
		g: newDirections(p.Init, o.M, d), drawn: make([]float64, o.M*d), have: make([]bool, o.M),
	}, nil
}

// Options returns the configuration with every default filled in.
func (l *Lazy) Options() LazyOptions { return l.opts }

// Epoch returns the number of refreshes so far.
func (l *Lazy) Epoch() uint64 { return l.epoch }

// Member returns P^j, 0 ≤ j < m. It belongs to the policy and must not be changed.
func (l *Lazy) Member(j int) []float64 {
	d := l.root.Dim()
	p := l.drawn[j*d : j*d+d]
	if !l.have[j] {
		copy(p, l.g.at(l.epoch, j))
		l.ref.SolveLT(p)
		l.have[j] = true
	}
	return p
}

// solve stores all members in block, m×d, the same for each decision.
func (l *Lazy) solve(block []float64, _ uint64) {
	for j := range l.m {
		l.Member(j)
	}
	copy(block, l.drawn)
}

// Model stores θ̂ + r ξ P^j in dst, 0 ≤ j < m, sign ξ = ±1. It does not depend on the decision.
func (l *Lazy) Model(dst []float64, _ uint64, j int, sign float64) {
	shift(dst, l.root.Theta(), sign*l.Scale(), l.Member(j))
}

// Select implements bandit.Policy. It uses numbers 0 (J) and 1 (ξ) of the source.
func (l *Lazy) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	return l.choose(dst, set, draw, l.Model)
}

// Update implements bandit.Policy. It takes no number from the source: a refresh draws from the init
// stream, by its number.
func (l *Lazy) Update(x bandit.Action, y float64, _ rng.Source) error {
	if err := l.learn(x, y); err != nil {
		return err
	}
	if l.root.LogDetRatio() >= l.refLogDet+l.logRho {
		l.refresh(l.epoch + 1)
	}
	return nil
}

func (l *Lazy) refresh(epoch uint64) {
	l.ref.Copy(l.root.Factor())
	l.refLogDet = l.root.LogDetRatio()
	l.epoch = epoch
	clear(l.have)
}

// Prob implements bandit.Prober: a count over Models().
func (l *Lazy) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	return l.law(dst, set, 0, l.root.Theta(), l.Scale(), l.solve, l.Model)
}

// Merge adds the events that another policy of equal configuration has seen and refreshes the
// members. It returns an error, and changes nothing, when the configurations differ. It implements bandit.Merger.
func (l *Lazy) Merge(other bandit.Policy) error {
	o, ok := other.(*Lazy)
	if !ok {
		return fmt.Errorf("policy: merge of a lazy ensemble with a %T: %w", other, bandit.ErrUnsupported)
	}
	if l.opts != o.opts || l.root.Dim() != o.root.Dim() || l.g.stream != o.g.stream {
		return errors.New("policy: merge of lazy ensembles with different options or different streams")
	}
	if err := l.merge(o.atomic); err != nil {
		return err
	}
	l.refresh(max(l.epoch, o.epoch) + 1)
	return nil
}

// AppendSnapshot implements bandit.Snapshotter.
func (l *Lazy) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "lazy", l.state()), nil
}

func (l *Lazy) state() [][]float64 {
	return append(l.root.State(), l.ref.Pack(), []float64{float64(l.epoch), l.refLogDet})
}

// Restore implements bandit.Snapshotter.
func (l *Lazy) Restore(b []byte) error {
	v, err := readSnapshot(b, "lazy", lengthsOf(l.state()))
	if err != nil {
		return err
	}
	bad := errors.New("policy: snapshot holds no state of a regression")
	last := v[len(v)-1]
	ref := linalg.NewBlockFactor(l.root.Dim(), l.opts.Lambda)
	if e := last[0]; !(e >= 0 && e <= 1<<53 && e == math.Trunc(e)) || !ref.Unpack(v[len(v)-2],
		math.Sqrt(l.opts.Lambda)*(1-1e-6)) {
		return bad
	}
	if !l.root.Restore(v) {
		return bad
	}
	l.ref, l.epoch, l.refLogDet = ref, uint64(last[0]), last[1]
	clear(l.have)
	return nil
}

// View implements bandit.Viewer.
func (l *Lazy) View(dst *bandit.View, decision uint64) bool {
	*dst = bandit.View{M: l.m, Signs: bandit.SignsOf(l.symmetric), Scale: constantly(l.Scale()),
		Model: func(theta []float64, j int, xi float64) { l.Model(theta, decision, j, xi) }}
	return true
}

// Additive implements bandit.Additive.
func (l *Lazy) Additive() error { return nil }

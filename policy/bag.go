package policy

import (
	"errors"
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
	"troupe/spec"
)

// BagOptions configures the online bootstrap. The zero value is the default of a spec file.
type BagOptions struct {
	// M is the number of bootstrap replicates; 0 means 16.
	M int `key:"m" doc:"number of bootstrap replicates" default:"16"`
	// Weights is the law of the weight of an event in a replicate: "poisson" (the default), or
	// "double-or-nothing", which is 0 or 2 with probability ½ each.
	Weights string `key:"weights" doc:"weight of an event in a replicate: poisson (mean 1), or double-or-nothing" default:"poisson"`
	// Init is where replicates begin: "prior" at N(0, σ²/λ·I), so that they differ before the first reward (the
	// default), or "none" at 0.
	Init string `key:"init" doc:"first parameter of a replicate: prior = N(0, σ²/λ·I), or none = 0" default:"prior"`
	// Lambda is the ridge parameter λ > 0; 0 means 1.
	Lambda float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
}

// Doc implements spec.Documented.
func (*BagOptions) Doc() string {
	return "online bootstrap: a random one of m regressions on reweighted events (Eckles & Kaptein 2019; VW --bag). " +
		"Unlike VW's, replicates are ridge regressions and begin at a random prior (init = \"none\": at 0, as there)"
}

// New implements Options.
func (o *BagOptions) New(p Problem) (bandit.Policy, error) { return NewBag(*o, p) }

func (o BagOptions) defaults() BagOptions {
	fill(&o.M, 16)
	fill(&o.Weights, "poisson")
	fill(&o.Init, "prior")
	fill(&o.Lambda, 1)
	return o
}

func (o BagOptions) check(d int) error {
	if most := maxSums / (d * (d + 4)); o.M < 1 || o.M > most {
		return spec.Refuse("m", o.M, "expected at least 1 and at most %d in dimension %d", most, d)
	}
	for _, err := range []error{
		oneOf("weights", o.Weights, "poisson", "double-or-nothing"), oneOf("init", o.Init, "prior", "none"),
		positive("lambda", o.Lambda),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// Bag is bootstrap Thompson sampling with the online bootstrap (Eckles & Kaptein 2019, Sage Open 9(2);
// --cb_explore_adf --bag of Vowpal Wabbit): replicate j is a ridge regression in which event i counts
// W_i^j times,
//
//	V_t^j = λI + Σ W_i^j X_iX_iᵀ,  b_t^j = b_0^j + Σ W_i^j Y_iX_i,  θ_t^j = (V_t^j)⁻¹b_t^j,  X_t ∈ argmax ⟨x, θ_{t−1}^{J_t}⟩,
//
// with W_i^j independent, Poisson(1) or 2·Bernoulli(½), and J_t uniform on the m replicates. Its law is
// exact: a count over m. With b_0^j = 0 all replicates begin equal, as in Vowpal Wabbit, and an action
// that no replicate tries is never learned about; with init = "prior" b_0^j ~ N(0, λσ²I) (the randomised
// prior of Osband, Aslanides & Cassirer 2018). The replicates explore the noise that is in the rewards,
// so the policy has no noise scale.
//
// Cost of a round: Select one call of the oracle, Update 4md² (the share of replicates with W > 0), Prob m
// calls of the oracle. State: m·(d(d+1)/2 + d + 1) numbers.
type Bag struct {
	opts     BagOptions
	d        int
	replicas []*linalg.Root
	columns  rng.Columns
	x        []float64 // √W·X
}

// NewBag returns the policy before round 1. The error names the option that is wrong.
func NewBag(o BagOptions, p Problem) (*Bag, error) {
	if err := p.check(); err != nil {
		return nil, err
	}
	o = o.defaults()
	if err := o.check(p.Dim); err != nil {
		return nil, err
	}
	b := &Bag{opts: o, d: p.Dim, x: make([]float64, p.Dim)}
	z := make([]float64, p.Dim) // L⁻¹b_0 for L = √λI
	for j := range o.M {
		r := linalg.NewRoot(p.Dim, o.Lambda)
		if o.Init == "prior" {
			p.Init.Round(uint64(j)).Normals(z, 0)
			for i := range z {
				z[i] *= p.sigma()
			}
			state := r.State()
			if !r.Restore([][]float64{state[0], z, state[2]}) {
				return nil, fmt.Errorf("policy: bag: the first parameters: %w", bandit.ErrNumerical)
			}
		}
		b.replicas = append(b.replicas, r)
	}
	return b, nil
}

// Options returns the configuration with every default filled in.
func (b *Bag) Options() BagOptions { return b.opts }

// Model stores θ^j in dst, 0 ≤ j < m.
func (b *Bag) Model(dst []float64, j int) { copy(dst, b.replicas[j].Theta()) }

// Select implements bandit.Policy. It uses number 0 (J) of the source.
func (b *Bag) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if err := checkSet(set, b.d); err != nil {
		return err
	}
	_, err := set.ArgMax(dst, b.replicas[draw.Intn(0, len(b.replicas))].Theta())
	return err
}

// Prob implements bandit.Prober: a count over the m replicates.
func (b *Bag) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	if err := checkSet(set, b.d); err != nil {
		return err
	}
	return count(dst, set, uint64(len(b.replicas)), func(add func([]float64) error) error {
		for _, r := range b.replicas {
			if err := add(r.Theta()); err != nil {
				return err
			}
		}
		return nil
	})
}

// bagLimit bounds ‖x‖² and y², so that no replicate refuses what another has learned.
const bagLimit = 0x1p800

// Update implements bandit.Policy: word j of the column layout of the source is W^j.
func (b *Bag) Update(a bandit.Action, y float64, draw rng.Source) error {
	if err := checkAction(a, y, b.d); err != nil {
		return err
	}
	if !(linalg.Dot(a.X, a.X)+float64(y*y) <= bagLimit) {
		return fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	for j, word := range b.columns.Words(draw, len(b.replicas)) {
		w := b.weight(word)
		if w == 0 {
			continue
		}
		c := math.Sqrt(float64(w))
		for i, v := range a.X {
			b.x[i] = c * v
		}
		b.replicas[j].Update(b.x, c*y)
	}
	return nil
}

// poissonSteps[k] is P(W ≤ k) for W ~ Poisson(1), in units of 2⁻³² and rounded to the nearest: word w
// stands for the number of steps that are at most w. The last step is 2³² to rounding, so W ≤ 12.
var poissonSteps = func() (steps [12]uint64) {
	p := 0.36787944117144233 // e⁻¹
	sum := 0.0
	for k := range steps {
		sum += p
		p /= float64(k + 1)
		steps[k] = uint64(math.Round(sum * 0x1p32))
	}
	return steps
}()

// weight turns a word into W.
func (b *Bag) weight(word uint32) int {
	if b.opts.Weights != "poisson" {
		return 2 * int(word>>31)
	}
	w := 0
	for w < len(poissonSteps) && uint64(word) >= poissonSteps[w] {
		w++
	}
	return w
}

// Warnings implements bandit.Warner.
func (b *Bag) Warnings(bandit.ActionSet) []string {
	if b.opts.Init == "prior" {
		return nil
	}
	return []string{`bag with init = "none" begins with equal replicates: where the first rewards are equal, or the set is not ` +
		`finite, it may never try most actions, and its regret can grow linearly; take init = "prior"`}
}

func (b *Bag) kind() string { return "bag " + b.opts.Weights }

// AppendSnapshot implements bandit.Snapshotter.
func (b *Bag) AppendSnapshot(dst []byte) ([]byte, error) {
	return appendSnapshot(dst, b.kind(), b.state()), nil
}

func (b *Bag) state() (v [][]float64) {
	for _, r := range b.replicas {
		v = append(v, r.State()...)
	}
	return v
}

// Restore implements bandit.Snapshotter.
func (b *Bag) Restore(from []byte) error {
	v, err := readSnapshot(from, b.kind(), lengthsOf(b.state()))
	if err != nil {
		return err
	}
	replicas := make([]*linalg.Root, len(b.replicas))
	for j := range replicas {
		replicas[j] = linalg.NewRoot(b.d, b.opts.Lambda)
		if !replicas[j].Restore(v[3*j : 3*j+3]) {
			return fmt.Errorf("policy: snapshot holds no state of replicate %d", j)
		}
	}
	b.replicas = replicas
	return nil
}

// Additive implements bandit.Additive.
func (b *Bag) Additive() error {
	return errors.New("events count by random weights, whose spread a cap would change")
}

package policy

import (
	"errors"
	"math"

	"troupe/bandit"
	"troupe/internal/paged"
	"troupe/rng"
	"troupe/spec"
	"troupe/theory"
)

// SparseOptions configures one model on hashed coordinates.
type SparseOptions struct {
	Bits   int       `key:"bits" doc:"2^bits coordinates; 0: as many as the action set has, where the features say bits" default:"0"`
	M      int       `key:"m" doc:"members m: propensities are counts over 2m" default:"16"`
	A      float64   `key:"a" doc:"scale of the members in units of the estimated noise" default:"1"`
	Lambda float64   `key:"lambda" doc:"precision of a coordinate before its first event" default:"1"`
	Eta    float64   `key:"eta" doc:"learning rate of AdaGrad" default:"0.05"`
	Link   string    `key:"link" doc:"linear or logistic" default:"linear"`
	Key    string    `key:"key" doc:"when members are redrawn: decision (for each), or coordinate (of a coordinate, when its precision has doubled; slow, for experiments)" default:"decision"`
	Range  []float64 `key:"range" doc:"[min, max] of rewards, folded to [0, 1]; one outside is refused. Missing: [0, 1], and it widens (not with the logistic link)"`
}

// Doc implements spec.Documented.
func (*SparseOptions) Doc() string {
	return "AdaGrad weights and a diagonal precision on up to 2^28 hashed coordinates, members computed"
}

// New implements Options.
func (o *SparseOptions) New(p Problem) (bandit.Policy, error) { return NewSparse(*o, p) }

func (o SparseOptions) resolve(p Problem) (SparseOptions, error) {
	need := 10
	for need < 32 && p.Dim > 1<<need {
		need++
	}
	switch {
	case o.Bits == 0:
		o.Bits = need
	case o.Bits < need:
		return o, spec.Refuse("bits", o.Bits, "but the features have %d coordinates, expected at least %d", p.Dim, need)
	}
	fill(&o.M, 16)
	fill(&o.A, 1)
	fill(&o.Lambda, 1)
	fill(&o.Eta, 0.05)
	fill(&o.Link, linear)
	fill(&o.Key, theory.DecisionKey)
	if o.Range == nil && p.Low < p.High {
		o.Range = []float64{p.Low, p.High}
	}
	if err := oneOf("link", o.Link, linear, logistic); err != nil {
		return o, err
	}
	if err := oneOf("key", o.Key, theory.DecisionKey, coordinateKey); err != nil {
		return o, err
	}
	return o, checkSparse(o.Bits, o.M, o.A, o.Lambda, o.Eta, o.Range)
}

// Words of the option link, and the most members.
const (
	linear   = "linear"
	logistic = "logistic"

	coordinateKey = "coordinate" // of the option key

	maxSparseMembers = 1024
)

// checkSparse checks the numbers of a sparse model.
func checkSparse(bits, m int, a, lambda, eta float64, r []float64) error {
	if bits < 10 || bits > 28 {
		return spec.Refuse("bits", bits, "expected 10 to 28")
	}
	if m < 1 || m > maxSparseMembers {
		return spec.Refuse("m", m, "expected at least 1 and at most %d", maxSparseMembers)
	}
	for _, o := range []struct {
		key string
		v   float64
	}{{"a", a}, {"lambda", lambda}, {"eta", eta}} {
		if err := positive(o.key, o.v); err != nil {
			return err
		}
	}
	if r == nil {
		return nil
	}
	if len(r) != 2 {
		return spec.Refuse("range", r, "expected [min, max]")
	}
	if w := r[1] - r[0]; !(r[0] < r[1]) || math.IsInf(w, 0) || w < 1e-300 {
		return spec.Refuse("range", r, "expected finite min < max")
	}
	return nil
}

// Sparse is linear ensemble sampling with a diagonal precision on the nonzeros of hashed vectors. Its
// state is three numbers for each touched coordinate of 2^bits: the weight w, the sum G of squared
// gradients and the precision A. For reward y ∈ [0, 1] of x, with z = ⟨x, w⟩ before the update and nnz
// nonzeros,
//
//	g = (z − y)·x_i,  G_i += g²·nnz,  w_i −= η·g·√nnz/√G_i,  A_i += |x_i|·‖x‖₁   (A = λ at first)
//	member j: w_i + a·σ̂·ξ·g(i, e, j)/√A_i,  ξ a fair sign,  σ̂² = (¼ + RSS)/(1 + n)
//
// with RSS += e²/(1 + Σ x_i²/A_i) over the one-step errors e = y − z. Since Σ diag(|x_i|‖x‖₁) ⪰ Σ xxᵀ, the
// members are never wider than those of ridge regression; on directions that share coordinates and were
// never seen together they are narrower. No theorem covers this: the scale a is measured
// (docs/record/sparse.md).
//
// No member is kept: g(i, e, j) ~ N(0, 1) is computed from the init stream with the number e of the
// decision, draw.At(). Given e the law is a count over the 2m members; over all e it does not depend
// on m, which is only the resolution of a propensity. With key = "coordinate" e is ⌊log₂(A_i/λ)⌋, so that
// members stay while little is learned of their coordinates; then the law given the data is a count, and
// m matters as in an ensemble.
//
// With the logistic link ⟨x, w⟩ is a logit, the gradient (μ(z) − y)·x_i, A_i += μ'(s)·|x_i|·‖x‖₁ with s
// the root of s = z + q(y − μ(s)), q = Σ x_i²/A_i, and σ̂ = 1.
//
// Vectors should have norm 1: the features divide by the norm. Cost: Update O(nnz); Select one member,
// O(nonzeros of the set); Prob m members, whose blocks of 16 share one reading of the state. Memory: 45 to
// 90 bytes for a touched coordinate, 34 when all are touched, whatever m is.
type Sparse struct {
	opts    SparseOptions
	input   sparseInput
	members sparseMembers
	play    view
	folds   [1]*sparseFold
	numbers [2]float64 // lo, hi
}

// NewSparse returns the policy before round 1. The error names the option that is wrong.
func NewSparse(o SparseOptions, p Problem) (*Sparse, error) {
	o, err := o.resolve(p)
	if err != nil {
		return nil, err
	}
	fold := &sparseFold{cells: paged.New(o.Bits), lambda: o.Lambda, eta: o.Eta, logistic: o.Link == logistic}
	s := &Sparse{
		opts: o, members: newSparseMembers(p.Init, o.M), folds: [1]*sparseFold{fold}, numbers: [2]float64{0, 1},
		input: sparseInput{kind: "sparse", dim: p.Dim, most: 1 << o.Bits, fixed: o.Range != nil || fold.logistic},
		play:  view{fold: fold, mask: math.MaxUint32, limit: math.MaxUint64},
	}
	s.members.coordinates = o.Key == coordinateKey
	copy(s.numbers[:], o.Range)
	return s, nil
}

// Options returns the configuration with every default filled in.
func (s *Sparse) Options() SparseOptions { return s.opts }

// Dim returns 2^bits, the largest dimension of a set.
func (s *Sparse) Dim() int { return 1 << s.opts.Bits }

// Touched returns the number of coordinates that some action has had.
func (s *Sparse) Touched() int { return s.folds[0].cells.Touched() }

// Sigma returns σ̂.
func (s *Sparse) Sigma() float64 { return s.folds[0].sigma() }

// Coordinate returns w, A and G of coordinate i < Dim. An untouched one has (0, λ, 1e-8).
func (s *Sparse) Coordinate(i uint32) (w, a, g float64) {
	c := s.folds[0].cells.Cell(i)
	return c.W, s.opts.Lambda + c.A, max(c.G, firstG)
}

// Weight returns the weight at coordinate i and the standard deviation of the members there: in units of the reward, or
// with the logistic link of the logit. ok is false where no action has had the coordinate.
func (s *Sparse) Weight(i uint32) (w, spread float64, ok bool) {
	scale := 1.0
	if !s.folds[0].logistic {
		scale = s.numbers[1] - s.numbers[0]
	}
	return s.folds[0].weight(i, scale, s.opts.A)
}

// Estimate returns the reward that is expected of a vector.
func (s *Sparse) Estimate(at []uint32, x []float64) float64 {
	z, _ := s.folds[0].predict(at, x, 1, math.MaxUint32)
	return s.numbers[0] + float64((s.numbers[1]-s.numbers[0])*s.folds[0].mean(z))
}

// Score implements bandit.Scorer.
func (s *Sparse) Score(a bandit.Action) float64 { return s.Estimate(a.At, a.X) }

// Playing returns the link, and that all coordinates are read.
func (s *Sparse) Playing() (link string, pairs bool) { return s.opts.Link, true }

// Select implements bandit.Policy. It uses numbers 0 (the member) and 1 (the sign) of the source.
func (s *Sparse) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	list, err := s.input.open(set)
	if err != nil {
		return err
	}
	s.members.price(set, s.numbers[0], s.numbers[1], s.folds[0].logistic)
	return s.members.choose(dst, &s.play, s.opts.A, list, draw)
}

// Prob implements bandit.Prober: a count over the 2m members of this decision.
func (s *Sparse) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	list, err := s.input.open(set)
	if err != nil {
		return err
	}
	s.members.price(set, s.numbers[0], s.numbers[1], s.folds[0].logistic)
	return s.members.law(dst, &s.play, s.opts.A, list, draw)
}

// Update implements bandit.Policy. It draws nothing.
func (s *Sparse) Update(a bandit.Action, y float64, _ rng.Source) error {
	at, x, err := s.input.read(a, y)
	if err != nil {
		return err
	}
	lo, hi, err := s.input.widened(s.numbers[0], s.numbers[1], y)
	if err != nil {
		return err
	}
	if w := hi - lo; lo != s.numbers[0] || hi != s.numbers[1] {
		s.folds[0].rescale((s.numbers[1]-s.numbers[0])/w, (s.numbers[0]-lo)/w)
		s.numbers = [2]float64{lo, hi}
	}
	s.folds[0].learn(at, x, 1, math.MaxUint32, (y-lo)/(hi-lo))
	return nil
}

// Merge is refused: weights depend on the order of events.
func (s *Sparse) Merge(*Sparse) error { return errNoMerge }

var errNoMerge = errors.New("policy: the weights of sparse models depend on the order of events and cannot be " +
	"merged; replay the merged log")

// AppendSnapshot implements bandit.Snapshotter: the touched coordinates.
func (s *Sparse) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSparse(b, "sparse", s.numbers[:], s.folds[:]), nil
}

// Restore implements bandit.Snapshotter.
func (s *Sparse) Restore(b []byte) error {
	return readSparse(b, "sparse", s.numbers[:], s.folds[:], nil)
}

var (
	_ bandit.Policy      = (*Sparse)(nil)
	_ bandit.Prober      = (*Sparse)(nil)
	_ bandit.Snapshotter = (*Sparse)(nil)
)

// DrawnMember implements bandit.MemberDrawer.
func (s *Sparse) DrawnMember(draw rng.Source) (j int, xi float64) {
	return drawMember(draw, s.opts.M, true)
}

// Redraws implements bandit.Redrawer.
func (s *Sparse) Redraws() bool { return s.opts.Key == theory.DecisionKey }

// Normalised reports that weights belong to vectors as they are.
func (s *Sparse) Normalised() bool { return false }

// Resolved implements Resolver.
func (s *Sparse) Resolved() any { return s.opts }

// Widens implements Widener.
func (o *SparseOptions) Widens() bool { return o.Link != logistic }

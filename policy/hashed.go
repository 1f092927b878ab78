package policy

import (
	"errors"
	"math"

	"troupe/bandit"
	"troupe/internal/paged"
	"troupe/rng"
	"troupe/spec"
)

// HashedOptions configures the learner of models without a schema.
type HashedOptions struct {
	Bits   int       `key:"bits" doc:"2^bits coordinates in each model" default:"18"`
	M      int       `key:"m" doc:"members m: propensities are counts over 2m" default:"16"`
	A      float64   `key:"a" doc:"scale of the members in units of the estimated noise" default:"1"`
	Lambda float64   `key:"lambda" doc:"precision of a coordinate before its first event" default:"1"`
	Eta    float64   `key:"eta" doc:"learning rate of AdaGrad" default:"0.05"`
	Pairs  string    `key:"pairs" doc:"pairs of coordinates: auto (the model with the smaller errors plays), yes or no" default:"auto"`
	Link   string    `key:"link" doc:"linear, logistic, or auto (the model with the smaller errors plays)" default:"auto"`
	Range  []float64 `key:"range" doc:"[min, max] of rewards; one outside is refused. Missing: [0, 1], and it widens"`
	Forget float64   `key:"forget" doc:"number of rewards over which errors are compared" default:"5000"`
}

// Doc implements spec.Documented.
func (*HashedOptions) Doc() string {
	return "sparse models with and without pairs, linear and logistic; the one with the smaller errors plays"
}

// New implements Options.
func (o *HashedOptions) New(p Problem) (bandit.Policy, error) { return NewHashed(*o, p) }

func (o HashedOptions) resolve(p Problem) (HashedOptions, error) {
	fill(&o.Bits, 18)
	fill(&o.M, 16)
	fill(&o.A, 1)
	fill(&o.Lambda, 1)
	fill(&o.Eta, 0.05)
	fill(&o.Forget, 5000)
	fill(&o.Pairs, "auto")
	fill(&o.Link, "auto")
	if o.Range == nil && p.Low < p.High {
		o.Range = []float64{p.Low, p.High}
	}
	if !(o.Forget > 1) || math.IsInf(o.Forget, 0) {
		return o, spec.Refuse("forget", o.Forget, "expected a number above 1")
	}
	if err := oneOf("pairs", o.Pairs, "auto", "yes", "no"); err != nil {
		return o, err
	}
	if err := oneOf("link", o.Link, "auto", linear, logistic); err != nil {
		return o, err
	}
	return o, checkSparse(o.Bits, o.M, o.A, o.Lambda, o.Eta, o.Range)
}

// Hashed is what a model without a schema learns with: up to four sparse models (see Sparse) on the same
// events, without and with pairs of coordinates, each with the linear and the logistic link. Every model
// predicts a reward before it learns it; the one with the smallest discounted sum of squared errors
// plays, and its members give the exact law.
//
// A set has dimension 2·2^bits. Coordinates from 2^bits on are pairs: only the models with pairs read
// them, modulo 2^bits. Nonzeros lists them last. Each model divides the part that it reads by its
// Euclidean norm.
//
// Rewards are folded as (y − min)/(max − min). Without a declared range it is [0, 1] at first; a reward
// outside widens it by doubling its width on that side. Then the linear models are rescaled, so that
// they predict the same rewards as before, and the logistic ones begin anew.
//
// The state is a fold over (action, reward) in order: it has no sums, so Merge is refused. Update draws
// nothing. Cost: an Update for each model O(nonzeros); Select one member of one model, O(nonzeros of the
// set); Prob m members.
type Hashed struct {
	opts    HashedOptions
	input   sparseInput
	members sparseMembers
	play    view
	folds   []*sparseFold
	wide    []bool
	numbers []float64 // lo, hi, then one discounted sum of squared errors for each fold
}

// NewHashed returns the policy before round 1. The error names the option that is wrong.
func NewHashed(o HashedOptions, p Problem) (*Hashed, error) {
	o, err := o.resolve(p)
	if err != nil {
		return nil, err
	}
	h := &Hashed{
		opts: o, members: newSparseMembers(p.Init, o.M), numbers: []float64{0, 1},
		input: sparseInput{kind: "hashed", dim: min(p.Dim, 1<<o.Bits), most: 2 << o.Bits, fixed: o.Range != nil},
	}
	if o.Range != nil {
		copy(h.numbers, o.Range)
	}
	for _, wide := range []bool{false, true} {
		if wide && o.Pairs == "no" || !wide && o.Pairs == "yes" {
			continue
		}
		for _, link := range []string{linear, logistic} {
			if o.Link != "auto" && o.Link != link {
				continue
			}
			h.folds = append(h.folds, &sparseFold{cells: paged.New(o.Bits), lambda: o.Lambda, eta: o.Eta,
				logistic: link == logistic})
			h.wide = append(h.wide, wide)
			h.numbers = append(h.numbers, 0)
		}
	}
	return h, nil
}

// Options returns the configuration with every default filled in.
func (h *Hashed) Options() HashedOptions { return h.opts }

// Dim returns 2·2^bits, the dimension of the sets.
func (h *Hashed) Dim() int { return 2 << h.opts.Bits }

// Range returns the range that rewards are folded by.
func (h *Hashed) Range() (lo, hi float64) { return h.numbers[0], h.numbers[1] }

// Playing returns which model chooses: its link, and whether it reads pairs.
func (h *Hashed) Playing() (link string, pairs bool) {
	k := h.playing()
	if h.folds[k].logistic {
		return logistic, h.wide[k]
	}
	return linear, h.wide[k]
}

// playing returns the fold with the smallest errors; one with pairs or with the logistic link must be
// better by 1 %.
func (h *Hashed) playing() int {
	best, least := 0, math.Inf(1)
	for k, f := range h.folds {
		v := h.numbers[2+k]
		if h.wide[k] {
			v *= 1.01
		}
		if f.logistic {
			v *= 1.01
		}
		if v < least {
			best, least = k, v
		}
	}
	return best
}

// view returns how fold k reads vectors.
func (h *Hashed) view(k int) view {
	v := view{fold: h.folds[k], mask: 1<<h.opts.Bits - 1, limit: 1 << h.opts.Bits, unit: true}
	if h.wide[k] {
		v.limit = math.MaxUint64
	}
	return v
}

// Select implements bandit.Policy. It uses numbers 0 (the member) and 1 (the sign) of the source.
func (h *Hashed) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	s, err := h.input.open(set)
	if err != nil {
		return err
	}
	h.play = h.view(h.playing())
	return h.members.choose(dst, &h.play, h.opts.A, s, draw)
}

// Prob implements bandit.Prober: a count over the 2m members of this decision.
func (h *Hashed) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	s, err := h.input.open(set)
	if err != nil {
		return err
	}
	h.play = h.view(h.playing())
	return h.members.law(dst, &h.play, h.opts.A, s, draw)
}

// Update implements bandit.Policy. It draws nothing.
func (h *Hashed) Update(a bandit.Action, y float64, _ rng.Source) error {
	at, x, err := h.input.read(a, y)
	if err != nil {
		return err
	}
	lo, hi, err := h.input.widened(h.numbers[0], h.numbers[1], y)
	if err != nil {
		return err
	}
	if lo != h.numbers[0] || hi != h.numbers[1] {
		h.widen(lo, hi)
	}
	y = (y - lo) / (hi - lo)
	gamma := 1 - 1/h.opts.Forget
	for k, f := range h.folds {
		v := h.view(k)
		n, scale := v.part(at, x)
		e := f.learn(at[:n], x[:n], scale, v.mask, y) - y
		h.numbers[2+k] = float64(gamma*h.numbers[2+k]) + float64(e*e)
	}
	return nil
}

// widen changes the range of rewards: errors and weights keep their meaning.
func (h *Hashed) widen(lo, hi float64) {
	alpha := (h.numbers[1] - h.numbers[0]) / (hi - lo)
	beta := (h.numbers[0] - lo) / (hi - lo)
	for k, f := range h.folds {
		f.rescale(alpha, beta)
		h.numbers[2+k] *= float64(alpha * alpha)
	}
	h.numbers[0], h.numbers[1] = lo, hi
}

// Estimate returns the reward that the playing model expects of a vector.
func (h *Hashed) Estimate(at []uint32, x []float64) float64 {
	k := h.playing()
	v := h.view(k)
	n, scale := v.part(at, x)
	z, _ := v.fold.predict(at[:n], x[:n], scale, v.mask)
	return h.numbers[0] + float64((h.numbers[1]-h.numbers[0])*v.fold.mean(z))
}

// Weight returns the weight at a coordinate of the sets in the model that plays, and the standard deviation of its
// members there, both for a vector of length 1: in units of the reward, or with the logistic link of the logit. ok is
// false where no action has had the coordinate, and for a pair that the model does not read. Several features can have
// one coordinate.
func (h *Hashed) Weight(at uint32) (w, spread float64, ok bool) {
	v := h.view(h.playing())
	if uint64(at) >= v.limit {
		return 0, 0, false
	}
	scale := 1.0
	if !v.fold.logistic {
		scale = h.numbers[1] - h.numbers[0]
	}
	return v.fold.weight(at&v.mask, scale, h.opts.A)
}

// HashedModel describes one of the models of a Hashed.
type HashedModel struct {
	Link    string  `json:"link"`
	Pairs   bool    `json:"pairs"`
	Playing bool    `json:"playing"`
	Error   float64 `json:"error"`   // root of the mean squared one-step error of late, in units of the range
	Sigma   float64 `json:"sigma"`   // scale of the members, in units of the range; 1 for the logistic link
	Touched int     `json:"touched"` // coordinates that some action has had
}

// Models describes the models that learn side by side.
func (h *Hashed) Models() []HashedModel {
	out := make([]HashedModel, len(h.folds))
	for k, f := range h.folds {
		out[k] = HashedModel{Link: linear, Pairs: h.wide[k], Playing: k == h.playing(), Sigma: f.sigma(),
			Touched: f.cells.Touched()}
		if f.logistic {
			out[k].Link = logistic
		}
		gamma := 1 - 1/h.opts.Forget
		if weight := (1 - math.Pow(gamma, float64(f.n))) / (1 - gamma); weight > 0 {
			out[k].Error = math.Sqrt(h.numbers[2+k] / weight)
		}
	}
	return out
}

// Merge is refused: weights depend on the order of events.
func (h *Hashed) Merge(*Hashed) error { return errNoMerge }

var errNoMerge = errors.New("policy: the weights of sparse models depend on the order of events and cannot be " +
	"merged; replay the merged log")

// AppendSnapshot implements bandit.Snapshotter. Its length grows with the touched coordinates.
func (h *Hashed) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSparse(b, "hashed", h.numbers, h.folds), nil
}

// Restore implements bandit.Snapshotter.
func (h *Hashed) Restore(b []byte) error { return readSparse(b, "hashed", h.numbers, h.folds) }

// Share implements Sharer.
func (h *Hashed) Share() *Shared { return shareFolds("hashed", h.numbers, h.folds) }

// Adopt implements Sharer.
func (h *Hashed) Adopt(s *Shared) error { return s.adopt("hashed", h.numbers, h.folds) }

// Digest implements Sharer.
func (h *Hashed) Digest() [16]byte { return digestFolds(h.numbers, h.folds) }

// Touched implements Sharer.
func (h *Hashed) Touched() int { return touchedOf(h.folds) }

var (
	_ bandit.Policy      = (*Hashed)(nil)
	_ bandit.Prober      = (*Hashed)(nil)
	_ bandit.Snapshotter = (*Hashed)(nil)
	_ Sharer             = (*Hashed)(nil)
)

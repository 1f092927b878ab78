package policy

import (
	"cmp"
	"errors"
	"hash/crc32"
	"math"

	"troupe/bandit"
	"troupe/internal/logs"
	"troupe/internal/paged"
	"troupe/rng"
	"troupe/spec"
)

// defaultBits is how many bits the coordinates of sparse models have where none are given.
const defaultBits = 18

// HashedOptions configures the learner of models without a schema.
type HashedOptions struct {
	Bits   int     `key:"bits" doc:"2^bits coordinates in each model" default:"18"`
	M      int     `key:"m" doc:"members m: propensities are counts over 2m" default:"16"`
	A      float64 `key:"a" doc:"scale of the members in units of the estimated noise" default:"1"`
	Lambda float64 `key:"lambda" doc:"precision of a coordinate before its first event" default:"1"`
	Eta    float64 `key:"eta" doc:"learning rate of AdaGrad" default:"0.05"`
	Pairs  string  `key:"pairs" doc:"pairs of coordinates in sparse models: auto (models with and without), yes or no" default:"auto"`
	Link   string  `key:"link" doc:"of sparse models: linear, logistic, or auto (models with both)" default:"auto"`
	Small  string  `key:"small" doc:"small exact models beside them, where requests have fields: auto (weighted by what they predicted) or no" default:"auto"`
	Change string  `key:"change" doc:"restarts: the small models begin again and again, and those that began at the right time play; none" default:"none"`
	// HalfLife makes what was learned fade; see fading.go.
	HalfLife HalfLife  `key:"half_life" doc:"with restarts: an event counts half after so many others, or after a time of the log such as 7d; 0: never forgotten while the world stays"`
	Rules    int       `key:"rules" doc:"of small models: 1, 2, or 3, by which a new model of a server learns" default:"1"`
	Range    []float64 `key:"range" doc:"[min, max] of rewards; one outside is refused. Missing: [0, 1], and it widens"`
	Over     float64   `key:"compare_over" once:"forget" doc:"number of rewards over which the errors of the models are compared; no model forgets by it" default:"5000"`
}

// Doc implements spec.Documented.
func (*HashedOptions) Doc() string {
	return "small exact models and sparse ones, with and without pairs, linear and logistic, weighted by what they predicted"
}

// New implements Options.
func (o *HashedOptions) New(p Problem) (bandit.Policy, error) { return NewHashed(*o, p) }

func (o HashedOptions) resolve(p Problem) (HashedOptions, error) {
	fill(&o.Bits, defaultBits)
	fill(&o.M, 16)
	fill(&o.A, 1)
	fill(&o.Lambda, 1)
	fill(&o.Eta, 0.05)
	fill(&o.Over, 5000)
	fill(&o.Pairs, "auto")
	fill(&o.Link, "auto")
	fill(&o.Small, "auto")
	fill(&o.Change, unchanged)
	fill(&o.Rules, 1)
	if o.Range == nil && p.Low < p.High {
		o.Range = []float64{p.Low, p.High}
	}
	if !(o.Over > 1) || math.IsInf(o.Over, 0) {
		return o, spec.Refuse("compare_over", o.Over, "expected a number above 1")
	}
	if err := oneOf("pairs", o.Pairs, "auto", "yes", "no"); err != nil {
		return o, err
	}
	if err := oneOf("link", o.Link, "auto", linear, logistic); err != nil {
		return o, err
	}
	if err := oneOf("small", o.Small, "auto", "no"); err != nil {
		return o, err
	}
	if err := oneOf("change", o.Change, restarts, unchanged); err != nil {
		return o, err
	}
	if o.Rules < 1 || o.Rules > 3 {
		return o, spec.Refuse("rules", o.Rules, "expected 1, 2 or 3")
	}
	if o.Rules > 1 && o.Small == "no" {
		return o, spec.Refuse("rules", o.Rules, `but small is "no": they are rules of the small models`)
	}
	if o.Change == restarts && o.Small == "no" {
		return o, spec.Refuse("change", o.Change, `but small is "no": it is the small models that restart`)
	}
	if err := o.HalfLife.check(o.Change, p.Timed, startGap, ""); err != nil {
		return o, err
	}
	return o, checkSparse(o.Bits, o.M, o.A, o.Lambda, o.Eta, o.Range)
}

// Hashed is what a model without a schema learns with: up to four sparse models (see Sparse) on the same
// events, without and with pairs of coordinates, each with the linear and the logistic link. Every model
// predicts a reward before it learns it; the one with the smallest discounted sum of squared errors
// plays, and its members give the exact law.
//
// Where vectors end with a list of their atoms (bandit.Atoms; a set has dimension 3·2^bits), small exact models stand
// beside them: Bayesian linear models with a full covariance on the action alone, on one field of the context, on all
// of them, and on features of the actions, each as a block for every action or one for all. A field with more than 32
// values is not read. Each model states the likelihood of a reward before it learns it, N(z, σ̂² + q) with its own σ̂;
// model k plays with probability w_k ∝ exp(L_k), L_k the discounted sum of log likelihoods (sparse models begin 2
// behind), rounded to multiples of 2⁻¹⁶; below 1/32 a model does not play. Its member j adds ½a·√q·ξ·g (a·√q·ξ·g where
// requests have ids only) to an action's score, g ~ N(0, 1) one number for what is the action's own. The law is a count
// over 2^16·2m. A small model that is 60 behind the best leaves, and so does a sparse one that is so far behind the
// one with the other link.
//
// With change = "restarts" a small model is up to six copies that began at different times (starts.go); its weight is
// split among them in multiples of 2⁻¹⁶, so the law is the same count. Changed says what was noticed. Models that have
// left come back, empty, when a change was noticed and every 2.84·compare_over events (returns.go); otherwise never.
//
// Rules 2 differ from rules 1, of models that were made before there were two, in three points. Sparse models begin 4
// behind, which is more than log 32: they play only after they have predicted better. Of a field with more than 32
// values the first 32 are read, and its numbers. And prior variances are in units of two rewards only after 100 events:
// with change = "restarts", two first rewards that differ were taken for the only ones that there are.
//
// Rules 3 are rules 2 and three more kinds of small models, in which up to four numbers of the context are read by four
// ranges that overlap (small_ranges.go).
//
// Without lists the model with the smallest errors plays alone. A set has dimension 2·2^bits. Coordinates from 2^bits
// on are pairs: only the models with pairs read them, modulo 2^bits. Nonzeros lists them last. Each model divides the
// part that it reads by its Euclidean norm.
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
	mix     *mixture  // nil where vectors have no list of atoms
	blend   blend
	fade    *fading // nil without a half-life

	given *Shared // by the last Share, nil after an Update
	spare *Shared // was taken back: the next Share uses its room
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
		fade:  newFading(o.HalfLife),
	}
	if o.Range != nil {
		copy(h.numbers, o.Range)
	}
	lists := p.Dim == 3<<o.Bits
	if lists {
		h.input.most = p.Dim
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
				logistic: link == logistic, fades: h.fade != nil, scale: 1})
			h.wide = append(h.wide, wide)
			h.numbers = append(h.numbers, 0)
		}
	}
	if h.fade != nil {
		h.numbers = append(h.numbers, make([]float64, fadeNumbers(len(h.folds)))...)
	}
	if lists && o.Small == "auto" {
		h.mix = newMixture(2<<o.Bits, len(h.folds), o.Change == restarts, o.Rules, h.fade)
		h.blend.sparseMembers = &h.members
	}
	return h, nil
}

// Options returns the configuration with every default filled in.
func (h *Hashed) Options() HashedOptions { return h.opts }

// Dim returns the dimension of the sets: 2·2^bits, or 3·2^bits where vectors end with a list of their atoms.
func (h *Hashed) Dim() int { return h.input.most }

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
// better by 1 %. Beside small models it is the one with the largest likelihood.
func (h *Hashed) playing() int {
	best, least := 0, math.Inf(1)
	if h.mix != nil {
		for k, l := range h.mix.likes {
			if !h.mix.gone[k] && -l < least {
				best, least = k, -l
			}
		}
		return best
	}
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
		v.limit = 2 << h.opts.Bits
	}
	return v
}

// Select implements bandit.Policy. It uses numbers 0 (the member) and 1 (the sign) of the source.
func (h *Hashed) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	s, err := h.input.open(set)
	if err != nil {
		return err
	}
	h.members.price(set, h.numbers[0], h.numbers[1], false)
	if h.mix != nil && h.blend.open(h.mix, s) {
		return h.choose(dst, s, draw)
	}
	h.play = h.view(h.playing())
	h.members.logit = h.play.fold.logistic
	return h.members.choose(dst, &h.play, h.opts.A, s, draw)
}

// Prob implements bandit.Prober: a count over the 2m members of this decision.
func (h *Hashed) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	s, err := h.input.open(set)
	if err != nil {
		return err
	}
	h.members.price(set, h.numbers[0], h.numbers[1], false)
	if h.mix != nil && h.blend.open(h.mix, s) {
		return h.law(dst, s, draw)
	}
	h.play = h.view(h.playing())
	h.members.logit = h.play.fold.logistic
	return h.members.law(dst, &h.play, h.opts.A, s, draw)
}

// scores computes the scores of the members, or only of one, under a part of the mixture, and returns what a member's
// deviation is multiplied by.
func (h *Hashed) scores(p part, set bandit.Sparse, stream rng.Stream, only int) (r float64, err error) {
	k := p.model
	h.members.logit = k >= len(h.mix.smalls) && h.folds[k-len(h.mix.smalls)].logistic
	if k < len(h.mix.smalls) {
		m := h.mix.smalls[k]
		h.blend.small(h.mix, m, m.start(p.start), stream, only)
		if m.kind == smallIDs && len(h.mix.fields.entries) == 0 {
			return h.opts.A * aloneScale, nil
		}
		return h.opts.A * smallScale, nil
	}
	v := h.view(k - len(h.mix.smalls))
	return float64(h.opts.A*v.fold.sigma()) * sparseScale, h.blend.sparse(&v, set, stream, only)
}

// Drawn returns the model, by its place in Models, that plays the decision with a source. It uses number 2 of it.
func (h *Hashed) Drawn(draw rng.Source) int {
	if h.mix == nil {
		return h.playing()
	}
	return h.drawn(draw).model
}

func (h *Hashed) drawn(draw rng.Source) part {
	u := uint32(draw.Intn(2, weightTotal))
	for _, p := range h.mix.parts() {
		if u < p.w {
			return p
		}
		u -= p.w
	}
	panic("policy: the weights have another sum")
}

func (h *Hashed) choose(dst *bandit.Action, set bandit.Sparse, draw rng.Source) error {
	p, j, sign := h.drawn(draw), draw.Intn(0, h.members.m), draw.Sign(1)
	stream := h.members.keys.Sub(draw.At())
	h.blend.normals(stream, j)
	r, err := h.scores(p, set, stream, j)
	if err != nil {
		return err
	}
	i := h.members.best(float64(sign*r), 0, 1)
	at, x := set.Nonzeros(i)
	dst.SetSparse(at, x, i)
	return nil
}

// SelectProb implements bandit.Joint: the member that is drawn is one of those that are counted.
func (h *Hashed) SelectProb(dst *bandit.Action, law *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	s, err := h.input.open(set)
	if err != nil {
		return err
	}
	if h.mix == nil || !h.blend.open(h.mix, s) {
		if err := h.Select(dst, set, draw); err != nil {
			return err
		}
		return h.Prob(law, set, draw)
	}
	h.members.price(set, h.numbers[0], h.numbers[1], false)
	chosen := 0
	if err := h.count(law, s, draw, h.drawn(draw), func(r float64) {
		chosen = h.members.best(float64(draw.Sign(1)*r), draw.Intn(0, h.members.m), h.members.m)
	}); err != nil {
		return err
	}
	at, x := s.Nonzeros(chosen)
	dst.SetSparse(at, x, chosen)
	return nil
}

func (h *Hashed) law(dst *bandit.Law, set bandit.Sparse, draw rng.Source) error {
	return h.count(dst, set, draw, part{}, nil)
}

// count counts which action each member of each model with a weight prefers. It calls at when it has the scores of
// drawn, with what deviations are multiplied by.
func (h *Hashed) count(dst *bandit.Law, set bandit.Sparse, draw rng.Source, drawn part, at func(r float64)) error {
	zeros(dst, set.Len())
	stream := h.members.keys.Sub(draw.At())
	h.blend.normals(stream, -1)
	for _, p := range h.mix.parts() {
		r, err := h.scores(p, set, stream, -1)
		if err != nil {
			return err
		}
		if p == drawn {
			at(r)
		}
		for j := range h.members.m {
			dst.Atoms[h.members.best(r, j, h.members.m)].Count += uint64(p.w)
			dst.Atoms[h.members.best(-r, j, h.members.m)].Count += uint64(p.w)
		}
	}
	share(dst, uint64(2*h.members.m)*weightTotal)
	return nil
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
	h.given = nil
	if lo != h.numbers[0] || hi != h.numbers[1] {
		h.widen(lo, hi)
	}
	if h.fade != nil && !h.fade.timed {
		h.pass(h.numbers[h.clockAt()] + 1)
	}
	reward := y
	y = (y - lo) / (hi - lo)
	gamma := 1 - 1/h.opts.Over
	mix := h.mix
	if mix != nil {
		if _, ok := mix.list(at, x); !ok {
			mix = nil
		}
	}
	for k, f := range h.folds {
		if mix != nil && mix.gone[k] {
			continue
		}
		v := h.view(k)
		n, scale := v.part(at, x)
		e := f.learn(at[:n], x[:n], scale, v.mask, y) - y
		if mix != nil {
			s := (firstVariance + h.numbers[2+k]) / (1 + mix.count)
			mix.likes[k] = float64(gamma*mix.likes[k]) - float64(.5*(logs.Log(s)+float64(e*e)/s))
		}
		h.numbers[2+k] = float64(gamma*h.numbers[2+k]) + float64(e*e)
	}
	if mix != nil {
		mix.learn(reward, lo, hi, gamma)
		mix.count = float64(gamma*mix.count) + 1
		if mix.changes.on {
			mix.notice()
			if mix.n%startGap == 0 {
				mix.restart()
			}
			mix.bring(h.folds, h.numbers[2:2+len(h.folds)], h.wide, h.opts.Over)
		}
		mix.settle(h.folds, h.wide)
	}
	if h.fade != nil {
		h.note()
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
	if h.mix != nil {
		h.mix.rescale(alpha, beta)
	}
	h.numbers[0], h.numbers[1] = lo, hi
}

// Estimate returns the reward that the playing models expect of a vector: their mean by weight.
func (h *Hashed) Estimate(at []uint32, x []float64) float64 {
	width := h.numbers[1] - h.numbers[0]
	if h.mix != nil {
		if _, ok := h.mix.list(at, x); ok {
			var sum float64
			for _, p := range h.mix.parts() {
				var z float64
				if k := p.model; k < len(h.mix.smalls) {
					z, _ = h.mix.estimate(h.mix.smalls[k], p.start)
				} else {
					z = h.expected(k-len(h.mix.smalls), at, x)
				}
				sum += float64(float64(p.w) * z)
			}
			return h.numbers[0] + float64(width*float64(sum/weightTotal))
		}
	}
	return h.numbers[0] + float64(width*h.expected(h.playing(), at, x))
}

// expected returns the reward in [0, 1] that sparse model k expects.
func (h *Hashed) expected(k int, at []uint32, x []float64) float64 {
	v := h.view(k)
	n, scale := v.part(at, x)
	z, _ := v.fold.predict(at[:n], x[:n], scale, v.mask)
	return v.fold.mean(z)
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
	Number int     `json:"number"`          // its place
	Weight float64 `json:"weight"`          // the share of decisions that it plays
	Small  bool    `json:"small,omitempty"` // an exact model on few coordinates; the others are sparse
	// Reads says what a small model reads: ids, field (one of the context), linear (all of them, numbers as slopes),
	// bins (numbers by their ranges, too), shared (features of actions), crossed (these × the context); by rules 3 also
	// range (one number by four ranges), ranges (all fields, numbers by four ranges), grid (ranges of the actions'
	// numbers × those of the context).
	Reads   string  `json:"reads,omitempty"`
	Field   uint32  `json:"-"`              // of reads = field or range: its number, feature.FieldNumber
	Name    string  `json:"name,omitempty"` // and its name, which a server fills in when it has seen one
	Link    string  `json:"link"`
	Pairs   bool    `json:"pairs"`
	Playing bool    `json:"playing"`        // it has a weight
	Left    bool    `json:"left,omitempty"` // it predicted so much worse than another that it does not learn now
	Error   float64 `json:"error"`          // root of the mean squared one-step error, in units of the range
	Sigma   float64 `json:"sigma"`          // the noise as it is estimated, in units of the range; 1 for the logistic link
	Touched int     `json:"touched"`        // coordinates that some action has had
	Since   uint64  `json:"since,omitzero"` // events before the likeliest start of the model began, with restarts
}

// Learners is implemented by policies in which several models learn side by side, of which some play.
type Learners interface {
	// Models describes them.
	Models() []HashedModel
}

// Models describes the models that learn side by side: small ones first, then the sparse ones.
func (h *Hashed) Models() []HashedModel {
	var out []HashedModel
	var weights []uint32
	if h.mix != nil {
		weights = h.mix.weights()
		for _, s := range h.mix.smalls {
			m := HashedModel{Small: true, Reads: s.kind.String(), Field: s.field, Link: linear, Left: s.gone,
				Sigma: math.Sqrt(s.variance())}
			t := s.start(s.likeliest())
			switch m.Since = t.born; {
			case s.heard > 1:
				m.Error = m.Sigma
			case s.heard == 0 && s.n > 0:
				m.Error = math.Sqrt(s.rss / float64(s.n))
			}
			m.Touched += t.coefficients()
			out = append(out, m)
		}
	}
	for k, f := range h.folds {
		m := HashedModel{Link: linear, Pairs: h.wide[k], Sigma: f.sigma(), Touched: f.cells.Touched(),
			Left: h.mix != nil && h.mix.gone[k]}
		if f.logistic {
			m.Link = logistic
		}
		gamma := 1 - 1/h.opts.Over
		if weight := (1 - math.Pow(gamma, float64(f.n))) / (1 - gamma); weight > 0 {
			m.Error = math.Sqrt(h.numbers[2+k] / weight)
		}
		out = append(out, m)
	}
	for k := range out {
		out[k].Number = k
		switch {
		case weights != nil:
			out[k].Weight = float64(weights[k]) / weightTotal
		case k == h.playing():
			out[k].Weight = 1
		}
		out[k].Playing = out[k].Weight > 0
	}
	return out
}

// Merge is refused: weights depend on the order of events.
func (h *Hashed) Merge(*Hashed) error { return errNoMerge }

var errNoMerge = errors.New("policy: the weights of sparse models depend on the order of events and cannot be " +
	"merged; replay the merged log")

// AppendSnapshot implements bandit.Snapshotter. Its length grows with the touched coordinates.
func (h *Hashed) AppendSnapshot(b []byte) ([]byte, error) {
	if h.mix == nil {
		return appendSparse(b, "hashed", h.numbers, h.folds), nil
	}
	start := len(b)
	b = appendSparse(append(b, h.mix.magic()+"\x00\x00\x00\x00"...), "hashed", h.numbers, h.folds)
	little.PutUint32(b[start+4:], uint32(len(b)-start-8))
	b = h.mix.append(b)
	return little.AppendUint32(b, crc32.Checksum(b[start:], castagnoli)), nil
}

// Restore implements bandit.Snapshotter.
func (h *Hashed) Restore(b []byte) error {
	if h.mix == nil {
		return h.readFolds(b)
	}
	sparse, rest, err := splitMixture(b, h.mix.magic())
	if err != nil {
		return err
	}
	mix, err := readMixture(rest, h.mix.first, len(h.folds), h.mix.changes.on, h.opts.Rules, h.fade)
	if err != nil {
		return err
	}
	if err := h.readFolds(sparse); err != nil {
		return err
	}
	h.mix = mix
	h.aged()
	return nil
}

func (h *Hashed) readFolds(b []byte) error {
	if err := readSparse(b, "hashed", h.numbers, h.folds, h.soundClock); err != nil {
		return err
	}
	h.aged()
	return nil
}

// Share implements Sharer.
func (h *Hashed) Share() *Shared {
	s := h.spare
	if h.spare = nil; s == nil {
		s = new(Shared)
	}
	s.share("hashed", h.numbers, h.folds)
	if h.mix != nil {
		s.mix = h.mix.share(s.mix)
	}
	h.given = s
	return s
}

// Adopt implements Sharer.
func (h *Hashed) Adopt(s *Shared) error {
	if (h.mix == nil) != (s.mix == nil) {
		return errors.New("policy: one of the two policies reads lists of atoms, the other does not")
	}
	if err := s.adopt("hashed", h.numbers, h.folds); err != nil {
		return err
	}
	if h.mix != nil {
		h.mix.take(s.mix)
	}
	h.aged()
	return nil
}

// Reclaim implements Sharer.
func (h *Hashed) Reclaim() {
	reclaimFolds(h.folds)
	if h.mix != nil {
		h.mix.reclaim()
	}
	if h.given != nil {
		h.spare, h.given = h.given, nil
	}
}

// Digest implements Sharer.
func (h *Hashed) Digest() [16]byte { return digestFolds(h.numbers, h.folds, h.mix) }

// Touched implements Sharer.
func (h *Hashed) Touched() int { return touchedOf(h.folds) }

// Dense implements Sharer.
func (h *Hashed) Dense() int {
	if h.mix == nil {
		return 0
	}
	return h.mix.bytes()
}

var (
	_ bandit.Policy      = (*Hashed)(nil)
	_ bandit.Prober      = (*Hashed)(nil)
	_ bandit.Joint       = (*Hashed)(nil)
	_ bandit.Snapshotter = (*Hashed)(nil)
	_ Sharer             = (*Hashed)(nil)
)

// Score implements bandit.Scorer.
func (h *Hashed) Score(a bandit.Action) float64 { return h.Estimate(a.At, a.X) }

// DrawnMember implements bandit.MemberDrawer.
func (h *Hashed) DrawnMember(draw rng.Source) (j int, xi float64) {
	return drawMember(draw, h.opts.M, true)
}

// Redraws implements bandit.Redrawer.
func (h *Hashed) Redraws() bool { return true }

// Normalised reports that weights belong to vectors of length 1.
func (h *Hashed) Normalised() bool { return true }

// Resolved implements Resolver.
func (h *Hashed) Resolved() any { return h.opts }

// ReadsFeatures implements FeatureReader.
func (o *HashedOptions) ReadsFeatures() (bits int, list bool) {
	return cmp.Or(o.Bits, defaultBits), true
}

// WithFeatures implements FeatureReader.
func (o *HashedOptions) WithFeatures(bits int, pairs string) Options {
	with := *o
	with.Bits, with.Pairs = bits, pairs
	return &with
}

// Widens implements Widener.
func (*HashedOptions) Widens() bool { return true }

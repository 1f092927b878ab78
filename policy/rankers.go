package policy

import (
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
)

// Policies for lists (bandit.Lists), by a table of segment and item. They have no model of features: they are what the literature plays
// where clicks come by position, and rivals of policies that learn from the sum.

// CascadeUCBOptions configures CascadeUCB1: it has no options.
type CascadeUCBOptions struct{}

// Doc implements spec.Documented.
func (*CascadeUCBOptions) Doc() string {
	return "CascadeUCB1 (Kveton et al. 2015): the k largest p̂ + √(1.5 log t/n), learned down to the first click"
}

// New implements Options.
func (*CascadeUCBOptions) New(p Problem) (bandit.Policy, error) {
	return newRanker("cascade-ucb", p, nil, 0)
}

// CascadeKLUCBOptions configures CascadeKL-UCB: it has no options.
type CascadeKLUCBOptions struct{}

// Doc implements spec.Documented.
func (*CascadeKLUCBOptions) Doc() string {
	return "CascadeKL-UCB (Kveton et al. 2015): the k largest q with n·kl(p̂, q) ≤ log t + 3 log log t, learned down to the first click"
}

// New implements Options.
func (*CascadeKLUCBOptions) New(p Problem) (bandit.Policy, error) {
	return newRanker("cascade-kl-ucb", p, nil, 0)
}

// CascadeTSOptions configures Thompson sampling in the cascade: it has no options.
type CascadeTSOptions struct{}

// Doc implements spec.Documented.
func (*CascadeTSOptions) Doc() string {
	return "Thompson sampling in the cascade: the k largest draws of Beta(1 + clicks, 1 + others), learned down to the first click"
}

// New implements Options.
func (*CascadeTSOptions) New(p Problem) (bandit.Policy, error) {
	return newRanker("cascade-ts", p, nil, 0)
}

// PBMTSOptions configures Thompson sampling in the position-based model.
type PBMTSOptions struct {
	Examination []float64 `key:"examination" doc:"how often each position is examined, from 0 to 1" default:"that of the environment, 1 where it has none"`
}

// Doc implements spec.Documented.
func (*PBMTSOptions) Doc() string {
	return "Thompson sampling in the position-based model, examination told: a position counts as e_l trials, the best draw goes to the most examined one"
}

// New implements Options.
func (o *PBMTSOptions) New(p Problem) (bandit.Policy, error) {
	for i, e := range o.Examination {
		if !(e >= 0 && e <= 1) {
			return nil, spec.Errorf(fmt.Sprintf("examination[%d]", i), "is %v, expected a number from 0 to 1", e)
		}
	}
	if s := p.Lists; s != nil && o.Examination != nil && len(o.Examination) != s.Positions {
		return nil, spec.Errorf("examination", "has %d numbers, expected %d, one for each position", len(o.Examination), s.Positions)
	}
	exam := o.Examination
	if exam == nil {
		exam = slices.Clone(p.Examination)
	}
	return newRanker("pbm-ts", p, exam, 0)
}

// TopRankOptions configures TopRank.
type TopRankOptions struct {
	Delta float64 `key:"delta" doc:"confidence δ" default:"1/T, 1e-4 where T is not known"`
}

// Doc implements spec.Documented.
func (*TopRankOptions) Doc() string {
	return "TopRank (Lattimore et al. 2018): blocks of items that are not told apart, each in random order; an item leaves its block when it is clicked less"
}

// New implements Options.
func (o *TopRankOptions) New(p Problem) (bandit.Policy, error) {
	if !(o.Delta >= 0 && o.Delta < 1) {
		return nil, spec.Errorf("delta", "is %v, expected a number above 0 and below 1", o.Delta)
	}
	d := o.Delta
	if d == 0 {
		if d = 1e-4; p.Horizon > 0 {
			d = 1 / float64(max(p.Horizon, 2))
		}
	}
	return newRanker("toprank", p, nil, d)
}

// SlotsOptions configures slots: it has no options.
type SlotsOptions struct{}

// Doc implements spec.Documented.
func (*SlotsOptions) Doc() string {
	return "each position a decision of its own: the largest mean plus half a standard error times a normal draw, no item twice"
}

// New implements Options.
func (*SlotsOptions) New(p Problem) (bandit.Policy, error) {
	return newRanker("slots", p, nil, 0)
}

// Ranker is a policy for lists. Its state is, for each segment and item, trials n and their rewards s; for toprank pairs of items as well.
//
// Cost of a round: n log n for the order; cascade-kl-ucb 24 steps of bisection for each item, toprank n².
type Ranker struct {
	kind  string
	shape bandit.ListShape
	exam  []float64
	delta float64

	n, s   []float64 // by segment and item
	totals []float64 // rounds; trials, Σ y, Σ y² of slots
	beats  []float64 // toprank: S and N of pairs, then 1 where the row's item is better, by segment

	told  []float64 // rewards by position of the round under way
	heard bool
	index []float64
	order []int
	list  []int
	block []int
}

func newRanker(kind string, p Problem, exam []float64, delta float64) (*Ranker, error) {
	if p.Lists == nil {
		return nil, fmt.Errorf("policy: kind %q plays lists (environment kind \"list\")", kind)
	}
	s := *p.Lists
	if s.Items < s.Positions || s.Positions < 1 || s.Segments < 1 {
		return nil, fmt.Errorf("policy: %d of %d items for %d segments are no lists", s.Positions, s.Items, s.Segments)
	}
	r := &Ranker{kind: kind, shape: s, exam: exam, delta: delta, n: make([]float64, s.Segments*s.Items), s: make([]float64, s.Segments*s.Items),
		totals: make([]float64, 4), told: make([]float64, s.Positions), index: make([]float64, s.Items), order: make([]int, s.Items),
		list: make([]int, 0, s.Positions), block: make([]int, s.Items)}
	if kind == "toprank" {
		r.beats = make([]float64, 3*s.Segments*s.Items*s.Items)
	}
	return r, nil
}

func (r *Ranker) segmentOf(set bandit.ActionSet) (int, error) {
	l, ok := set.(bandit.Lists)
	if !ok || l.Shape().Dim() != r.shape.Dim() || l.Shape().Items != r.shape.Items || l.Shape().Segments != r.shape.Segments {
		return 0, fmt.Errorf("policy: kind %q plays lists of %d of %d items: %w", r.kind, r.shape.Positions, r.shape.Items, bandit.ErrUnsupported)
	}
	return l.Segment(), nil
}

// Select implements bandit.Policy. Item i uses the numbers of draw.Sub(i), toprank and slots those of position l and item i.
func (r *Ranker) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	g, err := r.segmentOf(set)
	if err != nil {
		return err
	}
	switch r.kind {
	case "slots":
		r.slots(g, draw)
	case "toprank":
		r.blocks(g)
		for i := range r.index { // blocks in turn, and in each of them a random order
			r.index[i] = draw.Float64(i) - float64(r.block[i])
		}
		r.rank()
	default:
		for i := range r.index {
			r.index[i] = r.score(g*r.shape.Items+i, i, draw)
		}
		r.rank()
	}
	r.shape.Encode(dst, g, r.list)
	return nil
}

// score is the index of an item.
func (r *Ranker) score(at, i int, draw rng.Source) float64 {
	n, s := r.n[at], r.s[at]
	switch t := max(r.totals[0], 1); r.kind {
	case "cascade-ucb":
		if n == 0 {
			return math.Inf(1)
		}
		return s/n + math.Sqrt(float64(1.5*logs.Log(t))/n)
	case "cascade-kl-ucb":
		if n == 0 {
			return math.Inf(1)
		}
		return klUpper(s/n, (logs.Log(t)+float64(3*logs.Log(max(logs.Log(t), 1))))/n)
	default:
		return beta(1+s, 1+max(n-s, 0), draw.Sub(uint64(i)))
	}
}

// klUpper is the largest q ≥ p with kl(p, q) ≤ bound.
func klUpper(p, bound float64) float64 {
	entropy := 0.0 // p log p + (1 − p) log(1 − p)
	if p > 0 {
		entropy += float64(p * logs.Log(p))
	}
	if p < 1 {
		entropy += float64((1 - p) * logs.Log(1-p))
	}
	lo, hi := p, min(1, p+math.Sqrt(bound/2)) // Pinsker
	for range 24 {
		q := float64((lo + hi) / 2)
		kl := entropy
		if p > 0 {
			log := logs.Log(q)
			kl -= float64(p * log)
		}
		if p < 1 {
			log := logs.Log(1 - q)
			kl -= float64((1 - p) * log)
		}
		if kl <= bound {
			lo = q
		} else {
			hi = q
		}
	}
	return lo
}

// beta draws from Beta(a, b), a, b ≥ 1.
func beta(a, b float64, draw rng.Source) float64 {
	x, y := gamma(a, draw.Sub(0)), gamma(b, draw.Sub(1))
	return x / (x + y)
}

// gamma draws from Gamma(a), a ≥ 1 (Marsaglia & Tsang 2000).
func gamma(a float64, draw rng.Source) float64 {
	d := a - 1.0/3
	c := 1 / math.Sqrt(9*d)
	for j := 0; ; j += 2 {
		x := draw.Normal(j)
		v := 1 + float64(c*x)
		if v <= 0 {
			continue
		}
		v = float64(float64(v*v) * v)
		u, w := logs.Log(draw.Float64(j+1)), logs.Log(v)
		rest := 1 - v + w
		if u < float64(.5*float64(x*x))+float64(d*rest) {
			return float64(d * v)
		}
	}
}

// rank fills the list by r.index: the largest to the most examined position.
func (r *Ranker) rank() {
	for i := range r.order {
		r.order[i] = i
	}
	slices.SortStableFunc(r.order, func(a, b int) int {
		switch x, y := r.index[a], r.index[b]; {
		case x > y:
			return -1
		case x < y:
			return 1
		}
		return 0
	})
	k := r.shape.Positions
	r.list = r.list[:k]
	if r.shape.Own != nil {
		for l := range k {
			from, to := r.shape.Range(l)
			for _, i := range r.order {
				if i >= from && i < to {
					r.list[l] = i
					break
				}
			}
		}
		return
	}
	for place := range k {
		r.list[r.place(place)] = r.order[place]
	}
}

// place is the position that is the j-th in examination.
func (r *Ranker) place(j int) int {
	if r.exam == nil {
		return j
	}
	for l, e := range r.exam { // the position that j others come before
		before := 0
		for h, f := range r.exam {
			if f > e || f == e && h < l {
				before++
			}
		}
		if before == j {
			return l
		}
	}
	return j
}

// slots fills the list position by position.
func (r *Ranker) slots(g int, draw rng.Source) {
	mean, sd := 0.0, 1.0
	if n := r.totals[1]; n > 0 {
		mean = r.totals[2] / n
		if n > 3 {
			sd = math.Sqrt(max(r.totals[3]/n-float64(mean*mean), 1e-9))
		}
	}
	r.list = r.list[:0]
	for l := range r.shape.Positions {
		best, top := -1, math.Inf(-1)
		from, to := r.shape.Range(l)
		for i := from; i < to; i++ {
			if slices.Contains(r.list, i) {
				continue
			}
			n, s := r.n[g*r.shape.Items+i], r.s[g*r.shape.Items+i]
			v := (s+mean)/(n+1) + float64(float64(.5*sd)/math.Sqrt(n+1)*draw.Normal(l*r.shape.Items+i))
			if v > top {
				best, top = i, v
			}
		}
		r.list = append(r.list, best)
	}
}

// blocks numbers the blocks of toprank: the items of those left that no other one of them is better than, and so on.
func (r *Ranker) blocks(g int) {
	n := r.shape.Items
	better := r.beats[(2*r.shape.Segments+g)*n*n : (2*r.shape.Segments+g+1)*n*n]
	for i := range r.block {
		r.block[i] = -1
	}
	for d, left := 0, n; left > 0; d++ {
		before := left
		for i := range n {
			if r.block[i] >= 0 {
				continue
			}
			beaten := false
			for j := range n {
				beaten = beaten || better[j*n+i] > 0 && (r.block[j] < 0 || r.block[j] == d)
			}
			if !beaten {
				r.order[n-left] = i // numbered after all of the block are known
				left--
			}
		}
		if left == before { // a circle: they cannot be told apart
			for i := range n {
				if r.block[i] < 0 {
					r.block[i] = d
				}
			}
			return
		}
		for _, i := range r.order[n-before : n-left] {
			r.block[i] = d
		}
	}
}

// ByPosition implements bandit.PositionLearner.
func (r *Ranker) ByPosition(_ bandit.Action, rewards []float64) error {
	if len(rewards) != r.shape.Positions {
		return fmt.Errorf("policy: %d rewards by position, expected %d", len(rewards), r.shape.Positions)
	}
	for _, y := range rewards {
		if y-y != 0 {
			return bandit.ErrNotFinite
		}
	}
	copy(r.told, rewards)
	r.heard = true
	return nil
}

// Update implements bandit.Policy. Without the rewards by position each has its share; a vector that is no list counts as the nearest one.
func (r *Ranker) Update(a bandit.Action, y float64, _ rng.Source) error {
	heard := r.heard
	r.heard = false
	if y-y != 0 {
		return bandit.ErrNotFinite
	}
	list, g, ok := r.shape.Decode(r.list, a)
	if r.list = list; !ok {
		var err error
		if g, err = r.nearest(a); err != nil {
			return err
		}
	}
	if !heard {
		for l := range r.told {
			r.told[l] = y / float64(len(r.told))
		}
	}
	if r.kind == "toprank" {
		r.pairs(g)
	}
	r.totals[0]++
	for l, i := range r.list {
		at, c := g*r.shape.Items+i, r.told[l]
		trials := 1.0
		if r.kind == "pbm-ts" && r.exam != nil {
			trials = r.exam[l]
		}
		r.n[at] += trials
		r.s[at] += c
		if r.kind == "pbm-ts" || r.kind[0] == 'c' { // shares of a reward may leave [0, n]
			r.s[at] = min(max(r.s[at], 0), r.n[at])
		}
		r.totals[1]++
		r.totals[2] += c
		r.totals[3] += float64(c * c)
		if r.kind[0] == 'c' && heard && c > 0 { // the cascade ends here
			break
		}
	}
	return nil
}

// nearest reads a vector that is no list as the one with the largest coordinates: the segment of the largest one, then position by
// position, no item twice.
func (r *Ranker) nearest(a bandit.Action) (g int, err error) {
	if len(a.X) != r.shape.Dim() || a.At != nil {
		return 0, fmt.Errorf("policy: the action has %d coordinates, expected %d", len(a.X), r.shape.Dim())
	}
	best := 0
	for c, x := range a.X {
		if x-x != 0 {
			return 0, bandit.ErrNotFinite
		}
		if x > a.X[best] {
			best = c
		}
	}
	n, k := r.shape.Items, r.shape.Positions
	g = best / (n * k)
	r.list = r.list[:0]
	for l := range k {
		from, to := r.shape.Range(l)
		top := -1
		for i := from; i < to; i++ {
			if !slices.Contains(r.list, i) && (top < 0 || a.X[(g*n+i)*k+l] > a.X[(g*n+top)*k+l]) {
				top = i
			}
		}
		r.list = append(r.list, top)
	}
	return g, nil
}

// pairs compares the items of each block by their clicks.
func (r *Ranker) pairs(g int) {
	n := r.shape.Items
	r.blocks(g)
	wins := r.beats[g*n*n : (g+1)*n*n]
	count := r.beats[(r.shape.Segments+g)*n*n : (r.shape.Segments+g+1)*n*n]
	better := r.beats[(2*r.shape.Segments+g)*n*n : (2*r.shape.Segments+g+1)*n*n]
	click := func(i int) float64 {
		if l := slices.Index(r.list, i); l >= 0 {
			return r.told[l]
		}
		return 0
	}
	const c = 3.43 // 4√(2/π)/erf(√2)
	for i := range n {
		for j := range n {
			if i == j || r.block[i] != r.block[j] {
				continue
			}
			u := click(i) - click(j)
			at := i*n + j
			wins[at] += u
			if count[at] += math.Abs(u); count[at] > 0 && wins[at] >= math.Sqrt(float64(2*count[at])*logs.Log(float64(c*math.Sqrt(count[at]))/r.delta)) {
				better[at] = 1
			}
		}
	}
}

func (r *Ranker) vectors() [][]float64 { return [][]float64{r.n, r.s, r.totals, r.beats} }

// AppendSnapshot implements bandit.Snapshotter.
func (r *Ranker) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, r.kind, r.vectors()), nil
}

// Restore implements bandit.Snapshotter.
func (r *Ranker) Restore(b []byte) error {
	v, err := readSnapshot(b, r.kind, lengthsOf(r.vectors()))
	if err == nil {
		r.n, r.s, r.totals, r.beats = v[0], v[1], v[2], v[3]
		r.heard = false
	}
	return err
}

var (
	_ bandit.PositionLearner = (*Ranker)(nil)
	_ bandit.Snapshotter     = (*Ranker)(nil)
)

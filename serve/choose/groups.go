package choose

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/eventlog"
	"troupe/feature"
	"troupe/internal/linalg"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/candidates"
)

// Recorded takes the candidates of a record in place of those of a request.
func (w *Worker) Recorded(set *candidates.Set) error {
	h := w.Version.Compiled.Hashed
	switch {
	case h == nil && set.D == w.Version.Compiled.Dim:
		w.X = set.X
		return nil
	case h == nil || set.Actions == nil:
		return fmt.Errorf("the candidates do not fit the model")
	}
	w.sparse.clear()
	w.sparse.context = set.Context
	for _, a := range set.Actions {
		at, x := h.AppendVector(nil, nil, set.Context, a)
		w.sparse.actions, w.sparse.at, w.sparse.x = append(w.sparse.actions, a), append(w.sparse.at, at),
			append(w.sparse.x, x)
	}
	return nil
}

// Batch returns the batch of a model with hashed features, nil otherwise.
func (w *Worker) Batch() *feature.HashedBatch { return w.hashed }

// ID returns the hash of the id of candidate i, with hashed features, and the id.
func (w *Worker) ID(i int) (atom uint64, id string) {
	return w.sparse.actions[i][0].Hash, w.IDs[w.Place(i)]
}

// Lengths returns the Euclidean norms of the vector of candidate i, with hashed features: without and with pairs.
func (w *Worker) Lengths(i int) (plain, all float64) {
	first := uint32(1) << w.Version.Compiled.Hashed.Bits()
	for k, at := range w.sparse.at[i] {
		if at >= 2*first { // the list of atoms
			break
		}
		x := w.sparse.x[i][k]
		all += float64(x * x)
		if at < first {
			plain = all
		}
	}
	return math.Sqrt(plain), math.Sqrt(all)
}

// Policy returns the policy in the state of the version, for reading.
func (w *Worker) Policy() bandit.Policy { return bandit.Innermost(w.policy) }

// Schema returns the batch of a model with a schema, nil otherwise.
func (w *Worker) Schema() *feature.Batch { return w.batch }

// groups are the candidates that the policy cannot tell apart.
type groups struct {
	of     []int // number of the group of candidate i, in order of first appearance
	first  []int // first candidate of group g
	size   []int
	alike  bool // two candidates have equal features
	rows   []float64
	table  []int32  // 1 + a group, at places that hashes give; 0 is empty
	hashes []uint64 // of group g
	votes  []uint64 // of group g
	total  uint64
}

// Alike returns whether two candidates of the last choice had equal features.
func (w *Worker) Alike() bool { return w.groups.alike }

// Law returns the votes and the group of every candidate and the number of voters of the last choice, as a
// decision records them: groups is nil when each candidate is its own.
func (w *Worker) Law() (law []uint64, of []uint32, voters uint64) {
	g := &w.groups
	if k := len(g.of); k < 2 || k > MaxLaw {
		return nil, nil, 0
	}
	if w.market.stopped || w.floors.sum > 0 || w.limits.on {
		law, voters = w.wholeLaw()
		return law, nil, voters
	}
	law = make([]uint64, len(g.of))
	for i, n := range g.of {
		law[i] = g.votes[n]
	}
	if len(g.first) < len(g.of) {
		of = make([]uint32, len(g.of))
		for i, n := range g.of {
			of[i] = uint32(n)
		}
	}
	return law, of, g.total
}

// MaxLaw is the largest number of candidates whose law is recorded.
const MaxLaw = 1 << 16

// group finds the candidates that are alike: equal(i, j) says whether two are, and hash agrees for such two.
func (g *groups) group(k int, hash func(i int) uint64, equal func(i, j int) bool) {
	g.of, g.first, g.size, g.hashes = g.of[:0], g.first[:0], g.size[:0], g.hashes[:0]
	size := bits.Len(uint(2 * k))
	places := 1 << size // half stay empty, or more
	if cap(g.table) < places {
		g.table = make([]int32, places)
	}
	g.table = g.table[:places]
	clear(g.table)
	for i := range k {
		h := hash(i)
		at := int(h * fibonacci >> (64 - size))
		for g.table[at] != 0 {
			if n := int(g.table[at] - 1); g.hashes[n] == h && equal(g.first[n], i) {
				break
			}
			at = (at + 1) & (places - 1)
		}
		if g.table[at] == 0 {
			g.first, g.size, g.hashes = append(g.first, i), append(g.size, 0), append(g.hashes, h)
			g.table[at] = int32(len(g.first))
		}
		n := int(g.table[at] - 1)
		g.of, g.size[n] = append(g.of, n), g.size[n]+1
	}
}

// hashRow is a hash of numbers, in four chains that do not wait for each other. −0 counts as 0.
func hashRow(x []float64) uint64 {
	var h [4]uint64
	for ; len(x) >= 4; x = x[4:] {
		h[0] = mix(h[0], math.Float64bits(x[0]+0))
		h[1] = mix(h[1], math.Float64bits(x[1]+0))
		h[2] = mix(h[2], math.Float64bits(x[2]+0))
		h[3] = mix(h[3], math.Float64bits(x[3]+0))
	}
	for _, v := range x {
		h[0] = mix(h[0], math.Float64bits(v+0))
	}
	return mix(mix(mix(h[0], h[1]), h[2]), h[3])
}

const fibonacci = 0x9e3779b97f4a7c15 // 2⁶⁴ over the golden ratio

func mix(h, v uint64) uint64 {
	h = (h ^ v) * fibonacci
	return h ^ h>>29
}

// mixCost mixes the cost of candidate i into a hash, where costs matter.
func (w *Worker) mixCost(h uint64, i int) uint64 {
	if w.market.on {
		return mix(h, math.Float64bits(w.costs[i]))
	}
	return h
}

// find groups the candidates by their features, under a budget also by their costs, for greedy policies by their
// scores, of which equal features are a case.
func (w *Worker) find() {
	g, d := &w.groups, w.Version.Compiled.Dim
	row := func(i int) []float64 { return w.X[i*d : (i+1)*d] }
	if w.hashed != nil {
		s := &w.sparse
		g.group(len(s.actions), func(i int) uint64 {
			h := uint64(0)
			for _, a := range s.actions[i] {
				h = mix(mix(h, a.Hash), math.Float64bits(a.Value))
			}
			return w.mixCost(h, i)
		}, func(i, j int) bool { return slices.Equal(s.actions[i], s.actions[j]) && w.cost(i) == w.cost(j) })
	} else {
		g.group(len(w.X)/d, func(i int) uint64 { return w.mixCost(hashRow(row(i)), i) },
			func(i, j int) bool { return slices.Equal(row(i), row(j)) && w.cost(i) == w.cost(j) })
	}
	g.alike = len(g.first) < len(g.of)
	if theta := greedy(w.policy); theta != nil && len(theta) == d {
		scores := make([]float64, len(g.of))
		for i := range scores {
			scores[i] = linalg.Dot(row(i), theta) + 0
		}
		g.group(len(scores), func(i int) uint64 { return w.mixCost(math.Float64bits(scores[i]), i) },
			func(i, j int) bool { return scores[i] == scores[j] && w.cost(i) == w.cost(j) })
	}
}

// greedy returns θ of a policy that plays the largest score, nil for others.
func greedy(p bandit.Policy) []float64 {
	if g, ok := p.(bandit.GreedyScorer); ok {
		return g.GreedyTheta()
	}
	return nil
}

// set returns one candidate of each group.
func (w *Worker) set() (bandit.ActionSet, error) {
	g, d := &w.groups, w.Version.Compiled.Dim
	if w.hashed != nil {
		return representatives{w}, nil
	}
	if len(g.first) == len(g.of) {
		return actionset.FiniteOf(d, w.X)
	}
	g.rows = g.rows[:0]
	for _, i := range g.first {
		g.rows = append(g.rows, w.X[i*d:(i+1)*d]...)
	}
	return actionset.FiniteOf(d, g.rows)
}

// representatives are one candidate of each group, with hashed features.
type representatives struct{ w *Worker }

func (r representatives) Dim() int { return r.w.Version.Compiled.Dim }

func (r representatives) Len() int { return len(r.w.groups.first) }

func (r representatives) Nonzeros(g int) ([]uint32, []float64) {
	i := r.w.groups.first[g]
	return r.w.sparse.at[i], r.w.sparse.x[i]
}

// ArgMax implements bandit.ActionSet.
func (r representatives) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	best, arm := math.Inf(-1), 0
	for g := range r.Len() {
		var v float64
		at, x := r.Nonzeros(g)
		for k, c := range at {
			v += float64(x[k] * theta[c])
		}
		if v > best {
			best, arm = v, g
		}
	}
	at, x := r.Nonzeros(arm)
	dst.SetSparse(at, x, arm)
	return best, nil
}

// share draws a group by the policy's law, a candidate of the group uniformly, and a uniform candidate in place of
// it under the floor.
func (w *Worker) share(nonce eventlog.ID) (Choice, error) {
	w.find()
	v, m := w.Version, &w.market
	whole, err := w.set()
	if err != nil {
		return Choice{}, err
	}
	set, err := w.priced(whole)
	if err != nil {
		return Choice{}, err
	}
	source := draw(v.Seed, v.ID, nonce)
	own := w.own(source)
	c := Choice{}
	if err := w.vote(set, own); err != nil {
		return Choice{}, err
	}
	w.setFloors()
	w.clip()
	if m.on {
		c.Price, c.Expects = m.price, w.expected()
		if c.Stopped, err = w.stop(); err != nil {
			return Choice{}, err
		}
		if m.anew {
			if set, err = policy.Price(whole, m.prices, m.keep); err != nil {
				return Choice{}, err
			}
			if err := w.vote(set, own); err != nil {
				return Choice{}, err
			}
		}
		if w.stopFloors(); c.Stopped {
			w.clip()
		}
	}
	c.Floored = w.floors.sum > 0 || w.limits.on
	if c.Index, err = w.chosen(source, own); err != nil {
		return Choice{}, err
	}
	c.Member, c.Negative = drawn(w.policy, own.Sub(0))
	c.Num, c.Den = w.Propensity(c.Index)
	if c.Num == 0 {
		return Choice{}, fmt.Errorf("the policy chose an action of probability 0")
	}
	return c, nil
}

// vote lets the policy choose a group of the set, and counts the votes of all groups.
func (w *Worker) vote(set bandit.ActionSet, source rng.Source) (err error) {
	if joint, ok := w.policy.(bandit.Joint); ok {
		err = joint.SelectProb(&w.action, &w.law, set, source.Sub(0))
	} else if err = w.policy.Select(&w.action, set, source.Sub(0)); err == nil {
		err = w.policy.Prob(&w.law, set, source.Sub(0))
	}
	if err != nil {
		return err
	}
	n := len(w.groups.first)
	if w.market.anew {
		n = len(w.market.keep)
	}
	if len(w.law.Atoms) != n {
		return fmt.Errorf("the policy has a law of %d actions, expected %d", len(w.law.Atoms), n)
	}
	w.groups.count(&w.law)
	if w.market.anew { // votes are by group
		votes := w.groups.votes
		for range len(w.groups.first) - n {
			votes = append(votes, 0)
		}
		for k := n - 1; k >= 0; k-- {
			x := votes[k]
			votes[k] = 0
			votes[w.market.keep[k]] = x
		}
		w.groups.votes = votes
	}
	return nil
}

// one draws a candidate: a group, a candidate of it, and the coin of the floor. set holds one candidate of each group.
func (w *Worker) one(set bandit.ActionSet, source rng.Source) (int, error) {
	if err := w.policy.Select(&w.action, set, source.Sub(0)); err != nil {
		return 0, err
	}
	return w.chosen(source, source)
}

// chosen is the candidate of the group that the policy has chosen, or that of the floor. own is the source of what the
// unit of the decision draws, or that of the decision.
func (w *Worker) chosen(source, own rng.Source) (int, error) {
	g, c := &w.groups, w.Version.Compiled
	if w.limits.on {
		return w.limits.drawn(own), nil
	}
	if i := w.floors.drawn(source); i >= 0 {
		return i, nil
	}
	n, of := w.action.Index, len(g.first)
	if w.market.anew {
		of = len(w.market.keep)
	}
	if n < 0 || n >= of {
		return 0, fmt.Errorf("the policy chose %d of %d", n, of)
	}
	if c.FloorNum > 0 && source.Intn(0, int(c.FloorDen)) < int(c.FloorNum) {
		if w.market.stopped {
			return w.remaining(source.Intn(1, w.market.kept)), nil
		}
		return source.Intn(1, len(g.of)), nil
	}
	if w.market.anew {
		n = w.market.keep[n]
	}
	return g.member(n, own.Sub(2).Intn(0, g.size[n])), nil
}

// remaining returns candidate number n of those that the hard stop has left.
func (w *Worker) remaining(n int) int {
	for i, of := range w.groups.of {
		if !w.market.remains(of) {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	panic("choose: fewer candidates are left than were counted")
}

// member returns candidate number n of a group.
func (g *groups) member(group, n int) int {
	for i, of := range g.of {
		if of != group {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	panic("choose: a group has fewer candidates than it counts")
}

// count takes the votes of the groups from the policy's law. A law that is no count becomes one over 2⁵³, whose
// rounding goes to the largest.
func (g *groups) count(law *bandit.Law) {
	g.votes, g.total = g.votes[:0], law.Total
	if law.Total > 0 {
		for _, a := range law.Atoms {
			g.votes = append(g.votes, a.Count)
		}
		return
	}
	g.total = 1 << 53
	var sum uint64
	most := 0
	for i, a := range law.Atoms {
		n := uint64(math.Round(min(a.P, 1) * (1 << 53)))
		if g.votes = append(g.votes, n); n > g.votes[most] {
			most = i
		}
		sum += n
	}
	g.votes[most] += g.total - sum
}

package choose

import (
	"fmt"
	"math/big"
	"slices"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/effects"
	"troupe/eventlog"
	"troupe/policy"
	"troupe/rng"
	"troupe/serve/model"
)

// List is a list that was drawn from the law of a version.
type List struct {
	Rows      []int // candidates, from the top
	Member    uint32
	Record    *eventlog.List // its counts; the texts are the caller's to fill in
	Marginals []Fraction     // of the entries
	Draw      *effects.ListDraw
	Groups    []uint32 // of the candidates, nil where each is its own
	Floored   bool     // a uniform list was drawn in place of a member's

	counter *counter
	alike   *alike
	shape   *Shape
}

// Counts returns what the members say of another permitted list. full asks for the counts of all candidates.
func (l *List) Counts(rows []int, full bool) *eventlog.List {
	return l.counter.record(l.Draw, l.alike, rows, l.shape, full)
}

// Complete puts candidates where rows, the baseline of a caller, has -1: from the top the first one that may stand there, that
// stands nowhere else, and that leaves one for each position below. The others are different and permitted. It returns a NoListError of the first
// position for which none is left.
func (l *List) Complete(rows []int) error { return l.counter.complete(rows) }

// ChooseList draws a list from the version's law under the floor: one member draws the whole list, and of candidates that
// the policy cannot tell apart, those with equal features and equal permitted positions, each order has the same
// probability. It depends on the version, the candidates, the shape and the nonce and on nothing else. full asks for the
// counts of all candidates.
func (w *Worker) ChooseList(nonce eventlog.ID, shape *Shape, full bool, late func() bool) (*List, error) {
	v, o := w.Version, &w.Offer
	lister, ok := bandit.Innermost(w.policy).(policy.Lister)
	if !ok || o.hashed == nil {
		return nil, model.Invalid("policy", v.Compiled.Config.Policy.Raw["kind"], "plays no lists: expected the policy effects, and requests "+
			"without a schema")
	}
	n, k := o.Count(), shape.K
	c, err := newCounter(n, shape)
	if err != nil {
		return nil, err
	}
	g := listGroups(o, shape)
	w.law.alone()
	w.law.groups.alike = len(g.size) < n
	set, err := w.listSet()
	if err != nil {
		return nil, err
	}
	source := draw(v.Seed, v.ID, nonce)
	own := w.unit.own(v, source)
	s := effects.ListShape{K: k, Apart: c.apart, Late: late}
	if shape.allowed != nil {
		s.Allowed = func(l, i int) bool { return shape.allowed[i*k+l] }
	}
	d, err := lister.Lists(set, s, own.Sub(0))
	if err != nil || d == nil {
		return nil, err
	}
	out := &List{Draw: d, Groups: g.list(), counter: c, alike: g, shape: shape}
	out.Rows, out.Member, out.Floored = c.draw(d, g, source, own, v.Compiled.FloorNum, v.Compiled.FloorDen)
	out.Record = c.record(d, g, out.Rows, shape, full)
	for l := range k {
		f := MarginalOf(out.Record, l, v.Compiled.FloorNum, v.Compiled.FloorDen)
		if f.Num == 0 {
			return nil, fmt.Errorf("the policy chose an action of probability 0")
		}
		out.Marginals = append(out.Marginals, f)
	}
	return out, nil
}

// draw draws a list: a member of the unit, or of the decision, or with probability a/b a uniform list in its place.
func (c *counter) draw(d *effects.ListDraw, g *alike, source, own rng.Source, a, b uint64) (rows []int, member uint32, floored bool) {
	j := own.Sub(0).Intn(0, effects.ListDraws)
	if a > 0 && source.Intn(0, int(b)) < int(a) {
		return c.uniform(source), uint32(j), true
	}
	return g.member(d.Lists[j*c.k:(j+1)*c.k], own.Sub(2)), uint32(j), false
}

// listSet is the candidates as a set.
func (w *Worker) listSet() (bandit.ActionSet, error) {
	if w.Offer.hashed != nil {
		return every{&w.Offer}, nil
	}
	return actionset.FiniteOf(w.Version.Compiled.Dim, w.Offer.X)
}

// every is all candidates of an offer with hashed features.
type every struct{ o *Offer }

func (e every) Dim() int { return e.o.compiled.Dim }
func (e every) Len() int { return len(e.o.sparse.at) }
func (e every) Nonzeros(i int) ([]uint32, []float64) {
	return e.o.sparse.at[i], e.o.sparse.x[i]
}

// ArgMax implements bandit.ActionSet; nothing asks for it.
func (e every) ArgMax(*bandit.Action, []float64) (float64, error) {
	return 0, fmt.Errorf("choose: the candidates of a list have no best one: %w", bandit.ErrUnsupported)
}

// alike are groups of candidates that cannot be told apart: equal features, and equal positions where they may stand.
type alike struct {
	of   []int // group of candidate i, in order of first appearance
	size []int
	all  [][]int // candidates of group g
}

func listGroups(o *Offer, shape *Shape) *alike {
	n := len(o.sparse.actions)
	g := groups{offer: o}
	g.group(n, func(i int) uint64 {
		h := uint64(0)
		for _, a := range o.sparse.actions[i] {
			h = mix(h, a.Hash)
		}
		return h
	}, func(i, j int) bool {
		if !slices.Equal(o.sparse.actions[i], o.sparse.actions[j]) {
			return false
		}
		for l := range shape.K {
			if shape.Permits(i, l) != shape.Permits(j, l) {
				return false
			}
		}
		return true
	})
	a := &alike{of: slices.Clone(g.of), size: slices.Clone(g.size), all: make([][]int, len(g.first))}
	for i, x := range a.of {
		a.all[x] = append(a.all[x], i)
	}
	return a
}

// member is the list of a member, with the candidates of each group in a random order.
func (a *alike) member(list []int32, source rng.Source) []int {
	out := make([]int, len(list))
	var left map[int][]int
	for l, i := range list {
		g := a.of[i]
		if a.size[g] == 1 {
			out[l] = int(i)
			continue
		}
		if left == nil {
			left = map[int][]int{}
		}
		if left[g] == nil {
			left[g] = slices.Clone(a.all[g])
		}
		at := source.Intn(l, len(left[g]))
		out[l] = left[g][at]
		left[g] = slices.Delete(left[g], at, at+1)
	}
	return out
}

// record counts the members that agree with a list.
func (c *counter) record(d *effects.ListDraw, g *alike, rows []int, shape *Shape, full bool) *eventlog.List {
	k, n := c.k, c.n
	r := &eventlog.List{Voters: effects.ListDraws, Apart: c.apart, Prefix: make([]uint64, k), Marginal: make([]uint64, k)}
	shared := false
	free, size := make([]uint64, k), make([]uint64, k)
	for l, i := range rows {
		x := g.of[i]
		used := 0
		for _, h := range rows[:l] {
			if g.of[h] == x {
				used++
			}
		}
		free[l], size[l] = uint64(g.size[x]-used), uint64(g.size[x])
		shared = shared || g.size[x] > 1
		r.Rows, r.Sizes = append(r.Rows, uint64(i)), append(r.Sizes, uint64(c.sizes[l]))
	}
	if shared {
		r.Free, r.Alike = free, size
	}
	for j := range effects.ListDraws {
		list, same := d.Lists[j*k:(j+1)*k], true
		for l, i := range list {
			at := g.of[i] == g.of[rows[l]]
			if at {
				r.Marginal[l]++
			}
			if same = same && at; same {
				r.Prefix[l]++
			}
		}
	}
	if c.counted {
		r.Ways = c.ways(rows)
		for l, i := range rows {
			r.Placed = append(r.Placed, c.placed(i, l))
		}
	}
	if !full {
		return r
	}
	votes := make([]uint64, len(g.size)*k)
	for j := range effects.ListDraws {
		for l, i := range d.Lists[j*k : (j+1)*k] {
			votes[g.of[i]*k+l]++
		}
	}
	r.Votes = make([]uint64, n*k)
	for i := range n {
		copy(r.Votes[i*k:(i+1)*k], votes[g.of[i]*k:(g.of[i]+1)*k])
	}
	if shape.allowed != nil {
		r.Allowed = make([]byte, (n*k+7)/8)
		for at, yes := range shape.allowed {
			if yes {
				r.Allowed[at/8] |= 1 << (at % 8)
			}
		}
	}
	if c.counted {
		for i := range n {
			for l := range k {
				all := uint64(0)
				if shape.Permits(i, l) {
					all = c.placed(i, l)
				}
				r.All = append(r.All, all)
			}
		}
	}
	return r
}

// list returns the group of each candidate as a record has it: nil where each is its own.
func (a *alike) list() []uint32 {
	if len(a.size) == len(a.of) {
		return nil
	}
	out := make([]uint32, len(a.of))
	for i, g := range a.of {
		out[i] = uint32(g)
	}
	return out
}

// MarginalOf is the probability of the entry at position l, with ε = a/b:
//
//	((b − a)·u·W + a·N·g·w) / (b·N·g·W), w/W = 1/n, 1/n_l, or lists with the entry there of all lists.
func MarginalOf(r *eventlog.List, l int, a, b uint64) Fraction {
	g, w, all := uint64(1), uint64(1), r.Sizes[l]
	if len(r.Alike) > 0 {
		g = r.Alike[l]
	}
	if len(r.Ways) > 0 {
		w, all = r.Placed[l], r.Ways[0]
		by := gcd(w, all)
		w, all = w/by, all/by
	}
	if a == 0 {
		return reduced(natural(r.Marginal[l]), product2(r.Voters, g))
	}
	num := product2(b-a, r.Marginal[l])
	num.Mul(num, natural(all))
	more := product2(a, r.Voters)
	num.Add(num, more.Mul(more, product2(g, w)))
	den := product2(b, r.Voters)
	return reduced(num, den.Mul(den, product2(g, all)))
}

// ExplainList describes every candidate of a list that was drawn: Propensity is that of being anywhere in the list.
func (w *Worker) ExplainList(l *List) []Explained {
	o, v := &w.Offer, w.Version
	k, n := len(l.Rows), o.Count()
	out := make([]Explained, n)
	floor := &eventlog.Decision{Floor: uint32(v.Compiled.FloorNum * (eventlog.FloorUnit / v.Compiled.FloorDen)), List: l.Record}
	sizes := map[uint32]uint64{}
	for _, g := range l.Groups {
		sizes[g]++
	}
	for i := range out {
		at, alike := o.Place(i), uint64(1)
		if l.Groups != nil {
			alike = sizes[l.Groups[i]]
		}
		x := Explained{Chosen: Chosen{o.IDs[at], at}, Voters: effects.ListDraws, Marginals: make([]Fraction, k), Values: make([]float64, k)}
		if alike > 1 {
			x.Alike = int(alike)
		}
		sum := new(big.Rat)
		if len(l.Record.Votes) > 0 {
			for p := range k {
				q := floor.CandidateProb(i, p, alike)
				x.Marginals[p] = reduced(q.Num(), q.Denom())
				x.Votes += l.Record.Votes[i*k+p]
				sum.Add(sum, q)
			}
		}
		x.Propensity = reduced(sum.Num(), sum.Denom())
		copy(x.Values, l.Draw.Value[i*k:(i+1)*k])
		out[i] = x
	}
	return out
}

func natural(x uint64) *big.Int     { return new(big.Int).SetUint64(x) }
func product2(x, y uint64) *big.Int { return new(big.Int).Mul(natural(x), natural(y)) }

// reduced is num/den in lowest terms, and rounded to 2⁻⁵³ where those are above 2⁶³.
func reduced(num, den *big.Int) Fraction {
	q := new(big.Rat).SetFrac(num, den)
	if q.Denom().BitLen() <= 63 {
		return Fraction{q.Num().Uint64(), q.Denom().Uint64()}
	}
	x, _ := q.Float64()
	return Fraction{max(1, uint64(x*(1<<53))), 1 << 53}
}

package policy

import (
	"fmt"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// Octet is up to eight replications of one ensemble, each on a finite set of its own that stays the same,
// played in lock-step: their numbers lie side by side in the lanes of vectors, so eight rounds cost little
// more than the longest chain of operations of one. Each replication gets, bit for bit, what its policy
// gives alone: the same actions and, after Part, the same state (docs/design/adr/0005-lock-step.md).
//
// Rounds are played in order: Select reads, Update writes. Not safe for concurrent use.
type Octet struct {
	of   []*Ensemble
	d, m int

	arms   []float64      // K×d octets
	ridges *linalg.Ridges // step t is in row t mod 4
	s      []float64      // m×d octets
	first  int            // row of the first step that s has not seen
	late   int            // number of such steps
	u      []float64      // four rows of stride octets: targets of these rounds
	stride int
	quad   uint64 // ⌊t/4⌋ of u
	filled bool

	choose, perturb *rng.Octet
	law             rng.Law
	symmetric       bool
	constant        bool // scale is the same in every round

	scale      *[linalg.Eight]float64
	sum, theta []float64
}

// NewOctet puts policies side by side, one for each replication: of[l] plays on sets[l] and draws from the
// streams Select and Perturb of keys[l]. It returns nil where that is not possible, or not faster than
// one after the other: other policies than ensembles of the same options, kept eagerly, that draw one
// member a round; sets that are not lists of equal length; sizes that linalg.OctetsPay refuses. The
// policies are read now and written by Part only.
func NewOctet(of []bandit.Policy, sets []bandit.ActionSet, keys []rng.Key) *Octet {
	return newOctet(of, sets, keys, linalg.OctetsPay)
}

func newOctet(of []bandit.Policy, sets []bandit.ActionSet, keys []rng.Key, pays func(octets int) bool) *Octet {
	if len(of) < 1 || len(of) > linalg.Eight || len(sets) != len(of) || len(keys) != len(of) {
		panic(fmt.Sprintf("policy: NewOctet: %d policies, %d sets and %d keys, expected as many of each, eight at most", len(of), len(sets), len(keys)))
	}
	o := new(Octet)
	var choose, perturb []rng.Stream
	var lists [][]float64
	for l, p := range of {
		e, ok := p.(*Ensemble)
		list, flat := sets[l].(interface{ Flat() []float64 })
		if !ok || !flat || !e.abreast() || sets[l].Dim() != e.ridge.Dim() {
			return nil
		}
		if l > 0 && (e.opts != o.of[0].opts || e.ridge.Dim() != o.d || len(list.Flat()) != len(lists[0])) {
			return nil
		}
		o.of, o.d, o.m = append(o.of, e), e.ridge.Dim(), e.m
		lists = append(lists, list.Flat())
		choose, perturb = append(choose, keys[l].Stream(rng.Select)), append(perturb, keys[l].Stream(rng.Perturb))
	}
	d, m, first := o.d, o.m, o.of[0]
	// What a round touches: V⁻¹ and V, the arms, S and its targets.
	if !pays(2*d*d + len(lists[0]) + m*d + 4*m) {
		return nil
	}
	o.stride = m + m%2
	o.law, o.symmetric, o.constant = first.law.law, first.opts.Symmetric, first.radius.coef == 0
	// One piece of memory keeps what a round touches together, each part on a multiple of 64 bytes.
	room := make([]float64, (len(lists[0])+m*d+4*o.stride+2*d+1)*linalg.Eight)
	take := func(octets int) (x []float64) {
		x, room = room[:octets*linalg.Eight:octets*linalg.Eight], room[octets*linalg.Eight:]
		return x
	}
	o.arms, o.s, o.u = take(len(lists[0])), take(m*d), take(4*o.stride)
	o.sum, o.theta, o.scale = take(d), take(d), (*[linalg.Eight]float64)(take(1))
	ridges := make([]*linalg.Ridge, len(of))
	for l := range linalg.Eight {
		k := l
		if l >= len(of) {
			k = 0 // lanes without a replication copy the first
		} else {
			ridges[l] = o.of[l].ridge
		}
		for i, v := range lists[k] {
			o.arms[i*linalg.Eight+l] = v
		}
		for j := range m {
			o.of[k].s.fetch(first.sum, j)
			for i, v := range first.sum {
				o.s[(j*d+i)*linalg.Eight+l] = v
			}
		}
	}
	o.ridges = linalg.NewRidges(ridges)
	o.choose, o.perturb = rng.NewOctet(choose), rng.NewOctet(perturb)
	o.rescale()
	return o
}

// abreast reports whether an octet can play the policy: it draws one member in a round, and every row of S
// is up to date.
func (e *Ensemble) abreast() bool {
	return e.bridge == nil && e.reference == nil && e.opts.Select == "random" && e.s.mode == now && e.s.joint == nil
}

// rescale stores r_t of every lane.
func (o *Octet) rescale() {
	for l := range o.scale {
		e := o.of[0]
		if l < len(o.of) {
			e = o.of[l]
		}
		o.scale[l] = e.radius.fixed
		if !o.constant {
			o.scale[l] = e.radius.at(o.ridges.LogDetRatio(l))
		}
	}
}

// Select stores the arms of round t in arms. It reports false where some policy would refuse: the state
// is as it was, and the policies alone have the reason.
func (o *Octet) Select(arms *[linalg.Eight]int, t uint64) bool {
	members, signs := o.choose.Choice(t, o.m)
	linalg.OctetMember(o.sum, o.s, members, o.u[o.first*o.stride*linalg.Eight:], o.stride, o.ridges.Steps(o.first), o.d+1, o.late)
	c := o.scale
	if o.symmetric {
		var signed [linalg.Eight]float64
		for l, r := range o.scale {
			signed[l] = r * signs[l]
		}
		c = &signed
	}
	o.ridges.SolveShift(o.theta, o.sum, c)
	return linalg.OctetArgMax(arms, o.arms, o.theta)
}

// Update learns the rewards y of the arms in round t. It reports false, and changes nothing, where some
// policy would refuse.
func (o *Octet) Update(arms *[linalg.Eight]int, y *[linalg.Eight]float64, t uint64) bool {
	k := int(t % 4)
	if k != o.first+o.late || o.quad != t/4 {
		o.settle()
		o.ridges.Settle()
		o.first = k
	}
	linalg.OctetPick(o.ridges.Steps(k)[:o.d*linalg.Eight], o.arms, arms)
	if !o.ridges.Update(k, y) {
		return false
	}
	if !o.filled || o.quad != t/4 {
		o.perturb.Fill(o.u, o.stride, o.m, t, o.law)
		o.quad, o.filled = t/4, true
	}
	if o.late++; k == 3 {
		o.settle()
	}
	if !o.constant {
		o.rescale()
	}
	return true
}

// settle adds the steps that are late to S.
func (o *Octet) settle() {
	if o.late > 0 {
		linalg.OctetAdd(o.s, o.d, o.u[o.first*o.stride*linalg.Eight:], o.stride, o.ridges.Steps(o.first), o.d+1, o.late)
	}
	o.first, o.late = 0, 0
}

// Part gives every policy its state. They may go on alone then, and so may the octet.
func (o *Octet) Part() {
	o.settle()
	o.ridges.Part()
	row := make([]float64, o.d)
	for l, e := range o.of {
		for j := range o.m {
			for i := range row {
				row[i] = o.s[(j*o.d+i)*linalg.Eight+l]
			}
			e.s.store(j, row)
		}
		e.sums, e.scores = nil, scores{}
	}
}

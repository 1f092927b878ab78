package lockstep

import (
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// Ensemble describes a policy that plays alg:es with one member drawn in a round and every row of S
// up to date.
type Ensemble struct {
	Options   any // comparable; equal options mean that only the state differs
	Ridge     *linalg.Ridge
	Members   int
	Law       rng.Law // of the targets
	Symmetric bool    // a sign is drawn with the member
	Scale     float64 // r, where it is the same in every round; 0 otherwise
	// ScaleAt returns r_t for log det V_t/λ^d, where Scale is 0.
	ScaleAt func(logDetRatio float64) float64
	Load    func(dst []float64, j int) // stores S^j
	Store   func(j int, row []float64) // replaces S^j
	Changed func()                     // called after the last Store: what was computed from S is stale
}

// member is implemented by policies that may take part. ok is false when this one does not.
type member interface {
	LockStep() (e Ensemble, ok bool)
}

// ensembles is up to eight replications of one ensemble, each on a finite set of its own that stays
// the same. Each replication gets, bit for bit, what its policy gives alone.
//
// Rounds are played in order: Select reads, Update writes.
type ensembles struct {
	of   []Ensemble
	d, m int

	arms   []float64      // K×d batches
	ridges *linalg.Ridges // step t is in row t mod 4
	s      []float64      // m×d batches
	first  int            // row of the first step that s has not seen
	late   int            // number of such steps
	u      []float64      // four rows of stride batches: targets of these rounds
	stride int
	quad   uint64 // ⌊t/4⌋ of u
	filled bool

	choose, perturb *rng.Batch
	law             rng.Law
	symmetric       bool
	constant        bool // scale is the same in every round

	scale      *[linalg.Eight]float64
	sum, theta []float64
}

// newEnsembles puts policies side by side: of[l] plays on sets[l] and draws from the streams Select
// and Perturb of keys[l]. It returns nil for policies that cannot take part or differ in their
// options, sets that are not lists of equal length, and sizes that pays refuses. The policies are
// read now and written by Part only.
func newEnsembles(of []bandit.Policy, sets []bandit.ActionSet, keys []rng.Key, pays func(batches int) bool) *ensembles {
	if len(of) < 1 || len(of) > linalg.Eight || len(sets) != len(of) || len(keys) != len(of) {
		panic("lockstep: one to eight policies, and as many sets and keys")
	}
	o := new(ensembles)
	var choose, perturb []rng.Stream
	var lists [][]float64
	for l, p := range of {
		able, ok := p.(member)
		if !ok {
			return nil
		}
		e, ok := able.LockStep()
		list, flat := sets[l].(interface{ Flat() []float64 })
		if !ok || !flat || sets[l].Dim() != e.Ridge.Dim() {
			return nil
		}
		if l > 0 && (e.Options != o.of[0].Options || e.Ridge.Dim() != o.d || len(list.Flat()) != len(lists[0])) {
			return nil
		}
		o.of, o.d, o.m = append(o.of, e), e.Ridge.Dim(), e.Members
		lists = append(lists, list.Flat())
		choose, perturb = append(choose, keys[l].Stream(rng.Select)), append(perturb, keys[l].Stream(rng.Perturb))
	}
	d, m, first := o.d, o.m, o.of[0]
	// What a round touches: V⁻¹ and V, the arms, S and its targets.
	if !pays(2*d*d + len(lists[0]) + m*d + 4*m) {
		return nil
	}
	o.stride = m + m%2
	o.law, o.symmetric, o.constant = first.Law, first.Symmetric, first.ScaleAt == nil
	// One piece of memory keeps what a round touches together, each part on a multiple of 64 bytes.
	room := make([]float64, (len(lists[0])+m*d+4*o.stride+2*d+1)*linalg.Eight)
	take := func(batches int) (x []float64) {
		x, room = room[:batches*linalg.Eight:batches*linalg.Eight], room[batches*linalg.Eight:]
		return x
	}
	o.arms, o.s, o.u = take(len(lists[0])), take(m*d), take(4*o.stride)
	o.sum, o.theta, o.scale = take(d), take(d), (*[linalg.Eight]float64)(take(1))
	ridges, row := make([]*linalg.Ridge, len(of)), make([]float64, d)
	for l := range linalg.Eight {
		k := l
		if l >= len(of) {
			k = 0 // lanes without a replication copy the first
		} else {
			ridges[l] = o.of[l].Ridge
		}
		for i, v := range lists[k] {
			o.arms[i*linalg.Eight+l] = v
		}
		for j := range m {
			o.of[k].Load(row, j)
			for i, v := range row {
				o.s[(j*d+i)*linalg.Eight+l] = v
			}
		}
	}
	o.ridges = linalg.NewRidges(ridges)
	o.choose, o.perturb = rng.NewBatch(choose), rng.NewBatch(perturb)
	o.rescale()
	return o
}

// rescale stores r_t of every lane.
func (o *ensembles) rescale() {
	for l := range o.scale {
		e := &o.of[0]
		if l < len(o.of) {
			e = &o.of[l]
		}
		o.scale[l] = e.Scale
		if !o.constant {
			o.scale[l] = e.ScaleAt(o.ridges.LogDetRatio(l))
		}
	}
}

// Select stores the arms of round t in arms. It reports false where some policy would refuse: the state
// is as it was, and the policies alone have the reason.
func (o *ensembles) Select(arms *[linalg.Eight]int, t uint64) bool {
	members, signs := o.choose.Choice(t, o.m)
	linalg.BatchMember(o.sum, o.s, members, o.u[o.first*o.stride*linalg.Eight:], o.stride, o.ridges.Steps(o.first),
		o.d+1, o.late)
	c := o.scale
	if o.symmetric {
		var signed [linalg.Eight]float64
		for l, r := range o.scale {
			signed[l] = r * signs[l]
		}
		c = &signed
	}
	o.ridges.SolveShift(o.theta, o.sum, c)
	return linalg.BatchArgMax(arms, o.arms, o.theta)
}

// Update learns the rewards y of the arms in round t. It reports false, and changes nothing, where some
// policy would refuse.
func (o *ensembles) Update(arms *[linalg.Eight]int, y *[linalg.Eight]float64, t uint64) bool {
	k := int(t % 4)
	if k != o.first+o.late || o.quad != t/4 {
		o.settle()
		o.ridges.Settle()
		o.first = k
	}
	linalg.BatchPick(o.ridges.Steps(k)[:o.d*linalg.Eight], o.arms, arms)
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
func (o *ensembles) settle() {
	if o.late > 0 {
		linalg.BatchAdd(o.s, o.d, o.u[o.first*o.stride*linalg.Eight:], o.stride, o.ridges.Steps(o.first), o.d+1, o.late)
	}
	o.first, o.late = 0, 0
}

// Part gives every policy its state. They may go on alone then, and so may the batch.
func (o *ensembles) Part() {
	o.settle()
	o.ridges.Part()
	row := make([]float64, o.d)
	for l, e := range o.of {
		for j := range o.m {
			for i := range row {
				row[i] = o.s[(j*o.d+i)*linalg.Eight+l]
			}
			e.Store(j, row)
		}
		e.Changed()
	}
}

package policy

import (
	"errors"
	"math"

	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/rng"
)

// exactLaw is the engine exact-law: an ensemble with Gaussian targets in which only drawn members are
// looked at. Between two looks, after τ and n > τ updates, the sum of a member has moved by
//
//	S_n^j − S_τ^j = Σ_{τ<i≤n} U_i^j X_i ~ N(0, V_n − V_τ),
//
// independent of everything seen before, whatever the actions were: they depend on the members that
// were drawn, and U_i^j is drawn after X_i. So the increment is drawn when member j is, from the
// difference of two matrices, and the cost of a round does not depend on m: d³/2 for the Cholesky
// factor of the difference, which may be singular. A member that was never drawn is S_0^j + N(0,
// V_n − λI), so members can be added at any time without the history (the remark after rem:large-m
// asks for it), and m may grow.
//
// The law of all actions is that of the other engines. The numbers are not: they are keyed by
// (member, number of updates) and not by (member, round). In round t, Update fixes the sum of
// the member J_t that number 0 of the round's select source draws, whether Select was called or not;
// what is read of other members is a draw of the right law, given what was fixed, and is forgotten.
//
// Memory: d(d+3)/2 numbers for each member ever drawn.
type exactLaw struct {
	d      int
	m      int     // 0: grows
	growth float64 // m_t = max(1, ⌈growth·d·log t⌉) in round t
	lambda float64
	first  func(row []float64, j int)
	init   rng.Stream
	ridge  *linalg.Ridge
	draws  *rng.Rows // of the ensemble: J_t and ξ_t

	slot  []int32     // of member j, +1; 0 means never drawn. Not used when m is larger than manySlots
	far   map[int]int // the same for a very large m
	drawn []int       // the members of the slots
	pages [][]float64 // each of pageSlots slots: S_τ, then V_τ packed

	now []float64 // V_n, packed: the lower triangle by columns

	// The last sample, of member j after n updates.
	j, n   int
	valid  bool
	sample []float64  // S_n^j
	round  rng.Source // j is the member of this round, if any

	noise          rng.Stream
	noiseN         int       // −1: not derived
	moved          []float64 // V_n − V_τ, d rows of Padded(d)
	least, z, work []float64
}

// exactLawName is the value of the option engine.
const exactLawName = "exact-law"

// rounding is the relative error of an entry of V: differences below it are none.
const rounding = 1e-13

const (
	pageSlots = 128     // slots of a page; pages never move
	manySlots = 1 << 24 // members up to which slots are looked up in a list
)

// find returns the slot of a member, −1 when it was never drawn.
func (b *exactLaw) find(j int) int {
	if b.m > manySlots {
		if slot, known := b.far[j]; known {
			return slot
		}
		return -1
	}
	if j >= len(b.slot) {
		return -1
	}
	return int(b.slot[j]) - 1
}

// at returns S_τ and V_τ of a slot.
func (b *exactLaw) at(slot int) (sum, seen []float64) {
	size := b.d + len(b.now)
	x := b.pages[slot/pageSlots][slot%pageSlots*size:][:size]
	return x[:b.d], x[b.d:]
}

func newExactLaw(plan ensemblePlan, p Problem, ridge *linalg.Ridge, draws *rng.Rows) *exactLaw {
	d, o := p.Dim, plan.opts
	b := &exactLaw{
		d: d, m: o.M, growth: o.Grow, lambda: o.Lambda, first: plan.first, init: p.Init, ridge: ridge, draws: draws,
		now: make([]float64, d*(d+1)/2), sample: make([]float64, d), noiseN: -1,
		moved: make([]float64, d*linalg.Padded(d)), least: make([]float64, d), z: make([]float64, d),
		work: make([]float64, linalg.GaussianWork(d)),
	}
	ridge.PackV(b.now)
	return b
}

// members returns m_t of the coming round.
func (b *exactLaw) members() int {
	if b.m > 0 {
		return b.m
	}
	return max(1, int(math.Ceil(b.growth*float64(b.d)*logs.Log(float64(b.ridge.Len()+1)))))
}

func (b *exactLaw) name() string { return exactLawName }

func (b *exactLaw) settle() {}

func (b *exactLaw) load(dst []float64, j int) { copy(dst, b.sum(j)) }

func (b *exactLaw) view(j int) (s []float64, step int) { return b.sum(j), 1 }

// draw also fetches what the member of the next round needs from far memory, unless that is another one after all.
func (b *exactLaw) draw(draw rng.Source, j int) (s []float64, step int) {
	sample := b.sum(j)
	b.round = draw
	next, _ := b.draws.IntnSign(draw.Later(1), b.members())
	if slot := b.find(next); slot >= 0 {
		sum, seen := b.at(slot)
		linalg.Prefetch(sum)
		linalg.Prefetch(seen)
	}
	return sample, 1
}

func (b *exactLaw) update(x []float64, y float64, draw rng.Source) (gain []float64, ok bool) {
	b.look(draw)
	if gain, ok = b.ridge.Update(x, y); ok {
		b.fix(x)
	}
	return gain, ok
}

// sum returns S_n^j, which belongs to the engine and is valid until the next call.
func (b *exactLaw) sum(j int) []float64 {
	n := int(b.ridge.Len())
	if b.valid && b.j == j && b.n == n {
		return b.sample
	}
	var then []float64
	if slot := b.find(j); slot >= 0 {
		var sum []float64
		sum, then = b.at(slot)
		copy(b.sample, sum)
	} else {
		b.first(b.sample, j)
	}
	b.difference(then)
	if b.noiseN != n {
		b.noise, b.noiseN = b.init.Sub(uint64(n)+1), n
	}
	b.noise.Round(uint64(j)).Normals(b.z, 0)
	linalg.AddGaussian(b.sample, b.moved, b.least, b.z, b.work)
	b.j, b.n, b.valid, b.round = j, n, true, rng.Source{}
	return b.sample
}

// difference stores V_n − V_τ in moved, V_n − λI where then is nil, and the rounding errors of its variances in least.
func (b *exactLaw) difference(then []float64) {
	d := b.d
	ld := linalg.Padded(d)
	now := b.now
	for k := range d {
		b.least[k] = rounding * now[0]
		column, row := now[:d-k], b.moved[k*(ld+1):][:d-k]
		if then == nil {
			copy(row, column)
			row[0] -= b.lambda
		} else {
			old := then[:len(column)]
			for i, v := range column {
				row[i] = v - old[i]
			}
			then = then[d-k:]
		}
		for i, at := 1, (k+1)*ld+k; i < len(row) && at < len(b.moved); i, at = i+1, at+ld {
			b.moved[at] = row[i]
		}
		now = now[d-k:]
	}
}

// look prepares what fix needs, before the update of a round: it draws the sum of the member of the
// round.
func (b *exactLaw) look(draw rng.Source) {
	draw = draw.As(rng.Select)
	if b.valid && b.n == int(b.ridge.Len()) && b.round == draw {
		return // Select looked
	}
	b.sum(draw.Intn(0, b.members()))
}

// fix keeps the sum that look drew and makes the step x.
func (b *exactLaw) fix(x []float64) {
	slot := b.find(b.j)
	if slot < 0 {
		slot = b.add(b.j)
	}
	sum, seen := b.at(slot)
	copy(sum, b.sample)
	copy(seen, b.now)
	at := 0
	for k, v := range x {
		for _, w := range x[k:] {
			b.now[at] = math.FMA(v, w, b.now[at])
			at++
		}
	}
}

// add gives a member a slot.
func (b *exactLaw) add(j int) int {
	slot := len(b.drawn)
	if b.m > manySlots {
		if b.far == nil {
			b.far = make(map[int]int)
		}
		b.far[j] = slot
	} else {
		for j >= len(b.slot) {
			b.slot = append(b.slot, make([]int32, max(64, len(b.slot)))...)
		}
		b.slot[j] = int32(slot) + 1
	}
	b.drawn = append(b.drawn, j)
	if slot/pageSlots == len(b.pages) {
		b.pages = append(b.pages, make([]float64, pageSlots*(b.d+len(b.now))))
	}
	return slot
}

func (b *exactLaw) kind() string { return "ensemble-exact-law" }

func (b *exactLaw) lengths() []int { return []int{-1, -1, -1} }

// cost has no work: the drawn members are up to date.
func (b *exactLaw) cost() (numbers, work int) { return len(b.drawn) * (1 + b.d + len(b.now)), 0 }

// state returns the drawn members, their sums and matrices, for a snapshot.
func (b *exactLaw) state() [][]float64 {
	n := len(b.drawn)
	drawn, sums, matrices := make([]float64, n), make([]float64, 0, n*b.d), make([]float64, 0, n*len(b.now))
	for i, j := range b.drawn {
		drawn[i] = float64(j)
		sum, seen := b.at(i)
		sums, matrices = append(sums, sum...), append(matrices, seen...)
	}
	return [][]float64{drawn, sums, matrices}
}

// check returns an error when v is nothing that state returned.
func (b *exactLaw) check(v [][]float64) error {
	n, size := len(v[0]), len(b.now)
	if len(v[1]) != n*b.d || len(v[2]) != n*size {
		return errors.New("policy: snapshot holds members without their sums")
	}
	seen := make(map[float64]bool, n)
	for _, j := range v[0] {
		if j < 0 || j != math.Trunc(j) || j >= 1<<53 || b.m > 0 && j >= float64(b.m) || b.m == 0 && j >= manySlots ||
			seen[j] {
			return errors.New("policy: snapshot holds a member that cannot be, or one twice")
		}
		seen[j] = true
	}
	return nil
}

func (b *exactLaw) restore(v [][]float64) {
	b.slot, b.far, b.drawn, b.pages = nil, nil, nil, nil
	for i, j := range v[0] {
		sum, matrix := b.at(b.add(int(j)))
		copy(sum, v[1][i*b.d:])
		copy(matrix, v[2][i*len(b.now):])
	}
	b.ridge.PackV(b.now)
	b.valid, b.noiseN = false, -1
}

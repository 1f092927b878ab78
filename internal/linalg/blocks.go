package linalg

import (
	"math"

	"troupe/internal/logs"
)

// This file knows that V can be block-diagonal. Where all actions lie in blocks of neighbouring coordinates,
// as those of a disjoint model do, V, V⁻¹ and the Cholesky factor of V are 0 outside these blocks for ever. A
// Ridge and a Factor find the blocks by themselves: the nonzero numbers of each action lie between the first
// and the last of them, and blocks that such a stretch joins become one. Coordinates that no action has had are
// in no block; V is λI there.
//
// The numbers are those of the whole matrix, bit for bit up to the sign of a zero. Outside the block a step
// adds products with 0, and a sum over features has the same terms in the same partial sums: these are l =
// feature mod 8, in a block they begin with another l, and the end of the sum treats a rotation of them alike.

// blocksFrom is the dimension from which on blocks are looked for: below it the whole matrix stays in the
// first cache and one call of a kernel is cheaper than several.
var blocksFrom = 64

// blockCost is the price of a call of the kernels for a block, in multiply-adds.
var blockCost = 360

// ForceBlocks makes states look for blocks from a dimension on, whatever a block costs, until the returned function
// is called. It is for tests: a state that was made before has what it had.
func ForceBlocks(from int) (restore func()) {
	oldFrom, oldCost := blocksFrom, blockCost
	blocksFrom, blockCost = from, 0
	return func() { blocksFrom, blockCost = oldFrom, oldCost }
}

// block is the stretch of coordinates from, …, to−1, and what belongs to it.
type block[T any] struct {
	from, to int
	of       T
}

// blocks is a list of disjoint blocks, in ascending order.
type blocks[T any] []block[T]

// overlapping returns the blocks i, …, j−1 that share a coordinate with from, …, to−1.
func (b blocks[T]) overlapping(from, to int) (i, j int) {
	for n := len(b); i < n; {
		if mid := int(uint(i+n) >> 1); b[mid].to <= from {
			i = mid + 1
		} else {
			n = mid
		}
	}
	for j = i; j < len(b) && b[j].from < to; j++ {
	}
	return i, j
}

// find returns the block that has the coordinates from, …, to−1, nil where none has them all.
func (b blocks[T]) find(from, to int) *block[T] {
	if i, j := b.overlapping(from, to); j == i+1 && b[i].from <= from && to <= b[i].to {
		return &b[i]
	}
	return nil
}

// join replaces the blocks that meet from, …, to−1 by one that has these coordinates and theirs. build makes
// what belongs to it. It reports false, and changes nothing, where the blocks of d coordinates would not pay then.
func (b *blocks[T]) join(from, to, d int, build func(from, to int, old blocks[T]) T) (*block[T], bool) {
	i, j := b.overlapping(from, to)
	if i < j {
		from, to = min(from, (*b)[i].from), max(to, (*b)[j-1].to)
	}
	one := block[T]{from: from, to: to}
	list := make(blocks[T], 0, len(*b)-(j-i)+1)
	list = append(append(append(list, (*b)[:i]...), one), (*b)[j:]...)
	if !pays(list, d) {
		return nil, false
	}
	list[i].of = build(from, to, (*b)[i:j])
	*b = list
	return &list[i], true
}

// pays reports whether work by these blocks of d coordinates is less than that on the whole matrix.
func pays[T any](b []block[T], d int) bool {
	cost := 0
	for _, q := range b {
		cost += blockCost + (q.to-q.from)*(q.to-q.from)
	}
	return 3*cost <= 2*d*d
}

// stretches appends to list, which is empty, the shortest stretches of 0, …, d−1 such that first(i), the first column
// of row i of a lower triangle that is not 0, at most i, lies in the stretch of i. Those of one coordinate are among
// them.
func stretches(list []block[struct{}], d int, first func(i int) int) []block[struct{}] {
	for i := range d {
		s := block[struct{}]{from: first(i), to: i + 1}
		for n := len(list); n > 0 && list[n-1].to > s.from; n = len(list) {
			s.from = min(s.from, list[n-1].from)
			list = list[:n-1]
		}
		list = append(list, s)
	}
	return list
}

// firstNonzero returns the first place of a number that is not 0, n−1 at most.
func firstNonzero(x []float64) int {
	n := len(x)
	for i, v := range x {
		if v != 0 {
			return i
		}
	}
	return n - 1
}

// frequent returns the value that the most of d numbers have where that is more than half of them, and otherwise one of
// them.
func frequent(d int, at func(i int) float64) (v float64) {
	n := 0
	for i := range d {
		switch w := at(i); {
		case n == 0:
			v, n = w, 1
		case w == v:
			n++
		default:
			n--
		}
	}
	return v
}

// product is a product of many numbers, kept in range by powers of two.
type product struct {
	p float64
	e int
}

func (q *product) times(v float64) {
	q.p *= v
	if !(q.p > 0x1p-300 && q.p < 0x1p300) {
		fr, ex := math.Frexp(q.p)
		q.p, q.e = fr, q.e+ex
	}
}

func (q product) log() float64 { return logs.Log(q.p) + float64(float64(q.e)*math.Ln2) }

// Support returns the shortest stretch of x outside which all numbers are 0.
func Support(x []float64) (from, to int) {
	to = len(x)
	for ; to >= 8; to -= 8 { // eight at a time; bits without the sign are 0 for 0 only
		q := (*[8]float64)(x[to-8:])
		if (math.Float64bits(q[0])|math.Float64bits(q[1])|math.Float64bits(q[2])|math.Float64bits(q[3])|
			math.Float64bits(q[4])|math.Float64bits(q[5])|math.Float64bits(q[6])|math.Float64bits(q[7]))<<1 != 0 {
			break
		}
	}
	for to > 0 && x[to-1] == 0 {
		to--
	}
	for ; from+8 <= to; from += 8 {
		q := (*[8]float64)(x[from:])
		if (math.Float64bits(q[0])|math.Float64bits(q[1])|math.Float64bits(q[2])|math.Float64bits(q[3])|
			math.Float64bits(q[4])|math.Float64bits(q[5])|math.Float64bits(q[6])|math.Float64bits(q[7]))<<1 != 0 {
			break
		}
	}
	for from < to && x[from] == 0 {
		from++
	}
	return from, to
}

// ridgeBlocks are the blocks of a Ridge. Those of its parts are regressions of their own, without n, fresh, log det and
// growth, which belong to the whole.
type ridgeBlocks struct {
	parts blocks[*Ridge]
	idle  float64   // the diagonal of V⁻¹ outside the blocks
	spare []float64 // scratch of solveShift
}

// blockRows is the number of steps that wait in a block.
const blockRows = 16

// newPart returns the state of n coordinates before the first update, V⁻¹ = idle·I.
func newPart(n int, lambda, idle float64) *Ridge {
	ld := Padded(n)
	p := &Ridge{d: n, lambda: lambda, rows: blockRows, sum: make([]float64, n), theta: make([]float64, ld),
		gain: make([]float64, ld)}
	p.begin(idle)
	return p
}

// between calls f for the stretches of coordinates without a block, with nil, and for the blocks, in order.
func (s *ridgeBlocks) between(d int, f func(from, to int, part *Ridge)) {
	at := 0
	for i := range s.parts {
		p := &s.parts[i]
		if at < p.from {
			f(at, p.from, nil)
		}
		f(p.from, p.to, p.of)
		at = p.to
	}
	if at < d {
		f(at, d, nil)
	}
}

// each stores a d×d matrix in out: what copy stores for the blocks, and idle on the diagonal elsewhere.
func (s *ridgeBlocks) each(d int, out []float64, idle float64, copy func(part *Ridge, out []float64, ld int)) {
	clear(out)
	s.between(d, func(from, to int, part *Ridge) {
		if part != nil {
			copy(part, out[from*d+from:], d)
			return
		}
		for i := from; i < to; i++ {
			out[i*d+i] = idle
		}
	})
}

// b stores b in sum. It is 0 outside the blocks.
func (s *ridgeBlocks) b(sum []float64) {
	for _, p := range s.parts {
		copy(sum[p.from:p.to], p.of.B())
	}
}

func (s *ridgeBlocks) solve(dst, x []float64) {
	s.between(len(dst), func(from, to int, part *Ridge) {
		if part != nil {
			part.Solve(dst[from:to], x[from:to])
			return
		}
		for i := from; i < to; i++ {
			dst[i] = float64(s.idle*x[i]) + 0
		}
	})
}

func (s *ridgeBlocks) solveShift(dst, x []float64, step int, c float64) {
	s.between(len(dst), func(from, to int, part *Ridge) {
		if part == nil { // θ̂ is 0
			for i := from; i < to; i++ {
				dst[i] = float64(c*float64(s.idle*x[i*step])) + 0
			}
			return
		}
		// A block fills up its last vector, and the next one writes over it.
		out, ld := dst[from:to], Padded(to-from)
		if cap(out) >= ld {
			part.SolveShift(out, x[from*step:], step, c)
			return
		}
		if len(s.spare) < ld {
			s.spare = make([]float64, ld)
		}
		part.SolveShift(s.spare[:to-from:ld], x[from*step:], step, c)
		copy(out, s.spare)
	})
}

// part returns the block that has all nonzero numbers of x. It makes the matrix whole and returns nil where blocks do
// not pay.
func (r *Ridge) part(x []float64) *block[*Ridge] {
	from, to := Support(x)
	if from == to { // a step that changes nothing belongs to any block
		from, to = 0, 1
	}
	if p := r.split.parts.find(from, to); p != nil {
		return p
	}
	p, ok := r.split.parts.join(from, to, r.d, func(from, to int, old blocks[*Ridge]) *Ridge {
		part := newPart(to-from, r.lambda, r.split.idle)
		part.collect(old, from)
		return part
	})
	if !ok {
		r.join()
		return nil
	}
	return p
}

// collect takes over the blocks of a part of the coordinates of r, which begin at first.
func (r *Ridge) collect(old blocks[*Ridge], first int) {
	ld := Padded(r.d)
	for _, q := range old {
		p, at := q.of, q.from-first
		p.pay()
		p.enter()
		p.mirror()
		for i := range p.d {
			for j := range p.d {
				r.v[r.at(at+i, at+j)] = p.v[p.at(i, j)]
			}
			copy(r.inv[(at+i)*ld+at:][:p.d], p.inv[i*Padded(p.d):])
		}
		copy(r.sum[at:], p.sum)
		copy(r.theta[at:], p.theta[:p.d])
	}
}

// join makes the matrices whole.
func (r *Ridge) join() {
	split := r.split
	r.split = nil
	r.begin(split.idle)
	r.collect(split.parts, 0)
}

// updatePart is Update where x lies in a block.
func (r *Ridge) updatePart(p *block[*Ridge], x []float64, y float64) (gain []float64, ok bool) {
	part, x := p.of, x[p.from:p.to]
	q, ok := part.absorb(x, y, r)
	if !ok {
		return nil, false
	}
	if r.grow(q) && (r.fresh >= refactorEvery || part.drifted(x)) && r.refactor() {
		mulPadded(part.gain, part.inv, x)
	}
	copy(r.theta[p.from:p.to], part.theta)
	clear(r.gain)
	copy(r.gain[p.from:p.to], part.gain)
	return r.gain[:r.d], true
}

// refactorParts is refactor by blocks.
func (r *Ridge) refactorParts() bool {
	s, root := r.split, math.Sqrt(r.lambda)
	ok, det := true, product{p: 1}
	s.between(r.d, func(from, to int, part *Ridge) {
		if part == nil {
			for range to - from {
				det.times(root)
			}
			return
		}
		f := part.factor()
		ok = ok && f.Set(part.V())
		det.diagonal(&f)
	})
	if !ok {
		return false
	}
	for _, p := range s.parts {
		f := p.of.factor()
		p.of.invert(&f)
		copy(r.theta[p.from:p.to], p.of.theta)
	}
	s.idle = 1 / root / root
	r.rebuild(2 * det.log())
	return true
}

// restoreParts finds the blocks of V and V⁻¹, d×d, and replaces them. It reports false, and changes nothing, where
// blocks do not pay. b and θ̂ are those of the state already.
func (r *Ridge) restoreParts(v, inv []float64) bool {
	d := r.d
	idle := frequent(d, func(i int) float64 { return inv[i*d+i] })
	list := stretches(nil, d, func(i int) int {
		return min(firstNonzero(v[i*d:i*d+i+1]), firstNonzero(inv[i*d:i*d+i+1]))
	})
	n := 0
	for _, s := range list {
		if i := s.from; s.to-i > 1 || v[i*d+i] != r.lambda || inv[i*d+i] != idle || r.sum[i] != 0 || r.theta[i] != 0 {
			list[n] = s
			n++
		}
	}
	if list = list[:n]; !pays(list, d) {
		return false
	}
	var old blocks[*Ridge]
	if r.split != nil {
		old = r.split.parts
	}
	split := &ridgeBlocks{idle: idle, parts: make(blocks[*Ridge], n)}
	for k, s := range list {
		var part *Ridge
		if q := old.find(s.from, s.to); q != nil && q.from == s.from && q.to == s.to {
			part = q.of
		} else {
			part = newPart(s.to-s.from, r.lambda, idle)
		}
		part.put(v[s.from*d+s.from:], inv[s.from*d+s.from:], d)
		copy(part.sum, r.sum[s.from:])
		copy(part.theta[:part.d], r.theta[s.from:])
		split.parts[k] = block[*Ridge]{s.from, s.to, part}
	}
	r.split = split
	r.inv, r.v, r.k, r.wait, r.tile = nil, nil, nil, nil, nil
	return true
}

package episode

import (
	"math"
	"slices"

	"troupe/internal/logs"
	"troupe/rng"
)

func logOf(x float64) float64 { return logs.Log(x) }

// table is what the tabular agents know: counts and sums by cell. Values are derived from them before an episode, for
// the states that were seen: no other state follows a visit.
type table struct {
	size   Size
	n      []float64  // visits by cell
	weight []float64  // λ + 1 + 1 + … in this order, as a regression adds it up
	sum    []float64  // of the rewards
	after  [][]follow // states that followed, by number
	seen   []bool     // by step and state
	order  [][]int32  // by step: the states seen, in the order in which they were

	num, add []float64 // by cell: noise in the numerator and beside the quotient
	top      []float64 // optimism: the most that is left to win, by step; nil for other agents
	q        []float64 // by cell
	v        []float64 // by step and state, H+1 steps
}

// follow counts visits after which a state followed.
type follow struct {
	next int32
	n    float64
}

// noise is what tells the tabular agents apart.
type noise interface {
	// saw is called when a state is seen for the first time.
	saw(h, s int)
	// draw chooses what plays, from the numbers of the source.
	draw(draw rng.Source)
	// fill sets num and add for the cells of a state that was seen.
	fill(h, s int)
	// learned is called after a visit of cell c was counted.
	learned(c int, draw rng.Source)
}

// tabular is an agent with a table.
type tabular struct {
	*table
	noise
	each bool // draw in every step
}

func newTabular(s Setting, lambda float64, redraw string, of func(*table) noise) (Agent, error) {
	if err := numbered(s); err != nil {
		return nil, err
	}
	z := s.Size
	cells := z.cells()
	t := &table{size: z, n: make([]float64, cells), weight: make([]float64, cells), sum: make([]float64, cells),
		after: make([][]follow, cells), seen: make([]bool, z.Steps*z.States), order: make([][]int32, z.Steps),
		num: make([]float64, cells), add: make([]float64, cells), q: make([]float64, cells),
		v: make([]float64, (z.Steps+1)*z.States)}
	for c := range t.weight {
		t.weight[c] = lambda
	}
	return &tabular{t, of(t), redraw == "step"}, nil
}

// Begin implements Agent.
func (t *tabular) Begin(_ int, draw rng.Source) {
	if t.each {
		return // Act draws in the first step, too
	}
	t.noise.draw(draw)
	t.back(t.noise, 0)
}

// Act implements Agent. It takes number 0 of the source for equal values, and for agents that draw in every step those
// of a stream of its own.
func (t *tabular) Act(h, s int, draw rng.Source) int {
	if i := h*t.size.States + s; !t.seen[i] {
		t.seen[i] = true
		t.order[h] = append(t.order[h], int32(s))
		t.noise.saw(h, s)
		t.value(t.noise, h, s)
	}
	if t.each {
		t.noise.draw(draw.Sub(1))
		t.back(t.noise, h)
	}
	return argmax(t.q[t.size.cell(h, s, 0):][:t.size.Actions], draw, 0)
}

// Learn implements Agent.
func (t *tabular) Learn(h, s, a int, reward float64, next int, draw rng.Source) {
	c := t.size.cell(h, s, a)
	t.n[c]++
	t.weight[c]++
	t.sum[c] += reward
	if h+1 < t.size.Steps {
		t.count(c, int32(next))
	}
	t.noise.learned(c, draw)
}

// count keeps the list of the states that followed in the order of their numbers.
func (t *table) count(c int, next int32) {
	list := t.after[c]
	for i := range list {
		if list[i].next == next {
			list[i].n++
			return
		}
		if list[i].next > next {
			t.after[c] = slices.Insert(list, i, follow{next, 1})
			return
		}
	}
	t.after[c] = append(list, follow{next, 1})
}

// back computes the values of the states seen, from step H−1 to step h.
//
// Cost: one operation for each cell of a state seen and each state that followed it.
func (t *table) back(noise noise, h int) {
	for k := t.size.Steps - 1; k >= h; k-- {
		for _, s := range t.order[k] {
			t.value(noise, k, int(s))
		}
	}
}

// value computes Q_h(s, ·) and V_h(s) from V_{h+1}:
//
//	Q_h(s, a) = (Σ r + Σ_s' n(s')·V_{h+1}(s') + num) / (n + λ) + add,
//
// 0 for 0/0. With optimism the value of a pair without a visit is top[h], and V is at most that.
func (t *table) value(noise noise, h, s int) {
	noise.fill(h, s)
	v := t.v[(h+1)*t.size.States:][:t.size.States]
	c := t.size.cell(h, s, 0)
	best := math.Inf(-1)
	for end := c + t.size.Actions; c < end; c++ {
		sum, den := t.sum[c], t.weight[c]
		for _, f := range t.after[c] {
			sum += float64(f.n * v[f.next])
		}
		q := 0.0
		switch {
		case t.top != nil && t.n[c] == 0:
			q = t.top[h]
		case den > 0:
			q = (sum+t.num[c])/den + t.add[c]
		}
		t.q[c] = q
		best = max(best, q)
	}
	if t.top != nil {
		best = min(best, t.top[h])
	}
	t.v[h*t.size.States+s] = best
}

// none is no noise.
type none struct{}

func (none) saw(int, int)            {}
func (none) draw(rng.Source)         {}
func (none) fill(int, int)           {}
func (none) learned(int, rng.Source) {}

// member is what plays an episode: a number and a sign.
type member struct {
	m        int
	oneSided bool
	j        int
	sign     float64
}

func (m *member) draw(draw rng.Source) {
	m.j, m.sign = draw.Intn(0, m.m), 1
	if !m.oneSided {
		m.sign = draw.Sign(1)
	}
}

// accumulated are the members of an ensemble: by member and cell λ·p^j + σ·S^j.
type accumulated struct {
	*table
	member
	lambda, sigma, prior float64
	init                 rng.Stream
	sums                 []float64
	buf                  []float64
}

func newAccumulated(t *table, s Setting, o RLSVI) *accumulated {
	return &accumulated{table: t, member: member{m: o.M, oneSided: o.OneSided}, lambda: lambda(o.Sigma, o.Prior), sigma: o.Sigma,
		prior: o.Prior, init: s.Init, sums: make([]float64, o.M*t.size.cells()), buf: make([]float64, o.M)}
}

func (e *accumulated) saw(h, s int) {
	size := float64(e.lambda * e.prior)
	if size == 0 {
		return
	}
	cells := e.size.cells()
	for c := e.size.cell(h, s, 0); c < e.size.cell(h, s, e.size.Actions); c++ {
		e.init.Round(uint64(c)).Normals(e.buf, 0)
		for j, z := range e.buf {
			e.sums[j*cells+c] = float64(size * z)
		}
	}
}

func (e *accumulated) draw(draw rng.Source) { e.member.draw(draw) }

func (e *accumulated) fill(h, s int) {
	c := e.size.cell(h, s, 0)
	own := e.sums[e.j*e.size.cells():]
	for a := range e.size.Actions {
		e.num[c+a] = e.sign * own[c+a]
	}
}

func (e *accumulated) learned(c int, draw rng.Source) {
	if e.sigma == 0 {
		return
	}
	cells := e.size.cells()
	draw.Normals(e.buf, 0)
	for j, z := range e.buf {
		e.sums[j*cells+c] += float64(e.sigma * z)
	}
}

// atoms are members that are computed: the normals of a cell depend on its number and on ⌊log₂(n + λ)⌋. They are
// kept by member and cell, because they change seldom.
type atoms struct {
	*table
	member
	sigma float64
	init  rng.Stream
	g     []float64 // by member and cell
	scale []float64 // σ/√(n + λ) by cell
	epoch []int16   // by cell
	buf   []float64
}

func newAtoms(t *table, s Setting, o RLSVI) *atoms {
	n := t.size.cells()
	return &atoms{table: t, member: member{m: o.M, oneSided: o.OneSided}, sigma: o.Sigma, init: s.Init,
		g: make([]float64, o.M*n), scale: make([]float64, n), epoch: make([]int16, n), buf: make([]float64, o.M)}
}

func (e *atoms) saw(h, s int) {
	if e.sigma == 0 {
		return
	}
	for c := e.size.cell(h, s, 0); c < e.size.cell(h, s, e.size.Actions); c++ {
		e.renew(c, int16(math.Ilogb(e.weight[c])))
	}
}

// renew draws the normals of a cell for another epoch.
func (e *atoms) renew(c int, epoch int16) {
	const epochs = 1 << 12 // more than float64 has exponents
	e.epoch[c] = epoch
	e.scale[c] = e.sigma / math.Sqrt(e.weight[c])
	e.init.Round(uint64(c)*epochs+uint64(int(epoch)+epochs/2)).Normals(e.buf, 0)
	cells := e.size.cells()
	for j, z := range e.buf {
		e.g[j*cells+c] = z
	}
}

func (e *atoms) draw(draw rng.Source) { e.member.draw(draw) }

func (e *atoms) fill(h, s int) {
	c := e.size.cell(h, s, 0)
	own := e.g[e.j*e.size.cells():]
	for a := range e.size.Actions {
		e.add[c+a] = float64(e.sign * float64(e.scale[c+a]*own[c+a]))
	}
}

func (e *atoms) learned(c int, _ rng.Source) {
	if e.sigma == 0 {
		return
	}
	v := e.weight[c]
	if epoch := int16(math.Ilogb(v)); epoch != e.epoch[c] {
		e.renew(c, epoch)
		return
	}
	e.scale[c] = e.sigma / math.Sqrt(v)
}

// fresh is noise that is drawn anew: number c of the source for cell c.
type fresh struct {
	*table
	sigma float64
	z     []float64 // by cell
}

func (e *fresh) saw(int, int) {}

func (e *fresh) draw(draw rng.Source) { draw.Normals(e.z, 0) }

func (e *fresh) fill(h, s int) {
	for c := e.size.cell(h, s, 0); c < e.size.cell(h, s, e.size.Actions); c++ {
		e.add[c] = 0
		if v := e.weight[c]; v > 0 {
			e.add[c] = float64(e.sigma / math.Sqrt(v) * e.z[c])
		}
	}
}

func (e *fresh) learned(int, rng.Source) {}

// bonus is optimism in the face of uncertainty: c/√n.
type bonus struct {
	*table
	c float64
}

func (e *bonus) saw(int, int)            {}
func (e *bonus) draw(rng.Source)         {}
func (e *bonus) learned(int, rng.Source) {}

func (e *bonus) fill(h, s int) {
	if e.c == 0 {
		return
	}
	for c := e.size.cell(h, s, 0); c < e.size.cell(h, s, e.size.Actions); c++ {
		if n := e.n[c]; n > 0 {
			e.add[c] = e.c / math.Sqrt(n)
		}
	}
}

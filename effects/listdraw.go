package effects

import (
	"math"
	"slices"

	"troupe/internal/linalg"
	"troupe/rng"
)

// ListDraws is how many draws the law of a list counts.
const ListDraws = 256

// ListShape says which lists a request permits.
type ListShape struct {
	K       int                 // positions, at most as many as there are candidates
	Allowed func(l, i int) bool // whether candidate i may stand at position l; nil: each everywhere
	Apart   bool                // no candidate may stand at two positions anyway
	Late    func() bool         // may be nil: reports whether there is no time left; Lists then returns nil
}

// ListDraw is what Lists returns.
type ListDraw struct {
	Lists       []int32 // list j is Lists[j·k : (j+1)·k], the candidate at each position
	Approximate bool    // the best list of a draw was searched and not found for certain: categories that repeat
	Places      bool    // item × position plays
	Scale       []float64
	Value       []float64 // n×k: expected reward of candidate i at position l, nothing above it rewarded or repeated
}

// listDraw is the scratch space of one goroutine.
type listDraw struct {
	vectors []vector
	used    []int32 // coordinates, ascending
	at      []int32 // 1 + place in used
	cov     []float64
	normal  []float64 // rows of ListDraws/2
	theta   []float64 // rows of ListDraws, for each of used
	a       []float64 // rows of ListDraws: attraction of each candidate
	pos     [][]term  // of ψ, by candidate: what stands at which position
	again   [][]repeat
	terms   []int32 // coordinates of repeats; afterwards 1 + place in used
	values  map[uint64]int32
	few     []float64 // attractions of fewDraws draws, rows of candidates
	from    int       // the first of them, −1 for none
	out     ListDraw
	search  listSearch
}

// term is a coefficient of an item at a position.
type term struct {
	at int32 // its coordinate
	l  int
}

// fewDraws is how many draws are taken from the columns of attractions at once.
const fewDraws = 8

// Lists returns the lists that 256 draws from the posterior prefer: each draws the coefficients jointly, with listScale of the
// posterior's deviation, and plays the best permitted list. Draws are keyed by the number of the decision and by
// coefficients, so they do not depend on the order of the candidates, and the model does not change. Of a model that has
// learned no list, draws are those of Votes, and the positions are alike.
//
// The best list is exact but where a category repeats: sorted where every candidate may stand everywhere, by position where
// no candidate may stand at two, otherwise an assignment. Repeats are searched, by exchanges from there. It costs
// u²·128 + n·d·256 operations for u coefficients of a request, n candidates and d values of one, and 256 times O(n·log n)
// or an assignment O(k²n).
func (m *Model) Lists(context []Atom, actions [][]Atom, shape ListShape, number uint64) *ListDraw {
	d := &m.lists
	n := len(actions)
	d.read(m, context, actions, shape.K)
	d.a = resize(d.a, n*ListDraws)
	stream := m.keys.Sub(number)
	var pick [ListDraws]int
	m.tossLists(&pick, stream.Round(^uint64(0)))
	d.out.Approximate, d.out.Places = false, m.s.h.lists != nil && m.s.h.lists.open
	d.out.Lists = resizeInts(d.out.Lists, ListDraws*shape.K)
	d.scales(m, shape.K)
	d.expects(m, n, shape.K)
	d.search.begin(n, shape, d.out.Scale, d.again[:n], d.out.Places)
	done := [5]bool{}
	for _, c := range pick {
		if done[c] {
			continue
		}
		done[c] = true
		d.draw(m, m.copyAt(c), stream, actions)
		d.from = -1
		for j := range ListDraws {
			if pick[j] != c {
				continue
			}
			if shape.Late != nil && j%16 == 0 && shape.Late() {
				return nil
			}
			d.list(j, n, d.out.Lists[j*shape.K:(j+1)*shape.K])
		}
	}
	return &d.out
}

// tossLists draws the copy of each draw.
func (m *Model) tossLists(pick *[ListDraws]int, source rng.Source) {
	weights := m.shares(m.drawing.weights)
	m.drawing.weights = weights
	for j := range pick {
		u, c := source.Float64(j), 0
		for c+1 < len(weights) && u >= weights[c] {
			u -= weights[c]
			c++
		}
		pick[j] = c
	}
}

// read makes the vectors of the candidates, without their positions, and finds the coefficients of the request.
func (d *listDraw) read(m *Model, context []Atom, actions [][]Atom, k int) {
	l := &m.s.lay
	for len(d.vectors) < len(actions) {
		d.vectors = append(d.vectors, vector{})
	}
	for len(d.at) < len(l.coords) {
		d.at = append(d.at, 0)
	}
	for _, j := range d.used {
		d.at[j] = 0
	}
	d.used = d.used[:0]
	use := func(j int32) {
		if d.at[j] == 0 {
			d.at[j] = 1
			d.used = append(d.used, j)
		}
	}
	d.pos, d.terms = d.pos[:0], d.terms[:0]
	for len(d.again) < len(actions) {
		d.again = append(d.again, nil)
	}
	if d.values == nil {
		d.values = map[uint64]int32{}
	}
	clear(d.values)
	lists := m.s.h.lists != nil
	m.reading.context(l, &m.find, context, nil)
	r := &m.reading
	for i, a := range actions {
		v := &d.vectors[i]
		if lists {
			r.action(l, &m.find, a[0].Hash, a[1:], nil)
			v.at, v.x = append(v.at[:0], r.vector.at...), append(v.x[:0], r.vector.x...)
			v.tail = append(v.tail[:0], r.vector.tail...)
			for _, j := range v.at {
				use(j)
			}
		}
		d.pos, d.again[i] = append(d.pos, nil), d.again[i][:0]
		if !lists {
			continue
		}
		if m.s.h.lists.open {
			idKey := mix2(a[0].Hash, 4)
			for p := range k {
				if j, ok := m.find.coords[mix2(idKey, uint64(p)+9)]; ok && int(j) < len(l.coords) {
					use(j)
					d.pos[i] = append(d.pos[i], term{at: j, l: p})
				}
			}
		}
		for _, atom := range a[1:] {
			if atom.number() || !d.shared(actions, i, atom.Hash) {
				continue
			}
			f := atom.field() | actionField
			for _, key := range [2]uint64{repeatKey(f), repeatedKey(atom.Hash)} {
				if j, ok := m.find.coords[key]; ok && int(j) < len(l.coords) {
					use(j)
					value, ok := d.values[atom.Hash]
					if !ok {
						value = int32(len(d.values))
						d.values[atom.Hash] = value
					}
					x := slices.Index(d.terms, j)
					if x < 0 {
						x, d.terms = len(d.terms), append(d.terms, j)
					}
					d.again[i] = append(d.again[i], repeat{value, int32(x)})
				}
			}
		}
	}
	slices.Sort(d.used)
	for i, j := range d.used {
		d.at[j] = int32(i + 1)
	}
	for i, j := range d.terms {
		d.terms[i] = d.at[j]
	}
}

// shared reports whether another candidate has a value too.
func (d *listDraw) shared(actions [][]Atom, i int, hash uint64) bool {
	for k, b := range actions {
		if k == i {
			continue
		}
		for x := range b[1:] {
			if b[1+x].Hash == hash {
				return true
			}
		}
	}
	return false
}

// scales are the examinations of the positions.
func (d *listDraw) scales(m *Model, k int) {
	d.out.Scale = d.out.Scale[:0]
	for l := range k {
		e := 1.
		if x := m.s.h.lists; x != nil {
			e = x.e[placeOf(l, false)]
		}
		d.out.Scale = append(d.out.Scale, e)
	}
}

// expects fills in the expected rewards, in units of the rewards.
func (d *listDraw) expects(m *Model, n, k int) {
	d.out.Value = resize(d.out.Value, n*k)
	if m.s.h.lists == nil {
		clear(d.out.Value) // the caller has Estimate
		return
	}
	var p *posterior
	if b := m.s.main.blocks; len(b) > 0 && b[0] != nil {
		p = &b[0].post
	} else {
		p = &posterior{s2: m.s.h.s2}
	}
	for i := range n {
		a := d.attraction(m, p, i)
		for l := range k {
			v := float64(d.out.Scale[l] * a)
			if j, ok := m.find.coords[positionKey(l)]; ok && int(j) < len(p.m) {
				v += p.m[j]
			}
			for _, t := range d.pos[i] {
				if t.l == l && int(t.at) < len(p.m) {
					v += p.m[t.at]
				}
			}
			d.out.Value[i*k+l] = v
		}
	}
}

// attraction is the mean of what candidate i earns at a position with examination 1.
func (d *listDraw) attraction(m *Model, p *posterior, i int) float64 {
	a := p.estimate(&d.vectors[i])
	if len(d.vectors[i].tail) > 0 {
		t, _ := tailEstimate(&m.s.main.tail, 0, &d.vectors[i], &m.s.h, p.s2)
		a += t
	}
	return a
}

// draw draws the coefficients of a request from the posterior of a copy, and the attractions of the candidates.
func (d *listDraw) draw(m *Model, s *sums, stream rng.Stream, actions [][]Atom) {
	if m.s.h.lists == nil {
		d.single(m, s, stream, actions)
		return
	}
	u, half := len(d.used), ListDraws/2
	var p *posterior
	if len(s.blocks) > 0 && s.blocks[0] != nil {
		p = &s.blocks[0].post
	} else {
		p = &posterior{s2: m.s.h.s2}
	}
	d.cov = resize(d.cov, triangle(u))
	var trace float64
	for i, j := range d.used {
		row := d.cov[triangle(i):][:i+1]
		if int(j) < p.dim() {
			from := p.p[triangle(int(j)):]
			for k, at := range d.used[:i+1] {
				row[k] = from[at]
			}
		} else {
			clear(row)
			row[i] = m.s.h.prior(m.s.lay.coords[j].group)
		}
		trace += row[i]
	}
	jitter := float64(listJitter*trace)/float64(max(1, u)) + 1e-300
	cholesky(d.cov, u, jitter)
	d.normal = resize(d.normal, u*half)
	for i, j := range d.used {
		stream.Round(m.s.lay.coords[j].key).Normals(d.normal[i*half:(i+1)*half], 0)
	}
	d.theta = resize(d.theta, u*ListDraws)
	for i, j := range d.used {
		row := d.theta[i*ListDraws:][:ListDraws]
		up := row[:half]
		clear(up)
		for k, x := range d.cov[triangle(i):][:i+1] {
			if x != 0 {
				linalg.Axpy(float64(listScale*x), d.normal[k*half:(k+1)*half], up)
			}
		}
		mean := 0.
		if int(j) < len(p.m) {
			mean = p.m[j]
		}
		for q, x := range up { // both signs of each direction
			row[q], row[half+q] = mean+x, mean-x
		}
	}
	var own [ListDraws / 2]float64
	for i := range actions {
		v := &d.vectors[i]
		row := d.a[i*ListDraws:][:ListDraws]
		clear(row)
		for k, j := range v.at {
			linalg.Axpy(v.x[k], d.theta[int(d.at[j]-1)*ListDraws:][:ListDraws], row)
		}
		for _, t := range v.tail {
			z, q := m.loose(s, &t, p.s2)
			sd := float64(listScale * sqrt(q))
			stream.Round(t.key).Normals(own[:], 0)
			for h, x := range own {
				x = float64(sd * x)
				row[h], row[half+h] = row[h]+(z+x), row[half+h]+(z-x)
			}
		}
	}
}

// loose returns mean and variance of what a value without a coordinate adds. An id that was not learned has the variance of
// the ids' group: that is what makes a new action worth a try.
func (m *Model) loose(s *sums, l *loose, s2 float64) (z, q float64) {
	prior := m.s.h.prior(l.group)
	c := s.tail.find(tailKey(0, l.key))
	if c == nil {
		if l.value && m.s.lay.groups[l.group].kind != ofAction {
			return 0, 0
		}
		return 0, float64(float64(l.x*l.x) * prior)
	}
	d := c.n + s2/prior
	return float64(l.x * c.r / d), float64(float64(l.x*l.x) * s2 / d)
}

// single draws the attractions under a model that has learned no list.
func (d *listDraw) single(m *Model, s *sums, stream rng.Stream, actions [][]Atom) {
	half := ListDraws / 2
	d.normal = resize(d.normal, half)
	for i, a := range actions {
		k, v := m.readNext(a)
		z, q := m.estimate(s, k, v)
		sd := float64(narrow * float64(scaleOf(len(v.at)+len(v.tail))*sqrt(q)))
		stream.Round(a[0].Hash).Normals(d.normal, 0)
		row := d.a[i*ListDraws:][:ListDraws]
		for h, x := range d.normal {
			x = float64(sd * x)
			row[h], row[half+h] = z+x, z-x
		}
	}
}

// cholesky replaces the lower triangle of a positive matrix by its factor L.
func cholesky(a []float64, d int, jitter float64) {
	for i := range d {
		row := a[triangle(i):][: i+1 : i+1]
		for k := range i {
			other := a[triangle(k):][: k+1 : k+1]
			row[k] = (row[k] - linalg.Dot(row[:k], other[:k])) / other[k]
		}
		row[i] = math.Sqrt(max(row[i]+jitter-linalg.Dot(row[:i], row[:i]), jitter))
	}
}

// list finds the best list of draw j.
func (d *listDraw) list(j, n int, out []int32) {
	s := &d.search
	if from := j - j%fewDraws; from != d.from {
		d.from, d.few = from, resize(d.few, fewDraws*n)
		for i := range n {
			for q, a := range d.a[i*ListDraws+from:][:fewDraws] {
				d.few[q*n+i] = a
			}
		}
	}
	s.a = d.few[(j-d.from)*n:][:n]
	for i, at := range d.terms {
		s.x[i] = d.theta[int(at-1)*ListDraws+j]
	}
	if d.out.Places {
		clear(s.extra)
		for i := range n {
			for _, t := range d.pos[i] {
				s.extra[i*s.k+t.l] += d.theta[int(d.at[t.at]-1)*ListDraws+j]
			}
		}
	}
	if s.best(out) {
		d.out.Approximate = true
	}
}

func resizeInts(x []int32, n int) []int32 {
	if cap(x) < n {
		return make([]int32, n, n+n/4)
	}
	return x[:n]
}

package effects

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/bandit"
	"troupe/rng"
)

// played is the atom of a number.
func played(field uint64, u float64, cyclic bool) Atom {
	var flags uint64
	if cyclic {
		flags = bandit.CyclicNumber
	}
	return Atom{bandit.TagAtom(mix(field), bandit.PlayedRole, flags) >> 11, u}
}

// TestWaves: the waves are cosines, of a cyclic number cosines and sines of whole turns, divided by their frequency.
func TestWaves(t *testing.T) {
	for n := range 1001 {
		u := float64(n) / 1000
		if e := math.Abs(cosPi(u) - math.Cos(math.Pi*u)); e > 1e-15 {
			t.Fatalf("cos(π·%v) is off by %v", u, e)
		}
		var h [waves1 + 1]float64
		(&knob{u: u}).heights(h[:])
		for j := 1; j <= waves1; j++ {
			if want := math.Sqrt2 * math.Cos(math.Pi*float64(j)*u) / float64(j); math.Abs(h[j]-want) > 1e-13 {
				t.Fatalf("wave %d at %v is %v, want %v", j, u, h[j], want)
			}
		}
		(&knob{u: u, cyclic: true}).heights(h[:])
		for j := 1; j <= waves1/2; j++ {
			x := 2 * math.Pi * float64(j) * u
			if math.Abs(h[2*j-1]-math.Sqrt2*math.Cos(x)/float64(j)) > 1e-13 || math.Abs(h[2*j]-math.Sqrt2*math.Sin(x)/float64(j)) > 1e-13 {
				t.Fatalf("waves of frequency %d at %v are %v and %v", j, u, h[2*j-1], h[2*j])
			}
		}
	}
}

// game is a model that has learned from decisions with numbers, and what it may be asked.
type game struct {
	m        *Model
	contexts [][]Atom
	cells    [][]Atom
}

// newGame plays n decisions: two numbers, one of them cyclic, for one of two actions, and one number for the other; the context
// has words and a number.
func newGame(seed uint64, n int) *game {
	g := &game{m: New(Options{}, rng.NewKey(seed).Stream(rng.Init))}
	r := rand.New(rand.NewPCG(seed, 3))
	for s := range 3 {
		for range 4 {
			g.contexts = append(g.contexts, []Atom{word(1, fmt.Sprint("s", s)), num(2, 50*r.Float64())})
		}
	}
	for i := range 8 {
		for k := range 8 {
			g.cells = append(g.cells, []Atom{word(99, "a"), played(5, (float64(i)+.5)/8, false), played(6, float64(k)/8, true)})
		}
	}
	for i := range 16 {
		g.cells = append(g.cells, []Atom{word(99, "b"), played(5, (float64(i)+.5)/16, false)})
	}
	g.cells = append(g.cells, []Atom{word(99, "c")})
	for t := range n {
		g.step(uint64(t), r)
	}
	return g
}

func (g *game) step(t uint64, r *rand.Rand) {
	x := g.contexts[r.IntN(len(g.contexts))]
	_, winner := g.m.Votes(x, g.cells, nil, t)
	a := g.cells[winner[r.IntN(Draws)]]
	y := .2 * r.NormFloat64()
	if len(a) > 1 {
		y += 1 - 3*(a[1].Value-x[1].Value/50)*(a[1].Value-x[1].Value/50)
	}
	g.m.Decided(t, x, a)
	g.m.Learn(t, x, a, y)
}

// TestCurve: in each cell the mean and the variance of a curve are those that the model states of the action with this number,
// computed from its whole vector: two ways, one answer.
func TestCurve(t *testing.T) {
	for _, n := range []int{0, 3, 20, 300} {
		m := newGame(uint64(n)+1, n)
		x := m.contexts[5]
		for from, c := 0, (&curve{}); from < len(m.cells); {
			to := from
			for to < len(m.cells) && sameButKnobs(m.cells[from], m.cells[to]) {
				to++
			}
			id := m.cells[from][0].Hash
			m.m.reading.context(&m.m.s.lay, &m.m.find, x, nil)
			m.m.reading.curveAction(&m.m.s.lay, &m.m.find, id, m.cells[from][1:])
			r := m.m.curveOf(c, id)
			c.cells(&m.m.reading, m.cells[from:to], r)
			m.m.moments(c, m.m.s.main, m.m.blockAt(id, false), r)
			s := slices.Clone(c.s[:r*r])
			mean := slices.Clone(c.mean[:r])
			c.factor(r)
			for i := from; i < to; i++ {
				h := c.rows[(i-from)*r:][:r]
				var z, q float64
				for a := range r {
					z += h[a] * mean[a]
					for b := range r {
						q += h[a] * h[b] * s[max(a, b)*r+min(a, b)]
					}
				}
				var byFactor float64
				for k := range r {
					var v float64
					for a := k; a < r; a++ {
						v += h[a] * c.s[a*r+k]
					}
					byFactor += v * v
				}
				if math.Abs(q-byFactor) > 1e-6*q+1e-12 {
					t.Fatalf("after %d decisions, cell %d: the variance is %v, by its factor %v", n, i, q, byFactor)
				}
				if n < 3 || !m.m.s.lay.joint {
					continue // the vector does not have what no event had
				}
				k, v := m.m.read(x, m.cells[i], false)
				wantZ, wantQ := m.m.estimate(m.m.s.main, k, v)
				if math.Abs(z-wantZ) > 1e-9*(1+math.Abs(wantZ)) || math.Abs(q-wantQ) > 1e-9*(1+wantQ) {
					t.Fatalf("after %d decisions, cell %d: mean %v and variance %v, by its vector %v and %v", n, i, z, q, wantZ, wantQ)
				}
			}
			from = to
		}
	}
}

// TestCurveDraws: a draw is the mean and c times the deviation of the posterior, c = min(1, scale·√(1 + D/(n + 1))) for D coordinates and n
// events: with few events that is the whole posterior, with many the scale of draws.
func TestCurveDraws(t *testing.T) {
	for _, n := range []int{0, 8, 40, 400} {
		g := newGame(uint64(n)+1, n)
		m, c := g.m, &curve{}
		id := g.cells[0][0].Hash
		m.reading.context(&m.s.lay, &m.find, g.contexts[5], nil)
		m.reading.curveAction(&m.s.lay, &m.find, id, g.cells[0][1:])
		r := m.curveOf(c, id)
		k := m.blockAt(id, false)
		m.moments(c, m.s.main, k, r)
		c.factor(r)
		d, events := 0, 0.
		if n > 0 {
			b := m.s.main.blocks[k]
			d, events = b.post.dim(), b.n
		}
		c.normal = make([]float64, r*voters)
		for j := range voters {
			c.normal[j] = 1 // of the first coefficient
		}
		var scale [voters]float64
		for j := range scale {
			scale[j] = []float64{narrow, 1}[j%2]
		}
		c.draw(r, &scale, .75)
		for j := range voters {
			want := min(1, .75*scale[j]*math.Sqrt(1+float64(d)/(events+1)))
			if by := (c.w[j] - c.mean[0]) / c.s[0]; math.Abs(by-want) > 1e-9 {
				t.Fatalf("after %d events with %d coordinates draw %d has %v of the deviation, want %v", n, d, j, by, want)
			}
			if n == 8 && want < 1 || n == 400 && scale[j] == narrow && want > .5 {
				t.Fatalf("after %d events with %d coordinates a draw has %v of the deviation", n, d, want)
			}
		}
	}
}

// TestCurveVotes: the votes do not depend on the order of the actions; prices move them; a snapshot and an adopted state have
// the same votes, and go on with the same bits.
func TestCurveVotes(t *testing.T) {
	g := newGame(4, 200)
	x := g.contexts[1]
	votes, _ := g.m.Votes(x, g.cells, nil, 77)
	votes = slices.Clone(votes)
	turned := slices.Concat(g.cells[64:], g.cells[:64])
	other, _ := g.m.Votes(x, turned, nil, 77)
	if !slices.Equal(slices.Concat(votes[64:], votes[:64]), other) {
		t.Errorf("in another order of the actions the votes are %v, were %v", other, votes)
	}
	dear, _ := g.m.Votes(x, g.cells, func(i int) float64 {
		if i < 80 {
			return 100
		}
		return 0
	}, 77)
	if dear[80] != Draws {
		t.Errorf("where all numbers cost 100 the action without one has %d votes", dear[80])
	}
	back := New(Options{}, rng.NewKey(4).Stream(rng.Init))
	if err := back.Restore(g.m.AppendSnapshot(nil)); err != nil {
		t.Fatal(err)
	}
	adopted := New(Options{}, rng.NewKey(4).Stream(rng.Init))
	adopted.Adopt(g.m.Share())
	for name, m := range map[string]*Model{"restored": back, "adopted": adopted} {
		if v, _ := m.Votes(x, g.cells, nil, 77); !slices.Equal(v, votes) {
			t.Errorf("%s: the votes are %v, were %v", name, v, votes)
		}
		if m.Digest() != g.m.Digest() {
			t.Errorf("%s: the digest is another one", name)
		}
	}
	again := &game{m: back, contexts: g.contexts, cells: g.cells}
	r, q := rand.New(rand.NewPCG(9, 9)), rand.New(rand.NewPCG(9, 9))
	for n := range uint64(60) {
		g.step(1000+n, r)
		again.step(1000+n, q)
	}
	if back.Digest() != g.m.Digest() {
		t.Error("60 decisions later the restored model has another digest")
	}
}

// TestCurvesAtFirst: without events a number is played all over its range, in every tenth of it.
func TestCurvesAtFirst(t *testing.T) {
	m := New(Options{}, rng.NewKey(3).Stream(rng.Init))
	var cells [][]Atom
	for i := range 64 {
		cells = append(cells, []Atom{{noID, 1}, played(5, (float64(i)+.5)/64, false)})
	}
	var n [8]uint64
	for k := range uint64(50) {
		votes, _ := m.Votes(nil, cells, nil, k)
		for i, v := range votes {
			n[i/8] += v
		}
	}
	for i, v := range n {
		if v < 50*Draws/40 {
			t.Errorf("eighth %d of the range has %d of %d votes", i, v, 50*Draws)
		}
	}
}

// TestManyLevels: with more values of the context than there are coordinates for the waves the model still learns, and stays
// finite and within its size.
func TestManyLevels(t *testing.T) {
	m := New(Options{}, rng.NewKey(3).Stream(rng.Init))
	r := rand.New(rand.NewPCG(3, 3))
	var cells [][]Atom
	for i := range 64 {
		cells = append(cells, []Atom{{noID, 1}, played(5, (float64(i)+.5)/64, false)})
	}
	var late float64
	for n := range uint64(1500) {
		var x []Atom
		for f := range uint64(6) {
			x = append(x, word(f+1, fmt.Sprint("v", r.IntN(20))))
		}
		_, w := m.Votes(x, cells, nil, n)
		a := cells[w[r.IntN(Draws)]]
		d := a[1].Value - .7
		m.Decided(n, x, a)
		m.Learn(n, x, a, 1-4*d*d+.3*r.NormFloat64())
		if n >= 1300 {
			late += math.Abs(d) / 200
		}
	}
	if len(m.s.lay.coords) > maxJoint || m.s.main.tail.used > maxPages*pageCells {
		t.Errorf("%d coordinates, %d values in the tail", len(m.s.lay.coords), m.s.main.tail.used)
	}
	if z := m.Estimate(nil, cells[40]); z-z != 0 || late > .15 {
		t.Errorf("the mean distance from the best number is %v, the model expects %v", late, z)
	}
}

package worlds

import (
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"troupe/rng"
)

// This file has the rivals: what a careful engineer could write who has a log of the world. They are told what such a
// log shows, and read it from the world itself.

func source(w *World, seed uint64, name string) *rand.Rand {
	return rng.NewKey(seed).Child("player").Child(name).At(w.Seed).Stream(rng.Select).Round(0).Rand()
}

// Uniform plays every action alike.
type Uniform struct {
	r   *rand.Rand
	law []float64
}

// NewUniform returns a player that plays uniformly.
func NewUniform(w *World, seed uint64) *Uniform { return &Uniform{r: source(w, seed, "uniform")} }

// Decide implements Player.
func (u *Uniform) Decide(_ Object, actions []Action) (int, []float64, error) {
	u.law = u.law[:0]
	for range actions {
		u.law = append(u.law, 1/float64(len(actions)))
	}
	return u.r.IntN(len(actions)), u.law, nil
}

// Reward implements Player.
func (*Uniform) Reward(int, float64) error { return nil }

// Skip implements Player.
func (*Uniform) Skip(int) error { return nil }

// deviation returns the mean and the standard deviation of what uniform play of a world pays.
func deviation(w *World) (mean, sd float64) {
	var n, s, ss float64
	for i := range w.Decisions {
		k := float64(len(w.Decisions[i].Rewards))
		for _, y := range w.Decisions[i].Rewards {
			n, s, ss = n+1/k, s+y/k, ss+y*y/k
		}
	}
	mean = s / n
	return mean, math.Sqrt(max(ss/n-mean*mean, 0))
}

// Table is Thompson sampling that is told the cells that matter: a cell with n rewards of sum S has the draw
//
//	(S + ȳ)/(n + 1) + ½·s·N(0, 1)/√(n + 1),
//
// with the running mean ȳ of all rewards as the prior of one event, and half of the deviation s of the rewards, which
// it is told. Rewards that a client changes (scale, wild) are more than it was told.
type Table struct {
	w      *World
	r      *rand.Rand
	half   float64
	n, sum map[int]float64
	all    float64
	count  float64
	cells  []int
}

// NewTable returns the player "table ½".
func NewTable(w *World, seed uint64) *Table {
	_, sd := deviation(w)
	return &Table{w: w, r: source(w, seed, "table"), half: sd / 2, n: map[int]float64{}, sum: map[int]float64{}}
}

// Decide implements Player.
func (p *Table) Decide(Object, []Action) (int, []float64, error) {
	cells := p.w.Decisions[len(p.cells)].Cells
	mean := p.all / max(p.count, 1)
	best, at := math.Inf(-1), 0
	for i, c := range cells {
		v := (p.sum[c]+mean)/(p.n[c]+1) + p.half*p.r.NormFloat64()/math.Sqrt(p.n[c]+1)
		if v > best {
			best, at = v, i
		}
	}
	p.cells = append(p.cells, cells[at])
	return at, nil, nil
}

// Reward implements Player.
func (p *Table) Reward(decision int, y float64) error {
	c := p.cells[decision]
	p.n[c]++
	p.sum[c] += y
	p.count++
	p.all += y
	return nil
}

// Skip implements Player.
func (*Table) Skip(int) error { return nil }

// LinTS is Thompson sampling on a linear model with one-hot features and a fixed scale of ¼:
//
//	V = I + Σ x xᵀ,  b = Σ x (y − ȳ)/s,  score = ⟨x, V⁻¹b⟩ + ¼·√(xᵀV⁻¹x)·N(0, 1),
//
// with a normal number for each action. Where a world has at most 16 ids it has a block of the features of the context
// for each id; otherwise one vector with the action's features, and their products with the context's. It is told the
// mean ȳ and the deviation s of the rewards, the mean and the deviation of each number, and which values of a field occur
// more than once, of which it reads the 400 most frequent ones.
//
// Cost of a reward: the square of the coordinates of a block.
type LinTS struct {
	w        *World
	r        *rand.Rand
	mean, sd float64
	context  *told
	features *told
	blocks   map[string]*ridge
	joint    *ridge // nil with blocks
	x        []term // of the context
	u        []term // of one action
	played   []played
}

type played struct {
	b *ridge
	x []term
}

const (
	lintsScale = .25
	mostBlocks = 16
	mostLevels = 400
	mostTerms  = 1200 // coordinates of the joint vector
)

// NewLinTS returns the player.
func NewLinTS(w *World, seed uint64) *LinTS {
	p := &LinTS{w: w, r: source(w, seed, "lints"), context: newTold(), features: newTold(), blocks: map[string]*ridge{}}
	p.mean, p.sd = deviation(w)
	if p.sd == 0 {
		p.sd = 1
	}
	ids := map[string]bool{}
	for i := range w.Decisions {
		d := &w.Decisions[i]
		p.context.look(d.Context)
		for j := range d.Actions {
			ids[d.Actions[j].ID] = true
			p.features.look(d.Actions[j].Features)
		}
	}
	p.context.fix()
	if p.features.fix(); len(ids) > mostBlocks {
		p.joint = newRidge(min((1+p.context.n)*(1+p.features.n), mostTerms))
	}
	return p
}

// Decide implements Player.
func (p *LinTS) Decide(context Object, actions []Action) (int, []float64, error) {
	p.x = p.context.terms(append(p.x[:0], term{0, 1}), context)
	best, at := math.Inf(-1), 0
	var terms []term
	var block *ridge
	for i := range actions {
		b, x := p.joint, p.x
		if b == nil {
			if b = p.blocks[actions[i].ID]; b == nil {
				b = newRidge(1 + p.context.n)
				p.blocks[actions[i].ID] = b
			}
		} else {
			p.u = p.features.terms(append(p.u[:0], term{0, 1}), actions[i].Features)
			x = make([]term, 0, len(p.u)*len(p.x))
			for _, f := range p.u {
				for _, c := range p.x {
					if at := f.at*(1+p.context.n) + c.at; at < mostTerms && at > 0 {
						x = append(x, term{at, f.v * c.v})
					}
				}
			}
			x = append(x, term{0, 1})
		}
		z, q := b.predict(x)
		if v := z + lintsScale*math.Sqrt(q)*p.r.NormFloat64(); v > best {
			best, at, terms, block = v, i, x, b
		}
	}
	if p.joint == nil {
		terms = append([]term(nil), terms...)
	}
	p.played = append(p.played, played{block, terms})
	return at, nil, nil
}

// Reward implements Player.
func (p *LinTS) Reward(decision int, y float64) error {
	d := &p.played[decision]
	d.b.learn(d.x, (y-p.mean)/p.sd)
	d.x = nil
	return nil
}

// Skip implements Player.
func (p *LinTS) Skip(decision int) error {
	p.played[decision].x = nil
	return nil
}

// term is a coordinate with a value.
type term struct {
	at int
	v  float64
}

// ridge is a linear model: P = V⁻¹ row by row, and V⁻¹b.
type ridge struct {
	n    int
	p, m []float64
	w    []float64
}

func newRidge(n int) *ridge {
	b := &ridge{n: n, p: make([]float64, n*n), m: make([]float64, n), w: make([]float64, n)}
	for i := range n {
		b.p[i*n+i] = 1
	}
	return b
}

func (b *ridge) predict(x []term) (z, q float64) {
	for _, s := range x {
		z += s.v * b.m[s.at]
		row := b.p[s.at*b.n : (s.at+1)*b.n]
		for _, t := range x {
			q += s.v * t.v * row[t.at]
		}
	}
	return z, max(q, 0)
}

func (b *ridge) learn(x []term, y float64) {
	clear(b.w)
	for _, s := range x {
		for j, p := range b.p[s.at*b.n : (s.at+1)*b.n] {
			b.w[j] += s.v * p
		}
	}
	z, q := 0., 0.
	for _, s := range x {
		z, q = z+s.v*b.m[s.at], q+s.v*b.w[s.at]
	}
	g, e := 1/(1+q), y-z
	for i, wi := range b.w {
		if wi == 0 {
			continue
		}
		b.m[i] += g * wi * e
		row := b.p[i*b.n : (i+1)*b.n]
		for j, wj := range b.w {
			row[j] -= g * wi * wj
		}
	}
}

// told is what a log shows of features: levels and scales, and the coordinates that follow from them.
type told struct {
	columns map[string]*column
	order   []*column
	n       int
}

type column struct {
	levels      map[string]int // how often; after fix the coordinate, 0 for none
	count       float64
	sum, square float64
	at          int // coordinate of a number
	mean, sd    float64
}

func newTold() *told { return &told{columns: map[string]*column{}} }

func (t *told) column(path string) *column {
	c := t.columns[path]
	if c == nil {
		c = &column{levels: map[string]int{}}
		t.columns[path] = c
		t.order = append(t.order, c)
	}
	return c
}

// look counts the values of an object.
func (t *told) look(o Object) {
	leaves("", o, func(path string, x float64, level string, number bool) {
		c := t.column(path)
		if !number {
			c.levels[level]++
			return
		}
		c.count++
		c.sum += x
		c.square += x * x
	})
}

// fix gives coordinates 1, 2, … to what was seen.
func (t *told) fix() {
	for _, c := range t.order {
		if c.count > 0 {
			t.n++
			c.at, c.mean = t.n, c.sum/c.count
			if c.sd = math.Sqrt(max(c.square/c.count-c.mean*c.mean, 0)); c.sd == 0 {
				c.sd = 1
			}
		}
		least := 2
		for frequent(c.levels, least) > mostLevels {
			least++
		}
		for _, l := range ordered(c.levels) {
			if c.levels[l] < least {
				delete(c.levels, l)
				continue
			}
			t.n++
			c.levels[l] = t.n
		}
	}
}

func frequent(levels map[string]int, least int) (n int) {
	for _, times := range levels {
		if times >= least {
			n++
		}
	}
	return n
}

// terms appends the coordinates of an object.
func (t *told) terms(x []term, o Object) []term {
	leaves("", o, func(path string, v float64, level string, number bool) {
		c := t.columns[path]
		if c == nil {
			return
		}
		if number {
			x = append(x, term{c.at, (v - c.mean) / c.sd})
		} else if at := c.levels[level]; at > 0 {
			x = append(x, term{at, 1})
		}
	})
	return x
}

// leaves calls f for each number and for each level of an object: a string's words, true and false, an element of a
// list of strings; a number of a list has its place as a name.
func leaves(prefix string, o []Field, f func(path string, x float64, level string, number bool)) {
	for i := range o {
		v := &o[i].Value
		path := o[i].Name
		if prefix != "" {
			path = prefix + "." + path
		}
		switch v.Type {
		case Number:
			if v.Text != "" {
				f(path, 0, v.Text, false) // an id
			} else {
				f(path, v.Number, "", true)
			}
		case Bool:
			f(path, 0, truth[int(v.Number)], false)
		case String:
			for word := range strings.FieldsSeq(v.Text) {
				f(path, 0, word, false)
			}
		case List:
			for j := range v.Items {
				if e := &v.Items[j].Value; e.Type == Number {
					f(path+place(j), e.Number, "", true)
				} else if e.Type == String {
					f(path, 0, e.Text, false)
				}
			}
		case Map:
			leaves(path, v.Items, f)
		}
	}
}

var truth = [2]string{"false", "true"}

// places are the names of the first places of a list.
var places = func() (out [64]string) {
	for i := range out {
		out[i] = "[" + strconv.Itoa(i) + "]"
	}
	return out
}()

func place(i int) string {
	if i < len(places) {
		return places[i]
	}
	return "[" + strconv.Itoa(i) + "]"
}

// ordered returns the levels in alphabetical order.
func ordered(levels map[string]int) []string { return slices.Sorted(maps.Keys(levels)) }

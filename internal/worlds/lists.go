package worlds

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"troupe/rng"
)

// ListWorld is a stream of decisions of which each is a list: K of the actions in an order, or one of each of several sets.
// It is not safe for concurrent use.
type ListWorld struct {
	Kind  string
	Seed  uint64
	K     int
	Whole bool  // one reward comes back for the list
	Sets  []int // of a page: how many actions each position has, one set behind the other; nil: any action anywhere

	g      *gen
	n, s   int // actions, segments
	offer  func() ListDecision
	value  func(d *ListDecision, list []int) float64
	pay    func(d *ListDecision, list []int) []float64
	best   func(d *ListDecision) (best, uniform float64)
	bounds map[int][2]float64 // of segments, where the actions do not change
	told   []float64          // examination
	p      func(d *ListDecision, i int) float64
}

// ListDecision is one decision of such a world.
type ListDecision struct {
	Context Object
	Actions []Action
	segment int
	rows    [][2]int // of actions with features
}

// Cell says to a player that is told the cells which one an action is in.
func (w *ListWorld) Cell(d *ListDecision, i int) int {
	if d.rows != nil {
		return (d.segment*5+d.rows[i][0])*3 + d.rows[i][1]
	}
	return d.segment*w.n + i
}

// Next returns the next decision.
func (w *ListWorld) Next() ListDecision { return w.offer() }

// Pay draws the rewards of a list, one for each position, or one where the world is Whole.
func (w *ListWorld) Pay(d *ListDecision, list []int) []float64 { return w.pay(d, list) }

// Value returns the expected sum of the rewards of a list.
func (w *ListWorld) Value(d *ListDecision, list []int) float64 { return w.value(d, list) }

// Bounds returns the value of the best list, and that of a uniform one.
func (w *ListWorld) Bounds(d *ListDecision) (best, uniform float64) {
	if w.best != nil {
		return w.best(d)
	}
	if b, ok := w.bounds[d.segment]; ok {
		return b[0], b[1]
	}
	best, count := math.Inf(-1), 0
	w.each(func(list []int) {
		v := w.value(d, list)
		best, uniform, count = max(best, v), uniform+v, count+1
	})
	uniform /= float64(count)
	w.bounds[d.segment] = [2]float64{best, uniform}
	return best, uniform
}

// each calls f for every list.
func (w *ListWorld) each(f func(list []int)) {
	list := make([]int, 0, w.K)
	var next func(from int)
	next = func(from int) {
		l := len(list)
		if l == w.K {
			f(list)
			return
		}
		to := w.n
		if w.Sets != nil {
			to = from + w.Sets[l]
		}
		for i := from; i < to; i++ {
			if slices.Contains(list, i) {
				continue
			}
			list = append(list, i)
			if w.Sets != nil {
				next(to)
			} else {
				next(0)
			}
			list = list[:l]
		}
	}
	next(0)
}

// ListKind is a kind of such worlds.
type ListKind struct {
	Name, Doc string
	Held      bool // no constant of the learner was chosen on it
	make      func(w *ListWorld, g *gen)
}

// ListKinds returns all kinds.
func ListKinds() []ListKind {
	return []ListKind{
		{"lists", "4 of 10, clicks by position: 1, .55, .35, .2 of an item's", false, pbm(.6, 1, .55, .35, .2)},
		{"rare", "the same, clicks of 0.5 to 7 %", false, rare},
		{"flat", "4 of 10, every position is examined", false, pbm(.6, 1, 1, 1, 1)},
		{"middle", "4 of 10, examination .3, 1, .6, .15", false, pbm(.6, .3, 1, .6, .15)},
		{"cascade", "4 of 10, the visitor stops at the first click", false, downTo(4, 10, .6, 0)},
		{"dcm", "4 of 10, goes on after a click with probability ½", false, downTo(4, 10, .7, .5)},
		{"place", "3 of 8, a place wants items of its own", false, placed},
		{"repeat", "3 of 9, the second item of a category is clicked ¼ as often", false, repeated},
		{"features", "3 of 10 new items each time, known by genre and level", false, known},
		{"whole", "3 of 8, one number comes back for the list", false, whole},
		{"page", "headline × image × button, one click, pairs fit or do not", false, page},
		{"carousel", "4 of 8 films, examination .75^l, .3 after a click, a genre again is clicked .6 as often",
			true, carousel},
		{"shelf", "6 of 24, 6 segments, examination .8^l, clicks of 2 to 40 %", true, shelf},
		{"ratings", "3 of 12, a number for each position: taste × examination with normal noise", true, ratings},
	}
}

// SelectLists returns the kinds that a list of names, or all, asks for.
func SelectLists(names []string) ([]ListKind, error) {
	var out []ListKind
	for _, name := range names {
		found := false
		for _, k := range ListKinds() {
			if k.Name == name || name == "all" || name == "held" && k.Held || name == "base" && !k.Held {
				found = true
				out = append(out, k)
			}
		}
		if !found {
			return nil, fmt.Errorf("lists: %q is no kind of worlds of lists", name)
		}
	}
	return out, nil
}

// ListKindOf returns the kind with a name.
func ListKindOf(name string) (ListKind, bool) {
	for _, k := range ListKinds() {
		if k.Name == name {
			return k, true
		}
	}
	return ListKind{}, false
}

// New returns the world of a seed. Worlds with other seeds are independent.
func (k ListKind) New(seed uint64) *ListWorld {
	key := rng.NewKey(seed).Child("worlds of lists").Child(k.Name)
	w := &ListWorld{Kind: k.Name, Seed: seed, K: 4, n: 10, s: 4, bounds: map[int][2]float64{}}
	w.g = &gen{Rand: key.Stream(rng.Instance).Round(0).Rand(), pay: key.Stream(rng.Reward).Round(0).Rand()}
	k.make(w, w.g)
	w.g.Rand = key.Stream(rng.Offer).Round(0).Rand()
	if w.offer == nil {
		a := actions("i", w.n)
		w.offer = func() ListDecision {
			c := w.g.IntN(w.s)
			return ListDecision{Context: segment(c), Actions: a, segment: c}
		}
	}
	return w
}

// beta13 draws from Beta(1, 3), by its distribution function 1 − (1−x)³.
func (g *gen) beta13() float64 { return 1 - math.Cbrt(1-g.Float64()) }

// attractions returns a table of click rates: lo + wide·Beta(1, 3).
func (w *ListWorld) attractions(g *gen, wide, lo float64) [][]float64 {
	p := make([][]float64, w.s)
	for s := range p {
		p[s] = make([]float64, w.n)
		for i := range p[s] {
			p[s][i] = lo + wide*g.beta13()
		}
	}
	return p
}

// shrink moves every row half of the way to the mean of the rows.
func shrink(p [][]float64) {
	for i := range p[0] {
		var mean float64
		for s := range p {
			mean += p[s][i] / float64(len(p))
		}
		for s := range p {
			p[s][i] = (p[s][i] + mean) / 2
		}
	}
}

// product makes the world position-based: a click at l with probability e_l·p_i.
func (w *ListWorld) product(p func(d *ListDecision, i int) float64, e []float64) {
	w.p, w.told = p, e
	w.value = func(d *ListDecision, list []int) (v float64) {
		for l, i := range list {
			v += e[l] * p(d, i)
		}
		return v
	}
	w.pay = func(d *ListDecision, list []int) (y []float64) {
		for l, i := range list {
			y = append(y, w.g.click(e[l]*p(d, i)))
		}
		return y
	}
	w.best = func(d *ListDecision) (best, uniform float64) {
		var a []float64
		var mean, sum float64
		for i := range d.Actions {
			a = append(a, p(d, i))
			mean += a[i] / float64(len(d.Actions))
		}
		down := func(x, y float64) int { return cmp.Compare(y, x) }
		slices.SortFunc(a, down)
		o := slices.Clone(e)
		slices.SortFunc(o, down)
		for l, x := range o {
			best += x * a[l]
			sum += x
		}
		return best, mean * sum
	}
}

func pbm(wide float64, e ...float64) func(*ListWorld, *gen) {
	return func(w *ListWorld, g *gen) {
		p := w.attractions(g, wide, .02)
		if e[0] == 1 && e[1] < 1 {
			shrink(p)
		}
		w.product(func(d *ListDecision, i int) float64 { return p[d.segment][i] }, e)
	}
}

func rare(w *ListWorld, g *gen) {
	p := g.table(w.s, w.n, .005, .07)
	for i := range w.n {
		all := g.between(.005, .07)
		for s := range p {
			p[s][i] = (p[s][i] + all) / 2
		}
	}
	w.product(func(d *ListDecision, i int) float64 { return p[d.segment][i] }, []float64{1, .55, .35, .2})
}

// down lets the visitor go down the list; after a click with probability on.
func (w *ListWorld) down(p func(d *ListDecision, i int) float64, on float64) {
	w.p = p
	for range w.K {
		w.told = append(w.told, 1)
	}
	w.value = func(d *ListDecision, list []int) (v float64) {
		there := 1.
		for _, i := range list {
			q := p(d, i)
			v += there * q
			there *= 1 - q*(1-on)
		}
		return v
	}
	w.pay = func(d *ListDecision, list []int) []float64 {
		y := make([]float64, len(list))
		for l, i := range list {
			if y[l] = w.g.click(p(d, i)); y[l] == 1 && w.g.click(on) == 0 {
				break
			}
		}
		return y
	}
}

func downTo(k, n int, wide, on float64) func(*ListWorld, *gen) {
	return func(w *ListWorld, g *gen) {
		w.K, w.n, w.s = k, n, 3
		p := w.attractions(g, wide, .02)
		w.down(func(d *ListDecision, i int) float64 { return p[d.segment][i] }, on)
	}
}

// clicked makes the clicks of the positions independent with the probabilities q.
func (w *ListWorld) clicked(q func(d *ListDecision, list []int, l int) float64) {
	w.value = func(d *ListDecision, list []int) (v float64) {
		for l := range list {
			v += q(d, list, l)
		}
		return v
	}
	w.pay = func(d *ListDecision, list []int) (y []float64) {
		for l := range list {
			y = append(y, w.g.click(q(d, list, l)))
		}
		return y
	}
}

func placed(w *ListWorld, g *gen) {
	w.n, w.K, w.s = 8, 3, 2
	own, with, at := g.normals(1, 8, .6)[0], g.normals(2, 8, .6), g.normals(8, 3, 1)
	up := []float64{.5, 0, -.3}
	w.clicked(func(d *ListDecision, list []int, l int) float64 {
		i := list[l]
		return logistic(-1.6 + own[i] + with[d.segment][i] + at[i][l] + up[l])
	})
}

func repeated(w *ListWorld, g *gen) {
	w.n, w.K, w.s = 9, 3, 3
	of, own, with := g.normals(1, 3, .8)[0], g.normals(1, 9, .3)[0], g.normals(3, 9, .5)
	e := []float64{1, .7, .5}
	w.clicked(func(d *ListDecision, list []int, l int) float64 {
		i := list[l]
		q := e[l] * logistic(-1.6+of[i%3]+own[i]+with[d.segment][i])
		for _, j := range list[:l] {
			if j%3 == i%3 {
				return q / 4
			}
		}
		return q
	})
	a := actions("i", 9)
	for i := range a {
		a[i].Features = Object{F("category", level("c", i%3))}
	}
	w.offer = func() ListDecision {
		c := w.g.IntN(w.s)
		return ListDecision{Context: segment(c), Actions: a, segment: c}
	}
}

func known(w *ListWorld, g *gen) {
	w.K, w.s = 3, 3
	genre, price, with := g.normals(1, 5, .7)[0], g.normals(1, 3, .4)[0], g.normals(3, 5, .8)
	w.product(func(d *ListDecision, i int) float64 {
		r := d.rows[i]
		return logistic(-1.7 + genre[r[0]] + price[r[1]] + with[d.segment][r[0]])
	}, []float64{1, .6, .35})
	made := 0
	w.offer = func() ListDecision {
		c := w.g.IntN(w.s)
		d := ListDecision{Context: segment(c), segment: c, rows: make([][2]int, w.n), Actions: make([]Action, w.n)}
		for i := range d.rows {
			made++
			r := [2]int{w.g.IntN(5), w.g.IntN(3)}
			d.rows[i] = r
			d.Actions[i] = Action{ID: fmt.Sprintf("n%d", made), Features: Object{F("genre", level("g", r[0])), F("level", level("l", r[1]))}}
		}
		return d
	}
}

func whole(w *ListWorld, g *gen) {
	w.n, w.K, w.s, w.Whole = 8, 3, 2, true
	own, with := g.normals(1, 8, 1)[0], g.normals(2, 8, .7)
	e := []float64{1, .6, .4}
	w.value = func(d *ListDecision, list []int) (v float64) {
		for l, i := range list {
			v += e[l] * (own[i] + with[d.segment][i])
		}
		return v
	}
	w.pay = func(d *ListDecision, list []int) []float64 {
		return []float64{w.value(d, list) + w.g.pay.NormFloat64()}
	}
}

func page(w *ListWorld, g *gen) {
	w.n, w.K, w.s, w.Whole, w.Sets = 11, 3, 2, true, []int{4, 4, 3}
	own, with, fit := g.normals(1, 11, .5)[0], g.normals(2, 11, .35), g.normals(4, 4, .5)
	w.value = func(d *ListDecision, list []int) float64 {
		z := -1.4 + fit[list[0]][list[1]-4]
		for _, i := range list {
			z += own[i] + with[d.segment][i]
		}
		return logistic(z)
	}
	w.pay = func(d *ListDecision, list []int) []float64 { return []float64{w.g.click(w.value(d, list))} }
}

// carousel is a mixture on which nothing was tuned.
func carousel(w *ListWorld, g *gen) {
	w.n, w.K, w.s = 8, 4, 4
	own, with := g.normals(1, 8, .5)[0], g.normals(4, 8, .5)
	genre := g.normals(4, 3, .5)
	q := func(d *ListDecision, list []int, l int) float64 {
		i := list[l]
		p := logistic(-1.3 + own[i] + with[d.segment][i] + genre[d.segment][i%3])
		for _, j := range list[:l] {
			if j%3 == i%3 {
				return .6 * p
			}
		}
		return p
	}
	// Let there be the probability that the visitor is at l: .75 of before, and after a click .3 of that.
	w.value = func(d *ListDecision, list []int) (v float64) {
		there := 1.
		for l := range list {
			p := q(d, list, l)
			v += there * p
			there *= .75 * (1 - p*.7)
		}
		return v
	}
	w.pay = func(d *ListDecision, list []int) []float64 {
		y := make([]float64, len(list))
		for l := range list {
			if y[l] = w.g.click(q(d, list, l)); y[l] == 1 && w.g.click(.3) == 0 || w.g.click(.75) == 0 {
				break
			}
		}
		return y
	}
	a := actions("f", 8)
	for i := range a {
		a[i].Features = Object{F("genre", level("g", i%3))}
	}
	w.offer = func() ListDecision {
		c := w.g.IntN(w.s)
		return ListDecision{Context: segment(c), Actions: a, segment: c}
	}
}

func shelf(w *ListWorld, g *gen) {
	w.n, w.K, w.s = 24, 6, 6
	p := w.attractions(g, .38, .02)
	shrink(p)
	var e []float64
	for l := range 6 {
		e = append(e, math.Pow(.8, float64(l)))
	}
	w.product(func(d *ListDecision, i int) float64 { return p[d.segment][i] }, e)
}

func ratings(w *ListWorld, g *gen) {
	w.n, w.K, w.s = 12, 3, 4
	own, with := g.normals(1, 12, 1)[0], g.normals(4, 12, .7)
	w.product(func(d *ListDecision, i int) float64 { return 3 + own[i] + with[d.segment][i] }, []float64{1, .8, .6})
	w.pay = func(d *ListDecision, list []int) (y []float64) {
		for l, i := range list {
			y = append(y, w.told[l]*w.p(d, i)+1.5*w.g.pay.NormFloat64())
		}
		return y
	}
}

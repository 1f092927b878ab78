package worlds

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"troupe/rng"
)

// Range is a number that a decision plays.
type Range struct {
	Name        string
	Min, Max    float64
	Step        float64 // 0: any number of the range
	Cyclic, Log bool
}

// NumberKind is a kind of worlds whose decisions play numbers.
type NumberKind struct {
	Name string
	Doc  string
	Held bool // no constant is chosen on it
	make func(g *gen, w *NumberWorld)
}

// NumberWorld is a stream of decisions that play one or two numbers, with or without an action.
type NumberWorld struct {
	Kind     string
	Seed     uint64
	Numbers  []Range
	Offers   []string // ids of actions, none where only numbers are played
	Bare     int      // so many of the first actions have no numbers
	Contexts []Object // of each decision
	Cells    []int    // of each decision, for a player that is told which of its contexts have the same means
	Levels   int      // Cells are below it; 0 where the means depend on a number of the context
	Most     float64  // the largest value of that number

	mean func(t, offer int, a []float64) float64
	pay  func(r *rand.Rand, t, offer int, a []float64) float64
	key  rng.Key
	at   map[int][2]float64 // best and uniform, by cell
}

// Mean is the mean reward of decision t.
func (w *NumberWorld) Mean(t, offer int, a []float64) float64 { return w.mean(t, offer, a) }

// Reward draws the reward of decision t.
func (w *NumberWorld) Reward(t, offer int, a []float64) float64 {
	return w.pay(w.key.Stream(rng.Reward).Round(uint64(t)).Rand(), t, offer, a)
}

// fine is how many values of a number without steps are looked at for the best one, by how many numbers there are.
var fine = [...]int{0, 512, 64, 16}

// Grid returns the values of number i: its steps, or the middles of n equal parts of its range.
func (w *NumberWorld) Grid(i, n int) (out []float64) {
	r := &w.Numbers[i]
	if r.Step > 0 {
		for k := 0; ; k++ {
			v := r.Min + float64(k)*r.Step
			if v > r.Max+1e-9 || r.Cyclic && v > r.Max-1e-9 {
				return out
			}
			out = append(out, v)
		}
	}
	for k := range n {
		u := (float64(k) + .5) / float64(n)
		if r.Log {
			out = append(out, math.Exp(math.Log(r.Min)+u*(math.Log(r.Max)-math.Log(r.Min))))
		} else {
			out = append(out, r.Min+u*(r.Max-r.Min))
		}
	}
	return out
}

// Possible returns the mean reward of the best and of a uniform decision t.
func (w *NumberWorld) Possible(t int) (best, uniform float64) {
	if x, ok := w.at[w.Cells[t]]; ok && w.Levels > 0 {
		return x[0], x[1]
	}
	best, sum, n := math.Inf(-1), 0., 0
	var grids [][]float64
	for i := range w.Numbers {
		grids = append(grids, w.Grid(i, fine[len(w.Numbers)]))
	}
	a := make([]float64, len(grids))
	var each func(i, offer int)
	each = func(i, offer int) {
		if i == len(grids) {
			m := w.mean(t, offer, a)
			best, sum, n = max(best, m), sum+m, n+1
			return
		}
		for _, v := range grids[i] {
			a[i] = v
			each(i+1, offer)
		}
	}
	for offer := range max(1, len(w.Offers)) {
		if offer < w.Bare {
			each(len(grids), offer)
		} else {
			each(0, offer)
		}
	}
	if w.Levels > 0 {
		w.at[w.Cells[t]] = [2]float64{best, sum / float64(n)}
	}
	return best, sum / float64(n)
}

// NumberKinds returns all kinds.
func NumberKinds() []NumberKind { return slices.Clone(numberKinds) }

// NumberKindOf returns the kind with a name.
func NumberKindOf(name string) (NumberKind, error) {
	var names []string
	for _, k := range numberKinds {
		if k.Name == name {
			return k, nil
		}
		names = append(names, k.Name)
	}
	return NumberKind{}, fmt.Errorf("kind: is %q, expected one of %s", name, strings.Join(names, ", "))
}

// New returns the world of a seed with T decisions.
func (k NumberKind) New(seed uint64, T int) (*NumberWorld, error) {
	if T < 1 || T > MaxDecisions {
		return nil, fmt.Errorf("decisions: T is %d, expected 1 to %d decisions", T, MaxDecisions)
	}
	key := rng.NewKey(seed).Child("numbers").Child(k.Name)
	w := &NumberWorld{Kind: k.Name, Seed: seed, key: key, at: map[int][2]float64{}, Contexts: make([]Object, T), Cells: make([]int, T)}
	g := &gen{Rand: key.Stream(rng.Instance).Round(0).Rand(), T: T}
	k.make(g, w)
	return w, nil
}

var numberKinds = []NumberKind{
	{"prices", "profit (price − cost) × bought, logistic demand, 4 segments", false, pricesWorld},
	{"narrow", "a peak of width 6 % of the range, 3 segments", false, narrowWorld},
	{"broad", "a parabola, 3 segments", false, broadWorld},
	{"cliff", "the more the better until a threshold, behind it nothing; clicks", false, cliffWorld},
	{"hour", "an hour of the day, cyclic; clicks", false, hourWorld},
	{"two", "two numbers with a ridge between them, 2 segments", false, ridgeWorld},
	{"dose", "the best dose moves with a number of the context", false, doseWorld},
	{"offer", "which of 3 offers, and at what price, 2 segments", false, offerWorld},
	{"bid", "profit of a bid, values log-normal with a heavy tail, 3 segments", false, bidWorld},
	{"plateau", "a threshold: all above is equally good and costs a little; clicks", false, plateauWorld},
	{"discount", "a discount in steps of 5 %, two fields whose effects add up, one that does not matter", true, discountWorld},
	{"lifetime", "a lifetime from 1 s to a day on a log scale: misses cost, old answers too; 4 services", true, lifetimeWorld},
	{"stock", "a quantity to order for a demand that follows a number of the context", true, stockWorld},
	{"mixed", "three offers, of which one has no number, in 2 segments; clicks", true, mixedWorld},
}

// segmented draws the contexts: a segment of n.
func (w *NumberWorld) segmented(g *gen, n int) {
	w.Levels = n
	for t := range w.Contexts {
		c := g.IntN(n)
		w.Cells[t] = c
		if n > 1 {
			w.Contexts[t] = segment(c)
		}
	}
}

// clicks makes rewards of 0 and 1.
func (w *NumberWorld) clicks(mean func(c, offer int, a []float64) float64) {
	w.mean = func(t, offer int, a []float64) float64 { return mean(w.Cells[t], offer, a) }
	w.pay = func(r *rand.Rand, t, offer int, a []float64) float64 {
		if r.Float64() < w.mean(t, offer, a) {
			return 1
		}
		return 0
	}
}

// normals makes rewards with normal noise.
func (w *NumberWorld) normals(sd float64, mean func(c, offer int, a []float64) float64) {
	w.mean = func(t, offer int, a []float64) float64 { return mean(w.Cells[t], offer, a) }
	w.pay = func(r *rand.Rand, t, offer int, a []float64) float64 { return w.mean(t, offer, a) + sd*r.NormFloat64() }
}

// sales makes rewards of a margin times a sale with a probability.
func (w *NumberWorld) sales(margin func(c, offer int, a []float64) float64, p func(c, offer int, a []float64) float64) {
	w.mean = func(t, offer int, a []float64) float64 {
		return margin(w.Cells[t], offer, a) * p(w.Cells[t], offer, a)
	}
	w.pay = func(r *rand.Rand, t, offer int, a []float64) float64 {
		if r.Float64() < p(w.Cells[t], offer, a) {
			return margin(w.Cells[t], offer, a)
		}
		return 0
	}
}

func (g *gen) list(n int, lo, hi float64) []float64 { return g.table(1, n, lo, hi)[0] }

func pricesWorld(g *gen, w *NumberWorld) {
	w.Numbers = []Range{{Name: "price", Min: 1, Max: 20, Step: .5}}
	at, width, top := g.list(4, 5, 15), g.list(4, 1, 2.5), g.list(4, .4, .9)
	w.segmented(g, 4)
	w.sales(func(_, _ int, a []float64) float64 { return a[0] - 1 },
		func(c, _ int, a []float64) float64 { return top[c] * logistic((at[c]-a[0])/width[c]) })
}

func unit(name string) []Range { return []Range{{Name: name, Min: 0, Max: 1}} }

func bump(x float64) float64 { return math.Exp(-x * x / 2) }

func narrowWorld(g *gen, w *NumberWorld) {
	w.Numbers = unit("x")
	p := g.list(3, .1, .9)
	w.segmented(g, 3)
	w.normals(.5, func(c, _ int, a []float64) float64 { return bump((a[0] - p[c]) / .06) })
}

func broadWorld(g *gen, w *NumberWorld) {
	w.Numbers = unit("x")
	p := g.list(3, .1, .9)
	w.segmented(g, 3)
	w.normals(.5, func(c, _ int, a []float64) float64 { return 1 - 2*(a[0]-p[c])*(a[0]-p[c]) })
}

func cliffWorld(g *gen, w *NumberWorld) {
	w.Numbers = unit("x")
	p := g.list(3, .3, .9)
	w.segmented(g, 3)
	w.clicks(func(c, _ int, a []float64) float64 {
		if a[0] <= p[c] {
			return .1 + .6*a[0]
		}
		return .05
	})
}

func hourWorld(g *gen, w *NumberWorld) {
	w.Numbers = []Range{{Name: "hour", Min: 0, Max: 24, Step: .5, Cyclic: true}}
	h, b, u := g.list(3, 0, 24), g.list(3, .03, .08), g.list(3, .1, .25)
	w.segmented(g, 3)
	w.clicks(func(c, _ int, a []float64) float64 {
		return b[c] + u[c]*math.Exp(3*(math.Cos(2*math.Pi*(a[0]-h[c])/24)-1))
	})
}

func ridgeWorld(g *gen, w *NumberWorld) {
	w.Numbers = []Range{{Name: "x", Min: 0, Max: 1}, {Name: "y", Min: 0, Max: 1}}
	p, q := g.table(2, 2, .2, .8), g.list(2, -.8, .8)
	w.segmented(g, 2)
	w.normals(.5, func(c, _ int, a []float64) float64 {
		x, y := (a[0]-p[c][0])/.25, (a[1]-p[c][1])/.25
		return math.Exp(-.5 * (x*x + y*y + 2*q[c]*x*y))
	})
}

func doseWorld(g *gen, w *NumberWorld) {
	w.Numbers = unit("dose")
	al, be := g.between(.15, .35), g.between(.3, .5)
	if g.IntN(2) == 0 {
		al, be = 1-al, -be
	}
	x := make([]float64, len(w.Contexts))
	w.Most = 1
	for t := range x {
		x[t] = g.Float64()
		w.Contexts[t] = Object{F("weight", Num(x[t]))}
	}
	w.mean = func(t, _ int, a []float64) float64 {
		d := (a[0] - (al + be*x[t])) / .25
		return 1 - min(1.5, d*d)
	}
	w.pay = func(r *rand.Rand, t, offer int, a []float64) float64 { return w.mean(t, offer, a) + .5*r.NormFloat64() }
}

func offerWorld(g *gen, w *NumberWorld) {
	w.Numbers = []Range{{Name: "price", Min: 1, Max: 20, Step: .5}}
	w.Offers = []string{"basic", "plus", "pro"}
	at, width, top := g.table(2, 3, 4, 14), g.list(3, 1, 2.5), g.table(2, 3, .3, .9)
	w.segmented(g, 2)
	w.sales(func(_, _ int, a []float64) float64 { return a[0] - 1 },
		func(c, o int, a []float64) float64 { return top[c][o] * logistic((at[c][o]-a[0])/width[o]) })
}

func bidWorld(g *gen, w *NumberWorld) {
	w.Numbers = unit("bid")
	s, v := g.list(3, .2, .6), g.list(3, .5, 1.1)
	w.segmented(g, 3)
	won := func(c int, a float64) float64 { return logistic((a - s[c]) / .07) }
	w.mean = func(t, _ int, a []float64) float64 { c := w.Cells[t]; return won(c, a[0]) * (v[c] - a[0]) }
	w.pay = func(r *rand.Rand, t, _ int, a []float64) float64 {
		c, value := w.Cells[t], math.Exp(r.NormFloat64()-.5)
		if r.Float64() >= won(c, a[0]) {
			return 0
		}
		return v[c]*value - a[0]
	}
}

func plateauWorld(g *gen, w *NumberWorld) {
	w.Numbers = unit("threshold")
	p := g.list(3, .2, .8)
	w.segmented(g, 3)
	w.clicks(func(c, _ int, a []float64) float64 {
		if a[0] >= p[c] {
			return .6 - .15*a[0]
		}
		return .2 - .15*a[0]
	})
}

func discountWorld(g *gen, w *NumberWorld) {
	w.Numbers = []Range{{Name: "discount", Min: 0, Max: 50, Step: 5}}
	need, lift := g.list(4, 5, 35), g.list(3, -8, 8)
	base, more := g.between(.03, .08), g.between(.15, .35)
	w.Levels = 12
	for t := range w.Contexts {
		c, d := g.IntN(4), g.IntN(3)
		w.Cells[t] = c*3 + d
		w.Contexts[t] = Object{F("country", level("c", c)), F("device", level("d", d)), F("color", level("k", g.IntN(5)))}
	}
	w.sales(func(_, _ int, a []float64) float64 { return 60 - a[0] },
		func(c, _ int, a []float64) float64 { return base + more*logistic((a[0]-need[c/3]-lift[c%3])/4) })
}

func lifetimeWorld(g *gen, w *NumberWorld) {
	w.Numbers = []Range{{Name: "lifetime", Min: 1, Max: 86400, Log: true}}
	hit, stale := g.list(4, math.Log(5), math.Log(2000)), g.list(4, math.Log(200), math.Log(60000))
	w.segmented(g, 4)
	w.normals(.3, func(c, _ int, a []float64) float64 {
		x := math.Log(a[0])
		return logistic(x-hit[c]) - 1.2*logistic(1.5*(x-stale[c]))
	})
}

func stockWorld(g *gen, w *NumberWorld) {
	w.Numbers = []Range{{Name: "quantity", Min: 0, Max: 60, Step: 1}}
	a0, a1 := g.between(5, 12), g.between(.5, .9)
	margin, waste := g.between(.6, 1), g.between(.3, .6)
	x := make([]float64, len(w.Contexts))
	w.Most = 50
	for t := range x {
		x[t] = math.Round(g.between(0, 50))
		w.Contexts[t] = Object{F("bookings", Num(x[t])), F("weekday", level("d", g.IntN(7)))}
	}
	profit := func(d, q float64) float64 { return (margin*min(d, q) - waste*max(0, q-d)) / 10 }
	w.mean = func(t, _ int, a []float64) float64 {
		sum := 0. // demand is the mean plus −6, −3, 0, 3 or 6
		for k := -2.; k <= 2; k++ {
			sum += profit(max(0, a0+a1*x[t]+3*k), a[0]) / 5
		}
		return sum
	}
	w.pay = func(r *rand.Rand, t, _ int, a []float64) float64 {
		return profit(max(0, a0+a1*x[t]+3*float64(r.IntN(5)-2)), a[0])
	}
}

func mixedWorld(g *gen, w *NumberWorld) {
	w.Numbers = []Range{{Name: "price", Min: 2, Max: 12, Step: .25}}
	w.Offers, w.Bare = []string{"none", "small", "large"}, 1
	w.segmented(g, 2)
	at, top, none := g.table(2, 3, 3, 10), g.table(2, 3, .3, .8), g.list(2, .05, .4)
	w.clicks(func(c, o int, a []float64) float64 {
		if o == 0 {
			return none[c]
		}
		return top[c][o] * logistic((at[c][o]-a[0])*1.5) * a[0] / 12
	})
}

package worlds

import (
	"math"
	"math/rand/v2"

	"troupe/rng"
)

// NumberBins is a rival for worlds of numbers: a table of bins of each action, told which contexts have the same means, that plays
// the bin with the largest draw from N((S + ȳ)/(n + 1), (s/2)²/(n + 1)), S the sum of the n rewards of the bin, ȳ and s the mean
// and the deviation of all rewards; a number is uniform in its bin. Of two numbers there are √bins each.
type NumberBins struct {
	w      *NumberWorld
	bins   int
	r      *rand.Rand
	values [][][]float64 // of each number and bin, its steps or the middles of 64 parts
	count  int           // bins of an action with numbers
	table  map[int][][2]float64
	last   [2]int
	n      float64
	sum    float64
	square float64
}

// NewNumberBins returns a player with so many bins.
func NewNumberBins(w *NumberWorld, bins int, seed uint64) *NumberBins {
	p := &NumberBins{w: w, bins: bins, r: rng.NewKey(seed).Child("bins").At(w.Seed).Stream(rng.Select).Round(0).Rand(),
		table: map[int][][2]float64{}, count: 1}
	if len(w.Numbers) > 1 {
		p.bins = int(math.Round(math.Pow(float64(bins), 1/float64(len(w.Numbers)))))
	}
	for i := range w.Numbers {
		r := &w.Numbers[i]
		of := make([][]float64, p.bins)
		grid := w.Grid(i, 64)
		for k, v := range grid {
			at := int((v - r.Min) / (r.Max - r.Min) * float64(p.bins))
			if r.Step == 0 {
				at = k * p.bins / len(grid)
			}
			at = min(at, p.bins-1)
			of[at] = append(of[at], v)
		}
		p.values = append(p.values, of)
		p.count *= p.bins
	}
	return p
}

// Decide plays decision t. cell says which contexts have the same means.
func (p *NumberBins) Decide(cell int) (offer int, a []float64) {
	t := p.table[cell]
	if t == nil {
		t = make([][2]float64, max(1, len(p.w.Offers))*p.count)
		p.table[cell] = t
	}
	mean, deviation := 0., 1.
	if p.n > 0 {
		mean = p.sum / p.n
	}
	if p.n > 3 {
		deviation = math.Sqrt(max(p.square/p.n-mean*mean, 1e-9))
	}
	best, at := math.Inf(-1), 0
	for i := range t {
		if i/p.count < p.w.Bare && i%p.count > 0 {
			continue
		}
		if v := (t[i][1]+mean)/(t[i][0]+1) + .5*deviation/math.Sqrt(t[i][0]+1)*p.r.NormFloat64(); v > best {
			best, at = v, i
		}
	}
	p.last = [2]int{cell, at}
	a = make([]float64, len(p.values))
	rest := at % p.count
	for i := len(a) - 1; i >= 0; i-- {
		v := p.values[i][rest%p.bins]
		rest /= p.bins
		if len(v) > 0 {
			a[i] = v[p.r.IntN(len(v))]
		}
	}
	return at / p.count, a
}

// Reward learns the reward of the last decision.
func (p *NumberBins) Reward(y float64) {
	x := &p.table[p.last[0]][p.last[1]]
	x[0]++
	x[1] += y
	p.n, p.sum, p.square = p.n+1, p.sum+y, p.square+y*y
}

// Play plays all decisions, and returns the shares of the way from uniform play to the best numbers after each mark.
func (p *NumberBins) Play(marks ...int) (shares []float64) {
	var got, best, uniform float64
	for t := range p.w.Contexts {
		cell := p.w.Cells[t]
		if p.w.Levels == 0 { // a number of the context in three parts
			cell = int(3 * p.w.part(t))
		}
		offer, a := p.Decide(cell)
		p.Reward(p.w.Reward(t, offer, a))
		b, u := p.w.Possible(t)
		got, best, uniform = got+p.w.Mean(t, offer, a), best+b, uniform+u
		for _, m := range marks {
			if t+1 == m {
				shares = append(shares, (got-uniform)/(best-uniform))
			}
		}
	}
	return shares
}

// part is where the first number of a context lies in its range, below 1.
func (w *NumberWorld) part(t int) float64 {
	for _, f := range w.Contexts[t] {
		if f.Value.Type == Number {
			return min(f.Value.Number/max(w.Most, 1e-300), .999)
		}
	}
	return 0
}

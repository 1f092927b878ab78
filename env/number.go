package env

import (
	"fmt"
	"math"
	"slices"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/logs"
	"troupe/rng"
)

// NumberOptions are the options of kind "number": an action is a number of an interval, played in cells, for one of several segments of
// people, drawn evenly in each round. With u in [0, 1] across the interval the mean rewards are, numbers drawn for each segment,
//
//	demand     (price − 1) q/(1 + e^{(price − w)/b}), price = 1 + 19u: profit where people buy or do not
//	peak       exp(−½((u − p)/.06)²)
//	parabola   1 − 2(u − p)²
//	cliff      .1 + .6u up to p, .05 behind it
//	cyclic     b + a·exp(3(cos 2π(u − p) − 1)): an hour, 0 is beside 1
//	ridge      of two numbers, exp(−½(d² + e² + 2q d e)), d and e in units of .25
//	threshold  .6 from p on and .2 before, less .15u
//	auction    (v − u)/(1 + e^{(p − u)/.07}): the bid u wins or does not
//
// Regret is exact, against the best cell of the segment. An arm is a vector of cosines with weights 1/j (sines too where cyclic, products
// where two numbers), so that policies for vectors play it; the mean is not linear in it.
type NumberOptions struct {
	Curve    string  `key:"curve" doc:"demand, peak, parabola, cliff, cyclic, ridge, threshold or auction"`
	Cells    int     `key:"cells" doc:"cells of the interval, of a ridge in all" default:"64; 48 of a cyclic one, 256 of a ridge"`
	Segments int     `key:"segments" doc:"segments of people with curves of their own"`
	Noise    string  `key:"noise" doc:"binary (bought, clicked, won), gauss or lognormal" default:"that of the curve: gauss for peak, parabola and ridge, lognormal for auction, otherwise binary"`
	Sigma    float64 `key:"sigma" doc:"standard deviation of gauss, of the logarithm of lognormal" default:"0.5 and 1"`
}

// NewNumber returns the defaults: a peak, two segments.
func NewNumber() *NumberOptions { return &NumberOptions{Curve: "peak", Segments: 2} }

// Doc says what the kind is.
func (*NumberOptions) Doc() string {
	return "a number of an interval as action: price, bid, dose, hour"
}

var curves = []string{"demand", "peak", "parabola", "cliff", "cyclic", "ridge", "threshold", "auction"}

// Build implements Options.
func (o *NumberOptions) Build(key rng.Key, _ DataSource) (bandit.Environment, error) {
	if err := oneOf("curve", o.Curve, curves...); err != nil {
		return nil, err
	}
	e := &numberWorld{o: *o, shape: bandit.NumberShape{Segments: o.Segments, Cyclic: o.Curve == "cyclic"}}
	if e.noise = o.Noise; e.noise == "" {
		switch o.Curve {
		case "peak", "parabola", "ridge":
			e.noise = "gauss"
		case "auction":
			e.noise = "lognormal"
		default:
			e.noise = "binary"
		}
	}
	if err := oneOf("noise", e.noise, "binary", "gauss", "lognormal"); err != nil {
		return nil, err
	}
	n := o.Cells
	if n == 0 {
		n = map[string]int{"cyclic": 48, "ridge": 256}[o.Curve]
		if n == 0 {
			n = 64
		}
	}
	if e.sigma = o.Sigma; e.sigma == 0 {
		if e.sigma = .5; e.noise == "lognormal" {
			e.sigma = 1
		}
	}
	switch {
	case n < 2 || n > 4096:
		return nil, wrong("cells", "is %d, expected 2 to 4096", o.Cells)
	case o.Segments < 1 || o.Segments > 64:
		return nil, wrong("segments", "is %d, expected 1 to 64", o.Segments)
	case !(e.sigma > 0 && e.sigma <= 100):
		return nil, wrong("sigma", "is %v, expected a number above 0, at most 100", o.Sigma)
	case e.noise == "binary" && o.Curve == "parabola":
		return nil, wrong("noise", "is \"binary\", expected gauss or lognormal: a parabola is no probability")
	}
	e.shape.Cells = []int{n}
	if o.Curve == "ridge" {
		side := int(math.Round(math.Sqrt(float64(n))))
		if side*side != n {
			return nil, wrong("cells", "is %d, expected a square for a ridge of two numbers", o.Cells)
		}
		e.shape.Cells = []int{side, side}
	}
	e.draw(key.Stream(rng.Instance).Round(drawTheta))
	if err := e.arms(n); err != nil {
		return nil, err
	}
	e.notes = []string{"outside the assumption: the mean of a reward is a curve, not linear in the features of a number"}
	return e, nil
}

// numberWorld is the environment of kind "number". It implements Noted and Noisy.
type numberWorld struct {
	o       NumberOptions
	noise   string
	sigma   float64
	shape   bandit.NumberShape
	at      [][]float64 // of each segment: p, and what else its curve has
	sets    []*numberSet
	means   [][]float64
	best    []float64
	segment int
	notes   []string
}

// draw draws the curves.
func (e *numberWorld) draw(s rng.Source) {
	at := 0
	between := func(lo, hi float64) float64 {
		at++
		return lo + float64((hi-lo)*s.Float64(at-1))
	}
	for range e.o.Segments {
		var p []float64
		switch e.o.Curve {
		case "demand":
			p = []float64{between(5, 15), between(1, 2.5), between(.4, .9)}
		case "cliff":
			p = []float64{between(.3, .9)}
		case "cyclic":
			p = []float64{between(0, 1), between(.03, .08), between(.1, .25)}
		case "ridge":
			p = []float64{between(.2, .8), between(.2, .8), between(-.8, .8)}
		case "threshold":
			p = []float64{between(.2, .8)}
		case "auction":
			p = []float64{between(.2, .6), between(.5, 1.1)}
		default:
			p = []float64{between(.1, .9)}
		}
		e.at = append(e.at, p)
	}
}

// middle is the middle of cell i, of each number.
func (e *numberWorld) middle(i int) (u, v float64) {
	last := e.shape.Cells[len(e.shape.Cells)-1]
	if len(e.shape.Cells) == 1 {
		return (float64(i) + .5) / float64(last), 0
	}
	return (float64(i/last) + .5) / float64(e.shape.Cells[0]), (float64(i%last) + .5) / float64(last)
}

// chance is the probability of what pays (bought, won), and what it pays in the mean; pays is 1 where the mean is a probability.
func (e *numberWorld) chance(g, i int) (p, pays float64) {
	at := e.at[g]
	u, v := e.middle(i)
	switch e.o.Curve {
	case "demand":
		price := 1 + float64(19*u)
		return float64(at[2] * logs.Sigmoid((at[0]-price)/at[1])), price - 1
	case "peak":
		d := (u - at[0]) / .06
		return logs.Exp(float64(-.5 * float64(d*d))), 1
	case "parabola":
		d := u - at[0]
		return 1 - float64(2*float64(d*d)), 1
	case "cliff":
		if u <= at[0] {
			return .1 + float64(.6*u), 1
		}
		return .05, 1
	case "cyclic":
		return at[1] + float64(at[2]*logs.Exp(float64(3*(math.Cos(2*math.Pi*(u-at[0]))-1)))), 1
	case "ridge":
		d, f := (u-at[0])/.25, (v-at[1])/.25
		return logs.Exp(float64(-.5 * (float64(d*d) + float64(f*f) + float64(float64(2*at[2])*float64(d*f))))), 1
	case "threshold":
		if u >= at[0] {
			return .6 - float64(.15*u), 1
		}
		return .2 - float64(.15*u), 1
	}
	return logs.Sigmoid((u - at[0]) / .07), at[1] - u // auction
}

// basis is the vector of a number, before it is scaled.
func (e *numberWorld) basis(u, v float64) (x []float64) {
	wave := func(j int, u float64) float64 {
		if j == 0 {
			return 1
		}
		return float64(math.Sqrt2*math.Cos(float64(math.Pi*float64(j))*u)) / float64(j)
	}
	switch {
	case len(e.shape.Cells) == 2:
		for j := range 9 {
			for k := range 9 - j {
				x = append(x, float64(wave(j, u)*wave(k, v)))
			}
		}
	case e.shape.Cyclic:
		x = append(x, 1)
		for j := 1; j <= 7; j++ {
			a := float64(2 * math.Pi * float64(j) * u)
			x = append(x, float64(math.Sqrt2*math.Cos(a))/float64(j), float64(math.Sqrt2*math.Sin(a))/float64(j))
		}
	default:
		for j := range 16 {
			x = append(x, wave(j, u))
		}
	}
	return x
}

// arms makes the sets, the means and the best.
func (e *numberWorld) arms(n int) error {
	rows, most := make([][]float64, n), 0.0
	for i := range rows {
		u, v := e.middle(i)
		rows[i] = e.basis(u, v)
		norm := 0.0
		for _, x := range rows[i] {
			norm += float64(x * x)
		}
		most = max(most, math.Sqrt(norm))
	}
	e.shape.Features = len(rows[0])
	d := e.shape.Segments * e.shape.Features
	if d*n > 1<<22 {
		return wrong("cells", "is %d: %d numbers of a set, expected at most %d", n, d*n, 1<<22)
	}
	for g := range e.shape.Segments {
		block, means := make([]float64, n*d), make([]float64, n)
		for i, row := range rows {
			for j, x := range row {
				block[i*d+g*e.shape.Features+j] = x / most
			}
			p, pays := e.chance(g, i)
			means[i] = float64(p * pays)
		}
		set, err := actionset.FiniteOf(d, block)
		if err != nil {
			return fmt.Errorf("env: %w", err)
		}
		e.sets, e.means, e.best = append(e.sets, &numberSet{set, e.shape, g}), append(e.means, means), append(e.best, slices.Max(means))
	}
	return nil
}

// numberSet is the numbers of a segment: bandit.Numbers.
type numberSet struct {
	list    bandit.Finite
	shape   bandit.NumberShape
	segment int
}

func (s *numberSet) Dim() int                  { return s.list.Dim() }
func (s *numberSet) Len() int                  { return s.list.Len() }
func (s *numberSet) At(i int) []float64        { return s.list.At(i) }
func (s *numberSet) Shape() bandit.NumberShape { return s.shape }
func (s *numberSet) Segment() int              { return s.segment }
func (s *numberSet) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	return s.list.ArgMax(dst, theta)
}

// Dim implements bandit.Environment.
func (e *numberWorld) Dim() int { return e.sets[0].Dim() }

// Notes implements Noted.
func (e *numberWorld) Notes() []string { return e.notes }

var _ Numbered = (*numberWorld)(nil)

// NumberShape implements Numbered.
func (e *numberWorld) NumberShape() bandit.NumberShape { return e.shape }

// Sigma implements Noisy.
func (e *numberWorld) Sigma() (float64, bool) {
	switch {
	case e.noise == "gauss":
		return e.sigma, true
	case e.noise == "lognormal":
		return e.sigma, false
	case e.o.Curve == "demand":
		return 19.0 / 2, true
	}
	return .5, true
}

// Offer implements bandit.Environment.
func (e *numberWorld) Offer(draw rng.Source) (bandit.ActionSet, error) {
	e.segment = draw.Intn(0, e.o.Segments)
	return e.sets[e.segment], nil
}

func (e *numberWorld) mean(a bandit.Action) (float64, error) {
	if a.Index < 0 || a.Index >= len(e.means[0]) {
		return 0, fmt.Errorf("env: the action's index is %d, expected a cell from 0 to %d", a.Index, len(e.means[0])-1)
	}
	return e.means[e.segment][a.Index], nil
}

// Reward implements bandit.Environment.
func (e *numberWorld) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	mean, err := e.mean(a)
	if err != nil {
		return 0, err
	}
	p, pays := e.chance(e.segment, a.Index)
	heavy := func() float64 { // of mean 1
		return logs.Exp(float64(e.sigma*draw.Normal(1)) - float64(.5*float64(e.sigma*e.sigma)))
	}
	switch {
	case e.noise == "gauss":
		return mean + float64(e.sigma*draw.Normal(0)), nil
	case e.noise == "lognormal" && e.o.Curve != "auction":
		return float64(mean * heavy()), nil
	case draw.Float64(0) >= p:
		return 0, nil
	case e.noise == "lognormal":
		u, _ := e.middle(a.Index)
		return float64(e.at[e.segment][1]*heavy()) - u, nil
	}
	return pays, nil
}

// Regret implements bandit.Environment.
func (e *numberWorld) Regret(a bandit.Action) (float64, error) {
	mean, err := e.mean(a)
	if err != nil {
		return 0, err
	}
	return e.best[e.segment] - mean, nil
}

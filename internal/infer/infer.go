// Package infer answers which of several samples is smaller: the one place where the report turns replications into
// verdicts. Tables, headline, suite, comparisons of runs, claims of a spec and the gallery ask it, so that they cannot
// contradict each other.
//
// Three nouns:
//
//   - an Estimand is the number of a policy that is compared, fixed before the run;
//   - a Contrast is a difference of two estimates, paired by replication;
//   - a Family is everything that is printed together: its intervals hold for all its contrasts at once.
//
// Below MinReps replications there are estimates and nothing else.
package infer

import (
	"fmt"
	"math"
	"slices"

	"troupe/internal/stats"
)

// MinReps is the number of replications below which nothing is said about what is more than chance.
const MinReps = 20

// tailReps is the same for CVaR5, whose estimate is made of one replication in twenty: five of 100.
const tailReps = 100

// resamples is B of the intervals that resample.
const resamples = 2000

// tail is the share of replications that CVaR5 is about.
const tail = 0.05

// Estimand is the number of a policy that is compared.
type Estimand int

// The estimands. A sample holds one value for each replication: the regret at the horizon, and for ShareLost 1 where
// Lost says so and 0 elsewhere.
const (
	Mean      Estimand = iota // the mean
	Median                    // the median
	CVaR5                     // the mean of the largest 5 % of the values
	ShareLost                 // the mean of zeros and ones
)

var names = [...]string{Mean: "mean", Median: "median", CVaR5: "cvar-5", ShareLost: "lost"}

// Names lists the estimands as a spec writes them.
func Names() []string { return slices.Clone(names[:]) }

// Named returns the estimand of a name; "" is the mean.
func Named(name string) (Estimand, bool) {
	if name == "" {
		return Mean, true
	}
	i := slices.Index(names[:], name)
	return Estimand(max(i, 0)), i >= 0
}

// String returns the name in a spec.
func (e Estimand) String() string { return names[e] }

// Least is the number of replications from which on there are intervals: MinReps, for CVaR5 100.
func (e Estimand) Least() int {
	if e == CVaR5 {
		return tailReps
	}
	return MinReps
}

// Of returns the estimate from a sample of at least one value.
func (e Estimand) Of(x []float64) float64 {
	switch e {
	case Median:
		return stats.Quantile(slices.Sorted(slices.Values(x)), 0.5)
	case CVaR5:
		return stats.Mean(shares(x))
	}
	return stats.Mean(x)
}

// shares returns for each value what it adds to the mean of the largest 5 %: with q the ⌈0.05n⌉-th largest value,
//
//	q + max(x − q, 0)/0.05
//
// (Rockafellar and Uryasev 2000). Their mean is the smallest of these means over all q, the estimate; their spread is
// that of the estimate to the first order, and shares of two samples can be subtracted.
func shares(x []float64) []float64 {
	sorted := slices.Sorted(slices.Values(x))
	k := int(math.Ceil(tail*float64(len(x)) - 1e-9))
	q := sorted[len(sorted)-max(k, 1)]
	out := make([]float64, len(x))
	for i, v := range x {
		out[i] = q + max(v-q, 0)/tail
	}
	return out
}

// Halfway returns the checkpoint (an index) nearest to half the last one in proportion, if there is one within a factor
// 1.2, otherwise −1.
func Halfway(rounds []int) int { return Earlier(rounds, 2) }

// Earlier returns the checkpoint (an index) nearest to the last one divided by part, a number above 1, in proportion, if
// there is one before the last within a factor 1.2, otherwise −1.
func Earlier(rounds []int, part float64) int {
	if len(rounds) == 0 {
		return -1
	}
	T := float64(rounds[len(rounds)-1])
	best, dist := -1, math.Log(1.2)
	for k, t := range rounds[:len(rounds)-1] {
		if d := math.Abs(math.Log(float64(part*float64(t)) / T)); d <= dist {
			best, dist = k, d
		}
	}
	return best
}

// lostExponent is the exponent from which on regret counts as linear.
const lostExponent = 0.9

// Lost reports whether a replication's regret stays linear: with R(t) its regret after t rounds, T the horizon and h
// the checkpoint Halfway, R(T) > 0 and the exponent of its last doubling is at least 0.9,
//
//	log(R(T)/R(h)) ≥ 0.9 log(T/h);
//
// where R(h) ≤ 0, any regret since counts. half and end are R(h) and R(T), ratio is T/h.
func Lost(half, end, ratio float64) bool {
	return end > 0 && (half <= 0 || math.Log(end/half)/math.Log(ratio) >= lostExponent)
}

// Contrast is the estimate of X minus Times that of Y; replication r is X[r] and Y[r]. Times 0 is 1.
type Contrast struct {
	X, Y  []float64
	Times float64
	Group int     // contrasts of one group have one factor: those of an environment
	Most  float64 // every value is in [0, Most]; 0: no bound is known
}

func (c Contrast) times() float64 {
	if c.Times == 0 {
		return 1
	}
	return c.Times
}

// paired returns X − Times·Y.
func paired(x, y []float64, times float64) []float64 {
	d := make([]float64, len(x))
	for r := range d {
		if times == 1 {
			d[r] = x[r] - y[r]
		} else {
			d[r] = x[r] - float64(times*y[r])
		}
	}
	return d
}

// Interval is what is said about a contrast.
type Interval struct {
	Value, SE float64 // SE is 0 for one replication
	Lo, Hi    float64 // only with OK
	OK        bool
	Exact     bool // by betting, where rare losses left resampling without a say
	Same      bool // no replication differs: nothing to tell apart, and nothing says that no other run would
}

// Below reports that the contrast is less than zero by more than chance.
func (i Interval) Below() bool { return i.OK && !i.Same && i.Hi < 0 }

// Above reports that it is more than zero by more than chance.
func (i Interval) Above() bool { return i.OK && !i.Same && i.Lo > 0 }

// Family is statements that are printed together.
type Family struct {
	Each []Interval // by contrast
	// Factor is what an interval is made with unless it is Exact, Value ± Factor·SE, by contrast; 0 where it is of
	// another form or does not exist.
	Factor []float64
}

// Draw returns number i of resample b of n replications, uniform on {0, …, n−1}.
type Draw func(reps, b, i, n int) int

// Simultaneous returns intervals that hold for all contrasts at once with probability about level, each contrast of at
// least one replication.
//
// Mean and CVaR5: the studentised bootstrap of the largest deviation (stats.Resamples.Largest), of the values or of
// what they add to the estimate. Median: the same with the standard errors of the resampled medians. ShareLost:
// intervals by betting (stats.BettingInterval), which hold for every law, shared out by Bonferroni.
//
// Groups have factors of their own, so that one with heavy tails does not widen the intervals of the others: each is
// the quantile of its group's largest deviation at one probability, the smallest at which all of them hold together
// (balanced: Beran 1988). Contrasts of different numbers of replications are resampled apart and share the error
// evenly. draw gets the number of replications, so that each group has a stream; equal calls give equal intervals.
// Without draw there are estimates only.
//
// Where two or three replications of a group decide its means, resamples without them make the factor of a mean very
// large: 100 with two lost runs of 200. Above mostFactor the interval of a contrast with a bound is the one by betting
// at exactShare of the error, if that is narrower: it holds for every law with the bound, so the family holds with a
// probability of about level less exactShare of the error.
//
// There is no interval below Estimand.Least replications, nor for a mean that fewer than five replications decide
// (stats.Estimable). Cost: 2000 resamples of each contrast.
func Simultaneous(e Estimand, contrasts []Contrast, level float64, draw Draw) Family {
	return Families(e, [][]Contrast{contrasts}, level, draw)[0]
}

// Families returns for each list of contrasts what Simultaneous returns for it, of resamples that are drawn once for
// all of them.
func Families(e Estimand, lists [][]Contrast, level float64, draw Draw) []Family {
	drawn := map[int]*stats.Resamples{}
	again := func(n int) *stats.Resamples {
		if drawn[n] == nil {
			drawn[n] = stats.NewResamples(n, resamples, func(b, i, k int) int { return draw(n, b, i, k) })
		}
		return drawn[n]
	}
	if draw == nil {
		again = nil
	}
	all := make([]Family, len(lists))
	for i, contrasts := range lists {
		all[i] = simultaneous(e, contrasts, level, again)
	}
	return all
}

// simultaneous is Simultaneous with the resamples of a number of replications; nil where there are none.
func simultaneous(e Estimand, contrasts []Contrast, level float64, again func(n int) *stats.Resamples) Family {
	f := Family{Each: make([]Interval, len(contrasts)), Factor: make([]float64, len(contrasts))}
	var sizes []int
	groups := map[int][]int{}
	for k, c := range contrasts {
		if len(c.X) != len(c.Y) || len(c.X) == 0 {
			panic(fmt.Sprintf("infer: contrast %d: %d values and %d", k, len(c.X), len(c.Y)))
		}
		n := len(c.X)
		if groups[n] == nil {
			sizes = append(sizes, n)
		}
		groups[n] = append(groups[n], k)
		f.Each[k] = point(e, c)
	}
	for _, n := range sizes {
		if n < e.Least() || again == nil {
			continue
		}
		group := family{e, n, groups[n], contrasts, f, 1 - (1-level)/float64(len(sizes)),
			func() *stats.Resamples { return again(n) }}
		group.intervals()
	}
	return f
}

// point is the estimate of a contrast, without an interval.
func point(e Estimand, c Contrast) Interval {
	i := Interval{Same: c.times() == 1 && slices.Equal(c.X, c.Y)}
	switch e {
	case Median:
		i.Value = e.Of(c.X) - float64(c.times()*e.Of(c.Y))
	case CVaR5:
		i.Value, i.SE = meanOf(paired(shares(c.X), shares(c.Y), c.times()))
	default:
		i.Value, i.SE = meanOf(paired(c.X, c.Y, c.times()))
	}
	return i
}

func meanOf(d []float64) (mean, se float64) {
	if len(d) > 1 {
		se = stats.StdErr(d)
	}
	return stats.Mean(d), se
}

// family is the contrasts of one number of replications.
type family struct {
	e         Estimand
	n         int
	members   []int
	contrasts []Contrast
	out       Family
	level     float64
	again     func() *stats.Resamples
}

// mostGroups bounds the groups, for each of which the deviations of all resamples are in memory.
const mostGroups = 1000

// grouped returns the members by group, in the order in which groups are met.
func (f *family) grouped() [][]int {
	at := map[int]int{}
	var out [][]int
	for _, m := range f.members {
		g, met := at[f.contrasts[m].Group]
		if !met {
			if g = len(at) % mostGroups; g == len(out) {
				out = append(out, nil)
			}
			at[f.contrasts[m].Group] = g
		}
		out[g] = append(out[g], m)
	}
	return out
}

// balanced returns the factors of groups whose largest deviations are given by resample: nil where a group has none. A
// factor is 0 where no finite one exists.
func balanced(worst [][]float64, level float64) []float64 {
	factors := make([]float64, len(worst))
	var joint []int
	sorted := make([][]float64, len(worst))
	for g, w := range worst {
		if w == nil {
			continue
		}
		if joint == nil {
			joint = make([]int, len(w))
		}
		sorted[g] = slices.Sorted(slices.Values(w))
		for b, v := range w { // how many are not larger
			at, _ := slices.BinarySearchFunc(sorted[g], v, func(x, v float64) int {
				if x <= v {
					return -1
				}
				return 1
			})
			joint[b] = max(joint[b], at)
		}
	}
	slices.Sort(joint)
	i := int(math.Ceil(level*float64(len(joint)+1))) - 1
	if i >= len(joint) {
		return factors
	}
	for g := range worst {
		if sorted[g] != nil {
			if c := sorted[g][joint[i]-1]; !math.IsInf(c, 1) {
				factors[g] = c
			}
		}
	}
	return factors
}

// From this factor on the interval by betting takes the place of the resampled one, with this share of the error: a
// factor is 2 to 4 where each mean has many replications, and rarely reaches 6 with heavy tails.
const (
	mostFactor = 10
	exactShare = 0.1
)

// exact replaces the interval of a mean by the one by betting, where that is narrower.
func (f *family) exact(m int) {
	c, i := f.contrasts[m], &f.out.Each[m]
	d := paired(c.X, c.Y, c.times())
	for r := range d {
		if !(c.X[r] >= 0 && c.X[r] <= c.Most && c.Y[r] >= 0 && c.Y[r] <= c.Most) {
			return
		}
	}
	alpha := (1 - f.level) * exactShare / float64(len(f.members))
	if lo, hi := stats.BettingInterval(d, -c.times()*c.Most, c.Most, alpha); hi-lo < i.Hi-i.Lo {
		i.Lo, i.Hi, i.Exact = lo, hi, true
	}
}

// difference is what is resampled of a contrast: its mean is the estimate.
func (f *family) difference(m int) []float64 {
	c := f.contrasts[m]
	if f.e == CVaR5 {
		return paired(shares(c.X), shares(c.Y), c.times())
	}
	return paired(c.X, c.Y, c.times())
}

// intervals fills in those of the members.
func (f *family) intervals() {
	switch f.e {
	case ShareLost:
		f.bet()
		return
	case Median:
		f.medians()
		return
	}
	groups, again := f.grouped(), f.again()
	worst := make([][]float64, len(groups))
	for g, members := range groups {
		if w, ok := again.Largest(len(members), func(k int) []float64 { return f.difference(members[k]) }); ok {
			worst[g] = w
		}
	}
	for g, factor := range balanced(worst, f.level) {
		for _, m := range groups[g] {
			i := &f.out.Each[m]
			f.out.Factor[m] = factor
			switch {
			case i.Same:
				i.OK = true
			case i.SE == 0: // every replication differs by the same amount: nothing is random
				i.Lo, i.Hi, i.OK = i.Value, i.Value, true
			case factor > 0 && stats.Estimable(f.difference(m)):
				i.Lo, i.Hi, i.OK = i.Value-factor*i.SE, i.Value+factor*i.SE, true
				if f.e == Mean && factor > mostFactor && f.contrasts[m].Most > 0 {
					f.exact(m)
				}
			}
		}
	}
}

// bet fills in intervals for shares.
func (f *family) bet() {
	alpha := (1 - f.level) / float64(len(f.members))
	for _, m := range f.members {
		c, i := f.contrasts[m], &f.out.Each[m]
		if i.OK = true; i.Same {
			continue
		}
		i.Lo, i.Hi = stats.BettingInterval(paired(c.X, c.Y, c.times()), -c.times(), 1, alpha)
	}
}

// medians fills in intervals for medians.
func (f *family) medians() {
	groups, again := f.grouped(), f.again()
	places := map[*float64]int{} // samples that contrasts share are sorted once
	var samples [][]float64
	place := func(x []float64) int {
		at, known := places[&x[0]]
		if !known {
			at = len(samples)
			places[&x[0]] = at
			samples = append(samples, x)
		}
		return at
	}
	for _, m := range f.members {
		place(f.contrasts[m].X)
		place(f.contrasts[m].Y)
	}
	resampled := again.Medians(samples)
	worst := make([][]float64, len(groups))
	dev := make([]float64, again.B())
	for g, members := range groups {
		for _, m := range members {
			c, i := f.contrasts[m], &f.out.Each[m]
			if i.Same {
				i.OK = true
				continue
			}
			x, y := resampled[place(c.X)], resampled[place(c.Y)]
			for b := range dev {
				dev[b] = x[b] - float64(c.times()*y[b])
			}
			if i.SE = math.Sqrt(stats.Variance(dev)); i.SE == 0 { // one value in most replications: no spread is known
				continue
			}
			if worst[g] == nil {
				worst[g] = make([]float64, len(dev))
			}
			for b, v := range dev {
				worst[g][b] = max(worst[g][b], math.Abs(v-i.Value)/i.SE)
			}
		}
	}
	for g, factor := range balanced(worst, f.level) {
		for _, m := range groups[g] {
			i := &f.out.Each[m]
			if f.out.Factor[m] = factor; !i.Same && i.SE > 0 && factor > 0 {
				i.Lo, i.Hi, i.OK = i.Value-factor*i.SE, i.Value+factor*i.SE, true
			}
		}
	}
}

// Places returns the places that unit i of n may have, the first being the smallest: one more than the number of units
// that are smaller by more than chance, up to n less the number of those that are larger. between returns the interval
// of unit i minus unit j. All sets hold together where the intervals of all pairs do (Mogstad, Romano, Shaikh and
// Wilhelm 2024).
func Places(i, n int, between func(i, j int) Interval) (from, to int) {
	from, to = 1, n
	for j := range n {
		if j == i {
			continue
		}
		switch d := between(i, j); {
		case d.Above():
			from++
		case d.Below():
			to--
		}
	}
	return from, to
}

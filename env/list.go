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

// ListOptions are the options of kind "list": k of n items are shown in order, to one of several segments of people, drawn evenly in each
// round. How people click:
//
//	pbm      position l is examined with probability e_l, and an examined item is clicked with its attraction p (position-based model)
//	cascade  people go down until the first click (Craswell et al. 2008)
//	dcm      they go on after a click with probability go (dependent click model)
//	place    each item has an attraction of its own at each position
//	repeat   the second item of one category is clicked a quarter as often
//	whole    one reward for the list: Σ_l e_l u_i + noise, no clicks
//	page     each position has items of its own, and one click on the page depends on pairs of the first two
//
// A reward is the number of clicks. Regret is exact, against the best list of the segment in expectation: found by sorting, or by looking at
// all lists where there are at most 100 000.
type ListOptions struct {
	Clicks      string    `key:"clicks" doc:"pbm, cascade, dcm, place, repeat, whole or page"`
	Items       int       `key:"items" doc:"number of items n; of a page the items of all positions"`
	Positions   int       `key:"positions" doc:"length of a list k, at most 12"`
	Segments    int       `key:"segments" doc:"segments of people with attractions of their own"`
	Examination []float64 `key:"examination" doc:"pbm, repeat, whole: e of each position" default:"1, .55, .35, .2, .15, .1, …"`
	Attraction  []float64 `key:"attraction" doc:"pbm, cascade, dcm: p of each item, for all segments" default:"drawn"`
	Rare        bool      `key:"rare" doc:"pbm: attractions from .005 to .07 in place of .02 to .62"`
	Go          float64   `key:"go" doc:"dcm: probability of going on after a click"`
	Noise       float64   `key:"noise" doc:"whole: standard deviation"`
}

// NewList returns the defaults: 4 of 10 items for one segment, position-based.
func NewList() *ListOptions {
	return &ListOptions{Clicks: "pbm", Items: 10, Positions: 4, Segments: 1, Go: 0.5, Noise: 1}
}

// Doc says what the kind is.
func (*ListOptions) Doc() string { return "lists of k of n items, with clicks by position" }

// mostLists bounds what is looked at for the best list.
const mostLists = 100_000

// examined are the default examinations.
var examined = []float64{1, .55, .35, .2, .15, .1}

func (o *ListOptions) check() error {
	if err := oneOf("clicks", o.Clicks, "pbm", "cascade", "dcm", "place", "repeat", "whole", "page"); err != nil {
		return err
	}
	switch {
	case o.Positions < 1 || o.Positions > 12:
		return wrong("positions", "is %d, expected 1 to 12", o.Positions)
	case o.Items < o.Positions || o.Items > 1000:
		return wrong("items", "is %d, expected %d, the positions, to 1000", o.Items, o.Positions)
	case o.Segments < 1 || o.Segments > 100:
		return wrong("segments", "is %d, expected 1 to 100", o.Segments)
	case !(o.Go >= 0 && o.Go <= 1):
		return wrong("go", "is %v, expected a probability", o.Go)
	case !(o.Noise >= 0 && o.Noise < 1e6):
		return wrong("noise", "is %v, expected a number from 0", o.Noise)
	case o.Examination != nil && len(o.Examination) != o.Positions:
		return wrong("examination", "has %d numbers, expected %d, one for each position", len(o.Examination), o.Positions)
	case o.Attraction != nil && len(o.Attraction) != o.Items:
		return wrong("attraction", "has %d numbers, expected %d, one for each item", len(o.Attraction), o.Items)
	case o.Attraction != nil && o.sorts() && o.Clicks == "whole", o.Attraction != nil && !o.sorts():
		return wrong("attraction", "is there, expected none with clicks = %q", o.Clicks)
	case o.Clicks == "page" && o.Positions < 2:
		return wrong("positions", "is %d, expected at least 2 on a page", o.Positions)
	}
	for i, e := range o.Examination {
		if !(e >= 0 && e <= 1) {
			return wrong(fmt.Sprintf("examination[%d]", i), "is %v, expected a probability", e)
		}
	}
	for i, p := range o.Attraction {
		if !(p >= 0 && p <= 1) {
			return wrong(fmt.Sprintf("attraction[%d]", i), "is %v, expected a probability", p)
		}
	}
	lists := 1.0
	for l := range o.Positions {
		if o.Clicks == "page" {
			from, to := o.own(l), o.own(l+1)
			lists *= float64(to - from)
		} else {
			lists *= float64(o.Items - l)
		}
	}
	if !o.sorts() && lists > mostLists {
		return wrong("items", "is %d: %g lists, expected at most %d with clicks = %q, of which the best is looked for", o.Items, lists, mostLists, o.Clicks)
	}
	return nil
}

// sorts reports whether the best list is that of the best items in the order of the examination.
func (o *ListOptions) sorts() bool {
	return slices.Contains([]string{"pbm", "cascade", "dcm", "whole"}, o.Clicks)
}

// own is where the items of position l of a page begin.
func (o *ListOptions) own(l int) int { return l * o.Items / o.Positions }

// Build implements Options.
func (o *ListOptions) Build(key rng.Key, _ DataSource) (bandit.Environment, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	e := &listWorld{o: *o, n: o.Items, k: o.Positions}
	e.shape = bandit.ListShape{Items: o.Items, Positions: o.Positions, Segments: o.Segments}
	if o.Clicks == "page" {
		for l := range o.Positions + 1 {
			e.shape.Own = append(e.shape.Own, o.own(l))
		}
	}
	sets, err := actionset.NewLists(e.shape)
	if err != nil {
		return nil, err
	}
	e.sets = sets
	e.e = slices.Clone(o.Examination)
	for l := len(e.e); l < e.k; l++ {
		v := examined[min(l, len(examined)-1)]
		if o.Clicks == "cascade" || o.Clicks == "dcm" {
			v = 1
		}
		e.e = append(e.e, v)
	}
	e.draw(key.Stream(rng.Instance).Round(drawTheta))
	for g := range o.Segments {
		e.best = append(e.best, e.bestOf(g))
	}
	e.clicks = make([]float64, e.k)
	e.notes = []string{"outside the assumption: clicks = \"" + o.Clicks + "\", rewards are sums over positions"}
	return e, nil
}

// listWorld is the environment of kind "list". It implements bandit.Positioned, Noted and Noisy.
type listWorld struct {
	o       ListOptions
	n, k    int
	shape   bandit.ListShape
	sets    []*actionset.Lists
	e       []float64
	p       [][]float64 // by segment: of each item, with place of each item and position, with page also of pairs
	pairs   []float64
	best    []float64
	segment int
	clicks  []float64
	list    []int
	notes   []string
}

// draw draws attractions: half of what a segment likes is common to all.
func (e *listWorld) draw(s rng.Source) {
	n, k, at := e.n, e.k, 0
	number := func() float64 { at++; return s.Float64(at - 1) }
	normal := func(sd float64) float64 { at++; return float64(sd * s.Normal(at-1)) }
	logit := func(z float64) float64 { return logs.Sigmoid(z) }
	one := func() float64 {
		if e.o.Rare {
			return .005 + float64(.065*number())
		}
		return .02 + float64(.6*(1-logs.Root(1-number(), 3))) // .02 + .6·Beta(1, 3)
	}
	common := make([]float64, n)
	for g := range e.o.Segments {
		var p []float64
		switch e.o.Clicks {
		case "place":
			if g == 0 {
				common = make([]float64, n*k)
				for i := range n {
					level := -1.6 + normal(.6)
					for l := range k {
						common[i*k+l] = level + normal(1) + []float64{.5, 0, -.3}[min(l, 2)]
					}
				}
			}
			for i := range n {
				z := normal(.6)
				for l := range k {
					p = append(p, logit(common[i*k+l]+z))
				}
			}
		case "repeat":
			if g == 0 {
				var level [3]float64
				for c := range level {
					level[c] = normal(.8)
				}
				for i := range n {
					common[i] = -1.6 + level[i%3] + normal(.3)
				}
			}
			for i := range n {
				p = append(p, logit(common[i]+normal(.5)))
			}
		case "whole", "page":
			sd := []float64{1, .7}
			if e.o.Clicks == "page" {
				sd = []float64{.5, .35}
			}
			if g == 0 {
				for i := range n {
					common[i] = normal(sd[0])
				}
				if e.o.Clicks == "page" {
					a, b := e.o.own(1), e.o.own(2)-e.o.own(1)
					for range a * b {
						e.pairs = append(e.pairs, normal(.5))
					}
				}
			}
			for i := range n {
				p = append(p, common[i]+normal(sd[1]))
			}
		default:
			if e.o.Attraction != nil {
				p = e.o.Attraction
				break
			}
			if g == 0 {
				for i := range n {
					common[i] = one()
				}
			}
			for i := range n {
				p = append(p, float64(.5*common[i])+float64(.5*one()))
			}
		}
		e.p = append(e.p, p)
	}
}

// probability is that of a click at position l of a list where it is examined for certain, and the weight of an item with whole.
func (e *listWorld) probability(g int, list []int, l int) float64 {
	i := list[l]
	switch e.o.Clicks {
	case "pbm", "whole":
		return float64(e.p[g][i] * e.e[l])
	case "place":
		return e.p[g][i*e.k+l]
	case "repeat":
		p := float64(e.p[g][i] * e.e[l])
		for _, j := range list[:l] {
			if j%3 == i%3 {
				return p / 4
			}
		}
		return p
	}
	return e.p[g][i]
}

// page is the probability of the click on a page.
func (e *listWorld) page(g int, list []int) float64 {
	z := -1.4
	for _, i := range list {
		z += e.p[g][i]
	}
	b := e.o.own(2) - e.o.own(1)
	return logs.Sigmoid(z + e.pairs[list[0]*b+list[1]-e.o.own(1)])
}

// value is the mean reward of a list.
func (e *listWorld) value(g int, list []int) float64 {
	if e.o.Clicks == "page" {
		return e.page(g, list)
	}
	on, v := 1.0, 0.0
	goes := 1.0 // probability of going on after a click
	switch e.o.Clicks {
	case "cascade":
		goes = 0
	case "dcm":
		goes = e.o.Go
	}
	for l := range list {
		q := e.probability(g, list, l)
		v += float64(on * q)
		on = float64(on * (1 - float64(q*(1-goes))))
	}
	return v
}

// bestOf is the mean reward of the best list of a segment.
func (e *listWorld) bestOf(g int) float64 {
	if e.o.sorts() {
		items, places := make([]int, e.n), make([]int, e.k)
		for i := range items {
			items[i] = i
		}
		for l := range places {
			places[l] = l
		}
		slices.SortStableFunc(items, func(a, b int) int { return compare(e.p[g][b], e.p[g][a]) })
		slices.SortStableFunc(places, func(a, b int) int { return compare(e.e[b], e.e[a]) })
		list := make([]int, e.k)
		for r, l := range places {
			list[l] = items[r]
		}
		return e.value(g, list)
	}
	best, list := math.Inf(-1), make([]int, 0, e.k)
	var look func()
	look = func() {
		l := len(list)
		if l == e.k {
			best = max(best, e.value(g, list))
			return
		}
		from, to := e.shape.Range(l)
		for i := from; i < to; i++ {
			if !slices.Contains(list, i) {
				list = append(list, i)
				look()
				list = list[:l]
			}
		}
	}
	look()
	return best
}

func compare(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Dim implements bandit.Environment.
func (e *listWorld) Dim() int { return e.shape.Dim() }

// Notes implements Noted.
func (e *listWorld) Notes() []string { return e.notes }

// Sigma implements Noisy: k clicks are k/2-subgaussian whatever they depend on.
func (e *listWorld) Sigma() (float64, bool) {
	switch e.o.Clicks {
	case "whole":
		return max(e.o.Noise, 1e-9), true
	case "cascade", "page":
		return .5, true
	}
	return float64(e.k) / 2, true
}

var (
	_ Listed   = (*listWorld)(nil)
	_ Examined = (*listWorld)(nil)
)

// ListShape implements Listed.
func (e *listWorld) ListShape() bandit.ListShape { return e.shape }

// Examination implements Examined.
func (e *listWorld) Examination() []float64 {
	switch e.o.Clicks {
	case "pbm", "repeat", "whole":
		return slices.Clone(e.e)
	}
	return nil
}

// Offer implements bandit.Environment: the lists of a segment.
func (e *listWorld) Offer(draw rng.Source) (bandit.ActionSet, error) {
	e.segment = draw.Intn(0, e.o.Segments)
	return e.sets[e.segment], nil
}

func (e *listWorld) read(a bandit.Action) error {
	list, g, ok := e.shape.Decode(e.list, a)
	if e.list = list; !ok || g != e.segment {
		return fmt.Errorf("env: the action is no list of segment %d", e.segment)
	}
	for l, i := range list {
		if from, to := e.shape.Range(l); i < from || i >= to {
			return fmt.Errorf("env: item %d at position %d, expected one from %d to %d", i, l, from, to-1)
		}
	}
	return nil
}

// Reward implements bandit.Environment. It uses number l of the source for position l.
func (e *listWorld) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	if err := e.read(a); err != nil {
		return 0, err
	}
	clear(e.clicks)
	g, total, on := e.segment, 0.0, true
	switch e.o.Clicks {
	case "whole":
		return e.value(g, e.list) + float64(e.o.Noise*draw.Normal(0)), nil
	case "page":
		if draw.Float64(0) < e.page(g, e.list) {
			return 1, nil
		}
		return 0, nil
	}
	for l := range e.list {
		if !on || draw.Float64(l) >= e.probability(g, e.list, l) {
			continue
		}
		e.clicks[l] = 1
		total++
		switch e.o.Clicks {
		case "cascade":
			on = false
		case "dcm":
			on = draw.Float64(e.k+l) < e.o.Go
		}
	}
	return total, nil
}

// ByPosition implements bandit.Positioned.
func (e *listWorld) ByPosition() []float64 {
	if e.o.Clicks == "whole" || e.o.Clicks == "page" {
		return nil
	}
	return e.clicks
}

// Regret implements bandit.Environment.
func (e *listWorld) Regret(a bandit.Action) (float64, error) {
	if err := e.read(a); err != nil {
		return 0, err
	}
	return max(e.best[e.segment]-e.value(e.segment, e.list), 0), nil
}

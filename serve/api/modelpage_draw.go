package api

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"troupe/eventlog"
	"troupe/ope"
	"troupe/serve"
)

// The curves have at most curvePoints points. The six bounds of the three intervals hold together with
// probability 95 %.
const (
	curvePoints = 80
	boundAlpha  = 0.05 / 6
	pairAlpha   = 0.05 / 2 // of the difference to the baseline, which stands by itself
)

// interval is an estimate with its time-uniform bounds.
type interval struct{ Mean, Low, High float64 }

// estimates are the mean reward and that of uniform play after the first n valued decisions.
type estimates struct {
	n       int
	played  interval
	recent  float64 // mean reward of the newest recentOf(all) of them
	uniform interval
	first   interval // of the first candidate of each request
	weight  float64  // mean of the weights 1/(K·p): the share of candidates that the model may take, on average
	weighed int      // decisions with a weight
	// firstWeight is the mean of the weights 1{first}/p, 1 where the log supports the first candidate.
	firstWeight float64
	size        float64 // effective sample size of the comparison with uniform play, (Σw)²/Σw²
	firstSize   float64 // of that with the first candidate
	// less is what the first candidate earns less than the model, paired on the same decisions, at 95 % by itself.
	less interval
}

// recentOf is how many decisions the mean of recent ones has, of so many.
func recentOf(all int) int { return min(all, max(50, all/10)) }

// estimate goes through the decisions with a final reward in the order of the log and returns the estimates at
// curvePoints places. With y in [0, 1] (rewards are scaled to their range) and w = 1/(K·p), where p is the logged
// propensity of the action among K candidates:
//
//	played   (1/n) Σ y,            bounds from the sequences of y and of 1 − y;
//	uniform  Σ w·y / Σ w (SNIPS),  bounds from the sequences of w·y and of w·(1 − y),
//	first    the same with w = 1/p where the action was the first candidate, and 0 elsewhere.
//
// The mean of w·y is at most the value of uniform play, also when some actions have probability 0, and that of
// w·(1 − y) at most one minus it. So the bounds hold with any support (ope.Sequence). outside counts the rewards
// that are not in the range; with any, there is no interval. It is −1 where decisions of one unit share a draw: then
// there is none either.
func estimate(h *modelHistory, t *terms) (out []estimates, outside int) {
	valued, values, outside := finals(h, t)
	e := newEstimator(t, outside == 0, recentOf(len(valued)))
	for i, d := range valued {
		e.add(d, values, i)
		// The last place is always one of them.
		if n := i + 1; n*curvePoints/len(valued) == i*curvePoints/len(valued) && n < len(valued) {
			continue
		}
		out = append(out, e.now(i+1))
	}
	return out, outside
}

// finals returns the decisions with a final reward, their rewards, and how many of these are outside of the range, or
// −1, see estimate.
func finals(h *modelHistory, t *terms) (valued []*past, values []float64, outside int) {
	units, shared := map[eventlog.ID]bool{}, false
	for _, d := range h.decisions {
		y, final := h.value(d, t)
		if !final {
			continue
		}
		if d.unit != 0 {
			shared, units[d.unit] = shared || units[d.unit], true
		}
		if valued, values = append(valued, d), append(values, y); y < t.min || y > t.max {
			outside++
		}
	}
	if shared && outside == 0 {
		outside = -1
	}
	return valued, values, outside
}

// estimator is what estimate knows after some of the decisions.
type estimator struct {
	t      *terms
	scale  float64
	bounds bool // there are intervals
	width  int  // of the recent ones

	played, uniform, first both
	less                   both // of (1/p − 1)y and (1/p − 1)(1 − y), or −y and y − 1

	recent, sum                 float64
	weighed                     int
	weights, squares, weighted  float64
	firstWeights, firstWeighted float64
	firstSquares                float64
}

// both are the sequences of y and of 1 − y, with their weights.
type both struct{ up, down *ope.Sequence }

func newEstimator(t *terms, bounds bool, width int) *estimator {
	pair := func(least float64) both { return both{ope.NewSequence(least), ope.NewSequence(least)} }
	return &estimator{t: t, scale: t.max - t.min, bounds: bounds, width: width, played: pair(0), uniform: pair(0),
		first: pair(0), less: pair(1)}
}

// add takes decision i, of those whose rewards are values.
func (e *estimator) add(d *past, values []float64, i int) {
	if e.recent += values[i]; i >= e.width {
		e.recent -= values[i-e.width]
	}
	y := (values[i] - e.t.min) / e.scale
	e.sum += y
	if e.bounds {
		e.played.up.Add(y)
		e.played.down.Add(1 - y)
	}
	if d.mode != eventlog.Online && d.mode != eventlog.Frozen || d.num == 0 || d.offered == 0 {
		return
	}
	w := float64(d.den) / (float64(d.num) * float64(d.offered))
	e.weighed, e.weights, e.squares, e.weighted = e.weighed+1, e.weights+w, e.squares+w*w, e.weighted+w*y
	f := 0.0
	if d.index == 0 {
		f = float64(d.den) / float64(d.num)
	}
	e.firstWeights, e.firstWeighted, e.firstSquares = e.firstWeights+f, e.firstWeighted+f*y, e.firstSquares+f*f
	if e.bounds {
		e.uniform.up.Add(w * y)
		e.uniform.down.Add(w * (1 - y))
		e.first.up.Add(f * y)
		e.first.down.Add(f * (1 - y))
		e.less.up.Add((f - 1) * (1 - y))
		e.less.down.Add((f - 1) * y)
	}
}

// now returns the estimates after n decisions.
func (e *estimator) now(n int) estimates {
	out := estimates{n: n, weighed: e.weighed, recent: e.recent / float64(min(n, e.width))}
	value := func(u float64) float64 { return e.t.min + e.scale*u }
	out.played.Mean = value(e.sum / float64(n))
	if e.weighed > 0 {
		out.weight, out.size = e.weights/float64(e.weighed), e.weights*e.weights/e.squares
		out.uniform.Mean = value(e.weighted / e.weights)
		if out.firstWeight = e.firstWeights / float64(e.weighed); e.firstWeights > 0 {
			out.first.Mean = value(e.firstWeighted / e.firstWeights)
			out.firstSize = e.firstWeights * e.firstWeights / e.firstSquares
		}
	}
	if !e.bounds {
		return out
	}
	bound := func(i *interval, of both) {
		i.Low, i.High = value(of.up.Lower(boundAlpha, 0, 1)), value(1-of.down.Lower(boundAlpha, 0, 1))
	}
	bound(&out.played, e.played)
	if e.weighed > 0 {
		bound(&out.uniform, e.uniform)
		bound(&out.first, e.first)
		out.less.Low, out.less.High = e.scale*e.less.up.Lower(pairAlpha, -1, 1),
			-e.scale*e.less.down.Lower(pairAlpha, -1, 1)
	}
	return out
}

// supports reports whether the log supports uniform play: the weights have a mean near 1.
func (e *estimates) supports() bool {
	return e.weighed >= fewDecisions && e.weight > 0.8 && e.weight < 1.25
}

// shown reports whether the log supports a number for uniform play, and not only bounds.
func (e *estimates) shown() bool { return e.supports() && ope.Shown(e.size) }

// tick is a word beside a curve, at a percentage from the top.
type tick struct {
	At, Text string
	Y        float64 // in the square
}

// curve is the picture of the mean reward: paths in a square of 1000.
type curve struct {
	Label            string
	Band, Line       string
	OtherBand, Other string
	Ticks, Ends      []tick
	From, To         string
	Supported        bool
	Change           *tick // where the rewards changed: At is a percentage from the left
}

func drawCurve(es []estimates, interval bool, from, to string) *curve {
	if len(es) < 2 {
		return nil
	}
	last := &es[len(es)-1]
	c := &curve{From: from, To: to, Supported: last.supports()}
	lo, hi := math.Inf(1), math.Inf(-1)
	see := func(v ...float64) { lo, hi = min(lo, slices.Min(v)), max(hi, slices.Max(v)) }
	for i := range es {
		if es[i].n >= recentOf(last.n) { // the first means have few rewards
			see(es[i].recent)
		}
		if c.Supported && ope.Shown(es[i].size) && 4*i >= len(es) { // the first ratios have few weights
			see(es[i].uniform.Mean)
		}
	}
	if interval {
		if c.Supported {
			see(last.uniform.Low, last.uniform.High)
		}
	}
	if hi-lo < 1e-9*max(1, math.Abs(hi)) {
		lo, hi = lo-0.5, hi+0.5
	}
	pad := 0.08 * (hi - lo)
	lo, hi = lo-pad, hi+pad
	y := func(v float64) float64 { return min(1000, max(0, 1000*(hi-v)/(hi-lo))) }
	x := func(i int) float64 { return 1000 * float64(es[i].n) / float64(last.n) }
	path := func(value func(*estimates) float64) string {
		var b strings.Builder
		for i := range es {
			fmt.Fprintf(&b, "%c%.0f %.0f", "ML"[min(i, 1)], x(i), y(value(&es[i])))
		}
		return b.String()
	}
	band := func(low, high func(*estimates) float64) string {
		var b strings.Builder
		b.WriteString(path(low))
		for i := range slices.Backward(es) {
			fmt.Fprintf(&b, "L%.0f %.0f", x(i), y(high(&es[i])))
		}
		return b.String() + "Z"
	}
	shown := func(value func(*estimates) float64) string { // where the log supports a number, with gaps
		var b strings.Builder
		pen := 'M'
		for i := range es {
			if !ope.Shown(es[i].size) {
				pen = 'M'
				continue
			}
			fmt.Fprintf(&b, "%c%.0f %.0f", pen, x(i), y(value(&es[i])))
			pen = 'L'
		}
		return b.String()
	}
	c.Line = path(func(e *estimates) float64 { return e.recent })
	at := func(v float64) string { return strconv.FormatFloat(y(v)/10, 'f', 1, 64) }
	c.Ends = []tick{{At: at(last.recent), Text: "this model"}}
	c.Label = fmt.Sprintf("Mean reward of the newest %d of %d decisions: %s.", recentOf(last.n), last.n,
		short(last.recent))
	if c.Supported && (last.shown() || interval) {
		if last.shown() {
			c.Other = shown(func(e *estimates) float64 { return e.uniform.Mean })
		}
		if interval {
			c.OtherBand = band(func(e *estimates) float64 { return e.uniform.Low },
				func(e *estimates) float64 { return e.uniform.High })
		}
		end := last.uniform.Mean
		if !last.shown() {
			end = (last.uniform.Low + last.uniform.High) / 2 // the word stands beside the band
		}
		top := y(end)
		if mine := y(last.recent); math.Abs(top-mine) < 80 { // the words must not lie on each other
			top = mine + math.Copysign(80, top-mine)
		}
		c.Ends = append(c.Ends, tick{At: strconv.FormatFloat(top/10, 'f', 1, 64), Text: "uniform play"})
		if last.shown() {
			c.Label += fmt.Sprintf(" Uniform play: %s.", short(last.uniform.Mean))
		} else if interval {
			c.Label += fmt.Sprintf(" Uniform play: between %s and %s.", short(last.uniform.Low), short(last.uniform.High))
		}
	}
	for i := range 4 {
		v := hi - float64(i)/3*(hi-lo)
		c.Ticks = append(c.Ticks, tick{at(v), axis(v, hi-lo), math.Round(y(v))})
	}
	return c
}

// mark marks the place of a change that the policy noticed after at of learned events. The curve has the newest n
// events with a final reward; places are near it, because rewards come in another order than decisions.
func (c *curve) mark(at, learned uint64, n int) {
	x := (float64(at) - (float64(learned) - float64(n))) / float64(n)
	if x < 0 || x > 1 {
		return
	}
	c.Change = &tick{At: strconv.FormatFloat(100*x, 'f', 1, 64), Text: "the rewards changed", Y: math.Round(1000 * x)}
	c.Label += fmt.Sprintf(" The rewards changed after about event %s.", grouped(at))
}

// axis prints a value with the digits that a range needs.
func axis(v, span float64) string {
	digits := int(max(0, math.Ceil(1.3-math.Log10(span))))
	return strconv.FormatFloat(v, 'f', min(digits, 8), 64)
}

func percent(part, all int) string {
	if all == 0 {
		return "–"
	}
	return strconv.FormatFloat(100*float64(part)/float64(all), 'f', 1, 64)
}

// actionRow is one action and its share of the decisions.
type actionRow struct{ Name, Count, Share, Mean, Rewarded string }

const maxActionRows = 20

// actionsOf counts the actions, the most frequent first; more is how many have no row.
func actionsOf(h *modelHistory, t *terms) (rows []actionRow, more int) {
	type sums struct {
		n, valued int
		sum       float64
	}
	all, total := map[string]*sums{}, 0
	for _, d := range h.decisions {
		if d.inactive {
			continue
		}
		s := all[d.action]
		if s == nil {
			s = &sums{}
			all[d.action] = s
		}
		s.n, total = s.n+1, total+1
		if y, final := h.value(d, t); final {
			s.valued, s.sum = s.valued+1, s.sum+y
		}
	}
	names := sortedKeys(all)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(all[b].n, all[a].n) })
	for _, name := range names[:min(len(names), maxActionRows)] {
		s := all[name]
		row := actionRow{Name: clipped(name, 120), Count: grouped(uint64(s.n)), Share: percent(s.n, total), Mean: "–",
			Rewarded: grouped(uint64(s.valued))}
		if name == "" {
			row.Name = "without an id"
		}
		if s.valued > 0 {
			row.Mean = short(s.sum / float64(s.valued))
		}
		rows = append(rows, row)
	}
	return rows, len(names) - len(rows)
}

// histogram is the propensities in ten bins, in a picture of 600 × 120.
type histogram struct {
	Label string
	Bars  []histogramBar
	N     string
}

type histogramBar struct {
	X, Y, H float64
	Text    string
}

func histogramOf(h *modelHistory) *histogram {
	var bins [10]int
	n := 0
	for _, d := range h.decisions {
		if d.policy() && d.den > 0 {
			bins[min(9, int(10*float64(d.num)/float64(d.den)))]++
			n++
		}
	}
	if n == 0 {
		return nil
	}
	most := slices.Max(bins[:])
	out := &histogram{N: grouped(uint64(n))}
	var words []string
	for i, c := range bins {
		tall := math.Round(1000*float64(c)/float64(most)) / 10
		text := fmt.Sprintf("%.1f to %.1f: %d", float64(i)/10, float64(i+1)/10, c)
		out.Bars = append(out.Bars, histogramBar{float64(60*i + 3), 100 - tall, tall, text})
		if c > 0 {
			words = append(words, text)
		}
	}
	out.Label = "Decisions by propensity. " + strings.Join(words, "; ") + "."
	return out
}

// decisionRow is one of the newest decisions.
type decisionRow struct{ ID, Short, Time, Action, Context, Candidates, Votes, Propensity, Exact, Reward, State string }

const maxDecisionRows = 20

// newestDecisions are the newest decisions, with the context as it was sent where the server remembers the request, and its
// hash otherwise.
func newestDecisions(h *modelHistory, requests []serve.RequestView) []decisionRow {
	newest := slices.Clone(h.decisions[max(0, len(h.decisions)-maxDecisionRows):])
	slices.Reverse(newest)
	rows := rowsOf(newest)
	for i := range rows {
		row := &rows[i]
		if k := slices.IndexFunc(requests, func(r serve.RequestView) bool { return r.EventID == row.ID }); k >= 0 && requests[k].Context != "" {
			row.Context = clipped(requests[k].Context, 120)
		} else if row.Context != "none" {
			row.Context = "hash " + row.Context
		}
	}
	return rows
}

// probability writes a probability with three decimals, and never 0 or 1 for one that is not.
func probability(num, den uint64) string {
	switch p := float64(num) / float64(den); {
	case num == 0 || num == den:
		return strconv.FormatFloat(p, 'f', 0, 64)
	case p > .9995:
		return ">0.999"
	case p < .0005:
		return "<0.001"
	default:
		return strconv.FormatFloat(p, 'f', 3, 64)
	}
}

// newestRequests returns the decisions whose requests the server remembers, the newest first.
func newestRequests(h *modelHistory, requests []serve.RequestView) (out []decisionRow) {
	for _, r := range slices.Backward(requests) {
		i := slices.IndexFunc(h.decisions, func(d *past) bool { return d.id == r.EventID })
		if i < 0 {
			continue // before what was read
		}
		row := rowsOf(h.decisions[i : i+1])[0]
		row.Context, row.Candidates = r.Context, r.Actions
		if r.Context == "" {
			row.Context = "none"
		}
		if r.Cut {
			row.Candidates += " … (cut)"
		}
		out = append(out, row)
	}
	return out
}

func rowsOf(list []*past) (out []decisionRow) {
	for _, d := range list {
		row := decisionRow{
			ID: d.id, Short: "…" + d.id[max(0, len(d.id)-8):], Time: when(d.time), Action: clipped(d.what(), 60),
			Context:    d.context.String(),
			Candidates: grouped(uint64(d.offered)), Votes: "–",
			Propensity: probability(d.num, d.den), Exact: fmt.Sprintf("%d/%d", d.num, d.den), Reward: "–",
		}
		if d.context == 0 {
			row.Context = "none"
		}
		if d.voters > 0 {
			row.Votes = fmt.Sprintf("%d/%d", d.votes, d.voters)
		}
		if d.rewarded || d.fallback {
			row.Reward = short(d.y)
		}
		row.State = d.state()
		if d.mode != eventlog.Online {
			row.State += ", " + d.mode.String()
		}
		out = append(out, row)
	}
	return out
}

package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"troupe/report/chart"
)

// Bound is a theorem's regret bound for one environment, as a curve.
type Bound struct {
	Env    string // environment's name
	Label  string // thm:es
	Name   string // for people: ensemble sampling, Theorem 1
	Rounds []int
	Values []float64

	asked bool // of Options.Bounds: in every log–log figure; those of package theory are shown on demand
}

// Final returns the bound at its last round.
func (b Bound) Final() float64 { return b.Values[len(b.Values)-1] }

// maxEnds is how many curves get a label at their end; see named.
const maxEnds = 10

// painter draws the figures of an analysis that every run has.
type painter struct{ a *Analysis }

// curve returns mean and half width of the pointwise 95 % interval at each checkpoint.
func (pa painter) curve(i int) (mean, half []float64) {
	mean, half = make([]float64, len(pa.a.Rounds)), make([]float64, len(pa.a.Rounds))
	n := float64(pa.a.R())
	for k, x := range pa.a.X[i] {
		var s, q float64
		for _, v := range x {
			s += v
		}
		m := s / n
		for _, v := range x {
			q += (v - m) * (v - m)
		}
		mean[k] = m
		if pa.a.R() > 1 {
			half[k] = 1.96 * math.Sqrt(q/(n-1)/n)
		}
	}
	return mean, half
}

// tenths returns the 10 and 90 % points of the replications at each checkpoint.
func (pa painter) tenths(i int) (lo, hi []float64) {
	lo, hi = make([]float64, len(pa.a.Rounds)), make([]float64, len(pa.a.Rounds))
	buf := make([]float64, pa.a.R())
	for k, x := range pa.a.X[i] {
		copy(buf, x)
		slices.Sort(buf)
		lo[k], hi[k] = quantile(buf, 0.1), quantile(buf, 0.9)
	}
	return lo, hi
}

// curves are what both figures of regret draw, by policy and checkpoint.
type curves struct {
	means, halves [][]float64 // and their 95 % half-widths
	lows, highs   [][]float64 // 10 and 90 % points
	labelled      []int       // the policies whose curves have labels
}

func (pa painter) curves() *curves {
	n := len(pa.a.Policies)
	c := &curves{make([][]float64, n), make([][]float64, n), make([][]float64, n), make([][]float64, n), pa.named()}
	for i := range pa.a.Policies {
		c.means[i], c.halves[i] = pa.curve(i)
		c.lows[i], c.highs[i] = pa.tenths(i)
	}
	return c
}

// plus returns m + sign·h.
func plus(m, h []float64, sign float64) []float64 {
	v := make([]float64, len(m))
	for k := range m {
		v[k] = m[k] + sign*h[k]
	}
	return v
}

// regretFigures returns regret against time, linear and log–log; nil where there is nothing to draw on logarithms.
func (pa painter) regretFigures(id string, bounds []Bound) (lin, loglog *chart.Figure) {
	c := pa.curves()
	return pa.linearRegret(id, c), pa.logRegret(id, c, bounds)
}

// linearRegret draws the curves from (0, 0).
func (pa painter) linearRegret(id string, c *curves) *chart.Figure {
	x := make([]float64, len(pa.a.Rounds)+1)
	for k, t := range pa.a.Rounds {
		x[k+1] = float64(t)
	}
	from0 := func(v []float64) []float64 { return append([]float64{0}, v...) }
	tops := make([]float64, len(pa.a.Policies))
	for i := range tops {
		tops[i] = max(0, slices.Max(plus(c.means[i], c.halves[i], 1)))
	}
	top := linearTop(tops)
	if top <= 0 {
		top = 1
	}
	yt := chart.LinearTicks(0, top, 4)
	p := &chart.Panel{Look: -1, Data: "lin",
		X: chart.Axis{Caption: clockCaption(pa.a), Lo: 0, Hi: float64(pa.a.T), Ticks: chart.Within(chart.LinearTicks(0,
			float64(pa.a.T), 5), 0, float64(pa.a.T))},
		Y: chart.Axis{Caption: "Regret", Lo: 0, Hi: yt[len(yt)-1].At, Ticks: yt},
	}
	for i, m := range pa.a.Policies {
		p.Marks = append(p.Marks,
			chart.Mark{Kind: chart.Band, Look: m, Name: pa.a.Label(i), X: x, Lo: from0(plus(c.means[i], c.halves[i], -1)),
				Hi: from0(plus(c.means[i], c.halves[i], 1))},
			chart.Mark{Kind: chart.Edges, Look: m, Name: pa.a.Label(i), X: x, Lo: from0(c.lows[i]), Hi: from0(c.highs[i])})
	}
	for _, i := range slices.Backward(pa.a.Order) { // the best on top
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.Line, Look: pa.a.Policies[i], Name: pa.a.Label(i), X: x,
			Y: from0(c.means[i])})
		if e := pa.end(i, c.labelled, p.Y); e.Label != "" {
			p.Ends = append(p.Ends, e)
		}
	}
	return &chart.Figure{ID: id + "regret", Title: "Regret against time", Panels: []*chart.Panel{p},
		How: fmt.Sprintf("Mean over %s. A straight line means it never learns; flat means it has found the best "+
			"action.", many(pa.a.R(), "replication")) + pa.unlabelled()}
}

// logRegret draws the curves and bounds on logarithms.
func (pa painter) logRegret(id string, c *curves, bounds []Bound) *chart.Figure {
	first := 0
	for first < len(pa.a.Rounds)-2 && float64(pa.a.Rounds[first]) < 10 && pa.a.T >= 1000 {
		first++
	}
	lo, hi := math.Inf(1), 0.0
	for i := range pa.a.Policies {
		for _, v := range c.means[i][first:] {
			if v > 0 {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if hi == 0 || len(pa.a.Rounds)-first < 2 {
		return nil
	}
	for _, b := range bounds {
		if v := b.Final(); b.asked && v < 10*hi {
			hi = max(hi, v)
		}
	}
	lo, hi = chart.LogRange(lo, hi)
	var x []float64
	for _, t := range pa.a.Rounds[first:] {
		x = append(x, float64(t))
	}
	q := &chart.Panel{Look: -1, Data: "log",
		X: chart.Axis{Caption: clockCaption(pa.a) + " (log)", Log: true, Lo: x[0], Hi: float64(pa.a.T),
			Ticks: chart.LogTicks(x[0], float64(pa.a.T))},
		Y: chart.Axis{Caption: "Regret (log)", Log: true, Lo: lo, Hi: hi, Ticks: chart.LogTicks(lo, hi)},
	}
	if r := 10.0; x[0] >= r && x[0] <= 1.5*r {
		q.X.Lo = r // so that the power of ten has its tick
		q.X.Ticks = chart.LogTicks(r, float64(pa.a.T))
	}
	pa.rootGuide(q, c, x)
	for i, m := range pa.a.Policies {
		q.Marks = append(q.Marks,
			chart.Mark{Kind: chart.Band, Look: m, Name: pa.a.Label(i), X: x, Lo: plus(c.means[i], c.halves[i], -1)[first:],
				Hi: plus(c.means[i], c.halves[i], 1)[first:]},
			chart.Mark{Kind: chart.Edges, Look: m, Name: pa.a.Label(i), X: x, Lo: c.lows[i][first:],
				Hi: c.highs[i][first:]})
	}
	drawBounds(q, bounds)
	for _, i := range slices.Backward(pa.a.Order) {
		m, y := pa.a.Policies[i], c.means[i][first:]
		q.Marks = append(q.Marks, chart.Mark{Kind: chart.Line, Look: m, Name: pa.a.Label(i), X: x, Y: y})
		e := pa.end(i, c.labelled, q.Y)
		if s := pa.a.Summary[i]; s.ExponentOK {
			pa.drawFit(q, i, x, y)
			if e.Label != "" {
				e.Note = "slope " + chart.Number(s.Exponent, 2)
			}
		}
		if e.Label != "" {
			q.Ends = append(q.Ends, e)
		}
	}
	how := "The slope is the growth exponent: ½ is √t, 1 never learns." + pa.unlabelled()
	if pa.a.Fit.To > 0 {
		how += fmt.Sprintf(" Fitted over t = %s … %s (dotted).", chart.Count(pa.a.Fit.From), chart.Count(pa.a.Fit.To))
	}
	for _, b := range bounds {
		if b.asked {
			how += fmt.Sprintf(" %s: %s at T.", upperFirst(b.Name), chart.Amount(b.Final(), pa.a.Dec))
		}
	}
	return &chart.Figure{ID: id + "regret-loglog", Title: "Regret against time, log–log", How: how,
		Panels: []*chart.Panel{q}}
}

// rootGuide draws a multiple of √t below the best policy.
func (pa painter) rootGuide(q *chart.Panel, c *curves, x []float64) {
	best := c.means[pa.a.Best()]
	scale := best[len(best)-1] / math.Sqrt(float64(pa.a.T))
	if !(scale > 0) {
		return
	}
	g := chart.Mark{Kind: chart.Guide, Look: -1, Name: "∝ √t", X: x}
	for _, t := range x {
		g.Y = append(g.Y, 0.6*scale*math.Sqrt(t))
	}
	q.Marks = append(q.Marks, g)
	q.Ends = append(q.Ends, chart.End{Look: -1, Y: g.Y[len(g.Y)-1], Label: "∝ √t"})
}

// drawBounds draws the bounds that come down to the panel; those that were asked for have a label.
func drawBounds(q *chart.Panel, bounds []Bound) {
	for _, b := range bounds {
		m := chart.Mark{Kind: chart.BoundLine, Look: -1, Name: b.Label}
		if b.asked {
			m.Kind = chart.Guide
			if v := b.Final(); v <= q.Y.Hi {
				q.Ends = append(q.Ends, chart.End{Look: -1, Y: v, Label: b.Label})
			}
		}
		for k, t := range b.Rounds {
			if v := float64(t); v >= q.X.Lo {
				m.X, m.Y = append(m.X, v), append(m.Y, b.Values[k])
			}
		}
		if slices.ContainsFunc(m.Y, func(v float64) bool { return v <= q.Y.Hi }) {
			q.Marks = append(q.Marks, m)
		}
	}
}

// drawFit draws the least-squares line of a policy's exponent, which passes through the means of the logs.
func (pa painter) drawFit(q *chart.Panel, i int, x, y []float64) {
	from := slices.IndexFunc(x, func(t float64) bool { return t >= float64(pa.a.Fit.From) })
	if from < 0 {
		return
	}
	x, y = x[from:], y[from:]
	var mx, my float64
	for k, v := range y {
		mx += math.Log(x[k]) / float64(len(y))
		my += math.Log(v) / float64(len(y))
	}
	ends, at := []float64{x[0], x[len(x)-1]}, make([]float64, 2)
	for k, t := range ends {
		at[k] = math.Exp(my + pa.a.Summary[i].Exponent*(math.Log(t)-mx))
	}
	q.Marks = append(q.Marks, chart.Mark{Kind: chart.Fit, Look: pa.a.Policies[i], Name: pa.a.Label(i) + " fit", X: ends,
		Y: at})
}

// end labels a curve, if it is one of those that have labels.
func (pa painter) end(i int, labelled []int, y chart.Axis) chart.End {
	if !slices.Contains(labelled, i) {
		return chart.End{}
	}
	e := chart.End{Look: pa.a.Policies[i], Y: pa.a.Summary[i].Mean, Label: pa.a.Label(i)}
	if e.Y > y.Hi {
		e.Note, e.Above = chart.Amount(e.Y, pa.a.Dec), true
	}
	return e
}

// maxGaps bounds the small multiples of the gap.
const maxGaps = 8

// gapFigure returns the paired difference to the best over time, one panel for each rival, on one
// scale.
func (pa painter) gapFigure(id string) *chart.Figure {
	if pa.a.Compared() < 2 || pa.a.R() < 2 || len(pa.a.Band.Rounds) < 2 {
		return nil
	}
	best := pa.a.Best()
	rivals := pa.a.Order[1:pa.a.Compared()]
	more := 0
	if len(rivals) > maxGaps {
		rivals, more = rivals[:maxGaps], len(rivals)-maxGaps
	}
	bands := make([]gapBand, len(rivals))
	for n, i := range rivals {
		bands[n] = pa.gapBand(i)
	}
	lo, hi := pa.gapScale(rivals, bands)
	ticks := chart.LinearTicks(lo, hi, 3)
	for i := range ticks {
		if ticks[i].At > 0 {
			ticks[i].Label = "+" + ticks[i].Label
		}
	}
	y := chart.Axis{Caption: "Difference", Lo: ticks[0].At, Hi: ticks[len(ticks)-1].At, Ticks: ticks}
	f := &chart.Figure{ID: id + "gap", Title: "When the gap opens",
		How: fmt.Sprintf("Paired difference in regret to %s so far; above zero is worse.", pa.a.Label(best))}
	if pa.a.Band.OK {
		f.How += " The bands hold for all pairs at all drawn times together (95%)."
	} else if pa.a.R() < minReps {
		f.How += " Without bands: too few replications for intervals that hold together."
	} else {
		f.How += " Without bands: the policies differ in too few replications for intervals that hold together."
	}
	if more > 0 {
		f.How += fmt.Sprintf(" The %d nearest of %d rivals are shown.", maxGaps, maxGaps+more)
	}
	for n, i := range rivals {
		f.Panels = append(f.Panels, pa.gapPanel(i, &bands[n], y))
	}
	return f
}

// gapBand is the paired difference of a policy to the best one at the drawn times, with its band.
type gapBand struct{ x, m, lo, hi []float64 }

func (pa painter) gapBand(i int) (b gapBand) {
	for _, k := range pa.a.Band.Rounds {
		d := pa.a.paired(i, pa.a.Best(), k)
		m, se := mean(d), stderr(d)
		c := pa.a.Band.Factor
		if !pa.a.Band.OK || !estimable(d) {
			c = 0
		}
		b.x = append(b.x, float64(pa.a.Rounds[k]))
		b.m = append(b.m, m)
		b.lo, b.hi = append(b.lo, m-c*se), append(b.hi, m+c*se)
	}
	return b
}

// gapScale returns the ends of the axis of differences. It belongs to those that cannot be told apart, or to the
// nearest; others are let in, the nearest first, while they do not squeeze these to less than half.
func (pa painter) gapScale(rivals []int, bands []gapBand) (lo, hi float64) {
	best := pa.a.Best()
	first := true
	for _, own := range []bool{true, false} {
		for n, i := range rivals {
			v := pa.a.Pairs.Diff[i].Verdict
			if own != (v == Tied || v == Same || v == None || v == Behind && pa.a.Pairs.Diff[i].Mean < pa.a.Summary[best].Mean) {
				continue
			}
			l, h := slices.Min(bands[n].lo), slices.Max(bands[n].hi)
			if own || first || h-l <= 2*(hi-lo) {
				lo, hi, first = min(lo, l), max(hi, h), false
			}
		}
	}
	if hi <= lo {
		hi = lo + 1
	}
	return lo, hi
}

// gapPanel draws the band of a policy.
func (pa painter) gapPanel(i int, b *gapBand, y chart.Axis) *chart.Panel {
	m := pa.a.Policies[i]
	x := chart.Axis{Caption: clockCaption(pa.a) + " (log)", Log: true, Lo: b.x[0], Hi: b.x[len(b.x)-1]}
	if r := math.Pow(10, math.Floor(math.Log10(x.Lo))); x.Lo <= 1.5*r {
		x.Lo = r // so that the power of ten has its tick
	}
	for _, t := range chart.LogTicks(x.Lo, x.Hi) {
		if !t.Minor {
			x.Ticks = append(x.Ticks, t)
		}
	}
	p := &chart.Panel{Title: pa.a.Label(i), Look: m, X: x, Y: y, Marks: []chart.Mark{{Kind: chart.Zero, Look: -1,
		Name: "zero", Y: []float64{0}}}}
	if pa.a.Band.OK {
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.Band, Look: m, Name: pa.a.Label(i), X: b.x, Lo: b.lo, Hi: b.hi})
	}
	p.Marks = append(p.Marks, chart.Mark{Kind: chart.Line, Look: m, Name: pa.a.Label(i), X: b.x, Y: b.m})
	switch {
	case b.m[len(b.m)-1] > y.Hi:
		p.Note = "↑ " + chart.Signed(b.m[len(b.m)-1], pa.a.Dec)
	case slices.Max(b.hi) > y.Hi*(1+1e-9) || slices.Min(b.lo) < y.Lo*(1+1e-9)-1e-12:
		p.Note = "band cut"
	}
	return p
}

// maxDots is how many replications of a policy are drawn; above it a stratified choice.
const maxDots = 500

// finalFigure returns every replication's final regret as a dot, with box and mean.
func (pa painter) finalFigure(id string) *chart.Figure {
	f := &chart.Figure{ID: id + "final", Title: "Final regret, every replication", Strips: true}
	x, note := pa.finalAxis()
	p := &chart.Panel{Look: -1, X: x, Y: chart.Axis{Lo: float64(len(pa.a.Order)), Hi: 0}}
	for row, i := range pa.a.Order {
		s := pa.a.Summary[i]
		m := pa.a.Policies[i]
		p.Rows = append(p.Rows, chart.RowLabel{Look: m, Label: pa.a.Label(i)})
		clip := func(v float64) float64 { return min(max(v, x.Lo), x.Hi) }
		dots := chart.Mark{Kind: chart.Dots, Look: m, Name: pa.a.Label(i)}
		for n, v := range stratified(s.Sorted, maxDots) {
			// The golden ratio spreads neighbours of nearly the same value over the row's lower half.
			_, u := math.Modf(float64(n)*math.Phi + 0.5)
			dots.X, dots.Y = append(dots.X, clip(v)), append(dots.Y, float64(row)+0.52+0.38*u)
		}
		p.Marks = append(p.Marks, dots, chart.Mark{Kind: chart.Box, Look: m, Name: pa.a.Label(i),
			Y: []float64{float64(row) + 0.3},
			X: []float64{clip(quantile(s.Sorted, 0.05)), clip(quantile(s.Sorted, 0.25)), clip(s.Median),
				clip(quantile(s.Sorted, 0.75)), clip(quantile(s.Sorted, 0.95)), clip(s.Mean)}})
	}
	f.How = "Dots are replications; box: middle half, line: 5 to 95%" +
		", stroke: median, large dot: mean." + note
	if pa.a.R() > maxDots {
		f.How += fmt.Sprintf(" Of %s replications %d are drawn, evenly by rank, the outer 1%% all.",
			chart.Count(pa.a.R()), maxDots)
	}
	f.Panels = []*chart.Panel{p}
	return f
}

// finalAxis is the axis of final regrets: log when the largest is more than ten times the median of
// some policy, or medians are more than a factor of five apart. Replications below a log axis are drawn at its edge,
// and the tick says so.
func (pa painter) finalAxis() (chart.Axis, string) {
	lo, hi, least := math.Inf(1), 0.0, math.Inf(1)
	smallest, largest := math.Inf(1), 0.0 // medians
	skew := 0.0
	for _, s := range pa.a.Summary {
		n := len(s.Sorted)
		hi = max(hi, s.Sorted[n-1])
		least = min(least, s.Sorted[0])
		if v := quantile(s.Sorted, 0.01); v > 0 {
			lo = min(lo, v)
		}
		if s.Median > 0 {
			smallest, largest = min(smallest, s.Median), max(largest, s.Median)
			skew = max(skew, s.Sorted[n-1]/s.Median)
		}
	}
	if (skew > 10 || largest > 5*smallest) && !math.IsInf(lo, 1) && hi > 0 {
		// At most five decades: more would squeeze the ones that matter.
		lo = max(lo, hi*1e-5)
		lo, hi = chart.LogRange(lo, hi)
		ax := chart.Axis{Caption: fmt.Sprintf("Regret after %s (log)", many(pa.a.T, pa.a.Run.Manifest.Unit())), Log: true,
			Lo: lo, Hi: hi,
			Ticks: chart.LogTicks(lo, hi)}
		note := ""
		if least < lo && len(ax.Ticks) > 0 {
			if ax.Ticks[0].At > lo*1.0001 {
				ax.Ticks = append([]chart.Tick{{At: lo, Label: chart.PowerLabel(lo)}}, ax.Ticks...)
			}
			ax.Ticks[0].Label = "≤" + chart.Narrow + ax.Ticks[0].Label
			ax.Ticks[0].Minor = false
		}
		return ax, note
	}
	if hi <= 0 {
		hi = 1
	}
	lo = min(0, least)
	if least > hi/2 { // all far from zero: show where they are
		lo = least
	}
	t := chart.LinearTicks(lo, hi, 5)
	return chart.Axis{Caption: fmt.Sprintf("Regret after %s", many(pa.a.T, pa.a.Run.Manifest.Unit())), Lo: t[0].At,
		Hi:    t[len(t)-1].At,
		Ticks: t}, ""
}

// stratified picks n values of a sorted sample evenly by rank and keeps every order statistic
// beyond the 1 and 99 % points.
func stratified(sorted []float64, n int) []float64 {
	if len(sorted) <= n {
		return sorted
	}
	tail := len(sorted) / 100
	if 2*tail >= n/2 {
		tail = n / 4
	}
	out := slices.Clone(sorted[:tail])
	inner, m := sorted[tail:len(sorted)-tail], n-2*tail
	for i := range m {
		out = append(out, inner[(2*i+1)*len(inner)/(2*m)])
	}
	return append(out, sorted[len(sorted)-tail:]...)
}

// tailFigure returns the share of replications above x, both axes log.
func (pa painter) tailFigure(id string) *chart.Figure {
	if pa.a.R() < minReps {
		return nil
	}
	x, _ := pa.finalAxis()
	if !x.Log {
		x.Caption = fmt.Sprintf("Regret after %s", many(pa.a.T, pa.a.Run.Manifest.Unit()))
	}
	low := 1 / float64(pa.a.R())
	p := &chart.Panel{Look: -1, X: x, Y: chart.Axis{Caption: "Share above (log)", Log: true, Lo: 0.8 * low, Hi: 1}}
	for _, t := range chart.LogTicks(low, 1) {
		t.Label = chart.Number(100*t.At, chart.DecimalsOf(100*t.At)) + "%"
		p.Y.Ticks = append(p.Y.Ticks, t)
	}
	for _, i := range slices.Backward(pa.a.Order) {
		s := pa.a.Summary[i].Sorted
		m := chart.Mark{Kind: chart.Step, Look: pa.a.Policies[i], Name: pa.a.Label(i), X: []float64{x.Lo}, Y: []float64{1}}
		for r, v := range s {
			if r+1 < len(s) && s[r+1] == v {
				continue
			}
			y := float64(len(s)-1-r) / float64(len(s))
			if r == len(s)-1 {
				y = low / 4 // the curve falls off the chart
			}
			m.X, m.Y = append(m.X, max(v, x.Lo)), append(m.Y, y)
		}
		p.Marks = append(p.Marks, m)
	}
	return &chart.Figure{ID: id + "tail", Title: "The tail", Panels: []*chart.Panel{p},
		How: "Share of replications whose regret is above x. Lower and further left is safer; curves that cross are " +
			"different bets."}
}

// growthFigure returns the exponents with their intervals.
func (pa painter) growthFigure(id string) *chart.Figure {
	if pa.a.Fit.To == 0 {
		return nil
	}
	f := &chart.Figure{ID: id + "growth", Title: "Growth", Strips: true,
		How: fmt.Sprintf("Slope of log mean regret on log t over t = %s … %s; 95%% by resampling replications and "+
			"refitting. ½ is √t, 1 never learns.", chart.Count(pa.a.Fit.From), chart.Count(pa.a.Fit.To))}
	p := &chart.Panel{Look: -1}
	lo, hi := 0.0, 1.0 // no exponent is outside by nature, few by noise
	row := 0
	for _, i := range pa.a.Order {
		s := pa.a.Summary[i]
		if !s.ExponentOK {
			continue
		}
		note := fmt.Sprintf("%s [%s, %s]", chart.Number(s.Exponent, 2), chart.Number(s.ExpLo, 2),
			chart.Number(s.ExpHi, 2))
		if s.Before > 0 {
			note += ", before " + chart.Number(s.Before, 2)
		}
		p.Rows = append(p.Rows, chart.RowLabel{Look: pa.a.Policies[i], Label: pa.a.Label(i), Note: note})
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.Across, Look: pa.a.Policies[i], Name: pa.a.Label(i),
			X: []float64{s.Exponent}, Y: []float64{float64(row) + 0.5}, Lo: []float64{s.ExpLo}, Hi: []float64{s.ExpHi}})
		lo, hi = min(lo, s.ExpLo), max(hi, s.ExpHi)
		row++
	}
	if row == 0 {
		return nil
	}
	hi *= 1.02
	p.X = chart.Axis{Caption: "Exponent", Lo: lo, Hi: hi, Ticks: chart.Within(chart.LinearTicks(lo, hi, 4), lo, hi)}
	p.Y = chart.Axis{Lo: float64(row), Hi: 0}
	p.Marks = append([]chart.Mark{{Kind: chart.ZeroX, Look: -1, Name: "square root", X: []float64{0.5}}}, p.Marks...)
	f.Panels = []*chart.Panel{p}
	return f
}

// costFigure returns the run time of a round by policy.
func costFigure(run *Run) *chart.Figure {
	m := run.Manifest
	type entry struct {
		i  int
		us float64
	}
	var all []entry
	top := 0.0
	for i, p := range m.Policies {
		if p.Rounds > 0 && p.Seconds > 0 {
			us := p.Seconds / float64(p.Rounds) * 1e6
			all = append(all, entry{i, us})
			top = max(top, us)
		}
	}
	if len(all) == 0 {
		return nil
	}
	slices.SortStableFunc(all, func(x, y entry) int { return cmp.Compare(x.us, y.us) })
	f := &chart.Figure{ID: "cost", Title: "Cost", Strips: true,
		How: "CPU time of a round, with the environment and the bookkeeping included, over all environments of this " +
			"run."}
	p := &chart.Panel{Look: -1, Y: chart.Axis{Lo: float64(len(all)), Hi: 0}}
	lo := all[0].us
	if top > 30*lo {
		lo, hi := chart.LogRange(lo/2, top)
		p.X = chart.Axis{Caption: "µs a round (log)", Log: true, Lo: lo, Hi: hi, Ticks: chart.LogTicks(lo, hi)}
	} else {
		t := chart.LinearTicks(0, top, 4)
		p.X = chart.Axis{Caption: "µs a round", Lo: 0, Hi: t[len(t)-1].At, Ticks: t}
	}
	for row, e := range all {
		p.Rows = append(p.Rows, chart.RowLabel{Look: e.i, Label: m.Policies[e.i].Name, Note: chart.Micros(e.us)})
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.Bar, Look: e.i, Name: m.Policies[e.i].Name, X: []float64{e.us},
			Y: []float64{float64(row) + 0.5}})
	}
	f.Panels = []*chart.Panel{p}
	return f
}

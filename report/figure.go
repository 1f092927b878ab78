package report

import (
	"fmt"
	"math"
	"slices"
)

// Figure is one figure of the report: numbers and words, no medium. html.go and paper.go paint it.
type Figure struct {
	ID     string // file name without ending, unique in the run
	Title  string // names the quantity
	How    string // one line on how to read it
	Panels []*Panel
	Low    bool       // less tall: few points
	Legend []RowLabel // for small multiples without labels of their own
	Strips bool       // panels are rows of a category, drawn as wide as the page
}

// Panel is one coordinate system.
type Panel struct {
	Title string // of a small multiple; "" otherwise
	Note  string // small print beside the title
	Look  int    // whose colour the title wears, −1 for none
	X, Y  Axis
	Rows  []RowLabel // names of the categories on Y, from the top; Y runs from len(Rows) to 0
	Marks []Mark
	Ends  []End // labels at the right end of curves
	Data  string
}

// Axis maps values to [0, 1]: 0 at Lo, 1 at Hi. Lo may be above Hi.
type Axis struct {
	Caption string
	Log     bool
	Lo, Hi  float64
	Ticks   []Tick
}

// At returns the place of v on the axis; on a log axis what is not positive lies far below.
func (a Axis) At(v float64) float64 {
	if a.Log {
		if v <= 0 {
			return -50
		}
		return min(max(math.Log(v/a.Lo)/math.Log(a.Hi/a.Lo), -50), 50)
	}
	return min(max((v-a.Lo)/(a.Hi-a.Lo), -50), 50)
}

// RowLabel names a category.
type RowLabel struct {
	Look  int
	Label string
	Note  string
}

// End is a label at the right end of a curve.
type End struct {
	Look  int // −1 for a guide
	Y     float64
	Label string
	Note  string
}

// Kind says how a mark is drawn.
type Kind int

const (
	Line      Kind = iota // X, Y
	Step                  // X, Y: horizontal first, then vertical
	Band                  // X, Lo, Hi: the 95 % interval as an area
	Edges                 // X, Lo, Hi: 10 and 90 % of runs as dotted lines
	Dots                  // X, Y: one small dot each
	Interval              // X, Y with a vertical whisker Lo … Hi
	Across                // X, Y with a horizontal whisker Lo … Hi
	Box                   // X = 5, 25, 50, 75, 95 % and mean; Y one value
	Bar                   // X one value, from the axis' start; Y one value
	Guide                 // X, Y: thin, dotted, in soft ink
	Fit                   // X, Y: thin, dotted, in the policy's colour
	BoundLine             // X, Y: a theorem's bound, shown on demand
	Zero                  // Y[0]: a stronger horizontal line
	ZeroX                 // X[0]: a stronger vertical line
)

// Mark is one thing drawn in a panel.
type Mark struct {
	Kind   Kind
	Look   int    // index of the look, −1 for ink
	Name   string // of the series, for the CSV file
	X, Y   []float64
	Lo, Hi []float64
}

// Bound is a theorem's regret bound for one environment, as a curve.
type Bound struct {
	Env    string // environment's name
	Label  string // thm:es
	Name   string // for people: ensemble sampling, Theorem 1
	Rounds []int
	Values []float64
}

// Final returns the bound at its last round.
func (b Bound) Final() float64 { return b.Values[len(b.Values)-1] }

// maxEnds is how many curves get a label at their end; beyond it only contenders do.
const maxEnds = 10

// curve returns mean and half width of the pointwise 95 % interval at each checkpoint.
func (a *Analysis) curve(i int) (mean, half []float64) {
	mean, half = make([]float64, len(a.Rounds)), make([]float64, len(a.Rounds))
	n := float64(a.R())
	for k, x := range a.X[i] {
		var s, q float64
		for _, v := range x {
			s += v
		}
		m := s / n
		for _, v := range x {
			q += (v - m) * (v - m)
		}
		mean[k] = m
		if a.R() > 1 {
			half[k] = 1.96 * math.Sqrt(q/(n-1)/n)
		}
	}
	return mean, half
}

// tenths returns the 10 and 90 % points of the replications at each checkpoint.
func (a *Analysis) tenths(i int) (lo, hi []float64) {
	lo, hi = make([]float64, len(a.Rounds)), make([]float64, len(a.Rounds))
	buf := make([]float64, a.R())
	for k, x := range a.X[i] {
		copy(buf, x)
		slices.Sort(buf)
		lo[k], hi[k] = quantile(buf, 0.1), quantile(buf, 0.9)
	}
	return lo, hi
}

// regretFigures returns regret against time, linear and log–log.
func (a *Analysis) regretFigures(id string, bounds []Bound) (lin, loglog *Figure) {
	x := make([]float64, len(a.Rounds)+1) // from (0, 0)
	for k, t := range a.Rounds {
		x[k+1] = float64(t)
	}
	from0 := func(v []float64) []float64 { return append([]float64{0}, v...) }
	contenders := a.Contenders()
	means, halves := make([][]float64, len(a.Policies)), make([][]float64, len(a.Policies))
	lows, highs := make([][]float64, len(a.Policies)), make([][]float64, len(a.Policies))
	top := 0.0
	for i := range a.Policies {
		means[i], halves[i] = a.curve(i)
		lows[i], highs[i] = a.tenths(i)
		if slices.Contains(contenders, i) {
			for k := range means[i] {
				top = max(top, means[i][k]+halves[i][k])
			}
		}
	}
	if top <= 0 {
		top = 1
	}
	yt := linearTicks(0, top, 4)
	p := &Panel{Look: -1, Data: "lin",
		X: Axis{Caption: "Round t", Lo: 0, Hi: float64(a.T), Ticks: within(linearTicks(0, float64(a.T), 5), 0, float64(a.T))},
		Y: Axis{Caption: "Regret", Lo: 0, Hi: yt[len(yt)-1].At, Ticks: yt},
	}
	plus := func(m, h []float64, sign float64) []float64 {
		v := make([]float64, len(m))
		for k := range m {
			v[k] = m[k] + sign*h[k]
		}
		return v
	}
	for i, m := range a.Policies {
		p.Marks = append(p.Marks,
			Mark{Kind: Band, Look: m, Name: a.Label(i), X: x, Lo: from0(plus(means[i], halves[i], -1)), Hi: from0(plus(means[i], halves[i], 1))},
			Mark{Kind: Edges, Look: m, Name: a.Label(i), X: x, Lo: from0(lows[i]), Hi: from0(highs[i])})
	}
	for _, i := range slices.Backward(a.Order) { // the best on top
		p.Marks = append(p.Marks, Mark{Kind: Line, Look: a.Policies[i], Name: a.Label(i), X: x, Y: from0(means[i])})
		p.Ends = append(p.Ends, a.end(i, contenders, p.Y))
	}
	p.Ends = slices.DeleteFunc(p.Ends, func(e End) bool { return e.Label == "" })
	lin = &Figure{ID: id + "regret", Title: "Regret against time", Panels: []*Panel{p},
		How: fmt.Sprintf("Mean over %s. A straight line means it never learns; flat means it has found the best action.", many(a.R(), "replication"))}

	// log–log
	first := 0
	for first < len(a.Rounds)-2 && float64(a.Rounds[first]) < 10 && a.T >= 1000 {
		first++
	}
	lo, hi := math.Inf(1), 0.0
	for i := range a.Policies {
		for _, v := range means[i][first:] {
			if v > 0 {
				lo, hi = min(lo, v), max(hi, v)
			}
		}
	}
	if hi == 0 || len(a.Rounds)-first < 2 {
		return lin, nil
	}
	lo, hi = logRange(lo, hi)
	x = x[first+1:]
	q := &Panel{Look: -1, Data: "log",
		X: Axis{Caption: "Round t (log)", Log: true, Lo: x[0], Hi: float64(a.T), Ticks: logTicks(x[0], float64(a.T))},
		Y: Axis{Caption: "Regret (log)", Log: true, Lo: lo, Hi: hi, Ticks: logTicks(lo, hi)},
	}
	if r := 10.0; x[0] >= r && x[0] <= 1.5*r {
		q.X.Lo = r // so that the power of ten has its tick
		q.X.Ticks = logTicks(r, float64(a.T))
	}
	best := means[a.Best()]
	if c := best[len(best)-1] / math.Sqrt(float64(a.T)); c > 0 {
		g := Mark{Kind: Guide, Look: -1, Name: "∝ √t"}
		for k := range x {
			g.X, g.Y = append(g.X, x[k]), append(g.Y, 0.6*c*math.Sqrt(x[k]))
		}
		q.Marks = append(q.Marks, g)
		q.Ends = append(q.Ends, End{Look: -1, Y: g.Y[len(g.Y)-1], Label: "∝ √t"})
	}
	for i, m := range a.Policies {
		q.Marks = append(q.Marks,
			Mark{Kind: Band, Look: m, Name: a.Label(i), X: x, Lo: plus(means[i], halves[i], -1)[first:], Hi: plus(means[i], halves[i], 1)[first:]},
			Mark{Kind: Edges, Look: m, Name: a.Label(i), X: x, Lo: lows[i][first:], Hi: highs[i][first:]})
	}
	for _, b := range bounds {
		m := Mark{Kind: BoundLine, Look: -1, Name: b.Label}
		for k, t := range b.Rounds {
			if v := float64(t); v >= q.X.Lo {
				m.X, m.Y = append(m.X, v), append(m.Y, b.Values[k])
			}
		}
		if slices.ContainsFunc(m.Y, func(v float64) bool { return v <= hi }) {
			q.Marks = append(q.Marks, m)
		}
	}
	for _, i := range slices.Backward(a.Order) {
		m := a.Policies[i]
		q.Marks = append(q.Marks, Mark{Kind: Line, Look: m, Name: a.Label(i), X: x, Y: means[i][first:]})
		e := a.end(i, contenders, q.Y)
		if s := a.Summary[i]; s.ExponentOK {
			from := slices.IndexFunc(x, func(t float64) bool { return t >= float64(a.FitFrom) })
			if from >= 0 {
				fx := []float64{x[from], x[len(x)-1]}
				// The least-squares line passes through the means of the logs.
				var mx, my float64
				ys := means[i][first+from:]
				for k, v := range ys {
					mx += math.Log(x[from+k]) / float64(len(ys))
					my += math.Log(v) / float64(len(ys))
				}
				fy := []float64{math.Exp(my + s.Exponent*(math.Log(fx[0])-mx)), math.Exp(my + s.Exponent*(math.Log(fx[1])-mx))}
				q.Marks = append(q.Marks, Mark{Kind: Fit, Look: m, Name: a.Label(i) + " fit", X: fx, Y: fy})
			}
			if e.Label != "" {
				e.Note = "slope " + number(s.Exponent, 2)
			}
		}
		if e.Label != "" {
			q.Ends = append(q.Ends, e)
		}
	}
	how := "The slope is the growth exponent: ½ is √t, 1 never learns."
	if a.FitTo > 0 {
		how += fmt.Sprintf(" Fitted over t = %s … %s (dotted).", count(a.FitFrom), count(a.FitTo))
	}
	loglog = &Figure{ID: id + "regret-loglog", Title: "Regret against time, log–log", How: how, Panels: []*Panel{q}}
	return lin, loglog
}

// end labels a curve; beyond maxEnds policies only contenders are labelled.
func (a *Analysis) end(i int, contenders []int, y Axis) End {
	if len(a.Policies) > maxEnds {
		if !slices.Contains(contenders, i) || slices.Index(a.Order, i) >= maxEnds+4 {
			return End{}
		}
	}
	e := End{Look: a.Policies[i], Y: a.Summary[i].Mean, Label: a.Label(i)}
	if e.Y > y.Hi {
		e.Note = "↑ " + amount(e.Y, a.Dec)
	}
	return e
}

func within(ticks []Tick, lo, hi float64) []Tick {
	return slices.DeleteFunc(ticks, func(t Tick) bool { return t.At < lo-1e-9*math.Abs(hi) || t.At > hi*(1+1e-9) })
}

// maxGaps bounds the small multiples of the gap.
const maxGaps = 8

// gapFigure returns the paired difference to the best over time, one panel for each rival, on one
// scale.
func (a *Analysis) gapFigure(id string) *Figure {
	if len(a.Policies) < 2 || a.R() < 2 || len(a.BandRounds) < 2 {
		return nil
	}
	best := a.Best()
	rivals := a.Order[1:]
	more := 0
	if len(rivals) > maxGaps {
		rivals, more = rivals[:maxGaps], len(rivals)-maxGaps
	}
	type band struct{ x, m, lo, hi []float64 }
	bands := make([]band, len(rivals))
	lo, hi := 0.0, 0.0
	for n, i := range rivals {
		b := &bands[n]
		for _, k := range a.BandRounds {
			d := a.paired(i, best, k)
			m, se := mean(d), stderr(d)
			c := a.BandFactor
			if !a.BandOK || !estimable(d) {
				c = 0
			}
			b.x = append(b.x, float64(a.Rounds[k]))
			b.m = append(b.m, m)
			b.lo, b.hi = append(b.lo, m-c*se), append(b.hi, m+c*se)
		}
	}
	// The scale belongs to those that cannot be told apart, or to the nearest; others are let in, the
	// nearest first, while they do not squeeze these to less than half.
	first := true
	for _, own := range []bool{true, false} {
		for n, i := range rivals {
			v := a.Diff[i].Verdict
			if own != (v == Tied || v == None || v == Behind && a.Diff[i].Mean < a.Summary[best].Mean) {
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
	ticks := linearTicks(lo, hi, 3)
	for i := range ticks {
		if ticks[i].At > 0 {
			ticks[i].Label = "+" + ticks[i].Label
		}
	}
	y := Axis{Caption: "Difference", Lo: ticks[0].At, Hi: ticks[len(ticks)-1].At, Ticks: ticks}
	f := &Figure{ID: id + "gap", Title: "When the gap opens",
		How: fmt.Sprintf("Paired difference in regret to %s so far; above zero is worse.", a.Label(best))}
	if a.BandOK {
		f.How += " The bands hold for all pairs at all drawn times together (95" + narrow + "%)."
	} else {
		f.How += " Without bands: too few replications for intervals that hold together."
	}
	if more > 0 {
		f.How += fmt.Sprintf(" The %d nearest of %d rivals are shown.", maxGaps, maxGaps+more)
	}
	for n, i := range rivals {
		b := bands[n]
		m := a.Policies[i]
		x := Axis{Caption: "Round t (log)", Log: true, Lo: b.x[0], Hi: b.x[len(b.x)-1]}
		if r := math.Pow(10, math.Floor(math.Log10(x.Lo))); x.Lo <= 1.5*r {
			x.Lo = r // so that the power of ten has its tick
		}
		for _, t := range logTicks(x.Lo, x.Hi) {
			if !t.Minor {
				x.Ticks = append(x.Ticks, t)
			}
		}
		p := &Panel{Title: a.Label(i), Look: m, X: x, Y: y, Marks: []Mark{{Kind: Zero, Look: -1, Name: "zero", Y: []float64{0}}}}
		if a.BandOK {
			p.Marks = append(p.Marks, Mark{Kind: Band, Look: m, Name: a.Label(i), X: b.x, Lo: b.lo, Hi: b.hi})
		}
		p.Marks = append(p.Marks, Mark{Kind: Line, Look: m, Name: a.Label(i), X: b.x, Y: b.m})
		switch {
		case b.m[len(b.m)-1] > y.Hi:
			p.Note = "↑ " + signed(b.m[len(b.m)-1], a.Dec)
		case slices.Max(b.hi) > y.Hi*(1+1e-9) || slices.Min(b.lo) < y.Lo*(1+1e-9)-1e-12:
			p.Note = "band cut"
		}
		f.Panels = append(f.Panels, p)
	}
	return f
}

// maxDots is how many replications of a policy are drawn; above it a stratified choice.
const maxDots = 500

// finalFigure returns every replication's final regret as a dot, with box and mean.
func (a *Analysis) finalFigure(id string) *Figure {
	f := &Figure{ID: id + "final", Title: "Final regret, every replication", Strips: true}
	x, note := a.finalAxis()
	p := &Panel{Look: -1, X: x, Y: Axis{Lo: float64(len(a.Order)), Hi: 0}}
	for row, i := range a.Order {
		s := a.Summary[i]
		m := a.Policies[i]
		p.Rows = append(p.Rows, RowLabel{Look: m, Label: a.Label(i)})
		clip := func(v float64) float64 { return min(max(v, x.Lo), x.Hi) }
		dots := Mark{Kind: Dots, Look: m, Name: a.Label(i)}
		for n, v := range stratified(s.Sorted, maxDots) {
			// The golden ratio spreads neighbours of nearly the same value over the row's lower half.
			_, u := math.Modf(float64(n)*math.Phi + 0.5)
			dots.X, dots.Y = append(dots.X, clip(v)), append(dots.Y, float64(row)+0.52+0.38*u)
		}
		p.Marks = append(p.Marks, dots, Mark{Kind: Box, Look: m, Name: a.Label(i), Y: []float64{float64(row) + 0.3},
			X: []float64{clip(quantile(s.Sorted, 0.05)), clip(quantile(s.Sorted, 0.25)), clip(s.Median), clip(quantile(s.Sorted, 0.75)), clip(quantile(s.Sorted, 0.95)), clip(s.Mean)}})
	}
	f.How = "Dots are replications; box: middle half, line: 5 to 95" + narrow + "%, stroke: median, large dot: mean." + note
	if a.R() > maxDots {
		f.How += fmt.Sprintf(" Of %s replications %d are drawn, evenly by rank, the outer 1%s%% all.", count(a.R()), maxDots, narrow)
	}
	f.Panels = []*Panel{p}
	return f
}

// finalAxis is the axis of final regrets: log when the largest is more than ten times the median of
// some policy, or medians are more than a factor of five apart. Replications below a log axis are drawn at its edge,
// and the tick says so.
func (a *Analysis) finalAxis() (Axis, string) {
	lo, hi, least := math.Inf(1), 0.0, math.Inf(1)
	smallest, largest := math.Inf(1), 0.0 // medians
	skew := 0.0
	for _, s := range a.Summary {
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
		// Not more than five decades: nobody reads the sixth, and it squeezes the others.
		lo = max(lo, hi*1e-5)
		lo, hi = logRange(lo, hi)
		ax := Axis{Caption: fmt.Sprintf("Regret after %s (log)", many(a.T, "round")), Log: true, Lo: lo, Hi: hi, Ticks: logTicks(lo, hi)}
		note := ""
		if least < lo && len(ax.Ticks) > 0 {
			if ax.Ticks[0].At > lo*1.0001 {
				ax.Ticks = append([]Tick{{At: lo, Label: powerLabel(lo)}}, ax.Ticks...)
			}
			ax.Ticks[0].Label = "≤" + narrow + ax.Ticks[0].Label
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
	t := linearTicks(lo, hi, 5)
	return Axis{Caption: fmt.Sprintf("Regret after %s", many(a.T, "round")), Lo: t[0].At, Hi: t[len(t)-1].At, Ticks: t}, ""
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
func (a *Analysis) tailFigure(id string) *Figure {
	if a.R() < minReps {
		return nil
	}
	x, _ := a.finalAxis()
	if !x.Log {
		x.Caption = fmt.Sprintf("Regret after %s", many(a.T, "round"))
	}
	low := 1 / float64(a.R())
	p := &Panel{Look: -1, X: x, Y: Axis{Caption: "Share above (log)", Log: true, Lo: 0.8 * low, Hi: 1}}
	for _, t := range logTicks(low, 1) {
		t.Label = number(100*t.At, decimalsOf(100*t.At)) + narrow + "%"
		p.Y.Ticks = append(p.Y.Ticks, t)
	}
	for _, i := range slices.Backward(a.Order) {
		s := a.Summary[i].Sorted
		m := Mark{Kind: Step, Look: a.Policies[i], Name: a.Label(i), X: []float64{x.Lo}, Y: []float64{1}}
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
	return &Figure{ID: id + "tail", Title: "The tail", Panels: []*Panel{p},
		How: "Share of replications whose regret is above x. Lower and further left is safer; curves that cross are different bets."}
}

func decimalsOf(v float64) int {
	if v >= 1 {
		return 0
	}
	return int(math.Ceil(-math.Log10(v) - 1e-9))
}

// growthFigure returns the exponents with their intervals.
func (a *Analysis) growthFigure(id string) *Figure {
	if a.FitTo == 0 {
		return nil
	}
	f := &Figure{ID: id + "growth", Title: "Growth", Strips: true,
		How: fmt.Sprintf("Slope of log mean regret on log t over t = %s … %s; 95%s%% by resampling replications and refitting. ½ is √t, 1 never learns.", count(a.FitFrom), count(a.FitTo), narrow)}
	p := &Panel{Look: -1}
	lo, hi := 0.0, 1.0 // no exponent is outside by nature, few by noise
	row := 0
	for _, i := range a.Order {
		s := a.Summary[i]
		if !s.ExponentOK {
			continue
		}
		note := fmt.Sprintf("%s [%s, %s]", number(s.Exponent, 2), number(s.ExpLo, 2), number(s.ExpHi, 2))
		if s.Bending {
			note += " still bending"
		}
		p.Rows = append(p.Rows, RowLabel{Look: a.Policies[i], Label: a.Label(i), Note: note})
		p.Marks = append(p.Marks, Mark{Kind: Across, Look: a.Policies[i], Name: a.Label(i),
			X: []float64{s.Exponent}, Y: []float64{float64(row) + 0.5}, Lo: []float64{s.ExpLo}, Hi: []float64{s.ExpHi}})
		lo, hi = min(lo, s.ExpLo), max(hi, s.ExpHi)
		row++
	}
	if row == 0 {
		return nil
	}
	hi *= 1.02
	p.X = Axis{Caption: "Exponent", Lo: lo, Hi: hi, Ticks: within(linearTicks(lo, hi, 4), lo, hi)}
	p.Y = Axis{Lo: float64(row), Hi: 0}
	p.Marks = append([]Mark{{Kind: ZeroX, Look: -1, Name: "square root", X: []float64{0.5}}}, p.Marks...)
	f.Panels = []*Panel{p}
	return f
}

// costFigure returns the run time of a round by policy.
func costFigure(run *Run) *Figure {
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
	slices.SortStableFunc(all, func(x, y entry) int {
		switch {
		case x.us < y.us:
			return -1
		case x.us > y.us:
			return 1
		}
		return 0
	})
	f := &Figure{ID: "cost", Title: "Cost", Strips: true,
		How: "CPU time of a round, with the environment and the bookkeeping included, over all environments of this run."}
	p := &Panel{Look: -1, Y: Axis{Lo: float64(len(all)), Hi: 0}}
	lo := all[0].us
	if top > 30*lo {
		lo, hi := logRange(lo/2, top)
		p.X = Axis{Caption: "µs a round (log)", Log: true, Lo: lo, Hi: hi, Ticks: logTicks(lo, hi)}
	} else {
		t := linearTicks(0, top, 4)
		p.X = Axis{Caption: "µs a round", Lo: 0, Hi: t[len(t)-1].At, Ticks: t}
	}
	for row, e := range all {
		p.Rows = append(p.Rows, RowLabel{Look: e.i, Label: m.Policies[e.i].Name, Note: micros(e.us)})
		p.Marks = append(p.Marks, Mark{Kind: Bar, Look: e.i, Name: m.Policies[e.i].Name, X: []float64{e.us}, Y: []float64{float64(row) + 0.5}})
	}
	f.Panels = []*Panel{p}
	return f
}

// micros writes a time of a round with three digits.
func micros(us float64) string {
	switch {
	case us >= 1e6:
		return number(us/1e6, 2) + narrow + "s"
	case us >= 1e3:
		return number(us/1e3, 2) + narrow + "ms"
	case us >= 100:
		return number(us, 0) + narrow + "µs"
	case us >= 10:
		return number(us, 1) + narrow + "µs"
	}
	return number(us, 2) + narrow + "µs"
}

// Table returns the figure's numbers in long form for its CSV file.
func (f *Figure) Table() *Table {
	t := &Table{ID: f.ID, Title: f.Title, Note: f.How, Cols: []Column{
		{Key: "panel", Text: true}, {Key: "mark", Text: true}, {Key: "series", Text: true},
		{Key: "x"}, {Key: "y"}, {Key: "lo"}, {Key: "hi"},
	}}
	at := func(v []float64, k int) Cell {
		if k < len(v) {
			return num(v[k])
		}
		return empty()
	}
	for _, p := range f.Panels {
		for _, m := range p.Marks {
			n := max(len(m.X), len(m.Y))
			for k := range n {
				c := []Cell{words(p.Title), words(m.Kind.String()), words(m.Name), at(m.X, k), at(m.Y, k), at(m.Lo, k), at(m.Hi, k)}
				if m.Kind == Box {
					c[1], c[4] = words([]string{"p05", "p25", "median", "p75", "p95", "mean"}[k]), empty()
				}
				if len(p.Rows) > 0 { // the place within a row is decoration
					c[4] = empty()
				}
				t.Rows = append(t.Rows, Row{Policy: -1, Cells: c})
			}
		}
	}
	return t
}

// String returns the kind's name in CSV files.
func (k Kind) String() string {
	return [...]string{Line: "line", Step: "step", Band: "interval", Edges: "p10-p90", Dots: "replication", Interval: "point",
		Across: "point", Box: "box", Bar: "bar", Guide: "guide", Fit: "fit", BoundLine: "bound", Zero: "zero", ZeroX: "zero"}[k]
}

package report

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"troupe/internal/decimal"
	"troupe/ope"
	"troupe/report/chart"
	"troupe/report/coin"
	"troupe/report/forest"
	"troupe/report/headline"
)

//go:embed page/evaluate.html page/segments.html
var evaluateFile embed.FS

var evaluateTemplate = parsed(evaluateFile, "evaluate.html", "segments.html")

// EvaluateMeta is what the page of an evaluation says about the run.
type EvaluateMeta struct {
	When    string
	Command string
}

// evaluateTarget is one target on the page.
type evaluateTarget struct {
	Answer                             *evaluateFigure // the difference, nil without one
	ID, Name, Learns, Overlap, Verdict string
	Difference                         []evaluateRow
	Rows                               []evaluateRow
	Notes                              []string
	Figures                            []evaluateFigure
	Segments                           *evaluateSegments
}

// evaluateSegments is for whom the difference holds.
type evaluateSegments struct {
	Sentence, Rule, Level string
	Rows                  []evaluateRow
}

type evaluateRow struct{ Name, Value, Sure, Large string }

type evaluateFigure struct {
	Title, How string
	SVG        template.HTML
}

// BuildEvaluation writes the page of an evaluation to dir/evaluate.html, and its figures as SVG, PDF, PNG and CSV to
// dir/figures. It returns the path of the page.
func BuildEvaluation(dir string, r *ope.Result, meta EvaluateMeta) (string, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := WriteEvaluation(&b, r, meta); err != nil {
		return "", err
	}
	var all []*chart.Figure
	if f := candidatesFigure(r); f != nil {
		all = append(all, f)
	}
	for i, t := range r.Targets {
		all = append(all, evaluateFigures(r, t, prefixOf(i))...)
	}
	if _, err := chart.WriteFigures(filepath.Join(dir, "figures"), all, forest.Looks, time.Time{}, chart.Sizes[0],
		true); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "evaluate.html")
	return path, chart.WriteFile(path, b.Bytes())
}

// prefixOf begins the names of a target's figures.
func prefixOf(i int) string {
	if i == 0 {
		return ""
	}
	return fmt.Sprintf("%d-", i+1)
}

// WriteEvaluation writes the page.
func WriteEvaluation(w io.Writer, r *ope.Result, meta EvaluateMeta) error {
	view := struct {
		shell
		Head, Level      string
		Verdict          string // of one target, under the headline
		Lead             []string
		Facts            []string
		Targets          []evaluateTarget
		Pairs            []evaluateRow
		Best             string
		Candidates       []evaluateRow
		Contest          *evaluateFigure
		Ranking          string
		Skipped          []evaluateRow
		Warnings         []string
		Sequence, Normal string
		AtEnd            string
		Command          string
		Coins            []coinView
		Control          *controlView
		Logger           *loggerView
	}{shell: newShell("evaluation", forest.Looks, 0, 0), Command: meta.Command,
		Sequence: r.Assumptions.Sequence, AtEnd: r.Assumptions.AtEnd,
		Normal: r.Assumptions.Normal, Warnings: r.Warnings, Level: fmt.Sprintf("%g", math.Round(1e4*r.Level)/100)}
	view.When = meta.When
	if f := r.Propensities; f != nil {
		view.Warnings = append([]string{fmt.Sprintf("The propensities are estimated, by a multinomial logit of the context and of what was offered, on %s decisions. "+
			"Everything that is weighed rests on it, and on a logger that chose by what is in the log.", chart.Count(f.Rows))}, view.Warnings...)
	}
	dec := evaluateDecimals(r)
	view.Logger = loggerViewOf(r)
	for i, t := range r.Targets {
		view.Targets = append(view.Targets, evaluateView(r, t, i, dec))
	}
	first := r.Targets[0]
	view.Head = first.Name + ": " + first.Verdict + "."
	if h := evaluated(r, first, dec); h != nil && len(r.Targets) == 1 {
		view.Head, view.Verdict = headline.Evaluate(h).String(), evaluatedLead(r, first, h, dec)
		view.Title, view.About = view.Head, view.Verdict
	}
	if len(r.Targets) > 1 {
		view.Head = fmt.Sprintf("%d policies against what ran", len(r.Targets))
		view.Ranking = strings.Join(r.Ranking, ", ")
	}
	if c := r.Candidates; c != nil {
		view.Head = strings.Join(c.Best, ", ") + " may be best"
		if n := len(c.Best); n > 6 || n == len(c.Rows) {
			view.Head = fmt.Sprintf("%d of %d policies may be best", n, len(c.Rows))
		}
		view.Best = fmt.Sprintf("With %s%% the best of them is among these %d, at every look.", view.Level,
			len(c.Best))
		for _, x := range c.Rows {
			row := evaluateRow{Name: x.Name, Value: "out", Sure: pairText(x.Sequence, dec, true), Large: x.Why}
			if x.Best {
				row.Value = "may be best"
			}
			view.Candidates = append(view.Candidates, row)
		}
		if f := candidatesFigure(r); f != nil {
			view.Contest = &evaluateFigure{f.Title, f.How, f.HTML()}
		}
	}
	view.Coins = coinViews(r.Coin)
	if view.Control = controlViewOf(r.Control, dec); view.Control != nil { // it is the question that the log was made for
		view.Verdict = strings.TrimSpace(view.Head + " " + view.Verdict)
		view.Head = r.Control.Sentence
		view.Title, view.About = view.Head, view.Verdict
	}
	view.Facts = []string{chart.Count(r.Log.Events) + " decisions", r.Log.Format, rewardsText(r.Rewards),
		"reward model " + r.Q, map[string]string{"yes": "the logger learned", "no": "the logger did not learn",
			"unknown": "not known whether the logger learned"}[r.Log.Adaptive]}
	if r.Log.First != nil {
		view.Facts = append(view.Facts, r.Log.First.Format("2 Jan 2006")+" to "+r.Log.Last.Format("2 Jan 2006"))
	}
	for i, name := range r.Log.Names[:min(len(r.Log.Names), 100)] {
		view.Facts = append(view.Facts, "action "+strconv.Itoa(i)+" is "+name)
	}
	for _, p := range r.Pairs {
		view.Pairs = append(view.Pairs, evaluateRow{Name: p.First + " − " + p.Second,
			Sure: pairText(p.Sequence, dec, true), Large: p.Verdict})
	}
	for _, k := range slices.Sorted(mapKeys(r.Log.Skipped)) {
		view.Skipped = append(view.Skipped, evaluateRow{Name: k, Value: chart.Count(r.Log.Skipped[k])})
	}
	if r.Log.Pending > 0 {
		view.Skipped = append(view.Skipped, evaluateRow{Name: "windows still open at the end of the log: these and " +
			"all later decisions", Value: chart.Count(r.Log.Pending)})
	}
	return evaluateTemplate().Execute(w, view)
}

// evaluated is what a headline says of a target; nil where the verdict rests on something else than the interval that holds:
// a number of decisions that was fixed, estimated propensities, or a log that contradicts itself.
func evaluated(r *ope.Result, t *ope.Evaluated, dec int) *headline.Target {
	u := t.Uplift
	if u == nil || u.AtEnd != nil || r.Propensities != nil || t.Contradicted != nil {
		return nil
	}
	h := &headline.Target{Name: t.Name, Known: u.Value != nil && ope.Shown(t.Diagnostics.ESS), SureLo: math.Inf(-1), SureHi: math.Inf(1),
		Lo: math.Inf(-1), Hi: math.Inf(1), Doubt: u.Doubt != nil, Unobtainable: u.Sequence == nil && u.Normal == nil}
	if u.Plain != nil && u.SE != nil {
		h.Same = *u.Plain == 0 && *u.SE == 0
	}
	if u.Sequence != nil {
		h.SureLo, h.SureHi = u.Sequence[0], u.Sequence[1]
	}
	if u.Normal != nil {
		h.Lo, h.Hi = u.Normal[0], u.Normal[1]
	}
	if u.Value != nil {
		h.Size = chart.Number(math.Abs(*u.Value), ope.Apart(u.Sequence, dec))
	}
	return h
}

// evaluatedLead says how sure the headline is.
func evaluatedLead(r *ope.Result, t *ope.Evaluated, h *headline.Target, dec int) string {
	u := t.Uplift
	if !h.Known || h.Same || u.Sequence == nil {
		return upperFirst(t.Verdict) + "."
	}
	between := func(p *ope.Pair) string { return strings.Replace(pairText(p, dec, true), " … ", " to ", 1) }
	switch h.How() {
	case headline.Sure:
		return "Sure: the difference is " + between(u.Sequence) + " a decision, whenever you look."
	case headline.Likely:
		return "Likely: one look at these data says " + between(u.Normal) + " a decision. It is not yet sure: whenever you look, it is " +
			between(u.Sequence) + "."
	}
	return "Whenever you look, the difference is " + between(u.Sequence) + " a decision. For this question " + chart.Count(r.Log.Events) +
		" decisions are worth " + chart.Number(t.Diagnostics.ESS, 0) + "."
}

// loggerView is the model of the logger where propensities are estimated, and what it rests on.
type loggerView struct {
	Note   string
	Rows   [][]string
	Hidden []string
}

func loggerViewOf(r *ope.Result) *loggerView {
	f := r.Propensities
	if f == nil {
		return nil
	}
	v := &loggerView{Note: "Each row is a tenth of the estimated propensities, and how often these actions were played. Chance explains the differences."}
	if !f.Fits {
		v.Note = fmt.Sprintf("Each row is a tenth of the estimated propensities, and how often these actions were played. Chance does not explain the "+
			"differences (largest |z| %.1f), so the intervals stand in brackets.", max(f.Worst, f.Curved))
	}
	v.Note += fmt.Sprintf(" The smallest propensity of an action that was played is %s.", decimal.Short(f.Least, 2))
	for _, d := range f.Deciles {
		v.Rows = append(v.Rows, []string{fmt.Sprintf("%.3f to %.3f", d.From, d.To), fmt.Sprintf("%.3f", d.Mean), fmt.Sprintf("%.3f", d.Played),
			strings.Replace(fmt.Sprintf("%.1f", d.Z), "-", "−", 1)})
	}
	for _, t := range r.Targets {
		if s := t.Sensitivity; s != nil && s.Gamma != nil {
			v.Hidden = append(v.Hidden, fmt.Sprintf("%s: the sign of the difference turns if something that is not in the log changes the odds of an action by "+
				"Γ = %s. 1.3 is little, 5 is much.", t.Name, decimal.Short(*s.Gamma, 3)))
		}
	}
	return v
}

// controlView is whether a model pays, against its control group.
type controlView struct {
	Note string
	Rows []evaluateRow
}

func controlViewOf(c *ope.ControlResult, dec int) *controlView {
	if c == nil {
		return nil
	}
	plays := "a uniform action"
	if c.Plays == "first" {
		plays = "the first action"
	}
	v := &controlView{Note: fmt.Sprintf("%s decisions, %s of them in the control group, which plays %s; every one counts for both, by its "+
		"probabilities. For this n: where it was fixed beforehand, and the world does not change.", chart.Count(c.Decisions),
		chart.Count(c.Controlled), plays)}
	if u := c.ByUnit; u != nil {
		v.Note += fmt.Sprintf(" Of each unit the first decision counts, for its group. All decisions by the groups of units: %s and %s",
			chart.Number(u.Model, dec), chart.Number(u.Control, dec))
		if u.Normal != nil {
			v.Note += ", a difference of " + pairText(u.Normal, dec, true) + " (normal, for one look)"
		}
		v.Note += "."
	}
	for _, x := range []struct {
		name   string
		v      *ope.ControlValue
		signed bool
	}{{"the model", &c.Model, false}, {"the control group", &c.Control, false}, {"difference", &c.Difference, true}} {
		v.Rows = append(v.Rows, evaluateRow{Name: x.name, Value: chart.Number(x.v.Mean, dec), Sure: pairText(&x.v.Every, dec, x.signed),
			Large: pairText(x.v.AtEnd, dec, x.signed)})
	}
	return v
}

// coinView is whether choosing pays.
type coinView struct {
	Sentence, Note string
	SVG            template.HTML
	Rows           []evaluateRow
}

// coinViews returns the comparison with a coin, and the one with the decisions under a hard stop.
func coinViews(c *ope.CoinResult) (out []coinView) {
	for c != nil {
		dec := 3
		v := coinView{Sentence: strings.ToUpper(c.Sentence[:1]) + c.Sentence[1:] + ".", SVG: coin.Picture(c)}
		switch {
		case c.Stopped > 0:
			v.Note = fmt.Sprintf("%s decisions; %s more under the hard stop of the budget are not among them.", chart.Count(c.Events),
				chart.Count(c.Stopped))
		case len(out) > 0:
			v.Note = fmt.Sprintf("All %s decisions: where the stop took an action away, the cheapest that was left stands in for it.",
				chart.Count(c.Events))
		default:
			v.Note = chart.Count(c.Events) + " decisions."
		}
		for _, p := range append([]ope.CoinPoint{c.Policy}, c.Actions...) {
			row := evaluateRow{Name: cmp.Or(p.Action, "the decisions"), Large: p.Missing(c.Events)}
			if row.Large == "" {
				row.Value, row.Sure = decimal.Short(p.Cost, 3), "–"
				if p.Reward != nil {
					row.Sure = chart.Number(*p.Reward, dec)
				}
				row.Large = chart.Number(p.Lower, dec) + " … " + chart.Number(p.Upper, dec)
			}
			v.Rows = append(v.Rows, row)
		}
		out, c = append(out, v), c.WithStop
	}
	return out
}

func mapKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// evaluateDecimals is how many decimals tell the narrowest interval apart.
func evaluateDecimals(r *ope.Result) int {
	least := (r.Rewards[1] - r.Rewards[0]) / 2
	if math.IsInf(least, 1) { // one end is not known
		least = 1
	}
	tiny := 1e-9 * least // an interval of rounding
	for _, t := range r.Targets {
		for i := range t.Estimates {
			if t.Estimates[i].Estimator == "dm" { // its width says nothing about the truth
				continue
			}
			for _, p := range []*ope.Pair{t.Estimates[i].Normal, t.Estimates[i].Sequence} {
				if p != nil && p[1]-p[0] > tiny {
					least = min(least, p[1]-p[0])
				}
			}
		}
	}
	return max(0, min(9, 1-int(math.Floor(math.Log10(least)))))
}

func valueText(v *float64, dec int, sign bool) string {
	switch {
	case v == nil:
		return "–"
	case sign:
		return chart.Signed(*v, dec)
	}
	return chart.Number(*v, dec)
}

// rewardsText names the range of rewards.
func rewardsText(r ope.Pair) string {
	switch {
	case math.IsInf(r[1], 1):
		return fmt.Sprintf("rewards of at least %g", r[0])
	case math.IsInf(r[0], -1):
		return fmt.Sprintf("rewards of at most %g", r[1])
	}
	return fmt.Sprintf("rewards in [%g, %g]", r[0], r[1])
}

func pairText(p *ope.Pair, dec int, sign bool) string {
	if p == nil {
		return "–"
	}
	if sign {
		dec = ope.Apart(p, dec)
	}
	switch {
	case math.IsInf(p[1], 1):
		return "at least " + valueText(&p[0], dec, sign)
	case math.IsInf(p[0], -1):
		return "at most " + valueText(&p[1], dec, sign)
	}
	return valueText(&p[0], dec, sign) + " … " + valueText(&p[1], dec, sign)
}

// evaluateView is the words and tables of a target.
func evaluateView(r *ope.Result, t *ope.Evaluated, i, dec int) evaluateTarget {
	d := t.Diagnostics
	v := evaluateTarget{ID: fmt.Sprintf("target-%d", i+1), Name: t.Name}
	if len(r.Targets) > 1 { // otherwise the heading has it
		v.Verdict = t.Verdict + "."
	}
	v.Overlap = fmt.Sprintf("Overlap is %s: %s effective decisions of %s, %s effective rewarded ones; the largest "+
		"weight is %s, the mean weight %s, and %s of the weights are zero. The ten largest contributions are %s "+
		"of the weighted reward.",
		t.Overlap, chart.Number(d.ESS, 0), chart.Count(r.Log.Events), chart.Number(d.ESSRewarded, 0),
		decimal.Short(d.WeightMax, 3), decimal.Short(d.WeightMean, 3), chart.Percent(d.WeightZero), chart.Percent(t.TopTen))
	if d.Unsupported != nil && *d.Unsupported > 0 {
		v.Overlap += fmt.Sprintf(" The target plays actions without support with probability %.3g.", *d.Unsupported)
	}
	if t.Learns != "no" {
		v.Learns = "This target learns while it is evaluated; its value is the average on the way."
	}
	if u := t.Uplift; u != nil {
		v.Difference = []evaluateRow{{"difference", valueText(u.Value, ope.Apart(u.Sequence, dec), true), pairText(u.Sequence, dec, true),
			doubted(pairText(u.Normal, dec, true), u.Doubt)}}
		if u.AtEnd != nil {
			v.Difference = append(v.Difference, evaluateRow{"difference, for this n", "", pairText(u.AtEnd, dec, true), ""})
		}
		if u.Marginal != nil {
			v.Difference = append(v.Difference, evaluateRow{"without the members of each decision", "",
				pairText(u.Marginal, dec, true), ""})
		}
		if u.Why != nil {
			v.Notes = append(v.Notes, "difference: "+*u.Why)
		}
	}
	for k := range t.Estimates {
		e := &t.Estimates[k]
		sure, large := pairText(e.Sequence, dec, false), pairText(e.Normal, dec, false)
		if e.Lower != nil {
			sure = "at least " + valueText(e.Lower, dec, false)
		}
		if e.Interval != nil {
			large = pairText(e.Interval, dec, false)
		}
		point := valueText(e.Value, dec, false)
		if e.Outside {
			point += "*"
		}
		v.Rows = append(v.Rows, evaluateRow{estimatorName(e.Estimator), point, sure, doubted(large, e.Doubt)})
		if e.AtEnd != nil {
			v.Rows = append(v.Rows, evaluateRow{estimatorName(e.Estimator) + ", for this n", "", pairText(e.AtEnd, dec, false), ""})
		}
		if e.Why != nil {
			v.Notes = append(v.Notes, e.Estimator+": "+*e.Why)
		}
	}
	v.Segments = segmentsView(t.Segments, r.Level, dec)
	if note := doubtNote(t); note != "" {
		v.Notes = append(v.Notes, note)
	}
	for _, f := range evaluateFigures(r, t, prefixOf(i)) {
		x := evaluateFigure{f.Title, f.How, f.HTML()}
		if f.ID == prefixOf(i)+differenceID { // the answer, before the table
			v.Answer = &x
			continue
		}
		v.Figures = append(v.Figures, x)
	}
	return v
}

// estimatorNames say what an estimator does, with its short name.
var estimatorNames = map[string]string{"ips": "weighted (ips)", "snips": "weighted, normalised (snips)", "dm": "reward model only (dm)",
	"dr": "model and weights (dr)", "logged": "logged, what ran"}

func estimatorName(short string) string {
	if name := estimatorNames[short]; name != "" {
		return name
	}
	return short
}

// segmentsView is the words and the table of segments, nil where there are none.
func segmentsView(s *ope.Segments, level float64, dec int) *evaluateSegments {
	if s == nil {
		return nil
	}
	v := &evaluateSegments{Sentence: s.Sentence, Rule: s.Rule, Level: fmt.Sprintf("%g", math.Round(1e4*level)/100)}
	for _, x := range s.Rows {
		v.Rows = append(v.Rows, evaluateRow{x.Name, chart.Count(x.Events), pairText(x.Sequence, dec, true), x.Verdict})
	}
	return v
}

// doubted puts an interval into brackets where something says that it covers less than it says.
func doubted(s string, doubt *string) string {
	if doubt == nil || s == "–" {
		return s
	}
	return "(" + s + ")"
}

// doubtNote says why intervals stand in brackets.
func doubtNote(t *ope.Evaluated) string {
	var all []string
	see := func(why *string) {
		if why != nil && !slices.Contains(all, *why) {
			all = append(all, *why)
		}
	}
	if t.Uplift != nil {
		see(t.Uplift.Doubt)
	}
	for i := range t.Estimates {
		see(t.Estimates[i].Doubt)
	}
	if len(all) == 0 {
		return ""
	}
	return "an interval in brackets covers less than it says: " + strings.Join(all, "; ")
}

// mostDrawn is how many targets have figures of their own; of more the page has those that compare them.
const mostDrawn = ope.MostRunning

// evaluateFigures draws what is known about a target.
func evaluateFigures(r *ope.Result, t *ope.Evaluated, prefix string) []*chart.Figure {
	var out []*chart.Figure
	add := func(f *chart.Figure) {
		if f != nil {
			f.ID = prefix + f.ID
			out = append(out, f)
		}
	}
	if t.Segments != nil {
		add(forest.Segments(t.Segments))
	}
	if len(r.Targets) > mostDrawn {
		return out
	}
	add(differenceFigure(t))
	add(agreementFigure(t))
	add(runningFigure(t))
	add(weightFigure(t))
	add(essFigure(t))
	if r.Log.Law {
		add(calibrationFigure(r))
	}
	add(actionFigure(r))
	return out
}

// differenceID is the name of the figure of the difference.
const differenceID = "difference"

func differenceFigure(t *ope.Evaluated) *chart.Figure {
	if t.Uplift == nil {
		return nil
	}
	f := forest.New()
	f.Add(t.Name, t.Uplift.Plain, t.Uplift.Sequence, t.Uplift.Normal)
	return f.Figure(differenceID, "The difference",
		"What the target would have earned above what ran, on the same decisions. The upper bar holds at every look, "+
			"the lower one if n is large.", true)
}

// candidatesFigure is the differences of all targets to what ran, those that may be best first.
func candidatesFigure(r *ope.Result) *chart.Figure {
	if r.Candidates == nil {
		return nil
	}
	f := forest.New()
	for _, x := range r.Candidates.Rows {
		i := slices.IndexFunc(r.Targets, func(t *ope.Evaluated) bool { return t.Name == x.Name })
		if u := r.Targets[i].Uplift; u != nil {
			name := x.Name
			if !x.Best {
				name += " (out)"
			}
			f.Add(name, u.Plain, u.Sequence, nil)
		}
	}
	return f.Figure("candidates", "Which may be best",
		"The difference of each policy to what ran, each for itself. A policy is out where another one is better in "+
			"the comparison of the two, which is narrower than these bars.", true)
}

func agreementFigure(t *ope.Evaluated) *chart.Figure {
	f := forest.New()
	for i := range t.Estimates {
		e := &t.Estimates[i]
		large := e.Normal
		if e.Interval != nil {
			large = e.Interval
		}
		f.Add(estimatorName(e.Estimator), e.Value, e.Sequence, large)
	}
	return f.Figure("estimates", "Do the estimators agree?",
		"All estimates on one axis. Estimators that are biased in different directions and agree make each other "+
			"credible; logged is what ran.", false)
}

// runningFigure is the estimate so far with its sequence.
func runningFigure(t *ope.Evaluated) *chart.Figure {
	if len(t.Running) < 2 {
		return nil
	}
	band := chart.Mark{Kind: chart.Band, Look: forest.Sure, Name: "holds"}
	line := chart.Mark{Kind: chart.Line, Look: forest.Sure, Name: "estimate"}
	lo, hi := math.Inf(1), math.Inf(-1)
	late := lastNineTenths(t.Running)
	for _, p := range late {
		x := float64(p.N)
		shown := ope.Shown(p.ESS)
		if shown {
			line.X, line.Y = append(line.X, x), append(line.Y, p.Value)
		}
		if p.HasSequence {
			band.X, band.Lo, band.Hi = append(band.X, x), append(band.Lo, p.Lo), append(band.Hi, p.Hi)
			lo, hi = min(lo, p.Lo), max(hi, p.Hi)
		}
		if shown {
			lo, hi = min(lo, p.Value), max(hi, p.Value)
		}
	}
	if len(line.X) < 2 && len(band.X) < 2 {
		return nil
	}
	f := overEvents("running", "The estimate as the log went on",
		"From a tenth of the log on. The band holds at all points at once, each for the average up to there. Bands are not to be "+
			"intersected: the average moves.", late, lo, hi, "value")
	if len(band.X) > 1 {
		f.Panels[0].Marks = append(f.Panels[0].Marks, band)
	}
	if len(line.X) > 1 {
		f.Panels[0].Marks = append(f.Panels[0].Marks, line)
	}
	return f
}

// lastNineTenths leaves out the first tenth of a log, whose bands are so wide that they hide the rest; two points stay.
func lastNineTenths(all []ope.Point) []ope.Point {
	from := slices.IndexFunc(all, func(p ope.Point) bool { return 10*p.N >= all[len(all)-1].N })
	return all[max(0, min(from, len(all)-2)):]
}

func essFigure(t *ope.Evaluated) *chart.Figure {
	if len(t.Running) < 2 {
		return nil
	}
	line := chart.Mark{Kind: chart.Line, Look: forest.Sure, Name: "effective decisions"}
	hi := 1.0
	for _, p := range t.Running {
		line.X, line.Y, hi = append(line.X, float64(p.N)), append(line.Y, p.ESS), max(hi, p.ESS)
	}
	f := overEvents("ess", "Effective decisions",
		"(Σw)²/Σw² of the decisions so far. A step down is one decision whose weight dominates.", t.Running, 0, hi,
		"effective decisions")
	f.Panels[0].Marks = append(f.Panels[0].Marks, line)
	return f
}

// overEvents is an empty figure over the number of events, on a logarithmic axis.
func overEvents(id, title, how string, points []ope.Point, lo, hi float64, caption string) *chart.Figure {
	first, last := float64(points[0].N), float64(points[len(points)-1].N)
	x := chart.Axis{Log: true, Lo: first, Hi: last, Caption: "decisions",
		Ticks: chart.Within(chart.LogTicks(first, last), first, last)}
	ticks := chart.LinearTicks(lo, hi, 5)
	y := chart.Axis{Lo: ticks[0].At, Hi: ticks[len(ticks)-1].At, Ticks: ticks, Caption: caption}
	return &chart.Figure{ID: id, Title: title, How: how, Low: true, Panels: []*chart.Panel{{Look: -1, X: x, Y: y}}}
}

// weightFigure is the histogram of weights, bins half a power of two wide, on logarithmic axes.
func weightFigure(t *ope.Evaluated) *chart.Figure {
	var bins []ope.Bin
	zero, most := 0, 0
	for _, b := range t.Weights {
		if b.Lo == 0 {
			zero = b.N
			continue
		}
		bins = append(bins, b)
		most = max(most, b.N)
	}
	if len(bins) == 0 {
		return nil
	}
	lo, hi := bins[0].Lo/math.Sqrt2, bins[len(bins)-1].Lo*2
	x := chart.Axis{Log: true, Lo: lo, Hi: hi, Caption: "weight π_e/π_b",
		Ticks: chart.Within(chart.LogTicks(lo, hi), lo, hi)}
	ticks := chart.LogTicks(0.5, float64(most)*1.5)
	y := chart.Axis{Log: true, Lo: 0.5, Hi: float64(most) * 1.5, Ticks: chart.Within(ticks, 0.5, float64(most)*1.5),
		Caption: "decisions"}
	p := &chart.Panel{Look: -1, X: x, Y: y}
	m := chart.Mark{Kind: chart.Step, Look: forest.Sure, Name: "decisions", X: []float64{lo}, Y: []float64{0.5}}
	next := lo
	for _, b := range bins {
		if b.Lo > next*1.01 && next != lo { // an empty stretch
			m.X, m.Y = append(m.X, next), append(m.Y, 0.5)
		}
		m.X, m.Y = append(m.X, b.Lo), append(m.Y, float64(b.N))
		next = b.Lo * math.Sqrt2
	}
	m.X, m.Y = append(m.X, next), append(m.Y, 0.5)
	p.Marks = append(p.Marks, m)
	how := "Both axes are logarithmic. A few decisions far to the right carry the estimate."
	if zero > 0 {
		how += fmt.Sprintf(" %s decisions have weight 0 and are not drawn.", chart.Count(zero))
	}
	return &chart.Figure{ID: "weights", Title: "Weights", How: how, Low: true, Panels: []*chart.Panel{p}}
}

// mostActions is how many actions a figure shows: those that were played most.
const mostActions = 40

func playedMost(r *ope.Result) []ope.ActionSeen {
	all := slices.Clone(r.Actions)
	slices.SortStableFunc(all, func(a, b ope.ActionSeen) int { return b.Played - a.Played })
	return all[:min(len(all), mostActions)]
}

// calibrationFigure is z of every action: did the logger play it as often as it promised?
func calibrationFigure(r *ope.Result) *chart.Figure {
	p := &chart.Panel{Look: -1}
	m := chart.Mark{Kind: chart.Across, Look: forest.Sure, Name: "z"}
	lo, hi := -5.0, 5.0
	for _, a := range playedMost(r) {
		if !a.HasZ {
			continue
		}
		y := float64(len(p.Rows)) + 0.5
		p.Rows = append(p.Rows, chart.RowLabel{Look: -1, Label: a.Name,
			Note: fmt.Sprintf("%s of %s", chart.Count(a.Played), chart.Number(a.Promised, 0))})
		m.X, m.Y, m.Lo, m.Hi = append(m.X, a.Z), append(m.Y, y), append(m.Lo, min(a.Z, 0)), append(m.Hi, max(a.Z, 0))
		lo, hi = min(lo, a.Z), max(hi, a.Z)
	}
	if len(p.Rows) == 0 {
		return nil
	}
	ticks := chart.LinearTicks(lo, hi, 5)
	p.Y = chart.Axis{Lo: float64(len(p.Rows)), Hi: 0}
	p.X = chart.Axis{Lo: ticks[0].At, Hi: ticks[len(ticks)-1].At, Ticks: ticks, Caption: "z"}
	p.Marks = []chart.Mark{m, {Kind: chart.ZeroX, Look: -1, X: []float64{0}}}
	return &chart.Figure{ID: "calibration", Title: "Do the logged propensities tell the truth?", Strips: true,
		Panels: []*chart.Panel{p},
		How: "How often each action was played against how often its propensities promised, in standard deviations; " +
			"at the right both numbers. Where chance would do this in less than one log of a thousand there is no verdict; of " +
			"an action that was promised less than once a large number says little."}
}

// actionFigure is the reward of every action with a normal interval.
func actionFigure(r *ope.Result) *chart.Figure {
	f := forest.New()
	for _, a := range playedMost(r) {
		if a.Played == 0 {
			continue
		}
		v := a.Reward
		var large *ope.Pair
		if a.Played > 1 {
			large = &ope.Pair{v - 1.96*a.SE, v + 1.96*a.SE}
		}
		f.Add(a.Name, &v, nil, large)
		f.Note(chart.Count(a.Played))
	}
	return f.Figure("actions", "Reward by action",
		"Mean reward where the action was played, with 95% if n is large; at the right how often. The logger chose "+
			"where, so actions are not compared fairly here.", false)
}

package ope

import (
	"fmt"
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat/distuv"

	"troupe/internal/decimal"
)

// normalQuantile is z with Φ(z) = p.
func normalQuantile(p float64) float64 { return distuv.UnitNormal.Quantile(p) }

func ptr[T any](v T) *T { return &v }

func finite(v float64) bool { return v-v == 0 }

// real returns nil for what is not a number.
func real(v float64) *float64 {
	if !finite(v) {
		return nil
	}
	return &v
}

// evaluation makes the answer of the evidence.
type evaluation struct {
	p       *plan
	sums    *evidence
	running [][]Point // of each target
	unread  int       // events whose features the reward model cannot read

	rows    []Segment // with By
	untruth string    // why the logged propensities cannot be true, "" where they may
}

// answer begins to answer, when all events were read.
func (e *engine) answer() *evaluation {
	out := &evaluation{p: e.p, sums: e.sums, running: e.running}
	for _, s := range e.scratches {
		out.unread += s.bad
	}
	return out
}

// result makes the answer of what was added up.
func (e *evaluation) result() *Result {
	p, a := e.p, e.sums.total
	e.sums.byUnit()
	r := &Result{Rewards: p.rewards, Level: p.level, Q: p.o.Q, Warnings: []string{}, Targets: []*Evaluated{}}
	r.Log = LogInfo{Events: a.n, Presented: float64(a.n), Actions: a.kMax, Adaptive: p.o.Adaptive, Law: a.noLaw == 0 &&
		!p.lists, Skipped: map[string]int{}}
	if u := a.unitsOf(); u != nil && !u.full {
		r.Log.Units = len(u.names)
	}
	if a.dependent() {
		r.Warnings = append(r.Warnings, unitsWarning)
	}
	if !a.first.IsZero() {
		r.Log.First, r.Log.Last = &a.first, &a.last
	}
	if p.lists {
		r.Log.Law = false
	}
	r.Assumptions = e.sums.assumptions()
	if r.Propensities = p.o.Estimated; r.Propensities != nil {
		r.Assumptions.Normal += "; and estimated propensities that are right: the logger chose by what is in the log and in the form of the model"
		if !r.Propensities.Fits {
			r.Warnings = append(r.Warnings, e.sums.estimatedDoubt())
		}
	}
	for k := range a.actions {
		r.Actions = append(r.Actions, a.actions[k].seen(k, a.noLaw == 0))
	}
	e.untruth = e.sums.untrue(r.Actions)
	if p.o.By != nil && len(p.o.Targets) > 0 {
		e.rows = e.sums.parts()
		r.Warnings = append(r.Warnings, chooseAfter)
		if how := e.sums.unnamed(); how != "" {
			r.Warnings = append(r.Warnings, how)
		}
	}
	for t := range p.o.Targets {
		r.Targets = append(r.Targets, e.evaluated(t, r))
		r.Log.Presented = a.targets[t].presented(p, a)
	}
	if len(p.o.Targets) == 0 {
		r.Log.Presented = a.logger.presented()
		r.Targets = append(r.Targets, e.sums.logOnly())
	}
	e.compare(r)
	e.warn(r)
	return r
}

func (t *targetSums) presented(p *plan, a *accumulator) float64 {
	if p.lists {
		return t.lists.logged.v.value()
	}
	return t.v.value()
}

// logOnly is the answer without a target: what ran.
func (e *evidence) logOnly() *Evaluated {
	m := &e.total.logger
	v, se, _, _ := m.plainEstimate("logged")
	if u := e.total.loggerUnits; u != nil && u.full {
		se = math.NaN()
	}
	est := Estimate{Estimator: "logged", Value: real(v), SE: real(se)}
	if finite(se) {
		est.Normal = &Pair{v - e.p.z*se, v + e.p.z*se}
	}
	return &Evaluated{Name: "logged", Learns: "no", Overlap: "good", Estimates: []Estimate{est},
		Verdict:     "what ran; --target names a policy to compare it with",
		Diagnostics: Diagnostics{ESS: float64(e.total.n), ESSRewarded: float64(e.total.n), WeightMean: 1, WeightMax: 1}}
}

func (e *evidence) assumptions() Assumptions {
	one := "an event's reward does not depend on the choices made for later events"
	if e.p.lists {
		one = "a list's rewards do not depend on the choices made for later lists"
	}
	events := "independent events"
	if e.total.dependent() {
		events = "independent units of decisions"
		one += "; it takes the first decision of each unit"
	}
	return Assumptions{
		Sequence: "holds at every n, for loggers and targets that learn, for drift and for missing support; needs " +
			"propensities that are true, a target and rewards that were not chosen by looking at these rewards, and " +
			"that " + one,
		Normal: "needs many events without dominating weights, " + events + ", and a logger and a target that " +
			"do not learn",
		AtEnd: e.atEndNeeds(),
	}
}

// atEndNeeds is what the interval for a fixed n rests on, "" where it was not asked for.
func (e *evidence) atEndNeeds() string {
	if !e.p.o.AtEnd {
		return ""
	}
	return fmt.Sprintf("holds where it was fixed beforehand that %d decisions count, and that they are looked at once, and where the contexts and the "+
		"rewards come from one world that does not change; the logger may learn, the target may not", e.total.once())
}

func (s *actionSums) seen(k int, law bool) ActionSeen {
	x := ActionSeen{Name: s.name, Played: s.played, Promised: s.pb}
	if x.Name == "" {
		x.Name = strconv.Itoa(k)
	}
	if n := float64(s.played); n > 0 {
		x.Reward = s.r / n
		if n > 1 {
			x.SE = math.Sqrt(max(s.rr-n*x.Reward*x.Reward, 0) / (n - 1) / n)
		}
	}
	if law && s.variance > 0 {
		x.Z, x.HasZ = s.diff/math.Sqrt(s.variance), true
	}
	return x
}

// evaluated makes the answer for one target.
func (e *evaluation) evaluated(t int, r *Result) *Evaluated {
	p, ta := e.p, &e.sums.total.targets[t]
	out := &Evaluated{Name: p.o.Targets[t].Name(), Learns: "no", Running: e.running[t], Estimates: []Estimate{}}
	if t < len(p.o.Learns) && p.o.Learns[t] != "" {
		out.Learns = p.o.Learns[t]
	}
	if _, ok := p.o.Targets[t].(Greedy); ok && p.o.Q != "column" && p.o.Q != "none" {
		out.Learns = "log" // its reward model does
	}
	out.Diagnostics = e.sums.diagnostics(ta, r)
	d := &out.Diagnostics
	var ten, all float64
	for _, x := range ta.tops {
		ten += x
	}
	if all = math.Abs(ta.wr1.value()); all > 0 {
		out.TopTen = min(ten/all, 1)
	}
	out.Overlap = overlap(d.ESS, out.TopTen, e.sums.total.n)
	for b, n := range ta.hist {
		if n > 0 {
			lo := 0.0
			if b > 0 {
				lo = math.Exp2(float64(b-binOfOne) / 2)
			}
			out.Weights = append(out.Weights, Bin{lo, n})
		}
	}
	if ta.heaviest.Event > 0 {
		out.Heaviest = &ta.heaviest
	}
	for _, key := range p.keys {
		out.Estimates = append(out.Estimates, e.estimates(ta, key, d, out.Learns != "no"))
	}
	out.mark()
	out.Uplift = e.uplift(ta, d, out.Learns != "no")
	if e.rows != nil && out.Uplift.Sequence != nil {
		out.Segments = e.segments(t)
	}
	if p.o.Estimated != nil {
		out.Sensitivity = e.sums.sensitivity(ta)
	}
	e.contradict(ta, out, r.Actions)
	out.Verdict = e.verdict(ta, out, r.Silent(out))
	return out
}

// contradict takes back what rests on propensities that the log itself contradicts: every interval of a weighted
// estimate, the difference, the segments. Where only sequences with a reward model contradict themselves, the model may
// be at fault, and the intervals without it stay.
func (e *evaluation) contradict(ta *targetSums, out *Evaluated, actions []ActionSeen) {
	why := e.untruth
	if why == "" && e.p.o.Estimated == nil { // weights from estimates have no mean that is known
		why = e.sums.heavy(ta)
	}
	if none := e.sums.noOverlap(ta, actions); none != "" {
		why = none
	}
	own, model := false, out.Uplift.Contradicts // the sequence of ips contradicts itself, one with a model does
	for i := range out.Estimates {
		own = own || out.Estimates[i].Contradicts && !modelled(out.Estimates[i].Estimator)
		model = model || out.Estimates[i].Contradicts
	}
	switch {
	case why == "" && own:
		why = "the two sides of the sequence of ips contradict each other: the logged propensities or the range are wrong"
	case why == "" && model:
		why = errContradict.Error()
	case why == "":
		return
	}
	out.Contradicted, out.Segments = &why, nil
	u := out.Uplift
	u.Value, u.Plain, u.Centre, u.Sequence, u.SE, u.Normal, u.Doubt, u.More, u.Marginal = nil, nil, nil, nil, nil, nil, nil, nil, nil
	u.AtEnd = nil
	u.Why = &why
	out.Untrue = why != errContradict.Error()
	for i := range out.Estimates {
		x := &out.Estimates[i]
		if out.Untrue && !slices.Contains(unweighted, x.Estimator) || !out.Untrue && modelled(x.Estimator) {
			x.Normal, x.Interval, x.Sequence, x.Centre, x.Lower, x.Outside, x.Doubt = nil, nil, nil, nil, nil, false, nil
			x.AtEnd = nil
			x.Why = ptr("no interval: " + why)
		}
	}
}

// overlap is a word for how far the log can speak.
func overlap(ess, ten float64, n int) string {
	switch {
	case !Shown(ess):
		return "hopeless"
	case ess < 100 || ten >= 0.5 && n > 20:
		return "poor"
	case ess < 1000:
		return "fair"
	}
	return "good"
}

func (e *evidence) diagnostics(ta *targetSums, r *Result) Diagnostics {
	d := Diagnostics{WeightMean: ta.w1.value() / ta.v.value(), WeightMax: ta.wMax,
		WeightZero: float64(ta.wZero) / float64(max(ta.seen, 1))}
	d.ESS, d.ESSRewarded = effective(ta.w1.value(), ta.w2.value()), effective(ta.wr1.value(), ta.wr2.value())
	if e.p.lists && ta.m.n > 0 { // weights are of positions, and those of one list go together
		positions := float64(ta.seen) / float64(ta.m.n)
		d.ESS, d.ESSRewarded = d.ESS/positions, d.ESSRewarded/positions
	}
	switch {
	case e.p.lists:
	case e.total.noLaw == 0:
		d.Unsupported = ptr(ta.unsupported.value() / ta.v.value())
	default: // on actions that were never played
		missing := 0.0
		for k, p := range ta.pe {
			if k >= len(e.total.actions) || e.total.actions[k].played == 0 {
				missing += p
			}
		}
		d.Unsupported = ptr(missing / ta.v.value())
	}
	if ta.marginal != nil {
		d.Marginal = ta.marginal.diagnostics()
	}
	if r.Log.Law {
		for k := range e.total.actions {
			var z *float64
			if a := r.Actions[k]; a.HasZ {
				z = ptr(a.Z)
			}
			d.CalibrationZ = append(d.CalibrationZ, z)
		}
	}
	return d
}

// What a range with one known end leaves (docs/design/ope.md).
const (
	oneEnd   = "one end of the range of rewards is known, so the sequence has one side"
	bothEnds = "it needs both ends of the range of rewards (--rewards min,max)"
)

// sequence is the interval of a value in units of the rewards. The lower side needs the smallest reward only, the upper
// side the largest.
func (p *plan) sequence(s *twoSided) (*Pair, error) {
	alpha := (1 - p.level) / 2
	switch {
	case !finite(p.rewards[1]):
		return &Pair{p.min + s.lower.bound(alpha, 0, unboundedValue), math.Inf(1)}, nil
	case !finite(p.rewards[0]):
		return &Pair{math.Inf(-1), p.rewards[1] - s.upper.bound(alpha, 0, unboundedValue)}, nil
	}
	lo, hi, err := s.value(p.level)
	if err != nil {
		return nil, err
	}
	return &Pair{p.min + p.scale*lo, p.min + p.scale*hi}, nil
}

// unboundedValue is where the search for a bound without an end stops.
const unboundedValue = 1 << 50

// noSequence says why no sequence may be given, "" when it may.
func (e *evidence) noSequence() string {
	switch {
	case e.p.o.NoSequence != "":
		return e.p.o.NoSequence
	case e.total.dropped > 0:
		return "events were dropped on the way: the sequence needs every event"
	case e.p.lists && e.total.dependent():
		return sharedDraw
	}
	return ""
}

// answerRow is a row of the table while it is made.
type answerRow struct {
	Estimate
	e      *evidence
	d      *Diagnostics
	learns bool // the target does
}

// doubts sets why the normal interval, or another one that leans on large n, covers less than it says.
func (r *answerRow) doubts(ta *targetSums) {
	if r.Normal == nil && r.Interval == nil {
		return
	}
	s := r.e.doubt(ta, r.Estimator)
	switch {
	case r.Estimator == "dm":
		s = "the error of the reward model is not in it"
	case r.Estimator == "dr-stable" && r.learns:
		s = "the target learns: it estimates another mean"
	}
	if s != "" {
		r.Doubt = &s
	}
}

// why adds a remark.
func (r *answerRow) why(s string) {
	if s == "" {
		return
	}
	if r.Why != nil {
		s = *r.Why + "; " + s
	}
	r.Why = &s
}

// unsupported reports whether the target is known to play actions that the logger could not.
func (r *answerRow) unsupported() bool {
	return r.e.total.noLaw == 0 && r.d.Unsupported != nil && *r.d.Unsupported > 0
}

// normal sets value, standard error and the normal interval where there is one.
func (r *answerRow) normal(v, se float64) {
	key := r.Estimator
	r.Value, r.SE = real(v), real(se)
	if !finite(v) || !finite(se) {
		r.why("not defined on these events")
		return
	}
	if r.unsupported() && slices.Contains([]string{"ips", "snips", "dr", "sndr", "cv"}, key) {
		side := "biased downward"
		if key == "snips" || key == "sndr" || key == "cv" {
			side = "biased in either direction"
		}
		r.why(fmt.Sprintf("%s: the target plays actions that the logger could not with probability %.3g; intervals "+
			"are at least that wide at any n", side, *r.d.Unsupported))
		return
	}
	r.Normal = &Pair{v - r.e.p.z*se, v + r.e.p.z*se}
}

// sequence sets the confidence sequence where there is one.
func (r *answerRow) sequence(s *twoSided) {
	if no := r.e.noSequence(); no != "" {
		r.why("no sequence: " + no)
		return
	}
	var err error
	if r.Sequence, err = r.e.p.sequence(s); err != nil {
		r.Contradicts = true
		r.why("no sequence: " + err.Error())
	} else if !r.e.p.rewards.known() {
		r.why(oneEnd)
	} else {
		r.Centre = ptr(r.e.p.min + r.e.p.scale*s.centre(1, 0, 1))
	}
}

// atEnd sets the interval for a fixed n.
func (r *answerRow) atEnd(s *twoEnd) {
	if no := r.e.noEnd(r.learns); no != "" {
		if r.Sequence != nil { // otherwise the reason is that of the sequence
			r.why("no interval for this n: " + no)
		}
		return
	}
	var err error
	if r.AtEnd, err = r.e.p.valueAtEnd(s); err != nil {
		r.why(changes)
	}
}

// plain is the row of an estimator that is a mean or a ratio of means: v and se are what it is.
func (r *answerRow) plain(ta *targetSums, v, se, beta float64) {
	r.Beta = beta
	r.normal(v, se)
	switch r.Estimator {
	case "dm":
		switch {
		case r.Normal == nil:
		case se == 0:
			r.Normal = nil
			r.why("no interval: the predictions do not vary, and the error of the reward model is not in their spread")
		default:
			r.why("its interval is the spread of the predictions: the error of the reward model is not in it")
		}
		if k := ta.m.predicted; k < ta.m.n {
			r.why(fmt.Sprintf("the mean over the %d of %d events that the reward model predicts: it is fitted on "+
				"earlier events only, first on %d", k, ta.m.n, firstFit))
		}
	case "ips":
		r.sequence(&ta.ips)
		if ta.end != nil {
			r.atEnd(&ta.end.ips)
		}
	case "dr":
		switch {
		case r.e.cross != nil:
			r.why("no sequence: " + crossReason)
		case r.e.total.noLaw > 0:
			r.why("no sequence: the log does not have the logger's whole law (--logger gives it where it is known)")
		default:
			r.sequence(&ta.dr)
			if ta.end != nil {
				r.atEnd(&ta.end.dr)
			}
		}
		if ta.m.predicted == 0 {
			r.why("the reward model predicts nothing, so this is ips")
		}
	}
}

// stable is the row of dr-stable.
func (r *answerRow) stable(ta *targetSums) {
	if r.e.total.n > mostStored {
		r.why("dr-stable keeps 8 bytes of each event: at most 5 000 000 events")
		return
	}
	v, se, ok := stable(ta.phi)
	if !ok || r.e.total.dropped > 0 {
		r.why("not defined on these events: 20 blocks of two events and more, none dropped")
		return
	}
	r.Value, r.SE, r.Normal = &v, &se, &Pair{v - r.e.p.z*se, v + r.e.p.z*se}
}

// estimates makes one row of the table.
func (e *evaluation) estimates(ta *targetSums, key string, d *Diagnostics, learns bool) Estimate {
	r := &answerRow{Estimate: Estimate{Estimator: key}, e: e.sums, d: d, learns: learns}
	if e.p.lists {
		e.listEstimate(ta, key, &r.Estimate, r.why)
		r.doubts(ta)
		return r.Estimate
	}
	v, se, beta, ok := ta.m.plainEstimate(key)
	if u := ta.units; ok && u != nil && u.full {
		se = math.NaN()
	}
	switch {
	case ok && (key == "dm" || key == "dr" || key == "sndr") && e.p.o.Q == "none":
		r.why("there is no reward model (--q)")
	case key == "dm" && ta.m.predicted == 0:
		r.why(e.sums.unfitted())
	case ok:
		r.plain(ta, v, se, beta)
	case ta.marginal != nil && slices.Contains(marginalKeys, key):
		e.marginalEstimate(ta.marginal, key, &r.Estimate, r.why, r.sequence)
	case key == "replay":
		e.replay(ta, &r.Estimate, r.why)
	case key == "el":
		e.empirical(ta, &r.Estimate, r.why)
	case key == "dr-stable":
		r.stable(ta)
	case key == "bootstrap":
		e.bootstrap(ta, &r.Estimate, r.why)
	default:
		e.tuned(ta, key, &r.Estimate, r.normal, r.why)
	}
	if r.unsupported() && (key == "el" || key == "dr-stable" || key == "bootstrap") && r.Value != nil {
		r.Normal, r.Interval = nil, nil
		r.why("biased: the target plays actions that the logger could not")
	}
	r.byUnits(ok)
	r.doubts(ta)
	return r.Estimate
}

// unfitted says why no event has a prediction of the reward model.
func (e *evidence) unfitted() string {
	if n := e.total.n; n <= firstFit {
		return fmt.Sprintf("the reward model is fitted on earlier events only, first on %d, and the log has %d "+
			"(--crossfit 5 fits on the others, for independent events)", firstFit, n)
	}
	return "the reward model cannot read the features of any event"
}

func (e *evaluation) replay(ta *targetSums, out *Estimate, why func(string)) {
	switch {
	case ta.random:
		why("the target is not deterministic: replay compares choices")
	case ta.matched == 0:
		why("the target never chose what was played")
	default:
		v := ta.replay.value() / ta.replayV.value()
		out.Value = &v
		why(fmt.Sprintf("%d matching events: the value in the contexts where the logger agrees, unbiased for a "+
			"uniform logger only", ta.matched))
	}
}

func (e *evaluation) empirical(ta *targetSums, out *Estimate, why func(string)) {
	if e.sums.total.n > mostStored {
		why("el keeps 16 bytes of each event: at most 5 000 000 events; cv is its one-step twin in constant memory")
		return
	}
	if e.sums.total.dropped > 0 {
		why("events were dropped on the way")
		return
	}
	v, lo, hi, err := empirical(ta.w, ta.wr, e.p.z)
	if err != nil {
		why(err.Error())
		return
	}
	out.Value, out.Interval = &v, &Pair{lo, hi}
}

func (e *evaluation) bootstrap(ta *targetSums, out *Estimate, why func(string)) {
	var all []float64
	for _, b := range ta.boot {
		if n := b.v.value(); n > 0 {
			all = append(all, b.d.value()/n)
		}
	}
	if !e.p.boot {
		why("refused: " + adaptiveBoot)
		return
	}
	if len(all) < replicates/2 {
		why("too few events")
		return
	}
	slices.Sort(all)
	at := func(p float64) float64 {
		x := p * float64(len(all)-1)
		i := min(int(x), len(all)-2)
		return all[i] + (x-float64(i))*(all[i+1]-all[i])
	}
	v, _, _, _ := ta.m.plainEstimate("dr")
	out.Value, out.Interval = real(v), &Pair{at((1 - e.p.level) / 2), at((1 + e.p.level) / 2)}
	why("of dr, 200 replicates with Poisson weights; for independent events only")
}

// tuned makes the row of an estimator with a parameter, which SLOPE++ chooses where nothing fixes it.
func (e *evaluation) tuned(ta *targetSums, key string, out *Estimate, normal func(v, se float64), why func(string)) {
	p := e.p
	at := p.slope[key]
	est := ta.tallies[at[0]].e
	switch {
	case est.needs&needsQ != 0 && p.o.Q == "none":
		why("there is no reward model (--q)")
		return
	case est.shrinks && ta.m.predicted == 0:
		why(e.sums.unfitted())
		return
	case est.needs&needsLaw != 0 && e.sums.total.noLaw > 0:
		why("the log does not have the logger's whole law")
		return
	case est.scaled && !finite(p.rewards[0]):
		why("it needs the smallest reward (--rewards)")
		return
	case est.needs&needsGroups != 0 && e.sums.total.noGroup > 0:
		if e.sums.total.noGroup < e.sums.total.n {
			why(fmt.Sprintf("%d events have no groups of actions", e.sums.total.noGroup))
		} else {
			why("the log has no groups of actions")
		}
		return
	}
	t95 := studentQuantile(slopeLevel, float64(max(ta.m.n-1, 1)))
	var ses []float64
	for _, i := range at {
		v, se := ta.tallies[i].estimate(&ta.single)
		out.Grid, out.Values, out.Widths = append(out.Grid, ta.tallies[i].parameter), append(out.Values, v),
			append(out.Widths, t95*se)
		ses = append(ses, se)
	}
	best := 0
	if est.parameter != "" {
		out.Chosen = ptr("given")
	}
	if len(at) > 1 {
		best = slope(out.Values, out.Widths)
		out.Chosen = ptr("slope++")
		why(slopeWords(est.parameter, out.Grid, best))
	}
	if est.parameter != "" {
		out.Parameter = ptr(out.Grid[best])
	}
	v, se := out.Values[best], ses[best]
	if est.scaled { // from [0, 1] back to the range
		v, se = p.min+p.scale*v, p.scale*se
	}
	normal(v, se)
	if est.shrinks && ta.m.predicted < ta.m.n {
		why(fmt.Sprintf("the reward model predicts %d of %d events; in the others its prediction counts as 0, and "+
			"the estimate shrinks towards that", ta.m.predicted, ta.m.n))
	}
	if key == "ls" || key == "ix" {
		e.oneSided(key, out, ta, why)
	}
}

// slopeWords says why a parameter was chosen.
func slopeWords(name string, grid []float64, best int) string {
	names := map[string]string{"lambda": "λ", "alpha": "α", "gamma": "γ"}
	s := fmt.Sprintf("%s = %s: ", names[name], short(grid[best]))
	switch best {
	case 0:
		if len(grid) > 1 {
			return s + "the next one differs by more than its width"
		}
	case len(grid) - 1:
		return s + "it differs from the others by no more than their widths"
	}
	return s + "the ones before it differ by no more than their widths, the next one does"
}

func short(v float64) string { return decimal.Short(v, 4) }

// oneSided is the lower bound of ls and ix, which hold with probability level for a parameter fixed beforehand. For
// one that was chosen on the same events it is the largest over the grid at δ/|grid|.
func (e *evaluation) oneSided(key string, out *Estimate, ta *targetSums, why func(string)) {
	no := e.sums.noSequence()
	if e.sums.total.dependent() {
		no = sharedError
	}
	if no != "" {
		why("no bound: " + no)
		return
	}
	if key == "ix" && !finite(e.p.rewards[1]) {
		why("no bound: " + bothEnds)
		return
	}
	if e.sums.total.damaged > 0 {
		why("no bound: some rewards are damaged")
		return
	}
	n := float64(ta.m.n)
	delta := (1 - e.p.level) / float64(len(out.Grid))
	best := math.Inf(-1)
	for i, v := range out.Values {
		x := out.Grid[i]
		if key == "ls" {
			v = (math.Exp(x*v-math.Log(1/delta)/n) - 1) / x
		} else {
			v -= math.Log(1/delta) / (2 * x * n)
		}
		best = max(best, v)
	}
	best = e.p.min + e.p.scale*best
	out.Lower = &best
}

// crossReason is why a cross-fitted model gives no sequence.
const crossReason = "q was fitted on later events too (--crossfit)"

// differenceKey is the plain estimate of the difference: with the reward model where the logger's law is known.
func (e *evidence) differenceKey() string {
	if e.total.noLaw > 0 || e.p.lists {
		return "uplift-ips"
	}
	return "uplift"
}

// lawAdvice says how a log without laws may have them.
func (e *evidence) lawAdvice() string {
	switch {
	case e.total.even < e.total.n:
		return " (--logger gives it where it is known, and the interval becomes narrower)"
	default:
		return ". Every propensity is 1/K: --logger uniform gives the law, and the interval becomes narrower"
	}
}

// plainDifference is the plain paired mean: exactly 0 where the target has the law of the logger.
func (e *evidence) plainDifference(ta *targetSums) float64 {
	if e.same(ta) == 0 {
		return 0
	}
	v, _, _, _ := ta.m.plainEstimate(e.differenceKey())
	return v
}

// uplift is the difference between the target and the logger.
func (e *evaluation) uplift(ta *targetSums, d *Diagnostics, learns bool) *Uplift {
	p := e.p
	out := &Uplift{}
	why := func(s string) {
		if out.Why != nil {
			s = *out.Why + "; " + s
		}
		out.Why = &s
	}
	key := e.sums.differenceKey()
	if key != "uplift" {
		if p.lists {
			why(e.sums.basisWords(ta))
		} else {
			why("from propensities alone, (w − 1) r: the log does not have the logger's whole law" + e.sums.lawAdvice())
		}
	}
	if v, se, _, _ := ta.m.plainEstimate(key); finite(v) {
		if v = e.sums.plainDifference(ta); v == 0 && e.sums.same(ta) == 0 {
			se = 0
		}
		if u := ta.units; u != nil && u.full {
			se = math.NaN()
			why(tooManyUnits)
		}
		out.Value, out.Plain, out.SE = &v, &v, real(se)
		switch {
		case d.Unsupported != nil && *d.Unsupported > 0 && e.sums.total.noLaw == 0:
			why("biased: the target plays actions that the logger could not")
		case finite(se):
			out.Normal = &Pair{v - p.z*se, v + p.z*se}
			if s := e.sums.doubt(ta, key); s != "" {
				out.Doubt = &s
			}
		}
	}
	if e.sums.cross != nil {
		why("the interval that holds is from propensities alone: " + crossReason)
	}
	no := e.sums.noSequence()
	if no == "" && !p.rewards.known() {
		no = bothEnds
	}
	if no != "" {
		why("no sequence: " + no)
		return out
	}
	if e.sums.total.again > 0 {
		why(fmt.Sprintf("the intervals that hold are of the first decisions of %d units, the plain numbers of all decisions",
			e.sums.total.once()))
	}
	seq := e.sums.differenceOf(ta)
	interval, err := seq.at(p.level)
	if err != nil {
		out.Contradicts = true
		why("no sequence: " + err.Error())
		return out
	}
	out.Sequence, out.Centre = &interval, ptr(within(seq.centre(), interval))
	if out.Plain != nil {
		out.Value = ptr(within(*out.Plain, interval))
	}
	if v := out.Plain; v != nil && (*v < interval[0] || *v > interval[1]) {
		why(fmt.Sprintf("the plain mean %s lies outside of the sequence, and its value is the nearest end: %s", short(*v),
			ta.heaviest.Words()))
	}
	if ta.end != nil {
		if no := e.sums.noEnd(learns); no != "" {
			why("no interval for this n: " + no)
		} else if out.AtEnd, err = e.sums.differenceAtEnd(ta); err != nil {
			out.AtEnd = nil
			why(changes)
		}
	}
	if s := out.AtEnd; s != nil && out.Plain != nil {
		out.Value = ptr(within(*out.Plain, *s))
	} else if interval[0] <= 0 && interval[1] >= 0 {
		out.More = e.sums.forecast(out)
	}
	if m := ta.marginal; m != nil && m.noLaw == 0 && e.sums.cross == nil {
		if lo, hi, err := m.seqUp.difference(p.level); err != nil {
			why("no interval without the members: " + err.Error())
		} else {
			out.Marginal = &Pair{p.scale * lo, p.scale * hi}
		}
	}
	return out
}

// rounded prints a count with one or two digits that matter: 9,000, 120,000.
func rounded(v float64) string {
	m := math.Pow(10, math.Floor(math.Log10(v)))
	d := math.Round(v/m*1) * m
	if v/m < 2 {
		d = math.Round(v/m*10) * m / 10
	}
	s := strconv.FormatFloat(d, 'f', 0, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// compare gives the set of targets that may be best, the differences of all pairs at levels shared among them where
// there are few, and the ranking by the value of the difference to what ran.
func (e *evaluation) compare(r *Result) {
	p := e.p
	T := len(p.o.Targets)
	if T < 2 {
		return
	}
	for _, t := range r.Targets {
		if t.Contradicted != nil {
			r.Warnings = append(r.Warnings, "no differences between targets: "+*t.Contradicted)
			return
		}
	}
	if no := e.sums.noPairs(); no != "" {
		r.Warnings = append(r.Warnings, "no differences between targets: "+no)
		return
	}
	r.Candidates = e.sums.candidates()
	if T <= allPairs {
		shared := 1 - (1-p.level)/float64(T*(T-1)/2)
		for i := range e.sums.total.pairs {
			r.Pairs = append(r.Pairs, e.sums.pair(&e.sums.total.pairs[i], shared))
		}
	}
	for _, t := range e.sums.byValue() {
		r.Ranking = append(r.Ranking, p.o.Targets[t].Name())
	}
}

// pair is the difference of two targets at a level.
func (e *evidence) pair(x *duel, level float64) Difference {
	p := e.p
	d := Difference{First: p.o.Targets[x.first].Name(), Second: p.o.Targets[x.second].Name(),
		Verdict: "cannot be told apart"}
	s, err := x.difference(level, e.total.once())
	if err != nil {
		d.Verdict = err.Error()
		return d
	}
	scale := e.pairScale()
	d.Sequence = &Pair{scale * s[0], scale * s[1]}
	switch {
	case s[0] > 0:
		d.Verdict = d.First + " is better"
	case s[1] < 0:
		d.Verdict = d.Second + " is better"
	case one(d.Sequence, scale):
		d.Verdict = "one law in every decision"
	}
	return d
}

// warn adds warnings that concern the whole log.
func (e *evaluation) warn(r *Result) {
	if e.untruth != "" {
		r.Warnings = append(r.Warnings, e.untruth)
	}
	for t, target := range r.Targets {
		if t >= len(e.p.o.Targets) {
			break
		}
		ta := &e.sums.total.targets[t]
		if e.p.lists {
			if text := e.sums.influence(ta); text != "" {
				r.Warnings = append(r.Warnings, target.Name+": "+text)
			}
		}
		if _, ok := e.p.o.Targets[t].(Greedy); ok && ta.m.predicted < ta.m.n {
			r.Warnings = append(r.Warnings, fmt.Sprintf("greedy plays the first action in %d of %d events: its "+
				"reward model predicts nothing there", ta.m.n-ta.m.predicted, ta.m.n))
		}
		if _, ok := e.p.o.Targets[t].(Uniform); ok && e.sums.total.noLaw > 0 && !e.p.lists {
			// mean[w] is 1 for every target with full support
			n := float64(ta.seen)
			w := ta.w1.value() / n
			if sd := math.Sqrt(max(ta.w2.value()/n-w*w, 0)); sd > 0 && e.sums.total.dropped == 0 {
				if z := (w - 1) / (sd / math.Sqrt(n)); z < -4 {
					r.Warnings = append(r.Warnings,
						fmt.Sprintf("weights to uniform have mean %.3g, expected 1 (z = %.1f): some actions were not "+
							"offered, or those of small propensity did not come; the interval that holds allows for both",
							w, z))
				}
			}
		}
		if d := target.Diagnostics; d.Unsupported != nil && *d.Unsupported > 0 {
			what := "that the logger could not play"
			if e.sums.total.noLaw > 0 {
				what = "that were never played"
			}
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s plays actions %s with probability %.3g", target.Name, what,
				*d.Unsupported))
		}
		if m := target.Diagnostics.Marginal; m != nil && m.WeightMean < 0.9 && target.Diagnostics.WeightMean > 0.95 {
			r.Warnings = append(r.Warnings, fmt.Sprintf("%s: the weights without the members have mean %s, those "+
				"of the record %s: %d redraws hardly see some actions, and intervals without the members are wide; "+
				"more --redraws make them narrower",
				target.Name, decimal.Short(m.WeightMean, 2), decimal.Short(target.Diagnostics.WeightMean, 2), m.Redraws))
		}
		if c := target.Contradicted; c != nil && *c != e.untruth {
			r.Warnings = append(r.Warnings, target.Name+": "+*c)
		}
	}
	if e.sums.total.damaged > 0 {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%d events with a damaged reward: the sequence takes the worst "+
			"case of each, the other numbers leave them out", e.sums.total.damaged))
	}
	if e.unread > 0 {
		r.Warnings = append(r.Warnings, "the reward model cannot read the features of some events and predicts 0 there")
	}
}

// percent prints two digits, and from 100 on all before the point.
func percent(v float64) string {
	if v >= 99.5 && v < 1e6 {
		return fmt.Sprintf("%.0f%%", v)
	}
	return decimal.Short(v, 2) + "%"
}

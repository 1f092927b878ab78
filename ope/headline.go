package ope

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"troupe/internal/decimal"
	"troupe/logged"
)

// Heaviest is the event that has the largest weight: where a plain estimate leaves its sequence, this one does it, or
// the want of others like it.
type Heaviest struct {
	Event  int     `json:"event"` // from 1, of those that were evaluated
	ID     string  `json:"id,omitempty"`
	Weight float64 `json:"weight"`
	Reward float64 `json:"reward"`
}

// heavier takes an event if its weight is larger than all before it.
func (t *targetSums) heavier(vw float64, index int, ev *logged.Event) {
	if vw <= t.heaviest.Weight {
		return
	}
	t.heaviest = Heaviest{Event: index + 1, ID: strings.Clone(ev.ID), Weight: vw}
	if !ev.BadReward {
		t.heaviest.Reward = ev.Reward
	}
}

// Words names the event.
func (h *Heaviest) Words() string {
	id := ""
	if h.ID != "" {
		id = " (" + h.ID + ")"
	}
	return fmt.Sprintf("event %d%s has weight %s and reward %s", h.Event, id, short(h.Weight), short(h.Reward))
}

// mostSkew is the largest skewness of a mean for which a normal interval stands without a doubt (docs/design/ope.md).
const mostSkew = 0.2

// leastWithoutLaw is how many events a normal interval needs where the laws of the logger are not known.
const leastWithoutLaw = 1000

// kurtosis is the larger of E x⁴/(E x²)² for x = r' and for x = r' − mean: with √ of it the skewness of r' is bounded.
func (a *accumulator) kurtosis() float64 {
	n := float64(a.n - a.damaged)
	m1, m2, m3, m4 := a.powers[0]/n, a.powers[1]/n, a.powers[2]/n, a.powers[3]/n
	second := m2 - m1*m1
	fourth := m4 - 4*m1*m3 + 6*m1*m1*m2 - 3*m1*m1*m1*m1
	k := m4 / (m2 * m2)
	if second > 1e-12*m2 {
		return max(k, fourth/(second*second))
	}
	if m2 == 0 || second <= 0 { // one reward only: nothing is known of how it varies
		return math.Inf(1)
	}
	return k
}

// expect adds what the weights of an event are expected to be: Σ_a π_e(a)^j/p(a)^(j−1) for j = 2, 3, the moments of w
// given everything before the draw. It returns the one of j = 2, without a law Σ_a π_e(a)².
func (w *worker) expect(ta *targetSums, ev *logged.Event) (two float64) {
	three := 0.0
	if ev.Law == nil {
		for _, p := range w.pe {
			two += float64(p * p)
			three += float64(float64(p*p) * p)
		}
		ta.least = min(ta.least, ev.Propensity)
	} else {
		for a, p := range ev.Law {
			if p > 0 {
				u := w.pe[a] / p
				two += float64(u * w.pe[a])
				three += float64(float64(u*u) * w.pe[a])
			}
		}
	}
	ta.second += two
	ta.third += three
	return two
}

// doubt says why a normal interval covers less than it says, "" where nothing speaks against it. The rule uses the laws
// and how rewards vary, and no weight that was drawn: an action that is played too seldom to be seen leaves no trace in
// the weights.
func (e *evidence) doubt(ta *targetSums, key string) string {
	if few := e.doubtUnits(); few != "" {
		return few
	}
	if off := e.estimatedDoubt(); off != "" && key != "logged" {
		return off
	}
	n := float64(e.total.n)
	second, third := n, n
	if e.p.lists && key != "logged" {
		var few string
		if second, third, few = e.listMoments(ta, key); few != "" {
			return few
		}
	} else if key != "logged" {
		second, third = ta.second, ta.third
		least := ta.least
		if e.total.noLaw > 0 {
			if e.total.n < leastWithoutLaw {
				return fmt.Sprintf("fewer than %d decisions without the logger's whole law", leastWithoutLaw)
			}
			second, third = second/least, third/(least*least)
			w := ta.w1.value() / ta.v.value()
			if se := math.Sqrt(max(ta.w2.value()-n*w*w, 0)) / n; w+3*se < 1 {
				return fmt.Sprintf("the weights have mean %s, expected 1: actions of small propensity are missing",
					short(w))
			}
		}
	}
	skew := third / math.Pow(second, 1.5) * math.Sqrt(e.total.kurtosis())
	if skew <= mostSkew {
		return ""
	}
	if math.IsInf(e.total.kurtosis(), 1) || math.IsNaN(skew) {
		return "the rewards do not vary"
	}
	what := "the weights that the laws let expect, and the rewards,"
	if key == "logged" {
		what = "the rewards"
	}
	return fmt.Sprintf("%s are too uneven for %d decisions (skewness %.2g, at most %g)", what, e.total.n, skew, mostSkew)
}

// says reports whether an interval tells something: it is at most nine tenths of the range wide, or has one end inside.
func says(p *Pair, lo, hi float64) bool {
	switch {
	case p == nil:
		return false
	case math.IsInf(p[1], 1) && math.IsInf(p[0], -1):
		return false
	case math.IsInf(p[1], 1):
		return p[0] > lo
	case math.IsInf(p[0], -1):
		return p[1] < hi
	}
	return p[1]-p[0] <= 0.9*(hi-lo)
}

// Silent reports whether the log says nothing about a target: it does not overlap with it, and every sequence is wider
// than nine tenths of its range.
func (r *Result) Silent(t *Evaluated) bool {
	if Shown(t.Diagnostics.ESS) || t.Contradicted != nil {
		return false
	}
	lo, hi := r.Rewards[0], r.Rewards[1]
	if u := t.Uplift; u != nil {
		if s := u.Sequence; s != nil && (s[0] > 0 || s[1] < 0 || says(s, lo-hi, hi-lo)) {
			return false
		}
	}
	for i := range t.Estimates {
		if says(t.Estimates[i].Sequence, lo, hi) {
			return false
		}
	}
	return true
}

// unweighted are the estimators that use no propensity.
var unweighted = []string{"logged", "replay", "dm"}

// Withhold leaves out what a log with little overlap cannot say: all estimates where the sequences are silent too, else
// the plain points and the normal intervals only (Shown). The sequences and their own points stay. Of a log that
// contradicts its propensities it leaves out what is weighed by them.
func (r *Result) Withhold(t *Evaluated) {
	if Shown(t.Diagnostics.ESS) && !t.Untrue {
		return
	}
	if r.Silent(t) {
		t.Estimates, t.Uplift, t.Segments = []Estimate{}, nil, nil
		return
	}
	why := fmt.Sprintf("withheld: %.1f effective events of %d", t.Diagnostics.ESS, r.Log.Events)
	if h := t.Heaviest; h != nil {
		why += "; " + h.Words()
	}
	if t.Untrue {
		why = "withheld: " + *t.Contradicted
	}
	for i := range t.Estimates {
		x := &t.Estimates[i]
		if x.Estimator == "logged" || t.Untrue && slices.Contains(unweighted, x.Estimator) {
			continue // with little overlap the model has not seen what the target plays
		}
		x.Value, x.SE, x.Normal, x.Interval, x.Doubt, x.Outside = nil, nil, nil, nil, nil, false
		x.Why = &why
	}
	if u := t.Uplift; u != nil {
		u.Value, u.SE, u.Normal, u.Doubt, u.Plain, u.More = nil, nil, nil, nil, nil, nil
	}
}

// Unsure takes the sequences of a target back, and with them what compares targets and segments: why says what the log
// does that they do not allow.
func (r *Result) Unsure(t *Evaluated, why string) {
	why = "no sequence: " + why
	r.Candidates, r.Pairs, r.Ranking, t.Segments = nil, nil, nil, nil
	for i := range t.Estimates {
		if x := &t.Estimates[i]; x.Sequence != nil || x.Lower != nil {
			x.Sequence, x.AtEnd, x.Centre, x.Lower, x.Outside, x.Why = nil, nil, nil, nil, false, &why
		}
	}
	if u := t.Uplift; u != nil && u.Sequence != nil {
		u.Sequence, u.AtEnd, u.Centre, u.Marginal, u.More, u.Value, u.Why = nil, nil, nil, nil, nil, u.Plain, &why
		t.Verdict = "not known: no interval that holds is available (" + why + ")"
	}
}

// mark sets the marks of what has left the sequence of the value: that of the row itself, else of dr, else of ips.
func (out *Evaluated) mark() {
	var value *Pair
	for _, key := range []string{"ips", "dr"} {
		for i := range out.Estimates {
			if x := &out.Estimates[i]; x.Estimator == key && x.Sequence != nil {
				value = x.Sequence
			}
		}
	}
	for i := range out.Estimates {
		x, s := &out.Estimates[i], value
		if x.Sequence != nil {
			s = x.Sequence
		}
		if x.Value == nil || s == nil || x.Estimator == "logged" {
			continue
		}
		if x.Outside = *x.Value < s[0] || *x.Value > s[1]; x.Outside {
			why := "outside of the sequence"
			if out.Heaviest != nil {
				why += ": " + out.Heaviest.Words()
			}
			if x.Why != nil {
				why = *x.Why + "; " + why
			}
			x.Why = &why
		}
	}
}

// mostGrowth is how far a forecast looks: to logs of so many times the decisions of this one.
const mostGrowth = 1000

// forecast is how many more decisions like these would settle a difference: from, if it is the end of the normal interval
// that is far from 0, to, if it is the near end. The distance from the plain mean to the end of the sequence on the side
// of 0 falls as 1/√n. nil where the normal interval contains 0, and where something says that it covers less than it
// says: an equal policy is promised nothing in at least the share Level of all logs.
func (e *evidence) forecast(u *Uplift) *[2]int {
	if u.Plain == nil || u.Normal == nil || u.Doubt != nil {
		return nil
	}
	v, near, least, most := *u.Plain, u.Sequence[0], u.Normal[0], u.Normal[1]
	if v < 0 {
		v, near, least, most = -v, -u.Sequence[1], -most, -least
	}
	n, reach := float64(e.total.once()), v-near
	to := n * (reach/least*reach/least - 1)
	if !(least > 0 && reach > 0 && to <= mostGrowth*n) {
		return nil
	}
	return &[2]int{int(max(n*(reach/most*reach/most-1), 0)), int(max(math.Ceil(to), 1))}
}

// amount says a difference between two ends in words: per cent of what ran where that is a sensible ratio, else the
// difference itself.
func amount(lo, hi, base float64) string {
	if base > 0 && max(math.Abs(lo), math.Abs(hi))/base < 10 {
		return percents(100*lo/base, 100*hi/base)
	}
	return fmt.Sprintf("%s to %s", digits(lo, hi-lo), digits(hi, hi-lo))
}

// percents says two numbers of per cent with as many digits as tell them apart.
func percents(lo, hi float64) string {
	return digits(lo, hi-lo) + " to " + digits(hi, hi-lo) + "%"
}

// digits prints v so that v and widths of the size of w have two digits.
func digits(v, w float64) string {
	size := w
	if v != 0 {
		size = min(w, math.Abs(v))
	}
	decimals := 0
	if size > 0 {
		decimals = min(max(1-int(math.Floor(math.Log10(size))), 0), 9)
	}
	return strconv.FormatFloat(v, 'f', decimals, 64)
}

// verdict says in words what the difference says: the interval, and never a point that lies outside of it.
func (e *evaluation) verdict(ta *targetSums, out *Evaluated, silent bool) string {
	u, base := out.Uplift, ta.m.mean(vR)
	switch {
	case out.Contradicted != nil:
		return "none: " + *out.Contradicted
	case silent:
		return fmt.Sprintf("this log cannot tell: %.1f effective events of %d (10 are needed), and the interval that "+
			"holds says nothing", out.Diagnostics.ESS, e.sums.total.n)
	case u.Value == nil:
		return "no difference can be computed"
	}
	switch w := ta.w1.value() / ta.v.value(); {
	case e.p.lists:
	case e.sums.same(ta) <= sameLaw:
		return "no difference: the target has the law of what ran in every decision"
	case ta.wMax <= 1+1e-9 && w >= 1-1e-9:
		return "no difference: on this log the target plays what ran"
	}
	if e.p.o.Estimated != nil {
		return e.verdictEstimated(u, out.Sensitivity, base)
	}
	if u.Sequence == nil {
		word := "better"
		if *u.Value < 0 {
			word = "worse"
		}
		size := math.Abs(*u.Value)
		looks := decimal.Short(size, 3) + " " + word
		if base > 0 && size/base < 10 {
			looks = percent(100*size/base) + " " + word
		}
		if n := u.Normal; n != nil && u.Doubt == nil && (n[0] > 0 || n[1] < 0) {
			return "looks " + looks + ", if the normal interval is right"
		}
		return "too close to call: looks " + looks + ", and no interval that holds is available"
	}
	if u.AtEnd != nil {
		return e.verdictAtEnd(u, base)
	}
	lo, hi := u.Sequence[0], u.Sequence[1]
	switch {
	case lo > 0:
		return "sure: better, by " + amount(lo, hi, base)
	case hi < 0:
		return "sure: worse, by " + amount(-hi, -lo, base)
	case !says(u.Sequence, -e.p.scale, e.p.scale):
		return fmt.Sprintf("not known yet: %d decisions with these weights say nothing yet", e.sums.total.once())
	}
	s := "too close to call: " + ends(lo, hi, base)
	switch m := u.More; {
	case m == nil:
	case m[0] < 1:
		s += "; up to " + rounded(float64(m[1])) + " more decisions like these would settle it"
	default:
		s += "; " + rounded(float64(m[0])) + " to " + rounded(float64(m[1])) +
			" more decisions like these would settle it"
	}
	return s
}

// verdictEstimated is the verdict from estimated propensities: never settled, and how much hidden confounding turns it.
func (e *evaluation) verdictEstimated(u *Uplift, s *Sensitivity, base float64) string {
	n := u.Normal
	if n == nil {
		return "not known: no interval can be computed"
	}
	text := "too close to call: " + ends(n[0], n[1], base)
	switch {
	case u.Doubt != nil:
		return text + ifChosen + ", and the interval covers less than it says"
	case n[0] > 0:
		text = "looks better, by " + amount(n[0], n[1], base)
	case n[1] < 0:
		text = "looks worse, by " + amount(-n[1], -n[0], base)
	}
	text += ifChosen
	if s != nil && s.Gamma != nil && (n[0] > 0 || n[1] < 0) {
		text += fmt.Sprintf("; hidden confounding of Γ = %.2f turns the sign", *s.Gamma)
	}
	return text
}

// verdictAtEnd is the verdict of the interval for a fixed n, and says so.
func (e *evaluation) verdictAtEnd(u *Uplift, base float64) string {
	lo, hi := u.AtEnd[0], u.AtEnd[1]
	fixed := fmt.Sprintf(", if %d decisions were fixed beforehand", e.sums.total.once())
	switch {
	case lo > 0:
		return "sure for this n: better, by " + amount(lo, hi, base) + fixed
	case hi < 0:
		return "sure for this n: worse, by " + amount(-hi, -lo, base) + fixed
	}
	return "too close to call for this n: " + ends(lo, hi, base) + fixed
}

// ends says an interval that has 0 inside: up to 4 % worse, up to 31 % better.
func ends(lo, hi, base float64) string {
	one := func(v float64) string {
		if base > 0 && max(-lo, hi)/base < 10 {
			return percent(100 * v / base)
		}
		return decimal.Short(v, 2)
	}
	return fmt.Sprintf("between %s worse and %s better", one(max(-lo, 0)), one(max(hi, 0)))
}

// difference is the sequence of a difference in units of the rewards: scale × (V − shift), the reflected process at
// mirror − V.
type difference struct {
	seq           *twoSided
	scale         float64
	lo, hi        float64 // of V
	mirror, shift float64
	far           float64 // V is at most so far from shift, whatever the rewards are
}

func (e *evidence) differenceOf(ta *targetSums) *difference {
	p := e.p
	switch {
	case p.lists:
		m := &ta.lists.terms[ta.basis].mean
		if m.slots == m.least {
			return &difference{&ta.plain, p.scale * float64(m.slots), -1, 1, 0, 0, math.Inf(1)}
		}
		// Σ (w − 1) r' + L ≥ 0 with the mean V + L; lengths are known before the draw
		L := float64(m.all) / float64(m.n)
		return &difference{&ta.lists.up, p.scale, 0, 2 * L, 2 * L, L, math.Inf(1)}
	case e.total.noLaw > 0 || e.cross != nil: // the sequence may not use a q from other events
		return &difference{&ta.plain, p.scale, -1, 1, 0, 0, ta.like.most(e.total.once())}
	}
	return &difference{&ta.uplift, p.scale, -1, 1, 0, 0, ta.like.most(e.total.once())}
}

// at is the interval of a level.
func (d *difference) at(level float64) (Pair, error) {
	alpha := (1 - level) / 2
	lo, hi := d.seq.lower.bound(alpha, d.lo, d.hi), d.mirror-d.seq.upper.bound(alpha, d.lo, d.hi)
	if lo > hi {
		return Pair{}, errContradict
	}
	p, err := cut(lo-d.shift, hi-d.shift, d.far)
	return Pair{d.scale * p[0], d.scale * p[1]}, err
}

func (d *difference) centre() float64 {
	return d.scale * (d.seq.centre(d.mirror, d.lo, d.hi) - d.shift)
}

// Apart is decimals, or as many more as it takes, up to nine, that the end of an interval of a difference which is
// nearer to 0 does not print as 0 where the interval leaves 0 out.
func Apart(p *Pair, decimals int) int {
	if p == nil || p[0] <= 0 && p[1] >= 0 {
		return decimals
	}
	for near := min(math.Abs(p[0]), math.Abs(p[1])); decimals < 9 && near*math.Pow10(decimals) < 0.5; {
		decimals++
	}
	return decimals
}

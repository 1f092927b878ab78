// Package verify turns the paper into a test suite: one check, or several, for each numbered
// statement, named by its LaTeX label.
//
// Four nouns:
//
//   - a Check is one claim that a program can examine: a label, a reading (printed or corrected), a
//     kind, the verdict that is expected, and a plant;
//   - a Finding is what came out: a verdict, the observed number against the bound, how many
//     samples, a p-value where there is one;
//   - a plant is a deliberate change of the thing examined that must change the verdict: a fault
//     where the claim is expected to hold, the correction where the printed claim is expected to be
//     refuted. A check that its plant does not move proves nothing, and a test says so;
//   - Checks is the one list that the tests, `troupe verify` and the report range over.
//
// # Kinds
//
//	identity      two computations of the same number agree to rounding (the tolerance is the bound)
//	inequality    holds surely, for every input; asserted on random and on adversarial inputs
//	probability   an event has probability at most the bound; see Error budget
//	rate          a fitted exponent with its interval, or a number without a claimed value: reported
//
// # Error budget
//
// Only checks of kind probability can raise a false alarm: the others assert what is true of every
// path, up to rounding. A probability check draws n independent runs and counts k failures of an
// event whose claimed probability is at most q. It is refuted when P(Bin(n, q) ≥ k) ≤ Level = 1e-8.
// If the claim is true the count is stochastically below Bin(n, q), so that this happens with
// probability at most 1e-8 whatever the true probability is; equivalently, the lower end of the
// one-sided Clopper–Pearson interval at level 1 − 1e-8 exceeds q. Tests of a known law use
// Hoeffding's, the Dvoretzky–Kiefer–Wolfowitz–Massart or an exact binomial bound at the same level.
// By the union bound a run of c such checks raises a false alarm with probability at most c·1e-8,
// below 1e-6 for c < 100; TestErrorBudget counts them.
//
// Runs are fixed by a seed: the same seed gives the same findings on any number of workers.
package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"gonum.org/v1/gonum/mathext"

	"troupe/rng"
	"troupe/spec"
)

// Level is the false alarm probability of one probability check.
const Level = 1e-8

// Reading says whether a statement is taken as the paper prints it or as corrected.
type Reading string

// The readings.
const (
	Printed   Reading = "printed"
	Corrected Reading = "corrected"
)

// Kind says how a claim is examined; see the package comment.
type Kind string

// The kinds.
const (
	Identity    Kind = "identity"
	Inequality  Kind = "inequality"
	Probability Kind = "probability"
	Rate        Kind = "rate"
)

// Verdict is the outcome of a check.
type Verdict string

// The verdicts. Vacuous means that the claim was not violated but says nothing: a probability
// bound of 1 or more, a regret bound of 2T or more. Reported means that there is no claimed value
// to hold the number against. NotContradicted means that the claim was not violated, and that the
// smallest fault that the run would have noticed is more than ten times the claim (Power): a true
// rate of failures ten times the claimed one, or a bound that ten times tighter is not refuted.
const (
	Holds           Verdict = "holds"
	NotContradicted Verdict = "not contradicted"
	Refuted         Verdict = "refuted"
	Vacuous         Verdict = "vacuous"
	Reported        Verdict = "reported"
)

// blunt is the ratio of the smallest fault that is noticed to the claim above which nothing is said to hold.
const blunt = 10

// Relation is what a claim says of the observed number and the bound.
type Relation string

// The relations. A number that is only reported has none.
const (
	AtMost  Relation = "<="
	AtLeast Relation = ">="
	Equal   Relation = "="
)

// Check is one claim.
type Check struct {
	Label     string  // LaTeX label in the paper, or the source of a newer statement
	Part      string  // which claim under this label, "" for the statement itself
	Reading   Reading //
	Kind      Kind    //
	Statement string  // what is claimed; plain text with _{} and ^{} for indices
	Note      string  // why the reading differs, or what the check does
	Expect    Verdict //
	Plant     string  // what is changed, in words; the verdict must then change

	run func(s *session) Finding
}

// Name returns label, part and reading as one line.
func (c Check) Name() string {
	name := c.Label
	if c.Part != "" {
		name += " (" + c.Part + ")"
	}
	return name + " " + string(c.Reading)
}

// Finding is the outcome of a check. Numbers are finite.
type Finding struct {
	Verdict  Verdict
	Observed float64
	Bound    float64
	Relation Relation // what is claimed of observed and bound
	// Low and High enclose the observed exponent of a rate.
	Low, High float64
	Samples   int
	PValue    float64 // of a probability check, otherwise NaN
	Detail    string  // where the tightest case was, or what the numbers are
	Power     Power   // what the run would have noticed, where that is known
	Plot      *Plot   // for the report, where a picture helps
}

// Plot is a picture of a finding: curves against T, m or whatever X says.
type Plot struct {
	Title  string  `json:"title"`
	X      string  `json:"x"`
	Y      string  `json:"y"`
	LogX   bool    `json:"log_x,omitempty"`
	LogY   bool    `json:"log_y,omitempty"`
	Curves []Curve `json:"curves"`
}

// Curve is a line of a plot. Curves of one group look alike; a guide is a claimed value.
type Curve struct {
	Group int       `json:"group"`
	Guide bool      `json:"guide,omitempty"`
	Name  string    `json:"name"`
	X     []float64 `json:"x"`
	Y     []float64 `json:"y"`
}

// Result is a finding with its check.
type Result struct {
	Check
	Finding
	Seconds float64
	// Planted is the finding against the plant, when Options.Plants asked for it.
	Planted *Finding
}

// Expected reports whether the verdict is the expected one. Whether a claim that is expected to hold does, or is only
// not contradicted, is a question of how much was played, so both are expected.
func (r Result) Expected() bool {
	return r.Verdict == r.Expect || r.Expect == Holds && r.Verdict == NotContradicted
}

// Caught reports whether the planted run was told from the plain one: another verdict, or, for a
// number that is only reported, an interval that excludes the plain estimate. Without a planted run
// it is false.
func (r Result) Caught() bool {
	p := r.Planted
	switch {
	case p == nil:
		return false
	case r.Verdict == Reported && p.Verdict == Reported:
		return r.Observed < p.Low || r.Observed > p.High
	case r.Expect == Holds && p.Verdict != Refuted: // a plant that only makes the check blunt was not noticed
		return false
	}
	return r.Verdict != p.Verdict
}

// MarshalJSON writes the contract of `troupe verify --json`.
func (r Result) MarshalJSON() ([]byte, error) {
	var p *float64
	if r.Kind == Probability && !math.IsNaN(r.PValue) {
		p = &r.PValue
	}
	var low, high *float64
	if r.Kind == Rate {
		low, high = &r.Low, &r.High
	}
	var caught *bool
	if r.Planted != nil {
		c := r.Caught()
		caught = &c
	}
	return json.Marshal(struct {
		Label     string   `json:"label"`
		Part      string   `json:"part,omitempty"`
		Reading   Reading  `json:"reading"`
		Kind      Kind     `json:"kind"`
		Verdict   Verdict  `json:"verdict"`
		Expected  Verdict  `json:"expected"`
		Observed  float64  `json:"observed"`
		Bound     float64  `json:"bound"`
		Relation  Relation `json:"relation,omitempty"`
		Low       *float64 `json:"low,omitempty"`
		High      *float64 `json:"high,omitempty"`
		Samples   int      `json:"samples"`
		PValue    *float64 `json:"p_value"`
		Seconds   float64  `json:"seconds"`
		Statement string   `json:"statement"`
		Note      string   `json:"note,omitempty"`
		Detail    string   `json:"detail,omitempty"`
		Power     Power    `json:"power,omitzero"`
		Plant     string   `json:"plant"`
		Caught    *bool    `json:"plant_caught,omitempty"`
		Plot      *Plot    `json:"plot,omitempty"`
	}{r.Label, r.Part, r.Reading, r.Kind, r.Verdict, r.Expect, r.Observed, r.Bound, r.Relation, low, high, r.Samples,
		p, r.Seconds, r.Statement, r.Note, r.Detail, r.Power, r.Plant, caught, r.Plot})
}

// Options says how to run.
type Options struct {
	Seed    uint64
	Full    bool // the theorem's own parameters where the fast setting is smaller
	Plants  bool // run every check against its plant too
	Workers int  // 0: one for each CPU
	part    int  // the fast sizes are divided by it; tests set it. 0: 1
	// Done is called, from one goroutine at a time, after each check.
	Done func(Result)
}

// session is what a check sees of a run.
type session struct {
	ctx     context.Context
	key     rng.Key
	full    bool
	part    int
	planted bool
}

// size returns the fast or the full size.
func (s *session) size(fast, full int) int {
	if s.full {
		return full
	}
	return max(1, fast/max(1, s.part))
}

// source returns an independent table of random numbers.
func (s *session) source(i int) rng.Source { return s.key.Stream(rng.Instance).Round(uint64(i)) }

// universe returns the key of replication i.
func (s *session) universe(i int) rng.Key { return s.key.Child("run").At(uint64(i)) }

// stopped reports whether the run was cancelled; a check may then return anything.
func (s *session) stopped() bool { return s.ctx.Err() != nil }

// Run examines checks and returns the results in their order. When ctx ends it returns the results
// that are complete and the context's error.
func Run(ctx context.Context, checks []Check, o Options) ([]Result, error) {
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	results := make([]Result, len(checks))
	done := make([]bool, len(checks))
	next := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range workers {
		wg.Go(func() {
			for i := range next {
				r := runOne(ctx, checks[i], o)
				if ctx.Err() != nil {
					continue
				}
				mu.Lock()
				results[i], done[i] = r, true
				if o.Done != nil {
					o.Done(r)
				}
				mu.Unlock()
			}
		})
	}
	for i := range checks {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	var out []Result
	for i, ok := range done {
		if ok {
			out = append(out, results[i])
		}
	}
	return out, ctx.Err()
}

func runOne(ctx context.Context, c Check, o Options) Result {
	// The readings and the plant of one claim meet the same random numbers.
	key := rng.NewKey(o.Seed).Child("verify").Child(c.Label).Child(c.Part)
	start := time.Now()
	r := Result{Check: c, Finding: c.examine(&session{ctx: ctx, key: key, full: o.Full, part: o.part})}
	r.Seconds = time.Since(start).Seconds()
	if o.Plants && ctx.Err() == nil {
		f := c.examine(&session{ctx: ctx, key: key, full: o.Full, part: o.part, planted: true})
		r.Planted = &f
	}
	return r
}

// examine runs a check and makes its numbers finite.
func (c Check) examine(s *session) Finding {
	f := c.run(s)
	for _, v := range []*float64{&f.Observed, &f.Bound, &f.Low, &f.High} {
		if math.IsNaN(*v) || math.IsInf(*v, 0) {
			*v = math.Copysign(math.MaxFloat64, *v)
			f.Detail = strings.TrimSpace(f.Detail + " (a number overflowed)")
		}
	}
	if c.Kind != Probability {
		f.PValue = math.NaN()
	}
	if f.Verdict == Holds && f.blunt() {
		f.Verdict = NotContradicted
	}
	return f
}

// blunt says that the smallest fault noticed is more than ten times the claim. A claim on a probability of failures is
// judged by the rate that is noticed, any other with a bound by the factor.
func (f Finding) blunt() bool {
	if f.Power.Rate > 0 && f.Relation == AtMost {
		return f.Power.Rate > blunt*f.Bound
	}
	return f.Power.Factor > blunt
}

// Select returns the checks with one of the labels, all of them when there are none. A label that
// does not exist is an error with the nearest one.
func Select(labels []string) ([]Check, error) {
	if len(labels) == 0 {
		return Checks, nil
	}
	var out []Check
	for _, l := range labels {
		if !slices.ContainsFunc(Checks, func(c Check) bool { return c.Label == l }) {
			return nil, fmt.Errorf("no statement %q%s", l, spec.Suggest(l, Labels()))
		}
	}
	for _, c := range Checks {
		if slices.Contains(labels, c.Label) {
			out = append(out, c)
		}
	}
	return out, nil
}

// Labels returns the labels in the order of the list.
func Labels() []string {
	var out []string
	for _, c := range Checks {
		if !slices.Contains(out, c.Label) {
			out = append(out, c.Label)
		}
	}
	return out
}

// agree is the finding of an identity: the observed number is the largest deviation, the bound its
// tolerance.
func agree(deviation, tolerance float64, n int, format string, args ...any) Finding {
	v := Holds
	if !(deviation <= tolerance) {
		v = Refuted
	}
	return Finding{Verdict: v, Observed: deviation, Bound: tolerance, Relation: AtMost, Samples: n,
		Detail: fmt.Sprintf(format, args...)}
}

// tightest collects the cases lhs ≤ rhs of an inequality, rhs > 0, and keeps the one with the
// largest ratio.
type tightest struct {
	lhs, rhs float64
	at       string
	n, bad   int
}

// rounding is the relative excess that counts as rounding.
const rounding = 1e-9

// see records a case. at is evaluated only when the case is the tightest so far.
func (w *tightest) see(lhs, rhs float64, at func() string) {
	w.n++
	// !(…) so that a NaN is a violation.
	if !(lhs <= rhs*(1+rounding)) {
		w.bad++
	}
	if w.n == 1 || math.IsNaN(lhs) || lhs*w.rhs > w.lhs*rhs {
		w.lhs, w.rhs = lhs, rhs
		if at != nil {
			w.at = at()
		}
	}
}

func (w *tightest) finding(format string, args ...any) Finding {
	f := Finding{Verdict: Holds, Observed: w.lhs, Bound: w.rhs, Relation: AtMost, Samples: w.n,
		Detail: fmt.Sprintf(format, args...)}
	if w.lhs > 0 && w.rhs > 0 && w.bad == 0 {
		f.Power.Factor = w.rhs / w.lhs
		f.Power.Sharpest, f.Power.SharpestHigh = f.Power.Factor, f.Power.Factor
	}
	if w.n == 0 {
		f.Verdict = Vacuous
	}
	if w.bad > 0 {
		f.Verdict = Refuted
		f.Detail += fmt.Sprintf("; violated in %d of %d cases", w.bad, w.n)
	}
	if w.at != "" {
		f.Detail += "; tightest at " + w.at
	}
	return f
}

// require records a side condition that has no place in the ratio.
func (w *tightest) require(ok bool) {
	w.n++
	if !ok {
		w.bad++
	}
}

// level returns a horizontal guide over the x of the other curves.
func level(name string, y float64, others []Curve) Curve {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, c := range others {
		for _, x := range c.X {
			lo, hi = math.Min(lo, x), math.Max(hi, x)
		}
	}
	return Curve{Name: name, Guide: true, X: []float64{lo, hi}, Y: []float64{y, y}}
}

// atLeast turns the finding of bound ≤ observed into that of observed ≥ bound.
func (f Finding) atLeast() Finding {
	f.Observed, f.Bound, f.Relation = f.Bound, f.Observed, AtLeast
	return f
}

// excess collects the cases lhs ≤ rhs of an inequality whose sides have any sign, and keeps the
// largest (lhs − rhs)/scale, scale the size of the numbers that were subtracted. The bound is what
// counts as rounding.
type excess struct {
	top    float64
	at     string
	n, bad int
}

func (w *excess) see(lhs, rhs, scale float64, at func() string) {
	w.n++
	gap := (lhs - rhs) / scale
	if !(gap <= rounding) {
		w.bad++
	}
	if w.n == 1 || math.IsNaN(gap) || gap > w.top {
		w.top = gap
		if at != nil {
			w.at = at()
		}
	}
}

func (w *excess) finding(format string, args ...any) Finding {
	f := Finding{Verdict: Holds, Observed: w.top, Bound: rounding, Relation: AtMost, Samples: w.n,
		Detail: "left side minus right side, relative to their size: " + fmt.Sprintf(format, args...)}
	if w.n == 0 {
		f.Verdict = Vacuous
	}
	if w.bad > 0 {
		f.Verdict = Refuted
		f.Detail += fmt.Sprintf("; violated in %d of %d cases", w.bad, w.n)
	} else if w.n > 0 {
		f.Power.Shift = rounding - w.top
	}
	if w.at != "" {
		f.Detail += "; largest at " + w.at
	}
	return f
}

// chance is the finding of a probability check: k failures in n independent runs of an event whose
// probability is claimed to be at most q.
func chance(k, n int, q float64, format string, args ...any) Finding {
	f := Finding{
		Verdict: Holds, Observed: float64(k) / float64(n), Bound: q, Relation: AtMost, Samples: n,
		PValue: binomialTail(k, n, q), Detail: fmt.Sprintf(format, args...),
	}
	switch {
	case q >= 1:
		f.Verdict, f.PValue = Vacuous, 1
	case f.PValue <= Level:
		f.Verdict = Refuted
	default:
		f.Power.Rate = rateNoticed(n, q)
	}
	f.Detail = cmp.Or(f.Detail, "failures in independent runs")
	return f
}

// law is the finding of a test of a known law by n numbers in [0, 1] whose p-value is at most p; p is at most
// Hoeffding's bound or Massart's for the deviation seen.
func law(observed, claimed, p float64, n int, format string, args ...any) Finding {
	f := Finding{Verdict: Holds, Observed: observed, Bound: claimed, Relation: Equal, Samples: n,
		PValue: math.Min(1, p), Detail: fmt.Sprintf(format, args...)}
	if p <= Level {
		f.Verdict = Refuted
	} else {
		f.Power.Shift = shiftNoticed(n)
	}
	return f
}

// binomialTail returns P(Bin(n, q) ≥ k) = I_q(k, n−k+1).
func binomialTail(k, n int, q float64) float64 {
	switch {
	case k <= 0 || q >= 1:
		return 1
	case q <= 0:
		return 0
	}
	return mathext.RegIncBeta(float64(k), float64(n-k+1), q)
}

// normalTail returns P(N(0, 1) ≥ x).
func normalTail(x float64) float64 { return 0.5 * math.Erfc(x/math.Sqrt2) }

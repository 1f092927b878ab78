package ope

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/optimize"

	"troupe/logged"
)

// Fitted is a model of a logger whose propensities were not recorded: a multinomial logit over what was offered,
//
//	P(a|x) = exp(s(x, a))/Σ_b exp(s(x, b)),   s(x, a) = α_a + θ·z(x, a),
//
// z the vectors of the reward models (a block of coefficients for each action where the log has numbers of the context only),
// standardised, with a ridge penalty of ½‖·‖² on all coefficients. It is cross-fitted: the law of an event is that of the model
// of the other folds, and all events of a unit are in one fold. It says how the logger chose only where it chose by what is in the
// log (no hidden confounding) and where this model can say it.
type Fitted struct {
	Folds   int      `json:"folds"`
	Rows    int      `json:"rows"`   // events that were fitted: all, or evenly spaced ones
	Events  int      `json:"events"` // of the log
	Deciles []Decile `json:"deciles"`
	// Worst is the largest |z| of Deciles. Curved is the largest |z| of Σ (1{a} − p̂(a)) x², for each number x of the vectors (and each
	// action, where it has coefficients of its own): a logger that prefers an action where a number is far from its mean on both
	// sides shows there. Fits says that chance explains both, at 10⁻³ each by Bonferroni.
	Worst  float64 `json:"worst_z"`
	Curved float64 `json:"curved_z"`
	Fits   bool    `json:"fits"`
	Least  float64 `json:"least_propensity"` // of the actions that were played

	l      *layout
	models []*logit
	known  map[string]int // arm → intercept, in the order of the log
	share  []float64      // how often each was played, for events that the layout cannot read
}

// Decile compares a tenth of all estimated propensities, of all offered actions, with how often these actions were played.
type Decile struct {
	From     float64 `json:"from"`
	To       float64 `json:"to"`
	Mean     float64 `json:"mean"`
	Played   float64 `json:"played"`
	Z        float64 `json:"z"`
	Decision int     `json:"n"`
}

const (
	mostFitRows  = 100_000
	mostFitted   = 8_000_000 // numbers of the rows that are kept
	mostArms     = 1000
	thinOverlap  = 0.005 // an estimated propensity below it is no overlap
	mostThin     = 0.05  // share of what a target plays that may have none
	logitPenalty = 0.1
)

// fitRow is an event of the fit: its vectors (K rows of d, or one for blocks), the arms that were offered and the chosen one.
type fitRow struct {
	z      []float64
	arms   []int32
	chosen int
	fold   int
}

// blind is the law of a log that is read for the fit: any one.
type blind struct{ n int }

func (*blind) Name() string { return "an estimate" }

// Estimated marks a law that is an estimate (logged.Estimate).
func (*blind) Estimated() {}

func (b *blind) Law(dst []float64, e *logged.Event, q []float64) error {
	b.n++
	return Uniform{}.Law(dst, e, q)
}

// FitPropensities reads a log twice, without propensities: open gives it anew with the law of its reader. folds is at least 2.
//
// Cost: 5 fits of at most 100,000 events; memory 64 MB and less.
func FitPropensities(ctx context.Context, folds int, open func(logged.Logger) (Source, error)) (*Fitted, error) {
	f := &Fitted{Folds: folds, known: map[string]int{}}
	if folds < 2 {
		return nil, fmt.Errorf("%d folds, expected 2 at least", folds)
	}
	pass := func(each func(i int, ev *logged.Event) error) error {
		law := &blind{}
		src, err := open(law)
		if err != nil {
			return err
		}
		if c, ok := src.(io.Closer); ok {
			defer c.Close()
		}
		var ev logged.Event
		for n := 0; ; n++ {
			if err := src.Read(&ev); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if n%1024 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if err := each(law.n-1, &ev); err != nil {
				return err
			}
		}
	}
	var first []*logged.Event
	enough := errors.New("enough")
	err := pass(func(_ int, ev *logged.Event) error {
		if len(ev.Slots) > 0 {
			return errors.New("--propensities estimate: lists of slots have none")
		}
		if first = append(first, ev.Clone()); len(first) == firstFit {
			return enough
		}
		return nil
	})
	if err != nil && !errors.Is(err, enough) {
		return nil, err
	}
	if len(first) < firstFit {
		return nil, fmt.Errorf("--propensities estimate: %d events, expected %d at least", len(first), firstFit)
	}
	if f.l, err = newLayout(first); err != nil {
		return nil, err
	}
	rows, err := f.rows(pass)
	if err != nil {
		return nil, err
	}
	for fold := range folds {
		var others []*fitRow
		for i := range rows {
			if rows[i].fold != fold {
				others = append(others, &rows[i])
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		m, err := fitLogit(f.l, others, len(f.known))
		if err != nil {
			return nil, err
		}
		f.models = append(f.models, m)
	}
	f.calibrate(rows)
	return f, nil
}

// rows reads the events of the fit: every one, and every other one of these each time that they are too many.
func (f *Fitted) rows(pass func(func(int, *logged.Event) error) error) (rows []fitRow, err error) {
	var s scratch
	every, size := 1, 0
	err = pass(func(at int, ev *logged.Event) error {
		f.Events++
		arms := make([]int32, ev.K)
		for i := range arms {
			k, ok := f.known[idOf(ev, i)]
			if !ok {
				if k = len(f.known); k == mostArms {
					return fmt.Errorf("--propensities estimate: more than %d actions", mostArms)
				}
				f.known[idOf(ev, i)] = k
				f.share = append(f.share, 0)
			}
			arms[i] = int32(k)
		}
		f.share[arms[ev.Chosen]]++
		if (f.Events-1)%every != 0 {
			return nil
		}
		z := f.l.vectors(ev, &s)
		if z == nil {
			return nil
		}
		rows = append(rows, fitRow{slices.Clone(z), arms, ev.Chosen, f.fold(at, ev)})
		if size += len(z) + len(arms); len(rows) <= mostFitRows && size <= mostFitted {
			return nil
		}
		kept := rows[:0]
		size, every = 0, 2*every
		for i := range rows {
			if i%2 == 0 {
				kept = append(kept, rows[i])
				size += len(rows[i].z) + len(rows[i].arms)
			}
		}
		rows = kept
		return nil
	})
	if err == nil && len(rows) < firstFit/2 {
		err = errors.New("--propensities estimate: the features of most events cannot be read")
	}
	for k := range f.share {
		f.share[k] = (f.share[k] + 1) / float64(f.Events+len(f.share))
	}
	f.Rows = len(rows)
	return rows, err
}

// fold is that of a unit, or of the event with that number in the file.
func (f *Fitted) fold(at int, ev *logged.Event) int {
	h := hashUnit(ev.Unit)
	if ev.Unit == "" {
		h = hashUnit(fmt.Sprint(at))
	}
	return int(h % uint64(f.Folds))
}

// logit is a fitted multinomial logit.
type logit struct {
	blocks      bool
	d, arms     int
	theta       []float64 // α of each arm, then θ, or a block of d for each arm
	centre, one []float64 // of z: the mean, and one over the standard deviation
}

// fitLogit maximises the penalised likelihood by L-BFGS.
func fitLogit(l *layout, rows []*fitRow, arms int) (*logit, error) {
	m := &logit{blocks: l.blocks, d: l.d, arms: arms}
	m.scale(rows)
	size := arms + l.d
	if l.blocks {
		size = arms * (1 + l.d)
	}
	m.theta = make([]float64, size)
	var p []float64
	loss := func(theta, grad []float64) float64 {
		m := *m
		m.theta = theta
		sum := 0.0
		for i, t := range theta {
			sum += logitPenalty * t * t / 2
			if grad != nil {
				grad[i] = logitPenalty * t
			}
		}
		for _, r := range rows {
			p = m.law(sized(p, len(r.arms)), r.z, r.arms)
			sum -= math.Log(max(p[r.chosen], 1e-300))
			if grad == nil {
				continue
			}
			for k, a := range r.arms {
				g := p[k]
				if k == r.chosen {
					g--
				}
				grad[a] += g
				z, to := r.z, grad[m.arms:]
				if m.blocks {
					to = grad[m.arms+int(a)*m.d:]
				} else {
					z = r.z[k*m.d : (k+1)*m.d]
				}
				for i, x := range z {
					to[i] += float64(g * (float64((x - m.centre[i]) * m.one[i])))
				}
			}
		}
		return sum
	}
	problem := optimize.Problem{Func: func(x []float64) float64 { return loss(x, nil) },
		Grad: func(grad, x []float64) { loss(x, grad) }}
	out, err := optimize.Minimize(problem, m.theta, &optimize.Settings{MajorIterations: 200, GradientThreshold: 1e-4 * math.Sqrt(float64(len(rows))),
		Converger: &optimize.FunctionConverge{Relative: 1e-9, Iterations: 5}}, &optimize.LBFGS{})
	if out == nil || out.X == nil {
		return nil, fmt.Errorf("--propensities estimate: the fit failed: %w", err)
	}
	m.theta = out.X
	return m, nil
}

// scale takes mean and standard deviation of the vectors.
func (m *logit) scale(rows []*fitRow) {
	m.centre, m.one = make([]float64, m.d), make([]float64, m.d)
	n := 0.0
	square := make([]float64, m.d)
	for _, r := range rows {
		for at := 0; at < len(r.z); at += m.d {
			n++
			for i, x := range r.z[at : at+m.d] {
				m.centre[i] += x
				square[i] += x * x
			}
		}
	}
	for i := range square {
		m.centre[i] /= n
		if v := square[i]/n - m.centre[i]*m.centre[i]; v > 1e-12*square[i]/n {
			m.one[i] = 1 / math.Sqrt(v)
		}
	}
}

// law stores the probabilities of the arms that were offered in dst.
func (m *logit) law(dst, z []float64, arms []int32) []float64 {
	most := math.Inf(-1)
	for k, a := range arms {
		s, x, theta := 0.0, z, m.theta[m.arms:]
		if int(a) < m.arms {
			s = m.theta[a]
		}
		switch {
		case !m.blocks:
			x = z[k*m.d : (k+1)*m.d]
		case int(a) < m.arms:
			theta = theta[int(a)*m.d:]
		default:
			x = nil
		}
		for i, v := range x {
			s += float64(theta[i] * float64((v-m.centre[i])*m.one[i]))
		}
		dst[k] = s
		most = max(most, s)
	}
	sum := 0.0
	for k := range dst {
		dst[k] = math.Exp(dst[k] - most)
		sum += dst[k]
	}
	for k := range dst {
		dst[k] /= sum
	}
	return dst
}

// calibrate compares the cross-fitted propensities of all offered actions with what was played.
func (f *Fitted) calibrate(rows []fitRow) {
	type pair struct {
		p      float64
		played bool
	}
	var all []pair
	var p []float64
	f.Least = 1
	for i := range rows {
		r := &rows[i]
		p = f.models[r.fold].law(sized(p, len(r.arms)), r.z, r.arms)
		for k, v := range p {
			all = append(all, pair{v, k == r.chosen})
		}
		f.Least = min(f.Least, p[r.chosen])
	}
	sort.Slice(all, func(i, j int) bool { return all[i].p < all[j].p })
	for j := range 10 {
		part := all[j*len(all)/10 : (j+1)*len(all)/10]
		if len(part) == 0 {
			continue
		}
		d := Decile{From: part[0].p, To: part[len(part)-1].p, Decision: len(part)}
		variance := 0.0
		for _, x := range part {
			d.Mean += x.p / float64(len(part))
			d.Played += b2f(x.played) / float64(len(part))
			variance += x.p * (1 - x.p)
		}
		if variance > 0 {
			d.Z = (d.Played - d.Mean) * float64(len(part)) / math.Sqrt(variance)
		}
		f.Worst = max(f.Worst, math.Abs(d.Z))
		f.Deciles = append(f.Deciles, d)
	}
	var tests int
	f.Curved, tests = f.curved(rows)
	f.Fits = f.Worst < normalQuantile(1-1e-3/20) && (tests == 0 || f.Curved < normalQuantile(1-1e-3/float64(2*tests)))
}

// curved is the largest |z| of the squares, and of how many it is.
func (f *Fitted) curved(rows []fitRow) (worst float64, tests int) {
	m, d := f.models[0], f.l.d
	groups := 1
	if f.l.blocks {
		groups = len(f.known)
	}
	sum, variance := make([]float64, groups*d), make([]float64, groups*d)
	var p []float64
	for i := range rows {
		r := &rows[i]
		p = f.models[r.fold].law(sized(p, len(r.arms)), r.z, r.arms)
		for k, v := range p {
			z, at := r.z, 0
			if f.l.blocks {
				at = int(r.arms[k]) * d
			} else {
				z = r.z[k*d : (k+1)*d]
			}
			for j, x := range z {
				x = (x - m.centre[j]) * m.one[j]
				x = min(x*x-1, 9) // one value that is far from all others is not the form
				sum[at+j] += x * (b2f(k == r.chosen) - v)
				variance[at+j] += x * x * v * (1 - v)
			}
		}
	}
	for i, v := range variance {
		if m.one[i%d] > 0 && v > 25 { // fewer say nothing
			tests++
			worst = max(worst, math.Abs(sum[i])/math.Sqrt(v))
		}
	}
	return worst, tests
}

func b2f(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// Logger returns the law of each event for one reading of the log from its beginning.
func (f *Fitted) Logger() logged.Logger { return &fittedLaw{f: f} }

// fittedLaw counts the events, which fold they are in.
type fittedLaw struct {
	f    *Fitted
	n    int
	s    scratch
	arms []int32
}

func (l *fittedLaw) Name() string { return "an estimate" }

// Estimated marks a law that is an estimate (logged.Estimate).
func (*fittedLaw) Estimated() {}

func (l *fittedLaw) Law(dst []float64, e *logged.Event, _ []float64) error {
	fold := l.f.fold(l.n, e)
	l.n++
	l.arms = l.arms[:0]
	for i := range e.K {
		k, ok := l.f.known[idOf(e, i)]
		if !ok {
			k = math.MaxInt32
		}
		l.arms = append(l.arms, int32(k))
	}
	if z := l.f.l.vectors(e, &l.s); z != nil {
		l.f.models[fold].law(dst, z, l.arms)
		return nil
	}
	sum := 0.0
	for i, a := range l.arms {
		dst[i] = 1 / float64(l.f.Events)
		if int(a) < len(l.f.share) {
			dst[i] = l.f.share[a]
		}
		sum += dst[i]
	}
	for i := range dst {
		dst[i] /= sum
	}
	return nil
}

// NoSequence is why estimated propensities have no interval that holds.
const NoSequence = "the propensities are estimated, and an interval that holds needs true ones"

// ifChosen is what a verdict from estimated propensities rests on.
const ifChosen = ", if the logger chose by what is in the log"

// estimatedDoubt is why normal intervals from estimated propensities stand in brackets, "" where nothing speaks against them.
func (e *evidence) estimatedDoubt() string {
	f := e.p.o.Estimated
	if f == nil || f.Fits {
		return ""
	}
	if f.Curved > f.Worst {
		return fmt.Sprintf("the estimated propensities are not those of the logger: where a number is far from its mean an action comes %s "+
			"standard errors off", short(f.Curved))
	}
	return fmt.Sprintf("the estimated propensities are not those of the logger: in a tenth of them actions come %s standard errors off", short(f.Worst))
}

// thin notes what a target plays where the logger hardly did.
func (w *worker) thin(ta *targetSums, ev *logged.Event) {
	for k, p := range ev.Law {
		if p < thinOverlap {
			ta.thin += w.pe[k]
		}
	}
	if len(ta.sens) < mostStored && !ev.BadReward {
		ta.sens = append(ta.sens, sensTerm{w.x.pe, ev.Propensity, ev.Reward})
	}
}

// noOverlap says why estimated propensities say nothing about a target, "" where they may.
func (e *evidence) noOverlap(ta *targetSums, actions []ActionSeen) string {
	if e.p.o.Estimated == nil {
		return ""
	}
	for k := range ta.played {
		if ta.played[k] > 1e-9*float64(e.total.n) && (k >= len(e.total.actions) || e.total.actions[k].played == 0) {
			name := fmt.Sprint(k)
			if k < len(actions) {
				name = actions[k].Name
			}
			return fmt.Sprintf("no overlap: the logger never played %s, which the target plays with probability %s", name,
				short(ta.played[k]/float64(e.total.n)))
		}
	}
	if share := ta.thin / float64(e.total.n); share > mostThin {
		return fmt.Sprintf("no overlap: %s of what the target plays has an estimated propensity below %g", percent(100*share), thinOverlap)
	}
	return ""
}

// sensTerm is π_e(a), the estimated propensity and the reward of an event.
type sensTerm struct{ pe, p, r float64 }

// Sensitivity says how strong hidden confounding must be to turn the sign of a difference.
type Sensitivity struct {
	// Gamma is the smallest Γ ≥ 1 in the marginal sensitivity model (Tan 2006; Zhao, Small and Bhattacharya 2019) with which the
	// self-normalised value of the target may be that of what ran: the odds of an action given everything, also what the log does
	// not have, are between 1/Γ and Γ times those of the model. nil beyond 1000.
	Gamma *float64 `json:"gamma"`
	Model string   `json:"model"`
}

const mostGamma = 1000

// sensitivity finds Γ. The weights π_e(a)(1 + λ(1/p − 1)), λ in [1/Γ, Γ], that make Σ w r/Σ w as small or as large as possible
// have λ = Γ on one side of a threshold of the rewards and 1/Γ on the other.
func (e *evidence) sensitivity(ta *targetSums) *Sensitivity {
	terms := ta.sens
	if len(terms) == 0 || len(terms) >= mostStored {
		return nil
	}
	terms = slices.Clone(terms)
	sort.Slice(terms, func(i, j int) bool { return terms[i].r < terms[j].r })
	logged := ta.m.mean(vR)
	value := func(gamma float64, most bool) float64 {
		low, high := 1/gamma, gamma
		if !most {
			low, high = high, low
		}
		// All below the threshold have low, and the threshold moves up one by one.
		var wr, w float64
		weight := func(x *sensTerm, lambda float64) float64 { return x.pe * (1 + lambda*(1/x.p-1)) }
		for i := range terms {
			v := weight(&terms[i], high)
			wr, w = wr+v*terms[i].r, w+v
		}
		best := wr / w
		for i := range terms {
			d := weight(&terms[i], low) - weight(&terms[i], high)
			wr, w = wr+d*terms[i].r, w+d
			if v := wr / w; most && v > best || !most && v < best {
				best = v
			}
		}
		return best
	}
	out := &Sensitivity{Model: "marginal sensitivity model (Tan 2006; Zhao, Small and Bhattacharya 2019), of the self-normalised value"}
	better := value(1, true) > logged
	turned := func(gamma float64) bool { return value(gamma, true) >= logged }
	if better {
		turned = func(gamma float64) bool { return value(gamma, false) <= logged }
	}
	if !turned(mostGamma) {
		return out
	}
	lo, hi := 1.0, float64(mostGamma)
	for range 40 {
		if m := math.Sqrt(lo * hi); turned(m) {
			hi = m
		} else {
			lo = m
		}
	}
	out.Gamma = &hi
	return out
}

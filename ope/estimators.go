package ope

import (
	"math"
	"slices"
)

// estimator is one row of the table of docs/design/ope.md: the mean of a term of each event.
type estimator struct {
	key       string
	parameter string    // "" when there is none
	grid      []float64 // for SLOPE++, from the largest bias to the smallest
	fixed     float64   // the parameter that is used where nothing chooses
	term      func(x *row, p float64) float64
	needs     need
	scaled    bool // works on r' = (r − min)/(max − min)
	shrinks   bool // leans on q, so it is nothing where q is 0 for want of a fit
	doc       string
}

// need says what an estimator cannot do without.
type need uint8

const (
	needsQ need = 1 << iota
	needsGroups
	needsLaw
)

// powers are 2⁻³ … 2¹⁰.
func powers(lo, hi int) (out []float64) {
	for j := lo; j <= hi; j++ {
		out = append(out, math.Ldexp(1, j))
	}
	return out
}

var falling = []float64{0.5, 0.25, 0.125, 0.0625, 0}

// means are the estimators that are a mean of terms and have nothing else to keep.
var means = []estimator{
	// ips-clip: mean[min(w, λ) r] (Ionides 2008). Biased downward for rewards ≥ 0 by what is clipped.
	{key: "ips-clip", parameter: "lambda", grid: powers(0, 10), fixed: 4,
		term: func(x *row, p float64) float64 { return min(x.w, p) * x.r },
		doc:  "clipped weights; biased downward by what is clipped"},
	// switch-dr: mean[DM + w 1{w ≤ λ}(r − q)] (Wang, Agarwal, Dudík 2017). Biased by the model's error where w > λ.
	{key: "switch-dr", parameter: "lambda", grid: powers(0, 10), fixed: 4, shrinks: true, needs: needsQ,
		term: func(x *row, p float64) float64 {
			if x.w <= p {
				return x.dm + float64(x.w*x.e)
			}
			return x.dm
		}, doc: "doubly robust where w ≤ λ, the model elsewhere"},
	// dros: mean[DM + λw/(w² + λ)(r − q)] (Su et al. 2020). Biased by the model's error where w is large.
	{key: "dros", parameter: "lambda", grid: []float64{1, 4, 16, 64, 256}, fixed: 16, shrinks: true, needs: needsQ,
		term: func(x *row, p float64) float64 {
			return x.dm + float64(p*x.w/(float64(x.w*x.w)+p)*x.e)
		}, doc: "doubly robust with optimistic shrinkage"},
	// sg-ips: mean[w/(1 − λ + λw) r] (Metelli, Russo, Restelli 2021). Biased towards the logger.
	{key: "sg-ips", parameter: "lambda", grid: falling, fixed: 0.125, term: func(x *row, p float64) float64 {
		return x.w / (1 - p + float64(p*x.w)) * x.r
	}, doc: "subgaussian weights; biased towards the logger"},
	// sg-dr: mean[DM + w/(1 − λ + λw)(r − q)], likewise.
	{key: "sg-dr", parameter: "lambda", grid: falling, fixed: 0.125, shrinks: true, needs: needsQ,
		term: func(x *row, p float64) float64 {
			return x.dm + float64(x.w/(1-p+float64(p*x.w))*x.e)
		}, doc: "doubly robust with subgaussian weights"},
	// es: mean[π_e(a)/p^α r] (exponential smoothing; Aouali et al. 2023). Biased downward.
	{key: "es", parameter: "alpha", grid: []float64{0.5, 0.7, 0.8, 0.9, 1}, fixed: 0.5, scaled: true,
		term: func(x *row, p float64) float64 {
			d := math.Pow(x.p, p)
			if p == 0.5 {
				d = math.Sqrt(x.p)
			}
			return x.pe / d * x.r01
		}, doc: "exponential smoothing; biased downward"},
	// ix: mean[π_e(a)/(p + γ) r] (implicit exploration; Gabbianelli, Neu, Papini 2024). Biased downward; lower is a
	// bound with probability 1 − δ: ix − log(1/δ)/(2γn).
	{key: "ix", parameter: "gamma", grid: []float64{0.5, 0.25, 0.125, 0.0625, 0.03125}, fixed: 0.125, scaled: true,
		term: func(x *row, p float64) float64 {
			return x.pe / (x.p + p) * x.r01
		}, doc: "implicit exploration, with a one-sided bound"},
	// ls: mean[log(1 + λwr)]/λ (logarithmic smoothing; Sakhi et al. 2024). Biased downward; lower is
	// (exp(λ ls − log(1/δ)/n) − 1)/λ.
	{key: "ls", parameter: "lambda", grid: []float64{1, 0.5, 0.25, 0.125, 0.0625}, fixed: 0.25, scaled: true,
		term: func(x *row, p float64) float64 {
			return math.Log1p(p*x.w*x.r01) / p
		}, doc: "logarithmic smoothing, with a one-sided bound"},
	// mips: mean[w_g r] (Saito & Joachims 2022). Biased where actions of a group differ in reward.
	{key: "mips", needs: needsGroups | needsLaw, term: func(x *row, _ float64) float64 { return x.wg * x.r },
		doc: "weights of groups of actions"},
	// offcem: mean[DM + w_g(r − q)] (Saito, Ren, Joachims 2023). Biased where q misses differences within a group.
	{key: "offcem", needs: needsGroups | needsLaw | needsQ, term: func(x *row, _ float64) float64 {
		return x.dm +
			float64(x.wg*x.e)
	},
		doc: "weights of groups, the model within them"},
	// mrdr: mean[DM + w(r − q)] with a q of its own, fitted with weights π_e(a)²(1 − p)/p² (Farajtabar et al. 2018).
	{key: "mrdr", needs: needsQ, term: func(x *row, _ float64) float64 { return x.mrdm + float64(x.w*x.mre) },
		doc: "doubly robust with a model fitted for small variance"},
}

// modelled reports whether an estimator uses the reward model of the options.
func modelled(key string) bool {
	if slices.Contains([]string{"dm", "dr", "sndr", "dr-stable", "bootstrap", "dr-marginal"}, key) {
		return true
	}
	i := slices.IndexFunc(means, func(e estimator) bool { return e.key == key })
	return i >= 0 && means[i].needs&needsQ != 0
}

// Keys lists the estimators in the order in which they are printed.
func Keys() []string {
	out := []string{"logged", "replay", "ips", "ips-clip", "snips", "cv", "el", "dm", "dr", "sndr"}
	for _, e := range means[1:] {
		out = append(out, e.key)
	}
	return append(out, "dr-stable", "bootstrap")
}

// ListKeys lists the estimators for lists of slots.
func ListKeys() []string {
	return []string{"logged", "sips", "rips", "cascade-dr", "iips", "pbm", "pi", "conditional"}
}

// Defaults are the estimators of troupe evaluate with nothing set.
var Defaults = []string{"logged", "ips", "snips", "dm", "dr"}

// Parameter describes a parameter that --set and --grid may name.
type Parameter struct {
	Estimator, Name string
	Value           float64
	Grid            []float64
}

// Parameters lists the parameters of all estimators.
func Parameters() (out []Parameter) {
	for _, e := range means {
		if e.parameter != "" {
			out = append(out, Parameter{e.key, e.parameter, e.fixed, slices.Clone(e.grid)})
		}
	}
	return out
}

// tally is the sums of one estimator with one parameter: Σ v t, Σ v² t, Σ v² t².
type tally struct {
	parameter        float64
	first, one, pair sum
	e                *estimator
}

func (t *tally) add(v float64, x *row) {
	f := t.e.term(x, t.parameter)
	if v == 1 {
		t.first.add(f)
		t.one.add(f)
		t.pair.product(f, f)
		return
	}
	vf := v * f
	t.first.product(v, f)
	t.one.product(v, vf)
	t.pair.product(vf, vf)
}

func (t *tally) merge(o *tally) {
	t.first.merge(o.first)
	t.one.merge(o.one)
	t.pair.merge(o.pair)
}

// estimate returns mean[t] and its standard error.
func (t *tally) estimate(m *moments) (value, se float64) {
	n, N := float64(m.n), m.presented()
	value = t.first.value() / N
	var s sum
	s.merge(t.pair)
	s.merge(t.one.scaled(-2 * value))
	s.merge(m.second(vOne, vOne).scaled(value).scaled(value))
	return value, math.Sqrt(n/(n-1)*max(s.value(), 0)) / N
}

// plainEstimate returns value and standard error of an estimator that comes from the moments; ok is false for
// others. The standard errors are those of the linearised estimators (delta method).
func (m *moments) plainEstimate(key string) (value, se, beta float64, ok bool) {
	var c [variables]float64
	mean := m.mean
	switch key {
	case "logged": // mean[r]
		value, c[vR], c[vOne] = mean(vR), 1, -mean(vR)
	case "ips": // mean[w r]; unbiased under full support (Horvitz & Thompson 1952)
		value, c[vWR], c[vOne] = mean(vWR), 1, -mean(vWR)
	case "dm": // mean[DM] over the events with a prediction; as biased as the model
		value, se = m.direct()
		return value, se, 0, true
	case "dr": // mean[DM + w(r − q)]; unbiased under full support (Dudík, Langford, Li 2011)
		value = (m.first[vDM].value() + m.first[vWE].value()) / m.presented()
		c[vDM], c[vWE], c[vOne] = 1, 1, -value
	case "snips": // Σ v w r/Σ v w; biased by O(1/n) (Swaminathan & Joachims 2015); ψ = w(r − V)/mean[w]
		w := mean(vW)
		value = mean(vWR) / w
		c[vWR], c[vW] = 1/w, -value/w
	case "cv": // mean[w r] − β(mean[w] − 1), the control variate of Owen 2013, ch. 8
		ip, w, N := mean(vWR), mean(vW), m.presented()
		cov, variance := m.wrw.value()/N-ip*w, m.ww.value()/N-w*w
		if variance > 0 {
			beta = cov / variance
		}
		value = ip - beta*(w-1)
		c[vWR], c[vW], c[vOne] = 1, -beta, beta*w-ip
	case "sndr": // mean[DM] + Σ v w(r − q)/Σ v w
		w, d := mean(vW), mean(vDM)
		corr := mean(vWE) / w
		value = d + corr
		c[vDM], c[vWE], c[vW], c[vOne] = 1, 1/w, -corr/w, -d
	case "uplift": // mean[DM + w(r − q) − b], paired on the same events
		value = (m.first[vDM].value() + m.first[vWE].value() - m.first[vBase].value()) / m.presented()
		c[vDM], c[vWE], c[vBase], c[vOne] = 1, 1, -1, -value
	case "uplift-ips": // mean[(w − 1) r]: without the logger's law
		value = (m.first[vWR].value() - m.first[vR].value()) / m.presented()
		c[vWR], c[vR], c[vOne] = 1, -1, -value
	default:
		return 0, 0, 0, false
	}
	return value, m.se(&c), beta, true
}

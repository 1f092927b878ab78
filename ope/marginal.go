package ope

import (
	"math"

	"troupe/logged"
)

// marginal estimates under the law of a decision without the members that were drawn for it (key = "decision"). The
// recorded law is conditional on 2m models, so that most actions have probability 0 or that of the floor; averaged over
// the models they have more. That average p has no closed form. N fresh draws of the same decision, of which c take the
// action, give
//
//	ŵ = π_e(a)(N + 1)/(c + 1),   E[ŵ | a] = w(1 − (1 − p)^{N+1}) ≤ w = π_e(a)/p,
//
// so ŵ may stand in every sequence in place of w (a plug-in estimate π_e(a)N/c may not: its mean is above w). With M
// further draws a′
//
//	φ(k) = ŵ r − min(ŵ q(a), k) + mean over a′ of min(ŵ(a′) q(a′), k) ≥ −k
//
// has a mean of at most V, because a and a′ have one law given the counts. Only right where the members of a decision
// are independent of everything before it.
type marginal struct {
	n, without           int // events; those without redraws, whose ŵ is π_e(a) ≤ w
	draws                int // N of the events, 0 where they differ
	ips, dr              mean
	seqIPS, seqDR, seqUp twoSided
	w1, w2, wr1, wr2     sum
	wMax                 float64
	noLaw                int
}

// mean is the sums of terms with one weight.
type mean struct {
	n           int
	first, pair sum
}

func (m *mean) add(x float64) {
	m.n++
	m.first.add(x)
	m.pair.product(x, x)
}

func (m *mean) merge(o *mean) {
	m.n += o.n
	m.first.merge(o.first)
	m.pair.merge(o.pair)
}

// estimate is the mean and its standard error.
func (m *mean) estimate() (value, se float64) {
	n := float64(m.n)
	value = m.first.value() / n
	s := m.pair
	s.merge(m.first.scaled(-value))
	return value, math.Sqrt(max(s.value(), 0) / (n - 1) / n)
}

func newMarginal() *marginal {
	var shift []float64
	for _, k := range clips {
		shift = append(shift, k+2)
	}
	return &marginal{seqIPS: newTwoSided(0), seqDR: newTwoSided(clips[:]...), seqUp: newTwoSided(shift...)}
}

func (m *marginal) merge(o *marginal) {
	if m.n == 0 {
		m.draws = o.draws
	} else if m.draws != o.draws {
		m.draws = 0
	}
	m.n, m.without, m.noLaw = m.n+o.n, m.without+o.without, m.noLaw+o.noLaw
	m.ips.merge(&o.ips)
	m.dr.merge(&o.dr)
	m.seqIPS.merge(&o.seqIPS)
	m.seqDR.merge(&o.seqDR)
	m.seqUp.merge(&o.seqUp)
	for _, s := range []struct{ a, b *sum }{{&m.w1, &o.w1}, {&m.w2, &o.w2}, {&m.wr1, &o.wr1}, {&m.wr2, &o.wr2}} {
		s.a.merge(*s.b)
	}
	m.wMax = max(m.wMax, o.wMax)
}

// weightOf is ŵ of an action.
func weightOf(pe float64, r *logged.Redraws, a int) float64 {
	if r == nil { // as if all draws had taken it
		return pe
	}
	return pe * float64(r.N+1) / float64(r.Counts[a]+1)
}

// marginal adds an event. clipped has run: b is known.
func (w *worker) marginal(m *marginal, ev *logged.Event) {
	r, c := ev.Redraws, ev.Chosen
	m.n++
	if r == nil {
		m.without++
	} else if m.draws == 0 {
		m.draws = r.N
	}
	wt := weightOf(w.pe[c], r, c)
	m.w1.add(wt)
	m.w2.product(wt, wt)
	m.wMax = max(m.wMax, wt)
	lower, upper := 0.0, 0.0 // r' and 1 − r'; the worse of either for a damaged reward
	if !ev.BadReward {
		lower = (ev.Reward - w.p.min) / w.p.scale
		upper = 1 - lower
	}
	var lo, up [len(clips)]float64
	for k := range clips {
		lo[k], up[k] = float64(wt*lower), float64(wt*upper)
	}
	if !w.again {
		m.seqIPS.lower.add(lo[:1])
		m.seqIPS.upper.add(up[:1])
	}
	further := 0.0 // Σ ŵ(a′) q(a′) on the scale of the rewards
	if r != nil && len(r.Further) > 0 {
		clip := func(q float64) float64 { return w.p.clip((q - w.p.min) / w.p.scale) }
		q := clip(w.q[c])
		for k := 1; k < len(clips); k++ {
			lo[k] -= min(float64(wt*q), clips[k])
			up[k] -= min(float64(wt*(1-q)), clips[k])
		}
		share := 1 / float64(len(r.Further))
		for _, a := range r.Further {
			wa, qa := weightOf(w.pe[a], r, int(a)), clip(w.q[a])
			further += float64(float64(wa*w.q[a]) * share)
			for k := 1; k < len(clips); k++ {
				lo[k] += float64(min(float64(wa*qa), clips[k]) * share)
				up[k] += float64(min(float64(wa*(1-qa)), clips[k]) * share)
			}
		}
	}
	if !w.again {
		m.seqDR.lower.add(lo[:])
		m.seqDR.upper.add(up[:])
	}
	if ev.Law == nil {
		m.noLaw++
	} else if !w.again {
		for k := range clips {
			lo[k] -= w.x.b01
			up[k] -= w.x.b01r
		}
		m.seqUp.lower.add(lo[:])
		m.seqUp.upper.add(up[:])
	}
	if ev.BadReward {
		return
	}
	wr := float64(wt * ev.Reward)
	m.wr1.add(math.Abs(wr))
	m.wr2.product(wr, wr)
	m.ips.add(wr)
	if r == nil || len(r.Further) == 0 {
		m.dr.add(wr)
	} else {
		m.dr.add(float64(wt*(ev.Reward-w.q[c])) + further)
	}
}

// MarginalDiagnostics are the weights under the law without the members of a decision.
type MarginalDiagnostics struct {
	Redraws     int     `json:"redraws"` // N of every decision
	ESS         float64 `json:"ess"`
	ESSRewarded float64 `json:"ess_rewarded"`
	WeightMean  float64 `json:"weight_mean"`
	WeightMax   float64 `json:"weight_max"`
	Without     int     `json:"without"` // decisions that could not be drawn anew: their weight is π_e(a)
}

func (m *marginal) diagnostics() *MarginalDiagnostics {
	d := &MarginalDiagnostics{Redraws: m.draws, WeightMean: m.w1.value() / float64(max(m.n, 1)), WeightMax: m.wMax,
		Without: m.without}
	if s := m.w2.value(); s > 0 {
		d.ESS = m.w1.value() * m.w1.value() / s
	}
	if s := m.wr2.value(); s > 0 {
		d.ESSRewarded = m.wr1.value() * m.wr1.value() / s
	}
	return d
}

// marginalKeys are the rows that Options.Marginal adds.
var marginalKeys = []string{"ips-marginal", "dr-marginal"}

// marginalWhy is what those rows rest on.
const marginalWhy = "the law without the members of a decision, from redraws: weights are at most the true ones, so " +
	"the value is biased towards 0 by actions that the redraws hardly take; no normal interval"

// marginalEstimate makes one of those rows.
func (e *evaluation) marginalEstimate(m *marginal, key string, out *Estimate, why func(string), sequence func(*twoSided)) {
	terms, seq := &m.ips, &m.seqIPS
	if key == "dr-marginal" {
		terms, seq = &m.dr, &m.seqDR
		if e.p.o.Q == "none" {
			why("there is no reward model (--q)")
			return
		}
	}
	v, se := terms.estimate()
	out.Value, out.SE = real(v), real(se)
	why(marginalWhy)
	if key == "dr-marginal" && e.sums.cross != nil {
		why("no sequence: " + crossReason)
		return
	}
	sequence(seq)
}

package ope

import (
	"math"
	"slices"
	"time"

	"troupe/logged"
	"troupe/rng"
)

// bins of the histogram of weights: half powers of two around 1, and one for 0.
const (
	weightBins = 128
	binOfOne   = 64
)

// replicates of the bootstrap.
const replicates = 200

// accumulator is what a stretch of the log adds up to. Accumulators of consecutive blocks are merged in order.
type accumulator struct {
	n, noLaw, dropped, damaged int
	noGroup                    int
	again                      int // events of a unit that had one before
	even                       int // events without a law whose propensity is 1/K
	kMin, kMax                 int
	slots, slotsMin, slotsAll  int
	vMost                      float64    // the largest weight of an event that stands for dropped ones too
	powers                     [4]float64 // Σ r'^j, j = 1 … 4, of rewards that are not damaged
	first, last                time.Time
	actions                    []actionSums
	logger                     moments // without a target
	loggerUnits                *units
	targets                    []targetSums
	pairs                      []duel
	kept                       [][]sides  // of each target, while the references are not chosen
	near                       []likeness // of every two targets then, in the order of everyPair
	keep                       bool
	segments                   map[string]*segmentSums
	model                      sums
	listQ                      listModel
	mr                         []sums
}

// actionSums is what the log says of the action with one index.
type actionSums struct {
	name               string
	played             int
	r, rr              float64
	diff, variance, pb float64 // Σ v(1{a} − π_b), Σ v² π_b(1 − π_b), Σ v π_b
}

// targetSums is what adds up for one target.
type targetSums struct {
	m                      moments
	units                  *units  // nil: no event has one
	single                 moments // of events, at the end
	tallies                []tally
	ips, dr, uplift, plain twoSided
	weights                *capital // of w, whose mean is at most 1
	like                   likeness // to the logger, of the events that the sequences take
	unlike                 bool     // one of the others tells it from the logger
	w1, w2, wr1, wr2       sum      // Σ v w, Σ (v w)², Σ |v w r|, Σ (v w r)²
	v                      sum
	wMax                   float64
	heaviest               Heaviest
	second, third          float64 // Σ Σ_a π_e^j/p^(j−1), j = 2, 3; without a law Σ Σ_a π_e^j
	least                  float64 // the smallest propensity, where laws are not known
	wZero, seen            int
	hist                   [weightBins]int
	unsupported            sum
	pe                     []float64 // Σ v π_e by index, without a law
	tops                   [10]float64
	matched                int
	random                 bool
	replay, replayV        sum
	w, wr, phi             []float64
	boot                   []bootSums
	lists                  *listSums // nil: of single decisions
	basis                  int       // the estimator of lists that the difference is of
	marginal               *marginal // nil: not asked for
	// With AtEnd: what the events of a block leave, and what adds it up.
	terms []endTerms
	// With Estimated: Σ π_e of actions of small propensity, Σ π_e by index, and what a sensitivity needs.
	thin   float64
	played []float64
	sens   []sensTerm
	end    *endSums
}

type bootSums struct{ v, d sum }

func newAccumulator(p *plan, e *engine) *accumulator {
	a := &accumulator{kMin: math.MaxInt, slotsMin: math.MaxInt, targets: make([]targetSums, len(p.o.Targets))}
	for t := range a.targets {
		ta := &a.targets[t]
		ta.tallies = slices.Clone(p.tallies)
		ta.least = 1
		if p.lists {
			ta.lists, ta.basis = newListSums(), p.basis[t]
		}
		ta.ips = newTwoSided(0)
		ta.plain = newTwoSided(1)
		ta.weights = newCapital(0)
		ta.dr = newTwoSided(clips[:]...)
		var shift []float64
		for _, k := range clips {
			shift = append(shift, k+2)
		}
		ta.uplift = newTwoSided(shift...)
		if p.o.Marginal {
			ta.marginal = newMarginal()
		}
		if p.boot {
			ta.boot = make([]bootSums, replicates)
		}
	}
	if e != nil {
		if a.keep = len(p.o.Targets) > allPairs && !e.chosen; a.keep {
			a.kept, a.near = make([][]sides, len(p.o.Targets)), make([]likeness, len(p.o.Targets)*(len(p.o.Targets)-1)/2)
		}
		for _, x := range e.duels {
			d := newDuel(x[0], x[1])
			if p.lists {
				d.seq = newTwoSided(1)
			}
			a.pairs = append(a.pairs, d)
		}
		a.mr = make([]sums, len(e.mr))
	}
	return a
}

// see takes what does not depend on a target.
func (a *accumulator) see(p *plan, ev *logged.Event) {
	a.n++
	if !ev.BadReward {
		r := ev.Reward
		for i := range ev.Slots {
			r += ev.Slots[i].Reward
		}
		x, power := (r-p.min)/p.scale, 1.0
		for j := range a.powers {
			power *= x
			a.powers[j] += power
		}
	}
	if ev.Law == nil {
		a.noLaw++
		if ev.K > 0 && math.Abs(ev.Propensity*float64(ev.K)-1) <= logged.Tolerance {
			a.even++
		}
	}
	if ev.Group == nil {
		a.noGroup++
	}
	if ev.Drop != 0 {
		a.dropped++
	}
	if ev.BadReward {
		a.damaged++
	}
	a.kMin, a.kMax = min(a.kMin, ev.K), max(a.kMax, ev.K)
	if !ev.Time.IsZero() {
		if a.first.IsZero() || ev.Time.Before(a.first) {
			a.first = ev.Time
		}
		if ev.Time.After(a.last) {
			a.last = ev.Time
		}
	}
	if n := len(ev.Slots); n > 0 {
		a.slots, a.slotsMin, a.slotsAll = max(a.slots, n), min(a.slotsMin, n), a.slotsAll+n
		return
	}
	const most = 4096
	for k := min(max(ev.K, ev.Chosen+1), most); len(a.actions) < k; {
		a.actions = append(a.actions, actionSums{})
	}
	v := 1 / (1 - ev.Drop)
	a.vMost = max(a.vMost, v)
	if ev.Chosen < most {
		s := &a.actions[ev.Chosen]
		s.played++
		s.diff += v
		if !ev.BadReward {
			s.r += ev.Reward
			s.rr += float64(ev.Reward * ev.Reward)
		}
		if s.name == "" && ev.Chosen < len(ev.Actions) {
			s.name = ev.Actions[ev.Chosen].ID
		}
	}
	if ev.Law != nil {
		for k, p := range ev.Law[:min(len(ev.Law), most)] {
			s := &a.actions[k]
			s.diff -= float64(v * p)
			s.pb += float64(v * p)
			s.variance += float64(float64(v*v) * float64(p*(1-p)))
		}
	}
}

// diagnose takes weights and support.
func (w *worker) diagnose(ta *targetSums, ev *logged.Event) {
	x := &w.x
	vw := x.v * x.w
	ta.seen++
	ta.v.add(x.v)
	ta.w1.add(vw)
	ta.w2.product(vw, vw)
	if !ev.BadReward {
		vwr := vw * ev.Reward
		ta.wr1.add(math.Abs(vwr)) // rewards of both signs do not cancel
		ta.wr2.product(vwr, vwr)
	}
	ta.wMax = max(ta.wMax, vw)
	if x.w == 0 {
		ta.wZero++
		ta.hist[0]++
	} else {
		f, e := math.Frexp(x.w) // f ∈ [½, 1)
		bin := binOfOne + 2*(e-1)
		if f >= math.Sqrt2/2 {
			bin++
		}
		ta.hist[min(max(bin, 1), weightBins-1)]++
	}
	if ev.Law != nil {
		for k, p := range ev.Law {
			if p == 0 && w.pe[k] > 0 {
				ta.unsupported.product(x.v, w.pe[k])
			}
		}
		return
	}
	for len(ta.pe) < min(ev.K, 4096) {
		ta.pe = append(ta.pe, 0)
	}
	for k := range ta.pe[:min(ev.K, len(ta.pe))] {
		ta.pe[k] += float64(x.v * w.pe[k])
	}
}

// top keeps the ten largest.
func (t *targetSums) top(x float64) {
	if x = math.Abs(x); x <= t.tops[9] {
		return
	}
	i := 9
	for ; i > 0 && t.tops[i-1] < x; i-- {
		t.tops[i] = t.tops[i-1]
	}
	t.tops[i] = x
}

// poisson maps a word to a Poisson(1) variable by its distribution function.
func poisson(word uint32) float64 {
	switch u := float64(word) / (1 << 32); {
	case u < 0.36787944117144233:
		return 0
	case u < 0.7357588823428847:
		return 1
	case u < 0.9196986029286058:
		return 2
	case u < 0.9810118431238462:
		return 3
	case u < 0.9963401531726563:
		return 4
	case u < 0.9994058151824183:
		return 5
	case u < 0.9999167588507119:
		return 6
	}
	return 7
}

// bootstrap adds an event to every replicate, as often as a Poisson(1) variable says.
func (t *targetSums) bootstrap(v, phi float64, draw rng.Source) {
	for b := range t.boot {
		if k := poisson(draw.Word(uint32(b))); k > 0 {
			t.boot[b].v.add(k * v)
			t.boot[b].d.product(k*v, phi)
		}
	}
}

// merge adds the accumulator of the events that come next.
func (a *accumulator) merge(o *accumulator) {
	a.n, a.noLaw, a.dropped, a.damaged = a.n+o.n, a.noLaw+o.noLaw, a.dropped+o.dropped, a.damaged+o.damaged
	a.noGroup += o.noGroup
	a.even += o.even
	a.again += o.again
	a.vMost = max(a.vMost, o.vMost)
	for j, x := range o.powers {
		a.powers[j] += x
	}
	a.kMin, a.kMax = min(a.kMin, o.kMin), max(a.kMax, o.kMax)
	a.slots, a.slotsMin, a.slotsAll = max(a.slots, o.slots), min(a.slotsMin, o.slotsMin), a.slotsAll+o.slotsAll
	if a.first.IsZero() || !o.first.IsZero() && o.first.Before(a.first) {
		a.first = o.first
	}
	if o.last.After(a.last) {
		a.last = o.last
	}
	for len(a.actions) < len(o.actions) {
		a.actions = append(a.actions, actionSums{})
	}
	for k := range o.actions {
		x, y := &a.actions[k], &o.actions[k]
		if x.name == "" {
			x.name = y.name
		}
		x.played += y.played
		x.r += y.r
		x.rr += y.rr
		x.diff += y.diff
		x.variance += y.variance
		x.pb += y.pb
	}
	a.logger.merge(&o.logger)
	mergeUnits(&a.loggerUnits, o.loggerUnits)
	for t := range a.targets {
		a.targets[t].merge(&o.targets[t])
	}
	for i := range a.pairs {
		a.pairs[i].seq.merge(&o.pairs[i].seq)
		a.pairs[i].like.merge(&o.pairs[i].like)
	}
	if a.keep {
		for t := range a.kept {
			a.kept[t] = append(a.kept[t], o.kept[t]...)
		}
		for i := range a.near {
			a.near[i].merge(&o.near[i])
		}
	}
	a.mergeSegments(o)
}

func (t *targetSums) merge(o *targetSums) {
	t.m.merge(&o.m)
	mergeUnits(&t.units, o.units)
	for i := range t.tallies {
		t.tallies[i].merge(&o.tallies[i])
	}
	t.ips.merge(&o.ips)
	t.dr.merge(&o.dr)
	t.uplift.merge(&o.uplift)
	t.plain.merge(&o.plain)
	t.weights.merge(o.weights)
	t.like.merge(&o.like)
	t.unlike = t.unlike || o.unlike
	for _, s := range []struct{ a, b *sum }{{&t.w1, &o.w1}, {&t.w2, &o.w2}, {&t.wr1, &o.wr1}, {&t.wr2, &o.wr2},
		{&t.v, &o.v},
		{&t.unsupported, &o.unsupported}, {&t.replay, &o.replay}, {&t.replayV, &o.replayV}} {
		s.a.merge(*s.b)
	}
	t.wMax = max(t.wMax, o.wMax)
	if o.heaviest.Weight > t.heaviest.Weight {
		t.heaviest = o.heaviest
	}
	t.second, t.third = t.second+o.second, t.third+o.third
	t.least = min(t.least, o.least)
	if t.lists != nil {
		t.lists.merge(o.lists)
	}
	if t.end != nil {
		t.end.take(o.terms)
	}
	t.thin += o.thin
	for len(t.played) < len(o.played) {
		t.played = append(t.played, 0)
	}
	for k, p := range o.played {
		t.played[k] += p
	}
	if len(t.sens) < mostStored {
		t.sens = append(t.sens, o.sens...)
	}
	t.wZero, t.seen, t.matched, t.random = t.wZero+o.wZero, t.seen+o.seen, t.matched+o.matched, t.random || o.random
	for i, n := range o.hist {
		t.hist[i] += n
	}
	for len(t.pe) < len(o.pe) {
		t.pe = append(t.pe, 0)
	}
	for k, p := range o.pe {
		t.pe[k] += p
	}
	for _, x := range o.tops {
		t.top(x)
	}
	if len(t.w)+len(t.phi) <= mostStored { // beyond, the answer is null
		t.w, t.wr, t.phi = append(t.w, o.w...), append(t.wr, o.wr...), append(t.phi, o.phi...)
	}
	for b := range t.boot {
		t.boot[b].v.merge(o.boot[b].v)
		t.boot[b].d.merge(o.boot[b].d)
	}
	if t.marginal != nil {
		t.marginal.merge(o.marginal)
	}
}

// running is the estimate so far.
func (a *accumulator) running(p *plan, t int) Point {
	ta := &a.targets[t]
	x := Point{N: a.n}
	key := "ips"
	if p.needDR && !p.lists {
		key = "dr"
	}
	shared := a.dependent()
	if m := &ta.m; m.n > 1 {
		if shared && ta.units != nil && !ta.units.full {
			robust := ta.units.robust(m)
			m = &robust
		}
		v, se, _, _ := m.plainEstimate(key)
		x.Value, x.NormLo, x.NormHi = v, v-p.z*se, v+p.z*se
	}
	x.ESS = effective(ta.w1.value(), ta.w2.value())
	if a.dropped == 0 && !p.lists && p.o.NoSequence == "" && p.o.Crossfit == 0 {
		seq := &ta.ips
		if key == "dr" && a.noLaw == 0 {
			seq = &ta.dr
		}
		if i, err := p.sequence(seq); err == nil && i.known() {
			x.Lo, x.Hi, x.HasSequence = i[0], i[1], true
			x.Value = within(x.Value, *i)
		}
	}
	return x
}

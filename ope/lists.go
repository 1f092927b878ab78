package ope

import (
	"math"
	"slices"
	"strconv"

	"troupe/logged"
)

// Estimators for lists of slots: one list is one event. w^P_l, w^M_l, w^C_l are target/logger of the probability that the list
// begins with the entries 1 … l, that entry l stands at l, and that it stands there given the entries above; w = w^P_L.
//
//	sips         w Σ_l r_l                                                   nothing about rewards
//	rips         Σ_l w^P_l r_l                          (McInerney et al. 2020)  r_l depends on entries 1 … l
//	cascade-dr   Σ_l [w^P_{l−1} Σ_a π(a|above) q_l(a) + w^P_l (r_l − q_l(a_l))]  the same   (Kiyohara et al. 2022)
//	iips         Σ_l w^M_l r_l                          (Li et al. 2018)         r_l depends on entry l
//	pbm          Σ_l (Σ_h e_h π(i_l at h)/Σ_h e_h b(i_l at h)) r_l               r_l = e_l × what entry l is worth
//	pi           1_Lᵀ Γ⁺ q_π Σ_l r_l                    (Swaminathan et al. 2017) Σ r is a sum over (entry, position)
//	conditional  Σ_l w^C_l r_l: the target at l, the logger above
//
// Γ = E_b[1_L 1_Lᵀ] is that of the logger's law of lists, q_π the target's marginals. A list without a law that an estimator
// needs is left out of it, whatever it earned.
const (
	sips = iota
	rips
	iips
	conditional
	sequenced // the ones above have weights ≥ 0, so a sequence
	cascadeDR = iota - 1
	pseudo
	listTerms
)

var listNames = [listTerms]string{"sips", "rips", "iips", "conditional", "cascade-dr", "pi"}

// listMean is the mean of a term over the lists that count.
type listMean struct {
	n                 int
	v, vv             sum // Σ v, Σ v²
	first, one, pair  sum // Σ v t, Σ v² t, Σ v² t²
	slots, least, all int // the longest and the shortest list, and the slots of all
}

func (m *listMean) add(v, t float64, slots int) {
	if m.n == 0 {
		m.least = slots
	}
	m.n++
	m.slots, m.least, m.all = max(m.slots, slots), min(m.least, slots), m.all+slots
	vt := float64(v * t)
	m.v.add(v)
	m.vv.product(v, v)
	m.first.product(v, t)
	m.one.product(v, vt)
	m.pair.product(vt, vt)
}

func (m *listMean) merge(o *listMean) {
	switch {
	case o.n == 0:
		return
	case m.n == 0:
		m.least = o.least
	}
	m.n += o.n
	m.slots, m.least, m.all = max(m.slots, o.slots), min(m.least, o.least), m.all+o.all
	m.v.merge(o.v)
	m.vv.merge(o.vv)
	m.first.merge(o.first)
	m.one.merge(o.one)
	m.pair.merge(o.pair)
}

// estimate returns Σ v t/Σ v and its standard error √(n/(n−1) Σ v²(t − value)²)/Σ v.
func (m *listMean) estimate() (value, se float64) {
	n, N := float64(m.n), m.v.value()
	value = m.first.value() / N
	var s sum
	s.merge(m.pair)
	s.merge(m.one.scaled(-2 * value))
	s.merge(m.vv.scaled(value).scaled(value))
	return value, math.Sqrt(n/(n-1)*max(s.value(), 0)) / N
}

// listTally is what one estimator adds up.
type listTally struct {
	mean  listMean
	whole twoSided       // of values divided by the length, for lists of one length
	sum   twoSided       // of sums over the slots, for lists of several
	out   map[string]int // lists that were left out, by reason
	// expected moments of the weights, and where they are not known the smallest propensity
	second, third, least float64
	partly               bool
}

func (t *listTally) merge(o *listTally) {
	t.mean.merge(&o.mean)
	if t.whole.lower != nil && o.whole.lower != nil {
		t.whole.merge(&o.whole)
		t.sum.merge(&o.sum)
	}
	for why, n := range o.out {
		t.leave(why, n)
	}
	t.second, t.third, t.partly = t.second+o.second, t.third+o.third, t.partly || o.partly
	if o.least > 0 && (t.least == 0 || o.least < t.least) {
		t.least = o.least
	}
}

func (t *listTally) leave(why string, n int) {
	if t.out == nil {
		t.out = map[string]int{}
	}
	t.out[why] += n
}

// left says how many lists were left out and why, "" for none.
func (t *listTally) left() string {
	total := t.mean.n
	var all []string
	for why := range t.out {
		all = append(all, why)
	}
	slices.Sort(all)
	text := ""
	for _, why := range all {
		total += t.out[why]
	}
	for _, why := range all {
		if text != "" {
			text += "; "
		}
		text += strconv.Itoa(t.out[why]) + " of " + strconv.Itoa(total) + " lists are left out: " + why
	}
	return text
}

// listSums is what lists add up to for one target.
type listSums struct {
	terms  [listTerms]listTally
	logged listMean // Σ r of all lists
	apart  influenced
	up     twoSided // Σ (w − 1) r' + L ≥ 0 of the basis
	exam   examined
}

func newListSums() *listSums {
	s := &listSums{up: newTwoSided(0), apart: influenced{seq: newTwoSided(1)}}
	for k := range sequenced {
		s.terms[k].whole, s.terms[k].sum = newTwoSided(0), newTwoSided(0)
	}
	return s
}

func (s *listSums) merge(o *listSums) {
	for k := range s.terms {
		s.terms[k].merge(&o.terms[k])
	}
	s.logged.merge(&o.logged)
	s.apart.n += o.apart.n
	s.apart.difference.merge(o.apart.difference)
	s.apart.seq.merge(&o.apart.seq)
	s.up.merge(&o.up)
	s.exam.merge(&o.exam)
}

// Why an estimator has no term for a list.
const (
	noLogger      = "the log does not have the logger's probability of "
	noTarget      = "the target does not say its probability of "
	whatList      = "the list"
	whatPrefixes  = "each beginning of the list"
	whatMarginals = "each action at its position"
	whatAll       = "the action at every position"
	whatGiven     = "each action given those above it"
	oneReward     = "it has one reward for all positions"
	noLists       = "Γ needs the logger's law of whole lists (list_law), or slots that are drawn independently from sets of their own"
	largeGamma    = "Γ has more than 512 pairs of action and position"
)

// standings is what both laws say of the slots of a list.
type standings struct {
	logger, target []logged.Standing
}

// stand fills the standings of a list for a target. index is that of the event.
func (w *worker) stand(target Target, ev *logged.Event) error {
	n := len(ev.Slots)
	for len(w.lists.logger) < n {
		w.lists.logger, w.lists.target = append(w.lists.logger, logged.Standing{}), append(w.lists.target, logged.Standing{})
	}
	b, e := w.lists.logger[:n], w.lists.target[:n]
	for l := range ev.Slots {
		s, x := &ev.Slots[l], &b[l]
		x.Clear()
		for _, p := range []struct {
			into *float64
			p    float64
		}{{&x.Conditional, s.Propensity}, {&x.Prefix, s.Prefix}, {&x.Marginal, s.Marginal}} {
			if p.p != 0 {
				*p.into = p.p
			}
		}
		x.Law, x.Marginals = append(x.Law, s.Law...), append(x.Marginals, s.Marginals...)
		e[l].Clear()
		if err := target.(ListTarget).Stand(&e[l], ev, l); err != nil {
			return err
		}
	}
	complete(b, ev)
	complete(e, ev)
	return nil
}

// complete derives what follows from what is known.
func complete(s []logged.Standing, ev *logged.Event) {
	above := 1.0
	for l := range s {
		x, allowed := &s[l], ev.Slots[l].Allowed
		if len(x.Law) > 0 {
			x.Conditional = x.Law[0]
		}
		if len(x.Marginals) > 0 {
			x.Marginal = x.Marginals[allowed[0]]
		}
		if l == 0 { // all three are one probability
			for _, p := range []float64{x.Conditional, x.Prefix, x.Marginal} {
				if !math.IsNaN(p) {
					x.Conditional, x.Prefix, x.Marginal = p, p, p
					break
				}
			}
			if len(x.Law) > 0 && len(x.Marginals) == 0 && ev.K > 0 {
				x.Marginals = slices.Grow(x.Marginals, ev.K)[:ev.K]
				clear(x.Marginals)
				for i, a := range allowed {
					x.Marginals[a] = x.Law[i]
				}
			}
		}
		switch {
		case math.IsNaN(x.Prefix):
			x.Prefix = above * x.Conditional
		case math.IsNaN(x.Conditional) && above > 0:
			x.Conditional = x.Prefix / above
		case math.IsNaN(x.Conditional) && above == 0: // after entries that it does not play
			x.Conditional = 0
		}
		above = x.Prefix
	}
}

// listOf is what the slots of one list say of a target: terms, and the lower and upper values in units of [0, 1]. why is the reason
// for no term, "" where there is one.
type listOf struct {
	term, lower, upper [listTerms]float64
	why                [listTerms]string
	base, baseR        float64 // Σ (w − 1) r' and Σ (w − 1)(1 − r')
	rarest             float64 // the smallest prefix probability that is known
	weight, squared    float64 // of pi, and what its square is expected to be
}

// list adds one list to the sums of every target.
func (w *worker) list(a *accumulator, ev *logged.Event, index int) error {
	v, n := 1/(1-ev.Drop), len(ev.Slots)
	total := ev.Reward
	if !ev.OneReward {
		total = 0
		for i := range ev.Slots {
			total += ev.Slots[i].Reward
		}
		a.listQ.add(ev)
	}
	if len(w.p.o.Targets) == 0 {
		a.logger.add(v, &[variables]float64{vOne: 1, vR: total})
	}
	L := n // how many rewards there are
	if ev.OneReward {
		L = 1
	}
	for t, target := range w.p.o.Targets {
		ta := &a.targets[t]
		if err := w.stand(target, ev); err != nil {
			return &EventError{index + 1, target.Name(), err}
		}
		s := &w.listOf
		w.terms(s, ev, total)
		ls := ta.lists
		ls.logged.add(v, total, L)
		for k := range s.term {
			ls.term(w, k, s, v, L)
		}
		if s.why[rips] == "" && s.why[iips] == "" {
			w.influence(&ls.apart, s, n)
		}
		ls.expected(w.lists.logger[:n], w.lists.target[:n], s, s.squared)
		ls.exam.add(w, ev, v, index)
		w.basis(ta, s, ev, v, total, index)
		if len(w.p.o.Targets) > 1 {
			w.bases = append(w.bases[:t], [2]float64{s.base, s.baseR})
			if s.why[ta.basis] != "" {
				w.bases[t][0] = math.NaN()
			}
		}
	}
	if !w.again {
		w.pairs(a, L)
	}
	return nil
}

// pairs adds a list with L rewards to the differences of targets:
//
//	ψ = (Σ (w¹ − 1) r' + Σ (w² − 1)(1 − r'))/L ≥ −1, of mean (V¹ − V²)/L.
//
// A list that one of the two has no weights of is left out.
func (w *worker) pairs(a *accumulator, L int) {
	for i := range a.pairs {
		d := &a.pairs[i]
		x, y := w.bases[d.first], w.bases[d.second]
		if math.IsNaN(x[0]) || math.IsNaN(y[0]) {
			continue
		}
		w.phi[0] = (x[0] + y[1]) / float64(L)
		d.seq.lower.add(w.phi[:1])
		w.phi[0] = (y[0] + x[1]) / float64(L)
		d.seq.upper.add(w.phi[:1])
	}
}

// terms computes the terms of a list from its standings.
func (w *worker) terms(s *listOf, ev *logged.Event, total float64) {
	n := len(ev.Slots)
	b, e := w.lists.logger[:n], w.lists.target[:n]
	*s = listOf{rarest: 1}
	need := func(k int, what string, logger, target float64) bool {
		switch {
		case s.why[k] != "":
		case math.IsNaN(logger):
			s.why[k] = noLogger + what
		case math.IsNaN(target):
			s.why[k] = noTarget + what
		}
		return s.why[k] == ""
	}
	if ev.OneReward {
		for _, k := range []int{rips, iips, conditional, cascadeDR} {
			s.why[k] = oneReward
		}
	}
	before := 1.0 // w^P of the slot above
	for l := range ev.Slots {
		x := &ev.Slots[l]
		r := (x.Reward - w.p.min) / w.p.scale
		add := func(k int, weight float64) {
			s.term[k] += float64(weight * x.Reward)
			s.lower[k] += float64(weight * r)
			s.upper[k] += float64(weight * (1 - r))
		}
		prefix := e[l].Prefix / b[l].Prefix
		if need(rips, whatPrefixes, b[l].Prefix, e[l].Prefix) {
			add(rips, prefix)
		}
		if need(iips, whatMarginals, b[l].Marginal, e[l].Marginal) {
			add(iips, e[l].Marginal/b[l].Marginal)
		}
		if need(conditional, whatGiven, b[l].Conditional, e[l].Conditional) {
			add(conditional, e[l].Conditional/b[l].Conditional)
		}
		if need(cascadeDR, whatPrefixes, b[l].Prefix, e[l].Prefix) {
			if len(e[l].Law) == 0 && before > 0 {
				s.why[cascadeDR] = noTarget + "every action that was left, given those above"
			} else {
				direct, of := 0.0, 0.0
				if before > 0 {
					for i, p := range e[l].Law {
						q := w.e.listModel.predict(ev, l, x.Allowed[i])
						if direct += float64(p * q); i == 0 {
							of = q
						}
					}
				}
				s.term[cascadeDR] += float64(before*direct) + float64(prefix*(x.Reward-of))
			}
		}
		if !math.IsNaN(b[l].Prefix) {
			s.rarest = min(s.rarest, b[l].Prefix)
		}
		before = prefix
	}
	last := n - 1
	if need(sips, whatList, b[last].Prefix, e[last].Prefix) {
		weight := e[last].Prefix / b[last].Prefix
		s.term[sips] = float64(weight * total)
		unit, most := 0.0, 1.0 // Σ r' and what it can be
		if ev.OneReward {
			unit = (total - w.p.min) / w.p.scale
		} else {
			most = float64(n)
			for l := range ev.Slots {
				unit += (ev.Slots[l].Reward - w.p.min) / w.p.scale
			}
		}
		s.lower[sips], s.upper[sips] = float64(weight*unit), float64(weight*(most-unit))
	}
	if s.why[pseudo] == "" {
		if s.weight, s.squared, s.why[pseudo] = w.pseudoWeight(ev); s.why[pseudo] == "" {
			s.term[pseudo] = float64(s.weight * total)
		}
	}
}

// term adds term k of a list with L rewards.
func (ls *listSums) term(w *worker, k int, s *listOf, v float64, L int) {
	t := &ls.terms[k]
	if s.why[k] != "" {
		t.leave(s.why[k], 1)
		return
	}
	t.mean.add(v, s.term[k], L)
	if k >= sequenced {
		return
	}
	add := func(to *capital, phi float64) {
		w.phi[0] = phi
		to.add(w.phi[:1])
	}
	add(t.sum.lower, s.lower[k])
	add(t.sum.upper, s.upper[k])
	add(t.whole.lower, s.lower[k]/float64(L))
	add(t.whole.upper, s.upper[k]/float64(L))
}

// basisOf says by which estimator a target is compared with what ran: the one that most of the first lists have a term of, and of these
// rips before iips before conditional: rips asks least of the rewards. One reward for a list needs sips. Where the options name
// estimators, the first of them that has weights is taken.
func (w *worker) basisOf(target Target, events []logged.Event) (int, error) {
	var n [listTerms]int
	for i := range events {
		ev := &events[i]
		if len(ev.Slots) == 0 {
			break // refused where it is met
		}
		if ev.OneReward {
			return sips, nil
		}
		if err := w.stand(target, ev); err != nil {
			return 0, &EventError{i + 1, target.Name(), err}
		}
		w.terms(&w.listOf, ev, 0)
		for k, why := range w.listOf.why {
			if why == "" {
				n[k]++
			}
		}
	}
	best, among := rips, []int{iips, conditional}
	if w.p.o.Estimators != nil && !w.p.o.LeaveOut {
		for _, key := range w.p.o.Estimators {
			if k := slices.Index(listNames[:sequenced], key); k >= 0 && n[k] > 0 {
				return k, nil
			}
		}
	}
	for _, k := range among {
		if n[k] > n[best] {
			best = k
		}
	}
	return best, nil
}

// basis adds a list to the difference and to the diagnostics of a target.
func (w *worker) basis(ta *targetSums, s *listOf, ev *logged.Event, v, total float64, index int) {
	k, n := ta.basis, len(ev.Slots)
	if s.why[k] != "" {
		return
	}
	b, e := w.lists.logger[:n], w.lists.target[:n]
	L := n
	if ev.OneReward {
		L = 1
	}
	heaviest := 0.0
	for l := range L {
		at, x := l, &w.x
		if k == sips {
			at = n - 1
		}
		r := ev.Slots[l].Reward
		if ev.OneReward {
			r = ev.Reward
		}
		switch k {
		case iips:
			x.p, x.pe = b[at].Marginal, e[at].Marginal
		case conditional:
			x.p, x.pe = b[at].Conditional, e[at].Conditional
		default:
			x.p, x.pe = b[at].Prefix, e[at].Prefix
		}
		x.v, x.w = v, x.pe/x.p
		unit := (r - w.p.min) / w.p.scale
		s.base += float64((x.w - 1) * unit)
		s.baseR += float64((x.w - 1) * (1 - unit))
		heaviest = max(heaviest, x.w)
		w.diagnose(ta, &logged.Event{Reward: r})
	}
	ta.heavier(v*heaviest, index, ev)
	add := func(to *capital, phi float64) {
		w.phi[0] = phi
		to.add(w.phi[:1])
	}
	add(ta.plain.lower, s.base/float64(L))
	add(ta.plain.upper, s.baseR/float64(L))
	add(ta.lists.up.lower, s.base+float64(L))
	add(ta.lists.up.upper, s.baseR+float64(L))
	ta.m.add(v, &[variables]float64{vOne: 1, vR: total, vW: 1, vWR: s.term[k], vBase: total}) // moments of w = 0 have no w r
	ta.top(v * s.term[k])
}

// influenced tests whether a position's reward depends on its own entry only. Then the means of D = Σ_l (w^P_l − w^M_l) r'_l, and of
// D' with 1 − r', are 0 given the past; with c = Σ_l max_a w^M_l(a), which is known before the draw, D/c and D'/c are at least −1. So
// their wealth exceeds 2/α with probability at most α at any look, whatever the weights (docs/design/ope.md).
type influenced struct {
	n          int
	difference sum // Σ (rips − iips)
	seq        twoSided
}

func (w *worker) influence(x *influenced, s *listOf, n int) {
	most := 0.0
	for l := range n {
		b, e := w.lists.logger[l].Marginals, w.lists.target[l].Marginals
		if len(b) == 0 || len(e) == 0 {
			return
		}
		large := 0.0
		for a, p := range b {
			if p > 0 {
				large = max(large, e[a]/p)
			}
		}
		most += large
	}
	if most == 0 {
		return
	}
	x.n++
	x.difference.add(s.term[rips] - s.term[iips])
	w.phi[0] = (s.lower[rips] - s.lower[iips]) / most
	x.seq.lower.add(w.phi[:1])
	w.phi[0] = (s.upper[rips] - s.upper[iips]) / most
	x.seq.upper.add(w.phi[:1])
}

// expected adds what the laws let expect of the weights of a list: Σ_a π_e(a)^j/p(a)^(j−1), j = 2, 3, at each position. Where they
// are not known, Σ_a π_e(a)^j ≤ 1 stands in, and least must do the rest.
func (ls *listSums) expected(b, e []logged.Standing, s *listOf, pi float64) {
	for k := range ls.terms {
		if s.why[k] != "" {
			continue
		}
		t := &ls.terms[k]
		switch k {
		case iips, conditional:
			for l := range b {
				pb, pe, p := b[l].Marginals, e[l].Marginals, b[l].Marginal
				if k == conditional {
					pb, pe, p = b[l].Law, e[l].Law, b[l].Conditional
				}
				if len(pb) == 0 || len(pe) == 0 {
					t.unknown(p)
					continue
				}
				for a, q := range pb {
					if q > 0 {
						u := pe[a] / q
						t.second += float64(u * pe[a])
						t.third += float64(float64(u*u) * pe[a])
					}
				}
			}
		case pseudo: // E w² = qᵀΓ⁺q
			weight := math.Abs(s.weight)
			t.second += pi
			t.third += float64(weight * float64(weight*weight))
		default:
			t.unknown(s.rarest)
		}
	}
}

// unknown counts a weight of which only the propensity of what was played is known.
func (t *listTally) unknown(p float64) {
	t.partly = true
	t.second++
	t.third++
	if t.least == 0 || p < t.least {
		t.least = p
	}
}

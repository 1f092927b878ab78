package ope

import "troupe/logged"

// Estimators for lists of slots: one list is one event. w_l = π_e/π_b of the action in slot l, given the slots before
// (conditional propensities value "the target in slot l, the logger elsewhere"); values are sums over the slots.
//
//	sips  mean[Π_l w_l · Σ_l r_l]
//	iips  mean[Σ_l w_l r_l]                         (Li et al. 2018)
//	rips  mean[Σ_l (Π_{j≤l} w_j) r_l]               (McInerney et al. 2020)
//	pi    mean[(1 + Σ_l (w_l − 1)) Σ_l r_l]         (Swaminathan et al. 2017; slots drawn independently)
var listTerms = [4]estimator{
	{key: "sips", term: func(x *row, _ float64) float64 { return x.r }},
	{key: "iips", term: func(x *row, _ float64) float64 { return x.r }},
	{key: "rips", term: func(x *row, _ float64) float64 { return x.r }},
	{key: "pi", term: func(x *row, _ float64) float64 { return x.r }},
}

// list adds one list to the sums of every target.
func (w *worker) list(a *accumulator, ev *logged.Event, index int) error {
	v := 1 / (1 - ev.Drop)
	total := 0.0
	for i := range ev.Slots {
		total += ev.Slots[i].Reward
	}
	if len(w.p.o.Targets) == 0 {
		a.logger.add(v, &[variables]float64{vOne: 1, vR: total})
	}
	for t, target := range w.p.o.Targets {
		ta := &a.targets[t]
		s, err := w.slots(ta, target, ev, v, index)
		if err != nil {
			return err
		}
		ta.rarest = min(ta.rarest, s.rarest)
		ta.heavier(v*s.prod, index, ev)
		L := float64(len(ev.Slots))
		s.finish(total, L)
		for k := range s.term {
			w.addTerm(ta, &s, k, v, L)
		}
		add := func(to *capital, phi float64) {
			w.phi[0] = phi
			to.add(w.phi[:1])
		}
		add(ta.plain.lower, s.base/L)
		add(ta.plain.upper, s.baseR/L)
		add(ta.listUp.lower, s.base+L)
		add(ta.listUp.upper, s.baseR+L)
		u := [variables]float64{vOne: 1, vR: total, vWR: s.term[1], vBase: total}
		ta.m.add(v, &u)
		ta.top(v * s.term[1])
	}
	return nil
}

// listSums is what the slots of one list say of a target.
type listSums struct {
	// terms of sips, iips, rips, pi: for Σ r, and for r' and 1 − r'
	term, lower, upper [4]float64

	prod, excess float64 // Π w and Σ (w − 1)
	s01          float64 // Σ r'
	base, baseR  float64 // Σ (w − 1)r' and Σ (w − 1)(1 − r')
	rarest       float64 // Π of the propensities
}

// slots goes through the slots of a list, and counts them in the diagnostics of a target.
func (w *worker) slots(ta *targetSums, target Target, ev *logged.Event, v float64, index int) (listSums, error) {
	sum := listSums{prod: 1, rarest: 1}
	for i := range ev.Slots {
		s := &ev.Slots[i]
		w.pe = sized(w.pe, len(s.Allowed))
		if err := target.(SlotTarget).SlotLaw(w.pe, ev, i); err != nil {
			return sum, &EventError{index + 1, target.Name(), err}
		}
		wl := w.pe[0] / s.Propensity
		sum.prod *= wl
		sum.excess += wl - 1
		r := (s.Reward - w.p.min) / w.p.scale
		sum.s01 += r
		sum.term[1] += float64(wl * s.Reward)
		sum.term[2] += float64(sum.prod * s.Reward)
		sum.lower[1] += float64(wl * r)
		sum.upper[1] += float64(wl * (1 - r))
		sum.lower[2] += float64(sum.prod * r)
		sum.upper[2] += float64(sum.prod * (1 - r))
		sum.base += float64((wl - 1) * r)
		sum.baseR += float64((wl - 1) * (1 - r))
		x := &w.x
		x.v, x.w, x.p, x.pe = v, wl, s.Propensity, w.pe[0]
		w.diagnose(ta, &logged.Event{Reward: s.Reward, K: len(s.Allowed)})
		sum.rarest *= s.Propensity
		ta.least = min(ta.least, s.Propensity)
		for _, p := range w.pe {
			ta.second += float64(p * p)
			ta.third += float64(float64(p*p) * p)
		}
	}
	return sum, nil
}

// finish makes the terms that need all slots: their rewards add up to total, and they are L.
func (s *listSums) finish(total, L float64) {
	s.term[0], s.term[3] = float64(s.prod*total), float64((1+s.excess)*total)
	s.lower[0], s.upper[0] = float64(s.prod*s.s01), float64(s.prod*(L-s.s01))
	s.lower[3], s.upper[3] = float64((1+s.excess)*s.s01), float64((1+s.excess)*(L-s.s01))
}

// addTerm adds the terms of estimator k of a list of L slots, with the weight v, to its tally and its sequences.
func (w *worker) addTerm(ta *targetSums, s *listSums, k int, v, L float64) {
	tally := &ta.lists[k]
	if tally.e == nil {
		tally.e = &listTerms[k]
		shift := 0.0
		if k == 3 { // 1 + Σ(w − 1) ≥ 1 − L
			shift = max(L-1, 0)
		}
		ta.listSeq[k] = newTwoSided(shift)
		if k < len(ta.listSum) {
			ta.listSum[k] = newTwoSided(0)
		}
	}
	w.x.r = s.term[k]
	tally.add(v, &w.x)
	if k < len(ta.listSum) {
		w.phi[0] = s.lower[k]
		ta.listSum[k].lower.add(w.phi[:1])
		w.phi[0] = s.upper[k]
		ta.listSum[k].upper.add(w.phi[:1])
	}
	w.phi[0] = s.lower[k] / L
	ta.listSeq[k].lower.add(w.phi[:1])
	w.phi[0] = s.upper[k] / L
	ta.listSeq[k].upper.add(w.phi[:1])
}

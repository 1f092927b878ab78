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
		// terms of sips, iips, rips, pi: for Σ r, and for r' and 1 − r' divided by the length
		var term [4]float64
		var lower, upper [4]float64
		prod, excess := 1.0, 0.0
		L := float64(len(ev.Slots))
		s01 := 0.0
		base, baseR, rarest := 0.0, 0.0, 1.0
		for i := range ev.Slots {
			s := &ev.Slots[i]
			w.pe = sized(w.pe, len(s.Allowed))
			if err := target.(SlotTarget).SlotLaw(w.pe, ev, i); err != nil {
				return &EventError{index + 1, target.Name(), err}
			}
			wl := w.pe[0] / s.Propensity
			prod *= wl
			excess += wl - 1
			r := (s.Reward - w.p.min) / w.p.scale
			s01 += r
			term[1] += float64(wl * s.Reward)
			term[2] += float64(prod * s.Reward)
			lower[1] += float64(wl * r)
			upper[1] += float64(wl * (1 - r))
			lower[2] += float64(prod * r)
			upper[2] += float64(prod * (1 - r))
			base += float64((wl - 1) * r)
			baseR += float64((wl - 1) * (1 - r))
			x := &w.x
			x.v, x.w, x.p, x.pe = v, wl, s.Propensity, w.pe[0]
			w.diagnose(ta, &logged.Event{Reward: s.Reward, K: len(s.Allowed)})
			rarest *= s.Propensity
			ta.least = min(ta.least, s.Propensity)
			for _, p := range w.pe {
				ta.second += float64(p * p)
				ta.third += float64(float64(p*p) * p)
			}
		}
		ta.rarest = min(ta.rarest, rarest)
		ta.heavier(v*prod, index, ev)
		term[0], term[3] = float64(prod*total), float64((1+excess)*total)
		lower[0], upper[0] = float64(prod*s01), float64(prod*(L-s01))
		lower[3], upper[3] = float64((1+excess)*s01), float64((1+excess)*(L-s01))
		for k := range term {
			tally := &ta.lists[k]
			if tally.e == nil {
				tally.e = &listTerms[k]
				shift := 0.0
				if k == 3 { // 1 + Σ(w − 1) ≥ 1 − L
					shift = float64(max(len(ev.Slots)-1, 0))
				}
				ta.listSeq[k] = newTwoSided(shift)
				if k < len(ta.listSum) {
					ta.listSum[k] = newTwoSided(0)
				}
			}
			w.x.r = term[k]
			tally.add(v, &w.x)
			if k < len(ta.listSum) {
				w.phi[0] = lower[k]
				ta.listSum[k].lower.add(w.phi[:1])
				w.phi[0] = upper[k]
				ta.listSum[k].upper.add(w.phi[:1])
			}
			w.phi[0] = lower[k] / L
			ta.listSeq[k].lower.add(w.phi[:1])
			w.phi[0] = upper[k] / L
			ta.listSeq[k].upper.add(w.phi[:1])
		}
		w.phi[0] = base / L
		ta.plain.lower.add(w.phi[:1])
		w.phi[0] = baseR / L
		ta.plain.upper.add(w.phi[:1])
		w.phi[0] = base + L
		ta.listUp.lower.add(w.phi[:1])
		w.phi[0] = baseR + L
		ta.listUp.upper.add(w.phi[:1])
		u := [variables]float64{vOne: 1, vR: total, vWR: term[1], vBase: total}
		ta.m.add(v, &u)
		ta.top(v * term[1])
	}
	return nil
}

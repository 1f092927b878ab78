package ope

import (
	"math"

	"troupe/internal/decimal"
	"troupe/logged"
)

// The position-based model says r_l = e_l × what the entry is worth. Then every place where an item stands tells about it, with
//
//	w_l = Σ_h e_h π(i_l at h)/Σ_h e_h b(i_l at h),   mean of Σ_l w_l r_l = Σ_l e_l Σ_i π(i at l) worth(i),
//
// whatever the scale of e. e is told, or learned from the log itself: in
//
//	S_lh = Σ r_l min(b(i_l at l), b(i_l at h))/b(i_l at l)
//
// both S_lh and S_hl weigh the same items alike, so that E S_lh/E S_hl = e_l/e_h (Agarwal et al. 2019, AllPairs). e maximises
// Σ S_lh log(e_l/(e_l + e_h)), by the fixed point of Hunter (2004). Its error is in the standard error, by a jackknife of 20
// groups of lists.
type examined struct {
	pairs [examGroups][][]float64 // S of a group
	v     [examGroups]sum
	n     int
	terms []examTerm
	slots int
	full  bool
	below bool // a reward below 0
	out   map[string]int
}

// examTerm is one reward that is not 0: the logger's and the target's probabilities of its action at every position.
type examTerm struct {
	group int
	vr    float64
	b, pi []float64
}

const (
	examGroups = 20
	mostExam   = 1 << 22 // numbers that are kept
	examRounds = 2000
)

// add takes a list.
func (x *examined) add(w *worker, ev *logged.Event, v float64, index int) {
	if x.full {
		return
	}
	n := len(ev.Slots)
	b, e := w.lists.logger[:n], w.lists.target[:n]
	why := ""
	switch {
	case ev.OneReward:
		why = oneReward
	case w.p.o.Examination != nil && len(w.p.o.Examination) < n:
		why = "it is longer than --examination"
	}
	for l := range b {
		switch {
		case why != "":
		case len(b[l].Marginals) == 0:
			why = noLogger + whatAll
		case len(e[l].Marginals) == 0:
			why = noTarget + whatAll
		}
	}
	if why != "" {
		if x.out == nil {
			x.out = map[string]int{}
		}
		x.out[why]++
		return
	}
	g := index % examGroups
	x.n++
	x.v[g].add(v)
	x.slots = max(x.slots, n)
	for l := range ev.Slots {
		r := ev.Slots[l].Reward
		if r == 0 {
			continue
		}
		x.below = x.below || r < 0
		t := examTerm{group: g, vr: float64(v * r)}
		a := ev.Slots[l].Allowed[0]
		for h := range b {
			t.b, t.pi = append(t.b, b[h].Marginals[a]), append(t.pi, e[h].Marginals[a])
		}
		x.terms = append(x.terms, t)
		s := square(x.pairs[g], n)
		for h := range b {
			if h != l && t.b[l] > 0 {
				s[l][h] += float64(t.vr * (min(t.b[l], t.b[h]) / t.b[l]))
			}
		}
		x.pairs[g] = s
	}
	if len(x.terms)*2*max(x.slots, 1) > mostExam {
		x.full, x.terms = true, nil
	}
}

// square makes s at least n × n.
func square(s [][]float64, n int) [][]float64 {
	for len(s) < n {
		s = append(s, nil)
	}
	for i := range s {
		for len(s[i]) < len(s) {
			s[i] = append(s[i], 0)
		}
	}
	return s
}

func (x *examined) merge(o *examined) {
	x.n, x.slots, x.below = x.n+o.n, max(x.slots, o.slots), x.below || o.below
	for g := range x.pairs {
		x.v[g].merge(o.v[g])
		x.pairs[g] = square(x.pairs[g], len(o.pairs[g]))
		for l := range o.pairs[g] {
			for h, s := range o.pairs[g][l] {
				x.pairs[g][l][h] += s
			}
		}
	}
	for why, n := range o.out {
		if x.out == nil {
			x.out = map[string]int{}
		}
		x.out[why] += n
	}
	if x.full = x.full || o.full || (len(x.terms)+len(o.terms))*2*max(x.slots, 1) > mostExam; x.full {
		x.terms = nil
		return
	}
	x.terms = append(x.terms, o.terms...)
}

// learn returns e of all groups but one, with its largest number 1; nil where no position earned anything.
func (x *examined) learn(without int) []float64 {
	n := x.slots
	s := square(nil, n)
	for g := range x.pairs {
		if g == without {
			continue
		}
		for l := range x.pairs[g] {
			for h, v := range x.pairs[g][l] {
				s[l][h] += v
			}
		}
	}
	e := make([]float64, n)
	for l := range e {
		e[l] = 1
	}
	for range examRounds {
		moved, most := 0.0, 0.0
		next := make([]float64, n)
		for l := range next {
			wins, of := 0.0, 0.0
			for h := range s {
				if wins += s[l][h]; h != l && e[l]+e[h] > 0 {
					of += (s[l][h] + s[h][l]) / (e[l] + e[h])
				}
			}
			if of > 0 {
				next[l] = wins / of
			}
			most = max(most, next[l])
		}
		if most == 0 {
			if n == 1 {
				return e
			}
			return nil
		}
		for l := range next {
			next[l] /= most
			moved = max(moved, math.Abs(next[l]-e[l]))
		}
		if copy(e, next); moved < 1e-12 {
			break
		}
	}
	return e
}

// value is the estimate with an examination, over all groups but one.
func (x *examined) value(e []float64, without int) float64 {
	var total, v sum
	for i := range x.terms {
		if t := &x.terms[i]; t.group != without {
			total.add(float64(t.weight(e) * t.vr))
		}
	}
	for g := range x.v {
		if g != without {
			v.merge(x.v[g])
		}
	}
	return total.value() / v.value()
}

func (t *examTerm) weight(e []float64) float64 {
	pi, b := 0.0, 0.0
	for h := range t.b {
		pi += float64(e[h] * t.pi[h])
		b += float64(e[h] * t.b[h])
	}
	if b == 0 {
		return 0
	}
	return pi / b
}

// estimate is the value, its standard error, and the examination. why says why there is none.
func (x *examined) estimate(told []float64) (value, se float64, e []float64, why string) {
	switch {
	case x.n < 2*examGroups:
		return 0, 0, nil, "fewer than 40 lists with both laws at every position"
	case x.full:
		return 0, 0, nil, "it keeps its rewards, and there are too many of them"
	case x.below && told == nil:
		return 0, 0, nil, "rewards below 0 do not say how often a position is examined (--examination tells it)"
	}
	if e = told; told == nil {
		if e = x.learn(-1); e == nil {
			return 0, 0, nil, "no position earned anything that another one could have"
		}
	}
	value = x.value(e, -1)
	mean, all := 0.0, make([]float64, examGroups)
	for g := range all {
		eg := e
		if told == nil {
			if eg = x.learn(g); eg == nil {
				return value, math.NaN(), e, ""
			}
		}
		all[g] = x.value(eg, g)
		mean += all[g] / examGroups
	}
	for _, v := range all {
		se += float64((v - mean) * (v - mean))
	}
	return value, math.Sqrt(float64(se * (examGroups - 1.0) / examGroups)), e, ""
}

// examWords says an examination.
func examWords(e []float64) string {
	text := ""
	for l, v := range e {
		if l > 0 {
			text += " · "
		}
		text += decimal.Short(v, 2)
	}
	return text
}

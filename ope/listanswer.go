package ope

import (
	"fmt"
	"slices"
)

// listEstimate makes the row of an estimator of lists.
func (e *evaluation) listEstimate(ta *targetSums, key string, out *Estimate, why func(string)) {
	p, ls := e.p, ta.lists
	set := func(v, se float64) {
		out.Value, out.SE = real(v), real(se)
		if finite(se) {
			out.Normal = &Pair{v - p.z*se, v + p.z*se}
		}
	}
	switch key {
	case "logged":
		set(ls.logged.estimate())
		return
	case "pbm":
		v, se, exam, no := ls.exam.estimate(p.o.Examination)
		if no != "" {
			for _, reason := range ls.exam.reasons() {
				no = reason
			}
			why(no)
			return
		}
		set(v, se)
		if out.Normal != nil { // the error is that of 20 groups
			t := studentQuantile((1+p.level)/2, examGroups-1)
			out.Normal = &Pair{v - float64(t*se), v + float64(t*se)}
		}
		for _, reason := range ls.exam.reasons() {
			why(fmt.Sprintf("%d of %d lists are left out: %s", ls.exam.out[reason], e.sums.total.n, reason))
		}
		if p.o.Examination == nil {
			why("examination learned from the log: " + examWords(exam))
		}
		return
	}
	k := slices.Index(listNames[:], key)
	t := &ls.terms[k]
	if left := t.left(); left != "" {
		why(left)
	}
	if t.mean.n == 0 {
		return
	}
	v, se := t.mean.estimate()
	set(v, se)
	if k >= sequenced {
		return
	}
	if no := e.sums.noSequence(); no != "" {
		why("no sequence: " + no)
		return
	}
	if t.mean.slots != t.mean.least {
		var no string
		if out.Sequence, no = e.sumSequence(t); no != "" {
			why("no sequence: " + no)
		}
		return
	}
	seq, err := p.sequence(&t.whole)
	if err != nil {
		why("no sequence: " + err.Error())
		return
	}
	L := float64(t.mean.slots)
	if out.Sequence = &(Pair{L * seq[0], L * seq[1]}); !p.rewards.known() {
		why(oneEnd)
	}
}

// reasons lists why lists were left out.
func (x *examined) reasons() (all []string) {
	for why := range x.out {
		all = append(all, why)
	}
	slices.Sort(all)
	return all
}

// sumSequence is the interval of a sum over the slots of lists of several lengths: Σ w r' ≥ 0 has the mean V' of the
// sum, and Σ w(1 − r') the mean L − V'. Lengths are known before the draw.
func (e *evaluation) sumSequence(t *listTally) (*Pair, string) {
	p, alpha := e.p, (1-e.p.level)/2
	if !p.rewards.known() {
		return nil, bothEnds
	}
	L, most := float64(t.mean.all)/float64(t.mean.n), float64(t.mean.slots)
	lo, hi := t.sum.lower.bound(alpha, 0, most), L-t.sum.upper.bound(alpha, 0, most)
	if lo > hi {
		return nil, errContradict.Error()
	}
	return &Pair{L*p.min + p.scale*lo, L*p.min + p.scale*hi}, ""
}

// basisWords says what the difference of lists is of, and how many lists are not in it.
func (e *evidence) basisWords(ta *targetSums) string {
	text := map[int]string{
		sips:        "of sips: the weights of whole lists",
		rips:        "of rips: the reward of a position may depend on the entries above it",
		iips:        "of iips: the reward of a position depends on its own entry only",
		conditional: "of conditional: the target at each position, the logger above it",
	}[ta.basis]
	if ta.basis == iips && ta.lists.terms[rips].mean.n == 0 {
		text += " (the log does not have the law of beginnings, which rips needs)"
	}
	if left := ta.lists.terms[ta.basis].left(); left != "" {
		text += "; " + left
	}
	return text
}

// listMoments is what the weights of an estimator of lists are expected to be: Σ E w² and Σ E w³. few says why the normal
// interval is in doubt already.
func (e *evidence) listMoments(ta *targetSums, key string) (second, third float64, few string) {
	k := slices.Index(listNames[:], key)
	switch key {
	case "pbm":
		k = iips
	case "uplift-ips":
		k = ta.basis
	}
	t := &ta.lists.terms[k]
	if t.mean.n == 0 {
		return 1, 1, ""
	}
	second, third = t.second, t.third
	if t.partly {
		if t.mean.n < leastWithoutLaw {
			return 0, 0, fmt.Sprintf("fewer than %d lists without the logger's whole law", leastWithoutLaw)
		}
		second, third = second/t.least, third/(t.least*t.least)
	}
	return second, third, ""
}

// influence says that positions influence one another, "" where nothing shows it beyond chance.
func (e *evidence) influence(ta *targetSums) string {
	x := &ta.lists.apart
	alpha := (1 - e.p.level) / 2
	if x.n == 0 || e.noSequence() != "" || !e.p.rewards.known() ||
		x.seq.lower.bound(alpha, -1, 1) <= 0 && x.seq.upper.bound(alpha, -1, 1) <= 0 {
		return ""
	}
	return fmt.Sprintf("positions influence one another: rips − iips is %s in the mean of the same lists, which chance does not explain, so iips and "+
		"pbm are biased; rips is not where only entries above matter", short(x.difference.value()/float64(x.n)))
}

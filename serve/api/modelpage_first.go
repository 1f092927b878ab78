package api

import (
	"fmt"
	"time"

	"troupe/internal/decimal"
	"troupe/ope"
)

// baselineText compares the model with the first candidate of each request, which is Personalizer's baseline.
func baselineText(es []estimates, outside int) (out []string) {
	last := &es[len(es)-1]
	if last.weighed < fewDecisions || outside > 0 {
		return nil
	}
	f := &last.first
	if !(last.firstWeight > 0.8 && last.firstWeight < 1.25) || !ope.Shown(last.firstSize) {
		return []string{fmt.Sprintf("What the first candidate of each request would have earned lies between %s and "+
			"%s; it was played too rarely for a number.", short(f.Low), short(f.High))}
	}
	verdict := "The intervals of the model and of this baseline overlap: the difference is not certain yet."
	switch {
	case last.played.Low > f.High:
		verdict = "The model is better than this baseline."
	case last.played.High < f.Low:
		verdict = "The model is worse than this baseline."
	}
	if d := &last.less; d.Low > 0 || d.High < 0 {
		word, lo, hi := "better", d.Low, d.High
		if d.High < 0 {
			word, lo, hi = "worse", -d.High, -d.Low
		}
		verdict = fmt.Sprintf("On the same decisions the model is %s than this baseline, by %s to %s (95%% sure by "+
			"itself, at any time you look).", word, short(lo), short(hi))
	}
	return []string{fmt.Sprintf("The baseline, the first candidate of each request, would have earned %s by inverse "+
		"propensities, between %s and %s.", short(f.Mean), short(f.Low), short(f.High)), verdict}
}

// planText says after how many decisions a model that is better than the first candidate of each request by a tenth is
// known to be: by the laws, and by the mean reward as the base rate.
func planText(h *modelHistory, t *terms, last *estimates) []string {
	scale := t.max - t.min
	rate := (last.played.Mean - t.min) / scale
	if !(rate > 0.001 && rate < 0.999) || last.less.Low > 0 || last.less.High < 0 {
		return nil
	}
	var times [2]int64
	n, first := 0, 0
	o := ope.PlanOptions{Rate: 1 - rate, Rewards: ope.Pair{t.min, t.max}, Plain: true} // 1 − y: the baseline has more
	p, err := ope.NewPlanner(o)
	if err != nil {
		return nil
	}
	for _, d := range h.decisions {
		if !d.policy() || d.num == 0 {
			continue
		}
		if n++; n == 1 || d.time < times[0] {
			times[0] = d.time
		}
		times[1] = max(times[1], d.time)
		if d.index == 0 && d.num < d.den {
			pb := float64(d.num) / float64(d.den)
			p.AddWeighted([]float64{pb, 1 - pb}, []float64{1, 0}, 1/pb)
			first++
		}
	}
	if first < fewDecisions {
		return nil
	}
	x, err := p.Plan(scale * rate / 10)
	if err != nil || x.Decisions == 0 {
		return nil
	}
	text := fmt.Sprintf("If the model is better than this baseline by a tenth, that is known after about %s decisions "+
		"with 80%% chance", grouped(round(x.Decisions)))
	if per := (times[1] - times[0]) / int64(max(n-1, 1)); per > 0 && x.Decisions < 1e9 {
		text += fmt.Sprintf(", %s at the rate of these", lasting(time.Duration(x.Decisions)*time.Duration(per)))
	}
	if x.Least != nil {
		text += fmt.Sprintf("; half as many would do with %s%% of uniform decisions more", decimal.Short(100**x.Share, 2))
	}
	return []string{text + "."}
}

// lasting says a time in its largest unit.
func lasting(d time.Duration) string {
	if h := d.Hours(); h >= 48 {
		return decimal.Short(h/24, 2) + " days"
	} else if h >= 2 {
		return decimal.Short(h, 2) + " hours"
	}
	return decimal.Short(d.Minutes(), 2) + " minutes"
}

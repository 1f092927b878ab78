package report

import (
	"fmt"

	"troupe/internal/infer"
	"troupe/report/chart"
	"troupe/report/headline"
)

// nounOf calls an estimand by its name in a sentence.
func nounOf(e infer.Estimand) string {
	return [...]string{infer.Mean: "mean regret", infer.Median: "median regret",
		infer.CVaR5: "mean regret of the worst 5%", infer.ShareLost: "share of lost runs"}[e]
}

// shortOf calls it by one or two words, in a table.
func shortOf(e infer.Estimand) string {
	return [...]string{infer.Mean: "mean", infer.Median: "median", infer.CVaR5: "worst 5%",
		infer.ShareLost: "lost"}[e]
}

// meaning defines an estimand for the reader of the page; "" for the mean.
func meaning(e infer.Estimand) string {
	fixed := " The spec fixes it; verdicts, differences and places are by it, and figures over time show means."
	switch e {
	case infer.Median:
		return "Policies are compared by the median of their regrets." + fixed
	case infer.CVaR5:
		return "Policies are compared by the mean regret of the worst 5% of their " +
			"replications." + fixed
	case infer.ShareLost:
		return "Policies are compared by the share of their replications that are lost: regret stays linear, so " +
			"that it " +
			"has an exponent of at least 0.9 over the last doubling of the rounds." + fixed
	}
	return ""
}

// Word is the verdict on policy i.
func (a *Analysis) Word(i int) string {
	if a.Pairs.Diff[i].Verdict == Tied && a.stand(i) == headline.AboutSame {
		return headline.AboutSame.String()
	}
	return verdictWord(a.Pairs.Diff[i].Verdict, a.Estimand)
}

func verdictWord(v Verdict, e infer.Estimand) string {
	switch {
	case v == Lowest && e == infer.ShareLost:
		return "fewest lost"
	case v == Lowest:
		return "lowest " + shortOf(e)
	case v == Worse && e != infer.Mean:
		return "larger"
	}
	return v.String()
}

// amount writes an estimate, or the size of a difference.
func (a *Analysis) amount(v float64) string {
	if a.Estimand == infer.ShareLost {
		return chart.Percent(v)
	}
	return chart.Amount(v, a.Dec)
}

// chance is the clause behind statements about more than one difference.
func (a *Analysis) chance() string {
	all := "all pairs"
	if len(a.Run.Manifest.Environments) > 1 && !a.Sequential() {
		all = "all pairs of all environments"
	}
	return "(95%, " + all + " at once)"
}

// placeText writes the places that a policy may have: 1, or 1–3.
func placeText(a *Analysis, i int) string {
	if a.Pairs.Places == nil || a.Rounded[i] {
		return ""
	}
	p := a.Pairs.Places[i]
	if p[0] == p[1] {
		return fmt.Sprint(p[0])
	}
	return fmt.Sprintf("%d–%d", p[0], p[1])
}

// places says in a sentence which places the intervals leave; nil where each policy has one place, or all have all.
func (se sentences) places() Prose {
	if se.a.Pairs.Places == nil || se.a.Compared() < 3 || se.a.Compared() > 6 {
		return nil
	}
	var p Prose
	one, all := true, true
	for n, i := range se.a.Order[:se.a.Compared()] {
		at := se.a.Pairs.Places[i]
		one, all = one && at[0] == at[1], all && at == [2]int{1, se.a.Compared()}
		sep := ", "
		if n == 0 {
			sep = ""
		}
		where := fmt.Sprintf(" %d", at[0])
		if at[0] < at[1] {
			where += fmt.Sprintf(" to %d", at[1])
		}
		p = say(p, sep, name(se.a.Label(i)), where)
	}
	if one || all {
		return nil
	}
	return say("Places by these intervals: ", p, ".")
}

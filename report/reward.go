package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"troupe/internal/stats"
	"troupe/report/chart"
)

// earned is what one policy earned: mean reward per round so far, with the half width of its pointwise
// 95 % interval by checkpoint, and its standard error at T.
type earned struct {
	mean, half []float64
	se         float64
}

// earnings computes what every policy earned.
func earnings(a *Analysis, data *EnvData) []earned {
	out := make([]earned, len(a.Policies))
	x := make([]float64, a.R())
	for i, p := range a.Policies {
		q := &out[i]
		q.mean, q.half = make([]float64, len(a.Rounds)), make([]float64, len(a.Rounds))
		for k, t := range a.Rounds {
			for j, r := range a.Reps {
				x[j] = data.Cells[p][r].Reward[k] / float64(t)
			}
			q.mean[k] = stats.Mean(x)
			if a.R() > 1 {
				q.se = stats.StdErr(x)
				q.half[k] = 1.96 * q.se
			}
		}
	}
	return out
}

// rewardName names the mean reward of a round: a share where a reward is 0 or 1.
func (pa painter) rewardName() (name string, share bool) {
	e := &pa.a.Run.Manifest.Environments[pa.a.Env]
	option := func(key, otherwise string) string {
		if v, ok := e.Options[key].(string); ok {
			return v
		}
		return otherwise
	}
	_, scaled := e.Options["scale"]
	switch {
	case e.Kind == "classification" && option("reward", "zero-one") == "zero-one" && !scaled, e.Kind == "one-hot":
		return "Accuracy", true
	case e.Kind == "clicks":
		return "Clicks per round", true
	}
	return "Reward per round", false
}

// rewardFigure returns the mean reward over time and its table. The first hundredth of the rounds is left out: a mean
// over few rounds says little.
func (pa painter) rewardFigure(id string) (*chart.Figure, *chart.Table) {
	name, share := pa.rewardName()
	first := 0
	for first < len(pa.a.Rounds)-2 && pa.a.Rounds[first] < pa.a.T/100 {
		first++
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, q := range pa.a.earned {
		for k := first; k < len(pa.a.Rounds); k++ {
			lo, hi = min(lo, q.mean[k]-q.half[k]), max(hi, q.mean[k]+q.half[k])
		}
	}
	if !(hi > lo) {
		hi = lo + 1
	}
	if share {
		lo, hi = max(lo, 0), min(max(hi, lo+1e-9), 1)
	}
	yt := chart.LinearTicks(lo, hi, 4)
	x := make([]float64, 0, len(pa.a.Rounds))
	for _, t := range pa.a.Rounds[first:] {
		x = append(x, float64(t))
	}
	p := &chart.Panel{Look: -1,
		X: chart.Axis{Caption: clockCaption(pa.a), Lo: x[0], Hi: float64(pa.a.T), Ticks: chart.Within(chart.LinearTicks(0,
			float64(pa.a.T), 5), x[0], float64(pa.a.T))},
		Y: chart.Axis{Caption: name + " so far", Lo: min(lo, yt[0].At), Hi: max(hi, yt[len(yt)-1].At), Ticks: yt}}
	if len(x) < 2 || x[0] == float64(pa.a.T) {
		p.X.Lo = 0
	}
	dec := 3 // as many decimals as a standard error has
	for _, q := range pa.a.earned {
		if q.se > 0 {
			dec = max(dec, min(chart.DecimalsOf(q.se), 6))
		}
	}
	for i, look := range pa.a.Policies {
		q := &pa.a.earned[i]
		low, high := make([]float64, 0, len(x)), make([]float64, 0, len(x))
		for k := first; k < len(pa.a.Rounds); k++ {
			low, high = append(low, q.mean[k]-q.half[k]), append(high, q.mean[k]+q.half[k])
		}
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.Band, Look: look, Name: pa.a.Label(i), X: x, Lo: low, Hi: high})
	}
	labelled := pa.named()
	for _, i := range slices.Backward(pa.a.Order) {
		q := &pa.a.earned[i]
		p.Marks = append(p.Marks, chart.Mark{Kind: chart.Line, Look: pa.a.Policies[i], Name: pa.a.Label(i), X: x,
			Y: q.mean[first:]})
		if slices.Contains(labelled, i) {
			p.Ends = append(p.Ends, chart.End{Look: pa.a.Policies[i], Y: q.mean[len(pa.a.Rounds)-1], Label: pa.a.Label(i)})
		}
	}
	figure := &chart.Figure{ID: id + "reward", Title: name + " against time", Panels: []*chart.Panel{p},
		How: fmt.Sprintf("Mean over rounds 1 … t and %s, with pointwise 95%% intervals. Higher is better.",
			many(pa.a.R(), "replication")) + pa.unlabelled()}
	table := &chart.Table{ID: id + "reward", Title: name + ": " + pa.a.Name, Cols: []chart.Column{
		{Key: "policy", Head: "Policy", Text: true}, {Key: "reward_per_round", Head: name, Dec: dec},
		{Key: "se", Head: "± s.e.", Dec: dec, PM: true}},
		Note: fmt.Sprintf("Mean over all %s rounds, also those in which a policy explored.",
			chart.Amount(float64(pa.a.T), 0))}
	order := slices.Clone(pa.a.Order)
	slices.SortStableFunc(order, func(i, j int) int {
		return cmp.Compare(pa.a.Summary[j].RewardPerRound, pa.a.Summary[i].RewardPerRound)
	})
	for _, i := range order {
		se := chart.Empty()
		if pa.a.R() > 1 {
			se = chart.Num(pa.a.earned[i].se)
		}
		table.Rows = append(table.Rows, chart.Row{Look: pa.a.Policies[i],
			Cells: []chart.Cell{chart.TextCell(pa.a.Label(i)), chart.Num(pa.a.Summary[i].RewardPerRound), se}})
	}
	return figure, table
}

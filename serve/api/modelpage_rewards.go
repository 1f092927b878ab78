package api

import (
	"fmt"
	"math"

	"troupe/serve"
)

// rewardsPage is what the page shows of a model whose rewards have names.
type rewardsPage struct {
	Text string
	Rows []rewardRow
}

// rewardRow is a reward: its weight, and the mean of its final values with a normal interval.
type rewardRow struct{ Name, Weight, Mean, Interval string }

// rewardsOf returns a row for each reward of a model, nil where they have no names.
func rewardsOf(h *modelHistory, m *serve.Model, t *terms) *rewardsPage {
	of := m.Config.Rewards
	if len(of) == 0 {
		return nil
	}
	n := 0
	mean, squares := make([]float64, len(of)), make([]float64, len(of))
	for _, d := range h.decisions {
		if _, final := h.value(d, t); !final {
			continue
		}
		n++
		for i := range of { // Welford
			y := d.named[of[i].Name]
			step := y - mean[i]
			mean[i] += step / float64(n)
			squares[i] += step * (y - mean[i])
		}
	}
	p := &rewardsPage{Text: fmt.Sprintf("The model learns their weighted sum. The means are of %s decisions with a final reward, in which a "+
		"reward that was not sent counts 0.", grouped(uint64(n)))}
	sure := n >= 2 && m.Config.Unit == ""
	switch {
	case m.Config.Unit != "":
		p.Text += " There are no intervals: decisions of one unit share a draw. troupe evaluate has intervals that count units."
	case sure:
		p.Text += " The intervals are 95% normal ones for this moment, each for itself; troupe evaluate has intervals that hold together whenever you look."
	}
	for i := range of {
		row := rewardRow{Name: of[i].Name, Weight: short(of[i].Weight), Mean: "–", Interval: "–"}
		if n > 0 {
			row.Mean = short(mean[i])
		}
		if sure {
			half := 1.959963984540054 * math.Sqrt(squares[i]/float64(n-1)/float64(n))
			row.Interval = fmt.Sprintf("%s to %s", short(mean[i]-half), short(mean[i]+half))
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}

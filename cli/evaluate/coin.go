package evaluate

import (
	"fmt"
	"io"
	"math"
	"slices"

	"troupe/cli/term"
	"troupe/logged"
	"troupe/ope"
)

// coinLog feeds the decisions of a log, of which each says what its actions cost, to the comparison with a coin.
type coinLog struct {
	lo, hi  float64
	coin    *ope.Coin
	keys    []uint64 // of the actions of the first decision: hashes of ids, or places
	names   []string // "" until the action was played
	others  int      // decisions with an action that the first one did not have
	stopped int      // under the hard stop of a budget
	without int      // decisions without costs or without a law
	paid    float64  // Σ of what calls said, or was stated
	stated  float64  // Σ of what was stated, of the same
	n       int      // of these
	trouble string   // why nothing can be compared

	law, costs []float64
	hashed     bool
}

// add takes a decision.
func (c *coinLog) add(e *logged.Event) {
	m := e.Money
	if m == nil || e.Law == nil || len(m.Costs) != len(e.Law) || len(e.Slots) > 0 {
		c.without++
		return
	}
	if m.Cost == m.Cost {
		c.paid, c.stated, c.n = c.paid+m.Cost, c.stated+m.Costs[e.Chosen], c.n+1
	}
	if m.Stopped {
		c.stopped++
		return
	}
	if c.coin == nil {
		c.hashed = len(e.Actions) == len(e.Law) && len(e.Actions[0].Atoms) > 0
		for i := range e.Law {
			c.keys = append(c.keys, c.key(e, i))
		}
		k := len(e.Law)
		c.names, c.law, c.costs = make([]string, k), make([]float64, k), make([]float64, k)
		c.coin = ope.NewCoin(k, c.lo, c.hi)
	}
	for k := range c.law {
		c.law[k], c.costs[k] = 0, math.NaN()
	}
	chosen, other := -1, false
	for i, p := range e.Law {
		k := slices.Index(c.keys, c.key(e, i))
		if k < 0 {
			other = true
			continue
		}
		c.law[k], c.costs[k] = p, m.Costs[i]
		if i == e.Chosen {
			chosen = k
			if m.Action != "" && c.names[k] != "" && c.names[k] != m.Action {
				c.trouble = fmt.Sprintf("%s and %s stand at one place: without hashed features the log does not say "+
					"which actions were offered", c.names[k], m.Action)
			}
			c.names[k] = m.Action
		}
	}
	if other {
		c.others++
	}
	c.coin.Add(c.law, c.costs, chosen, e.Reward)
}

// key names an action across decisions.
func (c *coinLog) key(e *logged.Event, i int) uint64 {
	if c.hashed && i < len(e.Actions) && len(e.Actions[i].Atoms) > 0 {
		return e.Actions[i].Atoms[0].Hash
	}
	return uint64(i)
}

// result returns the comparison, nil for a log without costs.
func (c *coinLog) result(level float64) (r *ope.CoinResult, warning string) {
	switch {
	case c == nil || c.coin == nil && c.stopped == 0:
		return nil, ""
	case c.trouble != "":
		return nil, "whether choosing pays cannot be said: " + c.trouble
	case c.coin == nil:
		c.coin = ope.NewCoin(1, c.lo, c.hi)
		c.names = []string{""}
	}
	for k := range c.names {
		if c.names[k] == "" {
			c.names[k] = fmt.Sprintf("action %d", k)
		}
	}
	r = c.coin.Result(level, c.names)
	r.Stopped = c.stopped
	if r.Events == 0 {
		r.Actions = nil
	}
	if c.n > 0 && math.Abs(c.paid-c.stated) > .02*c.stated {
		warning = fmt.Sprintf("decisions cost %s in the mean, and requests stated %s: the comparison with a coin "+
			"takes what was stated", figures(c.paid/float64(c.n)), figures(c.stated/float64(c.n)))
	}
	return r, warning
}

// printCoin prints whether choosing pays: mean cost and mean reward of the decisions and of every fixed action.
func printCoin(w io.Writer, r *ope.Result, decimals int, line func(label, text string)) {
	c := r.Coin
	if c == nil {
		return
	}
	line("pays", fmt.Sprintf("%s (%s %% sure at every look; %s)", c.Sentence, percentOf(r.Level),
		term.Many(c.Events, "decision")))
	if c.Stopped > 0 {
		line("", fmt.Sprintf("%s under the hard stop of the budget are not among them",
			term.Many(c.Stopped, "decision")))
	}
	if c.Events == 0 {
		return
	}
	row := func(mark string, p ope.CoinPoint) [3]string {
		out := [3]string{mark + term.Shorten(p.Action, 22), "", ""}
		if p.Lacking > 0 {
			out[2] = fmt.Sprintf("no point: %d of %d decisions could not play it; a floor (floor = 0.01) gives it one",
				p.Lacking, c.Events)
			return out
		}
		out[1] = "cost " + figures(p.Cost)
		out[2] = fmt.Sprintf("reward %.*f [%.*f, %.*f]", decimals, p.Reward, decimals, p.Lower, decimals, p.Upper)
		if p.Share > 0 {
			out[2] += fmt.Sprintf(", %.0f %% of the coin", 100*p.Share)
		}
		return out
	}
	rows := [][3]string{row("* ", ope.CoinPoint{Action: "the decisions", Cost: c.Policy.Cost, Reward: c.Policy.Reward,
		Lower: c.Policy.Lower, Upper: c.Policy.Upper})}
	for _, p := range c.Actions {
		rows = append(rows, row("  ", p))
	}
	printRows(w, rows)
}

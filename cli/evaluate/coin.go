package evaluate

import (
	"fmt"
	"io"

	"troupe/cli/term"
	"troupe/ope"
)

// printCoin prints whether choosing pays: mean cost and mean reward of the decisions and of every fixed action.
func printCoin(w io.Writer, r *ope.Result, decimals int, line func(label, text string)) {
	c := r.Coin
	if c == nil {
		return
	}
	line("pays", fmt.Sprintf("%s (%s%% sure at every look; %s)", c.Sentence, percentOf(r.Level),
		term.Many(c.Events, "decision")))
	if c.Stopped > 0 {
		line("", fmt.Sprintf("%s under the hard stop of the budget are not among them",
			term.Many(c.Stopped, "decision")))
	}
	printCoinRows(w, c, decimals)
	if s := c.WithStop; s != nil {
		line("stop", fmt.Sprintf("with those: %s (%s; where the stop took an action away, the cheapest that was left stands "+
			"in for it)", s.Sentence, term.Many(s.Events, "decision")))
		printCoinRows(w, s, decimals)
	}
}

// printCoinRows prints the mean cost and the mean reward of the decisions and of each fixed action.
func printCoinRows(w io.Writer, c *ope.CoinResult, decimals int) {
	if c.Events == 0 {
		return
	}
	row := func(mark string, p ope.CoinPoint) [3]string {
		out := [3]string{mark + term.Shorten(p.Action, 22), "", ""}
		if why := p.Missing(c.Events); why != "" {
			out[2] = why
			return out
		}
		out[1] = "cost " + figures(p.Cost)
		reward := "–" // fewer effective decisions than a point needs
		if p.Reward != nil {
			reward = fmt.Sprintf("%.*f", decimals, *p.Reward)
		}
		out[2] = fmt.Sprintf("reward %s [%.*f, %.*f]", reward, decimals, p.Lower, decimals, p.Upper)
		if p.Share > 0 {
			out[2] += fmt.Sprintf(", %.0f%% of the coin", 100*p.Share)
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

package ope

import (
	"fmt"
	"math"
)

// Coin compares a logger that pays for its actions with the best coin between fixed actions of the same mean cost: does
// choosing pay? Every event has the law that its action was drawn from and what each action costs, as it was stated.
// The rewards lie in [lo, hi].
//
// With R the mean reward of the logger, C its mean expected cost Σ_a p(a)c(a), r_k and c_k those of always playing
// action k, all on the same events, a coin of mean cost C earns at most V(C) = min_{λ≥0} max_k (r_k − λ(c_k − C)), so
//
//	D = R − V(C) = max_{λ≥0} min_k (ρ_k − λγ_k),   ρ_k = R − r_k,   γ_k = C − c_k.
//
// The γ_k are known; D rises with every ρ_k. With y in [0, 1] and w = 1{a = k}/p(k), (w − 1)(1 − y) ≥ −1 has the mean
// ρ_k and (w − 1)y ≥ −1 the mean −ρ_k, so two log-mixture sequences ([Sequence]) bound ρ_k at every n at once, for
// loggers that learn. Each of the 2K has its part of the error, and D lies between its values at the lower and at the
// upper bounds.
//
// An action that some event could not play has no mean on these events and is not part of the coin. Cost of an event:
// 40 products for each action and side; memory O(K). Not safe for concurrent use.
type Coin struct {
	lo, hi  float64
	n       int
	reward  coinSides // of the logger
	sum     float64
	cost    float64
	uniform float64 // Σ of the mean costs of what was offered
	actions []coinAction
}

// coinAction is what is known of a fixed action.
type coinAction struct {
	own, less         coinSides // of r_k; of ρ_k
	weights, weighted float64   // Σ w, Σ w y
	squares           float64   // Σ w²
	cost              float64   // Σ c_k
	lacking           int       // events that could not play it: then it has no mean
	absent            int       // of these, events that did not offer it
}

// coinSides are two sequences: of a mean from below, and of one less it.
type coinSides struct{ lower, upper *Sequence }

func newCoinSides(shift float64) coinSides { return coinSides{NewSequence(shift), NewSequence(shift)} }

// NewCoin returns the comparison of K actions. It panics unless lo < hi.
func NewCoin(k int, lo, hi float64) *Coin {
	if !(lo < hi) {
		panic("ope: a coin needs a range of rewards")
	}
	c := &Coin{lo: lo, hi: hi, reward: newCoinSides(0)}
	c.grow(k)
	return c
}

// grow makes room for k actions. One that comes after the first event was absent from those before.
func (c *Coin) grow(k int) {
	for len(c.actions) < k {
		a := coinAction{lacking: c.n, absent: c.n}
		if c.n == 0 {
			a.own, a.less = newCoinSides(0), newCoinSides(1)
		}
		c.actions = append(c.actions, a)
	}
}

// Add takes an event: the law, what each action costs (NaN for one that was not offered), which was played, and its
// reward, which is cut to the range. There may be more actions than in the events before, behind them.
func (c *Coin) Add(law, costs []float64, chosen int, reward float64) {
	c.add(law, costs, chosen, reward, -1)
}

// AddStopped takes an event under the hard stop of a budget. A fixed action that the law could not play there, because
// the stop had taken it away, is replaced by the cheapest one that the law could play: that is what always asking it
// would have come to under the same stop. Which one that is depends on the law and the costs, not on the draw, so that
// the intervals hold as before.
func (c *Coin) AddStopped(law, costs []float64, chosen int, reward float64) {
	cheapest := -1
	for k, p := range law {
		if p > 0 && (cheapest < 0 || costs[k] < costs[cheapest]) {
			cheapest = k
		}
	}
	c.add(law, costs, chosen, reward, cheapest)
}

// add takes an event in which action instead, if it is not −1, stands in for those that were offered and could not be
// played.
func (c *Coin) add(law, costs []float64, chosen int, reward float64, instead int) {
	c.grow(len(law))
	y := min(1, max(0, (reward-c.lo)/(c.hi-c.lo)))
	c.n++
	c.sum += y
	c.reward.lower.Add(y)
	c.reward.upper.Add(1 - y)
	uniform, of := 0.0, 0
	for k := range c.actions {
		a := &c.actions[k]
		offered := k < len(law) && costs[k] == costs[k]
		if offered && law[k] > 0 {
			c.cost += float64(law[k] * costs[k])
		}
		plays := k
		if offered && law[k] == 0 && instead >= 0 {
			plays = instead
		}
		if offered {
			uniform, of = uniform+costs[k], of+1
		} else {
			a.absent++
		}
		if !offered || law[plays] == 0 {
			a.lacking++
		}
		if a.lacking > 0 {
			continue
		}
		w := 0.0
		if plays == chosen {
			w = 1 / law[plays]
		}
		a.cost += costs[plays]
		a.weights += w
		a.squares += float64(w * w)
		a.weighted += float64(w * y)
		a.own.lower.Add(float64(w * y))
		a.own.upper.Add(float64(w * (1 - y)))
		a.less.lower.Add(float64((w - 1) * (1 - y)))
		a.less.upper.Add(float64((w - 1) * y))
	}
	c.uniform += uniform / float64(max(1, of))
}

// floor returns the floor of a model that gives every action support and adds at most about a tenth to the mean cost:
// at most .01, with one digit.
func (c *Coin) floor() float64 {
	f := .01
	if c.uniform > 0 {
		f = min(f, .1*c.cost/c.uniform)
	}
	digit := math.Pow(10, math.Floor(math.Log10(max(f, 1e-6))+1e-9))
	return math.Floor(max(f, 1e-6)/digit+1e-9) * digit
}

// CoinPoint is a mean cost and a mean reward with its interval.
type CoinPoint struct {
	Action  string   `json:"action,omitempty" doc:"name of the action; absent for the policy"`
	Cost    float64  `json:"cost" doc:"mean cost of a decision"`
	Reward  *float64 `json:"reward" doc:"mean reward of a decision, self-normalised; null where the log cannot say"`
	Lower   float64  `json:"lower" doc:"lower end of the interval of the reward"`
	Upper   float64  `json:"upper" doc:"upper end of the interval of the reward"`
	Lacking int      `json:"lacking,omitempty" doc:"events, from the first on, that could not play the action; then it has no point"`
	Absent  int      `json:"absent,omitempty" doc:"of these, events that did not offer it"`
	Floor   float64  `json:"floor,omitempty" doc:"of a model: its exploration floor, which would give an action without a point one"`
	Share   float64  `json:"share,omitempty" doc:"part of the decisions in which the coin plays the action"`
}

// Missing says why the action has no point in a comparison of so many events, and what would give it one; "" where it
// has one.
func (p CoinPoint) Missing(events int) string {
	switch {
	case p.Lacking == 0:
		return ""
	case p.Absent > 0:
		return fmt.Sprintf("no point: %d of %d decisions did not offer it", p.Absent, events)
	}
	return fmt.Sprintf("no point: %d of %d decisions could not play it; a floor gives it one, such as floor = %v", p.Lacking, events,
		p.Floor)
}

// CoinResult says whether choosing pays. Every interval holds at every n at once, each with its own level.
type CoinResult struct {
	Events     int         `json:"events" doc:"decisions that are compared"`
	Stopped    int         `json:"stopped" doc:"decisions under the hard stop of a budget, which are not among them"`
	Policy     CoinPoint   `json:"policy"`
	Actions    []CoinPoint `json:"actions" doc:"each fixed action"`
	Compared   bool        `json:"compared" doc:"there is a coin of the policy's cost"`
	Difference *float64    `json:"difference" doc:"mean reward of the policy less that of the coin; null where an action of the coin has none"`
	Lower      float64     `json:"lower" doc:"lower end of the interval of the difference"`
	Upper      float64     `json:"upper" doc:"upper end of the interval of the difference"`
	Sentence   string      `json:"sentence" doc:"the comparison in words"`
	// WithStop is the comparison of all events, those under the hard stop too: see Coin.AddStopped. Absent without
	// such.
	WithStop *CoinResult `json:"with_stop,omitempty"`

	under bool // it is that
}

// Result returns the comparison at this level, such as .95. Names are those of the actions.
func (c *Coin) Result(level float64, names []string) *CoinResult {
	return c.result(level, names, false)
}

// result is Result; under says that events under the hard stop are among them.
func (c *Coin) result(level float64, names []string, under bool) *CoinResult {
	n, scale := float64(max(1, c.n)), c.hi-c.lo
	r := &CoinResult{Events: c.n, under: under}
	bounds := func(s coinSides, alpha float64) (lo, hi float64) {
		return c.lo + float64(scale*s.lower.Lower(alpha/2, 0, 1)), c.lo + float64(scale*(1-s.upper.Lower(alpha/2, 0, 1)))
	}
	mine := c.lo + float64(scale*(c.sum/n))
	r.Policy = CoinPoint{Cost: c.cost / n, Reward: &mine}
	r.Policy.Lower, r.Policy.Upper = bounds(c.reward, 1-level)
	var at []int // actions with a point
	floor := c.floor()
	var gap, mean, low, high []float64
	best := make([]float64, len(c.actions)) // of each action's reward, shown or not: they choose the coin
	for k := range c.actions {
		a := &c.actions[k]
		p := CoinPoint{Action: names[k], Lacking: a.lacking, Absent: a.absent}
		if a.lacking == 0 && c.n > 0 {
			p.Cost = a.cost / n
			p.Lower, p.Upper = bounds(a.own, 1-level)
			own := (p.Lower + p.Upper) / 2
			if a.weights > 0 {
				own = c.lo + float64(scale*(a.weighted/a.weights))
			}
			best[k] = min(p.Upper, max(p.Lower, own))
			if Shown(effective(a.weights, a.squares)) {
				p.Reward = ptr(best[k])
			}
			at = append(at, k)
		} else if a.absent == 0 {
			p.Floor = floor
		}
		r.Actions = append(r.Actions, p)
	}
	alpha := (1 - level) / (2 * float64(max(1, len(at))))
	for _, k := range at {
		a := &c.actions[k]
		gap = append(gap, r.Policy.Cost-r.Actions[k].Cost)
		mean = append(mean, mine-best[k])
		low = append(low, scale*a.less.lower.Lower(alpha, -1, 1))
		high = append(high, -scale*a.less.upper.Lower(alpha, -1, 1))
	}
	if least, one, two, share, ok := coinGap(mean, gap); ok {
		r.Compared = true
		r.Actions[at[one]].Share, r.Actions[at[two]].Share = 1-share, share
		if one == two {
			r.Actions[at[one]].Share = 1
		}
		r.Lower, _, _, _, _ = coinGap(low, gap)
		r.Upper, _, _, _, _ = coinGap(high, gap)
		if r.Actions[at[one]].Reward != nil && r.Actions[at[two]].Reward != nil {
			r.Difference = ptr(within(least, Pair{r.Lower, r.Upper}))
		}
	}
	r.Sentence = r.say()
	return r
}

// coinGap is max_{λ≥0} min_k (rho_k − λ·gap_k), from the coin: the smallest Σ_k x_k rho_k over shares x with Σ x_k
// gap_k ≥ 0. Two actions are enough: one with gap ≥ 0 and a dearer one, mixed so that the gaps cancel. ok is false when
// every gap is negative.
func coinGap(rho, gap []float64) (best float64, one, two int, share float64, ok bool) {
	best = math.Inf(1)
	for i := range rho {
		if gap[i] < 0 {
			continue
		}
		if ok = true; rho[i] < best {
			best, one, two, share = rho[i], i, i, 0
		}
		for j := range rho {
			if gap[j] >= 0 {
				continue
			}
			s := gap[i] / (gap[i] - gap[j])
			if v := float64((1-s)*rho[i]) + float64(s*rho[j]); v < best {
				best, one, two, share = v, i, j, s
			}
		}
	}
	return best, one, two, share, ok
}

// say is the result in one sentence.
func (r *CoinResult) say() string {
	if r.Events == 0 && r.under {
		return "no decision has a law and costs: nothing is compared"
	}
	if r.Events == 0 {
		return "no decision outside of the hard stop has a law and costs: nothing is compared"
	}
	if !r.Compared {
		return "every action with a point costs more than the decisions did: there is no coin of this cost"
	}
	coin := ""
	for _, p := range r.Actions {
		if p.Share > 0 {
			if coin != "" {
				coin += " and "
			}
			coin += p.Action
		}
	}
	what := "always asking " + coin
	if r.mixed() == 2 {
		what = "a coin of the same cost between " + coin
	}
	if r.under {
		what += " under the same stop"
	}
	between := fmt.Sprintf("between %.3f and %.3f", r.Lower, r.Upper)
	amount, point := "", "" // of the difference, where it has a point
	if r.Difference != nil {
		amount, point = fmt.Sprintf(" %.3f", math.Abs(*r.Difference)), fmt.Sprintf(" %+.3f,", *r.Difference)
	}
	switch {
	case r.Lower > 0:
		return fmt.Sprintf("choosing earns%s more than %s, %s", amount, what, between)
	case r.Upper < 0 && r.mixed() == 1:
		return fmt.Sprintf("choosing does not pay: %s would cost less and earn%s more (the difference is %s)", what, amount,
			between)
	case r.Upper < 0:
		return fmt.Sprintf("choosing does not pay: %s earns%s more (the difference is %s)", what, amount, between)
	}
	return fmt.Sprintf("choosing does not pay so far: against %s the difference is%s %s", what, point, between)
}

func (r *CoinResult) mixed() (n int) {
	for _, p := range r.Actions {
		if p.Share > 0 {
			n++
		}
	}
	return n
}

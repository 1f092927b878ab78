package ope

import (
	"fmt"
	"math"
)

// Coin compares a logger that pays for its actions with the best coin between fixed actions of the same mean cost: does
// choosing pay? Every event has the law that its action was drawn from and what each action costs, as it was stated. The
// rewards lie in [lo, hi].
//
// With R the mean reward of the logger, C its mean expected cost Σ_a p(a)c(a), r_k and c_k those of always playing action
// k, all on the same events, a coin of mean cost C earns at most V(C) = min_{λ≥0} max_k (r_k − λ(c_k − C)), so
//
//	D = R − V(C) = max_{λ≥0} min_k (ρ_k − λγ_k),   ρ_k = R − r_k,   γ_k = C − c_k.
//
// The γ_k are known; D rises with every ρ_k. With y in [0, 1] and w = 1{a = k}/p(k), (w − 1)(1 − y) ≥ −1 has the mean ρ_k
// and (w − 1)y ≥ −1 the mean −ρ_k, so two log-mixture sequences ([Sequence]) bound ρ_k at every n at once, for loggers
// that learn. Each of the 2K has its part of the error, and D lies between its values at the lower and at the upper bounds.
//
// An action that some event could not play has no mean on these events and is not part of the coin. Cost of an event: 40
// products for each action and side; memory O(K). Not safe for concurrent use.
type Coin struct {
	lo, hi  float64
	n       int
	reward  coinSides // of the logger
	sum     float64
	cost    float64
	actions []coinAction
}

// coinAction is what is known of a fixed action.
type coinAction struct {
	own, less         coinSides // of r_k; of ρ_k
	weights, weighted float64   // Σ w, Σ w y
	cost              float64   // Σ c_k
	lacking           int       // events that could not play it
}

// coinSides are two sequences: of a mean from below, and of one less it.
type coinSides struct{ lower, upper *Sequence }

// NewCoin returns the comparison of K actions. It panics unless lo < hi.
func NewCoin(k int, lo, hi float64) *Coin {
	if !(lo < hi) {
		panic("ope: a coin needs a range of rewards")
	}
	two := func(shift float64) coinSides { return coinSides{NewSequence(shift), NewSequence(shift)} }
	c := &Coin{lo: lo, hi: hi, reward: two(0), actions: make([]coinAction, k)}
	for i := range c.actions {
		c.actions[i].own, c.actions[i].less = two(0), two(1)
	}
	return c
}

// Add takes an event: the law, what each action costs (NaN for one that was not offered), which was played, and its reward,
// which is cut to the range.
func (c *Coin) Add(law, costs []float64, chosen int, reward float64) {
	y := min(1, max(0, (reward-c.lo)/(c.hi-c.lo)))
	c.n++
	c.sum += y
	c.reward.lower.Add(y)
	c.reward.upper.Add(1 - y)
	for k := range c.actions {
		a := &c.actions[k]
		if law[k] > 0 {
			c.cost += float64(law[k] * costs[k])
		}
		if a.lacking > 0 || law[k] == 0 {
			a.lacking++
			continue
		}
		w := 0.0
		if k == chosen {
			w = 1 / law[k]
		}
		a.cost += costs[k]
		a.weights += w
		a.weighted += float64(w * y)
		a.own.lower.Add(float64(w * y))
		a.own.upper.Add(float64(w * (1 - y)))
		a.less.lower.Add(float64((w - 1) * (1 - y)))
		a.less.upper.Add(float64((w - 1) * y))
	}
}

// CoinPoint is a mean cost and a mean reward with its interval.
type CoinPoint struct {
	Action  string  `json:"action,omitempty"`
	Cost    float64 `json:"cost"`
	Reward  float64 `json:"reward"`
	Lower   float64 `json:"lower"`
	Upper   float64 `json:"upper"`
	Lacking int     `json:"lacking,omitempty"` // events that could not play it: it has no point
	Share   float64 `json:"share,omitempty"`   // of the coin
}

// CoinResult says whether choosing pays. Every interval holds at every n at once, each with its own level.
type CoinResult struct {
	Events     int         `json:"events"`
	Stopped    int         `json:"stopped"` // events under the hard stop of a budget, which are not among them
	Policy     CoinPoint   `json:"policy"`
	Actions    []CoinPoint `json:"actions"`
	Compared   bool        `json:"compared"`   // there is a coin of this cost
	Difference float64     `json:"difference"` // of the rewards: the policy's less the coin's
	Lower      float64     `json:"lower"`
	Upper      float64     `json:"upper"`
	Sentence   string      `json:"sentence"`
}

// Result returns the comparison at this level, such as .95. Names are those of the actions.
func (c *Coin) Result(level float64, names []string) *CoinResult {
	n, scale := float64(max(1, c.n)), c.hi-c.lo
	r := &CoinResult{Events: c.n}
	bounds := func(s coinSides, alpha float64) (lo, hi float64) {
		return c.lo + float64(scale*s.lower.Lower(alpha/2, 0, 1)), c.lo + float64(scale*(1-s.upper.Lower(alpha/2, 0, 1)))
	}
	r.Policy = CoinPoint{Cost: c.cost / n, Reward: c.lo + float64(scale*(c.sum/n))}
	r.Policy.Lower, r.Policy.Upper = bounds(c.reward, 1-level)
	var at []int // actions with a point
	var gap, mean, low, high []float64
	for k := range c.actions {
		a := &c.actions[k]
		p := CoinPoint{Action: names[k], Lacking: a.lacking}
		if a.lacking == 0 && c.n > 0 {
			p.Cost = a.cost / n
			p.Lower, p.Upper = bounds(a.own, 1-level)
			own := (p.Lower + p.Upper) / 2
			if a.weights > 0 {
				own = c.lo + float64(scale*(a.weighted/a.weights))
			}
			p.Reward = min(p.Upper, max(p.Lower, own))
			at = append(at, k)
		}
		r.Actions = append(r.Actions, p)
	}
	alpha := (1 - level) / (2 * float64(max(1, len(at))))
	for _, k := range at {
		a := &c.actions[k]
		gap = append(gap, r.Policy.Cost-r.Actions[k].Cost)
		mean = append(mean, r.Policy.Reward-r.Actions[k].Reward)
		low = append(low, scale*a.less.lower.Lower(alpha, -1, 1))
		high = append(high, -scale*a.less.upper.Lower(alpha, -1, 1))
	}
	var one, two int
	var share float64
	if r.Difference, one, two, share, r.Compared = coinGap(mean, gap); r.Compared {
		r.Actions[at[one]].Share, r.Actions[at[two]].Share = 1-share, share
		if one == two {
			r.Actions[at[one]].Share = 1
		}
		r.Lower, _, _, _, _ = coinGap(low, gap)
		r.Upper, _, _, _, _ = coinGap(high, gap)
		r.Difference = min(r.Upper, max(r.Lower, r.Difference))
	}
	r.Sentence = r.say()
	return r
}

// coinGap is max_{λ≥0} min_k (rho_k − λ·gap_k), from the coin: the smallest Σ_k x_k rho_k over shares x with Σ x_k gap_k ≥ 0. Two
// actions are enough: one with gap ≥ 0 and a dearer one, mixed so that the gaps cancel. ok is false when every gap is negative.
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
	between := fmt.Sprintf("between %.3f and %.3f", r.Lower, r.Upper)
	switch {
	case r.Lower > 0:
		return fmt.Sprintf("choosing earns %.3f more than %s, %s", r.Difference, what, between)
	case r.Upper < 0 && r.mixed() == 1:
		return fmt.Sprintf("choosing does not pay: %s would cost less and earn %.3f more (the difference is %s)", what,
			-r.Difference, between)
	case r.Upper < 0:
		return fmt.Sprintf("choosing does not pay: %s earns %.3f more (the difference is %s)", what, -r.Difference, between)
	}
	return fmt.Sprintf("choosing does not pay so far: against %s the difference is %+.3f, %s", what, r.Difference, between)
}

func (r *CoinResult) mixed() (n int) {
	for _, p := range r.Actions {
		if p.Share > 0 {
			n++
		}
	}
	return n
}

package ope

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"troupe/internal/decimal"
	"troupe/logged"
)

// MaxCoinActions bounds the actions that a CoinLog tells apart. Others count in what the decisions earn and cost.
const MaxCoinActions = 1000

// CoinLog is the comparison with a coin ([Coin]) of a log whose decisions say what their actions cost: a fold over its
// events with O(K) memory. Decisions under the hard stop of a budget are counted apart, and have a comparison together
// with the others ([CoinResult.WithStop]). An action is known by the hash of its id, where features are hashed,
// otherwise by its place. Not safe for concurrent use.
type CoinLog struct {
	coin, all *Coin
	keys      []uint64 // of the actions: hashes of ids, or places
	names     []string // "" until the action was played
	hashed    bool
	begun     bool
	stopped   int
	paid      float64 // Σ of what calls said, or was stated
	stated    float64 // Σ of what was stated, of the same
	n         int     // of these
	trouble   string  // why nothing can be compared
	units     map[string]bool

	law, costs []float64
}

// NewCoinLog returns the comparison of a log whose rewards lie in [lo, hi]. It panics unless lo < hi.
func NewCoinLog(lo, hi float64) *CoinLog {
	return &CoinLog{coin: NewCoin(0, lo, hi), all: NewCoin(0, lo, hi)}
}

// Add takes a decision. One without costs or without a law is left out.
func (c *CoinLog) Add(e *logged.Event) {
	m := e.Money
	c.unit(e.Unit)
	if m == nil || e.Law == nil || len(m.Costs) != len(e.Law) || len(e.Slots) > 0 {
		return
	}
	if m.Cost == m.Cost {
		c.paid, c.stated, c.n = c.paid+m.Cost, c.stated+m.Costs[e.Chosen], c.n+1
	}
	if !c.begun {
		c.begun, c.hashed = true, len(e.Actions) == len(e.Law) && len(e.Actions[0].Atoms) > 0
	}
	for k := range c.law {
		c.law[k], c.costs[k] = 0, math.NaN()
	}
	chosen := -1
	for i, p := range e.Law {
		k := c.place(e, i)
		if k < 0 {
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
	if m.Stopped {
		c.stopped++
		c.all.AddStopped(c.law, c.costs, chosen, e.Reward)
		return
	}
	c.coin.Add(c.law, c.costs, chosen, e.Reward)
	c.all.Add(c.law, c.costs, chosen, e.Reward)
}

// unit notes the unit of a decision: the intervals need a draw of its own for each decision.
func (c *CoinLog) unit(name string) {
	switch {
	case name == "":
	case c.units[name] || len(c.units) == mostUnits:
		c.trouble, c.units = sharedDraw, nil
	default:
		if c.units == nil {
			c.units = map[string]bool{}
		}
		c.units[strings.Clone(name)] = true
	}
}

// place returns where action i of an event stands among those that are told apart, −1 beyond MaxCoinActions.
func (c *CoinLog) place(e *logged.Event, i int) int {
	key := uint64(i)
	if c.hashed && i < len(e.Actions) && len(e.Actions[i].Atoms) > 0 {
		key = e.Actions[i].Atoms[0].Hash
	}
	k := slices.Index(c.keys, key)
	if k < 0 && len(c.keys) < MaxCoinActions {
		k = len(c.keys)
		c.keys, c.names = append(c.keys, key), append(c.names, "")
		c.law, c.costs = append(c.law, 0), append(c.costs, math.NaN())
	}
	return k
}

// Result returns the comparison at this level, nil for a log without costs. warning says what to know beside it, "" for
// nothing.
func (c *CoinLog) Result(level float64) (r *CoinResult, warning string) {
	switch {
	case c == nil || !c.begun:
		return nil, ""
	case c.trouble != "":
		return nil, "whether choosing pays cannot be said: " + c.trouble
	}
	names := slices.Clone(c.names)
	for k := range names {
		if names[k] == "" {
			names[k] = fmt.Sprintf("action %d", k)
		}
	}
	r = c.coin.Result(level, names[:len(c.coin.actions)])
	if r.Stopped = c.stopped; c.stopped > 0 {
		r.WithStop = c.all.result(level, names[:len(c.all.actions)], true)
	}
	if r.Events == 0 {
		r.Actions = nil
	}
	if c.n > 0 && math.Abs(c.paid-c.stated) > .02*c.stated {
		three := func(v float64) string { return decimal.Short(v/float64(c.n), 3) }
		warning = fmt.Sprintf("decisions cost %s in the mean, and requests stated %s: the comparison with a coin "+
			"takes what was stated", three(c.paid), three(c.stated))
	}
	return r, warning
}

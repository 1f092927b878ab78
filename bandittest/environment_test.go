package bandittest

import (
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/rng"
)

// coin is a correct environment of two arms, and its faults.
type coin struct {
	theta [2]float64
	fault string
	calls float64
	set   arms
}

func newCoin(fault string) func(rng.Key) (bandit.Environment, error) {
	return func(key rng.Key) (bandit.Environment, error) {
		draw := key.Stream(rng.Instance).Round(0)
		return &coin{theta: [2]float64{draw.Float64(0), draw.Float64(1)}, fault: fault, set: arms{{1, 0}, {0, 1}}}, nil
	}
}

func (c *coin) Dim() int {
	if c.fault == "dimension" {
		return 3
	}
	return 2
}

func (c *coin) Offer(draw rng.Source) (bandit.ActionSet, error) {
	if c.fault == "radius" {
		return arms{{1, 1}, {0, 1}}, nil
	}
	return c.set, nil
}

func (c *coin) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	y := dot(c.theta[:], a.X) + draw.Normal(0)
	switch c.fault {
	case "state":
		c.calls++
		y += c.calls
	case "mean":
		y -= 0.5 * a.X[0]
	}
	return y, nil
}

func (c *coin) Regret(a bandit.Action) (float64, error) {
	r := max(c.theta[0], c.theta[1]) - dot(c.theta[:], a.X)
	switch c.fault {
	case "offset":
		r += 0.1
	case "negative":
		r -= 2
	}
	return r, nil
}

func (c *coin) Settle(a bandit.Action, draw rng.Source) (reward, regret float64, err error) {
	reward, _ = c.Reward(a, draw)
	regret, _ = c.Regret(a)
	if c.fault == "settle" {
		regret /= 2
	}
	return reward, regret, nil
}

// A correct environment passes, and every fault is found.
func TestEnvironmentFaults(t *testing.T) {
	TestEnvironment(t, newCoin(""), EnvironmentConfig{})
	for fault, want := range map[string]string{
		"dimension": "Dim says 3", "radius": "has norm", "state": "instead of", "mean": "differ by",
		"offset": "the smallest regret", "negative": "at least 0", "settle": "Settle gives",
	} {
		var r recorder
		TestEnvironment(&r, newCoin(fault), EnvironmentConfig{})
		if len(r.said) != 1 || !strings.Contains(r.said[0], want) {
			t.Errorf("fault %s: %q", fault, r.said)
		}
	}
}

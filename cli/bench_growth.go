package cli

import (
	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// growthCases are the configurations of `troupe bench growth`: action sets that are new in every round, as a service or a log has
// them. Given sets are lists that somebody prepared; drawn ones come from the environment; law asks for the propensities
// of all arms in each round, as a server does.
var growthCases = []benchCase{
	{name: "new-20", d: 50, k: 20, m: 32, horizon: 10_000, sets: given},
	{name: "drawn-20", d: 50, k: 20, m: 32, horizon: 5000, sets: drawn},
	{name: "law-20", d: 50, k: 20, m: 32, horizon: 5000, sets: given, law: true},
	{name: "new-1000", d: 20, k: 1000, m: 50, horizon: 3000, sets: given},
	{name: "law-1000", d: 20, k: 1000, m: 50, horizon: 500, sets: given, law: true},
	{name: "new-10000", d: 20, k: 10_000, m: 50, horizon: 500, sets: given},
	{name: "new-100000", d: 20, k: 100_000, m: 50, horizon: 50, sets: given},
}

// Where the action sets of a configuration come from; "" is one set, or the ball.
const (
	given = "given"
	drawn = "drawn"
)

// blocks is how many prepared lists there are, in 64 MiB at most where two do not take more.
func (c benchCase) blocks() int { return max(2, min(64, 8<<20/max(1, c.k*c.d))) }

// playGiven plays one replication on lists that are given: each round makes a set of the next one, asks for the law where the
// configuration does, chooses and learns.
func playGiven(c benchCase, key rng.Key) (out played, err error) {
	p, err := c.policy(key)
	if err != nil {
		return out, err
	}
	out.engine = p.Engine()
	instance := key.Stream(rng.Instance)
	lists := make([][]float64, c.blocks())
	for i := range lists {
		lists[i] = make([]float64, c.k*c.d)
		instance.Round(uint64(i)).Spheres(lists[i], c.d, 0)
	}
	theta := make([]float64, c.d)
	instance.Round(uint64(len(lists))).Sphere(theta, 0)
	choose, pay, perturb := key.Stream(rng.Select), key.Stream(rng.Reward), key.Stream(rng.Perturb)
	var x bandit.Action
	var law bandit.Law
	start := processTime()
	for t := range uint64(c.horizon) {
		set, err := actionset.FiniteOf(c.d, lists[t%uint64(len(lists))])
		if err == nil && c.law {
			err = p.Prob(&law, set, choose.Round(t))
		}
		if err == nil {
			err = p.Select(&x, set, choose.Round(t))
		}
		if err == nil {
			err = p.Update(x, linalg.Dot(x.X, theta)+pay.Round(t).Normal(0), perturb.Round(t))
		}
		if err != nil {
			return out, err
		}
	}
	out.spent = processTime() - start
	return out, nil
}

package bench

import (
	"fmt"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/dataset"
	"troupe/internal/linalg"
	"troupe/rng"
)

// growthCases are the configurations of `troupe bench growth`: action sets that are new in every round, as a service or
// a log has them. Given sets are lists that somebody prepared; drawn ones come from the environment; law asks for the
// propensities of all arms in each round, as a server does. blocks-26 has the sizes of the data set letter with a
// parameter for each class: one context of 17 numbers in each round, in the block of the class that is chosen. The last
// two have one list, too large for the caches: of arms, and of coordinates.
var growthCases = []benchCase{
	{name: "new-20", d: 50, k: 20, m: 32, horizon: 10_000, sets: given},
	{name: "drawn-20", d: 50, k: 20, m: 32, horizon: 5000, sets: drawn},
	{name: "law-20", d: 50, k: 20, m: 32, horizon: 5000, sets: given, law: true},
	{name: "new-1000", d: 20, k: 1000, m: 50, horizon: 3000, sets: given},
	{name: "law-1000", d: 20, k: 1000, m: 50, horizon: 500, sets: given, law: true},
	{name: "new-10000", d: 20, k: 10_000, m: 50, horizon: 500, sets: given},
	{name: "new-100000", d: 20, k: 100_000, m: 50, horizon: 50, sets: given},
	{name: "blocks-26", d: 26 * 17, k: 26, m: 32, horizon: 5000, sets: disjoint},
	{name: "fixed-100000", d: 20, k: 100_000, m: 50, horizon: 1000},
	{name: "wide-1000", d: 1000, k: 50, m: 50, horizon: 500},
}

// Where the action sets of a configuration come from; "" is one set, or the ball.
const (
	given    = "given"
	drawn    = "drawn"
	disjoint = "disjoint"
)

// contexts are the rows of a configuration of disjoint models: horizon points of the sphere with labels at random. It
// is the source of data of an environment of kind classification.
type contexts struct{ rows *dataset.Encoded }

func newContexts(c benchCase, key rng.Key) contexts {
	e := &dataset.Encoded{Table: &dataset.Table{Name: c.name}, Rows: c.horizon, Dim: c.d / c.k, Factor: 1,
		Label: make([]int32, c.horizon), Classes: make([]string, c.k)}
	e.X = make([]float64, e.Rows*e.Dim)
	draw := key.Stream(rng.Instance)
	draw.Round(0).Spheres(e.X, e.Dim, 0)
	for i := range e.Label {
		e.Label[i] = int32(draw.Round(1).Intn(i, c.k))
	}
	return contexts{e}
}

// Encoded implements env.DataSource.
func (c contexts) Encoded(string, dataset.Options, dataset.Encoding) (*dataset.Encoded, error) {
	return c.rows, nil
}

// Other implements env.DataSource.
func (contexts) Other(path, _ string, _ func(string) (any, error)) (any, error) {
	return nil, fmt.Errorf("the benchmark has no file %q", path)
}

// blocks is how many prepared lists there are, in 64 MiB at most where two do not take more.
func (c benchCase) blocks() int { return max(2, min(64, 8<<20/max(1, c.k*c.d))) }

// playGiven plays one replication on lists that are given: each round makes a set of the next one, asks for the law
// where the configuration does, chooses and learns.
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
		set, err := actionset.FiniteUnread(c.d, lists[t%uint64(len(lists))])
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

package bandit_test

import (
	"fmt"

	"troupe/bandit"
	"troupe/rng"
)

// list is a finite action set: the least that bandit.Finite asks for.
type list [][]float64

func (l list) Dim() int           { return len(l[0]) }
func (l list) Len() int           { return len(l) }
func (l list) At(i int) []float64 { return l[i] }

func (l list) ArgMax(dst *bandit.Action, theta []float64) (float64, error) {
	best, value := 0, 0.0
	for i, x := range l {
		v := 0.0
		for k := range x {
			v += x[k] * theta[k]
		}
		if i == 0 || v > value {
			best, value = i, v
		}
	}
	dst.Set(l[best], best)
	return value, nil
}

// follow plays the arm that paid most on average, each arm once first. Select reads, Update writes.
type follow struct{ sum, n []float64 }

func (f *follow) Select(dst *bandit.Action, set bandit.ActionSet, _ rng.Source) error {
	arms, ok := set.(bandit.Finite)
	if !ok {
		return bandit.ErrUnsupported
	}
	best := 0
	for i := range f.n {
		if f.n[i] == 0 {
			best = i
			break
		}
		if f.sum[i]/f.n[i] > f.sum[best]/f.n[best] {
			best = i
		}
	}
	dst.Set(arms.At(best), best)
	return nil
}

func (f *follow) Update(a bandit.Action, y float64, _ rng.Source) error {
	f.sum[a.Index] += y
	f.n[a.Index]++
	return nil
}

// A policy and an action set are small. The loop is that of every simulator and every server.
func Example() {
	var set bandit.Finite = list{{1, 0}, {0, 1}}
	var policy bandit.Policy = &follow{sum: make([]float64, 2), n: make([]float64, 2)}
	key := rng.NewKey(1)
	var action bandit.Action
	for t := uint64(1); t <= 5; t++ {
		if err := policy.Select(&action, set, key.Stream(rng.Select).Round(t)); err != nil {
			fmt.Println(err)
			return
		}
		reward := 0.2*action.X[0] + 0.7*action.X[1]
		fmt.Printf("round %d: arm %d pays %.1f\n", t, action.Index, reward)
		if err := policy.Update(action, reward, key.Stream(rng.Perturb).Round(t)); err != nil {
			fmt.Println(err)
			return
		}
	}
	// Output:
	// round 1: arm 0 pays 0.2
	// round 2: arm 1 pays 0.7
	// round 3: arm 1 pays 0.7
	// round 4: arm 1 pays 0.7
	// round 5: arm 1 pays 0.7
}

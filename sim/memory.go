package sim

import (
	"fmt"
	"math"
	"runtime/metrics"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// Memory that a run needs is estimated before its first round: what the rehearsal takes for one cell of each
// environment and policy, and the numbers of the results.

// largeDim is the dimension from which on the memory of a policy is estimated before it is built.
const largeDim = 2048

// usable is the share of the available memory that a run may take: the estimate leaves out what policies
// take later, and garbage.
const usable = 0.85

// allocated returns the bytes that the process has allocated so far, freed ones included.
func allocated() float64 {
	s := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(s)
	return float64(s[0].Value.Uint64())
}

// memory returns the bytes that the run may take; +Inf where that is not known.
func (o *Options) memory() float64 {
	if o.Memory > 0 {
		return float64(o.Memory)
	}
	if free := available(); free > 0 {
		return usable * float64(free)
	}
	return math.Inf(1)
}

// learned returns about how many bytes a new policy will take for what it learns from actions like a. A ridge state
// keeps the blocks of V that actions have touched, so an action that has a share of the coordinates stands for as many
// like it as fill them. It is 0 for policies that do not learn from a; it changes pol.
func learned(pol bandit.Policy, a bandit.Action, key rng.Key) float64 {
	wide := support(a.X)
	if wide == 0 {
		return 0
	}
	before := allocated()
	if err := pol.Update(a, 0, key.Stream(rng.Perturb).Round(1)); err != nil {
		return 0
	}
	return (allocated() - before) * float64(len(a.X)) / float64(wide)
}

// support returns the length of the shortest stretch of x outside which all numbers are 0.
func support(x []float64) int {
	from, to := linalg.Support(x)
	return to - from
}

// share returns the largest share of the coordinates that the first actions of a set have, 1 where they are not listed.
func share(set bandit.ActionSet) float64 {
	list, ok := set.(bandit.Finite)
	if !ok || list.Len() == 0 {
		return 1
	}
	most := 0.0
	for i := range min(list.Len(), 64) {
		x := list.At(i)
		most = max(most, float64(support(x))/float64(len(x)))
	}
	return most
}

// tooLarge refuses a cell of so many bytes.
func tooLarge(what string, d int, bytes, limit float64) error {
	return fmt.Errorf("%s takes at least %s in dimension %d, and %s can be used; take a smaller dimension, or for "+
		"vectors with few nonzeros kind sparse or hashed", what, size(bytes), d, size(limit))
}

// size prints bytes with two digits.
func size(bytes float64) string {
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	i := 0
	for bytes >= 999.5 && i < len(units)-1 {
		bytes /= 1000
		i++
	}
	if bytes < 9.95 && i > 0 {
		return fmt.Sprintf("%.1f %s", bytes, units[i])
	}
	return fmt.Sprintf("%.0f %s", bytes, units[i])
}

// largeCell is the size from which on garbage is collected after each cell, which otherwise would double what
// a worker needs.
const largeCell = 64 << 20

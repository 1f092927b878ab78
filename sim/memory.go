package sim

import (
	"fmt"
	"math"
	"runtime"
	"runtime/metrics"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/lockstep"
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

// forecast estimates the bytes that policy p on environment e takes in dimension d ≥ largeDim from what it takes in
// dimensions 512 and 1024, with actions that have a share of the coordinates. It is 0 for a policy that is not built in
// those.
func (r *runner) forecast(world bandit.Environment, e, p int, share float64, key rng.Key) float64 {
	problem := r.problem(world, e, key)
	d := float64(problem.Dim)
	took := [2]float64{math.Inf(1), math.Inf(1)}
	for range 3 { // the least of three: other goroutines allocate too
		for i := range took {
			problem.Dim = 512 << i
			x := make([]float64, problem.Dim)
			for j := range max(1, int(share*float64(problem.Dim))) {
				x[j] = 1 / float64(problem.Dim)
			}
			before := allocated()
			pol, err := r.x.Policies[p].Options.New(problem)
			if err != nil {
				return 0
			}
			took[i] = min(took[i], allocated()-before+learned(pol, bandit.Action{X: x, Index: bandit.NoIndex}, key))
		}
	}
	// took = a·dim² + b·dim through both points, without parts that are negative or no matrix.
	const one, two = 512.0, 1024.0
	a := (float64(took[1]/two) - float64(took[0]/one)) / (two - one)
	if a < share { // a matrix over the coordinates of an action takes at least 4·share; tables that double take a little
		a = 0
	}
	return float64(a*d*d) + float64(max(0, float64(took[1]/two)-float64(a*two))*d)
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

// fits lowers the number of workers to those that fit in the memory, and returns an error when none does.
func (r *runner) fits() error {
	limit := r.o.memory()
	numbers := 0
	for range r.x.Record {
		numbers = len(r.x.diagnosticsColumns())
	}
	rows := float64(r.x.Cells()) * float64(len(r.x.Checkpoints))
	const csvRow, csvNumber = 60, 20 // bytes, about
	results := float64(rows * float64(2*8+2*csvRow+numbers*(8+2*csvNumber)))
	if results > limit {
		return r.x.blame("replications", "replications",
			fmt.Errorf("the results of %d (%d cells of %d checkpoints) take about %s, and %s can be used; take fewer "+
				"replications or checkpoints",
				r.x.Replications, r.x.Cells(), len(r.x.Checkpoints), size(results), size(limit)))
	}
	if r.cellBytes == 0 {
		return nil
	}
	n := int(min((limit-results)/r.cellBytes, math.MaxInt32))
	if n < 1 {
		return r.x.blame(r.cellPath, r.cellOf,
			fmt.Errorf("it takes at least %s, the results about %s, and %s can be used; take a smaller dimension or "+
				"fewer members", size(r.cellBytes), size(results), size(limit)))
	}
	if n < r.o.Workers {
		r.remark(fmt.Sprintf("a cell takes at least %s, and %s can be used: %s instead of %d", size(r.cellBytes),
			size(limit), plural(n, "worker"), r.o.Workers))
		r.o.Workers = n
	}
	return nil
}

// measure notes that a cell of the table at path takes so many bytes.
func (r *runner) measure(path, who string, took float64, together bool) {
	if took > largeCell {
		runtime.GC() // the next one needs the room
	}
	if together {
		took *= lockstep.Lanes
	}
	if took > r.cellBytes {
		r.cellBytes, r.cellPath, r.cellOf = took, path, who
	}
}

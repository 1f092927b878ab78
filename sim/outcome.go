package sim

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
)

// Outcome is what a run left behind.
type Outcome struct {
	Manifest Manifest
	Results  []byte // results.csv
	Also     []byte // diagnostics.csv, nil when the spec asks for nothing more
	Values   []byte // values.csv, nil where no agent with members plays DeepSea
	Reused   int    // cells that were in the directory already
	Played   int    // cells played now
	Rounds   int64  // rounds played now
	UnderWay int    // cells that were not finished; the directory has their state, and the same call goes on from it

	x     *Experiment
	cells []entry
}

// Final returns the regrets at the horizon of the finished replications of environment e and policy
// p, counted from 0 in the order of the experiment.
func (o *Outcome) Final(e, p int) []float64 {
	var out []float64
	for r := range o.x.Replications {
		if sums := o.cells[o.x.index(e, p, r)].Regret; len(sums) > 0 {
			out = append(out, sums[len(sums)-1])
		}
	}
	return out
}

// Curve returns the regrets of the finished replications of environment e and policy p at every
// checkpoint of the experiment: one slice for each replication.
func (o *Outcome) Curve(e, p int) [][]float64 {
	var out [][]float64
	for r := range o.x.Replications {
		if sums := o.cells[o.x.index(e, p, r)].Regret; len(sums) > 0 {
			out = append(out, slices.Clone(sums))
		}
	}
	return out
}

// Row is one line of results.csv: the sums of one replication over the rounds 1 to Round.
type Row struct {
	Environment, Policy string
	Replication, Round  int // from 1
	Regret, Reward      float64
}

// Rows yields the lines of results.csv in their order.
func (o *Outcome) Rows() iter.Seq[Row] {
	return func(yield func(Row) bool) {
		x := o.x
		for i, c := range o.cells {
			e, p, r := i/x.Replications/len(x.Policies), i/x.Replications%len(x.Policies), i%x.Replications
			for k, sum := range c.Regret {
				if !yield(Row{x.Environments[e].Name, x.Policies[p].Name, r + 1, x.CheckpointsOf(e)[k], sum, c.Reward[k]}) {
					return
				}
			}
		}
	}
}

// Errors of Run.
var (
	// ErrInterrupted: the context was done before the last cell was. What is finished is written,
	// and the same call goes on from there.
	ErrInterrupted = errors.New("interrupted")
)

// CellError names the cell in which a run ended.
type CellError struct {
	Environment, Policy string
	Replication         int // from 1
	Err                 error
}

// Error says in one line what is wrong.
func (e *CellError) Error() string {
	return fmt.Sprintf("environment %q, policy %q, replication %d: %v", e.Environment, e.Policy, e.Replication, e.Err)
}

// Unwrap returns the cause, for errors.Is and errors.As.
func (e *CellError) Unwrap() error { return e.Err }

// LostError says which cells of policies that are programs failed. All other cells were played: of a policy no more
// cells are begun after its third failure.
type LostError struct{ Cells []*CellError }

// newLostError takes failures by the index of their cells: what it says does not depend on which one failed first.
func newLostError(lost map[int]*CellError) *LostError {
	e := &LostError{}
	for _, i := range slices.Sorted(maps.Keys(lost)) {
		e.Cells = append(e.Cells, lost[i])
	}
	return e
}

// Error has the first failure, and of which policies there are more.
func (e *LostError) Error() string {
	text := e.Cells[0].Error()
	if n := len(e.Cells); n > 1 {
		var names []string
		for _, c := range e.Cells {
			if !slices.Contains(names, c.Policy) {
				names = append(names, c.Policy)
			}
		}
		text += fmt.Sprintf("\n%d cells failed, of policy %s", n, strings.Join(names, ", "))
	}
	return text
}

// Unwrap returns the failures, for errors.Is and errors.As.
func (e *LostError) Unwrap() (all []error) {
	for _, c := range e.Cells {
		all = append(all, c)
	}
	return all
}

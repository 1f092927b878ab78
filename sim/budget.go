package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"troupe/spec"
)

// WithReplications returns the experiment with another number of replications, as if its spec said so.
func (x *Experiment) WithReplications(n int) (*Experiment, error) {
	text, err := spec.Override(x.src.Name, x.Text, "replications", strconv.Itoa(n))
	if err != nil {
		return nil, err
	}
	y, err := Parse(x.src.Name, text, x.kinds)
	if err != nil {
		return nil, err
	}
	y.Name, y.Stream = x.Name, x.Stream
	return y, nil
}

// ErrBudget: the time of RunFor was over before the first replication was complete. The finished cells
// are kept, and the same call goes on from there.
var ErrBudget = errors.New("the budget ended before one replication was complete")

// RunFor plays as many replications as fit in the budget, at most most (0 means no bound): the same
// number for every policy in every environment. The number of replications of x does not count. The
// directory ends with the files that Run writes for that many replications, which is the number of the
// experiment that it returns. It needs a directory.
//
// The replications are played in calls of Run that at most double what is there, the last of which ends
// with the budget. A replication that is not complete then is not kept. When ctx is done the budget
// ends at once. Options.Settled can end it before.
func RunFor(ctx context.Context, x *Experiment, o Options, budget time.Duration, most int) (*Experiment, *Outcome,
	error) {
	if o.Dir == "" {
		return nil, nil, errors.New("sim: RunFor needs a directory")
	}
	started := time.Now()
	timed, cancel := context.WithTimeout(ctx, budget)
	defer cancel()
	o.grow = true
	most = min(cmp.Or(most, maxReplications), mostReplications(x))
	done, held := 0, 0 // replications that are complete, that the directory had complete
	if m, err := ReadManifest(o.Dir); err == nil && m.Status == Complete {
		held = m.Replications
		most = max(most, held)
	}
	next, each := max(1, held), 0.0 // each: seconds of a replication
	played, rounds := 0, int64(0)
	var last *Outcome
	for next > done {
		y, err := x.WithReplications(next)
		if err != nil {
			return nil, nil, err
		}
		before := time.Now()
		out, err := Run(timed, y, o)
		o.Note = nil // the remarks are the same
		if out == nil {
			return nil, nil, err
		}
		played += out.Played
		rounds += out.Rounds
		last = out
		if err != nil && !errors.Is(err, ErrInterrupted) {
			return y, out, err
		}
		if done = out.complete(); err != nil {
			break
		}
		if o.Settled != nil {
			if yes, err := o.Settled(out); err != nil {
				return y, out, err
			} else if yes {
				break
			}
		}
		if out.Played > 0 {
			each = time.Since(before).Seconds() / float64(out.Played) * float64(len(x.Environments)*len(x.Policies))
		}
		next = min(most, done+y.fitting(done, each, (budget-time.Since(started)).Seconds()))
	}
	x, err := x.WithReplications(max(1, done))
	switch {
	case err != nil:
		return nil, last, err
	case done < max(1, held): // what was complete stays
		if ctx.Err() == nil && done == 0 {
			return x, last, fmt.Errorf("%w (%w)", ErrBudget, ErrInterrupted)
		}
		return x, last, ErrInterrupted
	}
	o.last, o.Progress = true, nil
	out, err := Run(context.WithoutCancel(ctx), x, o) // plays nothing
	if out != nil {
		out.Played, out.Rounds, out.Reused = played, rounds, x.Cells()-min(played, x.Cells())
	}
	return x, out, err
}

// fitting is the number of replications to play next: at least the replications of a full batch and
// at most as many as there are, in nine tenths of the time that is left; one more if that fits.
func (x *Experiment) fitting(done int, each, left float64) int {
	n := max(8, done)
	if each > 0 {
		n = min(n, max(int(0.9*left/each), int(min(1, left/each))))
	}
	return max(0, n)
}

// mostReplications is the number of replications that the limits of an experiment allow.
func mostReplications(x *Experiment) int {
	one := len(x.Environments) * len(x.Policies) * len(x.Checkpoints) * (1 + len(x.diagnosticsColumns()))
	return max(1, min(maxReplications, maxRows/one))
}

// complete is the number of leading replications that every policy has finished everywhere.
func (o *Outcome) complete() int {
	for r := range o.x.Replications {
		for e := range o.x.Environments {
			for p := range o.x.Policies {
				if len(o.cells[o.x.index(e, p, r)].Regret) == 0 {
					return r
				}
			}
		}
	}
	return o.x.Replications
}

// allow marks the cells of further replications as wanted, as many as an interrupted RunFor may have
// left in the journal.
func (r *runner) allow(wanted map[string]bool) error {
	n := r.x.Replications
	if r.past.old != nil {
		n = max(n, r.past.old.Replications)
	}
	keys := make([]string, 4*n+64)
	for e := range r.x.Environments {
		for p := range r.x.Policies {
			program, err := r.programOf(e, p)
			if err != nil {
				return err
			}
			if err := cellKeys(r.x, keys, e, p, program, r.facts.worlds[e].file.SHA256); err != nil {
				return err
			}
			for _, k := range keys {
				wanted[k] = true
			}
		}
	}
	return nil
}

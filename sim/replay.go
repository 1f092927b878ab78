package sim

import (
	"context"
	"fmt"
)

// Replay plays one cell of the experiment again, in memory: environment e, policy p and replication rep, all from
// 0 and in the order of the experiment. Its rows are those of results.csv, bit for bit, when the engine is the
// same. Of the options only Data counts. A cell that ends with an error gives a *CellError.
func Replay(ctx context.Context, x *Experiment, e, p, rep int, o Options) ([]Row, error) {
	if e < 0 || e >= len(x.Environments) || p < 0 || p >= len(x.Policies) || rep < 0 || rep >= x.Replications {
		return nil, fmt.Errorf("sim: there is no environment %d, policy %d, replication %d", e, p, rep)
	}
	defer x.Close()
	r := newRunner(x.only(e, p), Options{Data: o.Data, Workers: 1})
	if err := r.facts.play(); err != nil {
		return nil, err
	}
	done, err := r.player.play(ctx, cell{0, 0, rep})
	if err == errAbandoned || ctx.Err() != nil {
		return nil, ErrInterrupted
	}
	if err != nil {
		return nil, &CellError{x.Environments[e].Name, x.Policies[p].Name, rep + 1, err}
	}
	var rows []Row
	for k, sum := range done.Regret {
		rows = append(rows, Row{x.Environments[e].Name, x.Policies[p].Name, rep + 1, x.CheckpointsOf(e)[k], sum,
			done.Reward[k]})
	}
	return rows, nil
}

// only returns the experiment with one environment and one policy.
func (x *Experiment) only(e, p int) *Experiment {
	y := *x
	y.Environments, y.Policies = x.Environments[e:e+1], x.Policies[p:p+1]
	y.Record, y.Reference = nil, ""
	return &y
}

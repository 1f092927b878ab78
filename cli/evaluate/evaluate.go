// Package evaluate is the command `troupe evaluate`: what another policy would have earned on a log of decisions, with
// an interval that holds. Command is all of it; the numbers come from the package ope.
//
// An evaluation is a sequence of steps, each a function of what the steps before it returned:
//
//  1. The flags become a question, which is checked and does not change.
//  2. Open: where the decisions are (decisions). A reader begins anew as often as a step asks for one.
//  3. Select: the targets, trained on the first part where --split says so (selection).
//  4. Estimate: what the package ope makes of targets and decisions (estimated).
//  5. Answer: the result with what the log says beside its decisions, and what to doubt for it (ope.Result).
//  6. Print it, and write the page.
package evaluate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/ope"
	"troupe/sim"
)

// Command is `troupe evaluate`.
func Command() *cobra.Command {
	var g flags
	c := &cobra.Command{
		Use:   "evaluate LOG",
		Short: "Estimate from a log of decisions what another policy would have earned",
		Long: `Answers whether another policy would have earned more than the one that ran, from a log of its
decisions with their propensities and rewards. The difference comes first, on the same events. One
interval holds for policies that learn and whenever you look ("95% sure"). The other needs a large n and
no dominating weights, and stands in brackets where it is too narrow. With too little overlap there are
no plain estimates; if the sure intervals say nothing either, the exit code is 3.

LOG is a file in any format of troupe convert, recognised by content, the data directory of a stopped
server, or the address of a running one.

A target is uniform, column (the log has its probabilities), greedy (argmax of q), or a TOML file. The
file has kind = "fixed" with p, kind = "bts" with alpha and beta, or any policy of troupe list policies,
with start = "model.snapshot". NAME@SEQ is a served model as it was after entry SEQ, on later decisions.
A file of troupe train or of state?format=model is the model in it.

With several targets it prints the set that may still be best, and why each other one left it; with --by
the difference for each segment. --plan says before there are rewards how many decisions would settle a
difference. It reads the probabilities of LOG and --target, or without LOG --actions, --floor and --rate.

If the model has a control group, its answer comes first: what the model earns, what the control group
earns, and the difference.

With --knob the action is a number that the logger drew from a density, LOG a table with a header, and a
target a column of it or a number. What is estimated is the target smoothed by a kernel.

How to read the answer: docs/guide/evaluating.md. What stands behind it: docs/design/ope.md.`,
		Example: `  troupe evaluate events.dsjson --target uniform --target greedy
  troupe evaluate troupe-data --model news --target news@41200
  troupe evaluate http://127.0.0.1:8080 --model news --target candidate.toml --split 0.5
  troupe evaluate bandit.npz --target column --q column --estimators all --json
  troupe evaluate table.csv --columns action=arm,reward=click,propensity=prob --actions 5
  troupe evaluate men.csv --format obd --target bts-men.toml
  troupe evaluate log.parquet --target ensemble.toml --learn replay
  troupe evaluate log.parquet --target candidate.toml --split 0.5
  troupe evaluate log.jsonl --target a.toml --target b.toml --by context.city
  troupe evaluate log.jsonl --target candidate.toml --split 0.5 --plan --rate 0.05 --difference 10%
  troupe evaluate prices.csv --knob price,density=f,reward=profit --target new_price --target 9.5
  troupe evaluate --plan --actions 10 --floor 0.1 --rate 0.05
  troupe evaluate --plan --control 0.05 --actions 3 --floor 0.01 --rate 0.05 --difference 20%`,
		Args: term.Arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			out, progress := cmd.OutOrStdout(), cmd.ErrOrStderr()
			bench := cmd.Flags().Changed("benchmark")
			if g.known.coverage || bench {
				if err := term.CheckGaps(g.log.in.Gaps); err != nil {
					return err
				}
				return g.truth(ctx, out, progress, bench, args)
			}
			if err := g.plan.check(cmd.Flags()); err != nil {
				return err
			}
			if err := g.knob.check(cmd.Flags()); err != nil {
				return err
			}
			switch {
			case len(args) == 0 && g.plan.on && g.plan.control != "":
				return g.planControl(out)
			case len(args) == 0 && g.plan.on:
				return g.planFloor(out)
			case len(args) == 0:
				return term.Misuse(fmt.Errorf("%s: a log is missing\nusage: %s", cmd.CommandPath(), cmd.UseLine()))
			case g.knob.columns != "":
				return g.knobs(out, args[0])
			}
			return g.run(ctx, out, progress, args[0])
		},
	}
	g.add(c.Flags())
	return c
}

// run answers about the log source.
func (g *flags) run(ctx context.Context, out, progress io.Writer, source string) error {
	file := source
	if source == "-" {
		var err error
		file, err = keepStdin()
		defer os.Remove(file)
		if err != nil {
			return err
		}
	}
	copied := &copied{}
	defer copied.remove()
	if len(g.log.in.Outcomes) > 1 || len(g.guards) > 0 {
		return g.several(ctx, out, progress, source, file, copied)
	}
	q, err := g.question(source, file)
	if err != nil {
		return err
	}
	if q.plan.on {
		a, err := planLog(ctx, q, copied, progress)
		if err != nil {
			return err
		}
		return a.print(out, g.output.json)
	}
	r, err := evaluate(ctx, q, copied, progress)
	if err != nil {
		return err
	}
	return g.output.present(out, r, source)
}

// keepStdin copies stdin to a file, which several passes read.
func keepStdin() (string, error) {
	f, err := os.CreateTemp("", "troupe-evaluate-*")
	if err != nil {
		return "", err
	}
	_, err = io.Copy(f, os.Stdin)
	return f.Name(), errors.Join(err, f.Close())
}

// evaluate answers a question about one reward.
func evaluate(ctx context.Context, q *question, copied *copied, progress io.Writer) (*ope.Result, error) {
	o, err := openAndSelect(ctx, q, copied, progress)
	if err != nil {
		return nil, err
	}
	if q.marginal {
		redraws, err := redraw(ctx, q, o.log, o.models.name, progress)
		defer redraws.remove()
		if err != nil {
			if ctx.Err() != nil {
				err = sim.ErrInterrupted
			}
			return nil, err
		}
		o.log = o.log.(directory).with(redraws)
	}
	skip, err := o.selected.train(ctx, q, o.log, progress)
	if err != nil {
		return nil, inFile(err, q, o.log)
	}
	e, err := estimate(ctx, q, o.log, o.selected, o.fitted, skip, progress)
	if err != nil {
		return nil, inFile(err, q, o.log)
	}
	defer e.read.part.Close()
	return complete(q, e, o.selected, o.models.name, skip), nil
}

// opened is a log that can be read, and the targets that are compared on it.
type opened struct {
	models   *models
	log      decisions
	fitted   *ope.Fitted // of a log without propensities, nil where it has them
	selected *selection
}

// openAndSelect is open and select, which a plan needs too.
func openAndSelect(ctx context.Context, q *question, copied *copied, progress io.Writer) (o *opened, err error) {
	if err := q.checkLog(); err != nil {
		return nil, err
	}
	o = &opened{}
	if o.models, err = readModels(ctx, q); err != nil {
		return nil, err
	}
	if o.log, err = openLog(ctx, q, o.models, copied, progress); err != nil {
		return nil, err
	}
	if q.fitted {
		if o.log, o.fitted, err = fitPropensities(ctx, o.log.(logFile)); err != nil {
			return nil, inFile(err, q, o.log)
		}
	}
	if o.selected, err = selectTargets(q, o.log, o.models); err != nil {
		return nil, inFile(err, q, o.log)
	}
	return o, nil
}

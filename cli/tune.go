package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/dataset"
	"troupe/sim"
	"troupe/spec"
	"troupe/tune"
)

// tuneFlags are the flags of `troupe tune`.
type tuneFlags struct {
	out, data, color string
	workers          int
	gaps             []string
	seed             int64
	replications     int
	quiet, force     bool
}

func tuneCommand(kinds sim.Catalogue) *cobra.Command {
	var f tuneFlags
	c := &cobra.Command{
		Use:   "tune SPEC",
		Short: "Choose the options of policies by one protocol for all",
		Long: `Chooses the options of every policy or agent that has a grid, tune = { scale = [0.5, 1.0] } in its
table. One protocol chooses for all, successive halving. Each policy plays the same number of
replications, all points of its grid meet the same instances and noise, and the better half goes on.
The winner has the lowest mean regret, in each environment in units of its lowest. The random numbers
are a stream of their own, so a run of the result meets fresh instances.

Writes a spec that runs without tuning: each policy as it was, and beside it the tuned one with
where its values come from.`,
		Example: `  troupe tune paper/arms-tuned
  troupe tune my.toml --replications 400 --out my-tuned.toml
  troupe run my-tuned.toml`,
		Args:              term.Arguments(1, 1),
		ValidArgsFunction: completeSpec,
		RunE:              func(cmd *cobra.Command, args []string) error { return tuneSpec(cmd, args[0], f, kinds) },
	}
	fl := c.Flags()
	fl.StringVarP(&f.out, "out", "o", "", "spec to write (default NAME-tuned.toml)")
	fl.IntVar(&f.replications, "replications", 200,
		"replications of each policy in each environment, over its whole grid")
	fl.Int64Var(&f.seed, "seed", 0, "seed of the tuning, instead of the spec's")
	fl.IntVarP(&f.workers, "workers", "w", 0, "cells played at the same time (default: one for each processor)")
	fl.StringVar(&f.data, "data", "", "data file, or the directory in which the spec's data files are")
	term.AddGaps(fl, &f.gaps)
	fl.BoolVarP(&f.quiet, "quiet", "q", false, "the table only")
	fl.BoolVar(&f.force, "force", false, "replace the file of --out")
	fl.StringVar(&f.color, "color", "auto", "auto, always or never")
	return c
}

func tuneSpec(cmd *cobra.Command, name string, f tuneFlags, kinds sim.Catalogue) error {
	if err := term.CheckColor(f.color); err != nil {
		return err
	}
	if f.replications < 1 || f.replications > 1_000_000 {
		return term.Misuse(fmt.Errorf("--replications %d: expected 1 to 1000000", f.replications))
	}
	if err := checkWorkers(cmd, f.workers); err != nil {
		return err
	}
	file, text, err := findSpec(name)
	if err != nil {
		return err
	}
	x, err := sim.Parse(file, text, kinds)
	if err != nil {
		return err
	}
	if len(f.gaps) > 0 {
		if x, _, err = withGaps(x, file, text, f.gaps, kinds); err != nil {
			return err
		}
	}
	if cmd.Flags().Changed("seed") {
		if f.seed < 0 || f.seed == math.MaxInt64 {
			return term.Misuse(fmt.Errorf("--seed %d: expected a whole number from 0 on", f.seed))
		}
		x.Seed = uint64(f.seed)
	}
	if f.out == "" {
		f.out = slug(x.Name) + "-tuned.toml"
	}
	if _, err := os.Stat(f.out); err == nil && !f.force {
		return term.Misuse(fmt.Errorf("%s exists; choose another file with --out, or replace it with --force", f.out))
	}
	stdout, stderr := term.New(cmd.OutOrStdout(), f.color), term.New(cmd.ErrOrStderr(), f.color)
	ctx, release := interruptible(cmd.Context(), silent{}, stderr.W, 0)
	defer release()
	started := time.Now()
	show := &tuneDisplay{w: stderr.W, live: stderr.Live, quiet: f.quiet, started: started}
	r, err := tune.Run(ctx, x, tune.Options{Replications: f.replications, Workers: f.workers,
		Data: &dataset.Source{Override: f.data}, Progress: show.progress})
	show.clear()
	if errors.Is(err, sim.ErrInterrupted) {
		fmt.Fprintf(stderr.W, "troupe: interrupted; nothing is chosen, and %s is not written\n", f.out)
		return term.Silently(term.Interrupted, err)
	}
	if err != nil {
		return tuneFault(err)
	}
	out, err := r.Spec(strings.TrimSuffix(x.Name, "-tuned") + "-tuned")
	if err != nil {
		return err
	}
	if err := os.WriteFile(f.out, []byte(out), 0o644); err != nil {
		return err
	}
	printTuned(stdout, r)
	if !f.quiet {
		fmt.Fprintf(stdout.W, "\nspec     %s\nto run   %s run %s\n", f.out, term.Called(), f.out)
		fmt.Fprintf(stderr.W, "troupe: tuned in %s\n", term.Duration(time.Since(started).Seconds()))
	}
	return nil
}

// tuneFault makes a usage error of what is wrong with the spec; a failed cell stays a failure.
func tuneFault(err error) error {
	var cell *sim.CellError
	var place *spec.FileError
	if errors.As(err, &cell) || errors.As(err, &place) {
		return err
	}
	return term.Misuse(err)
}

// printTuned prints the table of what was chosen.
func printTuned(t term.Terminal, r *tune.Result) {
	x := r.Experiment
	envs := make([]string, len(x.Environments))
	for e := range envs {
		envs[e] = x.Environments[e].Name
	}
	fmt.Fprintln(t.W, term.Wrap(t.Words(fmt.Sprintf("Mean regret after %s %s in %s; %d replications of each policy, "+
		"seed %d", term.Grouped(int64(x.Horizon)), tune.Unit(x), strings.Join(envs, ", "), r.Replications, x.Seed)), 0))
	for i := range r.Policies {
		p := &r.Policies[i]
		fmt.Fprintf(t.W, "\n%s\n", t.Bold(t.Words(p.Name)))
		for k := range p.Points {
			q := &p.Points[k]
			if k > 0 && k >= 4 && q.Stage < p.Points[0].Stage {
				fmt.Fprintf(t.W, "    and %d more\n", len(p.Points)-k)
				break
			}
			mark := "  "
			if k == 0 {
				mark = "◆ "
			}
			means := make([]string, min(len(q.Mean), 3))
			for e := range means {
				means[e] = strconv.FormatFloat(q.Mean[e], 'f', 1, 64)
			}
			if len(q.Mean) > 3 { // a line has no room for more
				means = []string{"score " + strconv.FormatFloat(q.Score, 'f', 3, 64)}
			}
			fmt.Fprintln(t.W, t.Words(strings.TrimRight("  "+mark+term.PadRight(term.Shorten(tried(q), 36),
				37)+term.PadLeft(strings.Join(means, ", "), 18)+
				term.PadLeft(fmt.Sprintf("n = %d", q.R), 9)+term.PadLeft(fmt.Sprintf("%.0f%%", 100*q.Wins), 7), " ")))
		}
		if open := p.Open(); len(open) > 2 {
			names := make([]string, len(open))
			for k, q := range open {
				names[k] = tried(q)
			}
			fmt.Fprintln(t.W, term.Wrap(t.Words(fmt.Sprintf("  note: %d replications do not decide among %d points "+
				"(95%% of resamples): %s. More replications, or a grid with wider steps, may decide",
				p.Played, len(open), strings.Join(names, "; "))), 2))
		}
		for _, edge := range p.Edges {
			fmt.Fprintln(t.W, term.Wrap("  note: "+edge+": the best may lie outside; widen the grid", 2))
		}
	}
	if len(x.Environments) > 3 {
		fmt.Fprintln(t.W, "\n"+term.Wrap("score: the mean over the environments of a point's mean regret, divided by "+
			"the lowest of the first stage.", 0))
	}
	fmt.Fprintln(t.W, "\n"+term.Wrap("The last column: how often a point has the lowest score when replications are "+
		"drawn again.", 0))
}

// tried names a point by its options, without the kind that all points of a grid share.
func tried(p *tune.Point) string {
	name := p.Case.Name
	if _, options, ok := strings.Cut(name, "("); ok {
		return strings.TrimSuffix(options, ")")
	}
	return name
}

// tuneDisplay shows how far a tuning is: one line that is repainted on a terminal, a line for each
// policy elsewhere.
type tuneDisplay struct {
	w           io.Writer
	live, quiet bool
	started     time.Time
	last        time.Time
	policy      string
}

func (d *tuneDisplay) progress(p tune.Progress) {
	if d.quiet {
		return
	}
	if !d.live {
		if p.Policy != d.policy {
			d.policy = p.Policy
			fmt.Fprintf(d.w, "troupe: tuning %s\n", p.Policy)
		}
		return
	}
	if time.Since(d.last) < 100*time.Millisecond {
		return
	}
	d.last = time.Now()
	line := fmt.Sprintf(" %3.0f%%  %s: stage %d of %d, %d points", 100*float64(p.Rounds)/float64(max(1, p.All)),
		term.Shorten(p.Policy, 40), p.Stage, p.Stages, p.Points)
	fmt.Fprintf(d.w, "\r\x1b[K%s", line)
}

func (d *tuneDisplay) clear() {
	if d.live && !d.quiet {
		fmt.Fprint(d.w, "\r\x1b[K")
	}
}

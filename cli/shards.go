package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"troupe/cli/term"
	"troupe/shards"
	"troupe/sim"
)

// shard is the part that a run plays.
type shard struct {
	shards.Part
	guessed bool // the number of parts is the size of the scheduler's array
}

// partOf reads --shard, and refuses what needs all cells.
func partOf(cmd *cobra.Command, f *runFlags) (shard, error) {
	if !cmd.Flags().Changed("shard") {
		return shard{}, nil
	}
	p, guessed, err := shards.Find(f.shard, os.Getenv)
	if err != nil {
		return shard{}, term.Misuse(fmt.Errorf("--shard %s: %w", f.shard, err))
	}
	for _, o := range []struct{ flag, why string }{
		{"budget", "the number of replications would depend on the time that each part takes; say --replications"},
		{"until", "what is settled depends on the cells of all parts; say --replications"},
		{"bsuite", "a part has no results; merge the parts first"},
		{"format", "a part has no results; give it to troupe merge"},
	} {
		if cmd.Flags().Changed(o.flag) {
			return shard{}, term.Misuse(fmt.Errorf("--shard %s and --%s exclude each other: %s", f.shard, o.flag,
				o.why))
		}
	}
	return shard{p, guessed}, nil
}

// checkPart refuses a part of an experiment that cannot be divided, and a guessed number of parts that is another one
// than the directory has.
func checkPart(x *sim.Experiment, part shard, f runFlags) error {
	if part.Whole() {
		return nil
	}
	if x.Until != "" {
		return term.Misuse(fmt.Errorf("--shard %s: the spec has until = %q, and what is settled depends on the cells "+
			"of all parts; leave until out", f.shard, x.Until))
	}
	if !part.guessed {
		return nil
	}
	dirs, err := sim.PartDirs(f.out)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if p, ok := shards.FromDir(filepath.Base(dir)); ok && p.Of != part.Of {
			return term.Misuse(fmt.Errorf("--shard %s: the scheduler's array has %s, and %s has parts of %d; say "+
				"--shard auto/%d if some "+
				"of these were submitted again, or auto/%d for another division", f.shard, term.Many(part.Of, "task"),
				f.out, p.Of, p.Of, part.Of))
		}
	}
	return nil
}

// sayPart says what the part has left, how long that takes, and where it is.
func (o *opening) sayPart(p sim.Progress) {
	dir := filepath.Join(o.dir, sim.ShardsDir, o.part.Dir())
	if e, ok := o.display.(*events); ok {
		e.emit("event", "part", "part", o.part.Index, "of", o.part.Of, "cells", p.Cells, "done", p.Done, "directory",
			dir)
		return
	}
	if _, quiet := o.display.(silent); quiet {
		return
	}
	if p.Cells == 0 {
		return // the last line says so
	}
	estimate := "no estimate before the first rounds"
	if p.Pace > 0 {
		estimate = about(p.Pace * float64(p.AllRounds) / float64(max(1, p.Workers)))
	}
	fmt.Fprintf(o.stderr.W, "troupe: %s: %s of %s, %s there already, %s to play, %s\ntroupe: %s\n", o.part.Words(),
		term.Many(p.Cells, "cell"), term.Grouped(int64(o.x.Cells())), term.Grouped(int64(p.Done)),
		term.Grouped(int64(p.Cells-p.Done)), estimate, dir)
}

// deliverPart says how a part ended.
func deliverPart(part shard, f runFlags, out *sim.Outcome, err error, show display, stderr term.Terminal) error {
	m := out.Manifest
	dir := filepath.Join(f.out, sim.ShardsDir, part.Dir())
	say := func(format string, args ...any) {
		if f.quiet < 2 && !f.json {
			fmt.Fprintf(stderr.W, "troupe: "+format+"\n", args...)
		}
	}
	if e, ok := show.(*events); ok {
		e.emit("event", "end", "status", m.Status, "part", part.Index, "of", part.Of, "cells", m.Shard.Cells, "done",
			m.Done, "played", out.Played, "directory", dir)
	}
	switch {
	case errors.Is(err, sim.ErrInterrupted):
		say("interrupted; %s of %s of %s are kept in %s; the same command goes on", term.Grouped(int64(m.Done)),
			term.Many(m.Shard.Cells, "cell"), part.Words(), dir)
		return term.Silently(shards.Again(os.Getenv, term.Interrupted), sim.ErrInterrupted)
	case err != nil:
		return fmt.Errorf("%w\n%d of %d cells of %s are kept in %s", err, m.Done, m.Shard.Cells, part.Words(), dir)
	case m.Shard.Cells == 0:
		say("%s has no cells: there are only %s; nothing was played", part.Words(), term.Grouped(int64(m.Cells)))
		return nil
	}
	say("%s is complete: %s, %s played now, in %s", part.Words(), term.Many(m.Shard.Cells, "cell"),
		term.Grouped(int64(out.Played)), dir)
	say("when all parts are there: %s merge %s", term.Called(), shards.Quote(f.out))
	return nil
}

func shardsCommand(kinds sim.Catalogue) *cobra.Command {
	var f runFlags
	var n int
	var kind string
	c := &cobra.Command{
		Use:   "shards [SPEC]",
		Short: "Write a script that submits an experiment to a cluster in parts",
		Long: `Prints a script for a scheduler, which plays an experiment in N parts and goes on where a part
stopped. The scheduler is the queue: it starts again what failed and keeps to its limits. Look at
the time, the memory and the queue in the script before you submit it. The parts write to
DIR/shards; DIR must be on a disk that all machines have. Afterwards troupe merge DIR makes one
run of them.`,
		Example: `  troupe shards big.toml -n 16 --for slurm -o /scratch/big > big.sh
  troupe shards big.toml -n 16 --for kubernetes -o /mnt/big > big.yaml
  troupe shards big.toml -n 8 --for parallel > big.sh`,
		Args:              term.Arguments(0, 1),
		ValidArgsFunction: completeSpec,
		RunE: func(cmd *cobra.Command, args []string) error {
			return writeScript(cmd, args, f, n, kind, kinds)
		},
	}
	fl := c.Flags()
	fl.IntVarP(&n, "parts", "n", 0, "number of parts")
	fl.StringVar(&kind, "for", "", strings.Join(shards.Kinds, ", "))
	fl.StringVarP(&f.out, "out", "o", "", "output directory, on a disk that all machines have (default runs/NAME)")
	fl.Int64Var(&f.seed, "seed", 0, "seed, instead of the spec's")
	fl.IntVar(&f.replications, "replications", 0, "replications, instead of the spec's")
	fl.IntVar(&f.horizon, "horizon", 0, "rounds of a replication, instead of the spec's")
	fl.StringVar(&f.data, "data", "", "data file, or the directory in which the spec's data files are")
	term.AddGaps(fl, &f.gaps)
	c.RegisterFlagCompletionFunc("for", cobra.FixedCompletions(slices.Clone(shards.Kinds),
		cobra.ShellCompDirectiveNoFileComp))
	return c
}

// writeScript prints the script, after a look at the experiment.
func writeScript(cmd *cobra.Command, args []string, f runFlags, n int, kind string, kinds sim.Catalogue) error {
	f.color, f.shard = "auto", "auto"
	if !slices.Contains(shards.Kinds, kind) {
		return term.Misuse(fmt.Errorf("--for %q: expected %s", kind, strings.Join(shards.Kinds, ", ")))
	}
	if n < 1 || n > shards.Most {
		return term.Misuse(fmt.Errorf("-n %d: expected 1 to %d parts", n, shards.Most))
	}
	name := ""
	if len(args) > 0 {
		name = args[0]
	}
	x, err := prepare(cmd, name, &f, kinds)
	if err != nil {
		return err
	}
	if err := checkPart(x, shard{Part: shards.Part{Index: 1, Of: n}}, f); err != nil {
		return err
	}
	run := []string{term.Called(), "run"}
	if name != "" {
		run = append(run, name)
	}
	run = append(run, "-o", f.out)
	cmd.Flags().VisitAll(func(flag *pflag.Flag) {
		switch flag.Name {
		case "seed", "replications", "horizon", "data":
			if flag.Changed {
				run = append(run, "--"+flag.Name, flag.Value.String())
			}
		case "gap":
			for _, g := range f.gaps {
				run = append(run, "--gap", g)
			}
		}
	})
	text, err := shards.Script(kind, shards.Job{Name: cmp.Or(slug(x.Name), "experiment"), Run: run,
		Merge: []string{term.Called(), "merge", f.out}, N: n})
	if err != nil {
		return term.Misuse(err)
	}
	sizes := make([]int, n)
	for _, part := range shards.Layout(len(x.Environments), len(x.Policies), x.Replications, n) {
		sizes[part-1]++
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "troupe: %s in %s: %s to %s each\n", term.Many(x.Cells(), "cell"),
		term.Many(n, "part"), term.Grouped(int64(slices.Min(sizes))), term.Grouped(int64(slices.Max(sizes))))
	_, err = fmt.Fprint(cmd.OutOrStdout(), text)
	return err
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"os/signal"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/shards"
	"troupe/sim"
)

// mergeFlags are the flags of `troupe merge`.
type mergeFlags struct {
	run                     runFlags
	of                      int
	missing, partial, watch bool
}

func mergeCommand(line string, kinds sim.Catalogue) *cobra.Command {
	var f mergeFlags
	c := &cobra.Command{
		Use:   "merge DIR...",
		Short: "Make one run of parts that were played on many machines",
		Long: `Makes results.csv, manifest.json and the page of the parts of an experiment (troupe run
--shard), with the bytes of one machine. DIR is a directory that has parts in DIR/shards, the
directory of one part, or that of a whole run; several may overlap and come in any order.
Nothing is played.

Parts of another spec, seed, horizon, program or data file are refused, and so are cells that
two parts have with different numbers. Where cells are missing nothing is written, the parts
that lack some are named, and the exit code is 1; --partial writes what is there. troupe run on
the merged directory plays what is missing.`,
		Example: `  troupe merge /scratch/big
  troupe merge part-*/ -o big
  troupe merge /scratch/big --missing         3,7,12-14: what sbatch --array takes
  troupe merge /scratch/big --watch           how far each part is, until all are complete`,
		Args: term.Arguments(1, 100_000),
		RunE: func(cmd *cobra.Command, args []string) error {
			return merge(cmd, args, f, line, kinds)
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.run.out, "out", "o", "", "output directory (default: DIR, where there is one that has parts in "+
		"it)")
	fl.BoolVar(&f.missing, "missing", false, "print the numbers of the parts that lack cells, and write nothing")
	fl.IntVar(&f.of, "of", 0, "for --missing: the number of parts, where the directories have more than one division")
	fl.BoolVar(&f.partial, "partial", false, "write what is there, although cells are missing")
	fl.BoolVar(&f.watch, "watch", false, "show how far the parts are, until all are complete, and write nothing")
	fl.CountVarP(&f.run.quiet, "quiet", "q", "the table only; twice: nothing but errors")
	fl.StringVar(&f.run.format, "format", "csv", "csv; parquet or both writes results.parquet beside results.csv")
	fl.BoolVar(&f.run.noReport, "no-report", false, "leave out report.html, figures and tables")
	fl.StringVar(&f.run.color, "color", "auto", "auto, always or never")
	return c
}

func merge(cmd *cobra.Command, args []string, f mergeFlags, line string, kinds sim.Catalogue) error {
	if err := f.check(cmd); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), ending...)
	defer stop()
	stdout, stderr := term.New(cmd.OutOrStdout(), f.run.color), term.New(cmd.ErrOrStderr(), f.run.color)
	o := sim.MergeOptions{Sources: args, Partial: f.partial, Kinds: kinds, Manifest: build(), Note: func(text string) {
		if f.run.quiet < 2 {
			fmt.Fprintln(stderr.W, "troupe: note:", text)
		}
	}}
	o.Manifest.Command = line
	if f.watch {
		return watch(ctx, o, stdout)
	}
	if f.missing {
		o.Note = nil
		return missingParts(ctx, cmd, o, f.of)
	}
	out, err := mergeInto(args, f.run.out)
	if err != nil {
		return err
	}
	o.Dir, f.run.out = out, out
	started := time.Now()
	m, err := sim.Merge(ctx, o)
	if errors.Is(err, sim.ErrMissing) {
		return lacking(m, out, stderr)
	}
	if err != nil {
		return err
	}
	d := delivery{f: f.run, x: m.Experiment, out: m.Outcome, stdout: stdout, stderr: stderr,
		seconds: time.Since(started).Seconds(), line: line, merged: m}
	return d.finished(silent{})
}

// check refuses flags that do not go together.
func (f *mergeFlags) check(cmd *cobra.Command) error {
	if err := term.CheckColor(f.run.color); err != nil {
		return err
	}
	if f.run.format != "csv" && f.run.format != "parquet" && f.run.format != "both" {
		return term.Misuse(fmt.Errorf("--format %q: expected csv, parquet or both", f.run.format))
	}
	if f.missing && f.watch || f.partial && (f.missing || f.watch) {
		return term.Misuse(errors.New("--missing, --watch and --partial exclude each other"))
	}
	if cmd.Flags().Changed("of") && (!f.missing || f.of < 1 || f.of > shards.Most) {
		return term.Misuse(fmt.Errorf("--of %d: expected 1 to %d parts, with --missing", f.of, shards.Most))
	}
	if f.run.out != "" && (f.missing || f.watch) {
		return term.Misuse(fmt.Errorf("--out %s: --missing and --watch write nothing", f.run.out))
	}
	return nil
}

// mergeInto is the directory that gets the results.
func mergeInto(args []string, out string) (string, error) {
	if out != "" {
		return out, nil
	}
	if len(args) > 1 {
		return "", term.Misuse(fmt.Errorf("%d directories: say with --out where the results go", len(args)))
	}
	if m, err := sim.ReadManifest(args[0]); err == nil && m.Shard != nil {
		return "", term.Misuse(fmt.Errorf("%s is one part: say with --out where the results go, or name the "+
			"directory that has all parts in %s", args[0], sim.ShardsDir))
	}
	return filepath.Clean(args[0]), nil
}

// division is the number of parts that the words of an answer are about.
func division(m *sim.Merged, of int) (int, error) {
	all := m.Divisions()
	switch {
	case of > 0:
		return of, nil
	case len(all) == 1:
		return all[0], nil
	case len(all) == 0:
		return 0, term.Misuse(errors.New("no directory is a part, so there are no numbers of parts; say --of N"))
	}
	var names []string
	for _, n := range all {
		names = append(names, fmt.Sprintf("--of %d", n))
	}
	return 0, term.Misuse(fmt.Errorf("there are parts of %s: say %s", numbersOf(all), strings.Join(names, " or ")))
}

func numbersOf(all []int) string {
	var words []string
	for _, n := range all {
		words = append(words, fmt.Sprint(n))
	}
	return strings.Join(words, " and of ")
}

// missingParts prints the parts that lack cells.
func missingParts(ctx context.Context, cmd *cobra.Command, o sim.MergeOptions, of int) error {
	m, err := sim.Merge(ctx, o)
	if err != nil {
		return err
	}
	n, err := division(m, of)
	if err != nil {
		return err
	}
	if parts := m.Missing(n); len(parts) > 0 {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), shards.List(parts))
	}
	return err
}

// lacking says which parts lack cells, and how to play them.
func lacking(m *sim.Merged, out string, stderr term.Terminal) error {
	fmt.Fprintf(stderr.W, "troupe: %s of %s are missing; nothing was written\n", term.Grouped(int64(m.Cells-m.Done)),
		term.Many(m.Cells, "cell"))
	if n, err := division(m, 0); err == nil {
		parts := shards.List(m.Missing(n))
		fmt.Fprintln(stderr.W, term.Wrap(fmt.Sprintf("troupe: of %d parts these lack cells: %s", n, parts), 0))
		fmt.Fprintf(stderr.W, "troupe: play them again, with Slurm: sbatch --array=%s SCRIPT (troupe shards writes "+
			"one)\n", parts)
	} else if len(m.Divisions()) == 0 {
		fmt.Fprintf(stderr.W, "troupe: troupe run on %s with the same spec plays them\n", out)
	} else {
		fmt.Fprintf(stderr.W, "troupe: there are parts of %s: troupe merge --missing --of N names those that lack "+
			"cells\n", numbersOf(m.Divisions()))
	}
	fmt.Fprintln(stderr.W, "troupe: --partial writes what is there")
	return term.Silently(term.Failed, sim.ErrMissing)
}

// watch shows how far the parts are, until all are complete or ctx is done.
func watch(ctx context.Context, o sim.MergeOptions, t term.Terminal) error {
	last := ""
	for {
		began := time.Now()
		m, err := sim.Merge(ctx, o)
		o.Note = nil
		text := ""
		var none *sim.NoSource
		switch {
		case errors.As(err, &none):
			text = "waiting for the first part: " + err.Error() + "\n"
		case err != nil:
			return err
		default:
			text = fmt.Sprintf("%s of %s\n%s", term.Grouped(int64(m.Done)), term.Many(m.Cells, "cell"), partsTable(m))
		}
		if text != last {
			if last = text; t.Live {
				fmt.Fprint(t.W, "\x1b[H\x1b[2J")
			}
			fmt.Fprintln(t.W, text)
		}
		if m != nil && m.Done == m.Cells {
			fmt.Fprintf(t.W, "all cells are there: %s merge %s\n", term.Called(), strings.Join(o.Sources, " "))
			return nil
		}
		select {
		case <-ctx.Done():
			return term.Silently(term.Interrupted, sim.ErrInterrupted)
		case <-time.After(max(2*time.Second, 4*time.Since(began))):
		}
	}
}

// mostRows is the number of parts in a table; those that are complete go first.
const mostRows = 30

// partsTable says how far each part is that is not complete.
func partsTable(m *sim.Merged) string {
	var b strings.Builder
	complete, rows := 0, 0
	begun := make(map[int]map[int]bool) // parts by number of parts
	for i := range m.Parts {
		p := &m.Parts[i]
		name := "whole run"
		if !p.Part.Whole() {
			name = p.Part.String()
			if begun[p.Part.Of] == nil {
				begun[p.Part.Of] = make(map[int]bool)
			}
			begun[p.Part.Of][p.Part.Index] = true
		}
		if p.Done == p.Cells {
			if !p.Part.Whole() {
				complete++
			}
			continue
		}
		if rows++; rows > mostRows {
			continue
		}
		state, rest := "", "no estimate"
		if p.Running {
			state = "being played"
		}
		if p.Seconds > 0 {
			rest = about(p.Left())
		}
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf(" %s  %s of %s   %s %s", term.PadLeft(name, 12),
			term.PadLeft(term.Grouped(int64(p.Done)), 9), term.PadRight(term.Many(p.Cells, "cell"), 14),
			term.PadRight(rest, 22), state), " "))
	}
	if rows > mostRows {
		fmt.Fprintf(&b, " and %d more\n", rows-mostRows)
	}
	if complete > 0 {
		fmt.Fprintf(&b, " %s complete\n", term.Many(complete, "part"))
	}
	for _, n := range m.Divisions() {
		if idle := n - len(begun[n]); idle > 0 {
			fmt.Fprintf(&b, " %s of %d not begun\n", term.Many(idle, "part"), n)
		}
	}
	return b.String()
}

// mergedLine is the last line of a merge.
func mergedLine(m *sim.Merged, seconds float64, dir string) string {
	n := term.Many(len(m.Parts), "directory")
	if len(m.Parts) != 1 {
		n = term.Grouped(int64(len(m.Parts))) + " directories"
	}
	switch {
	case m.Unchanged:
		return fmt.Sprintf("%s has all of it already: nothing was written", dir)
	case m.Done < m.Cells:
		return fmt.Sprintf("%s of %s from %s, merged in %s; the rest is missing", term.Grouped(int64(m.Done)),
			term.Many(m.Cells, "cell"), n, term.Duration(seconds))
	}
	return fmt.Sprintf("%s from %s, merged in %s", term.Many(m.Done, "cell"), n, term.Duration(seconds))
}

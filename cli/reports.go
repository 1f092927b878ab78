package cli

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/dataset"
	"troupe/report"
	"troupe/report/chart"
	"troupe/sim"
	"troupe/spec"
)

// reportFlags are the flags of `troupe report`.
type reportFlags struct {
	kinds            sim.Catalogue
	noFigures, lower bool
	data, out, color string
	sizes            []string
	only             []string
	together         bool
	explain, each    bool
}

func reportCommand(kinds sim.Catalogue) *cobra.Command {
	f := reportFlags{kinds: kinds}
	c := &cobra.Command{
		Use:   "report DIR [DIR2]",
		Short: "Build the page of a result directory again, or compare two",
		Long: `Builds report.html, figures/ and tables/ from results.csv and manifest.json of a result
directory. The same files give the same bytes. Figures are as wide as the text of a paper;
--size column or slide writes others beside them, in figures/column and figures/slide.

With two directories: which numbers differ, and by how much each policy's regret changed
from the first to the second, paired by replication. The page is compare.html in the second.
With --together they are one run: the policies of both in the environments that both have.

--only chooses policies and environments by their names, in which * is any text. Intervals hold for
all of the run, because the choice is made when the results are there. What is chosen has its
own directory: DIR/only, or --out.`,
		Example: `  troupe report runs/size
  troupe report runs/size --no-figures
  troupe report runs/size --size column,slide
  troupe report runs/size --lower-bound
  troupe report /mnt/colleague/size --out size-page
  troupe report runs/size --only 'ensemble*' --only 'policy=ts' --only 'environment=ball'
  troupe report runs/before runs/after
  troupe report runs/mine runs/theirs --together --out both`,
		Args: term.Arguments(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := term.CheckColor(f.color); err != nil {
				return err
			}
			t := term.New(cmd.OutOrStdout(), f.color)
			if f.together && len(args) != 2 {
				return term.Misuse(errors.New("--together takes two directories"))
			}
			if len(args) == 2 && !f.together {
				return f.compare(t, args[0], args[1])
			}
			return f.page(cmd.Context(), t, args)
		},
	}
	c.Flags().BoolVar(&f.noFigures, "no-figures", false, "the page only, without figures/ and tables/")
	c.Flags().BoolVar(&f.each, "each-size", false, "of a run of DeepSea: also the figures and tables of each size")
	c.Flags().BoolVar(&f.lower, "lower-bound", false,
		"add the asymptotic lower bound of the instances to the figures (Lattimore & Szepesvári 2017; finite sets)")
	c.Flags().StringArrayVar(&f.only, "only", nil, "show these policies and environments: a name or pattern, policy=…, "+
		"environment=…")
	c.Flags().BoolVar(&f.together, "together", false, "two directories as one run, with the policies of both (needs --out)")
	c.Flags().StringVar(&f.data, "data", "", "data file, or the directory in which the spec's data files are (for "+
		"--lower-bound)")
	c.Flags().StringSliceVar(&f.sizes, "size", nil, "more sizes of the figures: column (3.3 in), slide (10 in)")
	c.RegisterFlagCompletionFunc("size", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		var out []string
		for _, z := range chart.Sizes[1:] {
			out = append(out, z.Name+"\t"+z.Doc)
		}
		return out, cobra.ShellCompDirectiveNoFileComp
	})
	c.Flags().StringVarP(&f.out, "out", "o", "",
		"directory of page, figures and tables (default DIR); of a comparison its directory, or its page, which ends in .html (default DIR2/compare.html)")
	c.Flags().StringVar(&f.color, "color", "auto", "auto, always or never")
	c.Flags().BoolVar(&f.explain, "explain", false, "also print how sure the answer is, in detail")
	return c
}

// compare is `troupe report` with two directories.
func (f *reportFlags) compare(t term.Terminal, one, two string) error {
	if f.lower {
		return term.Misuse(errors.New("--lower-bound is for the figures of one directory"))
	}
	if len(f.sizes) > 0 {
		return term.Misuse(errors.New("--size is for the figures of one directory, or of two with --together"))
	}
	if len(f.only) > 0 {
		return term.Misuse(errors.New("--only is for the figures of one directory, or of two with --together"))
	}
	return compare(t, one, two, f.out, f.explain, f.kinds)
}

// load reads the run of one directory or of two, and chooses from it. to is where its page goes.
func (f *reportFlags) load(dirs []string) (run *report.Run, to string, err error) {
	var runs []*report.Run
	for _, dir := range dirs {
		if err := collect(dir, f.kinds); err != nil && !sim.ReadOnly(err) {
			return nil, "", err
		}
		run, err := report.Load(dir)
		if err != nil {
			return nil, "", err
		}
		runs = append(runs, run)
	}
	run, to = runs[0], cmp.Or(f.out, dirs[0])
	if f.together {
		switch {
		case f.out == "":
			return nil, "", term.Misuse(errors.New("--together needs --out: the page belongs to neither directory"))
		case f.lower:
			return nil, "", term.Misuse(errors.New("--lower-bound is for the figures of one directory"))
		}
		if run, err = report.Together(runs[0], runs[1]); err != nil {
			return nil, "", term.Misuse(fmt.Errorf("--together: %w", err))
		}
	}
	if len(f.only) > 0 {
		if run, err = run.Only(f.only); err != nil {
			return nil, "", term.Misuse(fmt.Errorf("--only: %w", err))
		}
		to = cmp.Or(f.out, filepath.Join(dirs[0], "only"))
	}
	return run, to, nil
}

// page is `troupe report` with one directory, or with two that are shown together.
func (f *reportFlags) page(ctx context.Context, t term.Terminal, dirs []string) error {
	dir := dirs[0]
	more, err := sizesOf(f.sizes)
	if err != nil {
		return err
	}
	if f.noFigures && len(more) > 0 {
		return term.Misuse(errors.New("--size and --no-figures exclude each other"))
	}
	run, to, err := f.load(dirs)
	if err != nil {
		return err
	}
	var bounds []report.Bound
	if f.lower {
		if bounds, err = lowerBounds(ctx, t, run, f.data, f.kinds); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return term.Misuse(fmt.Errorf("--out %s: cannot be a directory for the page: %w", to, err))
	}
	paths, err := report.Write(run, to, report.Options{NoFigures: f.noFigures, Sizes: more, Bounds: bounds, Each: f.each})
	if sim.ReadOnly(err) && f.out == "" {
		return fmt.Errorf("%w; write the page elsewhere: troupe report %s --out DIR", err, dir)
	}
	if err != nil {
		return err
	}
	if err := printTables(t, run, true, f.explain); err != nil {
		return err
	}
	fmt.Fprintln(t.W)
	fmt.Fprintf(t.W, "report   %s\n", paths.Page)
	if !f.noFigures {
		fmt.Fprintf(t.W, "figures  %s\n", filepath.Join(to, "figures"))
		fmt.Fprintf(t.W, "tables   %s\n", filepath.Join(to, "tables"))
		fmt.Fprintf(t.W, "LaTeX    %s\n", paths.Floats)
	}
	return nil
}

// collect checks that a directory holds results, and completes them from the journal where the run
// was killed.
func collect(dir string, kinds sim.Catalogue) error {
	if info, err := os.Stat(dir); err == nil && !info.IsDir() {
		more := ""
		if strings.HasSuffix(dir, ".toml") { // a hint only; it is refused in any case
			more = ": troupe run " + dir + " plays it and names the directory"
		}
		return term.Misuse(fmt.Errorf("%s is a file, expected a directory with the results of troupe run%s", dir, more))
	}
	if _, err := os.Stat(filepath.Join(dir, sim.ManifestFile)); errors.Is(err, fs.ErrNotExist) {
		return term.Misuse(fmt.Errorf("%s is no result directory: it has no %s", dir, sim.ManifestFile))
	}
	if m, err := sim.ReadManifest(dir); err == nil && m.Shard != nil {
		return term.Misuse(fmt.Errorf("%s is part %d of %d, which has no results of its own: troupe merge makes them "+
			"of all parts", dir, m.Shard.Part, m.Shard.Of))
	}
	return sim.Collect(dir, kinds)
}

// lowerBounds computes and prints the lower bounds of the instances of a run, as curves of its figures.
func lowerBounds(ctx context.Context, t term.Terminal, run *report.Run, data string,
	kinds sim.Catalogue) ([]report.Bound, error) {
	x, err := sim.Parse(filepath.Join(run.Dir, sim.ManifestFile), run.Manifest.Spec, kinds)
	if err != nil {
		return nil, err
	}
	all, err := sim.InstanceLowers(ctx, x, &dataset.Source{Override: data})
	if err != nil {
		return nil, err
	}
	var out []report.Bound
	for e, l := range all {
		if l.Why != "" {
			fmt.Fprintln(t.W, term.Wrap(t.Words(fmt.Sprintf("lower bound %s: none, because %s", l.Environment, l.Why)),
				12))
			continue
		}
		b := report.Bound{Env: l.Environment, Label: "lower bound",
			Name: fmt.Sprintf("asymptotic lower bound of Lattimore and Szepesvári (2017), %.4g log t, mean of %s",
				l.Mean, term.Many(l.N, "instance"))}
		for _, round := range run.Envs[e].Rounds {
			b.Rounds, b.Values = append(b.Rounds, round), append(b.Values, l.Mean*math.Log(float64(round)))
		}
		fmt.Fprintln(t.W, term.Wrap(t.Words(fmt.Sprintf("lower bound %s: %.4g log T = %.4g, mean of %s; the gaps of "+
			"duality are at most %.1g of it. It holds for T → ∞: a policy may be below it at this T.",
			l.Environment, l.Mean, l.Mean*math.Log(float64(run.Manifest.Horizon)), term.Many(l.N, "instance"), l.Gap)),
			12))
		out = append(out, b)
	}
	fmt.Fprintln(t.W)
	return out, nil
}

// sizesOf looks up the sizes of --size. The size text is in figures/ already.
func sizesOf(names []string) ([]chart.Size, error) {
	var out []chart.Size
	var valid []string
	for _, z := range chart.Sizes {
		valid = append(valid, z.Name)
		if z.Name != chart.Sizes[0].Name && slices.Contains(names, z.Name) {
			out = append(out, z)
		}
	}
	for _, name := range names {
		if !slices.Contains(valid, name) {
			return nil, term.Misuse(fmt.Errorf("--size %s: no such size%s", name, spec.Suggest(name, valid)))
		}
	}
	return out, nil
}

// compare prints and writes what changed between two runs.
func compare(t term.Terminal, dirA, dirB, page string, explain bool, kinds sim.Catalogue) error {
	for _, dir := range []string{dirA, dirB} {
		if err := collect(dir, kinds); err != nil {
			return err
		}
	}
	c, err := report.Compare(dirA, dirB)
	if err != nil {
		return err
	}
	switch {
	case page == "":
		page = filepath.Join(dirB, "compare.html")
	case filepath.Ext(page) == "": // a directory, as for one run
		if err := os.MkdirAll(page, 0o755); err != nil {
			return term.Misuse(fmt.Errorf("--out %s: cannot be a directory for the page: %w", page, err))
		}
		page = filepath.Join(page, "compare.html")
	}
	answer := c.Answer()
	fmt.Fprintf(t.W, "%s\n\nfirst   %s\nsecond  %s\n\n", t.Bold(t.Wrap(answer.Head.String(), 0)), dirA, dirB)
	if len(c.Rows) > 0 {
		table := c.Table()
		if t.Plain {
			table = table.Plain()
		}
		if err := table.Text(t.W, t.Width, t.Color); err != nil {
			return err
		}
		fmt.Fprintln(t.W)
	}
	lead := []report.Prose{answer.Lead}
	if explain {
		lead = append(lead, answer.Careful...)
	}
	for _, p := range lead {
		if len(p) > 0 {
			fmt.Fprintln(t.W, t.Wrap(p.String(), 0))
		}
	}
	var b bytes.Buffer
	if err := c.WriteHTML(&b); err != nil {
		return err
	}
	temp := page + ".tmp"
	if err := os.WriteFile(temp, b.Bytes(), 0o644); err != nil {
		return err
	}
	if err := os.Rename(temp, page); err != nil {
		return err
	}
	fmt.Fprintf(t.W, "\nreport   %s\n", page)
	return nil
}

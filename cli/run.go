package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/dataset"
	"troupe/env"
	"troupe/experiments"
	"troupe/report"
	"troupe/report/chart"
	"troupe/sim"
	"troupe/spec"
)

// runFlags are the flags of `troupe run`.
type runFlags struct {
	out, data, color      string
	bsuite                string
	until                 string
	shard                 string
	format                string
	gaps                  []string
	workers               int
	seed                  int64
	replications, horizon int
	quiet                 int
	json, force, noReport bool
	explain               bool
	grace, budget         time.Duration
	source                *dataset.Source // of the data files, from prepare
}

func runCommand(line string, kinds sim.Catalogue) *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run [SPEC]",
		Short: "Play an experiment and report what happened",
		Long: `Plays an experiment: every policy in every environment, many times. SPEC is a file or the
name of an experiment that comes with troupe (troupe list experiments); without it the
default experiment is played.

The results are in the output directory: results.csv, manifest.json, report.html with its
figures and tables. A run that was interrupted or killed goes on where it stopped when the
same command is given again, and ends with the same bytes. Ctrl-C finishes the cells under
way (at most --grace), twice stops at once.

Results grow in their directory: with more replications, policies or environments only what
is missing is played. Finished results are replaced when the new ones are complete, and
finished cells go only with --force. A second run in the directory waits for the first.

With --budget the run plays as many replications as fit in that time, the same number for every
policy in every environment, and says how many. The results are those of --replications with
that number. The same command again adds to them.

With --until settled replications are added until every pair of policies is told apart, at the latest
at --replications or after --budget. Its intervals hold for every distribution and at every moment. It
needs an environment that knows how much a round can cost.

With --shard 3/16 only the third of sixteen parts is played, on this machine, in its own directory
DIR/shards/3-of-16. auto asks the scheduler which part it is (Slurm, Kubernetes, SGE, PBS, LSF, AWS
Batch, GNU parallel). troupe merge DIR makes one run of all parts, troupe shards writes a script
that submits them. SIGTERM, SIGUSR1 and SIGXCPU end a run as Ctrl-C does.`,
		Example: `  troupe run
  troupe run tour
  troupe run paper/ensemble-size --workers 2
  troupe run experiments/ensemble-size.toml --out runs/size
  troupe run classification/mushroom --data mushroom.data
  troupe run my.toml --replications 200        plays the replications that are missing
  troupe run my.toml --budget 10m              as many replications as ten minutes allow
  troupe run my.toml --shard 3/16 -o /scratch/my    one part of sixteen, on any machine
  troupe run tour --json | jq .`,
		Args:              term.Arguments(0, 1),
		ValidArgsFunction: completeSpec,
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			err := play(cmd, name, f, line, kinds)
			var fault *spec.FileError
			if f.json && errors.As(err, &fault) {
				(&events{w: cmd.OutOrStdout()}).emit("event", "error", "path", fault.Path, "line", fault.Line, "column",
					fault.Column, "text", fault.Msg)
			}
			return err
		},
	}
	fl := c.Flags()
	fl.StringVarP(&f.out, "out", "o", "", "output directory (default runs/NAME)")
	fl.IntVarP(&f.workers, "workers", "w", 0, "cells played at the same time (default: one for each processor)")
	fl.Int64Var(&f.seed, "seed", 0, "seed, instead of the spec's")
	fl.IntVar(&f.replications, "replications", 0, "replications, instead of the spec's")
	fl.IntVar(&f.horizon, "horizon", 0, "rounds of a replication, instead of the spec's")
	fl.StringVar(&f.data, "data", "", "data file, or the directory in which the spec's data files are")
	term.AddGaps(fl, &f.gaps)
	fl.CountVarP(&f.quiet, "quiet", "q", "the table only; twice: nothing but errors")
	fl.StringVar(&f.format, "format", "csv", "csv; parquet or both writes results.parquet beside results.csv, with "+
		"swept options as columns")
	fl.BoolVar(&f.json, "json", false, "events on stdout, one JSON object a line")
	fl.BoolVar(&f.force, "force", false, "let finished cells of the output directory go that are not of this "+
		"experiment")
	fl.BoolVar(&f.noReport, "no-report", false, "leave out report.html, figures and tables")
	fl.BoolVar(&f.explain, "explain", false, "also print how sure the answer is, in detail")
	fl.StringVar(&f.color, "color", "auto", "auto, always or never")
	fl.DurationVar(&f.grace, "grace", 2*time.Second, "time that cells under way have to finish after the first Ctrl-C")
	fl.DurationVar(&f.budget, "budget", 0, "time to play in, such as 10m, instead of a number of replications; "+
		"--replications bounds it")
	fl.StringVar(&f.bsuite, "bsuite", "", "also write the results on DeepSea as bsuite's own CSV files, to "+
		"DIR/AGENT/REPLICATION")
	fl.StringVar(&f.shard, "shard", "", "play one part: I/N, auto (from the scheduler), auto/N")
	fl.StringVar(&f.until, "until", "", "settled: stop when every pair of policies is told apart, at the latest "+
		"after --replications or --budget")
	return c
}

func play(cmd *cobra.Command, name string, f runFlags, line string, kinds sim.Catalogue) error {
	if f.grace <= 0 || f.grace > 24*time.Hour {
		return term.Misuse(fmt.Errorf("--grace %v: expected more than 0s and at most 24h", f.grace))
	}
	if cmd.Flags().Changed("budget") && (f.budget < time.Second || f.budget > 1000*time.Hour) {
		return term.Misuse(fmt.Errorf("--budget %v: expected 1s to 1000h", f.budget))
	}
	if f.format != "csv" && f.format != "parquet" && f.format != "both" {
		return term.Misuse(fmt.Errorf("--format %q: expected csv, parquet or both", f.format))
	}
	part, err := partOf(cmd, &f)
	if err != nil {
		return err
	}
	x, err := prepare(cmd, name, &f, kinds)
	if err != nil {
		return err
	}
	if err := checkPart(x, part, f); err != nil {
		return err
	}
	if f.bsuite != "" {
		if err := checkBsuite(x, f.bsuite); err != nil {
			return err
		}
	}
	stdout, stderr := term.New(cmd.OutOrStdout(), f.color), term.New(cmd.ErrOrStderr(), f.color)
	show := displayFor(f, stdout, stderr)
	defer show.stop()

	ctx, release := interruptible(cmd.Context(), show, stderr.W, f.grace)
	defer release()
	manifest := build()
	manifest.Command = line
	opening := &opening{display: show, x: x, part: part, dir: f.out, stderr: stderr}
	started := time.Now()
	options := sim.Options{
		Dir: f.out, Workers: f.workers, Force: f.force, Shard: part.Part,
		Manifest: manifest, Data: f.source,
		Progress: opening.progress, Note: opening.note, Grace: f.grace,
	}
	x, out, err := runOrFor(ctx, x, options, f)
	if err == nil {
		opening.open()
	}
	show.stop()
	if out == nil {
		return refusedDir(err, part.Whole())
	}
	if !part.Whole() {
		return deliverPart(part, f, out, err, show, stderr)
	}
	d := delivery{f: f, x: x, out: out, stdout: stdout, stderr: stderr, seconds: time.Since(started).Seconds(),
		line: line}
	if errors.Is(err, sim.ErrInterrupted) {
		if errors.Is(err, sim.ErrBudget) {
			fmt.Fprintf(stderr.W, "troupe: --budget %v: %v\n", f.budget, sim.ErrBudget)
		}
		return d.interrupted(show)
	}
	kept := fmt.Errorf("%w\n%d of %d cells are kept in %s", err, out.Manifest.Done, out.Manifest.Cells, f.out)
	var lost *sim.LostError
	if err != nil && (!errors.As(err, &lost) || out.Manifest.Done == 0) {
		return kept
	}
	if failed := d.finished(show); failed != nil || err == nil {
		return failed
	}
	return kept
}

// runOrFor plays an experiment: its cells, or for as long as --budget or until = "settled" say. It returns the
// experiment with the replications that were played.
func runOrFor(ctx context.Context, x *sim.Experiment, options sim.Options, f runFlags) (*sim.Experiment, *sim.Outcome,
	error) {
	if x.Until == sim.Settled {
		options.Settled = func(*sim.Outcome) (bool, error) { return report.Settled(f.out) }
	}
	if f.budget == 0 && x.Until != sim.Settled {
		out, err := sim.Run(ctx, x, options)
		return x, out, err
	}
	most := f.replications
	if f.budget == 0 {
		most = x.Replications
	}
	y, out, err := sim.RunFor(ctx, x, options, cmp.Or(f.budget, 1000*time.Hour), most)
	if y != nil {
		x = y
	}
	return x, out, err
}

// refusedDir says what to do about a directory that does not take the results.
func refusedDir(err error, whole bool) error {
	var refused *sim.DirError
	if !errors.As(err, &refused) {
		return err
	}
	if refused.None {
		return fmt.Errorf("--out: %w", err)
	}
	if !whole { // the other parts would stay what they are
		return fmt.Errorf("%w\nchoose another directory with --out", err)
	}
	return fmt.Errorf("%w\nchoose another directory with --out, or let them go with --force: they go when "+
		"the new results are complete; cells that both have are kept", err)
}

// opening holds back the start of a display until the first look at the run: a spec that is refused
// was never started.
type opening struct {
	display
	x     *sim.Experiment
	notes []string
	done  bool

	part   shard // what of x is played
	dir    string
	stderr term.Terminal
}

func (o *opening) open() {
	if o.done {
		return
	}
	o.done = true
	o.display.start(o.x)
	for _, text := range o.notes {
		o.display.note(text)
	}
}

func (o *opening) progress(p sim.Progress) {
	if !o.done && !o.part.Whole() {
		o.open()
		o.sayPart(p)
	}
	o.open()
	o.display.progress(p)
}

func (o *opening) note(text string) {
	if o.done {
		o.display.note(text)
		return
	}
	o.notes = append(o.notes, text)
}

// checkWorkers refuses a number of workers that was given and is none; 0 is what the flag holds where it was not given.
func checkWorkers(cmd *cobra.Command, workers int) error {
	if cmd.Flags().Changed("workers") && (workers < 1 || workers > 10_000) {
		return term.Misuse(fmt.Errorf("--workers %d: expected 1 to 10000; without the flag there is one for each processor",
			workers))
	}
	return nil
}

// prepare reads the spec, applies the flags that change it, and fills in the output directory.
func prepare(cmd *cobra.Command, name string, f *runFlags, kinds sim.Catalogue) (*sim.Experiment, error) {
	if err := term.CheckColor(f.color); err != nil {
		return nil, err
	}
	if err := checkWorkers(cmd, f.workers); err != nil {
		return nil, err
	}
	file, text, err := findSpec(name)
	if err != nil {
		return nil, err
	}
	var seed, size string // what tells the directory of a changed experiment from that of the original
	for _, o := range []struct {
		key        string
		value, low int64
	}{{"seed", f.seed, 0}, {"horizon", int64(f.horizon), 1}, {"replications", int64(f.replications), 1}} {
		if !cmd.Flags().Changed(o.key) {
			continue
		}
		if o.value < o.low || o.value > math.MaxInt64-1 {
			return nil, term.Misuse(fmt.Errorf("--%s %d: expected a whole number from %d on", o.key, o.value, o.low))
		}
		value := strconv.FormatInt(o.value, 10)
		if text, err = spec.Override(file, text, o.key, value); err != nil {
			return nil, err
		}
		if o.key == "seed" {
			seed = "-seed-" + value
		} else {
			size += "-" + o.key + "-" + value
		}
	}
	if cmd.Flags().Changed("until") {
		if f.until != sim.Settled {
			return nil, term.Misuse(fmt.Errorf("--until %q: expected %s", f.until, sim.Settled))
		}
		if text, err = spec.Override(file, text, "until", strconv.Quote(f.until)); err != nil {
			return nil, err
		}
	}
	x, err := sim.Parse(file, text, kinds)
	if err != nil {
		return nil, err
	}
	if len(f.gaps) > 0 {
		if x, text, err = withGaps(x, file, text, f.gaps, kinds); err != nil {
			return nil, err
		}
	}
	f.source = &dataset.Source{Override: f.data}
	pass, err := x.OnePass(f.source)
	if err != nil {
		return nil, err
	}
	if pass > 0 && pass != x.Horizon {
		if text, err = spec.Override(file, text, "horizon", strconv.Itoa(pass)); err != nil {
			return nil, err
		}
		if x, err = sim.Parse(file, text, kinds); err != nil {
			return nil, err
		}
	}
	if f.out == "" {
		f.out = directory(filepath.Join("runs", slug(x.Name)+seed), size, x)
	}
	if !cmd.Flags().Changed("replications") && f.shard == "" {
		if x, err = asMany(x, f.out, file, text, kinds); err != nil {
			return nil, err
		}
	}
	if f.data != "" {
		reads := false
		for _, e := range x.Environments {
			_, ok := e.Options.(env.FileReader)
			reads = reads || ok
		}
		if !reads {
			return nil, term.Misuse(fmt.Errorf("--data %s: no environment of %s reads a file", f.data, x.Name))
		}
	}
	return x, nil
}

// directory is the default output directory: base, where an experiment of another size grows, or a
// directory of its own for one that is smaller than what base holds.
func directory(base, size string, x *sim.Experiment) string {
	m, err := sim.ReadManifest(base)
	if size != "" && err == nil && m.Done > 0 && (m.Horizon > x.Horizon || m.Status == sim.Complete &&
		m.Replications > x.Replications) {
		return base + size
	}
	return base
}

// asMany returns the experiment with as many replications as the directory holds of it already.
func asMany(x *sim.Experiment, dir, file, text string, kinds sim.Catalogue) (*sim.Experiment, error) {
	m, err := sim.ReadManifest(dir)
	if err != nil || m.Status != sim.Complete || m.Identity != x.Identity() || m.Replications <= x.Replications {
		return x, nil
	}
	if text, err = spec.Override(file, text, "replications", strconv.Itoa(m.Replications)); err != nil {
		return nil, err
	}
	return sim.Parse(file, text, kinds)
}

// findSpec returns the text of a spec and its name in messages. The argument is a file when there
// is one or when it ends in .toml, otherwise an embedded experiment.
func findSpec(name string) (file, text string, err error) {
	if name == "" {
		name = "default"
	}
	info, statErr := os.Stat(name)
	isFile := statErr == nil && !info.IsDir()
	if e, ok := experiments.Find(name); ok && !isFile {
		return "experiments/" + e.File, e.Text, nil
	}
	if isFile || strings.HasSuffix(name, ".toml") { // the argument's own syntax: no experiment has a name that ends so
		data, err := os.ReadFile(name)
		if err != nil {
			return "", "", term.Misuse(err)
		}
		return name, string(data), nil
	}
	return "", "", term.Misuse(fmt.Errorf("no file and no experiment %q%s\nsee troupe list experiments", name,
		nearest(name, experimentNames())))
}

func experimentNames() []string {
	var names []string
	for _, e := range experiments.All() {
		names = append(names, e.Name)
	}
	return names
}

// nearest is spec.Suggest that would rather say nothing than list everything. The last part of a
// name with slashes is enough: ensemble-size for paper/ensemble-size.
func nearest(name string, valid []string) string {
	for _, v := range valid {
		if v[strings.LastIndexByte(v, '/')+1:] == name {
			return fmt.Sprintf("; did you mean %q?", v)
		}
	}
	if v := spec.Near(name, valid); v != "" {
		return fmt.Sprintf("; did you mean %q?", v)
	}
	return ""
}

func completeSpec(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var out []string
	for _, e := range experiments.All() {
		out = append(out, e.Name+"\t"+e.Doc)
	}
	return out, cobra.ShellCompDirectiveDefault // files too
}

// slug makes a directory name of the last part of an experiment's name.
func slug(name string) string {
	name = name[strings.LastIndexByte(name, '/')+1:]
	var b strings.Builder
	for _, r := range chart.Latin(name) {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			b.WriteRune(r)
		} else {
			b.WriteByte('-')
		}
	}
	if s := strings.Trim(b.String(), ".-"); s != "" {
		return s
	}
	return "experiment"
}

func displayFor(f runFlags, stdout, stderr term.Terminal) display {
	switch {
	case f.json:
		return &events{w: stdout.W, budget: f.budget}
	case f.quiet > 0:
		return silent{}
	case f.budget > 0:
		return &clock{w: stderr.W, budget: f.budget}
	case stderr.Live:
		return &live{t: stderr}
	}
	return &lines{w: stderr.W}
}

// interruptible returns a context that the first Ctrl-C ends; the second ends the program.
func interruptible(ctx context.Context, show display, stderr io.Writer, grace time.Duration) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, ending...)
	go func() {
		for range signals {
			if ctx.Err() != nil {
				fmt.Fprintln(stderr, "\ntroupe: stopped; the finished cells are in the journal")
				os.Exit(term.Interrupted)
			}
			show.stopping(grace)
			cancel()
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		cancel()
	}
}

// delivery hands over what a run left behind.
type delivery struct {
	f              runFlags
	x              *sim.Experiment
	out            *sim.Outcome
	stdout, stderr term.Terminal
	seconds        float64
	line           string
	merged         *sim.Merged // of troupe merge
}

// finished prints the tables, the verdict, and where the files are.
func (d *delivery) finished(show display) error {
	if d.f.format != "csv" {
		if err := writeParquet(filepath.Join(d.f.out, parquetFile), d.x, d.out.Results); err != nil {
			return err
		}
	}
	if d.f.quiet >= 2 && d.f.noReport && !d.f.json && d.f.bsuite == "" {
		return nil // there is nothing to print
	}
	run, err := report.Load(d.f.out)
	if err != nil {
		return err
	}
	if d.f.bsuite != "" {
		if _, err := writeBsuite(d.f.bsuite, run); err != nil {
			return err
		}
	}
	// The tables first: the page takes a moment longer.
	switch {
	case d.f.json:
		show.(*events).policies(run)
	case d.f.quiet < 2:
		if err := printTables(d.stdout, run, d.f.quiet == 0, d.f.explain); err != nil {
			return err
		}
	}
	page := ""
	if !d.f.noReport {
		paths, err := report.Write(run, d.f.out, report.Options{})
		switch {
		case sim.ReadOnly(err) && d.out.Played == 0:
			fmt.Fprintf(d.stderr.W, "troupe: %s cannot be written, so its page stays as it is; a new one: troupe "+
				"report %[1]s --out DIR\n", d.f.out)
		case err != nil:
			return err
		default:
			page = paths.Page
		}
	}
	if d.f.json {
		e := show.(*events)
		e.emit("event", "end", "status", d.out.Manifest.Status, "seconds", round2(d.seconds), "replications",
			d.out.Manifest.Replications, "cells", d.out.Manifest.Done,
			"played", d.out.Played, "results", filepath.Join(d.f.out, sim.ResultsFile), "results_sha256",
			d.out.Manifest.ResultsSHA, "report", page)
		return nil
	}
	if d.f.quiet > 0 {
		return nil
	}
	d.sayFiles(page)
	d.sayEnd(run)
	return nil
}

// sayFiles says where the results are.
func (d *delivery) sayFiles(page string) {
	w := d.stdout.W
	fmt.Fprintln(w)
	if page != "" {
		fmt.Fprintf(w, "report   %s\n", page)
	}
	fmt.Fprintf(w, "results  %s\n", filepath.Join(d.f.out, sim.ResultsFile))
	if d.f.format != "csv" {
		fmt.Fprintf(w, "         %s\n", filepath.Join(d.f.out, parquetFile))
	}
	if d.f.bsuite != "" {
		fmt.Fprintf(w, "bsuite   %s\n", filepath.Join(d.f.bsuite, slug(d.x.Policies[0].Name), "1"))
	}
}

// sayEnd says on stderr what was played and how fast.
func (d *delivery) sayEnd(run *report.Run) {
	if d.x.Until == sim.Settled {
		what := "settled"
		for e := range run.Manifest.Environments {
			if a := report.Analyze(run, e); a == nil || !a.Settled() {
				what = "not settled"
			}
		}
		fmt.Fprintf(d.stderr.W, "troupe: %s after %s of every policy in every environment\n", what,
			term.Many(d.x.Replications, "replication"))
	} else if d.f.budget > 0 {
		fmt.Fprintf(d.stderr.W, "troupe: %s of every policy in every environment in a budget of %v\n",
			term.Many(d.x.Replications, "replication"), d.f.budget)
	}
	if d.merged != nil {
		fmt.Fprintln(d.stderr.W, "troupe: "+mergedLine(d.merged, d.seconds, d.f.out))
		return
	}
	if d.out.Played == 0 {
		fmt.Fprintln(d.stderr.W, d.stderr.Note("troupe: everything was there already: nothing was played"))
		return
	}
	rounds := float64(d.out.Rounds)
	reused := ""
	if d.out.Reused > 0 {
		reused = fmt.Sprintf(", %s cells were there already", term.Grouped(int64(d.out.Reused)))
	}
	fmt.Fprintln(d.stderr.W, d.stderr.Note(fmt.Sprintf("troupe: %s in %s on %s, %s %ss/s%s", term.Many(d.out.Played, "cell"),
		term.Duration(d.seconds),
		term.Many(d.out.Manifest.Workers, "worker"), term.Rate(rounds/d.seconds), d.out.Manifest.Unit(), reused)))
}

// interrupted prints what is complete and the command that goes on.
func (d *delivery) interrupted(show display) error {
	m := d.out.Manifest
	if d.f.json {
		show.(*events).emit("event", "end", "status", m.Status, "seconds", round2(d.seconds), "cells", m.Done, "played",
			d.out.Played,
			"results", filepath.Join(d.f.out, sim.ResultsFile), "resume", d.line)
	} else if d.f.quiet < 2 {
		if run, err := report.Load(d.f.out); err == nil && m.Done > 0 {
			if err := printTables(d.stdout, run, false, false); err != nil {
				return err
			}
		}
		half := ""
		if n := d.out.UnderWay; n > 0 {
			half = fmt.Sprintf(", and the state of %s under way", term.Many(n, "cell"))
		}
		fmt.Fprintf(d.stderr.W, "\ntroupe: interrupted; %s of %s cells are kept in %s%s\ntroupe: to go on: %s\n",
			term.Grouped(int64(m.Done)), term.Grouped(int64(m.Cells)), d.f.out, half, d.line)
	}
	return term.Silently(term.Interrupted, sim.ErrInterrupted)
}

// printTables prints the answer of a run, the leader table of every environment, and how sure the answer is; without
// verdict the tables alone. With explain the sentences for the careful reader follow, which the page folds.
func printTables(t term.Terminal, run *report.Run, verdict, explain bool) error {
	answer := run.Answer()
	if verdict {
		fmt.Fprintf(t.W, "%s\n\n", t.Bold(t.Wrap(answer.Head.String(), 0)))
	}
	tables, legend, err := tablesOf(t, run)
	if err != nil {
		return err
	}
	for i, table := range tables {
		if i > 0 {
			fmt.Fprintln(t.W)
		}
		if err := printTable(t, table); err != nil {
			return err
		}
	}
	if legend != "" {
		fmt.Fprintf(t.W, "\n%s\n", t.Wrap(legend, 0))
	}
	if !verdict {
		return nil
	}
	fmt.Fprintln(t.W)
	if len(answer.Lead) > 0 {
		fmt.Fprintln(t.W, t.Wrap(answer.Lead.String(), 0))
	}
	if values, _ := run.Values(); values != "" {
		fmt.Fprintln(t.W, t.Wrap(values, 0))
	}
	claims := report.ClaimsSaid(run)
	if table := report.Ranges(run, "ranges"); table != nil && explain {
		if err := printTable(t, table); err != nil {
			return err
		}
		fmt.Fprintln(t.W)
	}
	if len(claims) > 1 || explain {
		for _, p := range claims {
			fmt.Fprintln(t.W, t.Wrap(p.String(), 0))
		}
	}
	if s, _ := report.Scores(run); s != nil {
		if quote := s.Quote(s.Rows[0], run.Manifest.Troupe); quote != "" {
			fmt.Fprintf(t.W, "\nto quote %s\n", quote)
		}
	}
	if !explain {
		if len(answer.Careful) > 0 {
			fmt.Fprintln(t.W, t.Wrap(fmt.Sprintf("How sure, in detail: %s report %s --explain", term.Called(), term.Quoted(run.Dir)), 0))
		}
		return nil
	}
	if h := strings.Join(strings.Fields(run.Manifest.Hypothesis), " "); h != "" {
		fmt.Fprintf(t.W, "\n%s\n", t.Wrap("Stated before the run: "+h, 0))
	}
	fmt.Fprintln(t.W)
	for _, p := range answer.Careful {
		if len(p) > 0 {
			fmt.Fprintln(t.W, t.Wrap(p.String(), 0))
		}
	}
	for _, table := range tables {
		if table.Note != "" {
			fmt.Fprintf(t.W, "\n%s\n", t.Wrap(table.Note, 0))
		}
	}
	return nil
}

// tablesOf returns the tables of a run for a terminal, and what their marks mean: the scores of a suite, who solved
// DeepSea, or the leader table of each environment.
func tablesOf(t term.Terminal, run *report.Run) (tables []*chart.Table, legend string, err error) {
	scores, why := report.Scores(run)
	if scores != nil {
		return []*chart.Table{scores.Table(&run.Manifest)}, "", nil
	}
	if why != "" {
		fmt.Fprintf(t.W, "%s\n\n", t.Wrap(why, 0))
	}
	for _, s := range report.SolvedBy(run) {
		tables = append(tables, s.Table(&run.Manifest, false))
	}
	if tables != nil && len(run.Manifest.Environments) > 3 {
		return tables, "", nil // regret by environment is on the page
	}
	var all []*report.Analysis
	for e := range run.Manifest.Environments {
		a := report.Analyze(run, e)
		if a == nil {
			fmt.Fprintf(t.W, "%s: no replication is complete\n", run.Manifest.Environments[e].Name)
			continue
		}
		all = append(all, a)
		tables = append(tables, a.Leader("leader"))
		more := []*chart.Table{a.Versus("reference")}
		if a.ShowExact() {
			more = append(more, a.Exact("exact"))
		}
		for _, table := range more {
			if table != nil {
				tables = append(tables, table)
			}
		}
	}
	return tables, report.Legend(all), nil
}

// printTable prints a table below its title.
func printTable(t term.Terminal, table *chart.Table) error {
	if t.Plain {
		table = table.Plain()
	}
	fmt.Fprintf(t.W, "%s\n\n", t.Wrap(table.Title, 0))
	return table.Text(t.W, t.Width, t.Color)
}

// policies emits one event for each policy of each environment.
func (e *events) policies(run *report.Run) {
	for i := range run.Manifest.Environments {
		a := report.Analyze(run, i)
		if a == nil {
			continue
		}
		for _, p := range a.Order {
			s, d := a.Summary[p], a.Pairs.Diff[p]
			fields := []any{"event", "policy", "environment", a.Name, "name", a.Label(p), "replications", a.R(),
				"mean", s.Mean, "se", s.SE, "median", s.Median, "worst5", s.Worst}
			if a.Estimand != 0 {
				fields = append(fields, "estimand", a.Estimand.String(), "estimate", s.Estimate)
			}
			if a.Pairs.Places != nil {
				fields = append(fields, "places", a.Pairs.Places[p])
			}
			if p != a.Best() {
				fields = append(fields, "diff", d.Mean, "behind", float64(d.Behind)/float64(a.R()))
				if d.OK {
					fields = append(fields, "lo", d.Lo, "hi", d.Hi)
				}
			}
			if a.Against.Ratios != nil && p != a.Against.Reference {
				r := a.Against.Ratios[p]
				fields = append(fields, "reference", a.Label(a.Against.Reference), "ratio", r.Value)
				if r.OK {
					fields = append(fields, "ratio_lo", r.Lo, "ratio_hi", r.Hi)
				}
			}
			e.emit(append(fields, "verdict", a.Word(p))...)
		}
	}
	for _, c := range run.Claims() {
		fields := []any{"event", "claim", "claim", c.Claim, "answer", c.Answer}
		var in []map[string]any
		for _, x := range c.Ranges {
			row := map[string]any{"environment": x.Environment, "answer": x.Answer}
			for key, v := range map[string]float64{"value": x.Value, "lo": x.Lo, "hi": x.Hi} {
				if !math.IsNaN(v) {
					row[key] = v
				}
			}
			in = append(in, row)
		}
		if in != nil {
			fields = append(fields, "in", in)
		}
		e.emit(fields...)
	}
}

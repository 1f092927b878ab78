package evaluate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"troupe/cli/term"
	"troupe/dataset"
	"troupe/ope"
	"troupe/sim"
)

// published are the relative errors that obp's examples state: mean and standard deviation over 20 and 30 runs.
var published = map[string]map[string]string{
	"synthetic": {"dm": ".0744 ± .0245", "ips": ".0095 ± .0069", "snips": ".0067 ± .0045", "dr": ".0062 ± .0042",
		"sndr":      ".0061 ± .0040",
		"switch-dr": ".0062 ± .0042", "dros": ".0220 ± .0133"},
	"digits": {"dm": ".4365 ± .0176", "ips": ".0303 ± .0245", "snips": ".0228 ± .0179", "dr": ".0162 ± .0127",
		"sndr":      ".0221 ± .0169",
		"switch-dr": ".0347 ± .0186", "dros": ".0159 ± .0125"},
}

// knownFlags evaluate where the truth is known.
type knownFlags struct {
	benchmark string
	coverage  bool
}

func (k *knownFlags) add(f *pflag.FlagSet) {
	f.StringVar(&k.benchmark, "benchmark", "",
		"evaluate where the truth is known: a classification file as a logged bandit, or lists; without one, synthetic data")
	f.Lookup("benchmark").NoOptDefVal = "synthetic"
	f.BoolVar(&k.coverage, "coverage", false, "measure how often each interval covers the truth, in ten settings")
}

// truth evaluates where the truth is known: --benchmark and --coverage.
func (g *flags) truth(ctx context.Context, out, progress io.Writer, bench bool, args []string) error {
	if bench && g.known.coverage {
		return term.Misuse(errors.New("--benchmark and --coverage: one at a time"))
	}
	if g.known.coverage {
		return g.cover(ctx, out, progress)
	}
	file := g.known.benchmark
	if file == "synthetic" && len(args) == 1 && args[0] == "lists" || file == "lists" {
		return g.knownLists(ctx, out)
	}
	if file == "synthetic" && len(args) == 1 { // --benchmark FILE: the flag may stand without a value
		file, args = args[0], nil
	}
	if len(args) > 0 {
		return term.Misuse(fmt.Errorf("unexpected argument %q beside --benchmark", args[0]))
	}
	keys := []string{"ips", "snips", "cv", "dm", "dr", "sndr", "switch-dr", "dros", "sg-ips", "mrdr"}
	if g.estimate.named() {
		var err error
		if keys, err = estimatorKeys(g.estimate.estimators); err != nil {
			return err
		}
	}
	o := ope.Options{Estimators: keys, Q: g.estimate.q, Level: g.estimate.level, Seed: g.estimate.seed}
	runs, title, theirs := 20, "obp's synthetic setting: 10 000 rounds, 30 actions, 5 features, logger softmax(−3μ)",
		published["synthetic"]
	world := func(run int) (*ope.Known, error) { return ope.Synthetic(10_000, 30, 5, -3, g.estimate.seed, run) }
	if file != "synthetic" {
		t, err := dataset.Read(file, dataset.Options{Gaps: g.log.in.Gaps})
		if err != nil {
			return term.Misuse(err)
		}
		enc, err := t.Encode(dataset.Encoding{Standardise: true})
		if err != nil {
			return term.Misuse(err)
		}
		x, y, classes := make([][]float64, enc.Rows), make([]int, enc.Rows), len(enc.Classes)
		for i := range x {
			x[i], y[i] = slices.Clone(enc.Row(i)), int(enc.Label[i])
			for j := range x[i] {
				x[i][j] /= enc.Factor
			}
		}
		runs, title, theirs = 30, file+": logger 0.4 classifier and 0.6 uniform, target 0.9", map[string]string{}
		if digest(t) == digitsDigest {
			theirs = published["digits"]
		}
		world = func(run int) (*ope.Known, error) {
			return ope.Classified(x, y, classes, 0.4, 0.9, g.estimate.seed, run)
		}
	}
	rows, err := ope.Benchmark(ctx, runs, g.estimate.workers, o, world)
	if ctx.Err() != nil {
		return sim.ErrInterrupted
	}
	if err != nil {
		return term.Misuse(err)
	}
	if g.output.json {
		return writeJSON(out, map[string]any{"benchmark": title, "runs": runs, "errors": rows})
	}
	printErrors(out, rows, title, runs, theirs)
	return nil
}

// printErrors prints the table of a benchmark. theirs are published figures by estimator, empty where there are none.
func printErrors(out io.Writer, rows []ope.RelativeError, title string, runs int, theirs map[string]string) {
	fmt.Fprintf(out, "%s\n%s, relative error |V̂ − V|/V\n\n", term.Wrap(title, 0), term.Many(runs, "run"))
	four := func(v *float64) string {
		if v == nil {
			return "–"
		}
		return strconv.FormatFloat(*v, 'f', 4, 64)
	}
	cells := [][]string{{"", "rank", "mean", "sd", "95% of the mean", "obp published", "covered by"}}
	if len(theirs) == 0 {
		cells[0][5] = ""
	}
	for _, r := range rows {
		line := []string{r.Estimator, "–", four(r.Mean), four(r.SD), "–", theirs[r.Estimator], ""}
		if r.Rank != nil {
			line[1] = strconv.Itoa(*r.Rank)
		}
		if r.Interval != nil {
			line[4] = fmt.Sprintf("%.4f … %.4f", r.Interval[0], r.Interval[1])
		}
		var words []string
		if r.Sequences > 0 {
			words = append(words, fmt.Sprintf("sequence %d/%d", r.Covered, r.Sequences))
		}
		if r.Normals > 0 {
			words = append(words, fmt.Sprintf("normal %d/%d", r.Normal, r.Normals))
		}
		if r.Missing > 0 {
			words = append(words, fmt.Sprintf("no value in %d of %s", r.Missing, term.Many(runs, "run")))
		}
		line[6] = strings.Join(words, ", ")
		cells = append(cells, line)
	}
	term.Columns(out, cells)
}

// digitsDigest is the digest of the digits of scikit-learn (the test set of UCI's optdigits: 1797 rows of 64 numbers in
// ten classes), on which obp's example states its errors.
const digitsDigest = "fc1255d0784918cf3940a07ef6f3daddcbd3d2d03a4d273dbca0ff254be2b974"

// digest is a checksum of what a data set says: its rows of numbers with their classes, in any order of the rows, and
// in any spelling of the numbers. "" of a table with names or gaps in it.
func digest(t *dataset.Table) string {
	rows := make([]string, t.Rows)
	for i := range rows {
		var b strings.Builder
		for j := range t.Columns {
			c := &t.Columns[j]
			if c.Categorical() || math.IsNaN(c.Values[i]) {
				return ""
			}
			b.WriteString(strconv.FormatFloat(c.Values[i], 'g', -1, 64) + ",")
		}
		class := t.Class.Levels[t.Class.Codes[i]]
		if v, err := strconv.ParseFloat(class, 64); err == nil {
			class = strconv.FormatFloat(v, 'g', -1, 64)
		}
		rows[i] = b.String() + class
	}
	slices.Sort(rows)
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(rows, "\n"))))
}

// cover prints the coverage table.
func (g *flags) cover(ctx context.Context, out, progress io.Writer) error {
	const runs = 2000
	var rows []*ope.Covered
	for _, s := range ope.Settings {
		fmt.Fprintf(progress, "troupe: coverage: %s, %s\n", s.Name, term.Many(runs, "run"))
		c, err := ope.Coverage(ctx, s, runs, g.estimate.workers, g.estimate.seed)
		if ctx.Err() != nil {
			return sim.ErrInterrupted
		}
		if err != nil {
			return err
		}
		rows = append(rows, c)
		if !g.output.json {
			fmt.Fprintf(out, "%s (n = %s), dr: sequence %.3f wide, normal %.3f\n", c.Setting, term.Grouped(int64(c.N)),
				c.WidthSeq, c.WidthNormal)
			for _, name := range ope.Intervals {
				if given := c.Given[name]; given > 0 {
					fmt.Fprintf(out, "  %-20s covers %5.1f%% of %d\n", name,
						100*float64(given-c.Misses[name])/float64(given), given)
				} else {
					fmt.Fprintf(out, "  %-20s none given\n", name)
				}
			}
		}
	}
	if g.output.json {
		return writeJSON(out, map[string]any{"level": 0.95, "runs": runs, "intervals": slices.Clone(ope.Intervals),
			"settings": rows})
	}
	return nil
}

// listRuns logs of listEvents lists make the benchmark of lists.
const listRuns, listEvents = 50, 1000

// knownLists is --benchmark lists.
func (g *flags) knownLists(ctx context.Context, out io.Writer) error {
	rows, err := ope.ListBenchmark(ctx, listRuns, listEvents, g.estimate.workers, g.estimate.seed)
	if ctx.Err() != nil {
		return sim.ErrInterrupted
	}
	if err != nil {
		return err
	}
	if g.output.json {
		return writeJSON(out, map[string]any{"benchmark": "lists", "runs": listRuns, "lists": listEvents, "errors": rows})
	}
	fmt.Fprintf(out, "%d logs of %s lists of 3 of 6 items in each world, laws known; logger and target are drawn for each log\n", listRuns,
		term.Grouped(listEvents))
	share := func(v *float64) string {
		if v == nil {
			return "–"
		}
		return fmt.Sprintf("%.2f", *v)
	}
	for _, world := range ope.ListWorlds {
		table := [][]string{{world, "bias", "rmse", "normal", "in doubt", "sure"}}
		for _, x := range rows {
			if x.World == world {
				table = append(table, []string{"  " + x.Estimator, fmt.Sprintf("%+.3f", x.Bias), fmt.Sprintf("%.3f", x.RMSE), share(x.Normal),
					fmt.Sprintf("%.2f", x.Doubt), share(x.Sequence)})
			}
		}
		fmt.Fprintln(out)
		term.Columns(out, table)
	}
	fmt.Fprintln(out, "\nnormal and sure: shares of the logs whose 95 % interval holds the truth. rips asks that entries below do not matter, iips and pbm that no other\n"+
		"entry does, pi that the list is a sum over entry and position")
	return nil
}

package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

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

// known evaluates where the truth is known: --benchmark and --coverage.
func (e *evaluation) known(ctx context.Context, out io.Writer, bench bool, args []string) error {
	if bench && e.coverage {
		return term.Misuse(errors.New("--benchmark and --coverage: one at a time"))
	}
	if e.coverage {
		return e.cover(ctx, out)
	}
	file := e.benchmark
	if file == "synthetic" && len(args) == 1 { // --benchmark FILE: the flag may stand without a value
		file, args = args[0], nil
	}
	if len(args) > 0 {
		return term.Misuse(fmt.Errorf("unexpected argument %q beside --benchmark", args[0]))
	}
	keys := []string{"ips", "snips", "cv", "dm", "dr", "sndr", "switch-dr", "dros", "sg-ips", "mrdr"}
	if e.estimators != strings.Join(ope.Defaults, ",") {
		var err error
		if keys, err = estimatorKeys(e.estimators); err != nil {
			return err
		}
	}
	o := ope.Options{Estimators: keys, Q: e.q, Level: e.level, Seed: e.seed}
	runs, title, theirs := 20, "obp's synthetic setting: 10 000 rounds, 30 actions, 5 features, logger softmax(−3μ)",
		published["synthetic"]
	world := func(run int) (*ope.Known, error) { return ope.Synthetic(10_000, 30, 5, -3, e.seed, run) }
	if file != "synthetic" {
		t, err := dataset.Read(file, dataset.Options{})
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
		if strings.Contains(strings.ToLower(file), "digits") {
			theirs = published["digits"]
		}
		world = func(run int) (*ope.Known, error) { return ope.Classified(x, y, classes, 0.4, 0.9, e.seed, run) }
	}
	rows, err := ope.Benchmark(ctx, runs, e.workers, o, world)
	if ctx.Err() != nil {
		return sim.ErrInterrupted
	}
	if err != nil {
		return term.Misuse(err)
	}
	if e.json {
		return writeJSON(out, map[string]any{"benchmark": title, "runs": runs, "errors": rows})
	}
	fmt.Fprintf(out, "%s\n%s, relative error |V̂ − V|/V\n\n", term.Wrap(title, 0), term.Many(runs, "run"))
	fmt.Fprintf(out, "%-10s  %-8s  %-8s  %-17s  %-15s  %s\n", "", "mean", "sd", "95 % of the mean", "obp published",
		"covered by")
	for _, r := range rows {
		cover := fmt.Sprintf("normal %d/%d", r.Normal, runs)
		if r.Estimator == "ips" || r.Estimator == "dr" {
			cover = fmt.Sprintf("sequence %d/%d, ", r.Covered, runs) + cover
		}
		fmt.Fprintf(out, "%-10s  %-8.4f  %-8.4f  %.4f … %.4f   %-15s  %s\n", r.Estimator, r.Mean, r.SD, r.Interval[0],
			r.Interval[1], theirs[r.Estimator], cover)
	}
	return nil
}

func writeJSON(out io.Writer, v any) error {
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// cover prints the coverage table.
func (e *evaluation) cover(ctx context.Context, out io.Writer) error {
	const runs = 2000
	var rows []*ope.Covered
	for _, s := range ope.Settings {
		fmt.Fprintf(e.say, "troupe: coverage: %s, %s\n", s.Name, term.Many(runs, "run"))
		c, err := ope.Coverage(ctx, s, runs, e.workers, e.seed)
		if ctx.Err() != nil {
			return sim.ErrInterrupted
		}
		if err != nil {
			return err
		}
		rows = append(rows, c)
		if !e.json {
			fmt.Fprintf(out, "%s (n = %s), dr: sequence %.3f wide, normal %.3f\n", c.Setting, term.Grouped(int64(c.N)),
				c.WidthSeq, c.WidthNormal)
			for _, name := range ope.Intervals {
				if given := c.Given[name]; given > 0 {
					fmt.Fprintf(out, "  %-20s covers %5.1f %% of %d\n", name,
						100*float64(given-c.Misses[name])/float64(given), given)
				} else {
					fmt.Fprintf(out, "  %-20s none given\n", name)
				}
			}
		}
	}
	if e.json {
		return writeJSON(out, map[string]any{"level": 0.95, "runs": runs, "intervals": slices.Clone(ope.Intervals),
			"settings": rows})
	}
	return nil
}

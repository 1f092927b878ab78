package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/report"
	"troupe/verify"
)

// verifyFlags are the flags of `troupe verify`.
type verifyFlags struct {
	full, json, list, noPlants bool
	seed                       uint64
	workers                    int
	out, color                 string
}

func verifyCommand(line string) *cobra.Command {
	var f verifyFlags
	c := &cobra.Command{
		Use:   "verify [LABEL...]",
		Short: "Check the statements of the paper",
		Long: `Checks the numbered statements of the paper, each as printed and, where that is wrong, as corrected.
They are identities, sure inequalities on random and adversarial play, probabilities (by an exact
binomial test), and rates. A printed statement that is false is expected to be refuted. "Not contradicted" is
a statement that was not refuted, by a check that would not have noticed a fault of ten times the claim.
Every check also runs against a planted fault that it must notice.

The findings are written to verify.json and verify.html in the output directory. Exit code 1 when a verdict
is not the expected one or a plant is not noticed.`,
		Example: `  troupe verify
  troupe verify thm:sing-val-gamma lem:initialisation --full
  troupe verify lem:conf-sets --seed 7
  troupe verify --list
  troupe verify --json | jq '.[] | select(.verdict == "refuted") | .label'`,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			return verify.Labels(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error { return runVerify(cmd, args, f, line) },
	}
	fl := c.Flags()
	fl.BoolVar(&f.full, "full", false, "the theorem's own sizes and more samples: minutes")
	fl.BoolVar(&f.json, "json", false, "an array of findings on stdout instead of the table")
	fl.BoolVar(&f.list, "list", false, "list the statements and stop")
	fl.BoolVar(&f.noPlants, "no-plants", false, "leave out the planted faults, which takes half the time")
	fl.Uint64Var(&f.seed, "seed", 1, "seed of all random numbers")
	fl.IntVarP(&f.workers, "workers", "w", 0, "checks run at the same time (default: one for each processor)")
	fl.StringVarP(&f.out, "out", "o", "", "output directory (default runs/verify, none with --json)")
	fl.StringVar(&f.color, "color", "auto", "auto, always or never")
	return c
}

func runVerify(cmd *cobra.Command, labels []string, f verifyFlags, line string) error {
	switch f.color {
	case "auto", "always", "never":
	default:
		return term.Misuse(fmt.Errorf("--color %s: expected auto, always or never", f.color))
	}
	if err := checkWorkers(cmd, f.workers); err != nil {
		return err
	}
	checks, err := verify.Select(labels)
	if err != nil {
		return term.Misuse(fmt.Errorf("%w\nsee troupe verify --list", err))
	}
	stdout, stderr := term.New(cmd.OutOrStdout(), f.color), term.New(cmd.ErrOrStderr(), f.color)
	if f.list {
		listChecks(stdout.W, checks)
		return nil
	}
	if f.out == "" && !f.json {
		f.out = filepath.Join("runs", "verify")
	}
	if f.out != "" { // before the minutes, not after them
		if err := os.MkdirAll(f.out, 0o755); err != nil {
			return term.Misuse(fmt.Errorf("--out: %w", err))
		}
		probe, err := os.CreateTemp(f.out, ".tmp-*")
		if err != nil {
			return term.Misuse(fmt.Errorf("--out: %w", err))
		}
		probe.Close()
		os.Remove(probe.Name())
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	show := verifyProgress{t: stderr, total: len(checks)}
	started := time.Now()
	results, err := verify.Run(ctx, checks, verify.Options{
		Seed: f.seed, Full: f.full, Plants: !f.noPlants, Workers: f.workers, Done: show.done,
	})
	show.clear()
	if f.out != "" {
		path, err := writeVerify(f.out, results)
		if err != nil {
			return err
		}
		page, err := report.BuildVerify(f.out, results, report.VerifyMeta{
			When: started.UTC().Format("2 Jan 2006 15:04 UTC"), Command: line, Seed: f.seed, Full: f.full,
			Seconds: time.Since(started).Seconds(),
		})
		if err != nil {
			return err
		}
		defer fmt.Fprintf(stderr.W, "findings %s\nreport   %s\n", path, page)
	}
	if f.json {
		e := json.NewEncoder(stdout.W)
		e.SetEscapeHTML(false)
		e.SetIndent("", " ")
		if err := e.Encode(results); err != nil {
			return err
		}
	} else {
		verifyTable(stdout, results)
		verifySummary(stdout, results, f, time.Since(started).Seconds())
	}
	if errors.Is(err, context.Canceled) {
		return term.Silently(term.Interrupted, fmt.Errorf("interrupted: %d of %d checks are complete", len(results),
			len(checks)))
	}
	if err != nil {
		return err
	}
	return unexpected(results, f)
}

// unexpected is the error of a run with surprises: the last thing on the screen.
func unexpected(results []verify.Result, f verifyFlags) error {
	var b strings.Builder
	for _, r := range results {
		switch {
		case !r.Expected():
			fmt.Fprintf(&b, "\n%s: %s, expected %s\n  %s\n  %s", r.Name(), r.Verdict, r.Expect,
				term.Wrap(r.Statement, 2), term.Wrap(r.Detail, 2))
		case r.Planted != nil && !r.Caught():
			fmt.Fprintf(&b, "\n%s: the plant was not noticed: %s\n  %s", r.Name(), r.Plant,
				term.Wrap(r.Planted.Detail, 2))
		default:
			continue
		}
		fmt.Fprintf(&b, "\n  again: troupe verify '%s' --seed %d", r.Label, f.seed)
		if f.full {
			b.WriteString(" --full")
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return errors.New("not as expected:" + b.String())
}

// verifyTable prints one line for each check under its label.
func verifyTable(t term.Terminal, results []verify.Result) {
	fmt.Fprintf(t.W, "%-33s %-11s %-16s %10s   %10s\n", "", "kind", "verdict", "observed", "bound")
	last := ""
	for _, r := range results {
		if r.Label != last {
			fmt.Fprintln(t.W, t.Bold(r.Label))
			last = r.Label
		}
		name := "  " + string(r.Reading)
		if r.Part != "" {
			name = "  " + term.PadRight(string(r.Reading), 9) + " " + term.Shorten(r.Part, 20)
		}
		relation := string(r.Relation)
		if r.Verdict == verify.Refuted {
			relation = map[verify.Relation]string{verify.AtMost: ">", verify.AtLeast: "<",
				verify.Equal: "≠"}[r.Relation]
			if t.Plain && r.Relation == verify.Equal {
				relation = "!="
			}
		}
		mark := ""
		if !r.Expected() {
			mark = " !"
		}
		line := term.PadRight(name, 33) + " " + term.PadRight(string(r.Kind), 11) + " " +
			term.PadRight(string(r.Verdict), 16) + " " +
			term.PadLeft(three(r.Observed), 10) + " " + term.PadRight(relation, 2) + term.PadLeft(three(r.Bound), 10) +
			mark
		fmt.Fprintln(t.W, strings.TrimRight(line, " "))
	}
}

// three prints a number with three digits.
func three(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }

func verifySummary(t term.Terminal, results []verify.Result, f verifyFlags, seconds float64) {
	count := map[verify.Verdict]int{}
	chance, planted, caught, expected, sums := 0, 0, 0, 0, 0
	for _, r := range results {
		count[r.Verdict]++
		if r.Verdict == verify.Holds && r.Arithmetic() {
			count[r.Verdict]--
			sums++
		}
		if r.Kind == verify.Probability {
			chance++
		}
		if r.Planted != nil {
			planted++
			if r.Caught() {
				caught++
			}
		}
		if r.Verdict == verify.Refuted && r.Expected() {
			expected++
		}
	}
	fmt.Fprintln(t.W)
	if planted > 0 {
		fmt.Fprintf(t.W, "planted faults %d of %d noticed\n", caught, planted)
	}
	arithmetic := ""
	if sums > 0 {
		arithmetic = fmt.Sprintf(", %d arithmetic", sums)
	}
	fmt.Fprintf(t.W, "%d checks: %d hold%s, %d not contradicted, %d refuted (%d as expected), %d vacuous, %d "+
		"reported\n",
		len(results), count[verify.Holds], arithmetic, count[verify.NotContradicted], count[verify.Refuted], expected,
		count[verify.Vacuous], count[verify.Reported])
	fmt.Fprintf(t.W, "false alarms: %d probability checks at %.0e, together below %.1e\n", chance, verify.Level,
		float64(chance)*verify.Level)
	fmt.Fprintf(t.W, "%s, seed %d\n", term.Duration(seconds), f.seed)
}

func listChecks(w io.Writer, checks []verify.Check) {
	last := ""
	for _, c := range checks {
		if c.Label != last {
			if last != "" {
				fmt.Fprintln(w)
			}
			fmt.Fprintln(w, c.Label)
			last = c.Label
		}
		head := "  " + string(c.Reading) + ", " + string(c.Kind)
		if c.Part != "" {
			head += ", " + c.Part
		}
		fmt.Fprintln(w, head)
		fmt.Fprintln(w, "    "+term.Wrap(c.Statement, 4))
	}
}

// writeVerify writes verify.json, temporary file first, and returns its path.
func writeVerify(dir string, results []verify.Result) (string, error) {
	b, err := json.MarshalIndent(results, "", " ")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "verify.json")
	if err := os.WriteFile(path+".tmp", append(b, '\n'), 0o644); err != nil {
		return "", err
	}
	return path, os.Rename(path+".tmp", path)
}

// verifyProgress says which statements are done: one line that is repainted on a terminal, a line
// at every quarter elsewhere.
type verifyProgress struct {
	t           term.Terminal
	total, n, q int
}

func (p *verifyProgress) done(r verify.Result) {
	p.n++
	if p.t.Live {
		fmt.Fprintf(p.t.W, "\r\x1b[K%4d / %d  %s  %s", p.n, p.total, term.Shorten(r.Name(), 50), r.Verdict)
		return
	}
	if q := 4 * p.n / p.total; q > p.q {
		p.q = q
		fmt.Fprintf(p.t.W, "troupe: %d of %d checks\n", p.n, p.total)
	}
}

func (p *verifyProgress) clear() {
	if p.t.Live {
		fmt.Fprint(p.t.W, "\r\x1b[K")
	}
}

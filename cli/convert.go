package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/logged"
	"troupe/sim"
)

func convertCommand() *cobra.Command {
	var in source.Flags
	var to string
	var lossy bool
	c := &cobra.Command{
		Use:   "convert IN OUT",
		Short: "Write a log of decisions in another format",
		Long: `Reads a log in any format and writes it in another. Formats are recognised by content (--format names
one) and chosen by the extension of OUT (--to names one). What the format of OUT cannot say is refused
with its name; --lossy leaves it out and lists it. OUT appears when it is whole. - is stdin or stdout.

The formats, key by key: docs/reference/formats.md.`,
		Example: `  troupe convert in.dsjson out.parquet
  troupe convert table.csv out.jsonl --columns action=arm,reward=click,propensity=prob
  troupe convert events.jsonl out.vw --lossy`,
		Args: term.Arguments(2, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := in.Options()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return convert(ctx, cmd.ErrOrStderr(), args[0], args[1], o, logged.WriteOptions{Format: to, Lossy: lossy})
		},
	}
	in.Add(c.Flags())
	c.Flags().StringVar(&to, "to", "", "format of OUT; default: by its extension")
	c.Flags().BoolVar(&lossy, "lossy", false, "leave out what the format of OUT cannot say, and list it")
	return c
}

func convert(ctx context.Context, say io.Writer, in, out string, o logged.Options, wo logged.WriteOptions) error {
	r, err := logged.Open(in, o)
	if err != nil {
		return err
	}
	defer r.Close()
	w, err := logged.Create(out, wo)
	if err != nil {
		return err
	}
	defer w.Abort()
	p := source.NewProgress(say, "convert")
	var e logged.Event
	damaged := 0
	for {
		if err := r.Read(&e); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if e.BadReward { // no format can say it
			damaged++
			continue
		}
		if err := w.Write(&e); err != nil {
			return err
		}
		if p.Tick(r.Events()); ctx.Err() != nil {
			return fmt.Errorf("%w; nothing was written", sim.ErrInterrupted)
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	fmt.Fprintf(say, "%s: %s of %s\n", out, term.Many(r.Events()-damaged, "event"), r.Format())
	counted(say, "skipped", r.Skipped())
	counted(say, "left out", w.Lost())
	return nil
}

// counted prints counts by name.
func counted(w io.Writer, title string, m map[string]int) {
	for _, k := range slices.Sorted(maps.Keys(m)) {
		fmt.Fprintf(w, "  %s: %s (%s)\n", title, k, term.Grouped(int64(m[k])))
	}
}

func lintCommand() *cobra.Command {
	var in source.Flags
	most := 20
	c := &cobra.Command{
		Use:   "lint LOG",
		Short: "Explain every bad line of a log of decisions, and say what is usable",
		Long: `Reads a log in any format and prints what is wrong with it, a line for each fault: file, line, column,
field, what was found and what was expected. Then what the log has: events, actions, propensities, the
logger's whole law, rewards; and what can be estimated from it.

Exit code 0 when every event is good, 2 when one is not.`,
		Example: `  troupe lint in.vw
  troupe lint events.dsjson --most 5
  troupe lint table.csv --columns action=arm,reward=click,propensity=prob`,
		Args: term.Arguments(1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			o, err := in.Options()
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return lint(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], o, most)
		},
	}
	in.Add(c.Flags())
	c.Flags().IntVar(&most, "most", most, "most faults of each kind that are printed")
	return c
}

// linted is what a log has.
type linted struct {
	events, law, lists, target, q, named, timed, ids int
	even                                             int // propensities that are 1/K
	kmin, kmax                                       int
	pmin, pmax, rmin, rmax                           float64
	bad                                              map[string]int
}

func lint(ctx context.Context, out, say io.Writer, name string, o logged.Options, most int) error {
	o.SkipBad = ""
	r, err := logged.Open(name, o)
	if err != nil {
		return err
	}
	defer r.Close()
	var e logged.Event
	l := linted{kmin: 1 << 30, pmin: 2, rmin: 1e308, rmax: -1e308, bad: map[string]int{}}
	p := source.NewProgress(say, "lint")
	last := error(nil)
	for ctx.Err() == nil {
		err := r.Read(&e)
		if err == io.EOF {
			break
		}
		var fault *logged.Error
		if errors.As(err, &fault) {
			if last == err { // reading cannot go on
				break
			}
			if last = err; fault.Reason == "" {
				fault.Reason = "file"
			}
			if l.bad[fault.Reason]++; l.bad[fault.Reason] <= most {
				fmt.Fprintln(out, fault)
			}
			continue
		}
		if err != nil {
			return err
		}
		l.see(&e)
		p.Tick(r.Events())
	}
	if ctx.Err() != nil {
		return sim.ErrInterrupted
	}
	l.print(out, r)
	if len(l.bad) > 0 {
		n := 0
		for _, k := range l.bad {
			n += k
		}
		return term.Silently(term.Misused, fmt.Errorf("%d bad", n))
	}
	return nil
}

func (l *linted) see(e *logged.Event) {
	l.events++
	count := func(into *int, is bool) {
		if is {
			*into++
		}
	}
	count(&l.law, e.Law != nil)
	count(&l.target, e.Target != nil)
	count(&l.q, e.Q != nil)
	count(&l.named, e.Named != nil)
	count(&l.timed, !e.Time.IsZero())
	count(&l.ids, e.ID != "")
	count(&l.lists, len(e.Slots) > 0)
	l.kmin, l.kmax = min(l.kmin, e.K), max(l.kmax, e.K)
	see := func(p, r float64) {
		l.pmin, l.pmax, l.rmin, l.rmax = min(l.pmin, p), max(l.pmax, p), min(l.rmin, r), max(l.rmax, r)
	}
	if len(e.Slots) == 0 {
		see(e.Propensity, e.Reward)
		count(&l.even, e.K > 0 && math.Abs(e.Propensity*float64(e.K)-1) <= 1e-6)
	}
	for _, s := range e.Slots {
		see(s.Propensity, s.Reward)
	}
}

func (l *linted) print(w io.Writer, r *logged.Reader) {
	t := [][]string{{"format", r.Format()}, {"events", term.Grouped(int64(l.events))}}
	for _, k := range slices.Sorted(maps.Keys(l.bad)) {
		t = append(t, []string{"bad", k + ": " + term.Grouped(int64(l.bad[k]))})
	}
	for _, k := range slices.Sorted(maps.Keys(r.Skipped())) {
		t = append(t, []string{"skipped", k + ": " + term.Grouped(int64(r.Skipped()[k]))})
	}
	for _, k := range r.Warnings() {
		t = append(t, []string{"odd", k})
	}
	if l.events > 0 {
		k := strconv.Itoa(l.kmin)
		switch {
		case l.kmax == 0:
			k = "not known: --actions K says it"
		case l.kmin != l.kmax:
			k += " to " + strconv.Itoa(l.kmax)
		}
		t = append(t, []string{"actions", k})
		for i, name := range r.Arms() {
			t = append(t, []string{"action", strconv.Itoa(i) + " " + name})
		}
		t = append(t, []string{"propensity", fmt.Sprintf("%.3g to %.3g", l.pmin, l.pmax)},
			[]string{"reward", fmt.Sprintf("%g to %g", l.rmin, l.rmax)})
		has := func(n int, what string) {
			switch n {
			case 0:
			case l.events:
				t = append(t, []string{"has", what})
			default:
				t = append(t, []string{"has", what + ", in " + term.Grouped(int64(n)) + " events"})
			}
		}
		has(l.ids, "ids")
		has(l.timed, "times")
		has(l.law, "the logger's whole law")
		has(l.target, "a target's law (--target column)")
		has(l.q, "a reward model (--q column)")
		has(l.lists, "lists of slots")
		usable := "logged, ips, snips and their intervals"
		if l.law == l.events {
			usable = "every estimator and its interval"
		} else if l.lists == 0 {
			usable += "; dr as well, without its sequence: that needs the logger's whole law"
			if l.law == 0 && l.even == l.events {
				usable += ". Every propensity is 1/K: if the logger was uniform, --logger uniform supplies it"
			}
		}
		t = append(t, []string{"usable", usable})
	}
	term.Columns(w, t)
}

// Package evaluate is the command `troupe evaluate`: what another policy would have earned on a log of decisions, with
// an interval that holds. Command is all of it; the numbers come from the package ope.
package evaluate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/logged"
	"troupe/ope"
	"troupe/serve/joined"
	"troupe/sim"
	"troupe/spec"
)

// exitNoOverlap: the log can tell about no target, for want of overlap or because it contradicts its own propensities.
const exitNoOverlap = 3

// evaluation is one run of troupe evaluate.
type evaluation struct {
	in         source.Flags
	targets    []string
	learn, q   string
	estimators string
	set, grid  string
	level      float64
	from, to   string
	split      float64
	seed       uint64
	workers    int
	out        string
	json       bool
	force      bool
	examined   string
	benchmark  string
	coverage   bool
	crossfit   int
	law        string
	atEnd      bool
	guess      string // logged or estimate
	guards     []string
	stdin      string // the file that stdin was copied to
	fitted     *ope.Fitted
	redraws    int
	by         string
	plan       planningFlags
	knob       knobFlags

	source string
	read   logged.Options
	began  time.Time
	until  time.Time
	after  uint64 // only decisions of later entries

	key     string // API key
	served  map[string]*source.Served
	learned []learnedPart
	redrawn string        // file with draws of decisions anew, of --law marginal
	fetched string        // file with the decisions of a server that runs
	log     *joined.Ended // what that server says beside them
	copied  *copied       // what several rewards have of that server, nil for one
	notes   []string      // warnings that the source does not have
	say     io.Writer
}

// Command is `troupe evaluate`.
func Command() *cobra.Command {
	var e evaluation
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
			e.say = cmd.ErrOrStderr()
			if e.coverage || cmd.Flags().Changed("benchmark") {
				if err := term.CheckGaps(e.in.Gaps); err != nil {
					return err
				}
				return e.known(ctx, cmd.OutOrStdout(), cmd.Flags().Changed("benchmark"), args)
			}
			if err := e.plan.check(cmd.Flags()); err != nil {
				return err
			}
			if err := e.knob.check(cmd.Flags()); err != nil {
				return err
			}
			if len(args) == 0 && e.plan.on {
				if e.plan.control != "" {
					return e.plannedControl(cmd.OutOrStdout())
				}
				return e.planned(ctx, cmd.OutOrStdout())
			}
			if len(args) == 0 {
				return term.Misuse(fmt.Errorf("%s: a log is missing\nusage: %s", cmd.CommandPath(), cmd.UseLine()))
			}
			e.source = args[0]
			if e.knob.columns != "" {
				return e.knobs(cmd.OutOrStdout())
			}
			return e.run(ctx, cmd.OutOrStdout())
		},
	}
	e.flags(c.Flags())
	return c
}

func (e *evaluation) flags(f *pflag.FlagSet) {
	e.in.Add(f)
	f.StringVar(&e.key, "key", os.Getenv("TROUPE_KEY"), "API key of a server; default is the environment's TROUPE_KEY")
	f.StringArrayVar(&e.targets, "target", nil,
		"uniform, column, greedy, a TOML file, a saved model, or NAME@SEQ (may be repeated); default: column where "+
			"the log has it, else uniform")
	f.StringVar(&e.learn, "learn", "no", "no, log (the target learns what was played) or replay (it learns matching "+
		"events)")
	f.StringVar(&e.q, "q", "", "reward model: "+strings.Join(ope.Models,
		", ")+"; default: column where the log has it, else ridge")
	f.IntVar(&e.crossfit, "crossfit", 0, "number of folds: the reward model is fitted on the others, for independent "+
		"events; loses the sequence of dr")
	f.StringVar(&e.estimators, "estimators", strings.Join(ope.Defaults, ","), "estimators, or all")
	f.StringVar(&e.set, "set", "", "parameters of estimators: dros=16,ls=0.25")
	f.StringVar(&e.grid, "grid", "", "what SLOPE++ chooses from: dros=1:4:16,ls=1:0.5")
	f.StringVar(&e.examined, "examination", "", "of lists, for pbm: how often each position is examined, as 1,0.6,0.3; default: learned from the log")
	f.StringVar(&e.law, "law", "recorded", "recorded, or marginal, which adds estimates with the law of a decision without the members drawn "+
		"for it. It needs the data directory of a model with key = \"decision\"")
	f.IntVar(&e.redraws, "redraws", 1024, "how often --law marginal draws each decision again")
	f.Float64Var(&e.level, "level", 0.95, "level of the intervals")
	f.BoolVar(&e.atEnd, "at-end", false, "the number of decisions was fixed beforehand and the world does not change. This gives narrower "+
		"intervals for this n, and the verdict from them; those that hold at every look stay beside them")
	f.StringVar(&e.guess, "propensities", "logged", "logged, or estimate: for a log without propensities, a model of the logger; it has no interval "+
		"that holds, and no verdict is sure")
	f.StringArrayVar(&e.guards, "guard", nil, "with several --outcome: NAME=+5% may rise by at most 5% of what it is, NAME=-5% fall; also "+
		"a number in its own unit, such as NAME=+0.2")
	f.StringVar(&e.from, "from", "", "events from this time on (RFC 3339)")
	f.StringVar(&e.to, "to", "", "events before this time")
	f.Float64Var(&e.split, "split", 0, "train targets on this share of the log, evaluate on the rest")
	f.StringVar(&e.by, "by", "", "the difference in each segment too: context.city, city=Oslo|Bergen with values, or "+
		"price=0:10:50: with edges")
	e.plan.add(f)
	e.knob.add(f)
	f.Uint64Var(&e.seed, "seed", 1, "seed of the bootstrap and of targets that draw")
	f.IntVar(&e.workers, "workers", runtime.GOMAXPROCS(0), "processors; the answer does not depend on it")
	f.StringVarP(&e.out, "out", "o", "", "directory of the page; default runs/evaluate-NAME")
	f.BoolVar(&e.json, "json", false, "one JSON object on stdout, and no page unless --out is given")
	f.BoolVar(&e.force, "force", false, "print plain estimates although the log hardly overlaps with the target")
	f.StringVar(&e.benchmark, "benchmark", "",
		"evaluate where the truth is known: a classification file as a logged bandit, or lists; without one, synthetic data")
	f.Lookup("benchmark").NoOptDefVal = "synthetic"
	f.BoolVar(&e.coverage, "coverage", false, "measure how often each interval covers the truth, in ten settings")
}

// filters wraps a reader: a part of the log by time and by number.
type filtered struct {
	r           logReader
	from, until time.Time
	skip        int
	seen        int
	left        int
	bare        int // events without candidates
	coin        *ope.CoinLog
	control     *ope.ControlLog
	units       map[string]bool // of events that were left out: the draws of their later ones were known
}

// leave notes the unit of an event that is left out.
func (f *filtered) leave(e *logged.Event) {
	if e.Unit == "" {
		return
	}
	if f.units == nil {
		f.units = map[string]bool{}
	}
	if !f.units[e.Unit] {
		f.units[strings.Clone(e.Unit)] = true
	}
}

func (f *filtered) Read(e *logged.Event) error {
	for {
		if err := f.r.Read(e); err != nil {
			return err
		}
		if !f.from.IsZero() && e.Time.Before(f.from) || !f.until.IsZero() && !e.Time.Before(f.until) {
			f.left++
			f.leave(e)
			continue
		}
		if f.seen++; f.seen <= f.skip {
			f.leave(e)
		} else {
			e.Again = e.Unit != "" && f.units[e.Unit]
			if len(e.Actions) == 0 && len(e.Slots) == 0 {
				f.bare++
			}
			if f.coin != nil {
				f.coin.Add(e)
			}
			if f.control != nil {
				f.control.Add(e)
			}
			return nil
		}
	}
}

func (f *filtered) Close() error { return f.r.Close() }

// options checks the flags.
func (e *evaluation) options() (ope.Options, error) {
	o := ope.Options{Q: e.q, Level: e.level, Workers: e.workers, Seed: e.seed, Set: map[string]float64{},
		Grid: map[string][]float64{}}
	var err error
	if e.read, err = e.in.Options(); err != nil {
		return o, err
	}
	if e.read.Rewards == nil {
		e.read.Rewards = &[2]float64{0, 1}
	}
	o.Rewards = (*ope.Pair)(e.read.Rewards)
	switch {
	case !(e.level > 0 && e.level < 1):
		return o, term.Misuse(fmt.Errorf("--level %v: expected a number between 0 and 1", e.level))
	case !(e.split >= 0 && e.split < 1):
		return o, term.Misuse(fmt.Errorf("--split %v: expected a share from 0 to below 1", e.split))
	case e.crossfit < 0 || e.crossfit == 1 || e.crossfit > 100:
		return o, term.Misuse(fmt.Errorf("--crossfit %d: expected 2 to 100 folds", e.crossfit))
	case e.crossfit > 0 && e.learn != "no":
		return o, term.Misuse(errors.New("--crossfit is for independent events, and --learn makes them dependent"))
	case e.workers < 1:
		return o, term.Misuse(fmt.Errorf("--workers %d: expected at least 1", e.workers))
	case e.law != "recorded" && e.law != "marginal":
		return o, term.Misuse(fmt.Errorf("--law %s%s", e.law, spec.Suggest(e.law, []string{"recorded", "marginal"})))
	case e.redraws < 1 || e.redraws > 1_000_000:
		return o, term.Misuse(fmt.Errorf("--redraws %d: expected 1 to 1 000 000", e.redraws))
	case e.guess != "logged" && e.guess != "estimate":
		return o, term.Misuse(fmt.Errorf("--propensities %s%s", e.guess, spec.Suggest(e.guess, []string{"logged", "estimate"})))
	case e.guess == "estimate" && (e.in.Logger != "" || e.atEnd || e.plan.on || e.law != "recorded" || e.by != ""):
		return o, term.Misuse(errors.New("--propensities estimate does not go with --logger, --at-end, --plan, --law or --by: they need true ones"))
	case !slices.Contains([]string{"no", "log", "replay"}, e.learn):
		return o, term.Misuse(fmt.Errorf("--learn %s: expected no, log or replay", e.learn))
	case e.q != "" && !slices.Contains(ope.Models, e.q):
		return o, term.Misuse(fmt.Errorf("--q %s%s", e.q, spec.Suggest(e.q, ope.Models)))
	}
	if e.by != "" {
		if o.By, err = ope.ParseBy(e.by); err != nil {
			return o, term.Misuse(err)
		}
	}
	if len(e.targets) > ope.MostTargets {
		return o, term.Misuse(fmt.Errorf("--target: %d targets, expected at most %d", len(e.targets), ope.MostTargets))
	}
	if o.AtEnd = e.atEnd; e.atEnd && len(e.targets) > 16 {
		return o, term.Misuse(fmt.Errorf("--at-end: %d targets, expected at most 16", len(e.targets)))
	}
	o.LeaveOut = e.estimators == "all"
	if e.examined != "" {
		some := false
		for text := range strings.SplitSeq(e.examined, ",") {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil || !(v >= 0) || v > 1e9 {
				return o, term.Misuse(fmt.Errorf("--examination %s: %s is not a number from 0", e.examined, text))
			}
			o.Examination, some = append(o.Examination, v), some || v > 0
		}
		if !some {
			return o, term.Misuse(fmt.Errorf("--examination %s: no position is examined", e.examined))
		}
	}
	if o.Estimators, err = estimatorKeys(e.estimators); err != nil {
		return o, err
	}
	if err := e.parameters(&o); err != nil {
		return o, err
	}
	for _, t := range []struct {
		flag, text string
		into       *time.Time
	}{{"from", e.from, &e.began}, {"to", e.to, &e.until}} {
		if t.text == "" {
			continue
		}
		if *t.into, err = time.Parse(time.RFC3339, t.text); err != nil {
			if *t.into, err = time.Parse(time.DateOnly, t.text); err != nil {
				return o, term.Misuse(fmt.Errorf("--%s %s: expected a time such as 2026-05-04T10:00:00Z or a day",
					t.flag, t.text))
			}
		}
	}
	return o, nil
}

func estimatorKeys(list string) ([]string, error) {
	if list == "all" {
		return ope.Keys(), nil
	}
	keys := strings.Split(list, ",")
	for i, k := range keys {
		if keys[i] = strings.TrimSpace(k); !slices.Contains(ope.Keys(), keys[i]) {
			return nil, term.Misuse(fmt.Errorf("--estimators %s%s", k, spec.Suggest(k, append(ope.Keys(), "all"))))
		}
	}
	return keys, nil
}

// parameters reads --set and --grid. The key is an estimator.
func (e *evaluation) parameters(o *ope.Options) error {
	var names []string
	for _, p := range ope.Parameters() {
		names = append(names, p.Estimator)
	}
	each := func(flag, list string, use func(name string, values []float64)) error {
		if list == "" {
			return nil
		}
		for part := range strings.SplitSeq(list, ",") {
			name, text, ok := strings.Cut(part, "=")
			if !slices.Contains(names, name) {
				return term.Misuse(fmt.Errorf("--%s %s: %q has no parameter%s", flag, part, name,
					spec.Suggest(name, names)))
			}
			var values []float64
			for v := range strings.SplitSeq(text, ":") {
				x, err := strconv.ParseFloat(v, 64)
				if !ok || err != nil || !(x >= 0) || x > 1e300 || x == 0 && (name == "ls" || name == "ix") {
					return term.Misuse(fmt.Errorf("--%s %s: expected %s=NUMBER, a number that is not negative", flag,
						part, name))
				}
				values = append(values, x)
			}
			use(name, values)
		}
		return nil
	}
	one := error(nil)
	err := each("set", e.set, func(name string, v []float64) {
		if o.Set[name] = v[0]; len(v) > 1 {
			one = term.Misuse(fmt.Errorf("--set %s: one value; --grid takes several", name))
		}
	})
	return errors.Join(err, one, each("grid", e.grid, func(name string, v []float64) { o.Grid[name] = v }))
}

// open begins to read the log.
func (e *evaluation) open() (*filtered, error) {
	if e.directory() {
		return e.openDirectory()
	}
	name, o := e.file(), e.read
	if e.fetched != "" {
		name, o.Format, o.Open = e.fetched, "export", e.plan.on
	}
	if e.fitted != nil {
		o.Logger = e.fitted.Logger()
	}
	r, err := logged.Open(name, o)
	if err != nil {
		return nil, err
	}
	return &filtered{r: r, from: e.began, until: e.until}, nil
}

// load makes the targets.
func (e *evaluation) load(o *ope.Options) (trained []*ope.PolicyTarget, err error) {
	if len(e.targets) == 0 {
		name, err := e.defaultTarget()
		if err != nil {
			return nil, err
		}
		e.targets = []string{name}
	}
	seen := map[string]int{}
	for _, name := range e.targets {
		learns := "no"
		switch name {
		case "uniform":
			o.Targets = append(o.Targets, ope.Uniform{})
		case "column":
			o.Targets = append(o.Targets, ope.Column{})
		case "greedy":
			o.Targets = append(o.Targets, ope.Greedy{})
		case "logged":
			return nil, term.Misuse(errors.New("--target logged: what ran is always in the answer; name another " +
				"policy"))
		default:
			if t := e.served[name]; t != nil {
				o.Targets = append(o.Targets, t)
				break
			}
			t, p, err := e.targetFile(name)
			if err != nil {
				return nil, err
			}
			if o.Targets = append(o.Targets, t); p != nil {
				learns = e.learn
				trained = append(trained, p)
			}
		}
		label := o.Targets[len(o.Targets)-1].Name()
		if seen[label]++; seen[label] > 1 {
			return nil, term.Misuse(fmt.Errorf("--target %s: two targets are called %s; name in the file gives "+
				"another name", name, label))
		}
		o.Learns = append(o.Learns, learns)
	}
	if e.learn != "no" && len(trained) == 0 {
		return nil, term.Misuse(fmt.Errorf("--learn %s: no target is a policy that learns", e.learn))
	}
	return trained, nil
}

// defaultTarget is column where the log has it, else uniform.
func (e *evaluation) defaultTarget() (string, error) {
	f, err := e.open()
	if err != nil {
		return "", err
	}
	defer f.r.Close()
	var ev logged.Event
	if err := f.r.Read(&ev); err != nil && err != io.EOF {
		return "", err
	} else if err == nil && (ev.Target != nil || len(ev.Slots) > 0 && ev.Slots[0].Target != nil) {
		return "column", nil
	}
	return "uniform", nil
}

func (e *evaluation) targetFile(name string) (ope.Target, *ope.PolicyTarget, error) {
	t, file, err := source.ReadTarget(name)
	if errors.Is(err, os.ErrNotExist) {
		words := []string{"uniform", "column", "greedy"}
		return nil, nil, term.Misuse(fmt.Errorf("--target %s: no such file%s", name, spec.Suggest(name, words)))
	}
	if err != nil {
		return nil, nil, err
	}
	if law := t.Law(); law != nil {
		return law, nil, nil
	}
	start, err := source.Start(name, t, file)
	if err != nil {
		return nil, nil, err
	}
	if e.learn != "replay" && !ope.Exact(t.Policy) {
		return nil, nil, term.Misuse(fmt.Errorf("%s: this policy has no exact law, so its value cannot be weighted; "+
			"--learn replay takes it", name))
	}
	p := ope.NewPolicyTarget(t.Label, t.Policy, e.learn, start, e.seed)
	return p, p, nil
}

// directory reports whether the log is the data directory of a server, and not one of Parquet files.
func (e *evaluation) directory() bool {
	info, err := os.Stat(e.source)
	if err != nil || !info.IsDir() {
		return false
	}
	files, err := logged.IsTable(e.source)
	return err != nil || files == nil
}

// file is what is read: the log, or the copy of stdin, which several passes read.
func (e *evaluation) file() string {
	if e.stdin != "" {
		return e.stdin
	}
	return e.source
}

// keep copies stdin to a file.
func (e *evaluation) keep() error {
	f, err := os.CreateTemp("", "troupe-evaluate-*")
	if err != nil {
		return err
	}
	e.stdin = f.Name()
	_, err = io.Copy(f, os.Stdin)
	return errors.Join(err, f.Close())
}

func (e *evaluation) run(ctx context.Context, out io.Writer) error {
	if e.source == "-" {
		err := e.keep()
		defer func() { os.Remove(e.stdin) }()
		if err != nil {
			return err
		}
	}
	if len(e.in.Outcomes) > 1 || len(e.guards) > 0 {
		return e.several(ctx, out)
	}
	return e.ofServer(e.evaluate(ctx, out))
}

// evaluate evaluates one reward, and prints the answer.
func (e *evaluation) evaluate(ctx context.Context, out io.Writer) error {
	r, err := e.result(ctx, out)
	if err != nil || r == nil {
		return err
	}
	return e.answer(out, r)
}

// result evaluates one reward. A plan is printed, and there is no result then.
func (e *evaluation) result(ctx context.Context, out io.Writer) (*ope.Result, error) {
	o, err := e.options()
	if err != nil {
		return nil, err
	}
	defer func() {
		if e.copied == nil && e.fetched != "" {
			os.Remove(e.fetched)
		}
		if e.redrawn != "" {
			os.Remove(e.redrawn)
		}
	}()
	if err := e.givenLaw(); err != nil {
		return nil, err
	}
	if err := e.drawable(); err != nil {
		return nil, err
	}
	if err := e.prepare(ctx, &o); err != nil {
		return nil, err
	}
	if e.guess == "estimate" {
		if err := e.estimate(ctx, &o); err != nil {
			return nil, err
		}
	}
	trained, err := e.load(&o)
	if err != nil {
		return nil, err
	}
	if e.plan.on {
		return nil, e.planLog(ctx, out, &o, trained)
	}
	if err := e.redraw(ctx, &o); err != nil {
		if ctx.Err() != nil {
			return nil, sim.ErrInterrupted
		}
		return nil, err
	}
	skip := 0
	if e.split > 0 {
		if skip, err = e.train(ctx, trained); err != nil {
			return nil, err
		}
	}
	f, err := e.open()
	if err != nil {
		return nil, err
	}
	defer f.r.Close()
	f.skip = skip
	e.complete(&o, f, skip)
	lo, hi := 0.0, 1.0
	if o.Rewards != nil {
		lo, hi = o.Rewards[0], o.Rewards[1]
	}
	if lo < hi && hi-lo < math.Inf(1) && o.NoSequence == "" {
		f.coin, f.control = ope.NewCoinLog(lo, hi), ope.NewControlLog(lo, hi, e.level)
	}
	r, err := ope.Evaluate(ctx, f, o)
	if err != nil {
		if ctx.Err() != nil {
			return nil, sim.ErrInterrupted
		}
		return nil, evaluationError(err)
	}
	var warning string
	if r.Coin, warning = f.coin.Result(r.Level); warning != "" {
		e.notes = append(e.notes, warning)
	}
	r.Warnings = append(r.Warnings, e.notes...)
	e.describe(r, f, skip)
	controlOf(r, f.control)
	e.serverDoubts(f, r)
	if format := f.r.Format(); f.bare > 0 && (format == "export" || format == "server") {
		r.Warnings = append(r.Warnings, fmt.Sprintf("%s without candidates (log_candidates = \"none\"): targets and "+
			"the reward model know an action by its place in the request, not by its id",
			term.Many(f.bare, "decision")))
	}
	for i := range trained {
		if e.split == 0 && e.learn == "no" && trained[i].Empty() {
			r.Warnings = append(r.Warnings, trained[i].Name()+" has learned nothing: --split trains it on the first "+
				"part of the log, --learn log on the way")
		}
	}
	return r, nil
}

// estimate fits the model of the logger of a log without propensities.
func (e *evaluation) estimate(ctx context.Context, o *ope.Options) error {
	const folds = 5
	fitted, err := ope.FitPropensities(ctx, folds, func(law logged.Logger) (ope.Source, error) {
		read := e.read
		read.Logger = law
		return logged.Open(e.file(), read)
	})
	if ctx.Err() != nil {
		return sim.ErrInterrupted
	}
	if err != nil {
		return evaluationError(err)
	}
	e.fitted, o.Estimated = fitted, fitted
	return nil
}

// givenLaw refuses --logger and --unit for the log of a server, which has propensities, laws and units of its own.
func (e *evaluation) givenLaw() error {
	switch server := e.overHTTP() || e.directory(); {
	case server && e.in.Logger != "":
		return term.Misuse(fmt.Errorf("--logger %s: the log of a server has its propensities and laws; --logger is for files",
			e.in.Logger))
	case server && e.guess == "estimate":
		return term.Misuse(errors.New("--propensities estimate: the log of a server has its propensities"))
	case server && e.in.Unit != "":
		return term.Misuse(fmt.Errorf("--unit %s: the log of a server has the units of its model; --unit is for files", e.in.Unit))
	}
	return nil
}

// complete sets the options that the open log decides.
func (e *evaluation) complete(o *ope.Options, f *filtered, skip int) {
	p := source.NewProgress(e.say, "evaluate")
	o.Progress = p.At
	if o.Adaptive = "unknown"; f.r.Format() == "export" {
		o.Adaptive = "yes"
	} else if e.in.Logger != "" || e.fitted != nil {
		o.Adaptive = "no" // its law is one that does not learn
	}
	e.serverRange(f, o)
	if o.Crossfit = e.crossfit; e.crossfit > 0 {
		o.Reopen = func() (ope.Source, error) {
			again, err := e.open()
			if err == nil {
				again.skip = skip
			}
			return again, err
		}
	}
}

// evaluationError gives faults of the data the exit code 2.
func evaluationError(err error) error {
	var coded interface{ ExitCode() int }
	if errors.As(err, &coded) {
		return err
	}
	return term.Misuse(err)
}

// train counts the events, trains the targets on the first part, and returns how many that were.
func (e *evaluation) train(ctx context.Context, targets []*ope.PolicyTarget) (int, error) {
	pass := func(each func(n int, ev *logged.Event) error) (int, error) {
		f, err := e.open()
		if err != nil {
			return 0, err
		}
		defer f.r.Close()
		var ev logged.Event
		p := source.NewProgress(e.say, "evaluate: training")
		for n := 0; ; n++ {
			if err := f.Read(&ev); err == io.EOF {
				return n, nil
			} else if err != nil {
				return n, err
			}
			if p.Tick(n); ctx.Err() != nil {
				return n, sim.ErrInterrupted
			}
			if each == nil {
				continue
			}
			if err := each(n, &ev); err == io.EOF {
				return n, nil
			} else if err != nil {
				return n, err
			}
		}
	}
	n, err := pass(nil)
	if err != nil {
		return 0, err
	}
	first := int(float64(n) * e.split)
	if first == 0 || first == n {
		return 0, term.Misuse(fmt.Errorf("--split %v of %d events leaves one part empty", e.split, n))
	}
	_, err = pass(func(i int, ev *logged.Event) error {
		if i >= first {
			return io.EOF
		}
		if ev.BadReward {
			return nil
		}
		for _, t := range targets {
			if err := t.Train(ev); err != nil {
				return term.Misuse(fmt.Errorf("target %s: event %d: %w", t.Name(), i+1, err))
			}
		}
		return nil
	})
	for _, t := range targets {
		if err == nil {
			err = t.Freeze()
		}
	}
	return first, err
}

// armed is implemented by readers of logs whose arms may have names.
type armed interface{ Arms() []string }

var _ armed = (*logged.Reader)(nil)

// describe fills in what the reader knows.
func (e *evaluation) describe(r *ope.Result, f *filtered, skip int) {
	if r.Log.Source, r.Log.Format = e.source, f.r.Format(); e.fetched != "" {
		r.Log.Format = "server"
	}
	if e.after > 0 && (r.Log.Format == "server") {
		r.Warnings = append(r.Warnings, fmt.Sprintf("only decisions after entry %d of the log: a target has learned "+
			"what came before", e.after))
	}
	if a, ok := f.r.(armed); ok {
		r.Log.Names = a.Arms()
	}
	for k, n := range f.r.Skipped() {
		if k == "pending" {
			r.Log.Pending = n
			continue
		}
		r.Log.Skipped[k] = n
	}
	if f.left > 0 {
		r.Log.Skipped["outside --from and --to"] = f.left
	}
	if skip > 0 {
		r.Log.Skipped["before --split"] = skip
	}
	if e.in.Model != "" {
		r.Log.Model = &e.in.Model
	}
	if e.log != nil {
		maps.Copy(r.Log.Skipped, e.log.Skipped)
	}
	r.Warnings = append(r.Warnings, e.logWarnings(f)...)
	if _, first := f.r.Bad(); len(first) > 0 {
		r.Warnings = append(r.Warnings, first...)
		by := f.r.BadBy()
		for _, reason := range slices.Sorted(maps.Keys(by)) {
			if reason == logged.BadReward { // the rest of the event was kept, and the sequence takes the worst case
				continue
			}
			r.Warnings = append(r.Warnings, fmt.Sprintf("%d events left out (bad %s): the sequence holds only if that did "+
				"not depend on what was played or paid", by[reason], reason))
			for _, t := range r.Targets {
				r.Unsure(t, "events with a bad "+reason+" were left out")
			}
		}
	}
}

// logWarnings are the warnings of the log, once it was read.
func (e *evaluation) logWarnings(f *filtered) (out []string) {
	if e.log != nil {
		out = endedWarnings(e.log, f.r.Skipped()["pending"])
	}
	return append(out, f.r.Warnings()...)
}

// answer prints the result, writes the page and decides the exit code.
func (e *evaluation) answer(out io.Writer, r *ope.Result) error {
	silent := 0
	for _, t := range r.Targets {
		if r.Silent(t) || t.Contradicted != nil {
			silent++
		}
		if !e.force {
			r.Withhold(t)
		}
	}
	page := ""
	if !e.json || e.out != "" {
		var err error
		if page, err = e.page(r); err != nil {
			return err
		}
	}
	if e.json {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		if err := enc.Encode(r); err != nil {
			return err
		}
	} else {
		printResult(out, r, page, e.source)
	}
	if silent == len(r.Targets) && !e.force {
		return term.Silently(exitNoOverlap, errors.New("the log can tell about no target"))
	}
	return nil
}

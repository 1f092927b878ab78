package evaluate

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"troupe/cli/source"
	"troupe/cli/term"
	"troupe/logged"
	"troupe/ope"
	"troupe/spec"
)

// flags are the flags of troupe evaluate as they were typed, by the step that reads them.
type flags struct {
	log      logFlags
	targets  targetFlags
	estimate estimateFlags
	output   outputFlags
	plan     planningFlags
	knob     knobFlags
	known    knownFlags
	guards   []string // of several rewards
}

// logFlags say which decisions are read.
type logFlags struct {
	in       source.Flags
	key      string // API key of a server
	from, to string
}

// targetFlags say what is compared with what ran.
type targetFlags struct {
	names []string
	learn string
	split float64
}

// estimateFlags say what is estimated of a target, and how.
type estimateFlags struct {
	q            string
	crossfit     int
	estimators   string
	named        func() bool // estimators was given
	set, grid    string
	examination  string
	law          string
	redraws      int
	level        float64
	atEnd        bool
	propensities string
	by           string
	seed         uint64
	workers      int
}

// outputFlags say where the answer goes.
type outputFlags struct {
	dir   string
	json  bool
	force bool // plain estimates, although the log hardly overlaps
}

func (g *flags) add(f *pflag.FlagSet) {
	g.log.add(f)
	g.targets.add(f)
	g.estimate.add(f)
	g.output.add(f)
	g.plan.add(f)
	g.knob.add(f)
	g.known.add(f)
	f.StringArrayVar(&g.guards, "guard", nil, "with several --outcome: NAME=+5% may rise by at most 5% of what it is, NAME=-5% fall; also "+
		"a number in its own unit, such as NAME=+0.2")
}

func (l *logFlags) add(f *pflag.FlagSet) {
	l.in.Add(f)
	f.StringVar(&l.key, "key", os.Getenv("TROUPE_KEY"), "API key of a server; default is the environment's TROUPE_KEY")
	f.StringVar(&l.from, "from", "", "events from this time on (RFC 3339)")
	f.StringVar(&l.to, "to", "", "events before this time")
}

func (t *targetFlags) add(f *pflag.FlagSet) {
	f.StringArrayVar(&t.names, "target", nil,
		"uniform, column, greedy, a TOML file, a saved model, or NAME@SEQ (may be repeated); default: column where "+
			"the log has it, else uniform")
	f.StringVar(&t.learn, "learn", "no", "no, log (the target learns what was played) or replay (it learns matching "+
		"events)")
	f.Float64Var(&t.split, "split", 0, "train targets on this share of the log, evaluate on the rest")
}

func (e *estimateFlags) add(f *pflag.FlagSet) {
	f.StringVar(&e.q, "q", "", "reward model: "+strings.Join(ope.Models,
		", ")+"; default: column where the log has it, else ridge")
	f.IntVar(&e.crossfit, "crossfit", 0, "number of folds: the reward model is fitted on the others, for independent "+
		"events; loses the sequence of dr")
	e.named = func() bool { return f.Changed("estimators") }
	f.StringVar(&e.estimators, "estimators", strings.Join(ope.Defaults, ","), "estimators, or all; of lists all by default, and the difference is that of the first named one with weights")
	f.StringVar(&e.set, "set", "", "parameters of estimators: dros=16,ls=0.25")
	f.StringVar(&e.grid, "grid", "", "what SLOPE++ chooses from: dros=1:4:16,ls=1:0.5")
	f.StringVar(&e.examination, "examination", "", "of lists, for pbm: how often each position is examined, as 1,0.6,0.3; default: learned from the log")
	f.StringVar(&e.law, "law", "recorded", "recorded, or marginal, which adds estimates with the law of a decision without the members drawn "+
		"for it. It needs the data directory of a model with key = \"decision\"")
	f.IntVar(&e.redraws, "redraws", 1024, "how often --law marginal draws each decision again")
	f.Float64Var(&e.level, "level", 0.95, "level of the intervals")
	f.BoolVar(&e.atEnd, "at-end", false, "the number of decisions was fixed beforehand and the world does not change. This gives narrower "+
		"intervals for this n, and the verdict from them; those that hold at every look stay beside them")
	f.StringVar(&e.propensities, "propensities", "logged", "logged, or estimate: for a log without propensities, a model of the logger; it has no interval "+
		"that holds, and no verdict is sure")
	f.StringVar(&e.by, "by", "", "the difference in each segment too: context.city, city=Oslo|Bergen with values, or "+
		"price=0:10:50: with edges")
	f.Uint64Var(&e.seed, "seed", 1, "seed of the bootstrap and of targets that draw")
	f.IntVar(&e.workers, "workers", runtime.GOMAXPROCS(0), "processors; the answer does not depend on it")
}

func (o *outputFlags) add(f *pflag.FlagSet) {
	f.StringVarP(&o.dir, "out", "o", "", "directory of the page; default runs/evaluate-NAME")
	f.BoolVar(&o.json, "json", false, "one JSON object on stdout, and no page unless --out is given")
	f.BoolVar(&o.force, "force", false, "print plain estimates although the log hardly overlaps with the target")
}

// question is a checked command line about one reward. The steps of an evaluation read it, and none changes it.
type question struct {
	source      string // LOG as it was typed
	file        string // what is read: LOG, or the copy of stdin
	key         string
	model       string // --model
	logger      string
	unit        string
	read        logged.Options
	ranged      bool // the flags give the range of rewards; a server's is that of what its model learns
	from, until time.Time

	targets []string
	learn   string
	split   float64

	marginal bool // --law marginal
	redraws  int
	fitted   bool        // --propensities estimate
	options  ope.Options // without targets, and without what the log decides

	plan planningFlags
}

// question checks the flags. file is what is read of the log source, which may be "" for a plan.
func (g *flags) question(source, file string) (*question, error) {
	q := &question{source: source, file: file, key: g.log.key, model: g.log.in.Model, logger: g.log.in.Logger, unit: g.log.in.Unit,
		targets: g.targets.names, learn: g.targets.learn, split: g.targets.split,
		marginal: g.estimate.law == "marginal", redraws: g.estimate.redraws, fitted: g.estimate.propensities == "estimate", plan: g.plan}
	var err error
	if q.read, err = g.log.in.Options(); err != nil {
		return nil, err
	}
	if q.plan.on && q.read.SkipBad == "" {
		q.read.SkipBad = "all" // an event whose reward is missing has its laws
	}
	if q.read.Rewards == nil {
		q.read.Rewards = &[2]float64{0, 1}
	}
	q.ranged = g.log.in.Rewards != "" || q.read.Outcome != ""
	if err := g.agree(); err != nil {
		return nil, err
	}
	if q.options, err = g.estimate.options(len(q.targets)); err != nil {
		return nil, err
	}
	q.options.Rewards = (*ope.Pair)(q.read.Rewards)
	for _, t := range []struct {
		flag, text string
		into       *time.Time
	}{{"from", g.log.from, &q.from}, {"to", g.log.to, &q.until}} {
		if t.text == "" {
			continue
		}
		if *t.into, err = time.Parse(time.RFC3339, t.text); err != nil {
			if *t.into, err = time.Parse(time.DateOnly, t.text); err != nil {
				return nil, term.Misuse(fmt.Errorf("--%s %s: expected a time such as 2026-05-04T10:00:00Z or a day",
					t.flag, t.text))
			}
		}
	}
	return q, nil
}

// agree refuses values outside their range, and flags that do not go together.
func (g *flags) agree() error {
	e, learn := &g.estimate, g.targets.learn
	switch {
	case !(e.level > 0 && e.level < 1):
		return term.Misuse(fmt.Errorf("--level %v: expected a number between 0 and 1", e.level))
	case !(g.targets.split >= 0 && g.targets.split < 1):
		return term.Misuse(fmt.Errorf("--split %v: expected a share from 0 to below 1", g.targets.split))
	case e.crossfit < 0 || e.crossfit == 1 || e.crossfit > 100:
		return term.Misuse(fmt.Errorf("--crossfit %d: expected 2 to 100 folds", e.crossfit))
	case e.crossfit > 0 && learn != "no":
		return term.Misuse(errors.New("--crossfit is for independent events, and --learn makes them dependent"))
	case e.workers < 1:
		return term.Misuse(fmt.Errorf("--workers %d: expected at least 1", e.workers))
	case e.law != "recorded" && e.law != "marginal":
		return term.Misuse(fmt.Errorf("--law %s%s", e.law, spec.Suggest(e.law, []string{"recorded", "marginal"})))
	case e.redraws < 1 || e.redraws > 1_000_000:
		return term.Misuse(fmt.Errorf("--redraws %d: expected 1 to 1 000 000", e.redraws))
	case e.propensities != "logged" && e.propensities != "estimate":
		return term.Misuse(fmt.Errorf("--propensities %s%s", e.propensities, spec.Suggest(e.propensities, []string{"logged", "estimate"})))
	case e.propensities == "estimate" && (g.log.in.Logger != "" || e.atEnd || g.plan.on || e.law != "recorded" || e.by != ""):
		return term.Misuse(errors.New("--propensities estimate does not go with --logger, --at-end, --plan, --law or --by: they need true ones"))
	case !slices.Contains([]string{"no", "log", "replay"}, learn):
		return term.Misuse(fmt.Errorf("--learn %s: expected no, log or replay", learn))
	case e.q != "" && !slices.Contains(ope.Models, e.q):
		return term.Misuse(fmt.Errorf("--q %s%s", e.q, spec.Suggest(e.q, ope.Models)))
	}
	return nil
}

// options are the options that the flags give, for so many targets.
func (e *estimateFlags) options(targets int) (ope.Options, error) {
	o := ope.Options{Q: e.q, Level: e.level, Workers: e.workers, Seed: e.seed, Crossfit: e.crossfit, Set: map[string]float64{},
		Grid: map[string][]float64{}}
	var err error
	if e.by != "" {
		if o.By, err = ope.ParseBy(e.by); err != nil {
			return o, term.Misuse(err)
		}
	}
	if targets > ope.MostTargets {
		return o, term.Misuse(fmt.Errorf("--target: %d targets, expected at most %d", targets, ope.MostTargets))
	}
	if o.AtEnd = e.atEnd; e.atEnd && targets > 16 {
		return o, term.Misuse(fmt.Errorf("--at-end: %d targets, expected at most 16", targets))
	}
	o.LeaveOut = e.estimators == "all"
	if e.examination != "" {
		some := false
		for text := range strings.SplitSeq(e.examination, ",") {
			v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			if err != nil || !(v >= 0) || v > 1e9 {
				return o, term.Misuse(fmt.Errorf("--examination %s: %s is not a number from 0", e.examination, text))
			}
			o.Examination, some = append(o.Examination, v), some || v > 0
		}
		if !some {
			return o, term.Misuse(fmt.Errorf("--examination %s: no position is examined", e.examination))
		}
	}
	if e.named() { // otherwise those of single decisions, or of lists
		if o.Estimators, err = estimatorKeys(e.estimators); err != nil {
			return o, err
		}
	}
	return o, e.parameters(&o)
}

func estimatorKeys(list string) ([]string, error) {
	if list == "all" {
		return ope.Keys(), nil
	}
	keys, known := strings.Split(list, ","), append(ope.Keys(), ope.ListKeys()[1:]...) // both begin with logged
	for i, k := range keys {
		if keys[i] = strings.TrimSpace(k); !slices.Contains(known, keys[i]) {
			return nil, term.Misuse(fmt.Errorf("--estimators %s%s", k, spec.Suggest(k, append(known, "all"))))
		}
		if slices.Contains(keys[:i], keys[i]) {
			return nil, term.Misuse(fmt.Errorf("--estimators %s: %s is there twice", list, keys[i]))
		}
	}
	return keys, nil
}

// parameters reads --set and --grid. The key is an estimator.
func (e *estimateFlags) parameters(o *ope.Options) error {
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

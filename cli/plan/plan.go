// Package plan is the command `troupe plan`: what the theorems ask for and promise at a dimension and a horizon, for
// people and as JSON. Command is all of it; the numbers come from the package theory.
package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"troupe/cli/term"
	"troupe/theory"
)

// planned is one setting with everything the theory says about it; its JSON is the contract of
// `troupe plan --json`. A bound outside its conditions is null and named in unavailable.
type planned struct {
	D       int     `json:"d"`
	T       float64 `json:"T"`
	Delta   float64 `json:"delta"`
	Lambda  float64 `json:"lambda"`
	LogN    float64 `json:"log_N"`
	M       float64 `json:"m"`
	M60     float64 `json:"m60"`
	Bytes   float64 `json:"members_bytes"`
	Beta    float64 `json:"beta_tilde"`
	R       float64 `json:"r"`
	Trivial float64 `json:"trivial"`

	Bounds      map[string]*float64 `json:"bounds"`
	Vacuous     map[string]bool     `json:"vacuous"`
	Probability map[string]float64  `json:"probability"`
	Members     map[string]float64  `json:"members"`
	Beats       map[string]*float64 `json:"beats_trivial_at"`
	Unavailable map[string]string   `json:"unavailable,omitempty"`
	Orders      []plannedOrder      `json:"orders,omitempty"`

	bounds []theory.Bound // those of theory, and with arms those for K arms
}

// janzLemmas is the key under which members has the m that the lemmas of arXiv 2602.08026 need when
// they are evaluated, far below the one that its theorem prints.
const janzLemmas = "janz2026_lemmas"

type plannedOrder struct {
	Name     string   `json:"name"`
	Source   string   `json:"source"`
	Regret   string   `json:"regret"`
	Size     string   `json:"size"`
	Constant string   `json:"constant"`
	Value    *float64 `json:"value,omitempty"`
	M        *float64 `json:"m,omitempty"`
}

// planFor evaluates everything for one setting. arms is K for the order statements, 0 when not given.
func planFor(s theory.Setting, arms int) (planned, error) {
	d, T := s.D, int(s.T)
	var p planned
	m, err := theory.Members(d, T, s.Lambda, s.Delta)
	if err != nil {
		return p, err
	}
	m60, err := theory.Members60(d, T, s.Lambda, s.Delta)
	if err != nil {
		return p, err
	}
	logN, err := theory.LogNet(d, T, s.Lambda)
	if err != nil {
		return p, err
	}
	beta := theory.BetaTilde(d, T, s.Lambda, s.Delta)
	p = planned{
		D: d, T: s.T, Delta: s.Delta, Lambda: s.Lambda, LogN: logN, M: float64(m), M60: float64(m60),
		Bytes: 8 * float64(m) * float64(d), Beta: beta, R: 7 * beta, Trivial: 2 * s.T,
		Bounds: map[string]*float64{}, Vacuous: map[string]bool{}, Probability: map[string]float64{},
		Members: map[string]float64{}, Beats: map[string]*float64{}, Unavailable: map[string]string{},
	}
	p.bounds = theory.Bounds
	if arms >= 2 {
		p.bounds = append(slices.Clip(p.bounds), theory.Absolute(arms, 64))
	}
	for _, b := range p.bounds {
		p.Bounds[b.Name], p.Beats[b.Name] = nil, nil
		p.Probability[b.Name] = math.Max(0, b.Probability(s.Delta))
		v, err := b.Eval(s)
		if err != nil {
			p.Unavailable[b.Name] = err.Error()
			continue
		}
		p.Bounds[b.Name], p.Vacuous[b.Name] = &v, v >= p.Trivial
		if m, err := b.Members(s); err == nil && m > 0 {
			p.Members[b.Name] = m
		}
		if at, err := b.Crossing(s); err == nil {
			p.Beats[b.Name] = &at
		}
	}
	if m, err := theory.Janz2026Direct(s); err == nil {
		p.Members[janzLemmas] = m
	}
	for _, o := range theory.Orders {
		po := plannedOrder{Name: o.Name, Source: o.Source, Regret: o.Regret, Size: o.Size,
			Constant: theory.ConstantUnknown}
		if !o.Finite || arms > 0 {
			set := theory.OrderSetting{D: d, T: s.T, Arms: arms, M: float64(m)}
			v, err := o.Eval(set)
			if err != nil {
				return p, err
			}
			m, err := o.Members(set)
			if err != nil {
				return p, err
			}
			po.Value, po.M = &v, &m
		}
		p.Orders = append(p.Orders, po)
	}
	return p, nil
}

// planFlags names the flag that sets a parameter of a theory.DomainError.
var planFlags = map[string]string{"d": "-d", "T": "-T", "delta": "--delta", "lambda": "--lambda", "K": "--arms"}

// question is a command line of plan.
type question struct {
	dims, horizons, deltas, lambdas string
	method                          string
	arms                            int
	json, explain, practical        bool
	ask                             practical
	isFleet                         bool
	fleet                           fleetAsk
	episodes                        planEpisodes

	changed func(flag string) bool // it stands on the command line
	out     io.Writer
}

// Command is `troupe plan`: what the theorems ask for and promise.
func Command() *cobra.Command {
	var q question
	c := &cobra.Command{
		Use:   "plan",
		Short: "What the theorems ask for and promise: ensemble size, scales, every regret bound",
		Long: `What the theorems ask for and promise at a dimension d and a horizon T: the ensemble size m, the
scale r, and every regret bound with its constants. Beside them is 2T, what losing always costs. A
bound of 2T or more is marked vacuous.

A list (2,5,10) gives every combination. -T 1e3..1e6 is 1e3, 1e4, 1e5, 1e6; -d 2..5
is 2, 3, 4, 5.`,
		Example: `  troupe plan -d 10 -T 10000 --delta 0.1 --lambda 5
  troupe plan -d 2,5,10 -T 1e3..1e6 --json
  troupe plan -d 10 -T 1e4 --arms 50      with the orders known for K arms
  troupe plan --method atoms -d 10 -T 10000 --delta 0.01
  troupe plan --method rlsvi -d 5 -T 1e5 --steps 20 --states 50 --actions 4
  troupe plan --practical -d 5 -T 1e6 --arms 5 --stuck 0.001 --gap 0.2 --mean 0
  troupe plan --fleet --rate 20000 --nodes 3
  troupe plan --explain                   what each bound is, and its formula`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q.changed, q.out = cmd.Flags().Changed, cmd.OutOrStdout()
			return q.answer()
		},
	}
	f := c.Flags()
	f.StringVarP(&q.dims, "dimension", "d", "10", "dimension d, a list or a range 2..5")
	f.StringVarP(&q.horizons, "horizon", "T", "1e4", "horizon T, a list or a range of decades 1e3..1e6")
	f.StringVar(&q.deltas, "delta", "0.1", "failure probability δ of each event, a list")
	f.StringVar(&q.lambdas, "lambda", "5", "regularisation λ, a list")
	f.StringVar(&q.method, "method", "ensemble",
		"ensemble: the paper's theorem beside every other bound; atoms: the theorem of docs/papers/atoms.md; rlsvi: "+
			"orders known for value iteration with noise, -T is the steps of all episodes")
	f.IntVar(&q.episodes.Steps, "steps", 20, "with --method rlsvi: steps H of an episode")
	f.IntVar(&q.episodes.States, "states", 20, "with --method rlsvi: states S")
	f.IntVar(&q.episodes.Actions, "actions", 2, "with --method rlsvi: actions A")
	f.IntVar(&q.arms, "arms", 0, "number of arms K, for statements about K arms")
	f.BoolVar(&q.practical, "practical", false,
		"how many members keep the share of runs that never find the best arm below --stuck")
	f.Float64Var(&q.ask.Stuck, "stuck", 0.01, "with --practical: tolerated share of such runs")
	f.Float64Var(&q.ask.Gap, "gap", 0.1, "with --practical: how much better the best arm is than the next, in units "+
		"of the noise")
	f.Float64Var(&q.ask.Mean, "mean", 0, "with --practical: mean reward of the other arms, the largest, in units of the noise; "+
		"left out: 0 and 1")
	f.Float64Var(&q.ask.R, "scale", 1, "with --practical: constant scale r, in units of the noise")
	f.BoolVar(&q.isFleet, "fleet", false, "how many cells and machines serve a rate, and what they need, with each formula")
	q.fleet.flags(c)
	f.BoolVar(&q.json, "json", false, "an array of objects on stdout, with --fleet one")
	f.BoolVar(&q.explain, "explain", false, "list the bounds, their formulas and sources")
	return c
}

// answer checks which flags go together and answers the question that they ask.
func (q *question) answer() error {
	if q.explain {
		return explainBounds(q.out)
	}
	if q.isFleet {
		return q.answerFleet()
	}
	if name := q.given(fleetFlags...); name != "" {
		return term.Misuse(fmt.Errorf("--%s is a part of the question of --fleet", name))
	}
	if q.changed("arms") && q.arms < 2 {
		return term.Misuse(fmt.Errorf("--arms %d: expected at least 2 arms", q.arms))
	}
	if name := q.given("stuck", "gap", "scale", "mean"); name != "" && !q.practical {
		return term.Misuse(fmt.Errorf("--%s is a part of the question of --practical", name))
	}
	if name := q.given("steps", "states", "actions"); name != "" && q.method != "rlsvi" {
		return term.Misuse(fmt.Errorf("--%s is for --method rlsvi", name))
	}
	if q.practical {
		return q.answerPractical()
	}
	switch q.method {
	case "ensemble":
		return answerEach(q, func(s theory.Setting) ([]planned, error) {
			p, err := planFor(s, q.arms)
			return []planned{p}, err
		}, writePlan)
	case "atoms": // its theorem has λ ≥ 1, not λ ≥ 5
		q.lambdaOne()
		return answerEach(q, planAtoms, writePlanAtoms)
	case "rlsvi":
		return q.answerRLSVI()
	}
	return term.Misuse(fmt.Errorf("--method %q: expected ensemble, atoms or rlsvi", q.method))
}

// given returns the first of some flags that stands on the command line, or "".
func (q *question) given(flags ...string) string {
	for _, name := range flags {
		if q.changed(name) {
			return name
		}
	}
	return ""
}

// lambdaOne makes 1 the default of λ.
func (q *question) lambdaOne() {
	if !q.changed("lambda") {
		q.lambdas = "1"
	}
}

// settings multiplies out the four lists of the command line.
func (q *question) settings() ([]theory.Setting, error) {
	all, err := planSettings(q.dims, q.horizons, q.deltas, q.lambdas)
	if err != nil {
		return nil, term.Misuse(err)
	}
	return all, nil
}

// encode prints an answer as JSON.
func (q *question) encode(answer any) error {
	e := json.NewEncoder(q.out)
	e.SetIndent("", "  ")
	return e.Encode(answer)
}

// answerEach evaluates every setting and prints the answers. An error of theory names the flag that it is about.
func answerEach[P any](q *question, of func(theory.Setting) ([]P, error), write func(io.Writer, []P) error) error {
	settings, err := q.settings()
	if err != nil {
		return err
	}
	var all []P
	for _, s := range settings {
		p, err := of(s)
		var domain *theory.DomainError
		if errors.As(err, &domain) && planFlags[domain.Param] != "" {
			err = fmt.Errorf("%s %v: %s needs %s", planFlags[domain.Param], domain.Value, domain.By, domain.Need)
		}
		if err != nil {
			return term.Misuse(err)
		}
		all = append(all, p...)
	}
	if q.json {
		return q.encode(all)
	}
	return write(q.out, all)
}

// answerPractical is `troupe plan --practical`.
func (q *question) answerPractical() error {
	if q.given("method", "delta") != "" {
		return term.Misuse(errors.New("--practical has no --method and no --delta: --stuck is its probability"))
	}
	q.lambdaOne()
	if err := checkPractical(q.ask); err != nil {
		return err
	}
	settings, err := q.settings()
	if err != nil {
		return err
	}
	q.ask.Arms = q.arms
	means := usualMeans[:]
	if q.changed("mean") {
		means = []float64{q.ask.Mean}
	}
	var all []plannedPractical
	for _, s := range settings {
		if s.D < 1 || s.T < 2 || !(s.Lambda > 0) {
			return term.Misuse(fmt.Errorf("-d %d -T %v --lambda %v: expected d of 1 or more, T of 2 or more "+
				"and a positive lambda", s.D, s.T, s.Lambda))
		}
		for _, mean := range means {
			ask := q.ask
			ask.Mean = mean
			p, err := planPractical(s, ask)
			if err != nil {
				return term.Misuse(err)
			}
			all = append(all, p)
		}
	}
	if q.json {
		return q.encode(all)
	}
	return writePractical(q.out, all)
}

// answerRLSVI is `troupe plan --method rlsvi`.
func (q *question) answerRLSVI() error {
	if name := q.given("delta", "lambda", "arms"); name != "" {
		return term.Misuse(fmt.Errorf("--method rlsvi prints orders, which have no --%s", name))
	}
	settings, err := q.settings()
	if err != nil {
		return err
	}
	return printRLSVI(q.out, settings, q.episodes, q.json)
}

// planSettings multiplies out the four lists.
func planSettings(dims, horizons, deltas, lambdas string) ([]theory.Setting, error) {
	const most = 10_000
	ds, err := parseNumbers("-d", dims, func(lo float64) float64 { return lo + 1 })
	if err != nil {
		return nil, err
	}
	ts, err := parseNumbers("-T", horizons, func(lo float64) float64 { return 10 * lo })
	if err != nil {
		return nil, err
	}
	for flag, list := range map[string][]float64{"-d": ds, "-T": ts} {
		for _, v := range list {
			if v != math.Trunc(v) {
				return nil, fmt.Errorf("%s %v: expected a whole number", flag, v)
			}
			if v > 1<<53 {
				return nil, fmt.Errorf("%s %v: expected at most 2^53", flag, v)
			}
		}
	}
	des, err := parseNumbers("--delta", deltas, nil)
	if err != nil {
		return nil, err
	}
	ls, err := parseNumbers("--lambda", lambdas, nil)
	if err != nil {
		return nil, err
	}
	if n := len(ds) * len(ts) * len(des) * len(ls); n > most {
		return nil, fmt.Errorf("%d settings: expected at most %d", n, most)
	}
	var out []theory.Setting
	for _, d := range ds {
		for _, delta := range des {
			for _, lambda := range ls {
				for _, t := range ts {
					out = append(out, theory.Setting{D: int(d), T: t, Lambda: lambda, Delta: delta})
				}
			}
		}
	}
	return out, nil
}

// parseNumbers reads "2,5,10" and, where next is given, "lo..hi".
func parseNumbers(flag, text string, next func(float64) float64) ([]float64, error) {
	number := func(s string) (float64, error) {
		v, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
		if err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return 0, fmt.Errorf("%s %q: expected a finite number", flag, s)
		}
		return v, nil
	}
	var out []float64
	for _, part := range strings.Split(text, ",") {
		from, to, isRange := strings.Cut(part, "..")
		lo, err := number(from)
		if err != nil {
			return nil, err
		}
		if !isRange {
			out = append(out, lo)
			continue
		}
		hi, err := number(to)
		if err != nil {
			return nil, err
		}
		switch {
		case next == nil:
			return nil, fmt.Errorf("%s %q: expected a list of numbers, not a range", flag, part)
		case !(lo >= 1) || hi < lo:
			return nil, fmt.Errorf("%s %q: expected a range that starts at 1 or above and does not fall", flag, part)
		case hi-lo >= 10_000 && next(lo) == lo+1:
			return nil, fmt.Errorf("%s %q: expected at most 10000 values", flag, part)
		}
		for v := lo; v <= hi; v = next(v) {
			out = append(out, v)
		}
	}
	return out, nil
}

// writePlan prints one block for each (d, δ, λ): a single horizon with its details, several
// horizons as columns, four at a time.
func writePlan(w io.Writer, all []planned) error {
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			text := strings.TrimRight(fmt.Sprintf(format, args...), " ")
			_, err = fmt.Fprintln(w, text)
		}
	}
	for i := 0; i < len(all); {
		j := i + 1
		for j < len(all) && all[j].D == all[i].D && all[j].Delta == all[i].Delta && all[j].Lambda == all[i].Lambda {
			j++
		}
		if i > 0 {
			line("")
		}
		if j-i == 1 {
			planOne(line, all[i])
		} else {
			planMany(line, slices.Collect(slices.Chunk(all[i:j], 4)))
		}
		i = j
	}
	return err
}

// planRanked returns the bounds from the smallest to the largest at p, those without a value last.
func planRanked(p planned) []theory.Bound {
	bounds := slices.Clone(p.bounds)
	sort.SliceStable(bounds, func(i, j int) bool {
		a, b := p.Bounds[bounds[i].Name], p.Bounds[bounds[j].Name]
		return a != nil && (b == nil || *a < *b)
	})
	return bounds
}

func planOne(line func(string, ...any), p planned) {
	line("d = %d   T = %s   delta = %v   lambda = %v", p.D, planDigits(p.T), p.Delta, p.Lambda)
	line("")
	line("net N              10^%.2f", p.LogN/math.Ln10)
	line("members m          %-12s memory %s", planDigits(p.M), planBytes(p.Bytes))
	line("radius beta~_T     %.4g", p.Beta)
	line("scale r            %-12.4g 7 beta~_T", p.R)
	line("losing always      %-12s 2T: a bound above this says nothing", planDigits(p.Trivial))
	line("")
	line("%-20s %9s %9s  %-8s %-6s %9s %9s", "bound", "at T", "of 2T", "", "prob", "with m", "below 2T")
	line("%-20s %9s %9s  %-8s %-6s %9s %9s", "", "", "", "", "", "", "from T")
	for _, b := range planRanked(p) {
		v := p.Bounds[b.Name]
		if v == nil {
			line("%-20s %s", b.Name, p.Unavailable[b.Name])
			continue
		}
		word := ""
		if p.Vacuous[b.Name] {
			word = "vacuous"
		}
		line("%-20s %9s %9s  %-8s %-6s %9s %9s", b.Name, planShort(*v), planShort(*v/p.Trivial), word,
			planPromise(p, b), planMembers(p, b), planFrom(p, b))
	}
	if m, ok := p.Members[janzLemmas]; ok {
		line("")
		line("janz2026: by its own lemmas %s members are enough", planDigits(m))
	}
	line("")
	line("orders, %s", theory.ConstantUnknown)
	for _, o := range p.Orders {
		if o.Value == nil {
			line("  %-15s for K arms: give --arms K", o.Name)
		} else {
			line("  %-15s m %9s   regret %9s", o.Name, planShort(*o.M), planShort(*o.Value))
		}
		line("  %-15s regret: %s", "", o.Regret)
		line("  %-15s m: %s", "", o.Size)
	}
	line("")
	line("What each bound is, and its formula: troupe plan --explain")
}

func planMany(line func(string, ...any), chunks [][]planned) {
	p := chunks[0][0]
	line("d = %d   delta = %v   lambda = %v", p.D, p.Delta, p.Lambda)
	vacuous := false
	for _, ps := range chunks {
		row := func(name, prob, last string, cell func(planned) string) {
			var b strings.Builder
			for _, p := range ps {
				fmt.Fprintf(&b, " %10s", cell(p))
			}
			line("%-20s %-5s%-44s %9s", name, prob, b.String(), last)
		}
		line("")
		row("T", "", "", func(p planned) string { return planDigits(p.T) })
		row("net log10 N", "", "", func(p planned) string { return fmt.Sprintf("%.2f", p.LogN/math.Ln10) })
		row("members m", "", "", func(p planned) string { return planDigits(p.M) })
		row("memory", "", "", func(p planned) string { return planBytes(p.Bytes) })
		row("beta~_T", "", "", func(p planned) string { return fmt.Sprintf("%.4g", p.Beta) })
		row("r = 7 beta~_T", "", "", func(p planned) string { return fmt.Sprintf("%.4g", p.R) })
		row("2T", "", "", func(p planned) string { return planShort(p.Trivial) })
		line("")
		row("bound", "prob", "< 2T from", func(planned) string { return "" })
		for _, b := range planRanked(ps[0]) {
			if reason := p.Unavailable[b.Name]; reason != "" {
				line("%-20s %s", b.Name, reason)
				continue
			}
			row(b.Name, planPromise(p, b), planFrom(p, b), func(p planned) string {
				v := p.Bounds[b.Name]
				switch {
				case v == nil:
					return "-"
				case p.Vacuous[b.Name]:
					vacuous = true
					return planShort(*v) + " v"
				}
				return planShort(*v) + "  "
			})
		}
	}
	if vacuous {
		line("")
		line("v: vacuous, 2T or more")
	}
}

// planPromise prints the probability with which a bound holds.
func planPromise(p planned, b theory.Bound) string {
	if q := p.Probability[b.Name]; q > 0 {
		return strconv.FormatFloat(q, 'g', 4, 64)
	}
	return "none"
}

func planMembers(p planned, b theory.Bound) string {
	if m, ok := p.Members[b.Name]; ok {
		return planDigits(m)
	}
	return ""
}

func planFrom(p planned, b theory.Bound) string {
	if at := p.Beats[b.Name]; at != nil {
		return planShort(*at)
	}
	return "never"
}

func explainBounds(w io.Writer) error {
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	line("E = (2 d tau log(1 + tau/(d lambda)))^0.5, M = (2 a log(a^0.5/delta))^0.5 with")
	line("a = 4 tau/lambda + 1; beta = beta~_{tau-1}; A, B the two roots of thm:es;")
	line("g bounds the members' norms; m = ceil(C log(N T/delta))")
	for _, b := range theory.Bounds {
		line("")
		line("%-20s %s", b.Name, b.Title)
		line("%-20s %s", "", b.Formula)
		need := fmt.Sprintf("lambda >= %g", b.MinLambda)
		if b.MinD > 1 {
			need += fmt.Sprintf(", d >= %d", b.MinD)
		}
		if b.C > 0 {
			need += fmt.Sprintf(", C = %g", b.C)
		}
		line("%-20s probability 1 - %d delta; %s", "", b.Failures, need)
		line("%-20s %s", "", b.Label)
	}
	return err
}

// planDigits prints a whole number in groups of three.
func planDigits(x float64) string {
	if x >= 1e15 {
		return planShort(x)
	}
	s := strconv.FormatFloat(math.Round(x), 'f', -1, 64)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// planShort prints three significant digits: 0.63, 12,500, 3.1e+07.
func planShort(x float64) string {
	if x >= 0.001 && x < 99_950 {
		v, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 3, 64), 64)
		if v >= 1000 {
			return planDigits(v)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	}
	return strconv.FormatFloat(x, 'e', 2, 64)
}

// planBytes prints a size in decimal units.
func planBytes(n float64) string {
	for _, u := range []string{"B", "kB", "MB", "GB"} {
		if n < 999.5 {
			return fmt.Sprintf("%.3g %s", n, u)
		}
		n /= 1000
	}
	return fmt.Sprintf("%.3g TB", n)
}

// Package bench is the command `troupe bench`: rounds of the simulator beside other programs and beside what the
// machine allows, and decisions of a server beside a server that does the least (edge). Command is all of it;
// EdgeLimitCommand is the hidden command that the second of them starts.
package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/cli/term"
	"troupe/dataset"
	"troupe/env"
	"troupe/internal/cpu"
	"troupe/policy"
	"troupe/rng"
	"troupe/sim"
)

// benchCase is one configuration of `troupe bench`: d, K arms on the sphere (0: the unit ball), m
// members, T rounds. Letters are those of docs/reference/performance.md.
type benchCase struct {
	name         string
	d, k, m      int
	horizon      int
	engine       string // "" is that of --engine
	prob         bool   // ask for the propensities of all arms in every round, and count that alone
	replications int    // not 0: so many replications by the command run, on all processors
	alone        bool   // with replications: on one processor, in processor time
	sets         string // action sets that are new in every round: given, drawn or disjoint
	law          bool   // with given sets: the propensities of all arms are part of a round
}

// benchCases are the standard configurations. A to D have a fixed list of arms; E is the theorem's
// own ensemble size at d = 10, T = 10⁴; A-run to E-run are these through the command run, which writes results and
// journal; E2-exact has Gaussian targets; P asks for the propensities of all arms at the sizes of B, C and D.
var benchCases = []benchCase{
	{name: "A", d: 10, k: 10, m: 20, horizon: 10_000},
	{name: "A×100", d: 10, k: 10, m: 20, horizon: 10_000, replications: 100},
	{name: "B", d: 20, k: 100, m: 100, horizon: 10_000},
	{name: "C", d: 50, k: 1000, m: 200, horizon: 10_000},
	{name: "D", d: 100, k: 100, m: 1000, horizon: 10_000},
	{name: "E", d: 10, m: 40_000, horizon: 10_000},
	{name: "A-run", d: 10, k: 10, m: 20, horizon: 10_000, replications: 200, alone: true},
	{name: "B-run", d: 20, k: 100, m: 100, horizon: 10_000, replications: 40, alone: true},
	{name: "C-run", d: 50, k: 1000, m: 200, horizon: 10_000, replications: 8, alone: true},
	{name: "D-run", d: 100, k: 100, m: 1000, horizon: 10_000, replications: 4, alone: true},
	{name: "E-run", d: 10, m: 40_000, horizon: 10_000, replications: 16, alone: true},
	{name: "E2", d: 10, m: 40_000, horizon: 100_000},
	{name: "G", d: 100, m: 20_000, horizon: 10_000},
	{name: "E2-exact", d: 10, m: 40_000, horizon: 100_000, engine: "exact-law"},
	{name: "P-B", d: 20, k: 100, m: 100, horizon: 10_000, prob: true},
	{name: "P-C", d: 50, k: 1000, m: 200, horizon: 10_000, prob: true},
	{name: "P-D", d: 100, k: 100, m: 1000, horizon: 10_000, prob: true},
}

// benchResult is one line of the table, and of --json. Ratios are medians over the rounds; null
// means not measured, or not defined.
type benchResult struct {
	Config         string   `json:"config"`
	Engine         string   `json:"engine"`
	NsPerRound     float64  `json:"ns_per_round"`
	Spread         float64  `json:"spread"` // half the distance of the quartiles over the median
	RatioReference *float64 `json:"ratio_reference"`
	RatioLimit     *float64 `json:"ratio_limit"` // our time over the machine's, see (*limits).bound
	// the same with the bound that counts the longer of targets and members
	RatioOverlap *float64 `json:"ratio_overlap"`
	RatioNumpy   *float64 `json:"ratio_numpy"`
	RatioGonum   *float64 `json:"ratio_gonum"`
}

// flags are the flags of `troupe bench`.
type flags struct {
	configs []string
	engine  string
	rounds  int
	against []string
	json    bool
	profile string
}

// Command is `troupe bench`.
func Command() *cobra.Command {
	var f flags
	c := &cobra.Command{
		Use:   "bench [configuration...]",
		Short: "Measure speed against plain Go, numpy and the machine",
		Long: `bench plays standard configurations of ensemble sampling and says what a round costs.

Every configuration is measured several times, in turns with the reference (Algorithm 1 in plain Go),
with the machine's own limits and, with --against, with other programs. So slow phases of the machine
hit all sides. Ratios are taken within a turn, and their median is reported. A turn in which a probe of
fixed work changes by more than 15 % is measured again.

Times are processor time. A×100 (also written Ax100) is the wall clock of a "troupe run" of 100
replications on all processors. A-run to E-run are the processor time of one with a single worker; its
start, results and journal count. docs/reference/performance.md explains every column.

"bench edge" starts a server and the limit program, and puts both under the same load in turns. The
limit program is the least that a durable decision server does: net/http, the same JSON, the products,
one file with group commit and fsync. The table has the processor time of a decision at the server over
that at the limit. Its rows are packed, lists and named features, a batch of 64, a decision with its
reward, and a model with nothing set. A turn takes about ten seconds.

"bench growth" plays action sets that are new in every round, as a service or a log has them. new-K and
law-K use prepared lists of K arms; law adds the propensities of all arms. In drawn-K the environment
draws the arms. blocks-26 plays disjoint models, a parameter of 17 numbers for each of 26 actions,
against numpy with a matrix for each. fixed-100000 and wide-1000 have one list of 10⁵ arms, or of arms
with 1000 numbers.

The kernels are those that the processor offers; TROUPE_KERNEL=portable measures the build
without assembly, TROUPE_KERNEL=avx2 what a machine without AVX-512 would run.

--against numpy needs python3 with numpy. Which BLAS numpy calls is printed: Debian's
python3-numpy uses the reference BLAS, which is slow, until libopenblas0 is installed.`,
		Example: `  troupe bench A B
  troupe bench growth --against numpy
  troupe bench edge --rounds 3
  troupe bench --against numpy,gonum --json > bench.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.configs = args
			if slices.Contains(args, "edge") {
				switch {
				case len(args) > 1:
					return term.Misuse(fmt.Errorf("edge is measured alone, not with %q", args))
				case len(f.against) > 0 || f.profile != "" || cmd.Flags().Changed("engine"):
					return term.Misuse(fmt.Errorf("edge goes with --rounds and --json only: its rival is the limit " +
						"program"))
				case f.rounds < 1:
					return term.Misuse(fmt.Errorf("rounds is %d, expected at least 1", f.rounds))
				}
				self, err := os.Executable()
				if err != nil {
					return err
				}
				return benchEdge(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), f, self, edgeLength)
			}
			return bench(cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	c.Flags().IntVar(&f.rounds, "rounds", 5, "measurements of each configuration")
	c.Flags().StringVar(&f.engine, "engine", "auto", "engine of the ensemble: auto, eager, blocked, lazy")
	c.Flags().StringSliceVar(&f.against, "against", nil,
		"measure other programs too: numpy (needs python3 with numpy), gonum (the same algorithm on gonum's BLAS)")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	c.Flags().StringVar(&f.profile, "cpuprofile", "",
		"instead of measuring, play for five seconds and write a profile to a file")
	return c
}

// bench measures and prints.
func bench(out, progress io.Writer, f flags) error {
	if f.rounds < 1 {
		return term.Misuse(fmt.Errorf("rounds is %d, expected at least 1", f.rounds))
	}
	for _, name := range f.against {
		if name != "numpy" && name != "gonum" {
			return term.Misuse(fmt.Errorf("against is %q, expected numpy, gonum or both", name))
		}
	}
	cases, err := chooseCases(f.configs)
	if err != nil {
		return term.Misuse(err)
	}
	if f.profile != "" {
		return profile(cases, f)
	}
	p := peers{gonum: slices.Contains(f.against, "gonum")}
	if slices.Contains(f.against, "numpy") {
		if p.numpy, err = startNumpy(); err != nil {
			return err
		}
		defer p.numpy.stop()
		fmt.Fprintf(progress, "numpy %s on %s\n", p.numpy.Numpy, p.numpy.BLAS)
		if !p.numpy.Fast {
			fmt.Fprintln(progress, "warning: this is the reference BLAS, which flatters troupe at C, D and above all "+
				"P; install an optimised one (Debian: libopenblas0)")
		}
	}
	fmt.Fprintf(progress, "kernels: %s; %d rounds in turns\n", cpu.Kernels(), f.rounds)
	if l := newLimits(); l != nil {
		fmt.Fprintln(progress, l)
	}
	var results []benchResult
	for _, c := range cases {
		if c.engine == "" {
			c.engine = f.engine
		}
		r, err := measure(c, f.rounds, p)
		if err != nil {
			return fmt.Errorf("configuration %s: %w", c.name, err)
		}
		results = append(results, r)
		if !f.json {
			fmt.Fprintf(progress, "%s: %.0f ns a round\n", c.name, r.NsPerRound)
		}
	}
	if f.json {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(results)
	}
	return printBench(out, cases, results)
}

// profile plays the configurations under the profiler.
func profile(cases []benchCase, f flags) error {
	w, err := os.Create(f.profile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(w); err != nil {
		return err
	}
	for _, c := range cases {
		if c.engine == "" {
			c.engine = f.engine
		}
		if _, _, err := ours(c, 0, 5); err != nil {
			return err
		}
	}
	pprof.StopCPUProfile()
	return w.Close()
}

func chooseCases(names []string) ([]benchCase, error) {
	if len(names) == 0 {
		return benchCases, nil
	}
	var out []benchCase
	known := slices.Concat(benchCases, growthCases)
	for _, n := range names {
		if n == "growth" {
			out = append(out, growthCases...)
			continue
		}
		i := slices.IndexFunc(known, func(c benchCase) bool {
			return strings.EqualFold(c.name, n) || strings.EqualFold(strings.Replace(c.name, "×", "x", 1), n)
		})
		if i < 0 {
			var all []string
			for _, c := range known {
				all = append(all, c.name)
			}
			return nil, fmt.Errorf("no configuration is called %q; there are %s", n, strings.Join(all, ", "))
		}
		out = append(out, known[i])
	}
	return out, nil
}

func printBench(out io.Writer, cases []benchCase, results []benchResult) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "config\td\tK\tm\tT\tengine\tns/round\tspread\tover limit\toverlapped\tvs plain Go\tvs gonum\tvs "+
		"numpy\t")
	cell := func(p *float64) string {
		if p == nil {
			return "–"
		}
		return fmt.Sprintf("%.3g×", *p)
	}
	for i, r := range results {
		c := cases[i]
		k := fmt.Sprint(c.k)
		if c.k == 0 {
			k = "ball"
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%s\t%.0f\t±%.0f%%\t%s\t%s\t%s\t%s\t%s\t\n", c.name, c.d, k, c.m, c.horizon,
			r.Engine,
			r.NsPerRound, 100*r.Spread, cell(r.RatioLimit), cell(r.RatioOverlap), cell(r.RatioReference),
			cell(r.RatioGonum), cell(r.RatioNumpy))
	}
	return w.Flush()
}

// sample is what one turn found, in nanoseconds a round; 0 where nothing was measured.
type sample struct{ own, limit, overlap, reference, gonum, numpy float64 }

// turns takes turns until rounds of them were calm, and sums up.
func turns(rounds int, turn func(n int) (sample, error)) (benchResult, error) {
	var all []sample
	for tries := 0; len(all) < rounds; tries++ {
		before := probe()
		s, err := turn(len(all))
		if err != nil {
			return benchResult{}, err
		}
		if after := probe(); math.Abs(after/before-1) > 0.15 && tries < 4*rounds {
			continue
		}
		all = append(all, s)
	}
	list := func(f func(s sample) float64) []float64 {
		x := make([]float64, len(all))
		for i, s := range all {
			x[i] = f(s)
		}
		return x
	}
	ratio := func(f func(s sample) float64) *float64 {
		x := median(list(f))
		if !(x > 0) || math.IsInf(x, 1) {
			return nil
		}
		return &x
	}
	own := list(func(s sample) float64 { return s.own })
	return benchResult{
		NsPerRound: median(own), Spread: spread(own),
		RatioLimit:     ratio(func(s sample) float64 { return s.own / s.limit }),
		RatioOverlap:   ratio(func(s sample) float64 { return s.own / s.overlap }),
		RatioReference: ratio(func(s sample) float64 { return s.reference / s.own }),
		RatioGonum:     ratio(func(s sample) float64 { return s.gonum / s.own }),
		RatioNumpy:     ratio(func(s sample) float64 { return s.numpy / s.own }),
	}, nil
}

// measure takes turns of ours, the limits, plain Go and the peers.
func measure(c benchCase, rounds int, p peers) (benchResult, error) {
	if c.replications > 0 && !c.alone {
		return measureRun(c, rounds, p)
	}
	_, engine, err := ours(c, 0, 0.05) // warm
	if err != nil {
		return benchResult{}, err
	}
	r, err := turns(rounds, func(turn int) (s sample, err error) {
		if c.alone {
			s.own, err = runCommandTime(c, turn)
		} else {
			s.own, _, err = ours(c, turn, 0.2)
		}
		if err != nil {
			return s, err
		}
		if c.prob { // of a round with the question, the part of the question
			plain := c
			plain.prob = false
			rest, _, err := ours(plain, turn, 0.2)
			if err != nil {
				return s, err
			}
			s.own -= rest
		} else if c.sets == "" {
			s.reference, _ = plainGo(c, turn, 0.2)
			if p.gonum {
				s.gonum, _ = gonumGo(c, turn, 0.2)
			}
		}
		if c.sets == "" {
			sum, overlapped := newLimits().bound(c, engine)
			s.limit, s.overlap = 1e9*sum, 1e9*overlapped
		}
		if p.numpy != nil {
			s.numpy, _, err = p.numpy.measure(c, turn)
		}
		return s, err
	})
	r.Config, r.Engine = c.name, engine
	return r, err
}

func median(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	return (s[(n-1)/2] + s[n/2]) / 2
}

func spread(x []float64) float64 {
	s := slices.Sorted(slices.Values(x))
	n := len(s)
	return (s[(3*n)/4%n] - s[n/4]) / 2 / median(x)
}

// processTime returns the processor time of this process in seconds.
func processTime() float64 { return sim.ProcessorTime().Seconds() }

// probe does fixed work in registers and the first cache and returns its time.
func probe() float64 {
	start := processTime()
	x := [4]float64{1, 2, 3, 4}
	for range 2_000_000 {
		for i := range x {
			x[i] = math.FMA(x[i], 0.999, 1e-3)
		}
	}
	runtime.KeepAlive(x)
	return processTime() - start
}

// ours plays whole replications until the budget is used up and returns nanoseconds a round, and the
// engine: two names where it changed on the way.
func ours(c benchCase, seed int, budget float64) (ns float64, engine string, err error) {
	var spent float64
	var rounds int
	runtime.GC()
	for rep := 0; rep == 0 || spent < budget; rep++ {
		p, err := playOnce(c, rng.NewKey(uint64(seed)).At(uint64(rep)))
		if err != nil {
			return 0, "", err
		}
		spent += p.spent
		rounds += c.horizon
		engine = p.engine
	}
	return 1e9 * spent / float64(rounds), engine, nil
}

// played is what came out of one replication.
type played struct {
	spent  float64 // seconds of processor time of the rounds
	regret float64
	engine string
}

// Round implements sim.Observer.
func (p *played) Round(_ int, regret, _ float64) error {
	p.regret += regret
	return nil
}

// world describes the environment.
func (c benchCase) world() *env.LinearOptions {
	o := env.NewLinear()
	o.D = c.d
	if c.k > 0 {
		o.Set = actionset.Spec{Kind: "random-sphere", Builder: &actionset.RandomSphereOptions{Arms: c.k,
			Again: c.sets == drawn}}
	}
	return o
}

// policy makes the ensemble of a replication.
func (c benchCase) policy(key rng.Key) (*policy.Ensemble, error) {
	o := policy.EnsembleOptions{
		M: c.m, Lambda: 5, Init: "corrected", Scale: policy.Constant(1), Engine: c.engine,
	}
	if c.engine == "exact-law" {
		o.Targets, o.Init = "gaussian", "prior"
	}
	return policy.NewEnsemble(o, policy.Problem{Dim: c.d, Arms: c.k, Horizon: c.horizon, Sigma: 1,
		Init: key.Stream(rng.Init)})
}

// playOnce plays one replication of a configuration.
func playOnce(c benchCase, key rng.Key) (out played, err error) {
	if c.sets == given {
		return playGiven(c, key)
	}
	var world bandit.Environment
	if c.sets == disjoint {
		world, err = env.NewClassification().Build(key, newContexts(c, key))
	} else {
		world, err = c.world().Build(key, new(dataset.Source))
	}
	if err != nil {
		return out, err
	}
	p, err := c.policy(key)
	if err != nil {
		return out, err
	}
	out.engine = p.Engine()
	var player bandit.Policy = p
	if c.prob {
		player = &asker{Ensemble: p}
	}
	start := processTime() // as the peers: instance and S_0 are there
	if err := sim.Play(world, player, key, c.horizon, &out); err != nil {
		return out, err
	}
	out.spent = processTime() - start
	if last := p.Engine(); last != out.engine {
		out.engine += ", " + last
	}
	return out, nil
}

// asker is an ensemble that says its law in every round.
type asker struct {
	*policy.Ensemble
	law bandit.Law
}

// Select implements bandit.Policy.
func (a *asker) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	if err := a.Prob(&a.law, set, draw); err != nil {
		return err
	}
	return a.Ensemble.Select(dst, set, draw)
}

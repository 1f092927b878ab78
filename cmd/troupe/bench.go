package main

import (
	"bufio"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/dataset"
	"troupe/env"
	"troupe/internal/cpu"
	"troupe/policy"
	"troupe/rng"
	"troupe/sim"
)

// benchCase is one configuration of `troupe bench`: d, K arms on the sphere (0: the unit ball), m
// members, T rounds. Letters are those of docs/performance.md.
type benchCase struct {
	name    string
	d, k, m int
	horizon int
	engine  string // "" is that of --engine
	prob    bool   // ask for the propensities of all arms in every round, and count that alone
}

// benchCases are the standard configurations. A to D have a fixed list of arms; E is the theorem's
// own ensemble size at d = 10, T = 10⁴; E2-exact has Gaussian targets, P asks for propensities.
var benchCases = []benchCase{
	{name: "A", d: 10, k: 10, m: 20, horizon: 10_000},
	{name: "B", d: 20, k: 100, m: 100, horizon: 10_000},
	{name: "C", d: 50, k: 1000, m: 200, horizon: 10_000},
	{name: "D", d: 100, k: 100, m: 1000, horizon: 10_000},
	{name: "E", d: 10, m: 40_000, horizon: 10_000},
	{name: "E2", d: 10, m: 40_000, horizon: 100_000},
	{name: "G", d: 100, m: 20_000, horizon: 10_000},
	{name: "E2-exact", d: 10, m: 40_000, horizon: 100_000, engine: "exact-law"},
	{name: "P", d: 100, k: 100, m: 1000, horizon: 10_000, prob: true},
}

// benchResult is one line of the table, and of --json. Ratios are medians over the rounds; null
// means not measured.
type benchResult struct {
	Config         string   `json:"config"`
	Engine         string   `json:"engine"`
	NsPerRound     float64  `json:"ns_per_round"`
	Spread         float64  `json:"spread"` // half the distance of the quartiles over the median
	RatioReference *float64 `json:"ratio_reference"`
	RatioLimit     *float64 `json:"ratio_limit"`
	RatioNumpy     *float64 `json:"ratio_numpy"`
}

// benchFlags are the flags of `troupe bench`.
type benchFlags struct {
	configs []string
	engine  string
	rounds  int
	against string
	json    bool
	profile string
}

func benchCommand() *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   "bench [configuration...]",
		Short: "Measure speed against plain Go, numpy and the machine",
		Long: `bench plays standard configurations of ensemble sampling and says what a round costs.

Every configuration is measured several times, in turns with the reference (Algorithm 1 in plain
Go) and, with --against numpy, with a numpy program, so that slow phases of the machine hit all
sides; ratios are taken within a turn, and their median is reported. Times are processor time.
A turn in which a probe of fixed work changes by more than 15 % is measured again.`,
		Example: `  troupe bench A B
  troupe bench --against numpy --json > bench.json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			f.configs = args
			return bench(cmd.OutOrStdout(), cmd.ErrOrStderr(), f)
		},
	}
	c.Flags().IntVar(&f.rounds, "rounds", 5, "measurements of each configuration")
	c.Flags().StringVar(&f.engine, "engine", "auto", "engine of the ensemble: auto, eager, blocked, lazy")
	c.Flags().StringVar(&f.against, "against", "", "measure another program too: numpy (needs python3 with numpy)")
	c.Flags().BoolVar(&f.json, "json", false, "print JSON")
	c.Flags().StringVar(&f.profile, "cpuprofile", "", "instead of measuring, play for five seconds and write a profile to a file")
	return c
}

// bench measures and prints.
func bench(out, progress io.Writer, f benchFlags) error {
	if f.rounds < 1 {
		return misuse(fmt.Errorf("rounds is %d, expected at least 1", f.rounds))
	}
	if f.against != "" && f.against != "numpy" {
		return misuse(fmt.Errorf("against is %q, expected numpy", f.against))
	}
	cases, err := chooseCases(f.configs)
	if err != nil {
		return misuse(err)
	}
	if f.profile != "" {
		return profile(cases, f)
	}
	var np *numpyPeer
	if f.against == "numpy" {
		if np, err = startNumpy(); err != nil {
			return err
		}
		defer np.stop()
		fmt.Fprintf(progress, "numpy %s on %s\n", np.Numpy, np.BLAS)
	}
	fmt.Fprintf(progress, "kernels: %s; processor time, %d rounds in turns\n", cpu.Kernels(), f.rounds)
	var results []benchResult
	for _, c := range cases {
		if c.engine == "" {
			c.engine = f.engine
		}
		r, err := measure(c, f.rounds, np)
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
func profile(cases []benchCase, f benchFlags) error {
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
		if _, err := ours(c, 0, 5); err != nil {
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
	for _, n := range names {
		i := slices.IndexFunc(benchCases, func(c benchCase) bool { return strings.EqualFold(c.name, n) })
		if i < 0 {
			var all []string
			for _, c := range benchCases {
				all = append(all, c.name)
			}
			return nil, fmt.Errorf("no configuration is called %q; there are %s", n, strings.Join(all, ", "))
		}
		out = append(out, benchCases[i])
	}
	return out, nil
}

func printBench(out io.Writer, cases []benchCase, results []benchResult) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "config\td\tK\tm\tT\tengine\tns/round\tspread\tvs plain Go\tvs numpy\t")
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
		fmt.Fprintf(w, "%s\t%d\t%s\t%d\t%d\t%s\t%.0f\t±%.0f %%\t%s\t%s\t\n", c.name, c.d, k, c.m, c.horizon, r.Engine,
			r.NsPerRound, 100*r.Spread, cell(r.RatioReference), cell(r.RatioNumpy))
	}
	return w.Flush()
}

// measure takes rounds turns of (ours, plain Go, numpy).
func measure(c benchCase, rounds int, np *numpyPeer) (benchResult, error) {
	if _, err := ours(c, 0, 0.05); err != nil { // warm
		return benchResult{}, err
	}
	if c.prob {
		np = nil // it does not do this
	}
	var own, ref, num []float64
	for turn, tries := 0, 0; turn < rounds; tries++ {
		before := probe()
		a, err := ours(c, turn, 0.2)
		if err != nil {
			return benchResult{}, err
		}
		b := plainGo(c, turn, 0.2)
		var n float64
		if np != nil {
			if n, err = np.measure(c, turn); err != nil {
				return benchResult{}, err
			}
		}
		if after := probe(); math.Abs(after/before-1) > 0.15 && tries < 4*rounds {
			continue
		}
		turn++
		own = append(own, a)
		ref = append(ref, b/a)
		num = append(num, n/a)
	}
	r := benchResult{Config: c.name, Engine: c.engine, NsPerRound: median(own), Spread: spread(own)}
	if !c.prob {
		x := median(ref)
		r.RatioReference = &x
	}
	if np != nil {
		y := median(num)
		r.RatioNumpy = &y
	}
	return r, nil
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

// total sums what happens in a play.
type total struct{ regret float64 }

func (o *total) Round(_ int, regret, _ float64) error {
	o.regret += regret
	return nil
}

// ours plays whole replications until the budget is used up and returns nanoseconds a round.
func ours(c benchCase, seed int, budget float64) (float64, error) {
	var spent float64
	var rounds int
	runtime.GC()
	for rep := 0; rep == 0 || spent < budget; rep++ {
		key := rng.NewKey(uint64(seed)).At(uint64(rep))
		o := env.NewLinear()
		o.D = c.d
		if c.k > 0 {
			o.Set = actionset.Spec{Kind: "random-sphere", Builder: &actionset.RandomSphereOptions{Arms: c.k}}
		}
		world, err := o.Build(key, new(dataset.Source))
		if err != nil {
			return 0, err
		}
		var t total
		start := processTime()
		opts := policy.EnsembleOptions{
			M: c.m, Symmetric: true, Lambda: 5, Init: "corrected", Scale: policy.Constant(1), Engine: c.engine,
		}
		if c.engine == "exact-law" {
			opts.Targets, opts.Init = "gaussian", "prior"
		}
		p, err := policy.NewEnsemble(opts, policy.Problem{Dim: c.d, Arms: c.k, Horizon: c.horizon, Sigma: 1, Init: key.Stream(rng.Init)})
		if err != nil {
			return 0, err
		}
		var player bandit.Policy = p
		asker := &asker{Ensemble: p}
		if c.prob {
			player = asker
		}
		if err := sim.Play(world, player, key, c.horizon, &t); err != nil {
			return 0, err
		}
		if c.prob {
			spent += asker.spent
		} else {
			spent += processTime() - start
		}
		rounds += c.horizon
	}
	return 1e9 * spent / float64(rounds), nil
}

// asker is an ensemble that says its law in every round.
type asker struct {
	*policy.Ensemble
	law   bandit.Law
	spent float64
}

// Select implements bandit.Policy.
func (a *asker) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	start := processTime()
	if err := a.Prob(&a.law, set); err != nil {
		return err
	}
	a.spent += processTime() - start
	return a.Ensemble.Select(dst, set, draw)
}

// plainGo is Algorithm 1 as one would write it in Go: rows, loops, math/rand/v2. It keeps S and
// solves the member that was drawn. It returns nanoseconds a round.
func plainGo(c benchCase, seed int, budget float64) float64 {
	d, m := c.d, c.m
	r := rand.New(rand.NewPCG(uint64(seed), 1))
	sphere := func(x []float64, size float64) {
		var q float64
		for i := range x {
			x[i] = r.NormFloat64()
			q += x[i] * x[i]
		}
		for i := range x {
			x[i] *= size / math.Sqrt(q)
		}
	}
	dot := func(a, b []float64) float64 {
		var s float64
		for i, v := range a {
			s += v * b[i]
		}
		return s
	}
	star := make([]float64, d)
	sphere(star, 1)
	arms := make([][]float64, c.k)
	top := 1.0
	if c.k > 0 {
		top = math.Inf(-1)
	}
	for i := range arms {
		arms[i] = make([]float64, d)
		sphere(arms[i], 1)
		top = max(top, dot(arms[i], star))
	}
	const lambda = 5
	s := make([][]float64, m)
	for j := range s {
		s[j] = make([]float64, d)
		sphere(s[j], math.Sqrt(lambda*float64(d)))
	}
	inv := make([][]float64, d)
	for i := range inv {
		inv[i] = make([]float64, d)
		inv[i][i] = 1 / lambda
	}
	hat, theta, gain, x := make([]float64, d), make([]float64, d), make([]float64, d), make([]float64, d)
	regret := 0.0
	start := processTime()
	for t := 1; ; t++ {
		j, sign := r.IntN(m), float64(1-2*r.IntN(2))
		for i := range theta {
			theta[i] = hat[i] + sign*dot(inv[i], s[j])
		}
		if c.k > 0 {
			best := math.Inf(-1)
			for _, a := range arms {
				if v := dot(a, theta); v > best {
					best, x = v, a
				}
			}
		} else {
			n := math.Sqrt(dot(theta, theta))
			for i := range theta {
				x[i] = theta[i] / n
			}
		}
		mean := dot(x, star)
		regret += top - mean
		y := mean + r.NormFloat64()
		for i := range gain {
			gain[i] = dot(inv[i], x)
		}
		size := 1 + dot(x, gain)
		e := (y - dot(x, hat)) / size
		for i, g := range gain {
			hat[i] += g * e
			row := inv[i]
			for k, h := range gain {
				row[k] -= g * h / size
			}
		}
		for j := range s {
			u := 2*r.Float64() - 1
			row := s[j]
			for i, v := range x {
				row[i] += u * v
			}
		}
		if t == c.horizon || t%16 == 0 && processTime()-start > budget {
			runtime.KeepAlive(regret)
			return 1e9 * (processTime() - start) / float64(t)
		}
	}
}

// numpyProgram is the peer.
//
//go:embed bench_numpy.py
var numpyProgram string

// numpyPeer is a running numpy program.
type numpyPeer struct {
	Numpy string `json:"numpy"`
	BLAS  string `json:"blas"`

	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// startNumpy tries the python3 of the path, then Debian's.
func startNumpy() (*numpyPeer, error) {
	p, err := startPython("python3")
	if err != nil {
		if q, second := startPython("/usr/bin/python3"); second == nil {
			return q, nil
		}
	}
	return p, err
}

func startPython(name string) (*numpyPeer, error) {
	p := &numpyPeer{cmd: exec.Command(name, "-u", "-c", numpyProgram)}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var complaint strings.Builder
	p.cmd.Stderr = &complaint
	p.out = bufio.NewReader(out)
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s does not start: %w", name, err)
	}
	if err := p.read(p); err != nil {
		_ = p.cmd.Wait() // for its complaint
		lines := strings.Split(strings.TrimSpace(complaint.String()), "\n")
		return nil, fmt.Errorf("%s has no numpy (Debian: python3-numpy): %s", name, lines[len(lines)-1])
	}
	return p, nil
}

func (p *numpyPeer) read(v any) error {
	line, err := p.out.ReadBytes('\n')
	if err != nil {
		return err
	}
	return json.Unmarshal(line, v)
}

// measure returns nanoseconds a round of the better of the program's two designs.
func (p *numpyPeer) measure(c benchCase, seed int) (float64, error) {
	ask, err := json.Marshal(map[string]any{"d": c.d, "K": c.k, "m": c.m, "rounds": c.horizon, "budget": 0.25, "seed": seed})
	if err != nil {
		return 0, err
	}
	if _, err := p.in.Write(append(ask, '\n')); err != nil {
		return 0, err
	}
	var answer struct {
		US float64 `json:"us"`
	}
	if err := p.read(&answer); err != nil {
		return 0, fmt.Errorf("numpy stopped: %w", err)
	}
	if !(answer.US > 0) {
		return 0, errors.New("numpy gave no time")
	}
	return 1000 * answer.US, nil
}

func (p *numpyPeer) stop() {
	_ = p.in.Close() // ends its loop
	_ = p.cmd.Wait()
}

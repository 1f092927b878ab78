package process

import (
	"bufio"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/env"
	"troupe/policy"
	"troupe/rng"
)

// answerLinUCB is a program of the tests: troupe's own LinUCB behind lines of JSON.
func answerLinUCB() {
	in := bufio.NewReader(os.Stdin)
	out := json.NewEncoder(os.Stdout)
	if _, err := readLine(in); err != nil {
		return
	}
	fatal := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	fatal(out.Encode(hello{Type: "hello", Protocol: Protocol, Name: "linucb", Law: true}))
	players, sets := make(map[uint32]*policy.LinUCB), make(map[uint32]*actionset.Finite)
	for {
		line, err := readLine(in)
		if err != nil {
			return
		}
		var r request
		fatal(json.Unmarshal(line, &r))
		if r.Arms != nil {
			sets[r.Cell], err = actionset.NewFinite(r.Arms)
			fatal(err)
		}
		p, set := players[r.Cell], sets[r.Cell]
		switch r.Type {
		case "init":
			players[r.Cell], err = policy.NewLinUCB(policy.LinUCBOptions{}, policy.Problem{Dim: r.Problem.Dim, Arms: r.Problem.Arms, Sigma: r.Problem.Sigma})
			fatal(err)
			fatal(out.Encode(answer{Type: "ready", Cell: r.Cell}))
		case "select":
			var a bandit.Action
			fatal(p.Select(&a, set, rng.Source{}))
			fatal(out.Encode(answer{Type: "action", Cell: r.Cell, Index: &a.Index}))
		case "law":
			var law bandit.Law
			fatal(p.Prob(&law, set, rng.Source{}))
			probs := make([]float64, set.Len())
			for i, a := range law.Atoms {
				probs[i] = a.P
			}
			fatal(out.Encode(answer{Type: "law", Cell: r.Cell, Law: probs}))
		case "update":
			fatal(p.Update(bandit.Action{X: set.At(*r.Index), Index: *r.Index}, *r.Reward, rng.Source{}))
		case "end":
			delete(players, r.Cell)
			delete(sets, r.Cell)
		}
	}
}

// linear is a world with arms of different lengths, so that no two first scores are equal.
func linear(t testing.TB, d, arms int, redraw bool, key rng.Key) (bandit.Environment, policy.Problem) {
	t.Helper()
	o := env.NewLinear()
	o.D, o.Set = d, actionset.Spec{Kind: "random-ball", Builder: &actionset.RandomBallOptions{Arms: arms, Again: redraw}}
	w, err := o.Build(key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w, policy.Problem{Dim: d, Arms: arms, Sigma: 1, Init: key.Stream(rng.Init)}
}

// trajectory plays a cell and returns its actions and its regret.
func trajectory(t testing.TB, w bandit.Environment, p bandit.Policy, key rng.Key, rounds int) (actions []int, regret float64) {
	t.Helper()
	var a bandit.Action
	for i := range rounds {
		round := uint64(i + 1)
		set, err := w.Offer(key.Stream(rng.Offer).Round(round))
		if err == nil {
			err = p.Select(&a, set, key.Stream(rng.Select).Round(round))
		}
		var y, lost float64
		if err == nil {
			y, lost, err = w.(bandit.Settler).Settle(a, key.Stream(rng.Reward).Round(round))
		}
		if err == nil {
			err = p.Update(a, y, key.Stream(rng.Perturb).Round(round))
		}
		if err != nil {
			t.Fatal(err)
		}
		actions, regret = append(actions, a.Index), regret+lost
	}
	return actions, regret
}

// TestSamePolicy: a policy of troupe behind the protocol plays what it plays built in: actions, regret to the bit, and
// the law at the end.
func TestSamePolicy(t *testing.T) {
	for _, redraw := range []bool{false, true} {
		key := rng.NewKey(5)
		w, problem := linear(t, 6, 12, redraw, key)
		own, err := policy.NewLinUCB(policy.LinUCBOptions{}, problem)
		if err != nil {
			t.Fatal(err)
		}
		o := program(t, "")
		o.Env = append(o.Env, "PROCESS_ANSWERS=linucb")
		other, err := o.New(problem)
		if err != nil {
			t.Fatal(err)
		}
		actions, regret := trajectory(t, w, own, key, 400)
		w, _ = linear(t, 6, 12, redraw, key)
		got, cost := trajectory(t, w, other, key, 400)
		if fmt.Sprint(got) != fmt.Sprint(actions) || cost != regret {
			t.Errorf("redraw %v: built in %v with regret %v, as a program %v with regret %v", redraw, actions, regret, got, cost)
		}
		set, err := w.Offer(key.Stream(rng.Offer).Round(401))
		if err != nil {
			t.Fatal(err)
		}
		var a, b bandit.Law
		err1 := own.Prob(&a, set, key.Stream(rng.Select).Round(401))
		err2 := other.(bandit.Prober).Prob(&b, set, key.Stream(rng.Select).Round(401))
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		for i := range a.Atoms {
			if a.Atoms[i].P != b.Atoms[i].P {
				t.Errorf("arm %d has probability %v built in, %v as a program", i, a.Atoms[i].P, b.Atoms[i].P)
			}
		}
	}
}

// numpy returns options that play a class of linucb.py, with a Python that has numpy.
func numpy(t testing.TB, kind string, lines bool) *Options {
	t.Helper()
	o := python(t, "linucb.py", lines)
	for _, name := range []string{"python3", "/usr/bin/python3"} { // the second is Debian's, where another is in front of it
		if exec.Command(name, "-c", "import numpy").Run() == nil {
			o.Command = []string{name, "linucb.py", kind}
			o.Env = append(o.Env, "OMP_NUM_THREADS=1", "OPENBLAS_NUM_THREADS=1")
			return o
		}
	}
	if os.Getenv("CI") != "" {
		t.Fatal("no python3 has numpy")
	}
	t.Skip("no python3 has numpy")
	return nil
}

// TestNumpy: LinUCB written in numpy plays what troupe's plays, round for round, on equal instances; Thompson sampling,
// which has other random numbers there, has an equal mean regret: the paired difference of 200 runs (40 shorter ones
// without TROUPE_LONG) is within 3 standard errors, which one seed in 370 exceeds by chance.
func TestNumpy(t *testing.T) {
	t.Parallel()
	runs, rounds := 40, 60 // of Thompson sampling
	if os.Getenv("TROUPE_LONG") != "" {
		runs, rounds = 200, 300
	}
	o := numpy(t, "linucb", false)
	o.Options = Table{"alpha": 0.7}
	for rep := range uint64(5) {
		key := rng.NewKey(11).At(rep)
		w, problem := linear(t, 5, 20, rep%2 == 1, key)
		own, err := policy.NewLinUCB(policy.LinUCBOptions{Scale: policy.Constant(0.7)}, problem)
		if err != nil {
			t.Fatal(err)
		}
		want, _ := trajectory(t, w, own, key, 500)
		w, _ = linear(t, 5, 20, rep%2 == 1, key)
		other, err := o.New(problem)
		if err != nil {
			t.Fatal(err)
		}
		got, _ := trajectory(t, w, other, key, 500)
		other.(*player).Close() //nolint:errcheck // the next cell takes its program: numpy starts slowly
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("replication %d, round %d: numpy plays %d, troupe %d", rep, i+1, got[i], want[i])
			}
		}
	}
	o = numpy(t, "ts", false)
	total, mean, se := difference(t, runs, rounds, o, 12, func(key rng.Key) (bandit.Environment, policy.Problem) {
		return linear(t, 5, 20, false, key)
	})
	t.Logf("Thompson sampling: regret %.2f, less that of numpy %.3f, standard error %.3f, %d runs", total, mean, se, runs)
	if math.Abs(mean) > 3*se {
		t.Errorf("Thompson sampling has regret %.3f above that of numpy, standard error %.3f", mean, se)
	}
}

// difference plays troupe's Thompson sampling and a program on equal instances with equal noise: the mean regret of the
// first, what it has above that of the second, and the standard error of that.
func difference(t *testing.T, runs, rounds int, o *Options, seed uint64,
	build func(rng.Key) (bandit.Environment, policy.Problem)) (total, mean, se float64) {
	t.Helper()
	var sum, square float64
	for rep := range runs {
		key := rng.NewKey(seed).At(uint64(rep))
		w, problem := build(key)
		own, err := policy.NewThompson(policy.ThompsonOptions{}, problem)
		if err != nil {
			t.Fatal(err)
		}
		_, a := trajectory(t, w, own, key, rounds)
		w, _ = build(key)
		other, err := o.New(problem)
		if err != nil {
			t.Fatal(err)
		}
		_, b := trajectory(t, w, other, key, rounds)
		other.(*player).Close() //nolint:errcheck // the cell has its numbers
		sum, square, total = sum+a-b, square+float64((a-b)*(a-b)), total+a
	}
	n := float64(runs)
	return total / n, sum / n, math.Sqrt((square/n - float64(sum/n*sum/n)) / (n - 1))
}

// blocks is a world with a context of unit length in every round and a parameter for each arm: arm i is the context at
// the place of block i. It is what packages with a model for each arm play.
type blocks struct {
	arms, dim int
	theta     []float64
	set       *actionset.Finite
}

func (b *blocks) Dim() int { return b.arms * b.dim }

func (b *blocks) Offer(draw rng.Source) (bandit.ActionSet, error) {
	rows := make([][]float64, b.arms)
	for i := range rows {
		rows[i] = make([]float64, b.Dim())
		draw.Sphere(rows[i][i*b.dim:(i+1)*b.dim], 0)
	}
	var err error
	b.set, err = actionset.NewFinite(rows)
	return b.set, err
}

func (b *blocks) mean(x []float64) (m float64) {
	for i, v := range x {
		m += float64(v * b.theta[i])
	}
	return m
}

func (b *blocks) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	return b.mean(a.X) + draw.Normal(0), nil
}

func (b *blocks) Regret(a bandit.Action) (float64, error) {
	best := math.Inf(-1)
	for i := range b.set.Len() {
		best = max(best, b.mean(b.set.At(i)))
	}
	return best - b.mean(a.X), nil
}

func (b *blocks) Settle(a bandit.Action, draw rng.Source) (float64, float64, error) {
	y, err := b.Reward(a, draw)
	regret, _ := b.Regret(a)
	return y, regret, err
}

// block is a world of blocks: 4 arms with contexts of 3 numbers.
func block(key rng.Key) (bandit.Environment, policy.Problem) {
	b := &blocks{arms: 4, dim: 3, theta: make([]float64, 12)}
	key.Stream(rng.Instance).Round(0).Sphere(b.theta, 0)
	return b, policy.Problem{Dim: 12, Arms: 4, Sigma: 1, Init: key.Stream(rng.Init)}
}

// ucb1 is the twin of SMPyBandits' UCB, which troupe has no kind for: the largest mean plus √(2·log t/n) after t rewards,
// n of them of the arm; each arm once before.
type ucb1 struct{ sums, counts []float64 }

func (u *ucb1) Select(dst *bandit.Action, set bandit.ActionSet, _ rng.Source) error {
	list := set.(bandit.Finite)
	t, best := 0.0, 0
	for _, n := range u.counts {
		t += n
	}
	score := func(i int) float64 { return u.sums[i]/u.counts[i] + math.Sqrt(2*math.Log(t)/u.counts[i]) }
	for i, n := range u.counts {
		if n == 0 {
			best = i
			break
		}
		if score(i) > score(best) {
			best = i
		}
	}
	dst.Set(list.At(best), best)
	return nil
}

func (u *ucb1) Update(a bandit.Action, y float64, _ rng.Source) error {
	u.sums[a.Index] += y
	u.counts[a.Index]++
	return nil
}

// rival returns options that play an adapter of rivals.py with packages that stand in some directories.
func rival(t *testing.T, name, packages string) *Options {
	o := numpy(t, name, false)
	o.Command[1] = "rivals.py"
	o.Options = Table{"alpha": 0.7}
	for i, e := range o.Env {
		if strings.HasPrefix(e, "PYTHONPATH=") {
			o.Env[i] = e + ":" + packages
		}
	}
	return o
}

// TestRivalsRecord plays learners of other packages beside troupe's, for docs/record/process.md. TROUPE_RIVALS lists,
// with colons, the directories of checkouts of coba and mabwiser, and SMPyBandits/Policies of one of SMPyBandits, which
// are not part of troupe. TROUPE_RIVAL plays one of them.
func TestRivalsRecord(t *testing.T) {
	packages := os.Getenv("TROUPE_RIVALS")
	if packages == "" {
		t.Skip("set TROUPE_RIVALS to checkouts of coba, mabwiser and SMPyBandits, with colons between them")
	}
	const rounds, runs = 300, 5
	drawn := func(key rng.Key) (bandit.Environment, policy.Problem) { return linear(t, 5, 20, true, key) }
	ucb := func(problem policy.Problem) (bandit.Policy, error) {
		return policy.NewLinUCB(policy.LinUCBOptions{Scale: policy.Constant(0.7)}, problem)
	}
	for _, c := range []struct {
		name  string
		build func(rng.Key) (bandit.Environment, policy.Problem)
		own   func(policy.Problem) (bandit.Policy, error) // nil: Thompson sampling, whose regret is compared
	}{
		{"coba", drawn, ucb},
		{"mabwiser", block, ucb},
		{"smpybandits", func(key rng.Key) (bandit.Environment, policy.Problem) { return linear(t, 5, 8, false, key) },
			func(p policy.Problem) (bandit.Policy, error) {
				return &ucb1{make([]float64, p.Arms), make([]float64, p.Arms)}, nil
			}},
		{"coba-ts", drawn, nil},
		{"mabwiser-ts", block, nil},
	} {
		if only := os.Getenv("TROUPE_RIVAL"); only != "" && only != c.name {
			continue
		}
		o := rival(t, c.name, packages)
		if c.own == nil {
			o.Options = Table{"alpha": 1.0}
			total, mean, se := difference(t, 200, rounds, o, 14, c.build)
			t.Logf("%s: Thompson sampling has regret %.2f in 200 runs of %d rounds, above that of the package %.2f, standard error "+
				"%.2f", c.name, total, rounds, mean, se)
			if !(math.Abs(mean) <= 3*se) {
				t.Errorf("%s: the difference is above 3 standard errors", c.name)
			}
			continue
		}
		same := 0
		for rep := range uint64(runs) {
			key := rng.NewKey(13).At(rep)
			w, problem := c.build(key)
			own, err := c.own(problem)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := trajectory(t, w, own, key, rounds)
			w, _ = c.build(key)
			other, err := o.New(problem)
			if err != nil {
				t.Fatal(err)
			}
			got, _ := trajectory(t, w, other, key, rounds)
			part := -1
			for i := range want {
				if got[i] != want[i] {
					part = i
					break
				}
			}
			if part < 0 {
				same++
			} else {
				t.Errorf("%s, replication %d, round %d: it plays %d, troupe %d", c.name, rep, part+1, got[part], want[part])
			}
		}
		t.Logf("%s: equal actions in all of %d rounds in %d of %d replications", c.name, rounds, same, runs)
	}
}

// processor returns the processor time of this process and of the programs that have ended.
func processor(t *testing.T) time.Duration {
	t.Helper()
	var sum time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			t.Fatal(err)
		}
		sum += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return sum
}

// TestPriceRecord measures what a message costs, for docs/record/process.md: rounds for a second of processor time of
// both sides, with 8 cells in one program, in turns. The time of 2,000 rounds, in which the program starts, is taken off.
func TestPriceRecord(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("set TROUPE_RECORD=1: takes a minute")
	}
	const d, arms, few, rounds, cells = 10, 20, 2000, 26_000, 8
	key := rng.NewKey(3)
	seconds := func(rounds int, o *Options, turns bool) float64 {
		began := processor(t)
		one := func(c uint64, others policy.Turns) {
			w, problem := linear(t, d, arms, false, key.At(c))
			problem.Turns = others
			var p bandit.Policy
			var err error
			if o == nil {
				p, err = policy.NewLinUCB(policy.LinUCBOptions{}, problem)
			} else {
				p, err = o.New(problem)
			}
			if err != nil {
				t.Fatal(err)
			}
			trajectory(t, w, p, key.At(c), rounds/cells)
			if player, ok := p.(*player); ok {
				player.Close() //nolint:errcheck // the cell has its numbers
			}
		}
		if turns {
			byTurns(cells, func(i int, others policy.Turns) { one(uint64(i), others) })
		} else {
			for c := range uint64(cells) {
				one(c, nil)
			}
		}
		if o != nil {
			o.Close() //nolint:errcheck // the program ends, and its time counts
		}
		return (processor(t) - began).Seconds()
	}
	rate := func(o *Options, turns bool) float64 {
		return (rounds - few) / (seconds(rounds, o, turns) - seconds(few, o, turns))
	}
	inGo := program(t, "")
	inGo.Env = append(inGo.Env, "PROCESS_ANSWERS=linucb")
	frames, lines := numpy(t, "linucb", false), numpy(t, "linucb", true)
	alone := func() float64 {
		c := exec.Command(frames.Command[0], "alone.py", strconv.Itoa(rounds), strconv.Itoa(d), strconv.Itoa(arms))
		c.Dir, c.Env = "testdata", append(os.Environ(), frames.Env...)
		out, err := c.Output()
		if err != nil {
			t.Fatal(err)
		}
		rate, err := strconv.ParseFloat(strings.TrimSpace(string(out)), 64)
		if err != nil {
			t.Fatal(err)
		}
		return rate
	}
	var ratios [4][]float64
	for turn := range 10 {
		loop := alone()
		row := [4]float64{rate(frames, true), rate(lines, true), rate(frames, false), rate(lines, false)}
		for i, r := range row {
			ratios[i] = append(ratios[i], r/loop)
		}
		t.Logf("turn %d: built in %.0f, the same in Go by lines %.0f; numpy alone %.0f; 8 cells by turns %.0f by frames, %.0f by "+
			"lines; one at a time %.0f, %.0f", turn+1, rate(nil, false), rate(inGo, false), loop, row[0], row[1], row[2], row[3])
	}
	for i, name := range []string{"by turns, frames", "by turns, lines", "one at a time, frames", "one at a time, lines"} {
		slices.Sort(ratios[i])
		t.Logf("%s: %.2f of the loop in the median of %d turns, %.2f to %.2f", name, (ratios[i][4]+ratios[i][5])/2,
			len(ratios[i]), ratios[i][0], ratios[i][9])
	}
}

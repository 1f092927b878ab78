package sim_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/env"
	"troupe/policy"
	"troupe/rng"
	"troupe/sim"
	"troupe/spec"
)

// ledger is a priced world that writes down what was played.
type ledger struct {
	bandit.Costly
	arm          []int
	reward, cost []float64
	all          [][]float64 // rewards, then costs, of every action in the round
	arms         int
}

func (l *ledger) Cost(a bandit.Action) (float64, error) {
	c, err := l.Costly.Cost(a)
	l.cost = append(l.cost, c)
	return c, err
}

func (l *ledger) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	y, err := l.Costly.Reward(a, draw)
	l.reward, l.arm = append(l.reward, y), append(l.arm, a.Index)
	var all []float64
	for i := range 2 * l.arms {
		var v float64
		var err error
		if b := (bandit.Action{Index: i % l.arms}); i < l.arms {
			v, err = l.Costly.Reward(b, draw)
		} else {
			v, err = l.Costly.Cost(b)
		}
		if err != nil {
			v = math.NaN() // it is not there
		}
		all = append(all, v)
	}
	l.all = append(l.all, all)
	return y, err
}

type silent struct{}

func (silent) Round(int, float64, float64) error { return nil }

// playPriced plays a policy on paretobandit.csv.
func playPriced(t *testing.T, seed, rounds int, options spec.Raw, pol spec.Raw) *ledger {
	t.Helper()
	table := spec.Raw{"kind": "priced-table", "data": paretoFile(t)}
	for k, v := range options {
		table[k] = v
	}
	o, err := spec.Decode(env.Kinds, table, "environment")
	if err != nil {
		t.Fatal(err)
	}
	key := rng.NewKey(31).At(uint64(seed))
	world, err := o.Build(key, new(dataset.Source))
	if err != nil {
		t.Fatal(err)
	}
	p, err := spec.Decode(policy.Kinds, pol, "policy")
	if err != nil {
		t.Fatal(err)
	}
	player, err := p.New(policy.Problem{Dim: world.Dim(), Horizon: rounds, Arms: 4, Sigma: .5, Init: key.Stream(rng.Init)})
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{Costly: world.(bandit.Costly), arms: 4}
	if err := sim.Play(l, player, key, rounds, silent{}); err != nil {
		t.Fatal(err)
	}
	return l
}

// paretoFile returns the file of rewards and costs, or skips the test.
func paretoFile(t *testing.T) string {
	t.Helper()
	const name = "paretobandit.csv"
	dirs := []string{os.Getenv("TROUPE_DATA")}
	wd, _ := os.Getwd()
	for d := wd; d != filepath.Dir(d); d = filepath.Dir(d) {
		dirs = append(dirs, filepath.Join(d, "shared", "data"))
	}
	for _, d := range dirs {
		if p := filepath.Join(d, name); d != "" {
			if _, err := os.Stat(p); err == nil {
				return p
			}
		}
	}
	t.Skipf("the file %s is absent: set TROUPE_DATA to its directory", name)
	return ""
}

// coin returns the mean reward of the best coin between two fixed actions with a mean cost of at most c, on the same rounds.
func (l *ledger) coin(from int, c float64) float64 {
	n := float64(len(l.all) - from)
	mean := make([]float64, 2*l.arms)
	for _, all := range l.all[from:] {
		for i, v := range all {
			mean[i] += v / n
		}
	}
	reward, cost := mean[:l.arms], mean[l.arms:]
	best := math.Inf(-1)
	for i := range reward {
		for j := range reward {
			if cost[i] <= c {
				p := 0.0
				if cost[j] > c {
					p = (c - cost[i]) / (cost[j] - cost[i])
				}
				best = max(best, reward[i]+p*(reward[j]-reward[i]))
			}
		}
	}
	return best
}

func sum(v []float64) (s float64) {
	for _, x := range v {
		s += x
	}
	return s
}

// paretoBudgets are those of docs/record/budget.md.
var paretoBudgets = []float64{1.2e-4, 2.4e-4, 4e-4, 6.6e-4, 9e-4, 1.9e-3, 5e-3}

// TestBudgetOnPareto: on the rows of paretobandit.csv in random order what is spent stays within the budget, and the second
// half of the rounds earns what a coin of the same cost does, or more. The seeds are fixed; by default one at one budget, with
// TROUPE_RECORD all of the table in docs/record/budget.md.
func TestBudgetOnPareto(t *testing.T) {
	const rounds = 1766
	budgets, seeds := []float64{2.4e-4}, 1
	record := os.Getenv("TROUPE_RECORD") != "" // the name of a policy, or anything for budgeted
	policies := map[string]spec.Raw{"budgeted": {"kind": "budgeted"}}
	if record {
		budgets, seeds = paretoBudgets, 20
		switch os.Getenv("TROUPE_RECORD") {
		case "mean costs":
			policies = map[string]spec.Raw{"mean costs": {"kind": "budgeted", "costs": "mean"}}
		case "greedy":
			policies = map[string]spec.Raw{"5% uniform, with the price": {"kind": "budgeted",
				"base": spec.Raw{"kind": "mixed", "epsilon": .05, "base": spec.Raw{"kind": "effects"}}}}
		case "pareto":
			policies = map[string]spec.Raw{"ParetoBandit's rule": {"kind": "budgeted", "rule": "pareto", "costs": "mean",
				"base": spec.Raw{"kind": "linucb", "discount": .997, "scale": spec.Raw{"kind": "constant", "value": .05}}}}
			seeds = 4 // d² numbers a round, d = 148
		}
	}
	for name := range policies {
		for _, b := range budgets {
			var over, most, gain, gains float64
			for s := range seeds {
				options := spec.Raw{"budget": b}
				if strings.Contains(name, "Pareto") {
					options["features"] = "block"
				}
				l := playPriced(t, s+1, rounds, options, policies[name])
				o := sum(l.cost) / rounds / b
				over, most = over+o/float64(seeds), max(most, o)
				half := float64(rounds - rounds/2)
				g := sum(l.reward[rounds/2:])/half - l.coin(rounds/2, sum(l.cost[rounds/2:])/half)
				gain, gains = gain+g/float64(seeds), gains+g*g/float64(seeds)
			}
			deviation := math.Sqrt(max(0, gains-gain*gain) / float64(max(1, seeds-1)))
			line := fmt.Sprintf("%s: budget %.2g: cost over budget %.3f, at most %.3f; against the coin %+.4f ± %.4f", name, b,
				over, most, gain, deviation)
			t.Log(line)
			if name != "budgeted" {
				continue
			}
			least := -.005
			if b == 2.4e-4 {
				least = .008
			}
			if over > 1.01 || most > 1.05 || gain < least {
				t.Errorf("%s; want at most 1.01, 1.05, and at least %v", line, least)
			}
		}
	}
}

// TestBudgetChanges: a model whose cost doubles, one that breaks, and a better one that enters, at round 883 of 1766. The mean
// cost of decisions 100 to 300 after it is at most 1.05 of a budget of 6.6e-4 (the record has others). How soon a broken model is left alone depends on what the
// base forgets, which for hashed is nothing: docs/record/budget.md has the share that it keeps. By default four seeds
// and no model that enters, with TROUPE_RECORD 20 and more budgets.
func TestBudgetChanges(t *testing.T) {
	const rounds, at = 1766, 883
	budgets, seeds := []float64{6.6e-4}, 4
	if os.Getenv("TROUPE_RECORD") != "" {
		budgets, seeds = []float64{2.4e-4, 6.6e-4, 1.9e-3}, 20
	}
	for _, c := range []struct {
		change, action string
		arm            int
	}{
		{"cost", "mistral-large-2512", 3}, {"break", "mistral-large-2512", 3}, {"enter", "mistral-large-2512", 3},
	} {
		if c.change == "enter" && seeds == 4 {
			continue // its 200 decisions spread too widely for four seeds
		}
		for _, b := range budgets {
			var over, most, share, gain float64
			for s := range seeds {
				l := playPriced(t, s+1, at+310, spec.Raw{"budget": b, "change": c.change, "action": c.action, "at": int64(at)},
					spec.Raw{"kind": "budgeted"})
				o := sum(l.cost[at+99:at+300]) / 201 / b
				over, most = over+o/float64(seeds), max(most, o)
				for _, a := range l.arm[at+59 : at+160] {
					if a == c.arm {
						share += 1 / float64(101*seeds)
					}
				}
				gain += (sum(l.reward[at+99:at+300])/201 - l.coin(at+99, b)) / float64(seeds)
			}
			line := fmt.Sprintf("%s, budget %.2g: cost over budget %.3f, at most %.3f; share of it %.3f; against the coin %+.4f",
				c.change, b, over, most, share, gain)
			t.Log(line)
			if b == 6.6e-4 && over > 1.05 {
				t.Errorf("%s; want at most 1.05", line)
			}
		}
	}
}

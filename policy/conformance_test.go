package policy_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/bandittest"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

const (
	anySet   = "any set" // Prob is supported there
	finite   = "finite sets"
	noSet    = "no set"
	some     = "some sets" // what the kind's own test says
	lists    = "lists"
	interval = "numbers"
)

// example is one configuration of a kind and what is special about it.
type example struct {
	table  string // for the test's name
	raw    spec.Raw
	law    string // where Prob is supported
	only   string // the sets it runs on, when not all
	exempt map[bandittest.PolicyCheck]string
	unit   bool // rewards are in [0, 1]
}

var (
	keepsEvents = map[bandittest.PolicyCheck]string{
		bandittest.Allocations: "keeps events",
	}
	beginsAnew = map[bandittest.PolicyCheck]string{
		bandittest.Allocations: "begins a copy every 25 events",
	}
	byNumber = map[bandittest.PolicyCheck]string{
		bandittest.PermutedAction: "draws the number of an arm",
	}
	fixedNumber = map[bandittest.PolicyCheck]string{
		bandittest.PermutedAction: "plays the number of an arm",
		bandittest.PermutedLaw:    "plays the number of an arm",
	}
)

// examples has at least one configuration for each kind of the registry.
var examples = map[string][]example{
	"atoms": {
		{table: "", raw: spec.Raw{}, law: anySet},
		{table: "fixed one-sided beta", raw: spec.Raw{"key": "fixed", "m": int64(5), "symmetric": false, "scale": spec.Raw{"kind": "beta"}}, law: anySet},
		{table: "round", raw: spec.Raw{"key": "round", "lambda": 0.1}, law: anySet},
		{table: "discount epoch", raw: spec.Raw{"key": "epoch", "discount": 0.9}, law: anySet},
		{table: "restarts", raw: spec.Raw{"change": "restarts", "discount": 0.99, "m": int64(4)}, law: anySet, exempt: beginsAnew},
		{table: "theorem", raw: spec.Raw{"preset": "theorem", "rho": int64(8), "m": int64(6)}, law: anySet},
	},
	"ats": { // with one group the law is known on two arms and on orthogonal ones: ats_test.go
		{table: "", raw: spec.Raw{}, law: some},
		{table: "ensemble, norm 2", raw: spec.Raw{"m": int64(5), "normaliser": "log", "scale": spec.Raw{"kind": "beta", "value": 0.5, "norm": 2.0}}, law: some},
		{table: "groups", raw: spec.Raw{"m": int64(2), "groups": int64(7), "scale": 1.5}, law: anySet},
		{table: "frozen", raw: spec.Raw{"m": int64(6), "members": "frozen"}, law: anySet},
		{table: "theorem", raw: spec.Raw{"preset": "theorem", "m": int64(3), "lambda": 2.0}, law: some},
	},
	"auto": {
		{table: "", raw: spec.Raw{}, law: anySet},
		{table: "restarts", raw: spec.Raw{"change": "restarts", "half_life": int64(50), "m": int64(5)}, law: anySet, exempt: beginsAnew},
		{table: "epoch, guards", raw: spec.Raw{"key": "epoch", "m": int64(5), "guard": int64(5), "a": 0.5}, law: anySet},
		{table: "two links", raw: spec.Raw{"link": "auto", "m": int64(8), "base_rate": 0.3, "change": "restarts", "half_life": 60.5}, law: anySet, unit: true, exempt: beginsAnew},
	},
	"bag": {
		{table: "", raw: spec.Raw{}, law: anySet},
		{table: "double-or-nothing none", raw: spec.Raw{"weights": "double-or-nothing", "init": "none", "m": int64(5)}, law: anySet},
	},
	"cassel": {
		{table: "", raw: spec.Raw{}, law: finite, only: finite},
		{table: "m=2", raw: spec.Raw{"m": int64(2)}, law: finite, only: finite},
	},
	"cells": {
		{table: "ensemble", raw: spec.Raw{"cells": int64(3), "base": spec.Raw{"kind": "ensemble", "m": int64(5)}}, law: noSet},
		{table: "greedy", raw: spec.Raw{"cells": int64(2), "base": spec.Raw{"kind": "greedy"}}, law: noSet},
	},
	"centred": { // on the lists of the suite no constant is linear: centred_test.go has those on which one is
		{table: "ts by a number", raw: spec.Raw{"center": 0.5, "base": spec.Raw{"kind": "ts"}}, law: noSet, only: finite},
		{table: "ensemble by a number", raw: spec.Raw{"center": -2.0, "base": spec.Raw{"kind": "ensemble", "m": int64(5)}}, law: finite, only: finite},
	},
	"confident-ts": {{table: "", raw: spec.Raw{}, law: noSet}},
	"doubling": {
		{table: "ensemble", raw: spec.Raw{"base": spec.Raw{"kind": "ensemble", "m": int64(5), "scale": spec.Raw{"kind": "betatilde"}}}, law: anySet},
		{table: "first=7 ts", raw: spec.Raw{"first": int64(7), "base": spec.Raw{"kind": "ts"}}, law: noSet},
	},
	"effects": {
		{table: "", raw: spec.Raw{}, law: finite, only: finite, exempt: keepsEvents},
		{table: "half-life", raw: spec.Raw{"change": "none", "half_life": int64(50)}, law: finite, only: finite, exempt: keepsEvents},
	},
	"ensemble": {
		{table: "", raw: spec.Raw{}, law: anySet},
		{table: "gaussian beta one-sided", raw: spec.Raw{"m": int64(6), "symmetric": false, "targets": "gaussian", "init": "corrected", "scale": spec.Raw{"kind": "beta"}}, law: anySet},
		{table: "exact law", raw: spec.Raw{"m": int64(6), "targets": "gaussian", "engine": "exact-law"}, law: anySet},
		{table: "growing", raw: spec.Raw{"m": "grow"}, law: anySet},
		{table: "janz2026", raw: spec.Raw{"preset": "janz2026", "m": int64(6)}, law: anySet},
		{table: "rademacher max", raw: spec.Raw{"m": int64(6), "targets": "rademacher", "select": "max", "init": "prior"}, law: anySet},
		{table: "pair", raw: spec.Raw{"m": int64(5), "combine": "pair"}, law: anySet},
		{table: "signs of sphere targets", raw: spec.Raw{"m": int64(5), "combine": "signs", "targets": "sphere"}, law: anySet},
		{table: "gaussian reference", raw: spec.Raw{"m": int64(5), "combine": "gaussian", "targets": "coordinate"}, law: noSet},
		{table: "sphere reference", raw: spec.Raw{"m": int64(5), "combine": "sphere", "targets": "gaussian"}, law: noSet},
	},
	"ensemble-incremental": {{table: "m=6", raw: spec.Raw{"m": int64(6)}, law: anySet}},
	"ensemble-pp": {
		{table: "", raw: spec.Raw{"m": int64(5)}, law: noSet},
		{table: "cube", raw: spec.Raw{"m": int64(5), "combine": "signs", "perturbation": "rademacher"}, law: anySet},
	},
	"epsilon-greedy": {
		{table: "", raw: spec.Raw{}, law: finite, exempt: byNumber},
		{table: "epsilon=0", raw: spec.Raw{"epsilon": int64(0)}, law: anySet},
	},
	"fixed": {
		{table: "index=1", raw: spec.Raw{"index": int64(1)}, law: finite, only: finite, exempt: fixedNumber},
		{table: "x", raw: spec.Raw{"x": []any{0.5, 0.5, 0.5, 0.5}}, law: anySet, only: "ball"},
	},
	"budgeted": {
		{table: "", raw: spec.Raw{"base": spec.Raw{"kind": "effects"}}, law: finite, only: finite, exempt: keepsEvents},
		{table: "pareto", raw: spec.Raw{"rule": "pareto", "costs": "mean", "budget": 2.0, "base": spec.Raw{"kind": "linucb"}}, law: anySet, only: "linucb"},
	},
	"coin":   {{table: "", raw: spec.Raw{"second": int64(1)}, law: finite, only: finite, exempt: fixedNumber}},
	"evill":  {{table: "", raw: spec.Raw{"a": 0.8}, law: noSet, unit: true, exempt: keepsEvents}},
	"glm-es": {{table: "", raw: spec.Raw{"m": int64(3), "lambda": 0.5}, law: anySet, unit: true, exempt: keepsEvents}},
	"greedy": {{table: "", raw: spec.Raw{}, law: anySet}},
	"ids": {
		{table: "", raw: spec.Raw{}, law: finite},
		{table: "m=5 beta", raw: spec.Raw{"m": int64(5), "scale": spec.Raw{"kind": "beta"}}, law: finite},
	},
	"lazy": {
		{table: "", raw: spec.Raw{}, law: anySet},
		{table: "m=3 one-sided beta", raw: spec.Raw{"m": int64(3), "symmetric": false, "rho": 1.3, "scale": spec.Raw{"kind": "beta"}}, law: anySet},
	},
	"lee-oh": {{table: "", raw: spec.Raw{}, law: anySet}},
	"linphe": {
		{table: "", raw: spec.Raw{}, law: noSet},
		{table: "none", raw: spec.Raw{"init": "none"}, law: noSet},
		{table: "uniform", raw: spec.Raw{"targets": "uniform"}, law: noSet},
		{table: "rademacher none", raw: spec.Raw{"targets": "rademacher", "init": "none", "scale": spec.Raw{"kind": "beta"}}, law: noSet},
	},
	"logistic": {
		{table: "", raw: spec.Raw{}, law: anySet, unit: true},
		{table: "restarts", raw: spec.Raw{"change": "restarts", "half_life": int64(80)}, law: anySet, unit: true, exempt: beginsAnew},
		{table: "fixed", raw: spec.Raw{"key": "fixed", "m": int64(5), "base_rate": 0.03, "lambda": 0.5, "a": 0.7}, law: anySet, unit: true},
	},
	"linucb": {
		{table: "", raw: spec.Raw{}, law: anySet, only: "linucb"},
		{table: "discount", raw: spec.Raw{"discount": 0.9, "scale": 0.5}, law: anySet, only: "linucb"},
		{table: "restarts", raw: spec.Raw{"change": "restarts", "half_life": int64(100)}, law: anySet, only: "linucb", exempt: beginsAnew},
		{table: "pending", raw: spec.Raw{"pending": "hallucinate"}, law: anySet, only: "linucb"},
	},
	"lvr": {{table: "m=7", raw: spec.Raw{"m": int64(7)}, law: anySet}},
	"mixed": {
		{table: "ensemble", raw: spec.Raw{"epsilon": 0.2, "base": spec.Raw{"kind": "ensemble", "m": int64(5)}}, law: finite, only: finite, exempt: byNumber},
		{table: "mixed ts", raw: spec.Raw{"base": spec.Raw{"kind": "mixed", "base": spec.Raw{"kind": "ts"}}}, law: noSet, only: finite, exempt: byNumber},
		{table: "doubling linucb", raw: spec.Raw{"base": spec.Raw{"kind": "doubling", "base": spec.Raw{"kind": "linucb"}}}, law: finite, only: finite, exempt: byNumber},
	},
	"sparse": {
		{table: "", raw: spec.Raw{}, law: finite, only: finite},
		{table: "logistic", raw: spec.Raw{"link": "logistic", "range": []any{int64(-1000), int64(1000)}, "m": int64(3)}, law: finite, only: finite},
	},
	"squarecb": {
		{table: "", raw: spec.Raw{}, law: finite},
		{table: "gamma", raw: spec.Raw{"gamma": int64(3), "exponent": 0.7}, law: finite},
	},
	"bins":           {{table: "", raw: spec.Raw{"bins": int64(3)}, law: noSet, only: interval, exempt: fixedNumber}},
	"zooming":        {{table: "", raw: spec.Raw{"lipschitz": 2.0}, law: noSet, only: interval, exempt: fixedNumber}},
	"cascade-ucb":    {{table: "", raw: spec.Raw{}, law: noSet, only: lists}},
	"cascade-kl-ucb": {{table: "", raw: spec.Raw{}, law: noSet, only: lists}},
	"cascade-ts":     {{table: "", raw: spec.Raw{}, law: noSet, only: lists}},
	"pbm-ts":         {{table: "", raw: spec.Raw{"examination": []any{0.5, 1.0}}, law: noSet, only: lists}},
	"toprank":        {{table: "", raw: spec.Raw{"delta": 0.1}, law: noSet, only: lists}},
	"slots":          {{table: "", raw: spec.Raw{}, law: noSet, only: lists}},
	"ts":             {{table: "", raw: spec.Raw{}, law: noSet}, {table: "uninflated", raw: spec.Raw{"preset": "uninflated"}, law: noSet}},
	"uniform":        {{table: "", raw: spec.Raw{}, law: finite, exempt: byNumber}},
}

const testDim = 4

// conformanceSets returns the action sets of the suite: 7 random arms, 7 others, 2 arms, the ball, and the
// 2-subsets of 4 items.
func conformanceSets(t testing.TB) (finite []bandit.ActionSet, ball, other bandit.ActionSet) {
	for seed, k := range []int{7, 7, 2} {
		arms := make([][]float64, k)
		for i := range arms {
			arms[i] = make([]float64, testDim)
			rng.NewKey(uint64(seed)).Stream(rng.Instance).Round(uint64(i)).Ball(arms[i], 0)
		}
		set, err := actionset.NewFinite(arms)
		if err != nil {
			t.Fatal(err)
		}
		finite = append(finite, set)
	}
	ball, err := actionset.NewBall(testDim)
	if err != nil {
		t.Fatal(err)
	}
	oracle, err := actionset.NewMSets(testDim, 2)
	if err != nil {
		t.Fatal(err)
	}
	other, err = actionset.NewCombinatorial(oracle, 0.5)
	if err != nil {
		t.Fatal(err)
	}
	return finite, ball, other
}

func testProblem() policy.Problem {
	return policy.Problem{Dim: testDim, Arms: 7, Horizon: 500, Init: rng.NewKey(17).Stream(rng.Init),
		Lists: &bandit.ListShape{Items: 2, Positions: 2, Segments: 1}, Numbers: sevenCells}
}

var sevenCells = &bandit.NumberShape{Cells: []int{7}, Segments: 1, Features: testDim}

// cellSet takes arms for the cells of an interval.
type cellSet struct{ bandit.Finite }

func (cellSet) Shape() bandit.NumberShape { return *sevenCells }
func (cellSet) Segment() int              { return 0 }

// build decodes a table as an experiment file would and builds the policy.
func build(t testing.TB, kind string, raw spec.Raw, p policy.Problem) bandit.Policy {
	t.Helper()
	raw = maps.Clone(raw)
	raw["kind"] = kind
	o, err := spec.Decode(policy.Kinds, raw, "policy")
	if err != nil {
		t.Fatal(err)
	}
	pol, err := o.New(p)
	if err != nil {
		t.Fatalf("%s %v: %v", kind, raw, err)
	}
	return pol
}

// sized returns the exhaustive size with TROUPE_LONG, otherwise one that still fails on the faults that a test is for.
func sized(small, long int) int {
	if os.Getenv("TROUPE_LONG") != "" {
		return long
	}
	return small
}

// TestConformance holds every kind of the registry to the public suite and to the place of its
// exact law. A kind without an example fails.
func TestConformance(t *testing.T) {
	arms, ball, msets := conformanceSets(t)
	draws := sized(4_000, 100_000)
	for _, kind := range spec.Names(policy.Kinds) {
		if len(examples[kind]) == 0 {
			t.Errorf("%s has no example in conformance_test.go", kind)
		}
		for _, e := range examples[kind] {
			t.Run(kind+"/"+e.table, func(t *testing.T) {
				cfg := bandittest.PolicyConfig{Exempt: e.exempt, UnitRewards: e.unit, Draws: draws}
				switch e.only {
				case finite:
					cfg.Sets, cfg.Refused = arms, []bandit.ActionSet{ball, msets}
				case "ball":
					cfg.Sets = []bandit.ActionSet{ball}
				case interval:
					cfg.Sets, cfg.Refused = []bandit.ActionSet{cellSet{arms[0].(bandit.Finite)}}, []bandit.ActionSet{ball, msets}
				case lists:
					sets, err := actionset.NewLists(*testProblem().Lists)
					if err != nil {
						t.Fatal(err)
					}
					cfg.Sets, cfg.Refused = []bandit.ActionSet{sets[0]}, []bandit.ActionSet{ball, msets}
				case "linucb":
					cfg.Sets, cfg.Refused = append(slices.Clip(arms), ball), []bandit.ActionSet{msets}
				default:
					cfg.Sets = append(slices.Clip(arms), ball, msets)
				}
				mk := func() bandit.Policy { return build(t, kind, e.raw, testProblem()) }
				bandittest.TestPolicy(t, mk, cfg)
				if e.law != noSet && e.law != some && e.only != "ball" { // what a server can take
					served := cfg
					served.Sets = arms
					bandittest.TestServed(t, mk, served)
				}

				if _, ok := mk().(bandit.Snapshotter); !ok {
					t.Error("no Snapshotter")
				}
				pr, ok := mk().(bandit.Prober)
				for _, set := range cfg.Sets {
					_, isFinite := set.(bandit.Finite)
					want := e.law == anySet || (e.law == finite && isFinite)
					err := errors.ErrUnsupported
					if ok {
						err = pr.Prob(new(bandit.Law), set, rng.Source{})
					}
					if e.law == some && (err == nil || errors.Is(err, errors.ErrUnsupported)) {
						continue
					}
					if want != (err == nil) {
						t.Errorf("Prob on a %T: %v, want support on %s", set, err, e.law)
					}
				}
			})
		}
	}
}

// TestOptionsAreStrict: every kind documents each option and refuses unknown keys, numbers that
// are not finite and levels outside (0, 1].
func TestOptionsAreStrict(t *testing.T) {
	for _, kind := range spec.Names(policy.Kinds) {
		o := policy.Kinds[kind]()
		if o.Doc() == "" {
			t.Errorf("%s has no Doc", kind)
		}
		if _, err := spec.Decode(policy.Kinds, spec.Raw{"kind": kind, "lamda": 1.0}, "policy[0]"); err == nil {
			t.Errorf("%s: the key lamda was accepted", kind)
		}
		for _, opt := range spec.Options(o) {
			if opt.Doc == "" {
				t.Errorf("%s: option %s has no doc", kind, opt.Key)
			}
			for _, bad := range []any{-1.0, math.Inf(1), "nonsense", -2.5} {
				if x, number := bad.(float64); number && !math.IsInf(x, 0) && kind == "centred" && opt.Key == "center" {
					continue // a level of rewards may be negative
				}
				raw := spec.Raw{"kind": kind, opt.Key: bad}
				o, err := spec.Decode(policy.Kinds, raw, "policy[0]")
				if err != nil {
					continue
				}
				p := testProblem()
				if _, err = o.New(p); err == nil {
					t.Errorf("%s: %s = %v was accepted", kind, opt.Key, bad)
				}
			}
		}
	}
}

// TestNestedSpec decodes wrappers, sweeps inside them, and the paths of their errors.
func TestNestedSpec(t *testing.T) {
	raw := spec.Raw{"kind": "mixed", "base": spec.Raw{"kind": "doubling", "base": spec.Raw{"kind": "ensemble", "m": []any{int64(4), int64(8)}}}}
	choices := spec.Expand(policy.Kinds, raw)
	if len(choices) != 2 || fmt.Sprint(choices[1].Swept) != "[{base.base.m 8}]" {
		t.Fatalf("sweep expands to %+v", choices)
	}
	for _, c := range choices {
		o, err := spec.Decode(policy.Kinds, c.Value.(spec.Raw), "policy[0]")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := o.New(testProblem()); err != nil {
			t.Error(err)
		}
	}
	for want, bad := range map[string]spec.Raw{
		"policy[0].base.m: is the string \"x\", expected a whole number or \"grow\"":          {"kind": "mixed", "base": spec.Raw{"kind": "ensemble", "m": "x"}},
		"policy[0].base.kind: unknown kind \"ensembl\"; did you mean \"ensemble\"?":           {"kind": "doubling", "base": spec.Raw{"kind": "ensembl"}},
		"policy[0].base: is the string \"ts\", expected a table such as { kind = \"atoms\" }": {"kind": "doubling", "base": "ts"},
	} {
		if _, err := spec.Decode(policy.Kinds, bad, "policy[0]"); err == nil || err.Error() != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
	o, err := spec.Decode(policy.Kinds, spec.Raw{"kind": "mixed", "base": spec.Raw{"kind": "ts", "lambda": -1.0}}, "policy[0]")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := o.New(testProblem()); err == nil || err.Error() != "base.lambda is -1, expected a positive number" {
		t.Errorf("error is %v", err)
	}
}

// TestZeroValueIsDefault: the registry begins with the zero value of every options struct, so a table without
// keys and a Go literal without fields mean the same.
func TestZeroValueIsDefault(t *testing.T) {
	for _, kind := range spec.Names(policy.Kinds) {
		o := policy.Kinds[kind]()
		if !reflect.ValueOf(o).Elem().IsZero() {
			t.Errorf("%s: the default of a spec is %+v, not the zero value", kind, o)
		}
	}
}

// TestUnreadSets: a list that nobody has looked at gives the action and the law of one that was, and one with NaN is refused by Select
// and Prob of every kind, whatever it draws, and changes nothing.
func TestUnreadSets(t *testing.T) {
	sets, _, _ := conformanceSets(t)
	block := sets[0].(*actionset.Finite).Flat()
	bad := slices.Clone(block)
	bad[5*testDim+1] = math.NaN()
	unread := func(block []float64) bandit.ActionSet {
		set, err := actionset.FiniteUnread(testDim, block)
		if err != nil {
			t.Fatal(err)
		}
		return set
	}
	for _, kind := range spec.Names(policy.Kinds) {
		for _, e := range examples[kind] {
			if e.only == "ball" || e.only == lists || e.only == interval {
				continue
			}
			p, q := build(t, kind, e.raw, testProblem()), build(t, kind, e.raw, testProblem())
			choose := rng.NewKey(3).Stream(rng.Select)
			var a, b bandit.Action
			for round := range uint64(20) {
				name := fmt.Sprintf("%s %s, round %d", kind, e.table, round)
				var law bandit.Law
				if pr, ok := p.(bandit.Prober); ok && e.law != noSet {
					if err := pr.Prob(&law, unread(bad), choose.Round(round)); !errors.Is(err, bandit.ErrNotFinite) {
						t.Fatalf("%s: the law over arms with NaN: %v", name, err)
					}
				}
				if err := p.Select(&a, unread(bad), choose.Round(round)); !errors.Is(err, bandit.ErrNotFinite) {
					t.Fatalf("%s: an action of arms with NaN: %v", name, err)
				}
				if err := errors.Join(p.Select(&a, unread(block), choose.Round(round)), q.Select(&b, sets[0], choose.Round(round))); err != nil {
					t.Fatal(name, err)
				}
				if a.Index != b.Index || !slices.Equal(a.X, b.X) {
					t.Fatalf("%s: action %+v, of a list that was looked at %+v", name, a, b)
				}
				draw := rng.NewKey(3).Stream(rng.Perturb).Round(round)
				if err := errors.Join(p.Update(a, 0.5, draw), q.Update(b, 0.5, draw)); err != nil {
					t.Fatal(name, err)
				}
			}
		}
	}
}

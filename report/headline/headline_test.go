package headline

import (
	"fmt"
	"math"
	"testing"
)

// policies makes an environment of policies a, b, c … from their standings.
func policies(runs int, standings ...Standing) *Environment {
	e := &Environment{Name: "arms", Runs: runs, Least: 20, Lost: "86.9 ± 13.3", Rounds: "2,000 rounds"}
	for i, s := range standings {
		e.Policies = append(e.Policies, Policy{Name: string(rune('a' + i)), Standing: s})
	}
	return e
}

// repeated is a lowest policy and n of each of the other standings.
func repeated(more, close, same int) []Standing {
	out := []Standing{Lowest}
	for range close {
		out = append(out, TooClose)
	}
	for range same {
		out = append(out, AboutSame)
	}
	for range more {
		out = append(out, LosesMore)
	}
	return out
}

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		ok     bool
		want   Standing
	}{
		{20.6, 191.3, true, LosesMore},
		{0, 191.3, true, TooClose}, // zero is inside
		{-62, 63.1, true, TooClose},
		{-8, 8.6, true, AboutSame}, // within a tenth of 86.9
		{-8, 8.7, true, TooClose},
		{0.1, 8.6, true, LosesMore}, // a difference that is known to be small is known
		{5, 9, false, TooClose},
	} {
		if got := Judge(c.lo, c.hi, c.ok, 86.9); got != c.want {
			t.Errorf("[%v, %v] %v: %v, want %v", c.lo, c.hi, c.ok, got, c.want)
		}
	}
	if got := Judge(0, 0, true, 0); got != AboutSame {
		t.Errorf("no difference to nothing: %v", got)
	}
}

func TestHow(t *testing.T) {
	for _, c := range []struct {
		lo, hi, sureLo, sureHi float64
		want                   Confidence
	}{
		{-.080, -.050, -.082, -.015, Sure}, {-.052, -.021, -.059, .007, Likely}, {-.01, .02, -.096, .067, Close},
		{1, 2, .5, 3, Sure}, {1, 2, -.5, 3, Likely}, {0, 1, 0, 2, Close},
	} {
		if got := How(c.lo, c.hi, c.sureLo, c.sureHi); got != c.want {
			t.Errorf("[%v, %v] and always [%v, %v]: %v, want %v", c.lo, c.hi, c.sureLo, c.sureHi, got, c.want)
		}
	}
}

// One headline for each case of one environment.
func TestOne(t *testing.T) {
	median := policies(40, repeated(2, 3, 0)...)
	median.Noun = "median regret"
	alone := policies(40, Lowest)
	alone.Noun = "median regret"
	least := policies(3, repeated(0, 2, 0)...)
	least.Noun = "median regret"
	for _, c := range []struct {
		e    *Environment
		want string
	}{
		{policies(40), "No replication is complete."},
		{policies(40, Out), "No replication is complete."},
		{policies(40, Lowest), "a lost 86.9 ± 13.3 in 2,000 rounds."},
		{policies(40, Lowest, Out), "a lost 86.9 ± 13.3 in 2,000 rounds."},
		{alone, "The median regret of a is 86.9 ± 13.3."},
		{policies(40, Lowest, Equal), "a and b lost the same."},
		{policies(2, Lowest, Equal, Equal, Equal, Equal), "All five policies lost the same."},
		{policies(3, repeated(0, 2, 0)...), "a lost least in 3 runs, which are too few to be sure."},
		{policies(1, repeated(0, 2, 0)...), "a lost least in 1 run, which is too few to be sure."},
		{policies(3, Lowest, Equal, TooClose), "a and b share the lowest mean regret in 3 runs, which are too few to be sure."},
		{least, "a had the lowest median regret in 3 runs, which are too few to be sure."},
		{policies(40, repeated(3, 0, 0)...), "a loses least."},
		{policies(40, Lowest, Equal, LosesMore), "a and b lose least."},
		{policies(40, repeated(0, 5, 0)...), "All six are too close to call."},
		{policies(40, repeated(0, 1, 0)...), "Both are too close to call."},
		{policies(40, repeated(0, 0, 3)...), "All four lose about the same."},
		{policies(40, repeated(0, 1, 2)...), "b is too close to call. The other three lose about the same."},
		{policies(40, repeated(0, 3, 1)...), "e loses about the same as a. The other three are too close to call."},
		{policies(40, repeated(2, 3, 0)...), "e and f lose more. The other four are too close to call."},
		{policies(40, repeated(1, 1, 0)...), "c loses more. The other two are too close to call."},
		{policies(40, repeated(4, 1, 0)...), "a and b are too close to call. The other four lose more."},
		{policies(40, repeated(2, 0, 2)...), "d and e lose more. The other three lose about the same."},
		{policies(40, repeated(2, 1, 2)...), "e and f lose more. The other four lose about the same, or are too close to call."},
		{policies(40, repeated(6, 5, 0)...), "Six policies lose more. The other six are too close to call."},
		{policies(40, repeated(7, 5, 0)...), "Six policies are too close to call. The other seven lose more."},
		{policies(40, append(repeated(1, 2, 0), Out)...), "d loses more. The other three are too close to call."},
		{median, "e and f have a larger median regret. The other four are too close to call."},
	} {
		if got := One(c.e).String(); got != c.want {
			t.Errorf("%v in %d runs:\n%s, want\n%s", c.e.Policies, c.e.Runs, got, c.want)
		}
	}
}

// One headline for each case of several environments.
func TestSeveral(t *testing.T) {
	in := func(runs int, each ...[]Standing) (all []*Environment) {
		for _, s := range each {
			all = append(all, policies(runs, s...))
		}
		return all
	}
	type S = []Standing
	for _, c := range []struct {
		all  []*Environment
		want string
	}{
		{nil, "No replication is complete."},
		{in(40, S{Lowest, LosesMore}), "a loses least."},
		{in(40, S{Lowest}, S{Lowest}), "a played 2 environments; there is nothing to compare it with."},
		{in(3, S{Lowest, TooClose}, S{TooClose, Lowest}), "3 runs are too few to be sure which policy loses least."},
		{in(40, S{Lowest, Equal}, S{Lowest, Equal}), "All policies lost the same in all two environments."},
		{in(40, S{Lowest, TooClose, LosesMore}, S{Lowest, AboutSame, LosesMore}), "c loses more everywhere. a and b lose more nowhere."},
		{in(40, S{Lowest, LosesMore, LosesMore}, S{Lowest, LosesMore, LosesMore}), "a loses least everywhere."},
		{in(40, S{Lowest, LosesMore, TooClose}, S{LosesMore, Lowest, LosesMore}), "Each policy loses more somewhere."},
		{in(40, S{Lowest, TooClose, TooClose}, S{TooClose, Lowest, TooClose}), "All three are too close to call in every environment."},
		{in(40, S{Lowest, LosesMore, TooClose}, S{Lowest, TooClose, LosesMore}), "a loses more nowhere. Every other policy does somewhere."},
		{in(40, S{Lowest, TooClose, LosesMore}, S{Lowest, TooClose, TooClose}), "c loses more somewhere. The other two lose more nowhere."},
		{in(40, S{Lowest, TooClose, LosesMore, TooClose}, S{Lowest, TooClose, TooClose, LosesMore}),
			"a and b lose more nowhere. Each of the other two does somewhere."},
		{in(40, repeated(1, 5, 0), repeated(1, 5, 0)), "g loses more everywhere. Six policies lose more nowhere."},
		{in(40, S{Lowest, TooClose, Out}, S{Lowest, TooClose, LosesMore}), "c loses more everywhere. a and b lose more nowhere."},
	} {
		if got := Several(c.all).String(); got != c.want {
			t.Errorf("%v:\n%s, want\n%s", c.all, got, c.want)
		}
	}
}

func TestClaim(t *testing.T) {
	text := Say("The mean regret of ", Name("a"), " is less than that of ", Name("b"))
	for s, want := range map[State]string{Holds: "Holds: the mean regret of a is less than that of b.",
		Contradicted: "Does not hold: the mean regret of a is less than that of b.",
		Undecided:    "Not decided: the mean regret of a is less than that of b.",
		TooFew:       "Too few replications to decide: the mean regret of a is less than that of b.",
		NotAsked:     "This run cannot decide: the mean regret of a is less than that of b."} {
		if got := Claim(text, s).String(); got != want {
			t.Errorf("%v: %s, want %s", s, got, want)
		}
	}
	if got := Reference("a", "b", 0.23).String(); got != "a loses 23% less than b." {
		t.Error(got)
	}
}

func TestSweep(t *testing.T) {
	curve := func(from, to string, lo, hi float64) *Curve {
		return &Curve{Policy: "ensemble", Option: "m", First: "1", Last: "64", From: from, To: to, Region: from != "", Lo: lo, Hi: hi}
	}
	for _, c := range []struct {
		c    *Curve
		want string
	}{
		{curve("1", "64", -1, 1), "Which m is best for ensemble is too close to call."},
		{curve("16", "64", -1, -.1), "Regret of ensemble falls with m up to 16; beyond, it is too close to call."},
		{curve("64", "64", -1, -.1), "Regret of ensemble falls with m up to 64, the largest value."},
		{curve("1", "4", .1, 1), "Regret of ensemble grows with m from 4 on; below, it is too close to call."},
		{curve("1", "1", .1, 1), "Regret of ensemble grows with m from 1, the smallest value, on."},
		{curve("4", "16", -.1, 1), "ensemble loses least for m from 4 to 16."},
		{curve("8", "8", -.1, 1), "ensemble loses least at m = 8."},
		{curve("", "", .1, 1), "Regret of ensemble grows with m."},
		{curve("", "", -1, -.1), "Regret of ensemble falls with m."},
		{curve("", "", -1, .1), "Regret of ensemble has no clear trend in m."},
	} {
		if got := Sweep(c.c).String(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.c, got, c.want)
		}
	}
	grows, falls, none := curve("", "", .1, 1), curve("", "", -1, -.1), curve("", "", -1, 1)
	for _, c := range []struct {
		all  []*Curve
		want string
	}{
		{[]*Curve{grows, falls}, "Whether regret of ensemble grows with m depends on the environment."},
		{[]*Curve{grows, grows}, "Regret of ensemble grows with m in every environment."},
		{[]*Curve{none, none}, "Regret of ensemble has no clear trend in m in any environment."},
		{[]*Curve{grows}, "Regret of ensemble grows with m."},
	} {
		if got := Sweeps(c.all).String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// agents are agents that solved the first k of seeds in each size.
func agents(sizes, seeds int, k ...int) (out []*Agent) {
	for i, solved := range k {
		a := &Agent{Name: string(rune('a' + i))}
		for s := range sizes {
			runs := make([]bool, seeds)
			for r := range runs {
				runs[r] = s*seeds+r < solved
			}
			a.Runs = append(a.Runs, runs)
		}
		out = append(out, a)
	}
	return out
}

func TestDeep(t *testing.T) {
	for _, c := range []struct {
		agents []*Agent
		want   string
	}{
		{nil, "No replication is complete."},
		{agents(21, 3, 63, 63, 63, 0, 0, 0), "a, b and c solve every size. d, e and f solve none."},
		{agents(21, 3, 63, 63, 63, 63, 63, 0), "Five agents solve every size. f solves none."},
		{agents(21, 5, 55, 105), "b solves every size. a solves 11 of 21 sizes."},
		{agents(21, 3, 63, 30, 0), "a solves every size. b solves 10 of 21 sizes. c solves none."},
		{agents(21, 3, 63, 63), "a and b solve every size."},
		{agents(21, 3, 0, 0), "No agent solves any size."},
		{agents(2, 2, 4, 0), "a solves every size; b solves none; 2 seeds are too few to be sure."},
		{agents(1, 3, 3, 0), "a solved it in all 3 seeds, b in none; 3 seeds are too few to be sure."},
		{agents(1, 20, 20, 0), "a solved it in all 20 seeds, b in none."},
		{agents(1, 20, 20, 18), "a solved it in all 20 seeds, b in 18 of 20; 20 seeds are too few to be sure."},
		{agents(21, 3, 63, 60, 0), "a solves every size; b solves 20 of 21 sizes; c solves none; 3 seeds are too few to be sure."},
	} {
		if got := Deep(c.agents).String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

// The sign test by the exact law of coins.
func TestSignTest(t *testing.T) {
	a, b := agents(1, 12, 12)[0], agents(1, 12, 2)[0] // 10 runs that only a solved
	if got, want := signTest(a, b), 2*math.Pow(.5, 10); math.Abs(got-want) > 1e-12 {
		t.Errorf("10 to 0: %v, want %v", got, want)
	}
	b.Runs[0] = []bool{true, true, true, true, false, false, false, false, false, false, false, false}
	a.Runs[0] = []bool{false, true, true, true, true, true, true, true, true, true, true, true} // 8 to 1
	if got, want := signTest(a, b), 2*(9+1)*math.Pow(.5, 9); math.Abs(got-want) > 1e-12 {
		t.Errorf("8 to 1: %v, want %v", got, want)
	}
	if got := signTest(a, a); got != 1 {
		t.Errorf("the same: %v", got)
	}
}

func TestCompare(t *testing.T) {
	row := func(name string, lo, hi float64, same int) Change {
		return Change{Policy: name, Lo: lo, Hi: hi, OK: true, Runs: 40, Same: same}
	}
	few := Change{Policy: "a", Runs: 3}
	pair := func(seed bool, rows ...Change) *Pair {
		return &Pair{Changes: rows, SameSeed: seed, First: "seed 1", Second: "seed 2"}
	}
	equal := pair(true, row("a", 0, 0, 40))
	equal.Equal = true
	in := row("a", 1, 2, 0)
	in.Environment = "ball-10"
	median := pair(false, row("a", 1, 2, 0), row("b", -2, -1, 0))
	median.Noun = "median regret"
	for _, c := range []struct {
		p    *Pair
		want string
	}{
		{pair(false), "These runs have no environment and policy in common, so nothing can be compared."},
		{equal, "Both runs are equal, number for number."},
		{pair(true, row("LinUCB", -1, 1, 31), row("b", 0, 0, 40), row("c", 0, 0, 40)),
			"LinUCB changed in 9 of 40 replications. The other two are equal, number for number."},
		{pair(true, row("a", -1, 1, 31), row("b", 1, 2, 0), row("c", 0, 0, 40)),
			"a and b changed. The other one is equal, number for number."},
		{pair(false, few), "Too few replications to say what changed between seed 1 and seed 2."},
		{pair(false, row("a", -1, 1, 0), row("b", -2, 1, 0)), "Nothing changed by more than chance between seed 1 and seed 2."},
		{pair(true, row("a", -1, 1, 0)), "Nothing changed by more than chance between seed 1 and seed 2."},
		{pair(false, row("greedy", -2, -1, 0), row("b", -2, 1, 0)),
			"greedy lost less in the second run. Nothing else changed by more than chance."},
		{pair(false, row("a", 1, 2, 0), row("b", -2, -1, 0)), "b lost less; a lost more in the second run."},
		{pair(false, in), "a in ball-10 lost more in the second run."},
		{median, "The median regret of b is smaller; the median regret of a is larger in the second run."},
		{pair(false, row("a", 1, 2, 0), row("b", 1, 2, 0), row("c", 1, 2, 0), row("d", 1, 2, 0), row("e", 1, 2, 0), row("f", -1, 2, 0)),
			"Five of 6 rows changed by more than chance between seed 1 and seed 2."},
	} {
		if got := Compare(c.p).String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
	for n, want := range []string{"No run differs from the first by more than chance.",
		"One of 3 runs differs from the first by more than chance.", "Two of 3 runs differ from the first by more than chance."} {
		if got := Many(n, 3).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func TestSuite(t *testing.T) {
	five := []string{"a", "b", "c", "d", "e"}
	for _, c := range []struct {
		first []string
		n, r  int
		want  string
	}{
		{nil, 13, 3, "No ranking yet: 3 replications, a ranking needs 20."},
		{five[:1], 13, 20, "a is first of 13."},
		{five[:3], 13, 20, "a, b and c may be first of 13."},
		{five, 13, 20, "Five policies may be first of 13."},
		{five, 5, 20, "Each of the five policies may be first."},
	} {
		if got := Suite(c.first, c.n, c.r, 20).String(); got != c.want {
			t.Errorf("%s, want %s", got, c.want)
		}
	}
}

func TestGallery(t *testing.T) {
	for n, want := range map[int]string{0: "No results yet.", 1: "One result, one click from its data.",
		4: "Four results, each one click from its data.", 30: "30 results, each one click from its data."} {
		if got := Gallery(n).String(); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

func Example() {
	e := &Environment{Runs: 40, Least: 20}
	for _, d := range []struct {
		name   string
		lo, hi float64
	}{{"ensemble", 0, 0}, {"LinUCB", -62, 63.1}, {"greedy", 80.5, 511.6}} {
		s := Lowest
		if d.hi > 0 {
			s = Judge(d.lo, d.hi, true, 86.9)
		}
		e.Policies = append(e.Policies, Policy{Name: d.name, Standing: s})
	}
	fmt.Println(One(e))
	// Output: greedy loses more. The other two are too close to call.
}

func TestEvaluate(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		t    Target
		want string
	}{
		{Target{Name: "uniform"}, "This log cannot say what uniform would earn."},
		{Target{Name: "uniform", Known: true, Unobtainable: true}, "This log cannot say what uniform would earn."},
		{Target{Name: "uniform", Known: true, Same: true}, "uniform plays what ran, so it would have earned the same."},
		{Target{Name: "uniform", Known: true, SureLo: -.082, SureHi: -.015, Lo: -.08, Hi: -.05, Doubt: true, Size: "0.058"},
			"uniform would have earned 0.058 a decision less than what ran."},
		{Target{Name: "a", Known: true, SureLo: .01, SureHi: .1, Lo: .02, Hi: .05, Size: "0.03"}, "a would have earned 0.03 a decision more than what ran."},
		{Target{Name: "a", Known: true, SureLo: -.059, SureHi: .007, Lo: -.052, Hi: -.021, Size: "0.035"},
			"a would probably have earned less, by about 0.035 a decision."},
		{Target{Name: "a", Known: true, SureLo: -inf, SureHi: inf, Lo: .02, Hi: .05, Size: "0.035"},
			"a would probably have earned more, by about 0.035 a decision."},
		{Target{Name: "a", Known: true, SureLo: -.096, SureHi: .067, Lo: -.052, Hi: -.021, Doubt: true, Size: "0.035"},
			"Too close to call between a and what ran."},
		{Target{Name: "a", Known: true, SureLo: -.096, SureHi: .067, Lo: -.052, Hi: .021, Size: "0.035"}, "Too close to call between a and what ran."},
	} {
		if got := Evaluate(&c.t).String(); got != c.want {
			t.Errorf("%+v: %s, want %s", c.t, got, c.want)
		}
	}
}

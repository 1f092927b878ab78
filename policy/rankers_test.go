package policy_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
	"troupe/spec"
)

// listProblem is lists of 3 of 5 items for two segments.
func listProblem() policy.Problem {
	return policy.Problem{Dim: 30, Horizon: 1000, Lists: &bandit.ListShape{Items: 5, Positions: 3, Segments: 2}}
}

// playLists plays a world whose item i is clicked with probability p[i] where it is looked at; see says which positions are.
func playLists(t *testing.T, kind string, raw spec.Raw, rounds int, p []float64, see func(l int, above bool) float64) (clicks float64) {
	t.Helper()
	problem := listProblem()
	sets, err := actionset.NewLists(*problem.Lists)
	if err != nil {
		t.Fatal(err)
	}
	pol := build(t, kind, raw, problem)
	world := rng.NewKey(5).Stream(rng.Reward)
	var a bandit.Action
	for round := range uint64(rounds) {
		if err := pol.Select(&a, sets[round%2], rng.NewKey(6).Stream(rng.Select).Round(round)); err != nil {
			t.Fatal(err)
		}
		list, g, ok := problem.Lists.Decode(nil, a)
		if !ok || g != int(round%2) {
			t.Fatalf("%s: %v is no list of segment %d", kind, a.X, round%2)
		}
		rewards, above, y := make([]float64, 3), false, 0.0
		for l, i := range list {
			if world.Round(round).Float64(l) < p[i]*see(l, above) {
				rewards[l], above = 1, true
				y++
			}
		}
		if round >= uint64(rounds/2) {
			clicks += y
		}
		if err := pol.(bandit.PositionLearner).ByPosition(a, rewards); err != nil {
			t.Fatal(err)
		}
		if err := pol.Update(a, y, rng.Source{}); err != nil {
			t.Fatal(err)
		}
	}
	return clicks / float64(rounds-rounds/2)
}

// TestRankers: each kind finds the best list of its own model: at least 90 % of what that earns above a uniform list, in the second half
// of the rounds. A policy that is not told the positions does not.
func TestRankers(t *testing.T) {
	p := []float64{.1, .5, .05, .7, .3}
	exam := []float64{.3, 1, .6}
	cascade := func(_ int, above bool) float64 {
		if above {
			return 0
		}
		return 1
	}
	examined := func(l int, _ bool) float64 { return exam[l] }
	uniform := 1.0 // of the cascade: the mean over lists of 1 − Π(1 − p)
	lists, total := permuted(5, 3), 0.0
	for _, L := range lists {
		q := 1.0
		for _, i := range L {
			q *= 1 - p[i]
		}
		total += 1 - q
	}
	uniform = total / float64(len(lists))
	best := 1 - .5*.3*.7
	for _, c := range []struct {
		kind   string
		raw    spec.Raw
		rounds int
		share  float64
	}{{"cascade-ucb", spec.Raw{}, 6000, .75}, {"cascade-kl-ucb", spec.Raw{}, 3000, .9}, {"cascade-ts", spec.Raw{}, 2000, .9}} {
		got := (playLists(t, c.kind, c.raw, c.rounds, p, cascade) - uniform) / (best - uniform)
		if !(got > c.share) {
			t.Errorf("%s: a share of %.3f, want %v", c.kind, got, c.share)
		}
	}
	mean := (.1 + .5 + .05 + .7 + .3) / 5 * 1.9
	top := .7*1 + .5*.6 + .3*.3
	for _, c := range []struct {
		kind   string
		raw    spec.Raw
		rounds int
		share  float64
	}{{"pbm-ts", spec.Raw{"examination": []any{.3, 1.0, .6}}, 3000, .9}, {"toprank", spec.Raw{}, 12_000, .35}, {"slots", spec.Raw{}, 3000, .3}} {
		got := (playLists(t, c.kind, c.raw, c.rounds, p, examined) - mean) / (top - mean)
		if !(got > c.share) {
			t.Errorf("%s: a share of %.3f, want %v", c.kind, got, c.share)
		}
	}
}

func permuted(n, k int) (all [][]int) {
	var rec func(l []int)
	rec = func(l []int) {
		if len(l) == k {
			all = append(all, slices.Clone(l))
			return
		}
		for i := range n {
			if !slices.Contains(l, i) {
				rec(append(slices.Clone(l), i))
			}
		}
	}
	rec(nil)
	return all
}

// TestKLUpper compares the index of cascade-kl-ucb after one item was shown n times with clicks on s of them, by a search of its own: the
// order of two items turns where the textbook's does.
func TestKLUpper(t *testing.T) {
	kl := func(p, q float64) float64 {
		out := 0.0
		if p > 0 {
			out += p * math.Log(p/q)
		}
		if p < 1 {
			out += (1 - p) * math.Log((1-p)/(1-q))
		}
		return out
	}
	upper := func(p, bound float64) float64 {
		q := p
		for step := .1; step > 1e-7; {
			if q+step < 1 && kl(p, q+step) <= bound {
				q += step
			} else {
				step /= 2
			}
		}
		return q
	}
	for _, c := range [][4]int{{3, 10, 1, 4}, {1, 10, 2, 30}, {0, 7, 1, 12}, {5, 5, 9, 10}, {0, 3, 0, 4}} {
		s1, n1, s2, n2 := c[0], c[1], c[2], c[3]
		problem := policy.Problem{Dim: 2, Lists: &bandit.ListShape{Items: 2, Positions: 1, Segments: 1}}
		sets, _ := actionset.NewLists(*problem.Lists)
		pol := build(t, "cascade-kl-ucb", spec.Raw{}, problem)
		var a bandit.Action
		for item, x := range [2][2]int{{s1, n1}, {s2, n2}} {
			for j := range x[1] {
				y := 0.0
				if j < x[0] {
					y = 1
				}
				problem.Lists.Encode(&a, 0, []int{item})
				if err := pol.(bandit.PositionLearner).ByPosition(a, []float64{y}); err != nil {
					t.Fatal(err)
				}
				if err := pol.Update(a, y, rng.Source{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		T := float64(n1 + n2)
		b := math.Log(T) + 3*math.Log(math.Max(math.Log(T), 1))
		u1, u2 := upper(float64(s1)/float64(n1), b/float64(n1)), upper(float64(s2)/float64(n2), b/float64(n2))
		if err := pol.Select(&a, sets[0], rng.Source{}); err != nil {
			t.Fatal(err)
		}
		got, _, _ := problem.Lists.Decode(nil, a)
		want := 0
		if u2 > u1 {
			want = 1
		}
		if got[0] != want && math.Abs(u1-u2) > 1e-5 {
			t.Errorf("%v: item %d first, want %d (%v, %v)", c, got[0], want, u1, u2)
		}
	}
}

// TestRankersRefuse: without lists there is no such policy, and rewards that are not finite or of another number change nothing.
func TestRankersRefuse(t *testing.T) {
	for _, kind := range []string{"cascade-ucb", "cascade-kl-ucb", "cascade-ts", "pbm-ts", "toprank", "slots"} {
		if _, err := policy.Kinds[kind]().New(policy.Problem{Dim: 3}); err == nil {
			t.Errorf("%s plays without lists", kind)
		}
		pol := build(t, kind, spec.Raw{}, listProblem())
		before, _ := pol.(bandit.Snapshotter).AppendSnapshot(nil)
		var a bandit.Action
		listProblem().Lists.Encode(&a, 1, []int{0, 1, 2})
		for _, y := range [][]float64{{1, 0}, {0, math.NaN(), 0}} {
			if err := pol.(bandit.PositionLearner).ByPosition(a, y); err == nil {
				t.Errorf("%s takes %v", kind, y)
			}
		}
		if err := pol.Update(a, math.Inf(1), rng.Source{}); err == nil {
			t.Errorf("%s takes +Inf", kind)
		}
		if after, _ := pol.(bandit.Snapshotter).AppendSnapshot(nil); fmt.Sprint(after) != fmt.Sprint(before) {
			t.Errorf("%s: a refused reward changes the state", kind)
		}
	}
}

// TestNumberers: both find a broad peak of an interval: at least 85 % of what the best cell earns above a uniform one in the last half of
// 2,000 rounds.
func TestNumberers(t *testing.T) {
	for _, kind := range []string{"bins", "zooming"} {
		shape := &bandit.NumberShape{Cells: []int{32}, Segments: 1, Features: testDim}
		arms := make([][]float64, 32)
		for i := range arms {
			arms[i] = []float64{.5, 0, 0, float64(i) / 64}
		}
		list, err := actionset.NewFinite(arms)
		if err != nil {
			t.Fatal(err)
		}
		pol := build(t, kind, spec.Raw{}, policy.Problem{Dim: testDim, Sigma: .2, Numbers: shape})
		mean := func(i int) float64 { d := float64(i)/32 - .7; return 1 - 2*d*d }
		earned, uniform := 0.0, 0.0
		for i := range 32 {
			uniform += mean(i) / 32
		}
		var a bandit.Action
		for round := range uint64(2000) {
			if err := pol.Select(&a, interval32{list, shape}, rng.NewKey(2).Stream(rng.Select).Round(round)); err != nil {
				t.Fatal(err)
			}
			y := mean(a.Index) + .2*rng.NewKey(2).Stream(rng.Reward).Round(round).Normal(0)
			if round >= 1000 {
				earned += mean(a.Index) / 1000
			}
			if err := pol.Update(a, y, rng.Source{}); err != nil {
				t.Fatal(err)
			}
		}
		if share := (earned - uniform) / (1 - uniform); !(share > .85) {
			t.Errorf("%s: a share of %.3f", kind, share)
		}
	}
}

type interval32 struct {
	bandit.Finite
	shape *bandit.NumberShape
}

func (s interval32) Shape() bandit.NumberShape { return *s.shape }
func (interval32) Segment() int                { return 0 }

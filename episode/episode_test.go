package episode

import (
	"math"
	"strings"
	"testing"

	"troupe/rng"
	"troupe/spec"
)

// TestActionMap: the first numbers of numpy.random.RandomState(42).random_sample() are 0.3745, 0.9507, 0.7320, 0.5987,
// 0.1560, 0.1560, 0.0581, 0.8662, 0.6011, 0.7081 (numpy's documentation and countless notebooks); binomial(1, ½) is 1
// above ½.
func TestActionMap(t *testing.T) {
	want := []int{0, 1, 1, 1, 0, 0, 0, 1, 1, 1}
	for i, v := range actionMap(42, 10) {
		if v != want[i] {
			t.Errorf("number %d is %d, expected %d", i, v, want[i])
		}
	}
}

// small is a problem with noise and chance, small enough to enumerate its policies.
func small() MDP {
	z := Size{3, 2, 2}
	m := MDP{Size: z, Mean: make([]float64, z.cells()), Noise: make([]float64, z.cells()), Arrows: make([][]Arrow, z.cells())}
	draw := rng.NewKey(7).Stream(rng.Instance).Round(1)
	for c := range z.cells() {
		p := draw.Float64(3 * c)
		m.Mean[c], m.Noise[c] = draw.Normal(3*c+1), draw.Float64(3*c+2)
		m.Arrows[c] = []Arrow{{0, p}, {1, 1 - p}}
	}
	return m
}

// evaluate returns the expected return of a policy that gives each action a probability.
func evaluate(m *MDP, pi func(h, s, a int) float64) float64 {
	v := make([]float64, m.States)
	for h := m.Steps - 1; h >= 0; h-- {
		now := make([]float64, m.States)
		for s := range m.States {
			for a := range m.Actions {
				c := m.cell(h, s, a)
				q := m.Mean[c]
				for _, w := range m.Arrows[c] {
					q += w.P * v[w.Next]
				}
				now[s] += pi(h, s, a) * q
			}
		}
		v = now
	}
	return v[m.Start]
}

// TestSolve: the oracle is the best of all 2⁶ deterministic policies.
func TestSolve(t *testing.T) {
	m := small()
	best := math.Inf(-1)
	for code := range 1 << 6 {
		best = max(best, evaluate(&m, func(h, s, a int) float64 {
			if code>>(2*h+s)&1 == a {
				return 1
			}
			return 0
		}))
	}
	w, err := NewTabular(m)
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(w.Best()-best) > 1e-12 {
		t.Errorf("value iteration %v, the best policy %v", w.Best(), best)
	}
}

// TestOptimalReturns: the optimum of each environment, by hand.
func TestOptimalReturns(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want float64
	}{
		{NewDeepSea(), 0.99},    // ten moves right
		{&ChainOptions{10}, 11}, // 8 moves to the end, 11 steps there
		{&RiverSwimOptions{3, 1}, 0.005},
	} {
		w, err := c.o.Problem(rng.NewKey(1))
		if err != nil {
			t.Fatal(err)
		}
		best := w.(interface{ Best() float64 }).Best()
		if math.Abs(best-c.want) > 1e-12 {
			t.Errorf("%T: the optimum is %v, expected %v", c.o, best, c.want)
		}
	}
}

type sums struct{ n, regret, square, reward float64 }

func (s *sums) Episode(_ int, p Played) error {
	s.n++
	s.regret += p.Regret
	s.square += p.Regret * p.Regret
	s.reward += p.Return
	return nil
}

// TestRegretIsUnbiased: the mean regret of the uniform agent is V* − V^π. n = 20 000 episodes, 5 standard errors:
// false alarm below 10⁻⁶.
func TestRegretIsUnbiased(t *testing.T) {
	m := small()
	w, err := NewTabular(m)
	if err != nil {
		t.Fatal(err)
	}
	var s sums
	if err := Play(w, uniform{2}, rng.NewKey(3), 20_000, &s); err != nil {
		t.Fatal(err)
	}
	want := w.Best() - evaluate(&m, func(int, int, int) float64 { return 0.5 })
	mean := s.regret / s.n
	if se := math.Sqrt((s.square/s.n - mean*mean) / s.n); math.Abs(mean-want) > 5*se {
		t.Errorf("mean regret %v ± %v, expected %v", mean, se, want)
	}
	if got := w.Best() - s.reward/s.n; math.Abs(got-want) > 0.1 {
		t.Errorf("the returns fall %v short of the optimum, expected about %v", got, want)
	}
}

// explore lets an agent learn from uniform actions.
func explore(t *testing.T, w Environment, a Agent, key rng.Key, episodes int) {
	t.Helper()
	if err := Play(w, &follower{a, uniform{w.Size().Actions}}, key, episodes, new(sums)); err != nil {
		t.Fatal(err)
	}
}

// follower learns while another agent acts.
type follower struct {
	Agent
	acts Agent
}

func (f *follower) Act(h, s int, draw rng.Source) int {
	f.Agent.Act(h, s, draw)
	return f.acts.Act(h, s, draw)
}

// TestExact: with σ = 0, no prior and all cells visited, Q is value iteration on the counts, to 1e-12; where nothing is
// random that is the optimum of the problem itself.
func TestExact(t *testing.T) {
	none := RLSVI{M: 3, Redraw: "episode"}
	for name, o := range map[string]AgentOptions{"ensemble": ens(none), "atoms": atm(none),
		"fresh": &FreshOptions{0, 0, "episode"}, "greedy": new(GreedyOptions)} {
		for _, env := range []Options{&RandomOptions{States: 4, Actions: 3, Steps: 5, Noise: 0.3}, &ChainOptions{4}} {
			key := rng.NewKey(5)
			world, err := env.Problem(key)
			if err != nil {
				t.Fatal(err)
			}
			agent, err := o.Agent(SettingOf(world, key, 1))
			if err != nil {
				t.Fatal(err)
			}
			explore(t, world, agent, key, 4000)
			agent.Begin(1, key.Stream(rng.Select).Round(1))
			know := agent.(*tabular)
			m := MDP{Size: world.Size(), Mean: make([]float64, len(know.n)), Arrows: make([][]Arrow, len(know.n))}
			for c, n := range know.n {
				if n == 0 {
					continue
				}
				m.Mean[c] = know.sum[c] / n
				for _, f := range know.after[c] {
					m.Arrows[c] = append(m.Arrows[c], Arrow{int(f.next), f.n / n})
				}
			}
			_, q := m.Solve()
			checked := 0
			for h := range m.Steps {
				for s := range m.States {
					for a := range m.Actions {
						c := m.cell(h, s, a)
						if know.n[c] == 0 {
							continue // the chain moves one state in a step, so some are out of reach
						}
						checked++
						if math.Abs(know.q[c]-q[c]) > 1e-12 {
							t.Fatalf("%s: Q_%d(%d, %d) is %v, value iteration has %v", name, h, s, a, know.q[c], q[c])
						}
						if _, chain := env.(*ChainOptions); chain {
							if w := world.(*Tabular); math.Abs(know.q[c]-w.q[c]) > 1e-12 {
								t.Fatalf("%s: Q_%d(%d, %d) is %v, the optimum %v", name, h, s, a, know.q[c], w.q[c])
							}
						}
					}
				}
			}
			if checked < 50 {
				t.Errorf("%s: %d cells were visited", name, checked)
			}
		}
	}
}

// TestLinearIsTabular: with one-hot features the linear ensemble and linear fresh noise play the same actions as the
// tabular ones, and their values have the same bits, on a problem with chance and noise.
func TestLinearIsTabular(t *testing.T) {
	for _, c := range []struct{ method, redraw string }{{"ensemble", "episode"}, {"ensemble", "step"}, {"fresh", "episode"},
		{"fresh", "step"}} {
		redraw, o := c.redraw, rlsvi(4)
		o.Redraw = redraw
		var tabularOf AgentOptions = ens(o)
		if c.method == "fresh" {
			tabularOf = &FreshOptions{o.Sigma, o.Prior, redraw}
		}
		for _, env := range []Options{sea(6), &RandomOptions{States: 4, Actions: 3, Steps: 5, Noise: 0.3}} {
			key := rng.NewKey(11)
			world, err := env.Problem(key)
			if err != nil {
				t.Fatal(err)
			}
			s := SettingOf(world, key, 200)
			one, err := tabularOf.Agent(s)
			if err != nil {
				t.Fatal(err)
			}
			two, err := (&LinearOptions{M: o.M, Sigma: o.Sigma, Prior: o.Prior, Redraw: redraw, Features: "one-hot",
				Method: c.method}).Agent(s)
			if err != nil {
				t.Fatal(err)
			}
			if err := Play(world, &twins{one, two, t}, key, 200, new(sums)); err != nil {
				t.Fatal(err)
			}
			tab, lin := one.(*tabular), two.(*linear)
			for h := range world.Size().Steps {
				for i, theta := range lin.steps[h].theta {
					c := h*lin.d + i
					if st := i / world.Size().Actions; tab.seen[h*world.Size().States+st] && tab.q[c] != theta {
						t.Fatalf("cell %d: tabular %v, linear %v", c, tab.q[c], theta)
					}
				}
			}
		}
	}
}

// twins plays what one agent chooses and compares the other with it.
type twins struct {
	Agent
	other Agent
	t     *testing.T
}

func (w *twins) Begin(k int, draw rng.Source) { w.Agent.Begin(k, draw); w.other.Begin(k, draw) }
func (w *twins) Act(h, s int, draw rng.Source) int {
	a, b := w.Agent.Act(h, s, draw), w.other.Act(h, s, draw)
	if a != b {
		w.t.Fatalf("step %d, state %d: tabular chose %d, linear %d", h, s, a, b)
	}
	return a
}
func (w *twins) Learn(h, s, a int, reward float64, next int, draw rng.Source) {
	w.Agent.Learn(h, s, a, reward, next, draw)
	w.other.Learn(h, s, a, reward, next, draw)
}

// TestLinearRegression: after random updates L·D·Lᵀ solves the normal equations, and atoms have the variance σ²φᵀV⁻¹φ
// (n = 20 000 members, 6 standard errors of a variance, √(2/n) each).
func TestLinearRegression(t *testing.T) {
	const d, lam, m = 4, 0.25, 20_000
	o := LinearOptions{M: m, Sigma: 0.5, Prior: 1, OneSided: true, Redraw: "episode",
		Features: "environment", Method: "atoms"}
	key := rng.NewKey(2)
	world, err := (&RandomOptions{States: 5, Actions: 2, Steps: 2, Rank: d}).Problem(key)
	if err != nil {
		t.Fatal(err)
	}
	agent, err := o.Agent(SettingOf(world, key, 1))
	if err != nil {
		t.Fatal(err)
	}
	explore(t, world, agent, key, 40)
	st := &agent.(*linear).steps[1]
	// V by hand, from the LDLᵀ and from the features of what was played.
	x, b, back := make([]float64, d), []float64{1, -2, 0.5, 3}, make([]float64, d)
	st.solve(x, b)
	v := rebuild(st, d)
	trace := 0.0
	for i := range d {
		trace += v[i*d+i]
		for k := range d {
			back[i] += v[i*d+k] * x[k]
		}
		if math.Abs(back[i]-b[i]) > 1e-10 {
			t.Errorf("V·V⁻¹b has %v at %d, expected %v", back[i], i, b[i])
		}
	}
	want := d * lam
	phi := make([]float64, d)
	if err := Play(world, &recorderOf{uniform{2}, func(h, s, a int) {
		if h == 1 {
			world.(Featured).Features(phi, h, s, a)
			for _, p := range phi {
				want += p * p
			}
		}
	}}, key, 40, new(sums)); err != nil {
		t.Fatal(err)
	}
	if math.Abs(trace-want) > 1e-10 {
		t.Errorf("the trace of V is %v, that of λI + Σ φφᵀ %v", trace, want)
	}
	l := agent.(*linear)
	world.(Featured).Features(phi, 1, 0, 1)
	st.solve(x, phi)
	sigma2 := 0.0
	for i := range d {
		sigma2 += 0.25 * phi[i] * x[i]
	}
	got := 0.0
	for j := range m {
		l.who.j, l.who.sign = j, 1
		clear(st.theta)
		l.addNoise(1)
		q := 0.0
		for i := range d {
			q += phi[i] * st.theta[i]
		}
		got += q * q / m
	}
	if math.Abs(got/sigma2-1) > 6*math.Sqrt(2.0/m) {
		t.Errorf("atoms have variance %v, expected %v", got, sigma2)
	}
}

// rebuild multiplies L·D·Lᵀ out.
func rebuild(st *linearStep, d int) []float64 {
	v := make([]float64, d*d)
	at := func(i, k int) float64 {
		switch {
		case i == k:
			return 1
		case k < i:
			return st.l[i*d+k]
		}
		return 0
	}
	for i := range d {
		for j := range d {
			for k := range d {
				v[i*d+j] += at(i, k) * st.diag[k] * at(j, k)
			}
		}
	}
	return v
}

type recorderOf struct {
	Agent
	f func(h, s, a int)
}

func (r *recorderOf) Learn(h, s, a int, _ float64, _ int, _ rng.Source) { r.f(h, s, a) }

// TestAtomsAreDerived: two agents with the same counts have the same values, whatever came first.
func TestAtomsAreDerived(t *testing.T) {
	world, err := (&ChainOptions{4}).Problem(rng.NewKey(1))
	if err != nil {
		t.Fatal(err)
	}
	type visit struct{ h, s, a int }
	visits := []visit{{0, 1, 1}, {0, 1, 1}, {0, 1, 0}, {1, 2, 1}, {1, 2, 1}, {1, 2, 1}, {2, 3, 0}}
	var got [2][]float64
	for i := range got {
		key := rng.NewKey(4)
		a, err := atm(rlsvi(3)).Agent(SettingOf(world, key, 1))
		if err != nil {
			t.Fatal(err)
		}
		for n := range visits {
			v := visits[n]
			if i == 1 {
				v = visits[len(visits)-1-n]
			}
			a.Act(v.h, v.s, key.Stream(rng.Select).Round(uint64(n)))
			a.Learn(v.h, v.s, v.a, 0.5, min(v.s+1, 3), key.Stream(rng.Perturb).Round(uint64(n)))
		}
		a.Begin(1, key.Stream(rng.Select).Round(99))
		got[i] = a.(*tabular).q
	}
	for c := range got[0] {
		if got[0][c] != got[1][c] {
			t.Fatalf("cell %d: %v and %v", c, got[0][c], got[1][c])
		}
	}
}

func TestLogged(t *testing.T) {
	want := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 17, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100, 120}
	var got []int
	for k := range 121 {
		if Logged(k) {
			got = append(got, k)
		}
	}
	list := LoggedUpTo(120)
	if len(got) != len(want) || len(list) != len(want) {
		t.Fatalf("%v and %v, expected %v", got, list, want)
	}
	for i := range want {
		if got[i] != want[i] || list[i] != want[i] {
			t.Fatalf("%v and %v, expected %v", got, list, want)
		}
	}
	for size, at := range map[int]int{10: 1123, 12: 4195, 50: 10_000} {
		if !Scores(size, at) || Scores(size, at+1) || Scores(size, 0) {
			t.Errorf("N = %d: the last episode that scores is not %d", size, at)
		}
	}
}

func TestBadInput(t *testing.T) {
	bad := small()
	bad.Arrows[5] = []Arrow{{0, 0.5}, {1, 0.4}}
	none := small()
	none.Steps = 0
	infinite := small()
	infinite.Mean[1] = math.Inf(1)
	for want, m := range map[string]MDP{
		"step 1, state 0, action 1: the probabilities sum to 0.9": bad,
		"steps: is 0: the horizon":                                none,
		"step 0, state 0, action 1: the reward is +Inf":           infinite,
	} {
		if _, err := NewTabular(m); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, expected %q", err, want)
		}
	}
	for want, raw := range map[string]spec.Raw{
		"size: is 1":                        {"kind": "deep-sea", "size": int64(1)},
		"size: is 501":                      {"kind": "deep-sea-stochastic", "size": int64(501)},
		"move_cost: is 1":                   {"kind": "deep-sea", "move_cost": 1.0},
		"steps: is 0":                       {"kind": "river-swim", "steps": int64(0)},
		"noise: is -1":                      {"kind": "random-mdp", "noise": -1.0},
		"sum to 1.1":                        tableSpec([]any{0.6, 0.5}, 1.0),
		"rewards[0][0]: is +Inf":            tableSpec([]any{1.0, 0.0}, math.Inf(1)),
		"transitions[0][1]: is a list of 2": {"kind": "table", "transitions": []any{[]any{[]any{1.0}, []any{0.5, 0.5}}}, "rewards": []any{[]any{1.0}}},
	} {
		o, err := spec.Decode(Environments, raw, "")
		if err == nil {
			_, err = o.Problem(rng.NewKey(1))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: the error is %v, expected %q", raw, err, want)
		}
	}
	world, err := sea(4).Problem(rng.NewKey(1))
	if err != nil {
		t.Fatal(err)
	}
	for want, raw := range map[string]spec.Raw{
		"m: is 0":                         {"kind": "ensemble", "m": int64(0)},
		"sigma: is -1":                    {"kind": "atoms", "sigma": -1.0},
		"prior: is 0":                     {"kind": "fresh", "prior": 0.0},
		`redraw: is "never"`:              {"kind": "ensemble", "redraw": "never"},
		"epsilon: is 2":                   {"kind": "greedy", "epsilon": 2.0},
		"bonus: is -1":                    {"kind": "optimism", "bonus": -1.0},
		"delta: is 1":                     {"kind": "ucbvi", "delta": 1.0},
		"the environment has no features": {"kind": "linear"},
	} {
		o, err := spec.Decode(Agents, raw, "")
		if err == nil {
			_, err = o.Agent(SettingOf(world, rng.NewKey(1), 10))
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: the error is %v, expected %q", raw, err, want)
		}
	}
	for kind, mk := range Agents {
		s := SettingOf(world, rng.NewKey(1), 10)
		s.Size.States = 0
		if _, err := mk().Agent(s); kind != "uniform" && (err == nil || !strings.Contains(err.Error(), "numbered states")) {
			t.Errorf("%s without states: %v", kind, err)
		}
	}
}

// tableSpec is a spec of one state that leads to two.
func tableSpec(row []any, reward float64) spec.Raw {
	return spec.Raw{"kind": "table", "transitions": []any{[]any{row}, []any{[]any{0.0, 1.0}}},
		"rewards": []any{[]any{reward}, []any{0.0}}}
}

// TestRefused: what an environment or an agent of one's own does wrong ends the play with its place.
func TestRefused(t *testing.T) {
	w, err := NewTabular(small())
	if err != nil {
		t.Fatal(err)
	}
	if err := Play(w, wild{}, rng.NewKey(1), 1, new(sums)); err == nil || !strings.Contains(err.Error(), "action is 2") {
		t.Errorf("an action that is not there: %v", err)
	}
	if err := Play(broken{w}, uniform{2}, rng.NewKey(1), 1, new(sums)); err == nil ||
		!strings.Contains(err.Error(), "reward NaN") {
		t.Errorf("a reward that is not finite: %v", err)
	}
}

type wild struct{ uniform }

func (wild) Act(int, int, rng.Source) int { return 2 }

type broken struct{ *Tabular }

func (broken) Step(int, int, int, rng.Source) (int, float64) { return 0, math.NaN() }

package episode

import (
	"fmt"

	"gonum.org/v1/gonum/mathext/prng"

	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
)

// Environments is the registry of episodic problems; adding one is one line.
var Environments = spec.Registry[Options]{
	"deep-sea":            func() Options { return NewDeepSea() },
	"deep-sea-stochastic": func() Options { return NewStochastic() },
	"chain":               func() Options { return &ChainOptions{States: 10} },
	"river-swim":          func() Options { return &RiverSwimOptions{States: 6, Steps: 20} },
	"random-mdp":          func() Options { return &RandomOptions{States: 10, Actions: 3, Steps: 10, Noise: 0.1} },
	"table":               func() Options { return &TableOptions{Steps: 10} },
}

// between refuses a whole number outside of a range.
func between(key string, v, low, high int) error {
	if v < low || v > high {
		return spec.Errorf(key, "is %d, expected a whole number from %d to %d", v, low, high)
	}
	return nil
}

// DeepSeaOptions are the options of kind "deep-sea" (Osband and others 2019; bsuite/environments/deep_sea.py): an N×N
// grid, one row down in each step, right or left by the action, which of them by a random map of the actions of each
// place. Right costs MoveCost/N and pays 1 in the last column, which only N moves right in N steps reach. A left move
// on the diagonal makes the episode a bad one.
//
// The state is the column, the step is the row.
type DeepSeaOptions struct {
	Size        int     `key:"size" doc:"N: columns, and steps of an episode"`
	MoveCost    float64 `key:"move_cost" doc:"what N moves right cost together"`
	MappingSeed int     `key:"mapping_seed" doc:"seed of the map from actions to moves, as numpy.random.RandomState draws it"`
}

// NewDeepSea returns bsuite's settings with N = 10.
func NewDeepSea() *DeepSeaOptions { return &DeepSeaOptions{Size: 10, MoveCost: 0.01, MappingSeed: 42} }

// Doc says what the kind is.
func (*DeepSeaOptions) Doc() string {
	return "bsuite's DeepSea: one treasure, N moves right away; undirected exploration takes 2^N episodes"
}

// StochasticOptions are the options of kind "deep-sea-stochastic": a move right fails with probability 1/N, and stays
// in its column; the two corners of the last row pay standard normal noise on top.
type StochasticOptions DeepSeaOptions

// NewStochastic returns bsuite's settings with N = 10.
func NewStochastic() *StochasticOptions { o := StochasticOptions(*NewDeepSea()); return &o }

// Doc says what the kind is.
func (*StochasticOptions) Doc() string {
	return "bsuite's stochastic DeepSea: right fails with probability 1/N, both ends of the last row pay noise"
}

// maxDeepSea bounds N.
const maxDeepSea = 500

// Problem implements Options. It is the same in every replication.
func (o *DeepSeaOptions) Problem(rng.Key) (Environment, error) { return o.problem(false) }

// Problem implements Options. It is the same in every replication.
func (o *StochasticOptions) Problem(rng.Key) (Environment, error) {
	return (*DeepSeaOptions)(o).problem(true)
}

func (o *DeepSeaOptions) problem(stochastic bool) (Environment, error) {
	if err := between("size", o.Size, 2, maxDeepSea); err != nil {
		return nil, err
	}
	if !(o.MoveCost >= 0 && o.MoveCost < 1) {
		return nil, spec.Errorf("move_cost", "is %v, expected a number in [0, 1)", o.MoveCost)
	}
	if err := between("mapping_seed", o.MappingSeed, 0, 1<<32-1); err != nil {
		return nil, err
	}
	n := o.Size
	right := actionMap(uint64(o.MappingSeed), n*n)
	m := MDP{Size: Size{n, n, 2}, Mean: make([]float64, 2*n*n), Arrows: make([][]Arrow, 2*n*n),
		Largest: 1}
	if stochastic {
		m.Noise = make([]float64, 2*n*n)
	}
	flat := make([]Arrow, 0, 4*n*n)
	put := func(c int, arrows ...Arrow) {
		from := len(flat)
		flat = append(flat, arrows...)
		m.Arrows[c] = flat[from:len(flat):len(flat)]
	}
	for h := range n {
		for s := range n {
			r := m.cell(h, s, right[h*n+s])
			l := m.cell(h, s, 1-right[h*n+s])
			put(l, Arrow{max(s-1, 0), 1})
			m.Mean[r] = -o.MoveCost / float64(n)
			if s == n-1 {
				m.Mean[r]++
			}
			if stochastic {
				p := 1 / float64(n)
				put(r, Arrow{s, p}, Arrow{min(s+1, n-1), 1 - p})
				if h == n-1 && (s == 0 || s == n-1) {
					m.Noise[l], m.Noise[r] = 1, 1
				}
				continue
			}
			put(r, Arrow{min(s+1, n-1), 1})
		}
	}
	t, err := NewTabular(m)
	if err != nil {
		return nil, err
	}
	rule := Deterministic
	if stochastic {
		rule = Stochastic
	}
	return &DeepSea{t, right, rule}, nil
}

// DeepSea is the environment of DeepSeaOptions.
type DeepSea struct {
	*Tabular
	right []int // by place: the action that moves right
	rule  Rule
}

// Right returns the action that moves right in column s of row h.
func (d *DeepSea) Right(h, s int) int { return d.right[h*d.mdp.States+s] }

// Grade implements Graded.
func (d *DeepSea) Grade(h, s, a int) (bad, treasure bool) {
	right := a == d.Right(h, s)
	return !right && h == s, right && s == d.mdp.States-1
}

// Rule implements Graded.
func (d *DeepSea) Rule() Rule { return d.rule }

// actionMap returns numpy.random.RandomState(seed).binomial(1, 0.5, n): 1 where a 53-bit uniform of the Mersenne
// twister is above ½.
func actionMap(seed uint64, n int) []int {
	src := prng.NewMT19937()
	src.Seed(seed)
	out := make([]int, n)
	for i := range out {
		hi, lo := uint64(src.Uint32()>>5), uint64(src.Uint32()>>6)
		if float64(hi<<26|lo)/(1<<53) > 0.5 {
			out[i] = 1
		}
	}
	return out
}

// ChainOptions are the options of kind "chain" (Osband and others 2016, Deep exploration via bootstrapped DQN, section
// 5.1): N states in a row, N + 9 steps from the second. The move left in the first state pays 0.001, the move right in
// the last state 1.
type ChainOptions struct {
	States int `key:"states" doc:"N ≥ 3: length of the chain; an episode has N + 9 steps"`
}

// Doc says what the kind is.
func (*ChainOptions) Doc() string {
	return "a chain of N states: 0.001 at the near end, 1 at the far end (Osband and others 2016)"
}

// Problem implements Options. It is the same in every replication.
func (o *ChainOptions) Problem(rng.Key) (Environment, error) {
	if err := between("states", o.States, 3, 1000); err != nil {
		return nil, err
	}
	n := o.States
	t, err := NewTabular(stationary(Size{n + 9, n, 2}, 1, func(s, a int) (float64, []Arrow) {
		switch {
		case a == 0 && s == 0:
			return 0.001, []Arrow{{0, 1}}
		case a == 0:
			return 0, []Arrow{{s - 1, 1}}
		case s == n-1:
			return 1, []Arrow{{s, 1}}
		}
		return 0, []Arrow{{s + 1, 1}}
	}))
	if err != nil {
		return nil, err
	}
	return t, nil
}

// RiverSwimOptions are the options of kind "river-swim" (Strehl and Littman 2008; the numbers of Osband, Russo and Van
// Roy 2013): left always succeeds and pays 0.005 in the first state; right, against the current, goes up with
// probability 0.35, stays with 0.6 and falls back with 0.05, and pays 1 in the last state. In the first state right
// stays with 0.4 and goes up with 0.6, in the last it stays with 0.6 and falls back with 0.4.
type RiverSwimOptions struct {
	States int `key:"states" doc:"S ≥ 3"`
	Steps  int `key:"steps" doc:"H: steps of an episode"`
}

// Doc says what the kind is.
func (*RiverSwimOptions) Doc() string {
	return "RiverSwim: a small reward downstream, a large one against the current"
}

// Problem implements Options. It is the same in every replication.
func (o *RiverSwimOptions) Problem(rng.Key) (Environment, error) {
	if err := between("states", o.States, 3, 1000); err != nil {
		return nil, err
	}
	if err := between("steps", o.Steps, 1, 10_000); err != nil {
		return nil, err
	}
	last := o.States - 1
	t, err := NewTabular(stationary(Size{o.Steps, o.States, 2}, 0, func(s, a int) (float64, []Arrow) {
		switch {
		case a == 0 && s == 0:
			return 0.005, []Arrow{{0, 1}}
		case a == 0:
			return 0, []Arrow{{s - 1, 1}}
		case s == 0:
			return 0, []Arrow{{0, 0.4}, {1, 0.6}}
		case s == last:
			return 1, []Arrow{{s - 1, 0.4}, {s, 0.6}}
		}
		return 0, []Arrow{{s - 1, 0.05}, {s, 0.6}, {s + 1, 0.35}}
	}))
	if err != nil {
		return nil, err
	}
	return t, nil
}

// stationary is a problem that is the same in every step.
func stationary(z Size, start int, row func(s, a int) (float64, []Arrow)) MDP {
	m := MDP{Size: z, Start: start, Mean: make([]float64, z.cells()), Arrows: make([][]Arrow, z.cells())}
	for s := range z.States {
		for a := range z.Actions {
			r, arrows := row(s, a)
			for h := range z.Steps {
				c := z.cell(h, s, a)
				m.Mean[c], m.Arrows[c] = r, arrows
			}
		}
	}
	return m
}

// RandomOptions are the options of kind "random-mdp": in each replication another stationary problem. The mean rewards
// are uniform on [0, 1]. Without a rank the rows of transitions are uniform on the simplex. With rank d they are
// mixtures Σ_i φ_i(s, a)·μ_i of d such rows, and the rewards Σ_i φ_i(s, a)·θ_i, φ uniform on the simplex: a linear MDP
// (Jin and others 2020) with the d features φ.
type RandomOptions struct {
	States  int     `key:"states" doc:"S"`
	Actions int     `key:"actions" doc:"A"`
	Steps   int     `key:"steps" doc:"H: steps of an episode"`
	Noise   float64 `key:"noise" doc:"standard deviation of the rewards"`
	Rank    int     `key:"rank" doc:"d: number of features of a linear MDP; 0: no features"`
}

// Doc says what the kind is.
func (*RandomOptions) Doc() string {
	return "a random tabular problem in each replication; with a rank a linear MDP with features"
}

// Problem implements Options. The problem is drawn from the stream rng.Instance.
func (o *RandomOptions) Problem(key rng.Key) (Environment, error) {
	for _, c := range []struct {
		key       string
		v, lo, hi int
	}{{"states", o.States, 1, 1000}, {"actions", o.Actions, 1, 100}, {"steps", o.Steps, 1, 1000}, {"rank", o.Rank, 0, 1000}} {
		if err := between(c.key, c.v, c.lo, c.hi); err != nil {
			return nil, err
		}
	}
	if !(o.Noise >= 0) || !finite(o.Noise) {
		return nil, spec.Errorf("noise", "is %v, expected a finite number from 0 on", o.Noise)
	}
	if n := o.States * o.States * o.Actions; n > maxCells {
		return nil, spec.Errorf("states", "is %d, which makes %d transitions, expected at most %d", o.States, n, maxCells)
	}
	rows := o.States * o.Actions
	draw := key.Stream(rng.Instance)
	base, dim := rows, o.States
	if o.Rank > 0 {
		base = o.Rank
	}
	mu, theta := simplexes(draw.Round(0), base, dim), make([]float64, base)
	for i := range theta {
		theta[i] = draw.Round(1).Float64(i)
	}
	var phi [][]float64
	if o.Rank > 0 {
		phi = simplexes(draw.Round(2), rows, o.Rank)
	}
	z := Size{o.Steps, o.States, o.Actions}
	m := stationary(z, 0, func(s, a int) (float64, []Arrow) {
		i := s*o.Actions + a
		if phi == nil {
			return theta[i], arrowsOf(mu[i])
		}
		p, r := make([]float64, dim), 0.0
		for k, w := range phi[i] {
			r += float64(w * theta[k])
			for next, v := range mu[k] {
				p[next] += float64(w * v)
			}
		}
		return r, arrowsOf(p)
	})
	if o.Noise > 0 {
		m.Noise = make([]float64, z.cells())
		for c := range m.Noise {
			m.Noise[c] = o.Noise
		}
	}
	t, err := NewTabular(m)
	if err != nil {
		return nil, err
	}
	t.most = 0 // another problem has another one
	if phi == nil {
		return t, nil
	}
	return &linearMDP{t, phi}, nil
}

// simplexes draws n uniform points of the simplex in d dimensions: normalised exponentials.
func simplexes(draw rng.Source, n, d int) [][]float64 {
	out := make([][]float64, n)
	for i := range out {
		row, sum := make([]float64, d), 0.0
		for k := range row {
			row[k] = -logs.Log(draw.Float64(i*d + k))
			sum += row[k]
		}
		for k := range row {
			row[k] /= sum
		}
		out[i] = row
	}
	return out
}

func arrowsOf(p []float64) []Arrow {
	out := make([]Arrow, len(p))
	for i, v := range p {
		out[i] = Arrow{i, v}
	}
	return out
}

// linearMDP is a Tabular with features that do not depend on the step.
type linearMDP struct {
	*Tabular
	phi [][]float64 // by state and action
}

// Dim implements Featured.
func (l *linearMDP) Dim() int { return len(l.phi[0]) }

// Features implements Featured.
func (l *linearMDP) Features(dst []float64, _, s, a int) { copy(dst, l.phi[s*l.mdp.Actions+a]) }

// TableOptions are the options of kind "table": a stationary problem of one's own.
//
//	transitions = [[[0.9, 0.1], [0, 1]], [[1, 0], [0.5, 0.5]]]   # state, action, next state
//	rewards     = [[0, 0.1], [1, 0]]                             # state, action
type TableOptions struct {
	Transitions Tensor  `key:"transitions" doc:"for each state and action the probabilities of the next states"`
	Rewards     Tensor  `key:"rewards" doc:"for each state and action the mean reward"`
	Noise       float64 `key:"noise" doc:"standard deviation of the rewards"`
	Start       int     `key:"start" doc:"first state of an episode, from 0"`
	Steps       int     `key:"steps" doc:"H: steps of an episode"`
}

// Doc says what the kind is.
func (*TableOptions) Doc() string {
	return "a problem of your own: transitions and rewards by state and action"
}

// Problem implements Options. It is the same in every replication.
func (o *TableOptions) Problem(rng.Key) (Environment, error) {
	p, err := o.Transitions.lists("transitions", 3)
	if err != nil {
		return nil, err
	}
	r, err := o.Rewards.lists("rewards", 2)
	if err != nil {
		return nil, err
	}
	if err := between("steps", o.Steps, 1, 10_000); err != nil {
		return nil, err
	}
	if !(o.Noise >= 0) || !finite(o.Noise) {
		return nil, spec.Errorf("noise", "is %v, expected a finite number from 0 on", o.Noise)
	}
	if r.shape[0] != p.shape[0] || r.shape[1] != p.shape[1] {
		return nil, spec.Errorf("rewards", "are of %d states and %d actions, the transitions of %d and %d", r.shape[0],
			r.shape[1], p.shape[0], p.shape[1])
	}
	if p.shape[2] != p.shape[0] {
		return nil, spec.Errorf("transitions", "have %d next states, expected one for each of the %d states",
			p.shape[2], p.shape[0])
	}
	z := Size{o.Steps, p.shape[0], p.shape[1]}
	if n := float64(z.Steps) * float64(z.States) * float64(z.Actions); n > maxCells {
		return nil, spec.Errorf("steps", "is %d, which makes %.3g cells, expected at most %d", z.Steps, n, maxCells)
	}
	m := stationary(z, o.Start, func(s, a int) (float64, []Arrow) {
		i := s*z.Actions + a
		var arrows []Arrow
		for next, v := range p.values[i*z.States:][:z.States] {
			if v != 0 {
				arrows = append(arrows, Arrow{next, v})
			}
		}
		return r.values[i], arrows
	})
	if o.Noise > 0 {
		m.Noise = make([]float64, z.cells())
		for c := range m.Noise {
			m.Noise[c] = o.Noise
		}
	}
	t, err := NewTabular(m)
	if err != nil {
		return nil, err
	}
	return t, nil
}

// Tensor is a value of nested lists of numbers, all of one length at each depth.
type Tensor struct {
	shape  []int
	values []float64
}

// DecodeSpec implements spec.Decoder.
func (t *Tensor) DecodeSpec(v any, path string) error {
	t.shape, t.values = nil, nil
	return t.read(v, path, 0)
}

// ExpandSpec implements spec.Decoder: the lists are the value, no sweep.
func (t *Tensor) ExpandSpec(v any) []spec.Choice { return []spec.Choice{{Value: v}} }

func (t *Tensor) read(v any, path string, depth int) error {
	list, ok := v.([]any)
	if !ok {
		x, ok := spec.Number(v)
		if !ok || depth != len(t.shape) || depth == 0 {
			return spec.Errorf(path, "is %s, expected lists of numbers, as long as their neighbours", spec.Show(v))
		}
		if !finite(x) {
			return spec.Errorf(path, "is %v, expected a finite number", x)
		}
		t.values = append(t.values, x)
		return nil
	}
	if depth == len(t.shape) && len(t.values) == 0 {
		t.shape = append(t.shape, len(list))
	}
	if depth >= len(t.shape) || len(list) != t.shape[depth] || len(list) == 0 {
		return spec.Errorf(path, "is a list of %d, expected as many entries as its neighbours have, at least one", len(list))
	}
	for i, e := range list {
		if err := t.read(e, spec.Element(path, i), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// String implements fmt.Stringer: what a list of options shows as its default.
func (t Tensor) String() string {
	if t.shape == nil {
		return "none"
	}
	return fmt.Sprint(t.shape)
}

// lists returns the tensor if it has the depth.
func (t Tensor) lists(key string, depth int) (Tensor, error) {
	if len(t.shape) != depth {
		return t, spec.Errorf(key, "are lists in lists %d deep, expected %d", len(t.shape), depth)
	}
	return t, nil
}

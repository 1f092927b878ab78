package episode

import (
	"math"

	"troupe/rng"
	"troupe/spec"
)

// Agents is the registry of agents; adding one is one line.
var Agents = spec.Registry[AgentOptions]{
	"ensemble": func() AgentOptions { return NewEnsemble() },
	"atoms":    func() AgentOptions { return NewAtoms() },
	"fresh":    func() AgentOptions { return &FreshOptions{Sigma: 0.1, Prior: 1, Redraw: "episode"} },
	"linear": func() AgentOptions {
		return NewLinear()
	},
	"hyperagent": func() AgentOptions { return NewHyperAgent() },
	"greedy":     func() AgentOptions { return new(GreedyOptions) },
	"q-learning": func() AgentOptions { return new(QLearningOptions) },
	"optimism":   func() AgentOptions { return new(OptimismOptions) },
	"ucbvi":      func() AgentOptions { return &UCBVIOptions{Scale: 1, Delta: 0.1} },
	"uniform":    func() AgentOptions { return new(UniformOptions) },
}

// RLSVI are the options that agents with members share: randomised least-squares value iteration (Osband, Van Roy and
// Wen 2016), with λ = (σ/prior)². One member plays a whole episode.
type RLSVI struct {
	M        int     `key:"m" doc:"members m"`
	Sigma    float64 `key:"sigma" doc:"standard deviation σ of the perturbation of a target"`
	Prior    float64 `key:"prior" doc:"standard deviation of the random priors; λ = (σ/prior)², and λ = 0 where it is 0"`
	OneSided bool    `key:"one_sided" doc:"members play with the sign + only, not with a random sign"`
	Redraw   string  `key:"redraw" doc:"when a member is drawn: episode, or step, which fails (an ablation)"`
}

// NewRLSVI returns the defaults: those with which DeepSea is solved in the record.
func NewRLSVI() RLSVI { return RLSVI{M: 20, Sigma: 0.1, Prior: 1, Redraw: "episode"} }

// maxMembers bounds m.
const maxMembers = 100_000

func (o *RLSVI) check(size Size) error {
	if err := between("m", o.M, 1, maxMembers); err != nil {
		return err
	}
	if n := float64(o.M) * float64(size.cells()); n > 40*maxCells {
		return spec.Errorf("m", "is %d, which with %d cells makes %.3g numbers, expected at most %d", o.M, size.cells(), n,
			40*maxCells)
	}
	return checkNoise(o.Sigma, o.Prior, o.Redraw)
}

func checkNoise(sigma, prior float64, redraw string) error {
	for _, c := range []struct {
		key string
		v   float64
	}{{"sigma", sigma}, {"prior", prior}} {
		if !(c.v >= 0 && c.v <= 1e100) {
			return spec.Errorf(c.key, "is %v, expected a finite number from 0 on", c.v)
		}
	}
	if redraw != "episode" && redraw != "step" {
		return spec.Errorf("redraw", "is %q%s", redraw, spec.Suggest(redraw, []string{"episode", "step"}))
	}
	return nil
}

// lambda is the ridge parameter that makes prior the standard deviation of a value before the first reward.
func lambda(sigma, prior float64) float64 {
	if prior == 0 {
		return 0
	}
	return float64((sigma / prior) * (sigma / prior))
}

// EnsembleOptions are the options of kind "ensemble": every member keeps the sum of its perturbations,
//
//	Q^j_h(s, a) = (Σ (r + V^j_{h+1}(s')) + ς(σ·S^j + λ·p^j)) / (n + λ),
//
// over the n visits of (h, s, a), with S^j the sum of n standard normals, p^j the random prior and ς the sign of the
// episode.
type EnsembleOptions RLSVI

// NewEnsemble returns the defaults.
func NewEnsemble() *EnsembleOptions { o := EnsembleOptions(NewRLSVI()); return &o }

// Doc says what the kind is.
func (*EnsembleOptions) Doc() string {
	return "RLSVI with m members that keep their perturbations (accumulated), random priors and signs"
}

// Agent implements AgentOptions.
func (o *EnsembleOptions) Agent(s Setting) (Agent, error) {
	if err := (*RLSVI)(o).check(s.Size); err != nil {
		return nil, err
	}
	return newTabular(s, lambda(o.Sigma, o.Prior), o.Redraw, func(t *table) noise { return newAccumulated(t, s, RLSVI(*o)) })
}

// AtomsOptions are the options of kind "atoms": members that are computed when they are drawn,
//
//	Q^j_h(s, a) = Σ (r + V^j_{h+1}(s')) / (n + λ) + ς·σ·g^j / √(n + λ),
//
// with a standard normal g^j by cell (h, s, a), member and ⌊log₂(n + λ)⌋: it stays while n doubles. The state is the
// counts and the sums.
type AtomsOptions RLSVI

// NewAtoms returns the defaults.
func NewAtoms() *AtomsOptions { o := AtomsOptions(NewRLSVI()); return &o }

// Doc says what the kind is.
func (*AtomsOptions) Doc() string {
	return "RLSVI with m members that are computed from the counts of each cell and kept while they double"
}

// Agent implements AgentOptions.
func (o *AtomsOptions) Agent(s Setting) (Agent, error) {
	if err := (*RLSVI)(o).check(s.Size); err != nil {
		return nil, err
	}
	if o.Prior == 0 && o.Sigma > 0 {
		return nil, spec.Errorf("prior", "is 0, without which an atom has no size before the first visit")
	}
	return newTabular(s, lambda(o.Sigma, o.Prior), o.Redraw, func(t *table) noise { return newAtoms(t, s, RLSVI(*o)) })
}

// FreshOptions are the options of kind "fresh": RLSVI as it is analysed. Each episode draws all of its noise anew,
//
//	Q_h(s, a) = Σ (r + V_{h+1}(s')) / (n + λ) + σ·g / √(n + λ).
type FreshOptions struct {
	Sigma  float64 `key:"sigma" doc:"standard deviation σ of the perturbation of a target"`
	Prior  float64 `key:"prior" doc:"standard deviation of a value before the first reward; λ = (σ/prior)²"`
	Redraw string  `key:"redraw" doc:"when noise is drawn: episode, or step, which fails (an ablation)"`
}

// Doc says what the kind is.
func (*FreshOptions) Doc() string { return "RLSVI with new noise in each episode" }

// Agent implements AgentOptions.
func (o *FreshOptions) Agent(s Setting) (Agent, error) {
	if err := checkNoise(o.Sigma, o.Prior, o.Redraw); err != nil {
		return nil, err
	}
	if o.Prior == 0 && o.Sigma > 0 {
		return nil, spec.Errorf("prior", "is 0, without which the noise has no size before the first visit")
	}
	return newTabular(s, lambda(o.Sigma, o.Prior), o.Redraw, func(t *table) noise {
		return &fresh{table: t, sigma: o.Sigma, z: make([]float64, s.Size.cells())}
	})
}

// GreedyOptions are the options of kind "greedy": value iteration on the estimated problem, pairs that were not
// visited worth 0, equal values at random.
type GreedyOptions struct {
	Epsilon float64 `key:"epsilon" doc:"probability of a uniform action in a step"`
}

// Doc says what the kind is.
func (*GreedyOptions) Doc() string {
	return "greedy for the estimated problem, or ε-greedy: exploration without a direction"
}

// Agent implements AgentOptions.
func (o *GreedyOptions) Agent(s Setting) (Agent, error) {
	if err := checkShare("epsilon", o.Epsilon); err != nil {
		return nil, err
	}
	a, err := newTabular(s, 0, "episode", func(*table) noise { return none{} })
	if err != nil || o.Epsilon == 0 {
		return a, err
	}
	return &dithering{a, o.Epsilon, s.Size.Actions}, nil
}

func checkShare(key string, v float64) error {
	if !(v >= 0 && v <= 1) {
		return spec.Errorf(key, "is %v, expected a number in [0, 1]", v)
	}
	return nil
}

// dithering is ε-greedy over any agent. It takes the numbers 1 and 2 of a step's source.
type dithering struct {
	Agent
	epsilon float64
	actions int
}

func (d *dithering) Act(h, s int, draw rng.Source) int {
	if draw.Float64(1) < d.epsilon {
		return draw.Intn(2, d.actions)
	}
	return d.Agent.Act(h, s, draw)
}

// QLearningOptions are the options of kind "q-learning": Q += α(r + max Q' − Q) with α = (H + 1)/(H + n) after n
// visits (Jin and others 2018), from Q = 0, without a bonus.
type QLearningOptions struct {
	Epsilon float64 `key:"epsilon" doc:"probability of a uniform action in a step; 0: greedy"`
}

// Doc says what the kind is.
func (*QLearningOptions) Doc() string { return "Q-learning from 0, greedy or ε-greedy" }

// Agent implements AgentOptions.
func (o *QLearningOptions) Agent(s Setting) (Agent, error) {
	if err := checkShare("epsilon", o.Epsilon); err != nil {
		return nil, err
	}
	if err := numbered(s); err != nil {
		return nil, err
	}
	q := &qLearning{size: s.Size, q: make([]float64, s.Size.cells()), n: make([]float64, s.Size.cells())}
	if o.Epsilon == 0 {
		return q, nil
	}
	return &dithering{q, o.Epsilon, s.Size.Actions}, nil
}

type qLearning struct {
	size Size
	q, n []float64
}

func (q *qLearning) Begin(int, rng.Source) {}

func (q *qLearning) Act(h, s int, draw rng.Source) int {
	return argmax(q.q[q.size.cell(h, s, 0):][:q.size.Actions], draw, 0)
}

func (q *qLearning) Learn(h, s, a int, reward float64, next int, _ rng.Source) {
	target := reward
	if h+1 < q.size.Steps {
		best := math.Inf(-1)
		for _, v := range q.q[q.size.cell(h+1, next, 0):][:q.size.Actions] {
			best = max(best, v)
		}
		target += best
	}
	c := q.size.cell(h, s, a)
	q.n[c]++
	steps := float64(q.size.Steps)
	q.q[c] += float64((steps + 1) / (steps + q.n[c]) * (target - q.q[c]))
}

// OptimismOptions are the options of kind "optimism": pairs that were not visited are worth the most that an episode
// can still bring, the others their estimate and bonus/√n; values stay below that most.
type OptimismOptions struct {
	Bonus float64 `key:"bonus" doc:"c in the bonus c/√n of a pair that was visited n times"`
}

// Doc says what the kind is.
func (*OptimismOptions) Doc() string {
	return "optimism: pairs that were not visited are worth the most an episode can bring (1 in DeepSea), others + c/√n"
}

// Agent implements AgentOptions.
func (o *OptimismOptions) Agent(s Setting) (Agent, error) {
	if !(o.Bonus >= 0) || !finite(o.Bonus) {
		return nil, spec.Errorf("bonus", "is %v, expected a finite number from 0 on", o.Bonus)
	}
	return newTabular(s, 0, "episode", func(t *table) noise {
		t.top = s.Top
		return &bonus{t, o.Bonus}
	})
}

// UCBVIOptions are the options of kind "ucbvi": UCBVI-CH of Azar, Osband and Munos (2017), algorithm 3: the bonus
// 7·H·L/√n with L = log(5·S·A·K·H/δ), where theirs is for returns up to H and this one for returns up to Top:
// 7·Top·L/√n.
type UCBVIOptions struct {
	Scale float64 `key:"scale" doc:"factor of the bonus; 1 is the theorem's"`
	Delta float64 `key:"delta" doc:"failure probability δ"`
}

// Doc says what the kind is.
func (*UCBVIOptions) Doc() string { return "UCBVI with the Chernoff–Hoeffding bonus of its theorem" }

// Agent implements AgentOptions.
func (o *UCBVIOptions) Agent(s Setting) (Agent, error) {
	if !(o.Scale > 0) || !finite(o.Scale) {
		return nil, spec.Errorf("scale", "is %v, expected a finite number above 0", o.Scale)
	}
	if !(o.Delta > 0 && o.Delta < 1) {
		return nil, spec.Errorf("delta", "is %v, expected a number in (0, 1)", o.Delta)
	}
	if err := numbered(s); err != nil {
		return nil, err
	}
	return newTabular(s, 0, "episode", func(t *table) noise {
		t.top = s.Top
		k := float64(s.Size.cells()) * float64(max(s.Episodes, 1))
		return &bonus{t, float64(7 * o.Scale * s.Top[0] * logOf(5*k/o.Delta))}
	})
}

// UniformOptions are the options of kind "uniform".
type UniformOptions struct{}

// Doc says what the kind is.
func (*UniformOptions) Doc() string { return "uniform actions: the control" }

// Agent implements AgentOptions.
func (o *UniformOptions) Agent(s Setting) (Agent, error) { return uniform{s.Size.Actions}, nil }

type uniform struct{ actions int }

func (uniform) Begin(int, rng.Source)                             {}
func (u uniform) Act(_, _ int, draw rng.Source) int               { return draw.Intn(0, u.actions) }
func (uniform) Learn(_, _, _ int, _ float64, _ int, _ rng.Source) {}

// numbered refuses a problem whose states are not numbered.
func numbered(s Setting) error {
	if s.Size.States < 1 {
		return spec.Errorf("kind", "is one that needs numbered states, and the environment has none; take uniform, or an "+
			"agent of your own")
	}
	return nil
}

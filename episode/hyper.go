package episode

import "troupe/rng"

// HyperAgentOptions are the options of kind "hyperagent", HyperAgent (Li, Xu, Han and Luo, ICML 2024, arXiv 2402.10228) for tables. Each visit of a
// cell (h, s, a) adds a random unit vector z of ℝ^M to the cell's vector S, each episode has one index ξ ~ N(0, I_M), and
//
//	Q_h(s, a) = (Σ (r + V_{h+1}(s')) + ⟨σ·S + λ·prior·z₀, ξ⟩) / (n + λ),   λ = (σ/prior)²,
//
// over the n visits. Given the vectors the noise of a cell is N(0, ‖σS + λ·prior·z₀‖²), with about σ²(n + λ) for the square, and two cells have a
// correlation of order M^{−1/2}: as M grows the law becomes that of kind "fresh", at M numbers for a cell.
//
// What was read: the abstract (v4, v5) and the authors' program, not the theorem. The program has perturbations on the sphere and Gaussian
// indices, M = 4 for DeepSea, as here. It trains networks by steps of gradient descent with an index of its own for each target, and its script for
// DeepSea has σ = 0, a prior without perturbations; here the values of a table are solved exactly with one index, and σ is an option. So the
// paper's rate is not claimed for this agent.
type HyperAgentOptions struct {
	M      int     `key:"m" doc:"dimension M of the index"`
	Sigma  float64 `key:"sigma" doc:"standard deviation σ of the perturbation of a target"`
	Prior  float64 `key:"prior" doc:"standard deviation of the random priors; λ = (σ/prior)², and λ = 0 where it is 0"`
	Redraw string  `key:"redraw" doc:"when the index is drawn: episode, or step, which fails (an ablation)"`
}

// NewHyperAgent returns the defaults: M of the authors' script for DeepSea, σ and prior as those of the other agents.
func NewHyperAgent() *HyperAgentOptions {
	return &HyperAgentOptions{M: 4, Sigma: 0.1, Prior: 1, Redraw: "episode"}
}

// Doc says what the kind is.
func (*HyperAgentOptions) Doc() string {
	return "HyperAgent for tables: each cell keeps a vector, each episode draws an index (Li and others 2024; their theorem could not be read, and their program trains networks)"
}

// Agent implements AgentOptions.
func (o *HyperAgentOptions) Agent(s Setting) (Agent, error) {
	r := RLSVI{M: o.M, Sigma: o.Sigma, Prior: o.Prior, Redraw: o.Redraw}
	if err := r.check(s.Size); err != nil {
		return nil, err
	}
	return newTabular(s, lambda(o.Sigma, o.Prior), o.Redraw, func(t *table) noise {
		return &hyper{table: t, sigma: o.Sigma, prior: lambda(o.Sigma, o.Prior) * o.Prior, init: s.Init,
			sums: make([]float64, o.M*t.size.cells()), index: make([]float64, o.M), buf: make([]float64, o.M)}
	})
}

// hyper is the noise of HyperAgent.
type hyper struct {
	*table
	sigma, prior float64 // prior is λ·prior
	init         rng.Stream
	sums         []float64 // by cell the vector of M numbers
	index, buf   []float64
}

// vector is that of a cell.
func (e *hyper) vector(c int) []float64 { return e.sums[c*len(e.index):][:len(e.index)] }

func (e *hyper) saw(h, s int) {
	if e.prior == 0 {
		return
	}
	for c := e.size.cell(h, s, 0); c < e.size.cell(h, s, e.size.Actions); c++ {
		e.init.Round(uint64(c)).Sphere(e.buf, 0)
		e.add(c, e.prior)
	}
}

func (e *hyper) draw(draw rng.Source) { draw.Normals(e.index, 0) }

func (e *hyper) fill(h, s int) {
	for c := e.size.cell(h, s, 0); c < e.size.cell(h, s, e.size.Actions); c++ {
		e.num[c] = 0
		for k, v := range e.vector(c) {
			e.num[c] += float64(v * e.index[k])
		}
	}
}

func (e *hyper) learned(c int, draw rng.Source) {
	if e.sigma == 0 {
		return
	}
	draw.Sphere(e.buf, 0)
	e.add(c, e.sigma)
}

// add adds size times buf to the vector of a cell.
func (e *hyper) add(c int, size float64) {
	own := e.vector(c)
	for k, z := range e.buf {
		own[k] += float64(size * z)
	}
}

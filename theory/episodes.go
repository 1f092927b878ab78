package theory

import "math"

// EpisodicSetting is what the statements on randomised value iteration depend on.
type EpisodicSetting struct {
	D       int     // features d of a linear problem
	Steps   int     // H, the horizon of an episode
	States  int     // S
	Actions int     // A
	T       float64 // steps of all episodes, K·H
}

// Check refuses a setting that is none, with a *DomainError.
func (s EpisodicSetting) Check() error {
	for _, c := range []struct {
		name string
		v    int
	}{{"d", s.D}, {"H", s.Steps}, {"S", s.States}, {"A", s.Actions}} {
		if c.v < 1 || c.v > 1_000_000_000 {
			return &DomainError{c.name, float64(c.v), c.name + " in 1 … 10^9", "the orders of RLSVI"}
		}
	}
	if !(s.T >= float64(s.Steps) && s.T <= 1<<53) {
		return &DomainError{"T", s.T, "T in H … 2^53: at least one episode", "the orders of RLSVI"}
	}
	return nil
}

// EpisodicOrder is a statement of the literature on randomised value iteration, known up to a constant and factors of
// logarithms. It is no bound.
type EpisodicOrder struct {
	Name    string
	Source  string
	Regret  string // formula; "" where what was read has none
	Problem string // which problems
	Agent   string // which algorithm
	Read    string // how much of the source was read
	regret  func(s EpisodicSetting) float64
}

// Eval returns the order with constant 1 and without logarithms; ok is false where the source's rate was not read.
func (o EpisodicOrder) Eval(s EpisodicSetting) (v float64, ok bool) {
	if o.regret == nil {
		return 0, false
	}
	v = o.regret(s)
	return v, !math.IsInf(v, 0)
}

// EpisodicOrders are the statements that the agents of package episode stand beside. None has the number m of members
// of an accumulated ensemble in it.
var EpisodicOrders = []EpisodicOrder{
	{
		Name: "zanette2020", Source: "Zanette, Brandfonbrener, Brunskill, Pirotta and Lazaric, AISTATS 2020, arXiv 1911.00567",
		Regret: "d^2 H^2 T^0.5", Problem: "low-rank (linear) transitions, d features, horizon H; frequentist",
		Agent: "RLSVI with optimistic initial values, noise drawn anew", Read: "abstract",
		regret: func(s EpisodicSetting) float64 {
			return float64(s.D) * float64(s.D) * float64(s.Steps) * float64(s.Steps) * math.Sqrt(s.T)
		},
	},
	{
		Name: "lsvi-phe2021", Source: "arXiv 2106.07841, ICML 2021", Regret: "(d^3 H^3 T)^0.5",
		Problem: "linear, d features, horizon H; worst case",
		Agent:   "LSVI-PHE: rewards perturbed by scalar noise, optimistic reward sampling", Read: "abstract",
		regret: func(s EpisodicSetting) float64 {
			d, h := float64(s.D), float64(s.Steps)
			return math.Sqrt(d * d * d * h * h * h * s.T)
		},
	},
	{
		Name: "xiong2022", Source: "Xiong, Shen, Cui, Fazel and Du, arXiv 2102.09703", Regret: "H (S A T)^0.5",
		Problem: "tabular, other transitions in each step; worst case; the lower bound up to logarithms",
		Agent:   "one random seed in an episode, noise of Bernstein size, clipped values", Read: "abstract",
		regret: func(s EpisodicSetting) float64 {
			return float64(s.Steps) * math.Sqrt(float64(s.States)*float64(s.Actions)*s.T)
		},
	},
	{
		Name: "hyperagent2024", Source: "Li, Xu, Han and Luo, ICML 2024, arXiv 2402.10228",
		Problem: "tabular: sublinear, as the best known randomised tabular algorithm; logarithmic computation in a step",
		Agent:   "HyperAgent: a hypermodel in place of members; the proof is by random projections",
		Read:    "abstract (arXiv v4, v5), authors' summary and program (kind = \"hyperagent\"); the theorem, its rate and what it assumes further could not be had",
	},
}

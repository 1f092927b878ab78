package choose

import (
	"troupe/bandit"
	"troupe/internal/linalg"
)

// Chosen is an action of a decision.
type Chosen struct {
	ID    string `json:"id"`
	Index int    `json:"index"` // among the candidates as they were given
}

// Fraction is a probability as a quotient of integers, exact, not reduced.
type Fraction struct {
	Num uint64 `json:"num"`
	Den uint64 `json:"den"`
}

// Float returns the quotient.
func (f Fraction) Float() float64 { return float64(f.Num) / float64(f.Den) }

// Explained is what the policy computes for one candidate.
type Explained struct {
	Chosen
	Propensity Fraction `json:"propensity"` // under the floor
	// Votes is how many of the policy's Voters models prefer it, where the policy counts. Alike candidates
	// have equal features: the votes are those of all of them together, and they share the probability.
	Votes  uint64 `json:"votes"`
	Voters uint64 `json:"voters,omitempty"`
	Alike  int    `json:"alike,omitempty"` // how many candidates share the votes, itself included; absent for one
	// Score is the estimated reward, ⟨x, θ̂⟩ or that of the playing model, where the policy has one.
	Score *float64 `json:"score,omitempty"`
}

// Explain describes every candidate, after Choose.
func (w *Worker) Explain() []Explained {
	o, g := &w.Offer, &w.law.groups
	out := make([]Explained, o.Count())
	var theta []float64
	if r, ok := w.policy.(regression); ok {
		theta = r.Ridge().Theta()
	}
	d := w.Version.Compiled.Dim
	for i := range out {
		at := o.Place(i)
		num, den := w.Propensity(i)
		out[i] = Explained{Chosen: Chosen{o.IDs[at], at}, Propensity: Fraction{num, den}, Voters: w.law.voted.Total}
		group := i
		if g.of != nil {
			if group = g.of[i]; g.size[group] > 1 {
				out[i].Alike = g.size[group]
			}
		}
		if w.law.voted.Total == 0 {
			out[i].Votes = 0
		} else if g.of != nil {
			out[i].Votes = g.votes[group]
		} else {
			out[i].Votes = w.law.voted.Atoms[group].Count
		}
		switch s, ok := w.policy.(bandit.Scorer); {
		case ok && o.hashed != nil:
			score := s.Score(bandit.Action{At: o.sparse.at[i], X: o.sparse.x[i], Index: bandit.NoIndex})
			out[i].Score = &score
		case ok:
			score := s.Score(bandit.Action{X: o.X[i*d : (i+1)*d], Index: bandit.NoIndex})
			out[i].Score = &score
		case theta != nil:
			score := linalg.Dot(o.X[i*d:(i+1)*d], theta)
			out[i].Score = &score
		}
	}
	return out
}

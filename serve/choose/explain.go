package choose

import (
	"troupe/bandit"
	"troupe/internal/linalg"
)

// Chosen is an action of a decision.
type Chosen struct {
	ID    string `json:"id" doc:"name of the action"`
	Index int    `json:"index" doc:"its place among the actions of the request, from 0"`
}

// Fraction is a probability as a quotient of integers, exact, not reduced.
type Fraction struct {
	Num uint64 `json:"num" doc:"numerator"`
	Den uint64 `json:"den" doc:"denominator, greater than 0"`
}

// Float returns the quotient.
func (f Fraction) Float() float64 { return float64(f.Num) / float64(f.Den) }

// Explained is what the policy computes for one candidate.
type Explained struct {
	Chosen
	Propensity Fraction `json:"propensity"` // under the floor
	// Votes is how many of the policy's Voters models prefer it, where the policy counts. Alike candidates
	// have equal features: the votes are those of all of them together, and they share the probability.
	Votes  uint64 `json:"votes" doc:"how many of the policy's models prefer it"`
	Voters uint64 `json:"voters,omitempty" doc:"how many models the policy has, where it counts votes"`
	Alike  int    `json:"alike,omitempty" doc:"how many actions have equal features and share these votes, itself included; absent for one"`
	// Score is the estimated reward, ⟨x, θ̂⟩ or that of the playing model, where the policy has one.
	Score *float64 `json:"score,omitempty" doc:"estimated reward, where the policy has one"`
	// Numbers are, of a cell of numbers that are played, the middle of the cell.
	Numbers map[string]float64 `json:"numbers,omitempty" doc:"of a cell of numbers: its step or its middle, by name; each cell has an entry of its own"`
	// Of a list: the probability of the action at each position, of which propensity is the sum, and its expected reward
	// there, where nothing above is rewarded or of its categories.
	Marginals []Fraction `json:"marginals,omitempty" doc:"of a list: probability of the action at each position"`
	Values    []float64  `json:"values,omitempty" doc:"of a list: expected reward of the action at each position"`
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
		if o.Plays() {
			out[i].Numbers = map[string]float64{}
			for _, c := range o.Cells(i) {
				out[i].Numbers[o.Grid().Numbers[c.Number].Name] = c.At(.5)
			}
			if o.Alone() {
				out[i].Chosen = Chosen{}
			}
		}
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

package episode

import (
	"fmt"
	"math"

	"troupe/rng"
	"troupe/spec"
)

// Arrow is a transition: to which state, with which probability.
type Arrow struct {
	Next int
	P    float64
}

// MDP is a problem with a finite horizon by its numbers. Lists over (h, s, a) have H·S·A entries, in the order of
// the package comment.
type MDP struct {
	Size
	Start  int
	Mean   []float64 // expected reward
	Noise  []float64 // standard deviation of the normal noise on it; nil for none
	Arrows [][]Arrow // where to; the probabilities of each list sum to 1
	// Largest is the largest expected return of an episode, where it is known better than from the means: Top is at
	// most this. 0 means that it is not.
	Largest float64
}

// Limits of a problem. They keep a slip of the finger from filling the memory.
const (
	maxCells = 20_000_000
	sumSlack = 1e-9 // by which probabilities may miss 1
)

// check refuses numbers that are no problem.
func (m *MDP) check() error {
	if m.Steps < 1 {
		return spec.Errorf("steps", "is %d: the horizon of an episode is at least 1", m.Steps)
	}
	if m.States < 1 {
		return spec.Errorf("states", "is %d, expected at least 1", m.States)
	}
	if m.Actions < 1 {
		return spec.Errorf("actions", "is %d, expected at least 1", m.Actions)
	}
	if n := float64(m.Steps) * float64(m.States) * float64(m.Actions); n > maxCells {
		return spec.Errorf("steps", "is %d, which with %d states and %d actions makes %.3g cells, expected at most %d",
			m.Steps, m.States, m.Actions, n, maxCells)
	}
	if m.Start < 0 || m.Start >= m.States {
		return spec.Errorf("start", "is %d, expected a state from 0 to %d", m.Start, m.States-1)
	}
	n := m.cells()
	if len(m.Mean) != n || len(m.Arrows) != n || m.Noise != nil && len(m.Noise) != n {
		return fmt.Errorf("episode: %d means, %d noise levels and %d lists of transitions, expected %d", len(m.Mean),
			len(m.Noise), len(m.Arrows), n)
	}
	for c := range n {
		if err := m.checkCell(c); err != nil {
			return err
		}
	}
	if !(m.Largest >= 0) || math.IsInf(m.Largest, 0) {
		return fmt.Errorf("episode: the largest return is %v, expected a finite number from 0 on", m.Largest)
	}
	return nil
}

func (m *MDP) checkCell(c int) error {
	where := fmt.Sprintf("step %d, state %d, action %d", c/m.Actions/m.States, c/m.Actions%m.States, c%m.Actions)
	if !finite(m.Mean[c]) {
		return spec.Errorf("rewards", "%s: the reward is %v, expected a finite number", where, m.Mean[c])
	}
	if m.Noise != nil && (!finite(m.Noise[c]) || m.Noise[c] < 0) {
		return spec.Errorf("noise", "%s: is %v, expected a finite number from 0 on", where, m.Noise[c])
	}
	sum := 0.0
	for _, w := range m.Arrows[c] {
		if w.Next < 0 || w.Next >= m.States {
			return spec.Errorf("transitions", "%s: leads to state %d, expected one from 0 to %d", where, w.Next,
				m.States-1)
		}
		if !(w.P >= 0 && w.P <= 1) {
			return spec.Errorf("transitions", "%s: the probability of state %d is %v, expected a number in [0, 1]",
				where, w.Next, w.P)
		}
		sum += w.P
	}
	if math.Abs(sum-1) > sumSlack {
		return spec.Errorf("transitions", "%s: the probabilities sum to %v, expected 1", where, sum)
	}
	return nil
}

// Solve returns the optimal values by backward induction (value iteration over the horizon):
//
//	V_H = 0,  Q_h(s, a) = r_h(s, a) + Σ_s' P_h(s' | s, a)·V_{h+1}(s'),  V_h(s) = max_a Q_h(s, a).
//
// v has (H+1)·S numbers, state by state within each step, and q H·S·A. Cost: one operation for each transition.
func (m *MDP) Solve() (v, q []float64) {
	z := m.Size
	v, q = make([]float64, (z.Steps+1)*z.States), make([]float64, z.cells())
	for h := z.Steps - 1; h >= 0; h-- {
		after := v[(h+1)*z.States:][:z.States]
		for s := range z.States {
			best := math.Inf(-1)
			for a := range z.Actions {
				c := z.cell(h, s, a)
				sum := m.Mean[c]
				for _, w := range m.Arrows[c] {
					sum += float64(w.P * after[w.Next])
				}
				q[c] = sum
				best = max(best, sum)
			}
			v[h*z.States+s] = best
		}
	}
	return v, q
}

// Tabular is an MDP as an Environment. It is safe for concurrent use.
type Tabular struct {
	mdp  MDP
	v, q []float64
	top  []float64
	most float64 // the largest sum of gaps, 0 where it depends on the replication
}

// NewTabular checks and solves a problem. Errors are *spec.Error with the field and the (h, s, a) where it is wrong.
// The MDP belongs to the Tabular afterwards.
func NewTabular(m MDP) (*Tabular, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	t := &Tabular{mdp: m, top: make([]float64, m.Steps+1)}
	t.v, t.q = m.Solve()
	for h := m.Steps - 1; h >= 0; h-- {
		most := 0.0
		for _, r := range m.Mean[m.cell(h, 0, 0):][:m.States*m.Actions] {
			most = max(most, r)
		}
		t.top[h] = t.top[h+1] + most
		if m.Largest > 0 {
			t.top[h] = min(t.top[h], m.Largest)
		}
	}
	t.most = t.worst()
	return t, nil
}

// worst returns the largest sum of gaps on a path from the first state.
func (t *Tabular) worst() float64 {
	m := &t.mdp
	after := make([]float64, m.States)
	for h := m.Steps - 1; h >= 0; h-- {
		now := make([]float64, m.States)
		for s := range now {
			for a := range m.Actions {
				most := 0.0
				for _, w := range m.Arrows[m.cell(h, s, a)] {
					most = max(most, after[w.Next])
				}
				now[s] = max(now[s], t.Gap(h, s, a)+most)
			}
		}
		after = now
	}
	return after[m.Start]
}

// LargestRegret returns what the regret of an episode never exceeds; ok is false where each replication has another
// problem.
func (t *Tabular) LargestRegret() (largest float64, ok bool) { return t.most, t.most > 0 }

// MDP returns the problem, which the caller must not change.
func (t *Tabular) MDP() *MDP { return &t.mdp }

// Size implements Environment.
func (t *Tabular) Size() Size { return t.mdp.Size }

// Top implements Environment: the sum of the largest mean rewards of the steps from h on, at most MDP.Largest.
func (t *Tabular) Top(h int) float64 { return t.top[h] }

// Value returns V*_h(s).
func (t *Tabular) Value(h, s int) float64 { return t.v[h*t.mdp.States+s] }

// Best returns the expected return of the optimal policy, V*_0 of the first state.
func (t *Tabular) Best() float64 { return t.Value(0, t.mdp.Start) }

// Gap implements Environment.
func (t *Tabular) Gap(h, s, a int) float64 { return t.Value(h, s) - t.q[t.mdp.cell(h, s, a)] }

// Reset implements Environment.
func (t *Tabular) Reset(rng.Source) int { return t.mdp.Start }

// Step implements Environment. It takes number 0 of the source for the state, where there are several, and 1 for the
// noise, where there is some.
func (t *Tabular) Step(h, s, a int, draw rng.Source) (next int, reward float64) {
	c := t.mdp.cell(h, s, a)
	arrows := t.mdp.Arrows[c]
	next = arrows[len(arrows)-1].Next
	if len(arrows) > 1 {
		u := draw.Float64(0)
		for _, w := range arrows {
			if u < w.P {
				next = w.Next
				break
			}
			u -= w.P
		}
	}
	reward = t.mdp.Mean[c]
	if t.mdp.Noise != nil && t.mdp.Noise[c] > 0 {
		reward += float64(t.mdp.Noise[c] * draw.Normal(1))
	}
	return next, reward
}

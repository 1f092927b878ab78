// Package episode holds problems of several steps: episodes in a tabular Markov decision process, agents that play
// them, and the exact solution that they are measured by.
//
// Four nouns:
//
//   - an MDP is a problem by its numbers, with a finite horizon H; a Tabular is one that was checked and solved, and
//     is an Environment: steps h = 0, …, H−1, states 0, …, S−1 and actions 0, …, A−1;
//   - an Agent plays episodes: Begin, then Act and Learn in each step;
//   - Options are one [[environment]] table of an experiment file, AgentOptions one [[agent]] table; Environments and
//     Agents list what they may say;
//   - a Rule says when DeepSea counts as solved.
//
// Everything is indexed by step: what an agent knows of a state and an action in one step it does not use in
// another, as the theory of the finite horizon has it. The place of (h, s, a) in a list of all of them is
// (h·S + s)·A + a.
//
// All randomness is an argument. Step t = (k−1)·H + h + 1 of episode k has the sources that Play names, so that
// agents of one replication meet the same problem and the same noise, and results do not depend on what is played
// side by side.
package episode

import (
	"fmt"

	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// Size is how large a problem is.
type Size struct {
	Steps   int // H ≥ 1, the horizon of an episode
	States  int // S; 0 where states are not numbered
	Actions int // A ≥ 1
}

// cells is the number of triples (h, s, a).
func (z Size) cells() int { return z.Steps * z.States * z.Actions }

// cell is the place of (h, s, a).
func (z Size) cell(h, s, a int) int { return (h*z.States+s)*z.Actions + a }

// Environment is an episodic problem. Its methods change nothing, so one may be played by several agents at once.
type Environment interface {
	Size() Size
	// Top returns the largest expected sum of rewards from step h on, 0 ≤ h ≤ H. Agents know it, as bounds on rewards
	// are known in the theory.
	Top(h int) float64
	// Reset returns the first state of an episode.
	Reset(draw rng.Source) int
	// Step pays the action a in state s at step h and returns the next state. After step H−1 it does not matter.
	Step(h, s, a int, draw rng.Source) (next int, reward float64)
	// Gap returns V*_h(s) − Q*_h(s, a) ≥ 0, which no agent sees. The sum over the steps of an episode has the
	// expectation V*_0 − V^π_0 given the agent's choices (performance difference), without the noise of the rewards.
	Gap(h, s, a int) float64
}

// Featured is implemented by environments with features.
type Featured interface {
	// Dim returns the number d of features.
	Dim() int
	// Features stores φ_h(s, a) in dst, d numbers.
	Features(dst []float64, h, s, a int)
}

// Graded is implemented by environments that tell good episodes from bad ones, DeepSea.
type Graded interface {
	// Grade reports whether the action makes the episode a bad one, and whether it finds the treasure.
	Grade(h, s, a int) (bad, treasure bool)
	// Rule says when the problem counts as solved.
	Rule() Rule
}

// Agent plays episodes. It is used from one goroutine. Everything random comes from the sources.
type Agent interface {
	// Begin starts episode k = 1, 2, ….
	Begin(k int, draw rng.Source)
	// Act returns the action in state s at step h. It learns nothing.
	Act(h, s int, draw rng.Source) int
	// Learn is told what the action did. The reward is finite; next does not matter at step H−1.
	Learn(h, s, a int, reward float64, next int, draw rng.Source)
}

// Setting is what an agent may know before the first episode.
type Setting struct {
	Size     Size
	Top      []float64 // by step, H+1 numbers: see Environment.Top
	Episodes int       // K, for theorems that need it
	Features Featured  // nil without
	Init     rng.Stream
}

// SettingOf returns what an agent may know of an environment. key is that of Play.
func SettingOf(world Environment, key rng.Key, episodes int) Setting {
	s := Setting{Size: world.Size(), Episodes: episodes, Init: key.Stream(rng.Init)}
	for h := range s.Size.Steps + 1 {
		s.Top = append(s.Top, world.Top(h))
	}
	s.Features, _ = world.(Featured)
	return s
}

// Played is one episode as it went.
type Played struct {
	Return   float64 // sum of the rewards
	Regret   float64 // sum of the gaps
	Bad      bool    // Graded environments: whether an action made it a bad one
	Treasure int     // Graded environments: how often the treasure was found
}

// Observer is told what happened in episode k. An error ends the play.
type Observer interface {
	Episode(k int, p Played) error
}

// Play plays episodes 1, …, K. The sources are: key.Stream(rng.Offer), round k for Reset; key.Stream(rng.Select),
// round t for Act; key.Stream(rng.Reward), round t for Step; key.Stream(rng.Perturb), round t for Learn; the stream
// rng.Select of key.Child("episode"), round k for Begin.
//
// An agent that names an action that is not there, and a reward or gap that is not finite, end the play with an error.
//
// Cost: H steps of the environment and of the agent for each episode, and nothing is allocated by Play.
func Play(world Environment, agent Agent, key rng.Key, episodes int, o Observer) error {
	size := world.Size()
	graded, _ := world.(Graded)
	offer, act, pay, perturb := key.Stream(rng.Offer), key.Stream(rng.Select), key.Stream(rng.Reward),
		key.Stream(rng.Perturb)
	begin := key.Child("episode").Stream(rng.Select)
	for k := 1; k <= episodes; k++ {
		agent.Begin(k, begin.Round(uint64(k)))
		s := world.Reset(offer.Round(uint64(k)))
		var p Played
		for h := range size.Steps {
			t := uint64(k-1)*uint64(size.Steps) + uint64(h) + 1
			a := agent.Act(h, s, act.Round(t))
			if a < 0 || a >= size.Actions {
				return fmt.Errorf("episode %d, step %d: the agent's action is %d, expected one from 0 to %d", k, h, a,
					size.Actions-1)
			}
			next, reward := world.Step(h, s, a, pay.Round(t))
			gap := world.Gap(h, s, a)
			if !finite(reward) || !finite(gap) {
				return fmt.Errorf("episode %d, step %d, state %d, action %d: reward %v, regret %v: %w", k, h, s, a,
					reward, gap, bandit.ErrNotFinite)
			}
			if graded != nil {
				bad, treasure := graded.Grade(h, s, a)
				p.Bad = p.Bad || bad
				if treasure {
					p.Treasure++
				}
			}
			p.Return += reward
			p.Regret += gap
			agent.Learn(h, s, a, reward, next, perturb.Round(t))
			s = next
		}
		if err := o.Episode(k, p); err != nil {
			return fmt.Errorf("episode %d: %w", k, err)
		}
	}
	return nil
}

// Options is a decoded [[environment]] table of an episodic problem.
type Options interface {
	spec.Documented
	// Problem returns the problem of the replication with the given key. An option that is wrong is a *spec.Error
	// whose Path is the option's key. It may be called concurrently.
	Problem(key rng.Key) (Environment, error)
}

// AgentOptions is a decoded [[agent]] table.
type AgentOptions interface {
	spec.Documented
	// Agent returns a new agent. An option that is wrong is a *spec.Error whose Path is the option's key.
	Agent(s Setting) (Agent, error)
}

func finite(x float64) bool { return x-x == 0 }

// argmax returns the place of the largest number; among equal ones each is as likely, by number i of the source.
func argmax(q []float64, draw rng.Source, i int) int {
	best, ties := 0, 1
	for a := 1; a < len(q); a++ {
		switch {
		case q[a] > q[best]:
			best, ties = a, 1
		case q[a] == q[best]:
			ties++
		}
	}
	if ties == 1 {
		return best
	}
	n := draw.Intn(i, ties)
	for a := best; ; a++ {
		if q[a] == q[best] {
			if n == 0 {
				return a
			}
			n--
		}
	}
}

package ope

import (
	"fmt"

	"troupe/bandit"
	"troupe/logged"
	"troupe/policy"
)

// Predictions gives events what a policy expected of their actions before it learned their rewards, as the column q of
// a reward model (Options.Q = "column"). The policy is a new one that learns the events in order, so q depends on
// earlier events only, as sequences need it. Not safe for concurrent use.
type Predictions struct {
	policy  *PolicyTarget
	rewards Pair
}

// NewPredictions returns the predictions of a policy that reads requests, for rewards in a range. The policy must score
// actions.
func NewPredictions(o policy.Options, rewards Pair) (*Predictions, error) {
	if !(rewards[0] < rewards[1]) || !rewards.known() {
		return nil, fmt.Errorf("ope: rewards are in [%v, %v], expected a range with two ends", rewards[0], rewards[1])
	}
	if _, ok := o.(policy.RequestReader); !ok {
		return nil, fmt.Errorf("ope: this policy reads no requests")
	}
	return &Predictions{NewPolicyTarget("predictions", o, "log", nil, 0), rewards}, nil
}

// Fill sets e.Q to the expected reward of each action, in the range, and learns the event. On an error e.Q stays. Cost:
// a score for each action and an update of the policy.
func (p *Predictions) Fill(e *logged.Event) error {
	t := p.policy
	if t.l == nil {
		if t.waits(e) {
			return fmt.Errorf("ope: this policy reads vectors, and the log has hashed features")
		}
		if err := t.begin([]*logged.Event{e}); err != nil {
			return err
		}
	}
	s, ok := t.p.(bandit.Scorer)
	if !ok {
		return fmt.Errorf("ope: this policy does not score actions")
	}
	if err := t.vectors(e); err != nil {
		return err
	}
	lo, width := p.rewards[0], p.rewards[1]-p.rewards[0]
	q := make([]float64, e.K)
	for i := range q {
		q[i] = lo + float64(width*min(max(s.Score(t.action(i)), 0), 1))
	}
	unit := *e
	unit.Reward = min(max((e.Reward-lo)/width, 0), 1)
	if err := t.update(&unit); err != nil {
		return err
	}
	e.Q = q
	return nil
}

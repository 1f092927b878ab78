package api

import (
	"context"
	"fmt"
	"slices"
	"time"

	"troupe/eventlog"
	"troupe/logged"
	"troupe/ope"
	"troupe/serve"
	"troupe/serve/joined"
)

// The comparison with uniform play is of as many of the newest decisions as a processor predicts and learns in about this time, by
// the estimate from sizes (policy.WorkOf), and eachPredicted for a decision of any size. The same log gives the same page.
const (
	predictedWork = 90 * time.Millisecond
	eachPredicted = 10 * time.Microsecond
)

// againstUniform is what the model earns more than uniform play on the same decisions, and how many they are.
type againstUniform struct {
	decisions int
	more      ope.Pair
	own       bool // the predictions are those of the model's policy
}

// against compares the model with uniform play on the newest decisions with a final reward whose candidates are known.
// Predictions from earlier ones of these decisions are the control variate: of a new policy with the model's options
// where it scores actions, otherwise of a linear model. nil where nothing can be said.
func (h *modelHistory) against(ctx context.Context, m *serve.Model, t *terms) *againstUniform {
	var events pastSource
	work := time.Duration(0)
	for _, d := range slices.Backward(h.decisions) {
		y, final := h.value(d, t)
		switch {
		case d.mode != eventlog.Online && d.mode != eventlog.Frozen, !final, d.offered < 2:
			continue
		case y < t.min || y > t.max:
			return nil
		}
		if d.whole == nil {
			break
		}
		e, err := joined.Event(&joined.Decided{Record: d.whole, Reward: y})
		if err != nil || e.K != int(d.offered) {
			return nil
		}
		if work += predicting(m, e); work > predictedWork {
			break
		}
		events = append(events, *e)
	}
	if len(events) < fewDecisions {
		return nil
	}
	slices.Reverse(events)
	out := &againstUniform{decisions: len(events), own: predict(m, events, t)}
	o := ope.Options{Targets: []ope.Target{ope.Uniform{}}, Estimators: []string{"dr"}, Rewards: &ope.Pair{t.min, t.max},
		Adaptive: "yes"}
	r, err := ope.Evaluate(ctx, &events, o)
	if err != nil {
		return nil
	}
	u := r.Targets[0].Uplift
	if u == nil || u.Sequence == nil {
		return nil
	}
	out.more = ope.Pair{-u.Sequence[1], -u.Sequence[0]}
	return out
}

// predicting is about how long a processor predicts the rewards of a decision and learns from it.
func predicting(m *serve.Model, e *logged.Event) time.Duration {
	dim, own := 0, 0
	for _, a := range e.Actions {
		dim, own = max(dim, len(a.X)), own+max(0, len(a.Atoms)-1) // without the id
	}
	return eachPredicted + m.Config.Policy.EventWork(e.K, dim, len(e.Atoms), own)
}

// predict gives events the predictions of the model's policy, none when it does not score actions.
func predict(m *serve.Model, events []logged.Event, t *terms) bool {
	if m.Kind != "requests" {
		return false
	}
	p, err := ope.NewPredictions(m.Config.Policy.Options, ope.Pair{t.min, t.max})
	for i := 0; i < len(events) && err == nil; i++ {
		err = p.Fill(&events[i])
	}
	if err != nil {
		for i := range events {
			events[i].Q = nil
		}
	}
	return err == nil
}

// text says it.
func (u *againstUniform) text() string {
	whose := "a linear model's"
	if u.own {
		whose = "the model's own"
	}
	sure := fmt.Sprintf("95%% sure by itself, at any time you look; %s predictions are the control variate", whose)
	word, lo, hi := "better", u.more[0], u.more[1]
	switch {
	case hi < 0:
		word, lo, hi = "worse", -hi, -lo
	case lo <= 0:
		return fmt.Sprintf("On the same %s decisions the model earns between %s less and %s more than uniform play (%s): "+
			"the difference is not certain yet.", grouped(uint64(u.decisions)), short(-lo), short(hi), sure)
	}
	return fmt.Sprintf("On the same %s decisions the model is %s than uniform play, by %s to %s (%s).",
		grouped(uint64(u.decisions)), word, short(lo), short(hi), sure)
}

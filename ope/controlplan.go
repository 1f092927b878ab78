package ope

import (
	"errors"
	"fmt"
	"time"

	"troupe/logged"
)

// ControlPlan says before an experiment with a control group how many decisions it takes, for both intervals of a
// [ControlLog]. It is a [Planner] for the target of its sequence, τ = μ + ½(c − π), and for losses 1 − y, of which the
// target has more where the model is better. Not safe for concurrent use.
type ControlPlan struct {
	planner Planner
	sum     float64 // of the rewards in [0, 1]
	n       int
	half    []float64
	seen    unitSet
}

// ControlPlanned is the answer for one difference. A number of decisions is 0 where more than 10¹² would be needed.
type ControlPlanned struct {
	Share      float64       `json:"share" doc:"share of the control group"`
	Difference float64       `json:"difference" doc:"model less control, in units of reward"`
	Rate       float64       `json:"rate" doc:"what a decision earns in the mean, both groups together"`
	Every      float64       `json:"decisions" doc:"after so many the interval at every look leaves out 0 with 80 % chance; 0: more than 10¹²"`
	AtEnd      float64       `json:"decisions_at_end" doc:"the same where their number is fixed beforehand and looked at once"`
	Time       time.Duration `json:"time_ns" doc:"for decisions, at the rate of those that were read; 0: not known"`
}

// Add takes the law of a model without a control group at an event, as if it had the group g, and its reward in units of
// lo and hi. Of a unit it takes the first event, and the groups in place of the actions, as [ControlLog] does.
func (p *ControlPlan) Add(e *logged.Event, g logged.Control, lo, hi float64) {
	var law, pi, own []float64
	switch {
	case e.Unit != "":
		if p.seen.before(e.Unit) {
			return
		}
		law, pi, own = []float64{1 - g.Share, g.Share}, []float64{1, 0}, []float64{0, 1}
	case e.Law == nil:
		return
	default:
		law = append([]float64(nil), e.Law...)
		g.Mix(law)
		pi, own = g.Groups(nil, law)
	}
	p.half = sized(p.half, len(law))
	for a, x := range law {
		p.half[a] = max(0, x+(own[a]-pi[a])/2)
	}
	p.add(law, p.half, min(1, max(0, (e.Reward-lo)/(hi-lo))), e.Time)
}

func (p *ControlPlan) add(law, half []float64, y float64, at time.Time) {
	if p.planner.every == 0 {
		p.planner.every = 1
	}
	p.planner.Add(law, half)
	p.sum, p.n = p.sum+y, p.n+1
	if at.IsZero() {
		return
	}
	if p.planner.first.IsZero() || at.Before(p.planner.first) {
		p.planner.first = at
	}
	if at.After(p.planner.last) {
		p.planner.last = at
	}
}

// Plan says it for a difference in units of reward, the model being better, and rewards in [lo, hi]. rate is the mean reward
// of all decisions in units of reward, NaN for that of the events. A difference of 0 is a tenth of what a decision earns.
func (p *ControlPlan) Plan(share, difference, rate, lo, hi, level float64) (*ControlPlanned, error) {
	if rate != rate {
		if p.n == 0 {
			return nil, errors.New("no decision has a law")
		}
		rate = lo + float64((hi-lo)*(p.sum/float64(p.n)))
	}
	if difference == 0 {
		difference = (rate - lo) / 10
	}
	planner, err := NewPlanner(PlanOptions{Rate: 1 - (rate-lo)/(hi-lo), Level: level, Rewards: Pair{lo, hi}})
	if err != nil {
		return nil, fmt.Errorf("the mean reward is %v, expected a number inside the range %v to %v", rate, lo, hi)
	}
	o := planner.o
	*planner = p.planner
	planner.o = o
	x, err := planner.Plan(difference / 2)
	if err != nil {
		return nil, controlPlanError(planner, difference, err)
	}
	return &ControlPlanned{Share: share, Difference: difference, Rate: rate, Every: x.Decisions, AtEnd: x.AtEnd, Time: x.Time}, nil
}

// controlPlanError says it in terms of the model and its control group.
func controlPlanError(p *Planner, difference float64, err error) error {
	switch {
	case !p.differs:
		return errors.New("the model plays what the control group plays: there is no difference to settle")
	case difference > 2*p.Most():
		return fmt.Errorf("difference is %v, and with this mean reward these laws allow at most %s", difference, short(2*p.Most()))
	}
	return err
}

package sim

import (
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/rng"
	"troupe/spec"
)

// Feedback says when the policy learns a reward, in any environment:
//
//	feedback = { delay = { kind = "geometric", mean = 100 } }
//	feedback = { batch = 64 }
//
// The reward of round t arrives after the choice of round t + D, D ≥ 0 drawn from the delay's law, and
// with a batch not before the end of the batch of 64 rounds that t + D lies in. Rewards that arrive
// together are learned in the order of their rounds; each with the random numbers of its own round.
// Rewards that have not arrived at the horizon are never learned. Regret and reward of a round count in
// that round.
type Feedback struct {
	Delay Delay `key:"delay" doc:"law of the number of rounds by which a reward is late"`
	Batch int   `key:"batch" doc:"rounds of a batch, at whose end the rewards arrive" default:"1, each round"`
}

// Delay is the option delay: { kind = "geometric", mean = 100 } or { kind = "fixed", rounds = 10 }. The
// zero value is no delay.
type Delay struct{ law delayLaw }

// delayLaw draws a number of rounds.
type delayLaw interface {
	spec.Documented
	check() error
	draw(u float64) int // u uniform on (0, 1)
}

// Delays are the laws that a spec can name.
var Delays = spec.Registry[delayLaw]{
	"geometric": func() delayLaw { return &geometricDelay{} },
	"fixed":     func() delayLaw { return &fixedDelay{} },
}

type geometricDelay struct {
	Mean float64 `key:"mean" doc:"mean number of rounds, above 0" default:"none"`
}

func (*geometricDelay) Doc() string {
	return "P(D = k) = p(1 − p)^k, k = 0, 1, …, with mean (1 − p)/p"
}

func (g *geometricDelay) check() error {
	if !(g.Mean > 0 && g.Mean <= maxHorizon) {
		return spec.Errorf("mean", "is %v, expected a positive number of rounds", g.Mean)
	}
	return nil
}

// draw inverts the distribution function: P(D ≥ k) = (1 − p)^k with p = 1/(1 + mean).
func (g *geometricDelay) draw(u float64) int {
	return int(math.Min(math.Floor(math.Log(u)/math.Log1p(-1/(1+g.Mean))), maxHorizon))
}

type fixedDelay struct {
	Rounds int `key:"rounds" doc:"number of rounds, 1 or more" default:"none"`
}

func (*fixedDelay) Doc() string { return "the same for every reward" }

func (f *fixedDelay) check() error {
	if f.Rounds < 1 || f.Rounds > maxHorizon {
		return spec.Errorf("rounds", "is %d, expected at least 1", f.Rounds)
	}
	return nil
}

func (f *fixedDelay) draw(float64) int { return f.Rounds }

// DecodeSpec implements spec.Decoder.
func (d *Delay) DecodeSpec(v any, path string) error {
	law, err := spec.DecodeTable(Delays, v, path)
	if err != nil {
		return err
	}
	if err := law.check(); err != nil {
		fault := err.(*spec.Error)
		return &spec.Error{Path: spec.Join(path, fault.Path), Msg: fault.Msg}
	}
	d.law = law
	return nil
}

// ExpandSpec implements spec.Decoder.
func (d *Delay) ExpandSpec(v any) []spec.Choice { return spec.ExpandTable(Delays, v) }

// feedbackOf decodes the feedback of an environment's table; nil without one.
func feedbackOf(table spec.Raw, at string) (*Feedback, spec.Raw, error) {
	v, ok := table["feedback"]
	if !ok {
		return nil, nil, nil
	}
	at = spec.Join(at, "feedback")
	raw, ok := v.(spec.Raw)
	if !ok {
		return nil, nil, spec.Errorf(at, "is %s, expected a table such as { batch = 64 }", spec.Show(v))
	}
	f := new(Feedback)
	if err := spec.DecodeStruct(f, raw, at); err != nil {
		return nil, nil, err
	}
	switch {
	case f.Batch < 0 || f.Batch > maxHorizon:
		return nil, nil, spec.Errorf(spec.Join(at, "batch"), "is %d, expected at least 1", f.Batch)
	case f.Batch == 0 && f.Delay.law == nil:
		return nil, nil, spec.Errorf(at, "is empty, expected a delay or a batch")
	}
	return f, raw, nil
}

// remark says when little or nothing of what is played can be learned before the horizon; otherwise it is "".
func (f *Feedback) remark(horizon int) string {
	mean, law := 0.0, ""
	switch l := f.Delay.law.(type) {
	case *geometricDelay:
		mean, law = l.Mean, fmt.Sprintf("late by %v rounds in the mean", l.Mean)
	case *fixedDelay:
		mean, law = float64(l.Rounds), fmt.Sprintf("late by %d rounds", l.Rounds)
	}
	switch {
	case f.Batch > horizon:
		return fmt.Sprintf("no policy learns anything: the first batch of %d rewards ends after the horizon of %d "+
			"rounds", f.Batch, horizon)
	case mean >= float64(horizon):
		return fmt.Sprintf("policies learn little or nothing: rewards are %s, and the horizon is %d", law, horizon)
	}
	return ""
}

// late is a policy that learns rewards when they arrive.
type late struct {
	bandit.Policy
	feedback *Feedback
	stream   rng.Stream
	round    int
	waiting  []lateReward    // by due, then by round
	free     []bandit.Action // that were learned, to be used again
}

type lateReward struct {
	due    int
	action bandit.Action
	y      float64
	draw   rng.Source
}

// newLate wraps a policy for a cell with the given key.
func newLate(pol bandit.Policy, f *Feedback, key rng.Key) bandit.Policy {
	return &late{Policy: pol, feedback: f, stream: key.Child("feedback").Stream(rng.Reward)}
}

// Update takes the reward of the next round and teaches the policy those that have arrived.
func (l *late) Update(a bandit.Action, y float64, draw rng.Source) error {
	l.round++
	if p, ok := bandit.Innermost(l.Policy).(bandit.Pender); ok && p.Pends() {
		if err := p.Pend(a); err != nil {
			return err
		}
	}
	due := l.round
	if law := l.feedback.Delay.law; law != nil {
		due = min(due+law.draw(1-l.stream.Round(uint64(l.round)).Float64(0)), maxHorizon)
	}
	if b := l.feedback.Batch; b > 1 {
		due = (due + b - 1) / b * b
	}
	r := lateReward{due: due, y: y, draw: draw}
	if n := len(l.free); n > 0 {
		r.action, l.free = l.free[n-1], l.free[:n-1]
	}
	if a.At != nil {
		r.action.SetSparse(a.At, a.X, a.Index)
	} else {
		r.action.Set(a.X, a.Index)
	}
	at, _ := slices.BinarySearchFunc(l.waiting, due+1, func(w lateReward, due int) int { return w.due - due })
	l.waiting = slices.Insert(l.waiting, at, r)
	arrived := 0
	for arrived < len(l.waiting) && l.waiting[arrived].due <= l.round {
		w := &l.waiting[arrived]
		if err := l.Policy.Update(w.action, w.y, w.draw); err != nil {
			return err
		}
		l.free = append(l.free, w.action)
		arrived++
	}
	l.waiting = append(l.waiting[:0], l.waiting[arrived:]...)
	return nil
}

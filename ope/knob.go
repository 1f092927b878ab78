package ope

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// Continuous actions: a logger draws the number a ("the knob") from a density f(·|x) and logs f(a|x). A target names a
// number t(x). Its own value cannot be had from such a log, for no draw is exactly t(x). What can be had is the value of
// the smoothed target, which plays t(x) + h·E with E of density K:
//
//	w_i = K((a_i − t(x_i))/h)/(h f(a_i|x_i)),   V_h = E[w r].
//
// Given the past E[w_i r_i] ≤ V_h, with equality where f > 0, so w r and w(1 − r) go into the log-mixture sequence as in
// docs/design/ope.md with k = 0.

// Knob is one decision.
type Knob struct {
	Action  float64 // a
	Density float64 // f(a|x) > 0 of the logger, given the past
	Reward  float64
	Aims    []float64 // t(x) of each target
}

// KnobOptions says what to estimate. The zero value takes the Epanechnikov kernel, level 0.95 and rewards in [0, 1].
type KnobOptions struct {
	Names  []string // of the targets
	Kernel string   // one of Kernels; "": epanechnikov
	// Bandwidths h; nil: eight of them, 2s, s, s/2, … s/64, with s the standard deviation of the first knobUnit actions.
	// These decisions are not counted then: what is estimated on the others was fixed before them.
	Bandwidths []float64
	Level      float64 // of all bandwidths of a target together
	Rewards    *Pair   // finite
}

// Kernels are the densities K, both on [−1, 1]: 3/4·(1 − u²) and 1 − |u|.
var Kernels = []string{"epanechnikov", "triangular"}

// knobUnit decisions fix the unit of the bandwidths, knobBandwidths of them are tried, and one with an effective sample
// size below leastKnobESS is not chosen.
const (
	knobUnit       = 128
	knobBandwidths = 8
	leastKnobESS   = 20
	mostBandwidths = 100
)

// KnobResult is the answer.
type KnobResult struct {
	Events  int          `json:"events"` // counted
	Unit    int          `json:"unit"`   // decisions before, which fixed the bandwidths
	Logged  float64      `json:"logged"` // mean reward
	Kernel  string       `json:"kernel"`
	Level   float64      `json:"level"` // of all bandwidths of a target together
	Each    float64      `json:"each"`  // of one of them
	Rewards Pair         `json:"rewards"`
	Targets []KnobTarget `json:"targets"`
}

// KnobTarget is one target. Everything it says is of the smoothed target.
type KnobTarget struct {
	Name       string          `json:"name"`
	Chosen     *int            `json:"chosen"` // index in Bandwidths; null where no bandwidth has enough decisions
	Verdict    string          `json:"verdict"`
	Bandwidths []KnobBandwidth `json:"bandwidths"`
}

// KnobBandwidth is the value of the target smoothed with one bandwidth.
type KnobBandwidth struct {
	Bandwidth  float64  `json:"bandwidth"`
	Value      float64  `json:"value"` // the sequence's own point
	Sequence   Pair     `json:"sequence"`
	Difference float64  `json:"difference"` // to what ran: its own point
	Uplift     Pair     `json:"uplift"`     // interval of the difference
	IPW        float64  `json:"ipw"`        // mean[w r], obp's KernelizedIPW
	SE         float64  `json:"se"`
	SNIPW      *float64 `json:"snipw"` // Σ w r/Σ w
	ESS        float64  `json:"ess"`
	WeightMean float64  `json:"weight_mean"` // 1 where the logger plays all that the smoothed target may
	WeightMax  float64  `json:"weight_max"`
}

// knobSums is what adds up for one target and one bandwidth.
type knobSums struct {
	w1, w2, wr, wr2  sum
	most             float64
	value, different twoSided
}

// kernel is K(u).
func kernel(name string, u float64) float64 {
	switch u = math.Abs(u); {
	case u >= 1:
		return 0
	case name == "triangular":
		return 1 - u
	default:
		return 0.75 * (1 - float64(u*u))
	}
}

func (o *KnobOptions) check() error {
	if o.Kernel == "" {
		o.Kernel = Kernels[0]
	}
	if o.Level == 0 {
		o.Level = 0.95
	}
	if o.Rewards == nil {
		o.Rewards = &Pair{0, 1}
	}
	switch r := *o.Rewards; {
	case !slices.Contains(Kernels, o.Kernel):
		return fmt.Errorf("no kernel %q; there are %v", o.Kernel, Kernels)
	case !(o.Level > 0 && o.Level < 1):
		return fmt.Errorf("level is %v, expected a number in (0, 1)", o.Level)
	case !r.whole() || !(r[0] < r[1]) || !finite(r[1]-r[0]):
		return fmt.Errorf("rewards are in [%v, %v], expected a range with two ends: the sequence of a smoothed value "+
			"needs both", r[0], r[1])
	case len(o.Names) == 0:
		return errors.New("no target")
	case len(o.Names) > MostTargets:
		return fmt.Errorf("%d targets, expected at most %d", len(o.Names), MostTargets)
	case len(o.Bandwidths) > mostBandwidths:
		return fmt.Errorf("%d bandwidths, expected at most %d", len(o.Bandwidths), mostBandwidths)
	}
	for i, h := range o.Bandwidths {
		if !(h > 1e-100 && h < 1e100) || slices.Contains(o.Bandwidths[:i], h) {
			return fmt.Errorf("bandwidth %v, expected a positive number that was not there before", h)
		}
	}
	return nil
}

// Check returns an error unless the decision is one that can be weighted.
func (k *Knob) Check(rewards Pair) error {
	switch {
	case !finite(k.Action):
		return fmt.Errorf("knob is %v, expected a finite number", k.Action)
	case !(k.Density >= LeastDensity && k.Density <= 1/LeastDensity):
		return fmt.Errorf("density is %v, expected a number above 0: the action was played", k.Density)
	case !(k.Reward >= rewards[0] && k.Reward <= rewards[1]):
		return fmt.Errorf("reward is %v, expected a number in [%v, %v]; --rewards min,max sets the range", k.Reward,
			rewards[0], rewards[1])
	}
	for t, a := range k.Aims {
		if !finite(a) {
			return fmt.Errorf("target %d is %v, expected a finite number", t+1, a)
		}
	}
	return nil
}

// LeastDensity is the smallest density of an action that was played.
const LeastDensity = 1e-100

// EvaluateKnobs estimates the smoothed targets on decisions that next gives until io.EOF. Memory: 2 kB for each target
// and bandwidth.
func EvaluateKnobs(next func(*Knob) error, o KnobOptions) (*KnobResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	out := &KnobResult{Kernel: o.Kernel, Level: o.Level, Rewards: *o.Rewards}
	k, hs := Knob{}, o.Bandwidths
	if hs == nil {
		var err error
		if hs, err = knobGrid(next, &k, out, *o.Rewards); err != nil {
			return nil, err
		}
	}
	sums := make([][]knobSums, len(o.Names))
	for t := range sums {
		for range hs {
			sums[t] = append(sums[t], knobSums{value: newTwoSided(0), different: newTwoSided(1)})
		}
	}
	low, scale := o.Rewards[0], o.Rewards[1]-o.Rewards[0]
	var rewards sum
	for {
		err := next(&k)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = k.Check(*o.Rewards)
		}
		if err == nil && len(k.Aims) != len(o.Names) {
			err = fmt.Errorf("%d targets, expected %d", len(k.Aims), len(o.Names))
		}
		if err != nil {
			return nil, err
		}
		out.Events++
		rewards.add(k.Reward)
		for t, aim := range k.Aims {
			for i, h := range hs {
				sums[t][i].add(kernel(o.Kernel, (k.Action-aim)/h)/h/k.Density, k.Reward, (k.Reward-low)/scale)
			}
		}
	}
	if out.Events < 2 {
		return nil, fmt.Errorf("%d decisions after the first %d, which fix the unit of the bandwidths; expected at least "+
			"2 (bandwidths that are given count from the first one)", out.Events, out.Unit)
	}
	out.Logged, out.Each = rewards.value()/float64(out.Events), 1-(1-o.Level)/float64(len(hs))
	for t, name := range o.Names {
		target, err := out.target(name, hs, sums[t])
		if err != nil {
			return nil, fmt.Errorf("target %s: %w", name, err)
		}
		out.Targets = append(out.Targets, target)
	}
	return out, nil
}

// knobGrid reads the decisions that fix the unit.
func knobGrid(next func(*Knob) error, k *Knob, out *KnobResult, rewards Pair) ([]float64, error) {
	var actions []float64
	mean := 0.0
	for len(actions) < knobUnit {
		err := next(k)
		if err == io.EOF {
			break
		}
		if err == nil {
			err = k.Check(rewards)
		}
		if err != nil {
			return nil, err
		}
		actions = append(actions, k.Action)
		mean += k.Action / knobUnit
	}
	if out.Unit = len(actions); out.Unit < knobUnit {
		return nil, fmt.Errorf("%d decisions, expected more than %d: these fix the unit of the bandwidths and are not "+
			"counted; with bandwidths that are given all count", out.Unit, knobUnit)
	}
	square := 0.0
	for _, a := range actions {
		square += float64((a - mean) * (a - mean) / knobUnit)
	}
	sd := math.Sqrt(square)
	if !(sd > 1e-90 && sd < 1e90) {
		return nil, fmt.Errorf("the first %d actions have the standard deviation %v, which is no unit of bandwidths; "+
			"give them", knobUnit, sd)
	}
	var hs []float64
	for j := range knobBandwidths {
		hs = append(hs, math.Ldexp(sd, 1-j))
	}
	return hs, nil
}

func (s *knobSums) add(w, r, unit float64) {
	s.w1.add(w)
	s.w2.product(w, w)
	s.wr.product(w, r)
	wr := float64(w * r)
	s.wr2.product(wr, wr)
	s.most = max(s.most, w)
	for _, x := range []struct {
		c   *capital
		phi float64
	}{{s.value.lower, w * unit}, {s.value.upper, w * (1 - unit)}, {s.different.lower, (w - 1) * unit},
		{s.different.upper, (w - 1) * (1 - unit)}} {
		x.c.add([]float64{x.phi})
	}
}

// target makes the answer of one target.
func (r *KnobResult) target(name string, hs []float64, sums []knobSums) (KnobTarget, error) {
	out := KnobTarget{Name: name, Verdict: "no bandwidth has enough decisions near the target"}
	low, scale, n := r.Rewards[0], r.Rewards[1]-r.Rewards[0], float64(r.Events)
	var at []int
	var values, widths []float64
	for i, h := range hs {
		s := &sums[i]
		b := KnobBandwidth{Bandwidth: h, WeightMean: s.w1.value() / n, WeightMax: s.most, IPW: s.wr.value() / n}
		b.SE = math.Sqrt(max(s.wr2.value()/n-float64(b.IPW*b.IPW), 0) / (n - 1))
		if w := s.w1.value(); w > 0 {
			b.SNIPW = ptr(s.wr.value() / w)
			b.ESS = w * w / s.w2.value()
		}
		lo, hi, err := s.value.value(r.Each)
		if err != nil {
			return out, err
		}
		b.Value, b.Sequence = low+float64(scale*s.value.centre(1, 0, 1)), Pair{low + float64(scale*lo), low + float64(scale*hi)}
		if lo, hi, err = s.different.difference(r.Each); err != nil {
			return out, err
		}
		b.Difference, b.Uplift = scale*s.different.centre(0, -1, 1), Pair{scale * lo, scale * hi}
		out.Bandwidths = append(out.Bandwidths, b)
		if b.ESS >= leastKnobESS {
			at, values = append(at, i), append(values, b.IPW)
			widths = append(widths, studentQuantile(slopeLevel, n-1)*b.SE)
		}
	}
	if at == nil {
		return out, nil
	}
	out.Chosen = ptr(at[slope(values, widths)])
	d := out.Bandwidths[*out.Chosen].Uplift
	switch {
	case d[0] > 0:
		out.Verdict = "better by " + amount(d[0], d[1], r.Logged)
	case d[1] < 0:
		out.Verdict = "worse by " + amount(-d[1], -d[0], r.Logged)
	default:
		out.Verdict = "not settled"
	}
	return out, nil
}

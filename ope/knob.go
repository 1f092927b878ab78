package ope

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// Continuous actions: a logger draws the number a ("the knob") from a density f(·|x) and logs f(a|x). A target names a
// number t(x). Its own value cannot be had from such a log, for no draw is exactly t(x). What can be had is the value
// of the smoothed target, which plays t(x) + h·E with E of density K:
//
//	w_i = K((a_i − t(x_i))/h)/(h f(a_i|x_i)),   V_h = E[w r].
//
// Given the past E[w_i r_i] ≤ V_h, with equality where f > 0, so w r and w(1 − r) go into the log-mixture sequence as
// in docs/design/ope.md with k = 0.

// Knob is one decision.
type Knob struct {
	Action  float64 // a
	Density float64 // f(a|x) > 0 of the logger, given the past
	Reward  float64
	Aims    []float64 // t(x) of each target
	Segment string    // the value that KnobOptions.By cuts by, "" for none
	// Cell is [from, to) in which the logger played evenly, [a, a] for a step, and Mass its probability; with KnobOptions.Cells.
	Cell Pair
	Mass float64
}

// KnobOptions says what to estimate. The zero value takes the Epanechnikov kernel, level 0.95 and rewards in [0, 1].
type KnobOptions struct {
	Names  []string // of the targets
	Kernel string   // one of Kernels; "": epanechnikov
	// Bandwidths h; nil: eight of them, 2s, s, s/2, … s/64, with s the standard deviation of the first knobUnit
	// actions. These decisions are not counted then: what is estimated on the others was fixed before them.
	Bandwidths []float64
	Level      float64 // of all bandwidths of a target together
	Rewards    *Pair   // finite
	By         *By     // of Knob.Segment; nil: no segments
	// Cells: decisions have the cell that the logger drew. Then the target that plays evenly in the cell of its number has an estimate,
	// with weights 1{t(x) in the cell}/P(cell), beside the bandwidths that are given.
	Cells bool
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
	// Segments, with By, is the difference of the chosen bandwidth in each segment. All of them hold together with all
	// bandwidths, and so may be looked at.
	Segments *Segments `json:"segments,omitempty"`
}

// KnobBandwidth is the value of the target smoothed with one bandwidth.
type KnobBandwidth struct {
	Bandwidth  float64  `json:"bandwidth"`      // 0 with Cell
	Cell       bool     `json:"cell,omitempty"` // the target plays evenly in the cell of its number
	Value      *float64 `json:"value"`          // IPW, moved to the nearest end of Sequence; nil: not Shown
	Sequence   Pair     `json:"sequence"`
	Difference *float64 `json:"difference"` // to what ran: mean[(w − 1) r], moved to the nearest end of Uplift; nil: not Shown
	Uplift     Pair     `json:"uplift"`     // interval of the difference
	IPW        *float64 `json:"ipw"`        // mean[w r], obp's KernelizedIPW; nil: not Shown
	Outside    bool     `json:"outside"`    // IPW is shown and outside of Sequence
	SE         *float64 `json:"se"`         // of IPW; nil: not Shown
	SNIPW      *float64 `json:"snipw"`      // Σ w r/Σ w; nil: not Shown
	ESS        float64  `json:"ess"`
	WeightMean float64  `json:"weight_mean"` // 1 where the logger plays all that the smoothed target may
	WeightMax  float64  `json:"weight_max"`
}

// knobPart is the difference of one target with one bandwidth in some decisions.
type knobPart struct {
	w1, w2    sum
	paired    sum // Σ (w − 1) r
	different twoSided
}

func newKnobPart() knobPart { return knobPart{different: newTwoSided(1)} }

// knobSums is what adds up for one target and one bandwidth.
type knobSums struct {
	part    knobPart
	wr, wr2 sum
	most    float64
	own     twoSided // of the value
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
	case !r.known() || !(r[0] < r[1]) || !finite(r[1]-r[0]):
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
	case k.Mass != 0 && !(k.Mass >= LeastDensity && k.Mass <= 1+1e-6):
		return fmt.Errorf("the probability of the cell is %v, expected a number in (0, 1]", k.Mass)
	case k.Mass != 0 && !(k.Cell[0] <= k.Action && (k.Action < k.Cell[1] || k.Action == k.Cell[0] && k.Cell[1] == k.Cell[0])):
		return fmt.Errorf("knob is %v, expected a number in its cell [%v, %v)", k.Action, k.Cell[0], k.Cell[1])
	case !(k.Density >= LeastDensity && k.Density <= 1/LeastDensity) && !(k.Mass != 0 && k.Density == 0):
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
// and bandwidth, and 1 kB for each segment of them.
func EvaluateKnobs(next func(*Knob) error, o KnobOptions) (*KnobResult, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	out := &KnobResult{Kernel: o.Kernel, Level: o.Level, Rewards: *o.Rewards}
	k, hs := Knob{}, o.Bandwidths
	if o.Cells {
		hs = append([]float64{0}, hs...)
	} else if hs == nil {
		var err error
		if hs, err = knobGrid(next, &k, out, *o.Rewards); err != nil {
			return nil, err
		}
	}
	run := knobRun{o: &o, hs: hs, out: out, sums: make([][]knobSums, len(o.Names)),
		parts: knobSegments{o: &o, hs: hs, of: map[string]*knobSegment{}}}
	for t := range run.sums {
		for range hs {
			run.sums[t] = append(run.sums[t], knobSums{part: newKnobPart(), own: newTwoSided(0)})
		}
	}
	for {
		err := next(&k)
		if err == io.EOF {
			if err := run.answer(); err != nil {
				return nil, err
			}
			return out, nil
		}
		if err == nil {
			err = run.add(&k)
		}
		if err != nil {
			return nil, err
		}
	}
}

// knobRun is an evaluation under way.
type knobRun struct {
	o       *KnobOptions
	hs      []float64
	out     *KnobResult
	sums    [][]knobSums // by target and bandwidth
	rewards sum
	parts   knobSegments
}

// add counts a decision.
func (r *knobRun) add(k *Knob) error {
	if err := k.Check(*r.o.Rewards); err != nil {
		return err
	}
	switch {
	case r.o.Cells && k.Mass == 0:
		return errors.New("the cell is missing, which the decisions before have")
	case k.Density == 0 && (!r.o.Cells || len(r.hs) > 1):
		return errors.New("density is missing, which a bandwidth needs")
	}
	if len(k.Aims) != len(r.o.Names) {
		return fmt.Errorf("%d targets, expected %d", len(k.Aims), len(r.o.Names))
	}
	part, err := r.parts.add(k)
	if err != nil {
		return err
	}
	r.out.Events++
	r.rewards.add(k.Reward)
	low, scale := r.o.Rewards[0], r.o.Rewards[1]-r.o.Rewards[0]
	for t, aim := range k.Aims {
		for i, h := range r.hs {
			unit := (k.Reward - low) / scale
			w := 0.0
			switch {
			case h > 0:
				w = kernel(r.o.Kernel, (k.Action-aim)/h) / h / k.Density
			case aim == k.Cell[0] || aim > k.Cell[0] && aim < k.Cell[1]:
				w = 1 / k.Mass
			}
			if r.sums[t][i].add(w, k.Reward, unit); part != nil {
				part.parts[t][i].add(w, k.Reward, unit)
			}
		}
	}
	return nil
}

// answer fills the result.
func (r *knobRun) answer() error {
	out := r.out
	if out.Events < 2 {
		return fmt.Errorf("%d decisions after the first %d, which fix the unit of the bandwidths; expected at least "+
			"2 (bandwidths that are given count from the first one)", out.Events, out.Unit)
	}
	out.Logged, out.Each = r.rewards.value()/float64(out.Events), 1-(1-r.o.Level)/float64(len(r.hs))
	rows, err := r.parts.rows(out)
	if err != nil {
		return err
	}
	for t, name := range r.o.Names {
		target, err := out.target(name, r.hs, r.sums[t])
		if i := target.Chosen; err == nil && i != nil && r.o.By != nil {
			target.Segments, err = r.parts.segments(rows, t, *i, &r.sums[t][*i].part,
				sure(target.Bandwidths[*i].Uplift), out.Rewards)
		}
		if err != nil {
			return fmt.Errorf("target %s: %w", name, err)
		}
		out.Targets = append(out.Targets, target)
	}
	return nil
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
	s.part.add(w, r, unit)
	s.wr.product(w, r)
	wr := float64(w * r)
	s.wr2.product(wr, wr)
	s.most = max(s.most, w)
	s.own.lower.add([]float64{w * unit})
	s.own.upper.add([]float64{w * (1 - unit)})
}

// add adds a decision to the difference.
func (s *knobPart) add(w, r, unit float64) {
	s.w1.add(w)
	s.w2.product(w, w)
	s.paired.add(float64((w - 1) * r))
	s.different.lower.add([]float64{(w - 1) * unit})
	s.different.upper.add([]float64{(w - 1) * (1 - unit)})
}

func (s *knobPart) merge(o *knobPart) {
	s.w1.merge(o.w1)
	s.w2.merge(o.w2)
	s.paired.merge(o.paired)
	s.different.merge(&o.different)
}

// value is the plain paired mean of n decisions, moved to the nearest end of its interval, nil where it may not be Shown.
func (s *knobPart) value(n int, p Pair) *float64 {
	if !Shown(effective(s.w1.value(), s.w2.value())) {
		return nil
	}
	return ptr(within(s.paired.value()/float64(n), p))
}

// target makes the answer of one target.
func (r *KnobResult) target(name string, hs []float64, sums []knobSums) (KnobTarget, error) {
	out := KnobTarget{Name: name, Verdict: "no bandwidth has enough decisions near the target"}
	low, scale, n := r.Rewards[0], r.Rewards[1]-r.Rewards[0], float64(r.Events)
	var at []int
	var values, widths []float64
	for i, h := range hs {
		s := &sums[i]
		b := KnobBandwidth{Bandwidth: h, Cell: h == 0, WeightMean: s.part.w1.value() / n, WeightMax: s.most,
			ESS: effective(s.part.w1.value(), s.part.w2.value())}
		ipw := s.wr.value() / n
		se := math.Sqrt(max(s.wr2.value()/n-float64(ipw*ipw), 0) / (n - 1))
		lo, hi, err := s.own.value(r.Each)
		if err != nil {
			return out, err
		}
		b.Sequence = Pair{low + float64(scale*lo), low + float64(scale*hi)}
		if lo, hi, err = s.part.different.difference(r.Each); err != nil {
			return out, err
		}
		b.Uplift = Pair{scale * lo, scale * hi}
		b.Difference = s.part.value(r.Events, b.Uplift)
		if Shown(b.ESS) {
			b.IPW, b.SE, b.SNIPW, b.Value = &ipw, &se, ptr(s.wr.value()/s.part.w1.value()), ptr(within(ipw, b.Sequence))
			b.Outside = ipw < b.Sequence[0] || ipw > b.Sequence[1]
		}
		out.Bandwidths = append(out.Bandwidths, b)
		if b.ESS >= leastKnobESS {
			at, values = append(at, i), append(values, ipw)
			widths = append(widths, studentQuantile(slopeLevel, n-1)*se)
		}
	}
	if at == nil {
		return out, nil
	}
	out.Chosen = ptr(at[slope(values, widths)])
	if out.Verdict = differs(out.Bandwidths[*out.Chosen].Uplift, r.Logged); out.Verdict == "" {
		out.Verdict = tooClose
	}
	return out, nil
}

// KnobDoubt says that the weights of the chosen bandwidth do not average 1, "" where they do.
func KnobDoubt(t *KnobTarget) string {
	if t.Chosen == nil || t.Bandwidths[*t.Chosen].WeightMean >= 0.9 {
		return ""
	}
	return fmt.Sprintf("%s: the weights average %s at ◆, not 1: the rest of the smoothed target lies where the logger "+
		"hardly plays, or the density is wrong", t.Name, short(t.Bandwidths[*t.Chosen].WeightMean))
}

// mostKnobSums bounds segments × targets × bandwidths: 1 kB each.
const mostKnobSums = 200_000

// knobSegment is what adds up in one segment: the difference of each target and bandwidth.
type knobSegment struct {
	n       int
	rewards sum
	parts   [][]knobPart
}

// knobSegments are all segments, by key.
type knobSegments struct {
	o  *KnobOptions
	hs []float64
	of map[string]*knobSegment
}

func (p *knobSegments) make() *knobSegment {
	s := &knobSegment{parts: make([][]knobPart, len(p.o.Names))}
	for t := range s.parts {
		for range p.hs {
			s.parts[t] = append(s.parts[t], newKnobPart())
		}
	}
	return s
}

// add counts a decision in its segment, nil without By.
func (p *knobSegments) add(k *Knob) (*knobSegment, error) {
	if p.o.By == nil {
		return nil, nil
	}
	key := missing
	if k.Segment != "" {
		var err error
		if key, err = p.o.By.ofText(k.Segment, p.o.By.Path); err != nil {
			return nil, err
		}
	}
	s := p.of[key]
	if s == nil {
		switch n := len(p.of) + 1; {
		case n > MostSegments:
			return nil, p.o.By.tooMany()
		case n*len(p.o.Names)*len(p.hs) > mostKnobSums:
			return nil, fmt.Errorf("--by %s: more than %d segments of %d targets with %d bandwidths, expected a product "+
				"of at most %d", p.o.By, n-1, len(p.o.Names), len(p.hs), mostKnobSums)
		}
		s = p.make()
		p.of[strings.Clone(key)] = s
	}
	s.n++
	s.rewards.add(k.Reward)
	return s, nil
}

// knobRow is a segment that is shown: one, or the small ones together.
type knobRow struct {
	Segment
	sums *knobSegment // nil: the whole
}

// rows are the whole and the segments that all targets share; small ones are one.
func (p *knobSegments) rows(r *KnobResult) ([]knobRow, error) {
	if p.o.By == nil {
		return nil, nil
	}
	counts := map[string]int{}
	var all []Segment
	for key, s := range p.of {
		counts[key] = s.n
		all = append(all, Segment{Name: p.o.By.name(key), Values: 1, Events: s.n, key: key})
	}
	if err := p.o.By.empty(counts, r.Events, p.o.By.Path, func() string { return "" }); err != nil {
		return nil, err
	}
	out := []knobRow{{Segment{Name: "all", Events: r.Events, Logged: &r.Logged}, nil}}
	shown, rest := arranged(all)
	pooled := knobRow{Segment{Name: rest}, p.make()}
	for i, x := range all {
		s := p.of[x.key]
		if i < shown {
			x.Logged = ptr(s.rewards.value() / float64(s.n))
			out = append(out, knobRow{x, s})
			continue
		}
		pooled.Events, pooled.Values = pooled.Events+x.Events, pooled.Values+1
		pooled.sums.merge(s)
	}
	if rest != "" {
		pooled.Logged = ptr(pooled.sums.rewards.value() / float64(pooled.Events))
		out = append(out, pooled)
	}
	return out, nil
}

func (s *knobSegment) merge(o *knobSegment) {
	s.n += o.n
	s.rewards.merge(o.rewards)
	for t := range s.parts {
		for i := range s.parts[t] {
			s.parts[t][i].merge(&o.parts[t][i])
		}
	}
}

// segments are the rows of target t with bandwidth i. Each stands at 1 − α/(rows · bandwidths), so that the bandwidth
// may have been chosen by looking; alone: the whole is settled at its own level.
func (p *knobSegments) segments(rows []knobRow, t, i int, whole *knobPart, alone bool, rewards Pair) (*Segments,
	error) {
	out := &Segments{By: p.o.By.String(), Level: p.o.Level, Each: 1 - (1-p.o.Level)/float64(len(rows)*len(p.hs)),
		Rule: poolRule, Notes: []string{chooseAfter}}
	for _, row := range rows {
		seq := whole
		if row.sums != nil {
			seq = &row.sums.parts[t][i]
		}
		d := difference{&seq.different, rewards[1] - rewards[0], -1, 1, 0, 0, math.Inf(1)}
		interval, err := d.at(out.Each)
		if err != nil {
			return nil, fmt.Errorf("in %s: %w", row.Name, err)
		}
		x := row.Segment
		x.Value, x.Sequence = seq.value(row.Events, interval), &interval
		if x.Verdict = differs(interval, *x.Logged); x.Verdict == "" {
			x.Verdict = tooClose
			if row.sums == nil && alone {
				x.Verdict = sureAlone
			}
		}
		out.Rows = append(out.Rows, x)
	}
	out.Sentence = sentence(out.Rows)
	return out, nil
}

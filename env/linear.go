package env

import (
	"fmt"
	"math"
	"slices"

	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
	"troupe/spec"
)

// LinearOptions are the options of kind "linear": the reward of x in round t is μ_t(x) plus noise,
//
//	μ_t(x) = ⟨x, θ_t⟩ + ε·sin(2π·√d·⟨w, x⟩ + φ),
//
// with θ_t = θ* and ε = 0 unless Drift or Misspecification say otherwise. θ* is drawn once for each
// replication.
//
// Drift ω: θ_t = ‖θ*‖·(cos((t−1)ω)·u + sin((t−1)ω)·v) with u = θ*/‖θ*‖ and v drawn uniformly from
// the unit vectors orthogonal to it; successive θ_t are ω radians apart.
//
// Every n: θ_t is drawn anew, from the law of θ*, in rounds n + 1, 2n + 1, …. From and Later: θ_t is Later from round
// From on.
//
// Misspecification ε: w is drawn from the unit sphere and φ from [0, 2π), so arms that differ by
// much more than 1/√d in the direction w have offsets that no linear function explains; none is
// larger than ε. Only for finite sets, where the best arm can be found by looking at all.
type LinearOptions struct {
	D                int            `key:"d" doc:"dimension; may be left out when the set determines it"`
	Theta            string         `key:"theta" doc:"law of θ*: sphere (uniform on the sphere of radius norm), ball (uniform in that ball), gaussian (N(0, sigma_theta²·I)), given (value)"`
	Norm             float64        `key:"norm" doc:"radius for sphere and ball, and the largest norm for gaussian with clip"`
	SigmaTheta       float64        `key:"sigma_theta" doc:"standard deviation of each coordinate for gaussian; 0: 1/√d, so E‖θ*‖² = 1"`
	Clip             bool           `key:"clip" doc:"gaussian: a θ* that is longer than norm is shortened to it"`
	Value            []float64      `key:"value" doc:"θ* itself, for theta = \"given\""`
	Set              actionset.Spec `key:"set" doc:"action set"`
	Noise            Noise          `key:"noise" doc:"noise of the rewards"`
	Misspecification float64        `key:"misspecification" doc:"ε: size of a fixed non-linear part of the mean; finite sets only"`
	Drift            float64        `key:"drift" doc:"radians by which θ* turns in every round, in a random plane"`
	Every            int            `key:"every" doc:"rounds after which θ* is drawn again; 0: never"`
	From             int            `key:"from" doc:"the round from which on θ* is later; 0: none"`
	Later            []float64      `key:"later" doc:"θ* from round from on, for theta = \"given\""`
}

// NewLinear returns the defaults: θ* uniform on the unit sphere, the unit ball, N(0, 1) noise.
func NewLinear() *LinearOptions {
	return &LinearOptions{
		Theta: "sphere", Norm: 1,
		Set:   actionset.Spec{Kind: "ball", Builder: &actionset.BallOptions{}},
		Noise: Noise{Kind: "gaussian", Law: &Gaussian{Std: 1}},
	}
}

// Doc says what the kind is.
func (*LinearOptions) Doc() string { return "linear bandit: reward ⟨x, θ*⟩ plus noise" }

// maxDim turns a slip of the finger into an error instead of a full memory: most policies keep d×d
// matrices.
const maxDim = 20_000

// Dim returns the dimension that d and the set agree on.
func (o *LinearOptions) Dim() (int, error) {
	if o.D < 0 || o.D > maxDim {
		return 0, wrong("d", "is %d, expected at least 1 and at most %d", o.D, maxDim)
	}
	if o.Set.Builder == nil {
		return 0, wrong("set", "is missing")
	}
	d, err := o.Set.Dim(o.D)
	if err != nil {
		return 0, wrong("d", "does not fit the set %s: %v", o.Set.Kind, err)
	}
	if d > maxDim {
		return 0, wrong("set", "has dimension %d, expected at most %d", d, maxDim)
	}
	return d, nil
}

// check refuses options that have no meaning in dimension d.
func (o *LinearOptions) check(d int) error {
	if err := oneOf("theta", o.Theta, "sphere", "ball", "gaussian", "given"); err != nil {
		return err
	}
	if err := positive("norm", o.Norm); err != nil {
		return err
	}
	if !(o.SigmaTheta >= 0) || math.IsInf(o.SigmaTheta, 0) {
		return wrong("sigma_theta", "is %v, expected a positive number, or 0 for 1/√d", o.SigmaTheta)
	}
	if o.Theta == "given" {
		if len(o.Value) != d {
			return wrong("value", "has length %d, expected %d", len(o.Value), d)
		}
		if !linalg.Finite(o.Value) {
			return wrong("value", "is %v, expected finite numbers", o.Value)
		}
	} else if o.Value != nil {
		return wrong("value", `is set, but theta is %q, expected "given"`, o.Theta)
	}
	if !(o.Misspecification >= 0) || math.IsInf(o.Misspecification, 0) {
		return wrong("misspecification", "is %v, expected 0 or a positive number", o.Misspecification)
	}
	if math.IsNaN(o.Drift) || math.Abs(o.Drift) > math.Pi {
		return wrong("drift", "is %v, expected radians between -π and π", o.Drift)
	}
	if o.Drift != 0 && d < 2 {
		return wrong("drift", "is %v, but θ* cannot turn in dimension 1", o.Drift)
	}
	if err := o.checkChange(d); err != nil {
		return err
	}
	return o.Noise.check()
}

// checkChange refuses changes of θ* that have no meaning in dimension d.
func (o *LinearOptions) checkChange(d int) error {
	switch {
	case o.Every < 0:
		return wrong("every", "is %d, expected a number of rounds, or 0 for never", o.Every)
	case o.Every > 0 && o.Drift != 0:
		return wrong("every", "is %d, but drift is %v: θ* changes in one way or the other", o.Every, o.Drift)
	case o.Every > 0 && o.Theta == "given":
		return wrong("every", `is %d, but theta is "given": it is not drawn; expected from and later`, o.Every)
	case o.From < 0 || o.From == 1:
		return wrong("from", "is %d, expected a round after the first, or 0 for none", o.From)
	case (o.From > 0) != (o.Later != nil):
		return wrong("from", "is %d, with %d numbers in later: expected both or neither", o.From, len(o.Later))
	case o.From > 0 && (o.Theta != "given" || o.Drift != 0):
		return wrong("from", `is %d, with theta = %q and drift = %v: expected theta = "given" without a drift`, o.From,
			o.Theta, o.Drift)
	case o.From > 0 && (len(o.Later) != d || !linalg.Finite(o.Later)):
		return wrong("later", "is %v, expected %d finite numbers", o.Later, d)
	}
	return nil
}

// Build implements Options.
func (o *LinearOptions) Build(key rng.Key, _ DataSource) (bandit.Environment, error) {
	d, err := o.Dim()
	if err != nil {
		return nil, err
	}
	if err := o.check(d); err != nil {
		return nil, err
	}
	instance := key.Stream(rng.Instance)
	var notes []string
	var offers offerer
	var sample bandit.ActionSet
	if each, ok := o.Set.EachRound(); ok {
		offers = &redrawn{each, d}
		sample, _, err = offers.offer(key.Stream(rng.Offer).Round(1))
	} else {
		sample, err = o.Set.Build(d, instance.Round(drawArms))
		offers = fixed{sample}
	}
	if err != nil {
		return nil, wrong("set", "%v", err)
	}
	if f := actionset.Factor(sample); f != 1 {
		notes = append(notes, fmt.Sprintf("the actions of the set %s were multiplied by %.6g to lie in the unit ball",
			o.Set.Kind, f))
	}
	if _, finite := sample.(bandit.Finite); o.Misspecification > 0 && !finite {
		return nil, wrong("misspecification",
			"is %v, but the set %s is not finite: its best action for a mean that is not linear cannot be found",
			o.Misspecification, o.Set.Kind)
	}
	theta, note := o.theta(d, instance.Round(drawTheta))
	if note != "" {
		notes = append(notes, note)
	}
	e := newLinear(theta, offers, o.Noise.Law, notes)
	if o.Misspecification > 0 {
		e.bend(o.Misspecification, instance.Round(drawWave))
	}
	if o.Drift != 0 {
		if err := e.turn(o.Drift, instance.Round(drawDrift)); err != nil {
			return nil, err
		}
	}
	o.change(e, instance)
	if _, ok := offers.(fixed); ok {
		if err := e.checkMeans(sample); err != nil {
			return nil, err
		}
	}
	e.largest = o.largest()
	return e, nil
}

// change makes θ* another one from some rounds on.
func (o *LinearOptions) change(e *linear, instance rng.Stream) {
	switch {
	case o.Every > 0:
		e.jump, e.period = func(k int) []float64 {
			theta, _ := o.theta(len(e.theta), instance.Sub(uint64(k)).Round(drawTheta))
			return theta
		}, o.Every
		e.notes = append(e.notes, fmt.Sprintf("outside the assumption: θ* is drawn anew after every %d rounds",
			o.Every))
	case o.From > 0:
		e.jump, e.period, e.once = func(int) []float64 { return slices.Clone(o.Later) }, o.From-1, true
		e.notes = append(e.notes, fmt.Sprintf("outside the assumption: θ* is another one from round %d on", o.From))
	}
	e.drawn = slices.Clone(e.theta)
}

// largest bounds the regret of a round over all instances, 0 for no bound: actions lie in the unit ball, so
// it is at most twice the largest ‖θ*‖, and on the basis for a given θ* the distance of its extreme entries.
func (o *LinearOptions) largest() float64 {
	norm := o.Norm
	switch {
	case o.Theta == "given" && o.Set.Kind == "basis" && o.Drift == 0 && o.From == 0:
		return slices.Max(o.Value) - slices.Min(o.Value) + 2*o.Misspecification
	case o.Theta == "given":
		norm = max(linalg.Norm(o.Value), linalg.Norm(o.Later))
	case o.Theta == "gaussian" && !o.Clip:
		return 0
	}
	return float64(2*norm*(1+1e-12)) + float64(2*o.Misspecification)
}

// theta draws θ* and says when the law leaves the assumption.
func (o *LinearOptions) theta(d int, draw rng.Source) (theta []float64, note string) {
	theta = make([]float64, d)
	most := o.Norm
	switch o.Theta {
	case "sphere":
		draw.Sphere(theta, 0)
		scale(theta, o.Norm)
	case "ball":
		draw.Ball(theta, 0)
		scale(theta, o.Norm)
	case "gaussian":
		sigma := o.SigmaTheta
		if sigma == 0 {
			sigma = 1 / math.Sqrt(float64(d))
		}
		draw.Normals(theta, 0)
		scale(theta, sigma)
		if !o.Clip {
			return theta, fmt.Sprintf("outside the assumption ‖θ*‖ ≤ 1: θ* is Gaussian with standard deviation %.6g "+
				"in each of %d coordinates", sigma, d)
		}
		if r := linalg.Norm(theta); r > o.Norm {
			scale(theta, o.Norm/r)
		}
	case "given":
		copy(theta, o.Value)
		most = linalg.Norm(theta)
	}
	if most > 1+actionset.Tolerance {
		note = fmt.Sprintf("outside the assumption ‖θ*‖ ≤ 1: the norm of θ* is up to %.6g", most)
	}
	return theta, note
}

func scale(x []float64, c float64) {
	for i := range x {
		x[i] *= c
	}
}

// offerer is where the action sets of a linear environment come from.
type offerer interface {
	// offer returns the round's set and its slot: the number of a set that never changes, from 0
	// to slots() − 1, or −1 for a set that is new.
	offer(draw rng.Source) (set bandit.ActionSet, slot int, err error)
	slots() int
}

// fixed offers one set.
type fixed struct{ set bandit.ActionSet }

func (f fixed) offer(rng.Source) (bandit.ActionSet, int, error) { return f.set, 0, nil }
func (f fixed) slots() int                                      { return 1 }

// redrawn offers a new set in every round.
type redrawn struct {
	sets actionset.Redrawer
	d    int
}

func (r *redrawn) offer(draw rng.Source) (bandit.ActionSet, int, error) {
	set, err := r.sets.Redraw(r.d, draw)
	return set, -1, err
}
func (r *redrawn) slots() int { return 0 }

// linear is an environment with the mean of LinearOptions. It implements Truth, Noted and Noisy.
type linear struct {
	theta  []float64 // θ_t
	offers offerer
	noise  Law
	notes  []string

	set     bandit.ActionSet // offered last
	still   bool             // no round changes anything any more
	slot    int
	best    float64   // max μ_t over set; NaN: not known yet
	bests   []float64 // best of each slot, NaN where it is not known yet
	x       bandit.Action
	minus   []float64 // −θ_t, for the smallest mean
	bounded bool      // the noise cannot pay every mean
	largest float64   // bound on the regret of a round, 0 for none

	gauss *Gaussian // the noise, if it is that: its numbers are then drawn 16 rounds at a time
	draws rng.Rows

	drift, norm float64 // ω, ‖θ*‖
	u, v        []float64

	jump   func(k int) []float64 // θ of the stretch after change k = 1, 2, …; nil: θ* does not jump
	period int                   // rounds of a stretch
	once   bool                  // there is one change
	at     int                   // changes so far
	drawn  []float64             // θ before the first change

	epsilon, phase float64
	wave           []float64 // 2π√d·w
}

func newLinear(theta []float64, offers offerer, noise Law, notes []string) *linear {
	e := &linear{theta: theta, offers: offers, noise: noise, best: math.NaN(), slot: -1,
		notes: append(notes, noise.Notes()...), bests: make([]float64, offers.slots())}
	for i := range e.bests {
		e.bests[i] = math.NaN()
	}
	lo, hi := noise.Means()
	e.bounded = !math.IsInf(lo, -1) || !math.IsInf(hi, 1)
	e.x.X = make([]float64, 0, len(theta))
	e.gauss, _ = noise.(*Gaussian)
	return e
}

// bend adds the non-linear part of the mean.
func (e *linear) bend(epsilon float64, draw rng.Source) {
	d := len(e.theta)
	e.epsilon = epsilon
	e.wave = make([]float64, d)
	draw.Sphere(e.wave, 0)
	scale(e.wave, 2*math.Pi*math.Sqrt(float64(d)))
	e.phase = 2 * math.Pi * draw.Float64(d)
	e.notes = append(e.notes, fmt.Sprintf("outside the assumption: the mean is not linear, by up to %.6g", epsilon))
}

// turn makes θ* drift.
func (e *linear) turn(drift float64, draw rng.Source) error {
	e.norm = linalg.Norm(e.theta)
	if e.norm == 0 {
		return wrong("drift", "is %v, but θ* is 0 and cannot turn", drift)
	}
	e.drift = drift
	e.u = append([]float64(nil), e.theta...)
	scale(e.u, 1/e.norm)
	e.v = make([]float64, len(e.theta))
	draw.Sphere(e.v, 0)
	for range 2 { // the second time removes what rounding left
		linalg.Axpy(-linalg.Dot(e.u, e.v), e.u, e.v)
		scale(e.v, 1/linalg.Norm(e.v))
	}
	e.notes = append(e.notes, fmt.Sprintf("outside the assumption: θ* turns by %.6g radians in every round", drift))
	return nil
}

// Dim returns d.
func (e *linear) Dim() int { return len(e.theta) }

// Theta implements Truth.
func (e *linear) Theta() []float64 { return e.theta }

// Notes implements Noted.
func (e *linear) Notes() []string { return e.notes }

// Sigma implements Noisy.
func (e *linear) Sigma() (float64, bool) { return e.noise.Sigma() }

// LargestRegret implements Bounded.
func (e *linear) LargestRegret() (float64, bool) { return e.largest, e.largest > 0 }

// Redraws implements Redrawn. An adversary, which is a linear environment that sees actions, does not.
func (e *linear) Redraws() bool {
	switch e.offers.(type) {
	case *redrawn, correlated:
		return true
	}
	return false
}

// Offer implements bandit.Environment.
func (e *linear) Offer(draw rng.Source) (bandit.ActionSet, error) {
	if e.still {
		return e.set, nil
	}
	set, slot, err := e.offers.offer(draw)
	if err != nil {
		return nil, err
	}
	if e.drift != 0 {
		sin, cos := math.Sincos((float64(draw.At()) - 1) * e.drift)
		for i := range e.theta {
			e.theta[i] = e.norm * (float64(cos*e.u[i]) + float64(sin*e.v[i]))
		}
		slot = -1
	}
	if e.jump != nil {
		slot = -1
		e.follow(int(draw.At()))
	}
	e.set, e.slot, e.best = set, slot, math.NaN()
	_, one := e.offers.(fixed)
	e.still = one && e.drift == 0 && e.jump == nil
	if slot >= 0 {
		e.best = e.bests[slot]
	} else if e.bounded {
		if err := e.checkMeans(set); err != nil {
			return nil, err
		}
	}
	return set, nil
}

// follow makes θ_t that of round t ≥ 1.
func (e *linear) follow(t int) {
	k := (t - 1) / e.period
	if e.once {
		k = min(k, 1)
	}
	if k == e.at {
		return
	}
	theta := e.drawn
	if k > 0 {
		theta = e.jump(k)
	}
	copy(e.theta, theta)
	e.at = k
}

// checkMeans refuses a set on which some mean is not one that the noise can pay.
func (e *linear) checkMeans(set bandit.ActionSet) error {
	if !e.bounded {
		return nil
	}
	top, err := set.ArgMax(&e.x, e.theta)
	if err != nil {
		return err
	}
	e.minus = append(e.minus[:0], e.theta...)
	scale(e.minus, -1)
	bottom, err := set.ArgMax(&e.x, e.minus)
	if err != nil {
		return err
	}
	lo, hi := e.noise.Means()
	const slack = 1e-9 // rounding, as in actionset.Tolerance
	if top+e.epsilon > hi+slack || -bottom-e.epsilon < lo-slack {
		return wrong("noise", "can pay means in [%v, %v], but here they reach from %.6g to %.6g; make θ* shorter, "+
			"choose other arms, or other values for the noise", lo, hi, -bottom-e.epsilon, top+e.epsilon)
	}
	return nil
}

// mean returns μ_t(x).
func (e *linear) mean(x []float64) float64 {
	m := linalg.Dot(x, e.theta)
	if e.epsilon != 0 {
		m += float64(e.epsilon * math.Sin(linalg.Dot(x, e.wave)+e.phase))
	}
	return m
}

// meanOf checks an action and returns its mean.
func (e *linear) meanOf(a bandit.Action) (float64, error) {
	if e.set == nil {
		panic("env: an action before the first offer")
	}
	if len(a.X) != len(e.theta) {
		panic("env: the action has the wrong length")
	}
	m := e.mean(a.X)
	if m-m != 0 {
		return 0, fmt.Errorf("env: the action %v has the mean %v: %w", a.X, m, bandit.ErrNotFinite)
	}
	return m, nil
}

// Reward implements bandit.Environment.
func (e *linear) Reward(a bandit.Action, draw rng.Source) (float64, error) {
	m, err := e.meanOf(a)
	if err != nil {
		return 0, err
	}
	return e.pay(m, draw), nil
}

// pay returns a reward of mean m.
func (e *linear) pay(m float64, draw rng.Source) float64 {
	if e.gauss != nil {
		return m + float64(e.gauss.Std*e.draws.Normal(draw, 0))
	}
	return e.noise.Pay(m, draw)
}

// Regret implements bandit.Environment. An action whose mean is above that of the best action is
// not in the set, which is an error.
func (e *linear) Regret(a bandit.Action) (float64, error) {
	m, err := e.meanOf(a)
	if err != nil {
		return 0, err
	}
	return e.regret(a, m)
}

// Settle implements bandit.Settler.
func (e *linear) Settle(a bandit.Action, draw rng.Source) (reward, regret float64, err error) {
	m, err := e.meanOf(a)
	if err != nil {
		return 0, 0, err
	}
	regret, err = e.regret(a, m)
	return e.pay(m, draw), regret, err
}

// regret returns the regret of an action of mean m.
func (e *linear) regret(a bandit.Action, m float64) (float64, error) {
	if e.best != e.best {
		var err error
		if e.best, err = e.top(); err != nil {
			return 0, err
		}
		if e.slot >= 0 {
			e.bests[e.slot] = e.best
		}
	}
	r := e.best - m
	if r < 0 && r < -1e-9*(1+math.Abs(e.best)) {
		return 0, fmt.Errorf("env: the action %v has the mean %v, above the best of the set, %v: it is not in the set",
			a.X, m, e.best)
	}
	return max(r, 0), nil
}

// top returns the largest mean on the set offered last.
func (e *linear) top() (float64, error) {
	if e.epsilon == 0 {
		if _, err := e.set.ArgMax(&e.x, e.theta); err != nil {
			return 0, err
		}
		return e.mean(e.x.X), nil // computed like the mean of any action: the best has regret 0
	}
	set := e.set.(bandit.Finite)
	top := math.Inf(-1)
	for i := range set.Len() {
		top = max(top, e.mean(set.At(i)))
	}
	return top, nil
}

var (
	_ Truth = (*linear)(nil)
	_ Noted = (*linear)(nil)
	_ Noisy = (*linear)(nil)

	_ bandit.Settler = (*linear)(nil)
	_ spec.Decoder   = (*Noise)(nil)
)

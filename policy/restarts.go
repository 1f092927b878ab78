package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
)

// The values of the option change.
const (
	restarts  = "restarts"
	unchanged = "none"
)

// changeOptions are what policies have to say of change.
type changeOptions struct {
	change   string
	halfLife HalfLife
	discount float64 // 0 or 1: none
}

// Constants of Restarts. docs/record/change.md says how they were chosen.
const (
	restartTrials = 6         // hypotheses H
	restartGap    = 25        // events between two beginnings g
	restartHazard = 1. / 5000 // prior probability of a change at an event h
	restartLow    = .1        // a hypothesis with a smaller weight does not play
	restartSure   = .99       // posterior at which a change is stated
	weightTotal   = 1 << 16   // weights are multiples of 1/weightTotal
)

// resolve fills in the change and refuses what has no meaning. timed says that events have times.
func (c changeOptions) resolve(timed bool) (changeOptions, error) {
	fill(&c.change, unchanged)
	if err := oneOf("change", c.change, restarts, unchanged); err != nil {
		return c, err
	}
	if h := c.halfLife; !h.IsZero() && c.discount > 0 && c.discount < 1 {
		return c, spec.Refuse("half_life", h.shown(), "but discount is %v: both say how soon an event is forgotten; "+
			"expected one of them", c.discount)
	}
	return c, c.halfLife.check(c.change, timed, restartGap, ", or a discount")
}

// predicted is how a model predicted a reward, before it learns it.
type predicted struct {
	square float64 // e²/(1 + q), e = y − ⟨x, θ̂⟩, q = xᵀV⁻¹x, of a linear model
	spread float64 // log(1 + q)
	like   float64 // log likelihood of a model that knows its noise
	knows  bool
}

// foretell returns how a regression predicts a reward.
func foretell(r *linalg.Root, x []float64, y float64) predicted {
	u := slices.Clone(x)
	r.Factor().SolveL(u)
	q, e := linalg.Dot(u, u), y-linalg.Dot(x, r.Theta())
	return predicted{square: float64(e*e) / (1 + q), spread: logs.Log1p(q)}
}

// hypothesis is a policy that Restarts can begin several times.
type hypothesis interface {
	bandit.Policy
	bandit.Prober
	bandit.Snapshotter
	// reckon is Update, and returns how the model predicted the reward.
	reckon(a bandit.Action, y float64, draw rng.Source) (predicted, error)
	// fade makes all events so far count gamma times less. It reports false, and changes nothing, where that is not
	// possible to working precision.
	fade(gamma float64) bool
}

// trial is one hypothesis: the rewards follow one law since event born.
type trial struct {
	policy hypothesis
	born   uint64
	like   float64 // log weight
	seen   float64 // events
	square float64 // Σ e²/(1 + q)
}

// Change is what Restarts has noticed.
type Change struct {
	At        uint64  // number of the event after which the rewards are others
	Seen      uint64  // number of the event at which it was sure
	Posterior float64 // of a change since the last one
}

// MeanChange is a change with the mean rewards before and since; both are 0 where the policy does not know them.
type MeanChange struct {
	Change
	Before, After float64
}

// Noticer is implemented by policies that may notice a change of the rewards.
type Noticer interface {
	// Changed returns the last change that was noticed; Seen is 0 without one.
	Changed() MeanChange
}

var _ Noticer = (*Restarts)(nil)

// Changed implements Noticer.
func (r *Restarts) Changed() MeanChange { return MeanChange{Change: r.last} }

// Restarts is a policy for a world that changes: H = 6 copies of one policy that began at different times stand beside
// each other. Copy k is the hypothesis that the rewards follow one law since event n_k. Every g = 25 events one begins
// anew, in the place of the least likely, with the prior weight g·h of a change in that time, h = 1/5000. Each states a
// likelihood of a reward before it learns it: a linear model Student's, because its noise is not known,
//
//	y ~ t_ν(⟨x, θ̂⟩, s²(1 + q)),  q = xᵀV⁻¹x,  ν = 2 + n,  s² = (2σ₀² + Σe²/(1 + q))/ν,
//
// n the number of its events, σ₀ the noise level of the problem; a logistic one y·log p + (1 − y)·log(1 − p), p with
// the spread of the logit integrated out approximately. Weights are the products of likelihoods, rounded to multiples
// of 2⁻¹⁶; one below 1/10 does not play. A copy is drawn by weight, then it chooses. This is Bayesian change-point
// detection (Adams & MacKay 2007; Fearnhead & Liu 2007) with a fixed number of run lengths.
//
// The law is a count over 2^16 times the models of a copy, and exact. Copies draw from one stream: member j of a
// decision has the same direction in each.
//
// What is not played is not seen: where an action that looked bad becomes the best, nothing is noticed. half_life = n
// makes events count half as much after n others, in each copy, at most g events late: V ← γ^g V + (1 − γ^g)λI,
// b ← γ^g b, γ = 2^(−1/n). A discount of the copies does the same at each event, for d³. half_life = "7d" does it by
// the times that Tick is told, with γ = 2^(−Δ/h) for a time Δ, before an event is learned and once Δ is a 32nd of h: an
// event counts at most 2^(1/32), 2.2 %, too much or too little, and h costs 32 of these steps at most, however many
// events come. Between events nothing fades. Weights, and what the noise is taken from, do not fade.
//
// The state is a fold over the events. Cost of a round: Select that of a copy; Update H times that; Prob that of each
// copy that plays. No regret bound is known for an unknown amount of change (arXiv 2601.01069 leaves it open).
type Restarts struct {
	options any // of the copies, with every default filled in
	kind    string
	begin   func() (hypothesis, error)
	blank   []byte // a copy before its first event
	sigma   float64
	gamma   float64 // of half_life in events, to the power g
	fade    *fading // nil without a half_life
	time    restartTime

	trials []*trial
	spare  []*trial // places that are not taken
	n      uint64
	since  uint64 // the change that was stated last, 0 for none
	last   Change

	weight []uint32 // of trials, valid with ready
	ready  bool
	likely []float64
	law    bandit.Law // of one copy
}

// restartTime is what a half_life by time adds to the state, all 0 before the first time is known. Times are seconds
// since 1970.
type restartTime struct {
	now   float64 // the largest so far
	back  float64 // how often one was before an earlier one
	faded float64 // until when the copies have faded
}

// newRestarts returns a policy of copies that begin makes.
func newRestarts(kind string, options any, halfLife HalfLife, p Problem, begin func() (hypothesis, error)) (*Restarts,
	error) {
	r := &Restarts{options: options, kind: kind, begin: begin, sigma: p.sigma(), gamma: 1, fade: newFading(halfLife)}
	if halfLife.Events > 0 {
		r.gamma = logs.Exp(-math.Ln2 * restartGap / halfLife.Events)
	}
	first, err := r.build()
	if err != nil {
		return nil, err
	}
	if r.blank, err = first.policy.AppendSnapshot(nil); err != nil {
		return nil, err
	}
	r.trials = []*trial{first}
	return r, nil
}

func (r *Restarts) build() (*trial, error) {
	p, err := r.begin()
	return &trial{policy: p}, err
}

// Options returns the options of the copies, with every default filled in.
func (r *Restarts) Options() any { return r.options }

// Resolved implements Resolver where the copies do; otherwise it is nil.
func (r *Restarts) Resolved() any {
	if o, ok := r.Base().(Resolver); ok {
		return o.Resolved()
	}
	return nil
}

// DrawnMember implements bandit.MemberDrawer: all copies read the same numbers.
func (r *Restarts) DrawnMember(draw rng.Source) (j int, xi float64) {
	return drawnMember(r.Base(), draw)
}

// Redraws implements bandit.Redrawer where the copies do.
func (r *Restarts) Redraws() bool { return redraws(r.Base()) }

// Additive implements bandit.Additive.
func (r *Restarts) Additive() error {
	return errors.New("with restarts its weights depend on the order of events")
}

// Base returns the copy with the largest weight.
func (r *Restarts) Base() bandit.Policy { return r.trials[r.best()].policy }

// Age returns for how many events the copy with the largest weight has learned.
func (r *Restarts) Age() uint64 { return r.n - r.trials[r.best()].born }

// Len returns the number of events.
func (r *Restarts) Len() uint64 { return r.n }

// Change returns the last change that was noticed; Seen is 0 without one.
func (r *Restarts) Change() Change { return r.last }

func (r *Restarts) best() int {
	best := 0
	for k, t := range r.trials {
		if t.like > r.trials[best].like {
			best = k
		}
	}
	return best
}

// weights returns the weights of the copies. Their sum is weightTotal.
func (r *Restarts) weights() []uint32 {
	if r.ready {
		return r.weight
	}
	r.likely = fit(r.likely, len(r.trials))
	best := r.best()
	var sum, play float64
	for k, t := range r.trials {
		r.likely[k] = logs.Exp(max(t.like-r.trials[best].like, -700))
		sum += r.likely[k]
	}
	for k, v := range r.likely {
		if v < float64(restartLow*sum) && k != best {
			r.likely[k] = 0
		}
		play += r.likely[k]
	}
	r.weight = r.weight[:0]
	left := uint32(weightTotal)
	for _, v := range r.likely {
		w := uint32(float64(v/play) * weightTotal)
		r.weight = append(r.weight, w)
		left -= w
	}
	r.weight[best] += left
	r.ready = true
	return r.weight
}

// Drawn returns the copy, from 0, that chooses with a source. It uses number 2 of it.
func (r *Restarts) Drawn(draw rng.Source) int {
	u := uint32(draw.Intn(2, weightTotal))
	for k, w := range r.weights() {
		if u < w {
			return k
		}
		u -= w
	}
	panic("policy: the weights have another sum")
}

// Select implements bandit.Policy. It uses number 2 of the source for the copy; the copy uses what it uses.
func (r *Restarts) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	return r.trials[r.Drawn(draw)].policy.Select(dst, set, draw)
}

// Prob implements bandit.Prober: a count over the copies' models.
func (r *Restarts) Prob(dst *bandit.Law, set bandit.ActionSet, draw rng.Source) error {
	_, finite := set.(bandit.Finite)
	dst.Atoms = dst.Atoms[:0]
	for k, w := range r.weights() {
		if w == 0 {
			continue
		}
		if err := r.trials[k].policy.Prob(&r.law, set, draw); err != nil {
			return err
		}
		if finite && len(dst.Atoms) == 0 {
			zeros(dst, len(r.law.Atoms))
		}
		for i := range r.law.Atoms {
			a := &r.law.Atoms[i]
			if finite {
				dst.Atoms[i].Count += uint64(w) * a.Count
				continue
			}
			dst.Atoms = append(dst.Atoms, bandit.Atom{Action: a.Action, Count: uint64(w) * a.Count})
			a.Action = bandit.Action{} // its numbers belong to dst now
		}
		dst.Total = r.law.Total
	}
	if !finite {
		gather(dst)
	}
	share(dst, weightTotal*dst.Total)
	return nil
}

// Update implements bandit.Policy.
func (r *Restarts) Update(a bandit.Action, y float64, draw rng.Source) error {
	for k, t := range r.trials {
		s, err := t.policy.reckon(a, y, draw)
		if err != nil && k > 0 { // the first one has learned it: this one cannot stand beside it any more
			t.like = math.Inf(-1)
			continue
		}
		if err != nil {
			return err
		}
		t.like += t.likelihood(s, r.sigma)
	}
	r.n++
	r.ready = false
	if r.n%restartGap == 0 {
		if err := r.turn(); err != nil {
			return err
		}
	}
	r.notice()
	return nil
}

// likelihood returns that of a reward, and learns the noise.
func (t *trial) likelihood(s predicted, sigma float64) float64 {
	t.seen++
	if s.knows {
		return s.like
	}
	nu := 1 + t.seen
	scale := float64(2*sigma*sigma) + t.square // ν·s²
	t.square += s.square
	return studentLog(nu) - float64(.5*(logs.Log(scale)+s.spread)) - float64((nu+1)/2*logs.Log1p(s.square/scale))
}

// studentLog returns log Γ((ν+1)/2) − log Γ(ν/2) − ½ log π.
func studentLog(nu float64) float64 {
	x, before := nu/2, 0.0
	for ; x < 8; x++ { // Γ(x+½)/Γ(x) = x/(x+½)·Γ(x+3/2)/Γ(x+1)
		before += logs.Log(x / (x + .5))
	}
	const halfLogPi = 0.57236494292470008707
	i := 1 / x
	series := float64(i * (-1./8 + float64(i*i*(1./192-float64(i*i/640)))))
	return before + float64(.5*logs.Log(x)) + series - halfLogPi
}

var _ Clocked = (*Restarts)(nil)

// Tick implements Clocked.
func (r *Restarts) Tick(at int64) {
	if !r.Timed() || at <= 0 {
		return
	}
	t, back := tick(r.time.now, at)
	switch {
	case back:
		r.time.back++
		return
	case r.time.now == 0: // the first time: nothing was learned, or when is not known
		r.time.faded = t
	}
	r.time.now = t
	if age := t - r.time.faded; age >= r.fade.lag() {
		r.forget(r.fade.left(age))
		r.time.faded = t
	}
}

// Timed implements Clocked.
func (r *Restarts) Timed() bool { return r.fade != nil && r.fade.timed }

// SteppedBack implements Clocked.
func (r *Restarts) SteppedBack() uint64 { return uint64(r.time.back) }

// forget makes all events so far count gamma times less.
func (r *Restarts) forget(gamma float64) {
	for _, t := range r.trials {
		t.policy.fade(gamma)
	}
}

// turn lets copies forget and begins one.
func (r *Restarts) turn() error {
	if r.gamma < 1 {
		r.forget(r.gamma)
	}
	most := r.trials[r.best()].like
	var sum float64
	for _, t := range r.trials {
		sum += logs.Exp(max(t.like-most, -700))
	}
	total := most + logs.Log(sum)
	k := len(r.trials)
	if k < restartTrials {
		t, err := r.place(0)
		if err != nil {
			return err
		}
		r.trials, r.spare = append(r.trials, t), r.spare[1:]
	} else {
		k = 0
		for i, t := range r.trials {
			if t.like < r.trials[k].like {
				k = i
			}
		}
	}
	if err := r.trials[k].policy.Restore(r.blank); err != nil {
		return err
	}
	for _, t := range r.trials {
		t.like -= total
	}
	*r.trials[k] = trial{policy: r.trials[k].policy, born: r.n, like: logs.Log(restartGap * restartHazard)}
	return nil
}

// notice states a change once its posterior is large enough.
func (r *Restarts) notice() {
	best := r.trials[r.best()]
	if best.born <= r.since {
		return
	}
	var younger, all float64
	for _, t := range r.trials {
		w := logs.Exp(max(t.like-best.like, -700))
		all += w
		if t.born > r.since {
			younger += w
		}
	}
	if p := younger / all; p >= restartSure {
		r.last = Change{At: best.born, Seen: r.n, Posterior: p}
		r.since = best.born
	}
}

// Warnings implements bandit.Warner.
func (r *Restarts) Warnings(set bandit.ActionSet) []string { return warnings(r.Base(), set) }

// AppendSnapshot implements bandit.Snapshotter: a snapshot of kind "restarts" with the numbers of all copies and the
// lengths of what follows, then their snapshots. A half_life by time adds three numbers to the head.
func (r *Restarts) AppendSnapshot(b []byte) ([]byte, error) {
	head := make([]float64, 0, restartHead+restartTimes)
	head = append(head, float64(r.n), float64(r.since), float64(r.last.At), float64(r.last.Seen), r.last.Posterior)
	if r.Timed() {
		head = append(head, r.time.now, r.time.back, r.time.faded)
	}
	var numbers []float64
	var bodies []byte
	for _, t := range r.trials {
		from := len(bodies)
		var err error
		if bodies, err = t.policy.AppendSnapshot(bodies); err != nil {
			return b, err
		}
		numbers = append(numbers, float64(t.born), max(t.like, -math.MaxFloat64), t.seen, t.square,
			float64(len(bodies)-from))
	}
	return append(appendSnapshot(b, restarts, [][]float64{head, numbers}), bodies...), nil
}

// How many numbers a snapshot has in its head, there with a half_life by time, and of a copy.
const (
	restartHead    = 5
	restartTimes   = 3
	restartNumbers = 5
)

// headLen returns how many numbers the head of a snapshot has.
func (r *Restarts) headLen() int {
	if r.Timed() {
		return restartHead + restartTimes
	}
	return restartHead
}

// Restore implements bandit.Snapshotter.
func (r *Restarts) Restore(b []byte) error {
	if len(b) < 64 {
		return fmt.Errorf("policy: restarts: a snapshot of %d bytes is cut short", len(b))
	}
	var v [][]float64
	var rest []byte
	var err error
	head := r.headLen()
	for n := 1; n <= restartTrials; n++ { // how many copies there are decides the length of what they begin with
		own := len(appendSnapshot(nil, restarts, [][]float64{make([]float64, head), make([]float64, restartNumbers*n)}))
		if own > len(b) {
			break
		}
		if v, err = readSnapshot(b[:own], restarts, []int{head, restartNumbers * n}); err == nil {
			rest = b[own:]
			break
		}
	}
	if v == nil || err != nil {
		if err == nil {
			err = fmt.Errorf("policy: restarts: a snapshot of %d bytes is cut short", len(b))
		}
		return err
	}
	return r.put(v[0], v[1], rest)
}

// place returns spare place i, made where there are fewer.
func (r *Restarts) place(i int) (*trial, error) {
	if i == len(r.spare) {
		t, err := r.build()
		if err != nil {
			return nil, err
		}
		r.spare = append(r.spare, t)
	}
	return r.spare[i], nil
}

// put makes the state that of a snapshot.
func (r *Restarts) put(head, numbers []float64, rest []byte) error {
	bad := fmt.Errorf("policy: snapshot holds no state of %s with restarts", r.kind)
	for _, x := range head {
		if !(x >= 0 && x <= 1<<53) {
			return bad
		}
	}
	var at restartTime
	if r.Timed() {
		at = restartTime{now: head[5], back: head[6], faded: head[7]}
	}
	if head[4] > 1 || at.back != math.Trunc(at.back) || at.faded > at.now || r.Timed() && at.now-at.faded >= r.fade.lag() {
		return bad
	}
	var list []*trial
	for len(numbers) > 0 {
		born, like, seen, square, size := numbers[0], numbers[1], numbers[2], numbers[3], numbers[4]
		numbers = numbers[restartNumbers:]
		if !(born >= 0 && born <= head[0] && seen >= 0 && square >= 0 && size >= 0 && size <= float64(len(rest))) ||
			born != math.Trunc(born) || like-like != 0 || size != math.Trunc(size) {
			return bad
		}
		t, err := r.place(len(list))
		if err != nil {
			return err
		}
		if err := t.policy.Restore(rest[:int(size)]); err != nil {
			return err
		}
		rest = rest[int(size):]
		t.born, t.like, t.seen, t.square = uint64(born), like, seen, square
		list = append(list, t)
	}
	if len(rest) != 0 || len(list) == 0 || slices.ContainsFunc(head[:4], func(x float64) bool { return x != math.Trunc(x) }) {
		return bad
	}
	r.spare = append(r.trials, r.spare[len(list):]...)
	r.n, r.since, r.trials, r.ready = uint64(head[0]), uint64(head[1]), list, false
	r.last, r.time = Change{At: uint64(head[2]), Seen: uint64(head[3]), Posterior: head[4]}, at
	return nil
}

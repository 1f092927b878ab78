package policy

import (
	"math"
	"reflect"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// scores finds the best arm of a finite set for all models θ̂ ± r θ̃^j at once, for Prob and for select =
// "max". It needs the scores P[a, j] = ⟨x_a, θ̃^j⟩ of K arms and m members. Two ways lead to them:
//
//	fresh  θ̃ = V⁻¹S and P = X θ̃ as matrix products, 16 members at a time: 2m(d² + Kd) operations
//	step   while the set stays the same and its arms are played, P follows the recursion of V⁻¹,
//
//	           P_t[a, j] = P_{t−1}[a, j] + ⟨x_a, V_t⁻¹X_t⟩ (U_t^j − P_{t−1}[a_t, j]),
//
//	       K·m operations in one pass that finds the best arms too
//
// Neither sums in the order of the oracle, so a lead that is not larger than a bound of all rounding
// errors does not count: that model is formed and the oracle is asked. So the answer is that of
// asking the oracle 2m times. The bound of the recursion grows with every step; when it makes too
// many leads uncertain, P is computed afresh.
//
// Memory: K·m numbers for a set that is asked about twice, at most scoresSize; K·16 otherwise.
type scores struct {
	set    bandit.Finite
	arms   int
	x, xt  []float64 // K×d and d×K
	radius float64   // max ‖x‖

	p       []float64 // panels of 8 members: [⌈m/16⌉·2][K][8]; nil until the set is asked about twice
	valid   bool      // p holds the scores of some round, and steps leads from there to now
	rebuilt uint64    // of the ridge, when p was computed
	steps   []scoreStep
	slack   float64 // bound of the error of an entry of p, before steps
	longest float64 // bound of ‖S^j‖, likewise
	size    float64 // bound of ‖V⁻¹‖
	sized   int     // questions before it is computed again
	doubts  int     // models of which the oracle was asked the last time
	ever    int     // the same when p was computed afresh: equal arms
	asked   int     // and since then, beyond those
	table   table

	counts       []uint64
	base, w, u   []float64
	theta, group []float64
	leads        []linalg.Leads // leadPanels
	upper        []float64      // of 2m models, for select = "max"
	action       bandit.Action
}

// scoreStep is an update that p has not seen.
type scoreStep struct {
	gain   []float64 // V_t⁻¹X_t
	arm    int
	length float64 // ‖X_t‖
	draw   rng.Source
}

const (
	scoresSize  = 1 << 23 // largest p, in numbers: 64 MB
	scoresSteps = 16      // updates between two questions that p can follow
	scoresArms  = 1 << 20 // largest K
	leadPanels  = 16      // panels that are looked at together
)

// about prepares for a question about a set. It reports whether this is the set of the last one.
func (q *scores) about(set bandit.Finite, d int) (again bool) {
	if q.set != nil && reflect.TypeOf(set).Comparable() && reflect.TypeOf(q.set) == reflect.TypeOf(set) && q.set == set {
		return true
	}
	k := set.Len()
	if k != q.arms || len(q.x) != k*d {
		*q = scores{leads: make([]linalg.Leads, leadPanels), x: make([]float64, k*d), xt: make([]float64, k*d), counts: make([]uint64, k), base: make([]float64, k), w: make([]float64, k)}
	}
	q.set, q.arms, q.valid, q.steps = set, k, false, q.steps[:0]
	var most float64
	for a := range k {
		x := set.At(a)
		copy(q.x[a*d:], x)
		for i, v := range x {
			q.xt[i*k+a] = v
		}
		most = max(most, linalg.Dot(x, x))
	}
	q.radius = math.Sqrt(most) + math.Sqrt(float64(d))*0x1p-510 // squares below 2⁻¹⁰²² are rounded, to 0 at last
	return false
}

// combine stores Σ_i c_i x_{a,i} in dst for all arms a.
func (q *scores) combine(dst, c []float64) {
	clear(dst)
	var u [64]float64
	for first := 0; first < len(c); first += len(u) {
		n := min(len(u), len(c)-first)
		for k, v := range c[first : first+n] {
			u[k&3*16+k>>2] = v
		}
		linalg.AddSteps(dst, &u, 0, q.xt[first*q.arms:(first+n)*q.arms])
	}
}

// follow records an update, after it: p can follow it if the action is an arm of the set.
func (q *scores) follow(e *Ensemble, a bandit.Action, gain []float64, draw rng.Source) {
	d := len(gain)
	if a.Index < 0 || a.Index >= q.arms || len(q.steps) == scoresSteps || e.ridge.Rebuilt() != q.rebuilt {
		q.valid = false
		return
	}
	for i, v := range q.x[a.Index*d : a.Index*d+d] {
		if v != a.X[i] {
			q.valid = false
			return
		}
	}
	if q.steps == nil {
		q.steps = make([]scoreStep, 0, scoresSteps)
	}
	q.steps = q.steps[:len(q.steps)+1]
	s := &q.steps[len(q.steps)-1]
	s.gain = append(s.gain[:0], gain...)
	s.arm, s.length, s.draw = a.Index, linalg.Norm(a.X), draw
}

const (
	// epsilon is half of the distance of two float64 around 1.
	epsilon = 0x1p-53

	// faint is far above the distance of two subnormal numbers, 2⁻¹⁰⁷⁴, times any number of arms or
	// dimensions.
	faint = 0x1p-1000

	// hopeless is a bound of the error from which on the oracle is asked for every model. Below it all
	// values are below 1e100, of which the error is a part of 4·17·epsilon or more: the oracle does not
	// refuse such parameters.
	hopeless = 1e80
)

// visit calls f with the leads of every panel of eight members, the first of them member j, and with the
// largest error that a lead can have.
func (q *scores) visit(e *Ensemble, c float64, again bool, f func(j int, l *linalg.Leads, slack float64) error) error {
	d, k := e.ridge.Dim(), q.arms
	// The Frobenius norm is at least ‖V⁻¹‖; V⁻¹ only shrinks, so an old one is a bound.
	size := q.size
	if q.sized--; q.sized < 0 || e.ridge.Rebuilt() != q.rebuilt {
		size, q.sized = linalg.Norm(e.ridge.PaddedInv()), 32
	}
	hat := linalg.Norm(e.ridge.Theta())
	q.combine(q.base, e.ridge.Theta())
	dim := float64(d + 16)

	// An entry of P that is off by slack moves a value by |c|·slack; forming the value, the model and
	// its product with x rounds sums of at most d + 4 terms below R(‖θ̂‖ + |c|‖θ̃‖), here and there.
	// A lead holds its arm in its low bits, and those of 0 are not small beside it: faint bounds what they
	// make of numbers so small that an error is no longer a part of them.
	rough := 4*dim*epsilon + linalg.Resolution(k)
	bound := func(slack, longest float64) float64 {
		return 1.01*(math.Abs(c)*slack+rough*q.radius*(hat+math.Abs(c)*size*longest)) + faint
	}
	panels := (e.m + 7) / 8
	if q.valid && e.ridge.Rebuilt() == q.rebuilt && q.asked <= e.m/3 {
		q.valid = false // until the last panel is done
		for n := range q.steps {
			q.step(e, n)
		}
		steps := q.steps
		q.steps, q.doubts = q.steps[:0], 0
		slack := bound(q.slack, q.longest)
		for first := 0; first < panels; first += leadPanels {
			leads := q.leads[:min(leadPanels, panels-first)]
			p := q.p[first*8*k : (first+len(leads))*8*k]
			if n := len(steps); n == 0 {
				linalg.FindLeads(leads, p, q.base, c)
			} else { // the last step: w and u are its
				linalg.StepLeads(leads, p, q.w, q.u[first*8:], steps[n-1].arm, q.base, c)
			}
			for i := range leads {
				if err := f((first+i)*8, &leads[i], slack); err != nil {
					return err
				}
			}
		}
		q.valid, q.size = true, size
		q.asked += max(0, q.doubts-q.ever)
		return nil
	}

	e.s.settle()
	inv := e.ridge.PaddedInv()
	keep := again && (e.m+15)/16*16*k <= scoresSize
	if keep && q.p == nil {
		q.p = make([]float64, (e.m+15)/16*16*k)
	}
	q.valid, q.steps, q.doubts = false, q.steps[:0], 0
	if q.group == nil {
		q.theta, q.u = make([]float64, rng.Lanes*linalg.Padded(d)), make([]float64, max(rng.Lanes*d, (e.m+15)/16*16))
		q.group = make([]float64, rng.Lanes*k)
	}
	all, slackest := 0.0, 0.0
	for g := 0; g*rng.Lanes < e.m; g++ {
		p := q.group
		if keep {
			p = q.p[g*rng.Lanes*k : (g+1)*rng.Lanes*k]
		}
		longest := q.products(e.s.panels(q.theta, g), inv, p, d)
		all = max(all, longest)
		// θ̃ is off by 2d roundings of sums below ‖V⁻¹‖‖S‖ against the solve of one member, a score
		// by d more.
		slack := 4 * dim * epsilon * q.radius * size * longest
		slackest = max(slackest, slack)
		for h := 0; h < 2 && g*2+h < panels; h++ {
			linalg.FindLeads(q.leads[:1], p[h*8*k:(h+1)*8*k], q.base, c)
			if err := f(g*rng.Lanes+h*8, &q.leads[0], bound(slack, longest)); err != nil {
				return err
			}
		}
	}
	q.valid, q.slack, q.longest, q.size, q.rebuilt, q.ever, q.asked = keep, slackest, all, size, e.ridge.Rebuilt(), q.doubts, 0
	return nil
}

// products stores the scores of 16 members in p, two panels, and returns the largest ‖S^j‖. s is their
// sums, two panels.
func (q *scores) products(s, inv, p []float64, d int) (longest float64) {
	var squares [rng.Lanes]float64
	ld := linalg.Padded(d)
	u := q.u[:rng.Lanes*d]
	// rows stores panels of n features as rows of 16 members.
	rows := func(panels []float64, n int) {
		for i := range d {
			copy(u[i*rng.Lanes:], panels[i*8:i*8+8])
			copy(u[i*rng.Lanes+8:], panels[(n+i)*8:(n+i)*8+8])
		}
	}
	rows(s, d)
	for i := 0; i < len(u); i += rng.Lanes {
		for l, v := range u[i : i+rng.Lanes] {
			squares[l] += v * v
		}
	}
	for _, v := range squares {
		longest = max(longest, v)
	}
	clear(q.theta)
	linalg.AddTile(q.theta, u, inv, ld)
	rows(q.theta, ld)
	clear(p)
	linalg.AddTile(p, u, q.xt, q.arms)
	return math.Sqrt(longest) * (1 + 0x1p-40)
}

// step prepares step n: w and u, and the bounds after it. All steps but the last are made, too; the last
// one is left to Leads.Step.
func (q *scores) step(e *Ensemble, n int) {
	s := &q.steps[n]
	k := q.arms
	if e.s.joint != nil {
		e.s.joint(q.u[:e.m], s.draw)
	} else {
		copy(q.u, q.table.at(s.draw, e.m, e.law.law))
	}
	q.combine(q.w, s.gain)
	var most float64
	for _, v := range q.w {
		most = max(most, math.Abs(v))
	}
	// In exact arithmetic the recursion of P follows the computed recursions of V⁻¹ and S. Against it, k,
	// w and h are off by d roundings relative to R‖V⁻¹‖, R²‖V⁻¹‖ and R‖V⁻¹‖‖S‖, V⁻¹ and S by a few of
	// their own; what P was off by before moves with it. 32 is generous.
	r, dim := q.radius, float64(e.ridge.Dim()+16)
	target := 1.0 // no |U| is larger
	switch {
	case e.s.joint != nil:
		target = max(7, 2*math.Sqrt(float64(e.m)))
	case e.law.law == rng.NormalLaw:
		target = 7
	}
	own := 1 + q.size*r*r
	q.slack = q.slack*(1+most)*(1+4*epsilon) + 32*dim*epsilon*own*own*(target+r*q.size*q.longest)
	q.longest += target * s.length
	if n == len(q.steps)-1 {
		return
	}
	var h [8]float64
	for p := 0; p < (e.m+7)/8; p++ {
		panel := q.p[p*8*k : (p+1)*8*k]
		for i := range h {
			h[i] = q.u[p*8+i] - panel[8*s.arm+i]
		}
		linalg.AddPanels(panel, h[:], q.w)
	}
}

// signs returns how many signs a model has.
func (e *Ensemble) signs() int {
	if e.opts.Symmetric {
		return 2
	}
	return 1
}

// probFinite is Prob over a finite set.
func (e *Ensemble) probFinite(dst *bandit.Law, set bandit.Finite) error {
	q := &e.scores
	again := q.about(set, e.ridge.Dim())
	c := e.Scale()
	zeros(dst, q.arms)
	clear(q.counts)
	err := q.visit(e, c, again, func(j int, l *linalg.Leads, slack float64) error {
		gap := 2 * slack
		if !(slack < hopeless) {
			gap = math.Inf(1) // ask
		}
		n := min(8, e.m-j)
		for k := range e.signs() {
			first, second := &l.First[k], &l.Second[k]
			for i := range n {
				if first[i]-second[i] > gap {
					q.counts[l.Arm(first[i])]++
					continue
				}
				q.doubts++
				e.model(j+i, c*float64(1-2*k))
				if _, err := set.ArgMax(&q.action, e.theta); err != nil {
					return err
				}
				q.counts[q.action.Index]++
			}
		}
		return nil
	})
	for i, n := range q.counts {
		dst.Atoms[i].Count = n
	}
	share(dst, uint64(e.Models()))
	return err
}

// maxFinite is maximise over a finite set: models whose best value could be the largest are asked.
func (e *Ensemble) maxFinite(dst *bandit.Action, set bandit.Finite) error {
	q := &e.scores
	again := q.about(set, e.ridge.Dim())
	c := e.Scale()
	if len(q.upper) != 2*e.m {
		q.upper = make([]float64, 2*e.m)
	}
	lower := math.Inf(-1) // some model reaches it
	err := q.visit(e, c, again, func(j int, l *linalg.Leads, slack float64) error {
		for i := range min(8, e.m-j) {
			for k := range e.signs() {
				if !(slack < hopeless) {
					q.upper[2*(j+i)+k] = math.Inf(1) // ask
					continue
				}
				first := l.First[k][i]
				lower = max(lower, first-slack)
				q.upper[2*(j+i)+k] = first + slack
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	top := math.Inf(-1)
	for j := range e.m {
		for k := range e.signs() {
			if q.upper[2*j+k] < lower {
				continue
			}
			q.doubts++
			e.model(j, c*float64(1-2*k))
			v, err := set.ArgMax(&e.challenging, e.theta)
			if err != nil {
				return err
			}
			if v > top {
				top = v
				e.best, e.challenging = e.challenging, e.best
			}
		}
	}
	dst.Set(e.best.X, e.best.Index)
	return nil
}

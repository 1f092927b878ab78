package policy

import (
	"math"
	"math/bits"
	"reflect"
	"slices"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// shortlist finds the best arm of a finite set for all models θ̂ ± r θ̃^j at once, for Prob and for select =
// "max". It needs the scores P[a, j] = ⟨x_a, θ̃^j⟩ of K arms and m members. Two ways lead to them:
//
//	fresh  P = X θ̃ as a matrix product, 16 members at a time: 2mKd operations, and those for θ̃ (solved)
//	step   while the set stays the same and its arms are played, P follows the recursion of V⁻¹,
//
//	           P_t[a, j] = P_{t−1}[a, j] + ⟨x_a, V_t⁻¹X_t⟩ (U_t^j − P_{t−1}[a_t, j]),
//
//	       K·m operations, and the best arms are looked for among those that can be it: linalg.Shortlist
//
// Neither sums in the order of the oracle, so a lead that is not larger than a bound of all rounding
// errors does not count: that model is formed and the oracle is asked. So the answer is that of
// asking the oracle 2m times. The bound of the recursion grows with every step; when it makes too
// many leads uncertain, P is computed afresh.
//
// Memory: up to 1.7·K·m numbers for a set that is asked about twice, if K·m is at most scoresSize, and one of 96 arms
// and 16 members otherwise; K·d for the arms, and m·d for θ̃.
type shortlist struct {
	e    *Ensemble
	kept *accumulated

	set    bandit.Finite
	arms   int
	parts  []float64 // the arms in parts of scoresPart, one after the other: [d][scoresPart]
	xt     []float64 // d×K, for a set that is asked about twice
	price  []float64 // of the arms, what is taken off their scores; empty for a set without prices
	priced float64   // the largest of them, as a number without its sign
	radius float64   // a bound of max ‖x‖
	solved solved    // θ̃

	list    *linalg.Shortlist // P; nil until the set is asked about twice
	valid   bool              // it holds the scores of some round, and steps leads from there to now
	rebuilt uint64            // of the ridge, when P was computed
	steps   []scoreStep
	errors  []float64 // bounds of the errors of the scores of an arm, before steps
	slack   float64   // a bound of them all
	longest float64   // bound of ‖S^j‖, likewise
	size    float64   // bound of ‖V⁻¹‖
	sized   int       // questions before it is computed again
	doubts  int       // models of which the oracle was asked the last time
	ever    int       // the same when p was computed afresh: equal arms
	asked   int       // and since then, beyond those

	counts      *linalg.Counts
	unsure      [2 * linalg.LeadPanels]uint8
	base, w, u  []float64
	rows, group []float64 // θ̃ of 16 members as d rows, and scores of a part of the arms
	theta, sums []float64
	padded      []float64      // scratch of solve
	leads       []linalg.Leads // of 16 members
	upper       []float64      // of 2m models, for select = "max"
	action      bandit.Action
}

// scoreStep is an update that p has not seen.
type scoreStep struct {
	gain   []float64 // V_t⁻¹X_t
	arm    int
	length float64 // ‖X_t‖
	draw   rng.Source
}

const (
	scoresSize  = 1 << 23 // largest P, in numbers: 64 MB, and up to 44 for what belongs to it
	scoresSteps = 16      // updates between two questions that p can follow
	scoresArms  = 1 << 20 // largest K
	scoresPart  = 96      // arms of a part: what linalg.AddSteps keeps in registers
)

// about prepares for a question about a set. It reports whether this is the set of the last one.
func (q *shortlist) about(set bandit.Finite, d, m int) (again bool) {
	if q.set != nil && reflect.TypeOf(set).Comparable() && reflect.TypeOf(q.set) == reflect.TypeOf(set) &&
		q.set == set {
		return true
	}
	k := set.Len()
	if k != q.arms {
		if q.counts == nil {
			q.counts = linalg.NewCounts(k, m)
			q.leads = make([]linalg.Leads, 2)
		} else {
			q.counts.Reset(k)
		}
		q.parts, q.base, q.w = slices.Grow(q.parts[:0], k*d)[:k*d], slices.Grow(q.base[:0], k)[:k],
			slices.Grow(q.w[:0], k)[:k]
		q.list, q.errors = nil, nil
	}
	q.set, q.arms, q.valid, q.steps, q.xt = set, k, false, q.steps[:0], nil
	flat, _ := set.(interface{ Flat() []float64 })
	var most float64
	for first := 0; first < k; first += scoresPart {
		part, width := q.parts[first*d:], min(scoresPart, k-first)
		if flat != nil {
			rows := flat.Flat()[first*d : (first+width)*d]
			most = max(most, linalg.MaxAbs(rows))
			columns(part, rows, width, d)
			continue
		}
		for a := range width {
			x := set.At(first + a)
			most = max(most, linalg.MaxAbs(x))
			for i, v := range x {
				part[i*width+a] = v
			}
		}
	}
	q.radius = most*math.Sqrt(float64(d))*(1+0x1p-40) + 0x1p-510
	q.price, q.priced = q.price[:0], 0
	if p, ok := set.(bandit.Priced); ok {
		for a := range k {
			q.price = append(q.price, p.Price(a))
		}
		q.priced = linalg.MaxAbs(q.price)
	}
	return false
}

// estimates makes base: the scores of θ̂, less the prices.
func (q *shortlist) estimates() {
	q.combine(q.base, q.e.ridge.Theta(), nil, nil)
	q.charge()
}

// charge takes the prices off base.
func (q *shortlist) charge() {
	for a, p := range q.price {
		q.base[a] -= p
	}
}

// columns stores the transpose of n rows of d numbers.
func columns(dst, rows []float64, n, d int) {
	for i := range d {
		column, x := dst[i*n:i*n+n], rows[i:]
		a := 0
		for ; a+4 <= len(column) && len(x) > 3*d; a, x = a+4, x[min(4*d, len(x)):] {
			column[a], column[a+1], column[a+2], column[a+3] = x[0], x[d], x[2*d], x[3*d]
		}
		for ; a < len(column); a, x = a+1, x[min(d, len(x)):] {
			column[a] = x[0]
		}
	}
}

// again prepares for a set that is asked about twice, with the same arms.
func (q *shortlist) again(d int) {
	var most float64
	for a := range q.arms {
		x := q.set.At(a)
		most = max(most, linalg.Dot(x, x))
	}
	q.radius = math.Sqrt(most) + math.Sqrt(float64(d))*0x1p-510 // squares below 2⁻¹⁰²² are rounded, to 0 at last
	if q.arms <= scoresPart {
		q.xt = q.parts
		return
	}
	q.xt = make([]float64, q.arms*d)
	for a := range q.arms {
		for i, v := range q.set.At(a) {
			q.xt[i*q.arms+a] = v
		}
	}
}

// combine stores Σ_i c_i x_{a,i} in dst for all arms a, and the same with the numbers of also in second, which costs
// half as much as doing it alone, or nothing where second is nil.
func (q *shortlist) combine(dst, c, second, also []float64) {
	clear(dst)
	clear(second)
	const features = 32 // of a part they leave room in the first cache
	var u, v [64]float64
	for first := 0; first < len(c); first += features {
		n := min(features, len(c)-first)
		for k := range n {
			u[k&3*16+k>>2] = c[first+k]
			if second != nil {
				v[k&3*16+k>>2] = also[first+k]
			}
		}
		for a := 0; a < q.arms; a += scoresPart {
			to := min(a+scoresPart, q.arms)
			x := q.parts[a*len(c)+first*(to-a):][:n*(to-a)]
			linalg.AddSteps(dst[a:to], &u, 0, x)
			if second != nil {
				linalg.AddSteps(second[a:to], &v, 0, x)
			}
		}
	}
}

// follow records an update, after it: P can follow it if the action is an arm of the set.
func (q *shortlist) follow(a bandit.Action, gain []float64, draw rng.Source) {
	e := q.e
	if a.Index < 0 || a.Index >= q.arms || len(q.steps) == scoresSteps || e.ridge.Rebuilt() != q.rebuilt {
		q.valid = false
		return
	}
	for i, v := range q.set.At(a.Index) {
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

// visit calls f with the leads of panels of eight members, the first of them member j, and with the
// largest error that a lead can have. Past the last member a lead belongs to no member.
func (q *shortlist) visit(c float64, again bool, f func(j int, l []linalg.Leads, slack float64) error) error {
	e := q.e
	d, k, m := e.ridge.Dim(), q.arms, q.kept.m
	// The Frobenius norm is at least ‖V⁻¹‖; V⁻¹ only shrinks, so an old one is a bound.
	size := q.size
	if q.sized--; q.sized < 0 || e.ridge.Rebuilt() != q.rebuilt {
		size, q.sized = e.ridge.NormInv(), 32
	}
	hat := linalg.Norm(e.ridge.Theta())
	dim := float64(d + 16)

	// An entry of P that is off by slack moves a value by |c|·slack; forming the value, the model and
	// its product with x rounds sums of at most d + 4 terms below R(‖θ̂‖ + |c|‖θ̃‖), here and there.
	// A lead holds its arm in its low bits, and those of 0 are not small beside it: faint bounds what they
	// make of numbers so small that an error is no longer a part of them. A price is one more term of a value.
	rough := 4*dim*epsilon + linalg.Resolution(k)
	bound := func(slack, longest float64) float64 {
		return 1.01*(math.Abs(c)*slack+rough*(q.radius*(hat+math.Abs(c)*size*longest)+q.priced)) + faint
	}
	if q.valid && e.ridge.Rebuilt() == q.rebuilt && q.asked <= m/3 {
		q.valid = false // until the last panel is done
		if len(q.steps) == 0 {
			q.estimates()
		}
		for n := range q.steps {
			q.step(n)
		}
		q.steps, q.doubts = q.steps[:0], 0
		if err := q.look(c, bound(q.slack, q.longest), size, f); err != nil {
			return err
		}
		q.valid, q.size = true, size
		q.asked += max(0, q.doubts-q.ever)
		return nil
	}

	groups := (m + rng.Lanes - 1) / rng.Lanes
	keep := again && groups*rng.Lanes*k <= scoresSize
	if keep && q.list == nil {
		q.list = linalg.NewShortlist(k, m, e.signs())
	}
	if keep && q.xt == nil {
		q.again(d)
	}
	q.estimates()
	q.valid, q.steps, q.doubts = false, q.steps[:0], 0
	if q.group == nil {
		q.rows, q.u = make([]float64, rng.Lanes*d), make([]float64, groups*rng.Lanes)
		q.group = make([]float64, rng.Lanes*scoresPart)
	}
	members := q.every(keep)
	all, slackest := 0.0, 0.0
	for g := range groups {
		longest, off := members(g)
		all = max(all, longest)
		// A score is off by d roundings of sums below R‖θ̃‖ more than θ̃, here and in the oracle.
		slack := q.radius * (off + 2*dim*epsilon*(size*longest+off))
		slackest = max(slackest, slack)
		if keep {
			p := q.list.Scores(g)
			clear(p)
			linalg.AddTile(p, q.rows, q.xt, k)
			continue
		}
		leads := q.leads[:min(2, (m+7)/8-2*g)]
		q.lead(leads, c)
		if err := f(g*rng.Lanes, leads, bound(slack, longest)); err != nil {
			return err
		}
	}
	if o := &q.solved; o.taken > 0 && q.doubts > m/8 {
		o.valid = false
	}
	q.slack, q.longest, q.size, q.rebuilt = slackest, all, size, e.ridge.Rebuilt()
	if !keep {
		return nil
	}
	if q.errors == nil {
		q.errors = make([]float64, k)
	}
	for a := range q.errors {
		q.errors[a] = slackest
	}
	q.list.Restart()
	if err := q.look(c, bound(slackest, all), size, f); err != nil {
		return err
	}
	q.valid, q.ever, q.asked = true, q.doubts, 0
	return nil
}

// look is visit from the scores of the shortlist. An arm that it leaves out is behind the lead by more than
// 3·slack: where leads are told apart by 2·slack it could be neither the first nor the second. A tenth of that is more
// than the roundings of a few values, each a part of epsilon of the numbers of which slack takes 68·epsilon.
func (q *shortlist) look(c, slack, size float64, f func(j int, l []linalg.Leads, slack float64) error) error {
	most := 1.01 * (q.radius*size*q.longest + q.slack) // a bound of all scores
	return q.list.Look(q.base, c, 3*slack, most, func(first int, l []linalg.Leads) error {
		return f(8*first, l, slack)
	})
}

// every returns a function that stores θ̃ of 16 members in rows, and says how long their sums are and how far it may be
// off, at most. Where θ̃ of all members fits it is kept for the next set.
func (q *shortlist) every(keep bool) func(g int) (longest, off float64) {
	d := q.e.ridge.Dim()
	if o := &q.solved; !keep && q.kept.m*d <= solvedSize {
		o.ready(q.kept)
		return func(g int) (longest, off float64) {
			toRows(q.rows, o.panels[g*rng.Lanes*d:], d, d)
			return o.longest, o.off
		}
	}
	q.solved = solved{}
	q.kept.Settle()
	if q.theta == nil {
		q.theta, q.sums = make([]float64, rng.Lanes*d), make([]float64, rng.Lanes*d)
		q.padded = make([]float64, rng.Lanes*linalg.Padded(d))
	}
	size := q.e.ridge.NormInv()
	return func(g int) (longest, off float64) {
		longest = solve(q.theta, q.rows, q.padded, q.kept.Panels(q.sums, g), q.e.ridge)
		toRows(q.rows, q.theta, d, d)
		return longest, 2 * float64(d+16) * epsilon * size * longest
	}
}

// lead sets the leads of 16 members, whose θ̃ is in rows, from the scores of one part of the arms after the other.
func (q *shortlist) lead(leads []linalg.Leads, c float64) {
	d := len(q.rows) / rng.Lanes
	for a := 0; a < q.arms; a += scoresPart {
		width := min(scoresPart, q.arms-a)
		p := q.group[:rng.Lanes*width]
		clear(p)
		linalg.AddTile(p, q.rows, q.parts[a*d:(a+width)*d], width)
		if width == q.arms {
			linalg.FindLeads(leads, p[:len(leads)*8*width], q.base, c)
			return
		}
		var some [2]linalg.Leads
		linalg.FindLeads(some[:len(leads)], p[:len(leads)*8*width], q.base[a:a+width], c)
		for i := range leads {
			leads[i].Merge(&some[i], a, q.arms)
		}
	}
}

// step makes step n, and the bounds after it. With the last step it makes base.
func (q *shortlist) step(n int) {
	s, e := &q.steps[n], q.e
	q.kept.Targets(q.u, s.draw)
	if n < len(q.steps)-1 {
		q.combine(q.w, s.gain, nil, nil)
	} else { // and the values of θ̂
		q.combine(q.w, s.gain, q.base, e.ridge.Theta())
		q.charge()
	}
	// In exact arithmetic the recursion of P follows the computed recursions of V⁻¹ and S. Against it, k, w and h are
	// off by d roundings relative to R‖V⁻¹‖, R²‖V⁻¹‖ and R‖V⁻¹‖‖S‖, V⁻¹ and S by a few of their own. 32 is generous.
	// What P was off by before moves with it: by e_a of an arm, then by e_a − w_a e_b, b the arm that was played, and
	// (1 − w_b) e_b of that one, which gets better. The thousandth covers the roundings of 2⁴⁰ of these sums.
	r, dim := q.radius, float64(e.ridge.Dim()+16)
	target := q.kept.LargestTarget()
	own := 1 + q.size*r*r
	local := 32 * dim * epsilon * own * own * (target + r*q.size*q.longest)
	played := q.errors[s.arm]
	linalg.AddAbs(q.errors, q.w, played*(1+4*epsilon), local)
	q.errors[s.arm] = math.Abs(1-q.w[s.arm])*played*(1+4*epsilon) + local
	q.slack = 1.001 * linalg.MaxAbs(q.errors)
	q.longest += target * s.length
	q.list.Step(q.w, q.u, s.arm)
}

// takes reports whether the shortlist answers questions about a set, which it then returns as what it is.
func (q *shortlist) takes(set bandit.ActionSet) (f bandit.Finite, ok bool) {
	if q == nil {
		return nil, false
	}
	f, ok = set.(bandit.Finite)
	return f, ok && f.Len() <= scoresArms
}

// forget drops all scores, after S has changed otherwise than by updates.
func (q *shortlist) forget() { *q = shortlist{e: q.e, kept: q.kept} }

// update records an update of the ensemble, after it.
func (q *shortlist) update(a bandit.Action, gain []float64, draw rng.Source) {
	if q.valid {
		q.follow(a, gain, draw)
	}
	if q.solved.valid {
		q.solved.follow(a.X, gain, draw)
	}
}

// count is Prob over a finite set.
func (q *shortlist) count(dst *bandit.Law, set bandit.Finite) error {
	e, m := q.e, q.kept.m
	again := q.about(set, e.ridge.Dim(), m)
	c := e.Scale()
	q.counts.Begin()
	err := q.visit(c, again, func(j int, leads []linalg.Leads, slack float64) error {
		gap := 2 * slack
		if !(slack < hopeless) {
			gap = math.Inf(1) // ask
		}
		if !q.counts.Set(j/8, leads, m-j, e.signs(), gap, &q.unsure) {
			return nil
		}
		for p := range leads {
			for k := range e.signs() {
				for not := q.unsure[2*p+k]; not != 0; not &= not - 1 {
					q.doubts++
					e.model(j+8*p+bits.TrailingZeros8(not), c*float64(1-2*k))
					if _, err := set.ArgMax(&q.action, e.theta); err != nil {
						return err
					}
					q.counts.Add(q.action.Index)
				}
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if cap(dst.Atoms) < q.arms {
		dst.Atoms = make([]bandit.Atom, q.arms)
	}
	dst.Atoms, dst.Total = dst.Atoms[:q.arms], uint64(e.Models())
	for i := range dst.Atoms {
		a, n := &dst.Atoms[i], q.counts.Of(i)
		a.X, a.Index, a.Count, a.P = a.X[:0], i, n, 0
		if n > 0 {
			a.P = float64(n) / float64(dst.Total)
		}
	}
	return nil
}

// maximise is Ensemble.maximise over a finite set: models whose best value could be the largest are formed.
func (q *shortlist) maximise(dst *bandit.Action, set bandit.Finite) error {
	e, m := q.e, q.kept.m
	again := q.about(set, e.ridge.Dim(), m)
	c := e.Scale()
	if len(q.upper) != 2*m {
		q.upper = make([]float64, 2*m)
	}
	lower := math.Inf(-1) // some model reaches it
	err := q.visit(c, again, func(j int, leads []linalg.Leads, slack float64) error {
		for p := range leads {
			l, j := &leads[p], j+8*p
			for i := range min(8, m-j) {
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
		}
		return nil
	})
	if err != nil {
		return err
	}
	top := math.Inf(-1)
	for j := range m {
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

package policy

import (
	"math"

	"troupe/internal/linalg"
	"troupe/rng"
)

// solved keeps θ̃^j = V⁻¹S^j of all members from one question about all of them to the next, so that a question about
// a set that was never seen costs 2Kd operations a member, not 2d² more. Two ways lead to θ̃:
//
//	fresh  V⁻¹S as a matrix product, 2md² operations
//	step   θ̃_t^j = θ̃_{t−1}^j + V_t⁻¹X_t (U_t^j − ⟨X_t, θ̃_{t−1}^j⟩), 4md operations for an update
//
// The second does not round as the first does: off bounds ‖error of θ̃^j‖ for all j, against the solve of one member.
// In exact arithmetic the recursion follows V⁻¹ and S as they were computed. Against it the product and the gain are
// off by d roundings relative to R‖V⁻¹‖‖S‖ and R‖V⁻¹‖, V⁻¹ and S by a few of their own; 32 is generous. What θ̃ was off
// by before moves with I − V_t⁻¹X_tX_tᵀ. Memory: m·d numbers.
type solved struct {
	panels  []float64 // θ̃, in pairs of panels (linalg.Members)
	valid   bool      // it is θ̃ of some round, and steps lead from there to now
	rebuilt uint64    // of the ridge, when it was computed
	steps   []solvedStep
	taken   int     // steps since it was computed
	size    float64 // bound of ‖V⁻¹‖
	longest float64 // bound of ‖S^j‖
	off     float64
	scratch []float64
	targets []float64
}

// solvedStep is an update that θ̃ has not seen.
type solvedStep struct {
	gain, x []float64 // V_t⁻¹X_t and X_t
	draw    rng.Source
}

const (
	solvedSize  = 1 << 23 // largest θ̃, in numbers: 64 MB
	solvedSteps = 8       // updates between two questions that θ̃ can follow
	solvedMost  = 64      // steps after which it is computed afresh
	solvedWorse = 1 << 24 // growth of off after which it is
)

// follow records an update, after it.
func (o *solved) follow(x, gain []float64, draw rng.Source) {
	if len(o.steps) == solvedSteps {
		o.valid = false
		return
	}
	if o.steps == nil {
		o.steps = make([]solvedStep, 0, solvedSteps)
	}
	o.steps = o.steps[:len(o.steps)+1]
	s := &o.steps[len(o.steps)-1]
	s.x, s.gain, s.draw = append(s.x[:0], x...), append(s.gain[:0], gain...), draw
}

// ready brings θ̃ up to now.
func (o *solved) ready(kept *accumulated) {
	ridge := kept.ridge
	if !o.valid || o.rebuilt != ridge.Rebuilt() || o.taken+len(o.steps) > solvedMost ||
		o.off > solvedWorse*o.fresh(ridge.Dim()) {
		o.compute(kept)
		return
	}
	o.valid = false // until the last step is taken
	for i := range o.steps {
		o.step(&o.steps[i], kept)
	}
	o.steps, o.valid = o.steps[:0], true
}

// compute makes θ̃ of S and V⁻¹.
func (o *solved) compute(kept *accumulated) {
	d := kept.ridge.Dim()
	groups := (kept.m + rng.Lanes - 1) / rng.Lanes
	if n := groups * rng.Lanes * d; len(o.panels) != n {
		o.panels, o.scratch, o.targets = make([]float64, n), make([]float64, rng.Lanes*(d+linalg.Padded(d)+d)),
			make([]float64, groups*rng.Lanes)
	}
	kept.Settle()
	o.valid, o.rebuilt, o.steps, o.taken = true, kept.ridge.Rebuilt(), o.steps[:0], 0
	o.size, o.longest = kept.ridge.NormInv(), 0 // the Frobenius norm is at least ‖V⁻¹‖
	u, lie, padded := o.scratch[:rng.Lanes*d], o.scratch[rng.Lanes*d:2*rng.Lanes*d], o.scratch[2*rng.Lanes*d:]
	for g := range groups {
		longest := solve(o.panels[g*rng.Lanes*d:][:rng.Lanes*d], u, padded, kept.Panels(lie, g), kept.ridge)
		o.longest = max(o.longest, longest)
	}
	o.off = o.fresh(d)
}

// fresh is off of θ̃ that is computed afresh.
func (o *solved) fresh(d int) float64 { return 2 * float64(d+16) * epsilon * o.size * o.longest }

// solve stores V⁻¹ times the sums of 16 members in panels, as two panels of d features, and returns the largest ‖S^j‖.
// u and padded are scratch for 16d and 16·Padded(d) numbers.
func solve(panels, u, padded, sums []float64, ridge *linalg.Ridge) (longest float64) {
	d := ridge.Dim()
	var squares [rng.Lanes]float64
	toRows(u, sums, d, d)
	for i := 0; i < len(u); i += rng.Lanes {
		for l, v := range u[i : i+rng.Lanes] {
			squares[l] += v * v
		}
	}
	for _, v := range squares {
		longest = max(longest, v)
	}
	ridge.EachInv(func(from, n int, inv []float64, idle float64) {
		even, odd := panels[8*from:8*(from+n)], panels[8*(d+from):8*(d+from+n)]
		if inv == nil {
			for i, v := range sums[8*from : 8*(from+n)] {
				even[i] = idle * v
			}
			for i, v := range sums[8*(d+from) : 8*(d+from+n)] {
				odd[i] = idle * v
			}
			return
		}
		ld := linalg.Padded(n)
		both := padded[:rng.Lanes*ld]
		clear(both)
		linalg.AddTile(both, u[rng.Lanes*from:rng.Lanes*(from+n)], inv, ld)
		copy(even, both)
		copy(odd, both[8*ld:])
	})
	return math.Sqrt(longest) * (1 + 0x1p-40)
}

// toRows stores two panels of n features as rows of 16 members, the first d of them.
func toRows(u, panels []float64, n, d int) {
	even, odd := panels[:8*n], panels[8*n:16*n]
	for i := range d {
		row := (*[rng.Lanes]float64)(u[i*rng.Lanes:])
		*(*[8]float64)(row[:8]) = *(*[8]float64)(even[8*i:])
		*(*[8]float64)(row[8:]) = *(*[8]float64)(odd[8*i:])
	}
}

// step takes one step.
func (o *solved) step(s *solvedStep, kept *accumulated) {
	d := len(s.x)
	kept.Targets(o.targets, s.draw)
	clear(o.targets[kept.m:])
	const features = 64
	var u [features]float64
	for first := 0; first < d; first += features {
		n := min(features, d-first)
		for k := range n {
			u[k&3*16+k>>2] = -s.x[first+k]
		}
		for g := 0; g < len(o.targets); g += 8 {
			linalg.AddSteps(o.targets[g:g+8], &u, 0, o.panels[(g*d + 8*first):][:8*n])
		}
	}
	linalg.AddPanels(o.panels, o.targets, s.gain)
	r, target, dim := linalg.Norm(s.x), kept.LargestTarget(), float64(d+16)
	own := 1 + o.size*r*r
	o.off = o.off*(1+linalg.Norm(s.gain)*r)*(1+4*epsilon) + 32*dim*epsilon*own*own*o.size*(o.longest+r*target)
	o.longest += target * r
	o.taken++
}

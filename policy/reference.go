package policy

import (
	"fmt"
	"math"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// A reference law says how the members of an ensemble are combined into the model of a round,
//
//	θ_t = θ̂ + r V⁻¹S ζ_t/√m,  S = (S^1 … S^m),  E ζζᵀ = I,
//
// apart from how their targets are drawn:
//
//	coordinate  ζ = ±√m e_J: one signed member, as in alg:es      2m models, equally likely
//	pair        ζ = √(m/2)(±e_I ± e_J), I ≠ J                     2m(m−1)
//	signs       ζ uniform on {±1}^m                               2^m, counted for m ≤ 16
//	gaussian    ζ ~ N(0, I)                                       an integral
//	sphere      ζ uniform on √m·𝕊^{m−1}                           an integral
//
// (Ensemble++, arXiv 2407.13195, has all but the pair, and calls signs the cube.) With Gaussian
// targets and S_0, a Gaussian ζ gives the law N(θ̂, r² V⁻¹(SSᵀ/m)V⁻¹), which SSᵀ/m ≈ V makes nearly
// Thompson sampling. All but coordinate are symmetric by nature and need symmetric = true.
var referenceNames = []string{"coordinate", "pair", "signs", "gaussian", "sphere"}

// mostSigns is the largest m for which 2^m models are counted.
const mostSigns = 16

// reference is a resolved law for m members.
type reference struct {
	name string
	m    int
	size float64   // the model is θ̂ + r·size·V⁻¹Σ w_j S^j
	w    []float64 // weights of this round
}

// newReference returns a law for m members. It is nil for coordinate, which needs no weights.
func newReference(name string, m int) *reference {
	r := &reference{name: name, m: m, size: 1}
	switch name {
	case "coordinate":
		return nil
	case "pair":
		r.size = math.Sqrt(0.5)
	case "signs", "gaussian":
		r.size = 1 / math.Sqrt(float64(m))
	}
	r.w = make([]float64, m)
	return r
}

// draw fills the weights. pair takes the numbers 0 to 3 of the source, the others 0 to m − 1.
func (r *reference) draw(src rng.Source) {
	switch r.name {
	case "pair":
		i, j := src.Intn(0, r.m), src.Intn(2, r.m-1)
		if j >= i {
			j++
		}
		clear(r.w)
		r.w[i], r.w[j] = src.Sign(1), src.Sign(3)
	case "signs":
		for j := range r.w {
			r.w[j] = src.Sign(j)
		}
	case "gaussian":
		src.Normals(r.w, 0)
	case "sphere":
		src.Sphere(r.w, 0)
	}
}

// models returns the number of equally likely weights, or an error where they cannot be counted.
func (r *reference) models() (uint64, error) {
	switch {
	case r.name == "pair":
		return 2 * uint64(r.m) * uint64(r.m-1), nil
	case r.name == "signs" && r.m <= mostSigns:
		return 1 << r.m, nil
	case r.name == "signs":
		return 0, fmt.Errorf("policy: the law of combine = %q is counted for m ≤ %d, and m is %d: %w",
			r.name, mostSigns, r.m, bandit.ErrUnsupported)
	}
	return 0, fmt.Errorf("policy: the law of combine = %q is an integral; take %q, %q or %q where a propensity is "+
		"needed: %w",
		r.name, "coordinate", "pair", "signs", bandit.ErrUnsupported)
}

// half calls f for one of each two opposite weights, until f fails.
func (r *reference) half(f func() error) error {
	switch r.name {
	case "pair":
		for i := range r.m {
			for j := range i {
				for _, sign := range []float64{1, -1} {
					clear(r.w)
					r.w[i], r.w[j] = 1, sign
					if err := f(); err != nil {
						return err
					}
				}
			}
		}
	case "signs":
		for bits := range 1 << (r.m - 1) {
			for j := range r.w {
				r.w[j] = float64(1 - 2*(bits>>j&1))
			}
			if err := f(); err != nil {
				return err
			}
		}
	}
	return nil
}

// mix stores in e.member the combination V⁻¹Σ w_j S^j of the reference's weights.
func (e *Ensemble) mix() {
	clear(e.mixed)
	for j, w := range e.reference.w {
		if w != 0 {
			e.engine.load(e.sum, j)
			linalg.Axpy(w, e.sum, e.mixed)
		}
	}
	e.ridge.Solve(e.member, e.mixed)
}

// selectMixed is Select for a reference law other than coordinate.
func (e *Ensemble) selectMixed(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	e.reference.draw(draw)
	e.mix()
	e.shift(e.theta, e.reference.size*e.Scale())
	_, err := set.ArgMax(dst, e.theta)
	return err
}

// probMixed is Prob for a reference law other than coordinate. It forms each model as Select does,
// so that the count is exact: cost models·(m·d + d²) and an oracle call for each.
func (e *Ensemble) probMixed(dst *bandit.Law, set bandit.ActionSet) error {
	total, err := e.reference.models()
	if err != nil {
		return err
	}
	e.engine.settle()
	c := e.reference.size * e.Scale()
	return count(dst, set, total, func(add func(theta []float64) error) error {
		return e.reference.half(func() error {
			e.mix()
			for _, sign := range []float64{c, -c} {
				e.shift(e.theta, sign)
				if err := add(e.theta); err != nil {
					return err
				}
			}
			return nil
		})
	})
}

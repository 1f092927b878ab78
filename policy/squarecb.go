package policy

import (
	"errors"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/internal/logs"
	"troupe/rng"
	"troupe/spec"
)

// SquareCBOptions configures inverse gap weighting. The zero value is the default of a spec file.
type SquareCBOptions struct {
	// Gamma is the scale c of the learning rate γ_t = c·t^Exponent; 0 means 10, as in Vowpal Wabbit.
	Gamma float64 `key:"gamma" doc:"c of γ_t = c·t^exponent, the inverse of the exploration" default:"10"`
	// Exponent is the power of t in (0, 1]; 0 means ½, the rate of the theorem.
	Exponent float64 `key:"exponent" doc:"power of the number of rewards in γ_t, in (0, 1]" default:"0.5"`
	// Lambda is the ridge parameter λ > 0; 0 means 1.
	Lambda float64 `key:"lambda" doc:"ridge parameter λ" default:"1"`
}

// Doc implements spec.Documented.
func (*SquareCBOptions) Doc() string {
	return "SquareCB: inverse gap weighting around ridge regression (Foster & Rakhlin 2020); γ_t is that of Vowpal " +
		"Wabbit, not the theorem's, which needs the horizon and a bound on the regression; a set that cannot be listed is " +
		"replaced by its best actions for θ̂ and along each axis, 2d + 1 of them"
}

// New implements Options.
func (o *SquareCBOptions) New(p Problem) (bandit.Policy, error) { return NewSquareCB(*o, p) }

// SquareCB is inverse gap weighting (Abe & Long 1999; Foster & Rakhlin 2020, Algorithm 1) with ridge
// regression as its oracle. With predictions ŷ_a = ⟨x_a, θ̂_{t−1}⟩ of K arms and b the best of them,
//
//	p_a = 1/(K + γ_t(ŷ_b − ŷ_a)) for a ≠ b,  p_b = 1 − Σ_{a≠b} p_a,
//
// with γ_t = c·t^e, t the number of rewards learned, plus one (Vowpal Wabbit: --gamma_scale 10 --gamma_exponent 0.5).
// The theorem takes μ = K, as here, and γ of the order √(KT/Reg_Sq(T)). The law is exact: these
// numbers. Rewards are used as they come; γ is in units of one over a reward.
//
// On a set that cannot be listed the arms are the set's best actions for θ̂, e_i and −e_i, i = 1, …, d. On the unit
// ball the e_i are a barycentric spanner, over which Zhu, Foster, Langford and Mineiro (2022) weigh inverse gaps too,
// with other constants. Prob needs a list.
//
// Cost of a round: Select K·d + K log K, Update 3d²; where no list is there, 2d + 1 calls of the oracle and 2d³ more.
type SquareCB struct {
	regression
	gamma, exponent float64

	shown shown     // the arms of a set that cannot be listed
	axis  []float64 // scratch
	order []int     // arms, the most probable first
	p     []float64 // by arm
	sum   []float64 // scratch
}

// NewSquareCB returns the policy before round 1. The error names the option that is wrong.
func NewSquareCB(o SquareCBOptions, p Problem) (*SquareCB, error) {
	fill(&o.Gamma, 10)
	fill(&o.Exponent, 0.5)
	g, err := newRegression(p, o.Lambda, 0, Scale{}, Constant(1))
	if err != nil {
		return nil, err
	}
	if err := positive("gamma", o.Gamma); err != nil {
		return nil, err
	}
	if !(o.Exponent > 0 && o.Exponent <= 1) {
		return nil, spec.Refuse("exponent", o.Exponent, "expected a number in (0, 1]")
	}
	return &SquareCB{regression: g, gamma: o.Gamma, exponent: o.Exponent}, nil
}

// show lists the arms of a set that cannot be listed.
func (s *SquareCB) show(set bandit.ActionSet) error {
	d := s.ridge.Dim()
	s.shown.clear(d, 2*d+1)
	if _, err := s.shown.add(set, s.ridge.Theta()); err != nil {
		return err
	}
	if len(s.axis) != d {
		s.axis = make([]float64, d)
	}
	for i := range s.axis {
		for _, sign := range [2]float64{1, -1} {
			s.axis[i] = sign
			_, err := s.shown.add(set, s.axis)
			s.axis[i] = 0
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// weigh computes p and order for the arms of a set, which it returns.
func (s *SquareCB) weigh(set bandit.ActionSet) (bandit.Finite, error) {
	if err := checkSet(set, s.ridge.Dim()); err != nil {
		return nil, err
	}
	f, ok := set.(bandit.Finite)
	if !ok {
		if err := s.show(set); err != nil {
			return nil, err
		}
		f = &s.shown
	}
	k := f.Len()
	if n := max(k, 2*s.ridge.Dim()+1); cap(s.p) < k { // where the arms are shown their number changes
		s.p, s.sum, s.order = make([]float64, n), make([]float64, 0, n), make([]int, n)
	}
	s.p, s.order = s.p[:k], s.order[:k]
	best := 0
	for a := range k {
		s.order[a] = a
		s.p[a] = linalg.Dot(f.At(a), s.ridge.Theta())
		if s.p[a] > s.p[best] {
			best = a
		}
	}
	top, gamma := s.p[best], s.rate(float64(s.ridge.Len()+1))
	s.sum = s.sum[:0]
	for a := range k {
		s.p[a] = 1 / (float64(k) + float64(gamma*(top-s.p[a])))
		if a != best {
			s.sum = append(s.sum, s.p[a])
		}
	}
	slices.Sort(s.sum) // one order of the sum, however arms are listed
	rest := 0.0
	for _, p := range s.sum {
		rest += p
	}
	s.p[best] = max(0, 1-rest)
	slices.SortFunc(s.order, func(a, b int) int {
		switch {
		case s.p[a] > s.p[b]:
			return -1
		case s.p[a] < s.p[b]:
			return 1
		}
		return a - b
	})
	return f, nil
}

// rate returns γ_t = c·t^e, with the same bits on every machine.
func (s *SquareCB) rate(t float64) float64 {
	if s.exponent == 0.5 {
		return s.gamma * math.Sqrt(t)
	}
	return s.gamma * logs.Exp(s.exponent*logs.Log(t))
}

// Select implements bandit.Policy. It uses number 0 of the source: the arms share (0, 1) in the order
// of their probabilities, the most probable first.
func (s *SquareCB) Select(dst *bandit.Action, set bandit.ActionSet, draw rng.Source) error {
	f, err := s.weigh(set)
	if err != nil {
		return err
	}
	u, at := draw.Float64(0), s.order[0]
	for _, a := range s.order {
		if s.p[a] == 0 {
			break
		}
		at = a
		if u -= s.p[a]; u < 0 {
			break
		}
	}
	if f == bandit.Finite(&s.shown) {
		s.shown.set(dst, at)
		return nil
	}
	dst.Set(f.At(at), at)
	return nil
}

// Prob implements bandit.Prober on finite sets. The law is no count.
func (s *SquareCB) Prob(dst *bandit.Law, set bandit.ActionSet, _ rng.Source) error {
	if err := needsList("squarecb", set); err != nil {
		return err
	}
	f, err := s.weigh(set)
	if err != nil {
		return err
	}
	zeros(dst, f.Len())
	for a, p := range s.p {
		dst.Atoms[a].P = p
	}
	dst.Total = 0
	return nil
}

// Update implements bandit.Policy.
func (s *SquareCB) Update(a bandit.Action, y float64, _ rng.Source) error { return s.learn(a, y) }

// AppendSnapshot implements bandit.Snapshotter.
func (s *SquareCB) AppendSnapshot(b []byte) ([]byte, error) {
	return appendSnapshot(b, "squarecb", s.ridge.State()), nil
}

// Restore implements bandit.Snapshotter.
func (s *SquareCB) Restore(b []byte) error {
	v, err := readSnapshot(b, "squarecb", s.ridge.StateLengths())
	if err == nil {
		s.ridge.Restore(v)
	}
	return err
}

// Additive implements bandit.Additive.
func (s *SquareCB) Additive() error {
	return errors.New("how much it explores depends on the number of events")
}

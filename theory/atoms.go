package theory

import (
	"fmt"
	"math"

	"troupe/internal/logs"
)

// The keys of an ensemble of atoms: when the members are redrawn.
const (
	DecisionKey = "decision" // for each decision
	EpochKey    = "epoch"    // each time the determinant has grown by ρ
	FixedKey    = "fixed"    // never
	RoundKey    = "round"    // after each update
)

// AtomsChoice is what the theorem on atoms leaves free. Zero values take γ = 1.35, η = 0.05, ρ = 2
// and the key "epoch".
type AtomsChoice struct {
	Key   string
	Gamma float64 // γ > 0: θ_t = θ̂ + γβ R_t g^J
	Eta   float64 // η > 0, a parameter of the proof
	Rho   float64 // ρ > 1, the growth of det V that ends an epoch; read for EpochKey only
}

// Atoms are the parameters of an ensemble that is redrawn instead of accumulated (thm:atoms in
// docs/papers/atoms.md): for each key e = 1, …, Keys the directions g^1, …, g^m ~ N(0, I) are fresh, and
// θ_t = θ̂ + γβ R_t g^J with R_tR_tᵀ = V_{t−1}⁻¹. With
//
//	q = 1 − Φ(1/γ + η),  p = q/2,  B = √d + √(2 log(2mE/δ)),  m ≥ (8/q)(d log(1 + 2B/η) + log(2E/δ)),
//
// with probability 1 − δ all mE directions have ‖g‖ ≤ B and, for every key and every unit vector u at
// once, a share of at least p of the members has ⟨u, g⟩ ≥ 1/γ: in direction u ∝ R_tᵀx* these are
// optimistic. thm:master with b = γBβ and this p gives the bound "atoms",
//
//	R(τ) ≤ (2γB/p) β_{τ−1} (2E(τ) + M(τ, δ)) for all τ ≤ T with probability 1 − 3δ.
//
// Order of m: d log d + d log log(mE/δ) + log(E/δ); for the fixed key it does not depend on T.
type Atoms struct {
	Keys    float64 // E: 1, T, or 1 + ⌈d log(1 + T/(λd))/log ρ⌉ epochs
	Members float64 // m
	Gamma   float64 // γ
	Width   float64 // B
	P       float64 // p
}

// AtomsFor returns the smallest m that the theorem allows, and what goes with it. It is an error
// outside its conditions: λ ≥ 1, γ, η > 0, γB ≥ 1, ρ > 1.
func AtomsFor(s Setting, c AtomsChoice) (Atoms, error) {
	const by = "thm:atoms"
	if err := s.check(by, 1); err != nil {
		return Atoms{}, err
	}
	for _, x := range []struct {
		name  string
		value *float64
		zero  float64
		above float64
	}{{"gamma", &c.Gamma, 1.35, 0}, {"eta", &c.Eta, 0.05, 0}, {"rho", &c.Rho, 2, 1}} {
		if *x.value == 0 {
			*x.value = x.zero
		}
		if v := *x.value; !(v > x.above) || math.IsInf(v, 0) {
			return Atoms{}, &DomainError{x.name, v, fmt.Sprintf("a finite %s > %g", x.name, x.above), by}
		}
	}
	d, q := float64(s.D), normalTail(1/c.Gamma+c.Eta)
	a := Atoms{Gamma: c.Gamma, P: q / 2, Members: 1}
	switch c.Key {
	case EpochKey, "":
		a.Keys = 1 + math.Ceil(logDetCap(d, s.T, s.Lambda)/logs.Log(c.Rho))
	case FixedKey:
		a.Keys = 1
	case RoundKey, DecisionKey:
		a.Keys = s.T
	default:
		return Atoms{}, fmt.Errorf("key is %q: thm:atoms knows %s, %s, %s and %s", c.Key, DecisionKey, EpochKey,
			FixedKey, RoundKey)
	}
	// m stands on both sides. The right side grows with m, like log log m, so iterating upwards from 1
	// ends at the smallest solution, in a few steps.
	logKeys := logs.Log(2*a.Keys) - logs.Log(s.Delta)
	for {
		a.Width = math.Sqrt(d) + math.Sqrt(2*(logKeys+logs.Log(a.Members)))
		m := math.Ceil(8 / q * (float64(d*logs.Log1p(2*a.Width/c.Eta)) + logKeys))
		if !(m <= maxExact) {
			return Atoms{}, &DomainError{"gamma", c.Gamma, "a share q = 1 - Phi(1/gamma + eta) for which m <= 2^53", by}
		}
		if m <= a.Members {
			break
		}
		a.Members = m
	}
	if a.Gamma*a.Width < 1 {
		return Atoms{}, &DomainError{"gamma", c.Gamma, "gamma B >= 1", by}
	}
	return a, nil
}

// Bound returns the theorem's bound on R(τ), 1 ≤ τ ≤ T, for these parameters, with β_{τ−1} replaced
// by its deterministic cap; +Inf where it is above the largest float64. It panics outside.
func (a Atoms) Bound(s Setting, tau float64) float64 {
	return s.master(a.Gamma*a.Width*radius(s, tau)/a.P, tau)
}

// LazyBound returns the bound for the frozen form: a member that was drawn at V_ref and is used while
// det V < ρ det V_ref is at most √ρ times too long, and not too short.
func (a Atoms) LazyBound(s Setting, rho, tau float64) float64 {
	return math.Sqrt(rho) * a.Bound(s, tau)
}

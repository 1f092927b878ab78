// Package policy holds the algorithms: linear ensemble sampling in every form the paper discusses,
// its relatives and its rivals. One file is one kind, its options on top; registry.go lists them.
//
// Every policy follows the two rules of package bandit — Select reads, Update writes; randomness
// is an argument — so the simulator, off-policy evaluation and a server use the same code. Every
// policy is held to bandittest.TestPolicy.
//
// Notation, as in the paper: V_t = λI + ΣXXᵀ, θ̂_t = V_t⁻¹ΣXY, member j is θ̃_t^j = V_t⁻¹S_t^j with
// S_t^j = S_0^j + ΣU_i^j X_i.
package policy

import (
	"fmt"
	"math"
	"slices"

	"troupe/bandit"
	"troupe/spec"
)

// checkAction returns an error unless a has d finite features and y is finite.
func checkAction(a bandit.Action, y float64, d int) error {
	if a.At != nil {
		return fmt.Errorf("policy: action is sparse, with %d nonzeros, expected %d features; take kind sparse or "+
			"effects: %w", len(a.X), d, bandit.ErrUnsupported)
	}
	if len(a.X) != d {
		return fmt.Errorf("policy: action has %d features, expected %d", len(a.X), d)
	}
	for i, v := range a.X {
		if v-v != 0 {
			return fmt.Errorf("policy: action feature %d is %v: %w", i, v, bandit.ErrNotFinite)
		}
	}
	if y-y != 0 {
		return fmt.Errorf("policy: reward is %v: %w", y, bandit.ErrNotFinite)
	}
	return nil
}

// checkSet returns an error unless the set is one of dense vectors, has dimension d, and numbers that are finite.
func checkSet(set bandit.ActionSet, d int) error {
	if err := checkDim(set, d); err != nil {
		return err
	}
	return checkNumbers(set)
}

// checkNumbers returns an error where the numbers of a set are not checked yet and one of them is not finite: see
// actionset.FiniteUnread.
func checkNumbers(set bandit.ActionSet) error {
	if f, ok := set.(interface{ Check() error }); ok {
		return f.Check()
	}
	return nil
}

// checkDim is checkSet without the look at the numbers, for a policy whose next step is to ask the set for its best
// action.
func checkDim(set bandit.ActionSet, d int) error {
	if s, ok := set.(bandit.Sparse); ok {
		n := float64(s.Dim())
		return fmt.Errorf("policy: the action set is sparse, in dimension d = %d: the state of a policy for dense "+
			"vectors has d² = %.3g numbers; take kind sparse: %w", s.Dim(), n*n, bandit.ErrUnsupported)
	}
	if set.Dim() != d {
		return fmt.Errorf("policy: the action set has dimension %d, the policy %d", set.Dim(), d)
	}
	return nil
}

// positive returns an error unless v is positive and finite.
func positive(key string, v float64) error {
	if !(v > 0) || math.IsInf(v, 0) {
		return spec.Refuse(key, v, "expected a positive number")
	}
	return nil
}

// level returns an error unless v is a probability in (0, 1].
func level(key string, v float64) error {
	if !(v > 0 && v <= 1) {
		return spec.Refuse(key, v, "expected a number in (0, 1]")
	}
	return nil
}

// Limits that turn a slip of the finger into an error instead of a full memory: V_t has d² entries
// (3 GB at maxDim), the sums of an accumulated ensemble m·d.
const (
	maxDim  = 20_000
	maxSums = 1 << 28
)

// checkMembers returns an error unless m vectors of d numbers can be stored.
func checkMembers(m, d int) error {
	if most := maxSums / max(d, 1); m < 1 || m > most {
		return spec.Refuse("m", m, "expected at least 1 and at most %d in dimension %d", most, d)
	}
	return nil
}

// oneOf returns an error unless the value of an option is one of the names.
func oneOf(key, value string, names ...string) error {
	if slices.Contains(names, value) {
		return nil
	}
	return spec.Refuse(key, value, "%s", spec.Suggest(value, names))
}

// sigma returns the noise level of a problem, 1 when it is not stated.
func (p Problem) sigma() float64 {
	if p.Sigma == 0 {
		return 1
	}
	return p.Sigma
}

// share returns the factor of every confidence level.
func (p Problem) share() float64 {
	if p.Share == 0 {
		return 1
	}
	return p.Share
}

// check returns an error when the problem itself makes no sense.
func (p Problem) check() error {
	if n := float64(p.Dim); p.Dim > maxDim {
		return fmt.Errorf("policy: dimension is %d, expected at most %d: V has d² = %.3g numbers, %.3g GB; for "+
			"vectors with few nonzeros take kind sparse", p.Dim, maxDim, n*n, n*n*8e-9)
	}
	if p.Dim < 1 {
		return fmt.Errorf("policy: dimension is %d, expected at least 1", p.Dim)
	}
	if p.Horizon < 0 || p.Arms < 0 {
		return fmt.Errorf("policy: horizon %d and arms %d must not be negative", p.Horizon, p.Arms)
	}
	if p.Sigma < 0 || p.Sigma-p.Sigma != 0 {
		return fmt.Errorf("policy: noise level is %v, expected a positive number", p.Sigma)
	}
	return nil
}

// NumberPlayer is implemented by options of policies that learn numbers which are played (bandit.PlayedRole).
type NumberPlayer interface{ PlaysNumbers() }

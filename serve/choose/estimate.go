package choose

import (
	"math"
	"slices"

	"troupe/bandit"
	"troupe/policy"
)

// Estimate is what a version whose policy has a linear estimate knows of its coordinates.
type Estimate struct {
	Theta []float64 // θ̂, nil for other policies
	// standard deviation of the members around θ̂; nil without members, and where they are too many to compute
	Spread []float64
	LogDet float64 // log det V/λ^d of a ridge regression
}

// maxSpread bounds the operations for Estimate.Spread: members times d².
const maxSpread = 1 << 28

// Estimate returns that of the version. Cost d² for each member.
func (v *Version) Estimate() (e Estimate, err error) {
	w, err := v.Worker(nil)
	if err != nil {
		return e, err
	}
	defer w.Release()
	p := bandit.Innermost(w.policy)
	switch r := p.(type) {
	case regression:
		e.Theta, e.LogDet = slices.Clone(r.Ridge().Theta()), r.Ridge().LogDetRatio()
	case interface{ Root() policy.SquareRoot }:
		e.Theta, e.LogDet = slices.Clone(r.Root().Theta()), r.Root().LogDetRatio()
	}
	members := 0
	if r, ok := p.(interface{ Models() int }); ok {
		members = (r.Models() + 1) / 2
	}
	if r, ok := p.(interface{ Members() int }); ok {
		members = r.Members()
	}
	d := v.Compiled.Dim
	var model func(dst []float64, j int, sign float64)
	switch r := p.(type) {
	case interface {
		Model(dst []float64, j int, sign float64)
	}:
		model = r.Model
	case interface {
		Model(dst []float64, decision uint64, j int, sign float64)
	}:
		model = func(dst []float64, j int, sign float64) { r.Model(dst, 0, j, sign) }
	default:
		return e, nil
	}
	if members == 0 || members*d*d > maxSpread {
		return e, nil
	}
	e.Theta, e.Spread = make([]float64, d), make([]float64, d)
	model(e.Theta, 0, 0) // also where another model than the regression plays
	member := make([]float64, d)
	for j := range members {
		model(member, j, 1)
		for i, x := range member {
			x -= e.Theta[i]
			e.Spread[i] += float64(x*x) / float64(members)
		}
	}
	for i, x := range e.Spread {
		e.Spread[i] = math.Sqrt(x)
	}
	return e, nil
}

// regression is implemented by policies that keep a ridge regression.
type regression interface{ Ridge() policy.Regression }

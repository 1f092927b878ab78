package policy

import (
	"fmt"

	"troupe/bandit"
	"troupe/internal/linalg"
)

// regression is what the policies around one ridge regression share: V_t, θ̂_t and the scale r_t.
type regression struct {
	ridge    *linalg.Ridge
	radius   radius
	discount float64 // γ; 0 or 1: nothing is forgotten
}

// SquareRoot is the state of a ridge regression in square-root form, V_t = LLᵀ, to be read. The rules of
// Regression hold. Policies around it return it by a method Root.
type SquareRoot interface {
	// Dim returns d.
	Dim() int
	// Lambda returns λ.
	Lambda() float64
	// Len returns t, the number of updates.
	Len() uint64
	// Theta returns θ̂_t.
	Theta() []float64
	// L returns the Cholesky factor of V_t, d×d, lower triangle.
	L() []float64
	// Gram stores V_t in v, d×d, and b_t in b. Cost d³/3.
	Gram(v, b []float64)
	// LogDetRatio returns log(det V_t/λ^d).
	LogDetRatio() float64
}

// newRegression checks the problem, fills in λ = 1, δ = 0.1 and the scale where they are 0, and
// resolves them. Errors name the option.
func newRegression(p Problem, lambda, delta float64, scale, otherwise Scale) (regression, error) {
	if lambda == 0 {
		lambda = 1
	}
	if delta == 0 {
		delta = 0.1
	}
	if scale.Kind == "" {
		scale = otherwise
	}
	if err := p.check(); err != nil {
		return regression{}, err
	}
	if err := positive("lambda", lambda); err != nil {
		return regression{}, err
	}
	if err := level("delta", delta); err != nil {
		return regression{}, err
	}
	r, err := scale.resolve(p, lambda, delta)
	if err != nil {
		return regression{}, err
	}
	return regression{ridge: linalg.NewRidge(p.Dim, lambda), radius: r}, nil
}

// Ridge returns the state of the regression: V_t, θ̂_t. It belongs to the policy.
func (g *regression) Ridge() Regression { return g.ridge }

// Regression is the state of a ridge regression, to be read:
//
//	V_t = λI + Σ X_iX_iᵀ,  b_t = Σ Y_iX_i,  θ̂_t = V_t⁻¹b_t.
//
// Slices belong to the policy, are valid until the next call of one of its methods, and must not be changed.
// Policies around a regression return it by a method Ridge. Not safe for concurrent use.
type Regression interface {
	// Dim returns d.
	Dim() int
	// Lambda returns λ.
	Lambda() float64
	// Len returns t, the number of updates.
	Len() uint64
	// Theta returns θ̂_t.
	Theta() []float64
	// V returns V_t, d×d. Cost d².
	V() []float64
	// B returns b_t.
	B() []float64
	// Inv returns V_t⁻¹, d×d. Cost d².
	Inv() []float64
	// LogDetRatio returns log(det V_t/λ^d).
	LogDetRatio() float64
	// Norm2 returns ‖u‖²_V. Cost d².
	Norm2(u []float64) float64
	// Width2 returns ‖x‖²_{V⁻¹}. Cost d².
	Width2(x []float64) float64
	// Solve stores V_t⁻¹s in dst, which may not alias s. Cost d².
	Solve(dst, s []float64)
}

// Scale returns r_t, the scale that the next Select uses.
func (g *regression) Scale() float64 { return g.radius.at(g.ridge.LogDetRatio()) }

// learn updates the regression; a refused update changes nothing.
func (g *regression) learn(a bandit.Action, y float64) error {
	if err := checkAction(a, y, g.ridge.Dim()); err != nil {
		return err
	}
	ok := false
	if g.discount > 0 && g.discount < 1 {
		ok = g.ridge.Forget(g.discount, a.X, y)
	} else {
		_, ok = g.ridge.Update(a.X, y)
	}
	if !ok {
		return fmt.Errorf("policy: update refused: %w", bandit.ErrNumerical)
	}
	return nil
}

// exploit stores the greedy action in dst.
func (g *regression) exploit(dst *bandit.Action, set bandit.ActionSet) error {
	if err := checkDim(set, g.ridge.Dim()); err != nil {
		return err
	}
	_, err := set.ArgMax(dst, g.ridge.Theta())
	return err
}

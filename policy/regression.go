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
func (g *regression) Ridge() *linalg.Ridge { return g.ridge }

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
	if err := checkSet(set, g.ridge.Dim()); err != nil {
		return err
	}
	_, err := set.ArgMax(dst, g.ridge.Theta())
	return err
}

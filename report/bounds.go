package report

import (
	"fmt"
	"slices"
	"strings"

	"troupe/report/chart"
	"troupe/theory"
)

// played pairs a theorem's bound with the kinds of policy whose λ and δ it is shown for.
var played = []struct {
	bound string
	kinds []string
}{
	{"theorem1", []string{"ensemble", "ensemble-incremental"}},
	{"ts", []string{"ts", "confident-ts"}},
	{"oful", []string{"linucb"}},
}

// theoremBounds returns the bounds that speak about an environment: a linear one, with actions in
// the unit ball and noise that is 1-subgaussian. λ and δ are those of the first policy of a kind
// that meets the theorem's condition, otherwise the smallest λ of the theorem and δ = 0.1. A bound
// outside its domain is left out.
func theoremBounds(run *Run, a *Analysis) []Bound {
	env := run.Manifest.Environments[a.Env]
	if env.Kind != "linear" || env.Dim < 1 {
		return nil
	}
	if sigma, ok := option(env.Options, "noise.sigma"); ok {
		if s, ok := sigma.(float64); !ok || s > 1 {
			return nil
		}
	}
	var out []Bound
	for _, p := range played {
		b, ok := theory.ByName(p.bound)
		if !ok {
			continue
		}
		s := theory.Setting{D: env.Dim, T: float64(a.T), Lambda: b.MinLambda, Delta: 0.1}
		for _, i := range a.Policies {
			pol := run.Manifest.Policies[i]
			if !slices.Contains(p.kinds, pol.Kind) {
				continue
			}
			if l, ok := pol.Options["lambda"].(float64); ok && l >= b.MinLambda {
				s.Lambda = l
			}
			if d, ok := pol.Options["delta"].(float64); ok && d > 0 && d < 1 {
				s.Delta = d
			}
			break
		}
		c := Bound{Env: a.Name, Label: b.Label, Name: fmt.Sprintf("%s, λ = %g, δ = %g", plainLetters.Replace(b.Title),
			s.Lambda, s.Delta)}
		if m, err := b.Members(s); err == nil && m > 0 {
			c.Name += ", m = " + chart.Amount(m, 0)
		}
		for _, t := range a.Rounds {
			v, err := b.At(s, float64(t))
			if err != nil {
				c.Rounds = nil
				break
			}
			c.Rounds, c.Values = append(c.Rounds, t), append(c.Values, v)
		}
		if len(c.Rounds) > 0 {
			out = append(out, c)
		}
	}
	return out
}

var plainLetters = strings.NewReplacer("beta~_T", "β̃_T", "beta_t", "β_t", "gamma", "γ")

package plan

import (
	"fmt"
	"io"

	"troupe/theory"
)

// plannedAtoms is what thm:atoms says about one setting and one key; its JSON is the contract of
// `troupe plan --method atoms --json`.
type plannedAtoms struct {
	D      int     `json:"d"`
	T      float64 `json:"T"`
	Delta  float64 `json:"delta"`
	Lambda float64 `json:"lambda"`
	Key    string  `json:"key"`

	Keys        float64 `json:"keys"`
	M           float64 `json:"m"`
	Gamma       float64 `json:"gamma"`
	Width       float64 `json:"width_B"`
	P           float64 `json:"p"`
	R           float64 `json:"r"` // γβ̃_T
	Bound       float64 `json:"bound"`
	Lazy        float64 `json:"bound_lazy,omitempty"`
	Trivial     float64 `json:"trivial"`
	Vacuous     bool    `json:"vacuous"`
	Probability float64 `json:"probability"`
	StateBytes  float64 `json:"state_bytes"`

	EnsembleM float64 `json:"ensemble_m,omitempty"` // of thm:es, where λ ≥ 5
}

// planAtoms evaluates thm:atoms for the keys.
func planAtoms(s theory.Setting) ([]plannedAtoms, error) {
	var out []plannedAtoms
	for _, key := range []string{theory.EpochKey, theory.FixedKey, theory.RoundKey, theory.DecisionKey} {
		a, err := theory.AtomsFor(s, theory.AtomsChoice{Key: key})
		if err != nil {
			return nil, err
		}
		d := float64(s.D)
		p := plannedAtoms{
			D: s.D, T: s.T, Delta: s.Delta, Lambda: s.Lambda, Key: key,
			Keys: a.Keys, M: a.Members, Gamma: a.Gamma, Width: a.Width, P: a.P,
			R: a.Gamma * theory.BetaTilde(s.D, int(s.T), s.Lambda, s.Delta), Bound: a.Bound(s, s.T),
			Trivial: 2 * s.T, Probability: max(0, 1-3*s.Delta), StateBytes: 8 * (d*(d+1)/2 + d + 1),
		}
		if key == theory.EpochKey {
			p.Lazy = a.LazyBound(s, 2, s.T)
		}
		p.Vacuous = p.Bound >= p.Trivial
		if m, err := theory.Members(s.D, int(s.T), s.Lambda, s.Delta); err == nil {
			p.EnsembleM = float64(m)
		}
		out = append(out, p)
	}
	return out, nil
}

func writePlanAtoms(w io.Writer, all []plannedAtoms) error {
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	for i, p := range all {
		if p.Key == theory.EpochKey {
			if i > 0 {
				line("")
			}
			line("d = %d   T = %s   delta = %v   lambda = %v", p.D, planDigits(p.T), p.Delta, p.Lambda)
			line("")
			line("state              %-12s L and z, whatever m is", planBytes(p.StateBytes))
			line("scale r            %-12.4g 1.35 beta~_T", p.R)
			line("share p            %-12.4g of the members are optimistic in every direction", p.P)
			line("losing always      %-12s 2T: a bound above this says nothing", planDigits(p.Trivial))
			if p.EnsembleM > 0 {
				line("members of thm:es  %-12s for comparison", planDigits(p.EnsembleM))
			}
			line("")
			line("%-8s %7s %10s %8s %12s  %-8s %s", "key", "keys", "members m", "B", "bound at T", "", "prob")
		}
		row := func(key string, bound float64) {
			word, prob := "", "none"
			if bound >= p.Trivial {
				word = "vacuous"
			}
			if p.Probability > 0 {
				prob = fmt.Sprintf("%.4g", p.Probability)
			}
			line("%-8s %7s %10s %8.4g %12s  %-8s %s", key, planDigits(p.Keys), planDigits(p.M), p.Width,
				planDigits(bound), word, prob)
		}
		row(p.Key, p.Bound)
		if p.Lazy > 0 {
			row("lazy", p.Lazy)
		}
	}
	line("")
	line("gamma = 1.35, eta = 0.05, rho = 2; the theorem and its proof: docs/papers/atoms.md")
	return err
}

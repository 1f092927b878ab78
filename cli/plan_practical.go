package cli

import (
	"fmt"
	"io"
	"math"

	"troupe/theory"
)

// practical is the question of `troupe plan --practical`.
type practical struct {
	Arms int // 0: the set is no short list
	// tolerated share, distance of the best arm from the next, constant scale in units of the noise
	Stuck, Gap, R float64
}

// plannedPractical is its answer for one setting; its JSON is the contract of `troupe plan --practical --json`.
type plannedPractical struct {
	D      int     `json:"d"`
	T      float64 `json:"T"`
	Arms   int     `json:"arms,omitempty"`
	Lambda float64 `json:"lambda"`
	R      float64 `json:"r"`
	Gap    float64 `json:"gap"`
	Stuck  float64 `json:"tolerated"`

	Rows []plannedRow `json:"policies"`
}

// plannedRow is one way to explore.
type plannedRow struct {
	Policy string  `json:"policy"`
	M      float64 `json:"m"`     // 0: no m up to 1e12 is enough
	Share  float64 `json:"share"` // of the runs that are stuck with this m
	AtMost bool    `json:"at_most,omitempty"`
	Cost   float64 `json:"cost"` // share·T·gap: what they add to the mean regret
	Why    string  `json:"why"`
}

// The most members that are looked at.
const mostMembers = 1e12

// planPractical evaluates P(m, r√(1+λ), gap) of docs/design/price-of-few.md for the policies.
func planPractical(s theory.Setting, q practical) plannedPractical {
	out := plannedPractical{D: s.D, T: s.T, Arms: q.Arms, Lambda: s.Lambda, R: q.R, Gap: q.Gap, Stuck: q.Stuck}
	sigma := q.R * math.Sqrt(1+s.Lambda)
	share := func(draws float64) float64 {
		_, hi := theory.Stuck(draws, sigma, q.Gap)
		return hi
	}
	span := float64(2 * s.D) // members of a smooth set explore their span only
	least := 1.0
	if q.Arms == 0 {
		least = span
	}
	add := func(policy string, m, p float64, atMost bool, why string) {
		out.Rows = append(out.Rows, plannedRow{policy, m, p, atMost, p * s.T * q.Gap, why})
	}
	usual := math.Max(16, span)
	add("ensemble, default m", usual, share(usual), false,
		"frozen members: an arm that looked bad at first is lost unless one of them lifts it")
	if m := fewest(q.Stuck, least, share); m > 0 {
		add("ensemble", m, share(m), false, "the smallest m with a tolerated share")
	} else {
		add("ensemble", 0, share(mostMembers), false, fmt.Sprintf("not even %.0e members", float64(mostMembers)))
	}
	few := math.Ceil(math.Max(least, theory.FewSufficient(1, math.Min(q.Stuck*q.Gap*q.Gap/2, 0.5))))
	add("ensemble, r = beta_t", few, math.Min(q.Stuck, 1), true,
		"log(1/share) members are enough (thm:few-members), at several times the regret")
	add("atoms, key = decision", 16, share(s.T), false,
		"members of its own in each decision: as Thompson sampling; m is the resolution of a propensity")
	return out
}

// fewest returns the smallest whole m ≥ least with share(m) ≤ p, which falls in m; 0 for none.
func fewest(p, least float64, share func(float64) float64) float64 {
	lo, hi := math.Max(least, 1), mostMembers
	if share(lo) <= p {
		return lo
	}
	if share(hi) > p {
		return 0
	}
	for hi-lo > 1 {
		mid := math.Floor(math.Sqrt(lo * hi))
		if mid <= lo || mid >= hi {
			mid = math.Floor((lo + hi) / 2)
		}
		if share(mid) <= p {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi
}

// checkPractical refuses numbers that have no meaning.
func checkPractical(q practical) error {
	for _, f := range []struct {
		flag string
		v    float64
		ok   bool
		want string
	}{
		{"--stuck", q.Stuck, q.Stuck > 0 && q.Stuck < 1, "a share in (0, 1)"},
		{"--gap", q.Gap, q.Gap > 0 && q.Gap <= 1e6, "a positive number, in units of the noise"},
		{"--scale", q.R, q.R > 0 && q.R <= 1e6, "a positive number, in units of the noise"},
	} {
		if !f.ok {
			return misuse(fmt.Errorf("%s %v: expected %s", f.flag, f.v, f.want))
		}
	}
	return nil
}

func writePractical(w io.Writer, all []plannedPractical) error {
	var err error
	line := func(format string, args ...any) {
		if err == nil {
			_, err = fmt.Fprintf(w, format+"\n", args...)
		}
	}
	for i, p := range all {
		if i > 0 {
			line("")
		}
		arms := "any set"
		if p.Arms > 0 {
			arms = fmt.Sprintf("%d arms", p.Arms)
		}
		line("d = %d   T = %s   %s   gap %v   lambda = %v   r = %v   tolerated: %v of the runs stuck", p.D,
			planDigits(p.T), arms, p.Gap, p.Lambda, p.R, p.Stuck)
		line("")
		line("%-22s %10s %12s %14s", "policy", "m", "share stuck", "adds to regret")
		for _, r := range p.Rows {
			m, sign := "none", " "
			if r.M > 0 {
				m = planDigits(r.M)
			}
			if r.AtMost {
				sign = "≤"
			}
			line("%-22s %10s %s%11.2g %14.3g", r.Policy, m, sign, r.Share, r.Cost)
		}
		line("")
		for _, r := range p.Rows {
			line("%s: %s.", r.Policy, r.Why)
		}
	}
	line("")
	line("The share is exact for one arm at this gap above nothing, noise N(0, 1), and near what was measured on")
	line("two arms; more arms near the best raise it. docs/design/price-of-few.md")
	return err
}

package plan

import (
	"fmt"
	"io"
	"math"
	"strconv"

	"troupe/cli/term"
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

// plannedRow is one way to explore. AtMost and its cost are null where no upper bound is known.
type plannedRow struct {
	Policy  string   `json:"policy"`
	M       float64  `json:"m"`             // 0: no m up to 1e12 is enough
	AtLeast float64  `json:"lost_at_least"` // share of the runs that lose the arm
	AtMost  *float64 `json:"lost_at_most"`
	Cost    float64  `json:"cost_at_least"` // what they add to the mean regret
	Most    *float64 `json:"cost_at_most"`
	Why     string   `json:"why"`
}

// The most members that are looked at.
const mostMembers = 1e12

// planPractical encloses, for each policy, the share of runs that lose an arm at the gap beside nothing after at most
// T/2 pulls (theory.ForGood). A run that loses it after at most n pulls has a regret of at least (T − n)·gap, one that
// loses it at all of at most T·gap.
func planPractical(s theory.Setting, q practical) plannedPractical {
	out := plannedPractical{D: s.D, T: s.T, Arms: q.Arms, Lambda: s.Lambda, R: q.R, Gap: q.Gap, Stuck: q.Stuck}
	lost := func(m, pulls float64) (lo, hi float64) { return theory.ForGood(m, q.R, s.Lambda, q.Gap, pulls) }
	half, early := math.Floor(s.T/2), math.Max(1, math.Floor(s.T/100))
	low := func(m float64) float64 { lo, _ := lost(m, half); return lo }
	high := func(m float64) float64 { _, hi := lost(m, half); return hi }
	cost := func(m float64) float64 { lo, _ := lost(m, early); return lo * (s.T - early) * q.Gap }
	span := float64(2 * s.D) // members of a smooth set explore their span only
	least := 1.0
	if q.Arms == 0 {
		least = span
	}
	add := func(policy string, m float64, why string) {
		at := math.Max(m, 1)
		if m == 0 {
			at = mostMembers
		}
		hi := high(at)
		most := hi * s.T * q.Gap
		out.Rows = append(out.Rows, plannedRow{policy, m, low(at), &hi, cost(at), &most, why})
	}
	add("ensemble, default m", math.Max(16, span),
		"frozen members: an arm that looked bad is lost unless one of them lifts it")
	for _, row := range []struct {
		policy, why string
		share       func(float64) float64
	}{
		{"ensemble, necessary", "with fewer members the lower bound is above the tolerated share", low},
		{"ensemble, enough", "the smallest m whose upper bound is a tolerated share", high},
	} {
		m := fewest(q.Stuck, least, row.share)
		if m == 0 {
			row.why = fmt.Sprintf("not even %.0e members", float64(mostMembers))
		}
		add(row.policy, m, row.why)
	}
	few := math.Ceil(math.Max(least, theory.FewSufficient(1, math.Min(q.Stuck*q.Gap*q.Gap/2, 0.5))))
	most := q.Stuck * s.T * q.Gap
	out.Rows = append(out.Rows, plannedRow{"ensemble, r = beta_t", few, 0, &q.Stuck, 0, &most,
		"log(1/share) members are enough (thm:few-members), at several times the regret"})
	out.Rows = append(out.Rows, plannedRow{"atoms, key = decision", 16, low(s.T), nil, cost(s.T), nil,
		"members of its own in each decision, as Thompson sampling: lost until T, not for good"})
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
			return term.Misuse(fmt.Errorf("%s %v: expected %s", f.flag, f.v, f.want))
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
		line("d = %d   T = %s   %s   gap %v   lambda = %v   r = %v   tolerated: %v of the runs lost", p.D,
			planDigits(p.T), arms, p.Gap, p.Lambda, p.R, p.Stuck)
		line("")
		line("%-22s %10s   %-20s %s", "policy", "m", "share that is lost", "adds to regret")
		for _, r := range p.Rows {
			m := "none"
			if r.M > 0 {
				m = planDigits(r.M)
			}
			line("%-22s %10s   %-20s %s", r.Policy, m, enclosed(r.AtLeast, r.AtMost), enclosed(r.Cost, r.Most))
		}
		line("")
		for _, r := range p.Rows {
			line("%s: %s.", r.Policy, r.Why)
		}
	}
	line("")
	line("Lost: from some pull on no model prefers the arm. The bounds hold for one arm at this gap beside nothing, " +
		"noise")
	line("N(0, 1), Gaussian targets, init = \"prior\". They are no bounds for several arms: more arms near the best " +
		"raise the")
	line("share, and a run that does not draw its few good members in time is not counted (m near T/16 and above).")
	line("docs/papers/price-of-few.md, docs/record/stuck.md")
	return err
}

// enclosed writes what lies between lo and hi; no hi is no upper bound.
func enclosed(lo float64, hi *float64) string {
	switch {
	case hi == nil:
		return "at least " + roughly(lo)
	case lo == 0:
		return "at most " + roughly(*hi)
	}
	return roughly(lo) + " to " + roughly(*hi)
}

// roughly prints two significant digits.
func roughly(x float64) string {
	s := strconv.FormatFloat(x, 'g', 2, 64)
	if v, _ := strconv.ParseFloat(s, 64); v >= 100 {
		return planShort(v)
	}
	return s
}

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
	// tolerated share, distance of the best arm from the next, constant scale, mean of the next, in units of the noise
	Stuck, Gap, R, Mean float64
}

// usualMeans are planned for when the mean is not given: rewards that are centred, and a share of successes of a half.
var usualMeans = [...]float64{0, 1}

// plannedPractical is its answer for one setting; its JSON is the contract of `troupe plan --practical --json`.
type plannedPractical struct {
	D      int     `json:"d"`
	T      float64 `json:"T"`
	Arms   int     `json:"arms,omitempty"`
	Lambda float64 `json:"lambda"`
	R      float64 `json:"r"`
	Gap    float64 `json:"gap"`
	Mean   float64 `json:"mean"` // of the other arms, the largest
	Stuck  float64 `json:"tolerated"`

	// From Learned rounds on the law of the ensembles is fitted; below, exploring takes half of the rounds by itself.
	Learned float64 `json:"learned"`
	// Uniform is the share of ensembles with uniform targets that lose one arm beside nothing, at least, at any m.
	Uniform float64 `json:"uniform_lost_at_least"`

	Rows []plannedRow `json:"policies"`
}

// plannedRow is one way to explore. What is null is not known.
type plannedRow struct {
	Policy  string   `json:"policy"`
	M       float64  `json:"m"`             // 0: no m up to 1e12 is enough
	Lost    *float64 `json:"lost"`          // share of the runs that play the others in half of T rounds (theory.Few.LostAmong)
	AtLeast float64  `json:"lost_at_least"` // share of the runs that lose the arm for good
	AtMost  *float64 `json:"lost_at_most"`
	Cost    float64  `json:"cost_at_least"` // what they add to the mean regret
	Most    *float64 `json:"cost_at_most"`
	Why     string   `json:"why"`
}

// The most members that are looked at.
const mostMembers = 1e12

// planPractical finds, for each policy, the share of runs that play the others in half of T rounds (theory.Few.LostAmong),
// and encloses the share that loses an arm at the gap above a known mean for good after at most T/2 pulls (theory.Few.ForGood).
// A run that is lost has a regret of T/2·gap to T·gap. Where the law does not speak, one that loses the arm for good
// after at most n pulls has a regret of at least (T − n)·gap. An error is a *theory.DomainError.
func planPractical(s theory.Setting, q practical) (plannedPractical, error) {
	out := plannedPractical{D: s.D, T: s.T, Arms: q.Arms, Lambda: s.Lambda, R: q.R, Gap: q.Gap, Mean: q.Mean, Stuck: q.Stuck}
	few := func(m float64) theory.Few {
		return theory.Few{Best: q.Mean + q.Gap, Other: q.Mean, Lambda: s.Lambda, R: q.R, Draws: m}
	}
	if _, _, err := few(1).ForGood(1); err != nil {
		return out, err
	}
	lost := func(m, pulls float64) (lo, hi float64) {
		lo, hi, _ = few(m).ForGood(pulls) // m ≥ 1 and pulls ≥ 1
		return lo, hi
	}
	half, early := math.Floor(s.T/2), math.Max(1, math.Floor(s.T/100))
	good := once(func(m float64) (b struct{ lo, hi float64 }) { b.lo, b.hi = lost(m, half); return b })
	low := func(m float64) float64 { return good(m).lo }
	high := func(m float64) float64 { return good(m).hi }
	cost := func(m float64) float64 { lo, _ := lost(m, early); return lo * (s.T - early) * q.Gap }
	arms := max(q.Arms, 1)
	out.Learned = theory.Learned(arms, q.R, q.Gap)
	if arms == 1 {
		out.Learned = 0
	}
	out.Uniform = theory.StuckBounded(math.Sqrt(3)*q.R, math.Sqrt(s.Lambda*float64(s.D)/3), q.Gap, s.Lambda*q.Mean)
	law := once(func(m float64) float64 {
		share, _ := few(m).LostAmong(arms, s.T) // T ≥ 2, as spoken says
		return share
	})
	spoken := s.T >= math.Max(out.Learned, 2)
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
		row := plannedRow{Policy: policy, M: m, AtLeast: low(at), AtMost: &hi, Cost: cost(at), Why: why}
		most := hi * s.T * q.Gap
		if spoken {
			lost := law(at)
			row.Lost = &lost
			row.Cost, most = lost*s.T/2*q.Gap, lost*s.T*q.Gap
		}
		row.Most = &most
		out.Rows = append(out.Rows, row)
	}
	add("ensemble, default m", math.Max(16, span),
		"frozen members: an arm that looked bad is lost unless one of them lifts it")
	for _, row := range []struct {
		policy, why string
		near        float64
		share       func(float64) float64
	}{
		{"ensemble, for T rounds", "the smallest m that loses a tolerated share in T rounds by the law", 1.02, law},
		{"ensemble, necessary", "with fewer members more are lost for good than tolerated (one arm above a known mean)", 1, low},
		{"ensemble, enough", "no more than tolerated are lost for good; whether T rounds suffice the law says", 1, high},
	} {
		if row.near > 1 && !spoken {
			continue
		}
		m := fewest(q.Stuck, least, row.near, row.share)
		if m == 0 {
			row.why = fmt.Sprintf("not even %.0e members", float64(mostMembers))
		}
		add(row.policy, m, row.why)
	}
	if q.Mean <= 0 { // thm:few-members is about models above 0
		m := math.Ceil(math.Max(least, theory.FewSufficient(1, math.Min(q.Stuck*q.Gap*q.Gap/2, 0.5))))
		most := q.Stuck * s.T * q.Gap
		out.Rows = append(out.Rows, plannedRow{Policy: "ensemble, r = beta_t", M: m, AtMost: &q.Stuck, Most: &most,
			Why: "log(1/share) members are enough (thm:few-members), at several times the regret"})
	}
	out.Rows = append(out.Rows, plannedRow{Policy: "atoms, key = decision", M: 16, AtLeast: low(s.T), Cost: cost(s.T),
		Why: "members of its own in each decision, as Thompson sampling: lost until T, not for good"})
	return out, nil
}

// fewest returns the smallest whole m ≥ least with share(m) ≤ p, which falls in m, or one that is at most near times as
// large; 0 for none.
func fewest(p, least, near float64, share func(float64) float64) float64 {
	lo, hi := math.Max(least, 1), mostMembers
	above, below := share(16*lo), 0.0 // the shares at lo and hi
	if above > p {
		lo *= 16
	} else if above = share(lo); above <= p {
		return lo
	}
	for m := lo * 4; m < hi; m *= 4 { // most answers are small
		s := share(m)
		if s <= p {
			hi, below = m, s
			break
		}
		lo, above = m, s
	}
	if hi == mostMembers {
		if below = share(hi); below > p {
			return 0
		}
	}
	wide := math.Pow(near, 1./8)
	rose := false // the last step moved lo
	for k := 0; hi-lo > 1 && hi > near*lo; k++ {
		mid := math.Floor(math.Sqrt(lo * hi))
		// Almost a power of m: two steps enclose where it crosses p, and the third halves what the law does not keep.
		if x := math.Log(p/above) / math.Log(below/above); k%3 < 2 && x > 0 && x < 1 {
			mid = lo * math.Pow(hi/lo, x)
			if rose {
				mid = math.Floor(mid*wide) + 1
			} else {
				mid = math.Floor(mid / wide)
			}
		}
		if mid <= lo || mid >= hi {
			mid = math.Floor((lo + hi) / 2)
		}
		if s := share(mid); s <= p {
			hi, below, rose = mid, s, false
		} else {
			lo, above, rose = mid, s, true
		}
	}
	return hi
}

// once returns f with what it has answered kept.
func once[T any](f func(float64) T) func(float64) T {
	known := map[float64]T{}
	return func(x float64) T {
		y, ok := known[x]
		if !ok {
			y = f(x)
			known[x] = y
		}
		return y
	}
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
		{"--mean", q.Mean, math.Abs(q.Mean) <= 1e6 && math.Abs(q.Mean) <= 1e9*q.Gap,
			"a number of at most 1e6 and of at most 1e9 gaps, in units of the noise"},
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
		again := i > 0 && sameButMean(all[i-1], p)
		if !again {
			arms := "any set"
			if p.Arms > 0 {
				arms = fmt.Sprintf("%d arms", p.Arms)
			}
			line("d = %d   T = %s   %s   gap %v   lambda = %v   r = %v   tolerated: %v of the runs lost", p.D,
				planDigits(p.T), arms, p.Gap, p.Lambda, p.R, p.Stuck)
			line("")
		}
		line("Mean of the other arms: %v", p.Mean)
		const row = "%-22s %7s  %-9s %-18s %s"
		line(row, "policy", "m", "lost in T", "lost for good", "adds to regret")
		for _, r := range p.Rows {
			m, lost := "none", ""
			if r.M > 0 {
				m = planDigits(r.M)
			}
			if r.Lost != nil {
				lost = roughly(*r.Lost)
			}
			line(row, r.Policy, m, lost, enclosed(r.AtLeast, r.AtMost), enclosed(r.Cost, r.Most))
		}
		line("With uniform targets, the default of ensemble, at least %s are lost for good.", roughly(p.Uniform))
		if i+1 < len(all) && sameButMean(p, all[i+1]) {
			continue
		}
		if again {
			line("")
			line("Your mean decides: give it with --mean, in units of the noise (a share of")
			line("successes of 0.5 is 1, ratings of 4 ± 1 are 4), or centre the rewards: then it")
			line("is 0. A lambda of 0.1 or less makes it matter less.")
		}
		line("")
		for _, r := range p.Rows {
			line("%s:\n  %s.", r.Policy, r.Why)
		}
		if p.T < p.Learned {
			line("")
			line("No law for T: at this gap and scale exploring takes half of T rounds by itself.")
			line("The law begins at T = %s.", planShort(math.Ceil(p.Learned)))
		}
		line("")
		line("With uniform targets no m helps beyond the share above (one arm above a known")
		line("mean): set targets = \"gaussian\" and init = \"prior\".")
	}
	line("")
	line("Lost in T: the share of runs that play other arms in half of T rounds or more,")
	line("all of them at this gap; calculated for one arm above a known mean, fitted for")
	line("more: 0.6 to 1.3 times what was simulated. Lost for good: from some pull on no")
	line("model is above the mean of the others; the bounds hold for one arm above a known")
	line("mean, the upper one for any number of arms with means of at most it. Noise N(0, 1),")
	line("Gaussian targets, init = \"prior\". docs/papers/price-of-few.md, docs/record/stuck.md")
	return err
}

// sameButMean says whether two plans answer one question for two means.
func sameButMean(p, q plannedPractical) bool {
	return p.Mean != q.Mean && p.D == q.D && p.T == q.T && p.Arms == q.Arms && p.Lambda == q.Lambda && p.R == q.R &&
		p.Gap == q.Gap && p.Stuck == q.Stuck
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

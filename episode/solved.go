package episode

import "math"

// Rule says when a replication of DeepSea counts as solved: in the first episode k ≥ From by which the share of bad
// episodes so far is below Share. The two rules are those of bsuite, each in the file that it names.
type Rule struct {
	Share float64
	From  int
	File  string
}

// The rules of bsuite. In the stochastic variant the wind makes some episodes good by luck, so its rule is stricter.
var (
	Deterministic = Rule{0.9, 1, "bsuite/experiments/deep_sea/analysis.py"}
	Stochastic    = Rule{0.8, 100, "bsuite/experiments/deep_sea_stochastic/analysis.py"}
)

// SuiteEpisodes is how many episodes bsuite plays.
const SuiteEpisodes = 10_000

// Holds reports whether the rule holds after k episodes of which so many were bad.
func (r Rule) Holds(k, bad int) bool {
	return k >= r.From && float64(bad)/float64(k) < r.Share
}

// Scores reports whether a solution of size N in an episode counts in bsuite's score: within its 10,000 episodes, and
// before 2^N + 100, where it beats dithering. Episode 0 is no solution.
func Scores(size, episode int) bool {
	return episode >= 1 && episode <= SuiteEpisodes && float64(episode) < math.Ldexp(1, size)+100
}

// Logged reports whether bsuite writes a line for episode k: 1, 1.2, 1.4, 1.7, 2, 2.5, 3, 4, …, 9 times powers of ten,
// where these are whole numbers (bsuite/utils/wrappers.py).
func Logged(k int) bool {
	if k < 1 {
		return false
	}
	p := 1
	for k/p >= 10 {
		p *= 10
	}
	for _, tenths := range []int{10, 12, 14, 17, 20, 25, 30, 40, 50, 60, 70, 80, 90} {
		if 10*k == tenths*p {
			return true
		}
	}
	return false
}

// LoggedUpTo lists the episodes of Logged up to k, in increasing order.
func LoggedUpTo(k int) []int {
	var at []int
	for p := 1; p <= k; p *= 10 {
		for _, tenths := range []int{10, 12, 14, 17, 20, 25, 30, 40, 50, 60, 70, 80, 90} {
			if tenths*p%10 == 0 && tenths*p/10 <= k {
				at = append(at, tenths*p/10)
			}
		}
	}
	return at
}

// Progress follows a replication towards its solution.
type Progress struct {
	Rule     Rule
	Episodes int // so far
	Bad      int // of them
	Treasure int // so often found
	Solved   int // the episode in which the rule held first, 0 before
	Rounded  int // the same among the episodes that bsuite logs
}

// Episode counts one more episode.
func (p *Progress) Episode(e Played) {
	p.Episodes++
	if e.Bad {
		p.Bad++
	}
	p.Treasure += e.Treasure
	if !p.Rule.Holds(p.Episodes, p.Bad) {
		return
	}
	if p.Solved == 0 {
		p.Solved = p.Episodes
	}
	if p.Rounded == 0 && Logged(p.Episodes) {
		p.Rounded = p.Episodes
	}
}

package policy

import (
	"fmt"
	"math"
	"slices"

	"troupe/internal/decimal"
	"troupe/internal/logs"
	"troupe/theory"
)

// fewArms is the largest number of arms that fewWarning speaks of: with more, what one arm's frozen
// members miss is often nearly as good elsewhere.
const fewArms = 10

// frozenMembers are what the law of lost runs needs of a policy with a constant scale.
type frozenMembers struct {
	r, lambda, draws float64 // scale in units of the noise; draws: perturbations that are used while an arm is not pulled
	// With targets in [−1, 1] times size and |⟨x, S_0⟩| ≤ first·size, size in units of the noise; 0 for Gaussian ones.
	size, first float64
	lawless     bool   // the law of lost runs is of another rule
	instead     string // what to do
}

// fewWarning warns where constant scale, few frozen members and a long horizon meet on few arms
// (docs/papers/price-of-few.md). There some runs lose the best arm, and each of them costs T/2 to T times the gap.
//
// Where the means of orthogonal arms are known it takes the share of such runs from theory.Few.LostAmong, in every
// instance with the mean of its second arm as the level of the others, and speaks where the mean loss, share·T·Δ, is
// more than half of the (1 + r²)Σ_x log T/Δ_x that Thompson sampling pays, about what
// the other runs pay. Elsewhere nothing is known of gaps and levels, and
// it takes a share of D^{−r²} (section 8: the exponent of D draws is r², whatever λ is) against 30(1 + log T)/T, a
// multiple of what Thompson sampling pays.
func fewWarning(p Problem, f frozenMembers) []string {
	if p.Horizon == 0 || p.Arms == 0 || p.Arms > fewArms || !(f.r > 0) {
		return nil
	}
	T := float64(p.Horizon)
	if p.Means == nil || f.lawless {
		if lost := T * math.Exp(-f.r*f.r*logs.Log(f.draws)); !(lost > 30*(1+logs.Log(T))) {
			return nil
		}
		return []string{fmt.Sprintf("few frozen members at a constant scale on %d arms: in %d rounds some runs may never "+
			"find the best arm, and their linear regret can outweigh all others in the mean (thm:few); %s", p.Arms, p.Horizon,
			f.instead)}
	}
	share, lost, pays, level := 0.0, 0.0, 0.0, 0.0
	for _, means := range p.Means {
		s, gap, other, explored := f.lost(means, p.sigma(), T)
		n := float64(len(p.Means))
		share, lost, pays, level = share+s/n, lost+s*T*gap/n, pays+explored/n, level+other/n
	}
	if !(lost > pays/2) {
		return nil
	}
	centre := ""
	if level > 0 && f.lambda > 0.1 {
		centre = fmt.Sprintf("; the other arms pay %s times the noise on average, and λ = %s pulls an arm towards 0: "+
			"centre the rewards, or take λ ≤ 0.1", decimal.Short(level, 2), decimal.Short(f.lambda, 2))
	}
	return []string{fmt.Sprintf("few frozen members at a constant scale on %d arms: in %d rounds about %s%% of the runs play "+
		"the others half of the time or more (price-of-few, section 8), and their linear regret outweighs all others in the "+
		"mean; %s%s", p.Arms, p.Horizon, decimal.Short(100*share, 2), f.instead, centre)}
}

// lost returns the share of runs that lose the best of some means in T rounds, its gap and the level of the others in
// units of the noise, and what Thompson sampling pays; a share of 0 where the law says nothing.
func (f frozenMembers) lost(means []float64, sigma, T float64) (share, gap, level, pays float64) {
	sorted := slices.Sorted(slices.Values(means))
	best := sorted[len(sorted)-1] / sigma
	for _, mu := range sorted[:len(sorted)-1] {
		if d := best - mu/sigma; d > 0 {
			pays += (1 + float64(f.r*f.r)) * logs.Log(T) / d
		}
	}
	level = sorted[len(sorted)-2] / sigma
	gap = best - level
	if !(gap > 0) || T < theory.Learned(len(means), f.r, gap) {
		return 0, gap, level, pays
	}
	few := theory.Few{Best: best, Other: level, Lambda: f.lambda, R: f.r, Draws: f.draws}
	share, err := few.LostAmong(len(means), T)
	if err != nil {
		return 0, gap, level, pays
	}
	if f.size > 0 { // bounded targets: half of the floor on one arm was measured on two (docs/record/stuck.md)
		share = math.Max(share, theory.StuckBounded(f.size, f.first, gap, f.lambda*level)/2)
	}
	return share, gap, level, pays
}

package policy

import (
	"fmt"
	"math"

	"troupe/internal/logs"
)

// fewArms is the largest number of arms that fewWarning speaks of: with more, what one arm's frozen
// members miss is often nearly as good elsewhere, and the bound is about two.
const fewArms = 10

// fewWarning warns where constant scale, few frozen members and a long horizon meet on few arms (thm:few,
// docs/papers/price-of-few.md). There an arm that looked bad at its first pull is lost for good with probability of
// order D^{−e}, e = r²(1+λ), D the number of perturbations that are used while it is not pulled, so that about T·D^{−e}
// rounds are lost on average. It speaks where these are more than 10(1 + log T), a multiple of what Thompson sampling
// needs. r is in units of the noise's σ.
func fewWarning(p Problem, r, lambda, draws float64, instead string) []string {
	if p.Horizon == 0 || p.Arms == 0 || p.Arms > fewArms || !(r > 0) {
		return nil
	}
	T, e := float64(p.Horizon), r*r*(1+lambda)
	if lost := T * math.Exp(-e*logs.Log(draws)); !(lost > 10*(1+logs.Log(T))) {
		return nil
	}
	return []string{fmt.Sprintf("few frozen members at a constant scale on %d arms: in %d rounds some runs never "+
		"find the best arm, "+
		"and their linear regret can outweigh all others in the mean (thm:few); %s", p.Arms, p.Horizon, instead)}
}

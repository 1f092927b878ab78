package policy

import (
	"fmt"

	"troupe/bandit"
	"troupe/rng"
)

// Marginal stores in dst the law of an action over the candidates of a decision too: the mean of the laws
// that p states for n decisions, whose numbers are drawn from draw. Prob is conditional: given the
// candidates of one decision it is a multiple of 1/2m, and 0 for an action that none of them prefers. The
// marginal law does not depend on m. For Atoms with key = "decision" it is that of Thompson sampling.
//
// The result is a count over Total where the laws are counts of one total, with a standard error of at most
// √(p(1−p)/(m·n)) for a probability p over pairs ±g of m members; otherwise it is a mean. A law that does
// not depend on the decision, as with the keys epoch, fixed and round, comes back as it is. Finite sets
// only; on others the error is bandit.ErrUnsupported. It changes nothing in p. Cost: n calls of Prob.
func Marginal(dst *bandit.Law, p bandit.Prober, set bandit.ActionSet, n int, draw rng.Source) error {
	f, ok := set.(bandit.Finite)
	if !ok {
		return fmt.Errorf("policy: a marginal law on %s: %w", described(set), bandit.ErrUnsupported)
	}
	if n < 1 {
		return fmt.Errorf("policy: a marginal law from %d decisions, expected at least 1", n)
	}
	var law bandit.Law
	mean := make([]float64, f.Len())
	counts := make([]uint64, f.Len())
	total := uint64(0)
	numbers := draw.Sub(0)
	for i := range n {
		if err := p.Prob(&law, set, draw.Later(numbers.Uint64(i))); err != nil {
			return err
		}
		if i == 0 {
			total = law.Total
		} else if law.Total != total {
			total = 0
		}
		for k, a := range law.Atoms {
			counts[k] += a.Count
			mean[k] += a.P / float64(n)
		}
	}
	zeros(dst, f.Len())
	if total > 0 {
		for k := range dst.Atoms {
			dst.Atoms[k].Count = counts[k]
		}
		share(dst, total*uint64(n))
		return nil
	}
	dst.Total = 0
	for k := range dst.Atoms {
		dst.Atoms[k].P = mean[k]
	}
	return nil
}

package policy

import (
	"slices"

	"troupe/bandit"
)

// certain writes the law of a policy whose next action is not random.
func certain(dst *bandit.Law, set bandit.ActionSet, choose func(*bandit.Action, bandit.ActionSet) error) error {
	var a bandit.Action
	if err := choose(&a, set); err != nil {
		return err
	}
	if f, ok := set.(bandit.Finite); ok {
		zeros(dst, f.Len())
		dst.Atoms[a.Index].Count = 1
	} else {
		dst.Atoms = append(dst.Atoms[:0], bandit.Atom{Action: a, Count: 1})
	}
	share(dst, 1)
	return nil
}

// count writes the law of a policy that acts greedily for one of total equally likely parameters;
// models calls add with each of them.
func count(dst *bandit.Law, set bandit.ActionSet, total uint64,
	models func(add func(theta []float64) error) error) error {
	if f, ok := set.(bandit.Finite); ok {
		zeros(dst, f.Len())
		var a bandit.Action
		err := models(func(theta []float64) error {
			if _, err := set.ArgMax(&a, theta); err != nil {
				return err
			}
			dst.Atoms[a.Index].Count++
			return nil
		})
		share(dst, total)
		return err
	}
	dst.Atoms = dst.Atoms[:0]
	err := models(func(theta []float64) error {
		var a bandit.Action
		if _, err := set.ArgMax(&a, theta); err != nil {
			return err
		}
		dst.Atoms = append(dst.Atoms, bandit.Atom{Action: a, Count: 1})
		return nil
	})
	if err != nil {
		return err
	}
	gather(dst)
	share(dst, total)
	return nil
}

// gather adds up what a list has of one action, and puts it in lexicographic order.
func gather(dst *bandit.Law) {
	slices.SortFunc(dst.Atoms, func(a, b bandit.Atom) int { return slices.Compare(a.X, b.X) })
	out := dst.Atoms[:0]
	for _, a := range dst.Atoms {
		if n := len(out); n > 0 && slices.Equal(out[n-1].X, a.X) {
			out[n-1].Count += a.Count
		} else {
			out = append(out, a)
		}
	}
	dst.Atoms = out
}

// zeros makes room for k arms of a finite set with count 0.
func zeros(dst *bandit.Law, k int) {
	if cap(dst.Atoms) < k {
		dst.Atoms = make([]bandit.Atom, k)
	}
	dst.Atoms = dst.Atoms[:k]
	for i := range dst.Atoms {
		dst.Atoms[i].X = dst.Atoms[i].X[:0]
		dst.Atoms[i].Index, dst.Atoms[i].Count, dst.Atoms[i].P = i, 0, 0
	}
}

// share turns counts into probabilities.
func share(dst *bandit.Law, total uint64) {
	dst.Total = total
	for i := range dst.Atoms {
		dst.Atoms[i].P = float64(dst.Atoms[i].Count) / float64(total)
	}
}

package env

import (
	"troupe/actionset"
	"troupe/bandit"
	"troupe/internal/lockstep"
	"troupe/rng"
)

// LockStep describes a linear environment to package internal/lockstep. ok is false for one whose
// means or sets change, whose set is not finite, whose equal arms share, or in which an arm has no finite mean.
func (e *linear) LockStep(key rng.Key) (l lockstep.Environment, ok bool) {
	if _, ok := e.offers.(fixed); !ok || e.drift != 0 || e.jump != nil {
		return l, false
	}
	set, err := e.Offer(key.Stream(rng.Offer).Round(1))
	if err != nil {
		return l, false
	}
	if _, shared := set.(*actionset.Shared); shared {
		return l, false
	}
	list, ok := set.(bandit.Finite)
	if !ok || list.Len() > lockstep.MostArms {
		return l, false
	}
	l = lockstep.Environment{Set: set, Noise: e.noise, Arms: make([]lockstep.Arm, list.Len())}
	if e.gauss != nil {
		l.Std = e.gauss.Std
	}
	for i := range l.Arms {
		a := bandit.Action{X: list.At(i), Index: i}
		if l.Arms[i].Mean, err = e.meanOf(a); err != nil {
			return l, false
		}
		if l.Arms[i].Regret, err = e.Regret(a); err != nil {
			return l, false
		}
	}
	return l, true
}

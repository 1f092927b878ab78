package lockstep

import (
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// Environment describes an environment that offers one finite set for ever: the means and the
// regrets of its arms are a table.
type Environment struct {
	Set   bandit.ActionSet
	Arms  []Arm // one for each arm of the set
	Noise Noise // equal values pay the same reward for the same mean and source
	// Std is the standard deviation of Gaussian noise: then the reward is mean + Std·Z, Z number 0
	// of the round. 0 for other noise.
	Std float64
}

// Arm is the mean and the regret of an arm.
type Arm struct{ Mean, Regret float64 }

// Noise pays a reward around a mean.
type Noise interface {
	Pay(mean float64, draw rng.Source) float64
}

// steady is implemented by environments that may take part. ok is false when this one does not.
type steady interface {
	LockStep(key rng.Key) (e Environment, ok bool)
}

// environments is up to eight environments side by side. A replication is paid, bit for bit, what
// its environment pays alone.
type environments struct {
	sets  []bandit.ActionSet
	table []float64 // mean and regret of every arm: K×2 batches
	noise Noise
	std   float64    // of Gaussian noise
	z     *rng.Batch // its numbers; nil for other noise
	pay   [Lanes]rng.Stream
	found []float64 // two batches: mean and regret of the arms at hand
}

// MostArms is the length of a list that is not worth playing in lock-step: see linalg.BatchesPay.
const MostArms = 8192

// newEnvironments puts environments side by side: of[l] draws from the stream Reward of keys[l]. It
// returns nil where one of them cannot take part, has more than 8192 arms, or differs from the first
// in the number of arms or in the noise.
func newEnvironments(of []bandit.Environment, keys []rng.Key) *environments {
	if len(of) < 1 || len(of) > Lanes || len(keys) != len(of) {
		panic("lockstep: one to eight environments, and as many keys")
	}
	o := &environments{found: make([]float64, 64)[:2*Lanes]}
	var streams []rng.Stream
	for l, world := range of {
		s, ok := world.(steady)
		if !ok {
			return nil
		}
		e, ok := s.LockStep(keys[l])
		if !ok || len(e.Arms) > MostArms {
			return nil
		}
		size := len(e.Arms) * 2 * Lanes
		if l == 0 {
			o.table, o.noise = make([]float64, max(size, 64))[:size], e.Noise
			o.std = e.Std
		}
		if size != len(o.table) || e.Noise != o.noise {
			return nil
		}
		for i, arm := range e.Arms {
			o.table[2*i*Lanes+l], o.table[(2*i+1)*Lanes+l] = arm.Mean, arm.Regret
		}
		o.sets = append(o.sets, e.Set)
		streams = append(streams, keys[l].Stream(rng.Reward))
	}
	for l := len(of); l < Lanes; l++ { // lanes without a replication copy the first
		for i := l; i < len(o.table); i += Lanes {
			o.table[i] = o.table[i-l]
		}
	}
	if o.std > 0 {
		o.z = rng.NewBatch(streams)
	}
	for l := range o.pay {
		o.pay[l] = streams[0]
		if l < len(streams) {
			o.pay[l] = streams[l]
		}
	}
	return o
}

// Pay stores the rewards and the regrets of the arms of round t.
func (o *environments) Pay(y, regret *[Lanes]float64, arms *[Lanes]int, t uint64) {
	linalg.BatchPick(o.found, o.table, arms)
	mean := (*[Lanes]float64)(o.found)
	*regret = [Lanes]float64(o.found[Lanes:])
	if o.z != nil {
		for l, z := range o.z.Normals(t) {
			y[l] = mean[l] + float64(o.std*z)
		}
		return
	}
	for l := range y {
		y[l] = o.noise.Pay(mean[l], o.pay[l].Round(t))
	}
}

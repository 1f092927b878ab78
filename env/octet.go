package env

import (
	"troupe/bandit"
	"troupe/internal/linalg"
	"troupe/rng"
)

// Octet is up to eight linear environments, one for each replication, side by side: each offers one finite
// set for ever, so the means and the regrets of its arms are a table. A replication is paid, bit for bit,
// what its environment pays alone. Not safe for concurrent use.
type Octet struct {
	sets  []bandit.ActionSet
	table []float64 // mean and regret of every arm: K×2 octets
	noise Law
	std   float64    // of Gaussian noise
	z     *rng.Octet // its numbers; nil for other noise
	pay   [rng.Eight]rng.Stream
	found []float64 // two octets: mean and regret of the arms at hand
}

// octetArms is the length of a list that nobody wants to play in lock-step: see linalg.OctetsPay.
const octetArms = 8192

// NewOctet puts environments side by side, one for each replication: of[l] draws from the stream Reward of
// keys[l]. It returns nil where that is not possible: other environments than linear ones of the same
// noise, with finite sets of equal length, 8192 arms at most, and means that stay as they are, all of them in order.
func NewOctet(of []bandit.Environment, keys []rng.Key) *Octet {
	if len(of) < 1 || len(of) > rng.Eight || len(keys) != len(of) {
		panic("env: NewOctet: one to eight environments, and as many keys")
	}
	o := &Octet{found: make([]float64, 64)[:2*rng.Eight]}
	var streams []rng.Stream
	for l, world := range of {
		e, ok := world.(*linear)
		if !ok || e.drift != 0 {
			return nil
		}
		if _, ok := e.offers.(fixed); !ok {
			return nil
		}
		set, err := e.Offer(keys[l].Stream(rng.Offer).Round(1))
		if err != nil {
			return nil
		}
		list, ok := set.(bandit.Finite)
		if !ok || list.Len() > octetArms {
			return nil
		}
		if l == 0 {
			o.table, o.noise = make([]float64, max(list.Len()*2, 8)*rng.Eight)[:list.Len()*2*rng.Eight], e.noise
		}
		if list.Len()*2*rng.Eight != len(o.table) || e.noise != o.noise {
			return nil
		}
		for i := range list.Len() {
			a := bandit.Action{X: list.At(i), Index: i}
			mean, err := e.meanOf(a)
			if err != nil {
				return nil
			}
			regret, err := e.Regret(a)
			if err != nil {
				return nil
			}
			o.table[2*i*rng.Eight+l], o.table[(2*i+1)*rng.Eight+l] = mean, regret
		}
		o.sets = append(o.sets, set)
		streams = append(streams, keys[l].Stream(rng.Reward))
	}
	for l := len(of); l < rng.Eight; l++ { // lanes without a replication copy the first
		for i := l; i < len(o.table); i += rng.Eight {
			o.table[i] = o.table[i-l]
		}
	}
	if g, ok := o.noise.(*Gaussian); ok {
		o.std, o.z = g.Std, rng.NewOctet(streams)
	}
	for l := range o.pay {
		o.pay[l] = streams[0]
		if l < len(streams) {
			o.pay[l] = streams[l]
		}
	}
	return o
}

// Sets returns the action sets, one for each environment.
func (o *Octet) Sets() []bandit.ActionSet { return o.sets }

// Pay stores the rewards and the regrets of the arms of round t.
func (o *Octet) Pay(y, regret *[rng.Eight]float64, arms *[rng.Eight]int, t uint64) {
	linalg.OctetPick(o.found, o.table, arms)
	mean := (*[rng.Eight]float64)(o.found)
	*regret = [rng.Eight]float64(o.found[rng.Eight:])
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

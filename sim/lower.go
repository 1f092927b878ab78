package sim

import (
	"context"
	"fmt"
	"sync"

	"troupe/bandit"
	"troupe/dataset"
	"troupe/env"
	"troupe/rng"
	"troupe/theory"
)

// InstanceLower is the asymptotic lower bound of an environment over the instances of a run.
type InstanceLower struct {
	Environment string
	N           int     // instances
	Mean        float64 // of the constants c: no consistent policy has less regret than c·log T·(1 + o(1)) on each
	Gap         float64 // the largest gap of a constant, as a share of it
	Why         string  // why there is none; then the rest is 0
}

// InstanceLowers computes theory.InstanceLower for the instances of all replications, on all processors. It exists
// for linear environments with a fixed finite set of at most 300 arms, Gaussian noise, and neither drift nor
// misspecification.
func InstanceLowers(ctx context.Context, x *Experiment, data *dataset.Source) ([]InstanceLower, error) {
	r := newRunner(x, Options{Data: data})
	var out []InstanceLower
	for e := range x.Environments {
		l, err := r.instanceLower(ctx, e)
		if err != nil {
			return nil, err
		}
		out = append(out, l)
	}
	return out, nil
}

func (r *runner) instanceLower(ctx context.Context, e int) (InstanceLower, error) {
	c := &r.x.Environments[e]
	out := InstanceLower{Environment: c.Name}
	o, ok := c.Options.(*env.LinearOptions)
	switch {
	case !ok:
		out.Why = "it is not of kind linear"
	case o.Drift != 0 || o.Every != 0 || o.From != 0 || o.Misspecification != 0:
		out.Why = "it has drift or misspecification"
	}
	var sigma float64
	if ok {
		g, gaussian := o.Noise.Law.(*env.Gaussian)
		if !gaussian {
			out.Why = "its noise is not Gaussian"
		} else {
			sigma = g.Std
		}
	}
	if out.Why != "" {
		return out, nil
	}
	bounds := make([]theory.InstanceBound, r.x.Replications)
	errs := make([]error, r.x.Replications)
	var workers sync.WaitGroup
	for w := range r.o.Workers {
		workers.Go(func() {
			for rep := w; rep < len(bounds) && ctx.Err() == nil; rep += r.o.Workers {
				bounds[rep], errs[rep] = r.lowerOf(o, r.x.KeyOf(e, rep+1), sigma)
			}
		})
	}
	workers.Wait()
	if ctx.Err() != nil {
		return out, ErrInterrupted
	}
	for rep, b := range bounds {
		if errs[rep] != nil {
			return InstanceLower{Environment: c.Name, Why: fmt.Sprintf("replication %d: %v", rep+1, errs[rep])}, nil
		}
		out.N++
		out.Mean += b.Value / float64(len(bounds))
		if b.Value > 0 {
			out.Gap = max(out.Gap, b.Gap/b.Value)
		}
	}
	return out, nil
}

// lowerOf returns the bound of one replication.
func (r *runner) lowerOf(o *env.LinearOptions, key rng.Key, sigma float64) (theory.InstanceBound, error) {
	world, err := o.Build(key, r.facts.data)
	if err != nil {
		return theory.InstanceBound{}, err
	}
	offer := key.Stream(rng.Offer)
	set, err := world.Offer(offer.Round(1))
	if err != nil {
		return theory.InstanceBound{}, err
	}
	list, ok := set.(bandit.Finite)
	if !ok {
		return theory.InstanceBound{}, fmt.Errorf("the set is not finite")
	}
	var arms [][]float64
	for i := range min(list.Len(), theory.MaxInstanceArms+1) {
		arms = append(arms, append([]float64(nil), list.At(i)...))
	}
	if next, err := world.Offer(offer.Round(2)); err != nil || next != set {
		return theory.InstanceBound{}, fmt.Errorf("the set changes from round to round")
	}
	truth, ok := world.(env.Truth)
	if !ok {
		return theory.InstanceBound{}, fmt.Errorf("the environment has no θ*")
	}
	return theory.InstanceLower(arms, truth.Theta(), sigma)
}

package worlds

import (
	"fmt"
	"slices"
)

// Player chooses actions. Decisions have the numbers 0, 1, 2, … in the order of the calls of Decide. Rewards come in
// any order, also never; a decision gets at most one Reward or Skip. An error ends the play.
type Player interface {
	// Decide returns the place of the chosen action and the law that it was drawn from, nil where the player states
	// none. What it returns is valid until the next call.
	Decide(context Object, actions []Action) (choice int, law []float64, err error)
	// Reward learns the reward of a decision.
	Reward(decision int, y float64) error
	// Skip says that the window of a decision closed without a reward.
	Skip(decision int) error
}

// Windowed is a player whose reward windows close by its own clock, as those of a server do: Play says nothing of a
// window that closes, neither by Reward nor by Skip.
type Windowed interface{ OwnWindows() }

// Stater is a player that states changes of the rewards.
type Stater interface {
	// Stated returns how many changes were stated so far.
	Stated() int
}

// Result is what a player got in a world.
type Result struct {
	World  *World
	Chosen []int // the place that was chosen, for each decision
	Stated []int // decisions before which a change was stated
	Wild   []int // decisions before which a wild value arrived

	got, uniform, best []float64 // sums of the means before each decision, and in the end
}

// Play lets a player decide a world whose rewards come from a client. It panics on a choice or a law that is none. On an
// error of the player the result has the decisions before it.
func Play(w *World, c Client, p Player) (*Result, error) {
	n := len(w.Decisions)
	r := &Result{World: w, got: make([]float64, 1, n+1), uniform: make([]float64, 1, n+1), best: make([]float64, 1, n+1)}
	s := c.Start(w.Seed)
	stater, _ := p.(Stater)
	_, windowed := p.(Windowed)
	arrives := func(decision int, y float64, how Arrival) error {
		switch {
		case how != Sent && windowed:
			return nil
		case how == Lost:
			return p.Skip(decision)
		}
		return p.Reward(decision, y)
	}
	stated := 0
	for t := range w.Decisions {
		d := &w.Decisions[t]
		i, law, err := p.Decide(d.Context, d.Actions)
		if err != nil {
			return r, err
		}
		checkLaw(t, i, law, len(d.Actions))
		sum := 0.
		for _, m := range d.Means {
			sum += m
		}
		r.Chosen = append(r.Chosen, i)
		r.got = append(r.got, r.got[t]+d.Means[i])
		r.uniform = append(r.uniform, r.uniform[t]+sum/float64(len(d.Means)))
		r.best = append(r.best, r.best[t]+slices.Max(d.Means))
		s.Played(t, d.Rewards[i])
		was := s.odd
		if err := s.Due(t, arrives); err != nil {
			return r, err
		}
		if s.odd > was {
			r.Wild = append(r.Wild, t+1)
		}
		if stater != nil {
			for now := stater.Stated(); stated < now; stated++ {
				r.Stated = append(r.Stated, t+1)
			}
		}
	}
	return r, nil
}

func checkLaw(t, choice int, law []float64, k int) {
	if choice < 0 || choice >= k || law != nil && len(law) != k {
		panic(fmt.Sprintf("worlds: decision %d: choice %d and a law of %d for %d actions", t, choice, len(law), k))
	}
	if law == nil {
		return
	}
	sum := 0.
	for _, p := range law {
		if !(p >= 0) {
			panic(fmt.Sprintf("worlds: decision %d: the law has the probability %v", t, p))
		}
		sum += p
	}
	if !(sum > 1-1e-9 && sum < 1+1e-9) || law[choice] == 0 {
		panic(fmt.Sprintf("worlds: decision %d: the law sums to %v, and the choice has the probability %v", t, sum, law[choice]))
	}
}

// Share returns the share of the possible, (got − uniform)/(best − uniform), over decisions from to to, by their means:
// 0 is uniform play, 1 the best actions. to beyond the end is the end.
func (r *Result) Share(from, to int) float64 {
	to = min(to, len(r.got)-1)
	if from < 0 || from >= to {
		panic(fmt.Sprintf("worlds: a share of decisions %d to %d", from, to))
	}
	u := r.uniform[to] - r.uniform[from]
	return (r.got[to] - r.got[from] - u) / (r.best[to] - r.best[from] - u)
}

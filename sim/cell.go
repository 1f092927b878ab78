package sim

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"troupe/bandit"
	"troupe/policy"
	"troupe/rng"
)

// cell numbers one environment × policy × replication from 0.
type cell struct{ e, p, r int }

// finished is what a worker hands over.
type finished struct {
	cell
	entry entry
	err   error
}

// errAbandoned ends a cell that was under way when the grace was over.
var errAbandoned = errors.New("abandoned")

// player plays cells. Workers share it.
type player struct {
	x      *Experiment
	facts  *rehearsal
	states *states
	rounds atomic.Int64   // played in this session
	lost   []atomic.Int32 // policy: cells that failed, where it is a program
}

// build makes the environment and the policy of a cell, which takes turns with others unless that is nil.
func (r *player) build(c cell, others policy.Turns) (bandit.Environment, bandit.Policy, rng.Key, error) {
	key := r.x.KeyOf(c.e, c.r+1)
	world, err := r.x.Environments[c.e].Options.Build(key, r.facts.data)
	if err != nil {
		return nil, nil, key, err
	}
	problem := r.facts.problem(world, c.e, key)
	problem.Turns = others
	pol, err := r.x.Policies[c.p].Options.New(problem)
	if err != nil {
		leave(world)
	}
	return world, pol, key, err
}

// play plays one cell, from the start that is known for it or from round 1. It runs on a worker and only reads
// the runner.
func (r *player) play(hard context.Context, c cell) (entry, error) {
	return r.playTurn(hard, c, nil)
}

// playTurn is play of a cell that takes turns, unless others is nil.
func (r *player) playTurn(hard context.Context, c cell, others *turn) (entry, error) {
	x := r.x
	if x.Episodic() {
		return r.playEpisodes(hard, c)
	}
	started := time.Now()
	var take policy.Turns
	seconds := func() float64 { return time.Since(started).Seconds() }
	if others != nil {
		take, seconds = others, func() float64 { return (time.Since(started) - others.away).Seconds() }
	}
	world, pol, key, err := r.build(c, take)
	if err != nil {
		return entry{}, err
	}
	defer leave(world)
	defer leave(pol)
	start := r.states.start(c)
	if start.At > 0 {
		if restore(pol, start) != nil { // whatever it is, it is no state of this policy
			start = new(entry)
		}
	}
	var notes *diary
	if len(x.Record) > 0 {
		set, err := world.Offer(key.Stream(rng.Offer).Round(1)) // asked again, it gives the same set
		if err != nil {
			return entry{}, err
		}
		if notes = x.newDiary(world, set, pol, deltaOf(x.Policies[c.p].Table), x.HorizonOf(c.e)); notes != nil {
			pol = notes.who
		}
	}
	if late := x.Environments[c.e].Late; late != nil {
		pol = newLate(pol, late, key)
	}
	w := r.recorder(hard, c, pol, start, seconds)
	w.diary = notes
	if err := playFrom(world, pol, key, start.At, x.HorizonOf(c.e), w); err != nil {
		if !errors.Is(err, errAbandoned) {
			r.rounds.Add(int64(start.At - w.look.counted)) // no cell has them
		}
		return entry{}, err
	}
	r.rounds.Add(int64(x.HorizonOf(c.e) - w.look.counted))
	w.entry.Seconds = start.Seconds + seconds()
	w.entry.State = r.states.state(c, pol, w.entry.Seconds)
	if notes != nil {
		w.entry.Also = notes.values
	}
	return w.entry, nil
}

// recorder makes the recorder of a cell that goes on from start; seconds says how long it has been played.
func (r *player) recorder(hard context.Context, c cell, pol bandit.Policy, start *entry,
	seconds func() float64) *recorder {
	w := &recorder{
		at:     r.x.CheckpointsOf(c.e),
		regret: start.Sums[0],
		reward: start.Sums[1],
		stop:   hard.Done(),
		rounds: &r.rounds,
		look:   newLook(start.At),
		entry: entry{
			Regret: append(make([]float64, 0, len(r.x.CheckpointsOf(c.e))), start.Regret...),
			Reward: append(make([]float64, 0, len(r.x.CheckpointsOf(c.e))), start.Reward...),
		},
	}
	if r.states.saves(c) {
		w.save = func(at int) error {
			done := w.entry
			done.Seconds = start.Seconds + seconds()
			return r.states.save(c, pol, done, at, w.regret, w.reward)
		}
	}
	return w
}

// recorder sums regret and reward and keeps the sums at the checkpoints.
type recorder struct {
	at             []int
	regret, reward float64
	entry          entry
	diary          *diary // nil when nothing more is asked for
	stop           <-chan struct{}
	rounds         *atomic.Int64
	look           look
	save           func(at int) error // writes the cell under way; nil where that is not possible
}

// countEvery is the largest number of rounds between two looks at the clock outside.
const countEvery = 256

// Round implements Observer. The policy has not learned the reward of round t yet.
func (w *recorder) Round(t int, regret, reward float64) error {
	if t-1 >= w.look.next {
		if err := w.glance(t - 1); err != nil {
			return err
		}
	}
	w.regret += regret
	w.reward += reward
	mark := t == w.at[len(w.entry.Regret)]
	if w.diary != nil {
		if err := w.diary.round(t, regret, reward, mark); err != nil {
			return err
		}
	}
	if mark {
		if !finite(w.regret) || !finite(w.reward) {
			return fmt.Errorf("the sum of the rewards is %v, that of the regrets %v: %w", w.reward, w.regret,
				bandit.ErrNotFinite)
		}
		w.entry.Regret = append(w.entry.Regret, w.regret)
		w.entry.Reward = append(w.entry.Reward, w.reward)
	}
	return nil
}

// glance counts the rounds played, writes the cell when that is due, and ends it when it is abandoned.
func (w *recorder) glance(played int) error {
	rounds, save := w.look.due(played)
	w.rounds.Add(int64(rounds))
	stopped := false
	select {
	case <-w.stop:
		stopped = true
	default:
	}
	if w.save != nil && (save || stopped) {
		began := time.Now()
		if err := w.save(played); err != nil {
			return err
		}
		w.look.wrote(began)
	}
	if stopped {
		return errAbandoned
	}
	return nil
}

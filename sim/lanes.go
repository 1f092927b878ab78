package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"troupe/bandit"
	"troupe/internal/lockstep"
	"troupe/rng"
)

// This file is all that the runner knows of lock-step: several cells of one environment and one
// policy as one job, which package internal/lockstep plays with the numbers of one cell at a time.

// lanes is such a job.
type lanes []cell

// first implements job.
func (l lanes) first() int { return l[0].r }

// play implements job. Cells that cannot be played together are played one by one.
func (l lanes) play(r *runner, s *session) { playOr(r, s, l, r.playTogether) }

// playOr hands in what together plays, and plays the cells one by one where that is an error.
func playOr(r *runner, s *session, cells []cell, together func(context.Context, []cell) ([]finished, error)) {
	done, err := together(s.hard, cells)
	if err == nil {
		for _, f := range done {
			s.out <- f
		}
		return
	}
	for _, c := range cells {
		if s.soft.Err() != nil {
			return
		}
		c.play(r, s)
	}
}

// able reports whether replications of this kind can be played in lock-step.
func (r *runner) able(world bandit.Environment, pol bandit.Policy, key rng.Key) bool {
	return len(r.x.Record) == 0 && lockstep.New([]bandit.Environment{world}, []bandit.Policy{pol},
		[]rng.Key{key}) != nil
}

// group cuts the open cells of one environment and one policy into jobs: as many cells together as
// there are lanes, as long as every worker has something to do.
func (r *runner) group(open []cell) (jobs []job) {
	if len(open) == 0 {
		return nil
	}
	at := func(c cell) int { return r.start(c).At }
	slices.SortStableFunc(open, func(a, b cell) int { return at(a) - at(b) })
	width, fair := 1, (r.want-r.done+r.o.Workers-1)/r.o.Workers
	turn := r.byTurns(open[0].e, open[0].p)
	switch {
	case turn:
		width = min(mostTurns, fair)
	case r.together[open[0].e*len(r.x.Policies)+open[0].p]:
		width = min(lockstep.Lanes, fair)
	}
	for len(open) > 0 {
		n := 1
		for n < min(width, len(open)) && (turn || at(open[n]) == at(open[0])) {
			n++
		}
		switch {
		case turn:
			jobs = append(jobs, turns(open[:n:n]))
		case n == 1:
			jobs = append(jobs, open[0])
		default:
			jobs = append(jobs, lanes(open[:n:n]))
		}
		open = open[n:]
	}
	return jobs
}

// batchWorth is the number of cells that a worker plays one by one in less than the time of a full
// batch, which is that of 2.8 at d = 10 with AVX-512 and more at other sizes and levels.
const batchWorth = 2

// spread hands out the cells of the last turn one by one, where there are fewer jobs than workers
// and that is not longer than a batch.
func (r *runner) spread(jobs []job) []job {
	last := jobs[len(jobs)-len(jobs)%r.o.Workers:]
	if parts := split(last, r.o.Workers); len(parts) > len(last) {
		return append(jobs[:len(jobs)-len(last):len(jobs)-len(last)], parts...)
	}
	var cells []job
	for _, j := range last {
		switch j := j.(type) {
		case lanes:
			for _, c := range j {
				cells = append(cells, c)
			}
		case turns:
			for i := range j {
				cells = append(cells, j[i:i+1:i+1])
			}
		default:
			cells = append(cells, j)
		}
	}
	if len(cells) > len(last) && len(cells) <= batchWorth*r.o.Workers {
		return append(jobs[:len(jobs)-len(last):len(jobs)-len(last)], cells...)
	}
	return jobs
}

// playTogether plays cells of one environment and one policy in lock-step. An error means that they
// must be played one by one: they cannot be put side by side, or one of them fails. Cells that were
// abandoned say so in their own error. It runs on a worker and only reads the runner.
func (r *runner) playTogether(hard context.Context, cells []cell) ([]finished, error) {
	started := time.Now()
	batch, policies, err := r.batch(cells)
	if err != nil {
		return nil, err
	}
	horizon, checkpoints := r.x.HorizonOf(cells[0].e), r.x.CheckpointsOf(cells[0].e)
	width := int64(len(cells))
	done := make([]finished, len(cells))
	var regrets, rewards [lockstep.Lanes]float64
	for i, c := range cells {
		start := r.start(c)
		regrets[i], rewards[i] = start.Sums[0], start.Sums[1]
		done[i] = finished{cell: c, entry: entry{
			Regret: append(make([]float64, 0, len(checkpoints)), start.Regret...),
			Reward: append(make([]float64, 0, len(checkpoints)), start.Reward...),
		}}
	}
	from := r.start(cells[0]).At
	next, counted, look := len(done[0].entry.Regret), int64(0), newLook(from)
	save := func(at int) error {
		batch.Part()
		seconds := time.Since(started).Seconds() / float64(width)
		for i, f := range done {
			f.entry.Seconds = r.start(f.cell).Seconds + seconds
			if err := r.save(f.cell, policies[i], f.entry, at, regrets[i], rewards[i]); err != nil {
				return err
			}
		}
		return nil
	}
	glance := func(played int) error {
		rounds, due := look.due(played)
		counted += int64(rounds) * width
		r.rounds.Add(int64(rounds) * width)
		stopped := hard.Err() != nil
		if (due || stopped) && r.saves(cells[0]) {
			began := time.Now()
			if err := save(played); err != nil {
				return err
			}
			look.wrote(began)
		}
		if stopped {
			return errAbandoned
		}
		return nil
	}
	err = batch.Play(from, horizon, func(t int, regret, reward *[lockstep.Lanes]float64) error {
		if t-1 >= look.next {
			if err := glance(t - 1); err != nil {
				return err
			}
		}
		for l := range regrets {
			regrets[l] += regret[l]
			rewards[l] += reward[l]
		}
		if t == checkpoints[next] {
			next++
			for i := range done {
				if !finite(regrets[i]) || !finite(rewards[i]) {
					return bandit.ErrNotFinite
				}
				done[i].entry.Regret = append(done[i].entry.Regret, regrets[i])
				done[i].entry.Reward = append(done[i].entry.Reward, rewards[i])
			}
		}
		return nil
	})
	switch {
	case errors.Is(err, errAbandoned):
		for i := range done {
			done[i].err = err
		}
		return done, nil
	case err != nil:
		r.rounds.Add(-counted)
		return nil, err
	}
	r.rounds.Add(int64(horizon-look.counted) * width)
	share := time.Since(started).Seconds() / float64(width)
	batch.Part()
	for i := range done {
		done[i].entry.Seconds = r.start(done[i].cell).Seconds + share
		done[i].entry.State = r.state(done[i].cell, policies[i], done[i].entry.Seconds)
	}
	return done, nil
}

// batch builds the environments and the policies of cells, in the state they go on from, and puts them side by
// side.
func (r *runner) batch(cells []cell) (*lockstep.Batch, []bandit.Policy, error) {
	var worlds []bandit.Environment
	var policies []bandit.Policy
	var keys []rng.Key
	for _, c := range cells {
		world, pol, key, err := r.build(c, nil)
		if err != nil {
			return nil, nil, err
		}
		if start := r.start(c); start.At > 0 {
			if err := restore(pol, start); err != nil {
				return nil, nil, err
			}
		}
		worlds, policies, keys = append(worlds, world), append(policies, pol), append(keys, key)
	}
	if b := lockstep.New(worlds, policies, keys); b != nil {
		return b, policies, nil
	}
	return nil, nil, lockstep.ErrAlone
}

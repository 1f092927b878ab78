package sim

import (
	"context"
	"errors"
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
func (l lanes) play(r *runner, s *session) {
	done, err := r.playTogether(s.hard, l)
	if err == nil {
		for _, f := range done {
			s.out <- f
		}
		return
	}
	for _, c := range l {
		if s.soft.Err() != nil {
			return
		}
		c.play(r, s)
	}
}

// able reports whether replications of this kind can be played in lock-step.
func (r *runner) able(world bandit.Environment, pol bandit.Policy, key rng.Key) bool {
	return len(r.x.Record) == 0 && lockstep.New([]bandit.Environment{world}, []bandit.Policy{pol}, []rng.Key{key}) != nil
}

// group cuts the open cells of one environment and one policy into jobs: as many cells together as
// there are lanes, as long as every worker has something to do.
func (r *runner) group(open []cell) (jobs []job) {
	if len(open) == 0 {
		return nil
	}
	width := 1
	if r.together[open[0].e*len(r.x.Policies)+open[0].p] {
		width = min(lockstep.Lanes, (len(r.cells)-r.done+r.o.Workers-1)/r.o.Workers)
	}
	for len(open) > 0 {
		n := min(width, len(open))
		if n == 1 {
			jobs = append(jobs, open[0])
		} else {
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
	var cells []job
	for _, j := range last {
		switch j := j.(type) {
		case lanes:
			for _, c := range j {
				cells = append(cells, c)
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
	batch, err := r.batch(cells)
	if err != nil {
		return nil, err
	}
	x, width := r.x, int64(len(cells))
	done := make([]finished, len(cells))
	for i, c := range cells {
		done[i] = finished{cell: c, entry: entry{
			Regret: make([]float64, 0, len(x.Checkpoints)),
			Reward: make([]float64, 0, len(x.Checkpoints)),
		}}
	}
	var regrets, rewards [lockstep.Lanes]float64
	next, counted := 0, int64(0)
	err = batch.Play(x.Horizon, func(t int, regret, reward *[lockstep.Lanes]float64) error {
		for l := range regrets {
			regrets[l] += regret[l]
			rewards[l] += reward[l]
		}
		if t == x.Checkpoints[next] {
			next++
			for i := range done {
				if !finite(regrets[i]) || !finite(rewards[i]) {
					return bandit.ErrNotFinite
				}
				done[i].entry.Regret = append(done[i].entry.Regret, regrets[i])
				done[i].entry.Reward = append(done[i].entry.Reward, rewards[i])
			}
		}
		if t%countEvery == 0 {
			counted += countEvery * width
			r.rounds.Add(countEvery * width)
			select {
			case <-hard.Done():
				return errAbandoned
			default:
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
	r.rounds.Add(int64(x.Horizon%countEvery) * width)
	share := time.Since(started).Seconds() / float64(width)
	for i := range done {
		done[i].entry.Seconds = share
	}
	return done, nil
}

// batch builds the environments and the policies of cells and puts them side by side.
func (r *runner) batch(cells []cell) (*lockstep.Batch, error) {
	var worlds []bandit.Environment
	var policies []bandit.Policy
	var keys []rng.Key
	for _, c := range cells {
		world, pol, key, err := r.build(c)
		if err != nil {
			return nil, err
		}
		worlds, policies, keys = append(worlds, world), append(policies, pol), append(keys, key)
	}
	if b := lockstep.New(worlds, policies, keys); b != nil {
		return b, nil
	}
	return nil, lockstep.ErrAlone
}

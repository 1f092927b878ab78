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
func (l lanes) play(p *player, s *session) { playOr(p, s, l, p.playTogether) }

// playOr hands in what together plays, and plays the cells one by one where that is an error.
func playOr(p *player, s *session, cells []cell, together func(context.Context, []cell) ([]finished, error)) {
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
		c.play(p, s)
	}
}

// able reports whether replications of this kind can be played in lock-step.
func (x *Experiment) able(world bandit.Environment, pol bandit.Policy, key rng.Key) bool {
	return len(x.Record) == 0 && lockstep.New([]bandit.Environment{world}, []bandit.Policy{pol},
		[]rng.Key{key}) != nil
}

// group cuts the open cells of one environment and one policy into jobs: as many cells together as
// there are lanes, as long as every worker has something to do.
func (r *runner) group(open []cell) (jobs []job) {
	if len(open) == 0 {
		return nil
	}
	at := func(c cell) int { return r.states.start(c).At }
	slices.SortStableFunc(open, func(a, b cell) int { return at(a) - at(b) })
	width, fair := 1, (r.part.want-r.table.done+r.o.Workers-1)/r.o.Workers
	turn := r.x.byTurns(open[0].e, open[0].p)
	switch {
	case turn:
		width = min(mostTurns, fair)
	case r.facts.together[open[0].e*len(r.x.Policies)+open[0].p]:
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
func (r *player) playTogether(hard context.Context, cells []cell) ([]finished, error) {
	p := &together{player: r, hard: hard, started: time.Now(), done: make([]finished, len(cells)),
		checkpoints: r.x.CheckpointsOf(cells[0].e)}
	var batch *lockstep.Batch
	var err error
	if batch, p.policies, err = r.batch(cells); err != nil {
		return nil, err
	}
	p.batch = batch
	from, horizon := p.begin(cells), r.x.HorizonOf(cells[0].e)
	switch err = batch.Play(from, horizon, p.round); {
	case errors.Is(err, errAbandoned):
		for i := range p.done {
			p.done[i].err = err
		}
		return p.done, nil
	case err != nil:
		r.rounds.Add(-p.counted)
		return nil, err
	}
	r.rounds.Add(int64(horizon-p.look.counted) * int64(len(cells)))
	p.end()
	return p.done, nil
}

// together is how far cells in lock-step are.
type together struct {
	player   *player
	hard     context.Context
	started  time.Time
	batch    *lockstep.Batch
	policies []bandit.Policy
	done     []finished // one for each cell

	regrets, rewards [lockstep.Lanes]float64 // the sums so far
	checkpoints      []int
	next             int   // checkpoint
	counted          int64 // rounds that the runner knows of
	look             look
}

// begin takes the cells up where they were left, and returns the round.
func (p *together) begin(cells []cell) (from int) {
	for i, c := range cells {
		start := p.player.states.start(c)
		p.regrets[i], p.rewards[i] = start.Sums[0], start.Sums[1]
		p.done[i] = finished{cell: c, entry: entry{
			Regret: append(make([]float64, 0, len(p.checkpoints)), start.Regret...),
			Reward: append(make([]float64, 0, len(p.checkpoints)), start.Reward...),
		}}
	}
	from = p.player.states.start(cells[0]).At
	p.next, p.look = len(p.done[0].entry.Regret), newLook(from)
	return from
}

// round takes the outcome of round t.
func (p *together) round(t int, regret, reward *[lockstep.Lanes]float64) error {
	if t-1 >= p.look.next {
		if err := p.glance(t - 1); err != nil {
			return err
		}
	}
	for l := range p.regrets {
		p.regrets[l] += regret[l]
		p.rewards[l] += reward[l]
	}
	if t == p.checkpoints[p.next] {
		p.next++
		for i := range p.done {
			if !finite(p.regrets[i]) || !finite(p.rewards[i]) {
				return bandit.ErrNotFinite
			}
			p.done[i].entry.Regret = append(p.done[i].entry.Regret, p.regrets[i])
			p.done[i].entry.Reward = append(p.done[i].entry.Reward, p.rewards[i])
		}
	}
	return nil
}

// glance looks up from the rounds: it counts them, saves the cells when that is due, and stops when it is asked to.
func (p *together) glance(played int) error {
	rounds, due := p.look.due(played)
	n := int64(rounds) * int64(len(p.done))
	p.counted += n
	p.player.rounds.Add(n)
	stopped := p.hard.Err() != nil
	if (due || stopped) && p.player.states.saves(p.done[0].cell) {
		began := time.Now()
		if err := p.save(played); err != nil {
			return err
		}
		p.look.wrote(began)
	}
	if stopped {
		return errAbandoned
	}
	return nil
}

// share is the time of one cell so far, in seconds.
func (p *together) share() float64 { return time.Since(p.started).Seconds() / float64(len(p.done)) }

// save keeps the cells as they are after a round.
func (p *together) save(at int) error {
	p.batch.Part()
	seconds := p.share()
	for i, f := range p.done {
		f.entry.Seconds = p.player.states.start(f.cell).Seconds + seconds
		if err := p.player.states.save(f.cell, p.policies[i], f.entry, at, p.regrets[i], p.rewards[i]); err != nil {
			return err
		}
	}
	return nil
}

// end completes the cells after their last round.
func (p *together) end() {
	share := p.share()
	p.batch.Part()
	for i := range p.done {
		f := &p.done[i]
		f.entry.Seconds = p.player.states.start(f.cell).Seconds + share
		f.entry.State = p.player.states.state(f.cell, p.policies[i], f.entry.Seconds)
	}
}

// batch builds the environments and the policies of cells, in the state they go on from, and puts them side by
// side.
func (r *player) batch(cells []cell) (*lockstep.Batch, []bandit.Policy, error) {
	var worlds []bandit.Environment
	var policies []bandit.Policy
	var keys []rng.Key
	for _, c := range cells {
		world, pol, key, err := r.build(c, nil)
		if err != nil {
			return nil, nil, err
		}
		if start := r.states.start(c); start.At > 0 {
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

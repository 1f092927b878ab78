package sim

import (
	"context"
	"errors"
	"slices"
	"time"

	"troupe/bandit"
	"troupe/env"
)

// This file plays several policies of one environment and one replication side by side, where the environment draws a
// new set in each round: the set is drawn once for all of them, and its best action is looked for once. All random
// numbers are functions of the round, so each policy gets the numbers that it gets alone.

// company is such a job.
type company []cell

const (
	mostCompany = 16      // cells: of the draw a sixteenth is left then
	companyRoom = 4 << 20 // bytes of all policies of a company, about: more would leave the caches in each round
	clockEvery  = 16      // rounds between two looks at what each policy takes
)

// first implements job.
func (l company) first() int { return l[0].r }

// play implements job. Where one of the cells fails they are all played one by one.
func (l company) play(p *player, s *session) { playOr(p, s, l, p.playShared) }

// shared reports whether policies can share the rounds of an environment, and whether that saves anything.
func (x *Experiment) shared(world bandit.Environment) bool {
	w, ok := world.(env.Redrawn)
	return ok && w.Redraws() && len(x.Record) == 0
}

// companies cuts the open cells of an environment into jobs: the policies of a replication together, as long as every
// worker has something to do.
func (r *runner) companies(e int) (jobs []job) {
	most := min(mostCompany, (r.part.want-r.table.done+r.o.Workers-1)/r.o.Workers)
	at := func(c cell) int { return r.states.start(c).At }
	for rep := range r.x.Replications {
		var open []cell
		for p := range r.x.Policies {
			if c := (cell{e, p, rep}); r.open(c) && !r.x.byTurns(e, p) {
				open = append(open, c)
			}
		}
		slices.SortStableFunc(open, func(a, b cell) int { return at(a) - at(b) })
		for len(open) > 0 {
			width := evenly(len(open), (len(open)+most-1)/most)
			n, bytes := 1, r.facts.bytesOf(open[0])
			for n < width && at(open[n]) == at(open[0]) && bytes+r.facts.bytesOf(open[n]) <= companyRoom {
				bytes += r.facts.bytesOf(open[n])
				n++
			}
			jobs = append(jobs, jobOf(open[:n:n]))
			open = open[n:]
		}
	}
	return jobs
}

// jobOf is the job of cells of one environment and one replication.
func jobOf(cells []cell) job {
	if len(cells) == 1 {
		return cells[0]
	}
	return company(cells)
}

// evenly returns the size of the largest of n things in so many parts.
func evenly(n, parts int) int { return (n + parts - 1) / parts }

// split cuts the companies of the last turn, where there are fewer jobs than workers.
func split(last []job, workers int) (parts []job) {
	for _, j := range last {
		l, ok := j.(company)
		if !ok {
			parts = append(parts, j)
			continue
		}
		for width := evenly(len(l), min(workers/len(last), len(l))); len(l) > 0; {
			n := min(width, len(l))
			parts = append(parts, jobOf(l[:n:n]))
			l = l[n:]
		}
	}
	return parts
}

// playShared plays cells of one environment and one replication side by side. An error means that they must be played
// one by one: one of them fails, or does not go on from where the others do. Cells that were abandoned say so in their
// own error. It runs on a worker and only reads the runner.
func (r *player) playShared(hard context.Context, cells []cell) ([]finished, error) {
	started := time.Now()
	world, _, key, err := r.build(cells[0], nil)
	if err != nil {
		return nil, err
	}
	from, horizon := r.states.start(cells[0]).At, r.x.HorizonOf(cells[0].e)
	spent := make([]time.Duration, 1+len(cells)) // in some rounds: of the environment, of each policy
	seconds := func(i int) float64 {
		var all time.Duration
		for _, d := range spent {
			all += d
		}
		share := 1 / float64(len(cells))
		if all > 0 {
			share = (float64(share*float64(spent[0])) + float64(spent[1+i])) / float64(all)
		}
		return float64(share * time.Since(started).Seconds())
	}
	seats, recorders := make([]seat, len(cells)), make([]*recorder, len(cells))
	policies := make([]bandit.Policy, len(cells))
	for i, c := range cells {
		pol, err := r.x.Policies[c.p].Options.New(r.facts.problem(world, c.e, key))
		if err != nil {
			return nil, err
		}
		defer leave(pol)
		start := r.states.start(c)
		if start.At > 0 {
			if err := restore(pol, start); err != nil {
				return nil, err
			}
		}
		policies[i], recorders[i] = pol, r.recorder(hard, c, pol, start, func() float64 { return seconds(i) })
		if late := r.x.Environments[c.e].Late; late != nil {
			pol = newLate(pol, late, key)
		}
		seats[i] = seat{player: pol, observer: recorders[i]}
	}
	done, err := r.playSeats(newGame(world, key), seats, recorders, [2]int{from, horizon}, spent)
	if err != nil {
		for _, w := range recorders {
			r.rounds.Add(int64(from - w.look.counted))
		}
		return nil, err
	}
	for i := range done {
		done[i].cell = cells[i]
		if done[i].err != nil {
			continue
		}
		w := recorders[i]
		r.rounds.Add(int64(horizon - w.look.counted))
		w.entry.Seconds = r.states.start(cells[i]).Seconds + seconds(i)
		w.entry.State = r.states.state(cells[i], policies[i], w.entry.Seconds)
		done[i].entry = w.entry
	}
	return done, nil
}

// playSeats plays the rounds after the first of rounds, to the second, and adds to spent what some of them take. When
// one seat is told to stop, the others stop after the same round.
func (r *player) playSeats(g *game, seats []seat, recorders []*recorder, rounds [2]int, spent []time.Duration) ([]finished,
	error) {
	done := make([]finished, len(seats))
	for t := rounds[0] + 1; t <= rounds[1]; t++ {
		timed := t%clockEvery == 1
		var clock time.Time
		lap := func(i int) {
			if timed {
				now := time.Now()
				spent[i] += now.Sub(clock)
				clock = now
			}
		}
		if timed {
			clock = time.Now()
		}
		set, err := g.next(t)
		if err != nil {
			return nil, err
		}
		lap(0)
		stopped := false
		for i := range seats {
			if err := seats[i].round(g, t, set); errors.Is(err, errAbandoned) {
				done[i].err, stopped = err, true
			} else if err != nil {
				return nil, err
			}
			lap(1 + i)
		}
		if !stopped || t == rounds[1] {
			continue
		}
		for i := range done {
			if done[i].err != nil {
				continue
			}
			if done[i].err = recorders[i].glance(t); !errors.Is(done[i].err, errAbandoned) {
				return nil, done[i].err
			}
		}
		return done, nil
	}
	return done, nil
}

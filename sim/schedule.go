package sim

import (
	"context"
	"errors"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// job is what a worker takes at once: one cell, several of one environment and one policy (lanes, turns), or several of
// one environment and one replication (company).
type job interface {
	// first returns the replication of its first cell, from 0.
	first() int
	// play plays the cells on a worker, which only reads the runner, but for its counts, and hands over each.
	play(p *player, s *session)
}

// session is one call of playAll as its workers see it.
type session struct {
	soft context.Context // done: no cell is begun any more
	hard context.Context // done: cells under way are abandoned
	stop func()          // ends soft
	out  chan<- finished
}

// first implements job.
func (c cell) first() int { return c.r }

// play implements job.
func (c cell) play(p *player, s *session) {
	alone := p.alone(c)
	if alone && p.lost[c.p].Load() >= lostMost {
		return
	}
	f := finished{cell: c}
	f.entry, f.err = p.play(s.hard, c)
	switch {
	case f.err == nil || errors.Is(f.err, errAbandoned):
	case alone:
		p.lost[c.p].Add(1)
	default:
		s.stop()
	}
	s.out <- f
}

// lostMost is how many cells of a policy that is a program may fail before no more of them are begun.
const lostMost = 3

// alone reports whether an error of a cell is that of a program, which leaves the other cells as they are.
func (r *player) alone(c cell) bool { return len(r.x.Commands(c.e, c.p)) > 0 }

// jobs returns what is to do. Replications come first, then environments, then policies: complete
// replications, which a leader board may use, come early then.
func (r *runner) jobs() []job {
	x := r.x
	var jobs []job
	for e := range x.Environments {
		shares := len(r.facts.shares) > 0 && r.facts.shares[e]
		if shares {
			jobs = append(jobs, r.companies(e)...)
		}
		for p := range x.Policies {
			if shares && !r.x.byTurns(e, p) {
				continue
			}
			var open []cell
			for rep := range x.Replications {
				if r.open(cell{e, p, rep}) {
					open = append(open, cell{e, p, rep})
				}
			}
			jobs = append(jobs, r.group(open)...)
		}
	}
	slices.SortStableFunc(jobs, func(a, b job) int { return a.first() - b.first() })
	return r.spread(jobs)
}

// open reports whether a cell is still to be played.
func (r *runner) open(c cell) bool {
	i := r.x.index(c.e, c.p, c.r)
	return len(r.table.cells[i].Regret) == 0 && r.part.has(i)
}

// playAll plays the cells that are not done.
func (r *runner) playAll(ctx context.Context) error {
	todo := r.jobs()
	r.report()
	if len(todo) == 0 {
		return nil
	}
	if r.o.Dir != "" {
		j, err := openJournal(filepath.Join(r.o.Dir, JournalFile))
		if err != nil {
			return err
		}
		r.journal = j
		defer j.close()
	}

	soft, stop := context.WithCancel(ctx)
	defer stop()
	hard, abandon := context.WithCancel(context.Background())
	defer abandon()
	context.AfterFunc(soft, func() { time.AfterFunc(r.o.Grace, abandon) })

	out := make(chan finished)
	r.startWorkers(&session{soft, hard, stop, out}, todo, func() { close(out) })
	return r.collect(out, func() {
		stop()    // keep may have failed
		abandon() // an error is the same error after the others have finished
	})
}

// startWorkers starts the workers on the list of jobs, and calls ended when the last of them has
// none left or the session stops.
func (r *runner) startWorkers(s *session, todo []job, ended func()) {
	var next atomic.Int64
	var workers sync.WaitGroup
	for range min(r.o.Workers, len(todo)) {
		workers.Go(func() {
			for s.soft.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= len(todo) {
					return
				}
				todo[n].play(r.player, s)
				if r.facts.cellBytes > largeCell {
					runtime.GC() // a cell's garbage would take the room of the next
				}
			}
		})
	}
	go func() { workers.Wait(); ended() }()
}

// collect keeps the finished cells until out is closed. The first error, for which it calls fail, is
// its result; a *LostError when only programs have failed; ErrInterrupted when cells are missing without an error.
func (r *runner) collect(out <-chan finished, fail func()) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	var failed error
	lost := map[int]*CellError{}
	for {
		select {
		case <-tick.C:
			r.report()
		case f, open := <-out:
			if !open {
				switch {
				case failed == nil && len(lost) > 0:
					return newLostError(lost)
				case failed == nil && r.table.done < r.part.want:
					return ErrInterrupted
				}
				return failed
			}
			err := f.err
			switch {
			case err == nil:
				err = r.keep(f)
			case errors.Is(err, errAbandoned):
				if err = nil; r.states.saves(f.cell) {
					r.underWay++
				}
			default:
				cell := &CellError{r.x.Environments[f.e].Name, r.x.Policies[f.p].Name, f.r + 1, err}
				if err = cell; r.player.alone(f.cell) {
					lost[r.x.index(f.e, f.p, f.r)], err = cell, nil
				}
			}
			if err != nil && failed == nil {
				failed = err
				fail()
			}
			r.report()
		}
	}
}

// keep records a finished cell.
func (r *runner) keep(f finished) error {
	i := r.x.index(f.e, f.p, f.r)
	f.entry.Cell, f.entry.Stem, f.entry.T = r.table.keys[i], r.table.stems[i], r.x.HorizonOf(f.e)
	if at := r.x.CheckpointsOf(f.e); !slices.Equal(at, Checkpoints(f.entry.T)) {
		f.entry.Checkpoints = at
	}
	r.table.set(i, f.entry)
	r.states.starts[i] = nil
	if r.journal == nil {
		return nil
	}
	if err := r.journal.append(f.entry); err != nil {
		return err
	}
	return r.states.unsave(i)
}

func (t *cellTable) set(i int, c entry) {
	t.cells[i] = c
	t.done++
	rep := i % t.x.Replications
	t.finishedIn[rep]++
	if t.finishedIn[rep] == len(t.cells)/t.x.Replications {
		t.complete++
	}
}

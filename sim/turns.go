package sim

import (
	"errors"
	"iter"
	"time"
)

// This file plays several cells of one environment and one policy by turns on one worker, where the policy is a program
// (policy.Turns): while one cell waits for its answer the others ask. So a program that reads what has come, and
// answers all of it, is woken once for all of them. Each cell is played as it is alone. A program that plays one cell
// at a time gets them one after the other.

// turns is such a job.
type turns []cell

// mostTurns is the number of cells of a worker that take turns. Their answers together are short, see shortLaw of
// package process.
const mostTurns = 8

// first implements job.
func (l turns) first() int { return l[0].r }

// turn is one of the cells under way. It implements policy.Turns.
type turn struct {
	of    *turns
	yield func(struct{}) bool
	away  time.Duration // for which others went on
}

// Yield implements policy.Turns.
func (t *turn) Yield() {
	left := time.Now()
	t.yield(struct{}{})
	t.away += time.Since(left)
}

// Worker implements policy.Turns.
func (t *turn) Worker() any { return t.of }

// play implements job. A program that fails takes all cells with it that it was playing: they are played once more, one
// by one, so that an error is that of the cell that causes it.
func (l turns) play(p *player, s *session) {
	var failed []cell
	var waiting []func() (struct{}, bool)
	for _, c := range l {
		next, stop := iter.Pull(func(yield func(struct{}) bool) {
			f := finished{cell: c}
			f.entry, f.err = p.playTurn(s.hard, c, &turn{of: &l, yield: yield})
			if f.err == nil || errors.Is(f.err, errAbandoned) {
				s.out <- f
			} else {
				failed = append(failed, c)
			}
		})
		defer stop()
		waiting = append(waiting, next)
	}
	for len(waiting) > 0 {
		under := waiting[:0]
		for _, next := range waiting {
			if _, waits := next(); waits {
				under = append(under, next)
			}
		}
		waiting = under
	}
	for _, c := range failed {
		if s.soft.Err() != nil {
			return
		}
		c.play(p, s)
	}
}

// byTurns reports whether cells of an environment and a policy are played by turns: those of a program in an
// environment that is none.
func (x *Experiment) byTurns(e, p int) bool {
	return !x.Episodic() && len(apart(x.Policies[p].Options)) > 0 && len(apart(x.Environments[e].Options)) == 0
}

package sim

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Progress is a look at a run under way.
type Progress struct {
	Cells, Done, Reused int
	Rounds, AllRounds   int64   // of this session: played, to play
	Seconds             float64 // since the start of this session
	Replications        int     // that every policy has finished in every environment

	// Pace is what a round took one worker in other parts, or in this one before, in seconds; 0 where nothing is known.
	Pace    float64
	Workers int

	r *runner
}

func (r *runner) report() {
	if r.o.Progress == nil {
		return
	}
	p := Progress{
		Cells: r.part.want, Done: r.table.done, Reused: r.reused,
		Rounds:       r.player.rounds.Load(),
		AllRounds:    int64(float64(r.part.want-r.reused)*r.x.roundsOfCell()) - r.states.skipped,
		Seconds:      time.Since(r.clock.started).Seconds(),
		Replications: r.table.complete,
		Workers:      r.o.Workers,
		r:            r,
	}
	if r.part.paceRounds > 0 {
		p.Pace = r.part.paceSeconds / float64(r.part.paceRounds)
	}
	r.o.Progress(p)
}

// Standing is one line of a leader board.
type Standing struct {
	Environment, Policy string
	Mean, SE            float64 // regret at the horizon; SE is 0 for a single replication
	Behind              float64 // share of replications in which it lost to the first of its environment
}

// Board ranks the policies of each environment by mean regret at the horizon, on the replications
// that every policy has finished: otherwise the order of scheduling would look like a ranking. It
// may be called only inside the Progress callback.
func (p Progress) Board() []Standing {
	x := p.r.x
	if p.r.table.complete == 0 {
		return nil
	}
	var reps []int
	for rep, n := range p.r.table.finishedIn {
		if n == len(x.Environments)*len(x.Policies) {
			reps = append(reps, rep)
		}
	}
	var board []Standing
	for e := range x.Environments {
		from := len(board)
		final := make(map[string][]float64)
		for q := range x.Policies {
			s := Standing{Environment: x.Environments[e].Name, Policy: x.Policies[q].Name}
			v := make([]float64, len(reps))
			for i, rep := range reps {
				c := p.r.table.cells[x.index(e, q, rep)]
				v[i] = c.Regret[len(c.Regret)-1]
			}
			s.Mean, s.SE = meanSE(v)
			final[s.Policy] = v
			board = append(board, s)
		}
		here := board[from:]
		slices.SortStableFunc(here, func(a, b Standing) int { return cmp.Compare(a.Mean, b.Mean) })
		best := final[here[0].Policy]
		for i := range here {
			for k, v := range final[here[i].Policy] {
				if v > best[k] {
					here[i].Behind += 1 / float64(len(reps))
				}
			}
		}
	}
	return board
}

func meanSE(v []float64) (mean, se float64) {
	n := float64(len(v))
	for _, x := range v {
		mean += x / n
	}
	if n < 2 {
		return mean, 0
	}
	var q float64
	for _, x := range v {
		q += float64((x - mean) * (x - mean))
	}
	return mean, math.Sqrt(q / (n - 1) / n)
}

// Package tune chooses the options of policies, and of agents that play episodes, by one protocol for
// all, so that what a comparison shows is the policies and not the care with which each was set up.
//
// A policy's table says what is tried: tune = { scale = [0.5, 1.0], lambda = [0.1, 1.0] }. Run
// plays every combination by successive halving:
//
//  1. all points of the grid play the same replications, on every environment of the experiment;
//  2. the better half goes on to new replications, and again, until two are left;
//  3. of the last ones that with the lowest score wins.
//
// Every policy gets the same number of replications, whatever the size of its grid; a stage has an
// equal share of them. The score of a point is its mean regret, divided in each environment by the
// lowest mean of the first stage, averaged over the environments; stages add up. Random numbers come
// from a stream of their own, so what is reported later has other instances and other noise.
//
// How sure the choice is: replications are drawn again with replacement, stage by stage and the same
// for all points; Wins is the share of draws in which a point has the lowest score. A point that
// left early is compared with the winner on the replications that both have played.
package tune

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"troupe/dataset"
	"troupe/rng"
	"troupe/sim"
	"troupe/spec"
)

// Options of Run. The zero value tunes with the experiment's seed on all processors.
type Options struct {
	Replications int // of each policy in each environment, over all points and stages; 0 means 200
	Workers      int // 0 means one for each processor
	Data         *dataset.Source
	Progress     func(Progress) // called from one goroutine, a few times a second; may be nil
}

// Progress is a look at a tuning under way.
type Progress struct {
	Policy        string
	Stage, Stages int
	Points        int   // in this stage
	Rounds, All   int64 // played so far, and in all
}

// Result is what Run chose.
type Result struct {
	Experiment   *sim.Experiment
	Replications int // of each policy in each environment
	Policies     []Policy
}

// Policy is the choice for one policy that has a grid.
type Policy struct {
	Index  int // in Experiment.Policies
	Name   string
	Points []Point  // best first
	Played int      // replications in each environment, over all points
	Edges  []string // "scale = 0.1β is the smallest value tried"
}

// Winner returns the chosen point.
func (p *Policy) Winner() *Point { return &p.Points[0] }

// Open returns the points among which the replications do not decide, the likeliest first: the fewest whose Wins
// add up to 95 %. With one point the choice is clear.
func (p *Policy) Open() []*Point {
	all := make([]*Point, len(p.Points))
	for i := range all {
		all[i] = &p.Points[i]
	}
	slices.SortStableFunc(all, func(a, b *Point) int { return cmp.Compare(b.Wins, a.Wins) })
	sum, n := 0.0, 0
	for n < len(all) && sum < 0.95-1e-9 {
		sum += all[n].Wins
		n++
	}
	return all[:n]
}

// Point is one combination of values.
type Point struct {
	Case  sim.PolicyCase
	Stage int       // the last that it played, from 1
	R     int       // replications in each environment
	Mean  []float64 // regret by environment
	Score float64
	Wins  float64 // share of resamples in which it has the lowest score

	regret [][][]float64 // stage, environment, replication
}

const (
	defaultReplications = 200
	resamples           = 1000
	leastReplications   = 2 // of a stage
)

// stage is one round of the halving.
type stage struct{ points, replications int }

// plan divides the replications of a policy among stages: log₂ of the grid's size stages with equal
// shares, and what is left over to the last.
func plan(points, replications int) ([]stage, error) {
	var sizes []int
	for n := points; ; n = (n + 1) / 2 {
		sizes = append(sizes, n)
		if n <= 2 {
			break
		}
	}
	stages := make([]stage, len(sizes))
	used := 0
	for s, n := range sizes {
		r := replications / len(sizes) / n
		if r < leastReplications {
			need := leastReplications * points * len(sizes)
			return nil, fmt.Errorf("a grid of %d points needs at least %d replications to choose from, and has %d",
				points, need, replications)
		}
		stages[s] = stage{n, r}
		used += n * r
	}
	last := &stages[len(stages)-1]
	last.replications += (replications - used) / last.points
	return stages, nil
}

// Run tunes every policy of the experiment that has a grid. An experiment without one is an error, and
// so is a grid that cannot be built or is too large for the replications: nothing is played then. When
// the context is done the error is sim.ErrInterrupted and nothing is chosen.
func Run(ctx context.Context, x *sim.Experiment, o Options) (*Result, error) {
	o.Replications = cmp.Or(o.Replications, defaultReplications)
	out := &Result{Experiment: x, Replications: o.Replications}
	var grids [][]sim.PolicyCase
	var plans [][]stage
	var all int64
	for p := range x.Policies {
		if x.Policies[p].Tune == nil {
			continue
		}
		grid, err := x.Grid(p)
		if err != nil {
			return nil, err
		}
		stages, err := plan(len(grid), o.Replications)
		if err != nil {
			return nil, fmt.Errorf("policy %q: %w", x.Policies[p].Name, err)
		}
		if err := x.Of(grid, 1, "tune 1").Rehearse(o.Data); err != nil {
			return nil, err
		}
		for _, s := range stages {
			all += int64(s.points*s.replications) * int64(len(x.Environments)) * int64(x.Horizon)
		}
		out.Policies = append(out.Policies, Policy{Index: p, Name: x.Policies[p].Name})
		grids, plans = append(grids, grid), append(plans, stages)
	}
	if grids == nil {
		example := "scale = [0.5, 1.0]"
		if x.Episodic() {
			example = "prior = [1.0, 10.0]"
		}
		return nil, fmt.Errorf("no policy or agent of %s has a grid: write tune = { %s } in its table", x.Name, example)
	}
	var done int64
	for i := range out.Policies {
		if err := out.Policies[i].halve(ctx, x, grids[i], plans[i], o, &done, all); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// halve plays the stages of one policy.
func (p *Policy) halve(ctx context.Context, x *sim.Experiment, grid []sim.PolicyCase, stages []stage, o Options,
	done *int64, all int64) error {
	p.Points = make([]Point, len(grid))
	alive := make([]*Point, len(grid))
	for i := range grid {
		p.Points[i].Case = grid[i]
		alive[i] = &p.Points[i]
	}
	var unit []float64 // by environment: the lowest mean of the first stage
	for s, st := range stages {
		alive = alive[:st.points]
		cases := make([]sim.PolicyCase, len(alive))
		for i, q := range alive {
			cases[i] = q.Case
		}
		y := x.Of(cases, st.replications, fmt.Sprintf("tune %d", s+1))
		report := func(rounds int64) {
			if o.Progress != nil {
				o.Progress(Progress{p.Name, s + 1, len(stages), st.points, *done + rounds, all})
			}
		}
		out, err := sim.Run(ctx, y, sim.Options{Workers: o.Workers, Data: o.Data,
			Progress: func(g sim.Progress) { report(g.Rounds) }})
		if err != nil {
			return err
		}
		*done += int64(y.Cells()) * int64(x.Horizon)
		p.Played += st.points * st.replications
		for i, q := range alive {
			q.Stage, q.R = s+1, q.R+st.replications
			byEnv := make([][]float64, len(x.Environments))
			for e := range x.Environments {
				byEnv[e] = out.Final(e, i)
			}
			q.regret = append(q.regret, byEnv)
		}
		if s == 0 {
			unit = make([]float64, len(x.Environments))
			for e := range unit {
				unit[e] = math.Inf(1)
				for _, q := range alive {
					unit[e] = min(unit[e], mean(q.regret[0][e], nil))
				}
				if unit[e] <= 0 {
					unit[e] = 1 // some point lost nothing
				}
			}
		}
		for _, q := range alive {
			q.Score = q.score(unit, s, nil)
		}
		slices.SortStableFunc(alive, func(a, b *Point) int { return cmp.Compare(a.Score, b.Score) })
	}
	for i := range p.Points {
		q := &p.Points[i]
		for e := range x.Environments {
			var v []float64
			for _, st := range q.regret {
				v = append(v, st[e]...)
			}
			q.Mean = append(q.Mean, mean(v, nil))
		}
	}
	slices.SortStableFunc(p.Points, func(a, b Point) int {
		return cmp.Or(cmp.Compare(b.Stage, a.Stage), cmp.Compare(a.Score, b.Score))
	})
	p.resample(rng.NewKey(x.Seed).Child("tune").Child(p.Name), unit)
	p.edges()
	return nil
}

// score is the score of a point on its stages 0 … last, with the replications at draw[stage], or with
// all of them.
func (q *Point) score(unit []float64, last int, draw [][]int) float64 {
	total := 0.0
	for e, u := range unit {
		sum, n := 0.0, 0
		for s := range last + 1 {
			var at []int
			if draw != nil {
				at = draw[s]
			}
			k := len(q.regret[s][e])
			sum += mean(q.regret[s][e], at) * float64(k)
			n += k
		}
		total += sum / float64(n) / u / float64(len(unit))
	}
	return total
}

// mean of v, or of the elements at the indices given.
func mean(v []float64, at []int) float64 {
	sum := 0.0
	if at == nil {
		for _, x := range v {
			sum += x
		}
		return sum / float64(len(v))
	}
	for _, i := range at {
		sum += v[i]
	}
	return sum / float64(len(at))
}

// resample computes Wins.
func (p *Policy) resample(key rng.Key, unit []float64) {
	stream := key.Stream(rng.Resample)
	winner := p.Winner()
	for b := range resamples {
		draw, source, k := make([][]int, len(winner.regret)), stream.Round(uint64(b)), 0
		for s := range draw {
			n := len(winner.regret[s][0])
			draw[s] = make([]int, n)
			for i := range draw[s] {
				draw[s][i] = source.Intn(k, n)
				k++
			}
		}
		best, lowest := 0, math.Inf(1)
		whole := winner.score(unit, winner.Stage-1, draw)
		for i := range p.Points {
			q := &p.Points[i]
			v := whole + q.score(unit, q.Stage-1, draw) - winner.score(unit, q.Stage-1, draw)
			if v < lowest {
				best, lowest = i, v
			}
		}
		p.Points[best].Wins += 1.0 / resamples
	}
}

// edges lists the values of the winner that are the smallest or largest tried.
func (p *Policy) edges() {
	for _, chosen := range p.Winner().Case.Chosen() {
		at, ok := spec.Number(chosen.Value)
		if !ok {
			continue
		}
		lo, hi := at, at
		for i := range p.Points {
			for _, c := range p.Points[i].Case.Chosen() {
				if v, ok := spec.Number(c.Value); ok && c.Key == chosen.Key {
					lo, hi = min(lo, v), max(hi, v)
				}
			}
		}
		switch {
		case lo == hi:
		case at == lo:
			p.Edges = append(p.Edges, fmt.Sprintf("%s = %v is the smallest value tried", chosen.Key, at))
		case at == hi:
			p.Edges = append(p.Edges, fmt.Sprintf("%s = %v is the largest value tried", chosen.Key, at))
		}
	}
}

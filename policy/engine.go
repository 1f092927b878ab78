package policy

import (
	"slices"

	"troupe/internal/linalg"
	"troupe/internal/members"
	"troupe/rng"
)

// engine keeps the sums S_t^j of an ensemble and the regression that they belong to. Ensemble is
// written for it alone; there are two:
//
//	accumulated  adds every step to every member: S_t^j = S_{t−1}^j + U_t^j X_t
//	exactLaw     draws the increment of a member from its exact law when the member is drawn
//
// A slice that a method returns belongs to the engine and is valid until the next call.
type engine interface {
	// name is the value of the option engine that describes what happens now.
	name() string
	// members is m_t, the number of members of the coming round.
	members() int
	// draw returns S^j, numbers that are step apart, for the member that draw, a source of the select stream,
	// has chosen.
	draw(draw rng.Source, j int) (s []float64, step int)
	// view is draw for a question that is not the choice of a round.
	view(j int) (s []float64, step int)
	// load stores S^j in dst.
	load(dst []float64, j int)
	// settle prepares for many calls of load.
	settle()
	// update is one round: the regression learns (x, y), and S the step x with the targets of draw.
	// Where the regression refuses, nothing changes.
	update(x []float64, y float64, draw rng.Source) (gain []float64, ok bool)

	// kind names the snapshots; state is what they hold beside the regression, in vectors of the lengths
	// that lengths returns (−1: any). check looks at such vectors, and restore puts back those that it
	// accepted, after the regression.
	kind() string
	state() [][]float64
	lengths() []int
	check(v [][]float64) error
	restore(v [][]float64)
	// cost is how many numbers state returns, and about how many multiply-adds it does first.
	cost() (numbers, work int)
}

// accumulated is the engine that adds every step to every member.
type accumulated struct {
	*members.Sums
	ridge   *linalg.Ridge
	m       int
	scratch []float64 // d numbers of view
	flat    []float64 // scratch of state: S row by row
}

func newAccumulated(c members.Config, ridge *linalg.Ridge) *accumulated {
	return &accumulated{Sums: members.New(c), ridge: ridge, m: c.Members, scratch: make([]float64, c.Dim)}
}

func (a *accumulated) name() string { return a.Engine() }

func (a *accumulated) members() int { return a.m }

func (a *accumulated) draw(draw rng.Source, j int) (s []float64, step int) {
	a.Expect(draw)
	return a.View(a.scratch, j)
}

func (a *accumulated) view(j int) (s []float64, step int) { return a.View(a.scratch, j) }

func (a *accumulated) load(dst []float64, j int) { a.Load(dst, j) }

func (a *accumulated) settle() { a.Settle() }

func (a *accumulated) update(x []float64, y float64, draw rng.Source) (gain []float64, ok bool) {
	if gain, ok = a.ridge.Update(x, y); ok {
		a.Add(x, draw)
	}
	return gain, ok
}

func (a *accumulated) kind() string { return "ensemble" }

func (a *accumulated) state() [][]float64 {
	n := a.lengths()[0]
	a.flat = slices.Grow(a.flat[:0], n)[:n]
	a.Read(a.flat)
	return [][]float64{a.flat}
}

func (a *accumulated) lengths() []int { return []int{a.m * a.ridge.Dim()} }

func (a *accumulated) cost() (numbers, work int) { return a.lengths()[0], a.Owed() }

func (a *accumulated) check([][]float64) error { return nil }

func (a *accumulated) restore(v [][]float64) { a.Write(v[0]) }

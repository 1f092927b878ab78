package worlds

import (
	"math"
	"slices"

	"troupe/rng"
)

// ListPlayer plays a world of lists: Decide returns the places of the actions from the top, Reward takes what they earned, one
// number for each position, or one where the world is Whole.
type ListPlayer interface {
	Decide(d *ListDecision) ([]int, error)
	Reward(d *ListDecision, list []int, y []float64) error
}

// PlayLists plays decisions up to the last mark. After each mark, which increase, it calls at with the shares of the way from uniform lists to
// the best ones: so far, and since the mark before. It stops at the first error of the player.
func PlayLists(w *ListWorld, p ListPlayer, marks []int, at func(rounds int, share, recent float64)) error {
	var sum, before [3]float64 // earned, best, uniform
	share := func(a, b [3]float64) float64 { return (b[0] - a[0] - b[2] + a[2]) / (b[1] - a[1] - b[2] + a[2]) }
	done := 0
	for _, mark := range marks {
		for ; done < mark; done++ {
			d := w.Next()
			list, err := p.Decide(&d)
			if err != nil {
				return err
			}
			if err := p.Reward(&d, list, w.Pay(&d, list)); err != nil {
				return err
			}
			best, uniform := w.Bounds(&d)
			sum[0], sum[1], sum[2] = sum[0]+w.Value(&d, list), sum[1]+best, sum[2]+uniform
		}
		at(mark, share([3]float64{}, sum), share(before, sum))
		before = sum
	}
	return nil
}

// ListTable is a rival for worlds of lists: each position is a decision of its own. Of the actions that are left it plays the one with the largest draw from N((S + ȳ)/(n + 1),
// (s/2)²/(n + 1)), S the sum of the n rewards of the action's cell at any position, ȳ and s the mean and the deviation of all rewards. It is told the cells. The one
// reward of a world that is Whole counts at each position.
type ListTable struct {
	w      *ListWorld
	cells  map[int][2]float64 // n and S
	n      float64
	sum    float64
	square float64
	key    rng.Key
	made   uint64
}

var _ ListPlayer = (*ListTable)(nil)

// NewListTable returns a player that has seen nothing.
func NewListTable(w *ListWorld, seed uint64) *ListTable {
	return &ListTable{w: w, cells: map[int][2]float64{}, key: rng.NewKey(seed).Child("player").Child("slots").At(w.Seed)}
}

// Decide implements ListPlayer.
func (p *ListTable) Decide(d *ListDecision) ([]int, error) {
	draw := p.key.Stream(rng.Select).Round(p.made)
	p.made++
	mean, deviation := p.sum/max(p.n, 1), 1.
	if p.n > 3 {
		deviation = math.Sqrt(max(p.square/p.n-float64(mean*mean), 1e-9))
	}
	n := len(d.Actions)
	normal := make([]float64, p.w.K*n)
	draw.Normals(normal, 0)
	list, from := make([]int, p.w.K), 0
	for l := range list {
		to := n
		if p.w.Sets != nil {
			to = from + p.w.Sets[l]
		}
		best := math.Inf(-1)
		for i := from; i < to; i++ {
			if slices.Contains(list[:l], i) {
				continue
			}
			c := p.cells[p.w.Cell(d, i)]
			if v := (c[1]+mean)/(c[0]+1) + .5*deviation/math.Sqrt(c[0]+1)*normal[l*n+i]; v > best {
				best, list[l] = v, i
			}
		}
		if p.w.Sets != nil {
			from = to
		}
	}
	return list, nil
}

// Reward implements ListPlayer.
func (p *ListTable) Reward(d *ListDecision, list []int, y []float64) error {
	for l, i := range list {
		z := y[min(l, len(y)-1)]
		c := p.cells[p.w.Cell(d, i)]
		p.cells[p.w.Cell(d, i)] = [2]float64{c[0] + 1, c[1] + z}
		p.n, p.sum, p.square = p.n+1, p.sum+z, p.square+z*z
	}
	return nil
}

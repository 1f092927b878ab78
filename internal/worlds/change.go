package worlds

import (
	"math"
	"slices"
)

// changeKinds have means that move.
var changeKinds = []Kind{
	{"change-new", "8 segments × 6 actions, all means new after half of the decisions", Change, "", changeNew},
	{"change-swap", "4 segments × 6 actions, best and worst swapped after half of the decisions", Change, "", changeSwap},
	{"change-gradual", "8 segments × 6 actions, means move to new ones between a quarter and three quarters", Change, "", changeGradual},
	{"change-season", "4 segments × 5 actions, means go and come back in 2,000 decisions", Change, "", changeSeason},
}

// moving is a table of means that becomes another one: the weight of the second at decision t is between 0 and 1.
func moving(g *gen, from, to [][]float64, weight func(t int) float64) func(int) Decision {
	a := actions("a", len(from[0]))
	return func(t int) Decision {
		c, w := g.IntN(len(from)), weight(t)
		means := make([]float64, len(a))
		for i := range means {
			means[i] = (1-w)*from[c][i] + w*to[c][i]
		}
		return decide(segment(c), a, c, means, g.click)
	}
}

func (g *gen) half() func(t int) float64 {
	at := g.T / 2
	g.world.Changes = []int{at}
	return func(t int) float64 {
		if t < at {
			return 0
		}
		return 1
	}
}

func changeNew(g *gen) func(int) Decision {
	return moving(g, g.table(8, 6, .05, .6), g.table(8, 6, .05, .6), g.half())
}

func changeSwap(g *gen) func(int) Decision {
	from := g.table(4, 6, .05, .6)
	to := make([][]float64, len(from))
	for c, row := range from {
		to[c] = slices.Clone(row)
		best, worst := slices.Index(row, slices.Max(row)), slices.Index(row, slices.Min(row))
		to[c][best], to[c][worst] = row[worst], row[best]
	}
	return moving(g, from, to, g.half())
}

func changeGradual(g *gen) func(int) Decision {
	g.world.Changes = []int{g.T / 4}
	return moving(g, g.table(8, 6, .05, .6), g.table(8, 6, .05, .6), func(t int) float64 {
		return clip(2*float64(t)/float64(g.T)-.5, 0, 1)
	})
}

func changeSeason(g *gen) func(int) Decision {
	const period = 2000
	g.world.Changes = []int{0}
	return moving(g, g.table(4, 5, .05, .6), g.table(4, 5, .05, .6), func(t int) float64 {
		return .5 - .5*math.Cos(2*math.Pi*float64(t)/period)
	})
}

package cells

import (
	"cmp"
	"maps"
	"slices"
)

// transfer is a move that balance proposes.
type transfer struct {
	Model string  `json:"model"`
	From  string  `json:"from"`
	To    string  `json:"to"`
	Rate  float64 `json:"decisions_per_second"`
}

// even is how much busier than the mean the busiest cell may be.
const even = 1.2

// balance proposes moves until the busiest cell has at most 1.2 times the mean of decisions a second, or no single move
// makes it better: each time the model of the busiest cell that brings it and the least busy one closest to each other. It
// changes nothing. The moves do not depend on the order of maps.
func balance(states []state) (moves []transfer) {
	load, models := map[string]float64{}, map[string]map[string]float64{}
	total := 0.
	for _, s := range states {
		load[s.Name], models[s.Name] = s.Rate, maps.Clone(s.Rates)
		total += s.Rate
	}
	mean := total / float64(len(states))
	for len(moves) < 1000 {
		names := slices.SortedFunc(maps.Keys(load), func(a, b string) int { return cmp.Or(cmp.Compare(load[a], load[b]), cmp.Compare(a, b)) })
		from, to := names[len(names)-1], names[0]
		gap := load[from] - load[to]
		if load[from] <= even*mean || gap <= 0 {
			return moves
		}
		best, found := "", 0.
		for _, m := range slices.Sorted(maps.Keys(models[from])) {
			r := models[from][m]
			if r > 0 && r < gap && (best == "" || abs(gap-2*r) < abs(gap-2*found)) {
				best, found = m, r
			}
		}
		if best == "" {
			return moves
		}
		moves = append(moves, transfer{best, from, to, found})
		delete(models[from], best)
		models[to][best] = found
		load[from] -= found
		load[to] += found
	}
	return moves
}

func abs(x float64) float64 { return max(x, -x) }

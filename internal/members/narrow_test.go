package members

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"troupe/rng"
)

// Steps in a few of many features enter the sums as a multiply-add of every number would have it, with every engine,
// in any order with others.
func TestNarrow(t *testing.T) {
	const d, m, rounds = 96, 37, 150
	for seed, share := range []float64{1, 0.9, 0.5, 0} { // of narrow steps
		for _, engine := range []string{Auto, Eager, Blocked, Lazy} {
			t.Run(fmt.Sprint(engine, " ", share), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(seed), 1))
				first := func(row []float64, j int) {
					for i := range row {
						row[i] = float64(j) + 1/float64(i+1)
					}
				}
				e := New(Config{Dim: d, Members: m, Horizon: 500, Engine: engine, Law: rng.NormalLaw, First: first})
				want := make([]float64, m*d)
				for j := range m {
					first(want[j*d:j*d+d], j)
				}
				x, got := make([]float64, d), make([]float64, m*d)
				for n := range uint64(rounds) {
					from, to := 0, d
					if r.Float64() < share {
						from = 8 * r.IntN(d/8)
						to = min(d, from+1+r.IntN(24))
					}
					clear(x)
					for i := from; i < to; i++ {
						x[i] = r.NormFloat64()
					}
					draw := rng.NewKey(9).Stream(rng.Perturb).Round(n)
					e.Add(x, draw)
					u := make([]float64, (m+rng.Lanes-1)/rng.Lanes*rng.Lanes)
					e.Targets(u, draw)
					for j := range m {
						for i, v := range x {
							want[j*d+i] = math.FMA(u[j], v, want[j*d+i])
						}
					}
					if j := r.IntN(m); n%3 == 0 {
						s, step := e.View(make([]float64, d), j)
						for i := range d {
							if s[i*step] != want[j*d+i] {
								t.Fatalf("round %d: number %d of member %d is %v, want %v", n, i, j, s[i*step], want[j*d+i])
							}
						}
					}
				}
				e.Read(got)
				for i, v := range want {
					if got[i] != v {
						t.Fatalf("number %d of member %d is %v, want %v", i%d, i/d, got[i], v)
					}
				}
			})
		}
	}
}

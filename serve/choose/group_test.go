package choose

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestGroup: candidates are put together as comparing each with all before it would, also where hashes of different ones agree.
func TestGroup(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 18))
	hashes := map[string]func(x []float64) uint64{
		"rows": hashRow, "one": func([]float64) uint64 { return 7 }, "few": func(x []float64) uint64 { return uint64(math.Abs(x[0])) << 60 },
	}
	var g groups // used again, as a worker does
	for range 60 {
		k, d := 1+r.IntN(40), 1+r.IntN(9)
		rows := make([][]float64, k)
		for i := range rows {
			rows[i] = make([]float64, d)
			for j := range rows[i] {
				rows[i][j] = float64(r.IntN(3)-1) * 0.5
			}
			if r.IntN(2) == 0 {
				rows[i] = slices.Clone(rows[r.IntN(i+1)])
			}
			if rows[i][0] == 0 && r.IntN(2) == 0 {
				rows[i][0] = math.Copysign(0, -1)
			}
		}
		equal := func(i, j int) bool { return slices.Equal(rows[i], rows[j]) }
		var of, first, size []int
		for i := range rows {
			n := slices.IndexFunc(first, func(f int) bool { return equal(f, i) })
			if n < 0 {
				n, first, size = len(first), append(first, i), append(size, 0)
			}
			of, size[n] = append(of, n), size[n]+1
		}
		for name, hash := range hashes {
			g.group(k, func(i int) uint64 { return hash(rows[i]) }, equal)
			if !slices.Equal(g.of, of) || !slices.Equal(g.first, first) || !slices.Equal(g.size, size) {
				t.Fatalf("hash %s: groups %v, want %v", name, g.of, of)
			}
		}
	}
}

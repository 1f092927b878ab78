package episode

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// fewMembers are the ensembles of TestFewMembers.
var fewMembers = []int{1, 2, 3, 4, 6, 8, 12, 16, 20}

// TestFewMembers prints the table and the fits "how few members" of docs/record/deep.md: the share of 200 seeds that
// solve DeepSea within N² episodes, by m and N. FEW names sizes, all without it.
func TestFewMembers(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("TROUPE_RECORD is not set")
	}
	const seeds = 200
	for _, size := range []int{10, 20, 30, 40, 50} {
		if only := os.Getenv("FEW"); only != "" && only != fmt.Sprint(size) {
			continue
		}
		failed := make([][]bool, len(fewMembers)) // by m and seed
		line := fmt.Sprintf("N=%d", size)
		for i, m := range fewMembers {
			failed[i] = make([]bool, seeds)
			n := 0
			for r, at := range solves(t, sea(size), ens(rlsvi(m)), seeds, size*size) {
				if failed[i][r] = at == 0; at > 0 {
					n++
				}
			}
			line += fmt.Sprintf(" m=%d:%d", m, n)
		}
		fmt.Println(line)
		for _, law := range []struct {
			name string
			of   func(m float64) float64
		}{{"m^(-a)", math.Log}, {"exp(-a m)", func(m float64) float64 { return m }}} {
			all := make([]int, seeds)
			for i := range all {
				all[i] = i
			}
			a, _, fit := fitShare(failed, all, law.of)
			draw := rand.New(rand.NewPCG(35, uint64(size)))
			var boot []float64
			for range 400 {
				for i := range all {
					all[i] = draw.IntN(seeds)
				}
				b, _, _ := fitShare(failed, all, law.of)
				boot = append(boot, b)
			}
			lo, hi := quantiles(boot)
			fmt.Printf("  %-10s a = %.2f [%.2f, %.2f], log-likelihood %.1f\n", law.name, a, lo, hi, fit)
		}
	}
}

func quantiles(x []float64) (lo, hi float64) {
	s := append([]float64(nil), x...)
	for i := range s {
		for j := i; j > 0 && s[j] < s[j-1]; j-- {
			s[j], s[j-1] = s[j-1], s[j]
		}
	}
	return s[len(s)*25/1000], s[len(s)*975/1000]
}

// fitShare fits the share of seeds that fail, min(1, exp(c − a·x(m))), to the seeds named, by the largest binomial
// likelihood over a grid of c for each a that is refined three times.
func fitShare(failed [][]bool, seeds []int, x func(m float64) float64) (a, c, fit float64) {
	counts := make([]float64, len(failed))
	for i := range failed {
		for _, r := range seeds {
			if failed[i][r] {
				counts[i]++
			}
		}
	}
	n := float64(len(seeds))
	likelihood := func(a, c float64) (sum float64) {
		for i, m := range fewMembers {
			p := min(math.Exp(c-a*x(float64(m))), 1-1e-4)
			p = max(p, 1e-9)
			sum += counts[i]*math.Log(p) + (n-counts[i])*math.Log1p(-p)
		}
		return sum
	}
	fit = math.Inf(-1)
	aLo, aHi, cLo, cHi := 0.0, 8.0, -2.0, 8.0
	for range 4 {
		const steps = 40
		da, dc := (aHi-aLo)/steps, (cHi-cLo)/steps
		for i := range steps + 1 {
			for j := range steps + 1 {
				u, v := aLo+float64(i)*da, cLo+float64(j)*dc
				if l := likelihood(u, v); l > fit {
					a, c, fit = u, v, l
				}
			}
		}
		aLo, aHi, cLo, cHi = max(0, a-2*da), a+2*da, c-2*dc, c+2*dc
	}
	return a, c, fit
}

// TestFitShare: the fit finds the exponent of counts that follow the law.
func TestFitShare(t *testing.T) {
	const n = 20_000
	failed := make([][]bool, len(fewMembers))
	seeds := make([]int, n)
	for i, m := range fewMembers {
		failed[i] = make([]bool, n)
		for r := range failed[i] {
			failed[i][r] = float64(r) < n*0.9*math.Pow(float64(m), -1.5)
			seeds[r] = r
		}
	}
	if a, c, _ := fitShare(failed, seeds, math.Log); math.Abs(a-1.5) > 0.02 || math.Abs(c-math.Log(0.9)) > 0.02 {
		t.Errorf("a = %v, c = %v, expected 1.5 and %v", a, c, math.Log(0.9))
	}
}

package worlds

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// TestNumberWorlds: of every kind the mean of many rewards is the stated mean, the possible is between them, and the best of the
// grid is above a uniform number; a world of one seed is one world.
func TestNumberWorlds(t *testing.T) {
	for _, k := range NumberKinds() {
		w, err := k.New(3, 50)
		if err != nil {
			t.Fatal(err)
		}
		again, err := k.New(3, 50)
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		for range 5 {
			d, offer := r.IntN(50), 0
			if n := len(w.Offers); n > 0 {
				offer = r.IntN(n)
			}
			a := make([]float64, len(w.Numbers))
			for i := range a {
				g := w.Grid(i, 64)
				a[i] = g[r.IntN(len(g))]
			}
			m := w.Mean(d, offer, a)
			if m != again.Mean(d, offer, a) || w.Reward(d, offer, a) != again.Reward(d, offer, a) {
				t.Fatalf("%s: two worlds of one seed differ", k.Name)
			}
			best, uniform := w.Possible(d)
			if !(best > uniform) || m > best+.02*(best-uniform) {
				t.Errorf("%s: mean %v, best %v, uniform %v", k.Name, m, best, uniform)
			}
			var sum, square float64
			const n = 20000
			for range n {
				y := w.pay(r, d, offer, a)
				sum, square = sum+y, square+y*y
			}
			mean := sum / n
			// level 10⁻⁸ for each of 70 tests, by the normal limit; of rare sales within .2 % of the best mean
			if sd := math.Sqrt(max(square/n-mean*mean, 1e-12) / n); math.Abs(mean-m) > 5.8*sd+20*math.Abs(m)/n+2e-3*best {
				t.Errorf("%s: the mean of %d rewards is %v, stated is %v", k.Name, n, mean, m)
			}
		}
	}
}

// TestNumberBins measures the rival of docs/record/numbers.md; otherwise one world.
func TestNumberBins(t *testing.T) {
	worlds := 1
	if os.Getenv("TROUPE_RECORD") != "" {
		worlds = 8
	}
	var of [2][3]float64
	n, kinds := [2]float64{}, [2]string{"ten kinds", "held kinds"}
	for _, k := range NumberKinds() {
		var mean [3]float64
		least, held := 1., 0
		if k.Held {
			held = 1
		}
		for seed := range uint64(worlds) {
			w, err := k.New(seed, 2000)
			if err != nil {
				t.Fatal(err)
			}
			s := NewNumberBins(w, 10, 1).Play(250, 1000, 2000)
			for i := range s {
				mean[i] += s[i] / float64(worlds)
				of[held][i] += s[i]
			}
			n[held]++
			least = min(least, s[1])
		}
		t.Logf("%-9s %.3f %.3f %.3f  worst at 1,000 %.2f", k.Name, mean[0], mean[1], mean[2], least)
	}
	for held := range of {
		m := of[held]
		t.Logf("%s: %.3f %.3f %.3f", kinds[held], m[0]/n[held], m[1]/n[held], m[2]/n[held])
	}
	if of[0][2]/n[0] < .6 {
		t.Errorf("the bins have the share %.2f after 2,000 decisions, expected .6", of[0][2]/n[0])
	}
}

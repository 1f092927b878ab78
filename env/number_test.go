package env

import (
	"math"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/rng"
)

// TestNumberMeans: rewards of a cell have the mean that regret is measured by, in every curve and noise, within 6 standard errors of 20,000
// draws and 20/n of the largest; the best cell has regret 0. The heavy tail of an auction has a mean, too.
func TestNumberMeans(t *testing.T) {
	for _, curve := range curves {
		for _, noise := range []string{"binary", "gauss", "lognormal"} {
			if noise == "binary" && curve == "parabola" {
				continue
			}
			o := NewNumber()
			o.Curve, o.Noise, o.Cells = curve, noise, 16
			e := build(t, o, key(4)).(*numberWorld)
			set := offer(t, e, key(4), 1).(bandit.Numbers)
			least := math.Inf(1)
			for i := range set.Len() {
				r, err := e.Regret(bandit.Action{Index: i})
				if err != nil || r < 0 {
					t.Fatal(r, err)
				}
				least = min(least, r)
			}
			if least != 0 {
				t.Errorf("%s: the least regret is %v", curve, least)
			}
			for _, i := range []int{0, 7, 15} {
				a := bandit.Action{Index: i}
				mean, _ := e.mean(a)
				sum, square, most := 0.0, 0.0, 0.0
				const n = 20_000
				for round := range uint64(n) {
					y, err := e.Reward(a, key(9).Stream(rng.Reward).Round(round))
					if err != nil {
						t.Fatal(err)
					}
					sum += y
					square += y * y
					most = max(most, math.Abs(y))
				}
				got := sum / n
				se := math.Sqrt(math.Max(square/n-got*got, 1e-12) / n)
				if math.Abs(got-mean) > 6*se+20*most/n {
					t.Errorf("%s %s cell %d: mean %v ± %v, want %v", curve, noise, i, got, se, mean)
				}
			}
		}
	}
}

// TestNumberArms: arms of a segment lie in its block and in the unit ball, the last cell of a cyclic number is beside the first, and two
// numbers have a square of cells.
func TestNumberArms(t *testing.T) {
	dist := func(set bandit.Numbers, i, j int) (d float64) {
		for k, x := range set.At(i) {
			d += (x - set.At(j)[k]) * (x - set.At(j)[k])
		}
		return math.Sqrt(d)
	}
	o := NewNumber()
	o.Curve = "cyclic"
	set := offer(t, build(t, o, key(1)), key(1), 1).(bandit.Numbers)
	if a, b := dist(set, 0, 47), dist(set, 0, 1); math.Abs(a-b) > 1e-12 {
		t.Errorf("the last cell is %v away, the second %v", a, b)
	}
	o.Curve = "peak"
	set = offer(t, build(t, o, key(1)), key(1), 1).(bandit.Numbers)
	if a, b := dist(set, 0, 63), dist(set, 0, 1); a < 5*b {
		t.Errorf("the last cell is %v away, the second %v", a, b)
	}
	for i := range set.Len() {
		norm := 0.0
		for k, x := range set.At(i) {
			norm += x * x
			if k/set.Shape().Features != set.Segment() && x != 0 {
				t.Fatalf("arm %d leaves its block", i)
			}
		}
		if norm > 1+1e-12 || set.Shape().Segment(bandit.Action{X: set.At(i)}) != set.Segment() {
			t.Errorf("arm %d has norm² %v", i, norm)
		}
	}
	for want, change := range map[string]func(o *NumberOptions){
		"curve: is \"pek\"":    func(o *NumberOptions) { o.Curve = "pek" },
		"cells: is 1,":         func(o *NumberOptions) { o.Cells = 1 },
		"cells: is 17":         func(o *NumberOptions) { o.Curve, o.Cells = "ridge", 17 },
		"segments: is 0":       func(o *NumberOptions) { o.Segments = 0 },
		"sigma: is -1":         func(o *NumberOptions) { o.Sigma = -1 },
		"noise: is \"nois\"":   func(o *NumberOptions) { o.Noise = "nois" },
		"noise: is \"binary\"": func(o *NumberOptions) { o.Curve, o.Noise = "parabola", "binary" },
	} {
		o := NewNumber()
		change(o)
		if _, err := o.Build(key(1), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

package env

import (
	"math"
	"strings"
	"testing"

	"troupe/bandit"
	"troupe/rng"
)

// TestListBest: the best list, which is found by sorting where that is exact, is the best of all of them; a list's regret is the difference.
func TestListBest(t *testing.T) {
	for _, clicks := range []string{"pbm", "cascade", "dcm", "place", "repeat", "whole", "page"} {
		o := NewList()
		o.Clicks, o.Items, o.Positions, o.Segments = clicks, 6, 3, 3
		if clicks == "pbm" || clicks == "whole" {
			o.Examination = []float64{.3, 1, .6}
		}
		made, err := o.Build(key(3), nil)
		if err != nil {
			t.Fatal(err)
		}
		e := made.(*listWorld)
		for g := range 3 {
			best := math.Inf(-1)
			for code := range 6 * 6 * 6 {
				L := []int{code / 36, code / 6 % 6, code % 6}
				ok := L[0] != L[1] && L[1] != L[2] && L[0] != L[2]
				for l, i := range L {
					from, to := e.shape.Range(l)
					ok = ok && i >= from && i < to
				}
				if !ok {
					continue
				}
				v := e.value(g, L)
				best = max(best, v)
				var a bandit.Action
				e.shape.Encode(&a, g, L)
				e.segment = g
				if r, err := e.Regret(a); err != nil || math.Abs(r-(e.best[g]-v)) > 1e-12 {
					t.Errorf("%s %v: regret %v, want %v: %v", clicks, L, r, e.best[g]-v, err)
				}
			}
			if math.Abs(best-e.best[g]) > 1e-12 {
				t.Errorf("%s, segment %d: the best list is worth %v, want %v", clicks, g, e.best[g], best)
			}
		}
	}
}

// TestListClicks: the cascade ends at its first click, rewards are the sum of positions, and an action of another segment is refused.
func TestListClicks(t *testing.T) {
	o := NewList()
	o.Clicks, o.Attraction = "cascade", []float64{.9, .8, .7, .6, .5, .4, .3, .2, .1, 0}
	e := build(t, o, key(1)).(*listWorld)
	offer(t, e, key(1), 1)
	var a bandit.Action
	e.shape.Encode(&a, 0, []int{4, 2, 0, 1})
	n := 0.0
	for round := range uint64(2000) {
		y, err := e.Reward(a, key(1).Stream(rng.Reward).Round(round))
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		for _, c := range e.ByPosition() {
			sum += c
		}
		if sum != y || y > 1 {
			t.Fatalf("clicks %v, reward %v", e.ByPosition(), y)
		}
		n += y
	}
	want := 1 - .5*.3*.1*.2
	if z := (n - 2000*want) / math.Sqrt(2000*want*(1-want)); math.Abs(z) > 5 {
		t.Errorf("%v clicks of 2000, want %v", n, 2000*want)
	}
	a.X[0] = a.X[len(a.X)-1] + 1
	if _, err := e.Reward(a, rng.Source{}); err == nil || !strings.Contains(err.Error(), "no list") {
		t.Errorf("%v", err)
	}
}

// TestListErrors: what is wrong is said with its key.
func TestListErrors(t *testing.T) {
	for want, change := range map[string]func(o *ListOptions){
		"clicks: is \"cascad\"":           func(o *ListOptions) { o.Clicks = "cascad" },
		"positions: is 13":                func(o *ListOptions) { o.Positions = 13 },
		"items: is 3":                     func(o *ListOptions) { o.Items = 3 },
		"segments: is 0":                  func(o *ListOptions) { o.Segments = 0 },
		"go: is NaN":                      func(o *ListOptions) { o.Go = math.NaN() },
		"examination: has 1 numbers":      func(o *ListOptions) { o.Examination = []float64{1} },
		"examination[1]: is 2":            func(o *ListOptions) { o.Examination = []float64{1, 2, 0, 0} },
		"attraction: has 1 numbers":       func(o *ListOptions) { o.Attraction = []float64{1} },
		"items: is 40: 2.19336e+06 lists": func(o *ListOptions) { o.Clicks, o.Items = "place", 40 },
		"noise: is -1":                    func(o *ListOptions) { o.Noise = -1 },
	} {
		o := NewList()
		change(o)
		if _, err := o.Build(key(1), nil); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), " is", ": is"), want) && !strings.Contains(strings.Replace(err.Error(), " has", ": has", 1), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

package ope

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// coinLogger learns: it plays ε-greedy on its own running means less a price, with a floor, in two contexts.
type coinLogger struct {
	r    *rand.Rand
	n, s [2][3]float64
}

var coinCosts, coinMeans = []float64{0, 1, 4}, [2][3]float64{{.5, .55, .6}, {.2, .6, .9}}

// next returns an event and the sums that the truth has of it: the conditional mean reward and those of the fixed actions.
func (l *coinLogger) next(price float64) (law []float64, chosen int, y, reward float64, fixed [3]float64) {
	x := l.r.IntN(2)
	best := 0
	score := func(k int) float64 { return (l.s[x][k]+.5)/(l.n[x][k]+1) - price*coinCosts[k] }
	for k := range 3 {
		if score(k) > score(best) {
			best = k
		}
	}
	law = []float64{.05, .05, .05}
	law[best] += .85
	u := l.r.Float64()
	for chosen = 0; chosen < 2 && u >= law[chosen]; chosen++ {
		u -= law[chosen]
	}
	if l.r.Float64() < coinMeans[x][chosen] {
		y = 1
	}
	l.n[x][chosen]++
	l.s[x][chosen] += y
	for k := range 3 {
		reward += law[k] * coinMeans[x][k]
		fixed[k] = coinMeans[x][k]
	}
	return law, chosen, y, reward, fixed
}

// TestCoinCoverage: of 90 learning loggers, 300 with TROUPE_LONG, at least 95 % have a difference to the coin that lies in its
// interval at every look. Under a rate of exactly .05 misses, 300 runs would have more than 27 with probability below .001; the
// bound is by unions, so that few are expected.
func TestCoinCoverage(t *testing.T) {
	missed, decided, runs := 0, 0, plays(90, 300, 300)
	for run := range runs {
		l := &coinLogger{r: rand.New(rand.NewPCG(uint64(run), 31))}
		price := []float64{.05, .12, .3}[run%3]
		c := NewCoin(3, 0, 1)
		var R, C float64
		var r [3]float64
		ok, sure := true, false
		for n := 1; n <= 1000; n++ {
			law, chosen, y, reward, fixed := l.next(price)
			c.Add(law, coinCosts, chosen, y)
			R += reward
			for k := range 3 {
				r[k] += fixed[k]
				C += law[k] * coinCosts[k]
			}
			if n < 20 || n%20 > 0 {
				continue
			}
			m := float64(n)
			rho, gap := make([]float64, 3), make([]float64, 3)
			for k := range 3 {
				rho[k], gap[k] = (R-r[k])/m, C/m-coinCosts[k]
			}
			want, _, _, _, _ := coinGap(rho, gap)
			got := c.Result(.95, []string{"a", "b", "c"})
			if math.Abs(got.Policy.Cost-C/m) > 1e-9 {
				t.Fatalf("mean cost %v, want %v", got.Policy.Cost, C/m)
			}
			if want < got.Lower || want > got.Upper || R/m < got.Policy.Lower || R/m > got.Policy.Upper {
				ok = false
			}
			sure = sure || got.Lower > 0 || got.Upper < 0
		}
		if !ok {
			missed++
		}
		if sure {
			decided++
		}
	}
	t.Logf("%d of %d missed, %d decided", missed, runs, decided)
	if missed > runs/20 {
		t.Errorf("%d of %d runs missed the truth at some look, at most %d are 95%%", missed, runs, runs/20)
	}
}

// TestCoinUnderStop: the same of 45 or 300 loggers with a hard stop that takes actions away for money that is not there, among all of
// their decisions: a fixed action stands for the cheapest that is left where it is away. The stop depends on what was played before.
func TestCoinUnderStop(t *testing.T) {
	missed, decided, stops, runs := 0, 0, 0, plays(90, 300, 300)
	for run := range runs {
		l := &coinLogger{r: rand.New(rand.NewPCG(uint64(run), 41))}
		budget := []float64{.5, 1.2, 2.5}[run%3]
		c, left := NewCoin(3, 0, 1), 0.
		var R, C float64
		var r, f [3]float64
		ok, sure := true, false
		for n := 1; n <= 1000; n++ {
			x := l.r.IntN(2)
			left += budget
			law, best, kept := []float64{0, 0, 0}, 0, 0.
			for k := range 3 {
				if coinCosts[k] <= left || k == 0 {
					kept++
					if (l.s[x][k]+.5)/(l.n[x][k]+1) > (l.s[x][best]+.5)/(l.n[x][best]+1) {
						best = k
					}
				}
			}
			for k := range int(kept) { // costs ascend
				law[k] = .15 / kept
			}
			law[best] += .85
			chosen := 0
			for u := l.r.Float64(); chosen < 2 && u >= law[chosen]; chosen++ {
				u -= law[chosen]
			}
			y := 0.
			if l.r.Float64() < coinMeans[x][chosen] {
				y = 1
			}
			l.n[x][chosen]++
			l.s[x][chosen] += y
			left -= coinCosts[chosen]
			if kept < 3 {
				stops++
				c.AddStopped(law, coinCosts, chosen, y)
			} else {
				c.Add(law, coinCosts, chosen, y)
			}
			for k := range 3 {
				R += law[k] * coinMeans[x][k]
				C += law[k] * coinCosts[k]
				plays := k
				if law[k] == 0 {
					plays = 0
				}
				r[k] += coinMeans[x][plays]
				f[k] += coinCosts[plays]
			}
			if n%50 > 0 {
				continue
			}
			rho, gap := make([]float64, 3), make([]float64, 3)
			for k := range 3 {
				rho[k], gap[k] = (R-r[k])/float64(n), (C-f[k])/float64(n)
			}
			want, _, _, _, _ := coinGap(rho, gap)
			got := c.result(.95, []string{"a", "b", "c"}, true)
			if m := float64(n); math.Abs(got.Policy.Cost-C/m) > 1e-9 || math.Abs(got.Actions[2].Cost-f[2]/m) > 1e-9 {
				t.Fatalf("mean costs %v and %v, want %v and %v", got.Policy.Cost, got.Actions[2].Cost, C/m, f[2]/m)
			}
			if ok = ok && want >= got.Lower && want <= got.Upper; got.Lower > 0 || got.Upper < 0 {
				sure = true
			}
		}
		if !ok {
			missed++
		}
		if sure {
			decided++
		}
	}
	t.Logf("%d of %d missed, %d decided, %d of %d decisions under the stop", missed, runs, decided, stops, 1000*runs)
	if missed > runs/20 || stops < 1000*runs/3 {
		t.Errorf("%d of %d runs missed the truth at some look, at most %d are 95%%; %d decisions under the stop", missed, runs, runs/20, stops)
	}
}

// TestCoinGap: the coin of two actions is the linear program: max over λ of the smallest ρ − λγ, on a grid of λ.
func TestCoinGap(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 31))
	for range 500 {
		k := 1 + r.IntN(5)
		rho, gap := make([]float64, k), make([]float64, k)
		for i := range rho {
			rho[i], gap[i] = r.NormFloat64(), r.NormFloat64()
		}
		gap[0] = math.Abs(gap[0])
		got, _, _, _, ok := coinGap(rho, gap)
		best := math.Inf(-1)
		for l := 0.0; l < 60; l += .002 {
			low := math.Inf(1)
			for i := range rho {
				low = min(low, rho[i]-l*gap[i])
			}
			best = max(best, low)
		}
		if !ok || got < best-1e-9 || got > best+.02 {
			t.Fatalf("%v, %v: %v, want %v", rho, gap, got, best)
		}
	}
	if _, _, _, _, ok := coinGap([]float64{1}, []float64{-1}); ok {
		t.Error("a coin of actions that are all dearer")
	}
	c := NewCoin(2, 0, 1)
	c.Add([]float64{1, 0}, []float64{1, 2}, 0, 1)
	c.Add([]float64{0, 1}, []float64{1, 2}, 1, 1)
	if _, err := json.Marshal(c.Result(.95, []string{"a", "b"})); err != nil {
		t.Error(err)
	}
}

// TestCoinSays: in a world where contexts tell what is worth its money choosing pays, in one where they tell nothing it does not, and
// an action that could not be played has no point.
func TestCoinSays(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 31))
	for _, tells := range []bool{true, false} {
		c := NewCoin(3, 0, 1)
		for n := range 4000 {
			x := r.IntN(2)
			law := [][]float64{{.9, .1, 0}, {.1, .9, 0}}[x]
			means := [][]float64{{.8, .8}, {.1, .9}}[x]
			if !tells {
				means = []float64{.5, .9}
			}
			a := 0
			if r.Float64() >= law[0] {
				a = 1
			}
			y := 0.
			if r.Float64() < means[a] {
				y = 1
			}
			c.Add(law, []float64{1, 3, 2}, a, y)
			_ = n
		}
		got := c.Result(.95, []string{"small", "large", "new"})
		want := "choosing earns"
		if !tells {
			want = "choosing does not pay so far: against a coin of the same cost between small and large"
		}
		if !strings.Contains(got.Sentence, want) || !strings.Contains(got.Sentence, "between small and large") || got.Actions[2].Lacking != 4000 ||
			got.Actions[2].Absent != 0 || got.Actions[2].Floor != .01 || !strings.Contains(got.Actions[2].Missing(4000), "floor = 0.01") ||
			math.Abs(got.Policy.Cost-2) > .1 {
			t.Errorf("%+v", got)
		}
	}
}

// TestCoinShows: an action has a mean reward from ten effective decisions on, the rule of Shown, and one that was never played
// has an interval and no point. Before, its point was the middle of the interval, and the difference was taken from it.
func TestCoinShows(t *testing.T) {
	for _, c := range []struct {
		plays int
		shown bool
	}{{0, false}, {9, false}, {10, true}} {
		coin := NewCoin(2, 0, 1)
		for n := range 100 {
			chosen := 0
			if n < c.plays {
				chosen = 1
			}
			coin.Add([]float64{.9, .1}, []float64{2, 1}, chosen, 1)
		}
		r := coin.Result(.95, []string{"a", "b"})
		if (r.Actions[1].Reward != nil) != c.shown || r.Actions[0].Reward == nil || r.Policy.Reward == nil {
			t.Errorf("played %d times: reward shown %v, expected %v", c.plays, r.Actions[1].Reward != nil, c.shown)
		}
		if !r.Compared || r.Actions[1].Share == 0 || (r.Difference != nil) != c.shown || r.Lower > r.Upper {
			t.Errorf("played %d times: difference %v with share %v, compared %v", c.plays, r.Difference, r.Actions[1].Share,
				r.Compared)
		}
		if strings.Contains(r.Sentence, "difference is -0") != c.shown && strings.Contains(r.Sentence, "difference is +0") != c.shown {
			t.Errorf("played %d times: %s", c.plays, r.Sentence)
		}
	}
}

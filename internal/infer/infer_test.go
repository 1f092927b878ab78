package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"troupe/internal/stats"
)

// draws is a stream of uniform numbers that depends on its arguments only.
func draws(reps, b, i, n int) int {
	return rand.New(rand.NewPCG(uint64(reps)<<32|uint64(b), uint64(i))).IntN(n)
}

func normal(seed uint64, n int, mean, spread float64) []float64 {
	r := rand.New(rand.NewPCG(seed, 1))
	x := make([]float64, n)
	for i := range x {
		x[i] = mean + spread*r.NormFloat64()
	}
	return x
}

// The intervals of one group of means are those of stats.MaxT, to the bit.
func TestMeansAreMaxT(t *testing.T) {
	a, b, c := normal(1, 40, 0, 1), normal(2, 40, 2, 2), normal(3, 40, 0.2, 1)
	cs := []Contrast{{X: b, Y: a}, {X: c, Y: a}, {X: c, Y: b}}
	f := Simultaneous(Mean, cs, 0.95, draws)
	s := stats.NewResamples(40, resamples, func(k, i, n int) int { return draws(40, k, i, n) })
	want, ok := s.MaxT([][]float64{paired(b, a, 1), paired(c, a, 1), paired(c, b, 1)}, 0.95)
	if !ok || f.Factor[0] != want || f.Factor[2] != want {
		t.Fatalf("factors %v, MaxT %v (%v)", f.Factor, want, ok)
	}
	d := paired(b, a, 1)
	m, se := stats.Mean(d), stats.StdErr(d)
	if i := f.Each[0]; i.Lo != m-want*se || i.Hi != m+want*se || !i.OK || !i.Above() {
		t.Errorf("%+v, expected %v ± %v", i, m, want*se)
	}
}

// Families have the intervals that each has alone, and a resample is drawn once for all of them.
func TestFamilies(t *testing.T) {
	a, b, few, none := normal(9, 40, 0, 1), normal(10, 40, 1, 1), normal(11, 25, 0, 1), make([]float64, 25)
	lists := [][]Contrast{{{X: a, Y: b}, {X: b, Y: a, Times: 2}}, {{X: a, Y: b}}, {{X: few, Y: none}, {X: a, Y: b}}}
	drawn := 0
	count := func(reps, b, i, n int) int {
		drawn++
		return draws(reps, b, i, n)
	}
	for i, f := range Families(Mean, lists, 0.95, count) {
		alone := Simultaneous(Mean, lists[i], 0.95, draws)
		if !slices.Equal(f.Each, alone.Each) || !slices.Equal(f.Factor, alone.Factor) || !f.Each[0].OK {
			t.Errorf("family %d: %+v, alone %+v", i, f, alone)
		}
	}
	if want := (40 + 25) * resamples; drawn != want {
		t.Errorf("%d numbers are drawn, expected %d", drawn, want)
	}
}

// Groups are balanced: all intervals hold together, and a group with heavy tails does not widen another one as one factor
// for both would.
func TestGroups(t *testing.T) {
	light, heavy := normal(4, 50, 0, 1), normal(5, 50, 0, 1)
	for i := range heavy {
		heavy[i] = math.Exp(2.5 * heavy[i])
	}
	zero := make([]float64, 50)
	alone := Simultaneous(Mean, []Contrast{{X: light, Y: zero}}, 0.95, draws).Factor[0]
	one := Simultaneous(Mean, []Contrast{{X: light, Y: zero}, {X: heavy, Y: zero}}, 0.95, draws).Factor[0]
	two := Simultaneous(Mean, []Contrast{{X: light, Y: zero}, {X: heavy, Y: zero, Group: 1}}, 0.95, draws)
	if !(alone < two.Factor[0] && two.Factor[0] < one && two.Factor[0] < two.Factor[1]) {
		t.Errorf("factors: alone %.2f, two groups %.2f and %.2f, one group %.2f", alone, two.Factor[0], two.Factor[1], one)
	}
}

// Below the least number of replications there are estimates and nothing else, for every estimand; contrasts that have
// enough keep their intervals.
func TestFew(t *testing.T) {
	for e := Mean; e <= ShareLost; e++ {
		n := e.Least()
		few, many, rival := normal(6, n-1, 9, 1), normal(7, n, 9, 1), normal(8, n, 1, 1)
		if e == ShareLost {
			for i := range many {
				many[i], rival[i] = float64(i%2), 0
			}
			few = many[:n-1]
		}
		f := Simultaneous(e, []Contrast{{X: few, Y: rival[:n-1]}, {X: many, Y: rival}}, 0.95, draws)
		if f.Each[0].OK || f.Each[0].Value == 0 || !f.Each[1].OK {
			t.Errorf("%v: %+v", e, f.Each)
		}
	}
	if f := Simultaneous(Mean, []Contrast{{X: []float64{3}, Y: []float64{1}}}, 0.95, draws); f.Each[0] != (Interval{Value: 2}) {
		t.Errorf("one replication: %+v", f.Each[0])
	}
}

// Estimates are what they are called.
func TestEstimands(t *testing.T) {
	x := make([]float64, 40)
	for i := range x {
		x[i] = float64((i*7)%40 + 1) // 1 … 40
	}
	for e, want := range map[Estimand]float64{Mean: 20.5, Median: 20.5, CVaR5: 39.5, ShareLost: 20.5} {
		if got := e.Of(x); math.Abs(got-want) > 1e-12 {
			t.Errorf("%v of 1 … 40 is %v, expected %v", e, got, want)
		}
		if back, ok := Named(e.String()); back != e || !ok {
			t.Errorf("%v is not named", e)
		}
	}
	if e, ok := Named("mode"); ok || e != Mean {
		t.Errorf("mode is %v, %v", e, ok)
	}
	twice := Simultaneous(Median, []Contrast{{X: x, Y: x, Times: 0.5}}, 0.95, draws).Each[0]
	if twice.Value != 10.25 || twice.Same || !twice.Above() {
		t.Errorf("x − x/2: %+v", twice)
	}
	if same := Simultaneous(Mean, []Contrast{{X: x, Y: x}}, 0.95, draws).Each[0]; !same.Same || same.Above() || same.Below() {
		t.Errorf("x − x: %+v", same)
	}
}

// A run is lost when its regret grows with an exponent of 0.9 or more over the last doubling.
func TestLost(t *testing.T) {
	for _, c := range []struct {
		half, end float64
		lost      bool
	}{{50, 100, true}, {50, 50 * math.Pow(2, 0.91), true}, {50, 50 * math.Pow(2, 0.89), false}, {50, 50, false}, {0, 1, true},
		{0, 0, false}, {-3, -1, false}} {
		if got := Lost(c.half, c.end, 2); got != c.lost {
			t.Errorf("from %v to %v: %v", c.half, c.end, got)
		}
	}
	for _, c := range []struct {
		rounds []int
		want   int
	}{{[]int{10, 50, 100}, 1}, {[]int{10, 41, 100}, -1}, {[]int{42, 59, 100}, 1}, {[]int{1}, -1}, {nil, -1}} {
		if got := Halfway(c.rounds); got != c.want {
			t.Errorf("%v: %d, expected %d", c.rounds, got, c.want)
		}
	}
}

// Places count those that are better and worse by more than chance.
func TestPlaces(t *testing.T) {
	at := []float64{1, 1.2, 5, 9}
	between := func(i, j int) Interval {
		d := at[i] - at[j]
		return Interval{Value: d, Lo: d - 1, Hi: d + 1, OK: true}
	}
	want := [][2]int{{1, 2}, {1, 2}, {3, 3}, {4, 4}}
	for i := range at {
		if from, to := Places(i, len(at), between); [2]int{from, to} != want[i] {
			t.Errorf("unit %d: places %d to %d, expected %v", i, from, to, want[i])
		}
	}
	if from, to := Places(0, 3, func(int, int) Interval { return Interval{} }); from != 1 || to != 3 {
		t.Errorf("without intervals: %d to %d", from, to)
	}
}

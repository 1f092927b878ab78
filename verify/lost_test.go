package verify

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"

	"troupe/internal/stats"
	"troupe/theory"
)

// TestLostEvents: the events' probabilities lie in theory's enclosure, a tape that was bent has its event and the law of a tape given it,
// and the weights have mean 1, within five standard errors; weights that forget how many events hold do not.
func TestLostEvents(t *testing.T) {
	s := stuck{best: 0.5, other: 0.2, lambda: 0.1, T: 100, r: 0.8, m: 3}
	l := s.lose(0.3, 0.05, 5)
	events := l.groups[0].events
	which := func(x *tape) (holds []bool) {
		for _, n := range l.good(x) {
			holds = append(holds, n == 0)
		}
		return holds
	}
	for k, e := range events {
		if lo, hi := theory.Stuck(float64(s.m), e.sigma, e.gap); e.p < lo || e.p > hi {
			t.Errorf("k = %d: %v outside [%v, %v]", k+1, e.p, lo, hi)
		}
	}
	r := rand.New(rand.NewPCG(16, 1))
	const n = 20_000
	given, plain := 0, 0 // A_2 with A_4, by tapes that are bent to A_4 and by plain ones
	for range n {
		x := l.draw(r, 5)
		z, g := events[3].draw(r, s.m)
		l.bend(x, 4, z, g)
		has := which(x)
		if !has[3] {
			t.Fatal("a bent tape without its event")
		}
		if has[1] {
			given++
		}
		if has = which(l.draw(r, 5)); has[1] && has[3] {
			plain++
		}
	}
	p, a := share(given, n)
	q, b := share(plain, n)
	p, a = p*events[3].p, a*events[3].p
	t.Logf("P(A_2 A_4): bent %.5f ± %.5f, plain %.5f ± %.5f", p, a, q, b)
	if math.Abs(p-q) > 5*math.Hypot(a, b) {
		t.Errorf("P(A_2 A_4): bent %.5f ± %.5f, plain %.5f ± %.5f", p, a, q, b)
	}
	var weights, forget []float64
	for range n {
		_, w, through := l.run(r)
		weights = append(weights, w)
		if through {
			w = l.weight([]int{1})
		}
		forget = append(forget, w)
	}
	if m, se := stats.Mean(weights), stats.StdErr(weights); math.Abs(m-1) > 5*se {
		t.Errorf("mean weight %.4f ± %.4f", m, se)
	}
	if m, se := stats.Mean(forget), stats.StdErr(forget); math.Abs(m-1) < 5*se {
		t.Errorf("mean weight %.4f ± %.4f: the test does not tell weights of one event", m, se)
	}
}

// TestLostAgrees: importance sampling and plain simulation agree within five standard errors, at a constant scale and at cβ_t, with events
// that are too small and too large. 500 rounds and 3000 plain runs, 1500 and 4000 with TROUPE_LONG.
func TestLostAgrees(t *testing.T) {
	rounds := sized(500, 1500)
	for i, s := range []stuck{
		{best: 0.5, other: 0.2, lambda: 0.1, m: 8, T: rounds, r: 1},
		{best: 0.5, other: -0.1, lambda: 0.5, m: 3, T: 200, r: 0.15, delta: 0.1},
	} {
		p, a := s.plain(rand.New(rand.NewPCG(6, uint64(i))), sized(3000, 4000))
		for _, level := range []float64{0.15, 0.3} {
			g := s.lose(level, 0.05, 20).estimate(rand.New(rand.NewPCG(7, uint64(i))), 1500)
			q, b := g.p, g.se
			t.Logf("%+v: plain %.5f ± %.5f, events at %v %.5f ± %.5f", s, p, a, level, q, b)
			if math.Abs(p-q) > 5*math.Hypot(a, b) {
				t.Errorf("%+v: plain %.5f ± %.5f, events at %v %.5f ± %.5f", s, p, a, level, q, b)
			}
		}
	}
}

// TestLostOutside: at T = 160 a run of m = 64 members is stuck mostly because its good models were not drawn in time. The
// bound on the share outside the events covers what plain simulation finds there, where three standard errors of the part
// inside do not; with nothing outside seen it is 1 − 0.05^(1/n), over the share of plain tapes. The interval of a slope has it.
func TestLostOutside(t *testing.T) {
	s := stuck{best: 0.5, other: 0.2, lambda: 0.1, m: 64, T: 160, r: 1}
	l, r := s.lose(0.25, 1, 20), rand.New(rand.NewPCG(17, 1))
	const n = 4000
	all, outside := 0, 0
	for range n {
		if isStuck, _, through := l.run(r); isStuck {
			all++
			if !through {
				outside++
			}
		}
	}
	t.Logf("%d of %d stuck, %d of them outside the events", all, n, outside)
	if outside < all/10 {
		t.Errorf("%d of %d stuck runs outside the events: the setting does not show them", outside, all)
	}
	g := s.lose(0.25, 0.5, 20).estimate(rand.New(rand.NewPCG(17, 2)), 2000)
	if p, se := share(outside, n); g.most < p-5*se {
		t.Errorf("outside at most %.5f, plain simulation has %.5f ± %.5f", g.most, p, se)
	}
	rare := stuck{best: 0.5, other: 0.2, lambda: 0.1, m: 8, T: 400, r: 2}
	if g := rare.lose(0.25, 0.25, 20).estimate(rand.New(rand.NewPCG(17, 3)), 400); g.outside != 0 ||
		math.Abs(g.most-4*(1-math.Pow(0.05, 1./400))) > 1e-9 {
		t.Errorf("none seen outside in 400 runs: %+v", g)
	}
	x, y := []float64{0, 1, 2}, []float64{0, -1, -2}
	if b, lo, hi := slopeWithin(x, y, []float64{0, 0, 0}, []float64{0.5, 9, 2}); b != -1 || lo != -1.25 || hi != 0 {
		t.Errorf("slope %v in [%v, %v], expected −1 in [−1.25, 0]", b, lo, hi)
	}
}

// TestLostFew: an event with j > 0 has the probability and the law given it that plain tapes have, a tape that was bent has
// its event, and weights with four groups have mean 1, within five standard errors; weights that leave a group out do not.
func TestLostFew(t *testing.T) {
	s := stuck{best: 0.5, other: 0.2, lambda: 0.1, T: 100, r: 0.8, m: 6}
	l := s.lose(0.3, 0.1, 5, 0, 1, 2, 4, 6, 100)
	if len(l.groups) != 4 {
		t.Fatalf("%d groups, expected those with j < 6", len(l.groups))
	}
	r := rand.New(rand.NewPCG(18, 1))
	const n = 30_000
	e := l.groups[2].events[3] // at most 2 after 4 pulls
	bent, own, plain, both := [3]int{}, 0, [3]int{}, 0
	for range n {
		x := l.draw(r, 5)
		z, g := e.draw(r, s.m)
		l.bend(x, 4, z, g)
		good := l.good(x)
		if good[3] > 2 {
			t.Fatal("a bent tape without its event")
		}
		bent[good[3]]++
		if good[1] <= 1 {
			own++
		}
		if good = l.good(l.draw(r, 5)); good[3] <= 2 {
			plain[good[3]]++
			if good[1] <= 1 {
				both++
			}
		}
	}
	agree := func(what string, a, b int) {
		p, x := share(a, n)
		q, y := share(b, n)
		p, x = p*e.p, x*e.p
		t.Logf("%s: bent %.5f ± %.5f, plain %.5f ± %.5f", what, p, x, q, y)
		if math.Abs(p-q) > 5*math.Hypot(x, y) {
			t.Errorf("%s: bent %.5f ± %.5f, plain %.5f ± %.5f", what, p, x, q, y)
		}
	}
	agree("at most 2 of 6", n, plain[0]+plain[1]+plain[2])
	for j := range bent {
		agree(fmt.Sprintf("%d of 6", j), bent[j], plain[j])
	}
	agree("with at most 1 after 2 pulls", own, both)
	var weights, forget []float64
	for range n {
		_, w, _ := l.run(r)
		weights = append(weights, w)
		x := l.draw(r, 5) // of a plain tape: E[1/weight] of the whole is 1 under it
		forget = append(forget, 1/l.weight(append(l.held(x)[:3:3], 0)))
	}
	if m, se := stats.Mean(weights), stats.StdErr(weights); math.Abs(m-1) > 5*se {
		t.Errorf("mean weight %.4f ± %.4f", m, se)
	}
	if m, se := stats.Mean(forget), stats.StdErr(forget); math.Abs(m-1) < 5*se {
		t.Errorf("without a group %.4f ± %.4f: the test does not tell it", m, se)
	}
}

// lostWays are the j of events for both ways of being lost.
var lostWays = []int{0, 1, 2, 4, 8, 16, 32}

// TestLostWays: with events for both ways of being lost, importance sampling agrees with plain simulation where most runs
// are lost because their good models were not drawn in time, |z| ≤ 3.5, and most stuck runs are inside of the events. One
// cell with 2000 plain runs and 1500 of importance sampling, with TROUPE_LONG three cells and twice as many.
// TROUPE_RECORD=1 prints the table of docs/record/stuck.md: more cells, each with both relative errors at most 15 %, and
// with LOST=m those of m only.
func TestLostWays(t *testing.T) {
	type cell struct {
		r    float64
		m, T int
	}
	cells, plainRuns, runs := []cell{{1, 64, 160}, {1, 64, 640}, {1.5, 16, 64}}, sized(2000, 4000), sized(1500, 3000)
	if !long() {
		cells = cells[:1]
	}
	record := os.Getenv("TROUPE_RECORD") != ""
	if record {
		cells, plainRuns, runs = nil, 0, 10_000
		for _, r := range []float64{0.7, 1, 1.5, 2} {
			for _, m := range []int{4, 16, 64, 256} {
				for _, ratio := range []int{1, 4, 16, 64} {
					cells = append(cells, cell{r, m, m * ratio})
				}
			}
		}
	}
	if record {
		for _, m := range []int{1024, 4096} {
			for _, ratio := range []int{1, 4, 16} {
				cells = append(cells, cell{1, m, m * ratio})
			}
		}
		cells = append(cells, cell{1, 128, 625}, cell{1, 2048, 10_000})
	}
	for i, c := range cells {
		if only := os.Getenv("LOST"); only != "" && only != fmt.Sprint(c.m) {
			continue
		}
		s := stuck{best: 0.5, other: 0.2, lambda: 0.1, m: c.m, T: c.T, r: c.r}
		g := s.lose(0.25, 0.3, min(40, c.T/2), lostWays...).estimate(rand.New(rand.NewPCG(19, uint64(i))), runs)
		n := plainRuns
		if record { // as many as give 12 %, if they cost at most 6·10⁷ rounds
			n = max(int(70/math.Max(g.p, 1e-9)), 1000)
			if n > 60_000_000/c.T {
				t.Logf("| %g | %d | %d | | %.3g ± %.2g | | %d | %.2g |", c.r, c.m, c.T/c.m, g.p, g.se, g.outside, g.most)
				continue
			}
		}
		p, a := s.plain(rand.New(rand.NewPCG(20, uint64(i))), n)
		z := (p - g.p) / math.Hypot(a, g.se)
		t.Logf("| %g | %d | %d | %.3g ± %.2g | %.3g ± %.2g | %.1f | %d | %.2g |", c.r, c.m, c.T/c.m, p, a, g.p, g.se, z, g.outside, g.most)
		if math.Abs(z) > 3.5 || p == 0 {
			t.Errorf("%+v: plain %.5g ± %.2g, events %.5g ± %.2g", c, p, a, g.p, g.se)
		}
		if part := float64(g.outside) / 0.3 / float64(runs); !record && part > g.p/2 {
			t.Errorf("%+v: outside of the events %.2g of %.2g", c, part, g.p)
		}
	}
}

// lostKind is a kind of bandit of TestLostKinds, with the events that find its stuck runs.
type lostKind struct {
	name string
	stuck
	level float64
	noise []float64 // for loseNoise
}

var lostKinds = []lostKind{
	{"one arm and nothing", stuck{best: 0.3, others: nothing, lambda: 0.1}, 0, nil},
	{"two arms, uniform", stuck{best: 0.5, other: 0.2, lambda: 0.1, uniform: true}, 0.2, []float64{0.3, 0.8, 1.4}},
	{"ten arms", stuck{best: 0.5, other: 0.2, others: 9, lambda: 0.1}, 0.35, nil},
}

// lose prepares the estimator for r, m and T. The scale of uniform targets is √3r, so that r² is the variance.
func (k lostKind) lose(r float64, m, T int) *lost {
	s := k.stuck
	s.r, s.m, s.T = r, m, T
	if k.noise != nil {
		s.r *= math.Sqrt(3)
		return s.loseNoise(k.level, 0.3, min(40, T/2), k.noise...)
	}
	return s.lose(k.level, 0.3, min(40, T/2), lostWays...)
}

// TestLostKinds: what TestLostWays has for two arms and Gaussian targets holds for one arm and nothing, for uniform targets and
// for ten arms: importance sampling and plain simulation agree, in one cell, with TROUPE_LONG in two of twice the size. TROUPE_RECORD=1 plays
// the table of docs/record/stuck.md.
func TestLostKinds(t *testing.T) {
	type cell struct {
		r    float64
		m, T int
	}
	cells, plainRuns, runs := []cell{{1, 8, 128}, {1, 64, 256}}, sized(1500, 3000), sized(1000, 2000)
	if !long() {
		cells = cells[:1]
	}
	record := os.Getenv("TROUPE_RECORD") != ""
	if record {
		cells, runs = nil, 10_000
		for _, m := range []int{4, 16, 64, 256} {
			for i, ratio := range []int{1, 4, 16, 64} {
				cells = append(cells, cell{[]float64{0.7, 1, 1.5, 2}[i], m, m * ratio}, cell{[]float64{1, 0.7, 1, 1}[i], m, m * ratio})
			}
		}
		cells = append(cells, cell{1, 1024, 1024}, cell{1, 1024, 4096}, cell{1, 4096, 4096}, cell{1, 4096, 16_384},
			cell{1.5, 4, 64}, cell{2, 4, 64}, cell{2, 16, 64}, cell{1.5, 16, 256})
	}
	for k, kind := range lostKinds {
		var square float64
		both, sharp := 0, 0
		for i, c := range cells {
			if only := os.Getenv("LOST"); only != "" && only != fmt.Sprint(c.m) {
				continue
			}
			l := kind.lose(c.r, c.m, c.T)
			g := l.estimate(rand.New(rand.NewPCG(22, uint64(100*k+i))), runs)
			n := plainRuns
			if record { // as many as give 12 %, if they cost at most 4·10⁷ rounds
				n = max(int(70/math.Max(g.p, 1e-9)), 1000)
				if n > 40_000_000/c.T {
					t.Logf("| %s | %g | %d | %d | | %.3g ± %.2g | | %d | %.2g |", kind.name, c.r, c.m, c.T/c.m, g.p, g.se, g.outside, g.most)
					continue
				}
			}
			p, a := l.stuck.plain(rand.New(rand.NewPCG(23, uint64(100*k+i))), n)
			z := (p - g.p) / math.Hypot(a, g.se)
			both++
			square += z * z
			if a <= 0.15*p && g.se <= 0.15*g.p {
				sharp++
			}
			t.Logf("| %s | %g | %d | %d | %.3g ± %.2g | %.3g ± %.2g | %.1f | %d | %.2g |", kind.name, c.r, c.m, c.T/c.m, p, a, g.p,
				g.se, z, g.outside, g.most)
			if math.Abs(z) > 3.5 || p == 0 {
				t.Errorf("%s %+v: plain %.5g ± %.2g, events %.5g ± %.2g", kind.name, c, p, a, g.p, g.se)
			}
		}
		t.Logf("%s: %d cells with both, %d of them with errors of at most 15%%, mean z² %.2f", kind.name, both, sharp, square/float64(max(both, 1)))
	}
}

package verify

import (
	"math"
	"math/rand/v2"
	"testing"

	"troupe/internal/stats"
	"troupe/theory"
)

// TestLostEvents: the events' probabilities lie in theory's enclosure, a tape that was bent has its event and the law of a tape given it,
// and the weights have mean 1, within five standard errors; weights that forget how many events hold do not.
func TestLostEvents(t *testing.T) {
	s := stuck{best: 0.5, other: 0.2, lambda: 0.1, T: 100, r: 0.8, m: 3}
	l := s.lose(0.3, 0.05, 5)
	for k, e := range l.events {
		if lo, hi := theory.Stuck(float64(s.m), e.sigma, e.gap); e.p < lo || e.p > hi {
			t.Errorf("k = %d: %v outside [%v, %v]", k+1, e.p, lo, hi)
		}
	}
	r := rand.New(rand.NewPCG(16, 1))
	const n = 20_000
	given, plain := 0, 0 // A_2 with A_4, by tapes that are bent to A_4 and by plain ones
	for range n {
		x := l.draw(r, 5)
		z, g := l.events[3].draw(r, s.m)
		l.bend(x, 4, z, g)
		has := l.which(x)
		if !has[3] {
			t.Fatal("a bent tape without its event")
		}
		if has[1] {
			given++
		}
		if has = l.which(l.draw(r, 5)); has[1] && has[3] {
			plain++
		}
	}
	p, a := share(given, n)
	q, b := share(plain, n)
	p, a = p*l.events[3].p, a*l.events[3].p
	t.Logf("P(A_2 A_4): bent %.5f ± %.5f, plain %.5f ± %.5f", p, a, q, b)
	if math.Abs(p-q) > 5*math.Hypot(a, b) {
		t.Errorf("P(A_2 A_4): bent %.5f ± %.5f, plain %.5f ± %.5f", p, a, q, b)
	}
	var weights, forget []float64
	for range n {
		_, w, held := l.run(r)
		weights = append(weights, w)
		if held > 1 {
			w = l.weight(1)
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
// that are too small and too large.
func TestLostAgrees(t *testing.T) {
	for i, s := range []stuck{
		{best: 0.5, other: 0.2, lambda: 0.1, m: 8, T: 1500, r: 1},
		{best: 0.5, other: -0.1, lambda: 0.5, m: 3, T: 200, r: 0.15, delta: 0.1},
	} {
		p, a := s.plain(rand.New(rand.NewPCG(6, uint64(i))), 4000)
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
		if isStuck, _, held := l.run(r); isStuck {
			all++
			if held == 0 {
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

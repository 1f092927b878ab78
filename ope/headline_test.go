package ope

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"troupe/logged"
)

// rareWorld plays arm 1 with propensity p in a share of the contexts, else with ½; the target always plays it.
func rareWorld(n int, p, share float64) testWorld {
	return testWorld{n: n, K: 2, logger: "rare", target: "best", rate: 0.5, rareP: p, rareIn: share}
}

// plantedLog is 10 000 decisions of two arms at ½, and one at p, which is paid or not.
func plantedLog(p, reward float64) []logged.Event {
	r := rand.New(rand.NewPCG(4, 29))
	law, pe := []float64{0.5, 0.5}, []float64{0, 1}
	var all []logged.Event
	for range 10_000 {
		e := logged.Event{Context: []float64{1}, K: 2, Propensity: 0.5, Law: law, Target: pe, Position: logged.NoPosition}
		if e.Chosen = r.IntN(2); r.Float64() < 0.25+0.25*float64(e.Chosen) {
			e.Reward = 1
		}
		all = append(all, e)
	}
	e := &all[5000]
	e.ID, e.Chosen, e.Propensity, e.Law, e.Reward = "odd", 1, p, []float64{1 - p, p}, reward
	return all
}

// TestOneCentre: one event carries the plain difference out of its interval, even to the other sign. The headline stays inside, the words
// give the interval, and the event is named; nothing is refused, and with little overlap the plain numbers alone are left out.
func TestOneCentre(t *testing.T) {
	for _, x := range []struct{ p, reward float64 }{{2.4e-4, 0}, {2.4e-4, 1}, {1e-4, 0}} {
		keys := []string{"logged", "ips", "dr"}
		if x.p == 1e-4 || plays(0, 1, 1) > 0 { // what is withheld is looked at for each
			keys = Keys()
		}
		r := answerOf(t, plantedLog(x.p, x.reward), Options{Targets: []Target{Column{}}, Estimators: keys})
		a := r.Targets[0]
		u := a.Uplift
		if u.Sequence == nil || u.Sequence[0] < 0.05 || *u.Value < u.Sequence[0] || *u.Value > u.Sequence[1] || !strings.HasPrefix(a.Verdict, "sure: better, by ") ||
			!strings.HasSuffix(a.Verdict, "%") || !strings.Contains(a.Verdict, " to ") || u.Doubt == nil {
			t.Errorf("p %g reward %g: %v in %v, %q", x.p, x.reward, *u.Value, u.Sequence, a.Verdict)
		}
		if *u.Plain >= u.Sequence[0] && *u.Plain <= u.Sequence[1] || !strings.Contains(*u.Why, "event 5001 (odd)") || a.Heaviest.Event != 5001 {
			t.Errorf("p %g reward %g: plain %v, why %q, %+v", x.p, x.reward, *u.Plain, *u.Why, a.Heaviest)
		}
		ips := estimateOf(a, "ips")
		if c := *ips.Centre; c < ips.Sequence[0] || c > ips.Sequence[1] || ips.Outside != (*ips.Value < ips.Sequence[0] || *ips.Value > ips.Sequence[1]) ||
			ips.Outside && !strings.Contains(*ips.Why, "outside of the sequence: event 5001 (odd) has weight") {
			t.Errorf("%+v", ips)
		}
		if !Shown(a.Diagnostics.ESS) != (x.p == 1e-4) || r.Silent(a) {
			t.Errorf("p %g: overlap %s, silent %v", x.p, a.Overlap, r.Silent(a))
		}
		if r.Withhold(a); Shown(a.Diagnostics.ESS) {
			continue
		}
		for _, e := range a.Estimates {
			if e.Estimator != "logged" && (e.Value != nil || e.Normal != nil || e.Interval != nil) || (e.Estimator == "ips" || e.Estimator == "dr") && e.Sequence == nil {
				t.Errorf("withheld: %+v", e)
			}
		}
		if a.Uplift.Sequence == nil || a.Uplift.Normal != nil || a.Uplift.Value != nil {
			t.Errorf("withheld: %+v", a.Uplift)
		}
		for i := range a.Running {
			if p := a.Running[i]; p.HasSequence && (p.Value < p.Lo || p.Value > p.Hi) {
				t.Errorf("the running estimate %v leaves its band %v … %v", p.Value, p.Lo, p.Hi)
			}
		}
	}
}

// TestSilent: a log that says nothing is refused: no event of the target's arm.
func TestSilent(t *testing.T) {
	var all []logged.Event
	for range 6 {
		p := 0.001
		e := logged.Event{Context: []float64{1}, K: 2, Propensity: 1 - p, Reward: 1, Law: []float64{1 - p, p}, Target: []float64{0, 1}, Position: logged.NoPosition}
		all = append(all, e)
	}
	r := answerOf(t, all, Options{Targets: []Target{Column{}}})
	if !r.Silent(r.Targets[0]) || !strings.Contains(r.Targets[0].Verdict, "this log cannot tell") {
		t.Errorf("%+v: %s", r.Targets[0].Uplift.Sequence, r.Targets[0].Verdict)
	}
	if r.Withhold(r.Targets[0]); len(r.Targets[0].Estimates) > 0 {
		t.Error("a log that says nothing has estimates")
	}
}

// TestRareWorlds: in worlds where one rare arm carries the weight no point of a headline lies outside of its interval, and no settled log is
// refused (200 logs each with TROUPE_RECORD).
func TestRareWorlds(t *testing.T) {
	runs := plays(2, 4, 200)
	for _, s := range []testWorld{rareWorld(10_000, 5e-4, 0.05), rareWorld(5000, 1e-3, 0.05), rareWorld(10_000, 2e-4, 0.1), rareWorld(2000, 1e-3, 0.05)} {
		c := playWorld(t, s, runs, Options{Estimators: []string{"logged", "ips", "dr"}})
		t.Logf("n %d, p %g in %g: settled %d, wrong %d, refused %d, outside %d, missed %v %v", s.n, s.rareP, s.rareIn, c.settled, c.wrong, c.refused, c.outside, c.below, c.above)
		if c.refused > 0 || c.outside > 0 || c.settled < runs/2 {
			t.Errorf("n %d, p %g: settled %d of %d, refused %d, outside %d", s.n, s.rareP, c.settled, runs, c.refused, c.outside)
		}
	}
}

// TestForecast: forecasts come true in 80 % of the logs that have one, and equal policies are promised nothing: four worlds with a difference,
// N more decisions drawn from the same world; forecasts up to 60 000. Three logs of the two shortest worlds, six of each with
// TROUPE_LONG, 50 with TROUPE_RECORD.
func TestForecast(t *testing.T) {
	runs := plays(3, 6, 50)
	o := Options{Targets: []Target{Column{}}, Estimators: []string{"logged", "ips", "dr"}}
	given, right, early := 0, 0, 0
	for _, s := range []testWorld{
		{n: 3000, K: 5, logger: "uniform", target: "better", rate: 0.3},
		{n: 800, K: 2, logger: "uniform", target: "better", rate: 0.5},
		{n: 3000, K: 2, floor: 0.2, logger: "fixed", target: "better", rate: 0.3},
		{n: 8000, K: 3, logger: "uniform", target: "better", rate: 0.1},
	}[:plays(2, 4, 4)] {
		n, g, ok := s.n, 0, 0
		for i := range runs {
			s.n = n
			all, _, _ := s.draw(uint64(i + 1))
			m := answerOf(t, all, o).Targets[0].Uplift.More
			if m == nil || m[1] > 60_000 {
				continue
			}
			s.n = n + m[1] // the same seed gives the same beginning
			more, _, _ := s.draw(uint64(i + 1))
			if u := answerOf(t, more, o).Targets[0].Uplift.Sequence; u[0] > 0 || u[1] < 0 {
				ok++
			}
			if m[0] > 0 {
				if u := answerOf(t, more[:n+m[0]], o).Targets[0].Uplift.Sequence; u[0] > 0 || u[1] < 0 {
					early++
				}
			}
			g++
		}
		t.Logf("K %d, rate %g, n %d: %d of %d forecasts came true", s.K, s.rate, n, ok, g)
		given, right = given+g, right+ok
	}
	t.Logf("together %d of %d; %d settled before the lower number", right, given, early)
	if given < runs/2 || float64(right) < 0.8*float64(given) {
		t.Errorf("%d of %d forecasts came true", right, given)
	}
	promised := 0
	s := testWorld{n: 1000, K: 3, logger: "uniform", target: "equal", rate: 0.3}
	for i := range 10 * runs {
		all, _, _ := s.draw(uint64(i + 1))
		if answerOf(t, all, o).Targets[0].Uplift.More != nil {
			promised++
		}
	}
	t.Logf("equal policies: %d forecasts in %d logs", promised, 10*runs)
	if float64(promised) > 0.05*float64(10*runs)+2 {
		t.Errorf("equal policies have %d forecasts in %d logs", promised, 10*runs)
	}
}

// TestUpliftJSON: the object of the difference has the headline first, and what is not known is null.
func TestUpliftJSON(t *testing.T) {
	b, err := json.Marshal(&Uplift{Value: ptr(0.5), Sequence: &Pair{0, math.Inf(1)}})
	if want := `{"value":0.5,"sequence":[0,null],"centre":null,"plain":null,"se":null,"normal":null,"doubt":null,"more":null,"marginal":null,"why":null}`; err != nil || string(b) != want {
		t.Errorf("%s %v, want %s", b, err, want)
	}
}

// TestAmounts: numbers of an interval have as many digits as tell its ends apart.
func TestAmounts(t *testing.T) {
	for _, x := range []struct {
		lo, hi, base float64
		want         string
	}{{0.113, 0.185, 0.34, "33 to 54%"}, {0.0021, 0.0093, 0.1, "2.1 to 9.3%"}, {0.113, 0.185, 0, "0.113 to 0.185"}, {1e-5, 0.05, 0.1, "0.010 to 50%"}} {
		if got := amount(x.lo, x.hi, x.base); got != x.want {
			t.Errorf("%v: %q", x, got)
		}
	}
}

// TestUnplayed: events with weight 0 have a way of their own, and the same bits.
func TestUnplayed(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var short, long moments
	for i := range 5000 {
		u := [variables]float64{1, r.NormFloat64(), 0, 0, 3 * r.NormFloat64(), 0, r.ExpFloat64() - 1}
		if i%3 == 0 {
			u[vW] = r.ExpFloat64()
		}
		if i%7 == 0 {
			u[vR], u[vDM] = -0.5, 0
		}
		u[vWR], u[vWE] = u[vW]*u[vR], u[vW]*(u[vR]-u[vDM])
		short.add(1, &u)
		long.n++
		for i, k := 0, 0; i < variables; i++ { // as add does for w ≠ 0
			long.first[i].add(u[i])
			long.pair[k] = long.first[i]
			k++
			for j := 1; j <= i; j++ {
				long.pair[k].product(u[i], u[j])
				k++
			}
		}
		long.wrw, long.ww = long.second(vWR, vW), long.second(vW, vW)
		if short != long {
			t.Fatalf("event %d: %+v, want %+v", i, short, long)
		}
	}
}

// TestApart: an interval that leaves 0 out does not print an end as 0.
func TestApart(t *testing.T) {
	for _, x := range []struct {
		p    *Pair
		want int
	}{{nil, 2}, {&Pair{0.0045, 0.88}, 3}, {&Pair{-0.9, -0.0004}, 4}, {&Pair{0.0051, 0.9}, 2}, {&Pair{-0.0001, 0.9}, 2}, {&Pair{0, 1}, 2}, {&Pair{1e-30, 1}, 9},
		{&Pair{0.2, math.Inf(1)}, 2}} {
		got := Apart(x.p, 2)
		if got != x.want {
			t.Errorf("%v: %d decimals, want %d", x.p, got, x.want)
		}
		if x.p != nil && x.p[0] > 1e-9 && strings.Trim(strconv.FormatFloat(x.p[0], 'f', got, 64), "0.") == "" {
			t.Errorf("%v prints as 0 with %d decimals", x.p, got)
		}
	}
}

package ope

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"troupe/logged"
)

// planWorld has K arms, a logger with a floor, and a target that plays another arm than the logger with probability sure.
type planWorld struct {
	K                 int
	floor, rate, gain float64
	sure              float64 // of the target
	contexts          bool    // the best arm depends on the context
	learns            bool    // the logger moves its weight about
	smooth            bool    // the gain differs from context to context
}

func (w *planWorld) laws(i int, r *rand.Rand) (pb, pe []float64, at, other int) {
	pb, pe = make([]float64, w.K), make([]float64, w.K)
	if w.contexts {
		at = r.IntN(w.K)
	}
	if w.learns && i/500%2 == 1 {
		at = (at + w.K/2) % w.K
	}
	other = (at + 1) % w.K
	for a := range pb {
		pb[a], pe[a] = w.floor/float64(w.K), (1-w.sure)/float64(w.K)
	}
	pb[at] += 1 - w.floor
	pe[other] += w.sure
	return pb, pe, at, other
}

// draw makes a log in which the target earns gain above what ran: the arm that it prefers is better than all others by the same amount.
func (w *planWorld) draw(n int, seed uint64) (all []logged.Event) {
	r := rand.New(rand.NewPCG(seed, 292))
	for i := range n {
		pb, pe, _, other := w.laws(i, r)
		beta := w.gain / (pe[other] - pb[other])
		if w.smooth {
			beta *= 2 * r.Float64()
		}
		mu := make([]float64, w.K)
		for a := range mu {
			if mu[a] = w.rate - beta*pb[other]; a == other {
				mu[a] += beta
			}
		}
		e := logged.Event{Context: []float64{1}, K: w.K, Chosen: draw(pb, r.Float64()), Law: pb, Target: pe, Position: logged.NoPosition}
		e.Propensity = pb[e.Chosen]
		if r.Float64() < mu[e.Chosen] {
			e.Reward = 1
		}
		all = append(all, e)
	}
	return all
}

// TestPlan: the number of decisions that settles a difference in 80 % of the logs is within a factor 1.4 of the plan: at plan/1.4
// fewer than 80 % are settled, at 1.4 plan more (a margin of 2.5 standard errors of that many logs, seeds 1 to n). Two worlds
// and six logs, twelve with TROUPE_LONG, ten worlds and 200 logs with TROUPE_RECORD=1, or as many as it says.
func TestPlan(t *testing.T) {
	runs, worlds := plays(6, 12, 200), plays(2, 2, 10)
	if n, _ := strconv.Atoi(os.Getenv("TROUPE_RECORD")); n > 1 {
		runs = n
	}
	o := Options{Targets: []Target{Column{}}, Estimators: []string{"logged", "dr"}, Q: "mean"}
	for i, w := range []planWorld{
		{K: 2, floor: 1, rate: 0.5, gain: 0.1, sure: 1},
		{K: 5, floor: 0.5, rate: 0.2, gain: 0.1, sure: 0.6},
		{K: 2, floor: 0.2, rate: 0.3, gain: 0.15, sure: 1},
		{K: 3, floor: 1, rate: 0.1, gain: 0.05, sure: 1},
		{K: 5, floor: 1, rate: 0.4, gain: 0.1, sure: 1, contexts: true},
		{K: 4, floor: 0.3, rate: 0.6, gain: 0.2, sure: 0.5, contexts: true},
		{K: 2, floor: 0.1, rate: 0.05, gain: 0.1, sure: 1},
		{K: 3, floor: 0.3, rate: 0.3, gain: 0.1, sure: 1, learns: true},
		{K: 2, floor: 0.4, rate: 0.5, gain: 0.1, sure: 1, smooth: true},
		{K: 10, floor: 0.8, rate: 0.25, gain: 0.2, sure: 0.9, contexts: true},
	}[:worlds] {
		p, err := NewPlanner(PlanOptions{Rate: w.rate})
		if err != nil {
			t.Fatal(err)
		}
		blind := w.draw(plays(1000, 4000, 4000), 99)
		for i := range blind {
			blind[i].Reward = float64(i % 7) // a plan looks at no reward
		}
		if err := p.Read(&events{all: blind}, Column{}); err != nil {
			t.Fatal(err)
		}
		x, err := p.Plan(w.gain)
		if err != nil {
			t.Fatal(err)
		}
		settled := func(n int, atEnd bool) (share float64) {
			o.AtEnd = atEnd
			for run := range runs {
				u := answerOf(t, w.draw(n, uint64(run+1)), o).Targets[0].Uplift
				if !atEnd && u.Sequence[0] > 0 || atEnd && u.AtEnd[0] > 0 {
					share += 1 / float64(runs)
				}
			}
			return share
		}
		early, late := settled(int(x.Decisions/1.4), false), settled(int(1.4*x.Decisions), false)
		half := "no floor halves it"
		if x.Share != nil {
			half = fmt.Sprintf("halved by a uniform share of %.3g", *x.Share)
		}
		t.Logf("world %d: plan %.0f, settled %.2f at plan/1.4, %.2f at 1.4 plan; %s", i+1, x.Decisions, early, late, half)
		if margin := 2.5 * 0.4 / math.Sqrt(float64(runs)); early > 0.8+margin || late < 0.8-margin {
			t.Errorf("world %d: plan %.0f, settled %.2f at plan/1.4, %.2f at 1.4 plan", i+1, x.Decisions, early, late)
		}
		early, late = settled(int(x.AtEnd/1.4), true), settled(int(1.4*x.AtEnd), true)
		t.Logf("world %d, fixed n: plan %.0f, settled %.2f at plan/1.4, %.2f at 1.4 plan", i+1, x.AtEnd, early, late)
		if margin := 2.5 * 0.4 / math.Sqrt(float64(runs)); x.AtEnd >= x.Decisions || early > 0.8+margin || late < 0.8-margin {
			t.Errorf("world %d, fixed n: plan %.0f, settled %.2f at plan/1.4, %.2f at 1.4 plan", i+1, x.AtEnd, early, late)
		}
	}
}

// TestPlanFloor: with the share that a plan names the same plan is half as long; the time is that of the log's rate.
func TestPlanFloor(t *testing.T) {
	w := planWorld{K: 4, floor: 0.1, rate: 0.2, gain: 0.1, sure: 1}
	plan := func(w planWorld) *Planned {
		p, err := NewPlanner(PlanOptions{Rate: w.rate, Every: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		r := rand.New(rand.NewPCG(1, 1))
		for i := range 200 {
			pb, pe, _, _ := w.laws(i, r)
			p.Add(pb, pe)
		}
		x, err := p.Plan(w.gain)
		if err != nil {
			t.Fatal(err)
		}
		return x
	}
	x := plan(w)
	if x.Share == nil || x.Time != time.Duration(x.Decisions)*time.Minute || x.Floor != 0.025 {
		t.Fatalf("%+v", x)
	}
	w.floor += (1 - w.floor) * *x.Share
	if y := plan(w); y.Decisions > 0.51*x.Decisions || y.Decisions < 0.45*x.Decisions {
		t.Errorf("%.0f, with %.3f uniform %.0f", x.Decisions, *x.Share, y.Decisions)
	}
}

// TestPlainPlan: without laws the sequence is the one that Sequence gives, and the plan is as near (factor 1.4; 40 logs, seeds 1 to 40). A law that is known for some of the events only, weighted by 1/p, gives the same plan.
func TestPlainPlan(t *testing.T) {
	w := planWorld{K: 2, floor: 0.4, rate: 0.4, gain: 0.1, sure: 1, contexts: true}
	whole, _ := NewPlanner(PlanOptions{Rate: w.rate, Plain: true})
	part, _ := NewPlanner(PlanOptions{Rate: w.rate, Plain: true})
	r := rand.New(rand.NewPCG(1, 2))
	for i := range plays(1500, 3000, 3000) {
		pb, pe, _, other := w.laws(i, r)
		whole.Add(pb, pe)
		if draw(pb, r.Float64()) == other {
			part.AddWeighted(pb, pe, 1/pb[other])
		}
	}
	x, err := whole.Plan(w.gain)
	if err != nil {
		t.Fatal(err)
	}
	if y, err := part.Plan(w.gain); err != nil || math.Abs(y.Decisions/x.Decisions-1) > 0.1 {
		t.Errorf("%+v, of a part %+v: %v", x, y, err)
	}
	settled := func(n int) (share float64) {
		for run := range 40 {
			s := NewSequence(1)
			for _, e := range w.draw(n, uint64(run+1)) {
				s.Add((e.Target[e.Chosen]/e.Propensity - 1) * e.Reward)
			}
			if s.Lower(0.025, -1, 1) > 0 {
				share += 1.0 / 40
			}
		}
		return share
	}
	early, late := settled(int(x.Decisions/1.4)), settled(int(x.Decisions*1.4))
	t.Logf("plan %.0f, settled %.2f at plan/1.4, %.2f at 1.4 plan", x.Decisions, early, late)
	if early > 0.95 || late < 0.65 {
		t.Errorf("plan %.0f, settled %.2f at plan/1.4, %.2f at 1.4 plan", x.Decisions, early, late)
	}
}

// TestBadPlan: what is refused.
func TestBadPlan(t *testing.T) {
	for _, o := range []PlanOptions{{Rate: 1}, {Rate: -1}, {Level: 2}, {Chance: 1}, {Rewards: Pair{1, 0}}} {
		if _, err := NewPlanner(o); err == nil {
			t.Errorf("%+v passes", o)
		}
	}
	p, _ := NewPlanner(PlanOptions{Rate: 0.1})
	p.Add([]float64{0.9, 0.1}, []float64{0.9, 0.1})
	for x, want := range map[float64]string{0: "expected a positive number", -1: "expected a positive number", 0.01: "plays what the logger plays"} {
		if _, err := p.Plan(x); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", x, err)
		}
	}
	p.Add([]float64{0.9, 0.1}, []float64{0, 1})
	if _, err := p.Plan(0.9); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Error(err)
	}
	all := uniformLog(10, 3, 1)
	all[4].Law = nil
	if err := p.Read(&events{all: all}, Uniform{}); err == nil || !strings.Contains(err.Error(), "event 5") {
		t.Error(err)
	}
}

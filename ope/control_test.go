package ope

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"troupe/logged"
)

// controlWorld is a model that learns beside a control group, over three actions and two kinds of context.
type controlWorld struct {
	share float64
	first bool
	floor float64
	means [2][3]float64
	units int  // decisions of each unit, 0: none
	carry bool // what a unit saw first moves its later rewards
}

// play gives each event with the conditional means of both groups. The model is ε-greedy in what it has seen.
func (w controlWorld) play(seed uint64, n int, each func(i int, e *logged.Event, model, control float64)) {
	r := rand.New(rand.NewPCG(seed, 50))
	var sum, count [2][3]float64
	in, group := false, 0
	for i := range n {
		x := r.IntN(2)
		best := 0
		for a := range 3 {
			if (sum[x][a]+1)/(count[x][a]+2) > (sum[x][best]+1)/(count[x][best]+2) {
				best = a
			}
		}
		law := make([]float64, 3)
		for a := range law {
			law[a] = w.floor / 3
		}
		law[best] += 1 - w.floor
		if w.units == 0 || i%w.units == 0 {
			in = r.Float64() < w.share
			group++
		}
		c := &logged.Control{Share: w.share, First: w.first, In: in}
		a, u := 0, r.Float64()
		switch {
		case in && w.first:
		case in:
			a = int(3 * u)
		default:
			for u -= law[0]; u > 0 && a < 2; u -= law[a] {
				a++
			}
		}
		model, control := 0.0, 0.0
		for b, p := range law {
			model += p * w.means[x][b]
			switch {
			case !w.first:
				control += w.means[x][b] / 3
			case b == 0:
				control = w.means[x][0]
			}
		}
		c.Mix(law)
		e := &logged.Event{K: 3, Chosen: a, Law: law, Propensity: law[a], Control: c, Position: logged.NoPosition,
			Time: time.Unix(int64(i), 0)}
		if w.units > 0 {
			e.Unit = fmt.Sprint(group)
		}
		m := w.means[x][a]
		if w.carry && in {
			m -= .2
		}
		if r.Float64() < m {
			e.Reward = 1
		}
		sum[x][a] += e.Reward
		count[x][a]++
		each(i, e, model, control)
	}
}

var (
	plain  = [2][3]float64{{.3, .5, .7}, {.6, .4, .2}}
	rarely = [2][3]float64{{.01, .02, .03}, {.03, .02, .01}}
)

// TestControlCovers: at every look, what the model, the control group and the difference have earned in the mean of the
// decisions so far lies in their intervals, in all looks of a log together with the probability of the level, and those for
// a fixed n cover a model that does not learn. Planted: a log that says another share than the one that drew.
func TestControlCovers(t *testing.T) {
	logs, n := 40, 4000
	if os.Getenv("TROUPE_RECORD") != "" {
		logs = 400
	}
	for name, w := range map[string]controlWorld{
		"uniform, 5 %": {share: .05, floor: .01, means: plain}, "uniform, 20 %": {share: .2, floor: .01, means: plain},
		"first, 10 %": {share: .1, first: true, floor: .05, means: plain}, "rarely": {share: .1, floor: .01, means: rarely},
	} {
		missed := w.missed(logs, n, func(*logged.Event) {})
		planted := w.missed(logs/3, n, func(e *logged.Event) { // the control was drawn more often than it says
			e.Control.Share /= 2
			law, _ := (&logged.Control{Share: w.share, First: w.first}).Groups(nil, e.Law)
			e.Control.Mix(law)
			copy(e.Law, law)
		})
		t.Logf("%s: %v of %d logs missed at a look, planted %v of %d", name, missed, logs, planted, logs/3)
		for i, of := range []string{"model", "control", "difference"} {
			if most := binomialMost(logs, .05); missed[i] > most {
				t.Errorf("%s: the interval of the %s misses at a look in %d of %d logs, at most %d is chance", name, of, missed[i], logs, most)
			}
		}
		if w.means != rarely && planted[1]+planted[2] == 0 {
			t.Errorf("%s: a wrong share is not noticed", name)
		}
	}
}

// binomialMost is the number of misses that more than 1 in 10⁵ samples of n at this rate have.
func binomialMost(n int, p float64) int {
	cdf, term := 0.0, math.Pow(1-p, float64(n))
	for k := 0; ; k++ {
		if cdf += term; cdf > 1-1e-5 {
			return k
		}
		term *= float64(n-k) / float64(k+1) * p / (1 - p)
	}
}

// missed counts the logs in which an interval misses at one of 30 looks.
func (w controlWorld) missed(logs, n int, spoil func(*logged.Event)) (out [3]int) {
	for seed := range uint64(logs) {
		c := NewControlLog(0, 1, .95)
		var sums [3]float64
		var miss [3]bool
		look := 20.0
		w.play(seed+1, n, func(i int, e *logged.Event, model, control float64) {
			spoil(e)
			c.Add(e)
			sums[0], sums[1], sums[2] = sums[0]+model, sums[1]+control, sums[2]+model-control
			if float64(i+1) < look {
				return
			}
			look *= 1.2
			r, why := c.Result(true)
			if why != "" {
				miss = [3]bool{true, true, true}
				return
			}
			for k, v := range []ControlValue{r.Model, r.Control, r.Difference} {
				truth := sums[k] / float64(i+1)
				miss[k] = miss[k] || truth < v.Every[0] || truth > v.Every[1]
			}
		})
		for k, m := range miss {
			if m {
				out[k]++
			}
		}
	}
	return out
}

// TestControlAtEnd: the interval for a fixed n covers, of a model that does not learn, and is narrower than the one at every
// look.
func TestControlAtEnd(t *testing.T) {
	logs, n := 60, 4000
	if os.Getenv("TROUPE_RECORD") != "" {
		logs = 400
	}
	w := controlWorld{share: .1, floor: 1, means: plain} // uniform: the model never learns
	fixed := [3]float64{.1, .2, .7}
	missed, narrower, off := 0, 0, 0.
	for seed := range uint64(logs) {
		c := NewControlLog(0, 1, .95)
		r := rand.New(rand.NewPCG(seed, 51))
		w.play(seed+1, n, func(_ int, e *logged.Event, _, _ float64) {
			if !e.Control.In { // the model's fixed law in place of the uniform one
				u := r.Float64()
				for e.Chosen = 0; e.Chosen < 2 && u > fixed[e.Chosen]; e.Chosen++ {
					u -= fixed[e.Chosen]
				}
				e.Reward = 0
				if r.Float64() < plain[0][e.Chosen] {
					e.Reward = 1
				}
			} else if e.Reward = 0; r.Float64() < plain[0][e.Chosen] {
				e.Reward = 1
			}
			copy(e.Law, fixed[:])
			e.Control.Mix(e.Law)
			c.Add(e)
		})
		x, why := c.Result(true)
		if why != "" || x.Difference.AtEnd == nil {
			t.Fatal(why)
		}
		truth := .1*.3 + .2*.5 + .7*.7 - .5
		if p := x.Difference.AtEnd; truth < p[0] || truth > p[1] {
			missed++
		}
		p, q := x.Difference.AtEnd, x.Difference.Every
		if p[1]-p[0] < q[1]-q[0] {
			narrower++
		}
		off += ((q[0]+q[1])/2 - x.Difference.Mean) / (q[1] - q[0]) / float64(logs)
	}
	if math.Abs(off) > .05 { // a side that is too far away covers, too
		t.Errorf("the middle of the interval at every look is %.2f of its width from the estimate", off)
	}
	t.Logf("the middle is %.3f of the width away", off)
	if most := binomialMost(logs, .05); missed > most || narrower < logs*9/10 {
		t.Errorf("missed %d of %d (at most %d), narrower in %d", missed, logs, most, narrower)
	}
	t.Logf("missed %d of %d, narrower in %d", missed, logs, narrower)
}

// TestControlSame: the answer has the values of ope.Evaluate where both say the same: without prediction (q = 0) they
// would be those of the target τ. Here: the point is unbiased, a control that is what the model plays has no difference,
// and another control begins anew.
func TestControlSame(t *testing.T) {
	w := controlWorld{share: .2, floor: 1, means: plain}
	c := NewControlLog(0, 1, .95)
	w.play(1, 500, func(_ int, e *logged.Event, _, _ float64) { c.Add(e) })
	r, why := c.Result(true)
	if why != "" || r.Difference.Mean != 0 || r.Difference.Every[1] > 1e-9 || r.Difference.Every[0] < -1e-9 || r.Decisions != 500 {
		t.Errorf("a model that plays what its control plays: %+v %s", r, why)
	}
	w.first = true
	w.play(2, 300, func(_ int, e *logged.Event, _, _ float64) { c.Add(e) })
	if r, _ = c.Result(true); r.Decisions != 300 || r.Before != 500 || r.Plays != "first" {
		t.Errorf("another control: %+v", r)
	}
	c.Add(&logged.Event{K: 3, Law: []float64{1, 0, 0}, Propensity: 1, Position: logged.NoPosition})
	if r, why = c.Result(true); why != "the newest decisions have no control group" {
		t.Errorf("no control: %+v %s", r, why)
	}
}

// TestControlPoints: over 300 logs the three points have no bias, and the groups' plain means have a larger variance.
func TestControlPoints(t *testing.T) {
	w := controlWorld{share: .1, floor: .2, means: plain}
	var off, square, plainly float64
	const logs, n = 300, 400
	for seed := range uint64(logs) {
		c := NewControlLog(0, 1, .95)
		truth, sum, count := 0.0, [2]float64{}, [2]float64{}
		w.play(seed+900, n, func(_ int, e *logged.Event, model, control float64) {
			c.Add(e)
			truth += (model - control) / n
			k := 0
			if e.Control.In {
				k = 1
			}
			sum[k], count[k] = sum[k]+e.Reward, count[k]+1
		})
		d := c.run.points[2]/n - truth
		off, square = off+d/logs, square+d*d/logs
		g := sum[0]/count[0] - sum[1]/count[1] - truth
		plainly += g * g / logs
	}
	if z := off / math.Sqrt(square/logs); math.Abs(z) > 4 || square > .95*plainly {
		t.Errorf("bias %.4f (%.1f standard errors), mean square %.5f, of the plain groups %.5f", off, z, square, plainly)
	}
	t.Logf("mean square %.5f, of the plain groups %.5f", square, plainly)
}

// TestControlUnits: units count once in what holds at every look; what their first decisions do to later ones is in the
// comparison by unit, which covers.
func TestControlUnits(t *testing.T) {
	w := controlWorld{share: .3, floor: 1, means: plain, units: 5, carry: true}
	missed, sequence := 0, 0
	const logs = 100
	for seed := range uint64(logs) {
		c := NewControlLog(0, 1, .95)
		w.play(seed, 5000, func(_ int, e *logged.Event, _, _ float64) { c.Add(e) })
		r, why := c.Result(true)
		if why != "" || r.Decisions != 1000 || r.Again != 4000 || r.ByUnit == nil || r.ByUnit.Normal == nil {
			t.Fatalf("%+v %s", r, why)
		}
		if p := r.ByUnit.Normal; .2 < p[0] || .2 > p[1] { // uniform play of both, and .2 less in the control
			missed++
		}
		if p := r.Difference.Every; .2 < p[0] || .2 > p[1] || r.Difference.Mean == 0 {
			sequence++
		}
		w.play(seed, 5000, func(_ int, e *logged.Event, _, _ float64) { c.Add(e) })
		if r, _ = c.Result(true); r.Decisions != 1000 || r.Again != 9000 {
			t.Fatalf("units that were seen: %+v", r)
		}
	}
	if missed > binomialMost(logs, .05) || sequence > binomialMost(logs, .05) {
		t.Errorf("the comparison by unit misses in %d of %d, that at every look in %d", missed, logs, sequence)
	}
}

// TestControlPlan: of logs with as many decisions as the plan says, about 80 % are settled at the end.
func TestControlPlan(t *testing.T) {
	w := controlWorld{share: .1, floor: .01, means: [2][3]float64{{.3, .3, .5}, {.3, .3, .5}}}
	var p ControlPlan
	for range 10 {
		law := []float64{.01 / 3, .01 / 3, 1 - .02/3}
		p.Add(&logged.Event{K: 3, Law: law, Chosen: 2}, logged.Control{Share: .1}, 0, 1)
	}
	d := .5 - .01/3*.4 - 1.1/3
	x, err := p.Plan(.1, d, .5-.1*d, 0, 1, .95)
	if err != nil {
		t.Fatal(err)
	}
	const logs = 60
	settled, atEnd := 0, 0
	for seed := range uint64(logs) {
		c := NewControlLog(0, 1, .95)
		e := NewControlLog(0, 1, .95)
		r := rand.New(rand.NewPCG(seed, 52))
		n := 0
		w.play(seed, int(x.Every), func(_ int, ev *logged.Event, _, _ float64) {
			law := []float64{.01 / 3, .01 / 3, 1 - .02/3}
			ev.Control.Mix(law)
			u := r.Float64()
			for ev.Chosen = 0; ev.Chosen < 2 && u > law[ev.Chosen]; ev.Chosen++ {
				u -= law[ev.Chosen]
			}
			ev.Law, ev.Reward = law, 0
			if r.Float64() < w.means[0][ev.Chosen] {
				ev.Reward = 1
			}
			c.Add(ev)
			if n++; n <= int(x.AtEnd) {
				e.Add(ev)
			}
		})
		if y, _ := c.Result(true); y.Settled == "better" {
			settled++
		}
		if y, _ := e.Result(true); y.Difference.AtEnd[0] > 0 {
			atEnd++
		}
	}
	t.Logf("%.0f and %.0f decisions; settled %d and %d of %d", x.Every, x.AtEnd, settled, atEnd, logs)
	for _, s := range []int{settled, atEnd} {
		if s < logs*6/10 || s > logs*95/100 {
			t.Errorf("planned for 80 %%: settled %d and %d of %d", settled, atEnd, logs)
			break
		}
	}
	if _, err := p.Plan(.1, .9, .5, 0, 1, .95); err == nil {
		t.Error("a difference that cannot be is planned")
	}
}

// TestControlEarly: where decisions wait, the interval for a fixed n ends before the first early event; where none does it
// is that of all, the same as if none had been early.
func TestControlEarly(t *testing.T) {
	w := controlWorld{share: .2, floor: .1, means: plain}
	a, b, half := NewControlLog(0, 1, .95), NewControlLog(0, 1, .95), NewControlLog(0, 1, .95)
	w.play(3, 400, func(i int, e *logged.Event, _, _ float64) {
		a.Add(e)
		if i < 200 {
			half.Add(e)
		}
		e.Early = i >= 200
		b.Add(e)
	})
	want, _ := a.Result(true)
	if got, _ := b.Result(false); got.Ended != 400 || *got.Difference.AtEnd != *want.Difference.AtEnd {
		t.Errorf("none waits: %+v, want %+v", got.Difference, want.Difference)
	}
	want, _ = half.Result(true)
	if got, _ := b.Result(true); got.Ended != 200 || *got.Difference.AtEnd != *want.Difference.AtEnd {
		t.Errorf("some wait: %+v, want %+v", got.Difference, want.Difference)
	}
}

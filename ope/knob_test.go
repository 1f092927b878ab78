package ope

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// knobWorld is a world of knobs: contexts x in [0, 1], a logger that plays x + ½·(U − U') (a triangular density), and
// that learns where learns is set: it moves towards what was paid. A reward is 1 with probability 0.2 + 0.6·(1 − (a − t)²)₊,
// t = 1 − x.
type knobWorld struct {
	r      *rand.Rand
	n, at  int
	learns bool
	moved  float64
	x      float64          // of the newest decision
	truth  map[float64]*sum // by bandwidth: Σ V_h(x_i)
	kernel string
}

func (k *knobWorld) pay(a, x float64) float64 {
	d := a - (1 - x)
	return 0.2 + 0.6*max(1-d*d, 0)
}

func (k *knobWorld) next(out *Knob) error {
	if k.at == k.n {
		return io.EOF
	}
	k.at++
	x := k.r.Float64()
	k.x = x
	e := k.r.Float64() - k.r.Float64() // density 1 − |e|
	out.Action = x + k.moved + 1.5*e
	out.Density = (1 - math.Abs(e)) / 1.5
	out.Reward = 0
	if k.r.Float64() < k.pay(out.Action, x) {
		out.Reward = 1
	}
	aim := 0.5 * (x + 1 - x + k.moved/2)
	out.Aims = append(out.Aims[:0], aim)
	for h, s := range k.truth { // ∫ K(u) r(aim + h·u) du where the logger may play, by the midpoint rule
		const steps = 64
		v := 0.0
		for i := range steps {
			u := -1 + 2*(float64(i)+0.5)/steps
			if a := aim + h*u; math.Abs(a-x-k.moved) < 1.5 {
				v += kernel(k.kernel, u) * k.pay(a, x) * 2 / steps
			}
		}
		s.add(v)
	}
	if k.learns && out.Reward == 1 {
		k.moved += 0.02 * (out.Action - x - k.moved)
		k.moved = max(-0.3, min(0.3, k.moved))
	}
	return nil
}

// TestKnobsCover: intervals of smoothed values hold the mean of the smoothed values of the contexts that came, for two
// bandwidths at once, in loggers that learn, too. 50 logs each at level 0.9, so 5 may miss; 11 is three standard errors
// more; 100 with TROUPE_LONG. A density that is logged as half of what it was is told.
func TestKnobsCover(t *testing.T) {
	logs := plays(50, 100, 1000)
	for _, kernel := range Kernels {
		for _, learns := range []bool{false, true} {
			missed, told, width := 0, 0, 0.0
			for i := range logs {
				w := &knobWorld{r: rand.New(rand.NewPCG(29, uint64(i))), n: 1000, learns: learns, kernel: kernel,
					truth: map[float64]*sum{0.2: {}, 0.8: {}}}
				r, err := EvaluateKnobs(w.next, KnobOptions{Names: []string{"t"}, Kernel: kernel, Bandwidths: []float64{0.2, 0.8}, Level: 0.9})
				if err != nil {
					t.Fatal(err)
				}
				miss := false
				for _, b := range r.Targets[0].Bandwidths {
					v := w.truth[b.Bandwidth].value() / float64(w.n)
					miss = miss || v < b.Sequence[0] || v > b.Sequence[1]
					width += (b.Sequence[1] - b.Sequence[0]) / float64(2*logs)
					if b.Value != nil && (*b.Value < b.Sequence[0] || *b.Value > b.Sequence[1] || *b.Difference < b.Uplift[0] || *b.Difference > b.Uplift[1]) {
						t.Fatalf("a point outside of its interval: %+v", b)
					}
				}
				if miss {
					missed++
				}
				w = &knobWorld{r: rand.New(rand.NewPCG(29, uint64(i))), n: 1000, learns: learns, kernel: kernel,
					truth: map[float64]*sum{0.8: {}}}
				r, err = EvaluateKnobs(func(k *Knob) error { err := w.next(k); k.Density /= 2; return err },
					KnobOptions{Names: []string{"t"}, Kernel: kernel, Bandwidths: []float64{0.8}, Level: 0.9})
				if errors.Is(err, errContradict) {
					told++
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				if v := w.truth[0.8].value() / 1000; v > r.Targets[0].Bandwidths[0].Sequence[1] || v < r.Targets[0].Bandwidths[0].Sequence[0] {
					told++
				}
			}
			t.Logf("%s, learns %v: %d of %d missed, mean width %.3f; density halved: %d told", kernel, learns, missed, logs, width, told)
			if float64(missed) > 0.1*float64(logs)+3*math.Sqrt(0.09*float64(logs)) {
				t.Errorf("%s, learns %v: %d of %d missed", kernel, learns, missed, logs)
			}
			if told < logs*9/10 {
				t.Errorf("%s, learns %v: a wrong density was told in %d of %d logs", kernel, learns, told, logs)
			}
		}
	}
}

// TestKnobFormula: the estimates are mean[K(u/h) r/(h f)] and its self-normalised form, for numbers worked out by hand. Four
// decisions have 2.7 effective ones and no estimate is shown; of five times these, 14, all are.
func TestKnobFormula(t *testing.T) {
	log := []Knob{{0, 0.5, 1, []float64{0.5}, "", Pair{}, 0}, {1, 0.25, 0, []float64{0.5}, "", Pair{}, 0}, {0.5, 0.5, 1, []float64{0.25}, "", Pair{}, 0}, {9, 1, 1, []float64{0}, "", Pair{}, 0}}
	for _, c := range []struct {
		kernel     string
		ipw, snipw float64
	}{
		// epanechnikov, h = 1: w = .75·.75/.5 = 1.125, .5625/.25 = 2.25, .75·.9375/.5 = 1.40625, 0
		{"epanechnikov", (1.125 + 1.40625) / 4, 2.53125 / 4.78125},
		// triangular: .5/.5 = 1, .5/.25 = 2, .75/.5 = 1.5, 0
		{"triangular", 2.5 / 4, 2.5 / 4.5},
	} {
		evaluated := func(times int) KnobBandwidth {
			i := 0
			r, err := EvaluateKnobs(func(k *Knob) error {
				if i == times*len(log) {
					return io.EOF
				}
				*k = log[i%len(log)]
				i++
				return nil
			}, KnobOptions{Names: []string{"t"}, Kernel: c.kernel, Bandwidths: []float64{1}})
			if err != nil {
				t.Fatal(err)
			}
			return r.Targets[0].Bandwidths[0]
		}
		if b := evaluated(1); b.IPW != nil || b.SNIPW != nil || b.SE != nil || b.Value != nil || b.Difference != nil || b.Outside || b.ESS > 3 {
			t.Errorf("%s: %+v: an estimate of %.1f effective decisions is shown", c.kernel, b, b.ESS)
		}
		b := evaluated(5)
		if math.Abs(*b.IPW-c.ipw) > 1e-15 || math.Abs(*b.SNIPW-c.snipw) > 1e-15 {
			t.Errorf("%s: %v and %v, want %v and %v", c.kernel, *b.IPW, *b.SNIPW, c.ipw, c.snipw)
		}
	}
}

// TestKnobBandwidths: without bandwidths the first decisions fix their unit and are not counted; the one that is chosen
// is a wide one where the reward does not depend on the knob, and a narrower one where it has a peak.
func TestKnobBandwidths(t *testing.T) {
	run := func(peak bool) (h float64, r *KnobResult) {
		draw := rand.New(rand.NewPCG(1, 7))
		n := 0
		r, err := EvaluateKnobs(func(k *Knob) error {
			if n++; n > 20_128 {
				return io.EOF
			}
			k.Action, k.Density, k.Reward, k.Aims = draw.Float64(), 1, 0, []float64{0.5}
			p := 0.5
			if peak {
				p = max(0, 1-6*math.Abs(k.Action-0.5))
			}
			if draw.Float64() < p {
				k.Reward = 1
			}
			return nil
		}, KnobOptions{Names: []string{"half"}})
		if err != nil {
			t.Fatal(err)
		}
		return r.Targets[0].Bandwidths[*r.Targets[0].Chosen].Bandwidth, r
	}
	flat, r := run(false)
	peaked, _ := run(true)
	if r.Unit != knobUnit || r.Events != 20_000 || len(r.Targets[0].Bandwidths) != knobBandwidths {
		t.Errorf("%d and %d decisions, %d bandwidths", r.Unit, r.Events, len(r.Targets[0].Bandwidths))
	}
	if !(peaked < 0.1 && flat > 0.25) {
		t.Errorf("chosen %v where the reward is flat and %v where it has a peak of width 1/6", flat, peaked)
	}
}

// TestBadKnobs: what is refused, with its words.
func TestBadKnobs(t *testing.T) {
	good := Knob{0.5, 1, 1, []float64{0.5}, "", Pair{}, 0}
	for want, o := range map[string]KnobOptions{
		"no kernel \"box\"": {Names: []string{"t"}, Kernel: "box"}, "bandwidth 0": {Names: []string{"t"}, Bandwidths: []float64{0}},
		"bandwidth 1, expected": {Names: []string{"t"}, Bandwidths: []float64{1, 1}}, "no target": {}, "two ends": {Names: []string{"t"}, Rewards: &Pair{0, math.Inf(1)}},
		"level is 1": {Names: []string{"t"}, Level: 1},
	} {
		if _, err := EvaluateKnobs(func(k *Knob) error { *k = good; return errors.New("read") }, o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	for want, k := range map[string]Knob{
		"density is 0": {0.5, 0, 1, []float64{0.5}, "", Pair{}, 0}, "knob is NaN": {math.NaN(), 1, 1, []float64{0.5}, "", Pair{}, 0}, "reward is 2": {0.5, 1, 2, []float64{0.5}, "", Pair{}, 0},
		"target 1 is +Inf": {0.5, 1, 1, []float64{math.Inf(1)}, "", Pair{}, 0}, "density is +Inf": {0.5, math.Inf(1), 1, []float64{0.5}, "", Pair{}, 0}, "0 targets, expected 1": {0.5, 1, 1, nil, "", Pair{}, 0},
	} {
		if _, err := EvaluateKnobs(func(x *Knob) error { *x = k; return nil }, KnobOptions{Names: []string{"t"}, Bandwidths: []float64{1}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	n := 0
	few := func(k *Knob) error {
		if n++; n > 100 {
			return io.EOF
		}
		*k = good
		return nil
	}
	if _, err := EvaluateKnobs(few, KnobOptions{Names: []string{"t"}}); err == nil || !strings.Contains(err.Error(), "100 decisions, expected more than 128") {
		t.Error(err)
	}
}

// TestKnobSegments: each row is what an evaluation of the decisions of that segment alone says at the row's level; small segments
// are one row; the rows hold the truth together with all bandwidths in loggers that learn. 60 logs at level 0.9 may miss 6; 13 is three
// standard errors more. Points lie in their intervals, and verdicts say what these say.
func TestKnobSegments(t *testing.T) {
	b, err := ParseBy("context.city")
	if err != nil {
		t.Fatal(err)
	}
	cities := []string{"Oslo", "Bergen", "Oslo", "Oslo", "Bergen", "", "Vik", "Bø"}
	logs, missed, settledRows := plays(60, 60, 1000), 0, 0
	for i := range logs {
		w := &knobWorld{r: rand.New(rand.NewPCG(31, uint64(i))), n: 1000, learns: true, kernel: "triangular"}
		truth, all, n := map[string]*[2]sum{}, map[string][]Knob{}, 0
		next := func(k *Knob) error {
			w.truth = map[float64]*sum{0.2: {}, 0.8: {}}
			before := w.moved
			if err := w.next(k); err != nil {
				return err
			}
			city := cities[n%len(cities)]
			n++
			k.Segment = city
			switch city {
			case "":
				city = "no city"
			case "Vik", "Bø":
				if n > 400 { // few of them
					k.Segment, city = "Oslo", "Oslo"
					break
				}
				city = "the 2 others"
			}
			ran := 0.0 // what the logger's law pays at this context, by the midpoint rule
			for j := range 64 {
				e := -1 + 2*(float64(j)+0.5)/64
				ran += (1 - math.Abs(e)) * w.pay(w.x+before+1.5*e, w.x) * 2 / 64
			}
			for _, at := range []string{"all", city} {
				if truth[at] == nil {
					truth[at] = &[2]sum{}
				}
				truth[at][0].add(w.truth[0.2].value() - ran)
				truth[at][1].add(w.truth[0.8].value() - ran)
				x := *k
				x.Aims = []float64{k.Aims[0]}
				all[at] = append(all[at], x)
			}
			return nil
		}
		r, err := EvaluateKnobs(next, KnobOptions{Names: []string{"t"}, Kernel: "triangular", Bandwidths: []float64{0.2, 0.8}, Level: 0.9, By: b})
		if err != nil {
			t.Fatal(err)
		}
		target := r.Targets[0]
		s := target.Segments
		if len(s.Rows) != 5 || s.Rows[0].Name != "all" || s.Rows[1].Name != "Oslo" || math.Abs(s.Each-0.99) > 1e-12 {
			t.Fatalf("%+v", s)
		}
		miss := false
		for _, row := range s.Rows {
			p, h := *row.Sequence, *target.Chosen
			v := truth[row.Name][h].value() / float64(len(all[row.Name]))
			miss = miss || v < p[0] || v > p[1]
			if *row.Value < p[0] || *row.Value > p[1] || len(all[row.Name]) != row.Events {
				t.Fatalf("%s: %v in %v, %d events", row.Name, *row.Value, p, row.Events)
			}
			if better := strings.HasPrefix(row.Verdict, "better"); better != (p[0] > 0) || strings.HasPrefix(row.Verdict, "worse") != (p[1] < 0) {
				t.Fatalf("%s beside %v", row.Verdict, p)
			} else if better {
				settledRows++
			}
			if i > 0 {
				continue
			}
			at := 0
			alone, err := EvaluateKnobs(func(k *Knob) error {
				if at == len(all[row.Name]) {
					return io.EOF
				}
				*k = all[row.Name][at]
				at++
				return nil
			}, KnobOptions{Names: []string{"t"}, Kernel: "triangular", Bandwidths: []float64{target.Bandwidths[h].Bandwidth}, Level: s.Each})
			if err != nil {
				t.Fatal(err)
			}
			if u := alone.Targets[0].Bandwidths[0].Uplift; math.Abs(u[0]-p[0]) > 1e-9 || math.Abs(u[1]-p[1]) > 1e-9 {
				t.Errorf("%s: %v, of its %d decisions alone %v", row.Name, p, row.Events, u)
			}
		}
		if miss {
			missed++
		}
	}
	t.Logf("%d of %d logs missed in some row; %d rows settled", missed, logs, settledRows)
	if float64(missed) > 0.1*float64(logs)+3*math.Sqrt(0.09*float64(logs)) {
		t.Errorf("%d of %d missed", missed, logs)
	}
	if settledRows < logs {
		t.Errorf("%d rows settled in %d logs: the test has no power", settledRows, logs)
	}
}

// TestBadKnobSegments: a segment that is in no event, a text between edges, more than 1000 segments, and more sums than memory is for.
func TestBadKnobSegments(t *testing.T) {
	for by, want := range map[string]string{
		"city=Oslo|Rome": `no event is in the segment "Rome"`, "city=Rome": "no event has one of these values", "city=0:1:": `city is "Oslo", expected a number`,
		"none": "no event has none", "n": "more than 1000 segments", "many": "more than 500 segments of 4 targets with 100 bandwidths",
	} {
		path, _, _ := strings.Cut(by, "=")
		b, err := ParseBy(by)
		if err != nil {
			t.Fatal(err)
		}
		o := KnobOptions{Names: []string{"t"}, Bandwidths: []float64{1}, By: b}
		if path == "many" {
			o.Names, o.Bandwidths = []string{"a", "b", "c", "d"}, nil
			for i := range 100 {
				o.Bandwidths = append(o.Bandwidths, float64(i+1))
			}
		}
		i := 0
		_, err = EvaluateKnobs(func(k *Knob) error {
			if i++; i > 1100 {
				return io.EOF
			}
			*k = Knob{0.5, 1, 1, make([]float64, len(o.Names)), map[string]string{"city": "Oslo", "n": fmt.Sprint(i), "many": fmt.Sprint(i)}[path], Pair{}, 0}
			return nil
		}, o)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", by, err, want)
		}
	}
}

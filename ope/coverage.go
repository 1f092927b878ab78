package ope

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"

	"troupe/logged"
	"troupe/rng"
)

// Setting is a world where the truth is known: contexts in four cells, Bernoulli rewards, a logger and a target.
type Setting struct {
	Name         string
	N, K         int
	Rate         float64 // mean reward, about
	LoggerLearns bool
	TargetLearns bool
	Drift        bool
	Hole         bool    // the logger never plays one action
	Floor        float64 // of the logger
	Interference bool    // a fault: the last choice of a window pays the decisions before it
	Leak         bool    // a fault: q is the reward
}

// Settings are the ten worlds of the coverage table.
var Settings = []Setting{
	{Name: "independent, K = 2", N: 500, K: 2, Rate: 0.5, Floor: 0.4},
	{Name: "independent, K = 5", N: 500, K: 5, Rate: 0.5, Floor: 0.3},
	{Name: "independent, K = 50", N: 1000, K: 50, Rate: 0.5, Floor: 0.3},
	{Name: "heavy weights, K = 20", N: 1000, K: 20, Rate: 0.5, Floor: 0.05},
	{Name: "logger learns", N: 1000, K: 6, Rate: 0.5, LoggerLearns: true, Floor: 0.15},
	{Name: "target learns too", N: 1000, K: 6, Rate: 0.5, LoggerLearns: true, TargetLearns: true, Floor: 0.15},
	{Name: "drift, logger learns", N: 1000, K: 6, Rate: 0.5, LoggerLearns: true, Drift: true, Floor: 0.15},
	{Name: "one action never logged", N: 500, K: 5, Rate: 0.5, Hole: true, Floor: 0.3},
	{Name: "3% clicks", N: 1000, K: 5, Rate: 0.03, Floor: 0.5},
	{Name: "3% clicks, logger learns", N: 1000, K: 10, Rate: 0.03, LoggerLearns: true, Floor: 0.1},
}

const cells = 4

// world draws one log of a setting: events with the target's law beside them, and the true values of both policies
// after each event.
type world struct {
	s      Setting
	events []logged.Event
	ve, vb []float64 // V̄ of target and logger after each event
}

func newWorld(s Setting, key rng.Key) *world {
	w := &world{s: s}
	in := key.Stream(rng.Instance).Round(0)
	at := 0
	uniform := func() float64 { at++; return in.Float64(at) }
	mu := make([][]float64, cells)
	logger, target := make([][]float64, cells), make([][]float64, cells)
	for c := range mu {
		for range s.K {
			mu[c] = append(mu[c], min(2*s.Rate*uniform(), 0.98))
		}
		logger[c], target[c] = tempered(s.K, uniform, s.Floor), tempered(s.K, uniform, 0)
	}
	sum, count := table(s.K), table(s.K)
	draws := key.Stream(rng.Reward)
	se, sb := 0.0, 0.0
	for i := range s.N {
		d := draws.Round(uint64(i))
		c := d.Intn(0, cells)
		pb, pe := logger[c], target[c]
		if s.LoggerLearns {
			pb = greedyLaw(sum[c], count[c], s.Floor)
		}
		if s.TargetLearns {
			pe = greedyLaw(sum[c], count[c], 0.02)
		}
		if s.Hole { // of mean reward 1: nothing worse can be missing
			pb = without(pb, s.K-1)
		}
		a := draw(pb, d.Float64(1))
		m := mu[c]
		if s.Drift && i >= s.N/2 {
			m = reversed(m)
		}
		y := 0.0
		if d.Float64(2) < m[a] {
			y = 1
		}
		sum[c][a] += y
		count[c][a]++
		for k := range m {
			se += pe[k] * m[k]
			sb += pb[k] * m[k]
		}
		x := make([]float64, cells)
		x[c] = 1
		e := logged.Event{Context: x, K: s.K, Chosen: a, Reward: y, Propensity: pb[a], Law: pb, Target: pe,
			Position: logged.NoPosition}
		if s.Leak {
			e.Q = make([]float64, s.K)
			for k := range e.Q {
				e.Q[k] = s.Rate
			}
			e.Q[a] = y
		}
		w.events = append(w.events, e)
		w.ve, w.vb = append(w.ve, se/float64(i+1)), append(w.vb, sb/float64(i+1))
	}
	if s.Interference {
		w.interfere(key)
	}
	return w
}

// interfere lets the choice at the end of a window of 50 pay all decisions of the window alike: their own coins say
// nothing, and a later coin everything.
func (w *world) interfere(key rng.Key) {
	for i := range w.events {
		e := &w.events[i]
		end := min(i-i%50+49, len(w.events)-1)
		last := &w.events[end]
		e.Reward = 0
		if last.Target[last.Chosen] >= 1/float64(w.s.K) == (e.Target[e.Chosen] >= 1/float64(w.s.K)) {
			e.Reward = 1
		}
	}
	// Each decision's value given everything before it: the later coin falls either way.
	se, sb := 0.0, 0.0
	for i := range w.events {
		e := &w.events[i]
		last := &w.events[min(i-i%50+49, len(w.events)-1)]
		likes := 0.0
		for k, p := range last.Law {
			if last.Target[k] >= 1/float64(w.s.K) {
				likes += p
			}
		}
		for k := range e.Law {
			v := 1 - likes
			if e.Target[k] >= 1/float64(w.s.K) {
				v = likes
			}
			se += e.Target[k] * v
			sb += e.Law[k] * v
		}
		w.ve[i], w.vb[i] = se/float64(i+1), sb/float64(i+1)
	}
}

func table(k int) [][]float64 {
	t := make([][]float64, cells)
	for c := range t {
		t[c] = make([]float64, k)
	}
	return t
}

// tempered is a law with random preferences and a floor.
func tempered(k int, uniform func() float64, floor float64) []float64 {
	p, sum := make([]float64, k), 0.0
	for i := range p {
		p[i] = math.Exp(4 * uniform())
		sum += p[i]
	}
	for i := range p {
		p[i] = (1-floor)*p[i]/sum + floor/float64(k)
	}
	return p
}

// greedyLaw plays the largest mean so far with a floor.
func greedyLaw(sum, count []float64, floor float64) []float64 {
	best, most := 0, math.Inf(-1)
	p := make([]float64, len(sum))
	for i := range p {
		if m := (sum[i] + 1) / (count[i] + 2); m > most {
			best, most = i, m
		}
		p[i] = floor / float64(len(p))
	}
	p[best] += 1 - floor
	return p
}

func without(p []float64, hole int) []float64 {
	out := make([]float64, len(p))
	for i := range p {
		if i != hole {
			out[i] = p[i] / (1 - p[hole])
		}
	}
	return out
}

func reversed(m []float64) []float64 {
	out := make([]float64, len(m))
	for i := range m {
		out[i] = m[len(m)-1-i]
	}
	return out
}

func draw(p []float64, u float64) int {
	last := 0
	for i, v := range p {
		if v == 0 {
			continue
		}
		last = i
		if u -= v; u < 0 {
			return i
		}
	}
	return last
}

// Read implements Source.
func (w *worldSource) Read(e *logged.Event) error {
	if w.at == len(w.events) {
		return io.EOF
	}
	*e = w.events[w.at]
	w.at++
	return nil
}

type worldSource struct {
	events []logged.Event
	at     int
}

// Intervals are the columns of the coverage table: what covers what.
var Intervals = []string{"dr sequence", "ips sequence", "difference sequence", "any look", "dr normal", "snips normal",
	"difference normal", "dr-stable", "el", "ls lower", "ix lower"}

// Covered is one row of the coverage table.
type Covered struct {
	Setting     string         `json:"setting"`
	N           int            `json:"n"`
	Runs        int            `json:"runs"`
	Misses      map[string]int `json:"misses"` // by interval
	Given       map[string]int `json:"given"`  // in how many runs there was one
	Contradict  int            `json:"contradict"`
	WidthSeq    float64        `json:"width_sequence"` // means, of dr
	WidthNormal float64        `json:"width_normal"`
}

// Coverage plays a setting many times and counts how often each interval misses the truth. The same seed gives the
// same counts for any number of workers.
func Coverage(ctx context.Context, s Setting, runs, workers int, seed uint64) (*Covered, error) {
	out := &Covered{Setting: s.Name, N: s.N, Misses: map[string]int{}, Given: map[string]int{}}
	var mu sync.Mutex
	var failed error
	widths := make([][2]float64, runs)
	next := make(chan int)
	var wg sync.WaitGroup
	key := rng.NewKey(seed).Child("coverage").Child(s.Name)
	for range max(workers, 1) {
		wg.Go(func() {
			for i := range next {
				one, err := cover(ctx, s, key.At(uint64(i)))
				mu.Lock()
				if err != nil {
					failed = fmt.Errorf("%s, run %d: %w", s.Name, i, err)
				} else {
					out.add(one)
					widths[i] = one.width
				}
				mu.Unlock()
			}
		})
	}
	for i := range runs {
		if ctx.Err() != nil {
			break
		}
		next <- i
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for _, w := range widths { // in order: the same bits for any number of workers
		out.WidthSeq += w[0] / float64(runs)
		out.WidthNormal += w[1] / float64(runs)
	}
	return out, failed
}

type coveredRun struct {
	missed     map[string]bool
	contradict bool
	width      [2]float64
}

func (c *Covered) add(r *coveredRun) {
	c.Runs++
	for k, missed := range r.missed {
		c.Given[k]++
		if missed {
			c.Misses[k]++
		}
	}
	if r.contradict {
		c.Contradict++
	}
}

// cover plays one run.
func cover(ctx context.Context, s Setting, key rng.Key) (*coveredRun, error) {
	w := newWorld(s, key)
	o := Options{Targets: []Target{Column{}}, Estimators: []string{"logged", "ips", "snips", "dr", "dr-stable", "el",
		"ls", "ix"},
		Set: map[string]float64{"ls": 0.25, "ix": 0.125}}
	r, err := Evaluate(ctx, &worldSource{events: w.events}, o)
	if err != nil {
		return nil, err
	}
	t := r.Targets[0]
	n := len(w.events) - 1
	ve, diff := w.ve[n], w.ve[n]-w.vb[n]
	out := &coveredRun{missed: map[string]bool{}}
	see := func(name string, p *Pair, truth float64) {
		if p != nil {
			out.missed[name] = truth < p[0] || truth > p[1]
		}
	}
	for _, e := range t.Estimates {
		switch e.Estimator {
		case "dr":
			see("dr sequence", e.Sequence, ve)
			see("dr normal", e.Normal, ve)
			if out.contradict = e.Sequence == nil; !out.contradict {
				out.width[0] = e.Sequence[1] - e.Sequence[0]
			}
			if e.Normal != nil {
				out.width[1] = e.Normal[1] - e.Normal[0]
			}
		case "ips":
			see("ips sequence", e.Sequence, ve)
		case "snips":
			see("snips normal", e.Normal, ve)
		case "dr-stable":
			see("dr-stable", e.Normal, ve)
		case "el":
			see("el", e.Interval, ve)
		case "ls", "ix":
			if e.Lower != nil {
				out.missed[e.Estimator+" lower"] = ve < *e.Lower
			}
		}
	}
	see("difference sequence", t.Uplift.Sequence, diff)
	see("difference normal", t.Uplift.Normal, diff)
	any := false
	for _, p := range t.Running {
		if v := w.ve[p.N-1]; p.HasSequence && (v < p.Lo || v > p.Hi) {
			any = true
		}
	}
	out.missed["any look"] = any
	return out, nil
}

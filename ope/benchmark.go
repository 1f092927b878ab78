package ope

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/optimize"
	"gonum.org/v1/gonum/stat/distuv"

	"troupe/logged"
	"troupe/rng"
)

// Known is a logged bandit whose truth is known: events with the target's law beside them, and the target's value on
// their contexts.
type Known struct {
	Events []logged.Event
	Truth  float64
}

// RelativeError is one row of a benchmark: |V̂ − V|/V over the runs that have a value.
type RelativeError struct {
	Estimator string   `json:"estimator"`
	Rank      *int     `json:"rank"`      // by Mean among the estimators with a value in every run, from 1; nil: not one of them
	Mean      *float64 `json:"mean"`      // nil: no run has a value
	SD        *float64 `json:"sd"`        // nil: fewer than two runs have one
	Interval  *Pair    `json:"interval"`  // of the mean, by Student's t at 95 %; likewise
	Missing   int      `json:"missing"`   // runs without a value
	Covered   int      `json:"covered"`   // runs in which its sequence covered the truth
	Sequences int      `json:"sequences"` // of so many that had one
	Normal    int      `json:"normal"`    // and its normal interval
	Normals   int      `json:"normals"`   // likewise
}

// Benchmark evaluates runs of a known bandit with every estimator of the options.
func Benchmark(ctx context.Context, runs, workers int, o Options, world func(run int) (*Known, error)) ([]RelativeError,
	error) {
	o.Targets, o.Workers = []Target{Column{}}, 1
	type one struct {
		estimates []Estimate
		truth     float64
		err       error
	}
	all := make([]one, runs)
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(workers, 1) {
		wg.Go(func() {
			for i := range next {
				k, err := world(i)
				if err != nil {
					all[i].err = err
					continue
				}
				r, err := Evaluate(ctx, &worldSource{events: k.Events}, o)
				if err != nil {
					all[i].err = err
					continue
				}
				all[i] = one{r.Targets[0].Estimates, k.Truth, nil}
			}
		})
	}
	for i := range runs {
		if ctx.Err() == nil {
			next <- i
		}
	}
	close(next)
	wg.Wait()
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	var out []RelativeError
	for k, key := range o.Estimators {
		row := RelativeError{Estimator: key}
		var errs []float64
		for i := range all {
			if all[i].err != nil {
				return nil, fmt.Errorf("run %d: %w", i, all[i].err)
			}
			e := all[i].estimates[k]
			if e.Value == nil {
				row.Missing++
				continue
			}
			v := all[i].truth
			errs = append(errs, math.Abs(*e.Value-v)/math.Abs(v))
			if s := e.Sequence; s != nil {
				if row.Sequences++; s[0] <= v && v <= s[1] {
					row.Covered++
				}
			}
			if s := e.Normal; s != nil {
				if row.Normals++; s[0] <= v && v <= s[1] {
					row.Normal++
				}
			}
		}
		row.over(errs)
		out = append(out, row)
	}
	rank(out)
	return out, nil
}

// over sets mean, deviation and interval of the errors, as far as there are any.
func (r *RelativeError) over(errs []float64) {
	n := float64(len(errs))
	if n == 0 {
		return
	}
	mean, sd := 0.0, 0.0
	for _, x := range errs {
		mean += x / n
	}
	if r.Mean = &mean; n < 2 {
		return
	}
	for _, x := range errs {
		sd += (x - mean) * (x - mean) / (n - 1)
	}
	sd = math.Sqrt(sd)
	half := studentQuantile(0.975, n-1) * sd / math.Sqrt(n)
	r.SD, r.Interval = &sd, &Pair{mean - half, mean + half}
}

// rank numbers the rows with a value in every run by their mean; equal means share the smaller number.
func rank(rows []RelativeError) {
	for i := range rows {
		if rows[i].Mean == nil || rows[i].Missing > 0 {
			continue
		}
		k := 1
		for j := range rows {
			if m := rows[j].Mean; m != nil && rows[j].Missing == 0 && *m < *rows[i].Mean {
				k++
			}
		}
		rows[i].Rank = &k
	}
}

// Synthetic is obp's synthetic setting: contexts of dim standard normals, mean rewards
//
//	μ(x, a) = σ(standardised (cᵀx + b_a + xᵀC_a)),   coefficients uniform on (−1, 1),
//
// binary rewards, a logger softmax(beta·μ), and a target that a multinomial logistic regression with weights r/p
// learned from another log of as many rounds. The coefficients are those of the seed; runs differ in the log.
func Synthetic(rounds, actions, dim int, beta float64, seed uint64, run int) (*Known, error) {
	in := rng.NewKey(seed).Child("synthetic").Stream(rng.Instance).Round(0)
	at := 0
	coef := func(n int) []float64 {
		c := make([]float64, n)
		for i := range c {
			c[i] = 2*in.Float64(at) - 1
			at++
		}
		return c
	}
	c, b, C := coef(dim), coef(actions), coef(dim*actions)
	key := rng.NewKey(seed).Child("synthetic").At(uint64(run))
	play := func(part string) (x, mu, law [][]float64, a []int, y []float64) {
		s := key.Child(part).Stream(rng.Reward)
		total, square := 0.0, 0.0
		for i := range rounds {
			d := s.Round(uint64(i))
			z, m := make([]float64, dim), make([]float64, actions)
			for j := range z {
				z[j] = distuv.UnitNormal.Quantile(d.Float64(j))
			}
			for k := range m {
				v := b[k]
				for j, zj := range z {
					v += zj * (c[j] + C[j*actions+k])
				}
				m[k] = v
				total, square = total+v, square+v*v
			}
			x, mu = append(x, z), append(mu, m)
		}
		n := float64(rounds * actions)
		mean := total / n
		sd := math.Sqrt(square/n - mean*mean)
		for i := range mu {
			d := s.Round(uint64(i))
			p, sum := make([]float64, actions), 0.0
			for k, v := range mu[i] {
				mu[i][k] = 1 / (1 + math.Exp(-(v-mean)/sd))
				p[k] = math.Exp(beta * mu[i][k])
				sum += p[k]
			}
			for k := range p {
				p[k] /= sum
			}
			chosen := draw(p, d.Float64(dim))
			reward := 0.0
			if d.Float64(dim+1) < mu[i][chosen] {
				reward = 1
			}
			law, a, y = append(law, p), append(a, chosen), append(y, reward)
		}
		return
	}
	x, _, law, a, y := play("train")
	var weights []float64
	for i := range y {
		weights = append(weights, y[i]/law[i][a[i]])
	}
	policy, err := Multinomial(x, a, weights, actions)
	if err != nil {
		return nil, err
	}
	x, mu, law, a, y := play("test")
	out := &Known{}
	for i := range x {
		pe := policy(x[i])
		for k := range pe {
			out.Truth += pe[k] * mu[i][k] / float64(rounds)
		}
		out.Events = append(out.Events, logged.Event{Context: x[i], K: actions, Chosen: a[i], Reward: y[i],
			Propensity: law[i][a[i]], Law: law[i],
			Target: pe, Position: logged.NoPosition})
	}
	return out, nil
}

// Multinomial fits a multinomial logistic regression with weights and the ridge penalty ‖θ‖²/2, by L-BFGS, and returns
// its predicted probabilities.
func Multinomial(x [][]float64, class []int, weights []float64, classes int) (func(x []float64) []float64, error) {
	d := len(x[0]) + 1
	// one gradient row for each event that weighs anything
	p := make([]float64, classes)
	score := func(theta, x, p []float64) {
		most := math.Inf(-1)
		for k := range p {
			t := theta[k*d : (k+1)*d]
			v := t[d-1]
			for j, xj := range x {
				v += t[j] * xj
			}
			p[k] = v
			most = max(most, v)
		}
		sum := 0.0
		for k := range p {
			p[k] = math.Exp(p[k] - most)
			sum += p[k]
		}
		for k := range p {
			p[k] /= sum
		}
	}
	problem := optimize.Problem{
		Func: func(theta []float64) float64 {
			f := 0.0
			for k, t := range theta {
				if k%d != d-1 {
					f += t * t / 2
				}
			}
			for i := range x {
				if weights[i] != 0 {
					score(theta, x[i], p)
					f -= weights[i] * math.Log(max(p[class[i]], 1e-300))
				}
			}
			return f
		},
		Grad: func(grad, theta []float64) {
			for k, t := range theta {
				if grad[k] = t; k%d == d-1 {
					grad[k] = 0
				}
			}
			for i := range x {
				if weights[i] == 0 {
					continue
				}
				score(theta, x[i], p)
				for k := range p {
					g := p[k]
					if k == class[i] {
						g--
					}
					g *= weights[i]
					row := grad[k*d : (k+1)*d]
					for j, xj := range x[i] {
						row[j] += g * xj
					}
					row[d-1] += g
				}
			}
		},
	}
	r, err := optimize.Minimize(problem, make([]float64, classes*d), &optimize.Settings{MajorIterations: 60,
		GradientThreshold: 1e-3}, &optimize.LBFGS{})
	if err != nil && r == nil {
		return nil, err
	}
	theta := slices.Clone(r.X)
	return func(x []float64) []float64 {
		out := make([]float64, classes)
		score(theta, x, out)
		return out
	}, nil
}

const mostRows = 6000

// Classified turns a classification set into a logged bandit: the actions are the classes and the right one pays 1. The
// logger plays the class that a regression on half of the training rows predicts with probability alpha, and uniformly
// otherwise; the target likewise with a regression on all training rows and alphaTarget. Rows are split by the run,
// 70 % for training; of more than 6000 rows a run takes 6000.
func Classified(x [][]float64, class []int, classes int, alpha, alphaTarget float64, seed uint64, run int) (*Known,
	error) {
	key := rng.NewKey(seed).Child("classified").At(uint64(run))
	order := key.Stream(rng.Offer)
	n := len(x)
	perm := make([]int, n)
	for i := range perm {
		perm[i] = i
		j := order.Round(uint64(i)).Intn(0, i+1)
		perm[i], perm[j] = perm[j], perm[i]
	}
	if n = min(n, mostRows); n < len(x) {
		perm = perm[:n]
	}
	train := n * 7 / 10
	if train < 2*classes || train == n {
		return nil, fmt.Errorf("%d rows of %d classes are too few", n, classes)
	}
	fit := func(rows []int) (func([]float64) []float64, error) {
		var a [][]float64
		var b []int
		var w []float64
		for _, i := range rows {
			a, b, w = append(a, x[i]), append(b, class[i]), append(w, 1)
		}
		return Multinomial(a, b, w, classes)
	}
	logger, err := fit(perm[:train/2])
	if err != nil {
		return nil, err
	}
	target, err := fit(perm[:train])
	if err != nil {
		return nil, err
	}
	mix := func(p []float64, alpha float64) []float64 {
		best := 0
		for k, v := range p {
			if v > p[best] {
				best = k
			}
		}
		out := make([]float64, classes)
		for k := range out {
			out[k] = (1 - alpha) / float64(classes)
		}
		out[best] += alpha
		return out
	}
	out := &Known{}
	s := key.Stream(rng.Select)
	for i, row := range perm[train:] {
		pb, pe := mix(logger(x[row]), alpha), mix(target(x[row]), alphaTarget)
		a := draw(pb, s.Round(uint64(i)).Float64(0))
		y := 0.0
		if a == class[row] {
			y = 1
		}
		out.Truth += pe[class[row]] / float64(n-train)
		out.Events = append(out.Events, logged.Event{Context: x[row], K: classes, Chosen: a, Reward: y,
			Propensity: pb[a], Law: pb, Target: pe, Position: logged.NoPosition})
	}
	return out, nil
}

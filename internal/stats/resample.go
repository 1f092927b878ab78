package stats

import (
	"cmp"
	"math"
	"runtime"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"
)

// Draw returns number i of resample b, uniform on {0, …, n−1} and independent over b and i.
type Draw func(b, i, n int) int

// Resamples holds B resamples of n replications, each as counts: how often a replication was
// drawn. Everything computed from one Resamples is resampled jointly, whole replications at a time,
// so dependence between policies and between rounds is kept. Safe for concurrent use.
//
// Of more than 16384 replications blocks are drawn: ⌈n/16384⌉ that follow each other, the last one may be shorter.
// Replications are independent, so a sum over resampled blocks has the mean and the variance of one over resampled
// replications, and memory stays below 16384·B counts.
type Resamples struct {
	n, b    int
	block   int       // replications in a block
	weights []float64 // b × ⌈n/block⌉ counts
}

// mostBlocks is the largest number of things that are drawn.
const mostBlocks = 1 << 14

// NewResamples draws B resamples of n replications; it panics unless n ≥ 2 and B ≥ 1. draw is called with the number of
// blocks.
func NewResamples(n, b int, draw Draw) *Resamples {
	if n < 2 || b < 1 {
		panic("stats: NewResamples: n < 2 or B < 1")
	}
	s := &Resamples{n: n, b: b, block: (n + mostBlocks - 1) / mostBlocks}
	k := s.blocks()
	s.weights = make([]float64, k*b)
	for j := range b {
		w := s.counts(j)
		for i := range k {
			w[draw(j, i, k)]++
		}
	}
	return s
}

// blocks returns the number of blocks.
func (s *Resamples) blocks() int { return (s.n + s.block - 1) / s.block }

// counts returns how often each block is in resample j.
func (s *Resamples) counts(j int) []float64 {
	k := s.blocks()
	return s.weights[j*k : (j+1)*k]
}

// fold returns the sum of x over each block, x itself where blocks are single replications.
func (s *Resamples) fold(x []float64) []float64 {
	if s.block == 1 {
		return x
	}
	sums := make([]float64, 0, s.blocks())
	for b := range slices.Chunk(x, s.block) {
		sums = append(sums, floats.Sum(b))
	}
	return sums
}

// N returns the number of replications.
func (s *Resamples) N() int { return s.n }

// B returns the number of resamples.
func (s *Resamples) B() int { return s.b }

// First returns the first b resamples, which NewResamples would draw for b alone. The others need not be kept for it.
func (s *Resamples) First(b int) *Resamples {
	return &Resamples{n: s.n, b: b, block: s.block, weights: slices.Clone(s.weights[:b*s.blocks()])}
}

// Weights returns how often each replication is in resample j. Read only. They add up to n, but for a last block that
// is shorter.
func (s *Resamples) Weights(j int) []float64 {
	if s.block == 1 {
		return s.counts(j)
	}
	w := make([]float64, s.n)
	for r := range w {
		w[r] = s.counts(j)[r/s.block]
	}
	return w
}

// minMoving is the least number of replications in which a contrast must differ from its most
// frequent value before resampling can say anything about its mean.
const minMoving = 5

// Estimable reports whether resampling can speak about the mean of a contrast: at least five
// replications differ from its most frequent value. Two policies that played alike in all but two
// replications have a difference, but its spread is unknown.
func Estimable(d []float64) bool {
	s := slices.Sorted(slices.Values(d))
	most, run := 0, 0
	for i := range s {
		if i > 0 && s[i] == s[i-1] {
			run++
		} else {
			run = 1
		}
		most = max(most, run)
	}
	return len(d)-most >= minMoving
}

// MaxT returns the factor c such that the intervals mean(d_k) ± c·se(d_k) cover all means at once
// with probability about level. Each d_k is one contrast: a value for each replication, such as the
// difference of two policies' regrets.
//
//	c = the level-quantile over resamples of max_k |m*_k − m_k| / se*_k
//
// (the studentised bootstrap of the largest deviation: Efron and Tibshirani 1993, section 12.5;
// Romano and Wolf 2005). Studentising matters: on the heavy tails of bandit runs the plain maximum,
// and Bonferroni with normal quantiles, cover 60 to 90 % where 95 is nominal. Contrasts that are
// not Estimable are left out. ok is false when none is left or when more than 1 − level of the
// resamples have no spread, so that no finite factor exists.
//
// The quantile is order statistic ⌈level·(B+1)⌉. Cost: two dot products of length n for each
// contrast and resample, on all processors; the result does not depend on their number.
func (s *Resamples) MaxT(d [][]float64, level float64) (c float64, ok bool) {
	return s.MaxTOf(len(d), func(k int) []float64 { return d[k] }, level)
}

// MaxTOf is MaxT of contrasts that are made when they are needed: d returns number k of n. A few hundred are in memory
// at a time.
func (s *Resamples) MaxTOf(n int, d func(k int) []float64, level float64) (c float64, ok bool) {
	if !(level > 0 && level < 1) {
		panic("stats: MaxT: level outside (0, 1)")
	}
	worst, ok := s.Largest(n, d)
	if !ok {
		return 0, false
	}
	slices.Sort(worst)
	i := int(math.Ceil(level*float64(s.b+1))) - 1
	if i >= s.b || math.IsInf(worst[i], 1) {
		return 0, false
	}
	return worst[i], true
}

// Largest returns for each resample the largest studentised deviation max_k |m*_k − m_k|/se*_k of n contrasts; +Inf
// where one has no spread. ok is false when no contrast is Estimable.
func (s *Resamples) Largest(n int, d func(k int) []float64) (worst []float64, ok bool) {
	const together = 256
	worst = make([]float64, s.b)
	for from := 0; from < n; from += together {
		var dev, sq [][]float64 // d − mean, and its square
		for k := from; k < min(n, from+together); k++ {
			x := d(k)
			if len(x) != s.n {
				panic("stats: MaxT: contrast of wrong length")
			}
			if !Estimable(x) {
				continue
			}
			m := Mean(x)
			u, v := make([]float64, s.n), make([]float64, s.n)
			for r := range x {
				u[r] = x[r] - m
				v[r] = u[r] * u[r]
			}
			dev, sq = append(dev, s.fold(u)), append(sq, s.fold(v))
		}
		ok = ok || len(dev) > 0
		s.largest(worst, dev, sq)
	}
	for j := range worst {
		worst[j] = math.Sqrt(worst[j])
	}
	return worst, ok
}

// largest raises worst, by resample, to the largest t² of contrasts with the deviations dev and their squares.
func (s *Resamples) largest(worst []float64, dev, sq [][]float64) {
	n := float64(s.n)
	// 32 resamples at a time stay in the cache while the contrasts stream by.
	const block = 32
	s.each((s.b+block-1)/block, func(g int) {
		lo, hi := g*block, min((g+1)*block, s.b)
		for k := range dev {
			for j := lo; j < hi; j++ {
				w := s.counts(j)
				m := floats.Dot(w, dev[k]) / n
				q := floats.Dot(w, sq[k])/n - m*m
				// t² = m²/(q/(n−1)), compared without the root.
				var t float64
				switch {
				case q > 0:
					t = m * m * (n - 1) / q
				case m != 0:
					t = math.Inf(1)
				}
				worst[j] = max(worst[j], t)
			}
		}
	})
}

// Medians returns the median of each sample in each resample, by sample and resample: the mean of the two middle values
// for an even number, as Quantile.
func (s *Resamples) Medians(samples [][]float64) [][]float64 {
	out := make([][]float64, len(samples))
	s.each(len(samples), func(k int) {
		x := samples[k]
		if len(x) != s.n {
			panic("stats: Medians: sample of wrong length")
		}
		order := make([]int, s.n)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(x[i], x[j]) })
		out[k] = make([]float64, s.b)
		for j := range s.b {
			w := s.Weights(j)
			total := floats.Sum(w)
			var seen, low float64
			found := false
			for _, i := range order {
				if w[i] == 0 {
					continue
				}
				if seen += w[i]; !found && 2*seen >= total {
					if low, found = x[i], true; 2*seen > total {
						out[k][j] = low
						break
					}
				} else if found { // exactly half lie below
					out[k][j] = (low + x[i]) / 2
					break
				}
			}
		}
	})
	return out
}

// Statistic returns the two-sided percentile interval of f over the resamples: the (1±level)/2
// quantiles of f(weights of resample j). f gets the counts of one resample (Weights), must
// not keep them, is called from several goroutines, and returns ok = false where it is undefined;
// if that happens in any resample, so is the interval.
func (s *Resamples) Statistic(level float64, f func(w []float64) (v float64, ok bool)) (lo, hi float64, ok bool) {
	if !(level > 0 && level < 1) {
		panic("stats: Statistic: level outside (0, 1)")
	}
	v := make([]float64, s.b)
	bad := make([]bool, s.b)
	s.each(s.b, func(j int) {
		x, ok := f(s.Weights(j))
		v[j], bad[j] = x, !ok
	})
	if slices.Contains(bad, true) {
		return 0, 0, false
	}
	slices.Sort(v)
	return Quantile(v, (1-level)/2), Quantile(v, (1+level)/2), true
}

// Exponent returns the slope of log(mean curve) against log t and its interval by resampling
// replications and refitting. curve[k][r] is replication r at t[k]. ok is false when fewer than two
// points are given or a mean is not positive, in the sample or in any resample.
//
// The residuals of the fit are never resampled: points on one curve are not independent.
func (s *Resamples) Exponent(t []float64, curve [][]float64, level float64) (slope, lo, hi float64, ok bool) {
	if len(t) != len(curve) {
		panic("stats: Exponent: lengths differ")
	}
	if len(t) < 2 {
		return 0, 0, 0, false
	}
	x := make([]float64, len(t))
	for k := range t {
		if !(t[k] > 0) {
			panic("stats: Exponent: t is not positive")
		}
		if len(curve[k]) != s.n {
			panic("stats: Exponent: curve of wrong length")
		}
		x[k] = math.Log(t[k])
	}
	fit := func(w []float64) (float64, bool) {
		y := make([]float64, len(x))
		for k := range x {
			m := floats.Dot(w, curve[k]) / float64(s.n)
			if !(m > 0) {
				return 0, false
			}
			y[k] = math.Log(m)
		}
		return Slope(x, y), true
	}
	ones := make([]float64, s.n)
	for r := range ones {
		ones[r] = 1
	}
	slope, ok = fit(ones)
	if !ok {
		return 0, 0, 0, false
	}
	lo, hi, ok = s.Statistic(level, fit)
	return slope, lo, hi, ok
}

// each calls f(0), …, f(n−1) on all processors. Every call writes its own places, so the order does
// not matter.
func (s *Resamples) each(n int, f func(i int)) {
	workers := min(runtime.GOMAXPROCS(0), n)
	var wg sync.WaitGroup
	for g := range workers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			for i := g; i < n; i += workers {
				f(i)
			}
		}()
	}
	wg.Wait()
}

// Ratio is a quotient of two means with its interval.
type Ratio struct {
	Value, Lo, Hi float64
	OK            bool // there is a finite interval
}

// RatioFactor is the factor of intervals for the quotients mean(x_i)/mean(ref) that hold for all i
// at once: MaxT of the contrasts x_i − ρ_i·ref, ρ_i the quotient that was observed. ok is false
// where MaxT's is, or when the mean of ref is not positive.
func (s *Resamples) RatioFactor(x [][]float64, ref []float64, level float64) (c float64, ok bool) {
	m := Mean(ref)
	if !(m > 0) {
		return 0, false
	}
	var d [][]float64
	for _, v := range x {
		if len(v) != s.n || len(ref) != s.n {
			panic("stats: RatioFactor: sample of wrong length")
		}
		rho := Mean(v) / m
		e := make([]float64, s.n)
		for r := range e {
			e[r] = v[r] - rho*ref[r]
		}
		d = append(d, e)
	}
	return s.MaxT(d, level)
}

// Fieller returns mean(x)/mean(ref) with the interval of all ρ for which the paired difference
// x − ρ·ref is within c standard errors of 0 (Fieller 1954): the roots of
//
//	(b² − c²s_bb/n)·ρ² − 2(ab − c²s_ab/n)·ρ + (a² − c²s_aa/n) = 0
//
// for the means a, b and the covariances s of x and ref. It contains 1 exactly when the interval
// mean(x − ref) ± c·se contains 0, so a quotient and a difference with the same factor agree. The
// interval is finite only when ref is more than c standard errors above 0.
func Fieller(x, ref []float64, c float64) Ratio {
	if len(x) != len(ref) || len(x) < 2 {
		panic("stats: Fieller: two samples of one length, at least 2, are needed")
	}
	n := float64(len(x))
	a, b := Mean(x), Mean(ref)
	if !(b > 0) {
		return Ratio{}
	}
	var aa, ab, bb float64
	for r := range x {
		u, v := x[r]-a, ref[r]-b
		aa, ab, bb = aa+u*u, ab+u*v, bb+v*v
	}
	k := c * c / (n - 1) / n
	p, q, s := b*b-k*bb, a*b-k*ab, a*a-k*aa
	if !(p > 0) {
		return Ratio{Value: a / b}
	}
	root := math.Sqrt(max(0, q*q-p*s))
	return Ratio{a / b, (q - root) / p, (q + root) / p, true}
}

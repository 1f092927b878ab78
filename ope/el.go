package ope

import (
	"errors"
	"math"
)

// mostStored is how many events the estimators take that keep something of each.
const mostStored = 5_000_000

// empirical is the empirical likelihood of (w, w r) with E w = 1 (Karampatziakis, Langford, Mineiro 2020; Kallus &
// Uehara 2019): the value Σ p_i w_i r_i for the p that maximise Σ log p_i under Σ p = 1, Σ p w = 1, and the interval
//
//	{V: 2(log-likelihood of the maximum − that with Σ p w r = V too) ≤ z²}.
//
// It exists only where min w < 1 < max w. Asymptotic, for independent events.
func empirical(w, x []float64, z float64) (value, lo, hi float64, err error) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, v := range w {
		least, most = min(least, v), max(most, v)
	}
	if !(least < 1 && most > 1) {
		return 0, 0, 0, errors.New("the weights lie on one side of 1: there is no likelihood with mean weight 1")
	}
	n := float64(len(w))
	l, base := dual(w, nil, 0)
	var s sum
	for i, v := range w {
		s.add(x[i] / (n * (1 + (v-1)*l[0])))
	}
	value = s.value()
	// start: the spread of the control variate
	var mx, mw, vw, cov sum
	for i := range w {
		mx.add(x[i])
		mw.add(w[i])
	}
	ax, aw := mx.value()/n, mw.value()/n
	for i := range w {
		vw.add((w[i] - aw) * (w[i] - aw))
		cov.add((w[i] - aw) * (x[i] - ax))
	}
	beta := cov.value() / vw.value()
	var sq sum
	for i := range w {
		e := x[i] - value - beta*(w[i]-1)
		sq.add(e * e)
	}
	se := math.Sqrt(sq.value()/n) / math.Sqrt(n)
	if se == 0 {
		return value, value, value, nil
	}
	gap := func(v float64) float64 {
		_, d := dual(w, x, v)
		return 2 * (d - base)
	}
	find := func(step float64) float64 {
		d, before := step, 0.0
		g := gap(value+d) - z*z
		for k := 0; g < 0; k++ {
			if k > 200 {
				return value + d
			}
			before = d
			d += step
			g = gap(value+d) - z*z
		}
		start := -z * z
		if before != 0 {
			start = gap(value+before) - z*z
		}
		// in units of the step the function −gap falls
		lo, hi := root(func(u float64) float64 { return z*z - gap(value+u*step) }, before/step, d/step, -start, -g)
		return value + (lo+hi)/2*step
	}
	return value, find(-se), find(se), nil
}

// dual minimises −Σ log(1 + λ·c_i) over λ by damped Newton, c_i = (w_i − 1, x_i − v), or w_i − 1 alone where x is nil.
func dual(w, x []float64, v float64) (l [2]float64, value float64) {
	n := float64(len(w))
	two := x != nil
	at := func(a, b float64) (f float64, ok bool) {
		var s sum
		for i, wi := range w {
			d := 1 + a*(wi-1)
			if two {
				d += b * (x[i] - v)
			}
			if !(d > 1/n) {
				return 0, false
			}
			s.add(math.Log(d))
		}
		return s.value(), true
	}
	f, _ := at(0, 0)
	for range 200 {
		var g0, g1, h00, h01, h11 sum
		for i, wi := range w {
			c0, c1 := wi-1, 0.0
			d := 1 + l[0]*c0
			if two {
				c1 = x[i] - v
				d += l[1] * c1
			}
			g0.add(c0 / d)
			h00.add(c0 * c0 / (d * d))
			if two {
				g1.add(c1 / d)
				h01.add(c0 * c1 / (d * d))
				h11.add(c1 * c1 / (d * d))
			}
		}
		s0, s1 := 0.0, 0.0
		if two {
			det := h00.value()*h11.value() - h01.value()*h01.value()
			if !(det > 0) {
				break
			}
			s0 = (h11.value()*g0.value() - h01.value()*g1.value()) / det
			s1 = (h00.value()*g1.value() - h01.value()*g0.value()) / det
		} else {
			s0 = g0.value() / h00.value()
		}
		t := 1.0
		for t >= 1e-14 {
			if next, ok := at(l[0]+t*s0, l[1]+t*s1); ok && next >= f-1e-14 {
				f = next
				break
			}
			t /= 2
		}
		l[0] += t * s0
		l[1] += t * s1
		if max(math.Abs(t*s0), math.Abs(t*s1)) < 1e-15*(1+max(math.Abs(l[0]), math.Abs(l[1]))) {
			break
		}
	}
	f, _ = at(l[0], l[1])
	return l, f
}

// stable is dr-stable: Σ h φ/Σ h with weights from the past. 20 blocks of consecutive events; h = 0 in block 0, then
// 1/s with s² the sample variance of φ over the up to four blocks before. h = 0 where s² = 0 or a block before it has
// fewer than two events. se = √(Σ h²(φ − V)²)/Σ h (a practical relative of Hadad et al. 2021 and Bibaut et al. 2021).
// Under drift or a learning target it estimates Σ hV/Σ h.
func stable(phi []float64) (value, se float64, ok bool) {
	const blocks = 20
	n := len(phi)
	edge := func(j int) int { return n * j / blocks }
	var h [blocks]float64
	for j := 1; j < blocks; j++ {
		past := phi[edge(max(0, j-4)):edge(j)]
		if edge(j)-edge(j-1) < 2 {
			continue
		}
		var m, s sum
		for _, v := range past {
			m.add(v)
		}
		mean := m.value() / float64(len(past))
		for _, v := range past {
			s.add((v - mean) * (v - mean))
		}
		if v := s.value() / float64(len(past)-1); v > 0 {
			h[j] = 1 / math.Sqrt(v)
		}
	}
	var sh, shp, sq sum
	for j := range blocks {
		for _, v := range phi[edge(j):edge(j+1)] {
			sh.add(h[j])
			shp.product(h[j], v)
		}
	}
	if sh.value() == 0 {
		return 0, 0, false
	}
	value = shp.value() / sh.value()
	for j := range blocks {
		for _, v := range phi[edge(j):edge(j+1)] {
			x := h[j] * (v - value)
			sq.product(x, x)
		}
	}
	return value, math.Sqrt(sq.value()) / sh.value(), true
}

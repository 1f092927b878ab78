package ope

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// stretch is the mixture of some λ over a stretch of a log, for φ ≥ 0.
type stretch struct {
	n                      float64
	logs, lambdas, weights []float64
}

func newStretch(phi, l, weights []float64) *stretch {
	s := &stretch{float64(len(phi)), make([]float64, len(l)), l, weights}
	for _, f := range phi {
		for j, x := range l {
			s.logs[j] += math.Log1p(x * f)
		}
	}
	return s
}

// wealth is log M(v) and its derivative.
func (s *stretch) wealth(v float64) (w, d float64) {
	x, most, sum := make([]float64, len(s.lambdas)), math.Inf(-1), 0.0
	for j, l := range s.lambdas {
		x[j] = math.Log(s.weights[j]) + s.logs[j] - s.n*math.Log1p(l*v)
		most = max(most, x[j])
	}
	for j, l := range s.lambdas {
		e := math.Exp(x[j] - most)
		sum += e
		d -= e * s.n * l / (1 + l*v)
	}
	return most + math.Log(sum), d / sum
}

// last is the largest v in [0, 2] with ok.
func last(ok func(v float64) bool) float64 {
	a, b := 0.0, 2.0
	for range 45 {
		if m := (a + b) / 2; ok(m) {
			a = m
		} else {
			b = m
		}
	}
	return a
}

// TestNarrower measures what docs/design/ope.md says of narrower sequences: widths of the value by ips, target plays one arm that the logger plays
// with probability p, rewards 0.4, 20 logs each (seed 1). It states no null; with TROUPE_RECORD.
func TestNarrower(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("TROUPE_RECORD is not set")
	}
	want := math.Log(40)
	even := func(n int) (w []float64) {
		for range n {
			w = append(w, 1/float64(n))
		}
		return w
	}
	bound := func(s ...*stretch) float64 { // of one mean in all stretches
		over := func(v float64) bool {
			total := 0.0
			for _, x := range s {
				w, _ := x.wealth(v)
				total += w
			}
			return total >= want
		}
		if !over(0) {
			return 0
		}
		return last(over)
	}
	apart := func(n float64, s ...*stretch) float64 { // the smallest mean of the means of the stretches: equal slopes
		at := func(slope float64) (total, mean float64) {
			for _, x := range s {
				v := last(func(v float64) bool { _, d := x.wealth(v); return -d/x.n > slope })
				w, _ := x.wealth(v)
				total, mean = total+w, mean+x.n*v/n
			}
			return total, mean
		}
		lo, hi := 1e-6, 2.0
		for range 35 {
			if m := math.Sqrt(lo * hi); func() bool { w, _ := at(m); return w > want }() {
				hi = m
			} else {
				lo = m
			}
		}
		_, v := at(lo)
		return v
	}
	var middle []float64
	for j := range steps {
		if middle = append(middle, 0.01); j >= 1 && j <= 10 {
			middle[j] = 0.09
		}
	}
	cut := func(phi []float64) []*stretch { // λ from the first tenth, for the rest
		n, m, q := len(phi)/10, 0.0, 0.0
		for _, f := range phi[:n] {
			m, q = m+f/float64(n), q+f*f/float64(n)
		}
		l := 0.3 * math.Sqrt(3.6/(float64(n)*max(q-m*m, 1e-4)))
		return []*stretch{newStretch(phi[:n], lambdas[:], even(steps)), newStretch(phi[n:], []float64{l / max(1-l*m, 0.1)}, even(1))}
	}
	schemes := []struct {
		name  string
		lower func(phi []float64) float64
	}{
		{"as it is", func(phi []float64) float64 { return bound(newStretch(phi, lambdas[:], even(steps))) }},
		{"0.9 on λ = 1/2 … 1/1024", func(phi []float64) float64 { return bound(newStretch(phi, lambdas[:], middle)) }},
		{"two stretches, n known", func(phi []float64) float64 { return apart(float64(len(phi)), cut(phi)...) }},
		{"two stretches, one mean (no proof)", func(phi []float64) float64 { return bound(cut(phi)...) }},
		{"the best λ in hindsight (no proof)", func(phi []float64) (best float64) {
			for j := range lambdas {
				best = max(best, bound(newStretch(phi, lambdas[j:j+1], even(1))))
			}
			return best
		}},
	}
	r := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct {
		p float64
		n int
	}{{0.5, 1000}, {0.5, 10_000}, {0.05, 1000}, {0.05, 10_000}} {
		width := make([]float64, len(schemes))
		const runs = 20
		for range runs {
			var lo, up []float64
			for range c.n {
				w := 0.0
				if r.Float64() < c.p {
					w = 1 / c.p
				}
				if r.Float64() < 0.4 {
					lo, up = append(lo, w), append(up, 0)
				} else {
					lo, up = append(lo, 0), append(up, w)
				}
			}
			for i, s := range schemes {
				width[i] += (1 - s.lower(lo) - s.lower(up)) / runs
			}
		}
		for i, s := range schemes {
			t.Logf("p %-5g n %-6d %-36s %.4f  %.2f", c.p, c.n, s.name, width[i], width[i]/width[0])
		}
	}
}

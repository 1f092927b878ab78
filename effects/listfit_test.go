package effects

import (
	"math"
	"math/rand/v2"
	"testing"

	"gonum.org/v1/gonum/mat"
)

// TestDeviations: the precision of each examination is that of the inverse of the whole curvature, of all examinations and coefficients together, which
// is put together here with full matrices; it is wider than with the coefficients known, and the first position has none.
func TestDeviations(t *testing.T) {
	m := listModel()
	clicks(m, rand.New(rand.NewPCG(11, 12)), 400, 7, []float64{1, .6, .4}, .5, 0)
	b := m.s.main.own(0)
	f := &listFit{m: m, b: b, mean: m.s.h.mean, variance: m.s.h.variance, l: *m.s.h.lists, s2: m.s.h.s2}
	var n float64
	for _, p := range b.placed {
		if p != nil {
			n += p.n
		}
	}
	f.begin(n)
	f.round()
	f.deviations()
	live, free := m.solver.live, m.unscaled(len(b.b))
	d := len(live)
	p := mat.NewSymDense(d, nil)
	for i := range d {
		for k := range i + 1 {
			p.SetSym(i, k, f.p[triangle(i)+k])
		}
	}
	var inverse mat.Dense
	if err := inverse.Inverse(p); err != nil {
		t.Fatal(err)
	}
	var places []int
	for c := 1; c < len(b.placed); c++ {
		if b.placed[c] != nil && b.placed[c].n > 0 {
			places = append(places, c)
		}
	}
	if len(places) != 4 { // two positions, each with and without a click above
		t.Fatalf("places %v", places)
	}
	k := len(places)
	all := mat.NewDense(k+d, k+d, nil)
	all.Slice(k, k+d, k, k+d).(*mat.Dense).Copy(&inverse)
	for x, c := range places {
		a := mat.NewDense(d, d, nil)
		theta, scale := mat.NewVecDense(d, nil), make([]float64, d)
		for i, j := range live {
			scale[i] = f.l.e[c]
			if free[j] {
				scale[i] = 1
			} else {
				theta.SetVec(i, f.w[i])
			}
			for l, at := range live {
				if hi, lo := max(j, at), min(j, at); int(hi) < len(b.placed[c].v) {
					a.Set(i, l, b.placed[c].a[triangle(int(hi))+int(lo)])
				}
			}
		}
		var u mat.VecDense
		u.MulVec(a, theta)
		known := mat.Dot(theta, &u)/f.l.s2[c] + 1/scaleSpread
		all.Set(x, x, all.At(x, x)+known)
		for i := range d {
			v := scale[i] * u.AtVec(i) / f.l.s2[c]
			all.Set(x, k+i, v)
			all.Set(k+i, x, v)
		}
		for y, other := range places {
			if other == c+classes {
				all.Set(x, y, -1/scaleSpread)
				all.Set(y, x, -1/scaleSpread)
				all.Set(x, x, all.At(x, x)+1/scaleSpread)
			}
		}
		if f.l.prec[c] >= known {
			t.Errorf("place %d: the precision is %v, with known coefficients %v", c, f.l.prec[c], known)
		}
	}
	var cov mat.Dense
	if err := cov.Inverse(all); err != nil {
		t.Fatal(err)
	}
	for x, c := range places {
		if got, want := 1/f.l.prec[c], cov.At(x, x); math.Abs(got-want) > 1e-6*want {
			t.Errorf("place %d: the variance is %v, want %v", c, got, want)
		}
	}
	for i, x := range m.Examined() {
		if (x.Sd == 0) != (i == 0) || i > 0 && (x.Sd > math.Sqrt(scaleSpread) || x.SdBelow <= 0) || x.From != i || x.To != i {
			t.Errorf("position %d: %+v", i, x)
		}
	}
}

package linalg

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// gaussianByRows is AddGaussian as a textbook has it: every pivot changes the whole matrix at once.
func gaussianByRows(sum, a, least, z []float64) {
	d := len(sum)
	ld := Padded(d)
	for range d {
		k := 0
		for i := range d {
			if a[i*(ld+1)] > a[k*(ld+1)] {
				k = i
			}
		}
		pivot := a[k*(ld+1)]
		if pivot <= 0 {
			return
		}
		if pivot > least[k] {
			c := slices.Clone(a[k*ld : k*ld+ld])
			s := 1 / pivot
			rankOne(a, s, c, d)
			f := math.Sqrt(s) * z[k]
			for i := range sum {
				sum[i] = math.FMA(c[i], f, sum[i])
			}
		}
		for i := range d {
			a[i*ld+k], a[k*ld+i] = 0, 0
		}
	}
}

// TestAddGaussianBits: a column that waits until its pivot comes gets the bits of one that follows every
// pivot, at every level: full matrices, singular ones, coordinates that are equal, without variance or left out,
// and nothing beyond the slices is touched.
func TestAddGaussianBits(t *testing.T) {
	r := numbers{rand.New(rand.NewPCG(7, 1))}
	for trial := range 3000 {
		d := 1 + r.IntN(20)
		if trial%100 == 0 {
			d = 60 + r.IntN(80)
		}
		ld := Padded(d)
		a, least := make([]float64, d*ld), make([]float64, d)
		for range r.IntN(2 * d) {
			x := r.slice(d)
			for i := range x {
				if math.Abs(x[i]) < 1e-60 { // squares of products underflow
					x[i] = 0
				}
				if i > 0 && r.IntN(4) == 0 {
					x[i] = x[r.IntN(i)] // equal variances
				}
			}
			for i := range d {
				for j := range d {
					a[i*ld+j] = math.FMA(x[i], x[j], a[i*ld+j])
				}
			}
		}
		// A difference of sums is not symmetric to the last bit unless it is made so; and it may be a little negative.
		for i := range d {
			least[i] = 1e-13 * math.Abs(a[i*(ld+1)])
			if r.IntN(20) == 0 {
				least[i] = 0.5
			}
			if r.IntN(40) == 0 {
				a[i*(ld+1)] = -1e-20 // rounding
			}
			for j := range i {
				a[j*ld+i] = a[i*ld+j]
			}
		}
		z, start := r.slice(d), r.slice(d)
		want := slices.Clone(start)
		gaussianByRows(want, slices.Clone(a), least, z)
		got := everyLevel(t, "AddGaussian", func() []float64 {
			work := make([]float64, GaussianWork(d)+1)
			for i := range work {
				work[i] = math.NaN()
			}
			work[len(work)-1] = 3
			m := append(slices.Clone(a), 3)
			out := append(slices.Clone(start), 3)
			AddGaussian(out[:d], m[:len(a)], least, z, work[:len(work)-1])
			if work[len(work)-1] != 3 || m[len(a)] != 3 || out[d] != 3 {
				t.Fatal("wrote beyond a slice")
			}
			return out[:d]
		})
		sameBits(t, "AddGaussian against the textbook", got, want)
	}
}

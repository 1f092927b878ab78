package ope

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"
)

// The nodes and weights of 16-point Gauss–Legendre quadrature on [−1, 1], the positive half.
var gaussX = [8]float64{0.09501250983763744019, 0.28160355077925891323, 0.45801677765722738634, 0.61787624440264374845,
	0.75540440835500303390, 0.86563120238783174388, 0.94457502307323257608, 0.98940093499164993260}
var gaussW = [8]float64{0.18945061045506849629, 0.18260341504492358887, 0.16915651939500253819, 0.14959598881657673208,
	0.12462897125553387205, 0.09515851168249278481, 0.06225352393864789286, 0.02715245941175409485}

// rankLaws is the integral of NewBTS.
func rankLaws(alpha, beta []float64, lists int) [][]float64 {
	K := len(alpha)
	out := make([][]float64, lists)
	for l := range out {
		out[l] = make([]float64, K)
	}
	logB := make([]float64, K)
	for i := range alpha {
		a, _ := math.Lgamma(alpha[i])
		b, _ := math.Lgamma(beta[i])
		ab, _ := math.Lgamma(alpha[i] + beta[i])
		logB[i] = a + b - ab
	}
	mass := make([]float64, K) // ∫ f_i as the quadrature sees it: lgamma is off by 1e-11 for large α + β
	cdf := make([]float64, K)
	edges := panels(alpha, beta)
	count := make([]float64, lists)
	for p := 1; p < len(edges); p++ {
		mid, half := (edges[p-1]+edges[p])/2, (edges[p]-edges[p-1])/2
		for g := range 16 {
			x, w := mid, half
			if g < 8 {
				x, w = mid+half*gaussX[g], half*gaussW[g]
			} else {
				x, w = mid-half*gaussX[g-8], half*gaussW[g-8]
			}
			if !(x > 0 && x < 1) {
				continue
			}
			for i := range cdf {
				cdf[i] = mathext.RegIncBeta(alpha[i], beta[i], x)
			}
			for i := range K {
				density := w * math.Exp((alpha[i]-1)*math.Log(x)+(beta[i]-1)*math.Log1p(-x)-logB[i])
				if density == 0 {
					continue
				}
				mass[i] += density
				exceed(count, cdf, i)
				for l, c := range count {
					out[l][i] += density * c
				}
			}
		}
	}
	for l := range out {
		total := 0.0
		for i := range out[l] {
			out[l][i] /= mass[i]
			total += out[l][i]
		}
		for i := range out[l] {
			out[l][i] /= total
		}
	}
	return out
}

// panels are the edges of the quadrature: quantiles of every item far into both tails.
func panels(alpha, beta []float64) []float64 {
	edges := []float64{0, 1}
	for i := range alpha {
		b := distuv.Beta{Alpha: alpha[i], Beta: beta[i]}
		for _, p := range []float64{1e-17, 1e-12, 1e-9, 1e-6, 1e-4, 1e-3, 0.01, 0.05, 0.2, 0.5, 0.8, 0.95, 0.99, 0.999,
			1 - 1e-4, 1 - 1e-6, 1 - 1e-9, 1 - 1e-12} {
			if x := b.Quantile(p); x > 0 && x < 1 {
				edges = append(edges, x)
			}
		}
	}
	slices.Sort(edges)
	// The largest draws decide: panels of items far below cost and add nothing, so near edges are merged.
	out := edges[:1]
	for _, x := range edges[1:] {
		if x-out[len(out)-1] > 1e-3*x || x == 1 {
			out = append(out, x)
		}
	}
	return out
}

// exceed stores P(exactly l of the others exceed x) for l below len(count), from the others' distribution functions.
func exceed(count, cdf []float64, without int) {
	clear(count)
	count[0] = 1
	for i, f := range cdf {
		if i == without {
			continue
		}
		for l := len(count) - 1; l >= 0; l-- {
			count[l] *= f
			if l > 0 {
				count[l] += count[l-1] * (1 - f)
			}
		}
	}
}

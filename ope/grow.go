package ope

// growPortable is p[j] *= 1 + λ[j]·t for t = ts[0], ts[stride], …, n ≥ 1 of them in this order: the factors of the
// products of a capital.
func growPortable(p *[steps]float64, ts []float64, stride, n int) {
	for i := range n {
		t := ts[i*stride]
		for j := range p {
			p[j] *= 1 + float64(lambdas[j]*t)
		}
	}
}

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

func shiftPortable(rows *lateRows, terms *[mostLate][len(clips)]float64, shift *[len(clips)]float64, events []int) float64 {
	most := 0.0
	for n, i := range events {
		row := rows[n*len(clips) : (n+1)*len(clips)]
		for k, s := range shift {
			t := terms[i][k] + s
			if t < 0 {
				t = 0
			}
			if row[k] = t; t > most {
				most = t
			}
		}
	}
	return most
}

func duelPortable(rows *lateRows, lo, up *[mostLate][len(clips)]float64, shift *[len(clips)]float64, events []int) float64 {
	most := 0.0
	for n, i := range events {
		row := rows[n*len(clips) : (n+1)*len(clips)]
		for k, s := range shift {
			t := lo[i][k] + up[i][k] - 1 + s
			if t < 0 {
				t = 0
			}
			if row[k] = t; t > most {
				most = t
			}
		}
	}
	return most
}

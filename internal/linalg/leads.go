package linalg

import (
	"math"

	"troupe/internal/cpu"
)

// Leads says, for a panel of eight members and both signs ξ = +1 (index 0) and −1 (index 1), which arm
// has the largest value base_a + ξ·c·p_a, that value and the next largest one.
type Leads struct {
	First, Second [2][8]float64
	Arm           [2][8]int64
}

// Find sets the leads of a panel of scores: p holds 8 numbers for each arm, base one. Of equal arms the
// first leads, and Second is then equal to First. No number may be NaN.
func (l *Leads) Find(p, base []float64, c float64) { l.Step(p, nil, nil, base, c) }

// Step first moves the scores, p_a ← fma(w_a, h, p_a) with a number of h for each of the eight members,
// and then does Find, in one pass over p.
func (l *Leads) Step(p, w []float64, h *[8]float64, base []float64, c float64) {
	arms := len(base)
	if arms == 0 || len(p) != 8*arms || h != nil && len(w) != arms {
		panic(badLength)
	}
	switch level := cpu.Kernels(); {
	case level == cpu.AVX512 && h == nil:
		leadsAVX512(&p[0], arms, &base[0], c, l)
	case level == cpu.AVX512:
		stepLeadsAVX512(&p[0], arms, &base[0], c, l, &w[0], &h[0])
	case level == cpu.AVX2 && h == nil:
		leadsAVX2(&p[0], arms, &base[0], c, l)
	case level == cpu.AVX2:
		stepLeadsAVX2(&p[0], arms, &base[0], c, l, &w[0], &h[0])
	default:
		for k := range l.First {
			for i := range l.First[k] {
				l.First[k][i], l.Second[k][i], l.Arm[k][i] = math.Inf(-1), math.Inf(-1), 0
			}
		}
		for a, b := range base {
			row := p[8*a : 8*a+8 : 8*a+8]
			for i, v := range row {
				if h != nil {
					v = math.FMA(w[a], h[i], v)
					row[i] = v
				}
				l.add(0, i, a, math.FMA(c, v, b))
				l.add(1, i, a, math.FMA(-c, v, b))
			}
		}
	}
}

func (l *Leads) add(sign, i, arm int, v float64) {
	if v > l.First[sign][i] {
		l.First[sign][i], l.Second[sign][i], l.Arm[sign][i] = v, l.First[sign][i], int64(arm)
	} else if v > l.Second[sign][i] {
		l.Second[sign][i] = v
	}
}

package linalg

import (
	"math"
	"math/bits"

	"troupe/internal/cpu"
)

// Leads says, for a panel of eight members and both signs ξ = +1 (index 0) and −1 (index 1), which arm
// has the largest value base_a + ξ·c·p_a. The number of an arm takes the place of the low bits of its
// value, so that a maximum of values is a maximum with its arm: a value is good to a relative error of
// 2^{b−52}, b the number of bits of the largest arm number.
type Leads struct {
	First, Second [2][8]float64 // the largest value and the next, with their arms
	mask          uint64
}

// Resolution returns the largest relative error of a value in leads of a number of arms.
func Resolution(arms int) float64 { return math.Ldexp(1, bits.Len(uint(arms-1))-52) }

// Arm returns the arm of a value of First or Second.
func (l *Leads) Arm(value float64) int { return int(math.Float64bits(value) & l.mask) }

// Find sets the leads of a panel of scores: p holds 8 numbers for each arm, base one. No number may be
// NaN, and arms not more than 2²⁰.
func (l *Leads) Find(p, base []float64, c float64) { l.Step(p, nil, nil, base, c) }

// Step first moves the scores, p_a ← fma(w_a, h, p_a) with a number of h for each of the eight members,
// and then does Find, in one pass over p.
func (l *Leads) Step(p, w []float64, h *[8]float64, base []float64, c float64) {
	arms := len(base)
	if arms == 0 || arms > 1<<20 || len(p) != 8*arms || h != nil && len(w) != arms {
		panic(badLength)
	}
	l.mask = 1<<bits.Len(uint(arms-1)) - 1
	switch level := cpu.Kernels(); {
	case level == cpu.AVX512 && h == nil:
		leadsAVX512(&p[0], arms, &base[0], c, l, l.mask)
	case level == cpu.AVX512:
		stepLeadsAVX512(&p[0], arms, &base[0], c, l, l.mask, &w[0], &h[0])
	case level == cpu.AVX2 && h == nil:
		leadsAVX2(&p[0], arms, &base[0], c, l, l.mask)
	case level == cpu.AVX2:
		stepLeadsAVX2(&p[0], arms, &base[0], c, l, l.mask, &w[0], &h[0])
	default:
		for k := range l.First {
			for i := range l.First[k] {
				l.First[k][i], l.Second[k][i] = math.Inf(-1), math.Inf(-1)
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
	v = math.Float64frombits(math.Float64bits(v)&^l.mask | uint64(arm))
	if v > l.First[sign][i] {
		l.First[sign][i], l.Second[sign][i] = v, l.First[sign][i]
	} else if v > l.Second[sign][i] {
		l.Second[sign][i] = v
	}
}

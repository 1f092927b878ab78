package sim

import (
	"math"
	"math/rand/v2"
	"os"
	"testing"
)

// This file compares rules for open actions, in exact updates of V⁻¹, before one of them became an option.

type pendingMatrix [10][10]float64

func (m *pendingMatrix) mul(x *[10]float64) (y [10]float64) {
	for i := range 10 {
		for j := range 10 {
			y[i] += m[i][j] * x[j]
		}
	}
	return
}
func pendingDot(a, b *[10]float64) (s float64) {
	for i := range 10 {
		s += a[i] * b[i]
	}
	return
}
func (m *pendingMatrix) upd(x *[10]float64) {
	v := m.mul(x)
	s := 1 + pendingDot(x, &v)
	for i := range 10 {
		for j := range 10 {
			m[i][j] -= v[i] * v[j] / s
		}
	}
}
func pendingChol(m *pendingMatrix) (l pendingMatrix) {
	for i := range 10 {
		for j := 0; j <= i; j++ {
			s := m[i][j]
			for k := range j {
				s -= l[i][k] * l[j][k]
			}
			if i == j {
				l[i][i] = math.Sqrt(max(s, 1e-12))
			} else {
				l[i][j] = s / l[j][j]
			}
		}
	}
	return
}
func pendingUnit(r *rand.Rand) (x [10]float64) {
	n := 0.
	for i := range 10 {
		x[i] = r.NormFloat64()
		n += x[i] * x[i]
	}
	for i := range 10 {
		x[i] /= math.Sqrt(n)
	}
	return
}

// pendingRun plays one world; rule 0: open actions count nowhere, 1: in V, 2: in the widths.
func pendingRun(ts bool, rule, delay int, alpha float64, fresh bool, seed uint64) (reg float64) {
	const K, T, sig = 20, 6000, .5
	r := rand.New(rand.NewPCG(seed, 5))
	th := pendingUnit(r)
	var X [K][10]float64
	for a := range K {
		X[a] = pendingUnit(r)
	}
	var V, P pendingMatrix // inverse without and with open events
	for i := range 10 {
		V[i][i], P[i][i] = 1, 1
	}
	var b [10]float64
	type ev struct {
		x [10]float64
		y float64
	}
	var q []ev
	for range T {
		if fresh {
			for a := range K {
				X[a] = pendingUnit(r)
			}
		}
		M, W := &V, &V
		if rule == 1 {
			M, W = &P, &P
		} else if rule == 2 {
			W = &P
		}
		hat := M.mul(&b)
		if ts {
			l := pendingChol(W)
			for i := range 10 {
				z := r.NormFloat64()
				for j := i; j < 10; j++ {
					hat[j] += alpha * sig * l[j][i] * z
				}
			}
		}
		best, at, top := math.Inf(-1), 0, math.Inf(-1)
		for a := range K {
			s := pendingDot(&hat, &X[a])
			if !ts {
				w := W.mul(&X[a])
				s += alpha * math.Sqrt(max(0, pendingDot(&w, &X[a])))
			}
			if s > best {
				best, at = s, a
			}
			top = max(top, pendingDot(&th, &X[a]))
		}
		m := pendingDot(&th, &X[at])
		reg += top - m
		P.upd(&X[at])
		q = append(q, ev{X[at], m + sig*r.NormFloat64()})
		if len(q) > delay {
			e := q[0]
			q = q[1:]
			V.upd(&e.x)
			for i := range 10 {
				b[i] += e.y * e.x[i]
			}
		}
	}
	return
}

// TestPendingRulesRecord: rewards that come 500 rounds late, and open actions that count nowhere, in V and not in b, or in the widths
// alone; for LinUCB and for Thompson sampling.
func TestPendingRulesRecord(t *testing.T) {
	if os.Getenv("TROUPE_RECORD") == "" {
		t.Skip("a record: TROUPE_RECORD=1, a minute of a processor")
	}
	for _, fresh := range []bool{false, true} {
		for _, c := range []struct {
			thompson bool
			scale    float64
		}{{false, 2.5}, {false, 1}, {false, .5}, {true, 1}, {true, 2}} {
			var sum [3]float64
			const worlds = 40
			for rule := range sum {
				for seed := range uint64(worlds) {
					sum[rule] += pendingRun(c.thompson, rule, 500, c.scale, fresh, seed) / worlds
				}
			}
			t.Logf("new arms %-5v Thompson %-5v scale %.1f: without %5.0f, V not b %5.0f (%.2f), widths only %5.0f (%.2f)", fresh, c.thompson, c.scale,
				sum[0], sum[1], sum[1]/sum[0], sum[2], sum[2]/sum[0])
		}
	}
}

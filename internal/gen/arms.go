package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// arms scores blocks of 16 arms, one in each lane: partial sum l of a lane collects the features i with
// i mod 8 = l, so the tree of sums needs no transposition. With AVX-512 the two vectors of a block go
// side by side, with AVX2 the four one after the other.
func (v *isa) arms() {
	iota := GLOBL("lanes"+v.name, RODATA|NOPTR)
	for i := range v.w {
		DATA(8*i, U64(math.Float64bits(float64(i))))
	}
	v.text("arms", "(p *float64, blocks, d int, theta *float64, most float64, x, dst *float64) (at int, value float64)",
		"is Arms.ArgMax. at is −1 where |theta_i| ≤ most does not hold for all i.")
	p, blocks, theta := arg("p"), arg("blocks"), arg("theta")
	fill := func(x float64) VecVirtual {
		y, bits := v.vec(), GP64()
		MOVQ(U64(math.Float64bits(x)), bits)
		VMOVQ(bits, y.AsX())
		VBROADCASTSD(y.AsX(), y)
		return y
	}
	best, bestAt, index, width := fill(math.Inf(-1)), v.zero(), v.vec(), fill(float64(v.w))
	VMOVUPD(iota, index)
	v.bounded(theta, "refuse")

	side := v.w / 4
	acc := make([][]VecVirtual, side)
	for j := range acc {
		acc[j] = make([]VecVirtual, 8)
		for i := range acc[j] {
			acc[j][i] = v.vec()
		}
	}
	// score leaves the scores of a vector, or two, in acc[j][0].
	score := func(name string) {
		left, tp, xp, ti := GP64(), GP64(), GP64(), v.vec()
		Load(Param("d"), left)
		MOVQ(theta, tp)
		MOVQ(p, xp)
		one := func(i int, fresh bool) {
			VBROADCASTSD(at(tp, 8*i), ti)
			for j := range acc {
				if m := at(xp, 128*i+8*v.w*j); fresh {
					VMULPD(m, ti, acc[j][i])
				} else {
					VFMADD231PD(m, ti, acc[j][i])
				}
			}
		}
		eight := func(fresh bool) {
			for i := range 8 {
				one(i, fresh)
			}
			ADDQ(Imm(64), tp)
			ADDQ(U32(1024), xp)
		}
		// As in product: the first eight features set the partial sums.
		SUBQ(Imm(8), left)
		JL(LabelRef(name + "Few"))
		eight(true)
		Label(name + "Eight")
		SUBQ(Imm(8), left)
		JL(LabelRef(name + "Rest"))
		eight(false)
		JMP(LabelRef(name + "Eight"))
		Label(name + "Few")
		for j := range acc {
			for i := range acc[j] {
				v.clear(acc[j][i])
			}
		}
		Label(name + "Rest")
		for i := range 7 {
			CMPQ(left, I8(int8(i-8)))
			JLE(LabelRef(name + "Sum"))
			one(i, false)
		}
		Label(name + "Sum")
		for j := range acc {
			v.tree(acc[j])
		}
		if !v.wide {
			MOVQ(xp, p) // the row after the last
		}
	}
	// top makes every lane of x the largest of all lanes (or smallest: VMINPD).
	top := func(f func(...Op), x VecVirtual) {
		y := v.vec()
		if v.wide {
			VSHUFF64X2(Imm(0x4e), x, x, y)
			f(y, x, x)
			VSHUFF64X2(Imm(0xb1), x, x, y)
		} else {
			VPERM2F128(Imm(1), x, x, y)
		}
		f(y, x, x)
		VPERMILPD(Imm(0x55&(1<<v.w-1)), x, y)
		f(y, x, x)
	}
	maximum := func(o ...Op) { VMAXPD(o[0], o[1], o[2]) }
	minimum := func(o ...Op) { VMINPD(o[0], o[1], o[2]) }
	res := GP64()
	// answer copies row res to dst and returns.
	answer := func(name string, value VecVirtual) {
		Store(res, ReturnIndex(0))
		Store(value.AsX(), ReturnIndex(1))
		n, from, to, y := arg("d"), GP64(), arg("dst"), v.vec()
		IMULQ(n, res)
		Load(Param("x"), from)
		LEAQ(Mem{Base: from, Index: res, Scale: 8}, from)
		t, rem := v.tail(n)
		Label(name)
		SUBQ(num(v.w), n)
		JL(LabelRef(name + "Tail"))
		VMOVUPD(at(from, 0), y)
		VMOVUPD(y, at(to, 0))
		ADDQ(num(8*v.w), from)
		ADDQ(num(8*v.w), to)
		JMP(LabelRef(name))
		Label(name + "Tail")
		TESTQ(rem, rem)
		JZ(LabelRef(name + "Done"))
		v.loadTail(t, at(from, 0), y)
		v.storeTail(t, y, at(to, 0))
		Label(name + "Done")
		VZEROUPPER()
		RET()
	}

	if v.wide {
		// One block: the first lane that has the largest value.
		CMPQ(blocks, Imm(1))
		JNE(LabelRef("block"))
		score("one")
		a, b := acc[0][0], acc[1][0]
		VMAXPD(best, a, a) // NaN becomes −∞
		VMAXPD(best, b, b)
		value := v.vec()
		VMAXPD(b, a, value)
		top(maximum, value)
		ka, kb := K(), K()
		VCMPPD(Imm(0), value, a, ka)
		VCMPPD(Imm(0), value, b, kb)
		KUNPCKBW(ka, kb, ka)
		KMOVW(ka, res.As32())
		BSFL(res.As32(), res.As32())
		answer("copyOne", value)
	}

	Label("block")
	if v.wide {
		score("block")
		for j := range acc {
			k := K()
			VCMPPD(Imm(0x1e), best, acc[j][0], k) // larger; false for NaN
			VMOVAPD(acc[j][0], k, best)
			VMOVAPD(index, k, bestAt)
			VADDPD(width, index, index)
		}
		next := GP64()
		Load(Param("d"), next)
		SHLQ(Imm(7), next)
		ADDQ(next, p)
	} else {
		quarter, start, k := GP64(), GP64(), v.vec()
		MOVQ(U64(4), quarter)
		MOVQ(p, start)
		Label("quarter")
		MOVQ(start, p)
		score("quarter")
		VCMPPD(Imm(0x1e), best, acc[0][0], k)
		VBLENDVPD(k, acc[0][0], best, best)
		VBLENDVPD(k, index, bestAt, bestAt)
		VADDPD(width, index, index)
		ADDQ(Imm(32), start)
		DECQ(quarter)
		JNZ(LabelRef("quarter"))
		Load(Param("d"), p)
		SHLQ(Imm(7), p)
		LEAQ(Mem{Base: start, Index: p, Scale: 1, Disp: -128}, p)
	}
	DECQ(blocks)
	JNZ(LabelRef("block"))
	value, other := v.vec(), fill(math.Inf(1))
	VMOVAPD(best, value)
	top(maximum, value)
	if v.wide {
		k := K()
		VCMPPD(Imm(0), value, best, k)
		VMOVAPD(bestAt, k, other)
	} else {
		VCMPPD(Imm(0), value, best, best)
		VBLENDVPD(best, bestAt, other, other)
	}
	top(minimum, other)
	VCVTTSD2SIQ(other.AsX(), res)
	answer("copy", value)
	Label("refuse")
	MOVQ(I64(-1), res)
	Store(res, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// bounded jumps to a label unless |x_i| ≤ most for all of the d numbers of x.
func (v *isa) bounded(x GPVirtual, refuse string) {
	n := arg("d")
	t, rem := v.tail(n)
	limit, sign, y, bits := v.vec(), v.vec(), v.vec(), GP64()
	MOVQ(U64(1<<63), bits)
	VMOVQ(bits, sign.AsX())
	VBROADCASTSD(sign.AsX(), sign)
	Load(Param("most"), limit.AsX())
	VBROADCASTSD(limit.AsX(), limit)
	xp, any := GP64(), GP32()
	MOVQ(x, xp)
	var bad, k OpmaskVirtual
	var badV VecVirtual
	if v.wide {
		bad, k = K(), K()
		KXORW(bad, bad, bad)
	} else {
		badV = v.zero()
	}
	look := func() {
		if v.wide {
			VPANDNQ(y, sign, y)
			VCMPPD(Imm(0x16), limit, y, k) // not ≤
			KORW(k, bad, bad)
		} else {
			VANDNPD(y, sign, y)
			VCMPPD(Imm(0x16), limit, y, y)
			VORPD(y, badV, badV)
		}
	}
	name := func(s string) string { return fmt.Sprint("bounded", s) }
	Label(name(""))
	SUBQ(num(v.w), n)
	JL(LabelRef(name("Tail")))
	VMOVUPD(at(xp, 0), y)
	look()
	ADDQ(num(8*v.w), xp)
	JMP(LabelRef(name("")))
	Label(name("Tail"))
	TESTQ(rem, rem)
	JZ(LabelRef(name("Done")))
	v.loadTail(t, at(xp, 0), y)
	look()
	Label(name("Done"))
	if v.wide {
		KMOVW(bad, any)
	} else {
		VMOVMSKPD(badV, any)
	}
	TESTL(any, any)
	JNZ(LabelRef(refuse))
}

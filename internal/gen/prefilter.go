package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Sizes of internal/linalg/prefilter.go.
const (
	prefilterDim    = 512
	prefilterBlocks = 16
)

// prefilter writes the kernel of internal/linalg/prefilter.go: scores of up to prefilterBlocks blocks of 64 rows in
// whole numbers. It returns the largest of them and top, and which rows have a score within slack of it: bit b
// of hit is set where block b has such rows, and only then masks[b] says which.
//
// The first pass is as fast as the rows come from memory. It keeps the scores, and of each block the
// largest for each lane, in the first cache, where the second looks at one vector a block.
func (v *isa) prefilter() {
	TEXT("prefilter"+v.name, 0, "func(x *int16, blocks, d int, theta *float64, by float64, top, slack int32, "+
		"masks *uint64) (hit uint64, best int32)")
	Doc("prefilter" + v.name + " scores rows in whole numbers.")
	n := 64 / (2 * v.w) // vectors of scores of a block
	bytes := 8 * v.w
	narrow, scores, tops := AllocLocal(2*prefilterDim+64), AllocLocal(prefilterBlocks*256), AllocLocal(prefilterBlocks*bytes)

	// theta·by as whole numbers of 16 bits. Those beyond d are 0.
	d, theta := arg("d"), arg("theta")
	scale, y := v.vec(), v.vec()
	Load(Param("by"), scale.AsX())
	VBROADCASTSD(scale.AsX(), scale)
	t, _ := v.tail(d)
	to, left := GP64(), GP64()
	LEAQ(narrow, to)
	MOVQ(d, left)
	Label("narrow")
	CMPQ(left, Imm(uint64(v.w)))
	JGE(LabelRef("full"))
	v.loadTail(t, at(theta, 0), y)
	JMP(LabelRef("round"))
	Label("full")
	VMOVUPD(at(theta, 0), y)
	Label("round")
	VMULPD(scale, y, y)
	if v.wide {
		VCVTPD2DQ(y, y.AsY())
		VPMOVDW(y.AsY(), at(to, 0))
	} else {
		VCVTPD2DQY(y, y.AsX())
		VPACKSSDW(y.AsX(), y.AsX(), y.AsX())
		VMOVQ(y.AsX(), at(to, 0))
	}
	ADDQ(Imm(uint64(2*v.w)), to)
	ADDQ(Imm(uint64(8*v.w)), theta)
	SUBQ(Imm(uint64(v.w)), left)
	JG(LabelRef("narrow"))

	number := func(name string) VecVirtual {
		g, c := GP32(), v.vec()
		Load(Param(name), g)
		VMOVD(g, c.AsX())
		VPBROADCASTD(c.AsX(), c)
		return c
	}
	x, blocks, best := arg("x"), arg("blocks"), number("top")
	pairs := GP64()
	LEAQ(at(d, 1), pairs)
	SHRQ(Imm(1), pairs)
	acc := make([]VecVirtual, n)
	for i := range acc {
		acc[i] = v.vec()
	}
	th := v.vec()
	// most stores the largest of acc, lane by lane, in y.
	most := func() {
		VPMAXSD(acc[0], acc[1], y)
		for i := 2; i < n; i++ {
			VPMAXSD(acc[i], y, y)
		}
	}
	tp, score, block := GP64(), GP64(), GP64()
	LEAQ(scores, score)
	LEAQ(tops, to)
	XORQ(block, block)
	Label("block")
	for _, a := range acc {
		v.clear(a)
	}
	LEAQ(narrow, tp)
	MOVQ(pairs, left)
	Label("pair")
	VPBROADCASTD(at(tp, 0), th)
	for i := range n {
		VPMADDWD(at(x, 256/n*i), th, y)
		VPADDD(y, acc[i], acc[i])
	}
	ADDQ(U32(256), x)
	ADDQ(Imm(4), tp)
	DECQ(left)
	JNZ(LabelRef("pair"))
	store := func(src VecVirtual, m Mem) {
		if v.wide {
			VMOVDQU32(src, m)
		} else {
			VMOVDQU(src, m)
		}
	}
	for i, a := range acc {
		store(a, at(score, bytes*i))
	}
	most()
	store(y, at(to, 0))
	VPMAXSD(y, best, best)
	ADDQ(U32(256), score)
	ADDQ(Imm(uint64(bytes)), to)
	INCQ(block)
	CMPQ(block, blocks)
	JL(LabelRef("block"))

	// The best of all, in all lanes.
	if v.wide {
		VSHUFI32X4(Imm(0x4e), best, best, y)
		VPMAXSD(y, best, best)
		VSHUFI32X4(Imm(0xb1), best, best, y)
	} else {
		VPERM2I128(Imm(0x01), best, best, y)
	}
	VPMAXSD(y, best, best)
	VPSHUFD(Imm(0x4e), best, y)
	VPMAXSD(y, best, best)
	VPSHUFD(Imm(0xb1), best, y)
	VPMAXSD(y, best, best)
	number32 := GP32()
	VMOVD(best.AsX(), number32)
	Store(number32, Return("best"))
	limit := number("slack")
	VPSUBD(limit, best, limit)

	masks, hit, mask, bits := arg("masks"), GP64(), GP64(), GP64()
	LEAQ(scores, score)
	LEAQ(tops, to)
	XORQ(hit, hit)
	XORQ(block, block)
	// above sets mask to the lanes of m that are above limit.
	above := func(m Mem, mask GPVirtual) {
		if v.wide {
			k := K()
			VPCMPD(Imm(1), m, limit, k) // limit < m
			KMOVW(k, mask.As32())
			return
		}
		VMOVDQU(m, y)
		VPCMPGTD(limit, y, y)
		VMOVMSKPS(y, mask.As32())
	}
	Label("look")
	above(at(to, 0), mask)
	TESTL(mask.As32(), mask.As32())
	JZ(LabelRef("next"))
	BTSQ(block, hit)
	XORQ(mask, mask)
	for i := n - 1; i >= 0; i-- {
		above(at(score, bytes*i), bits)
		SHLQ(Imm(uint64(2*v.w)), mask)
		ORQ(bits, mask)
	}
	MOVQ(mask, Mem{Base: masks, Index: block, Scale: 8})
	Label("next")
	ADDQ(U32(256), score)
	ADDQ(Imm(uint64(bytes)), to)
	INCQ(block)
	CMPQ(block, blocks)
	JL(LabelRef("look"))
	Store(hit, Return("hit"))
	VZEROUPPER()
	RET()
}

package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// screen writes the kernel of internal/linalg/screen.go: scores of 64 rows in whole numbers, block after
// block, until one block has a score above over. It returns that block and the mask of its scores that
// are above over and less than slack below the best of the block; or the number of blocks and 0.
func (v *isa) screen() {
	v.text("screen", "(x *int16, block, blocks, pairs int, theta *int16, over, slack int32) (at int, mask uint64)", "scores rows in whole numbers.")
	x, block, blocks, pairs, theta := arg("x"), arg("block"), arg("blocks"), arg("pairs"), arg("theta")
	n := 64 / (2 * v.w) // vectors of a row of the panel
	number := func(name string) VecVirtual {
		g, c := GP32(), v.vec()
		Load(Param(name), g)
		VMOVD(g, c.AsX())
		VPBROADCASTD(c.AsX(), c)
		return c
	}
	over, slack := number("over"), number("slack")
	size := GP64()
	MOVQ(pairs, size)
	SHLQ(Imm(8), size) // bytes of a block: for two features, 64 pairs of int16
	{
		skip := GP64()
		MOVQ(block, skip)
		IMULQ(size, skip)
		ADDQ(skip, x)
	}
	acc := make([]VecVirtual, n)
	for i := range acc {
		acc[i] = v.vec()
	}
	th, y := v.vec(), v.vec()
	Label("block")
	CMPQ(block, blocks)
	JGE(LabelRef("none"))
	for _, a := range acc {
		v.clear(a)
	}
	tp, left := GP64(), GP64()
	MOVQ(theta, tp)
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

	mask, bitsOf := GP64(), GP64()
	collect := func(limit VecVirtual) {
		if v.wide {
			ks := make([]OpmaskVirtual, n)
			for i := range n {
				ks[i] = K()
				VPCMPGTD(limit, acc[i], ks[i])
			}
			KUNPCKWD(ks[0], ks[1], ks[0])
			KUNPCKWD(ks[2], ks[3], ks[2])
			KUNPCKDQ(ks[0], ks[2], ks[0])
			KMOVQ(ks[0], mask)
			return
		}
		XORQ(mask, mask)
		for i := n - 1; i >= 0; i-- {
			VPCMPGTD(limit, acc[i], y)
			VMOVMSKPS(y, bitsOf.As32())
			SHLQ(Imm(8), mask)
			ORQ(bitsOf, mask)
		}
	}
	collect(over)
	TESTQ(mask, mask)
	JNZ(LabelRef("some"))
	INCQ(block)
	JMP(LabelRef("block"))

	Label("some")
	// The best of the block, in all lanes.
	top := v.vec()
	VPMAXSD(acc[0], acc[1], top)
	for i := 2; i < n; i++ {
		VPMAXSD(acc[i], top, top)
	}
	if v.wide {
		VSHUFI32X4(Imm(0x4e), top, top, y)
		VPMAXSD(y, top, top)
		VSHUFI32X4(Imm(0xb1), top, top, y)
		VPMAXSD(y, top, top)
	} else {
		VPERM2I128(Imm(0x01), top, top, y)
		VPMAXSD(y, top, top)
	}
	VPSHUFD(Imm(0x4e), top, y)
	VPMAXSD(y, top, top)
	VPSHUFD(Imm(0xb1), top, y)
	VPMAXSD(y, top, top)
	VPSUBD(slack, top, top)
	VPMAXSD(over, top, top)
	collect(top)
	Store(block, ReturnIndex(0))
	Store(mask, ReturnIndex(1))
	VZEROUPPER()
	RET()
	Label("none")
	XORQ(mask, mask)
	Store(block, ReturnIndex(0))
	Store(mask, ReturnIndex(1))
	VZEROUPPER()
	RET()
}

package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// screen writes the kernel of internal/linalg/screen.go: scores of 64 rows in float32, block after
// block, until one block has a score that is not below least. It returns that block and the mask of
// its scores that are neither below least nor more than slack below the best of the block; or the
// number of blocks and 0.
func (v *isa) screen() {
	v.text("screen", "(x *float32, block, blocks, d int, theta *float32, least, slack float32) (at int, mask uint64)", "scores rows in float32.")
	x, block, blocks, d, theta := arg("x"), arg("block"), arg("blocks"), arg("d"), arg("theta")
	lanes := 2 * v.w
	n := 64 / lanes // vectors of a row of the panel
	least, slack := v.vec(), v.vec()
	Load(Param("least"), least.AsX())
	VBROADCASTSS(least.AsX(), least)
	Load(Param("slack"), slack.AsX())
	VBROADCASTSS(slack.AsX(), slack)
	size := GP64()
	MOVQ(d, size)
	SHLQ(Imm(8), size) // bytes of a block: d rows of 64 float32
	{
		skip := GP64()
		MOVQ(block, skip)
		IMULQ(size, skip)
		ADDQ(skip, x)
	}
	phases := 8 / n // sets of accumulators, so that eight additions are in flight
	acc := make([]VecVirtual, 8)
	for i := range acc {
		acc[i] = v.vec()
	}
	th := v.vec()
	Label("block")
	CMPQ(block, blocks)
	JGE(LabelRef("none"))
	for _, a := range acc {
		v.clear(a)
	}
	tp, left := GP64(), GP64()
	MOVQ(theta, tp)
	MOVQ(d, left)
	feature := func(phase int) {
		VBROADCASTSS(at(tp, 4*phase), th)
		for i := range n {
			VFMADD231PS(at(x, 256*phase+256/n*i), th, acc[phase*n+i])
		}
	}
	Label("features")
	SUBQ(num(phases), left)
	JL(LabelRef("rest"))
	for p := range phases {
		feature(p)
	}
	ADDQ(num(256*phases), x)
	ADDQ(num(4*phases), tp)
	JMP(LabelRef("features"))
	Label("rest")
	if phases > 1 {
		ADDQ(num(phases), left)
		JZ(LabelRef("sum"))
		feature(0) // phases is 2, so one is left
		ADDQ(num(256), x)
		Label("sum")
		for i := range n {
			VADDPS(acc[n+i], acc[i], acc[i])
		}
	}

	// Is there a score that is not below least?
	const ge = 0x1d // greater or equal, false for NaN
	mask, bitsOf := GP64(), GP64()
	collect := func(limit VecVirtual) {
		if v.wide {
			ks := make([]OpmaskVirtual, n)
			for i := range n {
				ks[i] = K()
				VCMPPS(Imm(ge), limit, acc[i], ks[i])
			}
			KUNPCKWD(ks[0], ks[1], ks[0])
			KUNPCKWD(ks[2], ks[3], ks[2])
			KUNPCKDQ(ks[0], ks[2], ks[0])
			KMOVQ(ks[0], mask)
			return
		}
		c := YMM()
		XORQ(mask, mask)
		for i := n - 1; i >= 0; i-- {
			VCMPPS(Imm(ge), limit, acc[i], c)
			VMOVMSKPS(c, bitsOf.As32())
			SHLQ(Imm(8), mask)
			ORQ(bitsOf, mask)
		}
	}
	collect(least)
	TESTQ(mask, mask)
	JNZ(LabelRef("some"))
	INCQ(block)
	JMP(LabelRef("block"))

	Label("some")
	// The best of the block, in all lanes.
	top := v.vec()
	VMAXPS(acc[0], acc[1], top)
	for i := 2; i < n; i++ {
		VMAXPS(acc[i], top, top)
	}
	other := v.vec()
	if v.wide {
		VSHUFF32X4(Imm(0x4e), top, top, other)
		VMAXPS(other, top, top)
		VSHUFF32X4(Imm(0xb1), top, top, other)
		VMAXPS(other, top, top)
	} else {
		VPERM2F128(Imm(0x01), top, top, other)
		VMAXPS(other, top, top)
	}
	VPERMILPS(Imm(0x4e), top, other)
	VMAXPS(other, top, top)
	VPERMILPS(Imm(0xb1), top, other)
	VMAXPS(other, top, top)
	VSUBPS(slack, top, top)
	VMAXPS(least, top, top)
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

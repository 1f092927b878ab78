package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Of a group of eight coordinates in the scratch of linalg.AddGaussian, in bytes.
const (
	groupLeft  = 0
	groupLive  = 64
	groupIndex = 128
	groupSum   = 192
	groupSize  = 256
)

// gaussian writes the kernel of internal/linalg/gaussian.go. A column is brought up to date when its pivot
// comes, from the columns of the pivots before it, which replace their rows.
func (v *isa) gaussian() {
	v.text("gaussian", "(a *float64, d, ld int, groups, steps, least, z *float64)", "is AddGaussian.")
	a, d, ld, groups, steps, least, z := arg("a"), arg("d"), arg("ld"), arg("groups"), arg("steps"), arg("least"), arg("z")
	SHLQ(Imm(3), ld)
	end := GP64()
	MOVQ(steps, end)
	parts := 8 / v.w
	group, j, k, row, hit := GP64(), GP64(), GP64(), GP64(), GP64()
	top, s, f, number := v.vec(), v.vec(), v.vec(), v.vec()

	Label("pivot")
	v.clear(top)
	XORQ(k, k)
	MOVQ(groups, group)
	MOVQ(ld, j)
	Label("largest")
	for h := range parts {
		VMAXPD(v.part(group, groupLeft, h), top, top)
	}
	ADDQ(U32(groupSize), group)
	SUBQ(Imm(64), j)
	JNZ(LabelRef("largest"))
	part := v.vec()
	if v.wide {
		VEXTRACTF64X4(Imm(1), top, part.AsY())
		VMAXPD(part.AsY(), top.AsY(), top.AsY())
	}
	VEXTRACTF128(Imm(1), top.AsY(), part.AsX())
	VMAXPD(part.AsX(), top.AsX(), top.AsX())
	VUNPCKHPD(top.AsX(), top.AsX(), part.AsX())
	VMAXSD(part.AsX(), top.AsX(), top.AsX())
	v.clear(s)
	VUCOMISD(s.AsX(), top.AsX())
	JLS(LabelRef("done"))
	pivot := XMM()
	VMOVAPD(top.AsX(), pivot)
	VBROADCASTSD(top.AsX(), top)

	// The first coordinate that has it, from behind and without a branch.
	coordinate, best := GP64(), GP64()
	MOVQ(ld, j)
	LEAQ(Mem{Base: groups, Index: ld, Scale: 4}, group)
	Label("find")
	SUBQ(U32(groupSize), group)
	SUBQ(Imm(64), j)
	for h := parts - 1; h >= 0; h-- {
		if v.wide {
			same := K()
			VCMPPD(Imm(0), v.part(group, groupLeft, h), top, same)
			KMOVB(same, hit.As32())
		} else {
			VCMPPD(Imm(0), v.part(group, groupLeft, h), top, part)
			VMOVMSKPD(part, hit.As32())
		}
		MOVQ(j, coordinate)
		SHRQ(Imm(3), coordinate)
		if h > 0 {
			ADDQ(Imm(uint64(v.w*h)), coordinate)
		}
		TZCNTL(hit.As32(), best.As32())
		ADDQ(best, coordinate)
		TESTL(hit.As32(), hit.As32())
		CMOVQNE(coordinate, k)
	}
	TESTQ(j, j)
	JNZ(LabelRef("find"))
	v.clear(number)
	VCVTSI2SDQ(k, number.AsX(), number.AsX())
	VBROADCASTSD(number.AsX(), number)

	// keep stores x with a zero for the pivot's coordinate.
	keep := func(x VecVirtual, place, h int) {
		if v.wide {
			other := K()
			VCMPPD(Imm(4), v.part(group, groupIndex, h), number, other)
			VMOVUPD_Z(x, other, x)
		} else {
			other := v.vec()
			VCMPPD(Imm(4), v.part(group, groupIndex, h), number, other)
			VANDPD(other, x, x)
		}
		VMOVUPD(x, v.part(group, place, h))
	}

	VUCOMISD(Mem{Base: least, Index: k, Scale: 8}, pivot)
	JHI(LabelRef("column"))
	// What is left of this coordinate is rounding.
	MOVQ(groups, group)
	MOVQ(ld, j)
	Label("drop")
	for h := range parts {
		x := v.vec()
		for _, place := range []int{groupLeft, groupLive} {
			VMOVUPD(v.part(group, place, h), x)
			keep(x, place, h)
		}
	}
	ADDQ(U32(groupSize), group)
	SUBQ(Imm(64), j)
	JNZ(LabelRef("drop"))
	JMP(LabelRef("next"))

	Label("column")
	one, bits := XMM(), GP64()
	MOVQ(U64(0x3ff0000000000000), bits)
	VMOVQ(bits, one)
	VDIVSD(pivot, one, s.AsX())
	VSQRTSD(s.AsX(), s.AsX(), f.AsX())
	VMULSD(Mem{Base: z, Index: k, Scale: 8}, f.AsX(), f.AsX())
	VBROADCASTSD(s.AsX(), s)
	VBROADCASTSD(f.AsX(), f)
	MOVQ(k, row)
	IMULQ(ld, row)
	ADDQ(a, row)
	MOVQ(groups, group)
	XORQ(j, j)
	// Four groups at a time, then two, then one.
	for i, n := range []int{4, 2, 1} {
		again, behind := fmt.Sprint("groups", n), fmt.Sprint("groups", n/2)
		Label(again)
		rest := GP64()
		if i < 2 {
			MOVQ(ld, rest)
			SUBQ(j, rest)
			CMPQ(rest, U32(uint32(64*n)))
			JLT(LabelRef(behind))
		} else {
			CMPQ(j, ld)
			JEQ(LabelRef(behind))
		}
		v.columns(n, n*parts, group, j, k, row, steps, end, s, f, keep)
		ADDQ(U32(uint32(groupSize*n)), group)
		ADDQ(U32(uint32(64*n)), j)
		JMP(LabelRef(again))
	}
	Label("groups0")
	VMOVSD(s.AsX(), at(end, 0))
	MOVQ(row, at(end, 8))
	ADDQ(Imm(16), end)
	Label("next")
	DECQ(d)
	JNZ(LabelRef("pivot"))
	Label("done")
	VZEROUPPER()
	RET()
}

// part is vector number h of a place in consecutive groups.
func (v *isa) part(group Register, place, h int) Mem {
	n := 8 / v.w
	return at(group, h/n*groupSize+place+8*v.w*(h%n))
}

// columns brings n groups of the pivot's column up to date and makes its step, vector by vector.
func (v *isa) columns(n, vectors int, group, j, k, row, steps, end GPVirtual, s, f VecVirtual, keep func(x VecVirtual, place, h int)) {
	cols := make([]VecVirtual, vectors)
	for h := range cols {
		cols[h] = v.vec()
		VMOVUPD(Mem{Base: row, Index: j, Scale: 1, Disp: 8 * v.w * h}, cols[h])
	}
	before, current := fmt.Sprint("before", n), fmt.Sprint("current", n)
	step := GP64()
	MOVQ(steps, step)
	CMPQ(step, end)
	JEQ(LabelRef(current))
	Label(before)
	past, by, entry, x := GP64(), v.vec(), v.vec(), v.vec()
	MOVQ(at(step, 8), past)
	VBROADCASTSD(at(step, 0), by)
	VBROADCASTSD(Mem{Base: past, Index: k, Scale: 8}, entry)
	for h, col := range cols {
		VMULPD(Mem{Base: past, Index: j, Scale: 1, Disp: 8 * v.w * h}, entry, x)
		VFNMADD231PD(x, by, col)
	}
	ADDQ(Imm(16), step)
	CMPQ(step, end)
	JNE(LabelRef(before))
	Label(current)
	for h, col := range cols {
		x, y := v.vec(), v.vec()
		VMOVUPD(v.part(group, groupLive, h), x)
		VANDPD(x, col, col)
		keep(x, groupLive, h)
		VMOVUPD(col, Mem{Base: row, Index: j, Scale: 1, Disp: 8 * v.w * h})
		VMULPD(col, col, x)
		VMOVUPD(v.part(group, groupLeft, h), y)
		VFNMADD231PD(x, s, y)
		keep(y, groupLeft, h)
		VMOVUPD(v.part(group, groupSum, h), y)
		VFMADD231PD(col, f, y)
		VMOVUPD(y, v.part(group, groupSum, h))
	}
}

// prefetch asks for every line of 64 bytes that n numbers touch.
func prefetch() {
	TEXT("prefetch", NOSPLIT, "func(x *float64, n int)")
	Doc("prefetch is Prefetch.")
	x, n := arg("x"), arg("n")
	LEAQ(Mem{Base: x, Index: n, Scale: 8, Disp: -1}, n)
	Label("line")
	PREFETCHT0(at(x, 0))
	ADDQ(Imm(64), x)
	CMPQ(x, n)
	JLS(LabelRef("line"))
	PREFETCHT0(at(n, 0))
	RET()
}

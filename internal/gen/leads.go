package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Of linalg.Leads.
const (
	leadsMask = 256 // offset of mask
	leadsSize = 264
)

// leads writes the kernel of internal/linalg/leads.go: eight members at a time, or four and four.
func (v *isa) leads(step bool) {
	name, doc := "leads", "is FindLeads."
	signature := "(p *float64, arms int, base *float64, c float64, out *float64, mask uint64, panels int"
	if step {
		name, doc, signature = "stepLeads", "is StepLeads.", signature+", w, u *float64, at int"
	}
	v.text(name, signature+")", doc)
	p, arms, base, out := arg("p"), arg("arms"), arg("base"), arg("out")
	c := v.vec()
	Load(Param("c"), c.AsX())
	VBROADCASTSD(c.AsX(), c)
	panels := arg("panels")
	var w, u, played GPVirtual
	var h VecVirtual
	if step {
		w, u, played, h = arg("w"), arg("u"), arg("at"), v.vec()
		SHLQ(Imm(6), played)
	}
	lowest, one, tmp := v.vec(), v.vec(), GP64()
	constant := func(bits uint64, x VecVirtual) {
		MOVQ(U64(bits), tmp)
		VMOVQ(tmp, x.AsX())
		VBROADCASTSD(x.AsX(), x)
	}
	constant(0xfff0000000000000, lowest)
	constant(1, one)
	move := func(src, dst VecVirtual) {
		if v.wide {
			VMOVAPD(src, dst)
		} else {
			VMOVAPD(src.AsY(), dst.AsY())
		}
	}
	// keep clears the bits that hold an arm.
	keep := v.vec()
	Load(Param("mask"), tmp)
	NOTQ(tmp)
	VMOVQ(tmp, keep.AsX())
	VBROADCASTSD(keep.AsX(), keep)
	type lead struct{ first, second VecVirtual }
	leads := []lead{{v.vec(), v.vec()}, {v.vec(), v.vec()}}
	arm, score, value, low := v.vec(), v.vec(), v.vec(), v.vec()
	halves, row, a := GP64(), GP64(), GP64()
	Label("panel")
	MOVQ(U64(uint64(8/v.w)), halves)
	Label("half")
	if step {
		VMOVUPD(at(u, 0), h)
		VSUBPD(Mem{Base: p, Index: played, Scale: 1}, h, h)
	}
	v.clear(arm)
	for _, l := range leads {
		move(lowest, l.first)
		move(lowest, l.second)
	}
	MOVQ(p, row)
	XORQ(a, a)
	Label("arm")
	VMOVUPD(at(row, 0), score)
	if step {
		PREFETCHT0(at(row, 1024)) // 5 % where the scores leave the first cache

		VBROADCASTSD(Mem{Base: w, Index: a, Scale: 8}, value)
		VFMADD231PD(h, value, score)
		VMOVUPD(score, at(row, 0))
	}
	for sign, l := range leads {
		VBROADCASTSD(Mem{Base: base, Index: a, Scale: 8}, value)
		if sign == 0 {
			VFMADD231PD(score, c, value)
		} else {
			VFNMADD231PD(score, c, value)
		}
		if v.wide {
			VPTERNLOGQ(Imm(0xec), keep, arm, value) // value&keep | arm
		} else {
			VANDPD(keep, value, value)
			VORPD(arm, value, value)
		}
		VMINPD(value, l.first, low)
		VMAXPD(low, l.second, l.second)
		VMAXPD(value, l.first, l.first)
	}
	VPADDQ(one, arm, arm)
	ADDQ(Imm(64), row)
	INCQ(a)
	CMPQ(a, arms)
	JL(LabelRef("arm"))
	for sign, l := range leads {
		VMOVUPD(l.first, at(out, 64*sign))
		VMOVUPD(l.second, at(out, 128+64*sign))
	}
	ADDQ(num(8*v.w), p)
	ADDQ(num(8*v.w), out)
	if step {
		ADDQ(num(8*v.w), u)
	}
	DECQ(halves)
	JNZ(LabelRef("half"))
	// p is 64 bytes behind the panel's beginning, out behind the lead's.
	MOVQ(arms, row)
	SHLQ(Imm(6), row)
	LEAQ(Mem{Base: p, Index: row, Scale: 1, Disp: -64}, p)
	Load(Param("mask"), tmp)
	MOVQ(tmp, at(out, leadsMask-64))
	ADDQ(U32(leadsSize-64), out)
	DECQ(panels)
	JNZ(LabelRef("panel"))
	VZEROUPPER()
	RET()
}

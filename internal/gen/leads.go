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
	r, one := v.newRank(c), v.vec()
	v.constant(1, one)
	score, value := v.vec(), v.vec()
	halves, row, a := GP64(), GP64(), GP64()
	Label("panel")
	MOVQ(U64(uint64(8/v.w)), halves)
	Label("half")
	if step {
		VMOVUPD(at(u, 0), h)
		VSUBPD(Mem{Base: p, Index: played, Scale: 1}, h, h)
	}
	v.clear(r.arm)
	r.begin()
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
	r.add(score, Mem{Base: base, Index: a, Scale: 8})
	VPADDQ(one, r.arm, r.arm)
	ADDQ(Imm(64), row)
	INCQ(a)
	CMPQ(a, arms)
	JL(LabelRef("arm"))
	r.store(out, 0)
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
	MOVQ(arg("mask"), at(out, leadsMask-64))
	ADDQ(U32(leadsSize-64), out)
	DECQ(panels)
	JNZ(LabelRef("panel"))
	VZEROUPPER()
	RET()
}

// rank is the leads of a vector of members, in registers.
type rank struct {
	v                             *isa
	first, second                 [2]VecVirtual
	c, keep, lowest, arm, at, low VecVirtual
}

// constant fills a vector with a number of 64 bits.
func (v *isa) constant(bits uint64, x VecVirtual) {
	tmp := GP64()
	MOVQ(U64(bits), tmp)
	VMOVQ(tmp, x.AsX())
	VBROADCASTSD(x.AsX(), x)
}

// assign copies a vector.
func (v *isa) assign(src, dst VecVirtual) {
	if v.wide {
		VMOVAPD(src, dst)
	} else {
		VMOVAPD(src.AsY(), dst.AsY())
	}
}

// newRank makes the constants: c, and from the argument mask those that clear the bits that hold an arm.
func (v *isa) newRank(c VecVirtual) *rank {
	r := &rank{v: v, c: c, keep: v.vec(), lowest: v.vec(), arm: v.vec(), at: v.vec(), low: v.vec()}
	for k := range 2 {
		r.first[k], r.second[k] = v.vec(), v.vec()
	}
	v.constant(0xfff0000000000000, r.lowest)
	mask := arg("mask")
	NOTQ(mask)
	VMOVQ(mask, r.keep.AsX())
	VBROADCASTSD(r.keep.AsX(), r.keep)
	return r
}

// begin is no arm at all.
func (r *rank) begin() {
	for k := range 2 {
		r.v.assign(r.lowest, r.first[k])
		r.v.assign(r.lowest, r.second[k])
	}
}

// add enters the arm whose number is in arm.
func (r *rank) add(score VecVirtual, base Mem) {
	for k := range 2 {
		VBROADCASTSD(base, r.at)
		if k == 0 {
			VFMADD231PD(score, r.c, r.at)
		} else {
			VFNMADD231PD(score, r.c, r.at)
		}
		if r.v.wide {
			VPTERNLOGQ(Imm(0xec), r.keep, r.arm, r.at) // at&keep | arm
		} else {
			VANDPD(r.keep, r.at, r.at)
			VORPD(r.arm, r.at, r.at)
		}
		VMINPD(r.at, r.first[k], r.low)
		VMAXPD(r.low, r.second[k], r.second[k])
		VMAXPD(r.at, r.first[k], r.first[k])
	}
}

// store stores the leads, offset bytes behind the beginning of a panel's members.
func (r *rank) store(out GPVirtual, offset int) {
	for k := range 2 {
		VMOVUPD(r.first[k], at(out, 64*k+offset))
		VMOVUPD(r.second[k], at(out, 128+64*k+offset))
	}
}

// load is the inverse of store.
func (r *rank) load(out GPVirtual, offset int) {
	for k := range 2 {
		VMOVUPD(at(out, 64*k+offset), r.first[k])
		VMOVUPD(at(out, 128+64*k+offset), r.second[k])
	}
}

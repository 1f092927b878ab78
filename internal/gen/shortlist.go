package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// shortlistSteps is ShortlistSteps of internal/linalg/shortlist.go. The steps h of a pair of panels lie together:
// shortlistSteps rows of sixteen members.
const shortlistSteps = 16

// broadcastArg fills a vector with an argument.
func (v *isa) broadcastArg(name string) VecVirtual {
	x := v.vec()
	Load(Param(name), x.AsX())
	VBROADCASTSD(x.AsX(), x)
	return x
}

// shortlistPass takes a step for the lists of some panels, finds their leads and limits, and looks whether an arm
// that is not on a list must join it.
func (v *isa) shortlistPass() {
	v.text("shortlistPass", "(now *float64, list *uint64, size *int, room int, w, base *float64, c float64, "+
		"out *float64, mask uint64, panels int, h *float64, even, odd int, "+
		"begin, deficit, rise *float64, ld int, slack float64, limit *float64) (wanted uint64)",
		"is Shortlist.pass.")
	now, list, w, base, out, h := arg("now"), arg("list"), arg("w"), arg("base"), arg("out"), arg("h")
	r := v.newRank(v.broadcastArg("c"))
	score, by, step := v.vec(), v.vec(), v.vec()
	g := GP64()
	XORQ(g, g)
	wanted := GP64()
	XORQ(wanted, wanted)
	Label("panel")
	for half := range 8 / v.w {
		name := func(s string) string { return fmt.Sprint(s, half) }
		row, entry, left, a := GP64(), GP64(), GP64(), GP64()
		VMOVUPD(at(h, 32*half), step)
		r.begin()
		MOVQ(Mem{Base: arg("size"), Index: g, Scale: 8}, left)
		MOVQ(now, row)
		MOVQ(list, entry)
		TESTQ(left, left)
		JZ(LabelRef(name("ranked")))
		Label(name("arm"))
		MOVQ(at(entry, 0), a)
		VMOVUPD(at(row, 32*half), score)
		VBROADCASTSD(Mem{Base: w, Index: a, Scale: 8}, by)
		VFMADD231PD(by, step, score)
		VMOVUPD(score, at(row, 32*half))
		VPBROADCASTQ(at(entry, 0), r.arm)
		r.add(score, Mem{Base: base, Index: a, Scale: 8})
		ADDQ(Imm(8), entry)
		ADDQ(Imm(64), row)
		DECQ(left)
		JNZ(LabelRef(name("arm")))
		Label(name("ranked"))
		r.store(out, 32*half)
	}
	MOVQ(arg("mask"), at(out, leadsMask))

	// The limit: the largest loss of a lead, and the slack.
	drop, t := v.vec(), v.vec()
	begin := arg("begin")
	v.assign(r.lowest, drop)
	for i := range 16 / v.w {
		VMOVUPD(at(begin, 8*v.w*i), t)
		VSUBPD(at(out, 8*v.w*i), t, t)
		VMAXPD(t, drop, drop)
	}
	// The start of the next panel is 128 bytes on: the argument moves.
	begin = arg("begin")
	ADDQ(U32(128), begin)
	Store(begin, Param("begin"))
	v.mostOf(drop, t)
	Load(Param("slack"), t.AsX())
	VADDSD(t.AsX(), drop.AsX(), drop.AsX())
	VMOVSD(drop.AsX(), Mem{Base: arg("limit"), Index: g, Scale: 8})
	VBROADCASTSD(drop.AsX(), drop)

	// A number that is none is not the least: the second source wins then.
	deficit, rise, left := arg("deficit"), arg("rise"), arg("ld")
	least := [2]VecVirtual{v.vec(), v.vec()}
	for _, x := range least {
		v.constant(0x7ff0000000000000, x)
	}
	Label("behind")
	for i := range 16 / v.w {
		VMOVUPD(at(deficit, 8*v.w*i), t)
		VSUBPD(at(rise, 8*v.w*i), t, t)
		VMINPD(least[i%2], t, least[i%2])
	}
	ADDQ(U32(128), deficit)
	ADDQ(U32(128), rise)
	SUBQ(Imm(16), left)
	JNZ(LabelRef("behind"))
	Store(deficit, Param("deficit"))
	VMINPD(least[1], least[0], least[0])
	set := GP64()
	if v.wide {
		k := K()
		VCMPPD(Imm(2), drop, least[0], k) // least ≤ drop
		KMOVW(k, set.As32())
	} else {
		VCMPPD(Imm(2), drop, least[0], t)
		VMOVMSKPD(t, set.As32())
	}
	TESTL(set.As32(), set.As32())
	JZ(LabelRef("next"))
	BTSQ(g, wanted)
	Label("next")
	room := arg("room")
	SHLQ(Imm(3), room)
	ADDQ(room, list)
	SHLQ(Imm(3), room)
	ADDQ(room, now)
	ADDQ(U32(leadsSize), out)
	// From an even panel to an odd one, and the other way round, with strides that change places.
	even, odd := arg("even"), arg("odd")
	ADDQ(even, h)
	Store(odd, Param("even"))
	Store(even, Param("odd"))
	INCQ(g)
	CMPQ(g, arg("panels"))
	JL(LabelRef("panel"))
	Store(wanted, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// shortlistJoin looks at eight arms of a panel at a time and puts those on the list that are behind by no more than
// limit.
func (v *isa) shortlistJoin() {
	v.text("shortlistJoin", "(deficit, rise *float64, ld int, limit float64, list *uint64, now *float64, "+
		"size, room int, p, w *float64, arms int, h *float64, n int, base *float64, c float64, out *float64, mask uint64) (to int)",
		"is Shortlist.join. It returns the size of the list, or −1 where it is full.")
	r := v.newRank(v.broadcastArg("c"))
	limit, t, none, score := v.broadcastArg("limit"), v.vec(), v.vec(), v.vec()
	v.constant(0x7ff0000000000000, none)
	out, size := arg("out"), arg("size")
	r.load(out, 0)
	first := GP64() // of the eight arms
	XORQ(first, first)
	Label("eight")
	set, k := GP64(), K()
	deficit := arg("deficit")
	VMOVUPD(Mem{Base: deficit, Index: first, Scale: 8}, t)
	VSUBPD(Mem{Base: arg("rise"), Index: first, Scale: 8}, t, t)
	VCMPPD(Imm(2), limit, t, k) // t ≤ limit
	KMOVW(k, set.As32())
	TESTL(set.As32(), set.As32())
	JZ(LabelRef("next"))
	Label("arm")
	CMPQ(size, arg("room"))
	JGE(LabelRef("full"))
	a := GP64()
	TZCNTQ(set, a)
	ADDQ(first, a)
	deficit = arg("deficit")
	VMOVSD(none.AsX(), Mem{Base: deficit, Index: a, Scale: 8})
	MOVQ(a, Mem{Base: arg("list"), Index: size, Scale: 8})
	VPBROADCASTQ(a, r.arm)
	// The score, by the steps since the beginning.
	row := GP64()
	MOVQ(a, row)
	SHLQ(Imm(6), row)
	ADDQ(arg("p"), row)
	VMOVUPD(at(row, 0), score)
	w, h, left, stride := GP64(), arg("h"), arg("n"), arg("arms")
	MOVQ(arg("w"), w)
	LEAQ(Mem{Base: w, Index: a, Scale: 8}, w)
	SHLQ(Imm(3), stride)
	TESTQ(left, left)
	JZ(LabelRef("there"))
	Label("step")
	VBROADCASTSD(at(w, 0), t)
	VFMADD231PD(at(h, 0), t, score)
	ADDQ(stride, w)
	ADDQ(U32(128), h)
	DECQ(left)
	JNZ(LabelRef("step"))
	Label("there")
	to := GP64()
	MOVQ(size, to)
	SHLQ(Imm(6), to)
	ADDQ(arg("now"), to)
	VMOVUPD(score, at(to, 0))
	r.add(score, Mem{Base: arg("base"), Index: a, Scale: 8})
	INCQ(size)
	LEAQ(Mem{Base: set, Disp: -1}, a)
	ANDQ(a, set)
	JNZ(LabelRef("arm"))
	Label("next")
	ADDQ(Imm(8), first)
	CMPQ(first, arg("ld"))
	JL(LabelRef("eight"))
	JMP(LabelRef("end"))
	Label("full")
	MOVQ(I32(-1), size)
	Label("end")
	r.store(out, 0)
	Store(size, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// shortlistTake makes the step h = u − p of all panels, p the scores of the arm that was played, which follow n steps
// first. It returns the largest |h|.
func (v *isa) shortlistTake() {
	v.text("shortlistTake", "(p *float64, arms int, along *float64, n int, h, u *float64, panels int) (most float64)",
		"is the loop of Shortlist.take.")
	p, stride, h, u, panels := arg("p"), arg("arms"), arg("h"), arg("u"), arg("panels")
	SHLQ(Imm(6), stride)
	even, odd := GP64(), GP64()
	MOVQ(U64(64), even)
	MOVQ(U64(shortlistSteps*128-64), odd)
	sign, most, t, next := v.absolute(), v.vec(), v.vec(), v.vec()
	v.clear(most)
	Label("panel")
	n := 8 / v.w
	score := make([]VecVirtual, n)
	for i := range score {
		score[i] = v.vec()
		VMOVUPD(at(p, 32*i), score[i])
	}
	along, left, row := arg("along"), arg("n"), GP64()
	MOVQ(h, row)
	TESTQ(left, left)
	JZ(LabelRef("there"))
	Label("step")
	VBROADCASTSD(at(along, 0), t)
	for i := range score {
		VFMADD231PD(at(row, 32*i), t, score[i])
	}
	ADDQ(Imm(8), along)
	ADDQ(U32(128), row)
	DECQ(left)
	JNZ(LabelRef("step"))
	Label("there")
	for i := range score {
		VMOVUPD(at(u, 32*i), next)
		VSUBPD(score[i], next, next)
		VMOVUPD(next, at(row, 32*i))
		v.and(sign, next, next)
		VMAXPD(next, most, most)
	}
	ADDQ(stride, p)
	ADDQ(Imm(64), u)
	ADDQ(even, h)
	XCHGQ(even, odd)
	DECQ(panels)
	JNZ(LabelRef("panel"))
	v.mostOf(most, t)
	Store(most.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// shortlistBehind takes as many arms at a time as a vector has numbers: what each lacks in each lane, and then the
// least of the lanes by a transposition, as argMax512 and argMax256 have it. The last arms may have been seen already.
// Arms are no fewer than a vector has numbers.
func (v *isa) shortlistBehind() {
	v.text("shortlistBehind", "(deficit, p, base *float64, arms int, c float64, begin *float64)",
		"is Shortlist.behind.")
	deficit, p, base, arms, begin := arg("deficit"), arg("p"), arg("base"), arg("arms"), arg("begin")
	c := v.broadcastArg("c")
	lack := make([]VecVirtual, v.w)
	for i := range lack {
		lack[i] = v.vec()
	}
	t, value, score := v.vec(), v.vec(), v.vec()
	Label("arms")
	for i := range lack {
		for half := range 8 / v.w {
			VMOVUPD(at(p, 64*i+32*half), score)
			for sign := range 2 {
				VBROADCASTSD(at(base, 8*i), value)
				if sign == 0 {
					VFMADD231PD(score, c, value)
				} else {
					VFNMADD231PD(score, c, value)
				}
				VMOVUPD(at(begin, 64*sign+32*half), t)
				if half+sign == 0 {
					VSUBPD(value, t, lack[i])
					continue
				}
				VSUBPD(value, t, t)
				VMINPD(t, lack[i], lack[i])
			}
		}
	}
	if v.wide {
		pair := func(a, b VecVirtual) {
			VSHUFF64X2(Imm(0x44), b, a, t)
			VSHUFF64X2(Imm(0xee), b, a, a)
			VMINPD(t, a, a)
		}
		four := func(ab, cd VecVirtual) {
			VSHUFF64X2(Imm(0x88), cd, ab, t)
			VSHUFF64X2(Imm(0xdd), cd, ab, ab)
			VMINPD(t, ab, ab)
		}
		for i := range 2 {
			pair(lack[i], lack[i+2])
			pair(lack[i+4], lack[i+6])
			four(lack[i], lack[i+4])
		}
	} else {
		for i := range 2 {
			VPERM2F128(Imm(0x20), lack[i+2], lack[i], t)
			VPERM2F128(Imm(0x31), lack[i+2], lack[i], lack[i])
			VMINPD(t, lack[i], lack[i])
		}
	}
	VUNPCKLPD(lack[1], lack[0], t)
	VUNPCKHPD(lack[1], lack[0], lack[0])
	VMINPD(t, lack[0], lack[0])
	VMOVUPD(lack[0], at(deficit, 0))
	ADDQ(num(64*v.w), p)
	ADDQ(num(8*v.w), base)
	ADDQ(num(8*v.w), deficit)
	SUBQ(num(v.w), arms)
	JZ(LabelRef("end"))
	CMPQ(arms, num(v.w))
	JGE(LabelRef("arms"))
	// Fewer are left: go back so that there are enough.
	back := GP64()
	MOVQ(arms, back)
	SUBQ(num(v.w), back)
	MOVQ(U64(uint64(v.w)), arms)
	LEAQ(Mem{Base: base, Index: back, Scale: 8}, base)
	LEAQ(Mem{Base: deficit, Index: back, Scale: 8}, deficit)
	SHLQ(Imm(6), back)
	ADDQ(back, p)
	JMP(LabelRef("arms"))
	Label("end")
	VZEROUPPER()
	RET()
}

// absolute makes the mask of all bits but the sign.
func (v *isa) absolute() VecVirtual {
	x := v.vec()
	v.constant(1<<63-1, x)
	return x
}

// and is a bitwise and.
func (v *isa) and(a, b, dst VecVirtual) {
	if v.wide {
		VPANDQ(a, b, dst)
	} else {
		VANDPD(a, b, dst)
	}
}

// mostOf leaves the largest number of x in its first lane; t is scratch.
func (v *isa) mostOf(x, t VecVirtual) {
	if v.wide {
		VEXTRACTF64X4(Imm(1), x, t.AsY())
		VMAXPD(t.AsY(), x.AsY(), x.AsY())
	}
	VEXTRACTF128(Imm(1), x.AsY(), t.AsX())
	VMAXPD(t.AsX(), x.AsX(), x.AsX())
	VPERMILPD(Imm(1), x.AsX(), t.AsX())
	VMAXSD(t.AsX(), x.AsX(), x.AsX())
}

// each goes through vectors of numbers, and at last through those that do not fill one, with masks.
func (v *isa) each(n GPVirtual, name string, f func(load func(Mem, VecVirtual), store func(VecVirtual, Mem)), next func(bytes Op)) {
	t, rem := v.tail(n)
	SUBQ(rem, n)
	JZ(LabelRef(name + "Rest"))
	Label(name)
	f(func(m Mem, x VecVirtual) { VMOVUPD(m, x) }, func(x VecVirtual, m Mem) { VMOVUPD(x, m) })
	next(num(8 * v.w))
	SUBQ(num(v.w), n)
	JNZ(LabelRef(name))
	Label(name + "Rest")
	TESTQ(rem, rem)
	JZ(LabelRef(name + "End"))
	f(func(m Mem, x VecVirtual) { v.loadTail(t, m, x) }, func(x VecVirtual, m Mem) { v.storeTail(t, x, m) })
	Label(name + "End")
}

// maxAbs goes through x a vector at a time.
func (v *isa) maxAbs() {
	v.text("maxAbs", "(x *float64, n int) float64", "is MaxAbs.")
	x, n := arg("x"), arg("n")
	y, most, sign := v.vec(), v.vec(), v.absolute()
	v.clear(most)
	v.each(n, "number", func(load func(Mem, VecVirtual), _ func(VecVirtual, Mem)) {
		load(at(x, 0), y)
		v.and(sign, y, y)
		VMAXPD(y, most, most)
	}, func(bytes Op) { ADDQ(bytes, x) })
	v.mostOf(most, y)
	Store(most.AsX(), ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// within collects, a vector at a time, the lanes where |x| ≤ limit does not hold, which a NaN does not.
func (v *isa) within() {
	const notLessEqual = 0x16 // true for NaN, too
	v.text("within", "(x *float64, n int, limit float64) (beyond int)", "is Within: 0 where all numbers are.")
	x, n := arg("x"), arg("n")
	limit, sign, y := v.broadcastArg("limit"), v.absolute(), v.vec()
	beyond := GP64()
	next := func(bytes Op) { ADDQ(bytes, x) }
	if v.wide {
		all, some := K(), K()
		KXORW(all, all, all)
		v.each(n, "number", func(load func(Mem, VecVirtual), _ func(VecVirtual, Mem)) {
			load(at(x, 0), y)
			v.and(sign, y, y)
			VCMPPD(Imm(notLessEqual), limit, y, some)
			KORW(some, all, all)
		}, next)
		KMOVW(all, beyond.As32())
	} else {
		all := v.zero()
		v.each(n, "number", func(load func(Mem, VecVirtual), _ func(VecVirtual, Mem)) {
			load(at(x, 0), y)
			v.and(sign, y, y)
			VCMPPD(Imm(notLessEqual), limit, y, y)
			VORPD(y, all, all)
		}, next)
		VMOVMSKPD(all, beyond.As32())
	}
	Store(beyond, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

// addAbs goes through dst and w a vector at a time.
func (v *isa) addAbs() {
	v.text("addAbs", "(dst, w *float64, n int, by, more float64)", "is AddAbs.")
	dst, w, n := arg("dst"), arg("w"), arg("n")
	by, more, sign := v.broadcastArg("by"), v.broadcastArg("more"), v.absolute()
	x, y := v.vec(), v.vec()
	v.each(n, "number", func(load func(Mem, VecVirtual), store func(VecVirtual, Mem)) {
		load(at(w, 0), x)
		v.and(sign, x, x)
		load(at(dst, 0), y)
		VFMADD231PD(by, x, y)
		VADDPD(more, y, y)
		store(y, at(dst, 0))
	}, func(bytes Op) {
		ADDQ(bytes, dst)
		ADDQ(bytes, w)
	})
	VZEROUPPER()
	RET()
}

// axpy goes through x and y a vector at a time. A product is rounded before it is added.
func (v *isa) axpy() {
	v.text("axpy", "(alpha float64, x, y *float64, n int)", "is Axpy.")
	x, y, n := arg("x"), arg("y"), arg("n")
	alpha := v.broadcastArg("alpha")
	a, b := v.vec(), v.vec()
	v.each(n, "number", func(load func(Mem, VecVirtual), store func(VecVirtual, Mem)) {
		load(at(x, 0), a)
		load(at(y, 0), b)
		VMULPD(alpha, a, a)
		VADDPD(a, b, b)
		store(b, at(y, 0))
	}, func(bytes Op) {
		ADDQ(bytes, x)
		ADDQ(bytes, y)
	})
	VZEROUPPER()
	RET()
}

// shortlistRise adds |w|·most to the swing, and makes the rise of it.
func (v *isa) shortlistRise() {
	v.text("shortlistRise", "(w *float64, n int, most float64, swing, base, base0 *float64, by float64, rise *float64)",
		"is Shortlist.move.")
	w, n, swing, base, base0, rise := arg("w"), arg("n"), arg("swing"), arg("base"), arg("base0"), arg("rise")
	most, by, sign := v.broadcastArg("most"), v.broadcastArg("by"), v.absolute()
	x, y, z := v.vec(), v.vec(), v.vec()
	v.each(n, "arms", func(load func(Mem, VecVirtual), store func(VecVirtual, Mem)) {
		load(at(w, 0), x)
		v.and(sign, x, x)
		load(at(swing, 0), y)
		VFMADD231PD(most, x, y)
		store(y, at(swing, 0))
		load(at(base, 0), x)
		load(at(base0, 0), z)
		VSUBPD(z, x, x)
		VFMADD231PD(by, y, x)
		store(x, at(rise, 0))
	}, func(bytes Op) {
		for _, p := range []GPVirtual{w, swing, base, base0, rise} {
			ADDQ(bytes, p)
		}
	})
	VZEROUPPER()
	RET()
}

// countLeads looks at eight leads at a time. It finds the arm of each lead, or the place behind the last arm where the
// lead is not sure, and moves a count only where that arm is not the one of the last time.
func (v *isa) countLeads() {
	v.text("countLeads", "(counts *uint32, last *uint64, leads *float64, panels int, gap float64, members, "+
		"signs, nobody int, mask uint64, unsure *uint8) (any uint64)",
		"is Counts.Set.")
	counts, last, leads, unsure, panels, signs := arg("counts"), arg("last"), arg("leads"), arg("unsure"), arg("panels"), arg("signs")
	gap, nobody, low := v.broadcastArg("gap"), v.vec(), v.vec()
	VPBROADCASTQ(arg("nobody"), nobody)
	VPBROADCASTQ(arg("mask"), low)
	any, there, set, lanes, lane, a := GP64(), GP64(), GP64(), GP64(), GP64(), GP64()
	XORQ(any, any)
	members := arg("members")
	first, second := v.vec(), v.vec()
	all, sure, other := K(), K(), K()
	Label("panel")
	MOVQ(I32(-1), there)
	BZHIQ(members, there, there)
	KMOVW(there.As32(), all)
	for sign := range 2 {
		if sign == 1 {
			CMPQ(signs, Imm(2))
			JL(LabelRef("next"))
		}
		VMOVUPD(at(leads, 64*sign), first)
		VSUBPD(at(leads, 128+64*sign), first, second)
		VCMPPD(Imm(0x1e), gap, second, all, sure) // second > gap
		VPANDQ(low, first, second)
		VMOVDQA64(nobody, first)
		VMOVDQA64(second, sure, first)
		KMOVW(sure, set.As32())
		NOTQ(set)
		ANDQ(there, set)
		ANDQ(Imm(0xff), set)
		MOVB(set.As8(), at(unsure, sign))
		ORQ(set, any)
		VPCMPUQ(Imm(4), at(last, 64*sign), first, other)
		KMOVW(other, set.As32())
		TESTQ(set, set)
		JZ(LabelRef(fmt.Sprint("same", sign)))
		for _, step := range []string{"leave", "join"} {
			name := fmt.Sprint(step, sign)
			MOVQ(set, lanes)
			Label(name)
			TZCNTQ(lanes, lane)
			MOVQ(Mem{Base: last, Index: lane, Scale: 8, Disp: 64 * sign}, a)
			if step == "leave" {
				DECL(Mem{Base: counts, Index: a, Scale: 4})
			} else {
				INCL(Mem{Base: counts, Index: a, Scale: 4})
			}
			LEAQ(Mem{Base: lanes, Disp: -1}, a)
			ANDQ(a, lanes)
			JNZ(LabelRef(name))
			if step == "leave" {
				VMOVDQU64(first, at(last, 64*sign))
			}
		}
		Label(fmt.Sprint("same", sign))
	}
	Label("next")
	ADDQ(Imm(2), unsure)
	ADDQ(U32(leadsSize), leads)
	ADDQ(U32(128), last)
	SUBQ(Imm(8), members)
	DECQ(panels)
	JNZ(LabelRef("panel"))
	Store(any, ReturnIndex(0))
	VZEROUPPER()
	RET()
}

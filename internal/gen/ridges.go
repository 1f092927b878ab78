package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// ridges writes the kernels of internal/linalg/ridges.go: number i of lane l is at 8i + l, so a vector of
// AVX-512 holds one number of all eight lanes, and AVX2 goes through the lanes in two turns.
func (v *isa) ridges() {
	v.batchMul(false)
	v.batchMul(true)
	v.batchLearn()
	v.batchMove()
	v.batchArgMax()
	v.batchPick()
	v.batchAdd(1)
	v.batchAdd(4)
}

// halves runs body once for eight lanes or, with AVX2, once for lanes 0 to 3 and once for lanes 4 to 7.
// pointer loads an argument: the place of the first of these lanes.
func (v *isa) halves(name string, body func(pointer func(name string) GPVirtual)) {
	if v.wide {
		body(arg)
		return
	}
	half := GP64()
	XORQ(half, half)
	Label(name + "Half")
	body(func(name string) GPVirtual {
		p := arg(name)
		ADDQ(half, p)
		return p
	})
	ADDQ(num(32), half)
	CMPQ(half, num(32))
	JE(LabelRef(name + "Half"))
}

func (v *isa) done() {
	VZEROUPPER()
	RET()
}

// sums emits acc[i mod 8] += term i for i = 0, …, d−1, in order; one(i) adds term i of the eight at hand
// and move goes to the next eight. d is kept.
func (v *isa) sums(name string, acc []VecVirtual, d GPVirtual, one func(i int), move func()) {
	for _, p := range acc {
		v.clear(p)
	}
	left := GP64()
	MOVQ(d, left)
	Label(name + "Eight")
	SUBQ(num(8), left)
	JL(LabelRef(name + "Rest"))
	for i := range 8 {
		one(i)
	}
	move()
	JMP(LabelRef(name + "Eight"))
	Label(name + "Rest")
	ADDQ(num(8), left)
	for i := range 7 {
		CMPQ(left, num(i+1))
		JL(LabelRef(name + "Sum"))
		one(i)
	}
	Label(name + "Sum")
}

// eight is the first numbers of a vector, at most eight, kept in registers; AVX2 has none to spare and reads them
// where they are.
type eight struct {
	v    *isa
	x    []VecVirtual
	base GPVirtual
}

// eight loads them; d is the length of the vector.
func (v *isa) eight(name string, base, d GPVirtual) eight {
	e := eight{v: v, base: GP64()}
	MOVQ(base, e.base)
	if !v.wide {
		return e
	}
	for range 8 {
		e.x = append(e.x, v.vec())
	}
	for i, x := range e.x {
		CMPQ(d, num(i+1))
		JL(LabelRef(name + "Kept"))
		VMOVUPD(at(base, 64*i), x)
	}
	Label(name + "Kept")
	return e
}

// products is sums for terms a_i·x_i: number returns a_i of the eight at hand, and move goes to the next eight of
// them. p is scratch.
func (v *isa) products(name string, acc []VecVirtual, d GPVirtual, x eight, p GPVirtual, number func(i int) Op, move func()) {
	t := v.vec()
	far := func(i int) { // x_i is not kept
		a := number(i)
		if _, ok := a.(Mem); ok {
			VMOVUPD(a, t)
			a = t
		}
		VFMADD231PD(at(p, 64*i), a, acc[i])
	}
	if !v.wide {
		MOVQ(x.base, p)
		v.sums(name, acc, d, far, func() {
			ADDQ(U32(512), p)
			move()
		})
		return
	}
	left := GP64()
	MOVQ(d, left)
	SUBQ(num(8), left)
	JL(LabelRef(name + "Few"))
	for i := range 8 { // 0 + a·x is a·x, but for the sign of a zero, which the last addition of tree clears
		VMULPD(number(i), x.x[i], acc[i])
	}
	LEAQ(at(x.base, 512), p)
	move()
	Label(name + "Eight")
	SUBQ(num(8), left)
	JL(LabelRef(name + "Rest"))
	for i := range 8 {
		far(i)
	}
	ADDQ(U32(512), p)
	move()
	JMP(LabelRef(name + "Eight"))
	Label(name + "Rest")
	ADDQ(num(8), left)
	for i := range 7 {
		CMPQ(left, num(i+1))
		JL(LabelRef(name + "Sum"))
		far(i)
	}
	JMP(LabelRef(name + "Sum"))
	Label(name + "Few")
	for _, a := range acc {
		v.clear(a)
	}
	ADDQ(num(8), left)
	for i := range 7 {
		CMPQ(left, num(i+1))
		JL(LabelRef(name + "Sum"))
		VFMADD231PD(number(i), x.x[i], acc[i])
	}
	Label(name + "Sum")
}

func (v *isa) accumulators() []VecVirtual {
	acc := make([]VecVirtual, 8)
	for i := range acc {
		acc[i] = v.vec()
	}
	return acc
}

// batchMul goes row by row; with step the matrix makes its Sherman–Morrison step on the way.
func (v *isa) batchMul(step bool) {
	if step {
		v.text("batchStep", "(dst, a, x *float64, d int, c, hat, s, k *float64)", "is batchStep.")
	} else {
		v.text("batchMul", "(dst, a, x *float64, d int)", "is batchMul.")
	}
	d := arg("d")
	v.halves("", func(pointer func(string) GPVirtual) {
		v.batchRows("dst", step, d, v.eight("x", pointer("x"), d), v.accumulators(), pointer)
	})
	v.done()
}

// batchRows stores A·x in the argument of a name.
func (v *isa) batchRows(dst string, step bool, d GPVirtual, x eight, acc []VecVirtual, pointer func(string) GPVirtual) {
	y, z, ki, sv, c := v.vec(), v.vec(), v.vec(), v.vec(), v.vec()
	var k, kp, kj, hat GPVirtual
	if step {
		VMOVUPD(at(pointer("c"), 0), c)
		VMOVUPD(at(pointer("s"), 0), sv)
		k, kj, kp, hat = pointer("k"), GP64(), GP64(), pointer("hat")
		MOVQ(k, kp)
	}
	a, out, xp, rows := pointer("a"), pointer(dst), GP64(), GP64()
	MOVQ(d, rows)
	Label("row")
	if step {
		VMOVUPD(at(kp, 0), ki)
		MOVQ(k, kj)
	}
	v.products("", acc, d, x, xp, func(i int) Op {
		if !step {
			return at(a, 64*i)
		}
		VMOVUPD(at(a, 64*i), y)
		VMULPD(at(kj, 64*i), ki, z)
		VFNMADD231PD(z, sv, y)
		VMOVUPD(y, at(a, 64*i))
		return y
	}, func() {
		ADDQ(U32(512), a)
		if step {
			ADDQ(U32(512), kj)
		}
	})
	v.tree(acc)
	// a has passed the whole eights of the row, and the rest lies before the next one.
	v.pass(a, d)
	if step {
		VFMADD213PD(at(hat, 0), c, acc[0])
		ADDQ(num(64), hat)
		ADDQ(num(64), kp)
	}
	VMOVUPD(acc[0], at(out, 0))
	ADDQ(num(64), out)
	DECQ(rows)
	JNZ(LabelRef("row"))
}

// pass moves a pointer over the d mod 8 numbers at the end of a row.
func (v *isa) pass(p, d GPVirtual) {
	rest := GP64()
	MOVQ(d, rest)
	ANDQ(num(7), rest)
	SHLQ(num(6), rest)
	ADDQ(rest, p)
}

// number returns a vector of one number.
func (v *isa) number(bits uint64) VecVirtual {
	tmp, x := GP64(), v.vec()
	MOVQ(U64(bits), tmp)
	VMOVQ(tmp, x.AsX())
	VBROADCASTSD(x.AsX(), x)
	return x
}

// compare puts the lanes for which the predicate holds of (a, b) into the low bits of a register.
func (v *isa) compare(predicate uint64, a, b VecVirtual, into GPVirtual) {
	if v.wide {
		k := K()
		VCMPPD(Imm(predicate), b, a, k)
		KMOVB(k, into.As32())
		return
	}
	m := YMM()
	VCMPPD(Imm(predicate), b, a, m)
	VMOVMSKPD(m, into.As32())
}

// Predicates of VCMPPD that are false for NaN, and one that is true for it.
const (
	greater    = 0x1e
	notAtMost  = 0x16 // not a ≤ b
	notAtLeast = 0x19 // not a ≥ b
)

// batchLearn computes k, q, e and s and says which lanes must not go on and which have to fold; where there
// is none of either it goes on to batchMove.
func (v *isa) batchLearn() {
	v.text("batchLearn", "(k, a, x, theta, y *float64, d int, growth, q, e, s *float64) (bad, fold int)",
		"is batchLearn.")
	d := arg("d")
	bad, fold, lanes := GP64(), GP64(), GP64()
	XORQ(bad, bad)
	XORQ(fold, fold)
	v.halves("", func(pointer func(string) GPVirtual) {
		acc := v.accumulators()
		x := v.eight("x", pointer("x"), d)
		v.batchRows("k", false, d, x, acc, pointer)
		t := v.vec()
		dot := func(name string) VecVirtual {
			p := pointer(name)
			v.products(name, acc, d, x, GP64(), func(i int) Op { return at(p, 64*i) }, func() { ADDQ(U32(512), p) })
			v.tree(acc)
			r := v.vec()
			if v.wide {
				VMOVAPD(acc[0], r)
			} else {
				VMOVAPD(acc[0].AsY(), r.AsY())
			}
			return r
		}
		width, mean := dot("k"), dot("theta")
		one, zero, most := v.number(math.Float64bits(1)), v.zero(), v.number(math.Float64bits(math.MaxFloat64))
		if !v.wide { // bits 4 to 7 are those of this turn
			SHRQ(num(4), bad)
			SHRQ(num(4), fold)
		}
		mark := func(into GPVirtual) {
			if !v.wide {
				SHLQ(num(4), lanes)
			}
			ORQ(lanes, into)
		}
		VMOVUPD(width, at(pointer("q"), 0))
		v.compare(notAtLeast, width, zero, lanes)
		mark(bad)
		v.compare(notAtMost, width, most, lanes)
		mark(bad)
		v.compare(greater, width, one, lanes)
		mark(fold)
		VMOVUPD(at(pointer("growth"), 0), t)
		v.compare(greater, t, one, lanes)
		mark(fold)
		VADDPD(one, width, width)
		VDIVPD(width, one, width)
		VMOVUPD(width, at(pointer("s"), 0))
		VMOVUPD(at(pointer("y"), 0), t)
		VSUBPD(mean, t, t)
		VMOVUPD(t, at(pointer("e"), 0))
		VSUBPD(t, t, t) // 0, or NaN where e is not finite
		v.compare(notAtLeast, t, zero, lanes)
		mark(bad)
	})
	Store(bad, ReturnIndex(0))
	Store(fold, ReturnIndex(1))
	ORQ(bad, fold)
	JNZ(LabelRef("done"))
	v.halves("move", v.move)
	Label("done")
	v.done()
}

func (v *isa) batchMove() {
	v.text("batchMove", "(theta, k *float64, d int, s, e, growth, q *float64)", "is batchMove.")
	v.halves("move", v.move)
	v.done()
}

// move is a loop over the features.
func (v *isa) move(pointer func(string) GPVirtual) {
	theta, k, left := pointer("theta"), pointer("k"), arg("d")
	sv, ev, g, y := v.vec(), v.vec(), v.vec(), v.vec()
	i, growth := GP64(), pointer("growth")
	VMOVUPD(at(pointer("s"), 0), sv)
	VMOVUPD(at(pointer("e"), 0), ev)
	XORQ(i, i)
	Label("feature")
	VMULPD(Mem{Base: k, Index: i, Scale: 1}, sv, g)
	VMOVUPD(Mem{Base: theta, Index: i, Scale: 1}, y)
	VFMADD231PD(g, ev, y)
	VMOVUPD(y, Mem{Base: theta, Index: i, Scale: 1})
	ADDQ(num(64), i)
	DECQ(left)
	JNZ(LabelRef("feature"))
	// growth ← (1 + growth)·q + growth
	VMOVUPD(at(growth, 0), y)
	VADDPD(v.number(math.Float64bits(1)), y, g)
	VFMADD231PD(at(pointer("q"), 0), g, y)
	VMOVUPD(y, at(growth, 0))
}

// batchArgMax scores row after row and looks at θ on the way.
func (v *isa) batchArgMax() {
	v.text("batchArgMax", "(x *float64, rows int, theta *float64, d int, at *int) (wild int)", "is BatchArgMax.")
	d := arg("d")
	wild, lanes := GP64(), GP64()
	XORQ(wild, wild)
	v.halves("", func(pointer func(string) GPVirtual) {
		acc := v.accumulators()
		best, bestAt, index, t := v.number(0xfff0000000000000), v.zero(), v.zero(), v.vec()
		p, theta, th, left := pointer("x"), pointer("theta"), GP64(), GP64()
		// |θ_i| ≤ limit
		abs, limit := v.number(1<<63-1), v.number(math.Float64bits(0x1p499))
		MOVQ(theta, th)
		MOVQ(d, left)
		Label("entry")
		VANDPD(at(th, 0), abs, t)
		v.compare(notAtMost, t, limit, lanes)
		ORQ(lanes, wild)
		ADDQ(num(64), th)
		DECQ(left)
		JNZ(LabelRef("entry"))

		one := v.number(1)
		kept := v.eight("theta", theta, d)
		Load(Param("rows"), left)
		Label("row")
		v.products("", acc, d, kept, th, func(i int) Op { return at(p, 64*i) }, func() { ADDQ(U32(512), p) })
		v.tree(acc)
		// From row to row only the maximum is waited for; it stays where the other is not a number.
		if v.wide {
			k := K()
			VCMPPD(Imm(greater), best, acc[0], k)
			VMAXPD(best, acc[0], best)
			VMOVAPD(index, k, bestAt)
		} else {
			VCMPPD(Imm(greater), best, acc[0], t)
			VMAXPD(best, acc[0], best)
			VBLENDVPD(t, index, bestAt, bestAt)
		}
		VPADDQ(one, index, index)
		v.pass(p, d)
		DECQ(left)
		JNZ(LabelRef("row"))
		VMOVUPD(bestAt, at(pointer("at"), 0))
	})
	Store(wild, ReturnIndex(0))
	v.done()
}

// batchPick copies a row of each lane, eight pointers side by side, and adds the steps that it lacks, up to three of
// them on the way. A row that is not there is an answer, and nothing else happens.
func (v *isa) batchPick() {
	v.text("batchPick", "(dst, table *float64, at *int, rows, d int, u *float64, ustep int, x *float64, xstep, n int) (bad int)",
		"is batchPick.")
	const onTheWay = 3
	bad, last := GP64(), arg("rows")
	XORQ(bad, bad)
	if v.wide {
		index, bound, k := v.vec(), v.vec(), K()
		VMOVDQU64(at(arg("at"), 0), index)
		VPBROADCASTQ(last, bound)
		VPCMPUQ(Imm(5), bound, index, k) // not below
		KMOVB(k, bad.As32())
	} else {
		DECQ(last)
		bound, lanes := v.vec(), GP64()
		VMOVQ(last, bound.AsX())
		VPBROADCASTQ(bound.AsX(), bound)
		for half := range 2 { // above, or negative
			index, wild := v.vec(), v.vec()
			VMOVDQU(at(arg("at"), 32*half), index)
			VPCMPGTQ(bound, index, wild)
			VPOR(index, wild, wild)
			VMOVMSKPD(wild, lanes.As32())
			ORQ(lanes, bad)
		}
	}
	Store(bad, ReturnIndex(0))
	TESTQ(bad, bad)
	JNZ(LabelRef("done"))
	masks := make([]OpmaskVirtual, 8)
	if v.wide {
		tmp := GP32()
		for l := 1; l < 8; l++ {
			masks[l] = K()
			MOVL(U32(1<<l), tmp)
			KMOVB(tmp, masks[l])
		}
	}
	v.halves("", func(pointer func(string) GPVirtual) {
		gather := func(x VecVirtual, from func(l int) Mem) {
			if v.wide {
				VBROADCASTSD(from(0), x)
				for l := 1; l < 8; l++ {
					VBROADCASTSD(from(l), masks[l], x)
				}
				return
			}
			hi := XMM()
			VMOVSD(from(0), x.AsX())
			VMOVHPD(from(1), x.AsX(), x.AsX())
			VMOVSD(from(2), hi)
			VMOVHPD(from(3), hi, hi)
			VINSERTF128(Imm(1), hi, x.AsY(), x.AsY())
		}
		// weights loads the targets of the rows in the next step.
		weights := func(u GPVirtual, w VecVirtual) {
			rows := pointer("at")
			gather(w, func(l int) Mem {
				row := GP64()
				MOVQ(at(rows, 8*l), row)
				SHLQ(num(6), row)
				return Mem{Base: u, Index: row, Scale: 1, Disp: 8 * l}
			})
		}
		// far is the place of an argument after some steps.
		far := func(name, stride string, steps int) GPVirtual {
			p := pointer(name)
			if steps > 0 {
				by := arg(stride)
				SHLQ(num(6), by)
				for range steps {
					ADDQ(by, p)
				}
			}
			return p
		}
		n := arg("n")
		var w []VecVirtual
		for k := range onTheWay {
			w = append(w, v.vec())
			CMPQ(n, num(k+1))
			JL(LabelRef("weighed"))
			weights(far("u", "ustep", k), w[k])
		}
		Label("weighed")
		// A row ends where the pointers point; off is what is left of it, negative.
		size := arg("d")
		SHLQ(num(6), size)
		rows, table, dst, off := pointer("at"), pointer("table"), pointer("dst"), GP64()
		ADDQ(size, table)
		ADDQ(size, dst)
		p := make([]GPVirtual, v.w)
		for l := range p {
			p[l] = GP64()
			MOVQ(at(rows, 8*l), p[l])
			IMULQ(size, p[l])
			ADDQ(table, p[l])
		}
		x := v.vec()
		for k := range onTheWay + 1 {
			if k < onTheWay {
				n := arg("n")
				CMPQ(n, num(k))
				JNE(LabelRef(fmt.Sprint("more", k)))
			}
			var steps []GPVirtual
			for i := range k {
				steps = append(steps, far("x", "xstep", i))
				ADDQ(size, steps[i])
			}
			XORQ(off, off)
			SUBQ(size, off)
			Label(fmt.Sprint("feature", k))
			gather(x, func(l int) Mem { return Mem{Base: p[l], Index: off, Scale: 1, Disp: 8 * l} })
			for i := range k {
				VFMADD231PD(Mem{Base: steps[i], Index: off, Scale: 1}, w[i], x)
			}
			VMOVUPD(x, Mem{Base: dst, Index: off, Scale: 1})
			ADDQ(num(64), off)
			JNZ(LabelRef(fmt.Sprint("feature", k)))
			if k < onTheWay {
				JMP(LabelRef("whole"))
				Label(fmt.Sprint("more", k))
			}
		}
		// What is left goes through dst once more.
		n = arg("n")
		SUBQ(num(onTheWay), n)
		JZ(LabelRef("whole"))
		u, steps := far("u", "ustep", onTheWay), far("x", "xstep", onTheWay)
		size = arg("d")
		SHLQ(num(6), size)
		ADDQ(size, steps)
		dst = pointer("dst")
		ADDQ(size, dst)
		Label("step")
		weights(u, w[0])
		XORQ(off, off)
		SUBQ(size, off)
		Label("add")
		VMOVUPD(Mem{Base: dst, Index: off, Scale: 1}, x)
		VFMADD231PD(Mem{Base: steps, Index: off, Scale: 1}, w[0], x)
		VMOVUPD(x, Mem{Base: dst, Index: off, Scale: 1})
		ADDQ(num(64), off)
		JNZ(LabelRef("add"))
		by := arg("ustep")
		SHLQ(num(6), by)
		ADDQ(by, u)
		by = arg("xstep")
		SHLQ(num(6), by)
		ADDQ(by, steps)
		DECQ(n)
		JNZ(LabelRef("step"))
		Label("whole")
	})
	Label("done")
	v.done()
}

// batchAdd keeps the features of n steps in registers, a few of them, while it walks through the members.
func (v *isa) batchAdd(n int) {
	name := "batchAddOne"
	if n == 4 {
		name = "batchAddFour"
	}
	v.text(name, "(s *float64, members, d int, u *float64, ustep int, x *float64, xstep, skip int)",
		fmt.Sprintf("is BatchAdd, number of steps: %d.", n))
	ustep, xstep := arg("ustep"), arg("xstep")
	width := arg("d") // bytes of a member
	SHLQ(num(6), width)
	SHLQ(num(6), ustep)
	SHLQ(num(6), xstep)
	u3, x3 := GP64(), GP64()
	if n == 4 {
		LEAQ(Mem{Base: ustep, Index: ustep, Scale: 2}, u3)
		LEAQ(Mem{Base: xstep, Index: xstep, Scale: 2}, x3)
	}
	row := func(base, step, three GPVirtual, k, disp int) Mem {
		switch k {
		case 1:
			return Mem{Base: base, Index: step, Scale: 1, Disp: disp}
		case 2:
			return Mem{Base: base, Index: step, Scale: 2, Disp: disp}
		case 3:
			return Mem{Base: base, Index: three, Scale: 1, Disp: disp}
		}
		return Mem{Base: base, Disp: disp}
	}
	most := 4
	if !v.wide && n == 4 {
		most = 2
	}
	v.halves("", func(pointer func(string) GPVirtual) {
		s, x, left := pointer("s"), pointer("x"), arg("d")
		xv := make([][]VecVirtual, most)
		for f := range xv {
			xv[f] = make([]VecVirtual, n)
			for k := range xv[f] {
				xv[f][k] = v.vec()
			}
		}
		uv, sv := make([]VecVirtual, n), v.vec()
		for k := range uv {
			uv[k] = v.vec()
		}
		// With skip, features f, f+1, … are those of members f, f+1, … only: what lies below the diagonal.
		first, sum := GP64(), GP64()
		XORQ(first, first)
		for _, size := range []int{4, 2, 1} {
			if size > most {
				continue
			}
			name := fmt.Sprint("features", size)
			Label(name)
			CMPQ(left, num(size))
			JL(LabelRef(name + "Done"))
			for f := range size {
				for k := range n {
					VMOVUPD(row(x, xstep, x3, k, 64*f), xv[f][k])
				}
			}
			mp, up, todo := GP64(), pointer("u"), arg("members")
			MOVQ(first, mp)
			SHLQ(num(6), mp)
			ADDQ(mp, up)
			MOVQ(first, mp)
			IMULQ(width, mp)
			ADDQ(s, mp)
			SUBQ(first, todo)
			Label(name + "Member")
			for k := range n {
				VMOVUPD(row(up, ustep, u3, k, 0), uv[k])
			}
			for f := range size {
				VMOVUPD(at(mp, 64*f), sv)
				for k := range n {
					VFMADD231PD(xv[f][k], uv[k], sv)
				}
				VMOVUPD(sv, at(mp, 64*f))
			}
			ADDQ(width, mp)
			ADDQ(num(64), up)
			DECQ(todo)
			JNZ(LabelRef(name + "Member"))
			ADDQ(U32(uint32(64*size)), s)
			ADDQ(U32(uint32(64*size)), x)
			SUBQ(num(size), left)
			Load(Param("skip"), sum)
			for range size {
				ADDQ(sum, first)
			}
			JMP(LabelRef(name))
			Label(name + "Done")
		}
	})
	v.done()
}

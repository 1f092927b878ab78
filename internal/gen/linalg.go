package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// isa is a width of vectors. The kernels are written once for both where sixteen registers are
// enough, otherwise side by side.
type isa struct {
	name  string
	w     int // numbers in a vector: 8 or 4
	wide  bool
	masks Mem // AVX2: row r of the table has ones in its first r numbers
}

func linalg() {
	v512 := &isa{name: "AVX512", w: 8, wide: true}
	v256 := &isa{name: "AVX2", w: 4}
	v256.masks = GLOBL("masks", RODATA|NOPTR)
	for r := range 4 {
		for i := range 4 {
			m := uint64(0)
			if i < r {
				m = 1<<64 - 1
			}
			DATA(32*r+8*i, U64(m))
		}
	}
	for _, v := range []*isa{v512, v256} {
		v.dot()
		v.product(plainMul, 1, false)
		v.product(learnMul, 1, false)
		for _, step := range []int{1, 8} {
			v.product(shiftMul, step, false)
			v.product(stepMul, step, false)
		}
		v.rankOne()
		v.gaussian()
		v.addPanels()
		v.addSteps()
		v.divide()
		v.prefilter()
		v.leads(false)
		v.leads(true)
		v.shortlistPass()
		v.shortlistTake()
		v.shortlistBehind()
		v.shortlistRise()
		v.maxAbs()
		v.within()
		v.addAbs()
		v.axpy()
		v.arms()
		v.ridges()
	}
	for form := shiftMul; form <= learnMul; form++ {
		v512.product(form, 1, true)
	}
	v512.shortlistJoin()
	v512.countLeads()
	v512.argMax512()
	v256.argMax256()
	v512.addTile512()
	v256.addTile256()
	prefetch()
}

func (v *isa) text(name, signature, doc string) {
	TEXT(name+v.name, NOSPLIT, "func"+signature)
	Doc(name + v.name + " " + doc)
}

func (v *isa) vec() VecVirtual {
	if v.wide {
		return ZMM()
	}
	return YMM()
}

func (v *isa) zero() VecVirtual {
	x := v.vec()
	v.clear(x)
	return x
}

func (v *isa) clear(x VecVirtual) {
	if v.wide {
		VPXORQ(x, x, x)
	} else {
		VXORPD(x, x, x)
	}
}

// tail is a mask of the first n mod w numbers of a vector.
type tail struct {
	k   OpmaskVirtual
	vec VecVirtual
}

// tail makes the mask of the first n mod w numbers; rem gets n mod w.
func (v *isa) tail(n GPVirtual) (t tail, rem GPVirtual) {
	rem = GP64()
	MOVQ(n, rem)
	ANDQ(num(v.w-1), rem)
	if v.wide {
		ones := GP64()
		MOVQ(I64(-1), ones)
		BZHIQ(rem, ones, ones)
		t.k = K()
		KMOVW(ones.As32(), t.k)
		return t, rem
	}
	at, base := GP64(), GP64()
	LEAQ(v.masks, base)
	MOVQ(rem, at)
	SHLQ(Imm(5), at)
	t.vec = YMM()
	VMOVDQU(Mem{Base: base, Index: at, Scale: 1}, t.vec)
	return t, rem
}

func (v *isa) loadTail(t tail, m Mem, dst VecVirtual) {
	if v.wide {
		VMOVUPD_Z(m, t.k, dst)
	} else {
		VMASKMOVPD(m, t.vec, dst)
	}
}

func (v *isa) storeTail(t tail, src VecVirtual, m Mem) {
	if v.wide {
		VMOVUPD(src, t.k, m)
	} else {
		VMASKMOVPD(src, t.vec, m)
	}
}

// tree adds eight vectors (or eight numbers in lane 0) as the order of sums of the package says:
// ((p0+p4)+(p2+p6)) + ((p1+p5)+(p3+p7)) + 0. The result is p[0].
func (v *isa) tree(p []VecVirtual) {
	add := func(a, b int) { VADDPD(p[b], p[a], p[a]) }
	for i := range 4 {
		add(i, i+4)
	}
	add(0, 2)
	add(1, 3)
	add(0, 1)
	v.clear(p[7])
	add(0, 7)
}

// dot keeps the eight partial sums in the lanes of one vector, or two.
func (v *isa) dot() {
	v.text("dot", "(a, b *float64, n int) float64", "is Dot.")
	a, b, n := arg("a"), arg("b"), arg("n")
	acc := []VecVirtual{v.zero()}
	if !v.wide {
		acc = append(acc, v.zero())
	}
	left := GP64()
	MOVQ(n, left)
	Label("loop")
	SUBQ(Imm(8), left)
	JL(LabelRef("tail"))
	for i, s := range acc {
		x := v.vec()
		VMOVUPD(at(a, 8*v.w*i), x)
		VFMADD231PD(at(b, 8*v.w*i), x, s)
	}
	ADDQ(Imm(64), a)
	ADDQ(Imm(64), b)
	JMP(LabelRef("loop"))
	Label("tail")
	t, rem := v.tail(n)
	x, y := v.vec(), v.vec()
	if v.wide {
		TESTQ(rem, rem)
		JZ(LabelRef("sum"))
		v.loadTail(t, at(a, 0), x)
		v.loadTail(t, at(b, 0), y)
		VFMADD231PD(y, x, acc[0])
	} else {
		// left = n mod 8 − 8: four or more numbers are left when bit 2 is set.
		TESTQ(U32(4), n)
		JZ(LabelRef("low"))
		VMOVUPD(at(a, 0), x)
		VFMADD231PD(at(b, 0), x, acc[0])
		v.loadTail(t, at(a, 32), x)
		v.loadTail(t, at(b, 32), y)
		VFMADD231PD(y, x, acc[1])
		JMP(LabelRef("sum"))
		Label("low")
		TESTQ(rem, rem)
		JZ(LabelRef("sum"))
		v.loadTail(t, at(a, 0), x)
		v.loadTail(t, at(b, 0), y)
		VFMADD231PD(y, x, acc[0])
	}
	Label("sum")
	s := acc[0]
	if v.wide {
		hi := YMM()
		VEXTRACTF64X4(Imm(1), s, hi)
		VADDPD(hi, s.AsY(), s.AsY())
	} else {
		VADDPD(acc[1], s, s)
	}
	hi := XMM()
	VEXTRACTF128(Imm(1), s.AsY(), hi)
	VADDPD(hi, s.AsX(), s.AsX())
	VUNPCKHPD(s.AsX(), s.AsX(), hi)
	VADDSD(hi, s.AsX(), s.AsX())
	VXORPD(hi, hi, hi)
	VADDSD(hi, s.AsX(), s.AsX())
	VZEROUPPER()
	Store(s.AsX(), ReturnIndex(0))
	RET()
}

// addPanels reads and writes every number of S once: up to three panels side by side with
// AVX-512, four features after each other.
func (v *isa) addPanels() {
	v.text("addPanels", "(s *float64, panels, d int, u, x *float64)", "is AddPanels.")
	s, panels, d, u, x := arg("s"), arg("panels"), arg("d"), arg("u"), arg("x")
	n := 8 / v.w
	next := GP64() // bytes of a panel
	if v.wide {
		MOVQ(d, next)
		SHLQ(Imm(6), next)
	}
	body := func(many int) {
		name := func(s string) string { return fmt.Sprint(s, many) }
		var uv []VecVirtual
		for i := range many * n {
			uv = append(uv, v.vec())
			VMOVUPD(at(u, 8*v.w*i), uv[i])
		}
		xp, left := GP64(), GP64()
		MOVQ(x, xp)
		MOVQ(d, left)
		panel := []GPVirtual{s}
		for i := 1; i < many; i++ {
			panel = append(panel, GP64())
			LEAQ(Mem{Base: panel[i-1], Index: next, Scale: 1}, panel[i])
		}
		one := func(f int) {
			xi := v.vec()
			VBROADCASTSD(at(xp, 8*f), xi)
			for i := range uv {
				m, sv := at(panel[i/n], 64*f+8*v.w*(i%n)), v.vec()
				VMOVUPD(m, sv)
				VFMADD231PD(xi, uv[i], sv)
				VMOVUPD(sv, m)
			}
		}
		// step goes to the next f features.
		step := func(f int) {
			ADDQ(num(8*f), xp)
			for _, p := range panel {
				ADDQ(U32(uint32(64*f)), p)
			}
		}
		Label(name("features"))
		SUBQ(Imm(4), left)
		JL(LabelRef(name("rest")))
		for f := range 4 {
			one(f)
		}
		step(4)
		JMP(LabelRef(name("features")))
		Label(name("rest"))
		for f := range 3 {
			CMPQ(left, I8(int8(f-4)))
			JLE(LabelRef(name("next")))
			one(0)
			step(1)
		}
		Label(name("next"))
		if many > 1 {
			MOVQ(panel[many-1], s)
		}
		ADDQ(num(64*many), u)
		SUBQ(num(many), panels)
	}
	if v.wide {
		Label("three")
		CMPQ(panels, Imm(3))
		JL(LabelRef("two"))
		body(3)
		JMP(LabelRef("three"))
		Label("two")
		CMPQ(panels, Imm(2))
		JL(LabelRef("last"))
		body(2)
		Label("last")
		TESTQ(panels, panels)
		JZ(LabelRef("done"))
		body(1)
		Label("done")
	} else {
		Label("panel")
		body(1)
		JNZ(LabelRef("panel"))
	}
	VZEROUPPER()
	RET()
}

// divide goes through x a vector at a time.
func (v *isa) divide() {
	v.text("divide", "(x *float64, n int, by float64)", "is Divide.")
	x, n := arg("x"), arg("n")
	by, y := v.vec(), v.vec()
	Load(Param("by"), by.AsX())
	VBROADCASTSD(by.AsX(), by)
	t, rem := v.tail(n)
	Label("loop")
	SUBQ(num(v.w), n)
	JL(LabelRef("tail"))
	VMOVUPD(at(x, 0), y)
	VDIVPD(by, y, y)
	VMOVUPD(y, at(x, 0))
	ADDQ(num(8*v.w), x)
	JMP(LabelRef("loop"))
	Label("tail")
	TESTQ(rem, rem)
	JZ(LabelRef("done"))
	v.loadTail(t, at(x, 0), y)
	VDIVPD(by, y, y)
	v.storeTail(t, y, at(x, 0))
	Label("done")
	VZEROUPPER()
	RET()
}

// stepVectors is the number of vectors of a row that addSteps keeps in registers.
const stepVectors = 12

// addSteps keeps up to twelve vectors of the row in registers while it walks through time.
func (v *isa) addSteps() {
	v.text("addSteps", "(row *float64, d int, u *float64, first, n int, x *float64)", "is AddSteps.")
	row, d, u, first, n, x := arg("row"), arg("d"), arg("u"), arg("first"), arg("n"), arg("x")
	stride := GP64()
	MOVQ(d, stride)
	SHLQ(Imm(3), stride)
	t, rem := v.tail(d)
	left := GP64() // full vectors
	MOVQ(d, left)
	SUBQ(rem, left)
	acc := make([]VecVirtual, stepVectors)
	for i := range acc {
		acc[i] = v.vec()
	}
	ut, xt := v.vec(), v.vec()

	// walk goes through the n rounds; round first+i has its number at ((k&3)·16 + k>>2), k = first+i.
	walk := func(name string, step func(xp GPVirtual)) {
		k, end, xp, p, q := GP64(), GP64(), GP64(), GP64(), GP64()
		MOVQ(first, k)
		LEAQ(Mem{Base: first, Index: n, Scale: 1}, end)
		MOVQ(x, xp)
		Label(name)
		MOVQ(k, p)
		MOVQ(k, q)
		ANDQ(Imm(3), p)
		SHLQ(Imm(4), p)
		SHRQ(Imm(2), q)
		ADDQ(q, p)
		VBROADCASTSD(Mem{Base: u, Index: p, Scale: 8}, ut)
		step(xp)
		ADDQ(stride, xp)
		INCQ(k)
		CMPQ(k, end)
		JL(LabelRef(name))
	}
	last := v.vec()
	for _, c := range []int{stepVectors, 8, 6, 4, 3, 2, 1} {
		name := fmt.Sprint("vectors", c)
		step := func(xp GPVirtual) {
			for i := range c {
				VFMADD231PD(at(xp, 8*v.w*i), ut, acc[i])
			}
		}
		Label(name)
		CMPQ(left, num(c*v.w))
		JL(LabelRef(name + "Done"))
		for i := range c {
			VMOVUPD(at(row, 8*v.w*i), acc[i])
		}
		// The last vectors take the numbers that do not fill one along: alone they would be a chain.
		JNE(LabelRef(name + "Full"))
		TESTQ(rem, rem)
		JZ(LabelRef(name + "Full"))
		v.loadTail(t, at(row, 8*v.w*c), last)
		walk(name+"LastStep", func(xp GPVirtual) {
			step(xp)
			v.loadTail(t, at(xp, 8*v.w*c), xt)
			VFMADD231PD(xt, ut, last)
		})
		v.storeTail(t, last, at(row, 8*v.w*c))
		XORQ(rem, rem)
		JMP(LabelRef(name + "Store"))
		Label(name + "Full")
		walk(name+"Step", step)
		Label(name + "Store")
		for i := range c {
			VMOVUPD(acc[i], at(row, 8*v.w*i))
		}
		ADDQ(num(8*v.w*c), row)
		ADDQ(num(8*v.w*c), x)
		SUBQ(num(c*v.w), left)
		JMP(LabelRef(name))
		Label(name + "Done")
	}
	TESTQ(rem, rem)
	JZ(LabelRef("done"))
	v.loadTail(t, at(row, 0), acc[0])
	walk("tailStep", func(xp GPVirtual) {
		v.loadTail(t, at(xp, 0), xt)
		VFMADD231PD(xt, ut, acc[0])
	})
	v.storeTail(t, acc[0], at(row, 0))
	Label("done")
	VZEROUPPER()
	RET()
}

// argMax512 takes eight rows at a time: the eight partial sums of a row are the lanes of a vector,
// and the tree of sums is a transposition. The last eight rows may have been seen already, which
// changes nothing: a row is equal to itself. Rows are at least eight.
func (v *isa) argMax512() {
	v.text("argMax", "(x *float64, rows, d int, theta *float64) (at int, value float64)", "is ArgMax for rows ≥ 8.")
	x, rows, d, theta := arg("x"), arg("rows"), arg("d"), arg("theta")
	stride, s3, s5, s7 := GP64(), GP64(), GP64(), GP64()
	MOVQ(d, stride)
	SHLQ(Imm(3), stride)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, s3)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 4}, s5)
	LEAQ(Mem{Base: s3, Index: stride, Scale: 4}, s7)
	t, rem := v.tail(d)
	full := GP64() // bytes of the full vectors of a row
	MOVQ(d, full)
	SUBQ(rem, full)
	SHLQ(Imm(3), full)

	best, bestAt, index, eight, zero := ZMM(), ZMM(), ZMM(), ZMM(), v.zero()
	tmp := GP64()
	MOVQ(U64(0xfff0000000000000), tmp) // −∞
	VPBROADCASTQ(tmp, best)
	VPXORQ(bestAt, bestAt, bestAt)
	iota := GLOBL("iota", RODATA|NOPTR)
	for i := range 8 {
		DATA(8*i, U64(uint64(i)))
	}
	VMOVDQU64(iota, index)
	MOVQ(U64(8), tmp)
	VPBROADCASTQ(tmp, eight)

	acc := make([]VecVirtual, 8)
	for i := range acc {
		acc[i] = ZMM()
	}
	th, y := ZMM(), ZMM()
	p := GP64()
	rowsOf := func() []Mem {
		return []Mem{
			{Base: p}, {Base: p, Index: stride, Scale: 1}, {Base: p, Index: stride, Scale: 2}, {Base: p, Index: s3, Scale: 1},
			{Base: p, Index: stride, Scale: 4}, {Base: p, Index: s5, Scale: 1},
			{Base: p, Index: s3, Scale: 2}, {Base: p, Index: s7, Scale: 1},
		}
	}
	Label("eight")
	for _, a := range acc {
		v.clear(a)
	}
	j := GP64()
	XORQ(j, j)
	MOVQ(x, p)
	Label("feature")
	CMPQ(j, full)
	JGE(LabelRef("tail"))
	VMOVUPD(Mem{Base: theta, Index: j, Scale: 1}, th)
	for i, m := range rowsOf() {
		VFMADD231PD(m, th, acc[i])
	}
	ADDQ(Imm(64), p)
	ADDQ(Imm(64), j)
	JMP(LabelRef("feature"))
	Label("tail")
	TESTQ(rem, rem)
	JZ(LabelRef("sum"))
	v.loadTail(t, Mem{Base: theta, Index: j, Scale: 1}, th)
	for i, m := range rowsOf() {
		v.loadTail(t, m, y)
		VFMADD231PD(y, th, acc[i])
	}
	Label("sum")
	// Lanes l and l+4 of two rows: [row a | row b].
	pair := func(a, b VecVirtual) VecVirtual {
		lo, hi := ZMM(), ZMM()
		VSHUFF64X2(Imm(0x44), b, a, lo)
		VSHUFF64X2(Imm(0xee), b, a, hi)
		VADDPD(hi, lo, lo)
		return lo
	}
	// Lanes l and l+2 of four rows: [a | b | c | d], two numbers each.
	four := func(ab, cd VecVirtual) VecVirtual {
		lo, hi := ZMM(), ZMM()
		VSHUFF64X2(Imm(0x88), cd, ab, lo)
		VSHUFF64X2(Imm(0xdd), cd, ab, hi)
		VADDPD(hi, lo, lo)
		return lo
	}
	even := four(pair(acc[0], acc[2]), pair(acc[4], acc[6]))
	odd := four(pair(acc[1], acc[3]), pair(acc[5], acc[7]))
	lo, hi := ZMM(), ZMM()
	VUNPCKLPD(odd, even, lo)
	VUNPCKHPD(odd, even, hi)
	VADDPD(hi, lo, lo)
	VADDPD(zero, lo, lo)
	k := K()
	VCMPPD(Imm(0x1e), best, lo, k) // lo > best, false for NaN
	VMOVAPD(lo, k, best)
	VMOVDQA64(index, k, bestAt)

	LEAQ(Mem{Base: x, Index: stride, Scale: 8}, x)
	VPADDQ(eight, index, index)
	SUBQ(Imm(8), rows)
	CMPQ(rows, Imm(8))
	JGE(LabelRef("eight"))
	TESTQ(rows, rows)
	JLE(LabelRef("reduce"))
	// 1 to 7 rows are left: go back so that eight are.
	back := GP64()
	MOVQ(U64(8), back)
	SUBQ(rows, back)
	by := ZMM()
	VPBROADCASTQ(back, by)
	VPSUBQ(by, index, index)
	IMULQ(stride, back)
	SUBQ(back, x)
	MOVQ(U64(8), rows)
	JMP(LabelRef("eight"))

	Label("reduce")
	// The largest value, then the smallest index among the lanes that have it.
	top, other := ZMM(), ZMM()
	VSHUFF64X2(Imm(0x4e), best, best, other)
	VMAXPD(other, best, top)
	VSHUFF64X2(Imm(0xb1), top, top, other)
	VMAXPD(other, top, top)
	VPERMILPD(Imm(0x55), top, other)
	VMAXPD(other, top, top)
	VCMPPD(Imm(0), top, best, k)
	last, res, set := ZMM(), GP64(), GP64()
	// Nearly always one lane has it.
	VPCOMPRESSQ_Z(bestAt, k, last)
	VMOVQ(last.AsX(), res)
	KMOVW(k, set.As32())
	LEAL(Mem{Base: set, Disp: -1}, tmp.As32())
	TESTL(set.As32(), tmp.As32())
	JZ(LabelRef("one"))
	MOVQ(I64(-1), tmp)
	SHRQ(Imm(1), tmp)
	VPBROADCASTQ(tmp, last)
	VMOVDQA64(bestAt, k, last)
	VSHUFI64X2(Imm(0x4e), last, last, other)
	VPMINSQ(other, last, last)
	VSHUFI64X2(Imm(0xb1), last, last, other)
	VPMINSQ(other, last, last)
	VPSHUFD(Imm(0x4e), last, other)
	VPMINSQ(other, last, last)
	VMOVQ(last.AsX(), res)
	Label("one")
	Store(res, ReturnIndex(0))
	Store(top.AsX(), ReturnIndex(1))
	VZEROUPPER()
	RET()
}

// argMax256 is argMax512 with four rows at a time, two vectors of partial sums each.
func (v *isa) argMax256() {
	v.text("argMax", "(x *float64, rows, d int, theta *float64) (at int, value float64)", "is ArgMax for rows ≥ 4.")
	x, rows, d, theta := arg("x"), arg("rows"), arg("d"), arg("theta")
	stride, s3 := GP64(), GP64()
	MOVQ(d, stride)
	SHLQ(Imm(3), stride)
	LEAQ(Mem{Base: stride, Index: stride, Scale: 2}, s3)
	t, rem := v.tail(d)

	state := AllocLocal(4 * 32) // index, best, bestAt, step: registers are short
	index, best, bestAt := state, state.Offset(32), state.Offset(64)
	iota := GLOBL("iota4", RODATA|NOPTR)
	for i := range 4 {
		DATA(8*i, U64(uint64(i)))
	}
	tmp := GP64()
	v0 := YMM()
	VMOVDQU(iota, v0)
	VMOVDQU(v0, index)
	MOVQ(U64(0xfff0000000000000), tmp)
	VMOVQ(tmp, v0.AsX())
	VBROADCASTSD(v0.AsX(), v0)
	VMOVUPD(v0, best)
	VXORPD(v0, v0, v0)
	VMOVDQU(v0, bestAt)

	acc := make([]VecVirtual, 8) // low halves of rows 0 to 3, high halves
	for i := range acc {
		acc[i] = YMM()
	}
	th, y := YMM(), YMM()
	p, q, left := GP64(), GP64(), GP64()
	rowsOf := func(offset int) []Mem {
		return []Mem{
			{Base: p, Disp: offset}, {Base: p, Index: stride, Scale: 1, Disp: offset},
			{Base: p, Index: stride, Scale: 2, Disp: offset}, {Base: p, Index: s3, Scale: 1, Disp: offset},
		}
	}
	full := func(offset, half int) {
		VMOVUPD(at(q, offset), th)
		for i, m := range rowsOf(offset) {
			VFMADD231PD(m, th, acc[4*half+i])
		}
	}
	part := func(offset, half int) {
		v.loadTail(t, at(q, offset), th)
		for i, m := range rowsOf(offset) {
			v.loadTail(t, m, y)
			VFMADD231PD(y, th, acc[4*half+i])
		}
	}
	Label("four")
	for _, a := range acc {
		v.clear(a)
	}
	MOVQ(x, p)
	MOVQ(theta, q)
	MOVQ(d, left)
	Label("feature")
	SUBQ(Imm(8), left)
	JL(LabelRef("tail"))
	full(0, 0)
	full(32, 1)
	ADDQ(Imm(64), p)
	ADDQ(Imm(64), q)
	JMP(LabelRef("feature"))
	Label("tail")
	TESTQ(U32(4), d)
	JZ(LabelRef("low"))
	full(0, 0)
	TESTQ(rem, rem)
	JZ(LabelRef("sum"))
	part(32, 1)
	JMP(LabelRef("sum"))
	Label("low")
	TESTQ(rem, rem)
	JZ(LabelRef("sum"))
	part(0, 0)
	Label("sum")
	for i := range 4 {
		VADDPD(acc[4+i], acc[i], acc[i])
	}
	pair := func(a, b VecVirtual) { // a ← lanes l and l+2 of rows a, b: [a | b], two numbers each
		VPERM2F128(Imm(0x20), b, a, th)
		VPERM2F128(Imm(0x31), b, a, y)
		VADDPD(y, th, a)
	}
	pair(acc[0], acc[2])
	pair(acc[1], acc[3])
	VUNPCKLPD(acc[1], acc[0], th)
	VUNPCKHPD(acc[1], acc[0], y)
	VADDPD(y, th, th)
	VXORPD(y, y, y)
	VADDPD(y, th, th)
	k, b, i := acc[0], acc[1], acc[2]
	VMOVUPD(best, b)
	VCMPPD(Imm(0x1e), b, th, k)
	VBLENDVPD(k, th, b, b)
	VMOVUPD(b, best)
	VMOVUPD(bestAt, b)
	VMOVUPD(index, i)
	VBLENDVPD(k, i, b, b)
	VMOVUPD(b, bestAt)

	LEAQ(Mem{Base: x, Index: stride, Scale: 4}, x)
	shift := func(by GPVirtual, sub bool) {
		VMOVQ(by, y.AsX())
		VPBROADCASTQ(y.AsX(), y)
		VMOVDQU(index, i)
		if sub {
			VPSUBQ(y, i, i)
		} else {
			VPADDQ(y, i, i)
		}
		VMOVDQU(i, index)
	}
	MOVQ(U64(4), tmp)
	shift(tmp, false)
	SUBQ(Imm(4), rows)
	CMPQ(rows, Imm(4))
	JGE(LabelRef("four"))
	TESTQ(rows, rows)
	JLE(LabelRef("reduce"))
	back := GP64()
	MOVQ(U64(4), back)
	SUBQ(rows, back)
	shift(back, true)
	IMULQ(stride, back)
	SUBQ(back, x)
	MOVQ(U64(4), rows)
	JMP(LabelRef("four"))

	Label("reduce")
	top, topAt, a, aAt := GP64(), GP64(), XMM(), GP64()
	t0 := XMM()
	VMOVSD(best, t0)
	MOVQ(bestAt, topAt)
	_ = top
	for lane := 1; lane < 4; lane++ {
		VMOVSD(best.Offset(8*lane), a)
		MOVQ(bestAt.Offset(8*lane), aAt)
		VUCOMISD(t0, a)
		JA(LabelRef(fmt.Sprint("take", lane)))
		JNE(LabelRef(fmt.Sprint("keep", lane)))
		CMPQ(aAt, topAt)
		JGE(LabelRef(fmt.Sprint("keep", lane)))
		Label(fmt.Sprint("take", lane))
		VMOVAPD(a, t0)
		MOVQ(aAt, topAt)
		Label(fmt.Sprint("keep", lane))
	}
	Store(topAt, ReturnIndex(0))
	Store(t0, ReturnIndex(1))
	VZEROUPPER()
	RET()
}

// Features that a tile takes at once: accumulators for 16 members in 32 registers, or for 8 in 16.
const (
	tile512 = 12
	tile256 = 6
)

// chunks emits the loop over the features of a tile: wide chunks of size features, then chunks of
// size − 1, none of them of less than least. body(f) is the walk through time for f features.
func chunks(least, most int, s, x, size, wide, narrow GPVirtual, body func(f int)) {
	Label("chunk")
	TESTQ(wide, wide)
	JNZ(LabelRef("choose"))
	TESTQ(narrow, narrow)
	JZ(LabelRef("done"))
	MOVQ(narrow, wide)
	XORQ(narrow, narrow)
	DECQ(size)
	Label("choose")
	for f := least; f < most; f++ {
		CMPQ(size, num(f))
		JE(LabelRef(fmt.Sprint("size", f)))
	}
	for f := most; f >= least; f-- {
		Label(fmt.Sprint("size", f))
		body(f)
		ADDQ(num(64*f), s)
		ADDQ(num(8*f), x)
		DECQ(wide)
		JMP(LabelRef("chunk"))
	}
	Label("done")
	VZEROUPPER()
	RET()
}

// addTile512 keeps two panels × up to twelve features in registers while it walks through time.
func (v *isa) addTile512() {
	v.text("addTile", "(s *float64, d int, u, x *float64, n, size, wide, narrow int)", "is AddTile.")
	s, d, u, x, n := arg("s"), arg("d"), arg("u"), arg("x"), arg("n")
	size, wide, narrow := arg("size"), arg("wide"), arg("narrow")
	stride, second := GP64(), GP64()
	MOVQ(d, stride)
	SHLQ(Imm(3), stride)
	MOVQ(d, second)
	SHLQ(Imm(6), second) // bytes of a panel
	chunks(1, tile512, s, x, size, wide, narrow, func(f int) {
		acc := make([]VecVirtual, 2*f)
		for i := range f {
			acc[2*i], acc[2*i+1] = ZMM(), ZMM()
			VMOVUPD(at(s, 64*i), acc[2*i])
			VMOVUPD(Mem{Base: s, Index: second, Scale: 1, Disp: 64 * i}, acc[2*i+1])
		}
		up, xp, left := GP64(), GP64(), GP64()
		MOVQ(u, up)
		MOVQ(x, xp)
		MOVQ(n, left)
		name := fmt.Sprint("step", f)
		Label(name)
		u0, u1 := ZMM(), ZMM()
		VMOVUPD(at(up, 0), u0)
		VMOVUPD(at(up, 64), u1)
		tmp := make([]VecVirtual, 4)
		for i := range tmp {
			tmp[i] = ZMM()
		}
		for i := range f {
			xi := tmp[i%len(tmp)]
			VBROADCASTSD(at(xp, 8*i), xi)
			VFMADD231PD(xi, u0, acc[2*i])
			VFMADD231PD(xi, u1, acc[2*i+1])
		}
		ADDQ(Imm(128), up)
		ADDQ(stride, xp)
		DECQ(left)
		JNZ(LabelRef(name))
		for i := range f {
			VMOVUPD(acc[2*i], at(s, 64*i))
			VMOVUPD(acc[2*i+1], Mem{Base: s, Index: second, Scale: 1, Disp: 64 * i})
		}
	})
}

// addTile256 keeps one panel × up to six features; the second panel is a second call.
func (v *isa) addTile256() {
	v.text("addTile", "(s *float64, d int, u, x *float64, n, size, wide, narrow int)", "is AddTile for one panel.")
	s, d, u, x, n := arg("s"), arg("d"), arg("u"), arg("x"), arg("n")
	size, wide, narrow := arg("size"), arg("wide"), arg("narrow")
	stride := GP64()
	MOVQ(d, stride)
	SHLQ(Imm(3), stride)
	chunks(1, tile256, s, x, size, wide, narrow, func(f int) {
		acc := make([]VecVirtual, 2*f)
		for i := range acc {
			acc[i] = YMM()
			VMOVUPD(at(s, 32*i), acc[i])
		}
		up, xp, left := GP64(), GP64(), GP64()
		MOVQ(u, up)
		MOVQ(x, xp)
		MOVQ(n, left)
		name := fmt.Sprint("step", f)
		Label(name)
		u0, u1, xi := YMM(), YMM(), YMM()
		VMOVUPD(at(up, 0), u0)
		VMOVUPD(at(up, 32), u1)
		for i := range f {
			VBROADCASTSD(at(xp, 8*i), xi)
			VFMADD231PD(xi, u0, acc[2*i])
			VFMADD231PD(xi, u1, acc[2*i+1])
		}
		ADDQ(Imm(128), up)
		ADDQ(stride, xp)
		DECQ(left)
		JNZ(LabelRef(name))
		for i := range acc {
			VMOVUPD(acc[i], at(s, 32*i))
		}
	})
}

package main

import (
	"fmt"
	"strings"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// The forms of product.
const (
	plainMul = iota // dst ← A x
	shiftMul        // dst ← hat + c·A x
	stepMul         // the same after A ← A − s·k kᵀ, in one pass over A
	learnMul        // k ← A x and all that an update of a regression makes of it
)

// Offsets of the fields of linalg.core.
const (
	coreInv   = 0
	coreK     = 8
	coreTheta = 16
	coreGain  = 24
	coreWait  = 32
	coreTile  = 40
	coreD     = 48
	coreLD    = 56
	coreHeld  = 64
	coreS     = 72
)

// product is a matrix with padded rows times x, whose numbers are step apart. It takes w columns at a
// time, with AVX-512 twice as many while there are; row i of the matrix goes to partial sum i mod 8.
type product struct {
	*isa
	form, step int
	half       bool // the lower triangle stands for the matrix, see half.go; step is 1
	steps      Mem  // half: a counter

	core, dst, a, x, hat, k    GPVirtual
	stride, s3, s5, s7, offset GPVirtual // bytes of a row, 3, 5 and 7 rows; bytes of the columns before
	row, xp, kp, left          GPVirtual
	c, s                       VecVirtual

	// learnMul: the partial sums of ⟨x, k⟩ and ⟨x, θ̂⟩, and which numbers of the last vector of x are.
	p, q VecVirtual
	tail OpmaskVirtual
}

// field loads a field of the core.
func (m *product) field(offset int) GPVirtual {
	x := GP64()
	MOVQ(at(m.core, offset), x)
	return x
}

// sides loads where the product goes and what it is added to.
func (m *product) sides() {
	m.hat = m.field(coreTheta)
	if m.form == learnMul {
		m.dst = m.field(coreK)
	} else {
		m.dst = arg("dst")
	}
}

// waits returns the place of the next free row of wait.
func (m *product) waits() GPVirtual {
	x := m.field(coreD)
	SHLQ(Imm(3), x)
	IMULQ(at(m.core, coreHeld), x)
	ADDQ(at(m.core, coreWait), x)
	return x
}

// tiles returns the place of the next free row of tile, in bytes after its start, and goes to a label
// when there is no tile.
func (m *product) tiles(none string) GPVirtual {
	start, x := m.field(coreTile), m.field(coreHeld)
	TESTQ(start, start)
	JZ(LabelRef(none))
	SHLQ(Imm(7), x)
	ADDQ(start, x)
	return x
}

func (v *isa) product(form, step int, half bool) {
	m := &product{isa: v, form: form, step: step, half: half}
	kind, of := fmt.Sprint(step), ""
	if half {
		kind, of = "Half", " for the lower triangle"
	}
	switch form {
	case plainMul:
		v.text("mulPadded", "(dst, a, x *float64, d, ld int)", "is mulPadded.")
	case shiftMul:
		v.text("mulShift"+kind, "(c *byte, dst, x *float64, by float64)",
			fmt.Sprintf("is Ridge.SolveShift for step %d when nothing is owed%s.", step, of))
	case stepMul:
		v.text("stepShift"+kind, "(c *byte, dst, x *float64, by float64)",
			fmt.Sprintf("is rankOne of the step that is owed and mulShift%s in one pass over the matrix.", kind))
	case learnMul:
		v.text("learn"+strings.TrimLeft(kind, "01"), "(c *byte, x *float64, y float64) (s, q float64)",
			"is Ridge.learn"+of+".")
	}
	if half {
		m.steps = AllocLocal(8)
	}
	broadcast := func(src Op) VecVirtual {
		c := v.vec()
		VBROADCASTSD(src, c)
		return c
	}
	if form == plainMul {
		m.dst, m.a, m.stride = arg("dst"), arg("a"), arg("ld")
	} else {
		m.core = arg("c")
		m.a, m.stride = m.field(coreInv), m.field(coreLD)
	}
	m.x = arg("x")
	switch form {
	case learnMul:
		m.sides()
		m.p, m.q = v.zero(), v.zero()
		if v.wide {
			// The first (d − 1) mod 8 + 1 numbers of a vector.
			n, ones := m.field(coreD), GP64()
			DECQ(n)
			ANDQ(Imm(7), n)
			INCQ(n)
			MOVQ(I64(-1), ones)
			BZHIQ(n, ones, ones)
			m.tail = K()
			KMOVW(ones.As32(), m.tail)
		}
	case shiftMul, stepMul:
		m.sides()
		by := XMM()
		Load(Param("by"), by)
		m.c = broadcast(by)
	}
	if form == stepMul {
		m.s, m.k, m.kp = broadcast(at(m.core, coreS)), m.field(coreK), GP64()
	}
	SHLQ(Imm(3), m.stride)
	m.s3, m.s5, m.s7, m.offset = GP64(), GP64(), GP64(), GP64()
	LEAQ(Mem{Base: m.stride, Index: m.stride, Scale: 2}, m.s3)
	LEAQ(Mem{Base: m.stride, Index: m.stride, Scale: 4}, m.s5)
	LEAQ(Mem{Base: m.s3, Index: m.stride, Scale: 4}, m.s7)
	m.row, m.xp, m.left = GP64(), GP64(), GP64()
	XORQ(m.offset, m.offset)
	if v.wide {
		end := GP64()
		Label("two")
		LEAQ(Mem{Base: m.offset, Disp: 128}, end)
		CMPQ(end, m.stride)
		JG(LabelRef("last"))
		m.columns(2)
		CMPQ(m.offset, m.stride)
		JL(LabelRef("two"))
		JMP(LabelRef("done"))
		Label("last")
		m.columns(1)
	} else {
		Label("one")
		m.columns(1)
		CMPQ(m.offset, m.stride)
		JL(LabelRef("one"))
	}
	Label("done")
	if form == learnMul {
		if half {
			m.sides()
		}
		m.finish()
	}
	VZEROUPPER()
	RET()
}

// columns does n vectors of columns.
func (m *product) columns(n int) {
	v := m.isa
	name := func(s string) string { return fmt.Sprint(s, n) }
	acc := make([][]VecVirtual, n)
	kj := make([]VecVirtual, n)
	side := func(base Register, j int) Mem {
		return Mem{Base: base, Index: m.offset, Scale: 1, Disp: 8 * v.w * j}
	}
	for j := range acc {
		acc[j] = make([]VecVirtual, 8)
		for i := range acc[j] {
			acc[j][i] = v.vec()
			if m.half {
				v.clear(acc[j][i])
			}
		}
		if m.form == stepMul {
			kj[j] = v.vec()
			VMOVUPD(side(m.k, j), kj[j])
		}
	}
	if m.half {
		m.above(acc, name)
	} else {
		LEAQ(Mem{Base: m.a, Index: m.offset, Scale: 1}, m.row)
		MOVQ(m.x, m.xp)
		if m.form == plainMul {
			Load(Param("d"), m.left)
		} else {
			MOVQ(at(m.core, coreD), m.left)
		}
		if m.form == stepMul {
			MOVQ(m.k, m.kp)
		}
	}
	xi, ki, y := v.vec(), v.vec(), v.vec()
	one := func(i int, fresh bool) {
		row := m.rowsOf(m.row)[i]
		VBROADCASTSD(at(m.xp, 8*m.step*i), xi)
		if m.form == stepMul {
			VBROADCASTSD(at(m.kp, 8*i), ki)
		}
		for j := range acc {
			add := func(a Op) {
				if fresh {
					VMULPD(a, xi, acc[j][i])
				} else {
					VFMADD231PD(a, xi, acc[j][i])
				}
			}
			if m.form == stepMul {
				VMULPD(kj[j], ki, y)
				VFNMADD213PD(row.Offset(8*v.w*j), m.s, y) // −s·k_i k_j + a_ij
				VMOVUPD(y, row.Offset(8*v.w*j))
				add(y)
			} else {
				add(row.Offset(8 * v.w * j))
			}
		}
	}
	// The first eight rows set the partial sums: 0 + a differs from a by the sign of 0 at most, and the
	// tree ends with + 0.
	eight := func(fresh bool) {
		for i := range 8 {
			one(i, fresh)
		}
		LEAQ(Mem{Base: m.row, Index: m.stride, Scale: 8}, m.row)
		ADDQ(U32(uint32(64*m.step)), m.xp)
		if m.form == stepMul {
			ADDQ(Imm(64), m.kp)
		}
	}
	if !m.half {
		SUBQ(Imm(8), m.left)
		JL(LabelRef(name("few")))
		eight(true)
	}
	Label(name("eight"))
	SUBQ(Imm(8), m.left)
	JL(LabelRef(name("rest")))
	eight(false)
	JMP(LabelRef(name("eight")))
	if !m.half {
		Label(name("few"))
		for j := range acc {
			for i := range acc[j] {
				v.clear(acc[j][i])
			}
		}
	}
	Label(name("rest"))
	for i := range 7 {
		CMPQ(m.left, I8(int8(i-8)))
		JLE(LabelRef(name("sum")))
		one(i, false)
	}
	Label(name("sum"))
	for j := range acc {
		v.tree(acc[j])
	}
	if m.half {
		m.sides()
	}
	for j := range acc {
		sum := acc[j][0]
		if m.form == shiftMul || m.form == stepMul {
			VFMADD213PD(side(m.hat, j), m.c, sum)
		}
		VMOVUPD(sum, side(m.dst, j))
	}
	if m.form == learnMul && v.wide {
		// x itself, from memory again: what lies beyond d is 0.
		wait := m.waits()
		for j := range acc {
			m.mix(acc[j][0], wait, j, n)
		}
	}
	ADDQ(num(8*v.w*n), m.offset)
}

// mix adds vector j of n of k to the partial sums of learn and puts x where it waits.
func (m *product) mix(k VecVirtual, wait GPVirtual, j, n int) {
	x, end := m.vec(), GP64()
	at := func(base Register) Mem { return Mem{Base: base, Index: m.offset, Scale: 1, Disp: 64 * j} }
	// Only the last vector of a row is cut off.
	mask := K()
	KXNORW(mask, mask, mask)
	if j == n-1 {
		full := fmt.Sprintf("full%d", n)
		LEAQ(Mem{Base: m.offset, Disp: 64 * (j + 1)}, end)
		CMPQ(end, m.stride)
		JL(LabelRef(full))
		KMOVW(m.tail, mask)
		Label(full)
	}
	VMOVUPD_Z(at(m.x), mask, x)
	VFMADD231PD(x, k, m.p)
	VFMADD231PD(at(m.hat), x, m.q)
	VMOVUPD(x, mask, at(wait))
	none := fmt.Sprintf("none%dof%d", j, n)
	VMOVUPD(x, at(m.tiles(none)))
	Label(none)
}

// finish is the rest of learn: the two sums, s = 1/(1 + q), and unless a number is not finite or q is
// negative, the gain and the new θ̂.
func (m *product) finish() {
	v := m.isa
	p, q := m.p, m.q
	if v.wide {
		lo, hi := ZMM(), ZMM()
		VSHUFF64X2(Imm(0x44), q, p, lo)
		VSHUFF64X2(Imm(0xee), q, p, hi)
		VADDPD(hi, lo, lo) // lanes l and l+4: of p in the lower half, of q in the upper
		VPERMPD(Imm(0x0e), lo, hi)
		VADDPD(hi, lo, lo) // and l+2, in lanes 0, 1 and 4, 5
		VPERMILPD(Imm(0x55), lo, hi)
		VADDPD(hi, lo, lo) // and l+1, in lanes 0 and 4
		v.clear(hi)
		VADDPD(hi, lo, lo)
		VEXTRACTF64X4(Imm(1), lo, hi.AsY())
		p, q = lo, hi
	} else {
		p, q = m.sums256()
	}
	one, s, e, bad := XMM(), v.vec(), v.vec(), XMM()
	bits := GP64()
	MOVQ(U64(0x3ff0000000000000), bits)
	VMOVQ(bits, one)
	VADDSD(p.AsX(), one, s.AsX())
	VDIVSD(s.AsX(), one, s.AsX())
	Load(Param("y"), e.AsX())
	VSUBSD(q.AsX(), e.AsX(), e.AsX())
	Store(p.AsX(), Return("q"))
	// p − p + e − e is 0 or NaN.
	other := XMM()
	VSUBSD(p.AsX(), p.AsX(), bad)
	VSUBSD(e.AsX(), e.AsX(), other)
	VADDSD(other, bad, bad)
	VXORPD(other, other, other)
	VUCOMISD(other, bad)
	JP(LabelRef("refuse"))
	VUCOMISD(p.AsX(), other) // 0 against q
	JHI(LabelRef("refuse"))
	Store(s.AsX(), Return("s"))
	VBROADCASTSD(s.AsX(), s)
	VBROADCASTSD(e.AsX(), e)
	gain, x, y, j := GP64(), v.vec(), v.vec(), GP64()
	MOVQ(at(m.core, coreGain), gain)
	XORQ(j, j)
	Label("move")
	VMULPD(Mem{Base: m.dst, Index: j, Scale: 1}, s, x)
	VMOVUPD(x, Mem{Base: gain, Index: j, Scale: 1})
	VMOVUPD(Mem{Base: m.hat, Index: j, Scale: 1}, y)
	VFMADD231PD(x, e, y)
	VMOVUPD(y, Mem{Base: m.hat, Index: j, Scale: 1})
	ADDQ(num(8*v.w), j)
	CMPQ(j, m.stride)
	JL(LabelRef("move"))
	VZEROUPPER()
	RET()
	Label("refuse")
	Store(other, Return("s"))
}

// sums256 goes through x again for the two sums, eight numbers at a time; sum l is in lane l mod 4 of
// the vector l/4.
func (m *product) sums256() (p, q VecVirtual) {
	v := m.isa
	p0, q0, p1, q1 := m.p, m.q, v.zero(), v.zero()
	x0, x1 := YMM(), YMM()
	wait, n, j := m.waits(), m.field(coreD), GP64()
	at := func(base Register, b int) Mem { return Mem{Base: base, Index: j, Scale: 1, Disp: b} }
	XORQ(j, j)
	Label("sums")
	SUBQ(Imm(8), n)
	JL(LabelRef("sumsRest"))
	VMOVUPD(at(m.x, 0), x0)
	VMOVUPD(at(m.x, 32), x1)
	VMOVUPD(x0, at(wait, 0))
	VMOVUPD(x1, at(wait, 32))
	both := func(name string) {
		VFMADD231PD(at(m.dst, 0), x0, p0)
		VFMADD231PD(at(m.dst, 32), x1, p1)
		VFMADD231PD(at(m.hat, 0), x0, q0)
		VFMADD231PD(at(m.hat, 32), x1, q1)
		tile := m.tiles(name)
		VMOVUPD(x0, at(tile, 0))
		VMOVUPD(x1, at(tile, 32))
		Label(name)
	}
	both("sumsNone")
	ADDQ(Imm(64), j)
	JMP(LabelRef("sums"))
	Label("sumsRest")
	ADDQ(Imm(8), n)
	JZ(LabelRef("sumsDone"))
	t, _ := v.tail(n)
	TESTQ(U32(4), n)
	JZ(LabelRef("sumsLow"))
	VMOVUPD(at(m.x, 0), x0)
	v.loadTail(t, at(m.x, 32), x1)
	VMOVUPD(x0, at(wait, 0))
	v.storeTail(t, x1, at(wait, 32))
	JMP(LabelRef("sumsBoth"))
	Label("sumsLow")
	v.loadTail(t, at(m.x, 0), x0)
	v.clear(x1)
	v.storeTail(t, x0, at(wait, 0))
	Label("sumsBoth")
	both("sumsNone2")
	Label("sumsDone")
	VADDPD(p1, p0, p0)
	VADDPD(q1, q0, q0)
	lo, hi := YMM(), YMM()
	VPERM2F128(Imm(0x20), q0, p0, lo)
	VPERM2F128(Imm(0x31), q0, p0, hi)
	VADDPD(hi, lo, lo)
	VPERMILPD(Imm(5), lo, hi)
	VADDPD(hi, lo, lo)
	v.clear(hi)
	VADDPD(hi, lo, lo)
	VEXTRACTF128(Imm(1), lo, hi.AsX())
	return lo, hi
}

// rankOne goes row by row.
func (v *isa) rankOne() {
	v.text("rankOne", "(a *float64, s float64, k *float64, d, ld int)", "is rankOne.")
	a, k, d, ld := arg("a"), arg("k"), arg("d"), arg("ld")
	s, ki, x, y := v.vec(), v.vec(), v.vec(), v.vec()
	Load(Param("s"), s.AsX())
	VBROADCASTSD(s.AsX(), s)
	kp, j := GP64(), GP64()
	MOVQ(k, kp)
	Label("row")
	VBROADCASTSD(at(kp, 0), ki)
	XORQ(j, j)
	Label("column")
	VMULPD(Mem{Base: k, Index: j, Scale: 8}, ki, x)
	VMOVUPD(at(a, 0), y)
	VFNMADD231PD(x, s, y)
	VMOVUPD(y, at(a, 0))
	ADDQ(num(8*v.w), a)
	ADDQ(num(v.w), j)
	CMPQ(j, ld)
	JL(LabelRef("column"))
	ADDQ(Imm(8), kp)
	DECQ(d)
	JNZ(LabelRef("row"))
	VZEROUPPER()
	RET()
}

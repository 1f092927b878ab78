package main

import (
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// normals writes the kernels of rng/normal.go: quantile on whole vectors.
func normals() {
	quantiles(&isa{name: "AVX512", w: 8, wide: true})
	quantiles(&isa{name: "AVX2", w: 4})
}

// quantiles follows quantile of rng/normal.go step by step. The tails are computed for all lanes as
// soon as one lane is there.
func quantiles(v *isa) {
	bits := func(x uint64) Mem {
		m, ok := constants[x]
		if !ok {
			m = GLOBL("c"+hex(x), RODATA|NOPTR)
			DATA(0, U64(x))
			constants[x] = m
		}
		return m
	}
	real := func(x float64) Mem { return bits(math.Float64bits(x)) }
	global := func(name string, i int) Mem {
		return Mem{Symbol: Symbol{Name: "·" + name}, Base: StaticBase, Disp: 8 * i}
	}
	broadcast := func(m Mem) VecVirtual {
		x := v.vec()
		VBROADCASTSD(m, x)
		return x
	}
	// Constants that are asked for before TEXT, so that the data does not stand inside it.
	quarter, edge, half, one, two := real(0.180625), real(0.425), real(0.5), real(1), real(2)
	five, sixteen, sign := real(5), real(1.6), bits(1<<63)
	shift, mantissa, root := bits(0x3ff0000000000000-0x3fe6a09e00000000), bits(1<<52-1), bits(0x3fe6a09e00000000)
	magic, bias := bits(0x4330000000000000), real(1<<52+1023)
	ln2Hi, ln2Lo := real(6.93147180369123816490e-01), real(1.90821492927058770002e-10)
	logs := []Mem{
		real(6.666666666666735130e-01), real(3.999999999940941908e-01), real(2.857142874366239149e-01), real(2.222219843214978396e-01),
		real(1.818357216161805012e-01), real(1.531383769920937332e-01), real(1.479819860511658591e-01),
	}

	// horner emits s ← s·r + c for the two polynomials of a quotient in turns and divides.
	fma := func(c Mem, r, s VecVirtual) {
		if v.wide {
			VFMADD213PD_BCST(c, r, s)
			return
		}
		VFMADD213PD(broadcast(c), r, s)
	}
	quotient := func(over, under string, r, factor VecVirtual) VecVirtual {
		a, b := broadcast(global(over, 7)), broadcast(global(under, 7))
		for i := 6; i >= 0; i-- {
			fma(global(over, i), r, a)
			fma(global(under, i), r, b)
		}
		if factor != nil {
			VMULPD(factor, a, a)
		}
		VDIVPD(b, a, a)
		return a
	}
	// less returns the mask of lanes with a < b and whether there are any, in the flags.
	type mask struct {
		k   OpmaskVirtual
		vec VecVirtual
	}
	less := func(a, b VecVirtual) mask {
		var m mask
		any := GP32()
		if v.wide {
			m.k = K()
			VCMPPD(Imm(0x11), b, a, m.k)
			KMOVW(m.k, any)
		} else {
			m.vec = YMM()
			VCMPPD(Imm(0x11), b, a, m.vec)
			VMOVMSKPD(m.vec, any)
		}
		TESTL(any, any)
		return m
	}
	blend := func(m mask, src, dst VecVirtual) {
		if v.wide {
			VMOVAPD(src, m.k, dst)
		} else {
			VBLENDVPD(m.vec, src, dst, dst)
		}
	}
	type logic func(a, b, dst Op)
	and, or, andn, xor := logic(VPAND), logic(VPOR), logic(VPANDN), logic(VPXOR)
	if v.wide {
		long := func(f func(...Op)) logic { return func(a, b, dst Op) { f(a, b, dst) } }
		and, or, andn, xor = long(VPANDQ), long(VPORQ), long(VPANDNQ), long(VPXORQ)
	}

	v.text("quantiles", "(x *float64, n int)", "is quantiles for a multiple of the vector length.")
	x, n := arg("x"), arg("n")
	Label("next")
	q := v.vec()
	VMOVUPD(at(x, 0), q)
	signs, a := broadcast(sign), v.vec()
	andn(q, signs, a) // |q|
	r := broadcast(quarter)
	VFNMADD231PD(q, q, r)
	z := quotient("ppndA", "ppndB", r, q)
	tail := less(broadcast(edge), a)
	JZ(LabelRef("store"))

	// log p, p = ½ − |q|
	p := broadcast(half)
	VSUBPD(a, p, p)
	b := broadcast(shift)
	VPADDQ(p, b, b)
	k, m := v.vec(), broadcast(mantissa)
	VPSRLQ(Imm(52), b, k)
	or(broadcast(magic), k, k)
	VSUBPD(broadcast(bias), k, k)
	and(b, m, m)
	VPADDQ(broadcast(root), m, m)
	VSUBPD(broadcast(one), m, m)
	s := broadcast(two)
	VADDPD(m, s, s)
	VDIVPD(s, m, s) // m/(2+m)
	zz := v.vec()
	VMULPD(s, s, zz)
	poly := broadcast(logs[6])
	for i := 5; i >= 0; i-- {
		fma(logs[i], zz, poly)
	}
	h := broadcast(half)
	VMULPD(m, h, h)
	VMULPD(m, h, h)
	VFMADD213PD(h, zz, poly) // poly·z + h
	t := broadcast(ln2Lo)
	VMULPD(k, t, t)
	VFMADD231PD(poly, s, t) // s·(poly·z + h) + k·ln2Lo
	VSUBPD(t, h, h)
	VSUBPD(h, m, m)
	VFMADD231PD(broadcast(ln2Hi), k, m) // log p

	xor(signs, m, m)
	VSQRTPD(m, r)
	near := v.vec()
	VSUBPD(broadcast(sixteen), r, near)
	y := quotient("ppndC", "ppndD", near, nil)
	far := less(broadcast(five), r)
	JZ(LabelRef("signs"))
	VSUBPD(broadcast(five), r, near)
	blend(far, quotient("ppndE", "ppndF", near, nil), y)
	Label("signs")
	andn(y, signs, y)
	and(q, signs, signs)
	or(signs, y, y)
	blend(tail, y, z)

	Label("store")
	VMOVUPD(z, at(x, 0))
	ADDQ(num(8*v.w), x)
	SUBQ(num(v.w), n)
	JNZ(LabelRef("next"))
	VZEROUPPER()
	RET()
}

// constants are the data words that are written already.
var constants = map[uint64]Mem{}

func hex(x uint64) string {
	const digits = "0123456789abcdef"
	s := make([]byte, 16)
	for i := range s {
		s[i] = digits[x>>(60-4*i)&15]
	}
	return string(s)
}

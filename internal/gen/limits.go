package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// limits writes the loops of internal/linalg/limits.go: what a machine can do at most.
func limits() {
	for _, v := range []*isa{{name: "AVX512", w: 8, wide: true}, {name: "AVX2", w: 4}} {
		v.multiply()
		v.read()
		v.rewrite()
	}
}

// broadcast returns a vector of one number, given as its bits.
func (v *isa) broadcast(bits uint64) VecVirtual {
	tmp, c := GP64(), v.vec()
	MOVQ(U64(bits), tmp)
	VMOVQ(tmp, c.AsX())
	VBROADCASTSD(c.AsX(), c)
	return c
}

// multiply keeps twelve chains under way: two multipliers that take four or five cycles need ten.
func (v *isa) multiply() {
	v.text("multiply", "(n int)", "does n rounds of twelve fused multiply-adds, a ← a·½ + ½.")
	n := arg("n")
	half := v.broadcast(0x3fe0000000000000)
	acc := make([]VecVirtual, 12)
	for i := range acc {
		acc[i] = v.vec()
		VMOVUPD(half, acc[i])
	}
	Label("loop")
	for _, a := range acc {
		VFMADD213PD(half, half, a)
	}
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

// lines is the number of vectors that read and rewrite take in a turn.
const lines = 8

func (v *isa) read() {
	v.text("read", "(x *float64, n int)", "loads n times 64 numbers.")
	x, n := arg("x"), arg("n")
	acc := make([]VecVirtual, lines)
	for i := range acc {
		acc[i] = v.zero()
	}
	Label("loop")
	for k := range 64 / (lines * v.w) {
		for i, a := range acc {
			VADDPD(at(x, 8*v.w*(k*lines+i)), a, a)
		}
	}
	ADDQ(num(512), x)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

func (v *isa) rewrite() {
	v.text("rewrite", "(x *float64, n int)", "loads n times 64 numbers, halves them and adds ½, and stores them.")
	x, n := arg("x"), arg("n")
	half := v.broadcast(0x3fe0000000000000)
	acc := make([]VecVirtual, lines)
	for i := range acc {
		acc[i] = v.vec()
	}
	Label("loop")
	for k := range 64 / (lines * v.w) {
		for i, a := range acc {
			VMOVUPD(at(x, 8*v.w*(k*lines+i)), a)
		}
		for _, a := range acc {
			VFMADD213PD(half, half, a)
		}
		for i, a := range acc {
			VMOVUPD(a, at(x, 8*v.w*(k*lines+i)))
		}
	}
	ADDQ(num(512), x)
	DECQ(n)
	JNZ(LabelRef("loop"))
	VZEROUPPER()
	RET()
}

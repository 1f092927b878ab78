package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// rows writes the kernels of rng.Rows: block 0 of the row layout in 16 consecutive rounds, so that
// counter word 1 counts and the others are common.
func rows() {
	iota := GLOBL("rounds", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(uint32(i)))
	}
	TEXT("rowsAVX512", NOSPLIT, "func(w *uint32, b *byte)")
	Doc("rowsAVX512 is blocks.rows.")
	out, b := arg("w"), arg("b")
	s := newKeys512(b)
	v := [4]VecVirtual{start512(b, 0, offC0), start512(b, 1, offC1), start512(b, 2, offC2), start512(b, 3, offC3)}
	VPADDD(iota, v[1], v[1])
	rounds512(s, [][4]VecVirtual{v})
	for k, word := range v {
		VMOVDQU32(word, at(out, 64*k))
	}
	VZEROUPPER()
	RET()

	TEXT("rowsAVX2", NOSPLIT, "func(w *uint32, b *byte)")
	Doc("rowsAVX2 is blocks.rows, eight lanes after eight lanes.")
	w, b := arg("w"), arg("b")
	k := newKeys256(b)
	for half := range 2 {
		v := [4]VecVirtual{YMM(), YMM(), YMM(), YMM()}
		for i, offset := range []int{offC0, offC1} {
			tmp := GP32()
			MOVL(at(b, offset), tmp)
			VMOVD(tmp, v[i].AsX())
			VPBROADCASTD(v[i].AsX(), v[i])
			VPADDD(k.at(slotK+i), v[i], v[i])
		}
		VPADDD(iota.Offset(32*half), v[1], v[1])
		VMOVDQU(k.at(slotX2), v[2])
		VMOVDQU(k.at(slotX3), v[3])
		rounds256(k, [][4]VecVirtual{v})
		for i, word := range v {
			VMOVDQU(word, at(w, 64*i+32*half))
		}
	}
	VZEROUPPER()
	RET()
}

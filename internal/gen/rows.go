package main

import (
	"math"

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

// halves writes the kernel that turns 16 blocks of words, word k of lane i at 16k + i, into 32 numbers: half of words 0
// and 1 of a lane, then of words 2 and 3, lane after lane.
func halves() {
	var order [2]Mem // of numbers of two vectors that are woven into one
	for half := range order {
		order[half] = GLOBL([]string{"weaveLow", "weaveHigh"}[half], RODATA|NOPTR)
		for i := range 8 {
			DATA(8*i, U64(uint64(4*half+i/2+i%2*8)))
		}
	}
	for _, v := range []*isa{{name: "AVX512", w: 8, wide: true}, {name: "AVX2", w: 4}} {
		v.text("halves", "(dst *float64, w *uint32)", "is weave.")
		dst, w := arg("dst"), arg("w")
		one, mid, end := v.number(0x3ff0000000000000), v.number(math.Float64bits(1.5)), v.number(math.Float64bits(0x1p-53))
		for first := 0; first < 16; first += v.w {
			var x [2]VecVirtual
			for number := range x {
				lo, hi := v.vec(), v.vec()
				VPMOVZXDQ(at(w, 128*number+4*first), lo)
				VPMOVZXDQ(at(w, 128*number+64+4*first), hi)
				VPSLLQ(Imm(32), hi, hi)
				v.or(hi, lo, lo)
				VPSRLQ(Imm(12), lo, lo)
				v.or(one, lo, lo)
				VSUBPD(mid, lo, lo)
				VADDPD(end, lo, lo)
				x[number] = lo
			}
			for half := range 2 {
				y := v.vec()
				if v.wide {
					VMOVDQU64(order[half], y)
					VPERMI2PD(x[1], x[0], y)
				} else if half == 0 {
					low, high := YMM(), YMM()
					VUNPCKLPD(x[1], x[0], low)
					VUNPCKHPD(x[1], x[0], high)
					x[0], x[1] = low, high
					VPERM2F128(Imm(0x20), high, low, y)
				} else {
					VPERM2F128(Imm(0x31), x[1], x[0], y)
				}
				VMOVUPD(y, at(dst, 16*first+8*v.w*half))
			}
		}
		VZEROUPPER()
		RET()
	}
}

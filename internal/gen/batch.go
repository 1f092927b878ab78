package main

import (
	"fmt"
	"math"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of rng.batchBlocks. All are vectors of 16 words, the upper eight under the keys of the lower.
const (
	octC0   = 0
	octC1   = 64
	octC2   = 128
	octC3   = 192
	octKey  = 256            // five vectors
	octLast = octKey + 5*64  // five vectors: what is added to word 3 after group 1, …, 5
	octAdd0 = octLast + 5*64 // added to c0 after every pass
	octAdd1 = octAdd0 + 64   // added to c1 after every pass
)

// batchKeys is where the key schedules of the lanes are.
type batchKeys struct{ b GPVirtual }

func (k batchKeys) inject(g, i int, x VecVirtual) {
	offset := octKey + 64*((g+i)%5)
	if i == 3 {
		offset = octLast + 64*(g-1)
	}
	VPADDD(at(k.b, offset), x, x)
}

// batches writes the kernels of rng/batch.go: 16 blocks side by side, each lane under a key of its own.
func batches() {
	for _, v := range []*isa{{name: "AVX512", w: 8, wide: true}, {name: "AVX2", w: 4}} {
		v.batch(false)
		v.batch(true)
		v.batchChoices()
		v.batchHalves()
	}
}

// numbers goes through the numbers of the rounds as batchWords stores them, a vector of number 0 and one of
// number 1 at a time; offset is the place of the results.
func (v *isa) numbers(words GPVirtual, body func(w [2]VecVirtual, offset GPVirtual)) {
	offset, left := GP64(), arg("rounds")
	XORQ(offset, offset)
	Label("round")
	for range 8 / v.w {
		w := [2]VecVirtual{v.vec(), v.vec()}
		for i := range w {
			if v.wide {
				VMOVDQU64(at(words, 64*i), w[i])
			} else {
				VMOVDQU(at(words, 64*i), w[i])
			}
		}
		body(w, offset)
		ADDQ(num(8*v.w), offset)
		ADDQ(num(8*v.w), words)
	}
	ADDQ(num(64), words)
	DECQ(left)
	JNZ(LabelRef("round"))
	v.done()
}

// spread returns a vector of one word.
func (v *isa) spread(word GPVirtual) VecVirtual {
	x := v.vec()
	VMOVQ(word, x.AsX())
	VPBROADCASTQ(x.AsX(), x)
	return x
}

func (v *isa) or(a, b, dst VecVirtual) {
	if v.wide {
		VPORQ(a, b, dst)
	} else {
		VPOR(a, b, dst)
	}
}

// batchChoices takes the upper half of w·n from two products of 32 bits: (w_hi·n + (w_lo·n >> 32)) >> 32.
func (v *isa) batchChoices() {
	v.text("batchChoices", "(members *int, signs *float64, words *uint64, n uint64, rounds int)",
		"is Batch.choose; n is below 2³².")
	members, signs, words := arg("members"), arg("signs"), arg("words")
	n, one, sign := v.spread(arg("n")), v.number(0x3ff0000000000000), v.number(1<<63)
	v.numbers(words, func(w [2]VecVirtual, offset GPVirtual) {
		lo, hi := v.vec(), v.vec()
		VPMULUDQ(n, w[0], lo)
		VPSRLQ(Imm(32), w[0], hi)
		VPMULUDQ(n, hi, hi)
		VPSRLQ(Imm(32), lo, lo)
		VPADDQ(lo, hi, hi)
		VPSRLQ(Imm(32), hi, hi)
		VMOVUPD(hi, Mem{Base: members, Index: offset, Scale: 1})
		VANDPD(sign, w[1], w[1])
		v.or(one, w[1], w[1])
		VMOVUPD(w[1], Mem{Base: signs, Index: offset, Scale: 1})
	})
}

func (v *isa) batchHalves() {
	v.text("batchHalves", "(dst *float64, words *uint64, rounds int)", "stores half of number 0.")
	dst, words := arg("dst"), arg("words")
	one, mid, end := v.number(0x3ff0000000000000), v.number(math.Float64bits(1.5)), v.number(math.Float64bits(0x1p-53))
	v.numbers(words, func(w [2]VecVirtual, offset GPVirtual) {
		VPSRLQ(Imm(12), w[0], w[0])
		v.or(one, w[0], w[0])
		VSUBPD(mid, w[0], w[0])
		VADDPD(end, w[0], w[0])
		VMOVUPD(w[0], Mem{Base: dst, Index: offset, Scale: 1})
	})
}

// batch emits the kernel that stores targets (law) or 64-bit numbers. A vector of AVX-512 holds the
// blocks of 16 lanes, one of AVX2 those of eight: two turns.
func (v *isa) batch(raw bool) {
	if raw {
		v.text("batchWords", "(dst *uint64, b *byte, n int)", "is batchBlocks.numbers.")
	} else {
		v.text("batchFill", "(dst *float64, stride int, b *byte, n, law int)", "is batchBlocks.fill.")
	}
	dst, b, n := arg("dst"), arg("b"), arg("n")
	tmp := GP64()
	one := v.vec()
	shift, scale := XMM(), v.vec()
	var stride GPVirtual
	if !raw {
		stride = arg("stride")
		SHLQ(Imm(3), stride)
		law := arg("law")
		// A word w becomes ((w >> shift) | low)·scale: shift 7, low 1 and scale 2⁻²⁴ for uniform numbers, 31,
		// 1 and 1 for signs, 0, 0 and 1 for the word itself.
		count, low := GP64(), GP32()
		MOVQ(U64(7), count)
		MOVQ(U64(0x3e70000000000000), tmp) // 2⁻²⁴
		MOVL(U32(1), low)
		TESTQ(law, law)
		JZ(LabelRef("set"))
		MOVQ(U64(31), count)
		MOVQ(U64(0x3ff0000000000000), tmp) // 1
		CMPQ(law, Imm(1))
		JE(LabelRef("set"))
		XORQ(count, count)
		XORL(low, low)
		Label("set")
		VMOVQ(count, shift)
		VMOVQ(tmp, scale.AsX())
		VBROADCASTSD(scale.AsX(), scale)
		VMOVD(low, one.AsX())
		VPBROADCASTD(one.AsX(), one)
	}
	add := func(m Mem, x VecVirtual) { VPADDD(m, x, x) }
	load := func(m Mem) VecVirtual {
		x := v.vec()
		if v.wide {
			VMOVDQU32(m, x)
		} else {
			VMOVDQU(m, x)
		}
		return x
	}
	copyOf := func(x VecVirtual) VecVirtual {
		y := v.vec()
		if v.wide {
			VMOVDQA32(x, y)
		} else {
			VMOVDQA(x, y)
		}
		return y
	}
	turns := GP64()
	if !v.wide {
		MOVQ(U64(2), turns)
		Label("turn")
	}
	x0, x1 := load(at(b, octC0)), load(at(b, octC1))
	add(at(b, octKey), x0)
	add(at(b, octKey+64), x1)
	out, left := GP64(), GP64()
	MOVQ(dst, out)
	MOVQ(n, left)

	pass := func(sets int) {
		var w [][4]VecVirtual
		for range sets {
			x := [4]VecVirtual{copyOf(x0), copyOf(x1), load(at(b, octC2)), load(at(b, octC3))}
			add(at(b, octKey+128), x[2])
			add(at(b, octKey+192), x[3])
			add(at(b, octAdd0), x0)
			add(at(b, octAdd1), x1)
			w = append(w, x)
		}
		if v.wide {
			rounds512(batchKeys{b}, w)
		} else {
			rounds256(batchKeys{b}, w)
		}
		for _, x := range w {
			if raw {
				// Words 0 and 1 are number 0, words 2 and 3 number 1; a round has 16 numbers.
				for number := range 2 {
					lo, hi := v.vec(), v.vec()
					for half := range 2 {
						if v.wide {
							if half == 0 {
								VPMOVZXDQ(x[2*number].AsY(), lo)
								VPMOVZXDQ(x[2*number+1].AsY(), hi)
							} else {
								a, c := YMM(), YMM()
								VEXTRACTI64X4(Imm(1), x[2*number], a)
								VEXTRACTI64X4(Imm(1), x[2*number+1], c)
								VPMOVZXDQ(a, lo)
								VPMOVZXDQ(c, hi)
							}
							VPSLLQ(Imm(32), hi, hi)
							VPORQ(hi, lo, lo)
							VMOVDQU64(lo, at(out, 128*half+64*number))
							continue
						}
						if half == 0 {
							VPMOVZXDQ(x[2*number].AsX(), lo)
							VPMOVZXDQ(x[2*number+1].AsX(), hi)
						} else {
							a := XMM()
							VEXTRACTI128(Imm(1), x[2*number], a)
							VPMOVZXDQ(a, lo)
							VEXTRACTI128(Imm(1), x[2*number+1], a)
							VPMOVZXDQ(a, hi)
						}
						VPSLLQ(Imm(32), hi, hi)
						VPOR(hi, lo, lo)
						VMOVDQU(lo, at(out, 64*number+32*half))
					}
				}
				ADDQ(U32(256), out)
				continue
			}
			p := GP64()
			MOVQ(out, p)
			for _, word := range x {
				VPSRAD(shift, word, word)
				if v.wide {
					VPORD(one, word, word)
					lo, hi, half := ZMM(), ZMM(), YMM()
					VEXTRACTI64X4(Imm(1), word, half)
					VCVTDQ2PD(word.AsY(), lo)
					VCVTDQ2PD(half, hi)
					VMULPD(scale, lo, lo)
					VMULPD(scale, hi, hi)
					VMOVUPD(lo, at(p, 0))
					VMOVUPD(hi, at(p, 64))
				} else {
					VPOR(one, word, word)
					lo, hi := YMM(), YMM()
					VEXTRACTI128(Imm(1), word, hi.AsX())
					VCVTDQ2PD(word.AsX(), lo)
					VCVTDQ2PD(hi.AsX(), hi)
					VMULPD(scale, lo, lo)
					VMULPD(scale, hi, hi)
					VMOVUPD(lo, at(p, 0))
					VMOVUPD(hi, at(p, 32))
				}
				ADDQ(stride, p)
			}
			ADDQ(U32(128), out)
		}
	}
	sizes := []int{2, 1}
	if v.wide {
		sizes = []int{4, 3, 2, 1}
	}
	if raw { // n is a multiple of 4
		sizes = sizes[:1]
	}
	for _, sets := range sizes {
		name := fmt.Sprint("sets", sets)
		Label(name)
		CMPQ(left, num(sets))
		JLT(LabelRef(name + "Done"))
		pass(sets)
		SUBQ(num(sets), left)
		JMP(LabelRef(name))
		Label(name + "Done")
	}
	if !v.wide {
		// The second turn: lanes 8 to 15 of c0 and c1.
		ADDQ(num(32), b)
		if raw {
			ADDQ(U32(128), dst)
		} else {
			ADDQ(num(64), dst)
		}
		DECQ(turns)
		JNZ(LabelRef("turn"))
	}
	VZEROUPPER()
	RET()
}

package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of rng.blocks.
const (
	offC0  = 0
	offC1  = 64
	offC2  = 128
	offC3  = 132
	offKey = 136
)

// rotations of Threefry-4x32: in round r, word 1 (in odd rounds word 3) turns by the first number
// and is mixed into word 0; word 3 (word 1) turns by the second and is mixed into word 2.
var rotations = [8][2]uint64{{10, 26}, {11, 21}, {13, 27}, {23, 5}, {6, 20}, {17, 11}, {25, 10}, {18, 20}}

// threefry writes the kernels of rng/fill.go: 16 blocks side by side, one in each 32-bit lane.
func threefry() {
	threefry512()
	threefry256()
}

// keys512 is where the numbers are that the rounds add: they are broadcast from memory as they are
// needed, which leaves the registers to the blocks.
type keys512 struct {
	b      GPVirtual
	last   Mem // five words: last[g] = k[(g+3) mod 5] + g, for the injection after group g = 1, …, 5
	offset int // of the five key words
}

func newKeys512(b GPVirtual) keys512 {
	s := keys512{b, AllocLocal(24), offKey}
	tmp := GP32()
	for g := 1; g <= 5; g++ {
		MOVL(at(b, offKey+4*((g+3)%5)), tmp)
		ADDL(U32(uint32(g)), tmp)
		MOVL(tmp, s.last.Offset(4*g-4))
	}
	return s
}

func (s keys512) key(i int) Mem { return at(s.b, s.offset+4*(i%5)) }

// start512 returns the sum of counter word i and key word i where the counter word is common.
func start512(b GPVirtual, i, offset int) VecVirtual {
	tmp, v := GP32(), ZMM()
	MOVL(at(b, offset), tmp)
	ADDL(at(b, offKey+4*i), tmp)
	VPBROADCASTD(tmp, v)
	return v
}

// first512 returns the sum of counter words i, one for each lane, and key word i.
func first512(s keys512, i, offset int) VecVirtual {
	v := ZMM()
	VMOVDQU32(at(s.b, offset), v)
	VPADDD_BCST(s.key(i), v, v)
	return v
}

// injector adds what the key schedule has after group g = 1, …, 5 to word i of the blocks x.
type injector interface {
	inject(g, i int, x VecVirtual)
}

func (s keys512) inject(g, i int, x VecVirtual) {
	m := s.key(g + i)
	if i == 3 {
		m = s.last.Offset(4*g - 4)
	}
	VPADDD_BCST(m, x, x)
}

// rounds512 emits the 20 rounds for several sets of blocks, interleaved: the instructions of a round
// of one set wait for each other.
func rounds512(s injector, sets [][4]VecVirtual) {
	for r := range 20 {
		for _, op := range round512(s, sets, r) {
			op()
		}
	}
}

// round512 lists the instructions of round r.
func round512(s injector, sets [][4]VecVirtual, r int) (ops []func()) {
	do := func(f func()) { ops = append(ops, f) }
	a, b := 1, 3
	if r%2 == 1 {
		a, b = 3, 1
	}
	rot := rotations[r%8]
	for _, x := range sets {
		do(func() { VPADDD(x[a], x[0], x[0]) })
		do(func() { VPADDD(x[b], x[2], x[2]) })
	}
	for _, x := range sets {
		do(func() { VPROLD(Imm(rot[0]), x[a], x[a]) })
		do(func() { VPROLD(Imm(rot[1]), x[b], x[b]) })
	}
	for _, x := range sets {
		do(func() { VPXORD(x[0], x[a], x[a]) })
		do(func() { VPXORD(x[2], x[b], x[b]) })
	}
	if r%4 == 3 {
		g := r/4 + 1
		for _, x := range sets {
			for i := range 4 {
				do(func() { s.inject(g, i, x[i]) })
			}
		}
	}
	return ops
}

// laneOrder is where the words of lanes 0–7 and 8–15 must stand so that unpacking them with an exponent
// gives the lanes in order.
func laneOrder() Mem {
	order := GLOBL("order", RODATA|NOPTR)
	for i := range 16 {
		DATA(4*i, U32(uint32(i/4*2+i%2+i%4/2*8)))
	}
	return order
}

// lawTable is what makes a float64 of a word w, 32 bytes for each law: bits (w AND keep) XOR flip are the low
// half of a number whose high half is the exponent, and adding the offset gives the target. Uniform: keep the
// upper 24 bits, set bit 7, turn the sign; 2²¹ + u·2⁻³¹ − (2²¹ + 1) is UniformWord. Sign: 2²² + u·2⁻³⁰ − (2²² + 2).
func lawTable() Mem {
	laws := GLOBL("laws", RODATA|NOPTR)
	for i, l := range []struct {
		keep, flip, exponent uint32
		offset               uint64
	}{
		{0xffffff00, 0x80000080, 0x41400000, 0xc140000080000000},
		{0x80000000, 0xc0000000, 0x41500000, 0xc150000080000000},
	} {
		DATA(32*i, U32(l.keep))
		DATA(32*i+4, U32(l.flip))
		DATA(32*i+8, U32(l.exponent))
		DATA(32*i+16, U64(l.offset))
	}
	return laws
}

func threefry512() {
	order, laws := laneOrder(), lawTable()
	TEXT("fillAVX512", NOSPLIT, "func(dst *float64, stride int, b *byte, n, law int)")
	Doc("fillAVX512 is blocks.kernel.")
	dst, stride, b, n, law := arg("dst"), arg("stride"), arg("b"), arg("n"), arg("law")
	SHLQ(Imm(3), stride)
	SHLQ(Imm(5), law)
	{
		base := GP64()
		LEAQ(laws, base)
		ADDQ(base, law)
	}
	s := newKeys512(b)
	keep, exponent, offset, one := ZMM(), ZMM(), ZMM(), ZMM()
	VPBROADCASTD(at(law, 0), keep)
	VPBROADCASTD(at(law, 8), exponent)
	VBROADCASTSD(at(law, 16), offset)
	tmp32 := GP32()
	MOVL(U32(1), tmp32)
	VPBROADCASTD(tmp32, one)

	x0, x1 := first512(s, 0, offC0), first512(s, 1, offC1)
	x2, x3 := start512(b, 2, offC2), start512(b, 3, offC3)
	perm := ZMM()
	VMOVDQU32(order, perm)
	VPERMD(x0, perm, x0)
	VPERMD(x1, perm, x1)

	pass := func(sets int) {
		var w [][4]VecVirtual
		for range sets {
			v := [4]VecVirtual{ZMM(), ZMM(), ZMM(), ZMM()}
			VMOVDQA32(x0, v[0])
			VMOVDQA32(x1, v[1])
			VMOVDQA32(x2, v[2])
			VMOVDQA32(x3, v[3])
			VPADDD(one, x1, x1)
			w = append(w, v)
		}
		rounds512(s, w)
		for _, v := range w {
			for _, word := range v {
				lo := ZMM()
				VPTERNLOGD_BCST(Imm(0x6a), at(law, 4), keep, word) // (word AND keep) XOR flip
				VPUNPCKLDQ(exponent, word, lo)
				VPUNPCKHDQ(exponent, word, word)
				VADDPD(offset, lo, lo)
				VADDPD(offset, word, word)
				VMOVUPD(lo, at(dst, 0))
				VMOVUPD(word, at(dst, 64))
				ADDQ(stride, dst)
			}
		}
	}

	for _, sets := range []int{4, 2, 1} {
		name := fmt.Sprint("sets", sets)
		Label(name)
		CMPQ(n, num(sets))
		JLT(LabelRef(name + "Done"))
		pass(sets)
		SUBQ(num(sets), n)
		JMP(LabelRef(name))
		Label(name + "Done")
	}
	VZEROUPPER()
	RET()

	TEXT("wordsAVX512", NOSPLIT, "func(w *uint32, b *byte)")
	Doc("wordsAVX512 is blocks.words.")
	out, b := arg("w"), arg("b")
	s = newKeys512(b)
	v := [4]VecVirtual{first512(s, 0, offC0), first512(s, 1, offC1), start512(b, 2, offC2), start512(b, 3, offC3)}
	rounds512(s, [][4]VecVirtual{v})
	for k, word := range v {
		VMOVDQU32(word, at(out, 64*k))
	}
	VZEROUPPER()
	RET()
}

// keys256 holds what the rounds add as vectors on the stack: sixteen registers are too few.
type keys256 struct {
	frame Mem
}

const (
	slotK    = 0  // 5 vectors: key words
	slotLast = 5  // 5 vectors: last[1..5]
	slotX2   = 10 // x2, x3 before the first round
	slotX3   = 11
	slotOne  = 12
	slots    = 13
)

func (s keys256) at(slot int) Mem { return s.frame.Offset(32 * slot) }

func newKeys256(b GPVirtual) keys256 {
	s := keys256{AllocLocal(32 * slots)}
	v, tmp := YMM(), GP32()
	put := func(slot int) {
		VMOVD(tmp, v.AsX())
		VPBROADCASTD(v.AsX(), v)
		VMOVDQU(v, s.at(slot))
	}
	for i := range 5 {
		MOVL(at(b, offKey+4*i), tmp)
		put(slotK + i)
	}
	for g := 1; g <= 5; g++ {
		MOVL(at(b, offKey+4*((g+3)%5)), tmp)
		ADDL(U32(uint32(g)), tmp)
		put(slotLast + g - 1)
	}
	MOVL(at(b, offC2), tmp)
	ADDL(at(b, offKey+8), tmp)
	put(slotX2)
	MOVL(at(b, offC3), tmp)
	ADDL(at(b, offKey+12), tmp)
	put(slotX3)
	MOVL(U32(1), tmp)
	put(slotOne)
	return s
}

func (s keys256) inject(g, i int, x VecVirtual) {
	slot := slotK + (g+i)%5
	if i == 3 {
		slot = slotLast + g - 1
	}
	VPADDD(s.at(slot), x, x)
}

// rounds256 emits the 20 rounds. AVX2 has no rotation: two shifts and an or.
func rounds256(s injector, sets [][4]VecVirtual) {
	tmp := YMM()
	rotate := func(x VecVirtual, by uint64) {
		VPSRLD(Imm(32-by), x, tmp)
		VPSLLD(Imm(by), x, x)
		VPOR(tmp, x, x)
	}
	for r := range 20 {
		a, b := 1, 3
		if r%2 == 1 {
			a, b = 3, 1
		}
		rot := rotations[r%8]
		for _, x := range sets {
			VPADDD(x[a], x[0], x[0])
			VPADDD(x[b], x[2], x[2])
		}
		for _, x := range sets {
			rotate(x[a], rot[0])
			rotate(x[b], rot[1])
		}
		for _, x := range sets {
			VPXOR(x[0], x[a], x[a])
			VPXOR(x[2], x[b], x[b])
		}
		if r%4 == 3 {
			g := r/4 + 1
			for _, x := range sets {
				for i := range 4 {
					s.inject(g, i, x[i])
				}
			}
		}
	}
}

func threefry256() {
	TEXT("fillAVX2", NOSPLIT, "func(dst *float64, stride int, b *byte, n, law int)")
	Doc("fillAVX2 is blocks.kernel, eight lanes after eight lanes.")
	dst, stride, b, n, law := arg("dst"), arg("stride"), arg("b"), arg("n"), arg("law")
	SHLQ(Imm(3), stride)
	s := newKeys256(b)
	shift, scale := XMM(), YMM()
	tmp := GP64()
	MOVQ(U64(7), tmp)
	VMOVQ(tmp, shift)
	MOVQ(U64(0x3e70000000000000), tmp) // 2⁻²⁴
	VMOVQ(tmp, scale.AsX())
	TESTQ(law, law)
	JZ(LabelRef("uniform"))
	MOVQ(U64(31), tmp)
	VMOVQ(tmp, shift)
	MOVQ(U64(0x3ff0000000000000), tmp) // 1
	VMOVQ(tmp, scale.AsX())
	Label("uniform")
	VBROADCASTSD(scale.AsX(), scale)

	halves := GP64()
	MOVQ(U64(2), halves)
	Label("half")
	x0, x1 := YMM(), YMM()
	VMOVDQU(s.at(slotK), x0)
	VPADDD(at(b, offC0), x0, x0)
	VMOVDQU(s.at(slotK+1), x1)
	VPADDD(at(b, offC1), x1, x1)
	out, left := GP64(), GP64()
	MOVQ(dst, out)
	MOVQ(n, left)

	pass := func(sets int) {
		var w [][4]VecVirtual
		for range sets {
			v := [4]VecVirtual{YMM(), YMM(), YMM(), YMM()}
			VMOVDQA(x0, v[0])
			VMOVDQA(x1, v[1])
			VMOVDQU(s.at(slotX2), v[2])
			VMOVDQU(s.at(slotX3), v[3])
			VPADDD(s.at(slotOne), x1, x1)
			w = append(w, v)
		}
		rounds256(s, w)
		for _, v := range w {
			for _, word := range v {
				VPSRAD(shift, word, word)
				VPOR(s.at(slotOne), word, word)
				lo, hi := YMM(), YMM()
				VEXTRACTI128(Imm(1), word, hi.AsX())
				VCVTDQ2PD(word.AsX(), lo)
				VCVTDQ2PD(hi.AsX(), hi)
				VMULPD(scale, lo, lo)
				VMULPD(scale, hi, hi)
				VMOVUPD(lo, at(out, 0))
				VMOVUPD(hi, at(out, 32))
				ADDQ(stride, out)
			}
		}
	}
	Label("two")
	CMPQ(left, Imm(2))
	JLT(LabelRef("rest"))
	pass(2)
	SUBQ(Imm(2), left)
	JMP(LabelRef("two"))
	Label("rest")
	TESTQ(left, left)
	JZ(LabelRef("next"))
	pass(1)
	Label("next")
	ADDQ(Imm(32), b) // the upper halves of c0 and c1
	ADDQ(Imm(64), dst)
	DECQ(halves)
	JNZ(LabelRef("half"))
	VZEROUPPER()
	RET()

	TEXT("wordsAVX2", NOSPLIT, "func(w *uint32, b *byte)")
	Doc("wordsAVX2 is blocks.words, eight lanes after eight lanes.")
	w, b := arg("w"), arg("b")
	s = newKeys256(b)
	for half := range 2 {
		v := [4]VecVirtual{YMM(), YMM(), YMM(), YMM()}
		VMOVDQU(s.at(slotK), v[0])
		VPADDD(at(b, offC0+32*half), v[0], v[0])
		VMOVDQU(s.at(slotK+1), v[1])
		VPADDD(at(b, offC1+32*half), v[1], v[1])
		VMOVDQU(s.at(slotX2), v[2])
		VMOVDQU(s.at(slotX3), v[3])
		rounds256(s, [][4]VecVirtual{v})
		for k, word := range v {
			VMOVDQU(word, at(w, 64*k+32*half))
		}
	}
	VZEROUPPER()
	RET()
}

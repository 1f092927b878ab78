package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// Offsets of the fields of members.counter.
const (
	tileC1  = 0
	tileC2  = 4
	tileC3  = 8
	tileKey = 12

	groupMembers = 24 // of members.tile
)

// Features that the kernel takes: two accumulators for each, and nine to eleven registers for the rest.
const (
	leastFused = 4
	mostFused  = 10
)

// fused writes the kernel of internal/members: it computes the targets of 16 members for eight rounds
// while it adds those of the eight rounds before. Integer instructions and multiply-adds are mixed one
// by one, because a processor does not look far enough ahead to mix a generator with a loop that
// follows it.
func fused() {
	order, laws := laneOrder(), lawTable()
	TEXT("addFusedAVX512", NOSPLIT, "func(tiles **byte, n, d, units int, x, u *float64, c *byte, law int)")
	Doc("addFusedAVX512 adds 8·units rounds to n tiles.")
	groups, n, d, pairs := arg("tiles"), arg("n"), arg("d"), arg("units")
	x, out, c, law := arg("x"), arg("u"), arg("c"), arg("law")
	lawOf(law, laws)
	// in and out are the targets that are added and made.
	in := GP64()
	LEAQ(at(out, 1024), in)

	perm, word1 := AllocLocal(64), AllocLocal(8)
	m := newMaker(c, law, order, perm, word1)

	// A generator makes the targets of four rounds of a group after those of four rounds before.
	type generator struct {
		w     [4]VecVirtual
		x0    Mem // word 0, one for each lane
		x1    Mem // word 1, and the same turned
		group Mem // pointer to the group's place in the list
		done  Mem // pairs of the group
		odd   int // makes rounds 4–7 of eight
	}
	end := AllocLocal(8)
	{
		t := GP64()
		LEAQ(Mem{Base: groups, Index: n, Scale: 8}, t)
		MOVQ(t, end)
	}
	begin := func(g *generator) {
		p, v, t := GP64(), ZMM(), GP32()
		MOVQ(g.group, p)
		MOVQ(at(p, 0), p)
		VMOVDQU32(perm, v)
		VPERMD(at(p, groupMembers), v, v)
		VPADDD_BCST(at(c, tileKey), v, v)
		VMOVDQU32(v, g.x0)
		MOVL(word1, t)
		ADDL(Imm(uint64(g.odd)), t)
		MOVL(t, g.x1)
		ROLL(Imm(rotations[0][0]), t)
		MOVL(t, g.x1.Offset(4))
		MOVQ(U32(0), g.done)
	}
	newGenerator := func(odd int) *generator {
		g := &generator{[4]VecVirtual{ZMM(), ZMM(), ZMM(), ZMM()}, AllocLocal(64), AllocLocal(8), AllocLocal(8), AllocLocal(8), odd}
		MOVQ(groups, g.group)
		begin(g)
		return g
	}
	// next turns to the group that follows when one is done.
	next := func(g *generator, label string) {
		t := GP64()
		MOVQ(g.done, t)
		INCQ(t)
		MOVQ(t, g.done)
		CMPQ(t, pairs)
		JLT(LabelRef(label))
		MOVQ(g.group, t)
		ADDQ(Imm(8), t)
		CMPQ(t, end)
		JGE(LabelRef(label))
		MOVQ(t, g.group)
		begin(g)
		Label(label)
	}
	// list lists the instructions that compute the targets of four rounds and store them at out.
	list := func(g *generator) []func() { return m.block(g.w, g.x0, g.x1, 2, at(out, 512*g.odd)) }
	// Two generators are at work, even half a block ahead of odd, so that there is always something to
	// compute: while eight rounds are added, odd makes rounds 4–7 of the next eight, and even the second half
	// of its rounds 0–3 and the first half of those of the eight after.
	even, odd := newGenerator(0), newGenerator(1)
	mixed(list(even), list(odd))
	next(even, "evenSecond")
	next(odd, "oddSecond")
	XCHGQ(in, out)
	half := len(list(even)) / 2
	mixed(list(even)[:half])
	stride, left := GP64(), GP64()
	MOVQ(d, stride)
	SHLQ(Imm(3), stride)
	for f := leastFused; f < mostFused; f++ {
		CMPQ(d, num(f))
		JE(LabelRef(fmt.Sprint("size", f)))
	}
	for f := mostFused; f >= leastFused; f-- {
		Label(fmt.Sprint("size", f))
		s, xp := GP64(), GP64()
		MOVQ(at(groups, 0), s)
		MOVQ(at(s, 0), s)
		acc := make([]VecVirtual, 2*f)
		for i := range acc {
			acc[i] = ZMM()
			VMOVUPD(at(s, 64*(i/2+i%2*f)), acc[i])
		}
		MOVQ(x, xp)
		MOVQ(pairs, left)
		pair := fmt.Sprint("pair", f)
		Label(pair)
		next(even, fmt.Sprint("even", f))
		var adds []func()
		for k := range 8 {
			adds = append(adds, step(acc, at(in, 128*k), xp, stride)...)
		}
		this, after := list(even), list(even)
		mixed(append(this[half:], after[:half]...), list(odd), adds)
		next(odd, fmt.Sprint("odd", f))
		XCHGQ(in, out)
		DECQ(left)
		JNZ(LabelRef(pair))
		MOVQ(at(groups, 0), s)
		MOVQ(at(s, 0), s)
		for i := range acc {
			VMOVUPD(acc[i], at(s, 64*(i/2+i%2*f)))
		}
		ADDQ(Imm(8), groups)
		CMPQ(groups, end)
		JLT(LabelRef(fmt.Sprint("size", f)))
		VZEROUPPER()
		RET()
	}
}

// lawOf turns the number of a law into the address of its row in the table.
func lawOf(law GPVirtual, laws Mem) {
	base := GP64()
	SHLQ(Imm(5), law)
	LEAQ(laws, base)
	ADDQ(base, law)
}

// maker is what the blocks of a tile have in common.
type maker struct {
	c, law GPVirtual
	keys   keys512
	common Mem // word 2, word 3, and word 3 as the second round turns it
}

// newMaker also stores the order of lanes in perm, and word 1 of the first block in word1.
func newMaker(c, law GPVirtual, order, perm, word1 Mem) maker {
	v := ZMM()
	VMOVDQU32(order, v)
	VMOVDQU32(v, perm)
	tmp := GP32()
	MOVL(at(c, tileC1), tmp)
	ADDL(at(c, tileKey+4), tmp)
	MOVL(tmp, word1)
	m := maker{c, law, keys512{c, AllocLocal(24), tileKey}, AllocLocal(16)}
	for g := 1; g <= 5; g++ {
		tmp := GP32()
		MOVL(at(c, tileKey+4*((g+3)%5)), tmp)
		ADDL(U32(uint32(g)), tmp)
		MOVL(tmp, m.keys.last.Offset(4*g-4))
	}
	// Words 2 and 3 are the same in all lanes and rounds, so the first round of Threefry makes constants of them.
	x2, x3, turned := GP32(), GP32(), GP32()
	MOVL(at(c, tileC2), x2)
	ADDL(at(c, tileKey+8), x2)
	MOVL(at(c, tileC3), x3)
	ADDL(at(c, tileKey+12), x3)
	ADDL(x3, x2)
	ROLL(Imm(rotations[0][1]), x3)
	XORL(x2, x3)
	MOVL(x3, turned)
	ROLL(Imm(rotations[1][0]), turned)
	MOVL(x2, m.common)
	MOVL(x3, m.common.Offset(4))
	MOVL(turned, m.common.Offset(8))
	return m
}

// block lists the instructions that compute the targets of four rounds and store them at out: word 0 of each lane is
// in x0, word 1 in x1, and behind it the same turned. Word 1 then goes on by a number of blocks.
func (m maker) block(w [4]VecVirtual, x0, x1 Mem, by uint64, out Mem) (ops []func()) {
	do := func(f func()) { ops = append(ops, f) }
	turn := GP32()
	do(func() { VMOVDQU32(x0, w[0]) })
	do(func() { VPADDD_BCST(x1, w[0], w[0]) })
	do(func() { VPXORD_BCST(x1.Offset(4), w[0], w[1]) })
	do(func() { VPADDD_BCST(m.common.Offset(4), w[0], w[0]) })
	do(func() { VPXORD_BCST(m.common.Offset(8), w[0], w[3]) })
	do(func() { VPADDD_BCST(m.common, w[1], w[2]) })
	do(func() { VPROLD(Imm(rotations[1][1]), w[1], w[1]) })
	do(func() { VPXORD(w[2], w[1], w[1]) })
	do(func() { MOVL(x1, turn) })
	do(func() { ADDL(Imm(by), turn) })
	do(func() { MOVL(turn, x1) })
	do(func() { ROLL(Imm(rotations[0][0]), turn) })
	do(func() { MOVL(turn, x1.Offset(4)) })
	for r := 2; r < 20; r++ {
		ops = append(ops, round512(m.keys, [][4]VecVirtual{w}, r)...)
	}
	low := []VecVirtual{ZMM(), ZMM(), ZMM(), ZMM()}
	for k, word := range w {
		to := out.Offset(128 * k)
		do(func() { VPANDD_BCST(at(m.law, 0), word, word) })
		do(func() { VPXORD_BCST(at(m.law, 4), word, word) })
		do(func() { VPUNPCKLDQ_BCST(at(m.law, 8), word, low[k]) })
		do(func() { VPUNPCKHDQ_BCST(at(m.law, 8), word, word) })
		do(func() { VADDPD_BCST(at(m.law, 16), low[k], low[k]) })
		do(func() { VMOVUPD(low[k], to) })
		do(func() { VADDPD_BCST(at(m.law, 16), word, word) })
		do(func() { VMOVUPD(word, to.Offset(64)) })
	}
	return ops
}

// mixed emits lists side by side, each evenly.
func mixed(lists ...[]func()) {
	most := 0
	for _, l := range lists {
		most = max(most, len(l))
	}
	for i := range most {
		for _, l := range lists {
			for _, op := range l[len(l)*i/most : len(l)*(i+1)/most] {
				op()
			}
		}
	}
}

// step lists the instructions that add a round: 16 targets at u, features at xp.
func step(acc []VecVirtual, u Mem, xp, stride GPVirtual) (ops []func()) {
	do := func(f func()) { ops = append(ops, f) }
	u0, u1 := ZMM(), ZMM()
	do(func() { VMOVUPD(u, u0) })
	do(func() { VMOVUPD(u.Offset(64), u1) })
	for i := range len(acc) / 2 {
		xi := ZMM()
		do(func() { VBROADCASTSD(at(xp, 8*i), xi) })
		do(func() { VFMADD231PD(xi, u0, acc[2*i]) })
		do(func() { VFMADD231PD(xi, u1, acc[2*i+1]) })
	}
	do(func() { ADDQ(stride, xp) })
	return ops
}

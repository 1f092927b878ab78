package main

import (
	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

// This file is for matrices that are larger than the first cache: AVX-512 kernels that read and write
// only the lower triangle, in blocks of 16 columns, of a matrix that stands for a symmetric one. A sum over
// features goes through rows in order, so the sums of a block of columns begin with the rows above the
// diagonal. Those numbers lie below it, as rows: eight rows at a time they are added with one partial sum in
// each lane, and turned into the eight vectors of partial sums with which the columns go on. So the order of sums is
// that of the whole matrix.

// rowsOf returns the places of eight rows from p.
func (m *product) rowsOf(p Register) [8]Mem {
	return [8]Mem{
		{Base: p}, {Base: p, Index: m.stride, Scale: 1}, {Base: p, Index: m.stride, Scale: 2}, {Base: p, Index: m.s3, Scale: 1},
		{Base: p, Index: m.stride, Scale: 4}, {Base: p, Index: m.s5, Scale: 1},
		{Base: p, Index: m.s3, Scale: 2}, {Base: p, Index: m.s7, Scale: 1},
	}
}

// above fills the partial sums of n vectors of columns with what lies above the block on the diagonal, and
// moves the row, x and k to that block.
func (m *product) above(acc [][]VecVirtual, label func(string) string) {
	// The first row of the block is number offset/8; x and k have as many bytes before the block as a row.
	MOVQ(m.offset, m.row)
	SHRQ(Imm(3), m.row)
	IMULQ(m.stride, m.row)
	ADDQ(m.a, m.row)
	MOVQ(m.x, m.xp)
	// The loop counts in memory: it has no register left.
	x, before := ZMM(), GP64()
	MOVQ(m.offset, before)
	SHRQ(Imm(6), before)
	JZ(LabelRef(label("below")))
	MOVQ(before, m.steps)
	rows := []GPVirtual{m.row}
	if len(acc) == 2 {
		rows = append(rows, GP64())
		LEAQ(Mem{Base: m.row, Index: m.stride, Scale: 8}, rows[1])
	}
	Label(label("above"))
	VMOVUPD(at(m.xp, 0), x)
	for j, p := range rows {
		for i, row := range m.rowsOf(p) {
			VFMADD231PD(row, x, acc[j][i])
		}
		ADDQ(Imm(64), p)
	}
	ADDQ(Imm(64), m.xp)
	DECQ(m.steps)
	JNZ(LabelRef(label("above")))
	for j := range acc {
		turn(acc[j])
	}
	Label(label("below"))
	before = GP64()
	MOVQ(m.offset, before)
	SHRQ(Imm(3), before)
	MOVQ(at(m.core, coreD), m.left)
	SUBQ(before, m.left)
	if m.form == stepMul {
		LEAQ(Mem{Base: m.k, Index: m.offset, Scale: 1}, m.kp)
	}
}

// turn transposes eight vectors of eight numbers.
func turn(v []VecVirtual) {
	spare := ZMM()
	// First rows in pairs: columns 0, 2, 4, 6 of rows a and b in the quarters of a, the others in b.
	for i := 0; i < 8; i += 2 {
		a, b := v[i], v[i+1]
		VUNPCKLPD(b, a, spare)
		VUNPCKHPD(b, a, b)
		VMOVAPD(spare, a)
	}
	// Quarters 0 and 2 of a and b go to a, quarters 1 and 3 to b.
	sort := func(a, b VecVirtual) {
		VSHUFF64X2(Imm(0x88), b, a, spare)
		VSHUFF64X2(Imm(0xdd), b, a, b)
		VMOVAPD(spare, a)
	}
	// Then in fours: columns c and c+4 of rows 4h, …, 4h+3 in v[4h+c].
	for h := range 2 {
		for c := range 2 {
			sort(v[4*h+c], v[4*h+c+2])
		}
	}
	for c := range 4 {
		sort(v[c], v[c+4])
	}
}

// Command gen writes the assembly of packages rng, internal/linalg and internal/members with avo:
//
//	go run . rng    > ../../rng/fill_amd64.s
//	go run . linalg > ../linalg/kernels_amd64.s
//	go run . limits > ../linalg/limits_amd64.s
//	go run . members > ../members/tile_amd64.s
//
// It is a module of its own, so that avo is a tool of this directory and no dependency of troupe.
// The output is committed; TestGenerated in each package runs this program again and compares.
package main

import (
	"fmt"
	"os"

	. "github.com/mmcloughlin/avo/build"
	. "github.com/mmcloughlin/avo/operand"
	. "github.com/mmcloughlin/avo/reg"
)

func main() {
	which := ""
	if len(os.Args) == 2 {
		which = os.Args[1]
	}
	switch which {
	case "rng":
		threefry()
		rows()
		halves()
		normals()
		batches()
	case "linalg":
		linalg()
	case "limits":
		limits()
	case "members":
		fused()
	default:
		fmt.Fprintln(os.Stderr, "usage: go run . rng|linalg|limits|members")
		os.Exit(2)
	}
	ConstraintExpr("amd64")
	Generate()
}

// arg loads an argument of the function into a register of its own.
func arg(name string) GPVirtual { return Load(Param(name), GP64()).(GPVirtual) }

// at is base + offset bytes.
func at(base Register, offset int) Mem { return Mem{Base: base, Disp: offset} }

// num is a constant in the shortest form that arithmetic instructions take.
func num(n int) Constant {
	if n < 128 {
		return U8(n)
	}
	return U32(n)
}

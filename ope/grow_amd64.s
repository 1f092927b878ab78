#include "textflag.h"

DATA one<>+0(SB)/8, $1.0
GLOBL one<>(SB), RODATA|NOPTR, $8

// 2⁻⁵⁰⁰, and j·2⁵² for j = 8 … 19: taken from the bits of t ≥ 2⁻⁵⁰⁰ they leave 2⁻ʲ·t.
DATA tiny<>+0(SB)/8, $0x20b0000000000000
GLOBL tiny<>(SB), RODATA|NOPTR, $8
DATA exponents<>+0(SB)/8, $0x0080000000000000
DATA exponents<>+8(SB)/8, $0x0090000000000000
DATA exponents<>+16(SB)/8, $0x00a0000000000000
DATA exponents<>+24(SB)/8, $0x00b0000000000000
DATA exponents<>+32(SB)/8, $0x00c0000000000000
DATA exponents<>+40(SB)/8, $0x00d0000000000000
DATA exponents<>+48(SB)/8, $0x00e0000000000000
DATA exponents<>+56(SB)/8, $0x00f0000000000000
DATA exponents<>+64(SB)/8, $0x0100000000000000
DATA exponents<>+72(SB)/8, $0x0110000000000000
DATA exponents<>+80(SB)/8, $0x0120000000000000
DATA exponents<>+88(SB)/8, $0x0130000000000000
GLOBL exponents<>(SB), RODATA|NOPTR, $96

// STEP is p *= 1 + λ·t for four steps, each operation rounded as Go does.
#define STEP(at, p) \
	VMULPD at(BX), Y0, Y2 \
	VADDPD Y1, Y2, Y2     \
	VMULPD p, Y2, p

// func growAVX2(p, l *[steps]float64, t *float64, stride, n int)
TEXT ·growAVX2(SB), NOSPLIT, $0-40
	MOVQ         p+0(FP), AX
	MOVQ         l+8(FP), BX
	MOVQ         t+16(FP), CX
	MOVQ         stride+24(FP), DX
	MOVQ         n+32(FP), SI
	SHLQ         $3, DX
	VBROADCASTSD one<>(SB), Y1
	VMOVUPD      0(AX), Y3
	VMOVUPD      32(AX), Y4
	VMOVUPD      64(AX), Y5
	VMOVUPD      96(AX), Y6
	VMOVUPD      128(AX), Y7

loop:
	VBROADCASTSD (CX), Y0
	STEP(0, Y3)
	STEP(32, Y4)
	STEP(64, Y5)
	STEP(96, Y6)
	STEP(128, Y7)
	ADDQ DX, CX
	DECQ SI
	JNZ  loop

	VMOVUPD Y3, 0(AX)
	VMOVUPD Y4, 32(AX)
	VMOVUPD Y5, 64(AX)
	VMOVUPD Y6, 96(AX)
	VMOVUPD Y7, 128(AX)
	VZEROUPPER
	RET

// BYFMA is p *= 1 + λ·t: λ is a power of two, so λ·t is exact and one rounding is that of the sum.
#define BYFMA(l, p) \
	VMOVAPD     Y1, Y2     \
	VFMADD231PD l, Y0, Y2  \
	VMULPD      p, Y2, p

// BYBITS is the same with λ·t from the bits of t, on the units that FMA leaves free.
#define BYBITS(e, p) \
	VPSUBQ e, Y0, Y2  \
	VADDPD Y1, Y2, Y2 \
	VMULPD p, Y2, p

// func growSmallAVX2(p, l *[steps]float64, t *float64, stride, n int)
TEXT ·growSmallAVX2(SB), NOSPLIT, $0-40
	MOVQ         p+0(FP), AX
	MOVQ         l+8(FP), BX
	MOVQ         t+16(FP), CX
	MOVQ         stride+24(FP), DX
	MOVQ         n+32(FP), SI
	SHLQ         $3, DX
	VBROADCASTSD one<>(SB), Y1
	VBROADCASTSD tiny<>(SB), Y13
	VMOVUPD      0(BX), Y8
	VMOVUPD      32(BX), Y9
	VMOVDQU      exponents<>+0(SB), Y10
	VMOVDQU      exponents<>+32(SB), Y11
	VMOVDQU      exponents<>+64(SB), Y12
	VMOVUPD      0(AX), Y3
	VMOVUPD      32(AX), Y4
	VMOVUPD      64(AX), Y5
	VMOVUPD      96(AX), Y6
	VMOVUPD      128(AX), Y7

small:
	VBROADCASTSD (CX), Y0
	VMAXPD       Y13, Y0, Y0 // 1 + λ·2⁻⁵⁰⁰ is 1
	BYFMA(Y8, Y3)
	BYBITS(Y10, Y5)
	BYFMA(Y9, Y4)
	BYBITS(Y11, Y6)
	BYBITS(Y12, Y7)
	ADDQ         DX, CX
	DECQ         SI
	JNZ          small

	VMOVUPD Y3, 0(AX)
	VMOVUPD Y4, 32(AX)
	VMOVUPD Y5, 64(AX)
	VMOVUPD Y6, 96(AX)
	VMOVUPD Y7, 128(AX)
	VZEROUPPER
	RET

// MOST leaves the largest of Y4 and X5 in X4.
#define MOST \
	VEXTRACTF128 $1, Y4, X6 \
	VMAXPD X6, X4, X4       \
	VPERMILPD $1, X4, X6    \
	VMAXSD X6, X4, X4       \
	VMAXSD X5, X4, X4

// func shiftAVX2(rows, terms, shift *float64, events *int, n int) (most float64)
TEXT ·shiftAVX2(SB), NOSPLIT, $0-48
	MOVQ    rows+0(FP), AX
	MOVQ    terms+8(FP), BX
	MOVQ    shift+16(FP), CX
	MOVQ    events+24(FP), SI
	MOVQ    n+32(FP), DI
	VMOVUPD (CX), Y1
	VMOVSD  32(CX), X2
	VXORPD  Y3, Y3, Y3
	VXORPD  Y4, Y4, Y4
	VXORPD  Y5, Y5, Y5

one:
	MOVQ    (SI), DX
	LEAQ    (DX)(DX*4), DX
	VADDPD  (BX)(DX*8), Y1, Y6
	VMAXPD  Y3, Y6, Y6
	VMOVUPD Y6, (AX)
	VMAXPD  Y6, Y4, Y4
	VADDSD  32(BX)(DX*8), X2, X7
	VMAXSD  X3, X7, X7
	VMOVSD  X7, 32(AX)
	VMAXSD  X7, X5, X5
	ADDQ    $40, AX
	ADDQ    $8, SI
	DECQ    DI
	JNZ     one
	MOST
	VMOVSD  X4, most+40(FP)
	VZEROUPPER
	RET

// func duelAVX2(rows, lo, up, shift *float64, events *int, n int) (most float64)
TEXT ·duelAVX2(SB), NOSPLIT, $0-56
	MOVQ         rows+0(FP), AX
	MOVQ         lo+8(FP), BX
	MOVQ         up+16(FP), R8
	MOVQ         shift+24(FP), CX
	MOVQ         events+32(FP), SI
	MOVQ         n+40(FP), DI
	VBROADCASTSD one<>(SB), Y8
	VMOVUPD      (CX), Y1
	VMOVSD       32(CX), X2
	VXORPD       Y3, Y3, Y3
	VXORPD       Y4, Y4, Y4
	VXORPD       Y5, Y5, Y5

two:
	MOVQ    (SI), DX
	LEAQ    (DX)(DX*4), DX
	VMOVUPD (BX)(DX*8), Y6
	VADDPD  (R8)(DX*8), Y6, Y6
	VSUBPD  Y8, Y6, Y6
	VADDPD  Y1, Y6, Y6
	VMAXPD  Y3, Y6, Y6
	VMOVUPD Y6, (AX)
	VMAXPD  Y6, Y4, Y4
	VMOVSD  32(BX)(DX*8), X7
	VADDSD  32(R8)(DX*8), X7, X7
	VSUBSD  X8, X7, X7
	VADDSD  X2, X7, X7
	VMAXSD  X3, X7, X7
	VMOVSD  X7, 32(AX)
	VMAXSD  X7, X5, X5
	ADDQ    $40, AX
	ADDQ    $8, SI
	DECQ    DI
	JNZ     two
	MOST
	VMOVSD  X4, most+48(FP)
	VZEROUPPER
	RET

#include "textflag.h"

DATA one<>+0(SB)/8, $1.0
GLOBL one<>(SB), RODATA|NOPTR, $8

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

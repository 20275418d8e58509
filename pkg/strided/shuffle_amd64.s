#include "textflag.h"

// func hasSSSE3() bool
TEXT ·hasSSSE3(SB), NOSPLIT, $0-1
	MOVL $1, AX
	XORL CX, CX
	CPUID
	SHRL $9, CX
	ANDL $1, CX
	MOVB CX, ret+0(FP)
	RET

// func shuffle(dst, src unsafe.Pointer, bytes int, order *[16]byte)
TEXT ·shuffle(SB), NOSPLIT, $0-32
	MOVQ  dst+0(FP), DI
	MOVQ  src+8(FP), SI
	MOVQ  bytes+16(FP), CX
	MOVQ  order+24(FP), AX
	MOVOU (AX), X0
	XORQ  BX, BX

next:
	MOVOU  (SI)(BX*1), X1
	MOVOU  16(SI)(BX*1), X2
	MOVOU  32(SI)(BX*1), X3
	MOVOU  48(SI)(BX*1), X4
	PSHUFB X0, X1
	PSHUFB X0, X2
	PSHUFB X0, X3
	PSHUFB X0, X4
	MOVOU  X1, (DI)(BX*1)
	MOVOU  X2, 16(DI)(BX*1)
	MOVOU  X3, 32(DI)(BX*1)
	MOVOU  X4, 48(DI)(BX*1)
	ADDQ   $64, BX
	CMPQ   BX, CX
	JLT    next
	RET

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

// func hasAVX() bool
TEXT ·hasAVX(SB), NOSPLIT, $0-1
	MOVB $0, ret+0(FP)
	MOVL $1, AX
	XORL CX, CX
	CPUID
	ANDL $0x18000000, CX
	CMPL CX, $0x18000000
	JNE  none
	XORL CX, CX
	XGETBV
	ANDL $6, AX
	CMPL AX, $6
	JNE  none
	MOVB $1, ret+0(FP)

none:
	RET

// func moveRows(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, size int)
// The last 32 bytes of a row, R11 bytes behind its first, are moved by themselves: they may overlap those before.
TEXT ·moveRows(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ dstStep+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ srcStep+24(FP), R9
	MOVQ rows+32(FP), R10
	MOVQ size+40(FP), R11
	SUBQ $32, R11
	LEAQ -96(R11), R12

row:
	VMOVDQU (SI)(R11*1), Y4
	XORQ    BX, BX
	CMPQ    BX, R12
	JGT     rest

four:
	VMOVDQU (SI)(BX*1), Y0
	VMOVDQU 32(SI)(BX*1), Y1
	VMOVDQU 64(SI)(BX*1), Y2
	VMOVDQU 96(SI)(BX*1), Y3
	VMOVDQU Y0, (DI)(BX*1)
	VMOVDQU Y1, 32(DI)(BX*1)
	VMOVDQU Y2, 64(DI)(BX*1)
	VMOVDQU Y3, 96(DI)(BX*1)
	ADDQ    $128, BX
	CMPQ    BX, R12
	JLE     four

rest:
	CMPQ    BX, R11
	JGE     last
	VMOVDQU (SI)(BX*1), Y0
	VMOVDQU Y0, (DI)(BX*1)
	ADDQ    $32, BX
	JMP     rest

last:
	VMOVDQU Y4, (DI)(R11*1)
	ADDQ    R8, DI
	ADDQ    R9, SI
	DECQ    R10
	JNZ     row
	VZEROUPPER
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

// func shuffleDown(dst, src unsafe.Pointer, bytes int, order *[16]byte)
TEXT ·shuffleDown(SB), NOSPLIT, $0-32
	MOVQ  dst+0(FP), DI
	MOVQ  src+8(FP), SI
	MOVQ  bytes+16(FP), CX
	MOVQ  order+24(FP), AX
	MOVOU (AX), X0

next:
	MOVOU  -16(SI), X1
	MOVOU  -32(SI), X2
	MOVOU  -48(SI), X3
	MOVOU  -64(SI), X4
	PSHUFB X0, X1
	PSHUFB X0, X2
	PSHUFB X0, X3
	PSHUFB X0, X4
	MOVOU  X1, (DI)
	MOVOU  X2, 16(DI)
	MOVOU  X3, 32(DI)
	MOVOU  X4, 48(DI)
	SUBQ   $64, SI
	ADDQ   $64, DI
	SUBQ   $64, CX
	JNE    next
	RET

// Each copies every second item of src, until dst has so many bytes: a multiple of 32, and not 0. It takes the items that
// stay from two vectors at once, as SHUFPS's constant says.
#define EVERY_SECOND(stay) \
next: \
	MOVUPS (SI), X0; \
	MOVUPS 16(SI), X1; \
	MOVUPS 32(SI), X2; \
	MOVUPS 48(SI), X3; \
	SHUFPS stay, X1, X0; \
	SHUFPS stay, X3, X2; \
	MOVUPS X0, (DI); \
	MOVUPS X2, 16(DI); \
	ADDQ   $64, SI; \
	ADDQ   $32, DI; \
	SUBQ   $32, CX; \
	JNE    next

// func everySecond4(dst, src unsafe.Pointer, bytes int)
TEXT ·everySecond4(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ bytes+16(FP), CX
	EVERY_SECOND($0x88)
	RET

// func everySecond8(dst, src unsafe.Pointer, bytes int)
TEXT ·everySecond8(SB), NOSPLIT, $0-24
	MOVQ dst+0(FP), DI
	MOVQ src+8(FP), SI
	MOVQ bytes+16(FP), CX
	EVERY_SECOND($0x44)
	RET

// Each transposes blocks of 16 bytes by as many rows of src as these have items, one block after another along the rows,
// so that each cache line is read at once. The lines of the next rows are fetched meanwhile: memory that is not in the
// cache takes a quarter longer without. R12 and R13 are three steps.

// func transpose2(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)
TEXT ·transpose2(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ dstStep+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ srcStep+24(FP), R9
	MOVQ columns+40(FP), R11
	LEAQ (R8)(R8*2), R12
	LEAQ (R9)(R9*2), R13

columns2:
	MOVQ DI, DX
	MOVQ SI, BX
	MOVQ rows+32(FP), R10

block2:
	LEAQ       (BX)(R9*8), AX
	LEAQ       (AX)(R9*4), CX
	PREFETCHT0 (AX)
	PREFETCHT0 (AX)(R9*1)
	PREFETCHT0 (AX)(R9*2)
	PREFETCHT0 (AX)(R13*1)
	PREFETCHT0 (CX)
	PREFETCHT0 (CX)(R9*1)
	PREFETCHT0 (CX)(R9*2)
	PREFETCHT0 (CX)(R13*1)
	LEAQ       (BX)(R9*4), CX
	MOVOU      (BX), X0
	MOVOU      (BX)(R9*1), X1
	MOVOU      (BX)(R9*2), X2
	MOVOU      (BX)(R13*1), X3
	MOVOU      (CX), X4
	MOVOU      (CX)(R9*1), X5
	MOVOU      (CX)(R9*2), X6
	MOVOU      (CX)(R13*1), X7
	MOVO       X0, X8
	PUNPCKLWL  X1, X0
	PUNPCKHWL  X1, X8
	MOVO       X2, X9
	PUNPCKLWL  X3, X2
	PUNPCKHWL  X3, X9
	MOVO       X4, X10
	PUNPCKLWL  X5, X4
	PUNPCKHWL  X5, X10
	MOVO       X6, X11
	PUNPCKLWL  X7, X6
	PUNPCKHWL  X7, X11
	MOVO       X0, X1
	PUNPCKLLQ  X2, X0
	PUNPCKHLQ  X2, X1
	MOVO       X4, X3
	PUNPCKLLQ  X6, X4
	PUNPCKHLQ  X6, X3
	MOVO       X8, X5
	PUNPCKLLQ  X9, X8
	PUNPCKHLQ  X9, X5
	MOVO       X10, X7
	PUNPCKLLQ  X11, X10
	PUNPCKHLQ  X11, X7
	MOVO       X0, X2
	PUNPCKLQDQ X4, X2
	PUNPCKHQDQ X4, X0
	MOVO       X1, X6
	PUNPCKLQDQ X3, X6
	PUNPCKHQDQ X3, X1
	MOVO       X8, X9
	PUNPCKLQDQ X10, X9
	PUNPCKHQDQ X10, X8
	MOVO       X5, X11
	PUNPCKLQDQ X7, X11
	PUNPCKHQDQ X7, X5
	LEAQ       (DX)(R8*4), AX
	MOVOU      X2, (DX)
	MOVOU      X0, (DX)(R8*1)
	MOVOU      X6, (DX)(R8*2)
	MOVOU      X1, (DX)(R12*1)
	MOVOU      X9, (AX)
	MOVOU      X8, (AX)(R8*1)
	MOVOU      X11, (AX)(R8*2)
	MOVOU      X5, (AX)(R12*1)
	LEAQ       (DX)(R8*8), DX
	ADDQ       $16, BX
	SUBQ       $8, R10
	JNZ        block2
	ADDQ       $16, DI
	LEAQ       (SI)(R9*8), SI
	SUBQ       $8, R11
	JNZ        columns2
	RET

// func transpose4(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)
TEXT ·transpose4(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ dstStep+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ srcStep+24(FP), R9
	MOVQ columns+40(FP), R11
	LEAQ (R8)(R8*2), R12
	LEAQ (R9)(R9*2), R13

columns4:
	MOVQ DI, DX
	MOVQ SI, BX
	MOVQ rows+32(FP), R10

block4:
	LEAQ       (BX)(R9*4), CX
	PREFETCHT0 (CX)
	PREFETCHT0 (CX)(R9*1)
	PREFETCHT0 (CX)(R9*2)
	PREFETCHT0 (CX)(R13*1)
	MOVOU      (BX), X0
	MOVOU      (BX)(R9*1), X1
	MOVOU      (BX)(R9*2), X2
	MOVOU      (BX)(R13*1), X3
	MOVO       X0, X4
	PUNPCKLLQ  X1, X0
	PUNPCKHLQ  X1, X4
	MOVO       X2, X5
	PUNPCKLLQ  X3, X2
	PUNPCKHLQ  X3, X5
	MOVO       X0, X6
	PUNPCKLQDQ X2, X6
	PUNPCKHQDQ X2, X0
	MOVO       X4, X7
	PUNPCKLQDQ X5, X7
	PUNPCKHQDQ X5, X4
	MOVOU      X6, (DX)
	MOVOU      X0, (DX)(R8*1)
	MOVOU      X7, (DX)(R8*2)
	MOVOU      X4, (DX)(R12*1)
	LEAQ       (DX)(R8*4), DX
	ADDQ       $16, BX
	SUBQ       $4, R10
	JNZ        block4
	ADDQ       $16, DI
	LEAQ       (SI)(R9*4), SI
	SUBQ       $4, R11
	JNZ        columns4
	RET

// func transpose8(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)
TEXT ·transpose8(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ dstStep+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ srcStep+24(FP), R9
	MOVQ columns+40(FP), R11

columns8:
	MOVQ DI, DX
	MOVQ SI, BX
	MOVQ rows+32(FP), R10

block8:
	LEAQ       (BX)(R9*2), CX
	PREFETCHT0 (CX)
	PREFETCHT0 (CX)(R9*1)
	MOVOU      (BX), X0
	MOVOU      (BX)(R9*1), X1
	MOVO       X0, X2
	PUNPCKLQDQ X1, X0
	PUNPCKHQDQ X1, X2
	MOVOU      X0, (DX)
	MOVOU      X2, (DX)(R8*1)
	LEAQ       (DX)(R8*2), DX
	ADDQ       $16, BX
	SUBQ       $2, R10
	JNZ        block8
	ADDQ       $16, DI
	LEAQ       (SI)(R9*2), SI
	SUBQ       $2, R11
	JNZ        columns8
	RET

// func transpose16(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)
TEXT ·transpose16(SB), NOSPLIT, $0-48
	MOVQ dst+0(FP), DI
	MOVQ dstStep+8(FP), R8
	MOVQ src+16(FP), SI
	MOVQ srcStep+24(FP), R9
	MOVQ columns+40(FP), R11

columns16:
	MOVQ DI, DX
	MOVQ SI, BX
	MOVQ rows+32(FP), R10

block16:
	PREFETCHT0 (BX)(R9*1)
	MOVOU      (BX), X0
	MOVOU      X0, (DX)
	ADDQ       R8, DX
	ADDQ       $16, BX
	DECQ       R10
	JNZ        block16
	ADDQ       $16, DI
	ADDQ       R9, SI
	DECQ       R11
	JNZ        columns16
	RET

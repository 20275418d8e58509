package strided

import (
	"sync"
	"unsafe"
)

var (
	// canShuffle is asked when it is first needed: on a virtual machine CPUID takes 20 us.
	canShuffle = sync.OnceValue(hasSSSE3)

	orders = [...][16]byte{ // of the bytes of words of 2, 4 and 8 bytes
		{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14},
		{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12},
		{7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8},
	}
)

// hasSSSE3 says whether the processor has the instruction PSHUFB.
func hasSSSE3() bool

// shuffle copies so many bytes, a multiple of 64 and not 0, and puts each 16 of them into the given order.
//
//go:noescape
func shuffle(dst, src unsafe.Pointer, bytes int, order *[16]byte)

// swappedVectors copies words that lie side by side, by PSHUFB: Go's own instructions, 8 bytes at once, take up to twice as
// long. It returns how many bytes it has copied: a multiple of 64.
func swappedVectors[T uint16 | uint32 | uint64](dst, src unsafe.Pointer, bytes int) int {
	if !canShuffle() {
		return 0
	}
	var word T
	order := &orders[unsafe.Sizeof(word)/4] // 0, 1 or 2
	at, end := 0, bytes&^63
	for at < end {
		n := min(end-at, runBytes) // Go's scheduler can't interrupt assembly
		shuffle(unsafe.Add(dst, at), unsafe.Add(src, at), n, order)
		at += n
	}
	return at
}

//go:noescape
func everySecond4(dst, src unsafe.Pointer, bytes int)

//go:noescape
func everySecond8(dst, src unsafe.Pointer, bytes int)

// everySecond copies items that lie two apart, as the real parts of complex numbers do, where they have 4 or 8 bytes. Go's
// own instructions take up to twice as long. It reads what lies between them, too, so it leaves the last ones to the caller,
// and returns how many it has copied.
func everySecond(dst, src unsafe.Pointer, items, size int) int {
	if size != 4 && size != 8 {
		return 0
	}
	at, end := 0, (items-1)*size&^31
	for at < end {
		n := min(end-at, runBytes) // Go's scheduler can't interrupt assembly
		if size == 4 {
			everySecond4(unsafe.Add(dst, at), unsafe.Add(src, 2*at), n)
		} else {
			everySecond8(unsafe.Add(dst, at), unsafe.Add(src, 2*at), n)
		}
		at += n
	}
	return at / size
}

// The transposeN write items of N bytes to dst, where they have so many rows and columns, each a multiple of 16/N and not
// 0. What is a row there is a column in src. The steps, in bytes, lead from row to row; a row's items lie side by side.
//
//go:noescape
func transpose2(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)

//go:noescape
func transpose4(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)

//go:noescape
func transpose8(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)

//go:noescape
func transpose16(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)

// canTranspose says whether transposeVectors knows items of this size.
func canTranspose(size int) bool { return size == 2 || size == 4 || size == 8 || size == 16 }

// transposeVectors transposes as many of so many rows and columns as make whole blocks, and returns how many these are.
// Go's own instructions, item by item, take twice as long.
func transposeVectors(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns, size int) (int, int) {
	block := 16 / size
	rows, columns = rows-rows%block, columns-columns%block
	switch {
	case rows == 0 || columns == 0:
		return 0, 0
	case size == 2:
		transpose2(dst, dstStep, src, srcStep, rows, columns)
	case size == 4:
		transpose4(dst, dstStep, src, srcStep, rows, columns)
	case size == 8:
		transpose8(dst, dstStep, src, srcStep, rows, columns)
	default:
		transpose16(dst, dstStep, src, srcStep, rows, columns)
	}
	return rows, columns
}

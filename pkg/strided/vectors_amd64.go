package strided

import (
	"math/bits"
	"sync"
	"unsafe"
)

var (
	// These ask the processor at their first use: on a virtual machine CPUID takes 20 us.
	canShuffle  = sync.OnceValue(hasSSSE3)
	canMoveRows = sync.OnceValue(hasAVX)

	orders = [...][16]byte{ // reverse the bytes of words of 2, 4 and 8 bytes
		{1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14},
		{3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12},
		{7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8},
	}
	downOrders = [...][16]byte{ // reverse the order of items of 1, 2, 4 and 8 bytes
		{15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0},
		{14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1},
		{12, 13, 14, 15, 8, 9, 10, 11, 4, 5, 6, 7, 0, 1, 2, 3},
		{8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7},
	}
)

// hasAVX reports whether the processor and the system support AVX, vectors of 32 bytes.
func hasAVX() bool

// moveRows copies `rows` rows, at least 1, of `size` bytes, at least 32.
//
//go:noescape
func moveRows(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, size int)

// rowVectors copies rows of 32 to 2048 bytes. Go's memmove, row by row, takes four times as long for 32 bytes, and a
// tenth longer for 2048. rowVectors returns false if it copied nothing.
func rowVectors(dst, src unsafe.Pointer, rows dim, size int) bool {
	if size < 32 || size > 2048 || !canMoveRows() {
		return false
	}
	most := runBytes / size // Go's scheduler can't interrupt assembly
	for i := 0; i < rows.N; i += most {
		to, from := unsafe.Add(dst, i*rows.Dst), unsafe.Add(src, i*rows.Src)
		moveRows(to, rows.Dst, from, rows.Src, min(most, rows.N-i), size)
	}
	return true
}

// hasSSSE3 reports whether the processor has the instruction PSHUFB.
func hasSSSE3() bool

// shuffle copies `bytes` bytes, a multiple of 64 and not 0. It puts the bytes of each group of 16 into the given order.
//
//go:noescape
func shuffle(dst, src unsafe.Pointer, bytes int, order *[16]byte)

// swappedVectors copies words that lie side by side, and reverses their bytes, with PSHUFB. Go's own instructions, 8
// bytes at once, take up to twice as long. It returns the number of bytes copied, a multiple of 64.
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

// shuffleDown is shuffle downwards: it copies the bytes before src, and begins with the last 16 of them.
//
//go:noescape
func shuffleDown(dst, src unsafe.Pointer, bytes int, order *[16]byte)

// downVectors copies items of 1, 2, 4 or 8 bytes that lie side by side, in reverse order; src points to the first item
// to copy, the highest one. If swapped is true, it reverses the bytes of each item. Go's own instructions take ten
// times as long for single bytes. It returns the number of items copied: as many as fill multiples of 64 bytes, or 0
// for another size.
func downVectors(dst, src unsafe.Pointer, items, size int, swapped bool) int {
	if size > 8 || size&(size-1) != 0 || items*size < 64 || !canShuffle() {
		return 0
	}
	order := &downOrders[bits.Len(uint(size))-1]
	if swapped {
		order = &downOrders[0]
	}
	at, end := 0, items*size&^63
	for at < end {
		n := min(end-at, runBytes) // Go's scheduler can't interrupt assembly
		shuffleDown(unsafe.Add(dst, at), unsafe.Add(src, size-at), n, order)
		at += n
	}
	return at / size
}

//go:noescape
func everySecond4(dst, src unsafe.Pointer, bytes int)

//go:noescape
func everySecond8(dst, src unsafe.Pointer, bytes int)

// everySecond copies items of 4 or 8 bytes that lie two apart, as the real parts of complex numbers do. Go's own
// instructions take up to twice as long. It also reads the items between them, so it leaves the last ones to the
// caller. It returns the number of items copied.
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

// transpose2, transpose4, transpose8 and transpose16 write a matrix of items of N = 2, 4, 8 or 16 bytes to dst. Its
// rows are columns of src. rows and columns are multiples of 16/N and not 0. The steps are the bytes from row to row;
// the items of a row lie side by side.
//
//go:noescape
func transpose2(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)

//go:noescape
func transpose4(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)

//go:noescape
func transpose8(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)

//go:noescape
func transpose16(dst unsafe.Pointer, dstStep int, src unsafe.Pointer, srcStep, rows, columns int)

// canTranspose reports whether transposeVectors accepts items of this size.
func canTranspose(size int) bool { return size == 2 || size == 4 || size == 8 || size == 16 }

// transposeVectors transposes whole blocks, and returns how many of the rows and columns these cover. Go's own
// instructions, item by item, take twice as long.
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

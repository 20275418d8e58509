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

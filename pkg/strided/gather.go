package strided

import (
	"math/bits"
	"unsafe"
)

// gather copies outer.n rows of inner.n items, compact in the destination, of size bytes each. All the memory that a
// copy touches, it touches here. Pointers are made from a row's first item and an offset, never stepped: one past the
// last item may point into memory that is another's.
func gather(dst, src unsafe.Pointer, outer, inner dim, size int, swapped bool) {
	switch {
	case swapped && size == 2:
		swappedWords[uint16](dst, src, outer, inner)
	case swapped && size == 4:
		swappedWords[uint32](dst, src, outer, inner)
	case swapped && size == 8:
		swappedWords[uint64](dst, src, outer, inner)
	case inner.src == size:
		runs(dst, src, outer, dim{n: 1}, size*inner.n)
	case size == 1:
		items[[1]byte](dst, src, outer, inner)
	case size == 2:
		items[[2]byte](dst, src, outer, inner)
	case size == 3:
		items[[3]byte](dst, src, outer, inner)
	case size == 4:
		items[[4]byte](dst, src, outer, inner)
	case size == 6:
		items[[6]byte](dst, src, outer, inner)
	case size == 8:
		items[[8]byte](dst, src, outer, inner)
	case size == 12:
		items[[12]byte](dst, src, outer, inner)
	case size == 16:
		items[[16]byte](dst, src, outer, inner)
	default:
		runs(dst, src, outer, inner, size)
	}
}

// items copies items of a size that the compiler knows, so that it moves each with an instruction or two. Not inlined:
// in gather, which then has ten such loops, the compiler runs out of registers.
//
//go:noinline
func items[T any](dst, src unsafe.Pointer, outer, inner dim) {
	for i := range outer.n {
		row := unsafe.Slice((*T)(unsafe.Add(dst, i*outer.dst)), inner.n)
		from := unsafe.Add(src, i*outer.src)
		at := 0
		for j := range row {
			row[j] = *(*T)(unsafe.Add(from, at))
			at += inner.src
		}
	}
}

func swappedWords[T uint16 | uint32 | uint64](dst, src unsafe.Pointer, outer, inner dim) {
	for i := range outer.n {
		row := unsafe.Slice((*T)(unsafe.Add(dst, i*outer.dst)), inner.n)
		from := unsafe.Add(src, i*outer.src)
		at := 0
		for j := range row {
			row[j] = reverse(*(*T)(unsafe.Add(from, at)))
			at += inner.src
		}
	}
}

// reverse gives x with its bytes in the other order. The compiler keeps one case of a T.
func reverse[T uint16 | uint32 | uint64](x T) T {
	switch unsafe.Sizeof(x) {
	case 2:
		return T(bits.ReverseBytes16(uint16(x)))
	case 4:
		return T(bits.ReverseBytes32(uint32(x)))
	default:
		return T(bits.ReverseBytes64(uint64(x)))
	}
}

func runs(dst, src unsafe.Pointer, outer, inner dim, size int) {
	for i := range outer.n {
		for j := range inner.n {
			to := unsafe.Slice((*byte)(unsafe.Add(dst, i*outer.dst+j*size)), size)
			copy(to, unsafe.Slice((*byte)(unsafe.Add(src, i*outer.src+j*inner.src)), size))
		}
	}
}

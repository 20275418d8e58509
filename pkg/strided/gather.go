package strided

import (
	"math/bits"
	"unsafe"
)

// gather copies outer.n rows of inner.n items, compact in the destination. All the memory that a
// copy touches, it touches here. Pointers are made from a row's first item and an offset, never stepped: one past the
// last item may point into memory that is another's.
func (c *copier) gather(dst, src unsafe.Pointer, outer, inner dim, swapped bool) {
	switch size := c.size; {
	case swapped && size == 2:
		swappedWords[uint16](dst, src, outer, inner)
	case swapped && size == 4:
		swappedWords[uint32](dst, src, outer, inner)
	case swapped && size == 8:
		swappedWords[uint64](dst, src, outer, inner)
	case inner.src == size:
		runs(dst, src, outer, dim{n: 1}, size*inner.n, c.run)
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
		runs(dst, src, outer, inner, size, c.run)
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
		first := 0
		if inner.src == int(unsafe.Sizeof(row[0])) {
			first = swappedRun(row, from)
		}
		at := first * inner.src
		for j := first; j < len(row); j++ {
			row[j] = reverse(*(*T)(unsafe.Add(from, at)))
			at += inner.src
		}
	}
}

// swappedRun copies words that lie side by side, eight bytes at once, and gives how many it has copied: all but the
// last few. Not inlined, for its loop to have all registers.
//
//go:noinline
func swappedRun[T uint16 | uint32 | uint64](row []T, src unsafe.Pointer) int {
	eights := len(row) * int(unsafe.Sizeof(row[0])) / 8
	to, from := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(row))), eights), unsafe.Slice((*uint64)(src), eights)
	for i, x := range from {
		to[i] = reverseEach[T](x)
	}
	return eights * 8 / int(unsafe.Sizeof(row[0]))
}

// reverseEach gives x with the bytes of each of its words in the other order. The compiler keeps one case of a T.
func reverseEach[T uint16 | uint32 | uint64](x uint64) uint64 {
	var word T
	switch unsafe.Sizeof(word) {
	case 2:
		const low = 0x00FF_00FF_00FF_00FF
		return x&low<<8 | x>>8&low
	case 4:
		return bits.RotateLeft64(bits.ReverseBytes64(x), 32)
	default:
		return bits.ReverseBytes64(x)
	}
}

// reverse gives x with its bytes in the other order.
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

func runs(dst, src unsafe.Pointer, outer, inner dim, size, run int) {
	for i := range outer.n {
		for j := range inner.n {
			to := unsafe.Slice((*byte)(unsafe.Add(dst, i*outer.dst+j*size)), size)
			from := unsafe.Slice((*byte)(unsafe.Add(src, i*outer.src+j*inner.src)), size)
			for ; len(to) > run; to, from = to[run:], from[run:] {
				copy(to[:run], from)
			}
			copy(to, from)
		}
	}
}

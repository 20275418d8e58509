package strided

import (
	"math/bits"
	"unsafe"
)

// gather copies outer.N rows of inner.N items. The items of a row are compact in the destination, unless a row has one
// item. It computes each pointer from a row's first item and an offset. A pointer that steps from item to item would
// end past the last one, in memory that may belong to another object.
func (c *copier) gather(dst, src unsafe.Pointer, outer, inner dim, swapped bool) {
	switch size := c.size; {
	case swapped && size == 2:
		swapWords[uint16](dst, src, outer, inner)
	case swapped && size == 4:
		swapWords[uint32](dst, src, outer, inner)
	case swapped && size == 8:
		swapWords[uint64](dst, src, outer, inner)
	case swapped:
		swapLongWords(dst, src, outer, inner, size)
	case inner.Src == size:
		copyRuns(dst, src, outer, dim{N: 1}, size*inner.N, c.run)
	case size == 1:
		copyItems[[1]byte](dst, src, outer, inner)
	case size == 2:
		copyItems[[2]byte](dst, src, outer, inner)
	case size == 3:
		copyItems[[3]byte](dst, src, outer, inner)
	case size == 4:
		copyItems[[4]byte](dst, src, outer, inner)
	case size == 6:
		copyItems[[6]byte](dst, src, outer, inner)
	case size == 8:
		copyItems[[8]byte](dst, src, outer, inner)
	case size == 12:
		copyItems[[12]byte](dst, src, outer, inner)
	case size == 16:
		copyItems[[16]byte](dst, src, outer, inner)
	default:
		copyRuns(dst, src, outer, inner, size, c.run)
	}
}

// copyItems copies items of a size that the compiler knows, so that each takes an instruction or two. Four in a turn
// take two thirds of the time. It isn't inlined: with ten such loops in gather, the compiler would run out of
// registers.
//
//go:noinline
func copyItems[T any](dst, src unsafe.Pointer, outer, inner dim) {
	if inner.N == 1 {
		scatter[T](dst, src, outer)
		return
	}
	step := inner.Src
	for i := range outer.N {
		row := unsafe.Slice((*T)(unsafe.Add(dst, i*outer.Dst)), inner.N)
		from := unsafe.Add(src, i*outer.Src)
		at, j := 0, 0
		switch size := int(unsafe.Sizeof(row[0])); step {
		case 2 * size:
			j = everySecond(unsafe.Pointer(unsafe.SliceData(row)), from, len(row), size)
		case -size:
			j = downVectors(unsafe.Pointer(unsafe.SliceData(row)), from, len(row), size, false)
		}
		at = j * step
		for ; j < len(row)-3; j += 4 {
			four := (*[4]T)(row[j:])
			four[0] = *(*T)(unsafe.Add(from, at))
			four[1] = *(*T)(unsafe.Add(from, at+step))
			four[2] = *(*T)(unsafe.Add(from, at+2*step))
			four[3] = *(*T)(unsafe.Add(from, at+3*step))
			at += 4 * step
		}
		for ; j < len(row); j++ {
			row[j] = *(*T)(unsafe.Add(from, at))
			at += step
		}
	}
}

// scatter copies items that lie apart in the source and in the destination.
//
//go:noinline
func scatter[T any](dst, src unsafe.Pointer, items dim) {
	to, from, i := 0, 0, 0
	for ; i < items.N-3; i += 4 {
		*(*T)(unsafe.Add(dst, to)) = *(*T)(unsafe.Add(src, from))
		*(*T)(unsafe.Add(dst, to+items.Dst)) = *(*T)(unsafe.Add(src, from+items.Src))
		*(*T)(unsafe.Add(dst, to+2*items.Dst)) = *(*T)(unsafe.Add(src, from+2*items.Src))
		*(*T)(unsafe.Add(dst, to+3*items.Dst)) = *(*T)(unsafe.Add(src, from+3*items.Src))
		to, from = to+4*items.Dst, from+4*items.Src
	}
	for ; i < items.N; i++ {
		*(*T)(unsafe.Add(dst, to)) = *(*T)(unsafe.Add(src, from))
		to, from = to+items.Dst, from+items.Src
	}
}

func swapWords[T uint16 | uint32 | uint64](dst, src unsafe.Pointer, outer, inner dim) {
	var word T
	size := int(unsafe.Sizeof(word))
	for i := range outer.N {
		to, from, done := unsafe.Add(dst, i*outer.Dst), unsafe.Add(src, i*outer.Src), 0
		switch inner.Src {
		case size:
			done = swapRun[T](to, from, inner.N*size) / size
		case -size:
			done = downVectors(to, from, inner.N, size, true)
		}
		if done < inner.N {
			swapRow[T](unsafe.Add(to, done*size), unsafe.Add(from, done*inner.Src), inner.N-done, inner.Src)
		}
	}
}

// swapRow copies n words that lie `step` bytes apart, and reverses their bytes. It and swapRun aren't inlined, so
// that their loops have all registers.
//
//go:noinline
func swapRow[T uint16 | uint32 | uint64](dst, src unsafe.Pointer, n, step int) {
	at := 0
	row := unsafe.Slice((*T)(dst), n)
	for j := range row {
		row[j] = reverse(*(*T)(unsafe.Add(src, at)))
		at += step
	}
}

// swapRun copies words that lie side by side, and reverses their bytes, 32 bytes or more at once. It returns the
// number of bytes copied, a multiple of 32.
//
//go:noinline
func swapRun[T uint16 | uint32 | uint64](dst, src unsafe.Pointer, bytes int) int {
	low, at := lowBytes, swappedVectors[T](dst, src, bytes)
	for ; at+32 <= bytes; at += 32 {
		to, from := (*[4]uint64)(unsafe.Add(dst, at)), (*[4]uint64)(unsafe.Add(src, at))
		to[0] = reverseEach[T](from[0], low)
		to[1] = reverseEach[T](from[1], low)
		to[2] = reverseEach[T](from[2], low)
		to[3] = reverseEach[T](from[3], low)
	}
	return at
}

// swapLongWords copies words larger than a register, and reverses their bytes.
func swapLongWords(dst, src unsafe.Pointer, outer, inner dim, size int) {
	for i := range outer.N {
		for j := range inner.N {
			to := unsafe.Slice((*byte)(unsafe.Add(dst, i*outer.Dst+j*size)), size)
			from := unsafe.Slice((*byte)(unsafe.Add(src, i*outer.Src+j*inner.Src)), size)
			for k := range to {
				to[k] = from[size-1-k]
			}
		}
	}
}

// lowBytes masks the low byte of each word of two bytes. A constant would be loaded again for each use.
var lowBytes uint64 = 0x00FF_00FF_00FF_00FF

// reverseEach returns x with the bytes of each of its words reversed. For each T the compiler keeps one case.
func reverseEach[T uint16 | uint32 | uint64](x, low uint64) uint64 {
	var word T
	switch unsafe.Sizeof(word) {
	case 2:
		return x&low<<8 | x>>8&low
	case 4:
		return bits.RotateLeft64(bits.ReverseBytes64(x), 32)
	default:
		return bits.ReverseBytes64(x)
	}
}

// reverse returns x with its bytes reversed.
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

// copyRuns copies runs of `size` bytes, at most `run` bytes at once. It goes up in the source, since processors
// prefetch in that direction: rows in reverse order, copied downwards, take up to a third longer.
func copyRuns(dst, src unsafe.Pointer, outer, inner dim, size, run int) {
	dst, src, outer = turnUpwards(dst, src, outer)
	dst, src, inner = turnUpwards(dst, src, inner)
	if inner.N == 1 {
		outer, inner = inner, outer
	}
	for i := range outer.N {
		if rowVectors(unsafe.Add(dst, i*outer.Dst), unsafe.Add(src, i*outer.Src), inner, size) {
			continue
		}
		for j := range inner.N {
			to := unsafe.Slice((*byte)(unsafe.Add(dst, i*outer.Dst+j*inner.Dst)), size)
			from := unsafe.Slice((*byte)(unsafe.Add(src, i*outer.Src+j*inner.Src)), size)
			for ; len(to) > run; to, from = to[run:], from[run:] {
				copy(to[:run], from)
			}
			copy(to, from)
		}
	}
}

// turnUpwards reverses a dimension that goes down in the source, so that it begins with its last step.
func turnUpwards(dst, src unsafe.Pointer, d dim) (unsafe.Pointer, unsafe.Pointer, dim) {
	if d.Src >= 0 {
		return dst, src, d
	}
	last := d.N - 1
	return unsafe.Add(dst, last*d.Dst), unsafe.Add(src, last*d.Src), dim{d.N, -d.Dst, -d.Src}
}

package strided

import "unsafe"

// Unpack writes n bytes to dst, each 0 or 1 as the bits of src are, the lowest of a byte first, from bit `first` on.
//
// Like Copy it trusts its arguments: the bytes that the bits are in can be read, and dst overlaps none.
func Unpack(dst, src unsafe.Pointer, first, n int) {
	to := unsafe.Slice((*byte)(dst), n)
	from := unsafe.Slice((*byte)(src), (first+n+7)/8)
	for i := range to {
		bit := first + i
		to[i] = from[bit/8] >> (bit % 8) & 1
	}
}

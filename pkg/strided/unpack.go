package strided

import "unsafe"

// Unpack writes n bits of src to dst, as bytes of 0 or 1. The first one is bit `first`, 0 to 7, of the first byte. The
// lowest bit of a byte comes first.
//
// Like Copy, it trusts its arguments: the bytes of the bits can be read, and dst overlaps none of them.
func Unpack(dst, src unsafe.Pointer, first, n int) {
	to := unsafe.Slice((*byte)(dst), n)
	from := unsafe.Slice((*byte)(src), (first+n+7)/8)
	i := 0
	for ; i+8 < n; i += 8 { // one more bit follows, so there is a next byte
		bits := from[i/8]>>first | from[i/8+1]<<(8-first)
		// Each byte of the word gets all bits, keeps one of its own, and becomes 1 if that is set.
		own := uint64(bits) * 0x01_01_01_01_01_01_01_01 & 0x80_40_20_10_08_04_02_01
		*(*uint64)(unsafe.Add(dst, i)) = (own + 0x7F_7F_7F_7F_7F_7F_7F_7F) >> 7 & 0x01_01_01_01_01_01_01_01
	}
	for ; i < n; i++ {
		to[i] = from[(first+i)/8] >> ((first + i) % 8) & 1
	}
}

// Pack packs n bytes in place: it keeps the lowest `bits` bits of each, fewer than 8, and puts them side by side from
// the first byte on. The lowest bits of a byte come first, as DLPack packs items.
func Pack(memory unsafe.Pointer, n, bits int) {
	items := unsafe.Slice((*byte)(memory), n)
	word, filled, packed := uint(0), 0, 0
	for _, item := range items {
		word |= uint(item) & (1<<bits - 1) << filled
		if filled += bits; filled >= 8 {
			items[packed] = byte(word)
			word, filled, packed = word>>8, filled-8, packed+1
		}
	}
	if filled > 0 {
		items[packed] = byte(word)
	}
}

// Pad undoes Pack in place: each of the n items gets a byte of its own, whose other bits are 0.
func Pad(memory unsafe.Pointer, n, bits int) {
	items := unsafe.Slice((*byte)(memory), n)
	for i := n - 1; i >= 0; i-- {
		at, first := i*bits/8, i*bits%8
		word := uint(items[at])
		if first+bits > 8 {
			word |= uint(items[at+1]) << 8
		}
		items[i] = byte(word >> first & (1<<bits - 1))
	}
}

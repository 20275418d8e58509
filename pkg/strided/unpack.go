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
	items, gap := unsafe.Slice((*byte)(memory), n), 8-bits
	ones, pairs, fours := every(bits, 16), every(2*bits, 32), every(4*bits, 64)
	i, packed := 0, 0
	for ; i+8 <= n; i, packed = i+8, packed+bits { // 8 items become 4 pairs, 2 fours, one word
		x := *(*uint64)(unsafe.Add(memory, i))
		x = x&ones | x>>gap&(ones<<bits)
		x = x&pairs | x>>(2*gap)&(pairs<<(2*bits))
		x = x&fours | x>>(4*gap)&(fours<<(4*bits))
		*(*uint64)(unsafe.Add(memory, packed)) = x // ends before item i+8
	}
	x, filled := uint(0), 0
	for ; i < n; i++ {
		x |= uint(items[i]) & (1<<bits - 1) << filled
		if filled += bits; filled >= 8 {
			items[packed] = byte(x)
			x, filled, packed = x>>8, filled-8, packed+1
		}
	}
	if filled > 0 {
		items[packed] = byte(x)
	}
}

// Pad undoes Pack in place: each of the n items gets a byte of its own, whose other bits are 0.
func Pad(memory unsafe.Pointer, n, bits int) {
	items, gap := unsafe.Slice((*byte)(memory), n), 8-bits
	i := n - 1
	for ; i%8 != 7 && i >= 0; i-- {
		at, first := i*bits/8, i*bits%8
		x := uint(items[at])
		if first+bits > 8 {
			x |= uint(items[at+1]) << 8
		}
		items[i] = byte(x >> first & (1<<bits - 1))
	}
	ones, pairs, fours := every(bits, 16), every(2*bits, 32), every(4*bits, 64)
	for i -= 7; i >= 0; i -= 8 {
		x := *(*uint64)(unsafe.Add(memory, i/8*bits))
		x = x&fours | x<<(4*gap)&(fours<<32)
		x = x&pairs | x<<(2*gap)&(pairs<<16)
		*(*uint64)(unsafe.Add(memory, i)) = x&ones | x<<gap&(ones<<8)
	}
}

// every returns a mask of the lowest `bits` bits of every `width` bits.
func every(bits, width int) uint64 {
	mask := uint64(1)<<bits - 1
	for ; width < 64; width *= 2 {
		mask |= mask << width
	}
	return mask
}

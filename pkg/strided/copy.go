// Package strided copies memory that is laid out by strides, or in bits, into compact, row-major memory.
//
// A copy is planned, then walked. The plan merges dimensions that continue each other, makes a compact innermost
// dimension part of the item, and picks two dimensions for the innermost loops. These are always one kernel, gather:
// straight from source to destination, or twice, through a tile, where the source is dense in another dimension than
// the destination.
package strided

import "unsafe"

// maxDims is 64 dimensions and one for the words of an item whose bytes are swapped.
const maxDims = 65

// A dim is a dimension of a copy: n steps, each of so many bytes in the destination and in the source.
type dim struct{ n, dst, src int }

// Copy writes the items of a strided source, in row-major order and compactly, to dst.
//
// The shape has up to 64 dimensions, none of them negative. The strides are in bytes, of any sign and alignment; src
// points to the item whose indices are all 0. An item has itemSize bytes, at least 1. swap is the size in bytes of the
// words whose bytes are reversed: 2, 4 or 8 (of a complex number: its half), or 0 or 1 for none.
//
// Copy trusts its arguments: the caller has proved that all items lie in memory that is its own, and that dst, which
// holds all of them, overlaps none. Neither dst nor src need be aligned, or be memory of Go's.
func Copy(dst, src unsafe.Pointer, shape, strides []int64, itemSize int, swap int) {
	var memory [maxDims]dim
	dims, size, swapped := memory[:0], itemSize, swap > 1
	if swapped {
		dims, size = push(dims, dim{itemSize / swap, swap, swap}), swap
	}
	bytes := itemSize
	for k := len(shape) - 1; k >= 0; k-- {
		dims = push(dims, dim{int(shape[k]), bytes, int(strides[k])})
		bytes *= int(shape[k])
	}
	if bytes == 0 {
		return
	}
	if len(dims) > 0 && dims[0].src == size && !swapped {
		dims, size = dims[1:], size*dims[0].n
	}
	c := copier{outer: dim{n: 1}, inner: dim{1, size, size}, size: size, swapped: swapped}
	if len(dims) > 0 {
		c.inner, dims = dims[0], dims[1:]
	}
	if k := c.partner(dims); k >= 0 && bytes > tileBytes {
		c.outer = dims[k]
		c.walkTiled(dst, src, append(dims[:k], dims[k+1:]...))
		return
	}
	if len(dims) > 0 {
		c.outer, dims = dims[0], dims[1:]
	}
	c.walk(dst, src, dims, nil)
}

// push adds a dimension to those inside it, dims, innermost first: as one of its own, or, where each of its steps goes
// on where the last dimension ends, as more steps of that.
func push(dims []dim, d dim) []dim {
	if d.n == 1 {
		return dims
	}
	if k := len(dims) - 1; k >= 0 && d.src == dims[k].n*dims[k].src {
		dims[k].n *= d.n
		return dims
	}
	return append(dims, d)
}

// A copier is a planned copy: what the two innermost loops do.
type copier struct {
	outer, inner dim // inner is compact in the destination
	size         int // bytes of an item
	swapped      bool
}

// walk copies what dims, innermost first, and the copier's own two dimensions span; through buffer, if there is one.
func (c *copier) walk(dst, src unsafe.Pointer, dims []dim, buffer *tile) {
	k := len(dims) - 1
	switch {
	case k >= 0:
		for i := range dims[k].n {
			c.walk(unsafe.Add(dst, i*dims[k].dst), unsafe.Add(src, i*dims[k].src), dims[:k], buffer)
		}
	case buffer != nil:
		c.tiles(dst, src, buffer)
	default:
		gather(dst, src, c.outer, c.inner, c.size, c.swapped)
	}
}

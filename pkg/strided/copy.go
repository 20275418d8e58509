// Package strided copies memory that is laid out by strides, or in bits, into compact, row-major memory.
//
// [Copy] does strides of any sign and size, and swaps bytes; [Unpack] turns bits into bytes.
//
// A copy is planned, then carried out. The plan merges dimensions that continue each other, treats a short run of items
// as one item, and picks two dimensions for the innermost loops. These two are always the same code, gather: once, from
// source to destination; or twice, through a small buffer (a tile), where the source is dense in another dimension than
// the destination. A large copy is cut into pieces, which several goroutines take one after another.
package strided

import (
	"unsafe"

	"dlpack/pkg/dlpack"
)

const (
	maxDims    = dlpack.MaxNDim + 1 // one more for the words of an item whose bytes are swapped
	freshBytes = 32 << 20           // from here on C's allocator always maps new memory (mallopt(3))
	runBytes   = 256 << 10          // such memory is written in runs: more than 1 MiB at once would bypass the cache
)

// A dim is a dimension of a copy: n steps, each of so many bytes in the destination and in the source.
type dim struct{ n, dst, src int }

// Copy writes the items of a strided source, in row-major order and compactly, to dst.
//
// The shape has up to [dlpack.MaxNDim] dimensions, none of them negative. The strides are in bytes, of any sign and
// alignment; src points to the item whose indices are all 0. An item has itemSize bytes, at least 1. swap is the size
// in bytes of the words whose bytes are reversed: 2, 4, 8 or 16 (of a complex number: its half), or 0 or 1 for none.
//
// A large copy is shared by as many goroutines as there are CPUs. All are done when Copy returns. A fault in one of
// them becomes a panic of the caller, as if that had called debug.SetPanicOnFault.
//
// Copy trusts its arguments: the caller has made sure that all items can be read, and that dst has room for them and
// overlaps none. Neither dst nor src need be aligned, or be Go's memory.
func Copy(dst, src unsafe.Pointer, shape, strides []int64, itemSize, swap int) {
	var memory [maxDims]dim
	c, bytes := plan(memory[:0], shape, strides, itemSize, swap)
	if bytes == 0 {
		return
	}
	if workers := c.workers(bytes); workers > 1 {
		c.share(dst, src, workers, max(pieceBytes, bytes/(workers*workerPieces)))
		return
	}
	c.copy(dst, src)
}

// plan plans a copy, whose dimensions it appends to dims, and gives its bytes.
func plan(dims []dim, shape, strides []int64, itemSize, swap int) (c copier, bytes int) {
	size, swapped, bytes := itemSize, swap > 1, itemSize
	if swapped {
		dims, size = push(dims, dim{itemSize / swap, swap, swap}), swap
	}
	for k := len(shape) - 1; k >= 0; k-- {
		dims = push(dims, dim{int(shape[k]), bytes, int(strides[k])})
		bytes *= int(shape[k])
	}
	if len(dims) > 0 && dims[0].src == size && !swapped && size*dims[0].n <= tileBytes {
		dims, size = dims[1:], size*dims[0].n
	}
	for len(dims) < 2 {
		dims = append(dims, dim{1, bytes, bytes})
	}
	c = copier{dims: dims, size: size, run: bytes, swapped: swapped}
	if bytes >= freshBytes {
		c.run = runBytes
	}
	if k := c.partner(); k > 0 && bytes > tileBytes {
		d := dims[k]
		copy(dims[2:], dims[1:k])
		dims[1], c.tiled = d, true
	}
	return c, bytes
}

// push adds a dimension outside of dims, which has the innermost first. If each of its steps begins where the last
// dimension ends, it becomes more steps of that.
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

// A copier is a planned copy.
type copier struct {
	dims           []dim // two or more, in the order of the loops; the innermost, first, is compact in the destination
	size           int   // bytes of an item
	run            int   // bytes to move at once, at most
	swapped, tiled bool
}

func (c *copier) copy(dst, src unsafe.Pointer) {
	if c.tiled {
		c.copyTiled(dst, src)
	} else {
		c.walk(dst, src, len(c.dims), nil)
	}
}

// walk copies the first n dimensions, through buffer if there is one.
func (c *copier) walk(dst, src unsafe.Pointer, n int, buffer *tile) {
	switch {
	case n > 2:
		d := c.dims[n-1]
		for i := range d.n {
			c.walk(unsafe.Add(dst, i*d.dst), unsafe.Add(src, i*d.src), n-1, buffer)
		}
	case buffer != nil:
		c.tiles(dst, src, buffer)
	default:
		c.gather(dst, src, c.dims[1], c.dims[0], c.swapped)
	}
}

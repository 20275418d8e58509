// Package strided copies memory that is laid out by strides, or in bits.
//
// [Copy] does strides of any sign and size, and swaps bytes, into compact, row-major memory; [Into] does the same into
// memory with strides of its own; [Unpack] turns bits into bytes, [Pack] has items of less than a byte share bytes, and
// [Pad] undoes that.
//
// A copy is planned, then carried out. The plan merges dimensions that continue each other, treats a short run of items
// as one item, and picks two dimensions for the innermost loops. These two are always the same code, gather: once, from
// source to destination; or twice, through a small buffer (a tile), where the source is dense in another dimension than
// the destination. A large copy is cut into pieces, which several goroutines take one after another.
package strided

import (
	"slices"
	"unsafe"

	"dlpack/pkg/dlpack"
)

const (
	maxDims = dlpack.MaxNDim + 1 // one more for the words of an item whose bytes are swapped

	// Go moves 1 MiB and more at once by stores that bypass the cache. That takes up to twice as long where a copy fits in
	// the cache, up to cachedBytes, and where its memory is new and the kernel has just cleared it: from freshBytes on,
	// C's allocator always maps it anew (mallopt(3)). Such memory is moved in runs.
	cachedBytes = 8 << 20
	freshBytes  = 32 << 20
	runBytes    = 256 << 10
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
	c.carryOut(dst, src, bytes)
}

// Into is [Copy] to items that are laid out by strides, too: of any sign, and none 0 where a dimension has two items or
// more. dst points to the item whose indices are all 0.
func Into(dst, src unsafe.Pointer, shape, dstStrides, srcStrides []int64, itemSize, swap int) {
	if slices.Contains(shape, 0) { // dst and src need not point to an item, and no address may be computed from them
		return
	}
	var memory, pushed [maxDims]dim
	dims := memory[:0] // the innermost of the destination first, and none of its strides negative
	bytes := itemSize
	for k := len(shape) - 1; k >= 0; k-- {
		d := dim{int(shape[k]), int(dstStrides[k]), int(srcStrides[k])}
		bytes *= d.n
		if d.dst < 0 {
			dst, src = unsafe.Add(dst, (d.n-1)*d.dst), unsafe.Add(src, (d.n-1)*d.src)
			d.dst, d.src = -d.dst, -d.src
		}
		if d.n != 1 {
			dims = append(dims, d)
			for i := len(dims) - 1; i > 0 && dims[i-1].dst > d.dst; i-- {
				dims[i-1], dims[i] = dims[i], dims[i-1]
			}
		}
	}
	merged, size := words(pushed[:0], itemSize, swap)
	for _, d := range dims {
		merged = push(merged, d)
	}
	c := arrange(merged, size, bytes, swap > 1)
	c.carryOut(dst, src, bytes)
}

// carryOut copies so many bytes.
func (c *copier) carryOut(dst, src unsafe.Pointer, bytes int) {
	if bytes == 0 {
		return
	}
	if workers := c.workers(bytes); workers > 1 {
		c.share(dst, src, workers, max(pieceBytes, bytes/(workers*workerPieces)))
		return
	}
	c.copy(dst, src)
}

// plan plans a copy to compact memory, whose dimensions it appends to dims, and gives its bytes.
func plan(dims []dim, shape, strides []int64, itemSize, swap int) (c copier, bytes int) {
	dims, size := words(dims, itemSize, swap)
	bytes = itemSize
	for k := len(shape) - 1; k >= 0; k-- {
		dims = push(dims, dim{int(shape[k]), bytes, int(strides[k])})
		bytes *= int(shape[k])
	}
	c = arrange(dims, size, bytes, swap > 1)
	if bytes <= cachedBytes || bytes >= freshBytes {
		c.run = runBytes
	}
	return c, bytes
}

// words gives the size of what is moved as one: an item; or of one whose bytes are swapped a word, and then the words of
// an item are its innermost dimension.
func words(dims []dim, itemSize, swap int) ([]dim, int) {
	if swap <= 1 {
		return dims, itemSize
	}
	return push(dims, dim{itemSize / swap, swap, swap}), swap
}

// arrange picks the loops of a copy, whose dimensions are the innermost of the destination first.
func arrange(dims []dim, size, bytes int, swapped bool) copier {
	if len(dims) > 0 && dims[0].src == size && dims[0].dst == size && !swapped && size*dims[0].n <= tileBytes {
		dims, size = dims[1:], size*dims[0].n
	}
	if len(dims) > 0 && dims[0].dst != size { // rows of one item
		dims = slices.Insert(dims, 0, dim{n: 1, dst: size})
	}
	for len(dims) < 2 {
		dims = append(dims, dim{1, bytes, bytes})
	}
	c := copier{dims: dims, size: size, run: bytes, swapped: swapped}
	if k := c.partner(); k > 0 && bytes > tileBytes {
		d := dims[k]
		copy(dims[2:], dims[1:k])
		dims[1], c.tiled = d, true
	}
	return c
}

// push adds a dimension outside of dims, which has the innermost first. If each of its steps begins where the last
// dimension ends, it becomes more steps of that.
func push(dims []dim, d dim) []dim {
	if d.n == 1 {
		return dims
	}
	if k := len(dims) - 1; k >= 0 && d.src == dims[k].n*dims[k].src && d.dst == dims[k].n*dims[k].dst {
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

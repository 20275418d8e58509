// Package strided copies memory that is laid out by strides, or in bits.
//
// [Copy] copies items with strides of any sign and size to compact, row-major memory, and can swap bytes. [Into] copies
// to memory that has strides as well. [Unpack] turns bits into bytes. [Pack] makes items smaller than a byte share
// bytes, and [Pad] undoes that.
//
// A copy is planned, then carried out. The plan merges dimensions that continue each other, treats a short run of items
// as one item, and picks two dimensions for the innermost loops. The function gather runs these two loops: once, from
// source to destination, or twice, through a small buffer (a tile), if the source is dense in another dimension than
// the destination. A large copy is cut into pieces, which several goroutines take one after another.
package strided

import (
	"slices"
	"unsafe"

	"dlpack/pkg/dlpack"
)

const (
	maxDims = dlpack.MaxNDim + 2 // two more: for the words of an item if bytes are swapped, and for rows of one item
	fewDims = 6                  // few dimensions take less memory, which Go clears: this saves 40 ns

	// Go moves 1 MiB and more at once with stores that bypass the cache. They take up to twice as long in two cases: if
	// the copy fits in the cache (at most cachedBytes), or if its memory is new and the kernel has just cleared it.
	// From freshBytes on, memory from C's allocator is always new (mallopt(3)). In both cases the copy moves runs of
	// runBytes.
	cachedBytes = 8 << 20
	freshBytes  = 32 << 20
	runBytes    = 256 << 10
)

// A Dim is a dimension of a copy: N steps, of Dst bytes in the destination and Src bytes in the source.
type Dim[I int | int64] struct{ N, Dst, Src I }

type dim = Dim[int]

// Copy writes the items of a strided source to dst, compactly and in row-major order.
//
// shape has up to [dlpack.MaxNDim] dimensions, none of them negative. strides are in bytes, of any sign and alignment.
// src points to the item whose indices are all 0. An item has itemSize bytes, at least 1. swap is the size in bytes of
// the words whose bytes are reversed: 2, 4, 8 or 16 (for complex numbers, half of one), or 0 or 1 for none.
//
// Several goroutines share a large copy, at most as many as there are CPUs. All are done when Copy returns. A fault in
// one of them becomes a panic of the caller, as if the caller had called debug.SetPanicOnFault.
//
// Copy trusts its arguments. The caller ensures that all items can be read, that dst has room for them, and that dst
// overlaps none of them. dst and src may be unaligned, and may be memory that isn't Go's.
func Copy(dst, src unsafe.Pointer, shape, strides []int64, itemSize, swap int) {
	Into(dst, src, shape, nil, strides, itemSize, swap)
}

// Into is [Copy] to items that are also laid out by strides, of any sign. A stride may be 0 only if its dimension has
// at most one item. dst points to the item whose indices are all 0. Without dstStrides, dst is compact, new memory.
func Into(dst, src unsafe.Pointer, shape, dstStrides, srcStrides []int64, itemSize, swap int) {
	if slices.Contains(shape, 0) { // dst and src may point to no item: compute no address from them
		return
	}
	if len(shape) <= fewDims {
		var memory [fewDims + 2]dim
		carryOut(memory[:0], dst, src, shape, dstStrides, srcStrides, itemSize, swap)
		return
	}
	var memory [maxDims]dim
	carryOut(memory[:0], dst, src, shape, dstStrides, srcStrides, itemSize, swap)
}

func carryOut(dims []dim, dst, src unsafe.Pointer, shape, dstStrides, srcStrides []int64, itemSize, swap int) {
	var c copier
	dims, dst, src, bytes := c.plan(dims, dst, src, shape, dstStrides, srcStrides, itemSize, swap)
	c.dims = dims // set here: if a method stored it, it would be allocated
	if workers := c.workers(bytes); workers > 1 {
		c.share(dst, src, workers, max(pieceBytes, bytes/(workers*workerPieces)))
		return
	}
	c.copy(dst, src)
}

// plan plans a copy. It returns the dimensions, appended to dims, the addresses at which the copy begins, and the
// number of bytes.
func (c *copier) plan(
	dims []dim, dst, src unsafe.Pointer, shape, dstStrides, srcStrides []int64, itemSize, swap int,
) ([]dim, unsafe.Pointer, unsafe.Pointer, int) {
	dims, size := appendWords(dims, itemSize, swap)
	first, bytes := len(dims), itemSize
	for k := len(shape) - 1; k >= 0; k-- {
		d := dim{int(shape[k]), bytes, int(srcStrides[k])}
		bytes *= d.N
		if d.N == 1 {
			continue
		}
		if dstStrides != nil {
			d.Dst = int(dstStrides[k])
		}
		if d.Dst < 0 {
			dst, src = unsafe.Add(dst, (d.N-1)*d.Dst), unsafe.Add(src, (d.N-1)*d.Src)
			d.Dst, d.Src = -d.Dst, -d.Src
		}
		dims = append(dims, d)
		for i := len(dims) - 1; i > first && dims[i-1].Dst > d.Dst; i-- { // sort by dst, the smallest first
			dims[i-1], dims[i] = dims[i], dims[i-1]
		}
	}
	dims = c.arrange(Merge(dims), size, bytes, swap > 1)
	if bytes <= cachedBytes || dstStrides == nil && bytes >= freshBytes {
		c.run = runBytes
	}
	return dims, dst, src, bytes
}

// appendWords returns the size of the unit that is moved: an item, or a word if bytes are swapped. In the latter case
// it appends the words of an item to dims, as the innermost dimension.
func appendWords(dims []dim, itemSize, swap int) ([]dim, int) {
	if swap <= 1 {
		return dims, itemSize
	}
	if itemSize > swap {
		dims = append(dims, dim{itemSize / swap, swap, swap})
	}
	return dims, swap
}

// Merge joins dimensions in place. Two become one if each step of the second begins at the end of the first.
func Merge[I int | int64](dims []Dim[I]) []Dim[I] {
	merged := dims[:0]
	for _, d := range dims {
		k := len(merged) - 1
		if k >= 0 && d.Src == merged[k].N*merged[k].Src && d.Dst == merged[k].N*merged[k].Dst {
			merged[k].N *= d.N
		} else {
			merged = append(merged, d)
		}
	}
	return merged
}

// arrange picks the loops of a copy and returns the dimensions in their order. dims begin with the innermost dimension
// of the destination.
func (c *copier) arrange(dims []dim, size, bytes int, swapped bool) []dim {
	if len(dims) > 0 && dims[0].Src == size && dims[0].Dst == size && !swapped && size*dims[0].N <= tileBytes {
		dims, size = dims[1:], size*dims[0].N
	}
	if len(dims) > 0 && dims[0].Dst != size { // rows of one item
		dims = slices.Insert(dims, 0, dim{N: 1, Dst: size})
	}
	for len(dims) < 2 {
		dims = append(dims, dim{1, bytes, bytes})
	}
	c.size, c.run, c.swapped = size, bytes, swapped
	if k := partner(dims, size); k > 0 && bytes > tileBytes {
		d := dims[k]
		copy(dims[2:], dims[1:k])
		dims[1], c.tiled = d, true
	}
	return dims
}

// A copier is a planned copy.
type copier struct {
	dims           []dim // two or more, innermost loop first; dims[0] is compact in the destination
	size           int   // bytes of an item
	run            int   // upper bound of the bytes to move at once
	swapped, tiled bool
}

func (c *copier) copy(dst, src unsafe.Pointer) {
	if c.tiled {
		c.copyTiled(dst, src)
	} else {
		c.walk(dst, src, len(c.dims), nil)
	}
}

// walk copies the first n dimensions, through buffer if it isn't nil.
func (c *copier) walk(dst, src unsafe.Pointer, n int, buffer *tile) {
	switch {
	case n > 2:
		d := c.dims[n-1]
		for i := range d.N {
			c.walk(unsafe.Add(dst, i*d.Dst), unsafe.Add(src, i*d.Src), n-1, buffer)
		}
	case buffer != nil:
		c.copyTiles(dst, src, buffer)
	default:
		c.gather(dst, src, c.dims[1], c.dims[0], c.swapped)
	}
}

package strided

import "unsafe"

const (
	tileBytes = 16 << 10 // half of a small level-1 cache
	tileSide  = 256      // bytes of a row of a square tile: a few cache lines, each used whole
	cacheLine = 64
)

// A tile buffers a block of the source. The copy reads the block in the source's order and writes it in the
// destination's, so that it uses each cache line whole while the line is in the cache. Without a tile, the cache lines
// of rows that are a power of two apart would evict each other. The tile has the source's order, or the destination's
// if vector instructions can transpose the block on its way in.
type tile [tileBytes]byte

// partner returns the index of the dimension that makes tiles with the innermost one, or -1. Tiles pay if each item of
// a row lies in a cache line of its own. The partner is the dimension along which such a line has the most items.
func partner(dims []dim, size int) int {
	best, found := cacheLine, -1
	if size >= cacheLine || abs(dims[0].Src) < cacheLine {
		return found
	}
	for k, d := range dims[1:] {
		if s := abs(d.Src); s != 0 && s < best {
			best, found = s, k+1
		}
	}
	return found
}

// copyTiled copies through a buffer. It isn't inlined: the buffer would take stack in other copies as well.
//
//go:noinline
func (c *copier) copyTiled(dst, src unsafe.Pointer) {
	var buffer tile
	c.walk(dst, src, len(c.dims), &buffer)
}

// tileRows returns how many steps of the second dimension a tile has, if the first dimension is long enough.
func (c *copier) tileRows() int { return min(c.dims[1].N, tileSide/c.size) }

// copyTiles copies the first two dimensions tile by tile. Tiles are square, or longer if one of the dimensions is
// short.
func (c *copier) copyTiles(dst, src unsafe.Pointer, buffer *tile) {
	inner, outer, capacity := c.dims[0], c.dims[1], tileBytes/c.size
	rows := c.tileRows()
	columns := min(inner.N, capacity/rows)
	rows = min(outer.N, capacity/columns)
	vectors := canTranspose(c.size) && outer.Src == c.size && !c.swapped
	b := unsafe.Pointer(buffer)
	for i := 0; i < outer.N; i += rows {
		n := min(rows, outer.N-i)
		for j := 0; j < inner.N; j += columns {
			m := min(columns, inner.N-j)
			from := unsafe.Add(src, i*outer.Src+j*inner.Src)
			to := unsafe.Add(dst, i*outer.Dst+j*inner.Dst)
			if vectors {
				c.transpose(b, from, dim{n, m * c.size, c.size}, dim{m, c.size, inner.Src})
				c.gather(to, b, dim{n, outer.Dst, m * c.size}, dim{m, c.size, c.size}, false)
			} else {
				c.gather(b, from, dim{m, n * c.size, inner.Src}, dim{n, c.size, outer.Src}, false)
				c.gather(to, b, dim{n, outer.Dst, c.size}, dim{m, c.size, n * c.size}, c.swapped)
			}
		}
	}
}

// transpose copies rows whose neighbours lie side by side in the source: whole blocks with vector instructions, and the
// rest item by item.
func (c *copier) transpose(dst, src unsafe.Pointer, outer, inner dim) {
	rows, columns := transposeVectors(dst, outer.Dst, src, inner.Src, outer.N, inner.N, c.size)
	if right := (dim{inner.N - columns, inner.Dst, inner.Src}); right.N > 0 && rows > 0 {
		to, from := unsafe.Add(dst, columns*inner.Dst), unsafe.Add(src, columns*inner.Src)
		c.gather(to, from, dim{rows, outer.Dst, outer.Src}, right, false)
	}
	if below := (dim{outer.N - rows, outer.Dst, outer.Src}); below.N > 0 {
		c.gather(unsafe.Add(dst, rows*outer.Dst), unsafe.Add(src, rows*outer.Src), below, inner, false)
	}
}

func abs(x int) int { return max(x, -x) }

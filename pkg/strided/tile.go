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
	if size >= cacheLine || abs(dims[0].src) < cacheLine {
		return found
	}
	for k, d := range dims[1:] {
		if s := abs(d.src); s != 0 && s < best {
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
func (c *copier) tileRows() int { return min(c.dims[1].n, tileSide/c.size) }

// copyTiles copies the first two dimensions tile by tile. Tiles are square, or longer if one of the dimensions is
// short.
func (c *copier) copyTiles(dst, src unsafe.Pointer, buffer *tile) {
	inner, outer, capacity := c.dims[0], c.dims[1], tileBytes/c.size
	rows := c.tileRows()
	columns := min(inner.n, capacity/rows)
	rows = min(outer.n, capacity/columns)
	vectors := canTranspose(c.size) && outer.src == c.size && !c.swapped
	b := unsafe.Pointer(buffer)
	for i := 0; i < outer.n; i += rows {
		n := min(rows, outer.n-i)
		for j := 0; j < inner.n; j += columns {
			m := min(columns, inner.n-j)
			from := unsafe.Add(src, i*outer.src+j*inner.src)
			to := unsafe.Add(dst, i*outer.dst+j*inner.dst)
			if vectors {
				c.transpose(b, from, dim{n, m * c.size, c.size}, dim{m, c.size, inner.src})
				c.gather(to, b, dim{n, outer.dst, m * c.size}, dim{m, c.size, c.size}, false)
			} else {
				c.gather(b, from, dim{m, n * c.size, inner.src}, dim{n, c.size, outer.src}, false)
				c.gather(to, b, dim{n, outer.dst, c.size}, dim{m, c.size, n * c.size}, c.swapped)
			}
		}
	}
}

// transpose copies rows whose neighbours lie side by side in the source: whole blocks with vector instructions, and the
// rest item by item.
func (c *copier) transpose(dst, src unsafe.Pointer, outer, inner dim) {
	rows, columns := transposeVectors(dst, outer.dst, src, inner.src, outer.n, inner.n, c.size)
	if right := (dim{inner.n - columns, inner.dst, inner.src}); right.n > 0 && rows > 0 {
		to, from := unsafe.Add(dst, columns*inner.dst), unsafe.Add(src, columns*inner.src)
		c.gather(to, from, dim{rows, outer.dst, outer.src}, right, false)
	}
	if below := (dim{outer.n - rows, outer.dst, outer.src}); below.n > 0 {
		c.gather(unsafe.Add(dst, rows*outer.dst), unsafe.Add(src, rows*outer.src), below, inner, false)
	}
}

func abs(x int) int { return max(x, -x) }

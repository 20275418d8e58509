package strided

import "unsafe"

const (
	tileBytes = 16 << 10 // half of a small level-1 cache
	tileSide  = 256      // bytes of a row of a square tile: some cache lines, each used whole
	cacheLine = 64
)

// A tile is a block of the source in the source's order. It is read in the order of the source and written in that of
// the destination, so that each cache line is used whole while it is in the cache. Without it, the lines of an array
// whose rows are a power of two apart would evict each other.
type tile [tileBytes]byte

// partner gives the index of the dimension that makes tiles with the innermost one, or -1. Tiles pay where each item of
// a row lies in a cache line of its own; the partner is the dimension along which such a line has the most items.
func (c *copier) partner() int {
	best, found := cacheLine, -1
	if c.size >= cacheLine || abs(c.dims[0].src) < cacheLine {
		return found
	}
	for k, d := range c.dims[1:] {
		if s := abs(d.src); s != 0 && s < best {
			best, found = s, k+1
		}
	}
	return found
}

// copyTiled copies through a buffer. Not inlined: other copies would need stack for the buffer, too.
//
//go:noinline
func (c *copier) copyTiled(dst, src unsafe.Pointer) {
	var buffer tile
	c.walk(dst, src, len(c.dims), &buffer)
}

// tileRows is how many steps of the second dimension a tile has, if the first is long enough.
func (c *copier) tileRows() int { return min(c.dims[1].n, tileSide/c.size) }

// tiles copies the first two dimensions block by block. Blocks are square, or longer if one of the dimensions is short.
func (c *copier) tiles(dst, src unsafe.Pointer, buffer *tile) {
	inner, outer, capacity := c.dims[0], c.dims[1], tileBytes/c.size
	rows := c.tileRows()
	columns := min(inner.n, capacity/rows)
	rows = min(outer.n, capacity/columns)
	b := unsafe.Pointer(buffer)
	for i := 0; i < outer.n; i += rows {
		n := min(rows, outer.n-i)
		for j := 0; j < inner.n; j += columns {
			m := min(columns, inner.n-j)
			from := unsafe.Add(src, i*outer.src+j*inner.src)
			to := unsafe.Add(dst, i*outer.dst+j*inner.dst)
			c.gather(b, from, dim{m, n * c.size, inner.src}, dim{n, c.size, outer.src}, false)
			c.gather(to, b, dim{n, outer.dst, c.size}, dim{m, c.size, n * c.size}, c.swapped)
		}
	}
}

func abs(x int) int { return max(x, -x) }

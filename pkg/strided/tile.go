package strided

import "unsafe"

const (
	tileBytes = 16 << 10 // half of a small level-1 cache
	tileSide  = 256      // bytes of a row of a square tile: some cache lines, each used whole
	cacheLine = 64
)

// A tile is a block of the source in the source's order, read along the source and written along the destination. So
// each cache line is used whole while it is at hand; going from line to line instead, the lines of an array whose rows
// are a power of two apart drive each other out of the cache.
type tile [tileBytes]byte

// partner gives the index of the dimension to pair with the innermost one in tiles: where each item of a row lies in a
// cache line of its own, the dimension along which these lines hold most items. -1: there is none.
func (c *copier) partner(dims []dim) int {
	best, found := cacheLine, -1
	if c.size >= cacheLine || abs(c.inner.src) < cacheLine {
		return found
	}
	for k, d := range dims {
		if s := abs(d.src); s != 0 && s < best {
			best, found = s, k
		}
	}
	return found
}

// walkTiled is walk with a buffer. Not inlined: copies that need no buffer need no stack for one.
//
//go:noinline
func (c *copier) walkTiled(dst, src unsafe.Pointer, dims []dim) {
	var buffer tile
	c.walk(dst, src, dims, &buffer)
}

// tiles copies the copier's two dimensions block by block: square ones, longer where one of the dimensions is short.
func (c *copier) tiles(dst, src unsafe.Pointer, buffer *tile) {
	capacity := tileBytes / c.size
	rows := min(c.outer.n, tileSide/c.size)
	columns := min(c.inner.n, capacity/rows)
	rows = min(c.outer.n, capacity/columns)
	b := unsafe.Pointer(buffer)
	for i := 0; i < c.outer.n; i += rows {
		n := min(rows, c.outer.n-i)
		for j := 0; j < c.inner.n; j += columns {
			m := min(columns, c.inner.n-j)
			from := unsafe.Add(src, i*c.outer.src+j*c.inner.src)
			to := unsafe.Add(dst, i*c.outer.dst+j*c.inner.dst)
			gather(b, from, dim{m, n * c.size, c.inner.src}, dim{n, c.size, c.outer.src}, c.size, false)
			gather(to, b, dim{n, c.outer.dst, c.size}, dim{m, c.size, n * c.size}, c.size, c.swapped)
		}
	}
}

func abs(x int) int { return max(x, -x) }

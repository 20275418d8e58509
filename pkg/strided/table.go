package strided

import "unsafe"

// A Column is the beginning of a table's column, whose items lie side by side.
type Column struct {
	Src       unsafe.Pointer
	BitPacked bool // each item is one bit, which becomes a byte
	FirstBit  int  // if BitPacked: which bit of the first byte is the first item, 0 to 7
}

// Rows writes the items of the columns to dst row by row. Each column has `rows` items of `size` bytes.
//
// Like Copy, it trusts its arguments, and several goroutines share a large copy.
func Rows(dst unsafe.Pointer, columns []Column, rows, size int) {
	if rows == 0 || len(columns) == 0 {
		return
	}
	t := table{copier{size: size, run: runBytes, tiled: true}, dst, columns}
	width := len(columns) * size
	workers := t.workers(rows * width)
	piece := rows
	if workers > 1 {
		piece = max(1, max(pieceBytes, rows*width/(workers*workerPieces))/width)
	}
	share(int64((rows+piece-1)/piece), workers, func(i int) {
		t.copyRows(i*piece, min(rows, (i+1)*piece))
	})
}

// A table is a copy of columns to rows.
type table struct {
	copier
	dst     unsafe.Pointer
	columns []Column
}

// copyRows copies a block of rows after the other, so that their cache lines stay in the cache until all columns are
// written.
func (t *table) copyRows(first, end int) {
	var buffer tile
	width, block := len(t.columns)*t.size, 16/t.size
	group, tiled := max(1, min(len(t.columns), tileSide/t.size)), 0
	if canTranspose(t.size) {
		tiled = len(t.columns) - len(t.columns)%block
	}
	step := max(1, tileBytes/(group*t.size))
	for ; first < end; first += step {
		n := min(step, end-first)
		to := unsafe.Add(t.dst, first*width)
		switch done := 0; {
		case block == 2:
			for left := 0; left < tiled; left += 2 {
				done = t.transposePair(unsafe.Add(to, left*t.size), left, first, n)
			}
			t.scatter(to, &buffer, 0, tiled, first, done, n)
		case tiled > 0:
			for left := 0; left < tiled; left += group {
				t.copyTile(unsafe.Add(to, left*t.size), &buffer, t.columns[left:min(left+group, tiled)], first, n)
			}
		}
		t.scatter(to, &buffer, tiled, len(t.columns), first, 0, n)
	}
}

// transposePair copies n rows, or one less, of two columns by vector instructions, which only need the distance between
// the columns. It returns the number of rows.
func (t *table) transposePair(dst unsafe.Pointer, left, first, n int) int {
	a, b := t.items(left, first), t.items(left+1, first)
	rows, _ := transposeVectors(dst, len(t.columns)*t.size, a, int(uintptr(b)-uintptr(a)), n, 2, t.size)
	return rows
}

// copyTile copies n rows of columns through a tile, in which the columns lie one after the other.
func (t *table) copyTile(dst unsafe.Pointer, buffer *tile, columns []Column, first, n int) {
	apart := n * t.size
	for i := range columns {
		from := unsafe.Add(columns[i].Src, first*t.size)
		copy(buffer[i*apart:(i+1)*apart], unsafe.Slice((*byte)(from), apart))
	}
	t.transpose(dst, unsafe.Pointer(buffer), dim{n, len(t.columns) * t.size, t.size}, dim{len(columns), t.size, apart})
}

// scatter copies rows `done` to n, from row `first` on, column by column.
func (t *table) scatter(dst unsafe.Pointer, buffer *tile, left, right, first, done, n int) {
	if done == n {
		return
	}
	width := len(t.columns) * t.size
	for i := left; i < right; i++ {
		c := &t.columns[i]
		from := unsafe.Pointer(buffer)
		if c.BitPacked {
			bit := c.FirstBit + first + done
			Unpack(from, unsafe.Add(c.Src, bit/8), bit%8, n-done)
		} else {
			from = t.items(i, first+done)
		}
		t.gather(unsafe.Add(dst, done*width+i*t.size), from, dim{n - done, width, t.size}, dim{N: 1}, false)
	}
}

func (t *table) items(column, row int) unsafe.Pointer {
	return unsafe.Add(t.columns[column].Src, row*t.size)
}

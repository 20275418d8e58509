package strided

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// plainRows returns the rows of a table item by item.
func plainRows(columns [][]byte, firstBits []int, rows, size int) []byte {
	var out []byte
	for row := range rows {
		for i, column := range columns {
			if first := firstBits[i] + row; firstBits[i] >= 0 {
				out = append(out, column[first/8]>>(first%8)&1)
			} else {
				out = append(out, column[row*size:(row+1)*size]...)
			}
		}
	}
	return out
}

// checkRows copies a table of random columns, of which every `bits`-th is bit-packed. skew misaligns the memory.
func checkRows(t *testing.T, count, rows, size, bits, skew int) {
	t.Helper()
	random := rand.NewChaCha8([32]byte{byte(count), byte(rows)})
	var memory [][]byte
	var firstBits []int
	var columns []Column
	for i := range count {
		first, length := -1, rows*size
		if bits > 0 && size == 1 && i%bits == 0 {
			first = i % 8
			length = (first + rows + 7) / 8
		}
		column := make([]byte, skew+length)
		random.Read(column)
		memory, firstBits = append(memory, column[skew:]), append(firstBits, first)
		columns = append(columns, Column{unsafe.Pointer(unsafe.SliceData(column[skew:])), first >= 0, max(first, 0)})
	}
	dst := bytes.Repeat([]byte{guard}, skew+count*rows*size+1)
	Rows(unsafe.Pointer(&dst[skew]), columns, rows, size)
	want := plainRows(memory, firstBits, rows, size)
	if got := dst[skew : len(dst)-1]; !bytes.Equal(got, want) {
		t.Fatalf("%d columns of %d items of %d bytes: wrong items", count, rows, size)
	}
	if dst[len(dst)-1] != guard || skew > 0 && dst[skew-1] != guard {
		t.Fatalf("%d columns of %d items of %d bytes: bytes outside the destination were written", count, rows, size)
	}
}

func TestRowsOfATable(t *testing.T) {
	for _, size := range []int{1, 2, 4, 8, 16, 3} {
		for _, count := range []int{0, 1, 2, 3, 8, 17, 300} {
			for _, rows := range []int{0, 1, 2, 3, 64, 1001} {
				checkRows(t, count, rows, size, 0, 0)
				checkRows(t, count, rows, size, 0, 1)
			}
		}
	}
}

func TestRowsOfBitPackedColumns(t *testing.T) {
	for _, count := range []int{1, 2, 9, 300} {
		for _, rows := range []int{1, 7, 8, 9, 257} {
			checkRows(t, count, rows, 1, 1, 0)
			checkRows(t, count, rows, 1, 2, 1)
		}
	}
}

func TestRowsOfALargeTableAreShared(t *testing.T) {
	checkRows(t, 8, 1<<17+5, 8, 0, 0)
	checkRows(t, 3, 3<<20+1, 1, 2, 0)
	checkRows(t, 3000, 1001, 4, 0, 0)
}

func FuzzRows(f *testing.F) {
	f.Add(uint16(8), uint16(300), uint8(8), uint8(0), uint8(0))
	f.Add(uint16(3), uint16(70), uint8(1), uint8(2), uint8(1))
	f.Add(uint16(70), uint16(5), uint8(4), uint8(0), uint8(3))
	f.Fuzz(func(t *testing.T, count, rows uint16, size, bits, skew uint8) {
		checkRows(t, int(count%400), int(rows%2000), max(1, int(size%17)), int(bits), int(skew%16))
	})
}

package strided

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// A source is an array to copy: its items lie in memory, the first of them at offset.
type source struct {
	memory         []byte
	offset         int
	shape, strides []int64
	itemSize, swap int
}

// span gives the lowest and the highest offset, from the first item, of the bytes that a layout reaches.
func span(shape, strides []int64, itemSize int) (low, high int) {
	high = itemSize
	for k, n := range shape {
		if n == 0 {
			return 0, 0
		}
		if s := int((n - 1) * strides[k]); s < 0 {
			low += s
		} else {
			high += s
		}
	}
	return low, high
}

// lay gives a source whose memory holds exactly the bytes that the layout reaches, random ones, behind `skew` others
// that misalign it.
func lay(shape, strides []int64, itemSize, swap, skew int) source {
	low, high := span(shape, strides, itemSize)
	memory := make([]byte, skew+high-low)
	random := rand.NewChaCha8([32]byte{})
	random.Read(memory)
	return source{memory, skew - low, shape, strides, itemSize, swap}
}

func (s *source) size() int {
	size := s.itemSize
	for _, n := range s.shape {
		size *= int(n)
	}
	return size
}

// slowCopy is the obvious implementation: every byte of every item, by index.
func (s *source) slowCopy() []byte {
	dst := make([]byte, 0, s.size())
	index := make([]int64, len(s.shape))
	for range s.size() / s.itemSize {
		at := s.offset
		for k, i := range index {
			at += int(i * s.strides[k])
		}
		word := max(s.swap, 1)
		for b := range s.itemSize {
			dst = append(dst, s.memory[at+b/word*word+word-1-b%word])
		}
		for k := len(index) - 1; k >= 0; k-- {
			if index[k]++; index[k] < s.shape[k] {
				break
			}
			index[k] = 0
		}
	}
	return dst
}

const guard = 0xA5

type copyFunc func(dst, src unsafe.Pointer, shape, strides []int64, itemSize, swap int)

// copy copies into memory that is misaligned by skew, and fails if a byte around it has changed.
func (s *source) copy(t testing.TB, skew int, to copyFunc) []byte {
	t.Helper()
	size := s.size()
	around := bytes.Repeat([]byte{guard}, skew+size+16)
	// An empty source may have no first item.
	var src unsafe.Pointer
	if size > 0 {
		src = unsafe.Pointer(&s.memory[s.offset])
	}
	to(unsafe.Pointer(&around[skew]), src, s.shape, s.strides, s.itemSize, s.swap)
	for _, b := range slices.Concat(around[:skew], around[skew+size:]) {
		if b != guard {
			t.Fatalf("a byte next to the destination's %d was written", size)
		}
	}
	return around[skew : skew+size]
}

func (s *source) check(t testing.TB, skew int, to copyFunc) {
	t.Helper()
	before := bytes.Clone(s.memory)
	got, want := s.copy(t, skew, to), s.slowCopy()
	if !bytes.Equal(got, want) {
		at := 0
		for got[at] == want[at] {
			at++
		}
		t.Fatalf("shape %v, strides %v, item size %d, swap %d: byte %d is %#x, expected %#x",
			s.shape, s.strides, s.itemSize, s.swap, at, got[at], want[at])
	}
	if !bytes.Equal(s.memory, before) {
		t.Fatal("the source was written")
	}
}

// A layout's strides count items.
type layout struct {
	name           string
	shape, strides []int64
}

var layouts = func() []layout {
	type ints = []int64
	var many, reversed, transposed ints // 64 dimensions, 11 of them with two items
	for k := range 64 {
		many, reversed = append(many, 1), append(reversed, -1<<(10-k/6))
		transposed = append(transposed, 1<<(k/6))
		if k%6 == 3 {
			many[k] = 2
		}
	}
	return []layout{
		{"a scalar is one item", ints{}, ints{}},
		{"an empty array copies nothing", ints{3, 0, 2}, ints{7, 5, 1}},
		{"a huge empty array copies nothing", ints{1 << 40, 1 << 40, 0}, ints{1, 1, 1}},
		{"a compact vector is one run", ints{100}, ints{1}},
		{"a compact array is one run", ints{3, 4, 5}, ints{20, 5, 1}},
		{"dimensions of size 1 may have any stride", ints{1, 3, 1, 4, 1}, ints{-1 << 60, 4, 1 << 60, 1, 0}},
		{"every second item", ints{50}, ints{2}},
		{"every second column", ints{20, 30}, ints{60, 2}},
		{"every second row", ints{20, 30}, ints{60, 1}},
		{"rows with a gap between them", ints{3, 4, 5}, ints{24, 6, 1}},
		{"a reversed vector", ints{150}, ints{-1}},
		{"reversed rows", ints{20, 30}, ints{-30, 1}},
		{"reversed columns", ints{20, 30}, ints{30, -1}},
		{"an array reversed in all dimensions", ints{4, 5, 6}, ints{-30, -6, -1}},
		{"one item broadcast to a vector", ints{50}, ints{0}},
		{"one item broadcast to an array", ints{4, 5, 6}, ints{0, 0, 0}},
		{"a row broadcast to all rows", ints{20, 30}, ints{0, 1}},
		{"a column broadcast to all columns", ints{20, 30}, ints{1, 0}},
		{"a transposed broadcast", ints{20, 10, 30}, ints{0, 1, 10}},
		{"overlapping windows", ints{20, 5}, ints{1, 1}},
		{"a transposed matrix smaller than a tile", ints{5, 7}, ints{1, 5}},
		{"a transposed matrix of some tiles and rests", ints{150, 170}, ints{1, 150}},
		{"a transposed matrix whose rows are a power of two apart", ints{128, 256}, ints{1, 128}},
		{"a transposed matrix with gaps", ints{70, 90}, ints{2, 160}},
		{"a transposed matrix reversed in both dimensions", ints{70, 90}, ints{-1, -70}},
		{"a tall transposed matrix", ints{5000, 3}, ints{1, 5000}},
		{"a wide transposed matrix", ints{3, 5000}, ints{1, 3}},
		{"channels last to channels first", ints{2, 3, 20, 20}, ints{1200, 1, 60, 3}},
		{"channels first to channels last", ints{2, 20, 20, 3}, ints{1200, 20, 1, 400}},
		{"dimensions in the order 2, 0, 1", ints{30, 10, 20}, ints{1, 600, 30}},
		{"dimensions in reversed order", ints{6, 5, 4, 8}, ints{1, 6, 30, 120}},
		{"64 dimensions, reversed", many, reversed},
		{"64 dimensions, transposed", many, transposed},
	}
}()

var itemSizes = []struct{ size, swap int }{
	{1, 0}, {2, 1}, {3, 0}, {4, 0}, {6, 0}, {8, 0}, {12, 0}, {16, 0}, {24, 0}, {100, 0},
	{2, 2}, {4, 4}, {8, 8}, {8, 4}, {16, 8}, {4, 2}, {24, 8}, {16, 16}, {32, 16},
}

func (l *layout) source(itemSize, swap, skew int) source {
	strides := make([]int64, len(l.strides))
	for k, s := range l.strides {
		strides[k] = s * int64(itemSize)
	}
	return lay(l.shape, strides, itemSize, swap, skew)
}

func TestCopy(t *testing.T) {
	for _, layout := range layouts {
		t.Run(layout.name, func(t *testing.T) {
			for _, item := range itemSizes {
				for _, skew := range []int{0, 1} {
					s := layout.source(item.size, item.swap, skew)
					s.check(t, 3*skew, Copy)
				}
			}
		})
	}
}

// by returns a Copy with the given number of workers and size of pieces.
func by(workers, pieceBytes int) copyFunc {
	return func(dst, src unsafe.Pointer, shape, strides []int64, itemSize, swap int) {
		var memory [maxDims]dim
		var c copier
		dims, dst, src, bytes := c.plan(memory[:0], dst, src, shape, nil, strides, itemSize, swap)
		if c.dims = dims; bytes > 0 {
			c.share(dst, src, workers, pieceBytes)
		}
	}
}

func TestWorkersCopyWhatOneDoes(t *testing.T) {
	for _, layout := range layouts {
		t.Run(layout.name, func(t *testing.T) {
			for i, item := range itemSizes {
				s := layout.source(item.size, item.swap, 1)
				for workers := 1; workers <= 5; workers++ {
					s.check(t, 3, by(workers, 1<<((i+3*workers)%15)))
				}
			}
		})
	}
}

func TestPiecesOfATiledCopyAreNotLargerThanAsked(t *testing.T) {
	c := cut{copier: copier{dims: []dim{{N: 512}, {N: 512}, {N: 64}}, size: 4, tiled: true}}
	if pieces := c.plan(512 * 512 * 4); pieces != 64 {
		t.Errorf("%d pieces; expected one for each step of the last dimension", pieces)
	}
}

func TestALargeCopyIsShared(t *testing.T) {
	const n = 1500
	for _, strides := range [][]int64{{4 * n, 4}, {4, 4 * n}, {-4 * n, 4}, {4 * n, -4}, {0, 4}} {
		for _, swap := range []int{0, 4} {
			s := lay([]int64{n, n}, strides, 4, swap, 1)
			s.check(t, 3, Copy)
		}
	}
}

func TestCopyAllocatesNothing(t *testing.T) {
	for _, strides := range [][]int64{{400, 4}, {4, 400}, {400, -4}, {0, 8}} {
		s := lay([]int64{100, 100}, strides, 4, 0, 0)
		dst := make([]byte, s.size())
		allocations := testing.AllocsPerRun(10, func() {
			Copy(unsafe.Pointer(&dst[0]), unsafe.Pointer(&s.memory[s.offset]), s.shape, s.strides, s.itemSize, s.swap)
		})
		if allocations != 0 {
			t.Errorf("strides %d: %v allocations", strides, allocations)
		}
	}
}

func FuzzCopy(f *testing.F) {
	// Each pair of bytes in layout is a dimension: its size, and its stride, as an int8 times `unit` bytes.
	f.Add([]byte{}, uint8(4), uint8(0), uint8(0), uint8(7), uint8(1))                           // a scalar
	f.Add([]byte{3, 0, 0, 4}, uint8(4), uint8(0), uint8(0), uint8(7), uint8(1))                 // no items
	f.Add([]byte{9, 28, 7, 4}, uint8(4), uint8(0), uint8(0), uint8(7), uint8(1))                // compact
	f.Add([]byte{150, 2, 120, 100}, uint8(2), uint8(0), uint8(1), uint8(7), uint8(1))           // transposed, misaligned
	f.Add([]byte{150, 254, 120, 156}, uint8(2), uint8(1), uint8(1), uint8(7), uint8(1))         // and reversed, swapped
	f.Add([]byte{150, 1, 99, 120}, uint8(4), uint8(2), uint8(0), uint8(199), uint8(4))          // rows far apart
	f.Add([]byte{9, 0, 7, 1, 5, 0}, uint8(1), uint8(0), uint8(0), uint8(7), uint8(1))           // broadcast
	f.Add([]byte{9, 1, 7, 3, 5, 255}, uint8(24), uint8(3), uint8(2), uint8(7), uint8(1))        // items that overlap
	f.Add([]byte{2, 3, 20, 1, 20, 20, 3, 90}, uint8(3), uint8(0), uint8(0), uint8(7), uint8(1)) // items of 3 bytes
	f.Add([]byte{9, 96, 7, 223}, uint8(32), uint8(4), uint8(1), uint8(7), uint8(1))             // words of 16 bytes
	f.Fuzz(func(t *testing.T, layout []byte, itemSize, swap, skew, pieces, unit uint8) {
		var shape, strides []int64
		size := max(int(itemSize), 1)
		word := 1 << (swap % 5)
		if size%word != 0 {
			word = 0
		}
		items, reach := 1, 0
		for ; len(layout) >= 2 && len(shape) < 64 && items*int(layout[0])*size <= 1<<16; layout = layout[2:] {
			stride := int(int8(layout[1])) * int(unit)
			if reach += int(layout[0]) * max(stride, -stride); reach > 1<<18 {
				break
			}
			items *= int(layout[0])
			shape = append(shape, int64(layout[0]))
			strides = append(strides, int64(stride))
		}
		s := lay(shape, strides, size, word, int(skew%16))
		s.check(t, int(skew/16), Copy)
		s.check(t, int(skew/16), by(1+int(pieces%5), 1<<(pieces/16)))
	})
}

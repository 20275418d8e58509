package cuda

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"
)

type ints = []int64

// A layout is a source whose items lie in memory of its own, the first of them at offset.
type layout struct {
	Source
	memory []byte
	offset int
}

// lay gives a layout over memory that holds exactly the bytes that it reaches, different ones.
func lay(shape, strides []int64, itemSize, swap int) layout {
	s := Source{Shape: shape, Strides: strides, ItemSize: itemSize, Swap: swap, Above: uint64(itemSize)}
	for k, n := range shape {
		if reach := (n - 1) * strides[k]; reach < 0 {
			s.Below += uint64(-reach)
		} else {
			s.Above += uint64(reach)
		}
	}
	if slices.Contains(shape, 0) {
		s.Below, s.Above = 0, 0
	}
	memory := make([]byte, s.Below+s.Above+1)
	state := uint32(1)
	for i := range memory {
		state = state*1664525 + 1013904223
		memory[i] = byte(state >> 24)
	}
	return layout{s, memory, int(s.Below)}
}

// slowCopy is the obvious implementation: every byte of every item, by index.
func (l *layout) slowCopy() []byte {
	var dst []byte
	index := make([]int64, len(l.Shape))
	for range l.bytes() / int64(l.ItemSize) {
		at := l.offset
		for k, i := range index {
			at += int(i * l.Strides[k])
		}
		word := max(l.Swap, 1)
		for b := range l.ItemSize {
			dst = append(dst, l.memory[at+b/word*word+(word-1-b%word)])
		}
		for k := len(index) - 1; k >= 0; k-- {
			if index[k]++; index[k] < l.Shape[k] {
				break
			}
			index[k] = 0
		}
	}
	return dst
}

// carriedOut copies by a plan, and checks each block by the rules of cuMemcpy3D.
func (l *layout) carriedOut(t testing.TB, p *plan, maxPitch int64) (dst []byte, calls int) {
	dst = make([]byte, l.bytes())
	written := make([]bool, len(dst))
	to, from := uint64(uintptr(unsafe.Pointer(&dst[0]))), uint64(uintptr(unsafe.Pointer(&l.memory[0])))
	err := p.each(to, from+uint64(l.offset), func(begin, src uint64) error {
		b := p.block(hostMemory, begin, src)
		if b.rows > 1 && (b.srcPitch < b.width || b.srcPitch > maxPitch || b.dstPitch > maxPitch) ||
			b.slices > 1 && (b.srcHeight < b.rows || b.dstHeight < b.rows) {
			t.Fatalf("no block by the rules: %+v", b)
		}
		for slice := range b.slices {
			for row := range b.rows {
				i := b.dst - to + uint64((slice*b.dstHeight+row)*b.dstPitch)
				j := b.src - from + uint64((slice*b.srcHeight+row)*b.srcPitch)
				copy(dst[i:i+uint64(b.width)], l.memory[j:j+uint64(b.width)])
				for k := range b.width {
					if written[i+uint64(k)] {
						t.Fatal("a byte is copied twice")
					}
					written[i+uint64(k)] = true
				}
			}
		}
		calls++
		return nil
	})
	if err != nil || slices.Contains(written, false) {
		t.Fatal("not all is copied", err)
	}
	return dst, calls
}

func TestPlan(t *testing.T) {
	const maxPitch = 1 << 20
	for _, test := range []struct {
		name           string
		shape, strides ints // strides count items
		calls          int  // 0: no plan
		block          ints // bytes of a row, rows, slices
	}{
		{"a scalar", ints{}, ints{}, 1, ints{4, 1, 1}},
		{"a vector", ints{100}, ints{1}, 1, ints{400, 1, 1}},
		{"a compact array", ints{3, 4, 5}, ints{20, 5, 1}, 1, ints{240, 1, 1}},
		{"one item, with any strides", ints{1, 1}, ints{-3, 1 << 40}, 1, ints{4, 1, 1}},
		{"dimensions of size 1, with any strides", ints{1, 3, 1, 4, 1}, ints{-9, 4, 1 << 50, 1, 0}, 1, ints{48, 1, 1}},
		{"rows with gaps", ints{20, 5}, ints{7, 1}, 1, ints{20, 20, 1}},
		{"a block of an array", ints{6, 5, 4}, ints{200, 10, 1}, 1, ints{16, 5, 6}},
		{"a block whose rows merge", ints{6, 5, 4}, ints{200, 4, 1}, 1, ints{80, 6, 1}},
		{"a block whose slices merge", ints{6, 5, 4}, ints{50, 10, 1}, 1, ints{16, 30, 1}},
		{"a block of four dimensions", ints{3, 6, 5, 4}, ints{4000, 200, 10, 1}, 3, ints{16, 5, 6}},
		{"a block with slices apart by no multiple of the pitch", ints{6, 5, 4}, ints{201, 10, 1}, 5, ints{16, 6, 1}},
		{"every second row", ints{20, 30}, ints{60, 1}, 1, ints{120, 20, 1}},
		{"reversed rows", ints{20, 30}, ints{-30, 1}, 20, ints{120, 1, 1}},
		{"reversed rows of slices", ints{9, 20, 30}, ints{600, -30, 1}, 20, ints{120, 9, 1}},
		{"reversed slices", ints{9, 20, 30}, ints{-1200, 60, 1}, 9, ints{120, 20, 1}},
		{"rows and slices exchanged", ints{9, 20, 30}, ints{30, 300, 1}, 9, ints{120, 20, 1}},
		{"a row broadcast to all rows", ints{20, 30}, ints{0, 1}, 20, ints{120, 1, 1}},
		{"rows that overlap", ints{20, 30}, ints{29, 1}, 20, ints{120, 1, 1}},
		{"slices that overlap", ints{9, 20, 30}, ints{40, 40, 1}, 9, ints{120, 20, 1}},
		{"rows side by side in the source alone", ints{4, 3, 5}, ints{5, 20, 1}, 3, ints{20, 4, 1}},
		{"rows as far apart as the largest pitch", ints{20, 30}, ints{maxPitch / 4, 1}, 1, ints{120, 20, 1}},
		{"rows further apart than the largest pitch", ints{20, 30}, ints{maxPitch, 1}, 20, ints{120, 1, 1}},
		{"slices further apart in the destination than the largest pitch", ints{9, 20, 20000}, ints{25000, 0, 1}, 180,
			ints{80000, 1, 1}},
		{"1,024 blocks", ints{1024, 30}, ints{-30, 1}, 1024, ints{120, 1, 1}},
		{"more blocks", ints{1025, 30}, ints{-30, 1}, 0, nil},
		{"more blocks, in two dimensions", ints{40, 30, 3}, ints{-1000, -30, 1}, 0, nil},
		{"every second column", ints{20, 30}, ints{60, 2}, 0, nil},
		{"a column", ints{20}, ints{30}, 0, nil},
		{"a transposed matrix", ints{20, 30}, ints{1, 20}, 0, nil},
		{"a reversed vector", ints{20}, ints{-1}, 0, nil},
		{"one item broadcast", ints{20}, ints{0}, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			strides := slices.Clone(test.strides)
			for k := range strides {
				strides[k] *= 4
			}
			var l layout
			small := len(test.shape) == 0 || test.shape[0] > 1 && strides[0] < 1<<20
			if small {
				l = lay(test.shape, strides, 4, 0)
			} else {
				l.Source = Source{Shape: test.shape, Strides: strides, ItemSize: 4}
			}
			var p plan
			if planned := p.make(&l.Source, maxPitch); planned != (test.calls > 0) {
				t.Fatal("planned:", planned)
			} else if !planned {
				return
			}
			if block := (ints{p.width, p.rows.N, p.slices.N}); !slices.Equal(block, test.block) {
				t.Errorf("block %v; expected %v", block, test.block)
			}
			if p.isCompact() != (test.calls == 1 && test.block[1] == 1) {
				t.Error("compact:", p.isCompact())
			}
			if !small {
				return
			}
			got, calls := l.carriedOut(t, &p, maxPitch)
			if calls != test.calls {
				t.Errorf("%d calls; expected %d", calls, test.calls)
			}
			if !bytes.Equal(got, l.slowCopy()) {
				t.Error("wrong values")
			}
		})
	}
}

func FuzzPlan(f *testing.F) {
	// Each pair of bytes in the layout is a dimension: its size, and its stride in bytes, as an int8 times a scale.
	f.Add([]byte{}, uint8(4), uint8(1), uint16(100))
	f.Add([]byte{9, 28, 7, 4}, uint8(4), uint8(1), uint16(100))         // compact
	f.Add([]byte{9, 100, 7, 20, 4, 1}, uint8(1), uint8(1), uint16(200)) // a block
	f.Add([]byte{9, 100, 7, 20, 4, 1}, uint8(1), uint8(1), uint16(20))  // a block, and a small largest pitch
	f.Add([]byte{3, 90, 3, 236, 5, 1}, uint8(1), uint8(1), uint16(200)) // reversed rows
	f.Add([]byte{3, 0, 5, 2, 5, 1}, uint8(1), uint8(1), uint16(200))    // broadcast, overlaps
	f.Add([]byte{5, 1, 7, 5, 2, 35}, uint8(1), uint8(1), uint16(200))   // transposed
	f.Fuzz(func(t *testing.T, dims []byte, itemSize, scale uint8, maxPitch uint16) {
		var shape, strides []int64
		size := max(int(itemSize), 1)
		items := 1
		for ; len(dims) >= 2 && len(shape) < 64 && items*max(int(dims[0]), 1)*size <= 1<<14; dims = dims[2:] {
			items *= max(int(dims[0]), 1) // no copy without items is planned
			shape = append(shape, int64(max(dims[0], 1)))
			strides = append(strides, int64(int8(dims[1]))*int64(scale))
		}
		l := lay(shape, strides, size, 0)
		var p plan
		if !p.make(&l.Source, int64(maxPitch)) {
			return
		}
		got, calls := l.carriedOut(t, &p, int64(maxPitch))
		if calls > mostCalls {
			t.Fatalf("%d calls", calls)
		}
		if !bytes.Equal(got, l.slowCopy()) {
			t.Fatalf("shape %v, strides %v, item size %d: wrong values", shape, strides, size)
		}
	})
}

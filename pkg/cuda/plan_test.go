package cuda

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"
)

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

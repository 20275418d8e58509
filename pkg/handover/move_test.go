package handover

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"
)

// sideAt is the side of two items of 16 bits with a stride, the first of them at memory[at].
func sideAt(memory []byte, at int, stride int64) Side {
	side := Side{First: uint64(uintptr(unsafe.Pointer(&memory[at]))), Above: 2, Strides: []int64{stride}}
	if stride < 0 {
		side.Below += uint64(-stride)
	} else {
		side.Above += uint64(stride)
	}
	return side
}

func TestMove(t *testing.T) {
	for _, test := range []struct {
		name                   string
		source, target, stride int // offsets of the first items in one piece of memory; the target's stride
		compact                bool
		swap                   int
		want                   []byte // nil: it is not done
	}{
		{"to new memory", 2, 4, 0, true, 0, []byte{1, 2, 3, 4, 3, 4, 1, 2, 9, 10}},
		{"to strided memory", 2, 4, 4, false, 0, []byte{1, 2, 3, 4, 3, 4, 7, 8, 1, 2}},
		{"swapped", 2, 4, 2, false, 2, []byte{1, 2, 3, 4, 4, 3, 2, 1, 9, 10}},
		{"to memory that overlaps", 2, 2, 2, false, 0, nil},
		{"to memory that begins where the source ends, downwards", 2, 4, -2, false, 0, nil},
		{"to items that are one", 2, 4, 0, false, 0, nil},
		{"to items that overlap", 2, 4, 1, false, 0, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			memory := []byte{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
			before := slices.Clone(memory)
			m := Move{Source: sideAt(memory, test.source, -2), Shape: []int64{2}, ItemSize: 2, Swap: test.swap}
			m.Target = sideAt(memory, test.target, int64(test.stride))
			if test.compact {
				m.Target.Above, m.Target.Strides = 4, nil
			}
			want := test.want
			if want == nil {
				want = before
			}
			if done := m.Do(); done != (test.want != nil) || !bytes.Equal(memory, want) {
				t.Errorf("%t, %d; expected %d", done, memory, want)
			}
		})
	}
}

func TestMoveFromAndToNowhere(t *testing.T) {
	memory := make([]byte, 8)
	for _, address := range []uint64{8, 4096, 1 << 60, 1<<64 - 64} {
		m := Move{Source: sideAt(memory, 0, 2), Target: sideAt(memory, 4, 2), Shape: []int64{2}, ItemSize: 2}
		m.Source.First = address
		if m.Do() {
			t.Errorf("read from %#x", address)
		}
		m.Source.First, m.Target.First = m.Target.First, address
		if m.Do() {
			t.Errorf("wrote to %#x", address)
		}
	}
}

func TestMoveAllocatesNothing(t *testing.T) {
	memory := make([]byte, 32)
	m := Move{Source: sideAt(memory, 2, -2), Target: sideAt(memory, 8, 4), Shape: []int64{2}, ItemSize: 2}
	if n := testing.AllocsPerRun(10, func() { m.Do() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

package handover

import (
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

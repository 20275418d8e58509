package handover

import (
	"bytes"
	"slices"
	"testing"
	"unsafe"

	"dlpack/pkg/dlpack"
)

// scratch gives memory of Go's for what is copied twice.
type scratch struct {
	allocator
	given int
}

func (s *scratch) Scratch(bytes int64) unsafe.Pointer {
	s.given++
	return s.ForCopy(bytes)
}

func (*scratch) Free(unsafe.Pointer) {}

// place is a place with a copy of items, as three of 16 bits, changed.
func place(changes ...func(*dlpack.Description)) (*Place, []byte) {
	memory := slices.Clone(items)
	p := &Place{Description: *described(changes...)}
	p.Data += uint64(uintptr(unsafe.Pointer(&memory[0]))) - address()
	return p, memory
}

func TestAnOverlappingSourceIsReadFirst(t *testing.T) {
	source, memory := place(reversed)
	target := *source
	target.Offset, target.HasStrides = 0, false
	a := &scratch{allocator: allocator{most: 6}}
	if err := CopyInto(source, &target, a); err != nil || a.given != 1 || !bytes.Equal(memory, []byte{5, 6, 3, 4, 1, 2}) {
		t.Error(memory, a.given, err)
	}
	a.most = 5
	if err := CopyInto(source, &target, a); dlpack.KindOf(err) != dlpack.ErrOutOfMemory {
		t.Error(err)
	}
}

func TestCopyIntoAllocatesNothing(t *testing.T) {
	source, _ := place(reversed)
	target, _ := place()
	allocations := testing.AllocsPerRun(10, func() {
		if err := CopyInto(source, target, nil); err != nil {
			t.Error(err)
		}
	})
	if allocations != 0 {
		t.Error(allocations)
	}
}

package handover

import (
	"bytes"
	"slices"
	"strings"
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

func TestCopyInto(t *testing.T) {
	type change = func(*dlpack.Description)
	for _, test := range []struct {
		name           string
		source, target []change
		want           []byte
	}{
		{"compact", nil, nil, []byte{1, 2, 3, 4, 5, 6}},
		{"a reversed source", []change{reversed}, nil, []byte{5, 6, 3, 4, 1, 2}},
		{"a reversed target", nil, []change{reversed}, []byte{5, 6, 3, 4, 1, 2}},
		{"both reversed", []change{reversed}, []change{reversed}, []byte{1, 2, 3, 4, 5, 6}},
		{"a swapped source", []change{swapped}, nil, []byte{2, 1, 4, 3, 6, 5}},
		{"a swapped target", nil, []change{swapped}, []byte{2, 1, 4, 3, 6, 5}},
		{"both swapped", []change{swapped}, []change{swapped}, []byte{1, 2, 3, 4, 5, 6}},
		{"misaligned", []change{misaligned}, []change{misaligned}, []byte{0, 2, 3, 4, 5, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			source, _ := place(test.source...)
			target, memory := place(test.target...)
			clear(memory)
			if err := CopyInto(source, target, &allocator{}); err != nil || !bytes.Equal(memory, test.want) {
				t.Errorf("%d, %v; expected %d", memory, err, test.want)
			}
		})
	}
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
	if err := CopyInto(source, &target, a); dlpack.KindOf(err) != dlpack.KindOutOfMemory {
		t.Error(err)
	}
}

func TestWhatIsNotAlikeIsNotCopied(t *testing.T) {
	for text, change := range map[string]func(*dlpack.Description){
		"source is uint16 (3,), target is uint16 (2,); expected one shape": func(d *dlpack.Description) { d.Shape[0] = 2 },
		"(pass the first items: dlpack.frombuffer(dlpack.asdlpack(source, copy=True), 'uint16', (2,)))": func(d *dlpack.Description) {
			d.Shape[0] = 2
		},
		"(pass the first items: dlpack.frombuffer(target, 'uint16', (3,)))": func(d *dlpack.Description) {
			d.Shape[0], d.Span = 4, 8
		},
		"target is uint16 (); expected one shape, since nothing is repeated": func(d *dlpack.Description) { d.NDim = 0 },
		"(pass numpy.broadcast_to(numpy.asarray(dlpack.asdlpack(source, copy=None)), (2, 3)))": func(d *dlpack.Description) {
			d.NDim, d.Shape, d.Span = 2, [dlpack.MaxNDim]int64{2, 3}, 12
		},
		"(pass dlpack.frombuffer(dlpack.asdlpack(source, copy=True), 'uint16', (3, 1)))": func(d *dlpack.Description) {
			d.NDim, d.Shape[1] = 2, 1
		},
		"(pass dlpack.frombuffer(source, 'uint8', (6,)))": func(d *dlpack.Description) {
			d.DataType.Bits, d.Shape[0] = 8, 6
		},
		"expected one data type, since nothing is converted":                func(d *dlpack.Description) { d.DataType.Bits = 8 },
		"source is uint16 (3,), target is uint16 (3, 1); expected one":      func(d *dlpack.Description) { d.NDim, d.Shape[1] = 2, 1 },
		"source is uint16 (3,), target is int16 (3,); expected one data":    func(d *dlpack.Description) { d.DataType.Code = dlpack.Int },
		"target: data has 6 bytes; shape, strides and offset need bytes ":   func(d *dlpack.Description) { d.Shape[0] = 4 },
		"target: strides dimension 0 is 0: its 3 items are one; expected m": func(d *dlpack.Description) { d.HasStrides = true },
		"target: strides dimension 0 is 1 bytes, where items and smaller steps reach over 2: items may overlap; expected": func(d *dlpack.Description) {
			d.HasStrides, d.Strides[0] = true, 1
		},
	} {
		source, _ := place()
		target, memory := place(change)
		err := CopyInto(source, target, &allocator{})
		if err == nil || !strings.Contains(err.Error(), text) || !bytes.Equal(memory, items) {
			t.Errorf("%v; expected %s", err, text)
		}
	}
}

func TestItemsArePackedOnTheCPUAlone(t *testing.T) {
	packed := func(d *dlpack.Description) { d.DataType = dlpack.DataType{Code: dlpack.Int, Bits: 4, Lanes: 1} }
	padded := func(d *dlpack.Description) { d.Flags = dlpack.SubbyteTypePadded }
	source, _ := place(packed, padded)
	target, _ := place(packed, on(dlpack.CUDA))
	refused(t, CopyInto(source, target, nil), dlpack.KindMalformed,
		"source is int4 (padded) (3,), target is int4 (3,); expected one data type, since nothing is converted (pack or pad")
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

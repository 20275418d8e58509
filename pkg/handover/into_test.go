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

// bcomplex is one complex number of two bfloat16.
func bcomplex(d *dlpack.Description) {
	d.DataType, d.Shape[0] = dlpack.DataType{Code: dlpack.Bcomplex, Bits: 32, Lanes: 1}, 1
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
		{"swapped complex numbers", []change{swapped, bcomplex}, []change{bcomplex}, []byte{2, 1, 4, 3, 0, 0}},
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
	if err := CopyInto(source, &target, a); dlpack.KindOf(err) != dlpack.ErrOutOfMemory {
		t.Error(err)
	}
}

func TestWhatIsNotAlikeIsNotCopied(t *testing.T) {
	for text, change := range map[string]func(*dlpack.Description){
		"shapes-differ: source_dtype=uint16, source_shape=(3,), target_dtype=uint16, target_shape=(2,) (": func(d *dlpack.Description) { d.Shape[0] = 2 },
		"target_shape=(2,) (first-items: object=source-copy, dtype=uint16, shape=(2,), converted=nothing)": func(d *dlpack.Description) {
			d.Shape[0] = 2
		},
		"target_shape=(4,) (first-items: object=target, dtype=uint16, shape=(3,), converted=nothing)": func(d *dlpack.Description) {
			d.Shape[0], d.Span = 4, 8
		},
		"target_shape=()": func(d *dlpack.Description) { d.NDim = 0 },
		"target_shape=(2, 3) (broadcast: shape=(2, 3))": func(d *dlpack.Description) {
			d.NDim, d.Shape, d.Span = 2, [dlpack.MaxNDim]int64{2, 3}, 12
		},
		"target_shape=(3, 1) (reinterpret: object=source-copy, dtype=uint16, shape=(3, 1), converted=nothing)": func(d *dlpack.Description) {
			d.NDim, d.Shape[1] = 2, 1
		},
		"target_shape=(6,) (reinterpret: object=source, dtype=uint8, shape=(6,), converted=nothing)": func(d *dlpack.Description) {
			d.DataType.Bits, d.Shape[0] = 8, 6
		},
		"types-differ: source_dtype=uint16, source_shape=(3,), target_dtype=uint8, target_shape=(3,)":       func(d *dlpack.Description) { d.DataType.Bits = 8 },
		"shapes-differ: source_dtype=uint16, source_shape=(3,), target_dtype=uint16, target_shape=(3, 1) (": func(d *dlpack.Description) { d.NDim, d.Shape[1] = 2, 1 },
		"types-differ: source_dtype=uint16, source_shape=(3,), target_dtype=int16, target_shape=(3,)":       func(d *dlpack.Description) { d.DataType.Code = dlpack.Int },
		"target: beyond-span: span=6, from=0, to=8":                                                         func(d *dlpack.Description) { d.Shape[0] = 4 },
		"target: repeated-items: dimension=0, items=3 (one-item: first=:1)":                                 func(d *dlpack.Description) { d.HasStrides = true },
		"target: overlapping-items: dimension=0, stride=1, reach=2 (copy-by-owner)": func(d *dlpack.Description) {
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

func TestNoCureOfATargetIsItsCopy(t *testing.T) {
	source, _ := place()
	target, _ := place(func(d *dlpack.Description) {
		d.DataType = dlpack.DataType{Code: dlpack.Int, Bits: 4, Lanes: 1}
		d.HasStrides, d.Strides[0] = true, 2
	})
	err := CopyInto(source, target, &allocator{})
	if r, ok := err.(*dlpack.Refusal); !ok || r.Saying != dlpack.PackedStrides || r.Cure != dlpack.CopyByOwner {
		t.Error(err)
	}
}

func TestItemsArePackedOnTheCPUAlone(t *testing.T) {
	packed := func(d *dlpack.Description) { d.DataType = dlpack.DataType{Code: dlpack.Int, Bits: 4, Lanes: 1} }
	padded := func(d *dlpack.Description) { d.Flags = dlpack.SubbyteTypePadded }
	source, _ := place(packed, padded)
	target, _ := place(packed, on(dlpack.CUDA))
	refused(t, CopyInto(source, target, nil), dlpack.ErrMalformed,
		"types-differ: source_dtype=int4 (padded), source_shape=(3,), target_dtype=int4, target_shape=(3,) (repack)")
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

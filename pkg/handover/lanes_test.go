package handover

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"

	"dlpack/pkg/dlpack"
)

// A storage is a way to store items smaller than a byte: packed (1 lane), in lanes, or padded (0 lanes).
type storage struct {
	lanes    uint16
	reversed bool // the last dimension
}

// small describes rows of items of `bits` bits in new memory, with a guard behind it. It returns nil if the
// storage can't have them.
func small(bits uint8, rows, items int64, s storage) (*Place, []byte) {
	d := dlpack.Description{NDim: 2, Span: -1, Device: dlpack.Device{Type: dlpack.CPU}}
	d.DataType = dlpack.DataType{Code: dlpack.UInt, Bits: bits, Lanes: max(s.lanes, 1)}
	if bits == 6 {
		d.DataType.Code = dlpack.Float6E2M3FN
	}
	if s.lanes == 0 {
		d.Flags = dlpack.SubbyteTypePadded
	}
	lanes := int64(d.DataType.Lanes)
	if items%lanes != 0 {
		return nil, nil
	}
	d.Shape[0], d.Shape[1] = rows, items/lanes
	itemSize := d.DataType.ItemSize()
	nbytes := (rows*items*int64(bits) + 7) / 8
	if s.lanes == 0 || d.DataType.WholeBytes() {
		nbytes = rows * d.Shape[1] * itemSize
		if s.reversed {
			d.HasStrides, d.ElementStrides = true, true
			d.Strides[0], d.Strides[1] = d.Shape[1], -1
			d.Offset = uint64(max(d.Shape[1]-1, 0) * itemSize)
		}
	}
	memory := append(make([]byte, nbytes), guard...)
	d.Data = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(memory))))
	return &Place{Description: d}, memory
}

// each calls f with the first bit of each item of rows that are stored so, in row-major order.
func each(bits uint8, rows, items int64, s storage, f func(i, bit int64)) {
	lanes := max(int64(s.lanes), 1)
	width := lanes * int64(bits)
	isWhole := s.lanes == 0 || width%8 == 0
	if s.lanes == 0 {
		width = 8
	}
	for i := range rows * items {
		item, lane := i/lanes, i%lanes
		if isWhole && s.reversed {
			perRow := items / lanes
			item = item/perRow*perRow + perRow - 1 - item%perRow
		}
		f(i, item*width+lane*int64(bits))
	}
}

func bitsAt(memory []byte, bit int64, bits uint8) (value byte) {
	for i := range int64(bits) {
		value |= memory[(bit+i)/8] >> ((bit + i) % 8) & 1 << i
	}
	return value
}

// checkPacking copies random items from one storage to the other.
func checkPacking(t *testing.T, seed uint64, bits uint8, rows, items int64, from, to storage) {
	t.Helper()
	source, src := small(bits, rows, items, from)
	target, dst := small(bits, rows, items, to)
	if source == nil || target == nil {
		return
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range len(src) - len(guard) {
		src[i] = byte(random.Uint32())
	}
	for i := range len(dst) - len(guard) {
		dst[i] = byte(random.Uint32())
	}
	before := bytes.Clone(dst)
	isConverted := from.lanes == to.lanes || from.lanes <= 1 || to.lanes <= 1
	a := &scratch{allocator: allocator{most: 1 << 20}}
	if err := CopyInto(source, target, a); !isConverted || err != nil {
		if isConverted || dlpack.KindOf(err) != dlpack.ErrMalformed {
			t.Fatal(err)
		}
		return
	}
	want := make([]byte, rows*items)
	each(bits, rows, items, from, func(i, bit int64) { want[i] = bitsAt(src, bit, bits) })
	each(bits, rows, items, to, func(i, bit int64) {
		if got := bitsAt(dst, bit, bits); got != want[i] {
			t.Fatalf("%d bits, %v to %v: item %d is %d, expected %d", bits, from, to, i, got, want[i])
		}
	})
	if !bytes.HasSuffix(dst, []byte(guard)) {
		t.Fatal("a byte behind the target was written")
	}
	if used := rows * items * int64(bits) % 8; to.lanes == 1 && used != 0 {
		if last := len(dst) - len(guard) - 1; (dst[last]^before[last])>>used != 0 {
			t.Fatal("a bit behind the last item was written")
		}
	}
}

func TestItemsArePackedPaddedAndPutIntoLanes(t *testing.T) {
	for _, bits := range []uint8{1, 2, 4, 6} {
		for _, lanes := range []uint16{2, 3, 4, 8} {
			ways := []storage{{0, false}, {0, true}, {1, false}, {lanes, false}, {lanes, true}}
			for _, from := range ways {
				for _, to := range ways {
					for rows := range int64(4) {
						checkPacking(t, uint64(rows), bits, rows, 24, from, to)
						checkPacking(t, uint64(rows), bits, rows, 5, from, to)
					}
				}
			}
		}
	}
}

func FuzzPacking(f *testing.F) {
	f.Add(uint64(1), uint8(2), uint8(2), uint8(6), uint8(2), uint8(0), true, false) // float4_e2m1fnx2 to padded
	f.Add(uint64(2), uint8(3), uint8(1), uint8(7), uint8(1), uint8(0), false, true)
	f.Add(uint64(3), uint8(1), uint8(3), uint8(8), uint8(0), uint8(4), true, true)
	f.Fuzz(func(t *testing.T, seed uint64, bits, rows, items, from, to uint8, reversed, reverses bool) {
		size := []uint8{1, 2, 4, 6}[bits%4]
		checkPacking(t, seed, size, int64(rows%8), int64(items), storage{uint16(from), reversed}, storage{uint16(to), reverses})
	})
}

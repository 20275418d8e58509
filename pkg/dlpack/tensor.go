package dlpack

import (
	"cmp"
	"slices"
)

// Item describes one item of an array, as a protocol does.
type Item struct {
	DataType  DataType
	Flags     Flags // the DLTensor's; other protocols set SubbyteTypePadded at most
	Swapped   bool  // the bytes of each word, which has several, are in non-native order
	BitPacked bool  // each item is one bit, the lowest bit of a byte first; DataType is the copy's, Bool
}

// Description describes memory in its protocol's units. Its fields are not trusted.
type Description struct {
	Item
	Device Device

	Data   uint64 // address, or handle
	Offset uint64 // bytes to add to Data
	Span   int64  // bytes of memory from Data on; -1: unknown

	Nulls    int64 // items without a value; if there are no items, rows without one
	FirstBit uint8 // if BitPacked: which bit of the first byte is the first item, 0 to 7

	NDim           int
	Shape          [MaxNDim]int64
	OpenShape      bool // one dimension may be -1, for the length that fills Offset to the end of Span
	HasStrides     bool // false: the layout is compact, and Strides are ignored
	ElementStrides bool // strides count elements, not bytes
	Strides        [MaxNDim]int64

	OnlyShared bool // the caller can't ask for a copy, so refusals have another cure

	// Field and Text name the data type in refusals: "typestr" and ">f4". Without them, refusals show DLPack's codes.
	Field, Text string
}

// strideCounts reports whether a stride leads to another item. If not, its value means nothing.
func (d *Description) strideCounts(dimension int, t *Tensor) bool {
	return d.HasStrides && t.Size > 0 && t.Shape[dimension] > 1
}

// ByteStrides returns the strides in bytes. A copy uses them to read memory that Validate accepted, or refused with
// [ErrNeedsCopy]. A stride that leads to no other item is replaced by that of a compact layout.
func (d *Description) ByteStrides(t *Tensor) (strides [MaxNDim]int64) {
	compact := t.ItemSize
	for i := t.NDim - 1; i >= 0; i-- {
		switch {
		case !d.strideCounts(i, t):
			strides[i] = compact
		case d.ElementStrides:
			strides[i] = d.Strides[i] * t.ItemSize
		default:
			strides[i] = d.Strides[i]
		}
		compact *= max(t.Shape[i], 1)
	}
	return strides
}

// Tensor describes validated memory. Consumers may rely on it.
type Tensor struct {
	DataType DataType
	Flags    Flags
	Device   Device

	NDim    int
	Shape   [MaxNDim]int64
	Strides [MaxNDim]int64 // elements

	Offset     uint64 // bytes from Data to the first element
	ByteOffset uint64 // DLTensor.byte_offset: not 0 only if data is a handle

	ItemSize, Size, NBytes int64

	Below, Above uint64 // bytes that the elements reach below and above the first element's address

	VersionedOnly bool // the legacy struct can't express this tensor, since it has no flags
	Compact       bool // row-major without gaps
}

// Packed reports whether items share bytes, so that a single item has no address.
func (t *Tensor) Packed() bool {
	return !t.DataType.WholeBytes() && t.Flags&SubbyteTypePadded == 0
}

// MakeCompact turns t into the tensor of its compact, row-major copy, which begins at the copy's data.
func (t *Tensor) MakeCompact() {
	stride := int64(1)
	for i := t.NDim - 1; i >= 0; i-- {
		t.Strides[i] = stride
		stride *= max(t.Shape[i], 1)
	}
	t.Offset, t.ByteOffset = 0, 0
	t.Below, t.Above = 0, uint64(t.NBytes)
	t.Compact = true
}

// Overlapping returns a dimension whose step is smaller than the reach of the items along all smaller steps, and that
// reach. Items may overlap there. It returns -1 if no items overlap. size, an item's, and strides have the same unit.
func Overlapping(shape, strides []int64, size int64) (dimension int, reach uint64) {
	reach = uint64(size)
	for i := len(shape) - 1; i >= 0 && (shape[i] <= 1 || magnitude(strides[i]) >= reach); i-- {
		if i == 0 {
			return -1, 0 // the usual row-major order needs no sorting
		}
		reach += uint64(max(shape[i]-1, 0)) * magnitude(strides[i])
	}
	var memory [MaxNDim]int
	bySteps := memory[:0]
	for i, n := range shape {
		if n > 1 {
			bySteps = append(bySteps, i)
		}
	}
	slices.SortFunc(bySteps, func(i, j int) int { return cmp.Compare(magnitude(strides[i]), magnitude(strides[j])) })
	reach = uint64(size)
	for _, i := range bySteps {
		step := magnitude(strides[i])
		if step < reach {
			return i, reach
		}
		reach += uint64(shape[i]-1) * step
	}
	return -1, 0
}

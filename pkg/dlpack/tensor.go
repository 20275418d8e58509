package dlpack

import (
	"cmp"
	"slices"
)

// Item is what a protocol says of each item of an array.
type Item struct {
	DataType  DataType
	Flags     Flags // of the DLTensor; other protocols know of SubbyteTypePadded alone
	Swapped   bool  // the bytes of each word are in the other order
	BitPacked bool  // each item is a bit, the lowest of a byte first; DataType is that of a copy, Bool
}

// Description is what a protocol says of memory, in the protocol's units. Nothing in it is trusted.
type Description struct {
	Item
	Device Device

	Data   uint64 // address, or handle
	Offset uint64 // bytes to add to Data
	Span   int64  // bytes of memory that begin at Data; -1: unknown

	Nulls    int64 // items that have no value; where there are no items, rows that have none
	FirstBit uint8 // BitPacked: the bit of its byte, 0 to 7, that is the first item

	NDim           int
	Shape          [MaxNDim]int64
	OpenShape      bool // one dimension may be -1: it becomes as many as fit between Offset and the end of Span
	HasStrides     bool // without strides the layout is compact
	ElementStrides bool // strides count elements, not bytes
	Strides        [MaxNDim]int64

	OnlyShared bool // the caller has no way to ask for a copy, so that messages suggest another way out

	// Field and Text name the data type in messages: "typestr" and ">f4". Without them, messages show its codes.
	Field, Text string
}

// strideCounts tells whether a stride leads to another item. If not, its value means nothing.
func (d *Description) strideCounts(dimension int, t *Tensor) bool {
	return d.HasStrides && t.Size > 0 && t.Shape[dimension] > 1
}

// ByteStrides gives the strides in bytes, by which a copy reads memory that Validate accepted, or refused with
// [KindNeedsCopy]. Where a stride leads to no other item, it is that of a compact layout.
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

// Tensor is memory that was validated: what a consumer may rely on.
type Tensor struct {
	DataType DataType
	Flags    Flags
	Device   Device

	NDim    int
	Shape   [MaxNDim]int64
	Strides [MaxNDim]int64 // elements

	Offset     uint64 // bytes from Data to the first element
	ByteOffset uint64 // what stays in DLTensor.byte_offset, where data is a handle

	ItemSize, Size, NBytes int64

	Below, Above uint64 // bytes that the elements reach below and above the first element's address

	VersionedOnly bool // the legacy struct can't say what this tensor is: it has no flags
	Compact       bool // row-major without gaps
}

// Packed tells whether items share bytes, so that a single one has no address.
func (t *Tensor) Packed() bool {
	return !t.DataType.WholeBytes() && t.Flags&SubbyteTypePadded == 0
}

// MakeCompact turns t into the tensor of its compact, row-major copy, which begins at its data.
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

// Overlapping gives a dimension whose step does not lead beyond all items that the smaller steps reach, and how far
// these reach; -1: there is none, and no items overlap. Strides and the size of an item are in one unit.
func Overlapping(shape, strides []int64, size int64) (dimension int, reach uint64) {
	reach = uint64(size)
	for i := len(shape) - 1; i >= 0 && (shape[i] <= 1 || magnitude(strides[i]) >= reach); i-- {
		if i == 0 {
			return -1, 0 // in row-major order, as mostly, nothing has to be sorted
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

package dlpack

// Description is what a protocol says of memory, in the protocol's units. Nothing in it is trusted.
type Description struct {
	DataType DataType
	Swapped  bool // the bytes of each word are in the other order
	Flags    Flags
	Device   Device

	Data   uint64 // address, or handle
	Offset uint64 // bytes to add to Data
	Span   int64  // bytes of memory from Data on; -1: unknown

	Nulls     int64 // items that have no value
	BitPacked bool  // each item is a bit, the lowest of a byte first; DataType is that of a copy, Bool
	FirstBit  uint8 // BitPacked: the bit of its byte, 0 to 7, that is the first item

	NDim           int
	Shape          [MaxNDim]int64
	OpenShape      bool // one dimension may be -1: as many as Span has room for from Offset on, which lies within it
	HasStrides     bool // without strides the layout is compact
	ElementStrides bool // strides count elements, not bytes
	Strides        [MaxNDim]int64

	OnlyShared bool // a copy can't be asked for

	// Field and Text name the data type in messages: "typestr" and ">f4". Without them its codes do.
	Field, Text string
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

	Alignment    uint64 // bytes that the first element's address is a multiple of, where there are addresses
	Below, Above uint64 // bytes that the elements reach below and above the first element's address

	// Remember tells that all this holds for any Data whose first element is aligned, and that has Below and Above
	// bytes around it, of the addresses and of Span. MaxCount > 0 tells that but for Shape, the
	// Strides of its compact layout, sizes and Above, which is NBytes, it holds for any shape of 1 to MaxCount items, too.
	Remember bool
	MaxCount int64

	VersionedOnly bool // the legacy struct can't say what this tensor is: it has no flags
	Compact       bool // row-major without gaps
}

// Packed tells whether items share bytes, so that a single one has no address.
func (t *Tensor) Packed() bool {
	return t.DataType.itemBits()%8 != 0 && t.Flags&SubbyteTypePadded == 0
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
	t.MaxCount, t.Remember = 0, false
	t.Compact = true
}

package dlpack

import (
	"math"
	"math/bits"
	"strconv"
)

// Validate checks d and fills t. It neither changes d nor reads the memory.
//
// If several things are wrong, it returns an error of [ErrMalformed] before one of [ErrUnsupported], and that before one
// of [ErrNeedsCopy]. After the last, t is complete but for Strides: enough to make a copy with
// [Description.ByteStrides].
func (d *Description) Validate(t *Tensor) error {
	if err := d.validateHead(); err != nil {
		return err
	}
	t.DataType, t.Flags, t.Device, t.NDim = d.DataType, d.Flags&knownFlags, d.Device, d.NDim
	if t.Device.Type == CPU {
		t.Device.ID = 0 // there is one CPU, whatever its id
	}
	if d.DataType.Bits%8 == 0 {
		t.Flags &^= SubbyteTypePadded // the flag means nothing for whole bytes
	}
	t.ItemSize = d.DataType.ItemSize()
	t.VersionedOnly = t.Flags&SubbyteTypePadded != 0
	copy(t.Shape[:t.NDim], d.Shape[:])
	if err := d.closeShape(t); err != nil {
		return err
	}
	if err := t.measure(); err != nil {
		return err
	}
	if d.Data == 0 && t.Size > 0 {
		return Malformed(DataIsNull, Text("shape", ShapeText(t.Shape[:t.NDim])))
	}
	odd, err := d.layOut(t)
	if err != nil {
		return err
	}
	if err := d.locate(t); err != nil {
		return err
	}
	if err := d.checkSubbyte(t); err != nil {
		return err
	}
	if d.Nulls != 0 {
		return d.refuseNulls(t)
	}
	return d.checkCurable(t, odd)
}

func (d *Description) refuseNulls(t *Tensor) error {
	if t.Size == 0 {
		return Unsupported(NullRows, d.values(Number("nulls", d.Nulls))...)
	}
	return Unsupported(NullItems, d.values(Number("nulls", d.Nulls), Number("items", t.Size))...)
}

// validateHead checks the device, the number of dimensions and the data type.
func (d *Description) validateHead() error {
	if d.Device.Type < CPU {
		return Malformed(UnknownDevice, Number("device_type", d.Device.Type))
	}
	if err := d.Device.checkID(); err != nil {
		return err
	}
	if err := CheckNDim(d.NDim); err != nil {
		return err
	}
	return d.DataType.Validate()
}

// CheckNDim refuses a number of dimensions that isn't 0 to MaxNDim.
func CheckNDim(ndim int) error {
	if ndim < 0 || ndim > MaxNDim {
		return Malformed(WrongNDim, Number("ndim", ndim), Number("most", MaxNDim))
	}
	return nil
}

// measure fills Size and NBytes. For the size limit, an empty dimension counts as 1, so that compact strides fit as
// well; numpy does the same.
func (t *Tensor) measure() error {
	count, size := uint64(1), uint64(1)
	tooLarge := false
	for i, n := range t.Shape[:t.NDim] {
		if n < 0 {
			return negative(i, n)
		}
		size *= uint64(n)
		high, low := bits.Mul64(count, uint64(max(n, 1)))
		tooLarge = tooLarge || high != 0
		count = low
	}
	high, low := bits.Mul64(count, uint64(t.ItemSize))
	if tooLarge || high != 0 || low > math.MaxInt64 {
		return t.tooLarge()
	}
	t.Size = int64(size)
	t.NBytes = t.Size * t.ItemSize
	if t.Packed() {
		high, low := bits.Mul64(size, uint64(t.DataType.itemBits()))
		low, carry := bits.Add64(low, 7, 0)
		t.NBytes = int64((high+carry)<<61 | low>>3)
	}
	return nil
}

func negative(dimension int, n int64) error {
	return Malformed(NegativeDimension, Number("dimension", dimension), Number("length", n))
}

func (t *Tensor) tooLarge() error {
	return Malformed(TooLarge, Text("shape", ShapeText(t.Shape[:t.NDim])), Number("itemsize", t.ItemSize),
		Number("most", math.MaxInt64))
}

// layOut fills Strides, Below, Above and Compact. It returns the first dimension whose stride isn't a multiple of the
// item size, or -1.
func (d *Description) layOut(t *Tensor) (odd int, err error) {
	odd = -1
	below, above := uint64(0), uint64(t.ItemSize)
	t.Compact = true
	elements := int64(1) // the stride of dimension i in a compact layout
	for i := d.NDim - 1; i >= 0; i-- {
		n := t.Shape[i]
		stride, step := elements, elements*t.ItemSize
		elements *= max(n, 1)
		if d.strideCounts(i, t) {
			compact := step
			stride, step = d.Strides[i], d.Strides[i]
			if d.ElementStrides {
				var fits bool
				if step, fits = multiply(stride, t.ItemSize); !fits {
					return odd, d.tooFar(i, n)
				}
			} else if stride = step / t.ItemSize; stride*t.ItemSize != step {
				odd = i
			}
			t.Compact = t.Compact && step == compact
		}
		if n > 1 {
			high, reach := bits.Mul64(magnitude(step), uint64(n-1))
			var carry uint64
			if step < 0 {
				below, carry = bits.Add64(below, reach, 0)
			} else {
				above, carry = bits.Add64(above, reach, 0)
			}
			if high != 0 || carry != 0 {
				return odd, d.tooFar(i, n)
			}
		}
		t.Strides[i] = stride
	}
	t.Below, t.Above = below, above
	switch {
	case t.Size == 0:
		t.Below, t.Above = 0, 0
	case t.Packed():
		t.Above = uint64(t.NBytes)
	case d.BitPacked:
		t.Above = (uint64(d.FirstBit) + uint64(t.Size) + 7) / 8
	}
	return odd, nil
}

func (d *Description) tooFar(dimension int, items int64) error {
	saying := TooFarBytes
	if d.ElementStrides {
		saying = TooFarElements
	}
	return Malformed(saying, Number("dimension", dimension), Number("stride", d.Strides[dimension]),
		Number("items", items))
}

// locate fills Offset and ByteOffset. It checks that every element lies within 64-bit addresses and within Span. An
// empty tensor passes.
func (d *Description) locate(t *Tensor) error {
	t.Offset, t.ByteOffset = 0, 0
	if t.Size == 0 {
		return nil
	}
	if !d.Device.Type.HasAddresses() {
		t.ByteOffset = d.Offset
	} else {
		t.Offset = d.Offset
		first, carry := bits.Add64(d.Data, d.Offset, 0)
		if carry != 0 {
			return Malformed(OffsetBeyondLast, Address("address", d.Data), Number("offset", d.Offset))
		}
		// 2^64 - first bytes lie from first on. As a uint64 that is -first, since first is not 0.
		if t.Below > first || t.Above > -first {
			return Malformed(ReachBeyondLast, Address("address", first), Number("below", t.Below),
				Number("above", t.Above))
		}
	}
	if d.Span < 0 {
		return nil
	}
	end, carry := bits.Add64(d.Offset, t.Above, 0)
	if t.Below > d.Offset || carry != 0 || end > uint64(d.Span) {
		from, to := Number("from", d.Offset-t.Below), Number("to", end)
		if t.Below > d.Offset {
			from.Text = "-" + strconv.FormatUint(t.Below-d.Offset, 10)
		}
		if carry != 0 {
			to = Text("to", "2^64 + "+to.Text)
		}
		outside := Malformed(BeyondSpan, Number("span", d.Span), from, to)
		if d.OpenShape {
			outside.Cure = CountUnits
		}
		return outside
	}
	return nil
}

// checkSubbyte refuses layouts of items smaller than a byte that DLPack can't express.
func (d *Description) checkSubbyte(t *Tensor) error {
	if (t.Packed() || d.BitPacked) && !t.Compact {
		if d.BitPacked {
			return Unsupported(PackedBitsStrides, d.values()...).Cured(CopyWithLibrary)
		}
		refused := Unsupported(PackedStrides, d.values(Number("size", d.DataType.itemBits()))...)
		if d.Field == "dtype" { // the caller's strides, not those of a library
			return refused
		}
		return refused.Cured(CopyWithLibrary)
	}
	if t.VersionedOnly && d.DataType.Lanes > 1 {
		return Unsupported(PaddedLanes, d.values(Number("lanes", d.DataType.Lanes))...).Cured(OneLane)
	}
	return nil
}

// checkCurable returns an error of [ErrNeedsCopy] if the memory can be exported only as a copy. odd is layOut's
// result.
func (d *Description) checkCurable(t *Tensor, odd int) error {
	alignment := t.DataType.Alignment()
	if d.Swapped {
		return d.cured(NeedsCopy(BigEndian, d.values()...), Convert, t)
	}
	if d.BitPacked && t.Size > 0 {
		return d.cured(NeedsCopy(BitPacked, d.values()...), Copy, t)
	}
	if odd >= 0 {
		return d.cured(NeedsCopy(OddStrides, Number("dimension", odd), Number("stride", d.Strides[odd]),
			Number("itemsize", t.ItemSize)), Copy, t)
	}
	if first := d.Data + t.Offset; t.Size > 0 && d.Device.Type.HasAddresses() && first%alignment != 0 {
		return d.cured(NeedsCopy(Misaligned, Address("address", first), Number("alignment", alignment)), Copy, t)
	}
	return nil
}

// cured returns the refusal with the cure that gets a copy: the one given, if the caller can ask for a copy.
func (d *Description) cured(r *Refusal, cure Cure, t *Tensor) error {
	if !d.OnlyShared {
		return r.Cured(cure)
	}
	if !d.Device.Type.OnCPU() {
		return r.Cured(CopyWithLibrary)
	}
	bytes := Number("reached", t.Below+t.Above)
	switch {
	case t.Below > 0:
		return r.Cured(CopyBytesBelow, bytes, Number("below", t.Below))
	case d.HasStrides:
		return r.Cured(CopyBytesStrided, bytes)
	}
	return r.Cured(CopyBytes, bytes)
}

// values returns what Python needs to name the data type as the protocol does, and more values.
func (d *Description) values(more ...Value) []Value {
	if d.Field == "" {
		return append(d.DataType.values(), more...)
	}
	return append([]Value{Text("field", d.Field), Quoted("text", d.Text)}, more...)
}

// ShapeText returns the shape as Python shows it: at most 6 dimensions.
func ShapeText(shape []int64) string {
	const most = 6
	text := JoinNumbers(shape[:min(len(shape), most)])
	switch {
	case len(shape) > most:
		text += ", ..."
	case len(shape) == 1:
		text += ","
	}
	return "(" + text + ")"
}

// JoinNumbers returns the numbers, separated by ", ".
func JoinNumbers(numbers []int64) (text string) {
	for i, n := range numbers {
		if i > 0 {
			text += ", "
		}
		text += strconv.FormatInt(n, 10)
	}
	return text
}

func magnitude(n int64) uint64 {
	if n < 0 {
		return -uint64(n)
	}
	return uint64(n)
}

// multiply returns stride * size, and whether that fits int64. size is not negative.
func multiply(stride, size int64) (product int64, fits bool) {
	high, low := bits.Mul64(magnitude(stride), uint64(size))
	if stride < 0 {
		return -int64(low), high == 0 && low <= 1<<63
	}
	return int64(low), high == 0 && low < 1<<63
}

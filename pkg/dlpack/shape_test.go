package dlpack

import (
	"math"
	"math/big"
	"strings"
	"testing"
)

// open describes memory of the given number of bytes, whose shape may have a -1.
func open(t DataType, bytes int64, shape []int64, changes ...func(*Description)) *Description {
	d := described(t, shape, changes...)
	d.Span, d.OpenShape = bytes, true
	d.Field, d.Text = "dtype", "float32"
	return d
}

func TestADimensionOfMinusOneIsWhatFitsIntoTheMemory(t *testing.T) {
	for _, d := range []*Description{
		open(float32Type, 12, []int64{-1}),
		open(float32Type, 12, []int64{-1}, offset(8)),
		open(float32Type, 12, []int64{-1}, offset(12)),
		open(float32Type, 0, []int64{-1, 3}, at(0)),
		open(float32Type, 48, []int64{-1, 2, 3}),
		open(float32Type, 48, []int64{2, -1, 3}),
		open(float32Type, 48, []int64{2, 3, -1}),
		open(DataType{Float, 32, 4}, 48, []int64{-1}),
		open(float4Type, 3, []int64{-1}),
		open(float4Type, 3, []int64{-1, 3}),
		open(float4Type, 3, []int64{-1}, offset(2)),
		open(DataType{Float6E2M3FN, 6, 1}, 3, []int64{-1}),
		open(DataType{Float6E2M3FN, 6, 2}, 3, []int64{-1}),
		open(float4Type, 3, []int64{-1}, flags(SubbyteTypePadded)),
		open(float32Type, 12, []int64{-1}, on(CUDA)),
		open(int8Type, 1<<62, []int64{-1, 1 << 61}),
	} {
		if checkOpenShape(t, *d); d.Validate(new(Tensor)) != nil {
			t.Errorf("%+v: %v", d, d.Validate(new(Tensor)))
		}
	}
}

func TestADimensionOfMinusOneThatSaysNothingIsMalformed(t *testing.T) {
	for _, test := range []struct {
		d    *Description
		want string
	}{
		{open(float32Type, 48, []int64{-1, 3, -1}), "second-open: dimension=2"},
		{open(float32Type, -1, []int64{2, -1}), "open-of-unknown: dimension=1"},
		{open(float32Type, 48, []int64{-1, 3}, elements(3, 1)), "open-beside-strides: dimension=0"},
		{open(float32Type, 0, []int64{-1, 0}), "open-beside-zero: dimension=0"},
		{open(float32Type, 48, []int64{-1, -3}), "negative-dimension: dimension=1, length=-3"},
		{open(float32Type, 13, []int64{-1}),
			"indivisible-items: shape=(-1,), bytes=13, offset=0, group=1, size=4, unit=bytes (give-length)"},
		{open(float32Type, 20, []int64{-1, 3}, offset(4)),
			"indivisible-groups: shape=(-1, 3), bytes=16, offset=4, group=3, size=4, unit=bytes (give-length)"},
		{open(float4Type, 5, []int64{-1, 3}),
			"indivisible-groups: shape=(-1, 3), bytes=5, offset=0, group=3, size=4, unit=bits (give-length)"},
		{open(float32Type, 12, []int64{-1, 1 << 62}), "too-large"},
		{open(float32Type, 12, []int64{-1, 1 << 32, 1 << 32, 3}), "too-large"}, // overflows
		{open(float32Type, 12, []int64{-1, math.MaxInt64, math.MaxInt64}), // wraps to 1
			"too-large: shape=(-1, 9223372036854775807, 9223372036854775807), itemsize=4"},
		{open(DataType{UInt, 1, 1}, math.MaxInt64, []int64{-1}), "too-large: shape=(-1,), itemsize=1"},
		{open(DataType{UInt, 1, 1}, 1<<60, []int64{-1}), "too-large"}, // 2^63 bits
		{open(float32Type, 12, []int64{2}, elements(3)), "beyond-span: span=12, from=0, to=16 (count-units)"},
		{open(float32Type, 12, []int64{-1}, offset(13)), "offset-beyond-span: offset=13, span=12"},
		{open(float32Type, 12, []int64{0}, offset(13)), "offset-beyond-span: offset=13, span=12"},
		{open(float32Type, 12, []int64{0}, offset(math.MaxUint64)),
			"offset-beyond-span: offset=18446744073709551615, span=12"},
	} {
		checkOpenShape(t, *test.d)
		if refused(t, test.d, test.want); KindOf(test.d.Validate(new(Tensor))) != ErrMalformed {
			t.Errorf("%s: of another kind", test.want)
		}
	}
}

// plainNumber is what a dimension of -1 becomes, found in numbers without limits: the n at which n times the other
// dimensions take all bits.
func plainNumber(d *Description) (n *big.Int, ok bool) {
	bits := int64(d.DataType.Bits) * int64(d.DataType.Lanes)
	if bits%8 != 0 && d.Flags&SubbyteTypePadded != 0 {
		bits += 8 - bits%8
	}
	left := new(big.Int).Sub(big.NewInt(d.Span), new(big.Int).SetUint64(d.Offset))
	step, open := big.NewInt(bits), 0
	for _, size := range d.Shape[:d.NDim] {
		if size == -1 {
			open++
		} else if size <= 0 {
			return nil, false
		} else {
			step.Mul(step, big.NewInt(size))
		}
	}
	if open != 1 || d.HasStrides || d.Span < 0 || left.Sign() < 0 {
		return nil, false
	}
	n, rest := new(big.Int).QuoRem(left.Mul(left, big.NewInt(8)), step, new(big.Int))
	return n, rest.Sign() == 0
}

func FuzzAnOpenShapeIsWhatUnlimitedNumbersFind(f *testing.F) {
	const open, zero = 63, 64 // the bytes of -1 and 0 in dims
	add := func(t DataType, flags Flags, offset uint64, span int64, strides bool, dims ...byte) {
		f.Add(uint8(t.Code), t.Bits, t.Lanes, uint8(flags), offset, span, strides, dims)
	}
	add(float32Type, 0, 4, 28, false, open, zero+3)
	add(float32Type, 0, 5, 4, false, open)
	add(float32Type, 0, 0, 13, false, zero+3, open)
	add(float32Type, 0, 0, -1, false, open)
	add(float32Type, 0, 0, 12, true, open)
	add(float32Type, 0, 0, 12, false, open, open)
	add(float32Type, 0, 0, 0, false, open, zero)
	add(float4Type, 0, 0, 3, false, open, zero+3)
	add(float4Type, SubbyteTypePadded, 0, 3, false, open, zero+3)
	add(DataType{UInt, 1, 1}, 0, 0, math.MaxInt64, false, open)
	add(DataType{UInt, 1, 1}, 0, 0, math.MaxInt64, false, open, 255, 254)
	add(int8Type, 0, 0, math.MaxInt64, false, zero+1, open)
	f.Fuzz(func(t *testing.T, code, bits uint8, lanes uint16, flags uint8, offset uint64, span int64, strides bool,
		dims []byte) {
		d := Description{
			Item:   Item{DataType: DataType{TypeCode(code), bits, lanes}, Flags: Flags(flags)},
			Device: Device{Type: CPU}, Data: 1, Offset: offset, Span: max(span, -1), OpenShape: true,
			HasStrides: strides, ElementStrides: true,
			NDim: min(len(dims), MaxNDim),
		}
		if d.DataType.Validate() != nil {
			return
		}
		for i := range d.NDim {
			d.Shape[i], d.Strides[i] = fuzzed(dims[i]), 1
		}
		checkOpenShape(t, d)
	})
}

// checkOpenShape compares a description whose shape may be open with one whose shape plainNumber closed.
func checkOpenShape(t *testing.T, d Description) {
	t.Helper()
	given := d
	n, ok := plainNumber(&given)
	var got Tensor
	err := d.Validate(&got)
	if err != nil && d.DataType.itemBits()%8 != 0 && strings.Contains(err.Error(), "too-large") {
		return // for packed items the limit is 2^64 bits
	}
	if d != given {
		t.Fatalf("the description became %+v; it was %+v", d, given)
	}
	known := true
	for _, size := range given.Shape[:d.NDim] {
		known = known && size != -1
	}
	if known || !ok || !n.IsInt64() {
		if !known && err == nil {
			t.Fatalf("%v became %v", given.Shape[:d.NDim], d.Shape[:d.NDim])
		}
		if d.Offset > math.MaxInt64 && d.Span >= 0 && err == nil {
			t.Fatalf("offset %d of %d bytes", d.Offset, d.Span)
		}
		return
	}
	// It must equal the same memory described with that shape.
	closed := given
	closed.OpenShape = false
	for i, size := range closed.Shape[:d.NDim] {
		if size == -1 {
			closed.Shape[i] = n.Int64()
		}
	}
	var want Tensor
	wanted := closed.Validate(&want)
	if (err == nil) != (wanted == nil) || KindOf(err) != KindOf(wanted) ||
		err == nil && got != want {
		t.Fatalf("%v, %+v; want %v, %+v", err, got, wanted, want)
	}
	if err == nil && uint64(got.NBytes) != uint64(d.Span)-d.Offset {
		t.Fatalf("%d bytes of %d", got.NBytes, uint64(d.Span)-d.Offset)
	}
}

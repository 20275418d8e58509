package dlpack

import (
	"bytes"
	"fmt"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// plainCodes are the codes of the standard, and the bits that a scalar of each can have.
var plainCodes = []string{"1 2 4 8 16 32 64 128", "1 2 4 8 16 32 64 128", "16 32 64 128", "1 2 4 8 16 32 64 128", "16",
	"32 64 128", "8", "8", "8", "8", "8", "8", "8", "8", "8", "6", "6", "4", "32"}

// checkDataType checks what is known of a data type, and whether it is one.
func checkDataType(t *testing.T, d DataType) {
	t.Helper()
	err := d.Validate()
	known := int(d.Code) < len(plainCodes) && d.Lanes > 0 &&
		slices.Contains(strings.Fields(plainCodes[d.Code]), strconv.Itoa(int(d.Bits)))
	if !known {
		if KindOf(err) != ErrMalformed || !strings.Contains(err.Error(), fmt.Sprintf(": code=%d, bits=%d, lanes=%d", d.Code, d.Bits, d.Lanes)) {
			t.Fatalf("%+v: %v", d, err)
		}
		return
	}
	bytes, word := 0, int(d.Bits)
	for bytes*8 < int(d.Bits)*int(d.Lanes) {
		bytes++
	}
	if d.Code == Complex || d.Code == Bcomplex {
		word /= 2
	}
	if err != nil || d.ItemSize() != int64(bytes) || d.Alignment() != uint64(max(word, 8))/8 ||
		(d.Code.FixedBits() == d.Bits) == strings.Contains(plainCodes[d.Code], " ") {
		t.Fatalf("%+v: %v, %d bytes, aligned to %d", d, err, d.ItemSize(), d.Alignment())
	}
}

func TestEveryDataTypeIsKnownOrRefused(t *testing.T) {
	for code := range 256 {
		for bits := range 256 {
			checkDataType(t, DataType{TypeCode(code), uint8(bits), 1})
		}
	}
}

func TestADataTypeThatIsNoneSaysWhatItMayBe(t *testing.T) {
	for want, d := range map[string]DataType{
		"wrong-bits: code=2, bits=7, lanes=1, name=float, expected=16 32 64 128":        {Float, 7, 1},
		"wrong-bits: code=0, bits=24, lanes=1, name=int, expected=1 2 4 8 16 32 64 128": {Int, 24, 1},
		"wrong-bits: code=4, bits=32, lanes=1, name=bfloat16, expected=16":              {Bfloat, 32, 1},
		"wrong-bits: code=8, bits=16, lanes=1, name=float8_e4m3, expected=8":            {Float8E4M3, 16, 1},
		"wrong-bits: code=18, bits=64, lanes=1, name=bcomplex32, expected=32":           {Bcomplex, 64, 1},
		"no-lanes: code=2, bits=32, lanes=0":                                            {Float, 32, 0},
		"unknown-code: code=19, bits=8, lanes=1, most=18":                               {19, 8, 1},
	} {
		if err := d.Validate(); err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
}

func FuzzDataType(f *testing.F) {
	for _, d := range []DataType{
		{Float, 32, 4}, {Complex, 32, 1}, {Complex, 128, 1}, {Bcomplex, 32, 2}, {Int, 128, 65535}, {Int, 8, 0},
		{UInt, 1, 8}, {UInt, 1, 9}, {Float4E2M1FN, 4, 2}, {Float6E2M3FN, 6, 4},
		{Float6E2M3FN, 6, 5}, {Float8E5M2, 8, 3},
	} {
		f.Add(uint8(d.Code), d.Bits, d.Lanes)
	}
	f.Fuzz(func(t *testing.T, code, bits uint8, lanes uint16) {
		checkDataType(t, DataType{TypeCode(code), bits, lanes})
	})
}

func FuzzQuote(f *testing.F) {
	f.Add("<f4")
	f.Add("\x00\xff\"")
	f.Add(strings.Repeat("\u03b1", 31)) // cut within a character
	f.Fuzz(func(t *testing.T, text string) {
		quoted, cut := strings.CutSuffix(Quoted("", text).String(), `"...`)
		if cut {
			quoted += `"`
		}
		back, err := strconv.Unquote(quoted)
		if err != nil || back != text[:min(len(text), 60)] || cut != (len(text) > 60) {
			t.Fatalf("%q: %s", text, Quoted("", text).String())
		}
		for _, letter := range []byte(quoted) {
			if letter < ' ' || letter > '~' {
				t.Fatalf("%q: %s", text, quoted)
			}
		}
	})
}

// The numbers that a fuzzed dimension or stride may be, besides small ones.
var extremes = []int64{1 << 31, 1 << 32, 1 << 60, 1 << 61, 1 << 62, math.MaxInt64 / 3, math.MaxInt64 - 7, math.MaxInt64,
	-1 << 31, -1 << 60, -1 << 62, math.MinInt64 + 8, math.MinInt64}

// fuzzed is a number of a dimension: mostly a small one.
func fuzzed(b byte) int64 {
	if int(b) >= 256-len(extremes) {
		return extremes[255-b]
	}
	return int64(b) - 64
}

// plain is what Validate should find, by the rules written out in numbers without limits.
type plain struct {
	kind          Kind // only where refused
	refused       bool
	below, above  *big.Int
	compact       bool
	strides       []int64 // bytes
	nbytes, first *big.Int
}

func plainly(d *Description) plain {
	no := func(kind Kind) plain { return plain{kind: kind, refused: true} }
	int64s := func(n *big.Int) bool { return n.IsInt64() }
	of := big.NewInt
	if d.Device.Type < 1 || d.Device.Type != CPU && d.Device.ID < 0 || d.NDim < 0 || d.NDim > 64 {
		return no(ErrMalformed)
	}
	if d.DataType.Validate() != nil {
		return no(ErrMalformed)
	}
	padded, itemBits := d.Flags&SubbyteTypePadded != 0, int(d.DataType.Bits)*int(d.DataType.Lanes)
	item := of(int64((itemBits + 7) / 8))
	size, bounded := of(1), of(1)
	for _, n := range d.Shape[:d.NDim] {
		if n < 0 {
			return no(ErrMalformed)
		}
		size.Mul(size, of(n))
		bounded.Mul(bounded, of(max(n, 1)))
	}
	if !int64s(new(big.Int).Mul(bounded, item)) || size.Sign() > 0 && d.Data == 0 {
		return no(ErrMalformed)
	}
	p := plain{below: of(0), above: new(big.Int).Set(item), compact: true, strides: make([]int64, d.NDim)}
	compactStride := new(big.Int).Set(item)
	odd := false
	for i := d.NDim - 1; i >= 0; i-- {
		n, stride := d.Shape[i], new(big.Int).Set(compactStride)
		if d.HasStrides && size.Sign() > 0 && n > 1 {
			stride = of(d.Strides[i])
			if d.ElementStrides {
				stride.Mul(stride, item)
			}
			odd = odd || new(big.Int).Rem(stride, item).Sign() != 0
		}
		p.compact = p.compact && stride.Cmp(compactStride) == 0
		if !int64s(stride) {
			return no(ErrMalformed)
		}
		p.strides[i] = stride.Int64()
		if reach := new(big.Int).Mul(stride, of(max(n-1, 0))); reach.Sign() < 0 {
			p.below.Sub(p.below, reach)
		} else {
			p.above.Add(p.above, reach)
		}
		compactStride.Mul(compactStride, of(max(n, 1)))
	}
	packed := itemBits%8 != 0 && !padded
	p.nbytes = new(big.Int).Mul(size, item)
	if packed {
		p.nbytes.Mul(size, of(int64(itemBits))).Add(p.nbytes, of(7)).Rsh(p.nbytes, 3)
		p.compact = p.compact && p.below.Sign() == 0
	}
	if size.Sign() == 0 {
		p.below, p.above = of(0), of(0)
	}
	data, offset := new(big.Int).SetUint64(d.Data), new(big.Int).SetUint64(d.Offset)
	p.first = new(big.Int).Add(data, offset)
	memory := new(big.Int).Lsh(of(1), 64)
	if p.below.Cmp(memory) >= 0 || p.above.Cmp(memory) >= 0 {
		return no(ErrMalformed)
	}
	if packed && size.Sign() > 0 {
		p.above = p.nbytes
	}
	if d.BitPacked && size.Sign() > 0 {
		p.above = new(big.Int).Add(size, of(int64(d.FirstBit)+7))
		p.above.Rsh(p.above, 3)
	}
	if size.Sign() > 0 && d.Device.Type.HasAddresses() {
		if p.first.Cmp(memory) >= 0 || p.below.Cmp(p.first) > 0 || new(big.Int).Add(p.first, p.above).Cmp(memory) > 0 {
			return no(ErrMalformed)
		}
	}
	if size.Sign() > 0 && d.Span >= 0 {
		if p.below.Cmp(offset) > 0 || new(big.Int).Add(offset, p.above).Cmp(of(d.Span)) > 0 {
			return no(ErrMalformed)
		}
	}
	misaligned := new(big.Int).Rem(p.first, new(big.Int).SetUint64(d.DataType.Alignment())).Sign() != 0
	switch {
	case (packed || d.BitPacked) && !p.compact, padded && d.DataType.Bits < 8 && d.DataType.Lanes > 1, d.Nulls != 0:
		p.kind, p.refused = ErrUnsupported, true
	case d.Swapped && d.DataType.Alignment() > 1, odd, d.BitPacked && size.Sign() > 0,
		misaligned && size.Sign() > 0 && d.Device.Type.HasAddresses():
		p.kind, p.refused = ErrNeedsCopy, true
	}
	return p
}

func FuzzValidateFindsWhatUnlimitedNumbersFind(f *testing.F) {
	const (
		zero     = 64  // the byte of 0 in dims
		smallest = 243 // of -2^63
		huge     = 248 // of 2^63 - 1

		given, elements, swapped, bitPacked, nulls = 1, 2, 4, 8, 16 // facts; the three highest bits are FirstBit
	)
	add := func(t DataType, flags Flags, device DeviceType, data, offset uint64, span int64, facts uint8,
		dims ...byte) {
		f.Add(uint8(t.Code), t.Bits, t.Lanes, uint8(flags), int8(device), int8(0), data, offset, span, facts, dims)
	}
	// reversed and strided within a span
	add(float32Type, 0, CPU, data, 96, 200, given, zero+2, zero-48, zero+3, zero+8)
	// elements of a handle
	add(DataType{Complex, 64, 2}, IsCopied, Metal, 1, 7, -1, given|elements, zero+5, zero-2)
	// packed and padded items, and a bit an item from the last bit on
	add(DataType{Float4E2M1FN, 4, 3}, 0, CPU, data, 0, 5, given|elements, zero+3, zero+1)
	add(DataType{Int, 4, 2}, SubbyteTypePadded, CPU, data, 0, -1, given|swapped, zero+5, zero-1)
	add(DataType{Bool, 8, 1}, 0, CPU, data, 0, 2, bitPacked|nulls|7<<5, zero+9, zero)
	// two dimensions that are too large together, without items
	add(int8Type, 0, CPU, 0, 0, -1, 0, zero, zero, huge, zero, huge, zero)
	// as many dimensions as there can be, and one more
	add(int8Type, 0, CPU, data, 0, -1, 0, bytes.Repeat([]byte{zero + 1, zero}, 64)...)
	add(int8Type, 0, CPU, data, 0, -1, 0, bytes.Repeat([]byte{zero + 1, zero}, 65)...)
	// both ends of the addresses, and strides that lead too far together
	add(int8Type, 0, CPU, 8, math.MaxUint64-7, -1, 0, zero+5, zero)
	add(int8Type, 0, CPU, 1<<63, 0, -1, given|elements, zero+2, smallest)
	add(int8Type, 0, Vulkan, 8, 0, -1, given, zero+2, huge, zero+2, huge, zero+2, zero+2)
	f.Fuzz(func(t *testing.T, code, bits uint8, lanes uint16, flags uint8, device, id int8, data, offset uint64,
		span int64, facts uint8, dims []byte) {
		d := Description{
			Item: Item{
				DataType: DataType{TypeCode(code), bits, lanes}, Flags: Flags(flags), Swapped: facts&4 != 0,
				BitPacked: facts&8 != 0,
			},
			Device: Device{DeviceType(device), int32(id)}, Data: data, Offset: offset, Span: max(span, -1),
			HasStrides: facts&1 != 0, ElementStrides: facts&2 != 0, NDim: len(dims) / 2,
			FirstBit: facts >> 5, Nulls: int64(facts) & 16,
		}
		if d.BitPacked {
			d.DataType = DataType{Bool, 8, 1}
		}
		for i := range min(d.NDim, MaxNDim) {
			d.Shape[i], d.Strides[i] = fuzzed(dims[2*i]), fuzzed(dims[2*i+1])
		}
		if d.DataType.itemBits()%8 != 0 && !d.ElementStrides && d.Flags&SubbyteTypePadded == 0 {
			d.HasStrides = false // no protocol counts the strides of packed items in bytes
		}
		checkValidation(t, d)
	})
}

// checkValidation compares what Validate finds with plainly's.
func checkValidation(t *testing.T, d Description) {
	t.Helper()
	original := d
	want := plainly(&d)
	var got Tensor
	err := d.Validate(&got)
	if d != original {
		t.Fatalf("the description became %+v; it was %+v", d, original)
	}
	if (err != nil) != want.refused || err != nil && KindOf(err) != want.kind {
		t.Fatalf("got %v; want %+v", err, want)
	}
	if err != nil && want.kind != ErrNeedsCopy {
		return
	}
	byteStrides := d.ByteStrides(&got)
	if got.NBytes != want.nbytes.Int64() || got.Compact != want.compact ||
		!slices.Equal(byteStrides[:d.NDim], want.strides) || !slices.Equal(got.Shape[:got.NDim], d.Shape[:d.NDim]) {
		t.Fatalf("got %+v; want %+v", got, want)
	}
	if got.VersionedOnly != (d.Flags&SubbyteTypePadded != 0 && d.DataType.Bits < 8) {
		t.Fatalf("%+v: versioned only: %v", d, got.VersionedOnly)
	}
	if got.Below != want.below.Uint64() || got.Above != want.above.Uint64() {
		t.Fatalf("below %d, above %d; want %+v", got.Below, got.Above, want)
	}
	if err != nil {
		return
	}
	for i, stride := range got.Strides[:got.NDim] {
		if stride*got.ItemSize != want.strides[i] {
			t.Fatalf("strides %v, bytes %v", got.Strides[:got.NDim], want.strides)
		}
	}
	tensorOfTensor(t, &d, &got)
}

// tensorOfTensor checks that a tensor, described as DLPack does, is found valid and the same.
func tensorOfTensor(t *testing.T, d *Description, want *Tensor) {
	again := Description{
		Item: Item{DataType: want.DataType, Flags: want.Flags}, Device: want.Device,
		Data: d.Data, Offset: want.Offset + want.ByteOffset, Span: d.Span, NDim: want.NDim, Shape: want.Shape,
		HasStrides: true, ElementStrides: true, Strides: want.Strides,
	}
	if want.Size == 0 {
		again.Data = 0
	}
	var got Tensor
	if err := again.Validate(&got); err != nil {
		t.Fatalf("%+v described again: %v", want, err)
	}
	if got != *want {
		t.Fatalf("described again: %+v; want %+v", got, *want)
	}
}

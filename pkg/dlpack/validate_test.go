package dlpack

import (
	"math"
	"strings"
	"testing"
)

const data = 1 << 20

var (
	int8Type    = DataType{Int, 8, 1}
	float32Type = DataType{Float, 32, 1}
	boolType    = DataType{Bool, 8, 1}
	float4Type  = DataType{Float4E2M1FN, 4, 1}
)

// described is a description of CPU memory, changed.
func described(t DataType, shape []int64, changes ...func(*Description)) *Description {
	d := &Description{Item: Item{DataType: t}, Device: Device{Type: CPU}, Data: data, Span: -1, NDim: len(shape)}
	copy(d.Shape[:], shape)
	for _, change := range changes {
		change(d)
	}
	return d
}

func strides(bytes ...int64) func(*Description) {
	return func(d *Description) {
		d.HasStrides = true
		copy(d.Strides[:], bytes)
	}
}

func elements(strides ...int64) func(*Description) {
	return func(d *Description) {
		d.HasStrides, d.ElementStrides = true, true
		copy(d.Strides[:], strides)
	}
}

func on(device DeviceType) func(*Description) {
	return func(d *Description) { d.Device.Type = device }
}

func at(data uint64) func(*Description) {
	return func(d *Description) { d.Data = data }
}

func offset(bytes uint64) func(*Description) {
	return func(d *Description) { d.Offset = bytes }
}

func span(bytes int64) func(*Description) {
	return func(d *Description) { d.Span = bytes }
}

func flags(flags Flags) func(*Description) {
	return func(d *Description) { d.Flags = flags }
}

func bitPacked(first uint8) func(*Description) {
	return func(d *Description) {
		d.BitPacked, d.FirstBit, d.Field, d.Text = true, first, "Arrow format", "b"
	}
}

func nulls(n int64) func(*Description) {
	return func(d *Description) { d.Nulls, d.Field, d.Text = n, "Arrow format", "l" }
}

func swapped(d *Description) { d.Swapped, d.Field, d.Text = true, "typestr", ">f4" }

func TestValidDescriptionsBecomeTensors(t *testing.T) {
	for _, d := range []*Description{
		described(float32Type, nil),
		described(float32Type, []int64{2, 3}),
		described(float32Type, []int64{2, 3}, strides(12, 4)),
		described(float32Type, []int64{2, 3}, elements(3, 1)),
		described(float32Type, []int64{2, 3}, strides(4, 8)),
		described(float32Type, []int64{3}, strides(-4)),
		described(float32Type, []int64{2, 3}, strides(-12, 4)),
		described(float32Type, []int64{3}, strides(8)),
		described(float32Type, []int64{5, 2}, strides(0, 4)),
		described(float32Type, []int64{2, 1, 3}, strides(12, 7, 4)), // odd, of a dimension of 1
		described(float32Type, []int64{1}, elements(math.MinInt64)),
		described(float32Type, []int64{2, 0, 3}),
		described(float32Type, []int64{2, 0, 3}, elements(math.MinInt64, 7, math.MaxInt64)), // lead nowhere
		described(float32Type, []int64{0}, at(0)),
		described(float32Type, []int64{0}, at(1)),
		described(int8Type, []int64{16}, at(1<<64-16)),        // up to the last address
		described(int8Type, []int64{16}, at(15), strides(-1)), // down to the first one
		described(int8Type, []int64{16}, span(16)),
		described(int8Type, []int64{16}, span(16), offset(15), strides(-1)),
		described(float32Type, []int64{2}, on(OpenCL), at(1)), // a handle
		described(DataType{Float, 32, 4}, []int64{3}, at(data+4), elements(2)),
		described(DataType{Float4E2M1FN, 4, 2}, []int64{3}, elements(2)),
		described(float4Type, []int64{3, 3}),
		described(float4Type, []int64{3, 1, 3}, elements(3, 9, 1)),
		described(DataType{Float6E2M3FN, 6, 2}, []int64{3}),
		described(float4Type, []int64{3, 3}, flags(SubbyteTypePadded), strides(-3, 2)),
		described(boolType, []int64{0}, bitPacked(7), at(0)),
	} {
		if checkValidation(t, *d); d.Validate(new(Tensor)) != nil {
			t.Errorf("%+v: %v", d, d.Validate(new(Tensor)))
		}
	}
}

func TestARefusedDescriptionSaysWhatIsWrong(t *testing.T) {
	for _, test := range []struct {
		d    *Description
		want string
	}{
		{described(int8Type, nil, on(0)), "unknown-device: device_type=0"},
		{described(int8Type, nil, on(CUDA), func(d *Description) { d.Device.ID = -1 }),
			"negative-device-id: id=-1, device=kDLCUDA"},
		{described(int8Type, nil, func(d *Description) { d.NDim = -1 }), "wrong-ndim: ndim=-1, most=64"},
		{described(int8Type, nil, func(d *Description) { d.NDim = 65 }), "wrong-ndim: ndim=65, most=64"},
		{described(float32Type, []int64{-1}, span(12)), "negative-dimension: dimension=0, length=-1"},
		{described(int8Type, []int64{2, 0, -3}), "negative-dimension: dimension=2, length=-3"},
		{described(float32Type, []int64{1 << 61}), "too-large: shape=(2305843009213693952,), itemsize=4"},
		{described(int8Type, []int64{1 << 62, 4}), "too-large: shape=(4611686018427387904, 4), itemsize=1"},
		{described(int8Type, []int64{1 << 62, 1 << 62, 0}), "too-large"},
		{described(int8Type, []int64{1 << 32, 1 << 32}), "too-large"}, // the product wraps to 0
		{described(int8Type, []int64{9, 1 << 62, 3, 4, 5, 6, 7, 8}),
			"too-large: shape=(9, 4611686018427387904, 3, 4, 5, 6, ...), itemsize=1"},
		{described(DataType{99, 8, 1}, nil), "unknown-code: code=99, bits=8, lanes=1, most=18"},
		{described(int8Type, []int64{2, 3}, at(0)), "data-is-null: shape=(2, 3)"},
		{described(int8Type, nil, on(Vulkan), at(0)), "data-is-null"},
		{described(float32Type, []int64{2, 2}, elements(1<<61, 1)),
			"too-far-elements: dimension=0, stride=2305843009213693952, items=2"},
		{described(float32Type, []int64{2, 2}, elements(-1<<62, 1)),
			"too-far-elements: dimension=0, stride=-4611686018427387904, items=2"},
		{described(float32Type, []int64{2}, elements(-1<<61-1)),
			"too-far-elements: dimension=0, stride=-2305843009213693953, items=2"},
		{described(float32Type, []int64{65}, elements(1<<60)),
			"too-far-elements: dimension=0, stride=1152921504606846976, items=65"},
		{described(int8Type, []int64{3}, strides(math.MinInt64)),
			"too-far-bytes: dimension=0, stride=-9223372036854775808, items=3"},
		{described(int8Type, []int64{2, 2, 2}, strides(math.MaxInt64, math.MaxInt64, 2)), // too far together
			"too-far-bytes: dimension=0, stride=9223372036854775807, items=2"},
		{described(int8Type, []int64{17}, at(1<<64-16)),
			"reach-beyond-last: address=0xfffffffffffffff0, below=0, above=17"},
		{described(int8Type, []int64{17}, at(15), strides(-1)), "reach-beyond-last: address=0xf, below=16, above=1"},
		{described(int8Type, nil, at(8), offset(1<<64-8)),
			"offset-beyond-last: address=0x8, offset=18446744073709551608"},
		{described(int8Type, []int64{17}, span(16)), "beyond-span: span=16, from=0, to=17"},
		{described(int8Type, []int64{17}, span(32), offset(3), strides(-1)), "beyond-span: span=32, from=-13, to=4"},
		{described(int8Type, nil, span(16), offset(16)), "beyond-span: span=16, from=16, to=17"},
		// what is malformed before what a copy cures or can't be exported
		{described(float32Type, []int64{5}, swapped, span(16)), "beyond-span: span=16, from=0, to=20"},
		{described(float4Type, []int64{5}, strides(2), at(0)), "data-is-null"},

		{described(float4Type, []int64{3}, elements(2)),
			"packed-strides: code=17, bits=4, lanes=1, size=4 (copy-with-library)"},
		{described(float4Type, []int64{3}, elements(-1)), "packed-strides"},
		{described(DataType{Float4E2M1FN, 4, 2}, []int64{3}, flags(SubbyteTypePadded)),
			"padded-lanes: code=17, bits=4, lanes=2, lanes=2 (one-lane)"},
		{described(boolType, []int64{3}, bitPacked(0), elements(2)),
			`packed-bits-strides: field=Arrow format, text="b" (copy-with-library)`},
		{described(int8Type, []int64{5}, nulls(2)), `null-items: field=Arrow format, text="l", nulls=2, items=5`},
		{described(int8Type, []int64{2, 3}, nulls(1)), `null-items: field=Arrow format, text="l", nulls=1, items=6`},
		{described(int8Type, []int64{2, 0}, nulls(1)), `null-rows: field=Arrow format, text="l", nulls=1`},
		{described(float32Type, []int64{5}, nulls(2), at(1)), "null-items"}, // which a copy doesn't cure

		{described(float32Type, []int64{2, 1}, swapped, elements(2, 7)),
			`big-endian: field=typestr, text=">f4" (convert)`},
		{described(float32Type, []int64{0}, swapped), "big-endian"},
		{described(float32Type, []int64{2, 2}, strides(6, 5)), "odd-strides: dimension=0, stride=6, itemsize=4 (copy)"},
		{described(float32Type, []int64{2}, at(data+2)), "misaligned: address=0x100002, alignment=4 (copy)"},
		{described(float32Type, []int64{2}, offset(1)), "misaligned: address=0x100001, alignment=4 (copy)"},
		{described(float32Type, []int64{2}, on(CUDA), at(data+2)), "misaligned"},
		{described(boolType, []int64{9}, bitPacked(0), at(math.MaxUint64)),
			"reach-beyond-last: address=0xffffffffffffffff, below=0, above=2"},
	} {
		checkValidation(t, *test.d)
		refused(t, test.d, test.want)
	}
}

func TestBitsAreCopiedFromTheBytesThatTheyReach(t *testing.T) {
	for _, test := range []struct {
		first uint8
		shape []int64
		above int64
	}{
		{0, nil, 1},
		{0, []int64{8}, 1},
		{1, []int64{8}, 2},
		{7, []int64{1}, 1},
		{7, []int64{2, 5}, 3},
		{7, []int64{math.MaxInt64}, 1<<60 + 1},
	} {
		d := described(boolType, test.shape, bitPacked(test.first), span(test.above))
		checkValidation(t, *d)
		refused(t, d, `bit-packed: field=Arrow format, text="b" (copy)`)
		refused(t, described(boolType, test.shape, bitPacked(test.first), span(test.above-1)), "beyond-span")
	}
}

// refused checks what an error says; the oracles check its kind.
func refused(t *testing.T, d *Description, want string) {
	t.Helper()
	err := d.Validate(new(Tensor))
	if err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	} else if len(err.Error()) > 340 {
		t.Errorf("%q is too long", err)
	}
}

func TestOffsetsStayWithHandles(t *testing.T) {
	var got Tensor
	d := described(int8Type, nil, on(Metal), offset(3))
	if err := d.Validate(&got); err != nil || got.Offset != 0 || got.ByteOffset != 3 {
		t.Errorf("handle: %v, offset %d, byte offset %d", err, got.Offset, got.ByteOffset)
	}
	if err := described(int8Type, nil, on(CUDA), offset(3)).Validate(&got); err != nil || got.Offset != 3 ||
		got.ByteOffset != 0 {
		t.Errorf("address: %v, offset %d, byte offset %d", err, got.Offset, got.ByteOffset)
	}
	if err := described(int8Type, []int64{0}, offset(3)).Validate(&got); err != nil || got.Offset != 0 ||
		got.ByteOffset != 0 {
		t.Errorf("no items: %v, offset %d, byte offset %d", err, got.Offset, got.ByteOffset)
	}
}

func TestTheCPUHasOneDevice(t *testing.T) {
	for _, id := range []int32{0, 7, -1} {
		var got Tensor
		d := described(int8Type, nil, func(d *Description) { d.Device.ID = id })
		if err := d.Validate(&got); err != nil || got.Device != (Device{CPU, 0}) {
			t.Errorf("id %d: %v, %v", id, err, got.Device)
		}
	}
}

func TestOnlyKnownFlagsArePassedOn(t *testing.T) {
	var got Tensor
	if err := described(int8Type, nil, flags(ReadOnly|IsCopied|1<<40|8)).Validate(&got); err != nil ||
		got.Flags != ReadOnly|IsCopied {
		t.Errorf("%v, flags %d", err, got.Flags)
	}
	if got.VersionedOnly {
		t.Error("the legacy struct can say this")
	}
	if err := described(float32Type, nil, flags(SubbyteTypePadded)).Validate(&got); err != nil || got.VersionedOnly {
		t.Errorf("%v, padded means nothing here", err)
	}
	if err := described(float4Type, nil, flags(SubbyteTypePadded)).Validate(&got); err != nil || !got.VersionedOnly {
		t.Errorf("%v, the legacy struct can't say padded", err)
	}
}

func TestTextFromOutsideIsQuoted(t *testing.T) {
	for text, want := range map[string]string{
		">f4":                    `">f4"`,
		"a\"\\\n\x1b\xff\u00e9":  `"a\"\\\n\x1b\xff\u00e9"`,
		strings.Repeat("x", 60):  `"` + strings.Repeat("x", 60) + `"`,
		strings.Repeat("x", 100): `"` + strings.Repeat("x", 60) + `"...`,
	} {
		if got := Quoted("", text).String(); got != want {
			t.Errorf("got %s; want %s", got, want)
		}
	}
}

func TestAValidDescriptionAllocatesNothing(t *testing.T) {
	for _, d := range []*Description{
		described(float32Type, []int64{4, 3, 2}, strides(-24, 8, 4), offset(72)),
		open(float32Type, 48, []int64{-1, 3}),
	} {
		var tensor Tensor
		if allocations := testing.AllocsPerRun(100, func() {
			if d.Validate(&tensor) != nil || CheckTarget(tensor.Device, tensor.Device, false) != nil {
				t.Fatal("refused")
			}
		}); allocations != 0 {
			t.Errorf("%v allocations", allocations)
		}
	}
}

func BenchmarkValidate(b *testing.B) {
	var ones [64]int64
	for i := range ones {
		ones[i] = 1
	}
	for _, bench := range []struct {
		name string
		d    *Description
	}{
		{"line", described(int8Type, []int64{1000})},
		{"cube", described(float32Type, []int64{4, 3, 2}, strides(-24, 8, 4), offset(72))},
		{"cube by elements", described(float32Type, []int64{4, 3, 2}, elements(6, 2, 1))},
		{"64 dimensions", described(int8Type, ones[:])},
		{"no items", described(int8Type, []int64{3, 0})},
	} {
		b.Run(bench.name, func(b *testing.B) {
			b.ReportAllocs()
			var tensor Tensor
			for b.Loop() {
				if err := bench.d.Validate(&tensor); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

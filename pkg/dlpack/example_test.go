package dlpack_test

import (
	"fmt"

	"dlpack/pkg/dlpack"
)

var float32Type = dlpack.DataType{Code: dlpack.Float, Bits: 32, Lanes: 1}

// rows is what numpy's array interface says of numpy.zeros((2, 4), "f4")[:, ::2]. In numpy, strides count bytes.
func rows() dlpack.Description {
	d := dlpack.Description{
		Item:       dlpack.Item{DataType: float32Type},
		Device:     dlpack.Device{Type: dlpack.CPU},
		Data:       0x10000,
		Span:       -1, // the interface doesn't say how much memory there is
		NDim:       2,
		HasStrides: true,
		Field:      "typestr",
		Text:       "<f4",
	}
	copy(d.Shape[:], []int64{2, 2})
	copy(d.Strides[:], []int64{16, 8})
	return d
}

// A protocol fills a Description. Validate checks it, and fills a Tensor that any consumer can rely on.
func Example() {
	d := rows()
	var t dlpack.Tensor
	if err := d.Validate(&t); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("shape", t.Shape[:t.NDim], "strides", t.Strides[:t.NDim], "in elements")
	fmt.Println(t.NBytes, "bytes of items, within", t.Above, "bytes of memory, compact:", t.Compact)
	// Output:
	// shape [2 2] strides [4 2] in elements
	// 16 bytes of items, within 28 bytes of memory, compact: false
}

// Memory that can't be shared as it is may be copied. The error is then of ErrNeedsCopy, and the tensor has what a
// copy needs.
func ExampleDescription_Validate_needsCopy() {
	d := rows()
	d.Swapped, d.Text = true, ">f4"
	var t dlpack.Tensor
	err := d.Validate(&t)
	fmt.Println(err)
	if dlpack.KindOf(err) == dlpack.ErrNeedsCopy {
		strides := d.ByteStrides(&t)
		fmt.Println("copy by strides of", strides[:t.NDim], "bytes")
		t.MakeCompact()
		fmt.Println("the copy's strides:", t.Strides[:t.NDim], "elements")
	}
	// Output:
	// big-endian: field=typestr, text=">f4" (convert)
	// copy by strides of [16 8] bytes
	// the copy's strides: [2 1] elements
}

// An error is data: what is wrong, and the values. Its kind tells what to do.
func ExampleKindOf() {
	d := rows()
	d.Shape[1] = -2
	err := d.Validate(new(dlpack.Tensor))
	fmt.Println(err, dlpack.KindOf(err) == dlpack.ErrMalformed)
	// Output:
	// negative-dimension: dimension=1, length=-2 true
}

// CheckTarget checks a consumer's request before anything is done.
func ExampleCheckTarget() {
	gpu, cpu := dlpack.Device{Type: dlpack.CUDA, ID: 1}, dlpack.Device{Type: dlpack.CPU}
	fmt.Println(dlpack.CheckTarget(gpu, cpu, true))
	fmt.Println(dlpack.CheckTarget(gpu, cpu, false))
	// Output:
	// <nil>
	// device: copy-forbidden: target=kDLCPU:0, device=kDLCUDA:1 (copy-if-needed)
}

// Streams have the numbers of the Python array API standard.
func ExampleCheckStream() {
	gpu := dlpack.Device{Type: dlpack.CUDA}
	fmt.Println(dlpack.CheckStream(gpu, dlpack.LegacyStream))
	fmt.Println(dlpack.CheckStream(gpu, 0))
	// Output:
	// <nil>
	// no-such-stream: stream=0, device=kDLCUDA, expected=streams-of-cuda
}

// A data type has lanes, as vector types do, and may be smaller than a byte.
func ExampleDataType() {
	for _, t := range []dlpack.DataType{
		{Code: dlpack.Float, Bits: 32, Lanes: 4},
		{Code: dlpack.Float4E2M1FN, Bits: 4, Lanes: 1},
	} {
		fmt.Println(t.Code, t.ItemSize(), t.Alignment(), t.WholeBytes(), t.Validate())
	}
	fmt.Println(dlpack.DataType{Code: dlpack.Float, Bits: 24, Lanes: 1}.Validate())
	// Output:
	// float 16 4 true <nil>
	// float4_e2m1fn 1 1 false <nil>
	// wrong-bits: code=2, bits=24, lanes=1, name=float, expected=16 32 64 128
}

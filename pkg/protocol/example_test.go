package protocol_test

import (
	"fmt"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/protocol"
)

// Each protocol has words of its own for the same type. A parser tells what they mean, and NamesElsewhere the others.
func Example() {
	item, err := protocol.ParseTypestr("typestr", "<f8")
	if err != nil {
		fmt.Println(err)
		return
	}
	names := protocol.NamesElsewhere(item.DataType)
	fmt.Printf("%s: %q in the buffer protocol, %q in Arrow\n", protocol.AppendName(nil, item.DataType), names.Format,
		names.Arrow)
	// Output:
	// float64: "d" in the buffer protocol, "g" in Arrow
}

func ExampleParseTypestr() {
	for _, text := range []string{">f4", "<V2 bfloat16", "<V1 int4", "|O8"} {
		item, err := protocol.ParseTypestr("typestr", text)
		if err != nil {
			fmt.Println(err)
			continue
		}
		fmt.Printf("%s, swapped %v, padded %v\n", protocol.AppendName(nil, item.DataType), item.Swapped,
			item.Flags&dlpack.SubbyteTypePadded != 0)
	}
	// Output:
	// float32, swapped true, padded false
	// bfloat16, swapped false, padded false
	// int4, swapped false, padded true
	// objects: field=typestr, text="|O8"
}

// A format may say that each item of the buffer is an array.
func ExampleParseFormat() {
	var shape [dlpack.MaxNDim]int64
	item, ndim, err := protocol.ParseFormat("(2,3)d", 48, &shape)
	fmt.Printf("%s, shape %v, %v\n", protocol.AppendName(nil, item.DataType), shape[:ndim], err)

	_, _, err = protocol.ParseFormat("i", 8, &shape)
	fmt.Println(err)
	// Output:
	// float64, shape [2 3], <nil>
	// format-size: field=format, text="i", size=4, itemsize=8
}

func ExampleParseArrow() {
	item, err := protocol.ParseArrow("b")
	fmt.Printf("%s, a bit each: %v, %v\n", protocol.AppendName(nil, item.DataType), item.BitPacked, err)

	_, err = protocol.ParseArrow("q")
	fmt.Println(err)
	// Output:
	// bool, a bit each: true, <nil>
	// unknown-arrow: field=Arrow format, text="q", expected=b c C s S i I l L e f g
}

func ExampleParseName() {
	t, err := protocol.ParseName("float4_e2m1fnx2")
	fmt.Printf("%+v, %v\n", t, err)

	_, err = protocol.ParseName("flaot32")
	fmt.Println(err)
	// Output:
	// {Code:float4_e2m1fn Bits:4 Lanes:2}, <nil>
	// unknown-name: field=dtype, text="flaot32" (nearest: names=float32)
}

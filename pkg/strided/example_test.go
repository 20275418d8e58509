package strided_test

import (
	"fmt"
	"unsafe"

	"dlpack/pkg/strided"
)

// A transposed matrix becomes row-major. Strides are in bytes.
func ExampleCopy() {
	matrix := []int32{
		1, 2, 3,
		4, 5, 6,
	}
	transposed := make([]int32, 6)
	strided.Copy(unsafe.Pointer(&transposed[0]), unsafe.Pointer(&matrix[0]), []int64{3, 2}, []int64{4, 12}, 4, 0)
	fmt.Println(transposed)
	// Output:
	// [1 4 2 5 3 6]
}

// A negative stride begins at the last item. Words of two bytes are read in the other byte order.
func ExampleCopy_reversedAndSwapped() {
	bigEndian := []byte{0, 1, 0, 2, 0, 3}
	native := make([]uint16, 3)
	strided.Copy(unsafe.Pointer(&native[0]), unsafe.Pointer(&bigEndian[4]), []int64{3}, []int64{-2}, 2, 2)
	fmt.Println(native)
	// Output:
	// [3 2 1]
}

// Arrow's booleans are bits. These begin at the third one of their byte.
func ExampleUnpack() {
	bits := []byte{0b1101_1000, 0b0000_0001}
	bytes := make([]byte, 7)
	strided.Unpack(unsafe.Pointer(&bytes[0]), unsafe.Pointer(&bits[0]), 2, len(bytes))
	fmt.Println(bytes)
	// Output:
	// [0 1 1 0 1 1 1]
}

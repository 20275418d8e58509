package arrow

import (
	"strconv"

	"dlpack/pkg/dlpack"
)

// A tensor is the layout of a list's elements. lengths are in the order of memory; dimension i of the shape is
// lengths[order[i]].
type tensor struct {
	ndim    int
	lengths [dlpack.MaxNDim]int64
	order   [dlpack.MaxNDim]int64
}

// parseTensor reads the metadata of an arrow.fixed_shape_tensor with `size` items and at most `most` dimensions:
// {"shape": [2, 3], "permutation": [1, 0]}.
func parseTensor(text string, size int64, most int, t *tensor) error {
	if !isObject(text) {
		return malformedTensor("metadata", text, "a JSON object, nested at most "+strconv.Itoa(mostNested)+" deep")
	}
	shape := member(text, "shape")
	ndim, ok := integers(shape, t.lengths[:])
	switch {
	case !ok:
		return malformedTensor("shape", shape, "a list of lengths from 0 to 2^63 - 1")
	case ndim > most:
		return malformedTensor("shape", shape, "at most "+strconv.Itoa(most)+" dimensions")
	case !hasSize(t.lengths[:ndim], size):
		return malformedTensor("shape", shape, "the "+number(size)+" items of its lists")
	}
	t.ndim = ndim
	permutation := member(text, "permutation")
	if permutation == "" || permutation == "null" {
		for i := range ndim {
			t.order[i] = int64(i)
		}
		return nil
	}
	if n, ok := integers(permutation, t.order[:]); !ok || n != ndim || !isPermutation(t.order[:ndim]) {
		return malformedTensor("permutation", permutation, "each of 0 to "+strconv.Itoa(ndim-1)+" once")
	}
	return nil
}

// hasSize reports whether the lengths multiply to size.
func hasSize(lengths []int64, size int64) bool {
	product, fits := int64(1), true
	for _, length := range lengths {
		if length == 0 {
			return size == 0
		}
		product = multiply(product, length, &fits)
	}
	return fits && product == size
}

const _ = uint(64 - dlpack.MaxNDim) // isPermutation needs a bit for each dimension

func isPermutation(order []int64) bool {
	seen := uint64(0)
	for _, i := range order {
		if i >= int64(len(order)) || seen>>i&1 != 0 {
			return false
		}
		seen |= 1 << i
	}
	return true
}

// malformedTensor returns an error that quotes the JSON of a value; "" is a missing value.
func malformedTensor(field, value, expected string) error {
	found := "missing"
	if value != "" {
		found = dlpack.Quote(value)
	}
	return dlpack.Malformed(tensorExtension + ": " + field + " is " + found + "; expected " + expected)
}

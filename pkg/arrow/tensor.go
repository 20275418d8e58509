package arrow

import "dlpack/pkg/dlpack"

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
		return malformedTensor(dlpack.TensorMetadata, text, dlpack.Number("most", mostNested))
	}
	shape := member(text, "shape")
	ndim, ok := integers(shape, t.lengths[:])
	switch {
	case !ok:
		return malformedTensor(dlpack.TensorLengths, shape)
	case ndim > most:
		return malformedTensor(dlpack.TensorDimensions, shape, dlpack.Number("most", most))
	case !hasSize(t.lengths[:ndim], size):
		return malformedTensor(dlpack.TensorSize, shape, dlpack.Number("items", size))
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
		return malformedTensor(dlpack.TensorOrder, permutation, dlpack.Number("last", ndim-1))
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
func malformedTensor(saying dlpack.Saying, value string, expected ...dlpack.Value) error {
	found := dlpack.Worded("found", dlpack.Missing)
	if value != "" {
		found = dlpack.Quoted("found", value)
	}
	return dlpack.Malformed(saying, append([]dlpack.Value{found}, expected...)...)
}

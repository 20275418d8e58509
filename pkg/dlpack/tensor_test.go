package dlpack

import "testing"

func TestItemsThatOverlapAreSeen(t *testing.T) {
	var shape, strides [3]int64
	var fill func(dimension int)
	fill = func(dimension int) {
		if dimension < len(shape) {
			for shape[dimension] = 1; shape[dimension] <= 3; shape[dimension]++ {
				for strides[dimension] = -7; strides[dimension] <= 7; strides[dimension]++ {
					fill(dimension + 1)
				}
			}
			return
		}
		for size := range int64(3) {
			dimension, _ := Overlapping(shape[:], strides[:], size+1)
			if dimension < 0 && overlap(shape, strides, size+1) {
				t.Fatalf("shape %d, strides %d, items of %d: none is said to overlap", shape, strides, size+1)
			}
		}
	}
	fill(0)
}

// overlap tells whether two items share a byte.
func overlap(shape, strides [3]int64, size int64) bool {
	var taken [64]bool
	for i := range shape[0] {
		for j := range shape[1] {
			for k := range shape[2] {
				at := 42 + i*strides[0] + j*strides[1] + k*strides[2]
				for byte := range size {
					if taken[at+byte] {
						return true
					}
					taken[at+byte] = true
				}
			}
		}
	}
	return false
}

func TestNoItemsOfASlicedOrTransposedTensorOverlap(t *testing.T) {
	for _, test := range []struct{ shape, strides []int64 }{
		{nil, nil},
		{[]int64{5}, []int64{-8}},
		{[]int64{2, 3, 4}, []int64{12, 4, 1}},
		{[]int64{4, 3, 2}, []int64{1, -4, 12}},
		{[]int64{2, 1, 2}, []int64{24, 0, 2}},
		{[]int64{4, 4}, []int64{16, 5}}, // the diagonals of matrices
	} {
		for i := range test.strides {
			test.strides[i] *= 8
		}
		if dimension, reach := Overlapping(test.shape, test.strides, 8); dimension >= 0 {
			t.Errorf("shape %d, strides %d: dimension %d of items over %d bytes", test.shape, test.strides, dimension, reach)
		}
	}
}

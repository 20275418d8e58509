package strided

import (
	"bytes"
	"math/rand/v2"
	"testing"
	"unsafe"
)

// into copies the source to memory of another layout, and checks every byte of that memory.
func (s *source) into(t testing.TB, dstStrides []int64, skew int) {
	t.Helper()
	low, high := span(s.shape, dstStrides, s.itemSize)
	got := bytes.Repeat([]byte{guard}, skew+high-low+16)
	want := bytes.Clone(got)
	items, first := s.slowCopy(), skew-low
	index := make([]int64, len(s.shape))
	for i := 0; i < len(items); i += s.itemSize {
		at := first
		for k := range index {
			at += int(index[k] * dstStrides[k])
		}
		copy(want[at:], items[i:i+s.itemSize])
		for k := len(index) - 1; k >= 0; k-- {
			if index[k]++; index[k] < s.shape[k] {
				break
			}
			index[k] = 0
		}
	}
	var src unsafe.Pointer
	if len(items) > 0 {
		src = unsafe.Pointer(&s.memory[s.offset])
	}
	Into(unsafe.Pointer(&got[first]), src, s.shape, dstStrides, s.strides, s.itemSize, s.swap)
	if !bytes.Equal(got, want) {
		t.Fatalf("shape %v, strides %v to %v, item size %d, swap %d", s.shape, s.strides, dstStrides, s.itemSize, s.swap)
	}
}

// apart gives strides of items that share no byte: in the order of a permutation, with gaps, some of them negative.
func apart(random *rand.Rand, shape []int64, itemSize int) []int64 {
	strides := make([]int64, len(shape))
	next := int64(itemSize)
	for _, k := range random.Perm(len(shape)) {
		if random.IntN(3) == 0 {
			next += random.Int64N(2) * int64(itemSize)
			next += random.Int64N(3)
		}
		strides[k] = next
		next *= max(shape[k], 1)
		if random.IntN(3) == 0 {
			strides[k] = -strides[k]
		}
	}
	return strides
}

func TestIntoEveryLayout(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, layout := range layouts {
		if layout.name == "a huge empty array copies nothing" {
			continue
		}
		t.Run(layout.name, func(t *testing.T) {
			for _, item := range itemSizes {
				s := layout.source(item.size, item.swap, 1)
				for range 3 {
					s.into(t, apart(random, s.shape, s.itemSize), 3)
				}
			}
		})
	}
}

func TestALargeCopyIntoStridesIsShared(t *testing.T) {
	const n = 1500
	for _, strides := range [][]int64{{4 * n, 4}, {4, 4 * n}, {-4, 4 * n}, {0, 4}} {
		for _, to := range [][]int64{{4 * n, 4}, {4, 4 * n}, {8 * n, 8}, {-4 * n, -4}, {4*n + 8, 4}} {
			for _, swap := range []int{0, 4} {
				s := lay([]int64{n, n}, strides, 4, swap, 1)
				s.into(t, to, 3)
			}
		}
	}
}

func TestIntoAllocatesNothing(t *testing.T) {
	for _, to := range [][]int64{{400, 4}, {4, 400}, {800, 8}, {-400, 4}} {
		s := lay([]int64{100, 100}, []int64{400, 4}, 4, 0, 0)
		low, high := span(s.shape, to, 4)
		dst := make([]byte, high-low)
		allocations := testing.AllocsPerRun(10, func() {
			Into(unsafe.Pointer(&dst[-low]), unsafe.Pointer(&s.memory[s.offset]), s.shape, to, s.strides, 4, 0)
		})
		if allocations != 0 {
			t.Errorf("strides %d: %v allocations", to, allocations)
		}
	}
}

package dlpack

import (
	"math"
	"slices"
)

// Reuse says for which other descriptions a tensor is right as well, so that a cache of tensors need not validate them.
type Reuse struct {
	// AnyData: for those that differ in Data and Span alone, if the first element is aligned (DataType.Alignment), and
	// Below and Above bytes around it are addresses of 64 bits and lie within Span.
	AnyData bool
	// MaxCount > 0: also for those whose Shape and Strides differ, with as many dimensions and 1 to MaxCount items, if each
	// stride that leads to another item is a multiple of ItemSize. Shape, Size, NBytes, Strides, Compact, Below and Above
	// then follow from the others.
	MaxCount int64
}

// Reuse tells for which other descriptions t is right, the tensor that Validate made of d. Only memory of the CPU is
// reused.
func (d *Description) Reuse(t *Tensor) Reuse {
	open := slices.Contains(d.Shape[:d.NDim], -1) // the number that the -1 became depends on this Span
	switch {
	case t.Size == 0 || d.Device.Type != CPU:
		return Reuse{}
	case t.NDim > 0 && !t.Packed() && !(open && d.HasStrides):
		return Reuse{AnyData: true, MaxCount: math.MaxInt64 / t.ItemSize}
	}
	return Reuse{AnyData: !open}
}

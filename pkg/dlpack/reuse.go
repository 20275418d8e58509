package dlpack

import (
	"math"
	"slices"
)

// Reuse says for which other memory a tensor holds as well, so that who keeps it need not ask again. The memory is
// described as the tensor's was, but for Data, Span and, where MaxCount says so, Shape.
type Reuse struct {
	// AnyData: the tensor holds for each Data whose first element is aligned, to DataType.Alignment, and has Below and
	// Above bytes around it: of the addresses that there are, and of Span.
	AnyData bool
	// MaxCount > 0: it holds for each shape of 1 to MaxCount items, too. Its Shape, sizes, compact Strides and Above,
	// which is NBytes, are then the other's.
	MaxCount int64
}

// Reuse tells for which other memory t holds, which Validate made of d: for none but the CPU's.
func (d *Description) Reuse(t *Tensor) Reuse {
	switch {
	case t.Size == 0 || d.Device.Type != CPU:
		return Reuse{}
	case t.NDim > 0 && !d.HasStrides && !t.Packed(): // without strides, memory is the same in any shape
		return Reuse{AnyData: true, MaxCount: math.MaxInt64 / t.ItemSize}
	}
	// What a -1 became, it became by this Span.
	return Reuse{AnyData: !slices.Contains(d.Shape[:d.NDim], -1)}
}

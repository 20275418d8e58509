package handover

import (
	"slices"

	"dlpack/pkg/dlpack"
)

// byLanes returns the two sides of a copy whose items, smaller than a byte, are lanes of larger items on one side alone:
// two "int4" are one "int4x2". Otherwise it returns nil.
func byLanes(source, target *Place) (single, laned *Place) {
	s, t := source.tensor.DataType, target.tensor.DataType
	switch {
	case s.Code != t.Code || s.Bits != t.Bits || s.Bits >= 8:
		return nil, nil
	case s.Lanes == 1 && t.Lanes > 1:
		return source, target
	case s.Lanes > 1 && t.Lanes == 1:
		return target, source
	}
	return nil, nil
}

// hasLanesOf reports whether the shape is that of laned, its last dimension times the number of lanes.
func (single *Place) hasLanesOf(laned *Place) bool {
	s, l := &single.tensor, &laned.tensor
	last := s.NDim - 1
	if last < 0 || s.NDim != l.NDim {
		return false
	}
	lanes := int64(l.DataType.Lanes)
	shape := s.Shape
	shape[last] /= lanes
	return shape == l.Shape && s.Shape[last]%lanes == 0
}

// countAs counts the items as laned does. They are packed, so that both have the same bits in the same order.
func (single *Place) countAs(laned *Place) {
	s, l := &single.tensor, &laned.tensor
	single.DataType, single.HasStrides = laned.DataType, false
	s.DataType, s.NDim, s.Shape, s.ItemSize, s.Size = l.DataType, l.NDim, l.Shape, l.ItemSize, l.Size
}

// isPadded reports whether each item, smaller than a byte, has a byte of its own.
func isPadded(t *dlpack.Tensor) bool {
	return t.Flags&dlpack.SubbyteTypePadded != 0
}

// packed returns the type of padded items for packed ones.
func packed(t *dlpack.Tensor) *dlpack.Tensor {
	return &dlpack.Tensor{DataType: t.DataType}
}

// packedBytes returns the size of padded items when they are packed.
func packedBytes(t *dlpack.Tensor) int64 {
	bits := int64(t.DataType.Bits)
	return t.Size/8*bits + (t.Size%8*bits+7)/8
}

// refuseLanes refuses sides whose shapes don't have as many items. The cure, if there is one, reshapes the source.
func refuseLanes(values []dlpack.Value, source, target, single, laned *Place) error {
	lanes, side := int64(laned.tensor.DataType.Lanes), dlpack.Source
	if single == target {
		side = dlpack.Target
	}
	expected := append(laned.tensor.Shape[:laned.tensor.NDim:laned.tensor.NDim], lanes)
	if last := laned.tensor.NDim - 1; last >= 0 {
		expected = expected[:last+1]
		expected[last] *= lanes
	}
	r := dlpack.Malformed(dlpack.LanesDiffer, append(values, dlpack.Text("expected", dlpack.ShapeText(expected)),
		dlpack.Worded("single", side))...)
	if single.tensor.Size%lanes != 0 || single.tensor.Size/lanes != laned.tensor.Size {
		return r
	}
	if single == target {
		shape := target.tensor.Shape[:target.tensor.NDim]
		last := len(shape) - 1
		if shape[last]%lanes != 0 {
			return r
		}
		expected = slices.Clone(shape)
		expected[last] /= lanes
	}
	return r.Cured(dlpack.Reinterpret, asItems(dlpack.SourceCopy, &source.tensor, expected, false, false)...)
}

package handover

import (
	"dlpack/pkg/dlpack"
	"dlpack/pkg/foreign"
	"dlpack/pkg/strided"
)

// A Side is one side of a [Move].
type Side struct {
	First        uint64  // address of the item whose indices are all 0
	Below, Above uint64  // bytes that the items reach below and above First
	Strides      []int64 // bytes; nil for a target that is new, compact memory
}

// A Move copies one or more items within CPU memory. Its caller has described both sides with the table that pkg/table
// wrote.
type Move struct {
	Source, Target Side
	Shape          []int64
	ItemSize, Swap int // as in [strided.Copy]
}

// Do copies. It returns false if the sides overlap, if items of the target may overlap, or if memory can't be read or
// written: [Prepare] and [CopyInto] then find the reason, or copy in another way.
func (m *Move) Do() bool {
	from, to := m.Source.First-m.Source.Below, m.Target.First-m.Target.Below
	fromBytes, toBytes := m.Source.Below+m.Source.Above, m.Target.Below+m.Target.Above
	if from < to+toBytes && to < from+fromBytes {
		return false
	}
	if m.Target.Strides != nil {
		if i, _ := dlpack.Overlapping(m.Shape, m.Target.Strides, int64(m.ItemSize)); i >= 0 {
			return false
		}
	}
	_, faulted := foreign.Touch(func() {
		foreign.At(from, fromBytes)
		foreign.At(to, toBytes)
		dst, src := foreign.Pointer(m.Target.First), foreign.Pointer(m.Source.First)
		strided.Into(dst, src, m.Shape, m.Target.Strides, m.Source.Strides, m.ItemSize, m.Swap)
	})
	return !faulted
}

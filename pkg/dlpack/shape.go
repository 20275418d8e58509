package dlpack

import (
	"math/bits"
	"strconv"
)

// closeShape replaces the -1 of an open shape in t.Shape by the length that fills the memory.
func (d *Description) closeShape(t *Tensor) error {
	if !d.OpenShape {
		return nil
	}
	if d.Span >= 0 && d.Offset > uint64(d.Span) {
		return Malformed("offset " + strconv.FormatUint(d.Offset, 10) + " is beyond the end of data; " +
			"expected at most its " + number(d.Span) + " bytes")
	}
	open, others, overflow := -1, uint64(1), uint64(0)
	for i, n := range t.Shape[:t.NDim] {
		switch {
		case n == -1 && open >= 0:
			return openError(i, "beside another; expected at most one")
		case n == -1:
			open = i
		case n < 0:
			return negative(i, n)
		default:
			high, low := bits.Mul64(others, uint64(n))
			others, overflow = low, overflow|high
		}
	}
	switch {
	case open < 0:
		return nil
	case d.Span < 0:
		return openError(open, "which needs memory of a known size; expected the number of items")
	case d.HasStrides:
		return openError(open, "beside strides; expected the number of items")
	case overflow == 0 && others == 0:
		return openError(open, "beside a dimension of 0, where any number fits; expected the number of items")
	}
	// Packed items share bytes, so they are counted in bits. The quotient must fit into 63 bits.
	left, unit, item := uint64(d.Span)-d.Offset, uint64(1), uint64(t.ItemSize)
	if t.Packed() {
		unit, item = 8, uint64(d.DataType.itemBits())
	}
	high, low := bits.Mul64(left, unit)
	over, step := bits.Mul64(others, item)
	if overflow != 0 || over != 0 || high<<1|low>>63 >= step {
		return t.tooLarge()
	}
	n, rest := bits.Div64(high, low, step)
	if rest != 0 {
		return d.indivisible(t, left, others)
	}
	t.Shape[open] = int64(n)
	return nil
}

func openError(dimension int, why string) error {
	return Malformed("shape dimension " + strconv.Itoa(dimension) + " is -1, " + why)
}

func (d *Description) indivisible(t *Tensor, left, others uint64) error {
	items, size, unit := "items of ", t.ItemSize, " byte"
	if others != 1 {
		items = "groups of " + strconv.FormatUint(others, 10) + " items of "
	}
	if t.Packed() {
		size, unit = d.DataType.itemBits(), " bit"
	}
	if size != 1 {
		unit += "s"
	}
	return Malformed("shape " + ShapeText(t.Shape[:t.NDim]) + ": the " + strconv.FormatUint(left, 10) +
		" bytes from offset " + strconv.FormatUint(d.Offset, 10) + " on can't be divided into " + items +
		number(size) + unit + " (give the length: the rest is then left out)")
}

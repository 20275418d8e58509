package dlpack

import "math/bits"

// closeShape replaces the -1 of an open shape in t.Shape by the length that fills the memory.
func (d *Description) closeShape(t *Tensor) error {
	if !d.OpenShape {
		return nil
	}
	if d.Span >= 0 && d.Offset > uint64(d.Span) {
		return Malformed(OffsetBeyondSpan, Number("offset", d.Offset), Number("span", d.Span))
	}
	open, others, overflow := -1, uint64(1), uint64(0)
	for i, n := range t.Shape[:t.NDim] {
		switch {
		case n == -1 && open >= 0:
			return openError(SecondOpen, i)
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
		return openError(OpenOfUnknown, open)
	case d.HasStrides:
		return openError(OpenBesideStrides, open)
	case overflow == 0 && others == 0:
		return openError(OpenBesideZero, open)
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

func openError(saying Saying, dimension int) error {
	return Malformed(saying, Number("dimension", dimension))
}

func (d *Description) indivisible(t *Tensor, left, others uint64) error {
	saying, size, unit := IndivisibleItems, t.ItemSize, "byte"
	if others != 1 {
		saying = IndivisibleGroups
	}
	if t.Packed() {
		size, unit = d.DataType.itemBits(), "bit"
	}
	if size != 1 {
		unit += "s"
	}
	return Malformed(saying, Text("shape", ShapeText(t.Shape[:t.NDim])), Number("bytes", left),
		Number("offset", d.Offset), Number("group", others), Number("size", size), Text("unit", unit)).Cured(GiveLength)
}

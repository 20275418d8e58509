package protocol

import "dlpack/pkg/dlpack"

// OtherNames are the names of a data type in other protocols, "" if a protocol has no such type.
type OtherNames struct {
	Format  string // of the buffer protocol, as numpy writes it
	Typestr string // of the array interfaces
	Arrow   string // of the Arrow C data interface; for a bool, that of its bytes
}

type namedType struct {
	code  dlpack.TypeCode
	bits  uint8
	names OtherNames
}

// otherNames lists the data types that other protocols have names for. Only this table has Arrow's letters.
var otherNames = [...]namedType{
	{dlpack.Bool, 8, OtherNames{"?", "|b1", "c"}},
	{dlpack.Int, 8, OtherNames{"b", "|i1", "c"}},
	{dlpack.UInt, 8, OtherNames{"B", "|u1", "C"}},
	{dlpack.Int, 16, OtherNames{"h", "<i2", "s"}},
	{dlpack.UInt, 16, OtherNames{"H", "<u2", "S"}},
	{dlpack.Int, 32, OtherNames{"i", "<i4", "i"}},
	{dlpack.UInt, 32, OtherNames{"I", "<u4", "I"}},
	{dlpack.Int, 64, OtherNames{"l", "<i8", "l"}},
	{dlpack.UInt, 64, OtherNames{"L", "<u8", "L"}},
	{dlpack.Float, 16, OtherNames{"e", "<f2", "e"}},
	{dlpack.Float, 32, OtherNames{"f", "<f4", "f"}},
	{dlpack.Float, 64, OtherNames{"d", "<f8", "g"}},
	// complex32 is missing: nanobind calls it "Ze", but numpy.asarray fails on that format, even if ml_dtypes provides
	// the type.
	{dlpack.Complex, 64, OtherNames{"Zf", "<c8", ""}},
	{dlpack.Complex, 128, OtherNames{"Zd", "<c16", ""}},
}

// arrowItems returns the Arrow format that means this type, or "" if there is none. "c" means int8, not bool.
func (n *namedType) arrowItems() string {
	if n.code == dlpack.Bool {
		return ""
	}
	return n.names.Arrow
}

// NamesElsewhere returns the names of a data type in other protocols.
func NamesElsewhere(t dlpack.DataType) OtherNames {
	return NativeLong.NamesElsewhere(t)
}

// NamesElsewhere is the function [NamesElsewhere] for a system whose C has a long of this size.
func (long Long) NamesElsewhere(t dlpack.DataType) OtherNames {
	for i := range otherNames {
		if known := &otherNames[i]; t.Code == known.code && t.Bits == known.bits && t.Lanes == 1 {
			names := known.names
			names.Format = long.letter(names.Format)
			return names
		}
	}
	return OtherNames{}
}

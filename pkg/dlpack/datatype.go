package dlpack

import (
	"slices"
	"strconv"
)

// TypeCode is the header's DLDataTypeCode: the meaning of a scalar's bits.
type TypeCode uint8

// The type codes of the header, and below them those of DLPack's main branch, which no release has.
const (
	Int               TypeCode = 0
	UInt              TypeCode = 1
	Float             TypeCode = 2
	OpaqueHandle      TypeCode = 3
	Bfloat            TypeCode = 4
	Complex           TypeCode = 5
	Bool              TypeCode = 6
	Float8E3M4        TypeCode = 7
	Float8E4M3        TypeCode = 8
	Float8E4M3B11FNUZ TypeCode = 9
	Float8E4M3FN      TypeCode = 10
	Float8E4M3FNUZ    TypeCode = 11
	Float8E5M2        TypeCode = 12
	Float8E5M2FNUZ    TypeCode = 13
	Float8E8M0FNU     TypeCode = 14
	Float6E2M3FN      TypeCode = 15
	Float6E3M2FN      TypeCode = 16
	Float4E2M1FN      TypeCode = 17

	Bcomplex TypeCode = 18 // two bfloat16
)

// typeCodes lists the name of each code, and the numbers of bits that its scalars can have.
var typeCodes = [...]struct {
	name string
	bits []uint8
}{
	Int:               {"int", []uint8{1, 2, 4, 8, 16, 32, 64, 128}},
	UInt:              {"uint", []uint8{1, 2, 4, 8, 16, 32, 64, 128}},
	Float:             {"float", []uint8{16, 32, 64, 128}},
	OpaqueHandle:      {"opaque_handle", []uint8{1, 2, 4, 8, 16, 32, 64, 128}},
	Bfloat:            {"bfloat16", []uint8{16}},
	Complex:           {"complex", []uint8{32, 64, 128}},
	Bool:              {"bool", []uint8{8}},
	Float8E3M4:        {"float8_e3m4", []uint8{8}},
	Float8E4M3:        {"float8_e4m3", []uint8{8}},
	Float8E4M3B11FNUZ: {"float8_e4m3b11fnuz", []uint8{8}},
	Float8E4M3FN:      {"float8_e4m3fn", []uint8{8}},
	Float8E4M3FNUZ:    {"float8_e4m3fnuz", []uint8{8}},
	Float8E5M2:        {"float8_e5m2", []uint8{8}},
	Float8E5M2FNUZ:    {"float8_e5m2fnuz", []uint8{8}},
	Float8E8M0FNU:     {"float8_e8m0fnu", []uint8{8}},
	Float6E2M3FN:      {"float6_e2m3fn", []uint8{6}},
	Float6E3M2FN:      {"float6_e3m2fn", []uint8{6}},
	Float4E2M1FN:      {"float4_e2m1fn", []uint8{4}},
	Bcomplex:          {"bcomplex32", []uint8{32}},
}

// TypeCodeCount is the number of codes. The first one is 0.
const TypeCodeCount = TypeCode(len(typeCodes))

// String returns the name that array libraries use: "bfloat16", or "int" for a code of several sizes.
func (c TypeCode) String() string {
	if int(c) < len(typeCodes) {
		return typeCodes[c].name
	}
	return "type code " + strconv.Itoa(int(c))
}

// FixedBits returns the number of bits of a code's scalars, or 0 if it varies or the code is unknown.
func (c TypeCode) FixedBits() uint8 {
	if int(c) < len(typeCodes) && len(typeCodes[c].bits) == 1 {
		return typeCodes[c].bits[0]
	}
	return 0
}

// IsComplex reports whether a code's scalars are two numbers, each of half the bits.
func (c TypeCode) IsComplex() bool {
	return c == Complex || c == Bcomplex
}

// HasBits reports whether a code has scalars of this number of bits.
func (c TypeCode) HasBits(bits uint8) bool {
	return int(c) < len(typeCodes) && slices.Contains(typeCodes[c].bits, bits)
}

// DataType is the header's DLDataType, with the same memory layout.
type DataType struct {
	Code  TypeCode
	Bits  uint8
	Lanes uint16
}

// ItemSize returns the bytes of one item: all its lanes, rounded up.
func (t DataType) ItemSize() int64 {
	return (t.itemBits() + 7) / 8
}

// WholeBytes reports whether an item fills whole bytes. Other items are packed, so that they share bytes, or padded, as
// [SubbyteTypePadded] says.
func (t DataType) WholeBytes() bool {
	return t.itemBits()%8 == 0
}

func (t DataType) itemBits() int64 {
	return int64(t.Bits) * int64(t.Lanes)
}

// Alignment returns the natural alignment in bytes: the size of one scalar, half of it for a complex number, and 1 for
// a scalar smaller than a byte. Words of this size have a byte order.
func (t DataType) Alignment() uint64 {
	if t.Code.IsComplex() {
		return max(uint64(t.Bits)/16, 1)
	}
	return max(uint64(t.Bits)/8, 1)
}

// Validate refuses a data type that the standard doesn't have.
func (t DataType) Validate() error {
	if int(t.Code) >= len(typeCodes) {
		return t.invalid(UnknownCode, Number("most", len(typeCodes)-1))
	}
	if t.Lanes == 0 {
		return t.invalid(NoLanes)
	}
	if t.Code.HasBits(t.Bits) {
		return nil
	}
	known := &typeCodes[t.Code]
	expected := ""
	for _, bits := range known.bits {
		expected += " " + strconv.Itoa(int(bits))
	}
	return t.invalid(WrongBits, Text("name", known.name), List("expected", expected[1:]))
}

func (t DataType) invalid(saying Saying, values ...Value) error {
	return Malformed(saying, append(t.values(), values...)...)
}

// values returns what Python needs to name a data type that no text names.
func (t DataType) values() []Value {
	return []Value{Number("code", t.Code), Number("bits", t.Bits), Number("lanes", t.Lanes)}
}

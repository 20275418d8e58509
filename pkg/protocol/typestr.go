package protocol

import (
	"math"
	"strconv"
	"strings"

	"dlpack/pkg/dlpack"
)

// TypestrOrders are the byte orders with which a typestr begins.
const TypestrOrders = "<|=>"

// IsTypestr reports whether the text begins as a typestr does. No name of a data type does.
func IsTypestr(text string) bool {
	return text != "" && strings.IndexByte(TypestrOrders, text[0]) >= 0
}

// HiddenTypestr returns the typestr of ml_dtypes' arrays of a type, which says only the size, and behind it the name.
func HiddenTypestr(order string, t dlpack.DataType) string {
	kind := "V"
	if t.Code.IsComplex() {
		kind = "W"
	}
	return order + kind + strconv.FormatInt(t.ItemSize(), 10) + " " + string(AppendName(nil, t))
}

// ParseTypestr reads a typestr of the array interface: a byte order, a kind and the bytes of an item, "<f4". The
// dtype's name may follow after a space, as in "<V2 bfloat16". It identifies the types of ml_dtypes, whose typestr
// doesn't. They have at most one item a byte, so items smaller than a byte are padded. Errors call the typestr `field`.
func ParseTypestr(field, text string) (item dlpack.Item, err error) {
	text, name, named := strings.Cut(text, " ")
	if strings.HasPrefix(text, "StringDType(") {
		return item, unsupported(field, text, dlpack.TextOfAnyLength)
	}
	if len(text) < 2 || !IsTypestr(text) {
		return item, malformed(field, text, dlpack.MalformedTypestr)
	}
	order, kind := text[0], text[1]
	if why := refusedKind(kind); why != "" {
		return item, unsupported(field, text, why)
	}
	if strings.IndexByte("biufcVW", kind) < 0 {
		return item, malformed(field, text, dlpack.UnknownKind)
	}
	bytes, rest, ok := readNumber(text[2:], math.MaxInt32)
	size := int64(bytes)
	if !ok || rest != "" {
		return item, malformed(field, text, dlpack.MalformedTypestr)
	}
	// ml_dtypes gives its types the kind V, its complex numbers the kind W, and one float of 8 bits the typestr "f1".
	hidden := kind == 'V' || kind == 'W'
	if hidden || kind == 'f' && size == 1 {
		item, err = itemByName(field, text, name, size)
	} else if named {
		err = malformed(field, text+" "+name, dlpack.BehindTypestr)
	} else {
		item.DataType, err = typeByKind(field, text, kind, size)
	}
	if err != nil {
		return dlpack.Item{}, err
	}
	if kind == 'W' && order == '>' {
		return dlpack.Item{}, unsupported(field, text, dlpack.SwappedComplex).Cured(dlpack.NativeOrder)
	}
	if order == '|' && !hidden && size > 1 {
		return dlpack.Item{}, malformed(field, text, dlpack.NoByteOrder, dlpack.Number("size", size))
	}
	item.Swapped = order == '>' && item.DataType.Alignment() > 1
	return item, nil
}

// refusedKind returns why a kind can't be exported, or "" if it can.
func refusedKind(kind byte) dlpack.Saying {
	switch kind {
	case 'O':
		return dlpack.Objects
	case 'S', 'a', 'U':
		return dlpack.TextItems
	case 'm', 'M':
		return dlpack.Times
	case 't':
		return dlpack.BitField
	}
	return ""
}

func itemByName(field, text, name string, size int64) (item dlpack.Item, err error) {
	if name == "" {
		return item, unsupported(field, text, dlpack.BytesWithoutName)
	}
	if item.DataType, err = ParseName(name); err != nil {
		return item, unsupported(field, text, dlpack.NamedStructure, dlpack.Quoted("name", name))
	}
	if named := item.DataType.ItemSize(); named != size {
		return item, malformed(field, text, dlpack.NamedItemSize, dlpack.Quoted("name", name), dlpack.Number("itemsize", named),
			dlpack.Number("expected", size))
	}
	if !item.DataType.WholeBytes() {
		item.Flags = dlpack.SubbyteTypePadded
	}
	return item, nil
}

func typeByKind(field, text string, kind byte, size int64) (dlpack.DataType, error) {
	code, expected := dlpack.Int, "1 2 4 8"
	ok := size == 1 || size == 2 || size == 4 || size == 8
	switch kind {
	case 'b':
		code, ok, expected = dlpack.Bool, size == 1, "1"
	case 'u':
		code = dlpack.UInt
	case 'f':
		if size == 10 || size == 12 || size == 16 {
			return dlpack.DataType{}, unsupported(field, text, dlpack.LongDouble)
		}
		code, ok, expected = dlpack.Float, size == 2 || size == 4 || size == 8, "2 4 8"
	case 'c':
		if size == 20 || size == 24 || size == 32 {
			return dlpack.DataType{}, unsupported(field, text, dlpack.LongComplex)
		}
		code, ok, expected = dlpack.Complex, size == 8 || size == 16, "8 16"
	}
	if !ok {
		return dlpack.DataType{}, malformed(field, text, dlpack.NoSuchItemSize, dlpack.Text("name", code.String()),
			dlpack.List("expected", expected))
	}
	return dlpack.DataType{Code: code, Bits: uint8(8 * size), Lanes: 1}, nil
}

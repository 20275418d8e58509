package protocol

import (
	"math"
	"strconv"
	"strings"

	"dlpack/pkg/dlpack"
)

// ParseTypestr reads a typestr of the array interface: a byte order, a kind and the bytes of an item, "<f4". The
// dtype's name may follow after a space, as in "<V2 bfloat16". It identifies the types of ml_dtypes, whose typestr
// doesn't. They have at most one item a byte, so items smaller than a byte are padded. Errors call the typestr `field`.
func ParseTypestr(field, text string) (item dlpack.Item, err error) {
	text, name, named := strings.Cut(text, " ")
	if strings.HasPrefix(text, "StringDType(") {
		return item, unsupported(field, text, "text of any length; DLPack holds numbers")
	}
	if len(text) < 2 || strings.IndexByte("<>|=", text[0]) < 0 {
		return item, malformed(field, text, `malformed; expected byte order, kind and bytes, like "<f4"`)
	}
	order, kind := text[0], text[1]
	if why := refusedKind(kind); why != "" {
		return item, unsupported(field, text, why)
	}
	if strings.IndexByte("biufcVW", kind) < 0 {
		return item, malformed(field, text, "unknown kind; expected b, i, u, f or c")
	}
	bytes, rest, ok := readNumber(text[2:], math.MaxInt32)
	size := int64(bytes)
	if !ok || rest != "" {
		return item, malformed(field, text, `malformed; expected byte order, kind and bytes, like "<f4"`)
	}
	// ml_dtypes gives its types the kind V, its complex numbers the kind W, and one float of 8 bits the typestr "f1".
	hidden := kind == 'V' || kind == 'W'
	if hidden || kind == 'f' && size == 1 {
		item, err = itemByName(field, text, name, size)
	} else if named {
		err = malformed(field, text+" "+name, `malformed; expected nothing behind the bytes, like "<f4"`)
	} else {
		item.DataType, err = typeByKind(field, text, kind, size)
	}
	if err != nil {
		return dlpack.Item{}, err
	}
	if kind == 'W' && order == '>' {
		return dlpack.Item{}, unsupported(field, text, "ml_dtypes swaps the real and the imaginary part, too (pass "+
			"obj.astype(obj.dtype.newbyteorder('=')))")
	}
	if order == '|' && !hidden && size > 1 {
		return dlpack.Item{}, malformed(field, text, `no byte order, for items of `+strconv.FormatInt(size, 10)+
			` bytes; expected "<" or ">"`)
	}
	item.Swapped = order == '>' && item.DataType.Alignment() > 1
	return item, nil
}

// refusedKind returns the reason why a kind can't be exported, or "" if it can.
func refusedKind(kind byte) string {
	switch kind {
	case 'O':
		return noObjects
	case 'S', 'a', 'U':
		return noText
	case 'm', 'M':
		return noTimes
	case 't':
		return noBitField
	}
	return ""
}

func itemByName(field, text, name string, size int64) (item dlpack.Item, err error) {
	if name == "" {
		return item, unsupported(field, text, "bytes whose type has no name; expected one like bfloat16")
	}
	if item.DataType, err = ParseName(name); err != nil {
		return item, unsupported(field, text, "dtype "+dlpack.Quote(name)+" is a structure, or a type that DLPack "+
			"doesn't have")
	}
	if named := item.DataType.ItemSize(); named != size {
		return item, malformed(field, text, "dtype "+dlpack.Quote(name)+" has an itemsize of "+
			strconv.FormatInt(named, 10)+"; expected "+strconv.FormatInt(size, 10))
	}
	if !item.DataType.WholeBytes() {
		item.Flags = dlpack.SubbyteTypePadded
	}
	return item, nil
}

func typeByKind(field, text string, kind byte, size int64) (dlpack.DataType, error) {
	code, expected := dlpack.Int, "1, 2, 4 or 8"
	ok := size == 1 || size == 2 || size == 4 || size == 8
	switch kind {
	case 'b':
		code, ok, expected = dlpack.Bool, size == 1, "1"
	case 'u':
		code = dlpack.UInt
	case 'f':
		if size == 10 || size == 12 || size == 16 {
			return dlpack.DataType{}, unsupported(field, text, noLongDouble)
		}
		code, ok, expected = dlpack.Float, size == 2 || size == 4 || size == 8, "2, 4 or 8"
	case 'c':
		if size == 20 || size == 24 || size == 32 {
			return dlpack.DataType{}, unsupported(field, text, noLongComplex)
		}
		code, ok, expected = dlpack.Complex, size == 8 || size == 16, "8 or 16"
	}
	if !ok {
		return dlpack.DataType{}, malformed(field, text, "no such "+code.String()+"; expected an item size of "+expected)
	}
	return dlpack.DataType{Code: code, Bits: uint8(8 * size), Lanes: 1}, nil
}

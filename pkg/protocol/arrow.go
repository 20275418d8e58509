package protocol

import (
	"math"
	"strings"

	"dlpack/pkg/dlpack"
)

// arrowBits is the format of booleans of one bit. The prefixes begin the formats of bytes and of lists of a fixed size.
const (
	arrowBits        = "b"
	arrowBytesPrefix = "w:"
	arrowListPrefix  = "+w:"
)

// Formats that mean more than the type of their items.
const (
	ArrowTable = "+s"            // as the outermost format: a table or record batch, whose children are its columns
	ArrowByte  = "c"             // int8, or booleans if the extension type is arrow.bool8
	ArrowBool8 = "c arrow.bool8" // those booleans

	ArrowTwoBytes = "w:2"                // bytes, or numbers if the extension type is lance.bfloat16
	ArrowBFloat16 = "w:2 lance.bfloat16" // those numbers
)

// ParseArrowList reads the format of lists of a fixed size, "+w:6". ok is false for any other format.
func ParseArrowList(text string) (size int64, ok bool) {
	return readSize(text, arrowListPrefix)
}

// ParseArrowBytes reads the format of items of a fixed number of bytes, "w:16". ok is false for any other format.
func ParseArrowBytes(text string) (width int64, ok bool) {
	return readSize(text, arrowBytesPrefix)
}

// readSize reads the number after a prefix. ok is false if the text is anything else.
func readSize(text, prefix string) (size int64, ok bool) {
	text, ok = strings.CutPrefix(text, prefix)
	if !ok {
		return 0, false
	}
	n, rest, ok := readNumber(text, math.MaxInt64)
	return int64(n), ok && rest == ""
}

// ParseArrow reads a format of the Arrow C data interface: "i", "g", [ArrowBool8] or [ArrowBFloat16].
func ParseArrow(text string) (item dlpack.Item, err error) {
	if text == arrowBits || text == ArrowBool8 {
		item.DataType = dlpack.DataType{Code: dlpack.Bool, Bits: 8, Lanes: 1}
		item.BitPacked = text == arrowBits
		return item, nil
	}
	if text == ArrowBFloat16 {
		item.DataType = dlpack.DataType{Code: dlpack.Bfloat, Bits: 16, Lanes: 1}
		return item, nil
	}
	for i := range otherNames {
		if known := &otherNames[i]; text != "" && text == known.arrowItems() {
			item.DataType = dlpack.DataType{Code: known.code, Bits: known.bits, Lanes: 1}
			return item, nil
		}
	}
	if _, ok := ParseArrowBytes(text); ok {
		return item, unsupported("Arrow format", text, dlpack.BytesItems)
	}
	for i := range arrowRefusals {
		known := &arrowRefusals[i]
		if text == known.format || strings.HasSuffix(known.format, ":") && strings.HasPrefix(text, known.format) {
			return item, unsupported("Arrow format", text, known.saying)
		}
	}
	if strings.HasPrefix(text, arrowListPrefix) {
		return item, malformed("Arrow format", text, dlpack.MalformedList)
	}
	return item, malformed("Arrow format", text, dlpack.UnknownArrow, dlpack.List("expected", arrowFormats()))
}

// arrowFormats returns the formats that ParseArrow reads, separated by spaces.
func arrowFormats() string {
	list := arrowBits
	for i := range otherNames {
		if format := otherNames[i].arrowItems(); format != "" {
			list += " " + format
		}
	}
	return list
}

// arrowRefusals are the formats that can't be exported, and why. A format that ends with a colon is a prefix. Python
// adds the hints, from dlpack._ways_out.
var arrowRefusals = [...]struct {
	format string
	saying dlpack.Saying
}{
	{"n", dlpack.NullsAlone},
	{"z", dlpack.BytesOfAnyLength},
	{"Z", dlpack.BytesOfAnyLength},
	{"vz", dlpack.BytesOfAnyLength},
	{"u", dlpack.TextItems},
	{"U", dlpack.TextItems},
	{"vu", dlpack.TextItems},
	{"d:", dlpack.Decimals},
	{"tdD", dlpack.Times},
	{"tdm", dlpack.Times},
	{"tts", dlpack.Times},
	{"ttm", dlpack.Times},
	{"ttu", dlpack.Times},
	{"ttn", dlpack.Times},
	{"tss:", dlpack.Times},
	{"tsm:", dlpack.Times},
	{"tsu:", dlpack.Times},
	{"tsn:", dlpack.Times},
	{"tDs", dlpack.Times},
	{"tDm", dlpack.Times},
	{"tDu", dlpack.Times},
	{"tDn", dlpack.Times},
	{"tiM", dlpack.Times},
	{"tiD", dlpack.Intervals},
	{"tin", dlpack.Intervals},
	{"+l", dlpack.Lists},
	{"+L", dlpack.Lists},
	{"+vl", dlpack.Lists},
	{"+vL", dlpack.Lists},
	{ArrowTable, dlpack.Structure},
	{"+m", dlpack.Maps},
	{"+ud:", dlpack.Unions},
	{"+us:", dlpack.Unions},
	{"+r", dlpack.RunEnds},
	{"_pli128", dlpack.WideIntegers}, // polars'
	{"_plu128", dlpack.WideIntegers},
}

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
)

// ParseArrowList reads the format of lists of a fixed size, "+w:6". ok is false for any other format.
func ParseArrowList(text string) (size int64, ok bool) {
	return readSize(text, arrowListPrefix)
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

// ParseArrow reads a format of the Arrow C data interface: "i", "g", or [ArrowBool8].
func ParseArrow(text string) (item dlpack.Item, err error) {
	if text == arrowBits || text == ArrowBool8 {
		item.DataType = dlpack.DataType{Code: dlpack.Bool, Bits: 8, Lanes: 1}
		item.BitPacked = text == arrowBits
		return item, nil
	}
	for i := range otherNames {
		if known := &otherNames[i]; text != "" && text == known.arrowItems() {
			item.DataType = dlpack.DataType{Code: known.code, Bits: known.bits, Lanes: 1}
			return item, nil
		}
	}
	if _, ok := readSize(text, arrowBytesPrefix); ok {
		return item, unsupported("Arrow format", text, "items that are bytes; DLPack holds numbers")
	}
	for i := range arrowRefusals {
		known := &arrowRefusals[i]
		if text == known.format || strings.HasSuffix(known.format, ":") && strings.HasPrefix(text, known.format) {
			return item, unsupported("Arrow format", text, known.why)
		}
	}
	if strings.HasPrefix(text, arrowListPrefix) {
		return item, malformed("Arrow format", text, `malformed; expected "+w:", a length, and one child`)
	}
	return item, malformed("Arrow format", text, "unknown; expected one of "+arrowFormats())
}

// arrowFormats returns the formats that ParseArrow reads, as an error lists them.
func arrowFormats() string {
	list, last := arrowBits, ""
	for i := range otherNames {
		if format := otherNames[i].arrowItems(); format != "" {
			if last != "" {
				list += ", " + last
			}
			last = format
		}
	}
	return list + " or " + last
}

const (
	arrowText      = "text; DLPack holds numbers"
	arrowBytes     = "bytes of any length; DLPack holds numbers"
	arrowTimes     = "times; DLPack holds numbers"
	arrowIntervals = "times of several numbers; DLPack has one data type"
	arrowLists     = "lists of any length; DLPack needs one length"
	arrowUnions    = "a union; DLPack has one data type"
	arrowWide      = "integers of 128 bits, which Arrow has not; DLPack's consumers have 64"
)

// arrowRefusals are the formats that can't be exported, and why. A format that ends with a colon is a prefix. Python
// adds the hints, from dlpack._ways_out.
var arrowRefusals = [...]struct{ format, why string }{
	{"n", "nulls alone; DLPack holds numbers"},
	{"z", arrowBytes},
	{"Z", arrowBytes},
	{"vz", arrowBytes},
	{"u", arrowText},
	{"U", arrowText},
	{"vu", arrowText},
	{"d:", "decimals; DLPack has float64"},
	{"tdD", arrowTimes},
	{"tdm", arrowTimes},
	{"tts", arrowTimes},
	{"ttm", arrowTimes},
	{"ttu", arrowTimes},
	{"ttn", arrowTimes},
	{"tss:", arrowTimes},
	{"tsm:", arrowTimes},
	{"tsu:", arrowTimes},
	{"tsn:", arrowTimes},
	{"tDs", arrowTimes},
	{"tDm", arrowTimes},
	{"tDu", arrowTimes},
	{"tDn", arrowTimes},
	{"tiM", arrowTimes},
	{"tiD", arrowIntervals},
	{"tin", arrowIntervals},
	{"+l", arrowLists},
	{"+L", arrowLists},
	{"+vl", arrowLists},
	{"+vL", arrowLists},
	{ArrowTable, "a structure; DLPack has one data type"},
	{"+m", "maps; DLPack has one data type"},
	{"+ud:", arrowUnions},
	{"+us:", arrowUnions},
	{"+r", "run-end encoded items; DLPack holds each item"},
	{"_pli128", arrowWide}, // polars'
	{"_plu128", arrowWide},
}

package protocol

import (
	"math"
	"strings"

	"dlpack/pkg/dlpack"
)

// arrowBits is the format of booleans of one bit each, and arrowListPrefix how that of lists of a fixed size begins.
const (
	arrowBits       = "b"
	arrowListPrefix = "+w:"
)

// Formats with a meaning beside that of their items.
const (
	ArrowTable = "+s"            // as the outermost format a table or record batch, whose children are its columns
	ArrowByte  = "c"             // the extension type arrow.bool8 makes these bytes booleans,
	ArrowBool8 = "c arrow.bool8" // which is written so
)

// ParseArrowList reads the format of lists of a fixed size, "+w:6". ok tells whether it is one.
func ParseArrowList(text string) (size int64, ok bool) {
	text, ok = strings.CutPrefix(text, arrowListPrefix)
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

// arrowFormats is the formats that ParseArrow reads, as an error lists them.
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
	casts = ": .cast in pyarrow and polars, .astype in pandas, of another library's table pyarrow.table(obj)[0].cast, of " +
		"its array or Python's objects pyarrow.array(obj).cast)"

	arrowNulls = "nulls alone; DLPack holds numbers (cast them to numbers, and fill them: .cast and .fill_null, " +
		"in pandas .astype and .fillna)"
	arrowText  = "text; DLPack holds numbers (cast it to numbers, such as float64" + casts
	arrowBytes = "bytes of any length; DLPack holds numbers (pass the bytes of one item)"
	arrowItems = "items that are bytes; DLPack holds numbers (frombuffer takes pyarrow's array.buffers()[1], their type, " +
		"and as offset array.offset times the bytes of an item; chunks need .combine_chunks() first)"
	arrowDecimals  = "decimals; DLPack has float64 (cast them to it" + casts
	arrowTimes32   = "times; DLPack holds numbers (cast them to their ticks, int32" + casts
	arrowTimes64   = "times; DLPack holds numbers (cast them to their ticks, int64" + casts
	arrowIntervals = "times of several numbers; DLPack has one data type (pass their days and ticks as columns)"
	arrowLists     = "lists of any length; DLPack needs one length (cast them to fixed-size lists, or pass their items)"
	arrowStruct    = "a structure; DLPack has one data type (pass one of its fields)"
	arrowMaps      = "maps; DLPack has one data type (pass their keys or their items)"
	arrowUnions    = "a union; DLPack has one data type (pass one of its fields)"
	arrowWide      = "integers of 128 bits, which Arrow has not; DLPack's consumers have 64 (cast them to int64" + casts
	arrowRuns      = "run-end encoded items; DLPack holds each item (decode them, as pyarrow's run_end_decode does)"
)

// arrowRefusals are the formats that can't be exported, and why. One that ends with a colon may be followed by
// anything.
var arrowRefusals = [...]struct{ format, why string }{
	{"n", arrowNulls},
	{"z", arrowBytes},
	{"Z", arrowBytes},
	{"vz", arrowBytes},
	{"u", arrowText},
	{"U", arrowText},
	{"vu", arrowText},
	{"w:", arrowItems},
	{"d:", arrowDecimals},
	{"tdD", arrowTimes32},
	{"tdm", arrowTimes64},
	{"tts", arrowTimes32},
	{"ttm", arrowTimes32},
	{"ttu", arrowTimes64},
	{"ttn", arrowTimes64},
	{"tss:", arrowTimes64},
	{"tsm:", arrowTimes64},
	{"tsu:", arrowTimes64},
	{"tsn:", arrowTimes64},
	{"tDs", arrowTimes64},
	{"tDm", arrowTimes64},
	{"tDu", arrowTimes64},
	{"tDn", arrowTimes64},
	{"tiM", arrowTimes32},
	{"tiD", arrowIntervals},
	{"tin", arrowIntervals},
	{"+l", arrowLists},
	{"+L", arrowLists},
	{"+vl", arrowLists},
	{"+vL", arrowLists},
	{ArrowTable, arrowStruct},
	{"+m", arrowMaps},
	{"+ud:", arrowUnions},
	{"+us:", arrowUnions},
	{"+r", arrowRuns},
	{"_pli128", arrowWide}, // polars'
	{"_plu128", arrowWide},
}

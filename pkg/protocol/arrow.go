package protocol

import (
	"math"
	"strconv"
	"strings"

	"dlpack/pkg/dlpack"
)

// arrowBits is the format of booleans of one bit each; the others are how those of bytes and of lists of a fixed size
// begin.
const (
	arrowBits        = "b"
	arrowBytesPrefix = "w:"
	arrowListPrefix  = "+w:"
)

// Formats with a meaning beside that of their items.
const (
	ArrowTable = "+s"            // as the outermost format a table or record batch, whose children are its columns
	ArrowByte  = "c"             // the extension type arrow.bool8 makes these bytes booleans,
	ArrowBool8 = "c arrow.bool8" // which is written so
)

// ParseArrowList reads the format of lists of a fixed size, "+w:6". ok tells whether it is one.
func ParseArrowList(text string) (size int64, ok bool) {
	return readSize(text, arrowListPrefix)
}

// readSize reads the number behind the prefix. ok tells whether the text is nothing else.
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
	if size, ok := readSize(text, arrowBytesPrefix); ok {
		why := strings.ReplaceAll(arrowItems, "SIZE", strconv.FormatInt(size, 10))
		return item, unsupported("Arrow format", text, why)
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
	toFloat64 = "float64: .astype('float64') in pandas, .cast('float64') in pyarrow, .cast(polars.Float64) in polars, " +
		"pyarrow.array(obj).cast('float64') of another library's array)"
	toInt64 = "int64: .astype('int64') in pandas, .cast('int64') in pyarrow, .cast(polars.Int64) in polars, " +
		"pyarrow.array(obj).cast('int64') of Python's objects and another library's array)"
	// pandas' astype refuses days and times of day.
	daysToInt32 = "int32: pyarrow.array(obj).cast('int32') in pandas and of another library's array, .cast('int32') in " +
		"pyarrow, .cast(polars.Int32) in polars)"
	daysToInt64 = "int64: pyarrow.array(obj).cast('int64') in pandas and of another library's array, .cast('int64') in " +
		"pyarrow, .cast(polars.Int64) in polars)"

	arrowNulls = "nulls alone; DLPack holds numbers (cast them to numbers, and fill them: .cast and .fill_null, " +
		"in pandas .astype and .fillna)"
	arrowText  = "text; DLPack holds numbers (cast it to numbers, such as " + toFloat64
	arrowBytes = "bytes of any length; DLPack holds numbers (pass the bytes of one item)"
	arrowItems = "items that are bytes; DLPack holds numbers (of polars' objects " +
		"numpy.asarray(obj).astype('float64'); of others, with array = pyarrow.array(obj), " +
		"dlpack.frombuffer(array.buffers()[1], 'uint8', (len(array), SIZE), offset=array.offset * SIZE), " +
		"where the bytes of nulls may be any)"
	arrowDecimals  = "decimals; DLPack has float64 (cast them to " + toFloat64
	arrowDays32    = "times; DLPack holds numbers (cast them to their ticks, " + daysToInt32
	arrowDays64    = "times; DLPack holds numbers (cast them to their ticks, " + daysToInt64
	arrowTimes64   = "times; DLPack holds numbers (cast them to their ticks, " + toInt64
	arrowIntervals = "times of several numbers; DLPack has one data type (pass their days and ticks as columns)"
	arrowLists     = "lists of any length; DLPack needs one length (of 2 each: " +
		".list.to_array(2) in polars, .cast(pyarrow.list_(obj.type.value_type, 2)) in pyarrow; else " + itemsOfLists
	arrowListViews = "lists of any length; DLPack needs one length (pass " + itemsOfLists
	itemsOfLists   = "the items: .explode() in polars and pandas, .flatten() in pyarrow, of chunks first " +
		".combine_chunks(), of others pyarrow.array(obj))"
	arrowStruct = "a structure; DLPack has one data type (pass one of its fields)"
	arrowMaps   = "maps; DLPack has one data type (pass their keys or their items)"
	arrowUnions = "a union; DLPack has one data type (pass one of its fields)"
	arrowWide   = "integers of 128 bits, which Arrow has not; DLPack's consumers have 64 (cast them to " + toInt64
	arrowRuns   = "run-end encoded items; DLPack holds each item (decode them, as pyarrow's run_end_decode does)"
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
	{"d:", arrowDecimals},
	{"tdD", arrowDays32},
	{"tdm", arrowDays64},
	{"tts", arrowDays32},
	{"ttm", arrowDays32},
	{"ttu", arrowDays64},
	{"ttn", arrowDays64},
	{"tss:", arrowTimes64},
	{"tsm:", arrowTimes64},
	{"tsu:", arrowTimes64},
	{"tsn:", arrowTimes64},
	{"tDs", arrowTimes64},
	{"tDm", arrowTimes64},
	{"tDu", arrowTimes64},
	{"tDn", arrowTimes64},
	{"tiM", arrowDays32},
	{"tiD", arrowIntervals},
	{"tin", arrowIntervals},
	{"+l", arrowLists},
	{"+L", arrowLists},
	{"+vl", arrowListViews},
	{"+vL", arrowListViews},
	{ArrowTable, arrowStruct},
	{"+m", arrowMaps},
	{"+ud:", arrowUnions},
	{"+us:", arrowUnions},
	{"+r", arrowRuns},
	{"_pli128", arrowWide}, // polars'
	{"_plu128", arrowWide},
}

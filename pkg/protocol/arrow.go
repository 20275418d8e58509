package protocol

import (
	"strings"

	"dlpack/pkg/dlpack"
)

// ParseArrow reads a format of the Arrow C data interface: "i", "g". Behind a space may follow the extension that makes
// bytes booleans: "c arrow.bool8". bitPacked tells that an item is one bit: "b".
func ParseArrow(text string) (t dlpack.DataType, bitPacked bool, err error) {
	for i := range arrowTypes {
		if known := &arrowTypes[i]; text == known.format {
			return dlpack.DataType{Code: known.code, Bits: known.bits, Lanes: 1}, text == "b", nil
		}
	}
	for i := range arrowRefusals {
		known := &arrowRefusals[i]
		if text == known.format || strings.HasSuffix(known.format, ":") && strings.HasPrefix(text, known.format) {
			return t, false, bufferError("Arrow format", text, known.why)
		}
	}
	if strings.HasPrefix(text, "+w:") {
		return t, false, valueError("Arrow format", text, `malformed; expected "+w:", a length, and one child`)
	}
	return t, false, valueError("Arrow format", text, `unknown; expected one of b, c, C, s, S, i, I, l, L, e, f or g`)
}

var arrowTypes = [...]struct {
	format string
	code   dlpack.TypeCode
	bits   uint8
}{
	{"b", dlpack.Bool, 8},
	{"c arrow.bool8", dlpack.Bool, 8},
	{"c", dlpack.Int, 8},
	{"s", dlpack.Int, 16},
	{"i", dlpack.Int, 32},
	{"l", dlpack.Int, 64},
	{"C", dlpack.UInt, 8},
	{"S", dlpack.UInt, 16},
	{"I", dlpack.UInt, 32},
	{"L", dlpack.UInt, 64},
	{"e", dlpack.Float, 16},
	{"f", dlpack.Float, 32},
	{"g", dlpack.Float, 64},
}

const (
	arrowNulls     = "nulls alone; DLPack holds numbers (give them values, as with .cast('float64').fill_null(0))"
	arrowText      = "text; DLPack holds numbers (convert it, as with .cast('float64'))"
	arrowBytes     = "bytes of any length; DLPack holds numbers (pass the bytes of one item)"
	arrowItems     = "items that are bytes; DLPack holds numbers (say of which type, as with .view('int32'))"
	arrowDecimals  = "decimals; DLPack has float64 (convert them, as with .cast('float64'))"
	arrowTimes32   = "times; DLPack holds numbers (pass their ticks, .cast('int32'))"
	arrowTimes64   = "times; DLPack holds numbers (pass their ticks, .cast('int64'))"
	arrowIntervals = "times of several numbers; DLPack has one data type (pass their days and ticks as columns)"
	arrowLists     = "lists of any length; DLPack needs one length (cast to a fixed-size list, or pass .flatten())"
	arrowStruct    = "a structure; DLPack has one data type (pass one of its fields)"
	arrowMaps      = "maps; DLPack has one data type (pass their keys or their items)"
	arrowUnions    = "a union; DLPack has one data type (pass one of its fields)"
	arrowRuns      = "run-end encoded items; DLPack holds each item (decode them, as with run_end_decode)"
)

// arrowRefusals are the formats that can't be exported, those that end with a colon with anything behind it, and why.
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
	{"+s", arrowStruct},
	{"+m", arrowMaps},
	{"+ud:", arrowUnions},
	{"+us:", arrowUnions},
	{"+r", arrowRuns},
}

package protocol

import (
	"math"
	"strconv"
	"strings"

	"dlpack/pkg/dlpack"
)

// ParseName reads the name of a data type: "int32", "bfloat16", "float8_e4m3fn", and with lanes "float4_e2m1fnx2". A
// name doesn't say whether items smaller than a byte are packed or padded.
func ParseName(name string) (dlpack.DataType, error) {
	if t, ok := parseName(name); ok {
		return t, nil
	}
	names, _ := nearestNames(name)
	return dlpack.DataType{}, unknownName(name, names)
}

// ParseAnyName accepts the names of ParseName and other spellings that mean one data type: "torch.float32", "fp32",
// numpy's "f4", safetensors' "BF16", and the numbers of a DLDataType, "(2, 32, 1)". Spellings that differ between
// libraries are malformed: "i8" is int64 to numpy and int8 elsewhere, "f16" is a long double to numpy and float16
// elsewhere, and "U4" is text to numpy.
func ParseAnyName(name string) (dlpack.DataType, error) {
	if t, ok := parseName(name); ok {
		return t, nil
	}
	if t, ok := parseNumbers(name); ok {
		return t, nil
	}
	names, exact := nearestNames(name)
	isCapitalCode := len(name) == 2 && 'A' <= name[0] && name[0] <= 'Z'
	if exact && len(names) == 1 && !isCapitalCode && !isLongDouble(name) {
		return ParseName(names[0])
	}
	return dlpack.DataType{}, unknownName(name, names)
}

func parseName(name string) (t dlpack.DataType, ok bool) {
	for code := range dlpack.TypeCodeCount {
		rest, found := strings.CutPrefix(name, code.String())
		if !found {
			continue
		}
		bits := uint64(code.FixedBits())
		if bits == 0 {
			if bits, rest, found = readNumber(rest, math.MaxUint8); !found {
				continue
			}
		}
		lanes := uint64(1)
		if after, found := strings.CutPrefix(rest, "x"); found {
			if lanes, rest, found = readNumber(after, math.MaxUint16); !found || lanes < 2 {
				continue
			}
		}
		t = dlpack.DataType{Code: code, Bits: uint8(bits), Lanes: uint16(lanes)}
		if rest == "" && t.Validate() == nil {
			return t, true
		}
	}
	return dlpack.DataType{}, false
}

// parseNumbers reads "(code, bits, lanes)".
func parseNumbers(text string) (t dlpack.DataType, ok bool) {
	if len(text) < 2 || text[0] != '(' || text[len(text)-1] != ')' {
		return t, false
	}
	code, rest, _ := strings.Cut(text[1:len(text)-1], ", ")
	bits, lanes, _ := strings.Cut(rest, ", ")
	c, wrongCode := strconv.ParseUint(code, 10, 8)
	b, wrongBits := strconv.ParseUint(bits, 10, 8)
	l, wrongLanes := strconv.ParseUint(lanes, 10, 16)
	t = dlpack.DataType{Code: dlpack.TypeCode(c), Bits: uint8(b), Lanes: uint16(l)}
	return t, wrongCode == nil && wrongBits == nil && wrongLanes == nil && t.Validate() == nil
}

// isLongDouble reports whether numpy reads the name as a long double of 16 bytes.
func isLongDouble(name string) bool {
	return name[strings.LastIndexByte(name, '.')+1:] == "f16"
}

func unknownName(name string, nearest []string) error {
	unknown := malformed("dtype", name, dlpack.UnknownName)
	if isLongDouble(name) {
		return unknown.Cured(dlpack.NoFloat16)
	} else if nearest != nil {
		names := dlpack.Value{Name: "names", Form: dlpack.FormNames, Text: strings.Join(nearest, " ")}
		return unknown.Cured(dlpack.Nearest, names)
	}
	return unknown
}

// AppendName appends the name of a valid data type to dst.
func AppendName(dst []byte, t dlpack.DataType) []byte {
	dst = append(dst, t.Code.String()...)
	if t.Code.FixedBits() == 0 {
		dst = strconv.AppendUint(dst, uint64(t.Bits), 10)
	}
	if t.Lanes > 1 {
		dst = append(dst, 'x')
		dst = strconv.AppendUint(dst, uint64(t.Lanes), 10)
	}
	return dst
}

// readNumber reads the decimal digits at the start of text: one or more, without a leading zero, and at most `most`.
func readNumber(text string, most uint64) (n uint64, rest string, ok bool) {
	i := 0
	for ; i < len(text) && '0' <= text[i] && text[i] <= '9'; i++ {
		digit := uint64(text[i] - '0')
		if n > (most-digit)/10 {
			return 0, text, false
		}
		n = n*10 + digit
	}
	if i == 0 || i > 1 && text[0] == '0' {
		return 0, text, false
	}
	return n, text[i:], true
}

func malformed(field, text string, saying dlpack.Saying, values ...dlpack.Value) *dlpack.Refusal {
	return dlpack.Malformed(saying, about(field, text, values)...)
}

func unsupported(field, text string, saying dlpack.Saying, values ...dlpack.Value) *dlpack.Refusal {
	return dlpack.Unsupported(saying, about(field, text, values)...)
}

func about(field, text string, values []dlpack.Value) []dlpack.Value {
	return append([]dlpack.Value{dlpack.Text("field", field), dlpack.Quoted("text", text)}, values...)
}

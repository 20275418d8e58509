package protocol

import (
	"math"
	"math/big"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

func parseFormat(text string, itemsize int64) (dlpack.Item, []int64, error) {
	var shape [dlpack.MaxNDim]int64
	item, ndim, err := ParseFormat(text, itemsize, &shape)
	return item, shape[:ndim], err
}

// formatOf returns a function that parses formats of items of this size.
func formatOf(itemsize int64) func(text string) error {
	return func(text string) error {
		var shape [dlpack.MaxNDim]int64
		_, _, err := ParseFormat(text, itemsize, &shape)
		return err
	}
}

// Ctypes writes <z for c_char_p, <Z for c_wchar_p, and B for structures.
func TestAFormatThatIsNoNumberIsRefused(t *testing.T) {
	refusals(t, formatOf(4), dlpack.ErrUnsupported, map[string][]string{
		"long-double":  {"g"},
		"long-complex": {"Zg", "G"},
		"text":         {"4s", "p", "<u", "2w"},
		"objects":      {"O"},
		"pointers":     {"P", "&i", "X{}", "<z", "<Z"},
		"structure":    {"T{i:a:d:b:}", "(2)T{i:a:}", "ii", "i <d", "BBB", strings.Repeat("i", 999), "B"},
		"padding":      {"4x", "ix"},
		"bit-field":    {"t"},
	})
	refusals(t, formatOf(4), dlpack.ErrMalformed, map[string][]string{
		"unknown-letter": {"", " ", "@", "@@i", "<>i", "5", "3 i", "3<i", "33", "(2)", "i)", "i:a:", "i?!", "\x00",
			"\xff", "i\x00", strings.Repeat("i", 99) + "!"},
		"unknown-complex":     {"Zi", "Z?", "Z f"},
		"sub-array-dimension": {"(2", "(2 3)i"},
		"sub-array-number": {"(2,", "(2,)d", "()", "((2))i", "(-1)i", "(+1)i", "(9223372036854775808)i",
			"99999999999999999999i", "00i", strings.Repeat("(", 9999)},
		"sub-array-dimensions": {strings.Repeat("(1)", 65)},
	})
}

func TestAFormatOfAnotherSizeThanTheItemIsMalformed(t *testing.T) {
	for _, test := range []struct {
		text     string
		itemsize int64
		want     string
	}{
		{"i", 8, "format-size: size=4, itemsize=8"},
		{"l", 4, "format-size: size=8, itemsize=4"},
		{"<i", 8, "format-size: size=4, itemsize=8"},
		{"<l", 16, "format-size: size=4, itemsize=16"},
		{"B", 0, "format-size: size=1, itemsize=0"},
		{"B", -1, "format-size: size=1, itemsize=-1"},
		{"(2,3)d", 8, "format-size: size=48, itemsize=8"},
		{"0B", 1, "format-size: size=0, itemsize=1"},
		{"(4294967296,4294967296)B", 0, "format-too-large: size=9223372036854775807, itemsize=0"},
		{"(4294967296,4294967296)B", -1, "format-too-large: size=9223372036854775807, itemsize=-1"},
		{"(9223372036854775807)h", -2, "format-too-large: size=9223372036854775807, itemsize=-2"},
	} {
		key, values, _ := strings.Cut(test.want, ": ")
		want := key + ": field=format, text=" + dlpack.Quoted("", test.text).String() + ", " + values
		refused(t, test.text, formatOf(test.itemsize)(test.text), dlpack.ErrMalformed, want)
	}
}

// A format of one item, in regular expressions: order, sub-array, order, count, code.
var (
	plainDims   = `((?:\([\s\v]*\d+[\s\v]*(?:,[\s\v]*\d+[\s\v]*)*\)|[\s\v])*)`
	plainFormat = regexp.MustCompile(`^` + plainDims + `([@^=<>!]?)` + plainDims +
		`(\d*)([?cbBhHiIlLqQnNefdFD]|Ze|Zf|Zd)[\s\v]*$`)
	plainNumber = regexp.MustCompile(`\d+`)
	plainCount  = regexp.MustCompile(`\d*$`)
	plainCodes  = map[string]string{
		"?": "bool", "c": "uint8", "b": "int8", "B": "uint8", "h": "int16", "H": "uint16", "i": "int32", "I": "uint32",
		"l": "int64", "L": "uint64", "q": "int64", "Q": "uint64", "n": "int64", "N": "uint64",
		"e": "float16", "f": "float32", "d": "float64",
		"F": "complex64", "D": "complex128", "Ze": "complex32", "Zf": "complex64", "Zd": "complex128",
	}
	plainSizes = map[string]int64{
		"bool": 1, "int8": 1, "int16": 2, "int32": 4, "int64": 8, "uint8": 1, "uint16": 2, "uint32": 4, "uint64": 8,
		"float16": 2, "float32": 4, "float64": 8, "complex32": 4, "complex64": 8, "complex128": 16,
	}
)

// plainly is what ParseFormat should find: the name, whether the bytes are swapped, and the shape.
func plainly(text string, itemsize int64) (name string, swapped bool, shape []int64, ok bool) {
	parts := plainFormat.FindStringSubmatch(text)
	if parts == nil {
		return
	}
	order, count, code := parts[2], parts[4], parts[5]
	numbers := plainNumber.FindAllString(parts[1]+" "+parts[3], -1)
	if count != "" && count != "1" {
		numbers = append(numbers, count)
	}
	elements, bounded := big.NewInt(1), big.NewInt(1)
	for _, number := range numbers {
		n, _ := new(big.Int).SetString(number, 10)
		if n.String() != number || !n.IsInt64() {
			return
		}
		shape = append(shape, n.Int64())
		elements.Mul(elements, n)
		bounded.Mul(bounded, big.NewInt(max(n.Int64(), 1)))
	}
	name = plainCodes[code]
	size := func() bool {
		return new(big.Int).Mul(elements, big.NewInt(plainSizes[name])).Cmp(big.NewInt(itemsize)) == 0
	}
	swapped = order == ">" || order == "!"
	if strings.ContainsAny(code, "lL") && order != "" && order != "@" && order != "^" && !size() || len(shape) > 64 {
		name = strings.Replace(name, "64", "32", 1)
	}
	bounded.Mul(bounded, big.NewInt(plainSizes[name]))
	return name, swapped, shape, size() && bounded.IsInt64() && len(shape) <= 64
}

// plainItem is an item that a format begins with, well-formed but for its numbers; what DLPack has no type for is of
// the group "refused". plainKindOfFormat is the kind of error that a format which means nothing is refused with: that
// of the first item which is not to be had.
var plainItem = regexp.MustCompile(`^(?P<dims>` + plainDims + `[@^=<>!]?` + plainDims +
	`\d*)(?:[?cbBhHiIlLqQnNefdFD]|Z[fd]|(?P<refused>[gGspuwOP&XzTxt]|Z(?:g|$)))`)

func plainKindOfFormat(text string, itemsize int64) dlpack.Kind {
	if plainFormat.MatchString(text) {
		if text == "B" && itemsize > 1 {
			return dlpack.ErrUnsupported // ctypes' word for structures
		}
		return dlpack.ErrMalformed // of another size
	}
	for rest := text; ; {
		parts := plainItem.FindStringSubmatch(rest)
		if parts == nil {
			return dlpack.ErrMalformed
		}
		dims := 0
		for _, number := range plainNumber.FindAllString(parts[1], -1) {
			if n, err := strconv.ParseInt(number, 10, 64); err != nil || strconv.FormatInt(n, 10) != number {
				return dlpack.ErrMalformed
			}
			dims++
		}
		if plainCount.FindString(parts[1]) == "1" { // no dimension
			dims--
		}
		if dims > dlpack.MaxNDim {
			return dlpack.ErrMalformed
		}
		rest = strings.TrimLeft(rest[len(parts[0]):], " \t\n\v\f\r")
		if parts[plainItem.SubexpIndex("refused")] != "" || rest == "" {
			return dlpack.ErrUnsupported
		}
	}
}

func FuzzFormat(f *testing.F) {
	for code, name := range plainCodes {
		f.Add(code, plainSizes[name])
	}
	for _, seed := range []struct {
		text     string
		itemsize int64
	}{
		{"@l", 8}, {"^l", 8}, {"=l", 4}, {">L", 8}, {">i", 4}, {">Ze", 4}, {"!Zd", 16}, {" < i\n", 4},
		{"(2,3)d", 48}, {"( 2 , 3 ) d", 48}, {"(2)(3)d", 48}, {"(2)3d", 48}, {"(2,3)>d", 48}, {"<(2,3)Zf", 48},
		{"3B", 3}, {"(1)B", 1}, {"0B", 0}, {"(4,0)i", 0}, {"(" + strings.Repeat("1,", 63) + "1)i", 4},
	} {
		f.Add(seed.text, seed.itemsize)
	}
	f.Add("<l", int64(8)) // as ctypes says
	f.Add("<l", int64(4))
	f.Add("(2)<l", int64(0))
	f.Add("(0)<l", int64(0)) // of any size
	f.Add("\t>Zd \v", int64(16))
	f.Add("(2, 3)(1)!3d", int64(144))
	f.Add("1B", int64(1))
	f.Add("(9223372036854775807)B", int64(math.MaxInt64)) // as many as there can be
	f.Add("01B", int64(1))
	f.Add("(4294967296,4294967296,0)i", int64(0)) // too large before it is empty
	f.Add("ii", int64(8))
	f.Add("T{i:a:}", int64(4))
	f.Add("<(2)>i", int64(8))
	f.Add("B", int64(4)) // as ctypes says of a union
	f.Add("B", int64(2))
	f.Add("3s", int64(3))
	f.Add("i 4x", int64(8))
	f.Add("(99999999999999999999)O", int64(8)) // malformed before it is refused
	f.Add("iZ", int64(8))
	f.Add("Z\x00", int64(4)) // a NUL does not end the text
	f.Fuzz(func(t *testing.T, text string, itemsize int64) {
		got, gotShape, err := parseFormat(text, itemsize)
		name, swapped, shape, ok := plainly(text, itemsize)
		if err != nil {
			if ok {
				t.Fatalf("%q, %d: %v; want %s, %v", text, itemsize, err, name, shape)
			}
			if dlpack.KindOf(err) != plainKindOfFormat(text, itemsize) ||
				!strings.Contains(err.Error(), ": field=format, text="+dlpack.Quoted("", text).String()) {
				t.Fatalf("%q, %d: %v; want kind %q", text, itemsize, err, plainKindOfFormat(text, itemsize))
			}
			return
		}
		gotName := string(AppendName(nil, got.DataType))
		if !ok || gotName != name || !slices.Equal(gotShape, shape) ||
			got != (dlpack.Item{DataType: got.DataType, Swapped: swapped}) {
			t.Fatalf("%q, %d: %+v of %v; want %v, %s, %v, %v", text, itemsize, got, gotShape, ok, name, swapped, shape)
		}
	})
}

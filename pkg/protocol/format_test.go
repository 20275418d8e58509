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

func TestFormatsOfNumbersAreRead(t *testing.T) {
	for _, test := range []struct {
		text     string
		itemsize int64
		name     string
		swapped  bool
		shape    []int64
	}{
		{"?", 1, "bool", false, nil},
		{"c", 1, "uint8", false, nil},
		{"b", 1, "int8", false, nil},
		{"B", 1, "uint8", false, nil},
		{"h", 2, "int16", false, nil},
		{"H", 2, "uint16", false, nil},
		{"i", 4, "int32", false, nil},
		{"I", 4, "uint32", false, nil},
		{"l", 8, "int64", false, nil},
		{"L", 8, "uint64", false, nil},
		{"q", 8, "int64", false, nil},
		{"Q", 8, "uint64", false, nil},
		{"n", 8, "int64", false, nil},
		{"N", 8, "uint64", false, nil},
		{"e", 2, "float16", false, nil},
		{"f", 4, "float32", false, nil},
		{"d", 8, "float64", false, nil},
		{"Ze", 4, "complex32", false, nil},
		{"Zf", 8, "complex64", false, nil},
		{"Zd", 16, "complex128", false, nil},
		{"F", 8, "complex64", false, nil},
		{"D", 16, "complex128", false, nil},

		{"@l", 8, "int64", false, nil},
		{"^l", 8, "int64", false, nil},
		{"=l", 4, "int32", false, nil},
		{"<L", 4, "uint32", false, nil},
		{"<l", 8, "int64", false, nil}, // as ctypes says
		{">L", 8, "uint64", true, nil},
		{"(2)<l", 16, "int64", false, []int64{2}},
		{">i", 4, "int32", true, nil},
		{">Ze", 4, "complex32", true, nil},
		{"!Zd", 16, "complex128", true, nil},
		{" < i\n", 4, "int32", false, nil},

		{"(2,3)d", 48, "float64", false, []int64{2, 3}},
		{"( 2 , 3 ) d", 48, "float64", false, []int64{2, 3}},
		{"(2)(3)d", 48, "float64", false, []int64{2, 3}},
		{"(2)3d", 48, "float64", false, []int64{2, 3}},
		{"(2,3)>d", 48, "float64", true, []int64{2, 3}},
		{"<(2,3)Zf", 48, "complex64", false, []int64{2, 3}},
		{"3B", 3, "uint8", false, []int64{3}},
		{"1B", 1, "uint8", false, nil},
		{"(1)B", 1, "uint8", false, []int64{1}},
		{"0B", 0, "uint8", false, []int64{0}},
		{"(4,0)i", 0, "int32", false, []int64{4, 0}},
		{"(" + strings.Repeat("1,", 63) + "1)i", 4, "int32", false, ones(64)},
	} {
		got, shape, err := parseFormat(test.text, test.itemsize)
		if name := string(AppendName(nil, got.DataType)); err != nil || name != test.name ||
			got.Swapped != test.swapped || !slices.Equal(shape, test.shape) {
			t.Errorf("%q: %+v of %v, %v; want %+v", test.text, got, shape, err, test)
		}
	}
}

func ones(n int) []int64 {
	shape := make([]int64, n)
	for i := range shape {
		shape[i] = 1
	}
	return shape
}

func TestAFormatThatDLPackCannotSayIsUnsupported(t *testing.T) {
	for text, want := range map[string]string{
		"g":           `long-double: field=format, text="g"`,
		"Zg":          "long-complex",
		"G":           "long-complex",
		"4s":          "text",
		"p":           "text",
		"<u":          "text",
		"2w":          `text: field=format, text="2w"`,
		"O":           "objects",
		"P":           "pointers",
		"&i":          "pointers",
		"X{}":         "pointers",
		"<z":          "pointers", // ctypes' c_char_p
		"<Z":          "pointers", // ctypes' c_wchar_p
		"T{i:a:d:b:}": `structure: field=format, text="T{i:a:d:b:}"`,
		"(2)T{i:a:}":  "structure",
		"4x":          "padding",
		"ix":          "padding",
		"ii":          "structure",
		"i <d":        "structure",
		"BBB":         "structure",
		"t":           "bit-field",
	} {
		formatRefused(t, text, 4, dlpack.ErrUnsupported, want)
	}
}

func TestAMalformedFormatIsRefused(t *testing.T) {
	const code, number, missing = "unknown-letter", "sub-array-number", "sub-array-dimension"
	for text, want := range map[string]string{
		"":                            code,
		" ":                           code,
		"@":                           code,
		"@@i":                         code,
		"<>i":                         code,
		"5":                           code,
		"3 i":                         code,
		"3<i":                         code,
		"33":                          code,
		"(2)":                         code,
		"i)":                          code,
		"i:a:":                        code,
		"i?!":                         code,
		"\x00":                        code + `: field=format, text="\x00"`,
		"\xff":                        code + `: field=format, text="\xff"`,
		"i\x00":                       code,
		"Zi":                          "unknown-complex",
		"Z?":                          "unknown-complex",
		"Z f":                         "unknown-complex",
		"(2":                          missing,
		"(2,":                         number,
		"(2,)d":                       number,
		"()":                          number,
		"((2))i":                      number,
		"(-1)i":                       number,
		"(+1)i":                       number,
		"(2 3)i":                      missing,
		"(9223372036854775808)i":      number,
		"99999999999999999999i":       number,
		"00i":                         number,
		strings.Repeat("i", 999):      "structure",
		strings.Repeat("(", 9999):     number,
		strings.Repeat("(1)", 65):     `sub-array-dimensions: field=format, text="(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)(1)"..., most=64`,
		strings.Repeat("i", 99) + "!": code,
	} {
		kind := dlpack.ErrMalformed
		if want == "structure" {
			kind = dlpack.ErrUnsupported
		}
		formatRefused(t, text, 4, kind, want)
	}
}

func formatRefused(t *testing.T, text string, itemsize int64, kind dlpack.Kind, want string) {
	t.Helper()
	_, _, err := parseFormat(text, itemsize)
	refused(t, text, err, kind, want)
}

func TestBytesOfAnotherItemSizeAreAStructureOfCtypes(t *testing.T) {
	formatRefused(t, "B", 4, dlpack.ErrUnsupported, "structure")
}

func TestAFormatOfAnotherSizeThanTheItemIsMalformed(t *testing.T) {
	for _, test := range []struct {
		text     string
		itemsize int64
		want     string
	}{
		{"i", 8, `format-size: field=format, text="i", size=4, itemsize=8`},
		{"l", 4, `format-size: field=format, text="l", size=8, itemsize=4`},
		{"<i", 8, `format-size: field=format, text="<i", size=4, itemsize=8`},
		{"<l", 16, `format-size: field=format, text="<l", size=4, itemsize=16`},
		{"B", 0, `format-size: field=format, text="B", size=1, itemsize=0`},
		{"B", -1, "itemsize=-1"},
		{"(2,3)d", 8, `format-size: field=format, text="(2,3)d", size=48, itemsize=8`},
		{"0B", 1, `format-size: field=format, text="0B", size=0, itemsize=1`},
		{"(4294967296,4294967296)B", 0, `format-too-large: field=format, text="(4294967296,4294967296)B", size=9223372036854775807, itemsize=0`},
		{"(4294967296,4294967296)B", -1, "itemsize=-1"},
		{"(9223372036854775807)h", -2, `format-too-large: field=format, text="(9223372036854775807)h", size=9223372036854775807, itemsize=-2`},
	} {
		formatRefused(t, test.text, test.itemsize, dlpack.ErrMalformed, test.want)
	}
}

func TestAFormatAllocatesNothing(t *testing.T) {
	for text, itemsize := range map[string]int64{"B": 1, "<l": 8, ">Zd": 16, "(2, 3)d": 48, "3B": 3} {
		if n := testing.AllocsPerRun(100, func() {
			var shape [dlpack.MaxNDim]int64
			if _, _, err := ParseFormat(text, itemsize, &shape); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%q: %v allocations", text, n)
		}
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
	f.Add("B", int64(1))
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

func BenchmarkFormat(b *testing.B) {
	formats := map[string]int64{"B": 1, "(2,3)<d": 48}
	for _, letters := range []int{16, 256, 4096} {
		formats[strings.Repeat(" ", letters-1)+"f"] = 4
	}
	for text, itemsize := range formats {
		name := text
		if len(text) >= 16 {
			name = strconv.Itoa(len(text)) + " letters"
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			var shape [dlpack.MaxNDim]int64
			for b.Loop() {
				if _, _, err := ParseFormat(text, itemsize, &shape); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

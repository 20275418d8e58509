package protocol

import (
	"slices"
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

func TestAWrongNameSuggestsTheNearest(t *testing.T) {
	for wrong, want := range map[string]string{
		"bfloat61":        "bfloat16",
		"flaot32":         "float32",
		"unit8":           "uint8",
		"int08":           "int8",
		"uint 8":          "uint8",
		"int16x":          "int16",
		"bool8":           "bool",
		"float8_e4m3fnu":  "float8_e4m3fn float8_e4m3fnuz",
		"float8e5m2":      "float8_e5m2",
		"complex256":      "complex64 complex128 complex32",
		"opaque_handl64":  "opaque_handle64 opaque_handle4",
		"BFLOAT16":        "bfloat16",
		"torch.bfloat16":  "bfloat16",
		"float":           "float32 float64",
		"float_":          "float32 float64 float8_e4m3fn", // three at most
		"double":          "float64",
		"half":            "float16",
		"single":          "float32",
		"int":             "int32 int64",
		"uint":            "uint32 uint64",
		"long":            "int64",
		"short":           "int16",
		"bytes":           "uint8 int8",
		"boolean":         "bool",
		"complex":         "complex64 complex128",
		"BF16":            "bfloat16",
		"fp16":            "float16",
		"fp8":             "float8_e4m3fn float8_e5m2",
		"F8_E4M3":         "float8_e4m3fn",
		"F8_E5M2":         "float8_e5m2",
		"f4":              "float32", // numpy counts bytes
		"f32":             "float32", // others bits
		"i8":              "int64 int8",
		"c16":             "complex128",
		"":                "",
		"x2":              "",
		"datetime64":      "",
		"object":          "",
		"str":             "",
		"\u03b1\u03b2":    "",
		"float32\x00":     "float32",
		"float32 float32": "",
	} {
		names, _ := nearestNames(wrong)
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%q: %s; want %s", wrong, got, want)
		}
		_, err := ParseName(wrong)
		suggestion := " (nearest: names=" + want + ")"
		if want == "" {
			suggestion = ""
		}
		if err == nil || err.Error() != unknown(wrong)+suggestion {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestEveryNameIsNearestToItself(t *testing.T) {
	for code := range dlpack.TypeCodeCount {
		for bits := range 129 {
			known := dlpack.DataType{Code: code, Bits: uint8(bits), Lanes: 1}
			if known.Validate() != nil {
				continue
			}
			name := string(AppendName(nil, known))
			if got, exact := nearestNames(strings.ToUpper(name)); !exact || len(got) != 1 || got[0] != name {
				t.Errorf("%q: %q", name, got)
			}
		}
	}
}

func TestEditDistance(t *testing.T) {
	for _, test := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"int", "int", 0},
		{"int", "uint", 1},
		{"bool8", "bool", 1},
		{"int7", "int8", 1},
		{"itn8", "int8", 1},
		{"", "int", 3},
		{"abc", "cba", 2},
		{"kitten", "sitting", 3},
		{"ca", "abc", 3},           // nothing is inserted between what was exchanged
		{"", "more than nine", 10}, // more than asked for
	} {
		if got := editDistance(test.a, test.b, 9); got != test.want {
			t.Errorf("%q to %q: %d; want %d", test.a, test.b, got, test.want)
		}
		if got := editDistance(test.b, test.a, 9); got != test.want {
			t.Errorf("%q to %q: %d; want %d", test.b, test.a, got, test.want)
		}
	}
}

// plainDistance is the definition of the distance.
func plainDistance(a, b string) int {
	if a == "" || b == "" {
		return len(a) + len(b)
	}
	least := 1 + min(plainDistance(a[1:], b), plainDistance(a, b[1:]))
	same := plainDistance(a[1:], b[1:])
	if a[0] != b[0] {
		same++
	}
	least = min(least, same)
	if len(a) > 1 && len(b) > 1 && a[0] == b[1] && a[1] == b[0] {
		least = min(least, 1+plainDistance(a[2:], b[2:]))
	}
	return least
}

func FuzzEditDistance(f *testing.F) {
	f.Add("itn8", "int8", uint8(2)) // exchanged
	f.Add("ca", "abc", uint8(3))    // exchanged, and something between
	f.Add("", "uint", uint8(3))     // further than asked for
	f.Add("abab", "baba", uint8(9)) // exchanged twice, or moved
	f.Add("u\xff", "\xffu", uint8(1))
	f.Fuzz(func(t *testing.T, a, b string, most uint8) {
		a, b = a[:min(len(a), 6)], b[:min(len(b), 6)] // the definition takes exponential time
		got, want := editDistance(a, b, int(most)), plainDistance(a, b)
		if got != want && (got <= int(most) || want <= int(most)) {
			t.Fatalf("%q to %q: %d; want %d, at most %d", a, b, got, want, most)
		}
	})
}

func FuzzNearestNames(f *testing.F) {
	f.Add("flaot32")
	f.Add("torch.float")
	f.Add("BF16")
	f.Add("f4")
	f.Add("\u0130nt8") // in lower case it has more bytes
	f.Add(strings.Repeat("int8", 99))
	f.Fuzz(func(t *testing.T, wrong string) {
		names, _ := nearestNames(wrong)
		if len(names) > 3 {
			t.Fatalf("%q: %q", wrong, names)
		}
		for i, name := range names {
			if _, err := ParseName(name); err != nil || slices.Contains(names[:i], name) {
				t.Fatalf("%q: %q", wrong, names)
			}
		}
	})
}

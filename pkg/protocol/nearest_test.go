package protocol

import (
	"slices"
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

func TestAWrongNameSuggestsTheNearest(t *testing.T) {
	for wrong, want := range map[string]string{
		// misspelt
		"bfloat61": "bfloat16", "flaot32": "float32", "unit8": "uint8", "int08": "int8", "uint 8": "uint8",
		"int16x": "int16", "bool8": "bool", "float8e5m2": "float8_e5m2", "BFLOAT16": "bfloat16", "float32\x00": "float32",
		"float8_e4m3fnu": "float8_e4m3fn float8_e4m3fnuz", "opaque_handl64": "opaque_handle64 opaque_handle4",
		"complex256": "complex64 complex128 complex32", "float_": "float32 float64 float8_e4m3fn", // three at most
		// of other libraries and languages
		"torch.bfloat16": "bfloat16", "BF16": "bfloat16", "fp16": "float16", "half": "float16", "single": "float32",
		"double": "float64", "float": "float32 float64", "complex": "complex64 complex128", "boolean": "bool",
		"int": "int32 int64", "uint": "uint32 uint64", "long": "int64", "short": "int16", "bytes": "uint8 int8",
		"fp8": "float8_e4m3fn float8_e5m2", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2", "c16": "complex128",
		"f4": "float32", "f32": "float32", "i8": "int64 int8", // numpy counts bytes, others bits
		// of nothing near
		"": "", "x2": "", "datetime64": "", "object": "", "str": "", "\u03b1\u03b2": "", "float32 float32": "",
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
	f.Add("", "", uint8(9))
	f.Add("int7", "int8", uint8(9))
	f.Add("kitten", "sitten", uint8(9))
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

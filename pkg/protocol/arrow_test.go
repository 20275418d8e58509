package protocol

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

func arrowOf(text string) error {
	_, err := ParseArrow(text)
	return err
}

func TestAnArrowFormatThatIsNoNumberIsRefused(t *testing.T) {
	refusals(t, arrowOf, dlpack.ErrUnsupported, map[string][]string{
		"nulls-alone":         {"n"},
		"bytes-of-any-length": {"z", "Z", "vz"},
		"text":                {"u", "U", "vu"},
		"bytes":               {"w:16"},
		"decimals":            {"d:19,10", "d:9,2,32"},
		"times": {"tdD", "tdm", "tts", "ttm", "ttu", "ttn", "tss:", "tsm:UTC", "tsu:", "tsn:+01:00", "tDs", "tDm", "tDu",
			"tDn", "tiM"},
		"intervals":     {"tiD", "tin"},
		"lists":         {"+l", "+L", "+vl", "+vL"},
		"structure":     {"+s"},
		"maps":          {"+m"},
		"unions":        {"+ud:0,1", "+us:0"},
		"run-ends":      {"+r"},
		"wide-integers": {"_pli128"},
	})
	refusals(t, arrowOf, dlpack.ErrMalformed, map[string][]string{
		"unknown-arrow": {"", "x", "ii", "i ", "c ", "c  arrow.bool8", "i arrow.bool8", "c arrow.bool", "ts", "tss", "tdDx",
			"d", "+", "+w", "+lx", "+u", "g\x00", "\xff", "w:", "w:2x", strings.Repeat("+w", 99)},
		"malformed-list": {"+w:", "+w:-3"},
	})
	refused(t, "x", arrowOf("x"), dlpack.ErrMalformed, "expected=b c C s S i I l L e f g")
}

func TestArrowListsHaveASize(t *testing.T) {
	for text, want := range map[string]int64{"+w:0": 0, "+w:6": 6, "+w:9223372036854775807": math.MaxInt64} {
		if size, ok := ParseArrowList(text); size != want || !ok {
			t.Errorf("%s: %d, %v", text, size, ok)
		}
	}
	for _, text := range []string{"", "w:6", "+w", "+w:", "+w:-1", "+w:+1", "+w:06", "+w:6 ", "+w:6,7", "+l",
		"+w:9223372036854775808", "+w:18446744073709551622"} {
		if size, ok := ParseArrowList(text); ok {
			t.Errorf("%q: %d", text, size)
		}
	}
}

// plainArrow is the formats of the Arrow C data interface, one group for each outcome.
var plainArrow = regexp.MustCompile(`(?s)^(?:(b|c arrow\.bool8|w:2 lance\.bfloat16|[csilCSILefg])|` +
	`n|v?[zu]|[ZU]|d:.*|td[Dm]|tt[smun]|ts[smun]:.*|tD[smun]|ti[MDn]|\+v?[lL]|\+[smr]|\+u[ds]:.*)$`)

// plainArrowTypes is what the formats of numbers mean, by the table of the Arrow C data interface.
var plainArrowTypes = map[string]string{
	"b": "bool", "c arrow.bool8": "bool", "c": "int8", "w:2 lance.bfloat16": "bfloat16", "s": "int16", "i": "int32", "l": "int64",
	"C": "uint8", "S": "uint16", "I": "uint32", "L": "uint64", "e": "float16", "f": "float32", "g": "float64",
}

func FuzzArrow(f *testing.F) {
	for text := range plainArrowTypes {
		f.Add(text)
	}
	for _, text := range []string{"n", "vz", "w:16", "d:19,10", "tsn:Europe/Berlin\n", "tss", "+w:3", "+us:0,1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ParseArrow(text)
		parts := plainArrow.FindStringSubmatch(text)
		if parts != nil && parts[1] != "" {
			name := string(AppendName(nil, got.DataType))
			if err != nil || got.DataType.Validate() != nil || name != plainArrowTypes[text] ||
				got != (dlpack.Item{DataType: got.DataType, BitPacked: text == "b"}) {
				t.Fatalf("%q: %+v, %v", text, got, err)
			}
			return
		}
		kind := dlpack.ErrMalformed
		if _, isBytes := readSize(text, arrowBytesPrefix); isBytes || parts != nil {
			kind = dlpack.ErrUnsupported
		}
		if dlpack.KindOf(err) != kind || !strings.Contains(err.Error(), ": field=Arrow format, text="+dlpack.Quoted("", text).String()) {
			t.Fatalf("%q: %v", text, err)
		}
	})
}

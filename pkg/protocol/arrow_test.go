package protocol

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

func TestArrowFormatsOfNumbersAreRead(t *testing.T) {
	for text, want := range map[string]string{
		"b": "bool", "c arrow.bool8": "bool", "c": "int8", "w:2 lance.bfloat16": "bfloat16", "s": "int16", "i": "int32", "l": "int64", "C": "uint8",
		"S": "uint16", "I": "uint32", "L": "uint64", "e": "float16", "f": "float32", "g": "float64",
	} {
		got, err := ParseArrow(text)
		if name := string(AppendName(nil, got.DataType)); err != nil || name != want || got.BitPacked != (text == "b") {
			t.Errorf("%q: %+v, %v; want %s", text, got, err, want)
		}
	}
}

func TestAnArrowFormatThatDLPackCannotSayIsUnsupported(t *testing.T) {
	for text, want := range map[string]string{
		"n":          `nulls-alone: field=Arrow format, text="n"`,
		"z":          "bytes-of-any-length",
		"Z":          "bytes-of-any-length",
		"vz":         "bytes-of-any-length",
		"u":          `text: field=Arrow format, text="u"`,
		"U":          "text",
		"vu":         "text",
		"w:16":       `bytes: field=Arrow format, text="w:16"`,
		"d:19,10":    `decimals: field=Arrow format, text="d:19,10"`,
		"d:9,2,32":   "decimals",
		"tdD":        `times: field=Arrow format, text="tdD"`,
		"tdm":        "times",
		"tts":        "times",
		"ttm":        "times",
		"ttu":        "times",
		"ttn":        "times",
		"tss:":       "times",
		"tsm:UTC":    "times",
		"tsu:":       "times",
		"tsn:+01:00": `times: field=Arrow format, text="tsn:+01:00"`,
		"tDs":        "times",
		"tDm":        "times",
		"tDu":        "times",
		"tDn":        "times",
		"tiM":        "times",
		"tiD":        "intervals",
		"tin":        "intervals",
		"+l":         `lists: field=Arrow format, text="+l"`,
		"+L":         "lists",
		"+vl":        "lists",
		"+vL":        "lists",
		"+s":         `structure: field=Arrow format, text="+s"`,
		"+m":         "maps",
		"+ud:0,1":    "unions",
		"+us:0":      "unions",
		"+r":         `run-ends: field=Arrow format, text="+r"`,
		"_pli128":    `wide-integers: field=Arrow format, text="_pli128"`,
	} {
		arrowRefused(t, text, dlpack.ErrUnsupported, want)
	}
}

func TestAnUnknownArrowFormatIsMalformed(t *testing.T) {
	const expected = "unknown-arrow: "
	for text, want := range map[string]string{
		"":                       expected + `field=Arrow format, text="", expected=b c C s S i I l L e f g`,
		"x":                      expected,
		"ii":                     expected,
		"i ":                     expected,
		"c ":                     expected,
		"c  arrow.bool8":         expected,
		"i arrow.bool8":          expected,
		"c arrow.bool":           expected,
		"ts":                     expected,
		"tss":                    expected,
		"tdDx":                   expected,
		"d":                      expected,
		"+":                      expected,
		"+w":                     expected,
		"+lx":                    expected,
		"+u":                     expected,
		"g\x00":                  expected + `field=Arrow format, text="g\x00"`,
		"\xff":                   expected + `field=Arrow format, text="\xff"`,
		"+w:":                    `malformed-list: field=Arrow format, text="+w:"`,
		"+w:-3":                  "malformed",
		"w:":                     expected,
		"w:2x":                   expected,
		strings.Repeat("+w", 99): "unknown",
	} {
		arrowRefused(t, text, dlpack.ErrMalformed, want)
	}
}

func arrowRefused(t *testing.T, text string, kind dlpack.Kind, want string) {
	t.Helper()
	_, err := ParseArrow(text)
	refused(t, text, err, kind, want)
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

func TestAnArrowFormatAllocatesNothing(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() {
		for _, text := range []string{"b", "c arrow.bool8", "g"} {
			if _, err := ParseArrow(text); err != nil {
				t.Fatal(err)
			}
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// plainArrow is the formats of the Arrow C data interface, one group for each outcome.
var plainArrow = regexp.MustCompile(`(?s)^(?:(b|c arrow\.bool8|[csilCSILefg])|` +
	`n|v?[zu]|[ZU]|d:.*|td[Dm]|tt[smun]|ts[smun]:.*|tD[smun]|ti[MDn]|\+v?[lL]|\+[smr]|\+u[ds]:.*)$`)

// plainArrowTypes is what the formats of numbers mean, by the table of the Arrow C data interface.
var plainArrowTypes = map[string]string{
	"b": "bool", "c arrow.bool8": "bool", "c": "int8", "w:2 lance.bfloat16": "bfloat16", "s": "int16", "i": "int32", "l": "int64",
	"C": "uint8", "S": "uint16", "I": "uint32", "L": "uint64", "e": "float16", "f": "float32", "g": "float64",
}

func FuzzArrow(f *testing.F) {
	f.Add("b")
	f.Add("c arrow.bool8")
	f.Add("L")
	f.Add("n")
	f.Add("vz")
	f.Add("w:16")
	f.Add("d:19,10")
	f.Add("tsn:Europe/Berlin\n")
	f.Add("tss")
	f.Add("+w:3")
	f.Add("+us:0,1")
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

func BenchmarkParseArrow(b *testing.B) {
	for _, text := range []string{"g", "c arrow.bool8"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseArrow(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

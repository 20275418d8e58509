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
		"b": "bool", "c arrow.bool8": "bool", "c": "int8", "s": "int16", "i": "int32", "l": "int64", "C": "uint8",
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
		"n":          `Arrow format "n": nulls alone; DLPack holds numbers`,
		"z":          "bytes of any length",
		"Z":          "bytes of any length",
		"vz":         "bytes of any length",
		"u":          `Arrow format "u": text; DLPack holds numbers`,
		"U":          "text",
		"vu":         "text",
		"w:16":       `Arrow format "w:16": items that are bytes; DLPack holds numbers`,
		"d:19,10":    `Arrow format "d:19,10": decimals; DLPack has float64`,
		"d:9,2,32":   "decimals",
		"tdD":        `Arrow format "tdD": times; DLPack holds numbers`,
		"tdm":        "times; DLPack",
		"tts":        "times; DLPack",
		"ttm":        "times; DLPack",
		"ttu":        "times; DLPack",
		"ttn":        "times; DLPack",
		"tss:":       "times; DLPack",
		"tsm:UTC":    "times; DLPack",
		"tsu:":       "times; DLPack",
		"tsn:+01:00": `Arrow format "tsn:+01:00": times`,
		"tDs":        "times; DLPack",
		"tDm":        "times; DLPack",
		"tDu":        "times; DLPack",
		"tDn":        "times; DLPack",
		"tiM":        "times; DLPack",
		"tiD":        "times of several numbers",
		"tin":        "times of several numbers",
		"+l":         "lists of any length; DLPack needs one length",
		"+L":         "lists of any length",
		"+vl":        "lists of any length",
		"+vL":        "lists of any length",
		"+s":         "a structure; DLPack has one data type",
		"+m":         "maps",
		"+ud:0,1":    "a union",
		"+us:0":      "a union",
		"+r":         "run-end encoded items",
		"_pli128":    "integers of 128 bits",
	} {
		arrowRefused(t, text, dlpack.KindUnsupported, want)
	}
}

func TestAnUnknownArrowFormatIsMalformed(t *testing.T) {
	const expected = "unknown; expected one of b, c, C, s, S, i, I, l, L, e, f or g"
	for text, want := range map[string]string{
		"":                       `Arrow format "": ` + expected,
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
		"g\x00":                  `Arrow format "g\x00"`,
		"\xff":                   `Arrow format "\xff"`,
		"+w:":                    `Arrow format "+w:": malformed; expected "+w:", a length, and one child`,
		"+w:-3":                  "malformed",
		"w:":                     expected,
		"w:2x":                   expected,
		strings.Repeat("+w", 99): "unknown",
	} {
		arrowRefused(t, text, dlpack.KindMalformed, want)
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
	"b": "bool", "c arrow.bool8": "bool", "c": "int8", "s": "int16", "i": "int32", "l": "int64",
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
		kind := dlpack.KindMalformed
		if _, isBytes := readSize(text, arrowBytesPrefix); isBytes || parts != nil {
			kind = dlpack.KindUnsupported
		}
		if dlpack.KindOf(err) != kind || !strings.HasPrefix(err.Error(), "Arrow format "+dlpack.Quote(text)+": ") {
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

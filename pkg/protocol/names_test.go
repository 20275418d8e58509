package protocol

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

func TestNamesOfDataTypesAreThoseOfArrayLibraries(t *testing.T) {
	for name, want := range map[string]dlpack.DataType{
		"bool":                     {Code: dlpack.Bool, Bits: 8, Lanes: 1},
		"int8":                     {Code: dlpack.Int, Bits: 8, Lanes: 1},
		"int128":                   {Code: dlpack.Int, Bits: 128, Lanes: 1},
		"uint64":                   {Code: dlpack.UInt, Bits: 64, Lanes: 1},
		"int1":                     {Code: dlpack.Int, Bits: 1, Lanes: 1},
		"uint2":                    {Code: dlpack.UInt, Bits: 2, Lanes: 1},
		"float16":                  {Code: dlpack.Float, Bits: 16, Lanes: 1},
		"float32x4":                {Code: dlpack.Float, Bits: 32, Lanes: 4},
		"bfloat16":                 {Code: dlpack.Bfloat, Bits: 16, Lanes: 1},
		"bfloat16x2":               {Code: dlpack.Bfloat, Bits: 16, Lanes: 2},
		"complex64":                {Code: dlpack.Complex, Bits: 64, Lanes: 1},
		"complex128":               {Code: dlpack.Complex, Bits: 128, Lanes: 1},
		"opaque_handle64":          {Code: dlpack.OpaqueHandle, Bits: 64, Lanes: 1},
		"float8_e4m3":              {Code: dlpack.Float8E4M3, Bits: 8, Lanes: 1},
		"float8_e4m3fn":            {Code: dlpack.Float8E4M3FN, Bits: 8, Lanes: 1},
		"float8_e4m3fnuz":          {Code: dlpack.Float8E4M3FNUZ, Bits: 8, Lanes: 1},
		"float8_e4m3b11fnuzx65535": {Code: dlpack.Float8E4M3B11FNUZ, Bits: 8, Lanes: 65535},
		"float8_e5m2":              {Code: dlpack.Float8E5M2, Bits: 8, Lanes: 1},
		"float6_e2m3fn":            {Code: dlpack.Float6E2M3FN, Bits: 6, Lanes: 1},
		"float4_e2m1fnx2":          {Code: dlpack.Float4E2M1FN, Bits: 4, Lanes: 2},
	} {
		if got, err := ParseName(name); err != nil || got != want {
			t.Errorf("%q: %v, %v; want %v", name, got, err, want)
		}
		if got := string(AppendName(nil, want)); got != name {
			t.Errorf("%v: %q; want %q", want, got, name)
		}
	}
}

// unknown is the refusal of a name without its cure.
func unknown(name string) string {
	return "unknown-name: field=dtype, text=" + dlpack.Quoted("", name).String()
}

func TestWhatMeansOneDataTypeIsUnderstood(t *testing.T) {
	for name, want := range map[string]string{
		"f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128", "i4": "int32",
		"fp16": "float16", "fp32": "float32", "FP64": "float64", "bf16": "bfloat16", "I64": "int64", "half": "float16",
		"torch.float32": "float32", "jax.numpy.bfloat16": "bfloat16", "F8_E4M3": "float8_e4m3fn", "int8": "int8",
		"F16": "float16", "torch.float4_e2m1fn_x2": "float4_e2m1fnx2", "float4_e2m1fn_x2": "float4_e2m1fnx2",
	} {
		got, err := ParseAnyName(name)
		if err != nil || string(AppendName(nil, got)) != want {
			t.Errorf("%q: %v, %v", name, got, err)
		}
	}
	for _, name := range []string{"i8", "u8", "f16", "torch.f16", "U4", "B1", "F4", "float", "byte", "f16x", "fp8", "fp", "torch.", ".", "", "float32.torch", "flaot32",
		"(2, 32)", "(2, 32, 1", "2, 32, 1)", "(", "()", "(-2, 32, 1)", "(2, 33, 1)", "(2, 32, 65536)", "(2, 32, 1, 1)", "(99, 8, 1)"} {
		_, err := ParseAnyName(name)
		refused(t, name, err, dlpack.ErrMalformed, unknown(name))
	}
}

func TestEveryDataTypeHasANameOfItsOwnThatIsReadBack(t *testing.T) {
	seen := map[string]dlpack.DataType{}
	for code := range 256 {
		for bits := range 256 {
			for _, lanes := range []uint16{0, 1, 2, 65535} {
				want := dlpack.DataType{Code: dlpack.TypeCode(code), Bits: uint8(bits), Lanes: lanes}
				if want.Validate() != nil {
					continue
				}
				name := string(AppendName(nil, want))
				if other, found := seen[name]; found {
					t.Errorf("%q is %v and %v", name, other, want)
				}
				seen[name] = want
				if got, err := ParseName(name); err != nil || got != want {
					t.Errorf("%q: %v, %v; want %v", name, got, err, want)
				}
				numbers := fmt.Sprintf("(%d, %d, %d)", code, bits, lanes)
				if got, err := ParseAnyName(numbers); err != nil || got != want {
					t.Errorf("%q: %v, %v; want %v", numbers, got, err, want)
				}
				if len(name) > 31 {
					t.Errorf("%q does not fit where C keeps names", name)
				}
			}
		}
	}
}

// parsed are calls of the parsers with good texts.
var parsed = map[string]func() error{
	"format B":         func() error { return formatOf(1)("B") },
	"format (2, 3)<d":  func() error { return formatOf(48)("(2, 3)<d") },
	"format 3B":        func() error { return formatOf(3)("3B") },
	"format 4096":      func() error { return formatOf(4)(long) },
	"typestr <f4":      func() error { return typestrOf("<f4") },
	"typestr >c16":     func() error { return typestrOf(">c16") },
	"typestr bfloat16": func() error { return typestrOf("<V2 bfloat16") },
	"typestr int4":     func() error { return typestrOf("<V1 int4") },
	"Arrow g":          func() error { return arrowOf("g") },
	"Arrow bool8":      func() error { return arrowOf("c arrow.bool8") },
	"name int8":        func() error { return nameOf("int8") },
	"name float8":      func() error { return nameOf("float8_e4m3b11fnuzx65535") },
}

var long = strings.Repeat(" ", 4095) + "f"

// nameOf reads a name, and writes it.
func nameOf(name string) error {
	var buffer [32]byte
	t, err := ParseName(name)
	if string(AppendName(buffer[:0], t)) != name {
		return errors.New("not written as it was read")
	}
	return err
}

func TestParsersAllocateNothing(t *testing.T) {
	for name, parse := range parsed {
		if n := testing.AllocsPerRun(100, func() {
			if err := parse(); err != nil {
				t.Fatal(name, err)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	for name, parse := range parsed {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				parse()
			}
		})
	}
}

// plainName is the names of all data types, and their lanes.
var plainName = regexp.MustCompile(`^(?:(?:u?int|opaque_handle)(?:1|2|4|8|16|32|64|128)|float(?:16|32|64|128)|` +
	`complex(?:32|64|128)|bool|bfloat16|float8_(?:e3m4|e4m3|e4m3b11fnuz|e4m3fn|e4m3fnuz|e5m2|e5m2fnuz|e8m0fnu)|` +
	`float6_(?:e2m3fn|e3m2fn)|float4_e2m1fn|bcomplex32)(?:x([1-9]\d{0,4}))?$`)

func FuzzName(f *testing.F) {
	for _, name := range []string{
		"int32", "bcomplex32", "opaque_handle64x3", "float8_e4m3b11fnuzx65535",
		"float8_e4m3fnx2",      // a code whose name begins with another's
		"int8x65536", "int8x1", // too many lanes, and lanes that say nothing
		"16", "bool8", // bits of no type, and bits that say nothing
		"", "int", "Int8", "int08", "int7", "int256", "int-8", "int8 ", " int8", "float8", "float8_e4m3fnu", "bfloat",
		"bfloat32", "complex", "complex8", "opaque_handle", "x2", "int8x", "int8x0", "int8x01", "int8x2x2",
		"type code 19", "float32\x00", "int8\n", strings.Repeat("int8", 500),
	} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		got, err := ParseName(name)
		parts := plainName.FindStringSubmatch(name)
		if parts != nil && parts[1] != "" {
			if lanes, _ := strconv.Atoi(parts[1]); lanes < 2 || lanes > 65535 {
				parts = nil
			}
		}
		if parts == nil {
			if dlpack.KindOf(err) != dlpack.ErrMalformed ||
				!strings.HasPrefix(err.Error(), unknown(name)) {
				t.Fatalf("%q: %v, %v", name, got, err)
			}
			return
		}
		if err != nil || string(AppendName(nil, got)) != name || got.Validate() != nil {
			t.Fatalf("%q: %v, %v", name, got, err)
		}
	})
}

package protocol

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

func TestTypestrsOfNumbersAreRead(t *testing.T) {
	for _, test := range []struct {
		text    string
		name    string
		size    int64
		flags   dlpack.Flags
		swapped bool
	}{
		{"|b1", "bool", 1, 0, false},
		{"<b1", "bool", 1, 0, false},
		{"|i1", "int8", 1, 0, false},
		{"|u1", "uint8", 1, 0, false},
		{">u1", "uint8", 1, 0, false}, // one byte has no order
		{"<i2", "int16", 2, 0, false},
		{"=i4", "int32", 4, 0, false},
		{"<u8", "uint64", 8, 0, false},
		{"<f2", "float16", 2, 0, false},
		{">f4", "float32", 4, 0, true},
		{"<f8", "float64", 8, 0, false},
		{"<c8", "complex64", 8, 0, false},
		{">c16", "complex128", 16, 0, true},
		{"<V2 bfloat16", "bfloat16", 2, 0, false},
		{"|V2 bfloat16", "bfloat16", 2, 0, false},
		{">V2 bfloat16", "bfloat16", 2, 0, true},
		{"<W4 complex32", "complex32", 4, 0, false},
		{"<W4 bcomplex32", "bcomplex32", 4, 0, false},
		{"<f1 float8_e5m2", "float8_e5m2", 1, 0, false},
		{"<V1 float8_e4m3b11fnuz", "float8_e4m3b11fnuz", 1, 0, false},
		{"<V1 float8_e8m0fnu", "float8_e8m0fnu", 1, 0, false},
		{"<V1 float6_e3m2fn", "float6_e3m2fn", 1, dlpack.SubbyteTypePadded, false},
		{"<V1 float4_e2m1fn", "float4_e2m1fn", 1, dlpack.SubbyteTypePadded, false},
		{"<V1 int4", "int4", 1, dlpack.SubbyteTypePadded, false},
		{"<V1 uint1", "uint1", 1, dlpack.SubbyteTypePadded, false},
		{"<V1 float4_e2m1fnx2", "float4_e2m1fnx2", 1, 0, false},
	} {
		got, err := ParseTypestr("typestr", test.text)
		if name := string(AppendName(nil, got.DataType)); err != nil || name != test.name ||
			got.DataType.ItemSize() != test.size || got.Flags != test.flags || got.Swapped != test.swapped {
			t.Errorf("%q: %+v, %v; want %+v", test.text, got, err, test)
		}
	}
}

func TestATypestrThatDLPackCannotSayIsUnsupported(t *testing.T) {
	for text, want := range map[string]string{
		"|O":                `objects: field=typestr, text="|O"`,
		"|O8":               "objects",
		"|S4":               "text",
		"|a4":               "text",
		"<U4":               "text",
		">U4":               "text",
		"<m8":               "times",
		">M8[s]":            "times",
		"<M8[ns]":           `times: field=typestr, text="<M8[ns]"`,
		"|t1":               "bit-field",
		"<f10":              "long-double",
		"<f12":              "long-double",
		"<f16":              `long-double: field=typestr, text="<f16"`,
		"<c20":              "long-complex",
		"<c24":              "long-complex",
		"<c32":              "long-complex",
		"<f1":               "bytes-without-name",
		"<V2":               `bytes-without-name: field=typestr, text="<V2"`,
		"<V2 ":              "bytes-without-name",
		"|V16 void128":      "named-structure",
		"<V2 bfloat17":      `named-structure: field=typestr, text="<V2", name="bfloat17"`,
		"<V2  bfloat16":     "named-structure",
		"<V2 bfloat16x2 x2": "named-structure",
	} {
		typestrRefused(t, text, dlpack.ErrUnsupported, want)
	}
}

func TestAMalformedTypestrIsRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                         `malformed-typestr: field=typestr, text=""`,
		"<":                        "malformed",
		"<f":                       "malformed",
		"f4":                       "malformed",
		"?f4":                      "malformed",
		"<f4 ":                     "behind-typestr",
		"<f4 float32":              "behind-typestr",
		"<f4x":                     "malformed",
		"<f-4":                     "malformed",
		"<f+4":                     "malformed",
		"<f04":                     "malformed",
		"<f4\x00":                  `malformed-typestr: field=typestr, text="<f4\x00"`,
		" <f4":                     "malformed",
		"<f0":                      `no-such-itemsize: field=typestr, text="<f0", name=float, expected=2 4 8`,
		"<f3":                      `no-such-itemsize: field=typestr, text="<f3", name=float, expected=2 4 8`,
		"<i16":                     `no-such-itemsize: field=typestr, text="<i16", name=int, expected=1 2 4 8`,
		"<u0":                      `no-such-itemsize: field=typestr, text="<u0", name=uint, expected=1 2 4 8`,
		"|b2":                      `no-such-itemsize: field=typestr, text="|b2", name=bool, expected=1`,
		"<c4":                      `no-such-itemsize: field=typestr, text="<c4", name=complex, expected=8 16`,
		"<q8":                      "unknown-kind",
		"<F4":                      "unknown-kind",
		"<\xff4":                   `unknown-kind: field=typestr, text="<\xff4"`,
		"|f4":                      `no-byte-order: field=typestr, text="|f4", size=4`,
		"|c16":                     `no-byte-order: field=typestr, text="|c16", size=16`,
		"<f4294967300":             "malformed",
		"<f99999999999999999999":   "malformed",
		"<V2 int4":                 `named-itemsize: field=typestr, text="<V2", name="int4", itemsize=1, expected=2`,
		"<V4 bfloat16":             `named-itemsize: field=typestr, text="<V4", name="bfloat16", itemsize=2, expected=4`,
		strings.Repeat("<f4", 999): `malformed-typestr: field=typestr, text="<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4<f4"...`,
	} {
		typestrRefused(t, text, dlpack.ErrMalformed, want)
	}
}

func typestrRefused(t *testing.T, text string, kind dlpack.Kind, want string) {
	t.Helper()
	_, err := ParseTypestr("typestr", text)
	refused(t, text, err, kind, want)
}

func refused(t *testing.T, text string, got error, kind dlpack.Kind, want string) {
	t.Helper()
	if dlpack.KindOf(got) != kind || !strings.Contains(got.Error(), want) {
		t.Errorf("%.99q: got %v; want kind %q, %q", text, got, kind, want)
	}
	if got != nil && len(got.Error()) > 320 {
		t.Errorf("%q is too long", got)
	}
}

func TestATypestrAllocatesNothing(t *testing.T) {
	for _, text := range []string{"|b1", "<f4", ">c16", "<V2 bfloat16", "<V1 float8_e4m3b11fnuz", "<V1 int4"} {
		if n := testing.AllocsPerRun(100, func() {
			if _, err := ParseTypestr("typestr", text); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%q: %v allocations", text, n)
		}
	}
}

// plainTypestr is what a regular expression and a table say of a typestr without a name.
var plainTypestr = regexp.MustCompile(`^([<>=|])([biufc])(1|2|4|8|16)$`)

// plainRefused is the typestrs of what DLPack doesn't have, and plainHidden those whose type has a name, or none.
var (
	plainRefused = regexp.MustCompile(`(?s)^[<>=|](?:[OSaUmMt].*|f1[026]|c(?:20|24|32))$`)
	plainHidden  = regexp.MustCompile(`(?s)^[<>=|](?:f1|[VW](0|[1-9]\d*))(?: (.*))?$`)
)

// plainKind is the kind of error that a typestr which means nothing is refused with.
func plainKind(text string) dlpack.Kind {
	if plainRefused.MatchString(text) {
		return dlpack.ErrUnsupported
	}
	if parts := plainHidden.FindStringSubmatch(text); parts != nil {
		_, tooLarge := strconv.ParseInt("0"+parts[1], 10, 32)
		if _, unknown := ParseName(parts[2]); tooLarge == nil && unknown != nil {
			return dlpack.ErrUnsupported
		}
	}
	return dlpack.ErrMalformed
}

func FuzzTypestr(f *testing.F) {
	f.Add("|b1")
	f.Add(">c16")
	f.Add("=u8")
	f.Add("<f12")    // 80 bits
	f.Add("<M8[ns]") // behind the bytes something that only times have
	f.Add("|i2")
	f.Add("|f4")          // lacks a byte order
	f.Add("<V2 bfloat16") // a type by name
	f.Add(">V1 int4")     // padded
	f.Add("<V2 int4")     // of another size
	f.Add("<V2 float4_e2m1fnx3")
	f.Add("<W4 complex32")
	f.Add("<f04")
	f.Add("<f18446744073709551620")
	f.Add("<V2 structure")
	f.Add(">V16 int128")
	f.Add("|S4 name")
	f.Add("<f16 name")
	numbers := map[string]string{
		"b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
		"u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64",
		"f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128",
	}
	f.Fuzz(func(t *testing.T, text string) {
		item, err := ParseTypestr("typestr", text)
		got := item.DataType
		typestr, name, named := strings.Cut(text, " ")
		want := ""
		if parts := plainTypestr.FindStringSubmatch(text); parts != nil && !(parts[1] == "|" && parts[3] != "1") {
			want = numbers[parts[2]+parts[3]]
		}
		if named && err == nil {
			// FuzzName checks the name's meaning. Here its size must fit.
			kind, bytes := typestr[1], typestr[2:]
			if kind != 'V' && kind != 'W' && typestr[1:] != "f1" || bytes != strconv.FormatInt(got.ItemSize(), 10) {
				t.Fatalf("%q: %v", text, got)
			}
			want = name
		}
		if want == "" {
			if err == nil {
				t.Fatalf("%q: %v", text, got)
			}
			typestr, _, _ := strings.Cut(text, " ")
			if dlpack.KindOf(err) != plainKind(text) {
				t.Fatalf("%q: %v; want kind %q", text, err, plainKind(text))
			}
			if !strings.Contains(err.Error(), ": field=typestr, text="+dlpack.Quoted("", typestr).String()) &&
				!strings.Contains(err.Error(), ": field=typestr, text="+dlpack.Quoted("", text).String()) {
				t.Fatalf("%q doesn't name %q", err, text)
			}
			return
		}
		padded := int(got.Bits)*int(got.Lanes)%8 != 0
		if err != nil || string(AppendName(nil, got)) != want || item.Swapped != (text[0] == '>' && got.Alignment() > 1) ||
			(item.Flags == dlpack.SubbyteTypePadded) != padded || item.Flags&^dlpack.SubbyteTypePadded != 0 ||
			item.BitPacked || got.Validate() != nil {
			t.Fatalf("%q: %+v, %v; want %s", text, item, err, want)
		}
		if bytes := strings.TrimLeft(typestr, "<>|=biufcVW"); bytes != strconv.FormatInt(got.ItemSize(), 10) {
			t.Fatalf("%q: %+v has %d bytes", text, item, got.ItemSize())
		}
	})
}

func BenchmarkTypestr(b *testing.B) {
	for _, text := range []string{"<f4", "<V2 bfloat16", "<V1 float4_e2m1fn"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseTypestr("typestr", text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

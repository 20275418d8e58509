package protocol

import (
	"regexp"
	"strconv"
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

func typestrOf(text string) error {
	_, err := ParseTypestr("typestr", text)
	return err
}

func TestATypestrThatIsNoNumberIsRefused(t *testing.T) {
	refusals(t, typestrOf, dlpack.ErrUnsupported, map[string][]string{
		"objects":            {"|O", "|O8"},
		"text":               {"|S4", "|a4", "<U4", ">U4"},
		"times":              {"<m8", ">M8[s]", "<M8[ns]"},
		"bit-field":          {"|t1"},
		"long-double":        {"<f10", "<f12", "<f16"},
		"long-complex":       {"<c20", "<c24", "<c32"},
		"bytes-without-name": {"<f1", "<V2", "<V2 "},
		"named-structure":    {"|V16 void128", "<V2 bfloat17", "<V2  bfloat16", "<V2 bfloat16x2 x2"},
	})
	refusals(t, typestrOf, dlpack.ErrMalformed, map[string][]string{
		"malformed-typestr": {"", "<", "<f", "f4", "?f4", "<f4x", "<f-4", "<f+4", "<f04", "<f4\x00", " <f4", "<f4294967300",
			"<f99999999999999999999", strings.Repeat("<f4", 999)},
		"behind-typestr": {"<f4 ", "<f4 float32"},
		"unknown-kind":   {"<q8", "<F4", "<\xff4"},
	})
	for text, want := range map[string]string{
		"<f0":          `no-such-itemsize: field=typestr, text="<f0", name=float, expected=2 4 8`,
		"<f3":          `no-such-itemsize: field=typestr, text="<f3", name=float, expected=2 4 8`,
		"<i16":         `no-such-itemsize: field=typestr, text="<i16", name=int, expected=1 2 4 8`,
		"<u0":          `no-such-itemsize: field=typestr, text="<u0", name=uint, expected=1 2 4 8`,
		"|b2":          `no-such-itemsize: field=typestr, text="|b2", name=bool, expected=1`,
		"<c4":          `no-such-itemsize: field=typestr, text="<c4", name=complex, expected=8 16`,
		"|f4":          `no-byte-order: field=typestr, text="|f4", size=4`,
		"|c16":         `no-byte-order: field=typestr, text="|c16", size=16`,
		"<V2 int4":     `named-itemsize: field=typestr, text="<V2", name="int4", itemsize=1, expected=2`,
		"<V4 bfloat16": `named-itemsize: field=typestr, text="<V4", name="bfloat16", itemsize=2, expected=4`,
	} {
		refused(t, text, typestrOf(text), dlpack.ErrMalformed, want)
	}
}

// refusals checks that the parser refuses each text by the key in front of it.
func refusals(t *testing.T, parse func(text string) error, kind dlpack.Kind, texts map[string][]string) {
	t.Helper()
	for key, texts := range texts {
		for _, text := range texts {
			refused(t, text, parse(text), kind, key+": field=")
		}
	}
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
	numbers := map[string]string{
		"b1": "bool", "i1": "int8", "i2": "int16", "i4": "int32", "i8": "int64",
		"u1": "uint8", "u2": "uint16", "u4": "uint32", "u8": "uint64",
		"f2": "float16", "f4": "float32", "f8": "float64", "c8": "complex64", "c16": "complex128",
	}
	for number := range numbers {
		f.Add("<" + number)
		f.Add(">" + number)
	}
	for _, text := range []string{
		"|b1", "=u8", "|i2", "<V2 bfloat16", "|V2 bfloat16", ">V2 bfloat16", "<W4 complex32", "<W4 bcomplex32",
		"<f1 float8_e5m2", "<V1 float8_e4m3b11fnuz", "<V1 float8_e8m0fnu", "<V1 float4_e2m1fnx2",
		"<V1 float6_e3m2fn", "<V1 float4_e2m1fn", "<V1 int4", "<V1 uint1", ">V1 int4", // padded
		"<V2 int4", "<V2 float4_e2m1fnx3", // of another size
		"<f12", "<M8[ns]", "|f4", "<f04", "<f18446744073709551620",
	} {
		f.Add(text)
	}
	f.Add("<V2 structure")
	f.Add(">V16 int128")
	f.Add("|S4 name")
	f.Add("<f16 name")
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

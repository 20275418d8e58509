package protocol

import (
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

func TestWhatOtherProtocolsCallADataTypeIsReadBackAsIt(t *testing.T) {
	// The types that a protocol has no name for are all others.
	const numbers = "int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 "
	formats, typestrs, arrows := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for code := range 256 {
		for bits := range 256 {
			for _, lanes := range []uint16{1, 2, 4} {
				want := dlpack.DataType{Code: dlpack.TypeCode(code), Bits: uint8(bits), Lanes: lanes}
				if want.Validate() != nil {
					continue
				}
				name, names := string(AppendName(nil, want)), NamesElsewhere(want)
				if names.Format != "" {
					formats[name] = true
					got, shape, err := parseFormat(names.Format, want.ItemSize())
					if err != nil || got != (dlpack.Item{DataType: want}) || len(shape) != 0 {
						t.Errorf("%s is the format %q, which is %+v of %v, %v", name, names.Format, got, shape, err)
					}
				}
				if names.Typestr != "" {
					typestrs[name] = true
					got, err := ParseTypestr("typestr", names.Typestr)
					if err != nil || got != (dlpack.Item{DataType: want}) {
						t.Errorf("%s is the typestr %q, which is %+v, %v", name, names.Typestr, got, err)
					}
				}
				if names.Arrow != "" && want.Code == dlpack.Bool {
					arrows[name] = true
					if names.Arrow != "c" {
						t.Errorf("bool is %q in Arrow; want its bytes, c", names.Arrow)
					}
				} else if names.Arrow != "" {
					arrows[name] = true
					if got, err := ParseArrow(names.Arrow); err != nil || got != (dlpack.Item{DataType: want}) {
						t.Errorf("%s is %q in Arrow, which is %+v, %v", name, names.Arrow, got, err)
					}
				}
			}
		}
	}
	for _, test := range []struct {
		protocol string
		got      map[string]bool
		want     string
	}{
		{"buffer", formats, numbers + "bool complex64 complex128"},
		{"array interface", typestrs, numbers + "bool complex64 complex128"},
		{"Arrow", arrows, numbers + "bool"},
	} {
		want := strings.Fields(test.want)
		for _, name := range want {
			if !test.got[name] {
				t.Errorf("%s: no name for %s", test.protocol, name)
			}
		}
		if len(test.got) != len(want) {
			t.Errorf("%s: names for %v; want %v", test.protocol, test.got, want)
		}
	}
}

package dlpack

import (
	"strings"
	"testing"
)

func TestItemsHaveTheirSizeAndAlignment(t *testing.T) {
	for _, test := range []struct {
		t         DataType
		size      int64
		alignment uint64
	}{
		{DataType{Bool, 8, 1}, 1, 1},
		{DataType{Int, 16, 1}, 2, 2},
		{DataType{Int, 64, 1}, 8, 8},
		{DataType{Int, 128, 1}, 16, 16},
		{DataType{Float, 32, 4}, 16, 4},
		{DataType{Complex, 32, 1}, 4, 2},
		{DataType{Complex, 64, 1}, 8, 4},
		{DataType{Complex, 128, 1}, 16, 8},
		{DataType{Bfloat, 16, 1}, 2, 2},
		{DataType{Bcomplex, 32, 1}, 4, 2},
		{DataType{Float8E5M2, 8, 3}, 3, 1},
		{DataType{Float4E2M1FN, 4, 1}, 1, 1},
		{DataType{Float4E2M1FN, 4, 2}, 1, 1},
		{DataType{Float6E2M3FN, 6, 4}, 3, 1},
		{DataType{Float6E2M3FN, 6, 5}, 4, 1},
		{DataType{UInt, 1, 8}, 1, 1},
		{DataType{Float, 128, 65535}, 1048560, 16},
	} {
		if err := test.t.Validate(); err != nil {
			t.Error(err)
		}
		if size, alignment := test.t.ItemSize(), test.t.Alignment(); size != test.size || alignment != test.alignment {
			t.Errorf("%v: size %d, alignment %d; want %d, %d", test.t, size, alignment, test.size, test.alignment)
		}
	}
}

func TestADataTypeThatTheStandardDoesNotHaveIsRefused(t *testing.T) {
	for _, test := range []struct {
		t    DataType
		want string
	}{
		{DataType{Float, 7, 1}, "wrong-bits: code=2, bits=7, lanes=1, name=float, expected=16 32 64 128"},
		{DataType{Float, 32, 0}, "no-lanes: code=2, bits=32, lanes=0"},
		{DataType{Int, 0, 1}, "wrong-bits: code=0, bits=0, lanes=1, name=int, expected=1 2 4 8 16 32 64 128"},
		{DataType{Int, 24, 1}, "wrong-bits: code=0, bits=24, lanes=1, name=int, expected=1 2 4 8 16 32 64 128"},
		{DataType{Bool, 1, 1}, "wrong-bits: code=6, bits=1, lanes=1, name=bool, expected=8"},
		{DataType{Bfloat, 32, 1}, "wrong-bits: code=4, bits=32, lanes=1, name=bfloat16, expected=16"},
		{DataType{Complex, 8, 1}, "wrong-bits: code=5, bits=8, lanes=1, name=complex, expected=32 64 128"},
		{DataType{Float8E4M3, 16, 1}, "wrong-bits: code=8, bits=16, lanes=1, name=float8_e4m3, expected=8"},
		{DataType{Float6E2M3FN, 8, 1}, "wrong-bits: code=15, bits=8, lanes=1, name=float6_e2m3fn, expected=6"},
		{DataType{Float4E2M1FN, 8, 1}, "wrong-bits: code=17, bits=8, lanes=1, name=float4_e2m1fn, expected=4"},
		{DataType{Bcomplex, 64, 1}, "wrong-bits: code=18, bits=64, lanes=1, name=bcomplex32, expected=32"},
		{DataType{19, 8, 1}, "unknown-code: code=19, bits=8, lanes=1, most=18"},
		{DataType{255, 8, 1}, "unknown-code: code=255, bits=8, lanes=1, most=18"},
	} {
		err := test.t.Validate()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v; want %q", test.t, err, test.want)
		}
	}
}

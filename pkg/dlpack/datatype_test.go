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
		{DataType{Float, 7, 1}, "dtype code 2, bits 7, lanes 1: no such float; expected 16, 32, 64 or 128 bits"},
		{DataType{Float, 32, 0}, "dtype code 2, bits 32, lanes 0: no lanes; expected 1 or more"},
		{DataType{Int, 0, 1}, "bits 0"},
		{DataType{Int, 24, 1}, "no such int"},
		{DataType{Bool, 1, 1}, "no such bool; expected 8 bits"},
		{DataType{Bfloat, 32, 1}, "no such bfloat16; expected 16 bits"},
		{DataType{Complex, 8, 1}, "expected 32, 64 or 128 bits"},
		{DataType{Float8E4M3, 16, 1}, "expected 8 bits"},
		{DataType{Float6E2M3FN, 8, 1}, "expected 6 bits"},
		{DataType{Float4E2M1FN, 8, 1}, "expected 4 bits"},
		{DataType{18, 8, 1}, "dtype code 18, bits 8, lanes 1: unknown code; expected 0 to 17, the codes of DLPack 1.3"},
		{DataType{255, 8, 1}, "code 255"},
	} {
		err := test.t.Validate()
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: got %v; want %q", test.t, err, test.want)
		}
	}
}

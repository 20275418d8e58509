package arrow

import (
	"bytes"
	"encoding/json"
	"io"
	"math/big"
	"slices"
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

func TestTensorsAreRead(t *testing.T) {
	for _, test := range []struct {
		text           string
		size           int64
		lengths, order []int64
	}{
		{`{"shape": [2, 3]}`, 6, []int64{2, 3}, []int64{0, 1}},
		{` { "shape":[2,3] , "permutation" : [ 1 , 0 ] } `, 6, []int64{2, 3}, []int64{1, 0}},
		{`{"permutation": null, "shape": [], "dim_names": []}`, 1, nil, nil},
		{`{"shape": [9], "shape": [2, 0, 3], "dim_names": ["C", "\"\u00e9", {"a": [1e5, -0.5, true, null]}]}`, 0,
			[]int64{2, 0, 3}, []int64{0, 1, 2}},
		{`{"\u0073hap\u0065": [4], "Shape": 1, "shapes": 2, "shap": 3}`, 4, []int64{4}, []int64{0}},
	} {
		var got tensor
		if err := parseTensor(test.text, test.size, 63, &got); err != nil ||
			!slices.Equal(got.lengths[:got.ndim], test.lengths) || !slices.Equal(got.order[:got.ndim], test.order) {
			t.Errorf("%s: %v %v, %v", test.text, got.lengths[:got.ndim], got.order[:got.ndim], err)
		}
		if n := testing.AllocsPerRun(10, func() { parseTensor(test.text, test.size, 63, &got) }); n != 0 {
			t.Errorf("%s: %v allocations", test.text, n)
		}
	}
}

// TestMemberEndsForEveryText: another thread may change the text after isObject has read it.
func TestMemberEndsForEveryText(t *testing.T) {
	const object = `{"a": [2], "shape": [3, 4], "z": {"b": "\u0061"}}`
	for i := range len(object) {
		member(object[:i], "shape")
		for _, c := range []byte(`{}[]:,"\u0 `) {
			member(object[:i]+string(c)+object[i+1:], "shape")
		}
	}
	if isName(`\u007`, "s") {
		t.Error("an escape that is cut is a letter")
	}
	if value := member(object, "shape"); value != "[3, 4]" {
		t.Errorf("%q", value)
	}
}

func TestMalformedTensorsAreRefused(t *testing.T) {
	const noObject = "tensor-metadata"
	for text, want := range map[string]string{
		"":                                noObject,
		"{":                               noObject,
		`{"shape": [6]}}`:                 noObject,
		`{"shape": [6],}`:                 noObject,
		`{"shape": [6,]}`:                 noObject,
		`{"shape": [06]}`:                 noObject,
		`{"shape": [+6]}`:                 noObject,
		`{"shape" [6]}`:                   noObject,
		`{shape: [6]}`:                    noObject,
		`{"shape": [6], "x": "\x"}`:       noObject,
		`{"shape": [6], "x": "\u12g4"}`:   noObject,
		`{"shape": [6], "x": "` + "\n\"}": noObject,
		`{"shape": [6], "x": nul}`:        noObject,
		`{"shape": [6], "x": NaN}`:        noObject,
		`{"shape": [6], "x": 1.}`:         noObject,
		`{"shape": [6], "x": ` + strings.Repeat("[", 64) + strings.Repeat("]", 64) + "}": noObject,
		`[6]`:                                    noObject,
		`{"Shape": [6]}`:                         "tensor-lengths: found=missing",
		`{"shape": {}}`:                          `tensor-lengths: found="{}"`,
		`{"shape": [-0, 6]}`:                     `tensor-lengths: found="[-0, 6]"`,
		`{"shape": [6e0]}`:                       `tensor-lengths: found="[6e0]"`,
		`{"shape": [6, 18446744073709551616]}`:   `tensor-lengths: found="[6, 18446744073709551616]"`,
		`{"shape": [3, 4294967298, 4294967296]}`: `tensor-size: found="[3, 4294967298, 4294967296]", items=6`, // 6 modulo 2^64
		`{"shape": [1, 1, 6, 1]}`:                `tensor-dimensions: found="[1, 1, 6, 1]", most=3`,
		`{"shape": [2, 3], "permutation": {}}`:   `tensor-order: found="{}", last=1`,
		`{"shape": [6], "permutation": [1]}`:     `tensor-order: found="[1]", last=0`,
	} {
		err := parseTensor(text, 6, 3, new(tensor))
		if err == nil || !strings.HasPrefix(err.Error(), "tensor-") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", text, err, want)
		}
	}
}

// plainTensor reads the same by encoding/json.
func plainTensor(text string, size int64, most int) (lengths, order []int64, ok bool) {
	var object map[string]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&object) != nil || object == nil {
		return nil, nil, false
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil, nil, false
	}
	if lengths, ok = plainIntegers(object["shape"]); !ok || len(lengths) > most {
		return nil, nil, false
	}
	product := big.NewInt(1)
	var natural []int64
	for i, length := range lengths {
		product.Mul(product, big.NewInt(length))
		natural = append(natural, int64(i))
	}
	if product.Cmp(big.NewInt(size)) != 0 {
		return nil, nil, false
	}
	if object["permutation"] == nil {
		return lengths, natural, true
	}
	order, ok = plainIntegers(object["permutation"])
	return lengths, order, ok && slices.Equal(slices.Sorted(slices.Values(order)), natural)
}

func plainIntegers(value any) (integers []int64, ok bool) {
	list, ok := value.([]any)
	for _, element := range list {
		number, isNumber := element.(json.Number)
		n, err := number.Int64()
		if !isNumber || err != nil || n < 0 || strings.HasPrefix(number.String(), "-") {
			return nil, false
		}
		integers = append(integers, n)
	}
	return integers, ok
}

func FuzzTensor(f *testing.F) {
	for _, text := range []string{`{"shape": [2, 3], "permutation": [1, 0]}`, `{"shape":[6],"dim_names":["\u0043","\\"]}`,
		`{"shape": [], "x": [{}, [], "", 0, -1.5e+7, true, false, null]}`, `{"\u0073hape": [1], "shape": null}`,
		"{\"shape\": [0, 9223372036854775807],\r\n\t\"permutation\": null}", `{"a": "\ud800", "shape": [2.0]} x`} {
		f.Add([]byte(text), int64(6), uint8(63))
	}
	f.Fuzz(func(t *testing.T, text []byte, size int64, most uint8) {
		if bytes.Count(text, []byte("["))+bytes.Count(text, []byte("{")) >= mostNested {
			return // encoding/json lets it be nested deeper
		}
		size, limit := max(size, 0), int(most)%dlpack.MaxNDim
		lengths, order, ok := plainTensor(string(text), size, limit)
		var got tensor
		err := parseTensor(string(text), size, limit, &got)
		if (err == nil) != ok {
			t.Fatalf("%q, %d: %v; want %v, %v", text, size, err, lengths, ok)
		}
		if err == nil && !(slices.Equal(got.lengths[:got.ndim], lengths) && slices.Equal(got.order[:got.ndim], order)) {
			t.Fatalf("%q: %v %v; want %v, %v", text, got.lengths[:got.ndim], got.order[:got.ndim], lengths, order)
		}
	})
}

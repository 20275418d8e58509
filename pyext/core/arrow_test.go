package main

import (
	"bytes"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"dlpack/pkg/arrow"
)

// kept is what structures lead to: the garbage collector does not see it.
var kept []any

func addressOf[T any](values ...T) uint64 {
	values = append(slices.Clone(values), *new(T)) // a format's NUL
	kept = append(kept, values)
	return uint64(uintptr(unsafe.Pointer(&values[0])))
}

// A column is what Arrow's structures say of items at an address: behind the first dimension of the shape, lists.
type column struct {
	format     string // behind a space: an extension type
	shape      []int64
	offset     int64 // of the items
	nulls      int64 // the first ones
	dictionary uint64
	tensor     string // JSON: the lists are one, whose dimensions this tells
}

// layOut makes the structures of a column.
func layOut(c *column, data uint64) (schema, array uint64) {
	const released = 1 << 20
	format, extension, _ := strings.Cut(c.format, " ")
	sizes := slices.Clone(c.shape[1:])
	if c.tensor != "" {
		sizes = []int64{product(sizes)}
	}
	var bitmap uint64
	if c.nulls > 0 {
		bits := bytes.Repeat([]byte{0xFF}, int(c.offset+product(c.shape))/8+1)
		for i := c.offset; i < c.offset+c.nulls; i++ {
			bits[i/8] &^= 1 << (i % 8)
		}
		bitmap = addressOf(bits...)
	}
	schema = addressOf(arrow.Schema{Format: addressOf([]byte(format)...), Metadata: metadata(extension, ""),
		Dictionary: c.dictionary, Release: released})
	array = addressOf(arrow.Array{Length: c.shape[0] * product(sizes), NullCount: c.nulls, Offset: c.offset, NBuffers: 2,
		Buffers: addressOf(bitmap, data), Release: released})
	for i := len(sizes) - 1; i >= 0; i-- {
		lists := arrow.Schema{Format: addressOf([]byte("+w:" + strconv.FormatInt(sizes[i], 10))...), NChildren: 1,
			Children: addressOf(schema), Release: released}
		if c.tensor != "" {
			lists.Metadata = metadata("arrow.fixed_shape_tensor", c.tensor)
		}
		schema = addressOf(lists)
		array = addressOf(arrow.Array{Length: c.shape[0] * product(sizes[:i]), NBuffers: 1, Buffers: addressOf(uint64(0)),
			NChildren: 1, Children: addressOf(array), Release: released})
	}
	return schema, array
}

func metadata(extension, parameters string) uint64 {
	layout := binary.NativeEndian.AppendUint32(nil, 2)
	for _, text := range []string{"ARROW:extension:name", extension, "ARROW:extension:metadata", parameters} {
		layout = binary.NativeEndian.AppendUint32(layout, uint32(len(text)))
		layout = append(layout, text...)
	}
	return addressOf(layout...)
}

func product(lengths []int64) int64 {
	product := int64(1)
	for _, length := range lengths {
		product *= length
	}
	return product
}

// askOf returns the core's answer about a column in `chunks` equal chunks.
func askOf(c column, chunks int, copy int64, data []byte) told {
	asked := asked{protocol: arrowArray, data: data, copy: copy}
	if chunks != 1 {
		asked.protocol = arrowStream
	}
	address := uint64(1 << 20)
	if data != nil {
		address = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(data))))
	}
	var array uint64
	asked.schema, array = layOut(&c, address)
	asked.arrays = slices.Repeat([]arrow.Array{**(**arrow.Array)(unsafe.Pointer(&array))}, chunks)
	return ask(asked)
}

func TestArrowDataBeginsAtItsOffset(t *testing.T) {
	for _, test := range []struct {
		column column
		name   string
		offset uint64
		shape  []int64
	}{
		{column{format: "g", shape: []int64{3}, offset: 5}, "float64", 40, []int64{3}},
		{column{format: "c arrow.bool8", shape: []int64{3}, offset: 5}, "bool", 5, []int64{3}},
		{column{format: "s", shape: []int64{3, 2}, offset: 1}, "int16", 2, []int64{3, 2}},
		{column{format: "i", shape: []int64{1, 2, 3}, tensor: `{"shape": [2, 3], "permutation": [1, 0]}`}, "int32", 0,
			[]int64{1, 3, 2}},
	} {
		got := askOf(test.column, 1, copyNever, nil)
		if got.status != statusOK || got.name != test.name || got.offset != 1<<20+test.offset ||
			!slices.Equal(got.shape, test.shape) || got.allocations != 0 {
			t.Errorf("%+v: %+v", test.column, got)
		}
	}
}

func TestBitsOfArrowAreCopiedToBytes(t *testing.T) {
	bits, data := column{format: "b", shape: []int64{2, 3}, offset: 9}, []byte{0xFF, 0b01001100, 0xFF}
	got := askOf(bits, 1, copyNever, data)
	if want := `|bit-packed|copy|'"|field text|Arrow format|b`; got.status != bufferError || got.message != want {
		t.Errorf("%+v; want %q", got, want)
	}
	got = askOf(bits, 1, copyIfNeeded, data)
	if got.status != statusOK || got.name != "bool" || !bytes.Equal(got.copied, []byte{0, 1, 1, 0, 0, 1}) ||
		!slices.Equal(got.shape, bits.shape) || got.flags != isCopied {
		t.Errorf("%+v", got)
	}
	bits.shape = []int64{0}
	if got := askOf(bits, 1, copyNever, data); got.status != statusOK || got.copied != nil {
		t.Errorf("no items: %+v", got)
	}
}

func TestChunksAreJoined(t *testing.T) {
	for _, test := range []struct {
		column column
		data   []byte
		shape  []int64 // of three chunks
		want   []byte  // of one
	}{
		{column{format: "C", shape: []int64{2}, offset: 1}, []byte{1, 2, 3}, []int64{6}, []byte{2, 3}},
		{column{format: "S", shape: []int64{1, 2}}, []byte{1, 2, 3, 4}, []int64{3, 2}, []byte{1, 2, 3, 4}},
		{column{format: "b", shape: []int64{3}, offset: 7}, []byte{0x80, 2}, []int64{9}, []byte{1, 0, 1}},
		{column{format: "C", shape: []int64{1, 2, 3}, tensor: `{"shape": [2, 3], "permutation": [1, 0]}`},
			[]byte{1, 2, 3, 4, 5, 6}, []int64{3, 3, 2}, []byte{1, 4, 2, 5, 3, 6}},
		{column{format: "i", shape: []int64{2, 0}}, nil, []int64{6, 0}, nil},
	} {
		for _, copy := range []int64{copyIfNeeded, copyAlways} {
			got := askOf(test.column, 3, copy, test.data)
			if got.status != statusOK || !bytes.Equal(got.copied, slices.Repeat(test.want, 3)) ||
				!slices.Equal(got.shape, test.shape) || got.flags != isCopied {
				t.Errorf("%+v: %+v", test.column, got)
			}
		}
		got := askOf(test.column, 3, copyNever, test.data)
		if got.status != bufferError || !strings.Contains(got.message, "|copy") {
			t.Errorf("%+v: %+v", test.column, got)
		}
	}
}

func TestArrowDataThatCannotBeExported(t *testing.T) {
	const most = 1<<63 - 1
	for _, test := range []struct {
		column column
		chunks int
		copy   int64
		status int64
		want   string
	}{
		{column{format: "l", shape: []int64{5}, nulls: 2}, 1, copyNever, bufferError,
			`|null-items||'"##|field text nulls items|Arrow format|l|2|5`},
		{column{format: "b", shape: []int64{5}, nulls: 2}, 1, copyIfNeeded, bufferError, "|field text nulls items|Arrow format|b|2|5"},
		{column{format: "b", shape: []int64{5}, nulls: 2}, 3, copyIfNeeded, bufferError, "|field text nulls items|Arrow format|b|2|5"},
		{column{format: "c", shape: []int64{5}, nulls: 2, dictionary: 8}, 1, copyNever, bufferError,
			`|dictionary||'"|field text|Arrow format|c`},
		{column{format: "u", shape: []int64{5}, nulls: 2}, 1, copyNever, bufferError, `|text||'"|field text|Arrow format|u`},
		{column{format: "u", shape: []int64{5}}, 2, copyNever, bufferError, `|text||'"|field text|Arrow format|u`},
		{column{format: "l", shape: []int64{5}}, 2, copyNever, bufferError,
			"|chunks|copy-chunks|'|protocol|__arrow_c_stream__"},
		{column{format: "b", shape: []int64{1, 5, 2}, tensor: `{"shape": [5, 2], "permutation": [1, 0]}`}, 1, copyIfNeeded,
			bufferError, "|packed-bits-strides|"},
		{column{format: "l", shape: []int64{-5}}, 1, copyNever, valueError, "|field format value expected protocol|ArrowArray.length|l|-5|not-negative|"},
		{column{format: "l", shape: []int64{-5}}, 2, copyIfNeeded, valueError, "|field format value expected protocol|ArrowArray.length|l|-5|not-negative|"},
		{column{format: "l", shape: []int64{5}, offset: most >> 2}, 1, copyNever, valueError, "|offset-beyond-last|"},
		{column{format: "l", shape: []int64{0}, offset: most}, 1, copyNever, valueError,
			"|arrow-offset||#|offset|9223372036854775807"},
		{column{format: "b", shape: []int64{most}}, 1, copyIfNeeded, memoryError, "|no-memory-for||#|bytes|9223372036854775807"},
		{column{format: "b", shape: []int64{1 << 62}}, 2, copyIfNeeded, valueError, "|arrow-too-large|"},
		{column{format: "l", shape: []int64{1 << 60}}, 2, copyIfNeeded, valueError, "|too-large|"},
		{column{format: "q", shape: []int64{5}}, 1, copyNever, valueError, `|unknown-arrow||'",|field text expected|Arrow format|q|`},
	} {
		got := askOf(test.column, test.chunks, test.copy, nil)
		if got.status != test.status || !strings.Contains(got.message, test.want) {
			t.Errorf("%+v: %+v; want %q", test.column, got, test.want)
		}
	}
}

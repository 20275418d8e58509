package main

import (
	"bytes"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"dlpack/pkg/arrow"
)

// The values of core.h, whose names a test can't use.
const (
	arrowArray, arrowStream, memory = 6, 7, 8

	withStrides, withSpan = 2, 32

	copyNever, copyIfNeeded = 0, 1

	statusOK, valueError, bufferError, memoryError = 0, 1, 2, 3

	onCPU, onROCm = 1, 10
)

// asked is what requests of Arrow and of memory differ in.
type asked struct {
	protocol int64
	format   string
	shape    []int64
	facts    int64
	strides  []int64
	offset   uint64
	span     int64
	device   int64  // 0: CPU
	data     []byte // nil: memory that isn't read
	copy     int64
	schema   uint64 // schema and arrays are for Arrow alone
	arrays   []arrow.Array
}

// told is an answer.
type told struct {
	status                       int64
	message                      string
	name, format, typestr, arrow string
	shape                        []int64
	offset                       uint64
	flags                        uint64
	copied                       []byte
	allocations                  float64
}

func set[Number ~uint8 | ~uint16 | ~int32 | ~uint32 | ~int64 | ~uint64](to *Number, value int64) {
	*to = Number(value)
}

func setAll[Number ~int64](to []Number, values []int64) {
	for i, value := range values {
		to[i] = Number(value)
	}
}

func setLetters[Letter ~int8 | ~uint8](to []Letter, text string) {
	for i := range text {
		to[i] = Letter(text[i])
	}
}

func numbers[Number ~int64](from []Number) []int64 {
	var to []int64
	for _, number := range from {
		to = append(to, int64(number))
	}
	return to
}

// ask gives what the core answers. A copy's memory stays until the process ends.
func ask(asked asked) told {
	request, answer := arguments(dlpackDescribe)
	set(&request.protocol, asked.protocol)
	set(&request.facts, asked.facts)
	set(&request.ndim, int64(len(asked.shape)))
	set(&request.stride_count, int64(len(asked.strides)))
	set(&request.device.device_type, max(asked.device, onCPU))
	set(&request.offset, int64(asked.offset))
	set(&request.format_length, int64(len(asked.format)))
	setLetters(request.format[:], asked.format)
	setAll(request.dims[:], asked.shape)
	setAll(request.dims[len(asked.shape):], asked.strides)
	set(&request.span, asked.span)
	set(&request.terms.copy, asked.copy)
	set(&request.schema, int64(asked.schema))
	set(&request.arrays, int64(addressOf(asked.arrays...)))
	set(&request.array_count, int64(len(asked.arrays)))
	if asked.protocol == memory {
		set(&request.data, 1<<20)
	}
	if asked.protocol == memory && asked.data != nil {
		set(&request.data, int64(uintptr(unsafe.Pointer(unsafe.SliceData(asked.data)))))
	}
	dlpackDescribe(request, answer)
	told := told{
		status:  int64(answer.status),
		message: said(answer.message[:]),
		name:    text(answer.names.dtype[:]),
		format:  text(answer.names.format[:]),
		typestr: text(answer.names.typestr[:]),
		arrow:   text(answer.names.arrow[:]),
		shape:   numbers(answer.dims[:answer.ndim]),
		offset:  uint64(answer.offset),
		flags:   uint64(answer.flags),
	}
	if answer.memory != nil {
		size := int64(answer.itemsize)
		for _, n := range told.shape {
			size *= n
		}
		told.copied = bytes.Clone(unsafe.Slice((*byte)(answer.memory), size))
	} else if answer.status == statusOK {
		told.allocations = testing.AllocsPerRun(10, func() { dlpackDescribe(request, answer) })
	}
	runtime.KeepAlive(asked.data)
	return told
}

func TestMemoryIsWhatTheCallerSays(t *testing.T) {
	for _, test := range []struct {
		asked asked
		name  string
		shape []int64
	}{
		{asked{format: "bfloat16", shape: []int64{3}, facts: withSpan, span: 6}, "bfloat16", []int64{3}},
		{asked{format: "bfloat16", shape: []int64{-1}, facts: withSpan, span: 6}, "bfloat16", []int64{3}},
		{asked{format: "float32", shape: []int64{2, 2}, strides: []int64{-2, 1}, offset: 8, facts: withSpan | withStrides,
			span: 16}, "float32", []int64{2, 2}},
		{asked{format: "float4_e2m1fn", shape: []int64{3, -1}, facts: withSpan, span: 3}, "float4_e2m1fn",
			[]int64{3, 2}},
		{asked{format: "float4_e2m1fnx2", shape: []int64{3}}, "float4_e2m1fnx2", []int64{3}},
		{asked{format: "<V2 bfloat16", shape: []int64{3}}, "bfloat16", []int64{3}},
		{asked{format: "<f1 float8_e5m2", shape: []int64{3}}, "float8_e5m2", []int64{3}},
		{asked{format: "=i4", shape: nil}, "int32", nil},
		{asked{format: "int8", shape: []int64{0}, offset: 3, facts: withSpan, span: 3}, "int8", []int64{0}},
		{asked{format: "int8", shape: []int64{4}, device: onROCm}, "int8", []int64{4}},
	} {
		test.asked.protocol = memory
		got := ask(test.asked)
		if got.status != statusOK || got.name != test.name || !slices.Equal(got.shape, test.shape) ||
			got.flags != 0 || got.allocations != 0 {
			t.Errorf("%+v: %+v", test.asked, got)
		}
		if got.name != "int8" && got.offset != test.asked.offset {
			t.Errorf("%+v: offset %d", test.asked, got.offset)
		}
	}
	if got := ask(asked{protocol: memory, format: "|V1 int4", shape: []int64{3}}); got.flags != 4 || got.name != "int4" {
		t.Errorf("%+v; want items that are padded", got)
	}
}

func TestMemoryThatACopyCuresIsCopied(t *testing.T) {
	for _, test := range []struct {
		asked asked
		want  string // the message without a copy
		copy  []byte
	}{
		{asked{format: ">u2", shape: []int64{-1}, facts: withSpan, span: 4, data: []byte{1, 2, 3, 4}},
			`|big-endian|convert|'"|field text|dtype|>u2`, []byte{2, 1, 4, 3}},
		{asked{format: "uint16", shape: []int64{1}, offset: 1, facts: withSpan, span: 4, data: []byte{1, 2, 3, 4}},
			"|misaligned|copy|##|address alignment|0x", []byte{2, 3}},
	} {
		test.asked.protocol = memory
		if got := ask(test.asked); got.status != bufferError || !strings.Contains(got.message, test.want) {
			t.Errorf("%+v: %+v", test.asked, got)
		}
		test.asked.copy = copyIfNeeded
		if got := ask(test.asked); got.status != statusOK || !bytes.Equal(got.copied, test.copy) {
			t.Errorf("%+v: %+v", test.asked, got)
		}
	}
}

func TestMemoryThatIsSaidWrongIsAValueError(t *testing.T) {
	for _, test := range []struct {
		asked asked
		want  string
	}{
		{asked{format: "flaot32", shape: []int64{3}}, `|unknown-name|nearest|'"/||field text names|dtype|flaot32|float32`},
		{asked{format: "", shape: []int64{3}}, `|unknown-name||'"|field text|dtype|`},
		{asked{format: "int8 ", shape: []int64{3}}, `|unknown-name|nearest|'"/||field text names|dtype|int8 |`},
		{asked{format: "<f3", shape: []int64{3}}, `|no-such-itemsize||'"',|field text name expected|dtype|<f3|float|2 4 8`},
		{asked{format: "int8", shape: []int64{-1}}, "|open-of-unknown||#|dimension|0"},
		{asked{format: "int8", shape: []int64{0}, offset: 4, facts: withSpan, span: 3}, "|offset-beyond-span||##|offset span|4|3"},
		{asked{format: "int8", shape: []int64{4}, facts: withSpan, span: 3}, "|beyond-span|count-units|###|span from to|3|0|4"},
	} {
		test.asked.protocol = memory
		if got := ask(test.asked); got.status != valueError || !strings.Contains(got.message, test.want) {
			t.Errorf("%+v: %+v; want %q", test.asked, got, test.want)
		}
	}
	got := ask(asked{protocol: memory, format: "|O", shape: []int64{3}})
	if got.status != bufferError || got.message != `|objects|name-type|'"|field text|dtype||O` {
		t.Errorf("%+v", got)
	}
}

func TestAnAnswerSaysWhatOtherProtocolsCallTheType(t *testing.T) {
	for _, test := range []struct {
		asked                  asked
		format, typestr, arrow string
	}{
		{asked{format: "float64", shape: []int64{3}}, "d", "<f8", "g"},
		{asked{format: "complex128", shape: []int64{3}}, "Zd", "<c16", ""},
		{asked{format: "bool", shape: []int64{3}}, "?", "|b1", "c"},
		{asked{format: "bfloat16", shape: []int64{3}}, "", "", ""},
		{asked{format: "float32x2", shape: []int64{3}}, "", "", ""},
		{asked{format: "float64", shape: []int64{3}, device: onROCm}, "", "<f8", "g"},
		{asked{format: ">i2", shape: []int64{1}, copy: copyIfNeeded, data: []byte{1, 2}}, "h", "<i2", "s"},
	} {
		test.asked.protocol = memory
		got := ask(test.asked)
		if got.status != statusOK || got.format != test.format || got.typestr != test.typestr || got.arrow != test.arrow {
			t.Errorf("%+v: %+v", test.asked, got)
		}
	}
}

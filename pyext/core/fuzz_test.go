package main

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// The values of core.h that only fuzzing needs.
const (
	dltensor, arrayInterface, arrayStruct, cudaArrayInterface, buffer = 1, 2, 3, 4, 5

	copyAlways = 2

	isCopied, subbyteTypePadded = 2, 4
)

// A meaning is what a request may say of the items, and what that means.
type meaning struct {
	protocol int64
	format   string
	dtype    [3]int64 // of a DLTensor: code, bits, lanes
	itemsize int64    // of a buffer, where items are arrays
	inner    []int64  // the shape of these

	name  string
	size  int64 // bytes of an item
	align int64
	word  int64 // bytes of a word in the other byte order, 1 for none; 0: an item is a bit
	flags int64
}

var meanings = []meaning{
	{protocol: buffer, format: "B", name: "uint8", size: 1, align: 1, word: 1},
	{protocol: buffer, format: "<l", itemsize: 8, name: "int64", size: 8, align: 8, word: 1},
	{protocol: buffer, format: ">Zf", name: "complex64", size: 8, align: 4, word: 4},
	{protocol: buffer, format: "(2,3)!h", itemsize: 12, inner: []int64{2, 3}, name: "int16", size: 2, align: 2, word: 2},
	{protocol: buffer, format: "(2)1e", itemsize: 4, inner: []int64{2}, name: "float16", size: 2, align: 2, word: 1},
	{protocol: arrayInterface, format: "<f4", name: "float32", size: 4, align: 4, word: 1},
	{protocol: arrayInterface, format: ">c16", name: "complex128", size: 16, align: 8, word: 8},
	{protocol: arrayInterface, format: "<V1 int4", name: "int4", size: 1, align: 1, word: 1, flags: subbyteTypePadded},
	{protocol: arrayInterface, format: ">V16 int128", name: "int128", size: 16, align: 16, word: 16},
	{protocol: arrayInterface, format: ">V6 uint16x3", name: "uint16x3", size: 6, align: 2, word: 2},
	{protocol: arrowArray, format: "g", name: "float64", size: 8, align: 8, word: 1},
	{protocol: arrowArray, format: "c arrow.bool8", name: "bool", size: 1, align: 1, word: 1},
	{protocol: arrowArray, format: "b", name: "bool", size: 1, align: 1, word: 0},
	{protocol: memory, format: "bfloat16", name: "bfloat16", size: 2, align: 2, word: 1},
	{protocol: memory, format: ">u4", name: "uint32", size: 4, align: 4, word: 4},
	{protocol: memory, format: "float6_e2m3fnx4", name: "float6_e2m3fnx4", size: 3, align: 1, word: 1},
	{protocol: dltensor, dtype: [3]int64{2, 32, 2}, name: "float32x2", size: 8, align: 4, word: 1},
	{protocol: dltensor, dtype: [3]int64{5, 32, 1}, name: "complex32", size: 4, align: 2, word: 1},
}

// arena is the memory that requests are about. A byte's value follows from its index.
var arena = func() []byte {
	arena := make([]byte, 4<<10+63)
	arena = arena[-uintptr(unsafe.Pointer(&arena[0]))%64:][:4<<10]
	for i := range arena {
		arena[i] = byte(i*167 + i>>8*31)
	}
	return arena
}()

// A plainAnswer is what the core should answer, found item by item.
type plainAnswer struct {
	status, size int64
	shape        []int64
	at           []int64 // position of each item in arena, in bytes or bits
	copied       bool
}

// A saying is a request's layout of the items. Its data are at `data` in arena.
type saying struct {
	meaning
	data, offset, span, copy int64
	shape, strides           []int64
	nulls                    bool
}

func plainly(r *saying) (p plainAnswer) {
	p.shape = slices.Concat(r.shape, r.inner)
	p.size = 1
	for _, n := range p.shape {
		p.size *= n
	}
	unit := r.size // of a stride
	if r.protocol < arrowArray && r.protocol != dltensor {
		unit = 1
	}
	steps := make([]int64, len(p.shape)) // in bytes, or bits
	compact := true
	for i, step := len(p.shape)-1, r.size; i >= 0; i-- {
		steps[i] = step
		if r.strides != nil && i < len(r.shape) && p.size > 0 && p.shape[i] > 1 {
			steps[i] = r.strides[i] * unit
			compact = compact && steps[i] == step
		}
		step *= max(p.shape[i], 1)
	}
	offset, scale := r.offset, int64(1)
	switch {
	case r.word == 0:
		scale = 8
	case r.protocol == arrowArray:
		offset *= r.size
	}
	first := r.data*scale + offset
	index := make([]int64, len(p.shape))
	for range p.size {
		at := first
		for i, step := range steps {
			at += index[i] * step
		}
		p.at = append(p.at, at)
		for i := len(index) - 1; i >= 0; i-- {
			if index[i]++; index[i] < p.shape[i] {
				break
			}
			index[i] = 0
		}
	}
	outside := func(low, high int64) bool {
		for _, at := range p.at {
			if at/scale < low || (at+max(r.size*min(r.word, 1), 1)-1)/scale >= high {
				return true
			}
		}
		return false
	}
	if r.copy != copyNever && r.span < 0 && outside(0, int64(len(arena))) {
		r.copy = copyNever // it would be read
	}
	curable := r.word > 1 || p.size > 0 && (r.word == 0 || (int64(uintptr(unsafe.Pointer(&arena[0])))+first)%r.align != 0)
	for i, step := range steps {
		curable = curable || p.size > 0 && p.shape[i] > 1 && step%r.size != 0
	}
	switch {
	case r.span < 0 && r.offset > 0 && r.protocol == arrayInterface,
		r.span >= 0 && r.offset > r.span && r.protocol == memory,
		r.span >= 0 && outside(r.data, r.data+r.span):
		p.status = valueError
	case r.nulls && r.protocol == arrowArray && p.size > 0, curable && r.copy == copyNever:
		p.status = bufferError
	default:
		p.copied = curable || r.copy == copyAlways
	}
	return p
}

// bytesOf gives the items as a copy has them.
func (p *plainAnswer) bytesOf(r *saying) (copied []byte) {
	for _, at := range p.at {
		if r.word == 0 {
			copied = append(copied, arena[at/8]>>(at%8)&1)
			continue
		}
		for k := range r.size {
			copied = append(copied, arena[at+k/r.word*r.word+r.word-1-k%r.word])
		}
	}
	return copied
}

func FuzzDescribe(f *testing.F) {
	// Each pair of bytes in dims is a dimension: its size, up to 5, and its stride, an int8. The lowest bit of facts tells
	// whether there are strides, the next one nulls, the others are copy.
	const strides, nulls, ifNeeded, always = 1, 2, copyIfNeeded << 2, copyAlways << 2
	for i := range meanings {
		for _, copies := range []uint8{0, ifNeeded, always} {
			f.Add(uint8(i), []byte{2, 0, 3, 0}, uint8(0), uint8(0), int16(-1), copies)
		}
	}
	f.Add(uint8(0), []byte{5, 254}, uint8(8), uint8(1), int16(9), uint8(strides))              // reversed, to the first byte
	f.Add(uint8(5), []byte{3, 6, 2, 24}, uint8(0), uint8(0), int16(40), uint8(strides))        // no multiples of an item
	f.Add(uint8(5), []byte{3, 6, 2, 24}, uint8(2), uint8(1), int16(40), uint8(strides|8))      // and misaligned, copied
	f.Add(uint8(6), []byte{3, 240, 2, 0}, uint8(32), uint8(0), int16(48), uint8(strides|4))    // reversed, broadcast
	f.Add(uint8(8), []byte{3, 24}, uint8(0), uint8(0), int16(64), uint8(strides|4))            // swapped, with gaps
	f.Add(uint8(14), []byte{3, 1}, uint8(4), uint8(0), int16(15), uint8(ifNeeded))             // a byte too few
	f.Add(uint8(12), []byte{5, 0}, uint8(13), uint8(0), int16(-1), uint8(ifNeeded))            // bits from the middle on
	f.Add(uint8(10), []byte{3, 0}, uint8(0), uint8(0), int16(-1), uint8(nulls))                // nulls
	f.Add(uint8(13), []byte{0, 0}, uint8(9), uint8(0), int16(8), uint8(0))                     // no items beyond the end
	f.Add(uint8(3), []byte{0, 0}, uint8(0), uint8(0), int16(-1), uint8(0))                     // no items, swapped
	f.Add(uint8(3), []byte{2, 26, 2, 13}, uint8(0), uint8(1), int16(-1), uint8(strides|8))     // items that are arrays
	f.Add(uint8(16), []byte{2, 255, 2, 128}, uint8(0), uint8(0), int16(-1), uint8(strides))    // far away
	f.Add(uint8(1), []byte{1, 3, 2, 8, 1, 129}, uint8(0), uint8(0), int16(16), uint8(strides)) // strides that say nothing
	f.Fuzz(func(t *testing.T, which uint8, dims []byte, offset, skew uint8, span int16, facts uint8) {
		r := saying{meaning: meanings[int(which)%len(meanings)], data: int64(len(arena)/2) + int64(skew%64),
			offset: int64(offset), span: int64(max(span, -1)), copy: int64(facts>>2) % 3, nulls: facts&nulls != 0}
		for ; len(dims) >= 2 && len(r.shape) < 5; dims = dims[2:] {
			r.shape = append(r.shape, int64(dims[0]%6))
			r.strides = append(r.strides, int64(int8(dims[1])))
		}
		if facts&strides == 0 {
			r.strides = nil
		}
		if r.protocol == arrowArray || r.protocol == dltensor {
			r.span = -1 // these don't give the size of memory
		}
		if r.protocol == arrowArray {
			r.strides = nil
			if len(r.shape) == 0 {
				r.shape = []int64{1}
			}
		}
		want := plainly(&r)

		request, answer := arguments(dlpackDescribe)
		set(&request.protocol, r.protocol)
		if r.protocol == arrayInterface {
			set(&request.version, 3)
		}
		if r.strides != nil {
			set(&request.facts, int64(request.facts)|withStrides)
		}
		if r.span >= 0 {
			set(&request.facts, int64(request.facts)|withSpan)
		}
		set(&request.ndim, int64(len(r.shape)))
		set(&request.stride_count, int64(len(r.strides)))
		set(&request.dtype.code, r.dtype[0])
		set(&request.dtype.bits, r.dtype[1])
		set(&request.dtype.lanes, r.dtype[2])
		set(&request.device.device_type, onCPU)
		set(&request.itemsize, max(r.itemsize, r.size))
		set(&request.offset, r.offset)
		set(&request.format_length, int64(len(r.format)))
		setLetters(request.format[:], r.format)
		setAll(request.dims[:], r.shape)
		setAll(request.dims[len(r.shape):], r.strides)
		data := int64(uintptr(unsafe.Pointer(&arena[0]))) + r.data
		if set(&request.data, data); r.protocol == arrowArray {
			asked := column{format: r.format, shape: r.shape, offset: r.offset}
			if r.nulls && want.size > 0 {
				asked.nulls = 1
			}
			defer func(n int) { kept = kept[:n] }(len(kept))
			schema, array := layOut(&asked, uint64(data))
			set(&request.schema, int64(schema))
			set(&request.arrays, int64(array))
			set(&request.array_count, 1)
			set(&request.data, 0)
		}
		set(&request.span, max(r.span, 0))
		set(&request.terms.copy, r.copy)
		dlpackDescribe(request, answer)

		message := said(answer.message[:])
		if int64(answer.status) != want.status || (message == "") != (want.status == statusOK) {
			t.Fatalf("%+v: status %d, %q; want %+v", r, answer.status, message, want)
		}
		if want.status != statusOK {
			return
		}
		flags := r.flags
		if want.copied {
			flags |= isCopied
		}
		ndim := len(want.shape)
		if name := text(answer.names.dtype[:]); name != r.name || int(answer.ndim) != ndim ||
			!slices.Equal(numbers(answer.dims[:ndim]), want.shape) || int64(answer.itemsize) != r.size ||
			int64(answer.flags) != flags || (answer.memory != nil) != want.copied {
			t.Fatalf("%+v: %s, %+v; want %+v", r, name, answer, want)
		}
		first := int64(request.data) + int64(answer.offset)
		if want.size == 0 {
			if first != 0 || answer.above != 0 || answer.below != 0 {
				t.Fatalf("%+v: no items at 0x%x", r, first)
			}
			return
		}
		where := make([]int64, 0, want.size) // of each item, from the first one on
		index := make([]int64, ndim)
		for range want.size {
			at := int64(0)
			for i, k := range index {
				at += k * int64(answer.dims[ndim+i]) * r.size
			}
			where = append(where, at)
			for i := ndim - 1; i >= 0; i-- {
				if index[i]++; index[i] < want.shape[i] {
					break
				}
				index[i] = 0
			}
		}
		if below, above := -slices.Min(where), slices.Max(where)+r.size; int64(answer.below) != below ||
			int64(answer.above) != above {
			t.Fatalf("%+v: %d below and %d above; want %d, %d", r, answer.below, answer.above, below, above)
		}
		if want.copied {
			if first != int64(uintptr(answer.memory)) || first%64 != 0 {
				t.Fatalf("%+v: the copy at 0x%x begins at 0x%x", r, answer.memory, first)
			}
			for i, at := range where {
				if at != int64(i)*r.size {
					t.Fatalf("%+v: item %d of the copy lies at %d", r, i, at)
				}
			}
			got := unsafe.Slice((*byte)(answer.memory), want.size*r.size)
			if wanted := want.bytesOf(&r); !bytes.Equal(got, wanted) {
				t.Fatalf("%+v: %x; want %x", r, got, wanted)
			}
			return
		}
		for i, at := range where {
			if got := first + at - (data - r.data); got != want.at[i] {
				t.Fatalf("%+v: item %d lies at %d; want %d", r, i, got, want.at[i])
			}
		}
	})
}

// The numbers that a request may have, besides small ones.
var extremes = []int64{-1, 64, 65, 1 << 31, 1<<31 - 1, -1 << 31, 1 << 32, 1 << 60, 1 << 61, 1 << 62, math.MaxInt64 / 3,
	math.MaxInt64 - 7, math.MaxInt64, -1 << 60, -1 << 62, math.MinInt64 + 8, math.MinInt64}

func FuzzAnyRequest(f *testing.F) {
	// Each byte of `some` is the next number of the request, then of dims: mostly a small one.
	f.Add([]byte{5, 0, 0, 2, 0, 0, 0, 0, 1, 0, 0, 4, 0, 0, 64, 0, 3, 4}, "f")
	f.Add([]byte{1, 2, 0, 2, 2, 2, 32, 1, 2, 0, 0, 0, 8, 0, 64, 0, 255, 255, 255, 255}, "")
	f.Add([]byte{2, 34, 3, 1, 1, 0, 0, 0, 1, 0, 0, 0, 245, 245, 64, 245, 3, 245}, "<V1 float8_e4m3b11fnuz")
	f.Add([]byte{4, 8, 3, 1, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 64, 0, 3}, "|V8 opaque_handle64 and much more")
	f.Add([]byte{7, 32, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 64, 64, 239}, "float8_e4m3b11fnuzx65535")
	f.Add([]byte{5}, "")
	f.Add(append(append([]byte{6}, make([]byte, 149)...), 8, 246, 246), "") // chunks, from nowhere
	f.Add([]byte{1, 0, 0, 241, 0, 2, 32, 1, 1}, "")                         // 65 dimensions
	f.Add([]byte{1, 0, 0, 239, 0, 2, 32, 1, 1}, "")                         // -1
	f.Add([]byte{1, 2, 0, 240, 64, 2, 32, 1, 3, 0, 0, 0, 0, 0, 64}, "")
	f.Add([]byte{5, 0, 0, 240, 0, 0, 0, 0, 1}, "(9223372036854775807)B\x00\xff")
	f.Fuzz(func(t *testing.T, some []byte, format string) {
		next := func() int64 {
			if len(some) == 0 {
				return 0
			}
			n := some[0]
			some = some[1:]
			if least := 256 - len(extremes); int(n) >= least {
				return extremes[int(n)-least]
			}
			return int64(n)
		}
		request, answer := arguments(dlpackDescribe)
		set(&request.protocol, 1+next()&0xFF%8)
		set(&request.facts, next())
		set(&request.version, next())
		set(&request.ndim, next())
		set(&request.stride_count, next())
		set(&request.dtype.code, next())
		set(&request.dtype.bits, next())
		set(&request.dtype.lanes, next())
		set(&request.device.device_type, next())
		set(&request.device.device_id, next())
		set(&request.flags, next())
		set(&request.itemsize, next())
		set(&request.offset, next())
		set(&request.span, next())
		set(&request.data, next())
		for i := range request.dims {
			set(&request.dims[i], next())
		}
		set(&request.producer_stream, next())
		set(&request.terms.stream, next())
		set(&request.terms.has_stream, next()&1)
		set(&request.terms.exports, next()&1)
		set(&request.terms.has_target, next()&1)
		set(&request.terms.target.device_type, next())
		set(&request.terms.target.device_id, next())
		set(&request.schema, next())
		set(&request.arrays, next())
		set(&request.array_count, next())
		// As C does, which has no NUL in a format.
		format, _, _ = strings.Cut(format, "\x00")
		set(&request.format_length, int64(len(format)))
		short := len(request.format) - 1
		setLetters(request.format[:], format[:min(len(format), short)])
		if len(format) > short {
			setLong(&request.long_format, format)
		}
		dlpackDescribe(request, answer)
		message := said(answer.message[:])
		if answer.status < statusOK || answer.status > bufferError || (message == "") != (answer.status == statusOK) {
			t.Fatalf("%+v, %q: status %d, %q", request, format, answer.status, message)
		}
		for _, letter := range []byte(message) {
			if letter < ' ' || letter > '~' {
				t.Fatalf("%+v, %q: %q", request, format, message)
			}
		}
		if answer.status != statusOK {
			return
		}
		readable := slices.Contains([]int64{1, 3, 11, 13}, int64(answer.device.device_type))
		if (answer.on_cpu != 0) != readable {
			t.Fatalf("%+v, %q: %+v", request, format, answer)
		}
		// The answer is a tensor. A request about that tensor must get the same answer.
		ndim := int(answer.ndim)
		again, same := arguments(dlpackDescribe)
		set(&again.protocol, dltensor)
		set(&again.facts, withStrides)
		set(&again.ndim, int64(ndim))
		set(&again.stride_count, int64(ndim))
		again.dtype, again.device, again.flags = answer.dtype, answer.device, answer.flags
		again.data, again.offset = request.data+answer.offset, answer.byte_offset
		copy(again.dims[:], answer.dims[:2*ndim])
		dlpackDescribe(again, same)
		same.offset, same.stream = answer.offset, answer.stream
		if *same != *answer {
			t.Fatalf("%+v, %q: %+v; asked again: %+v", request, format, answer, same)
		}
	})
}

func setLong[Letter ~int8 | ~uint8](to **Letter, text string) {
	*to = (*Letter)(unsafe.Pointer(unsafe.StringData(text)))
}

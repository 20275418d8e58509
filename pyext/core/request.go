package main

// #include "core.h"
import "C"

import (
	"errors"
	"math"
	"strconv"
	"strings"
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/handover"
	"dlpack/pkg/protocol"
	"dlpack/pkg/strided"
)

// These indices compile only if Go has the numbers of core.h.
var (
	_ = [1]struct{}{}[C.MAX_NDIM-dlpack.MaxNDim]
	_ = [1]struct{}{}[C.DLPACK_MAJOR_VERSION-dlpack.MajorVersion]
	_ = [1]struct{}{}[C.DLPACK_MINOR_VERSION-dlpack.MinorVersion]
	_ = [1]struct{}{}[C.MOST_CPUS-strided.MostWorkers]
	_ = [1]struct{}{}[C.STREAM_UNKNOWN-dlpack.UnknownStream]
	_ = [1]struct{}{}[C.STREAM_LEGACY-dlpack.LegacyStream]
	_ = [1]struct{}{}[C.STREAM_NO_ORDER-dlpack.NoOrder]
	_ = [1]struct{}{}[C.STREAM_PER_THREAD-dlpack.PerThreadStream]
)

// read turns a request, which C has filled from a Python object, into a description, by the rules of its protocol. It
// joins Arrow's chunks into memory that the answer owns.
func read(request *C.struct_request, d *dlpack.Description, answer *C.struct_answer) error {
	if arrowProtocol(request) != "" {
		return readArrow(request, d, answer)
	}
	d.Device = deviceOf(request.device)
	d.Data, d.Offset, d.Span = uint64(request.data), uint64(request.offset), -1
	if request.facts&C.FACT_SPAN != 0 {
		d.Span = int64(request.span)
	}
	if err := readDims(request, d); err != nil {
		return err
	}
	if request.facts&C.FACT_STREAM != 0 {
		if err := dlpack.CheckProducerStream(d.Device, int64(request.producer_stream)); err != nil {
			return err
		}
	}
	switch request.protocol {
	case C.PROTOCOL_DLTENSOR:
		d.DataType = dlpack.DataType{
			Code:  dlpack.TypeCode(request.dtype.code),
			Bits:  uint8(request.dtype.bits),
			Lanes: uint16(request.dtype.lanes),
		}
		d.Flags = dlpack.Flags(request.flags)
		d.ElementStrides = true
		signStrides(d)
		return nil
	case C.PROTOCOL_BUFFER:
		return readBuffer(request, d)
	case C.PROTOCOL_MEMORY:
		return readMemory(request, d)
	case C.PROTOCOL_ARRAY_INTERFACE, C.PROTOCOL_ARRAY_STRUCT, C.PROTOCOL_CUDA_ARRAY_INTERFACE:
		return readInterface(request, d)
	}
	return errors.New("request of an unknown protocol: " + strconv.Itoa(int(request.protocol)))
}

// readTerms turns the terms of the request into those of package handover.
func readTerms(request *C.struct_request, terms *handover.Terms) (err error) {
	terms.MayCopy, terms.MustCopy = request.terms.copy != C.COPY_NEVER, request.terms.copy == C.COPY_ALWAYS
	switch {
	case request.protocol == C.PROTOCOL_CUDA_ARRAY_INTERFACE:
		terms.Device = handover.FromDriver
	case isPointer(request):
		terms.Device = handover.FromCaller
	}
	terms.HasTarget, terms.Target = request.terms.has_target != 0, deviceOf(request.terms.target)
	terms.Exports, terms.Completes = request.terms.exports != 0, request.terms.exports == C.EXPORTS_COMPLETE
	terms.HasStream, terms.Consumer = request.terms.has_stream != 0, int64(request.terms.stream)
	terms.Producer, err = producerOf(request)
	return err
}

// isPointer reports whether a caller passed an address (from_pointer). Only the caller knows what lies there.
func isPointer(request *C.struct_request) bool {
	return request.protocol == C.PROTOCOL_MEMORY && request.facts&C.FACT_SPAN == 0
}

func readDims(request *C.struct_request, d *dlpack.Description) error {
	ndim := int(request.ndim)
	if err := dlpack.CheckNDim(ndim); err != nil {
		return err
	}
	if request.facts&C.FACT_NO_SHAPE != 0 {
		return dlpack.Malformed(dlpack.ShapeIsNull, dlpack.Number("ndim", ndim))
	}
	d.NDim = ndim
	d.HasStrides = request.facts&C.FACT_STRIDES != 0
	if d.HasStrides && request.stride_count != request.ndim {
		return dlpack.Malformed(dlpack.StridesLength, dlpack.Number("count", int32(request.stride_count)),
			dlpack.Number("ndim", ndim))
	}
	for i := range ndim {
		d.Shape[i] = int64(request.dims[i])
		if d.HasStrides {
			d.Strides[i] = int64(request.dims[ndim+i])
		}
	}
	return nil
}

// signStrides restores negative strides that cupy 14 exports as large positive ones. cupy divides the stride in bytes
// as if it had no sign: -3 elements of 4 bytes become 2^62 - 3. No stride of existing memory is so large.
func signStrides(d *dlpack.Description) {
	const most = 1 << 48 // bytes of an address space
	size := d.DataType.ItemSize()
	for i, stride := range d.Strides[:d.NDim] {
		if bytes := stride * size; bytes < 0 && bytes > -most && uint64(bytes)/uint64(size) == uint64(stride) {
			d.Strides[i] = bytes / size
		}
	}
}

func readBuffer(request *C.struct_request, d *dlpack.Description) error {
	if request.facts&C.FACT_INDIRECT != 0 {
		return dlpack.Unsupported(dlpack.Indirect).Cured(dlpack.CopyPointers)
	}
	var shape [dlpack.MaxNDim]int64
	d.Field, d.Text = "format", formatText(request)
	item, ndim, err := protocol.ParseFormat(d.Text, int64(request.itemsize), &shape)
	if err != nil {
		return err
	}
	d.Item = item
	return addDims(d, shape[:ndim])
}

// addDims appends the dimensions of a sub-array, whose items are compact in each item of the buffer.
func addDims(d *dlpack.Description, shape []int64) error {
	ndim := d.NDim + len(shape)
	if ndim > dlpack.MaxNDim {
		return dlpack.Unsupported(dlpack.FormatDimensions, dlpack.Text("field", d.Field),
			dlpack.Number("own", len(shape)), dlpack.Number("ndim", ndim), dlpack.Number("most", dlpack.MaxNDim))
	}
	stride := d.DataType.ItemSize()
	for i := len(shape) - 1; i >= 0; i-- {
		d.Shape[d.NDim+i] = shape[i]
		d.Strides[d.NDim+i] = stride
		stride *= shape[i]
	}
	d.NDim = ndim
	return nil
}

func readInterface(request *C.struct_request, d *dlpack.Description) error {
	name, oldest, newest := "__array_interface__", 2, 3
	switch request.protocol {
	case C.PROTOCOL_CUDA_ARRAY_INTERFACE:
		name, oldest = "__cuda_array_interface__", 0
	case C.PROTOCOL_ARRAY_STRUCT:
		oldest, newest = 0, 0
	}
	if version := int(request.version); version < oldest || version > newest {
		saying := dlpack.InterfaceVersion
		if version == math.MaxUint16 { // C's value for this version and all above
			saying = dlpack.InterfaceTooNew
		}
		return dlpack.Malformed(saying, dlpack.Text("protocol", name), dlpack.Number("version", version),
			dlpack.Number("oldest", oldest), dlpack.Number("newest", newest))
	}
	if request.facts&C.FACT_MASK != 0 {
		return dlpack.Unsupported(dlpack.Mask, dlpack.Text("protocol", name))
	}
	if d.Offset != 0 && d.Span < 0 {
		return dlpack.Malformed(dlpack.OffsetFromAddress, dlpack.Text("protocol", name),
			dlpack.Number("offset", d.Offset)).Cured(dlpack.AddOffset)
	}
	text := formatText(request)
	d.Field = "typestr"
	d.Text, _, _ = strings.Cut(text, " ")
	var err error
	d.Item, err = protocol.ParseTypestr(d.Field, text)
	return err
}

// readMemory reads the dtype that a caller passed: a data type's name, or a typestr, such as that of a numpy dtype.
func readMemory(request *C.struct_request, d *dlpack.Description) error {
	text := formatText(request)
	d.Field = "dtype"
	d.Text, _, _ = strings.Cut(text, " ")
	d.ElementStrides, d.OpenShape = true, true
	d.OnlyShared = isPointer(request)
	var err error
	if protocol.IsTypestr(text) {
		d.Item, err = protocol.ParseTypestr(d.Field, text)
		if r, ok := err.(*dlpack.Refusal); ok && r.Kind == dlpack.ErrUnsupported {
			err = r.Cured(dlpack.NameType) // the other cures are for arrays
		}
	} else {
		d.DataType, err = protocol.ParseAnyName(text)
	}
	return err
}

// formatText returns the format without copying it from C's memory. A format too long for its field is in long_format.
// If there is none, it is a typestr, of which the field holds the beginning: no valid typestr is so long.
func formatText(request *C.struct_request) string {
	length := int(request.format_length)
	if length >= C.FORMAT_SIZE {
		if request.long_format != nil {
			return unsafe.String((*byte)(unsafe.Pointer(request.long_format)), length)
		}
		length = C.FORMAT_SIZE - 1
	}
	return unsafe.String((*byte)(unsafe.Pointer(&request.format[0])), length)
}

func deviceOf(device C.DLDevice) dlpack.Device {
	return dlpack.Device{Type: dlpack.DeviceType(device.device_type), ID: int32(device.device_id)}
}

package main

// #include "core.h"
import "C"

import (
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/protocol"
)

// write fills the answer with the tensor. data is the request's address, from which the answer's offset counts. stream
// is the one on which work may still write the memory.
func write(data uint64, d *dlpack.Description, t *dlpack.Tensor, stream int64, answer *C.struct_answer) {
	answer.ndim = C.int32_t(t.NDim)
	answer.dtype = C.DLDataType{
		code:  C.uint8_t(t.DataType.Code),
		bits:  C.uint8_t(t.DataType.Bits),
		lanes: C.uint16_t(t.DataType.Lanes),
	}
	answer.device = C.DLDevice{device_type: C.DLDeviceType(t.Device.Type), device_id: C.int32_t(t.Device.ID)}
	answer.flags = C.uint64_t(t.Flags)
	answer.itemsize = C.int64_t(t.ItemSize)
	first := d.Data + t.Offset
	switch {
	case t.Size == 0:
		first = 0
	case answer.memory != nil:
		first = uint64(uintptr(answer.memory))
	case answer.device_memory != nil:
		first = uint64(answer.device_memory.address)
	}
	answer.offset = C.uint64_t(first - data)
	answer.byte_offset = C.uint64_t(t.ByteOffset)
	answer.below, answer.above = C.uint64_t(t.Below), C.uint64_t(t.Above)
	answer.stream = C.int64_t(stream)
	answer.versioned_only = C.uint32_t(flag(t.VersionedOnly))
	answer.on_cpu = C.uint32_t(flag(t.Device.Type.OnCPU()))
	var name [C.NAME_SIZE]byte
	setText(answer.names.dtype[:], unsafe.String(&name[0], len(protocol.AppendName(name[:0], t.DataType))))
	names := protocol.NamesElsewhere(t.DataType)
	setText(answer.names.typestr[:], names.Typestr)
	if !t.Device.Type.OnCPU() {
		names.Format = "" // buffers are on the CPU
	}
	setText(answer.names.format[:], names.Format)
	setText(answer.names.arrow[:], names.Arrow)
	for i := range t.NDim {
		answer.dims[i] = C.int64_t(t.Shape[i])
		answer.dims[t.NDim+i] = C.int64_t(t.Strides[i])
	}
}

func flag(on bool) C.uint8_t {
	if on {
		return 1
	}
	return 0
}

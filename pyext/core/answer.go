package main

// #include <stdlib.h>
// #include "core.h"
import "C"

import (
	"runtime/debug"
	"strconv"
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/protocol"
	"dlpack/pkg/strided"
)

// isCurable tells whether a copy makes memory that Validate refused exportable.
func isCurable(err error) bool {
	known, ok := err.(*dlpack.Error)
	return ok && known.Kind == dlpack.CopyError
}

// duplicate copies the memory to new memory, compactly and in native byte order, and makes t the tensor of the copy.
// The caller of the core frees answer.memory.
func duplicate(d *dlpack.Description, t *dlpack.Tensor, answer *C.struct_answer) error {
	if !t.Device.Type.OnCPU() {
		return &dlpack.Error{Kind: dlpack.BufferError, Message: "copy: memory on " + t.Device.String() +
			" can't be copied yet; expected memory that the CPU can read (copy it with the library that owns it)"}
	}
	if C.posix_memalign(&answer.memory, C.COPY_ALIGNMENT, C.size_t(max(t.NBytes, 1))) != 0 {
		answer.memory = nil
		return &dlpack.Error{Kind: dlpack.MemoryError, Message: "copy: no memory for " +
			strconv.FormatInt(t.NBytes, 10) + " bytes"}
	}
	if t.Size > 0 {
		// A wrong address faults here, and the fault becomes a panic, which becomes an error.
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		copyItems(answer.memory, d, t)
	}
	t.MakeCompact()
	t.Flags |= dlpack.IsCopied
	t.Device = dlpack.Device{Type: dlpack.CPU}
	return nil
}

func copyItems(to unsafe.Pointer, d *dlpack.Description, t *dlpack.Tensor) {
	first := d.Data + t.Offset
	from := *(*unsafe.Pointer)(unsafe.Pointer(&first)) // an address of C's, not of Go's: vet can't know
	if d.BitPacked {
		strided.Unpack(to, from, int(d.FirstBit), int(t.Size))
		return
	}
	if t.Packed() {
		strided.Copy(to, from, []int64{t.NBytes}, []int64{1}, 1, 0)
		return
	}
	swap := 0
	if d.Swapped {
		swap = int(t.DataType.Alignment())
	}
	strided.Copy(to, from, t.Shape[:t.NDim], d.Strides[:d.NDim], int(t.ItemSize), swap)
}

// write puts the tensor into the answer.
func write(d *dlpack.Description, t *dlpack.Tensor, answer *C.struct_answer) {
	answer.remember = flag(t.Remember && answer.memory == nil)
	answer.ndim = C.int32_t(t.NDim)
	answer.dtype = C.DLDataType{
		code:  C.uint8_t(t.DataType.Code),
		bits:  C.uint8_t(t.DataType.Bits),
		lanes: C.uint16_t(t.DataType.Lanes),
	}
	answer.device = C.DLDevice{device_type: C.int32_t(t.Device.Type), device_id: C.int32_t(t.Device.ID)}
	answer.flags = C.uint64_t(t.Flags)
	answer.itemsize = C.int64_t(t.ItemSize)
	switch {
	case t.Size == 0:
		answer.offset = C.uint64_t(-d.Data)
	case answer.memory != nil:
		answer.offset = C.uint64_t(uint64(uintptr(answer.memory)) - d.Data)
	default:
		answer.offset = C.uint64_t(t.Offset)
	}
	answer.byte_offset = C.uint64_t(t.ByteOffset)
	answer.alignment = C.uint64_t(t.Alignment)
	answer.below, answer.above = C.uint64_t(t.Below), C.uint64_t(t.Above)
	answer.max_count = C.int64_t(t.MaxCount)
	answer.versioned_only = C.uint32_t(flag(t.VersionedOnly))
	answer.on_cpu = C.uint32_t(flag(t.Device.Type.OnCPU()))
	var name [C.NAME_SIZE]byte
	setText(answer.name[:], unsafe.String(&name[0], len(protocol.AppendName(name[:0], t.DataType))))
	names := protocol.NamesElsewhere(t.DataType)
	setText(answer.typestr[:], names.Typestr)
	if !t.Device.Type.OnCPU() {
		names = protocol.OtherNames{} // the other two protocols know of no device
	}
	setText(answer.format[:], names.Format)
	setText(answer.arrow[:], names.Arrow)
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

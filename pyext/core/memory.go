package main

// #include <stdlib.h>
// #include "core.h"
import "C"

import (
	"syscall"
	"unsafe"

	"dlpack/pkg/cuda"
)

// answerMemory allocates copies with C's allocator. It stores them in the answer at once, so that the requester frees
// them even if a later step fails.
type answerMemory struct{ answer *C.struct_answer }

func (a answerMemory) ForCopy(bytes int64) unsafe.Pointer {
	a.answer.memory = C.allocate_aligned(C.size_t(bytes))
	return a.answer.memory
}

func (answerMemory) Scratch(bytes int64) unsafe.Pointer {
	return C.allocate_aligned(C.size_t(bytes))
}

func (answerMemory) Free(scratch unsafe.Pointer) { C.free_aligned(scratch) }

func (a answerMemory) Reserve() bool {
	a.answer.device_memory = (*C.struct_device_memory)(C.calloc(1, C.sizeof_struct_device_memory))
	return a.answer.device_memory != nil
}

// Keep stores the arguments of free_device_memory.
func (a answerMemory) Keep(allocation cuda.Allocation) {
	*a.answer.device_memory = C.struct_device_memory{
		address:                             C.uint64_t(allocation.Address),
		context:                             allocation.Context,
		retained:                            C.int32_t(allocation.Retained),
		process:                             C.int32_t(syscall.Getpid()),
		pointer_get_attribute:               (*[0]byte)(allocation.Free.PointerGetAttribute),
		ctx_push_current:                    (*[0]byte)(allocation.Free.CtxPushCurrent),
		thread_exchange_stream_capture_mode: (*[0]byte)(allocation.Free.ThreadExchangeStreamCaptureMode),
		mem_free:                            (*[0]byte)(allocation.Free.MemFree),
		ctx_pop_current:                     (*[0]byte)(allocation.Free.CtxPopCurrent),
		device_primary_ctx_release:          (*[0]byte)(allocation.Free.DevicePrimaryCtxRelease),
	}
}

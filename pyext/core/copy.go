package main

// #include <stdlib.h>
// #include "core.h"
import "C"

import (
	"runtime/debug"
	"slices"
	"strconv"
	"syscall"
	"unsafe"

	"dlpack/pkg/cuda"
	"dlpack/pkg/dlpack"
	"dlpack/pkg/strided"
)

// isCurable tells whether a copy makes memory that Validate refused exportable.
func isCurable(err error) bool {
	return dlpack.KindOf(err) == dlpack.KindNeedsCopy
}

// duplicate copies the memory to new memory of the target, compactly and in native byte order, when what is queued on
// the stream is done, and makes t the tensor of the copy. What the CPU can read is copied to the CPU, unless the target
// is a device.
func duplicate(d *dlpack.Description, t *dlpack.Tensor, stream int64, target dlpack.Device, answer *C.struct_answer) error {
	var err error
	switch onCPU, toCUDA := t.Device.Type.OnCPU(), target.Type == dlpack.CUDA; {
	case onCPU && toCUDA:
		err = upload(d, t, stream, target, answer)
	case onCPU:
		target = dlpack.Device{Type: dlpack.CPU}
		err = copyOnCPU(d, t, stream, answer)
	case t.Device.Type == dlpack.CUDA && toCUDA:
		err = copyOnDevice(d, t, stream, target, answer)
	case t.Device.Type == dlpack.CUDA:
		err = download(d, t, stream, answer)
	default:
		err = dlpack.Unsupported("copy: memory on " + t.Device.String() +
			" can't be copied; expected memory of the CPU or of CUDA (copy it with the library that owns it)")
	}
	if err != nil {
		return err
	}
	t.MakeCompact()
	t.Flags |= dlpack.IsCopied
	t.Device = target
	return nil
}

func copyOnCPU(d *dlpack.Description, t *dlpack.Tensor, stream int64, answer *C.struct_answer) error {
	if err := cuda.Finish(memoryOf(d, t), stream); err != nil {
		return err
	}
	if err := allocate(&answer.memory, t.NBytes); err != nil {
		return err
	}
	return copyItems(answer.memory, d, t)
}

func upload(d *dlpack.Description, t *dlpack.Tensor, stream int64, target dlpack.Device, answer *C.struct_answer) error {
	driver, err := cuda.Start()
	if err != nil {
		return noDriver(err, t, target)
	}
	if err := prepare(answer); err != nil {
		return err
	}
	if err := cuda.Finish(memoryOf(d, t), stream); err != nil {
		return err
	}
	src := pointer(memoryOf(d, t).Address)
	if !t.Compact || d.Swapped || d.BitPacked {
		var scratch unsafe.Pointer
		if err := allocate(&scratch, t.NBytes); err != nil {
			return err
		}
		defer C.free(scratch)
		if err := copyItems(scratch, d, t); err != nil {
			return err
		}
		src = scratch
	} else if t.Device.Type == dlpack.CPU && !cuda.Readable(d.Data+t.Offset, t.NBytes) {
		return unreadable(d.Data + t.Offset)
	}
	allocation, err := driver.FromHost(target, src, t.NBytes)
	if err != nil {
		return err
	}
	keep(allocation, answer)
	return nil
}

func download(d *dlpack.Description, t *dlpack.Tensor, stream int64, answer *C.struct_answer) error {
	driver, err := cuda.Running()
	if err != nil {
		return noDriver(err, t, dlpack.Device{Type: dlpack.CPU})
	}
	if err := allocate(&answer.memory, t.NBytes); err != nil {
		return err
	}
	return driver.ToHost(answer.memory, sourceOf(d, t, stream))
}

func copyOnDevice(d *dlpack.Description, t *dlpack.Tensor, stream int64, target dlpack.Device, answer *C.struct_answer) error {
	driver, err := cuda.Running()
	if err != nil {
		return noDriver(err, t, target)
	}
	if err := prepare(answer); err != nil {
		return err
	}
	allocation, err := driver.ToDevice(target, sourceOf(d, t, stream))
	if err != nil {
		return err
	}
	keep(allocation, answer)
	return nil
}

func noDriver(err error, t *dlpack.Tensor, target dlpack.Device) error {
	return dlpack.Unsupported("copy from " + t.Device.String() + " to " + target.String() + ": " +
		err.Error())
}

func sourceOf(d *dlpack.Description, t *dlpack.Tensor, stream int64) *cuda.Source {
	strides := d.ByteStrides(t)
	source := &cuda.Source{
		Memory:   memoryOf(d, t),
		Stream:   stream,
		Shape:    slices.Clone(t.Shape[:t.NDim]), // t and d stay on the stack
		Strides:  slices.Clone(strides[:t.NDim]),
		ItemSize: int(t.ItemSize),
		Swap:     swap(d, t),
		Below:    t.Below,
		Above:    t.Above,
	}
	if t.Packed() {
		source.Shape, source.Strides, source.ItemSize = []int64{t.NBytes}, []int64{1}, 1
	}
	return source
}

// prepare gets what keep fills, so that nothing can fail between the two.
func prepare(answer *C.struct_answer) error {
	answer.device_memory = (*C.struct_device_memory)(C.calloc(1, C.sizeof_struct_device_memory))
	if answer.device_memory == nil {
		return dlpack.OutOfMemory("copy: no memory")
	}
	return nil
}

// keep puts device memory into the answer, whose caller frees it with free_device_memory.
func keep(allocation cuda.Allocation, answer *C.struct_answer) {
	*answer.device_memory = C.struct_device_memory{
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

// hugeBytes is the least memory that huge pages are asked for. They take most of the time away that a copy to fresh
// memory spends, which the kernel clears page by page.
const hugeBytes = 4 << 20

// nilPage ends the addresses at which Go takes a fault for the use of a nil pointer, a bug of its own.
const nilPage = 4096

// allocate gets memory of C's, aligned as copies are.
func allocate(memory *unsafe.Pointer, bytes int64) error {
	if C.posix_memalign(memory, C.COPY_ALIGNMENT, C.size_t(max(bytes, 1))) != 0 {
		*memory = nil
		return dlpack.OutOfMemory("copy: no memory for " + strconv.FormatInt(bytes, 10) + " bytes")
	}
	if bytes >= hugeBytes {
		page := uintptr(syscall.Getpagesize())
		first := -uintptr(*memory) % page
		syscall.Madvise(unsafe.Slice((*byte)(unsafe.Add(*memory, first)), uintptr(bytes)-first), syscall.MADV_HUGEPAGE)
	}
	return nil
}

// copyItems copies what the CPU can read. A wrong address faults here, and the fault becomes a panic, which becomes an
// error.
func copyItems(to unsafe.Pointer, d *dlpack.Description, t *dlpack.Tensor) (err error) {
	if t.Size == 0 {
		return nil
	}
	first := d.Data + t.Offset - t.Below
	if first < nilPage {
		return unreadable(first)
	}
	defer func() {
		cause := recover()
		if fault, ok := cause.(interface{ Addr() uintptr }); ok {
			err = unreadable(max(uint64(fault.Addr()), first)) // 0 where no memory can have the address
		} else if cause != nil {
			panic(cause)
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	from := pointer(d.Data + t.Offset)
	if d.BitPacked {
		strided.Unpack(to, from, int(d.FirstBit), int(t.Size))
		return nil
	}
	if t.Packed() {
		strided.Copy(to, from, []int64{t.NBytes}, []int64{1}, 1, 0)
		return nil
	}
	strides := d.ByteStrides(t)
	strided.Copy(to, from, t.Shape[:t.NDim], strides[:t.NDim], int(t.ItemSize), swap(d, t))
	return nil
}

// swap is the size of the words whose bytes are reversed, 0 for none.
func swap(d *dlpack.Description, t *dlpack.Tensor) int {
	if d.Swapped {
		return int(t.DataType.Alignment())
	}
	return 0
}

// pointer is an address of C's, not of Go's: vet can't know.
func pointer(address uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

package cuda

// #include <stdlib.h>
// #include "driver.h"
//
// // cgo's C.malloc ends the process if no memory is left.
// static void *allocate(size_t bytes) { return malloc(bytes); }
import "C"

import (
	"strconv"
	"sync/atomic"
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/foreign"
)

// A function identifies a function of the driver, by its index in names.
type function int

const (
	cuGetErrorName function = iota
	cuInit
	cuDeviceGetCount
	cuDeviceGetAttribute
	cuDevicePrimaryCtxRetain
	cuDevicePrimaryCtxRelease
	cuDevicePrimaryCtxGetState
	cuCtxGetCurrent
	cuCtxGetDevice
	cuCtxPushCurrent
	cuCtxPopCurrent
	cuPointerGetAttribute
	cuPointerGetAttributes
	cuMemAlloc
	cuMemFree
	cuMemcpyDtoHAsync
	cuMemcpyHtoDAsync
	cuMemcpyDtoDAsync
	cuMemcpyPeerAsync
	cuMemcpy3DAsync
	cuStreamCreate
	cuStreamDestroy
	cuStreamGetCtx
	cuStreamWaitEvent
	cuStreamSynchronize
	cuStreamIsCapturing
	cuStreamGetCaptureInfo
	cuThreadExchangeStreamCaptureMode
	cuEventCreate
	cuEventRecord
	cuEventDestroy
)

// names are the symbols of the functions in CUDA 12's cuda.h. Later drivers keep them.
var names = [...]string{
	cuGetErrorName:                    "cuGetErrorName",
	cuInit:                            "cuInit",
	cuDeviceGetCount:                  "cuDeviceGetCount",
	cuDeviceGetAttribute:              "cuDeviceGetAttribute",
	cuDevicePrimaryCtxRetain:          "cuDevicePrimaryCtxRetain",
	cuDevicePrimaryCtxRelease:         "cuDevicePrimaryCtxRelease_v2",
	cuDevicePrimaryCtxGetState:        "cuDevicePrimaryCtxGetState",
	cuCtxGetCurrent:                   "cuCtxGetCurrent",
	cuCtxGetDevice:                    "cuCtxGetDevice",
	cuCtxPushCurrent:                  "cuCtxPushCurrent_v2",
	cuCtxPopCurrent:                   "cuCtxPopCurrent_v2",
	cuPointerGetAttribute:             "cuPointerGetAttribute",
	cuPointerGetAttributes:            "cuPointerGetAttributes",
	cuMemAlloc:                        "cuMemAlloc_v2",
	cuMemFree:                         "cuMemFree_v2",
	cuMemcpyDtoHAsync:                 "cuMemcpyDtoHAsync_v2",
	cuMemcpyHtoDAsync:                 "cuMemcpyHtoDAsync_v2",
	cuMemcpyDtoDAsync:                 "cuMemcpyDtoDAsync_v2",
	cuMemcpyPeerAsync:                 "cuMemcpyPeerAsync",
	cuMemcpy3DAsync:                   "cuMemcpy3DAsync_v2",
	cuStreamCreate:                    "cuStreamCreate",
	cuStreamDestroy:                   "cuStreamDestroy_v2",
	cuStreamGetCtx:                    "cuStreamGetCtx",
	cuStreamWaitEvent:                 "cuStreamWaitEvent",
	cuStreamSynchronize:               "cuStreamSynchronize",
	cuStreamIsCapturing:               "cuStreamIsCapturing",
	cuStreamGetCaptureInfo:            "cuStreamGetCaptureInfo_v2",
	cuThreadExchangeStreamCaptureMode: "cuThreadExchangeStreamCaptureMode",
	cuEventCreate:                     "cuEventCreate",
	cuEventRecord:                     "cuEventRecord",
	cuEventDestroy:                    "cuEventDestroy_v2",
}

// A library holds the addresses of the driver's functions, nil for those that the driver doesn't have.
type library [len(names)]unsafe.Pointer

// opened is the driver, which stays open. If opening fails, the next call tries again: by then another library may have
// loaded the driver from another path.
var opened atomic.Pointer[Driver]

func open() (*Driver, error) {
	if d := opened.Load(); d != nil {
		return d, nil
	}
	find, why := openDriver()
	if find == nil {
		return nil, dlpack.Unsupported(dlpack.NoDriver, dlpack.Text("why", why))
	}
	var l library
	for f := range l {
		l[f] = find(names[f])
	}
	d := &Driver{&l}
	opened.Store(d)
	return d, nil
}

// text returns s as a C string in Go's memory. C.CString would end the process if C's memory were exhausted.
func text(s string) *C.char {
	bytes := append([]byte(s), 0)
	return (*C.char)(unsafe.Pointer(&bytes[0]))
}

// check turns a function's result into nil or a *failure.
func (l *library) check(f function, r C.CUresult) error {
	if r == 0 {
		return nil
	}
	var text *C.char
	name := "error " + strconv.Itoa(int(r))
	if C.call_cuGetErrorName(l[cuGetErrorName], r, &text) == 0 && text != nil {
		name = C.GoString(text)
	}
	return &failure{names[f], result(r), name}
}

func (l *library) value(f function, v C.struct_value) (uint64, error) {
	return uint64(v.value), l.check(f, v.result)
}

func (l *library) init() error {
	return l.check(cuInit, C.call_cuInit(l[cuInit]))
}

func (l *library) deviceGetCount() (int32, error) {
	count, err := l.value(cuDeviceGetCount, C.call_cuDeviceGetCount(l[cuDeviceGetCount]))
	return int32(count), err
}

func (l *library) maxPitch(device int32) (int64, error) {
	v := C.call_cuDeviceGetAttribute(l[cuDeviceGetAttribute], C.CU_DEVICE_ATTRIBUTE_MAX_PITCH, C.CUdevice(device))
	pitch, err := l.value(cuDeviceGetAttribute, v)
	return int64(pitch), err
}

func (l *library) devicePrimaryCtxRetain(device int32) (context, error) {
	v := C.call_cuDevicePrimaryCtxRetain(l[cuDevicePrimaryCtxRetain], C.CUdevice(device))
	c, err := l.value(cuDevicePrimaryCtxRetain, v)
	return context(c), err
}

func (l *library) devicePrimaryCtxRelease(device int32) error {
	r := C.call_cuDevicePrimaryCtxRelease(l[cuDevicePrimaryCtxRelease], C.CUdevice(device))
	return l.check(cuDevicePrimaryCtxRelease, r)
}

func (l *library) devicePrimaryCtxIsActive(device int32) (bool, error) {
	v := C.call_cuDevicePrimaryCtxGetState(l[cuDevicePrimaryCtxGetState], C.CUdevice(device))
	active, err := l.value(cuDevicePrimaryCtxGetState, v)
	return active != 0, err
}

func (l *library) ctxGetCurrent() (context, error) {
	c, err := l.value(cuCtxGetCurrent, C.call_cuCtxGetCurrent(l[cuCtxGetCurrent]))
	return context(c), err
}

func (l *library) ctxGetDevice() (int32, error) {
	device, err := l.value(cuCtxGetDevice, C.call_cuCtxGetDevice(l[cuCtxGetDevice]))
	return int32(device), err
}

func (l *library) ctxPushCurrent(c context) error {
	return l.check(cuCtxPushCurrent, C.call_cuCtxPushCurrent(l[cuCtxPushCurrent], C.uintptr_t(c)))
}

func (l *library) ctxPopCurrent() error {
	return l.check(cuCtxPopCurrent, C.call_cuCtxPopCurrent(l[cuCtxPopCurrent]))
}

func (l *library) pointerGetAttributes(address uint64) (attributes, error) {
	a := C.call_cuPointerGetAttributes(l[cuPointerGetAttributes], C.CUdeviceptr(address))
	return attributes{context(a.context), memoryType(a.memory_type), a.managed != 0, int32(a.device)},
		l.check(cuPointerGetAttributes, a.result)
}

func (l *library) memAlloc(bytes int64) (uint64, error) {
	return l.value(cuMemAlloc, C.call_cuMemAlloc(l[cuMemAlloc], C.size_t(bytes)))
}

func (l *library) memFree(address uint64) error {
	return l.check(cuMemFree, C.call_cuMemFree(l[cuMemFree], C.CUdeviceptr(address)))
}

func (l *library) memcpyDtoHAsync(dst, src uint64, bytes int64, on stream) error {
	return l.check(cuMemcpyDtoHAsync, C.call_cuMemcpyDtoHAsync(l[cuMemcpyDtoHAsync],
		C.uintptr_t(dst), C.CUdeviceptr(src), C.size_t(bytes), C.uintptr_t(on)))
}

func (l *library) memcpyHtoDAsync(dst, src uint64, bytes int64, on stream) error {
	return l.check(cuMemcpyHtoDAsync, C.call_cuMemcpyHtoDAsync(l[cuMemcpyHtoDAsync],
		C.CUdeviceptr(dst), C.uintptr_t(src), C.size_t(bytes), C.uintptr_t(on)))
}

func (l *library) memcpyDtoDAsync(dst, src uint64, bytes int64, on stream) error {
	return l.check(cuMemcpyDtoDAsync, C.call_cuMemcpyDtoDAsync(l[cuMemcpyDtoDAsync],
		C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(bytes), C.uintptr_t(on)))
}

func (l *library) memcpyPeerAsync(dst uint64, to context, src uint64, from context, bytes int64, on stream) error {
	return l.check(cuMemcpyPeerAsync, C.call_cuMemcpyPeerAsync(l[cuMemcpyPeerAsync], C.CUdeviceptr(dst),
		C.uintptr_t(to), C.CUdeviceptr(src), C.uintptr_t(from), C.size_t(bytes), C.uintptr_t(on)))
}

func (l *library) memcpy3DAsync(b *block, on stream) error {
	var c C.CUDA_MEMCPY3D
	c.srcMemoryType, c.srcDevice = C.CU_MEMORYTYPE_DEVICE, C.CUdeviceptr(b.src)
	c.srcPitch, c.srcHeight = C.size_t(b.srcPitch), C.size_t(b.srcHeight)
	c.dstMemoryType, c.dstDevice = C.int(b.dstType), C.CUdeviceptr(b.dst)
	if b.dstType == hostMemory {
		c.dstHost = foreign.Pointer(b.dst)
	}
	c.dstPitch, c.dstHeight = C.size_t(b.dstPitch), C.size_t(b.dstHeight)
	c.WidthInBytes, c.Height, c.Depth = C.size_t(b.width), C.size_t(b.rows), C.size_t(b.slices)
	return l.check(cuMemcpy3DAsync, C.call_cuMemcpy3DAsync(l[cuMemcpy3DAsync], &c, C.uintptr_t(on)))
}

func (l *library) streamCreate() (stream, error) {
	s, err := l.value(cuStreamCreate, C.call_cuStreamCreate(l[cuStreamCreate]))
	return stream(s), err
}

func (l *library) streamDestroy(s stream) error {
	return l.check(cuStreamDestroy, C.call_cuStreamDestroy(l[cuStreamDestroy], C.uintptr_t(s)))
}

func (l *library) streamGetCtx(s stream) (context, error) {
	c, err := l.value(cuStreamGetCtx, C.call_cuStreamGetCtx(l[cuStreamGetCtx], C.uintptr_t(s)))
	return context(c), err
}

func (l *library) streamWaitEvent(s stream, e event) error {
	r := C.call_cuStreamWaitEvent(l[cuStreamWaitEvent], C.uintptr_t(s), C.uintptr_t(e))
	return l.check(cuStreamWaitEvent, r)
}

func (l *library) streamSynchronize(s stream) error {
	return l.check(cuStreamSynchronize, C.call_cuStreamSynchronize(l[cuStreamSynchronize], C.uintptr_t(s)))
}

func (l *library) streamIsCapturing(s stream) (captureStatus, error) {
	status, err := l.value(cuStreamIsCapturing, C.call_cuStreamIsCapturing(l[cuStreamIsCapturing], C.uintptr_t(s)))
	return captureStatus(status), err
}

func (l *library) streamGetCaptureInfo(s stream) (capture, error) {
	i := C.call_cuStreamGetCaptureInfo(l[cuStreamGetCaptureInfo], C.uintptr_t(s))
	return capture{captureStatus(i.status), uint64(i.id)}, l.check(cuStreamGetCaptureInfo, i.result)
}

func (l *library) threadExchangeStreamCaptureMode(mode captureMode) (captureMode, error) {
	v := C.call_cuThreadExchangeStreamCaptureMode(l[cuThreadExchangeStreamCaptureMode], C.int(mode))
	previous, err := l.value(cuThreadExchangeStreamCaptureMode, v)
	return captureMode(previous), err
}

func (l *library) eventCreate() (event, error) {
	e, err := l.value(cuEventCreate, C.call_cuEventCreate(l[cuEventCreate]))
	return event(e), err
}

func (l *library) eventRecord(e event, s stream) error {
	r := C.call_cuEventRecord(l[cuEventRecord], C.uintptr_t(e), C.uintptr_t(s))
	return l.check(cuEventRecord, r)
}

func (l *library) eventDestroy(e event) error {
	return l.check(cuEventDestroy, C.call_cuEventDestroy(l[cuEventDestroy], C.uintptr_t(e)))
}

func (l *library) freeFunctions() (FreeFunctions, error) {
	for _, f := range []function{cuPointerGetAttribute, cuCtxPushCurrent, cuMemFree, cuCtxPopCurrent,
		cuDevicePrimaryCtxRelease} {
		if l[f] == nil {
			return FreeFunctions{}, l.check(f, C.MISSING)
		}
	}
	return FreeFunctions{
		PointerGetAttribute:             l[cuPointerGetAttribute],
		CtxPushCurrent:                  l[cuCtxPushCurrent],
		ThreadExchangeStreamCaptureMode: l[cuThreadExchangeStreamCaptureMode],
		MemFree:                         l[cuMemFree],
		CtxPopCurrent:                   l[cuCtxPopCurrent],
		DevicePrimaryCtxRelease:         l[cuDevicePrimaryCtxRelease],
	}, nil
}

// allocate returns host memory from C's allocator, or nil if none is left.
func allocate(bytes int64) unsafe.Pointer {
	return C.allocate(C.size_t(bytes))
}

func free(memory unsafe.Pointer) {
	C.free(memory)
}

package cuda

import "dlpack/pkg/dlpack"

// api is what is used of the CUDA driver API: a method for each function. Each error is a *failure.
type api interface {
	init() error
	deviceGetCount() (int32, error)
	maxPitch(device int32) (int64, error) // of cuDeviceGetAttribute
	devicePrimaryCtxRetain(device int32) (context, error)
	devicePrimaryCtxRelease(device int32) error
	devicePrimaryCtxIsActive(device int32) (bool, error) // by cuDevicePrimaryCtxGetState

	ctxGetCurrent() (context, error) // 0 where the thread has none
	ctxGetDevice() (int32, error)
	ctxPushCurrent(context) error
	ctxPopCurrent() error

	pointerGetAttributes(address uint64) (attributes, error)
	memAlloc(bytes int64) (uint64, error)
	memFree(address uint64) error
	memcpyDtoHAsync(dst, src uint64, bytes int64, on stream) error
	memcpyHtoDAsync(dst, src uint64, bytes int64, on stream) error
	memcpyDtoDAsync(dst, src uint64, bytes int64, on stream) error
	memcpyPeerAsync(dst uint64, to context, src uint64, from context, bytes int64, on stream) error
	memcpy3DAsync(*block, stream) error

	streamCreate() (stream, error)
	streamDestroy(stream) error
	streamGetCtx(stream) (context, error)
	streamWaitEvent(stream, event) error
	streamSynchronize(stream) error
	streamIsCapturing(stream) (captureStatus, error)
	streamGetCaptureInfo(stream) (capture, error)
	threadExchangeStreamCaptureMode(captureMode) (captureMode, error)

	eventCreate() (event, error)
	eventRecord(event, stream) error
	eventDestroy(event) error

	freeFunctions() (FreeFunctions, error)
}

// Handles (CUcontext, CUstream and CUevent) are integers here: as pointers, the streams 1 and 2 would be invalid to Go.
type (
	context uintptr
	stream  uintptr
	event   uintptr
)

// attributes are those of a pointer. The memory type is 0 where the driver doesn't know it.
type attributes struct {
	context    context // 0 for memory of pools and of virtual memory management, which belongs to none
	memoryType memoryType
	managed    bool
	device     int32
}

type memoryType int32

const (
	hostMemory   memoryType = 1 // CU_MEMORYTYPE_HOST
	deviceMemory memoryType = 2 // CU_MEMORYTYPE_DEVICE
)

// A block is what cuMemcpy3DAsync copies: slices of rows of bytes.
type block struct {
	dstType             memoryType
	dst, src            uint64
	dstPitch, srcPitch  int64 // bytes from row to row
	dstHeight           int64 // rows from slice to slice
	srcHeight           int64
	width, rows, slices int64
}

type captureStatus int32

const (
	notCapturing captureStatus = 0 // CU_STREAM_CAPTURE_STATUS_NONE
	capturing    captureStatus = 1 // CU_STREAM_CAPTURE_STATUS_ACTIVE
)

// A capture tells whether a graph is being captured, and which: no other capture in the process has its id.
type capture struct {
	status captureStatus
	id     uint64
}

type captureMode int32

const relaxed captureMode = 2 // CU_STREAM_CAPTURE_MODE_RELAXED

type result int32

// The results that are treated differently from others. The names are cuda.h's, without CUDA_ERROR.
const (
	missing               result = -1 // the driver has no such function
	outOfMemory           result = 2
	notInitialized        result = 3
	invalidContext        result = 201
	invalidHandle         result = 400
	contextIsDestroyed    result = 709
	streamCaptureImplicit result = 906
)

// A failure is a call of the driver that failed.
type failure struct {
	function string
	result   result
	name     string // "CUDA_ERROR_INVALID_VALUE"
}

func (f *failure) Error() string {
	if f.result == missing {
		return "the driver is too old: it has no " + f.function
	}
	return f.function + ": " + f.name
}

// resultOf is the driver's result that err is made of, and 0, CUDA_SUCCESS, for any other err.
func resultOf(err error) result {
	if f, ok := err.(*failure); ok {
		return f.result
	}
	return 0
}

// explain makes the error that the caller sees from a failure: what could not be done, and why.
func explain(err error, what string) error {
	f, ok := err.(*failure)
	if !ok {
		return err
	}
	why := f.Error()
	switch f.result {
	case outOfMemory:
		return dlpack.OutOfMemory(what + " (" + why + ")")
	case notInitialized:
		why += "; a forked child can't use CUDA: use the spawn or forkserver start method"
	case missing:
		why += "; update it"
	}
	return dlpack.Unsupported(what + " (" + why + ")")
}

// first is the first of two errors: after a failure, undoing what was done before may fail as well.
func first(err, later error) error {
	if err != nil {
		return err
	}
	return later
}

package cuda

import "dlpack/pkg/dlpack"

// Handles (CUcontext, CUstream and CUevent) are integers here: as pointers, streams 1 and 2 would be invalid in Go.
type (
	context uintptr
	stream  uintptr
	event   uintptr
)

// attributes are what the driver knows of an address. memoryType is 0 if it doesn't know the address.
type attributes struct {
	context    context // 0 for memory of pools and of virtual memory management, which has no context
	memoryType memoryType
	managed    bool
	device     int32
}

type memoryType int32

const (
	hostMemory   memoryType = 1 // CU_MEMORYTYPE_HOST
	deviceMemory memoryType = 2 // CU_MEMORYTYPE_DEVICE
)

// A block is one copy of cuMemcpy3DAsync: slices of rows of bytes.
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

// A capture says whether a stream's work is being captured into a graph. Its id is unique among the captures of the
// process.
type capture struct {
	status captureStatus
	id     uint64
}

type captureMode int32

const relaxed captureMode = 2 // CU_STREAM_CAPTURE_MODE_RELAXED

type result int32

// Results that need their own treatment. The names are cuda.h's, without CUDA_ERROR.
const (
	missing               result = -1 // the driver has no such function
	outOfMemory           result = 2
	notInitialized        result = 3
	invalidContext        result = 201
	invalidHandle         result = 400
	contextIsDestroyed    result = 709
	streamCaptureImplicit result = 906
)

// A failure is a failed call of the driver.
type failure struct {
	function string
	result   result
	name     string // "CUDA_ERROR_INVALID_VALUE"
}

func (f *failure) Error() string {
	return f.function + ": " + f.name
}

// why returns the values that say why a call failed.
func (f *failure) why() []dlpack.Value {
	why := dlpack.CallFailed
	switch f.result {
	case notInitialized:
		why = dlpack.CallForked
	case missing:
		why = dlpack.CallMissing
	}
	return []dlpack.Value{dlpack.Text("call", f.function), dlpack.Text("result", f.name), dlpack.Worded("why", why)}
}

// resultOf returns the driver's result in err. For any other err it returns 0, CUDA_SUCCESS.
func resultOf(err error) result {
	if f, ok := err.(*failure); ok {
		return f.result
	}
	return 0
}

// explain turns a failure into the error that the caller sees. The saying is what could not be done; explain adds why.
func explain(err error, saying dlpack.Saying, values ...dlpack.Value) error {
	f, ok := err.(*failure)
	if !ok {
		return err
	}
	values = append(values, f.why()...)
	if f.result == outOfMemory {
		return dlpack.OutOfMemory(saying, values...)
	}
	return dlpack.Unsupported(saying, values...)
}

// first returns the earlier of two errors: after a failure, undoing the steps before may fail as well.
func first(err, later error) error {
	if err != nil {
		return err
	}
	return later
}

// Package cuda asks the CUDA driver about memory, orders streams, and copies between devices and the host.
//
// The driver, libcuda.so.1 or nvcuda.dll, is opened when it is first needed and never linked: a machine without one is a normal
// machine. Streams are numbered as in the Python array API standard and in the CUDA array interface: 1 is the legacy
// default stream, 2 the per-thread default stream of the calling thread, any other positive number a handle.
//
// A call leaves the driver's state as it was (contexts pushed, primary contexts retained, the mode of captures,
// streams, events), whatever failed meanwhile. Nothing here switches threads.
package cuda

import (
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/foreign"
)

// Memory is memory of a CUDA device, or of the host where CUDA knows it.
type Memory struct {
	Device  dlpack.Device
	Address uint64
}

// Pointer is the address as a pointer, for memory that the CPU can read.
func (m Memory) Pointer() unsafe.Pointer {
	return foreign.Pointer(m.Address)
}

// A Source is what is copied.
type Source struct {
	Memory               // Address is that of the item whose indices are all 0
	Stream       int64   // work queued on it may still write the memory; or dlpack.UnknownStream
	Shape        []int64 // elements
	Strides      []int64 // bytes, of any sign
	ItemSize     int     // bytes
	Swap         int     // bytes of the words whose bytes are reversed on the way: 2, 4 or 8, or 0 for none
	Below, Above uint64  // bytes that the items reach below and above Address
}

// An Allocation is device memory that was allocated here. Its owner frees it without Go: by the driver's own functions,
// in the memory's context. One of no bytes has the address 0, and needs no freeing.
type Allocation struct {
	Address  uint64
	Context  unsafe.Pointer // CUcontext
	Retained int32          // the device whose primary context it keeps alive, or -1
	Free     FreeFunctions
}

// FreeFunctions are addresses of the driver's functions that free an Allocation, in the order of their use. A driver
// too old to capture graphs has no ThreadExchangeStreamCaptureMode: it is nil.
type FreeFunctions struct {
	PointerGetAttribute, CtxPushCurrent, ThreadExchangeStreamCaptureMode, MemFree, CtxPopCurrent,
	DevicePrimaryCtxRelease unsafe.Pointer
}

// A Driver is the CUDA driver of this process.
type Driver struct{ api }

// Running returns the driver if this process has initialised it. If there is none, or it is not initialised, the error
// says so.
func Running() (*Driver, error) {
	d, err := open()
	if err == nil {
		err = explainState(d.running())
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// running fails if the process has not initialised the driver.
func (d *Driver) running() error {
	_, err := d.ctxGetCurrent()
	return err
}

func explainState(err error) error {
	return explain(err, "the CUDA driver is not running in this process; the library that owns the memory starts it")
}

// Start returns the driver, which it initialises. Only copies to a device do so.
func Start() (*Driver, error) {
	d, err := open()
	if err == nil {
		err = explain(d.init(), "the CUDA driver can't be initialised")
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

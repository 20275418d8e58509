// Package cuda asks the CUDA driver about memory, orders streams, and copies between devices and the host.
//
// It opens the driver, libcuda.so.1 or nvcuda.dll, at the first use and never links it, so that it runs on machines
// without one. Streams have the numbers of the Python array API standard and of the CUDA array interface: 1 is the
// legacy default stream, 2 the per-thread default stream of the calling thread, and any other positive number a handle.
//
// Each call restores the driver's state, even if it fails: it pops contexts, releases primary contexts, resets the
// capture mode, and destroys its streams and events. All work stays on the calling thread.
package cuda

import (
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/foreign"
)

// Memory is memory of a CUDA device, or host memory that CUDA knows.
type Memory struct {
	Device  dlpack.Device
	Address uint64
}

// Pointer returns the address as a pointer, for memory that the CPU can read.
func (m Memory) Pointer() unsafe.Pointer {
	return foreign.Pointer(m.Address)
}

// A Source is strided memory to copy from.
type Source struct {
	Memory               // Address is that of the item whose indices are all 0
	Stream       int64   // work on it may still write the memory; or dlpack.UnknownStream
	Shape        []int64 // number of items along each dimension
	Strides      []int64 // bytes, of any sign
	ItemSize     int     // bytes
	Swap         int     // bytes of the words that the copy reverses, 0 for none
	Below, Above uint64  // bytes that the items reach below and above Address
}

// An Allocation is device memory that this package allocated. Its owner frees it without Go, by calling the driver's
// own functions in the memory's context. An allocation of 0 bytes has address 0, and needn't be freed.
type Allocation struct {
	Address  uint64
	Context  unsafe.Pointer // CUcontext
	Retained int32          // device whose primary context it keeps alive, or -1
	Free     FreeFunctions
}

// FreeFunctions are the addresses of the driver's functions that free an Allocation, in calling order. In a driver too
// old to capture graphs, ThreadExchangeStreamCaptureMode is nil.
type FreeFunctions struct {
	PointerGetAttribute, CtxPushCurrent, ThreadExchangeStreamCaptureMode, MemFree, CtxPopCurrent,
	DevicePrimaryCtxRelease unsafe.Pointer
}

// A Driver is the CUDA driver of this process.
type Driver struct{ *library }

// Running returns the driver if this process has initialised it. Otherwise the error says whether the driver is missing
// or not initialised.
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

// running returns an error if the process hasn't initialised the driver.
func (d *Driver) running() error {
	_, err := d.ctxGetCurrent()
	return err
}

func explainState(err error) error {
	return explain(err, dlpack.DriverNotRunning)
}

// Start initialises the driver and returns it. Only copies to a device do so.
func Start() (*Driver, error) {
	d, err := open()
	if err == nil {
		err = explain(d.init(), dlpack.DriverNotStarted)
	}
	if err != nil {
		return nil, err
	}
	return d, nil
}

// Package foreign reads and writes memory that is not Go's, by its address. A fault there is an error of the caller's, not
// the end of the process.
package foreign

import (
	"runtime/debug"
	"unsafe"
)

// Pointer makes an address a pointer. Vet can't know that the memory is not Go's.
func Pointer(address uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// At is [Pointer] to so many bytes. It panics as a fault does if no memory can lie there.
func At(address, bytes uint64) unsafe.Pointer {
	if !mayLie(address, bytes) {
		panic(fault(address))
	}
	return Pointer(address)
}

// mayLie tells whether memory may lie at an address and `bytes` on from it. Go takes a fault on the first page for its own
// use of a nil pointer; and arm64 leaves out an address's top byte, so that 1<<60 is that page.
func mayLie(address, bytes uint64) bool {
	end := address + bytes
	return address<<8 >= 4096<<8 && end >= address && end>>56 == address>>56
}

// A fault is the panic for an address that no memory can have.
type fault uintptr

func (f fault) Addr() uintptr { return uintptr(f) }

// Touch runs f, which reads or writes foreign memory on this goroutine. It returns the address of the fault that ended f,
// 0 if the processor doesn't say it, and whether there was one. Other panics go on.
func Touch(f func()) (address uint64, faulted bool) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		cause := recover()
		if at, ok := cause.(interface{ Addr() uintptr }); ok {
			address, faulted = uint64(at.Addr()), true
		} else if cause != nil {
			panic(cause)
		}
	}()
	f()
	return 0, false
}

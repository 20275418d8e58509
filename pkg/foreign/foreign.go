// Package foreign reads and writes memory that is not Go's, by its address. [Touch] reports a fault there to its
// caller; without it, the fault would end the process.
package foreign

import (
	"runtime/debug"
	"unsafe"
)

// Pointer converts an address to a pointer, in a form that go vet accepts: vet can't know that the memory is not Go's.
func Pointer(address uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// At is [Pointer] to `bytes` bytes of memory. If no memory can lie there, it panics as a fault does.
func At(address, bytes uint64) unsafe.Pointer {
	if !mayLie(address, bytes) {
		panic(fault(address))
	}
	return Pointer(address)
}

// mayLie reports whether memory can lie at the `bytes` bytes from an address on. Go takes a fault on the first page for
// a nil pointer of its own, so that page is excluded. arm64 ignores the top byte of an address: 1<<60 is that page as
// well.
func mayLie(address, bytes uint64) bool {
	end := address + bytes
	return address<<8 >= 4096<<8 && end >= address && end>>56 == address>>56
}

// A fault is the panic value for an address that no memory can have.
type fault uintptr

func (f fault) Addr() uintptr { return uintptr(f) }

// Touch runs f, which reads or writes foreign memory on this goroutine. If a fault ends f, faulted is true, and address
// is the fault's address, or 0 if the processor doesn't report it. Other panics pass through.
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

//go:build !windows

package cuda

// #cgo linux LDFLAGS: -ldl
// #include <dlfcn.h>
import "C"

import "unsafe"

// openDriver returns a function that finds the driver's functions, or nil and the reason why it can't open the driver.
func openDriver() (find func(name string) unsafe.Pointer, why string) {
	handle := C.dlopen(text("libcuda.so.1"), C.RTLD_LAZY|C.RTLD_LOCAL)
	if handle == nil {
		return nil, C.GoString(C.dlerror())
	}
	return func(name string) unsafe.Pointer { return C.dlsym(handle, text(name)) }, ""
}

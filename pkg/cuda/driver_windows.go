package cuda

// #include <windows.h>
//
// static void *open_library(char *name, DWORD *error)
// {
//     void *library = LoadLibraryExA(name, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32);
//     *error = GetLastError();
//     return library;
// }
//
// static void *find_symbol(void *library, char *name) { return (void *)GetProcAddress(library, name); }
import "C"

import (
	"syscall"
	"unsafe"
)

// openDriver returns a function that finds the driver's functions, or nil and the reason why it can't open the driver.
func openDriver() (find func(name string) unsafe.Pointer, why string) {
	var failure C.DWORD
	handle := C.open_library(text("nvcuda.dll"), &failure)
	if handle == nil {
		return nil, "nvcuda.dll: " + syscall.Errno(failure).Error()
	}
	return func(name string) unsafe.Pointer { return C.find_symbol(handle, text(name)) }, ""
}

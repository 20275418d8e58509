package cuda

// #include <windows.h>
//
// static void *open_library(char *name) { return LoadLibraryExA(name, NULL, LOAD_LIBRARY_SEARCH_SYSTEM32); }
// static void *find_symbol(void *library, char *name) { return (void *)GetProcAddress(library, name); }
import "C"

import "unsafe"

// openDriver gives what finds the driver's functions, or nil and why it can't be opened.
func openDriver() (find func(name string) unsafe.Pointer, why string) {
	handle, err := C.open_library(text("nvcuda.dll"))
	if handle == nil {
		return nil, "nvcuda.dll: " + err.Error()
	}
	return func(name string) unsafe.Pointer { return C.find_symbol(handle, text(name)) }, ""
}

package main

// #include <malloc.h>
// #include "core.h"
import "C"

import "unsafe"

// allocate gives memory aligned as copies are, or nil where there is none left.
func allocate(bytes int64) unsafe.Pointer {
	return C._aligned_malloc(C.size_t(max(bytes, 1)), C.COPY_ALIGNMENT)
}

// free takes what allocate gave; the extension's free_aligned does, too.
func free(memory unsafe.Pointer) { C._aligned_free(memory) }

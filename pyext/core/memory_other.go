//go:build !linux && !windows

package main

// #include <stdlib.h>
// #include "core.h"
import "C"

import "unsafe"

// allocate gives memory aligned as copies are, or nil where there is none left.
func allocate(bytes int64) (memory unsafe.Pointer) {
	if C.posix_memalign(&memory, C.COPY_ALIGNMENT, C.size_t(max(bytes, 1))) != 0 {
		return nil
	}
	return memory
}

// free takes what allocate gave; the extension's free_aligned does, too.
func free(memory unsafe.Pointer) { C.free(memory) }

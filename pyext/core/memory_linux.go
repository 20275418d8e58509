package main

// #include <stdlib.h>
// #include "core.h"
import "C"

import (
	"syscall"
	"unsafe"
)

// hugeBytes is the least memory that huge pages are asked for. They take most of the time away that a copy to fresh
// memory spends, which the kernel clears page by page.
const hugeBytes = 4 << 20

// allocate gives memory aligned as copies are, or nil where there is none left.
func allocate(bytes int64) (memory unsafe.Pointer) {
	if C.posix_memalign(&memory, C.COPY_ALIGNMENT, C.size_t(max(bytes, 1))) != 0 {
		return nil
	}
	if bytes >= hugeBytes {
		page := uintptr(syscall.Getpagesize())
		first := -uintptr(memory) % page
		syscall.Madvise(unsafe.Slice((*byte)(unsafe.Add(memory, first)), uintptr(bytes)-first), syscall.MADV_HUGEPAGE)
	}
	return memory
}

// free takes what allocate gave; the extension's free_aligned does, too.
func free(memory unsafe.Pointer) { C.free(memory) }

//go:build !linux

package main

// #include "core.h"
import "C"

// dlpack_core is the core's entry, where no memory and no threads are kept for Go.
//
//export dlpack_core
func dlpack_core(core *C.struct_core) { dlpackStart(core) }

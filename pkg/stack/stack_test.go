package stack

import (
	"testing"
	"unsafe"
)

//go:noinline
func fill(bytes int) byte {
	var frame [1 << 10]byte
	frame[bytes%len(frame)] = 1
	if bytes > len(frame) {
		return fill(bytes-2*len(frame)) + frame[0]
	}
	return frame[1]
}

// A stack that grows is moved.
func TestReservedStackIsNotMovedByDeepCalls(t *testing.T) {
	done := make(chan [3]uintptr)
	go func() {
		var here [1]byte
		at := func() uintptr { return uintptr(unsafe.Pointer(&here[0])) }
		first := at()
		Reserve()
		reserved := at()
		fill(Free * 3 / 2) // of each 2 KiB a frame takes 1 KiB and some
		done <- [3]uintptr{first, reserved, at()}
	}()
	if at := <-done; at[0] == at[1] || at[1] != at[2] {
		t.Errorf("the stack was at %#x, %#x after Reserve, and %#x after deep calls", at[0], at[1], at[2])
	}
}

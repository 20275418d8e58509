package foreign

import (
	"testing"
	"unsafe"
)

func TestReadableMemoryIsTouched(t *testing.T) {
	value := byte(7)
	got := byte(0)
	address, faulted := Touch(func() { got = *(*byte)(At(uint64(uintptr(unsafe.Pointer(&value))), 1)) })
	if address != 0 || faulted || got != 7 {
		t.Errorf("%#x, %t, %d", address, faulted, got)
	}
}

func TestAFaultIsTold(t *testing.T) {
	for _, address := range []uint64{1 << 40, 8, 1 << 60, 1<<64 - 1} {
		got, faulted := Touch(func() { _ = *(*[2]byte)(At(address, 2)) })
		if !faulted || (address == 1<<40 && got>>12 != address>>12) || (address != 1<<40 && got != address) {
			t.Errorf("%#x: %#x, %t", address, got, faulted)
		}
	}
}

func TestAnotherPanicGoesOn(t *testing.T) {
	defer func() {
		if cause := recover(); cause != "another" {
			t.Error(cause)
		}
	}()
	Touch(func() { panic("another") })
}

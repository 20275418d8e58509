package arrow

import (
	"math/bits"
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/foreign"
)

// The fields of an array's buffers, of the first of them, the validity bitmap, and of a device array's event.
const (
	buffers   = "ArrowArray.buffers"
	bitmap    = "ArrowArray.buffers[0]"
	syncEvent = "ArrowDeviceArray.sync_event"
)

// memory reads C's memory by address. It notes the field and the address for the error if a read faults.
type memory struct {
	protocol string // errors begin with it
	field    string
	address  uint64
}

// touch runs f, which reads through m. A read that faults ends f and becomes an error.
func (m *memory) touch(f func() error) (err error) {
	fault, faulted := foreign.Touch(func() { err = f() })
	if faulted {
		address := max(m.address, fault) // fault is 0 if the processor doesn't report it
		saying, field := dlpack.ArrowUnreadable, m.field
		if field == bitmap {
			saying, field = dlpack.BitmapUnreadable, buffers
		}
		return m.refuse(saying, dlpack.Text("field", field), dlpack.Address("address", address))
	}
	return err
}

// at notes the field and the address, and returns a pointer to the field's value of `bytes` bytes.
func (m *memory) at(field string, address, bytes uint64) unsafe.Pointer {
	m.field, m.address = field, address
	return foreign.At(address, bytes)
}

// load returns a copy of the value at an address.
func load[T any](m *memory, field string, address uint64) T {
	return *(*T)(m.at(field, address, uint64(unsafe.Sizeof(*new(T)))))
}

// bytes returns text of a known length without copying it, so reading the text may fault.
func (m *memory) bytes(field string, address, length uint64) string {
	return unsafe.String((*byte)(m.at(field, address, length)), length)
}

// text returns text that ends with a NUL, without copying it.
func (m *memory) text(field string, address uint64) string {
	start := m.at(field, address, 1)
	length := 0
	for *(*byte)(unsafe.Add(start, length)) != 0 {
		length++
	}
	return unsafe.String((*byte)(start), length)
}

// countBits counts the 1 bits among `count` bits of a bitmap, from bit `first` on. The lowest bit of a byte comes
// first.
func (m *memory) countBits(field string, address uint64, first, count int64) int64 {
	bitmap := m.at(field, address, uint64(first+count+7)/8)
	ones, i, end := 0, first, first+count
	for i < end {
		if i%8 == 0 && end-i >= 64 {
			ones += bits.OnesCount64(*(*uint64)(unsafe.Add(bitmap, i/8)))
			i += 64
		} else {
			ones += int(*(*byte)(unsafe.Add(bitmap, i/8)) >> (i % 8) & 1)
			i++
		}
	}
	return int64(ones)
}

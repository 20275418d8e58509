package arrow

import (
	"math/bits"
	"strconv"
	"unsafe"

	"dlpack/pkg/foreign"
)

// memory reads C's memory by address, and knows what it reads, for the message where that can't be read.
type memory struct {
	protocol string // messages begin with it
	field    string
	address  uint64
}

// touch runs f, which reads by m. A read that faults ends it, and is an error.
func (m *memory) touch(f func() error) (err error) {
	fault, faulted := foreign.Touch(func() { err = f() })
	if faulted {
		address := max(m.address, fault) // fault is 0 if no memory can have the address
		return m.refuse(m.field + " leads to 0x" + strconv.FormatUint(address, 16) +
			", which can't be read; expected an address that is mapped")
	}
	return err
}

// at prepares to read the value of a field, `bytes` long, and makes its address a pointer.
func (m *memory) at(field string, address, bytes uint64) unsafe.Pointer {
	m.field, m.address = field, address
	return foreign.At(address, bytes)
}

// load copies what lies at an address.
func load[T any](m *memory, field string, address uint64) T {
	return *(*T)(m.at(field, address, uint64(unsafe.Sizeof(*new(T)))))
}

// bytes is text at an address, which is not copied: who reads it may fault.
func (m *memory) bytes(field string, address, length uint64) string {
	return unsafe.String((*byte)(m.at(field, address, length)), length)
}

// text is text at an address up to a NUL, which is not copied.
func (m *memory) text(field string, address uint64) string {
	start := m.at(field, address, 1)
	length := 0
	for *(*byte)(unsafe.Add(start, length)) != 0 {
		length++
	}
	return unsafe.String((*byte)(start), length)
}

// countBits counts the bits that are 1, of a bitmap whose bytes begin with the lowest bit.
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

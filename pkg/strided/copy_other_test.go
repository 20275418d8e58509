//go:build !windows

package strided

import (
	"bytes"
	"syscall"
	"testing"
	"unsafe"
)

func TestNoWorkerIsLeftWhenTheMemoryFaults(t *testing.T) {
	const pages, page = 64, 4096
	memory, err := syscall.Mmap(-1, 0, pages*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(memory)
	const hole = 40
	if err := syscall.Mprotect(memory[hole*page:(hole+1)*page], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	dst, src := make([]byte, len(memory)), unsafe.Pointer(&memory[0])
	for workers := 1; workers <= 5; workers++ {
		for _, layout := range []struct {
			strides        []int64
			itemSize, swap int
		}{{[]int64{page, 1}, 1, 0}, {[]int64{1, pages}, 1, 0}, {[]int64{page, 4}, 4, 4}, {[]int64{4, 4 * pages}, 4, 0}} {
			func() {
				defer func() {
					fault, ok := recover().(interface{ Addr() uintptr })
					if !ok || fault.Addr()-uintptr(src) < hole*page || fault.Addr()-uintptr(src) >= (hole+1)*page {
						t.Errorf("%d workers, %v: %v; want a fault of page %d", workers, layout, fault, hole)
					}
				}()
				shape := []int64{pages, int64(page / layout.itemSize)}
				by(workers, page)(unsafe.Pointer(&dst[0]), src, shape, layout.strides, layout.itemSize, layout.swap)
			}()
			clear(dst) // the race detector's: no worker still writes
		}
	}
}

// The bytes behind the last item may be unreadable.
func TestEverySecondItemAtTheEndOfMemory(t *testing.T) {
	const page, most = 4096, 70
	memory, err := syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(memory)
	for i := range memory {
		memory[i] = byte(i * 7 >> 2)
	}
	if err := syscall.Mprotect(memory[page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	for _, itemSize := range []int{2, 4, 8, 16} {
		for n := int64(1); n <= most; n++ {
			shape, strides := []int64{n}, []int64{int64(2 * itemSize)}
			_, high := span(shape, strides, itemSize)
			s := source{memory[:page], page - high, shape, strides, itemSize, 0}
			s.check(t, int(n%3), Copy)
		}
	}
}

func TestCopyReachesItemsGigabytesApart(t *testing.T) {
	const length, row = 6 << 30, 3 << 30
	memory, err := syscall.Mmap(-1, 0, length, syscall.PROT_READ|syscall.PROT_WRITE,
		syscall.MAP_PRIVATE|syscall.MAP_ANON|syscall.MAP_NORESERVE)
	if err != nil {
		t.Skip("no address space: ", err)
	}
	defer syscall.Munmap(memory)
	for _, strides := range [][]int64{{row, row/2 + 1}, {row/2 + 1, row}, {-row, row / 2}, {-row / 2, -row}} {
		s := source{memory, 0, []int64{2, 2}, strides, 1, 0}
		low, _ := span(s.shape, strides, 1)
		s.offset = -low
		for i := range int64(4) {
			memory[int64(s.offset)+i/2*strides[0]+i%2*strides[1]] = byte(i + 1)
		}
		if got := s.copy(t, 0, Copy); !bytes.Equal(got, []byte{1, 2, 3, 4}) {
			t.Errorf("strides %d: %d", strides, got)
		}
	}
}

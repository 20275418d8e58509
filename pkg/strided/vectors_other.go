//go:build !amd64

package strided

import "unsafe"

func swappedVectors[T uint16 | uint32 | uint64](_, _ unsafe.Pointer, _ int) int { return 0 }

func rowVectors(_, _ unsafe.Pointer, _ dim, _ int) bool { return false }

func downVectors(_, _ unsafe.Pointer, _, _ int, _ bool) int { return 0 }

func everySecond(_, _ unsafe.Pointer, _, _ int) int { return 0 }

func canTranspose(int) bool { return false }

func transposeVectors(_ unsafe.Pointer, _ int, _ unsafe.Pointer, _, _, _, _ int) (int, int) {
	return 0, 0
}

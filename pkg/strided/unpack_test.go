package strided

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"
)

// unpack unpacks into memory with a guard behind it.
func unpack(t testing.TB, src []byte, first, n int) []byte {
	t.Helper()
	dst := bytes.Repeat([]byte{guard}, n+1)
	Unpack(unsafe.Pointer(&dst[0]), unsafe.Pointer(unsafe.SliceData(src)), first, n)
	if dst[n] != guard {
		t.Fatalf("a byte behind the destination's %d was written", n)
	}
	return dst[:n]
}

func TestUnpackReadsNoByteWithoutABitOfItsOwn(t *testing.T) {
	// A slice of exactly the bytes needed: the checker of pointers finds what goes beyond.
	random := rand.NewChaCha8([32]byte{})
	for first := range 8 {
		for n := 1; n < 70; n++ {
			src := make([]byte, (first+n+7)/8)
			random.Read(src)
			for i, got := range unpack(t, src, first, n) {
				if want := src[(first+i)/8] >> ((first + i) % 8) & 1; got != want {
					t.Fatalf("bit %d of %08b from bit %d: %d", i, src, first, got)
				}
			}
		}
	}
}

func TestPackIsUndoneByPad(t *testing.T) {
	random := rand.NewChaCha8([32]byte{})
	for bits := 1; bits < 8; bits++ {
		for n := range 70 {
			memory := make([]byte, n) // of its own size, which the checker of pointers knows
			random.Read(memory)
			want := slices.Clone(memory)
			packed := make([]byte, (n*bits+7)/8)
			for i := range want {
				want[i] &= 1<<bits - 1
				for bit := range bits {
					packed[(i*bits+bit)/8] |= want[i] >> bit & 1 << ((i*bits + bit) % 8)
				}
			}
			Pack(unsafe.Pointer(unsafe.SliceData(memory)), n, bits)
			if got := memory[:len(packed)]; !bytes.Equal(got, packed) {
				t.Fatalf("%d of %d bits: %08b; want %08b", want, bits, got, packed)
			}
			Pad(unsafe.Pointer(unsafe.SliceData(memory)), n, bits)
			if !bytes.Equal(memory, want) {
				t.Fatalf("%d of %d bits: %d; want %d", n, bits, memory, want)
			}
		}
	}
}

func FuzzUnpack(f *testing.F) {
	f.Add([]byte{}, uint8(0), uint8(0))
	f.Add([]byte{0b10110010}, uint8(4), uint8(0))
	f.Add([]byte{0b10000000, 0b1}, uint8(7), uint8(7)) // a bit of each byte
	f.Add([]byte("eight bits at once"), uint8(3), uint8(2))
	f.Fuzz(func(t *testing.T, src []byte, first, behind uint8) {
		src = bytes.Clone(src) // of its own size, which the checker of pointers knows
		var want []byte
		for _, letter := range src {
			for range 8 {
				want = append(want, letter%2)
				letter /= 2
			}
		}
		begin := min(int(first%8), len(want))
		want = want[begin:max(begin, len(want)-int(behind%8))]
		if got := unpack(t, src, begin, len(want)); !bytes.Equal(got, want) {
			t.Fatalf("%08b from bit %d: %v; want %v", src, begin, got, want)
		}
	})
}

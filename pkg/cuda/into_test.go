package cuda

import (
	"bytes"
	"testing"
	"unsafe"

	"dlpack/pkg/dlpack"
)

func TestBytesOfTheHostAreWritten(t *testing.T) {
	for _, stream := range []int64{dlpack.UnknownStream, dlpack.LegacyStream} {
		f, d := newFake(t)
		m := f.add(attributes{primary(1), deviceMemory, false, 1}, 8)
		src := []byte("8 bytes.")
		err := d.Write(Target{m, stream}, unsafe.Pointer(&src[0]), 8)
		if err != nil || string(f.span(m.Address, 8)) != "8 bytes." || copies(f.log) != "HtoDAsync 8" {
			t.Error(err, f.log)
		}
		f.balanced(0, 0, 1)
	}
}

func TestMemoryOfADeviceIsReplaced(t *testing.T) {
	for _, test := range layouts {
		for device, calls := range map[int32]string{1: test.onDevice, 2: test.toPeer} {
			t.Run(test.name, func(t *testing.T) {
				f, d := newFake(t)
				l := layoutOf(test.shape, test.strides, test.swap)
				source := l.on(f, attributes{primary(1), deviceMemory, false, 1}, dlpack.UnknownStream)
				m := f.add(attributes{primary(device), deviceMemory, false, device}, int(l.bytes()))
				err := d.CopyInto(Target{m, dlpack.UnknownStream}, source)
				if log := copies(f.log); log != calls {
					t.Errorf("%s; expected %s", log, calls)
				}
				if calls == "" {
					if kindOf(t, err, "(copy-") != dlpack.ErrUnsupported {
						t.Error(err)
					}
				} else if err != nil || !bytes.Equal(f.span(m.Address, l.bytes()), l.slowCopy()) {
					t.Error("wrong values", err)
				}
				f.balanced(0, 0, 2)
			})
		}
	}
}

func TestOverlappingMemoryIsReadBeforeItIsReplaced(t *testing.T) {
	f, d := newFake(t)
	m := f.add(attributes{primary(1), deviceMemory, false, 1}, 9)
	copy(f.span(m.Address, 9), "123456789")
	source := &Source{Memory: m, Shape: ints{8}, Strides: ints{1}, ItemSize: 1, Above: 8}
	err := d.CopyInto(Target{Memory{m.Device, m.Address + 1}, dlpack.LegacyStream}, source)
	if got := string(f.span(m.Address, 9)); err != nil || got != "112345678" || copies(f.log) != "DtoDAsync 8, DtoDAsync 8" {
		t.Error(got, err, f.log)
	}
	f.balanced(0, 0, 1)
}

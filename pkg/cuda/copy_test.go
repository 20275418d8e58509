package cuda

import (
	"bytes"
	"strings"
	"testing"
	"unsafe"

	"dlpack/pkg/dlpack"
)

// on puts a layout into memory of a device.
func (l *layout) on(f *fake, a attributes, producer int64) *Source {
	l.Memory = f.add(a, len(l.memory))
	copy(f.span(l.Address, int64(len(l.memory))), l.memory)
	l.Address += uint64(l.offset)
	l.Stream = producer
	return &l.Source
}

var layouts = []struct {
	name           string
	shape, strides ints // strides count items
	swap           int
	toHost         string // the calls that copy; "" if it is refused
	onDevice       string
	toPeer         string
}{
	{"compact", ints{3, 5}, ints{5, 1}, 0, "DtoHAsync 60", "DtoDAsync 60", "PeerAsync 60"},
	{"a scalar", ints{}, ints{}, 0, "DtoHAsync 4", "DtoDAsync 4", "PeerAsync 4"},
	{"rows with gaps", ints{3, 5}, ints{90, 1}, 0, "3DAsync [20 3 1]", "3DAsync [20 3 1]",
		"3DAsync [20 3 1], PeerAsync 60"},
	{"a block", ints{2, 3, 5}, ints{120, 12, 1}, 0, "3DAsync [20 3 2]", "3DAsync [20 3 2]",
		"3DAsync [20 3 2], PeerAsync 120"},
	{"reversed rows", ints{2, 5}, ints{-5, 1}, 0, "DtoHAsync 20, DtoHAsync 20", "DtoDAsync 20, DtoDAsync 20",
		"DtoDAsync 20, DtoDAsync 20, PeerAsync 40"},
	{"transposed", ints{3, 5}, ints{1, 3}, 0, "DtoHAsync 60", "", ""},
	{"reversed", ints{15}, ints{-1}, 0, "DtoHAsync 60", "", ""},
	{"every second column", ints{3, 5}, ints{10, 2}, 0, "DtoHAsync 116", "", ""},
	{"one item broadcast", ints{3, 5}, ints{0, 0}, 0, "DtoHAsync 4", "", ""},
	{"every third column", ints{3, 5}, ints{15, 3}, 0, "", "", ""},
	{"every fourth column", ints{3, 5}, ints{20, 4}, 0, "", "", ""},
	{"reversed columns far apart", ints{3, 5}, ints{20, -4}, 0, "", "", ""},
	{"compact, byte-swapped", ints{3, 5}, ints{5, 1}, 4, "DtoHAsync 60", "", ""},
	{"half-words byte-swapped", ints{3, 5}, ints{5, 1}, 2, "DtoHAsync 60", "", ""},
	{"rows with gaps, byte-swapped", ints{3, 5}, ints{90, 1}, 4, "3DAsync [20 3 1]", "", ""},
	{"transposed, byte-swapped", ints{3, 5}, ints{1, 3}, 4, "DtoHAsync 60", "", ""},
	{"reversed, byte-swapped", ints{3, 5}, ints{-5, -1}, 4, "DtoHAsync 60", "", ""},
}

func layoutOf(shape, strides ints, swap int) *layout {
	inBytes := make(ints, len(strides))
	for k, s := range strides {
		inBytes[k] = 4 * s
	}
	l := lay(shape, inBytes, 4, swap)
	return &l
}

// copies are the calls of a log that copy.
func copies(log []string) string {
	var left []string
	for _, line := range log {
		if strings.Contains(line, "Async") {
			left = append(left, line)
		}
	}
	return strings.Join(left, ", ")
}

func TestItemsAreCopiedToTheHost(t *testing.T) {
	for _, test := range layouts {
		t.Run(test.name, func(t *testing.T) {
			f, d := newFake(t)
			l := layoutOf(test.shape, test.strides, test.swap)
			source := l.on(f, attributes{primary(1), deviceMemory, false, 1}, dlpack.UnknownStream)
			dst := make([]byte, l.bytes())
			err := d.ToHost(unsafe.Pointer(&dst[0]), source)
			if log := copies(f.log); log != test.toHost {
				t.Errorf("%s; expected %s", log, test.toHost)
			}
			if test.toHost == "" {
				if kindOf(t, err, "scattered-on-device", "device=kDLCUDA:1", " (co") != dlpack.ErrUnsupported {
					t.Error(err)
				}
			} else if err != nil || !bytes.Equal(dst, l.slowCopy()) {
				t.Errorf("%v: %x; expected %x", err, dst, l.slowCopy())
			}
			f.balanced(0, 0, 1)
		})
	}
}

func TestItemsAreCopiedToADevice(t *testing.T) {
	for _, test := range layouts {
		for target, calls := range map[int32]string{1: test.onDevice, 2: test.toPeer} {
			t.Run(test.name, func(t *testing.T) {
				f, d := newFake(t)
				l := layoutOf(test.shape, test.strides, test.swap)
				source := l.on(f, attributes{primary(1), deviceMemory, false, 1}, dlpack.UnknownStream)
				a, err := d.ToDevice(cudaDevice(target), source)
				if log := copies(f.log); log != calls {
					t.Errorf("%s; expected %s", log, calls)
				}
				if calls == "" {
					if kindOf(t, err, "(copy-") != dlpack.ErrUnsupported || a.Address != 0 {
						t.Error(a, err)
					}
					f.balanced(0, 0, 1)
					return
				}
				if err != nil || !bytes.Equal(f.span(a.Address, l.bytes()), l.slowCopy()) {
					t.Error("wrong values", err)
				}
				if a.context() != primary(target) || a.Free.MemFree != unsafe.Pointer(f) {
					t.Error(a)
				}
				giveBack(t, d, &a)
				f.balanced(0, 0, 1)
			})
		}
	}
}

// giveBack gives an allocation back.
func giveBack(t *testing.T, d *Driver, a *Allocation) {
	if err := d.inRelaxedMode(func() error { return d.release(a) }); err != nil {
		t.Error(err)
	}
}

var hostBytes = []byte("bytes of the host") // whose address stays

// given are the items of FromHost.
func given(src []byte) func() (unsafe.Pointer, func(), error) {
	return func() (unsafe.Pointer, func(), error) { return unsafe.Pointer(&src[0]), func() {}, nil }
}

func TestBytesOfTheHostAreCopiedToADevice(t *testing.T) {
	f, d := newFake(t)
	src := hostBytes
	a, err := d.FromHost(cudaDevice(2), int64(len(src)), given(src))
	if err != nil || !bytes.Equal(f.span(a.Address, int64(len(src))), src) {
		t.Error(a, err)
	}
	if a.context() != primary(2) || a.Retained != 2 || a.Free.MemFree != unsafe.Pointer(f) {
		t.Error("not freed in its context:", a)
	}
	if log := acts(f.log); log != "mode 2, retain 2, push 0x3000, allocate 17, pop, "+
		"push 0x3000, create stream, HtoDAsync 17, synchronize a, destroy stream a, pop, mode 0" {
		t.Error(log)
	}
	giveBack(t, d, &a)
	f.balanced(0, 0, 0)
}

func TestACopyWaitsForTheProducerAndIsWaitedFor(t *testing.T) {
	f, d, _, number := scene(t)
	l := layoutOf(ints{3}, ints{1}, 0)
	source := l.on(f, attributes{other, deviceMemory, false, 1}, number(handleA))
	dst := make([]byte, l.bytes())
	if err := d.ToHost(unsafe.Pointer(&dst[0]), source); err != nil {
		t.Error(err)
	}
	if log := acts(f.log); log != "mode 2, push 0x9000, create stream, "+
		"push 0x2000, create event, record on a, push 0x9000, e waits, pop, destroy event, pop, "+
		"DtoHAsync 12, synchronize e, destroy stream e, pop, mode 0" {
		t.Error(log)
	}
	f.balanced(4, 0, 2)
}

func TestACopyOnTheDeviceIsOfTheMemorysContext(t *testing.T) {
	for _, test := range []struct {
		name           string
		owner, current context
		inactive       bool // the primary context
		context        context
		retained       int32
	}{
		{"its own", other, primary(1), true, other, -1},
		{"its own, beside the primary one", other, primary(1), false, other, -1},
		{"its own, the primary one", primary(1), 0, false, primary(1), 1},
		{"the current one, of memory of a pool", 0, other, true, other, -1},
		{"the current one, the primary one, of memory of a pool", 0, primary(1), false, primary(1), 1},
		{"the primary one, of memory of a pool", 0, 0, true, primary(1), 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, d := newFake(t)
			f.inactive = test.inactive
			if test.current != 0 {
				f.current = []context{test.current}
			}
			l := layoutOf(ints{2, 3}, ints{30, 1}, 0)
			a, err := d.ToDevice(cudaDevice(1), l.on(f, attributes{test.owner, deviceMemory, false, 1}, 1))
			if err != nil || a.context() != test.context || a.Retained != test.retained {
				t.Errorf("%v, %v; expected %#x, %d", a, err, test.context, test.retained)
			}
			if f.retained[1] != int(max(a.Retained, 0)) {
				t.Errorf("the primary context is retained %d times", f.retained[1])
			}
			if made := strings.Contains(acts(f.log), "retain 1"); made != (!test.inactive || test.retained == 1) {
				t.Error("a primary context is made to compare it")
			}
			giveBack(t, d, &a)
			f.current = nil
			f.balanced(0, 0, 1)
		})
	}
}

func TestNothingIsCopiedOfMemoryWithoutItems(t *testing.T) {
	f, d := newFake(t)
	source := Source{Memory: Memory{cudaDevice(1), 0}, Stream: 1, Shape: ints{3, 0}, Strides: ints{8, 8}, ItemSize: 8}
	if err := d.ToHost(nil, &source); err != nil || len(f.log) != 0 {
		t.Error(err, f.log)
	}
	for _, copied := range []func() (Allocation, error){
		func() (Allocation, error) { return d.ToDevice(cudaDevice(1), &source) },
		func() (Allocation, error) { return d.ToDevice(cudaDevice(2), &source) },
		func() (Allocation, error) { return d.FromHost(cudaDevice(2), 0, nil) },
	} {
		if a, err := copied(); err != nil || a != (Allocation{Retained: -1}) {
			t.Error(a, err)
		}
	}
	f.balanced(0, 0, 0)
}

func TestADeviceThatIsNotThereIsRefused(t *testing.T) {
	f, d := newFake(t)
	l := layoutOf(ints{3}, ints{1}, 0)
	source := l.on(f, attributes{primary(1), deviceMemory, false, 1}, dlpack.UnknownStream)
	for _, id := range []int32{-1, 3, 1 << 30} {
		_, err := d.ToDevice(cudaDevice(id), source)
		if kindOf(t, err, "no-such-device: device="+cudaDevice(id).String(), "count=3") != dlpack.ErrUnsupported {
			t.Error(err)
		}
		_, err = d.FromHost(cudaDevice(id), 0, nil)
		if kindOf(t, err, "no-such-device: device="+cudaDevice(id).String()) != dlpack.ErrUnsupported {
			t.Error(err)
		}
	}
}

func TestNoMemoryOfTheHostIsAMemoryError(t *testing.T) {
	f, d := newFake(t)
	m := f.add(attributes{primary(1), deviceMemory, false, 1}, 1)
	const n = 1 << 60
	err := d.ToHost(nil, &Source{Memory: m, Shape: ints{n}, Strides: ints{-1}, ItemSize: 1, Below: n - 1, Above: 1})
	if kindOf(t, err, "no-host-memory: bytes=1152921504606846976") != dlpack.ErrOutOfMemory {
		t.Error(err)
	}
	f.balanced(0, 0, 1)
}

func TestNoMemoryOfTheDeviceIsAMemoryError(t *testing.T) {
	f, d := newFake(t)
	f.failAt, f.result = 6, outOfMemory
	_, err := d.FromHost(cudaDevice(2), 123, nil) // which are not asked for
	message := "not-copied: bytes=123, from=host, to=kDLCUDA:2, call=cuMemAlloc_v2, result=CUDA_ERROR_2, why=call-failed"
	if kindOf(t, err, message) != dlpack.ErrOutOfMemory {
		t.Error(err, f.log)
	}
	f.balanced(0, 0, 0)
}

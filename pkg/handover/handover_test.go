package handover

import (
	"bytes"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"dlpack/pkg/cuda"
	"dlpack/pkg/dlpack"
)

// An allocator returns Go's memory, at most `most` bytes per call.
type allocator struct {
	most   int64
	copied []byte
}

func (a *allocator) ForCopy(bytes int64) unsafe.Pointer {
	if bytes > a.most {
		return nil
	}
	a.copied = append(make([]byte, bytes), guard...)[:bytes]
	return unsafe.Pointer(unsafe.SliceData(a.copied))
}

const guard = "not a byte of it"

// contents returns the copy, and fails the test if a byte behind it was written.
func (a *allocator) contents(t *testing.T) []byte {
	t.Helper()
	if a.copied != nil && string(a.copied[:len(a.copied)+len(guard)][len(a.copied):]) != guard {
		t.Error("a byte behind the copy was written")
	}
	return a.copied
}

// The methods below are for devices. These tests have none.
func (*allocator) Scratch(int64) unsafe.Pointer { panic("scratch memory") }
func (*allocator) Free(unsafe.Pointer)          { panic("scratch memory") }
func (*allocator) Reserve() bool                { panic("device memory") }
func (*allocator) Keep(cuda.Allocation)         { panic("device memory") }

// items are six bytes in memory, of which the descriptions here are.
var items = []byte{1, 2, 3, 4, 5, 6}

func address() uint64 {
	return uint64(uintptr(unsafe.Pointer(&items[0])))
}

// described is a description of items on the CPU, as three of 16 bits, changed.
func described(changes ...func(*dlpack.Description)) *dlpack.Description {
	d := &dlpack.Description{
		Item:   dlpack.Item{DataType: dlpack.DataType{Code: dlpack.UInt, Bits: 16, Lanes: 1}},
		Device: dlpack.Device{Type: dlpack.CPU}, Data: address(), Span: int64(len(items)), NDim: 1,
	}
	d.Shape[0] = 3
	for _, change := range changes {
		change(d)
	}
	return d
}

func reversed(d *dlpack.Description) {
	d.Offset, d.HasStrides, d.Strides[0] = 4, true, -2
}

func swapped(d *dlpack.Description) {
	d.Swapped, d.Field, d.Text = true, "typestr", ">u2"
}

func bits(d *dlpack.Description) {
	d.Item = dlpack.Item{DataType: dlpack.DataType{Code: dlpack.Bool, Bits: 8, Lanes: 1}, BitPacked: true}
	d.FirstBit, d.Shape[0] = 7, 5
}

func nibbles(d *dlpack.Description) {
	d.DataType = dlpack.DataType{Code: dlpack.UInt, Bits: 4, Lanes: 1}
	d.Shape[0] = 5
}

func on(device dlpack.DeviceType) func(*dlpack.Description) {
	return func(d *dlpack.Description) { d.Device.Type = device }
}

func shape(n int64) func(*dlpack.Description) {
	return func(d *dlpack.Description) { d.Shape[0] = n }
}

func refused(t *testing.T, err error, kind dlpack.Kind, want string) {
	t.Helper()
	if dlpack.KindOf(err) != kind || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v; want kind %q, %q", err, kind, want)
	}
}

func TestMemoryThatFitsIsSharedWithoutAnAllocation(t *testing.T) {
	for _, d := range []*dlpack.Description{described(), described(reversed), described(on(dlpack.Metal))} {
		var got dlpack.Tensor
		var allocator allocator
		if n := testing.AllocsPerRun(10, func() {
			stream, err := Prepare(d, &got, &Terms{MayCopy: true, Exports: true}, &allocator)
			if err != nil || stream != dlpack.UnknownStream {
				t.Fatal(stream, err)
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
		if got.Flags != 0 || got.Device != d.Device || got.Shape[0] != 3 {
			t.Errorf("%+v", got)
		}
	}
}

func TestMemoryThatIsNotToBeSharedIsNotCopiedEither(t *testing.T) {
	everything := &Terms{MayCopy: true, MustCopy: true}
	for _, test := range []struct {
		d    *dlpack.Description
		kind dlpack.Kind
		want string
	}{
		{described(shape(-3)), dlpack.ErrMalformed, "negative-dimension: dimension=0, length=-3"},
		{described(shape(4)), dlpack.ErrMalformed, "beyond-span: span=6, from=0, to=8"},
		{described(func(d *dlpack.Description) { d.Nulls = 2 }), dlpack.ErrUnsupported, "null-items: code=1, bits=16, lanes=1, nulls=2, items=3"},
		{described(on(dlpack.Metal)), dlpack.ErrUnsupported, "no-copy-from: device=kDLMetal:0 (copy-with-library)"},
		{described(on(dlpack.OneAPI)), dlpack.ErrUnsupported, "kDLOneAPI:0"},
	} {
		memory := allocator{most: 100}
		_, err := Prepare(test.d, new(dlpack.Tensor), everything, &memory)
		if refused(t, err, test.kind, test.want); memory.copied != nil {
			t.Errorf("%s: copied", test.want)
		}
	}
}

func TestACopyWithoutMemoryIsOutOfMemory(t *testing.T) {
	for _, most := range []int64{0, 5} {
		_, err := Prepare(described(), new(dlpack.Tensor), &Terms{MayCopy: true, MustCopy: true}, &allocator{most: most})
		refused(t, err, dlpack.ErrOutOfMemory, "no-memory-for: bytes=6")
	}
}

func TestACopyOfMemoryThatCannotBeReadIsRefused(t *testing.T) {
	page := syscall.Getpagesize()
	pages, err := syscall.Mmap(-1, 0, 2*page, syscall.PROT_READ, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Munmap(pages)
	if err := syscall.Mprotect(pages[page:], syscall.PROT_NONE); err != nil {
		t.Fatal(err)
	}
	begin := uint64(uintptr(unsafe.Pointer(&pages[0])))
	at := func(address uint64) func(*dlpack.Description) {
		return func(d *dlpack.Description) { d.Data, d.Span = address, -1 }
	}
	apart := func(d *dlpack.Description) { d.HasStrides, d.Strides[0] = true, int64(1<<60-begin) }
	for _, d := range []*dlpack.Description{
		described(at(begin + uint64(page) - 2)),
		described(at(begin+uint64(page)), swapped),
		described(at(begin+uint64(page)), nibbles),
		described(at(begin+uint64(page)), bits),
		described(at(8)),             // Go takes a fault here for a bug of its own
		described(at(1<<63), bits),   // no address of memory; arm64 takes it for 0
		described(at(begin), apart),  // to where arm64 reads address 0
		described(at(100), reversed), // down to the first page
	} {
		_, err := Prepare(d, new(dlpack.Tensor), &Terms{MayCopy: true, MustCopy: true}, &allocator{most: 100})
		refused(t, err, dlpack.ErrUnsupported, "unreadable")
	}
}

// reach says what it takes to have memory of a device, by the first word, on others: nothing, or a copy. Else it can't
// be.
var reach = map[dlpack.DeviceType]string{
	dlpack.CPU:         "CPU shared, CUDA copied",
	dlpack.CUDA:        "CUDA shared, CPU copied",
	dlpack.CUDAHost:    "CUDAHost shared, CPU shared, CUDA copied",
	dlpack.CUDAManaged: "CUDAManaged shared, CPU shared, CUDA shared",
	dlpack.ROCM:        "ROCM shared",
	dlpack.ROCMHost:    "ROCMHost shared, CPU shared, CUDA copied",
	dlpack.Metal:       "Metal shared",
}

// An outcome is what Prepare should find, by rules that are written out.
type outcome struct {
	kind    dlpack.Kind // "": served
	copied  bool
	device  dlpack.DeviceType
	stream  int64
	unknown bool // it depends on the machine
}

func plainly(kind dlpack.Kind, empty bool, device dlpack.DeviceType, terms *Terms) outcome {
	no := func(kind dlpack.Kind) outcome { return outcome{kind: kind} }
	is := func(d dlpack.DeviceType, names ...dlpack.DeviceType) bool { return slices.Contains(names, d) }
	ofCUDA := func(d dlpack.DeviceType) bool { return is(d, dlpack.CUDA, dlpack.CUDAHost, dlpack.CUDAManaged) }
	onCPU := is(device, dlpack.CPU, dlpack.CUDAHost, dlpack.CUDAManaged, dlpack.ROCMHost)
	if kind != "" && (kind != dlpack.ErrNeedsCopy || !terms.MayCopy) {
		return no(kind)
	}
	if ofCUDA(device) && terms.Device != FromProtocol {
		return no(dlpack.ErrUnsupported) // the driver does not run
	}
	target := device
	copies := kind != "" || terms.MustCopy
	if terms.HasTarget {
		target = terms.Target.Type
		name := strings.TrimPrefix(target.String(), "kDL")
		ways := strings.Split(reach[device], ", ")
		switch {
		case slices.Contains(ways, name+" shared"):
		case slices.Contains(ways, name+" copied") && terms.MayCopy:
			copies = true
		default:
			return no(dlpack.ErrUnsupported)
		}
	}
	if s := terms.Consumer; terms.HasStream {
		known := s >= -1
		switch {
		case target == dlpack.CPU:
			known = false
		case ofCUDA(target):
			known = known && s != 0
		case is(target, dlpack.ROCM, dlpack.ROCMHost):
			known = known && s != 1 && s != 2
		}
		if !known {
			return no(dlpack.ErrMalformed)
		}
	}
	producer := terms.Producer
	if device == dlpack.CPU || empty || producer == 1 && !ofCUDA(device) {
		producer = 0
	}
	switch {
	case copies && onCPU && target == dlpack.CUDA:
		return outcome{unknown: true} // a driver may be there, and start
	case producer != 0 && !ofCUDA(device) && onCPU && (copies || target == dlpack.CPU):
		return no(dlpack.ErrUnsupported) // the CPU would read what is still written
	case copies && onCPU:
		return outcome{copied: true, device: dlpack.CPU}
	case copies:
		return no(dlpack.ErrUnsupported)
	case device != dlpack.CPU && target == dlpack.CPU:
		return outcome{device: target}
	}
	if terms.Exports && !is(target, dlpack.CPU) {
		same := terms.Consumer == producer || terms.HasStream && terms.Consumer == -1
		queued := producer != 0 && !terms.Completes && (terms.HasStream || producer != 1)
		if !same && (!ofCUDA(target) || queued) {
			return no(dlpack.ErrUnsupported)
		}
	}
	return outcome{device: target, stream: producer}
}

// checkRules picks from these by its arguments.
var (
	layouts = []struct {
		change func(*dlpack.Description)
		kind   dlpack.Kind
		want   []byte // a copy's
	}{
		{reversed, "", []byte{5, 6, 3, 4, 1, 2}},
		{swapped, dlpack.ErrNeedsCopy, []byte{2, 1, 4, 3, 6, 5}},
		{shape(0), "", []byte{}},
		{shape(-1), dlpack.ErrMalformed, nil},
		{func(d *dlpack.Description) { d.Nulls = 1 }, dlpack.ErrUnsupported, nil},
	}
	devices = []dlpack.DeviceType{dlpack.CPU, dlpack.CUDA, dlpack.CUDAHost, dlpack.CUDAManaged, dlpack.ROCM,
		dlpack.ROCMHost, dlpack.Metal}
)

const mayCopy, mustCopy, hasTarget, exports, hasStream, fromCaller, fromDriver, completes = 1, 3, 4, 8, 16, 32, 64, 128

// checkRules fails the test if Prepare finds another outcome than plainly does.
func checkRules(t *testing.T, layout, device, target, facts int, producer, consumer int64) {
	t.Helper()
	has := func(fact int) bool { return facts&fact == fact }
	l := layouts[layout]
	d := described(l.change, on(devices[device]))
	terms := &Terms{
		MayCopy: has(mayCopy), MustCopy: has(mustCopy), Producer: producer, Exports: has(exports),
		Completes: has(exports | completes), HasTarget: has(hasTarget), Target: dlpack.Device{Type: devices[target]},
		HasStream: has(hasStream), Consumer: consumer,
	}
	switch {
	case has(fromDriver):
		terms.Device = FromDriver
	case has(fromCaller):
		terms.Device = FromCaller
	}
	if d.Device.Type.OfCUDA() {
		terms.Producer %= 2 // with a driver installed, Prepare waits for another stream
	}
	want := plainly(l.kind, d.Shape[0] == 0, d.Device.Type, terms)
	if want.unknown {
		return
	}
	var got dlpack.Tensor
	memory := allocator{most: 100}
	stream, err := Prepare(d, &got, terms, &memory)
	if dlpack.KindOf(err) != want.kind || (err == nil) != (want.kind == "") {
		t.Fatalf("%+v of %+v: %v; want kind %q", *terms, d.Device, err, want.kind)
	}
	if err != nil {
		return
	}
	if got.Device.Type != want.device || stream != want.stream || (memory.copied != nil) != want.copied ||
		(got.Flags&dlpack.IsCopied != 0) != want.copied {
		t.Fatalf("%+v of %+v: %+v, stream %d, copied %v; want %+v", *terms, d.Device, got, stream, memory.copied, want)
	}
	if want.copied && !bytes.Equal(memory.contents(t), l.want) {
		t.Fatalf("%+v: %v; want %v", *terms, memory.copied, l.want)
	}
}

func TestEachHandoverIsWhatItsRulesSay(t *testing.T) {
	for layout := range layouts {
		for device := range devices {
			for target := range devices {
				for facts := range 2 * completes {
					if facts&hasTarget == 0 && target > 0 || facts&completes != 0 && facts&exports == 0 {
						continue
					}
					consumers := []int64{0}
					if facts&hasStream != 0 {
						consumers = []int64{-2, -1, 0, 1, 2, 7, 1 << 40}
					}
					for _, producer := range []int64{0, 1, 7} {
						for _, consumer := range consumers {
							checkRules(t, layout, device, target, facts, producer, consumer)
						}
					}
				}
			}
		}
	}
}

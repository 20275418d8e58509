package cuda

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/foreign"
)

// A fake is a driver with three devices, whose memory is Go's. It keeps a log, can fail any call, and fails the test
// if a call breaks a rule of the driver's.
type fake struct {
	t      testing.TB
	log    []string
	failAt int    // the call that fails, counted from 1
	result result // that it fails with
	calls  int
	lacks  string // a function that is missing
	lacked bool   // and was called

	current  []context
	memory   []fakeMemory
	streams  map[stream]*fakeStream
	events   map[event]context
	retained map[int32]int
	inactive bool // the primary contexts
	mode     captureMode
	legacy   result     // of cuStreamIsCapturing for the legacy stream
	handles  []*[8]byte // which streams and events are addresses of
}

type fakeMemory struct {
	attributes
	bytes []byte
}

type fakeStream struct {
	context context
	capture capture
	queued  int // copies that nobody has waited for
}

const (
	fakeDevices = 3
	fakePitch   = 1 << 12
	other       = context(0x9000) // of device 1, not its primary context
)

func primary(device int32) context {
	return context(0x1000 * (device + 1))
}

func deviceOf(c context) int32 {
	if c == other {
		return 1
	}
	return int32(c/0x1000) - 1
}

func newFake(t testing.TB) (*fake, *Driver) {
	f := &fake{t: t, streams: map[stream]*fakeStream{}, events: map[event]context{}, retained: map[int32]int{}}
	f.streams[1], f.streams[2] = &fakeStream{}, &fakeStream{}
	return f, &Driver{f}
}

// handle is a new one: an address that can be read.
func (f *fake) handle() uintptr {
	f.handles = append(f.handles, new([8]byte))
	return uintptr(unsafe.Pointer(f.handles[len(f.handles)-1]))
}

func (f *fake) call(function, text string, arguments ...any) error {
	f.calls++
	if f.lacks == function {
		f.lacked = true
		return &failure{function, missing, ""}
	}
	if f.calls == f.failAt {
		f.log = append(f.log, function+" fails")
		return &failure{function, f.result, fmt.Sprintf("CUDA_ERROR_%d", f.result)}
	}
	f.log = append(f.log, fmt.Sprintf(text, arguments...))
	return nil
}

func (f *fake) invalid(function string, r result) error {
	f.log = append(f.log, function+" refuses")
	return &failure{function, r, fmt.Sprintf("CUDA_ERROR_%d", r)}
}

func (f *fake) top() context {
	if len(f.current) == 0 {
		return 0
	}
	return f.current[len(f.current)-1]
}

// needs fails the test if no context is current.
func (f *fake) needs(function string) {
	if f.top() == 0 {
		f.t.Errorf("%s without a context", function)
	}
}

// unsafe fails the test if a call would break the capture of a graph elsewhere.
func (f *fake) unsafe(function string) {
	if f.mode != relaxed && f.lacks != "cuThreadExchangeStreamCaptureMode" {
		f.t.Errorf("%s may break a capture", function)
	}
}

// of finds a stream, and fails the test if it is not of the current context.
func (f *fake) of(s stream) *fakeStream {
	known := f.streams[s]
	if known == nil {
		f.t.Fatalf("stream %#x is none", s)
	}
	if s > 2 && known.context != f.top() {
		f.t.Errorf("stream %#x of context %#x is used in %#x", s, known.context, f.top())
	}
	return known
}

func (f *fake) name(s stream) string {
	if s <= 2 {
		return fmt.Sprint(s)
	}
	at := slices.IndexFunc(f.handles, func(h *[8]byte) bool { return uintptr(unsafe.Pointer(h)) == uintptr(s) })
	return string(rune('a' + at))
}

// add gives a device memory.
func (f *fake) add(a attributes, bytes int) Memory {
	m := fakeMemory{a, make([]byte, bytes)}
	f.memory = append(f.memory, m)
	device := dlpack.Device{Type: dlpack.CUDA, ID: a.device}
	return Memory{device, uint64(uintptr(unsafe.Pointer(&m.bytes[0])))}
}

// addStream gives a context a stream.
func (f *fake) addStream(c context) int64 {
	s := stream(f.handle())
	f.streams[s] = &fakeStream{context: c}
	return int64(s)
}

func (f *fake) find(address uint64) *fakeMemory {
	for i := range f.memory {
		m := &f.memory[i]
		if start := uint64(uintptr(unsafe.Pointer(&m.bytes[0]))); address >= start && address < start+uint64(len(m.bytes)) {
			return m
		}
	}
	return nil
}

// span is memory of a device, or fails the test.
func (f *fake) span(address uint64, bytes int64) []byte {
	m := f.find(address)
	if m == nil {
		f.t.Fatalf("%#x is no memory of a device", address)
	}
	at := address - uint64(uintptr(unsafe.Pointer(&m.bytes[0])))
	return m.bytes[at : at+uint64(bytes)] // panics if it is longer
}

func hostSpan(address uint64, bytes int64) []byte {
	return unsafe.Slice((*byte)(foreign.Pointer(address)), bytes)
}

// balanced fails the test if anything is left that should not be.
func (f *fake) balanced(streams, events, memory int) {
	f.t.Helper()
	streams += 2 // the default ones
	if len(f.current) != 0 || f.mode != 0 || len(f.streams) != streams || len(f.events) != events ||
		len(f.memory) != memory {
		f.t.Errorf("left: contexts %v, mode %d, %d streams, %d events, %d pieces of memory\n%s", f.current, f.mode,
			len(f.streams)-2, len(f.events), len(f.memory), strings.Join(f.log, "\n"))
	}
	for device, n := range f.retained {
		if n != 0 {
			f.t.Errorf("left: the primary context of %d, retained %d times\n%s", device, n, strings.Join(f.log, "\n"))
		}
	}
}

func (f *fake) init() error { return f.call("cuInit", "init") }

func (f *fake) deviceGetCount() (int32, error) {
	return fakeDevices, f.call("cuDeviceGetCount", "count")
}

func (f *fake) maxPitch(device int32) (int64, error) {
	return fakePitch, f.call("cuDeviceGetAttribute", "pitch of %d", device)
}

func (f *fake) devicePrimaryCtxRetain(device int32) (context, error) {
	err := f.call("cuDevicePrimaryCtxRetain", "retain %d", device)
	if err == nil {
		f.retained[device]++
	}
	return primary(device), err
}

func (f *fake) devicePrimaryCtxIsActive(device int32) (bool, error) {
	return !f.inactive, f.call("cuDevicePrimaryCtxGetState", "active %d", device)
}

// A release counts as done even if it fails, because it was called.

func (f *fake) devicePrimaryCtxRelease(device int32) error {
	f.retained[device]--
	return f.call("cuDevicePrimaryCtxRelease_v2", "release %d", device)
}

func (f *fake) ctxGetCurrent() (context, error) { return f.top(), f.call("cuCtxGetCurrent", "current") }

func (f *fake) ctxGetDevice() (int32, error) {
	if f.top() == 0 {
		return 0, f.invalid("cuCtxGetDevice", invalidContext)
	}
	return deviceOf(f.top()), f.call("cuCtxGetDevice", "device")
}

func (f *fake) ctxPushCurrent(c context) error {
	err := f.call("cuCtxPushCurrent_v2", "push %#x", c)
	if err == nil {
		f.current = append(f.current, c)
	}
	return err
}

func (f *fake) ctxPopCurrent() error {
	f.needs("cuCtxPopCurrent_v2")
	f.current = f.current[:len(f.current)-1]
	return f.call("cuCtxPopCurrent_v2", "pop")
}

func (f *fake) pointerGetAttributes(address uint64) (attributes, error) {
	err := f.call("cuPointerGetAttributes", "attributes")
	if m := f.find(address); m != nil && err == nil {
		return m.attributes, nil
	}
	return attributes{device: -2}, err
}

func (f *fake) memAlloc(bytes int64) (uint64, error) {
	f.needs("cuMemAlloc_v2")
	if err := f.call("cuMemAlloc_v2", "allocate %d", bytes); err != nil {
		return 0, err
	}
	f.unsafe("cuMemAlloc_v2")
	m := f.add(attributes{f.top(), deviceMemory, false, deviceOf(f.top())}, int(bytes))
	return m.Address, nil
}

func (f *fake) memFree(address uint64) error {
	m := f.find(address)
	if f.top() != m.context {
		f.t.Errorf("memory of %#x is freed in %#x", m.context, f.top())
	}
	if f.failAt == 0 { // what failed may be the exchange of modes
		f.unsafe("cuMemFree_v2")
	}
	for s, known := range f.streams {
		if known.queued > 0 {
			f.t.Errorf("memory is freed while stream %s may use it", f.name(s))
		}
	}
	f.memory = slices.DeleteFunc(f.memory, func(n fakeMemory) bool { return &n.bytes[0] == &m.bytes[0] })
	return f.call("cuMemFree_v2", "free")
}

func (f *fake) copied(on stream, function string, arguments ...any) error {
	f.unsafe(function)
	err := f.call(function, strings.TrimSuffix(strings.TrimPrefix(function, "cuMemcpy"), "_v2")+" %d", arguments...)
	if known := f.of(on); err == nil {
		known.queued++
	}
	return err
}

func (f *fake) memcpyDtoHAsync(dst, src uint64, bytes int64, on stream) error {
	err := f.copied(on, "cuMemcpyDtoHAsync_v2", bytes)
	if err == nil {
		copy(hostSpan(dst, bytes), f.span(src, bytes))
	}
	return err
}

func (f *fake) memcpyHtoDAsync(dst, src uint64, bytes int64, on stream) error {
	err := f.copied(on, "cuMemcpyHtoDAsync_v2", bytes)
	if err == nil {
		copy(f.span(dst, bytes), hostSpan(src, bytes))
	}
	return err
}

func (f *fake) memcpyDtoDAsync(dst, src uint64, bytes int64, on stream) error {
	err := f.copied(on, "cuMemcpyDtoDAsync_v2", bytes)
	if err == nil {
		copy(f.span(dst, bytes), f.span(src, bytes))
	}
	return err
}

func (f *fake) memcpyPeerAsync(dst uint64, to context, src uint64, from context, bytes int64, on stream) error {
	if a, b := f.find(dst).context, f.find(src).context; a != to || b != 0 && b != from {
		f.t.Errorf("cuMemcpyPeerAsync from %#x to %#x, of memory of %#x and %#x", from, to, b, a)
	}
	err := f.copied(on, "cuMemcpyPeerAsync", bytes)
	if err == nil {
		copy(f.span(dst, bytes), f.span(src, bytes))
	}
	return err
}

func (f *fake) memcpy3DAsync(b *block, on stream) error {
	err := f.copied(on, "cuMemcpy3DAsync_v2", []int64{b.width, b.rows, b.slices})
	if err != nil {
		return err
	}
	if b.srcPitch < b.width || b.dstPitch < b.width || b.srcPitch > fakePitch || b.dstPitch > fakePitch ||
		b.srcHeight < b.rows || b.dstHeight < b.rows {
		f.t.Errorf("cuMemcpy3DAsync refuses %+v", *b)
	}
	for slice := range b.slices {
		for row := range b.rows {
			dst := b.dst + uint64((slice*b.dstHeight+row)*b.dstPitch)
			src := b.src + uint64((slice*b.srcHeight+row)*b.srcPitch)
			to := hostSpan(dst, b.width)
			if b.dstType == deviceMemory {
				to = f.span(dst, b.width)
			}
			copy(to, f.span(src, b.width))
		}
	}
	return nil
}

func (f *fake) streamCreate() (stream, error) {
	f.needs("cuStreamCreate")
	err := f.call("cuStreamCreate", "create stream")
	if err != nil {
		return 0, err
	}
	return stream(f.addStream(f.top())), nil
}

func (f *fake) streamDestroy(s stream) error {
	if f.of(s).queued > 0 {
		f.t.Errorf("stream %s is destroyed before its copies are waited for", f.name(s))
	}
	delete(f.streams, s)
	return f.call("cuStreamDestroy_v2", "destroy stream %s", f.name(s))
}

func (f *fake) streamGetCtx(s stream) (context, error) {
	if known := f.streams[s]; known != nil && s > 2 {
		return known.context, f.call("cuStreamGetCtx", "context of %s", f.name(s))
	}
	return 0, f.invalid("cuStreamGetCtx", invalidHandle)
}

func (f *fake) streamWaitEvent(s stream, e event) error {
	f.of(s)
	return f.call("cuStreamWaitEvent", "%s waits", f.name(s))
}

func (f *fake) streamSynchronize(s stream) error {
	f.of(s).queued = 0
	f.unsafe("cuStreamSynchronize")
	return f.call("cuStreamSynchronize", "synchronize %s", f.name(s))
}

func (f *fake) streamIsCapturing(s stream) (captureStatus, error) {
	f.needs("cuStreamIsCapturing")
	if s == 1 && f.legacy != 0 {
		return 0, f.invalid("cuStreamIsCapturing", f.legacy)
	}
	return f.of(s).capture.status, f.call("cuStreamIsCapturing", "is %s capturing", f.name(s))
}

func (f *fake) streamGetCaptureInfo(s stream) (capture, error) {
	return f.of(s).capture, f.call("cuStreamGetCaptureInfo_v2", "capture of %s", f.name(s))
}

func (f *fake) threadExchangeStreamCaptureMode(mode captureMode) (captureMode, error) {
	err := f.call("cuThreadExchangeStreamCaptureMode", "mode %d", mode)
	previous := f.mode
	if err == nil || mode == 0 {
		f.mode = mode
	}
	return previous, err
}

func (f *fake) eventCreate() (event, error) {
	f.needs("cuEventCreate")
	err := f.call("cuEventCreate", "create event")
	if err != nil {
		return 0, err
	}
	e := event(f.handle())
	f.events[e] = f.top()
	return e, nil
}

func (f *fake) eventRecord(e event, s stream) error {
	f.of(s)
	if f.events[e] != f.top() {
		f.t.Error("an event is recorded in another context than its own")
	}
	return f.call("cuEventRecord", "record on %s", f.name(s))
}

func (f *fake) eventDestroy(e event) error {
	if _, ok := f.events[e]; !ok {
		f.t.Error("no event is destroyed")
	}
	delete(f.events, e)
	return f.call("cuEventDestroy_v2", "destroy event")
}

func (f *fake) freeFunctions() (FreeFunctions, error) {
	return FreeFunctions{MemFree: unsafe.Pointer(f)}, nil
}

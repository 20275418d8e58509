package cuda

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"dlpack/pkg/dlpack"
)

// kindOf is the kind of an error, whose message must have all of the words.
func kindOf(t testing.TB, err error, words ...string) dlpack.Kind {
	t.Helper()
	kind := dlpack.KindOf(err)
	if kind == "" {
		t.Fatalf("%v is not an error of package dlpack", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q doesn't name %s", err, word)
		}
	}
	return kind
}

// acts are the calls of a log that do something: not those that ask, nor contexts pushed for these.
func acts(log []string) string {
	var left []string
	for _, line := range log {
		word, _, _ := strings.Cut(line, " ")
		last := len(left) - 1
		switch {
		case strings.Contains(" context attributes is capture current device pitch count active ", " "+word+" "):
		case word == "pop" && strings.HasPrefix(left[last], "push"):
			left = left[:last]
		default:
			left = append(left, line)
		}
	}
	return strings.Join(left, ", ")
}

// On what streams a test works: numbers of the standard, or handles.
const (
	handleA = 100 // a stream of device 1's primary context
	handleB = 101 // another
	handleO = 102 // one of device 1's other context
	handle2 = 103 // one of device 2
)

// scene has memory of device 1 and a stream for each of the handles.
func scene(t testing.TB) (*fake, *Driver, Memory, func(int64) int64) {
	f, d := newFake(t)
	m := f.add(attributes{primary(1), deviceMemory, false, 1}, 64)
	numbers := map[int64]int64{
		handleA: f.addStream(primary(1)), handleB: f.addStream(primary(1)), handleO: f.addStream(other),
		handle2: f.addStream(primary(2)),
	}
	return f, d, m, func(n int64) int64 {
		if n < handleA {
			return n
		}
		return numbers[n]
	}
}

func TestTheConsumerWaitsForTheProducer(t *testing.T) {
	for _, test := range []struct {
		producer, consumer int64
		log                string
	}{
		{1, 2, "push 0x2000, create event, record on 1, push 0x2000, 2 waits, pop, destroy event, pop"},
		{1, handleA, "push 0x2000, create event, record on 1, push 0x2000, a waits, pop, destroy event, pop"},
		{handleA, 1, "push 0x2000, create event, record on a, push 0x2000, 1 waits, pop, destroy event, pop"},
		{handleA, handleB, "push 0x2000, create event, record on a, push 0x2000, b waits, pop, destroy event, pop"},
		{handleO, 2, "push 0x9000, create event, record on c, push 0x2000, 2 waits, pop, destroy event, pop"},
		{2, handleO, "push 0x2000, create event, record on 2, push 0x9000, c waits, pop, destroy event, pop"},
		{handleA, handle2, "push 0x2000, create event, record on a, push 0x3000, d waits, pop, destroy event, pop"},
	} {
		f, d, m, number := scene(t)
		if err := d.order(m, number(test.producer), number(test.consumer)); err != nil {
			t.Error(err)
		}
		if log := acts(f.log); log != test.log {
			t.Errorf("%d after %d: %s; expected %s", test.consumer, test.producer, log, test.log)
		}
		f.balanced(4, 0, 1)
	}
}

func TestWhereNothingIsToBeOrderedNoDriverIsNeeded(t *testing.T) {
	m := Memory{cudaDevice(0), 0xABC0}
	for _, streams := range [][2]int64{
		{dlpack.UnknownStream, 1}, {dlpack.UnknownStream, handleA}, {1, 1}, {2, 2}, {handleA, handleA},
		{1, dlpack.NoOrder}, {handleA, dlpack.NoOrder},
	} {
		if err := Order(m, streams[0], streams[1]); err != nil {
			t.Error(streams, err)
		}
	}
	if err := Order(Memory{dlpack.Device{Type: dlpack.ROCM}, 0xABC0}, 1, 2); err != nil {
		t.Error(err)
	}
	if err := Finish(m, dlpack.UnknownStream); err != nil {
		t.Error(err)
	}
}

func TestFinishWaitsForTheProducer(t *testing.T) {
	for _, test := range []struct {
		producer int64
		log      string
	}{
		{1, "mode 2, push 0x2000, synchronize 1, pop, mode 0"},
		{2, "mode 2, push 0x2000, synchronize 2, pop, mode 0"},
		{handleO, "mode 2, push 0x9000, synchronize c, pop, mode 0"},
	} {
		f, d, m, number := scene(t)
		if err := d.finish(m, number(test.producer)); err != nil {
			t.Error(err)
		}
		if log := acts(f.log); log != test.log {
			t.Errorf("%d: %s; expected %s", test.producer, log, test.log)
		}
		f.balanced(4, 0, 1)
	}
}

func TestMemoryOfAPoolIsOrderedInTheDevicesContext(t *testing.T) {
	f, d := newFake(t)
	m := f.add(attributes{0, deviceMemory, false, 2}, 1)
	if err := d.order(m, 1, 2); err != nil {
		t.Error(err)
	}
	expected := "retain 2, retain 2, push 0x3000, create event, record on 1, push 0x3000, 2 waits, pop, destroy event, " +
		"pop, release 2, release 2"
	if log := acts(f.log); log != expected {
		t.Error(log)
	}
}

func TestStreamsOfOneCaptureAreOrdered(t *testing.T) {
	f, d, m, number := scene(t)
	f.streams[stream(number(handleA))].capture = capture{capturing, 5}
	f.streams[stream(number(handleB))].capture = capture{capturing, 5}
	if err := d.order(m, number(handleA), number(handleB)); err != nil {
		t.Error(err)
	}
	if log := acts(f.log); !strings.Contains(log, "record on a, push 0x2000, b waits") {
		t.Error(log)
	}
}

func TestACaptureIsNotBroken(t *testing.T) {
	const invalidated = captureStatus(2)
	no := capture{}
	for _, test := range []struct {
		name   string
		a, b   capture
		legacy result
		lacks  string
		order  [2]int64 // producer, consumer
		names  string
	}{
		{"the producer's", capture{capturing, 5}, no, 0, "", [2]int64{handleA, handleB}, "whose=producer"},
		{"the consumer's", no, capture{capturing, 5}, 0, "", [2]int64{handleA, handleB}, "whose=consumer"},
		{"one each", capture{capturing, 5}, capture{capturing, 6}, 0, "", [2]int64{handleA, handleB},
			"whose=producer"},
		{"one that is broken already", capture{invalidated, 5}, capture{invalidated, 5}, 0, "", [2]int64{handleA, handleB},
			"whose=producer"},
		{"that which the legacy stream would join", no, no, streamCaptureImplicit, "", [2]int64{handleA, 1},
			"whose=consumer, stream=1"},
		{"that which the producer's legacy stream would join", no, no, streamCaptureImplicit, "", [2]int64{1, handleA},
			"whose=producer, stream=1"},
		{"one that an old driver can't tell from another", capture{capturing, 5}, capture{capturing, 5}, 0,
			"cuStreamGetCaptureInfo_v2", [2]int64{handleA, handleB}, "whose=producer"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, d, m, number := scene(t)
			a, b := f.streams[stream(number(handleA))], f.streams[stream(number(handleB))]
			a.capture, b.capture, f.legacy, f.lacks = test.a, test.b, test.legacy, test.lacks
			producer := number(test.order[0])
			err := d.order(m, producer, number(test.order[1]))
			if kindOf(t, err, test.names, "capturing", "(beside-capture)") != dlpack.ErrUnsupported {
				t.Error(err)
			}
			if log := acts(f.log); log != "cuStreamIsCapturing refuses" && log != "" &&
				log != "push 0x2000, cuStreamIsCapturing refuses, pop" {
				t.Error(log)
			}
			if test.a == no && test.legacy == 0 || producer == number(handleA) && test.legacy != 0 {
				return
			}
			f.log = nil
			if kindOf(t, d.finish(m, producer), "whose=producer", "capturing") != dlpack.ErrUnsupported {
				t.Error("waited for a stream that captures")
			}
			source := Source{Memory: m, Stream: producer, ItemSize: 8}
			if kindOf(t, d.ToHost(nil, &source), "whose=producer", "capturing") != dlpack.ErrUnsupported {
				t.Error("copied what a stream that captures is to write")
			}
			if log := acts(f.log); strings.Contains(log, "record") || strings.Contains(log, "synchronize a") {
				t.Error(log)
			}
			f.balanced(4, 0, 1)
		})
	}
}

func TestADriverThatCanCaptureNothingOrders(t *testing.T) {
	for _, lacks := range []string{"cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode"} {
		f, d, m, number := scene(t)
		f.lacks = lacks
		if err := d.order(m, 1, number(handleA)); err != nil {
			t.Error(err)
		}
		if err := d.finish(m, 1); err != nil {
			t.Error(err)
		}
		f.balanced(4, 0, 1)
	}
}

func TestAStreamThatIsNoneIsMalformed(t *testing.T) {
	readable := new([64]byte)
	for _, test := range []struct {
		number uint64
		why    string
	}{
		{3, "why=unreadable-handle"},
		{0xFFF, "why=unreadable-handle"},
		{1 << 40, "why=unreadable-handle"},
		{1<<63 - 1, "why=unreadable-handle"},
		{uint64(uintptr(unsafe.Pointer(readable))), "call=cuStreamGetCtx, result=CUDA_ERROR_400, why=call-failed"},
	} {
		f, d, m, number := scene(t)
		n := int64(test.number)
		err := d.order(m, n, 1)
		if kindOf(t, err, fmt.Sprintf("no-handle: whose=producer, stream=%d,", n), test.why) != dlpack.ErrMalformed {
			t.Error(err)
		}
		err = d.order(m, number(handleA), n)
		if kindOf(t, err, fmt.Sprintf("no-handle: whose=consumer, stream=%d,", n), test.why) != dlpack.ErrMalformed {
			t.Error(err)
		}
		if err := d.finish(m, n); kindOf(t, err, test.why) != dlpack.ErrMalformed {
			t.Error(err)
		}
		f.balanced(4, 0, 1)
	}
}

func TestOrderAllocatesNothing(t *testing.T) {
	d := &Driver{silent{}}
	m := Memory{dlpack.Device{Type: dlpack.CUDA}, 64}
	for _, do := range []func() error{
		func() error { return d.order(m, 1, 2) },
		func() error { return d.finish(m, 1) },
		func() error { _, err := d.Locate(64); return err },
	} {
		if n := testing.AllocsPerRun(10, func() {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// silent is a driver that allocates nothing itself.
type silent struct{ api }

func (silent) pointerGetAttributes(uint64) (attributes, error) {
	return attributes{primary(0), deviceMemory, false, 0}, nil
}
func (silent) ctxPushCurrent(context) error                    { return nil }
func (silent) ctxPopCurrent() error                            { return nil }
func (silent) streamIsCapturing(stream) (captureStatus, error) { return notCapturing, nil }
func (silent) streamSynchronize(stream) error                  { return nil }
func (silent) streamWaitEvent(stream, event) error             { return nil }
func (silent) eventCreate() (event, error)                     { return 1, nil }
func (silent) eventRecord(event, stream) error                 { return nil }
func (silent) eventDestroy(event) error                        { return nil }
func (silent) threadExchangeStreamCaptureMode(m captureMode) (captureMode, error) {
	return m, nil
}

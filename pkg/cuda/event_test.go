package cuda

import (
	"strings"
	"testing"
	"unsafe"

	"dlpack/pkg/dlpack"
)

// theirs returns another library's event, in the place of a producer's stream.
func theirs(f *fake) int64 {
	return dlpack.Event(uint64(f.handle()))
}

func TestTheConsumerWaitsForAnEvent(t *testing.T) {
	for consumer, log := range map[int64]string{
		1:       "push 0x2000, 1 waits, pop",
		2:       "push 0x2000, 2 waits, pop",
		handleA: "push 0x2000, a waits, pop",
		handleO: "push 0x9000, c waits, pop",
		handle2: "push 0x3000, d waits, pop",
	} {
		f, d, m, number := scene(t)
		if err := d.order(m, theirs(f), number(consumer)); err != nil {
			t.Error(err)
		}
		if got := acts(f.log); got != log {
			t.Errorf("%d: %s; expected %s", consumer, got, log)
		}
		f.balanced(4, 0, 1)
	}
}

func TestFinishWaitsForAnEvent(t *testing.T) {
	f, d, m, _ := scene(t)
	if err := d.finish(m, theirs(f)); err != nil {
		t.Error(err)
	}
	log := "mode 2, push 0x2000, create stream, push 0x2000, e waits, pop, synchronize e, destroy stream e, pop, mode 0"
	if got := strings.ReplaceAll(acts(f.log), " f", " e"); got != log {
		t.Errorf("%s; expected %s", got, log)
	}
	f.balanced(4, 0, 1)
}

func TestACopyWaitsForAnEvent(t *testing.T) {
	f, d, m, _ := scene(t)
	dst := make([]byte, 8)
	source := Source{Memory: m, Stream: theirs(f), Shape: ints{8}, Strides: ints{1}, ItemSize: 1, Above: 8}
	if err := d.ToHost(unsafe.Pointer(&dst[0]), &source); err != nil {
		t.Error(err)
	}
	log := acts(f.log)
	if waits, copies := strings.Index(log, " waits"), strings.Index(log, "DtoHAsync"); waits < 0 || copies < waits {
		t.Error(log)
	}
	f.balanced(4, 0, 1)
}

func TestAnEventDoesNotBreakACapture(t *testing.T) {
	f, d, m, number := scene(t)
	f.streams[stream(number(handleA))].capture = capture{capturing, 5}
	err := d.order(m, theirs(f), number(handleA))
	if kindOf(t, err, "whose=consumer", "capturing") != dlpack.ErrUnsupported || strings.Contains(acts(f.log), "waits") {
		t.Error(err, f.log)
	}
	f.legacy = streamCaptureImplicit
	err = d.order(m, theirs(f), 1)
	if kindOf(t, err, "whose=consumer", "capturing") != dlpack.ErrUnsupported {
		t.Error(err)
	}
}

func TestAnEventThatCannotBeReadIsMalformed(t *testing.T) {
	for _, handle := range []uint64{2, 0xFFF, 1 << 40, 1<<63 - 1} {
		f, d, m, number := scene(t)
		for _, err := range []error{d.order(m, dlpack.Event(handle), number(handleA)), d.finish(m, dlpack.Event(handle))} {
			if kindOf(t, err, "event-unreadable") != dlpack.ErrMalformed {
				t.Error(err)
			}
		}
		f.balanced(4, 0, 1)
	}
}

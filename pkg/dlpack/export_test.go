package dlpack

import (
	"fmt"
	"strings"
	"testing"
)

const served = Kind("served")

// kindOf is the kind of an error, whose message must have all of the words.
func kindOf(t *testing.T, err error, words ...string) Kind {
	if err == nil {
		return served
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q doesn't name %s", err, word)
		}
	}
	return KindOf(err)
}

func TestStreamsAreThoseOfTheStandard(t *testing.T) {
	for _, test := range []struct {
		device             DeviceType
		stream             int64
		consumer, producer Kind
	}{
		{CPU, 0, ErrMalformed, ErrMalformed},
		{CPU, -1, ErrMalformed, ErrMalformed},
		{CPU, 1 << 40, ErrMalformed, ErrMalformed},
		{CUDA, -1, served, ErrMalformed},
		{CUDA, 0, ErrMalformed, ErrMalformed},
		{CUDA, -2, ErrMalformed, ErrMalformed},
		{CUDA, 1, served, served},
		{CUDA, 2, served, served},
		{CUDA, 1 << 40, served, served},
		{CUDAHost, 0, ErrMalformed, ErrMalformed},
		{CUDAHost, -1, served, ErrMalformed},
		{CUDAManaged, 0, ErrMalformed, ErrMalformed},
		{CUDAManaged, 1, served, served},
		{ROCM, -1, served, ErrMalformed},
		{ROCM, 0, served, served}, // ROCm's default stream
		{ROCM, 1, ErrMalformed, ErrMalformed},
		{ROCM, 2, ErrMalformed, ErrMalformed},
		{ROCM, 3, served, served},
		{ROCM, -2, ErrMalformed, ErrMalformed},
		{ROCMHost, 1, ErrMalformed, ErrMalformed},
		{Metal, -1, served, ErrMalformed},
		{Metal, 0, served, served},
		{99, 7, served, served},
	} {
		device, name := Device{Type: test.device}, fmt.Sprintf(": stream=%d", test.stream)
		if got := kindOf(t, CheckStream(device, test.stream), name, "stream"); got != test.consumer {
			t.Errorf("consumer's stream %d on %s: kind %q; want %q", test.stream, test.device, got, test.consumer)
		}
		if got := kindOf(t, CheckProducerStream(device, test.stream), name, "stream"); got != test.producer {
			t.Errorf("producer's stream %d on %s: kind %q; want %q", test.stream, test.device, got, test.producer)
		}
	}
}

func TestAnEventStandsInTheProducersPlace(t *testing.T) {
	for handle, want := range map[uint64]int64{2: -2, 1 << 47: -1 << 47, 1<<63 - 1: -1<<63 + 1, 0: 0, 1: 0, 1 << 63: 0} {
		producer := Event(handle)
		if producer != want || producer != UnknownStream && EventOf(producer) != handle {
			t.Errorf("%#x: %d, %#x", handle, producer, EventOf(producer))
		}
	}
	for _, producer := range []int64{UnknownStream, LegacyStream, PerThreadStream, NoOrder, 1 << 47} {
		if handle := EventOf(producer); handle != 0 {
			t.Errorf("stream %d is event %#x", producer, handle)
		}
	}
	for _, device := range []DeviceType{CPU, CUDA, CUDAHost, ROCM, Metal} {
		for _, hasConsumer := range []bool{true, false} {
			want := ErrUnsupported
			if device <= CUDAHost {
				want = served
			}
			err := CheckOrder(Device{Type: device}, Event(64), hasConsumer, 7)
			if got := kindOf(t, err, "order-of-event: device="+device.String(), "(synchronise)"); got != want {
				t.Errorf("%s: %v", device, err)
			}
		}
	}
	if err := CheckOrder(Device{Type: ROCM}, Event(64), true, NoOrder); err != nil {
		t.Error(err)
	}
}

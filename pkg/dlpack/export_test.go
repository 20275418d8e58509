package dlpack

import (
	"strings"
	"testing"
)

const served = Kind(255)

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
		{CPU, 0, KindMalformed, KindMalformed},
		{CPU, -1, KindMalformed, KindMalformed},
		{CPU, 1 << 40, KindMalformed, KindMalformed},
		{CUDA, -1, served, KindMalformed},
		{CUDA, 0, KindMalformed, KindMalformed},
		{CUDA, -2, KindMalformed, KindMalformed},
		{CUDA, 1, served, served},
		{CUDA, 2, served, served},
		{CUDA, 1 << 40, served, served},
		{CUDAHost, 0, KindMalformed, KindMalformed},
		{CUDAHost, -1, served, KindMalformed},
		{CUDAManaged, 0, KindMalformed, KindMalformed},
		{CUDAManaged, 1, served, served},
		{ROCM, -1, served, KindMalformed},
		{ROCM, 0, served, served}, // ROCm's default stream
		{ROCM, 1, KindMalformed, KindMalformed},
		{ROCM, 2, KindMalformed, KindMalformed},
		{ROCM, 3, served, served},
		{ROCM, -2, KindMalformed, KindMalformed},
		{ROCMHost, 1, KindMalformed, KindMalformed},
		{Metal, -1, served, KindMalformed},
		{Metal, 0, served, served},
		{99, 7, served, served},
	} {
		device, name := Device{Type: test.device}, "stream "+number(test.stream)+":"
		if got := kindOf(t, CheckStream(device, test.stream), name, "expected None"); got != test.consumer {
			t.Errorf("consumer's stream %d on %s: kind %d; want %d", test.stream, test.device, got, test.consumer)
		}
		if got := kindOf(t, CheckProducerStream(device, test.stream), name, "expected None"); got != test.producer {
			t.Errorf("producer's stream %d on %s: kind %d; want %d", test.stream, test.device, got, test.producer)
		}
	}
}

func TestTheOrderOfStreamsIsKeptOnCUDAAlone(t *testing.T) {
	const none = -100
	for _, test := range []struct {
		device             DeviceType
		producer, consumer int64
		want               Kind
	}{
		{CUDA, 5, 7, served},
		{CUDAManaged, 1, none, served},
		{CPU, UnknownStream, none, served},
		{ROCM, UnknownStream, none, served},
		{ROCM, UnknownStream, NoOrder, served},
		{ROCM, UnknownStream, 0, served},
		{ROCM, 7, 0, KindUnsupported},
		{ROCM, UnknownStream, 7, KindUnsupported},
		{ROCM, 7, 7, served},
		{ROCM, 7, NoOrder, served},
		{ROCM, 7, 8, KindUnsupported},
		{ROCM, 7, none, KindUnsupported},
		{OneAPI, 7, 8, KindUnsupported},
	} {
		consumer, name := test.consumer, number(test.consumer)
		if consumer == none {
			consumer, name = 0, "None"
		}
		err := CheckOrder(Device{Type: test.device}, test.producer, test.consumer != none, consumer)
		if got := kindOf(t, err, "stream "+name+":", test.device.String(), "stream=-1"); got != test.want {
			t.Errorf("stream %s of memory on %s, written on %d: %v; want kind %d", name, test.device, test.producer, err,
				test.want)
		}
	}
}

func TestADeviceIsReachedAtOnceOrByACopy(t *testing.T) {
	const shared, copied, refused = 0, 1, 2
	for _, test := range []struct {
		device, target Device
		want           int
	}{
		{Device{CPU, 0}, Device{CPU, 0}, shared},
		{Device{CPU, 0}, Device{CPU, 7}, shared},
		{Device{CUDA, 1}, Device{CUDA, 1}, shared},
		{Device{Metal, 1}, Device{Metal, 1}, shared},
		{Device{CUDAHost, 0}, Device{CPU, 0}, shared},
		{Device{CUDAManaged, 0}, Device{CPU, 0}, shared},
		{Device{ROCMHost, 0}, Device{CPU, 0}, shared},
		{Device{CUDA, 1}, Device{CUDA, 0}, copied},
		{Device{CUDA, 0}, Device{CPU, 0}, copied},
		{Device{CPU, 0}, Device{CUDA, 3}, copied},
		{Device{CUDAHost, 0}, Device{CUDA, 0}, copied},
		{Device{CUDAManaged, 0}, Device{CUDA, 1}, shared},
		{Device{CPU, 0}, Device{CUDAHost, 0}, refused},
		{Device{CUDA, 0}, Device{CUDAManaged, 0}, refused},
		{Device{CPU, 0}, Device{99, 0}, refused},
		{Device{ROCM, 0}, Device{CPU, 0}, refused},
		{Device{CUDA, 0}, Device{ROCM, 0}, refused},
	} {
		for want, mayCopy := range []bool{test.want > shared, test.want > copied} {
			err := CheckTarget(test.device, test.target, want == 1)
			if got := kindOf(t, err, test.device.String(), test.target.String()); (got == KindUnsupported) != mayCopy {
				t.Errorf("%s to %s, may copy %v: %v", test.device, test.target, want == 1, err)
			}
		}
	}
}

package dlpack

import (
	"strings"
	"testing"
)

func TestStreamsAreTakenAsTheStandardSays(t *testing.T) {
	const served = Kind(255)
	for _, test := range []struct {
		device DeviceType
		stream int64
		want   Kind
	}{
		{CPU, 0, ValueError},
		{CPU, -1, ValueError},
		{CPU, 1 << 40, ValueError},
		{CUDA, -1, served},
		{CUDA, 0, ValueError},
		{CUDA, -2, ValueError},
		{CUDA, 1, BufferError},
		{CUDA, 2, BufferError},
		{CUDA, 1 << 40, BufferError},
		{CUDAHost, 0, ValueError},
		{CUDAHost, -1, served},
		{CUDAManaged, 0, ValueError},
		{CUDAManaged, 1, BufferError},
		{ROCM, -1, served},
		{ROCM, 0, BufferError}, // ROCm's default stream
		{ROCM, 1, ValueError},
		{ROCM, 2, ValueError},
		{ROCM, 3, BufferError},
		{ROCM, -2, ValueError},
		{ROCMHost, 1, ValueError},
		{Metal, -1, served},
		{Metal, 0, BufferError},
		{99, 7, BufferError},
	} {
		got := served
		err := CheckExport(Device{Type: test.device}, true, test.stream, false, Device{})
		if err != nil {
			got = err.(*Error).Kind
			if message := err.Error(); !strings.Contains(message, "stream "+number(test.stream)) {
				t.Errorf("%q doesn't name the stream", message)
			}
		}
		if got != test.want {
			t.Errorf("stream %d on %s: got %v; want kind %d", test.stream, test.device, err, test.want)
		}
		if err := CheckExport(Device{Type: test.device}, false, test.stream, false, Device{}); err != nil {
			t.Errorf("stream None on %s: %v", test.device, err)
		}
	}
}

func TestOnlyTheDeviceOfTheMemoryIsServed(t *testing.T) {
	for _, test := range []struct {
		device, target Device
		served         bool
	}{
		{Device{CPU, 0}, Device{CPU, 0}, true},
		{Device{CPU, 0}, Device{CPU, 7}, true},
		{Device{CUDA, 1}, Device{CUDA, 1}, true},
		{Device{CUDA, 1}, Device{CUDA, 0}, false},
		{Device{CUDA, 0}, Device{CPU, 0}, false},
		{Device{CPU, 0}, Device{99, 0}, false},
	} {
		err := CheckExport(test.device, false, 0, true, test.target)
		if (err == nil) != test.served {
			t.Errorf("%s for %s: %v", test.target, test.device, err)
		}
		if err != nil {
			message := err.Error()
			if !strings.Contains(message, test.device.String()) || !strings.Contains(message, test.target.String()) {
				t.Errorf("%q doesn't name both devices", message)
			}
			if err.(*Error).Kind != BufferError {
				t.Errorf("%q is no BufferError", message)
			}
		}
	}
}

package cuda

import (
	"testing"

	"dlpack/pkg/dlpack"
)

var managed = dlpack.Device{Type: dlpack.CUDAManaged}

func cudaDevice(id int32) dlpack.Device {
	return dlpack.Device{Type: dlpack.CUDA, ID: id}
}

func TestMemoryIsLocatedByWhatTheDriverKnows(t *testing.T) {
	for _, test := range []struct {
		name       string
		attributes attributes
		device     dlpack.Device
	}{
		{"device memory", attributes{primary(2), deviceMemory, false, 2}, cudaDevice(2)},
		{"memory of a pool", attributes{0, deviceMemory, false, 1}, cudaDevice(1)},
		{"managed memory on a device", attributes{primary(1), deviceMemory, true, 1}, managed},
		{"managed memory on the host", attributes{primary(1), hostMemory, true, 1}, managed},
		{"pinned memory", attributes{primary(1), hostMemory, false, 1}, dlpack.Device{Type: dlpack.CUDAHost}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, d := newFake(t)
			m := f.add(test.attributes, 8)
			device, err := d.Locate(m.Address + 7)
			if device != test.device || err != nil {
				t.Errorf("%v, %v; expected %v", device, err, test.device)
			}
		})
	}
}

func TestAnUnknownAddressIsMalformed(t *testing.T) {
	_, d := newFake(t)
	_, err := d.Locate(0xABC0)
	if kindOf(t, err, "unknown-to-driver: address=0xabc0") != dlpack.ErrMalformed {
		t.Error(err)
	}
}

func TestTheCurrentDeviceIsThatOfTheThreadsContext(t *testing.T) {
	f, d := newFake(t)
	if device := d.CurrentDevice(); device != cudaDevice(0) {
		t.Error(device)
	}
	f.current = []context{primary(0), other}
	if device := d.CurrentDevice(); device != cudaDevice(1) {
		t.Error(device)
	}
}

func TestACallIsMadeInTheMemorysContext(t *testing.T) {
	for _, test := range []struct {
		name    string
		owner   context // of the memory; pool
		current context
		home    home
	}{
		{"its own", other, 0, home{other, 1, -1}},
		{"its own, whatever is current", other, primary(1), home{other, 1, -1}},
		{"the current one, of the same device", 0, other, home{other, 1, -1}},
		{"the primary one, where another device's is current", 0, primary(2), home{primary(1), 1, 1}},
		{"the primary one, where none is current", 0, 0, home{primary(1), 1, 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			f, d := newFake(t)
			if test.current != 0 {
				f.current = []context{test.current}
			}
			m := f.add(attributes{test.owner, deviceMemory, false, 1}, 1)
			h, err := d.homeOf(m)
			if h != test.home || err != nil {
				t.Errorf("%v, %v; expected %v", h, err, test.home)
			}
			if err := d.leave(h.retained); err != nil || f.retained[1] != 0 {
				t.Error(err, f.retained)
			}
		})
	}
}

func TestManagedMemoryIsOfTheDeviceThatItWasAllocatedFor(t *testing.T) {
	f, d := newFake(t)
	m := f.add(attributes{0, hostMemory, true, 2}, 1)
	m.Device = managed
	if h, err := d.homeOf(m); h != (home{primary(2), 2, 2}) || err != nil {
		t.Error(h, err)
	}
}

func TestMemoryWithoutAnAddressIsOfTheDeviceThatItNames(t *testing.T) {
	_, d := newFake(t)
	if h, err := d.homeOf(Memory{Device: cudaDevice(2)}); h != (home{primary(2), 2, 2}) || err != nil {
		t.Error(h, err)
	}
}

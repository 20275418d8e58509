package cuda

import (
	"strconv"

	"dlpack/pkg/dlpack"
)

// Locate says on which device the memory at an address is: kDLCUDA and its ordinal; kDLCUDAManaged:0 where it is
// managed; kDLCUDAHost:0 where it is the host's, allocated by or registered with CUDA. An address that the driver does
// not know is malformed.
func (d *Driver) Locate(address uint64) (dlpack.Device, error) {
	known, err := d.pointerGetAttributes(address)
	switch {
	case err != nil:
		return dlpack.Device{}, explain(err, "data "+hex(address)+": the CUDA driver can't tell its device")
	case known.managed: // wherever its pages are at this moment
		return dlpack.Device{Type: dlpack.CUDAManaged}, nil
	case known.memoryType == hostMemory:
		return dlpack.Device{Type: dlpack.CUDAHost}, nil
	case known.memoryType == deviceMemory:
		return dlpack.Device{Type: dlpack.CUDA, ID: known.device}, nil
	}
	return dlpack.Device{}, dlpack.Malformed("data " + hex(address) + " is no address that the CUDA driver knows; " +
		"expected memory allocated by or registered with CUDA, and not freed")
}

// CurrentDevice is the calling thread's device, or kDLCUDA:0 if it has none. It stands for that of memory without
// items.
func (d *Driver) CurrentDevice() dlpack.Device {
	device, err := d.ctxGetDevice()
	if err != nil {
		device = 0
	}
	return dlpack.Device{Type: dlpack.CUDA, ID: device}
}

// A home is the context that a call is made in.
type home struct {
	context  context
	device   int32
	retained int32 // the device whose primary context was retained for this, or -1
}

// homeOf finds the context of memory: its own; else the thread's current one, if that is of the same device; else the
// device's primary context. The caller gives it back by leave.
func (d *Driver) homeOf(m Memory) (home, error) {
	device := m.Device.ID
	if m.Address != 0 {
		known, err := d.pointerGetAttributes(m.Address)
		if err != nil {
			return home{}, err
		}
		if known.memoryType != 0 {
			device = known.device
		}
		if known.context != 0 {
			return home{known.context, device, -1}, nil
		}
	}
	current, err := d.ctxGetCurrent()
	if err != nil {
		return home{}, err
	}
	if current != 0 {
		if on, err := d.ctxGetDevice(); err != nil || on == device {
			return home{current, device, -1}, err
		}
	}
	primary, err := d.devicePrimaryCtxRetain(device)
	return home{primary, device, device}, err
}

// keep retains the context if it is the primary one of its device: those who hold it now may release it.
func (d *Driver) keep(h *home) error {
	if h.retained >= 0 {
		return nil
	}
	active, err := d.devicePrimaryCtxIsActive(h.device)
	if err != nil || !active {
		return err
	}
	primary, err := d.devicePrimaryCtxRetain(h.device)
	if err != nil {
		return err
	}
	if primary != h.context {
		return d.devicePrimaryCtxRelease(h.device)
	}
	h.retained = h.device
	return nil
}

func (d *Driver) leave(retained int32) error {
	if retained < 0 {
		return nil
	}
	return d.devicePrimaryCtxRelease(retained)
}

// within calls f with the context current.
func (d *Driver) within(c context, f func() error) (err error) {
	if err := d.ctxPushCurrent(c); err != nil {
		return err
	}
	defer func() { err = first(err, d.ctxPopCurrent()) }()
	return f()
}

// checkDevice tells whether there is such a device.
func (d *Driver) checkDevice(device dlpack.Device) error {
	count, err := d.deviceGetCount()
	if err != nil {
		return explain(err, "the CUDA driver can't count its devices")
	}
	if device.ID < 0 || device.ID >= count {
		return dlpack.Unsupported("device " + device.String() + " is not there; the CUDA driver has " +
			strconv.Itoa(int(count)) + ", counted from 0")
	}
	return nil
}

func hex(n uint64) string {
	return "0x" + strconv.FormatUint(n, 16)
}

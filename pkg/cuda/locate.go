package cuda

import "dlpack/pkg/dlpack"

// Locate returns the device of the memory at an address. Device memory is kDLCUDA with its ordinal. Managed memory is
// kDLCUDAManaged:0. Host memory that CUDA allocated or registered is kDLCUDAHost:0. If the driver doesn't know the
// address, the error is of dlpack.ErrMalformed.
func (d *Driver) Locate(address uint64) (dlpack.Device, error) {
	known, err := d.pointerGetAttributes(address)
	switch {
	case err != nil:
		return dlpack.Device{}, explain(err, dlpack.DeviceNotTold, dlpack.Address("address", address))
	case known.managed: // wherever its pages are now
		return dlpack.Device{Type: dlpack.CUDAManaged}, nil
	case known.memoryType == hostMemory:
		return dlpack.Device{Type: dlpack.CUDAHost}, nil
	case known.memoryType == deviceMemory:
		return dlpack.Device{Type: dlpack.CUDA, ID: known.device}, nil
	}
	return dlpack.Device{}, dlpack.Malformed(dlpack.UnknownToDriver, dlpack.Address("address", address))
}

// CurrentDevice returns the calling thread's device, or kDLCUDA:0 if it has none. It stands for the device of memory
// without items.
func (d *Driver) CurrentDevice() dlpack.Device {
	device, err := d.ctxGetDevice()
	if err != nil {
		device = 0
	}
	return dlpack.Device{Type: dlpack.CUDA, ID: device}
}

// A home is the context in which a call is made.
type home struct {
	context  context
	device   int32
	retained int32 // the device whose primary context homeOf or keep retained, or -1
}

// homeOf returns the context of memory. It tries the memory's own, then the thread's current one if that is on the same
// device, then the device's primary context. The caller must pass `retained` to leave.
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

// keep retains the context if it is its device's primary one, since its present holders may release it.
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

// within calls f while c is the current context.
func (d *Driver) within(c context, f func() error) (err error) {
	if err := d.ctxPushCurrent(c); err != nil {
		return err
	}
	defer func() { err = first(err, d.ctxPopCurrent()) }()
	return f()
}

// checkDevice returns an error if the driver has no such device.
func (d *Driver) checkDevice(device dlpack.Device) error {
	count, err := d.deviceGetCount()
	if err != nil {
		return explain(err, dlpack.DevicesNotCounted)
	}
	if device.ID < 0 || device.ID >= count {
		return dlpack.Unsupported(dlpack.NoSuchDevice, dlpack.Text("device", device.String()),
			dlpack.Number("count", count))
	}
	return nil
}

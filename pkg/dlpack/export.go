package dlpack

// CheckExport refuses what a consumer asks of __dlpack__ and can't be served: another device (dl_device), or the
// ordering of its stream. None is has... == false. The numbers are those of the Python array API standard.
func CheckExport(device Device, hasStream bool, stream int64, hasTarget bool, target Device) error {
	if hasStream {
		if err := checkStream(device, stream); err != nil {
			return err
		}
	}
	if hasTarget && !target.same(device) {
		return &Error{BufferError, "dl_device " + target.String() + ": the data is on " + device.String() +
			", and is not copied between devices (copy it with the library that owns it)"}
	}
	return nil
}

func checkStream(device Device, stream int64) error {
	const noOrder = -1
	expected := ""
	switch device.Type {
	case CPU:
		return &Error{ValueError, "stream " + number(stream) + ": memory of the CPU has no streams; expected None"}
	case CUDA, CUDAHost, CUDAManaged:
		if stream == 0 || stream < noOrder {
			expected = "None, -1, 1, 2 or a stream's address"
		}
	case ROCM, ROCMHost:
		if stream == 1 || stream == 2 || stream < noOrder {
			expected = "None, -1, 0 or a stream's address"
		}
	}
	switch {
	case expected != "":
		return &Error{ValueError, "stream " + number(stream) + ": " + device.Type.String() +
			" has no such stream; expected " + expected}
	case stream == noOrder:
		return nil
	}
	return &Error{BufferError, "stream " + number(stream) + ": the order of streams on " + device.Type.String() +
		" can't be kept (pass stream=-1, and synchronise before)"}
}

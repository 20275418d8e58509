package dlpack

// Stream numbers of the Python array API standard and of the CUDA array interface. Other numbers are handles.
const (
	NoOrder         = -1 // as the consumer's stream: order nothing
	UnknownStream   = 0  // as the memory's stream: no work on it is known; never a CUDA stream
	LegacyStream    = 1  // CUDA's legacy default stream; None means it on CUDA
	PerThreadStream = 2  // CUDA's per-thread default stream
)

// CheckStream refuses a stream that the consumer's device does not have.
func CheckStream(device Device, stream int64) error {
	const noOrder = "None, -1, "
	switch {
	case device.Type == CPU:
		return Malformed("stream " + number(stream) + ": memory of the CPU has no streams; expected None")
	case stream == NoOrder || device.hasStream(stream):
		return nil
	}
	return Malformed("stream " + number(stream) + ": " + device.Type.String() + " has no such stream; expected " +
		noOrder + device.streams())
}

// CheckProducerStream refuses a stream on which work can't have written memory of this device.
func CheckProducerStream(device Device, stream int64) error {
	switch {
	case device.Type == CPU:
		return CheckStream(device, stream)
	case device.hasStream(stream):
		return nil
	}
	return Malformed("stream " + number(stream) + ": " + device.Type.String() +
		" has no such stream; expected None (nothing is queued on the memory) or " + device.streams())
}

// hasStream follows the array API standard, which excludes 0 on CUDA, and 1 and 2 on ROCm, as ambiguous.
func (d Device) hasStream(stream int64) bool {
	switch {
	case stream < 0:
		return false
	case d.Type.OfCUDA():
		return stream != 0
	case d.Type.ofROCm():
		return stream != 1 && stream != 2
	}
	return true
}

func (d Device) streams() string {
	switch {
	case d.Type.OfCUDA():
		return "1 (legacy default stream), 2 (per-thread default stream) or a stream's handle"
	case d.Type.ofROCm():
		return "0 (default stream) or a stream's handle"
	}
	return "a stream's handle"
}

// CheckOrder returns an error if two streams must be ordered on a device other than CUDA's, since only CUDA's streams
// can be. On the other devices, a consumer's stream 0 equals UnknownStream and None: ROCm's default stream is 0.
func CheckOrder(device Device, producer int64, hasConsumer bool, consumer int64) error {
	if device.Type == CPU || device.Type.OfCUDA() || consumer == producer || hasConsumer && consumer == NoOrder {
		return nil
	}
	stream := "stream None: the memory is written on stream " + number(producer) + ", and"
	if hasConsumer {
		stream = "stream " + number(consumer) + ":"
	}
	return Unsupported(stream + " the order of streams on " + device.Type.String() +
		" can't be kept (synchronise before, and pass stream=-1, or name no stream where the memory is described)")
}

// CheckTarget returns an error if memory can only get from device to target by a copy, and the copy is forbidden
// (mayCopy is false) or impossible.
func CheckTarget(device, target Device, mayCopy bool) error {
	if device.Reaches(target) {
		return nil
	}
	asked := target.String() + ": the data is on " + device.String()
	if target.Type.isNamed() {
		asked = "device " + asked
	}
	if !(device.Type.OnCPU() || device.Type == CUDA) || !(target.Type == CPU || target.Type == CUDA) {
		return Unsupported(asked + ", and is copied between the CPU and CUDA alone (copy it with the library that " +
			"owns it)")
	}
	if !mayCopy {
		return Unsupported(asked + ", and copy=False forbids to copy it (pass copy=None)")
	}
	return nil
}

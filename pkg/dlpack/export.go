package dlpack

import "math"

// Stream numbers of the Python array API standard and of the CUDA array interface. Other numbers are handles.
const (
	NoOrder         = -1 // as the consumer's stream: order nothing
	UnknownStream   = 0  // as the memory's stream: no work on it is known; never a CUDA stream
	LegacyStream    = 1  // CUDA's legacy default stream; None means it on CUDA
	PerThreadStream = 2  // CUDA's per-thread default stream
)

// Event returns what stands in the place of a producer's stream if an event completes the memory: the event's handle,
// negated. It is UnknownStream for a handle that no event has.
func Event(handle uint64) int64 {
	if handle < 2 || handle > math.MaxInt64 {
		return UnknownStream
	}
	return -int64(handle)
}

// EventOf returns the handle of the event that stands in the place of a producer's stream, or 0 if none does.
func EventOf(producer int64) uint64 {
	if producer < NoOrder {
		return uint64(-producer)
	}
	return 0
}

// CheckStream refuses a stream that the consumer's device does not have.
func CheckStream(device Device, stream int64) error {
	switch {
	case device.Type == CPU:
		return Malformed(CPUHasNoStreams, Number("stream", stream))
	case stream == NoOrder || device.hasStream(stream):
		return nil
	}
	return device.noStream(NoSuchStream, stream)
}

// CheckProducerStream refuses a stream on which work can't have written memory of this device.
func CheckProducerStream(device Device, stream int64) error {
	switch {
	case device.Type == CPU:
		return CheckStream(device, stream)
	case device.hasStream(stream):
		return nil
	}
	return device.noStream(NoSuchProducer, stream)
}

func (d Device) noStream(saying Saying, stream int64) error {
	return Malformed(saying, Number("stream", stream), Text("device", d.Type.String()), Worded("expected", d.streams()))
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

func (d Device) streams() Word {
	switch {
	case d.Type.OfCUDA():
		return StreamsOfCUDA
	case d.Type.ofROCm():
		return StreamsOfROCm
	}
	return Streams
}

// CheckOrder returns an error if two streams must be ordered on a device other than CUDA's, since only CUDA's streams
// can be. On the other devices, a consumer's stream 0 equals UnknownStream and None: ROCm's default stream is 0.
func CheckOrder(device Device, producer int64, hasConsumer bool, consumer int64) error {
	if device.Type == CPU || device.Type.OfCUDA() || consumer == producer || hasConsumer && consumer == NoOrder {
		return nil
	}
	saying, stream := OrderOfNoStream, producer
	if EventOf(producer) != 0 {
		return Unsupported(OrderOfEvent, Text("device", device.Type.String())).Cured(Synchronise)
	}
	if hasConsumer {
		saying, stream = OrderOfStream, consumer
	}
	return Unsupported(saying, Number("stream", stream), Text("device", device.Type.String())).Cured(Synchronise)
}

// CheckTarget returns an error if memory can only get from device to target by a copy, and the copy is forbidden
// (mayCopy is false) or impossible.
func CheckTarget(device, target Device, mayCopy bool) error {
	if device.Reaches(target) {
		return nil
	}
	saying, cure := CopyForbidden, CopyIfNeeded
	if !(device.Type.OnCPU() || device.Type == CUDA) || !(target.Type == CPU || target.Type == CUDA) {
		saying, cure = NoCopyTo, CopyWithLibrary
	} else if mayCopy {
		return nil
	}
	asked := OfDeviceType
	if target.Type.isNamed() {
		asked = OfDevice
	}
	return AddSubject(asked,
		Unsupported(saying, Text("target", target.String()), Text("device", device.String())).Cured(cure))
}

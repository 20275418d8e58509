// Package handover decides how memory reaches its consumer, and brings it there. It shares the memory as it is, in
// order with the consumer's stream, or copies it to the device that the consumer wants.
//
// [Prepare] validates a description, asks the CUDA driver where the memory is if nobody else knows, checks the
// consumer's request, and then shares or copies. [CopyInto] copies into existing memory. Memory for a copy comes from
// the caller, an [Allocator]. If nothing is copied and no driver is needed, nothing is allocated.
package handover

import (
	"unsafe"

	"dlpack/pkg/cuda"
	"dlpack/pkg/dlpack"
)

// Terms say how the consumer wants the memory.
type Terms struct {
	MayCopy  bool // if the memory can't be shared as it is
	MustCopy bool // even if it can be shared

	Device   DeviceSource
	Producer int64 // work on this stream may still write the memory; or dlpack.UnknownStream

	HasTarget bool
	Target    dlpack.Device // device that the consumer wants; without HasTarget, the memory's own

	Exports   bool // the consumer uses the memory now, in the order of its stream
	Completes bool // with Exports: on any stream, so the work on the memory must end before
	HasStream bool
	Consumer  int64 // its stream, or dlpack.NoOrder; without HasStream it is None
}

// DeviceSource says who names the CUDA device of the memory.
type DeviceSource uint8

const (
	FromProtocol DeviceSource = iota // the description
	FromCaller                       // the description, filled by a caller: the driver checks it
	FromDriver                       // the driver alone: the CUDA array interface names no device
)

// Allocator provides memory for copies and owns it from the start. It also frees the memory of a copy that fails.
type Allocator interface {
	// ForCopy returns CPU memory for a copy, or nil if none is left. It is called at most once.
	ForCopy(bytes int64) unsafe.Pointer
	// Scratch returns CPU memory, or nil if none is left. Free gets it back before Prepare or CopyInto returns.
	Scratch(bytes int64) unsafe.Pointer
	Free(scratch unsafe.Pointer)
	// Reserve is called before a copy to a device, so that Keep can't fail afterwards. It returns false if no memory is
	// left.
	Reserve() bool
	// Keep takes ownership of the device memory of a copy.
	Keep(cuda.Allocation)
}

// Prepare validates d and fills t with the consumer's tensor. It returns the stream on which work may still write the
// memory, or dlpack.UnknownStream. If Prepare copies, t describes the copy in the allocator's memory.
func Prepare(d *dlpack.Description, t *dlpack.Tensor, terms *Terms, allocator Allocator) (stream int64, err error) {
	if err := checkNamed(d, terms); err != nil {
		return 0, err
	}
	err = d.Validate(t)
	if err != nil && !(dlpack.KindOf(err) == dlpack.ErrNeedsCopy && terms.MayCopy) {
		return 0, err
	}
	copies := err != nil || terms.MustCopy
	if err := locate(d, t, terms.Device); err != nil {
		return 0, err
	}
	target := t.Device
	if terms.HasTarget {
		target = terms.Target
		if err := dlpack.CheckTarget(t.Device, target, terms.MayCopy); err != nil {
			return 0, err
		}
	}
	if terms.HasStream {
		if err := dlpack.CheckStream(target, terms.Consumer); err != nil {
			return 0, err
		}
	}
	stream = queuedOn(terms.Producer, t)
	if copies || !t.Device.Reaches(target) {
		return dlpack.UnknownStream, duplicate(d, t, stream, target, allocator)
	}
	if !t.Device.Same(target) && target.Type == dlpack.CPU {
		err := finish(d, t, stream)
		t.Device = target
		return dlpack.UnknownStream, err
	}
	t.Device = target
	if terms.Exports {
		return stream, order(d, t, stream, terms)
	}
	return stream, nil
}

// checkNamed refuses a device that a caller names and DLPack doesn't have. An export's target is not checked here: one
// that is unknown can't be served, whatever its number.
func checkNamed(d *dlpack.Description, terms *Terms) error {
	if terms.Device == FromCaller {
		if err := d.Device.Check(); err != nil {
			return err
		}
	}
	if terms.HasTarget && !terms.Exports {
		return terms.Target.Check()
	}
	return nil
}

// queuedOn returns the stream on which work may still write the tensor, given the stream that its producer named.
func queuedOn(producer int64, t *dlpack.Tensor) int64 {
	isDefault := producer == dlpack.LegacyStream && !t.Device.Type.OfCUDA() // None: it has no number on other devices
	if t.Device.Type == dlpack.CPU || t.Size == 0 || isDefault {
		return dlpack.UnknownStream
	}
	return producer
}

// order makes the consumer's stream wait for the producer's work on the memory, or waits for that work itself.
func order(d *dlpack.Description, t *dlpack.Tensor, producer int64, terms *Terms) error {
	if err := dlpack.CheckOrder(t.Device, producer, terms.HasStream, terms.Consumer); err != nil {
		return err
	}
	switch {
	case terms.Completes:
		return cuda.Finish(memoryOf(d, t), producer)
	case terms.HasStream:
		return cuda.Order(memoryOf(d, t), producer, terms.Consumer)
	case t.Device.Type.OnCPU(): // the consumer may have no streams, such as numpy
		return cuda.Finish(memoryOf(d, t), producer)
	}
	return cuda.Order(memoryOf(d, t), producer, dlpack.LegacyStream)
}

// finish waits for the work on memory that the CPU will read or write.
func finish(d *dlpack.Description, t *dlpack.Tensor, producer int64) error {
	if err := dlpack.CheckOrder(t.Device, producer, false, dlpack.UnknownStream); err != nil {
		return err
	}
	return cuda.Finish(memoryOf(d, t), producer)
}

// locate asks the driver for the device of CUDA's memory, unless the protocol names it.
func locate(d *dlpack.Description, t *dlpack.Tensor, source DeviceSource) error {
	if !t.Device.Type.OfCUDA() || source == FromProtocol {
		return nil
	}
	driver, err := cuda.Running()
	if err != nil {
		return err
	}
	said, found := t.Device, t.Device
	if t.Size > 0 {
		found, err = driver.Locate(memoryOf(d, t).Address)
	} else if source == FromDriver {
		found = driver.CurrentDevice()
	}
	if err != nil {
		return err
	}
	if source == FromDriver {
		t.Device = found
		return nil
	}
	// A caller may name managed memory by a CUDA device, since kernels use it there. The ids of managed and of host
	// memory mean nothing.
	managed := said.Type == dlpack.CUDA && found.Type == dlpack.CUDAManaged
	if found.Type != said.Type && !managed || found.Type == dlpack.CUDA && found.ID != said.ID {
		return dlpack.Malformed(dlpack.WrongDevice, dlpack.Text("device", said.String()),
			dlpack.Address("address", memoryOf(d, t).Address),
			dlpack.Text("found", found.String())).Cured(dlpack.PassDevice)
	}
	return nil
}

// memoryOf returns the memory as package cuda needs it, with the address of its first item.
func memoryOf(d *dlpack.Description, t *dlpack.Tensor) cuda.Memory {
	return cuda.Memory{Device: t.Device, Address: d.Data + t.Offset}
}

// Package handover decides how memory reaches its consumer, and brings it there: shared as it is, once it is in order
// with the consumer's stream, or copied to where the consumer wants it.
//
// [Prepare] does all of it. It validates a description, asks the CUDA driver where the memory is if nobody else knows,
// checks what the consumer asks for, and then shares or copies. The memory for a copy comes from its caller, an
// [Allocator]. Where nothing is copied and no driver is needed, nothing is allocated.
package handover

import (
	"strconv"
	"unsafe"

	"dlpack/pkg/cuda"
	"dlpack/pkg/dlpack"
)

// Terms are what is asked for, besides the memory itself.
type Terms struct {
	MayCopy  bool // where the memory can't be shared as it is
	MustCopy bool // even where it can

	Device   DeviceSource
	Producer int64 // work queued on this stream may still write the memory; or dlpack.UnknownStream

	HasTarget bool
	Target    dlpack.Device // where the consumer wants the memory; without HasTarget, where it is

	Exports   bool // the consumer takes the memory now, in the order of its stream
	HasStream bool
	Consumer  int64 // its stream, or dlpack.NoOrder; without HasStream it is None
}

// DeviceSource tells who knows on which of CUDA's devices the memory is.
type DeviceSource uint8

const (
	FromProtocol DeviceSource = iota // the description
	FromCaller                       // the description, as a caller filled it: the driver is asked whether it is right
	FromDriver                       // the driver alone: the CUDA array interface names no device
)

// Allocator provides the memory for a copy, and owns it from the start: it frees the memory of a copy that fails, too.
type Allocator interface {
	// ForCopy gives memory of the CPU that a copy is made to, or nil if there is none left. It is called at most once.
	ForCopy(bytes int64) unsafe.Pointer
	// Scratch gives memory of the CPU that is freed by Free before Prepare returns, or nil if there is none left.
	Scratch(bytes int64) unsafe.Pointer
	Free(scratch unsafe.Pointer)
	// Reserve is called before a copy to a device, so that Keep can't fail afterwards. False: there is no memory left.
	Reserve() bool
	// Keep takes over the memory of a device that a copy was made to.
	Keep(cuda.Allocation)
}

// Prepare validates d and fills t with the tensor that the consumer gets. It returns the stream on which work that
// writes the memory may still be queued, or dlpack.UnknownStream. If it copies, the tensor is that of the copy,
// whose memory the allocator has.
func Prepare(d *dlpack.Description, t *dlpack.Tensor, terms *Terms, allocator Allocator) (stream int64, err error) {
	if err := checkNamed(d, terms); err != nil {
		return 0, err
	}
	err = d.Validate(t)
	if err != nil && !(dlpack.KindOf(err) == dlpack.KindNeedsCopy && terms.MayCopy) {
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

// checkNamed refuses devices that a caller names and nobody has. One that a consumer asks for is a device that can't be
// served, whatever its number.
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

// queuedOn is the stream on which work that writes the tensor may still be queued, as its producer named it.
func queuedOn(producer int64, t *dlpack.Tensor) int64 {
	isDefault := producer == dlpack.LegacyStream && !t.Device.Type.OfCUDA() // what None means elsewhere has no number
	if t.Device.Type == dlpack.CPU || t.Size == 0 || isDefault {
		return dlpack.UnknownStream
	}
	return producer
}

// order makes the memory complete for who works on the consumer's stream, or waits until it is.
func order(d *dlpack.Description, t *dlpack.Tensor, producer int64, terms *Terms) error {
	if err := dlpack.CheckOrder(t.Device, producer, terms.HasStream, terms.Consumer); err != nil {
		return err
	}
	switch {
	case terms.HasStream:
		return cuda.Order(memoryOf(d, t), producer, terms.Consumer)
	case t.Device.Type.OnCPU(): // the consumer may be one without streams, such as numpy
		return cuda.Finish(memoryOf(d, t), producer)
	}
	return cuda.Order(memoryOf(d, t), producer, dlpack.LegacyStream)
}

// finish waits for the work on memory that the CPU reads or writes.
func finish(d *dlpack.Description, t *dlpack.Tensor, producer int64) error {
	if err := dlpack.CheckOrder(t.Device, producer, false, dlpack.UnknownStream); err != nil {
		return err
	}
	return cuda.Finish(memoryOf(d, t), producer)
}

// locate asks the driver where memory of CUDA is, unless the description is to be believed.
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
	// A kernel may use managed memory as any of its device's; the ids of such memory, and of the host's, say nothing.
	managed := said.Type == dlpack.CUDA && found.Type == dlpack.CUDAManaged
	if found.Type != said.Type && !managed || found.Type == dlpack.CUDA && found.ID != said.ID {
		return dlpack.Malformed("device " + said.String() + ": the memory at 0x" +
			strconv.FormatUint(memoryOf(d, t).Address, 16) + " is on " + found.String() + " (pass that device)")
	}
	return nil
}

// memoryOf is the memory as the driver knows it, by the address of its first item.
func memoryOf(d *dlpack.Description, t *dlpack.Tensor) cuda.Memory {
	return cuda.Memory{Device: t.Device, Address: d.Data + t.Offset}
}

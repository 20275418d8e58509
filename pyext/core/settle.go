package main

// #include "core.h"
import "C"

import (
	"strconv"

	"dlpack/pkg/cuda"
	"dlpack/pkg/dlpack"
)

// settle decides what becomes of validated memory: it is copied, waited for, ordered before the consumer's stream, or
// left as it is. It returns the stream by whose order the memory is complete from then on.
func settle(request *C.struct_request, d *dlpack.Description, t *dlpack.Tensor, answer *C.struct_answer, copies bool) (
	stream int64, err error) {
	if err := locate(request, d, t); err != nil {
		return 0, err
	}
	target := t.Device
	if request.has_target != 0 {
		target = deviceOf(request.target)
		if err := dlpack.CheckTarget(t.Device, target, request.copy != C.COPY_NEVER); err != nil {
			return 0, err
		}
	}
	hasConsumer, consumer := request.has_stream != 0, int64(request.stream)
	if hasConsumer {
		if err := dlpack.CheckStream(target, consumer); err != nil {
			return 0, err
		}
	}
	stream = int64(request.producer_stream)
	isDefault := stream == dlpack.LegacyStream && !t.Device.Type.OfCUDA() // what None means elsewhere has no number
	if t.Device.Type == dlpack.CPU || t.Size == 0 || isDefault {
		stream = dlpack.UnknownStream
	}
	if copies || !t.Device.Reaches(target) {
		return dlpack.UnknownStream, duplicate(d, t, stream, target, answer)
	}
	if !t.Device.Same(target) && target.Type == dlpack.CPU {
		err := cuda.Finish(memoryOf(d, t), stream)
		t.Device = target
		return dlpack.UnknownStream, err
	}
	t.Device = target
	if request.exports != 0 {
		if err := dlpack.CheckOrder(t.Device, stream, hasConsumer, consumer); err != nil {
			return 0, err
		}
		if hasConsumer {
			return stream, cuda.Order(memoryOf(d, t), stream, consumer)
		}
		if t.Device.Type.OnCPU() { // so may a consumer be that has no streams, such as numpy
			return stream, cuda.Finish(memoryOf(d, t), stream)
		}
		return stream, cuda.Order(memoryOf(d, t), stream, dlpack.LegacyStream)
	}
	return stream, nil
}

// locate asks the driver where memory is: the CUDA array interface does not say it, and who passes a pointer may err.
func locate(request *C.struct_request, d *dlpack.Description, t *dlpack.Tensor) error {
	isInterface := request.protocol == C.PROTOCOL_CUDA_ARRAY_INTERFACE
	isPointer := request.protocol == C.PROTOCOL_MEMORY && d.OnlyShared
	if !t.Device.Type.OfCUDA() || !isInterface && !isPointer {
		return nil
	}
	driver, err := cuda.Running()
	if err != nil {
		return err
	}
	said, found := t.Device, t.Device
	if t.Size > 0 {
		found, err = driver.Locate(memoryOf(d, t).Address)
	} else if isInterface {
		found = driver.CurrentDevice()
	}
	if err != nil {
		return err
	}
	if isInterface {
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

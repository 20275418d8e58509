package dlpack

import "strconv"

// DeviceType is the header's DLDeviceType.
type DeviceType int32

// The device types of the header, and below them those of DLPack's main branch, which no release has.
const (
	CPU         DeviceType = 1
	CUDA        DeviceType = 2
	CUDAHost    DeviceType = 3
	OpenCL      DeviceType = 4
	Vulkan      DeviceType = 7
	Metal       DeviceType = 8
	VPI         DeviceType = 9
	ROCM        DeviceType = 10
	ROCMHost    DeviceType = 11
	ExtDev      DeviceType = 12
	CUDAManaged DeviceType = 13
	OneAPI      DeviceType = 14
	WebGPU      DeviceType = 15
	Hexagon     DeviceType = 16
	MAIA        DeviceType = 17
	Trn         DeviceType = 18

	TPU     DeviceType = 19
	TPUHost DeviceType = 20
	Ascend  DeviceType = 21
)

var deviceTypes = [...]string{
	CPU:         "kDLCPU",
	CUDA:        "kDLCUDA",
	CUDAHost:    "kDLCUDAHost",
	OpenCL:      "kDLOpenCL",
	Vulkan:      "kDLVulkan",
	Metal:       "kDLMetal",
	VPI:         "kDLVPI",
	ROCM:        "kDLROCM",
	ROCMHost:    "kDLROCMHost",
	ExtDev:      "kDLExtDev",
	CUDAManaged: "kDLCUDAManaged",
	OneAPI:      "kDLOneAPI",
	WebGPU:      "kDLWebGPU",
	Hexagon:     "kDLHexagon",
	MAIA:        "kDLMAIA",
	Trn:         "kDLTrn",
	TPU:         "kDLTPU",
	TPUHost:     "kDLTPUHost",
	Ascend:      "kDLAscend",
}

// String returns the header's name: "kDLCPU".
func (t DeviceType) String() string {
	if t.isNamed() {
		return deviceTypes[t]
	}
	return "device type " + strconv.Itoa(int(t))
}

func (t DeviceType) isNamed() bool {
	return t >= 0 && int(t) < len(deviceTypes) && deviceTypes[t] != ""
}

// HasAddresses reports whether data is an address on such a device, so that an offset can be added to it. Elsewhere
// data is a handle, and the offset must stay in byte_offset.
func (t DeviceType) HasAddresses() bool {
	switch t {
	case CPU, CUDA, CUDAHost, ROCM, ROCMHost, CUDAManaged, OneAPI:
		return true
	}
	return false
}

// OnCPU reports whether the CPU can read such memory. No text says so of kDLTPUHost.
func (t DeviceType) OnCPU() bool {
	switch t {
	case CPU, CUDAHost, ROCMHost, CUDAManaged:
		return true
	}
	return false
}

// OfCUDA reports whether the CUDA driver knows such memory.
func (t DeviceType) OfCUDA() bool {
	return t == CUDA || t == CUDAHost || t == CUDAManaged
}

func (t DeviceType) ofROCm() bool {
	return t == ROCM || t == ROCMHost
}

// Device is the header's DLDevice, with the same memory layout.
type Device struct {
	Type DeviceType
	ID   int32
}

// String returns the device as Python shows it: "kDLCUDA:1".
func (d Device) String() string {
	return d.Type.String() + ":" + strconv.Itoa(int(d.ID))
}

// Check refuses a device that a caller names if its type has no name here, or if the id is invalid. It isn't for the
// device of existing memory: later versions of DLPack may have more types.
func (d Device) Check() error {
	if !d.Type.isNamed() {
		return Malformed(UnnamedDevice, Number("device_type", d.Type))
	}
	return d.checkID()
}

// checkID refuses negative ids, except for the CPU: there is one CPU.
func (d Device) checkID() error {
	if d.ID < 0 && d.Type != CPU {
		return Malformed(NegativeDeviceID, Number("id", d.ID), Text("device", d.Type.String()))
	}
	return nil
}

// Same reports whether d and other are one device. There is one CPU, whatever its id.
func (d Device) Same(other Device) bool {
	return d == other || d.Type == CPU && other.Type == CPU
}

// Reaches reports whether the target can use memory of d without a copy. The CPU can use all memory that it can read.
// Every CUDA device can use managed memory.
func (d Device) Reaches(target Device) bool {
	return d.Same(target) || target.Type == CPU && d.Type.OnCPU() || target.Type == CUDA && d.Type == CUDAManaged
}

package dlpack

import (
	"testing"
	"unsafe"
)

// TestNumbersAreTheHeaders logs each number that the standard fixes under its name in dlpack.h, and what it is here.
// tests/libraries/test_header.py compares the log with the header itself.
func TestNumbersAreTheHeaders(t *testing.T) {
	numbers := []struct {
		name      string
		got, want int
	}{
		{"DLPACK_MAJOR_VERSION", MajorVersion, 1},
		{"DLPACK_MINOR_VERSION", MinorVersion, 3},

		{"DLPACK_FLAG_BITMASK_READ_ONLY", int(ReadOnly), 1},
		{"DLPACK_FLAG_BITMASK_IS_COPIED", int(IsCopied), 2},
		{"DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED", int(SubbyteTypePadded), 4},

		{"kDLCPU", int(CPU), 1},
		{"kDLCUDA", int(CUDA), 2},
		{"kDLCUDAHost", int(CUDAHost), 3},
		{"kDLOpenCL", int(OpenCL), 4},
		{"kDLVulkan", int(Vulkan), 7},
		{"kDLMetal", int(Metal), 8},
		{"kDLVPI", int(VPI), 9},
		{"kDLROCM", int(ROCM), 10},
		{"kDLROCMHost", int(ROCMHost), 11},
		{"kDLExtDev", int(ExtDev), 12},
		{"kDLCUDAManaged", int(CUDAManaged), 13},
		{"kDLOneAPI", int(OneAPI), 14},
		{"kDLWebGPU", int(WebGPU), 15},
		{"kDLHexagon", int(Hexagon), 16},
		{"kDLMAIA", int(MAIA), 17},
		{"kDLTrn", int(Trn), 18},
		{"kDLTPU", int(TPU), 19},
		{"kDLTPUHost", int(TPUHost), 20},
		{"kDLAscend", int(Ascend), 21},

		{"kDLInt", int(Int), 0},
		{"kDLUInt", int(UInt), 1},
		{"kDLFloat", int(Float), 2},
		{"kDLOpaqueHandle", int(OpaqueHandle), 3},
		{"kDLBfloat", int(Bfloat), 4},
		{"kDLComplex", int(Complex), 5},
		{"kDLBool", int(Bool), 6},
		{"kDLFloat8_e3m4", int(Float8E3M4), 7},
		{"kDLFloat8_e4m3", int(Float8E4M3), 8},
		{"kDLFloat8_e4m3b11fnuz", int(Float8E4M3B11FNUZ), 9},
		{"kDLFloat8_e4m3fn", int(Float8E4M3FN), 10},
		{"kDLFloat8_e4m3fnuz", int(Float8E4M3FNUZ), 11},
		{"kDLFloat8_e5m2", int(Float8E5M2), 12},
		{"kDLFloat8_e5m2fnuz", int(Float8E5M2FNUZ), 13},
		{"kDLFloat8_e8m0fnu", int(Float8E8M0FNU), 14},
		{"kDLFloat6_e2m3fn", int(Float6E2M3FN), 15},
		{"kDLFloat6_e3m2fn", int(Float6E3M2FN), 16},
		{"kDLFloat4_e2m1fn", int(Float4E2M1FN), 17},
		{"kDLBcomplex", int(Bcomplex), 18},

		{"sizeof(DLDataType)", int(unsafe.Sizeof(DataType{})), 4},
		{"offsetof(DLDataType, code)", int(unsafe.Offsetof(DataType{}.Code)), 0},
		{"offsetof(DLDataType, bits)", int(unsafe.Offsetof(DataType{}.Bits)), 1},
		{"offsetof(DLDataType, lanes)", int(unsafe.Offsetof(DataType{}.Lanes)), 2},
		{"sizeof(DLDevice)", int(unsafe.Sizeof(Device{})), 8},
		{"offsetof(DLDevice, device_type)", int(unsafe.Offsetof(Device{}.Type)), 0},
		{"offsetof(DLDevice, device_id)", int(unsafe.Offsetof(Device{}.ID)), 4},
	}
	for _, number := range numbers {
		t.Logf("%s = %d", number.name, number.got)
		if number.got != number.want {
			t.Errorf("%s is %d; the header has %d", number.name, number.got, number.want)
		}
	}
}

func TestNamesOfDevicesAreTheHeaders(t *testing.T) {
	for device, want := range map[Device]string{
		{CPU, 0}:         "kDLCPU:0",
		{CUDA, 1}:        "kDLCUDA:1",
		{CUDAManaged, 2}: "kDLCUDAManaged:2",
		{Trn, 0}:         "kDLTrn:0",
		{TPU, 0}:         "kDLTPU:0",
		{TPUHost, 1}:     "kDLTPUHost:1",
		{Ascend, 2}:      "kDLAscend:2",
		{22, 0}:          "device type 22:0",
		{5, 0}:           "device type 5:0",
		{99, 3}:          "device type 99:3",
		{-1, -1}:         "device type -1:-1",
	} {
		if got := device.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestDevicesThatCallersNameAreThoseOfTheHeader(t *testing.T) {
	for number := DeviceType(-2); number < 100; number++ {
		named := number >= 1 && number <= 4 || number >= 7 && number <= 21
		if err := (Device{number, 0}).Check(); (err == nil) != named || !named && KindOf(err) != ErrMalformed {
			t.Errorf("%v: got %v", number, err)
		}
		if err := (Device{number, -1}).Check(); (err == nil) != (number == CPU) {
			t.Errorf("%v with the id -1: got %v", number, err)
		}
	}
}

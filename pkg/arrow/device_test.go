package arrow

import (
	"testing"

	"dlpack/pkg/dlpack"
)

var devices = []dlpack.DeviceType{dlpack.CPU, dlpack.CUDA, dlpack.CUDAHost, dlpack.ROCM, dlpack.Metal, 99}

// validity is the address of a bitmap that can't be read.
const validity = 1 << 21

// FuzzDeviceArray: whatever a hostile producer writes is answered or refused, and what lies on a device is never read.
func FuzzDeviceArray(f *testing.F) {
	f.Add(uint8(1), int32(0), uint8(0), int64(0), uint8(0), uint64(0), uint64(1<<30))
	f.Add(uint8(1), int32(-1), uint8(4), int64(-1), uint8(3), uint64(7<<60), uint64(0))
	f.Add(uint8(2), int32(3), uint8(4), int64(2), uint8(12), uint64(8), uint64(1))
	f.Add(uint8(3), int32(0), uint8(1), int64(0), uint8(0), uint64(64), uint64(1<<63))
	f.Add(uint8(0), int32(9), uint8(1), int64(0), uint8(0), uint64(64), uint64(1<<63))
	f.Add(uint8(1), int32(0), uint8(1), int64(0), uint8(0), uint64(64), uint64(0))
	f.Add(uint8(1), int32(0), uint8(1), int64(0), uint8(0), uint64(64), uint64(1))
	f.Add(uint8(1), int32(0), uint8(1), int64(-1), uint8(0), uint64(0), uint64(0))
	f.Add(uint8(2), int32(-1), uint8(1), int64(2), uint8(0), uint64(0), uint64(0))
	f.Add(uint8(2), int32(-1), uint8(4), int64(0), uint8(0), uint64(0), uint64(0))
	f.Add(uint8(4), int32(-1), uint8(0), int64(0), uint8(0), uint64(0), uint64(0))
	formats := []string{"i", "s", "l", "c", "b"}
	f.Fuzz(func(t *testing.T, device uint8, id int32, format uint8, nulls int64, poked uint8, value, handle uint64) {
		var a addresses
		items := a.items(formats[int(format)%len(formats)], 5, 1<<20)
		items.NullCount, items.Buffers = nulls, addressOf(&a, uint64(validity), 1<<20)
		source := a.source(items)
		source.Device = dlpack.Device{Type: devices[int(device)%len(devices)], ID: id}
		if source.SyncEvent = addressOf(&a, handle); value == 0 {
			source.SyncEvent = 0
		}
		if poke := int(poked) % 20; poke > 9 {
			(*[10]uint64)(pointerTo(source.Arrays))[poke-10] = value
		} else if poke > 0 {
			(*[9]uint64)(pointerTo(source.Schema))[poke-1] = value
		}
		isCPU := source.Device.Type == dlpack.CPU
		producer, err := source.Producer()
		want := dlpack.Event(handle)
		switch {
		case isCPU || source.SyncEvent == 0:
			want = dlpack.UnknownStream
		case !source.Device.Type.OfCUDA():
			want = dlpack.Event(source.SyncEvent)
		case want == dlpack.UnknownStream && dlpack.KindOf(err) == dlpack.ErrMalformed:
			return
		}
		if err != nil || producer != want {
			t.Fatalf("%v: %d, %v; want %d", source.Device, producer, err, want)
		}
		var d dlpack.Description
		err = source.Describe(0, &d)
		kind := dlpack.KindOf(err)
		if err != nil && kind != dlpack.ErrMalformed && kind != dlpack.ErrUnsupported {
			t.Fatal(err)
		}
		if poked%20 != 0 {
			return
		}
		wantKind := dlpack.Kind("")
		switch {
		case nulls < -1, nulls != 0 && isCPU: // its bitmap is read, which can't be
			wantKind = dlpack.ErrMalformed
		case nulls != 0, d.BitPacked && !source.Device.Type.OnCPU():
			wantKind = dlpack.ErrUnsupported
		}
		if kind != wantKind {
			t.Fatalf("%v, %d nulls: %v; want kind %q", source.Device, nulls, err, wantKind)
		}
	})
}

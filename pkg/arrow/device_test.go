package arrow

import (
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

var devices = []dlpack.DeviceType{dlpack.CPU, dlpack.CUDA, dlpack.CUDAHost, dlpack.ROCM, dlpack.Metal, 99}

// validity is the address of a bitmap that can't be read.
const validity = 1 << 21

func TestMemoryOfADeviceIsNotRead(t *testing.T) {
	var a addresses
	lists := func(nulls int64) *column {
		items := a.items("s", 6, 1<<20)
		items.NullCount, items.Buffers = nulls, addressOf(&a, uint64(validity), 1<<20)
		return a.around("+w:3", 2, items)
	}
	for _, test := range []struct {
		column *column
		device dlpack.Device
		id     int32
		want   string
	}{
		{a.items("l", 5, 1<<20), dlpack.Device{Type: dlpack.CUDA, ID: 2}, 2, ""},
		{a.items("l", 5, 1<<20), dlpack.Device{Type: dlpack.CUDA, ID: -1}, -1, ""}, // Validate refuses it
		{a.items("l", 5, 1<<20), dlpack.Device{Type: dlpack.CUDAHost, ID: -1}, 0, ""},
		{a.items("l", 5, 1<<20), dlpack.Device{Type: dlpack.Metal, ID: -1}, 0, ""},
		{lists(0), dlpack.Device{Type: dlpack.CUDA}, 0, ""},
		{lists(-1), dlpack.Device{Type: dlpack.CUDA}, 0, "nulls-on-device: protocol=exporter, nulls=-1, device=kDLCUDA:0"},
		{lists(2), dlpack.Device{Type: dlpack.CUDAHost}, 0, "nulls-on-device: protocol=exporter, nulls=2"},
		{lists(2), dlpack.Device{Type: dlpack.CPU}, 0, "bitmap-unreadable"},
		{a.items("b", 5, 1<<20), dlpack.Device{Type: dlpack.CUDA}, 0, "bits-on-device: field=Arrow format, text=\"b\""},
		{a.items("b", 5, 1<<20), dlpack.Device{Type: dlpack.CUDAHost}, 0, ""},
	} {
		source := a.source(test.column)
		source.Device = test.device
		var d dlpack.Description
		err := source.Describe(0, &d)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v; want %q", test.device, err, test.want)
		}
		if err == nil && (d.Device.Type != test.device.Type || d.Device.ID != test.id || d.Data != 1<<20) {
			t.Errorf("%v: %+v at %#x", test.device, d.Device, d.Data)
		}
	}
}

func TestTheProducerIsTheEventOfTheDevice(t *testing.T) {
	var a addresses
	const handle = 1 << 30
	at := addressOf(&a, uint64(handle))
	for _, test := range []struct {
		device dlpack.DeviceType
		event  uint64
		want   int64
		said   string
	}{
		{dlpack.CUDA, at, -handle, ""},
		{dlpack.CUDAManaged, at, -handle, ""},
		{dlpack.CUDA, 0, dlpack.UnknownStream, ""},
		{dlpack.CPU, 8, dlpack.UnknownStream, ""}, // ignored
		{dlpack.ROCM, handle, -handle, ""},        // an event of its own, which nobody reads
		{dlpack.CUDA, addressOf(&a, 0, at), 0, "no-event: address=0x0, protocol=exporter"},
		{dlpack.CUDA, addressOf(&a, 1, at), 0, "no-event: address=0x1"},
		{dlpack.CUDA, addressOf(&a, 1<<63, at), 0, "no-event: address=0x8000000000000000"},
		{dlpack.CUDA, 64, 0, "arrow-unreadable: field=ArrowDeviceArray.sync_event, address=0x40"},
	} {
		source := Source{Protocol: "exporter", Device: dlpack.Device{Type: test.device}, SyncEvent: test.event}
		producer, err := source.Producer()
		if (err == nil) != (test.said == "") || err != nil && !strings.Contains(err.Error(), test.said) {
			t.Errorf("%v of %#x: %v; want %q", test.device, test.event, err, test.said)
		}
		if err == nil && producer != test.want {
			t.Errorf("%v of %#x: %d; want %d", test.device, test.event, producer, test.want)
		}
		if n := testing.AllocsPerRun(10, func() { source.Producer() }); err == nil && n != 0 {
			t.Errorf("%v: %v allocations", test, n)
		}
	}
}

// FuzzDeviceArray: whatever a hostile producer writes is answered or refused, and what lies on a device is never read.
func FuzzDeviceArray(f *testing.F) {
	f.Add(uint8(1), int32(0), uint8(0), int64(0), uint8(0), uint64(0), uint64(1<<30))
	f.Add(uint8(1), int32(-1), uint8(4), int64(-1), uint8(3), uint64(7<<60), uint64(0))
	f.Add(uint8(2), int32(3), uint8(4), int64(2), uint8(12), uint64(8), uint64(1))
	f.Add(uint8(3), int32(0), uint8(1), int64(0), uint8(0), uint64(64), uint64(1<<63))
	f.Add(uint8(0), int32(9), uint8(1), int64(0), uint8(0), uint64(64), uint64(1<<63))
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

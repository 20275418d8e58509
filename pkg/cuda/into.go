package cuda

import (
	"sync/atomic"
	"unsafe"
)

// A Target is existing device memory, compact and row-major. It is written after the work queued on Stream, which may
// be dlpack.UnknownStream.
type Target struct {
	Memory
	Stream int64
}

// Write copies bytes from the host to a device, and returns when the copy is complete.
func (d *Driver) Write(target Target, src unsafe.Pointer, bytes int64) error {
	err := d.inRelaxedMode(func() error {
		return d.copyFrom(&Source{Memory: target.Memory, Stream: target.Stream}, func(own queue) error {
			return d.memcpyHtoDAsync(target.Address, uint64(uintptr(src)), bytes, own.stream)
		})
	})
	if err != nil {
		err = notCopied(err, bytes, host("from"), on("to", target.Device))
	}
	return err
}

// CopyInto copies items from one device's memory to that of the same or another device, and returns when the copy is
// complete. If source and target overlap, it copies the items to scratch memory first.
func (d *Driver) CopyInto(target Target, source *Source) error {
	bytes := source.bytes()
	err := d.inRelaxedMode(func() error { return d.copyInto(target, source, bytes) })
	if err != nil {
		err = notCopied(err, bytes, on("from", source.Device), on("to", target.Device))
	}
	return err
}

func (d *Driver) copyInto(target Target, source *Source, bytes int64) (err error) {
	end := target.Address + uint64(bytes)
	if source.Address-source.Below < end && target.Address < source.Address+source.Above {
		scratch := Allocation{Retained: -1}
		defer func() { err = first(err, d.release(&scratch)) }()
		if err := d.toDevice(target.Device, source, bytes, &scratch); err != nil {
			return err
		}
		source = &Source{Memory: Memory{source.Device, scratch.Address}, ItemSize: int(bytes)}
	}
	var p plan
	if err := d.planOnDevice(&p, source, bytes); err != nil {
		return err
	}
	h, err := d.homeOf(target.Memory)
	if err != nil {
		return err
	}
	defer func() { err = first(err, d.leave(h.retained)) }()
	there, err := d.isOn(h.device, source)
	if err != nil {
		return err
	}
	return d.fill(target, h.context, there, source, &p, bytes)
}

// Writable reports whether host memory can be written, by a write to each page. The write changes nothing, since the
// copy may still fail or read the same memory.
func Writable(address uint64, bytes int64) bool {
	return touches(address, bytes, poke)
}

//go:noinline
func poke(p unsafe.Pointer) byte {
	word := (*uint32)(unsafe.Add(p, -int(uintptr(p)%4))) // aligned, so in p's page
	atomic.OrUint32(word, 0)
	return 0
}

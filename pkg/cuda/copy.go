package cuda

import (
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/foreign"
	"dlpack/pkg/strided"
)

// ToHost copies the items to dst, compactly and in row-major order, and returns when the copy is complete.
func (d *Driver) ToHost(dst unsafe.Pointer, source *Source) error {
	bytes := source.bytes()
	if bytes == 0 {
		return nil
	}
	err := d.inRelaxedMode(func() error { return d.toHost(dst, source, bytes) })
	if err != nil {
		err = notCopied(err, bytes, on("from", source.Device), host("to"))
	}
	return err
}

// toHost copies by a plan if there is one and no bytes are swapped. Otherwise it fetches the items into scratch memory
// of the host, and the CPU copies them to dst. Without a plan, it fetches the bytes between the items as well, as long
// as the items are dense.
func (d *Driver) toHost(dst unsafe.Pointer, source *Source, bytes int64) error {
	var p plan
	planned, err := d.plan(&p, source)
	if err != nil {
		return err
	}
	if planned && source.Swap == 0 {
		return d.fetch(dst, source, &p, source.Address)
	}
	shape, strides := []int64{bytes / int64(source.ItemSize)}, []int64{int64(source.ItemSize)}
	size, from, begin := bytes, source.Address, uint64(0)
	if !planned {
		if !source.isDense(bytes) {
			return noPlan(source, dlpack.CompactWithLibrary)
		}
		shape, strides = source.Shape, source.Strides
		size, from, begin = int64(source.Below+source.Above), source.Address-source.Below, source.Below
		p = plan{width: size, rows: dim{N: 1}, slices: dim{N: 1}}
	}
	scratch := allocate(size)
	if scratch == nil {
		return dlpack.OutOfMemory(dlpack.NoHostMemory, dlpack.Number("bytes", size))
	}
	defer free(scratch)
	if err := d.fetch(scratch, source, &p, from); err != nil {
		return err
	}
	strided.Copy(dst, unsafe.Add(scratch, begin), shape, strides, source.ItemSize, source.Swap)
	return nil
}

// fetch copies to host memory by a plan.
func (d *Driver) fetch(dst unsafe.Pointer, source *Source, p *plan, from uint64) error {
	return d.copyFrom(source, func(own queue) error {
		return d.carryOut(p, hostMemory, uint64(uintptr(dst)), from, own.stream)
	})
}

// ToDevice copies the items to new device memory, compactly and in row-major order, and returns when the copy is
// complete.
func (d *Driver) ToDevice(target dlpack.Device, source *Source) (Allocation, error) {
	bytes := source.bytes()
	return d.newMemory(target, bytes, on("from", source.Device), func(a *Allocation) error {
		return d.toDevice(target, source, bytes, a)
	})
}

// FromHost copies `bytes` bytes of the host to new device memory, and returns when the copy is complete. items returns
// their address, which is valid until done is called. FromHost calls items after it has allocated the device memory,
// since preparing the items may take minutes.
func (d *Driver) FromHost(
	target dlpack.Device, bytes int64, items func() (src unsafe.Pointer, done func(), err error),
) (Allocation, error) {
	return d.newMemory(target, bytes, host("from"), func(a *Allocation) error {
		if err := d.allocate(a, Memory{Device: target}, bytes); err != nil {
			return err
		}
		src, done, err := items()
		if err != nil {
			return err
		}
		defer done()
		return d.onOwnStream(a.context(), func(own queue) error {
			return d.memcpyHtoDAsync(a.Address, uint64(uintptr(src)), bytes, own.stream)
		})
	})
}

// newMemory returns the memory that f allocates and fills. It frees the memory if anything fails or panics.
func (d *Driver) newMemory(target dlpack.Device, bytes int64, from dlpack.Value, f func(*Allocation) error) (
	a Allocation, err error,
) {
	a.Retained = -1
	if err := d.checkDevice(target); err != nil || bytes == 0 {
		return a, err
	}
	err = d.inRelaxedMode(func() error {
		filled := false
		defer func() {
			if !filled {
				d.release(&a)
			}
		}()
		err := f(&a)
		filled = err == nil
		return err
	})
	if err != nil {
		d.release(&a) // f succeeded, but the mode couldn't be restored
		err = notCopied(err, bytes, from, on("to", target))
	}
	return a, err
}

func (d *Driver) toDevice(target dlpack.Device, source *Source, bytes int64, a *Allocation) error {
	var p plan
	if err := d.planOnDevice(&p, source, bytes); err != nil {
		return err
	}
	m := Memory{Device: target}
	there, err := d.isOn(target.ID, source)
	if err != nil {
		return err
	}
	if there {
		m = source.Memory
	}
	if err := d.allocate(a, m, bytes); err != nil {
		return err
	}
	return d.fill(Target{Memory{target, a.Address}, dlpack.UnknownStream}, a.context(), there, source, &p, bytes)
}

// planOnDevice plans the copy of a source to a device. If that can't be done, the error says why.
func (d *Driver) planOnDevice(p *plan, source *Source, bytes int64) error {
	planned, err := d.plan(p, source)
	if err != nil {
		return err
	}
	cure := dlpack.CopyWithLibrary
	if planned || source.isDense(bytes) {
		cure = dlpack.CopyToHost
	}
	switch {
	case source.Swap != 0:
		return dlpack.Unsupported(dlpack.SwappedOnDevice).Cured(cure)
	case !planned:
		return noPlan(source, cure)
	}
	return nil
}

// isOn reports whether both the source's description and the driver say that the source is on the device. They may
// differ: managed memory may be described as another device's.
func (d *Driver) isOn(device int32, source *Source) (bool, error) {
	if source.Device != (dlpack.Device{Type: dlpack.CUDA, ID: device}) {
		return false, nil
	}
	h, err := d.homeOf(source.Memory)
	if err != nil {
		return false, err
	}
	return h.device == device, d.leave(h.retained)
}

// fill copies to a target by a plan. `to` is the target's context. `there` says whether the source is on the target's
// device.
func (d *Driver) fill(target Target, to context, there bool, source *Source, p *plan, bytes int64) (err error) {
	if there {
		return d.copyFrom(source, func(own queue) error {
			if err := d.wait(own, target.Memory, target.Stream); err != nil {
				return err
			}
			return d.carryOut(p, deviceMemory, target.Address, source.Address, own.stream)
		})
	}
	compact, scratch := source.Address, Allocation{Retained: -1}
	if !p.isCompact() {
		defer func() { err = first(err, d.release(&scratch)) }()
		if err := d.allocate(&scratch, source.Memory, bytes); err != nil {
			return err
		}
		compact = scratch.Address
	}
	return d.copyFrom(source, func(own queue) error {
		if !p.isCompact() {
			if err := d.carryOut(p, deviceMemory, compact, source.Address, own.stream); err != nil {
				return err
			}
		}
		if err := d.wait(own, target.Memory, target.Stream); err != nil {
			return err
		}
		return d.memcpyPeerAsync(target.Address, to, compact, own.context, bytes, own.stream)
	})
}

// plan plans the copy of a source, and reports whether there is a plan.
func (d *Driver) plan(p *plan, source *Source) (bool, error) {
	pitch, err := d.maxPitch(source.Device.ID)
	return err == nil && p.make(source, pitch), err
}

// carryOut queues the copies of a plan on a stream.
func (d *Driver) carryOut(p *plan, dstType memoryType, dst, src uint64, on stream) error {
	return p.each(dst, src, func(dst, src uint64) error {
		switch {
		case p.rows.N > 1:
			b := p.block(dstType, dst, src)
			return d.memcpy3DAsync(&b, on)
		case dstType == hostMemory:
			return d.memcpyDtoHAsync(dst, src, p.width, on)
		default:
			return d.memcpyDtoDAsync(dst, src, p.width, on)
		}
	})
}

// copyFrom calls f with a new stream, which waits for the work on the source's stream.
func (d *Driver) copyFrom(source *Source, f func(queue) error) (err error) {
	h, err := d.homeOf(source.Memory)
	if err != nil {
		return err
	}
	defer func() { err = first(err, d.leave(h.retained)) }()
	return d.onOwnStream(h.context, func(own queue) error {
		if err := d.wait(own, source.Memory, source.Stream); err != nil {
			return err
		}
		return f(own)
	})
}

// wait makes a queue wait for the work on a stream of memory m, if that stream is known, or for an event in its place.
func (d *Driver) wait(own queue, m Memory, number int64) error {
	if number == dlpack.UnknownStream {
		return nil
	}
	if handle := dlpack.EventOf(number); handle != 0 {
		return d.waitForEvent(own, handle)
	}
	return d.onStream("producer", number, m, func(from queue) error {
		return d.orderQueues(from, own)
	})
}

// onOwnStream calls f with a new stream, and waits for the work that f queues there. It also waits after a failure or a
// panic, since queued work still uses memory that the caller may free next.
func (d *Driver) onOwnStream(c context, f func(queue) error) error {
	return d.within(c, func() (err error) {
		s, err := d.streamCreate()
		if err != nil {
			return err
		}
		defer func() { err = first(err, d.streamDestroy(s)) }()
		defer func() { err = first(err, d.streamSynchronize(s)) }()
		return f(queue{"copy", s, c})
	})
}

// allocate fills a with new memory on m's device, in m's context.
func (d *Driver) allocate(a *Allocation, m Memory, bytes int64) error {
	free, err := d.freeFunctions()
	if err != nil {
		return err
	}
	h, err := d.homeOf(m)
	if err == nil {
		err = d.keep(&h)
	}
	if err != nil {
		return err
	}
	*a = Allocation{0, foreign.Pointer(uint64(h.context)), h.retained, free}
	return d.within(h.context, func() (err error) {
		a.Address, err = d.memAlloc(bytes)
		return err
	})
}

// release frees an allocation, even an incomplete one.
func (d *Driver) release(a *Allocation) (err error) {
	if a.Address != 0 {
		err = d.within(a.context(), func() error { return d.memFree(a.Address) })
	}
	err = first(err, d.leave(a.Retained))
	*a = Allocation{Retained: -1}
	return err
}

func (a *Allocation) context() context {
	return context(uintptr(a.Context))
}

func (s *Source) bytes() int64 {
	bytes := int64(s.ItemSize)
	for _, n := range s.Shape {
		bytes *= n
	}
	return bytes
}

// isDense reports whether the items and the gaps between them take at most twice the bytes of the items.
func (s *Source) isDense(bytes int64) bool {
	return s.Below+s.Above <= 2*uint64(bytes)
}

func notCopied(err error, bytes int64, from, to dlpack.Value) error {
	return explain(err, dlpack.NotCopied, dlpack.Number("bytes", bytes), from, to)
}

func on(name string, device dlpack.Device) dlpack.Value { return dlpack.Text(name, device.String()) }

func host(name string) dlpack.Value { return dlpack.Worded(name, dlpack.Host) }

func noPlan(source *Source, cure dlpack.Cure) error {
	return dlpack.Unsupported(dlpack.ScatteredOnDevice, dlpack.Text("strides", dlpack.JoinNumbers(source.Strides)),
		dlpack.Text("device", source.Device.String()), dlpack.Number("most", mostCalls)).Cured(cure)
}

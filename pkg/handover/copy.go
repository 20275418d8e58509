package handover

import (
	"slices"
	"unsafe"

	"dlpack/pkg/cuda"
	"dlpack/pkg/dlpack"
	"dlpack/pkg/foreign"
	"dlpack/pkg/strided"
)

// duplicate copies the items to new memory on the target, compactly and in native byte order, after the work queued on
// the stream. t becomes the tensor of the copy. Memory that the CPU can read is copied to the CPU, unless the target is
// a CUDA device.
func duplicate(d *dlpack.Description, t *dlpack.Tensor, stream int64, target dlpack.Device, allocator Allocator) error {
	var err error
	switch onCPU, toCUDA := t.Device.Type.OnCPU(), target.Type == dlpack.CUDA; {
	case onCPU && toCUDA:
		err = upload(d, t, stream, target, allocator)
	case onCPU:
		target = dlpack.Device{Type: dlpack.CPU}
		err = copyOnCPU(d, t, stream, allocator)
	case t.Device.Type == dlpack.CUDA && toCUDA:
		err = copyOnDevice(d, t, stream, target, allocator)
	case t.Device.Type == dlpack.CUDA:
		err = download(d, t, stream, allocator)
	default:
		err = dlpack.Unsupported(dlpack.NoCopyFrom, dlpack.Text("device", t.Device.String())).Cured(dlpack.CopyWithLibrary)
	}
	if err != nil {
		return err
	}
	t.MakeCompact()
	t.Flags |= dlpack.IsCopied
	t.Device = target
	return nil
}

func copyOnCPU(d *dlpack.Description, t *dlpack.Tensor, stream int64, allocator Allocator) error {
	if err := finish(d, t, stream); err != nil {
		return err
	}
	memory := allocator.ForCopy(t.NBytes)
	if memory == nil {
		return noMemory(t.NBytes)
	}
	return copyItems(memory, d, t)
}

func upload(d *dlpack.Description, t *dlpack.Tensor, stream int64, target dlpack.Device, allocator Allocator) error {
	driver, err := cuda.Start()
	if err != nil {
		return noDriver(err, t, target)
	}
	if err := reserve(allocator); err != nil {
		return err
	}
	if err := finish(d, t, stream); err != nil {
		return err
	}
	allocation, err := driver.FromHost(target, t.NBytes, func() (unsafe.Pointer, func(), error) {
		return hostItems(d, t, false, allocator)
	})
	if err != nil {
		return err
	}
	allocator.Keep(allocation)
	return nil
}

// hostItems returns the items in compact host memory, which a driver may read until done is called. That is the
// tensor's own memory, or a scratch copy if the memory isn't compact, is swapped or bit-packed, or will be written
// meanwhile.
func hostItems(
	d *dlpack.Description, t *dlpack.Tensor, written bool, allocator Allocator,
) (src unsafe.Pointer, done func(), err error) {
	if written || !t.Compact || d.Swapped || d.BitPacked {
		scratch := allocator.Scratch(t.NBytes)
		if scratch == nil {
			return nil, nil, noMemory(t.NBytes)
		}
		free := func() { allocator.Free(scratch) }
		defer func() {
			if src == nil { // after an error or a panic
				free()
			}
		}()
		if err := copyItems(scratch, d, t); err != nil {
			return nil, nil, err
		}
		return scratch, free, nil
	}
	from := memoryOf(d, t)
	if t.Device.Type == dlpack.CPU && !cuda.Readable(from.Address, t.NBytes) {
		return nil, nil, unreadable(from.Address)
	}
	return from.Pointer(), func() {}, nil
}

func download(d *dlpack.Description, t *dlpack.Tensor, stream int64, allocator Allocator) error {
	driver, err := cuda.Running()
	if err != nil {
		return noDriver(err, t, dlpack.Device{Type: dlpack.CPU})
	}
	memory := allocator.ForCopy(t.NBytes)
	if memory == nil {
		return noMemory(t.NBytes)
	}
	return driver.ToHost(memory, sourceOf(d, t, stream))
}

func copyOnDevice(
	d *dlpack.Description, t *dlpack.Tensor, stream int64, target dlpack.Device, allocator Allocator,
) error {
	driver, err := cuda.Running()
	if err != nil {
		return noDriver(err, t, target)
	}
	if err := reserve(allocator); err != nil {
		return err
	}
	allocation, err := driver.ToDevice(target, sourceOf(d, t, stream))
	if err != nil {
		return err
	}
	allocator.Keep(allocation)
	return nil
}

func reserve(allocator Allocator) error {
	if !allocator.Reserve() {
		return dlpack.OutOfMemory(dlpack.NoMemory)
	}
	return nil
}

func noMemory(bytes int64) error {
	return dlpack.OutOfMemory(dlpack.NoMemoryFor, dlpack.Number("bytes", bytes))
}

// noDriver returns a copy's error if the driver can't be used.
func noDriver(err error, t *dlpack.Tensor, target dlpack.Device) error {
	r, ok := err.(*dlpack.Refusal)
	if !ok {
		return err
	}
	from, to := dlpack.Text("from", t.Device.String()), dlpack.Text("to", target.String())
	return dlpack.AddSubject(dlpack.OfCopy, dlpack.Unsupported(r.Saying, append(r.Values, from, to)...))
}

func sourceOf(d *dlpack.Description, t *dlpack.Tensor, stream int64) *cuda.Source {
	strides := d.ByteStrides(t)
	source := &cuda.Source{
		Memory:   memoryOf(d, t),
		Stream:   stream,
		Shape:    slices.Clone(t.Shape[:t.NDim]), // so that t stays on the stack
		Strides:  slices.Clone(strides[:t.NDim]),
		ItemSize: int(t.ItemSize),
		Swap:     wordSize(d),
		Below:    t.Below,
		Above:    t.Above,
	}
	if t.Packed() {
		source.Shape, source.Strides, source.ItemSize = []int64{t.NBytes}, []int64{1}, 1
	}
	return source
}

// copyItems copies items that the CPU can read, compactly and in native byte order.
func copyItems(to unsafe.Pointer, d *dlpack.Description, t *dlpack.Tensor) error {
	if t.Size == 0 {
		return nil
	}
	memory := memoryOf(d, t)
	lowest := memory.Address - t.Below
	address, faulted := foreign.Touch(func() {
		foreign.At(lowest, t.Below+t.Above)
		from := memory.Pointer()
		switch strides := d.ByteStrides(t); {
		case d.BitPacked:
			strided.Unpack(to, from, int(d.FirstBit), int(t.Size))
		case t.Packed():
			strided.Copy(to, from, []int64{t.NBytes}, []int64{1}, 1, 0)
		default:
			strided.Copy(to, from, t.Shape[:t.NDim], strides[:t.NDim], int(t.ItemSize), wordSize(d))
		}
	})
	if faulted {
		return unreadable(max(address, lowest)) // address is 0 if the processor doesn't report it
	}
	return nil
}

func unreadable(address uint64) error {
	return dlpack.Unsupported(dlpack.Unreadable, dlpack.Address("address", address))
}

// wordSize returns the bytes of the words that a copy reverses, or 0 for none.
func wordSize(d *dlpack.Description) int {
	if d.Swapped {
		return int(d.DataType.Alignment())
	}
	return 0
}

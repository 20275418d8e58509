package handover

import (
	"unsafe"

	"dlpack/pkg/dlpack"
)

// Chunks are the pieces of an array in separate memory: its first rows, the next rows, and so on.
type Chunks interface {
	Rows() (int64, error) // of all chunks
	Describe(chunk int, d *dlpack.Description) error
}

// anywhere is a valid address that stands for memory not yet allocated.
const anywhere = 4096

// Join copies chunks with equal items and rows to new CPU memory, and fills d with its description. The allocator owns
// the memory, even if Join fails. Join refuses chunks that change meanwhile in another thread.
func Join(d *dlpack.Description, chunks Chunks, count int, allocator Allocator) error {
	rows, err := chunks.Rows()
	if err != nil {
		return err
	}
	var memory unsafe.Pointer
	var chunk dlpack.Description
	var t, joined dlpack.Tensor
	filled := int64(0)
	for i := range count {
		chunk = dlpack.Description{}
		if err := chunks.Describe(i, &chunk); err != nil {
			return err
		}
		if err := chunk.Validate(&t); err != nil && dlpack.KindOf(err) != dlpack.ErrNeedsCopy {
			return err
		}
		if i == 0 {
			item := dlpack.Item{DataType: t.DataType, Flags: t.Flags | dlpack.IsCopied}
			*d = dlpack.Description{Item: item, Device: t.Device, Span: -1, Data: anywhere, NDim: t.NDim, Shape: t.Shape}
			d.Shape[0] = rows
			if err := d.Validate(&joined); err != nil {
				return err
			}
			if memory = allocator.ForCopy(joined.NBytes); memory == nil {
				return noMemory(joined.NBytes)
			}
			d.Data = uint64(uintptr(memory))
		}
		if t.NBytes > joined.NBytes-filled {
			return changed()
		}
		if err := copyItems(unsafe.Add(memory, filled), &chunk, &t); err != nil {
			return err
		}
		filled += t.NBytes
	}
	if filled != joined.NBytes {
		return changed()
	}
	return nil
}

// changed returns the error for chunks that changed after their memory was allocated.
func changed() error {
	return dlpack.Malformed(dlpack.ChunksChanged)
}

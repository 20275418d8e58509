package handover

import (
	"unsafe"

	"dlpack/pkg/dlpack"
)

// Chunks are pieces of an array that lie apart: its first rows, the next ones, and so on.
type Chunks interface {
	Rows() (int64, error) // of all
	Describe(chunk int, d *dlpack.Description) error
}

// anywhere is a good address for memory that is not there yet.
const anywhere = 4096

// Join copies chunks of equal items and rows to new memory of the CPU, and fills d with its description. The memory is
// the allocator's, also where joining fails. Chunks that another thread changes meanwhile are refused.
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
		if err := chunk.Validate(&t); err != nil && dlpack.KindOf(err) != dlpack.KindNeedsCopy {
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

// changed refuses chunks that are not what they were when the memory for them was allocated.
func changed() error {
	return dlpack.Malformed("chunks: their lengths or types changed while they were read; expected chunks that do " +
		"not change")
}

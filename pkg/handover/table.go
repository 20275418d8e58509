package handover

import (
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/foreign"
	"dlpack/pkg/strided"
)

// A Table is columns of one data type, in chunks.
type Table interface {
	Rows() (int64, error) // of all chunks
	DescribeColumn(chunk int, column int64, d *dlpack.Description, t *dlpack.Tensor) error
}

// Matrix copies a table to a new row-major matrix in CPU memory, and fills d with its description. The allocator owns
// the memory, even if Matrix fails. Matrix refuses chunks that change meanwhile in another thread.
func Matrix(d *dlpack.Description, table Table, columns int64, chunks int, allocator Allocator) error {
	rows, err := table.Rows()
	if err != nil {
		return err
	}
	var memory unsafe.Pointer
	var matrix dlpack.Tensor
	filled := int64(0)
	sources := make([]source, 0, min(columns, 1<<10)) // no more in advance: columns is not trusted
	for chunk := range max(chunks, 1) {
		if sources, err = describeColumns(sources[:0], table, columns, chunk); err != nil {
			return err
		}
		first := &sources[0]
		if chunk == 0 {
			*d = dlpack.Description{Item: dlpack.Item{DataType: first.dtype, Flags: dlpack.IsCopied},
				Device: dlpack.Device{Type: dlpack.CPU}, Span: -1, Data: anywhere, NDim: 2}
			d.Shape[0], d.Shape[1] = rows, columns
			if err := d.Validate(&matrix); err != nil {
				return err
			}
			if memory = allocator.ForCopy(matrix.NBytes); memory == nil {
				return noMemory(matrix.NBytes)
			}
			d.Data = uint64(uintptr(memory))
		}
		bytes := first.rows * columns * matrix.ItemSize
		if first.rows > rows || bytes > matrix.NBytes-filled {
			return changed()
		}
		if err := copyRows(unsafe.Add(memory, filled), sources, int(matrix.ItemSize)); err != nil {
			return err
		}
		filled += bytes
	}
	if filled != matrix.NBytes {
		return changed()
	}
	return nil
}

// A source is a column of a chunk.
type source struct {
	dtype     dlpack.DataType
	rows      int64
	first     uint64 // address
	bytes     uint64
	firstBit  int
	bitPacked bool
}

// describeColumns appends all columns of a chunk.
func describeColumns(sources []source, table Table, columns int64, chunk int) ([]source, error) {
	var d dlpack.Description
	var t dlpack.Tensor
	for i := range columns {
		d = dlpack.Description{}
		if err := table.DescribeColumn(chunk, i, &d, &t); err != nil {
			return nil, err
		}
		s := source{t.DataType, t.Size, d.Data + t.Offset, t.Above, int(d.FirstBit), d.BitPacked}
		if i > 0 && (s.rows != sources[0].rows || s.dtype != sources[0].dtype) {
			return nil, changed()
		}
		sources = append(sources, s)
	}
	return sources, nil
}

// copyRows copies the columns row by row.
func copyRows(to unsafe.Pointer, sources []source, size int) error {
	if sources[0].rows == 0 {
		return nil
	}
	columns := make([]strided.Column, len(sources))
	at := sources[0].first
	address, faulted := foreign.Touch(func() {
		for i, s := range sources {
			at = s.first
			columns[i] = strided.Column{Src: foreign.At(s.first, s.bytes), BitPacked: s.bitPacked, FirstBit: s.firstBit}
		}
		strided.Rows(to, columns, int(sources[0].rows), size)
	})
	if faulted {
		if address == 0 { // the processor doesn't report it
			address = at
		}
		return unreadable(address)
	}
	return nil
}

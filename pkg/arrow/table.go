package arrow

import (
	"dlpack/pkg/dlpack"
	"dlpack/pkg/protocol"
)

// A Table is a source whose outermost structure has several columns, which are read one by one. They must have one data
// type, as a matrix has.
type Table struct {
	Source
	dtype dlpack.DataType // of the first column that was described
}

// Columns returns the number of columns of a table, a record batch or a column of structures, and 1 for anything else.
func (s *Source) Columns() (columns int64, err error) {
	columns = 1
	m := memory{protocol: s.Protocol}
	err = m.touch(func() error {
		schema := load[Schema](&m, "ArrowSchema", s.Schema)
		isRead := schema.NChildren > 1 && schema.Release != 0 && schema.Format != 0 // else Describe refuses it
		if isRead && m.text("ArrowSchema.format", schema.Format) == protocol.ArrowTable {
			columns = schema.NChildren
		}
		return nil
	})
	return columns, err
}

// DescribeColumn describes a column of a chunk, or an empty column if the source has no chunks, and validates it: t is
// complete but for Strides. Refusals name the column.
func (t *Table) DescribeColumn(chunk int, column int64, d *dlpack.Description, tensor *dlpack.Tensor) error {
	r := reader{memory: memory{protocol: t.Protocol}, d: d, ofTable: true, column: column}
	return r.touch(func() error {
		err := t.read(&r, chunk, d, tensor)
		if r, ok := err.(*dlpack.Refusal); !ok || r.Saying == dlpack.NullStructures { // names all columns
			return err
		}
		parent := load[Schema](&r.memory, "ArrowSchema", t.Schema)
		return dlpack.AddSubject(dlpack.OfColumn, err, dlpack.Quoted("column", r.name(&parent, column)),
			dlpack.Number("index", column))
	})
}

func (t *Table) read(r *reader, chunk int, d *dlpack.Description, tensor *dlpack.Tensor) error {
	if err := t.describe(r, chunk); err != nil {
		return err
	}
	if chunk == 0 && r.column == 0 {
		t.dtype = d.DataType
	}
	if d.DataType != t.dtype {
		parent := load[Schema](&r.memory, "ArrowSchema", t.Schema)
		return dlpack.Unsupported(dlpack.ColumnTypes, dlpack.Text("dtype", name(d.DataType)),
			dlpack.Quoted("first", r.name(&parent, 0)), dlpack.Text("expected", name(t.dtype)))
	}
	if err := d.Validate(tensor); err != nil && dlpack.KindOf(err) != dlpack.ErrNeedsCopy {
		return err
	}
	return nil
}

func name(dtype dlpack.DataType) string { return string(protocol.AppendName(nil, dtype)) }

// Refuse returns the error of a table that may not be copied: of its first chunk that no matrix can have, or of a
// table.
func (t *Table) Refuse(columns int64) error {
	var d dlpack.Description
	var tensor dlpack.Tensor
	for i := range columns {
		if err := t.DescribeColumn(0, i, &d, &tensor); err != nil {
			return err
		}
	}
	err := t.Describe(0, &d)
	if r, ok := err.(*dlpack.Refusal); ok {
		return r.Cured(dlpack.CopyColumns)
	}
	return err
}

package handover

import (
	"slices"
	"strings"
	"testing"
	"unsafe"

	"dlpack/pkg/dlpack"
)

// columns are chunks of a table of int32.
type columns [][][]int32

func (c columns) Rows() (rows int64, err error) {
	for _, chunk := range c {
		rows += int64(len(chunk[0]))
	}
	return rows, nil
}

func (c columns) DescribeColumn(chunk int, column int64, d *dlpack.Description, t *dlpack.Tensor) error {
	*d = dlpack.Description{Item: dlpack.Item{DataType: dlpack.DataType{Code: dlpack.Int, Bits: 32, Lanes: 1}},
		Device: dlpack.Device{Type: dlpack.CPU}, Span: -1, NDim: 1}
	if len(c) > 0 {
		items := c[chunk][column]
		d.Data, d.Shape[0] = uint64(uintptr(unsafe.Pointer(unsafe.SliceData(items)))), int64(len(items))
	}
	return d.Validate(t)
}

// retold tells of other rows than it has.
type retold struct {
	columns
	rows int64
}

func (c retold) Rows() (int64, error) { return c.rows, nil }

func TestATableBecomesAMatrix(t *testing.T) {
	for _, test := range []struct {
		table columns
		want  []int32
	}{
		{columns{{{1, 2}, {3, 4}, {5, 6}}}, []int32{1, 3, 5, 2, 4, 6}},
		{columns{{{1}, {2}, {3}}, {{4, 5}, {6, 7}, {8, 9}}}, []int32{1, 2, 3, 4, 6, 8, 5, 7, 9}},
		{columns{{{}, {}, {}}}, nil},
		{nil, nil},
	} {
		var d dlpack.Description
		var matrix dlpack.Tensor
		memory := &allocator{most: 1 << 10}
		if err := Matrix(&d, test.table, 3, len(test.table), memory); err != nil {
			t.Fatal(err)
		}
		if err := d.Validate(&matrix); err != nil || d.Flags != dlpack.IsCopied ||
			!slices.Equal(matrix.Shape[:matrix.NDim], []int64{int64(len(test.want)) / 3, 3}) {
			t.Fatalf("%v, shape %v", err, matrix.Shape[:matrix.NDim])
		}
		if got := unsafe.Slice((*int32)(unsafe.Pointer(unsafe.SliceData(memory.contents(t)))), len(test.want)); !slices.Equal(got, test.want) {
			t.Errorf("%v; want %v", got, test.want)
		}
	}
}

func TestATableThatChangesIsRefused(t *testing.T) {
	whole, longer := columns{{{1, 2}, {3, 4}}}, columns{{{1, 2}, {3, 4, 5}}}
	for _, table := range []Table{retold{whole, 1}, retold{whole, 3}, longer} {
		var d dlpack.Description
		err := Matrix(&d, table, 2, 1, &allocator{most: 1 << 10})
		if err == nil || !strings.Contains(err.Error(), "chunks-changed") {
			t.Errorf("%v", err)
		}
	}
}

func TestATableThatCantBeReadIsRefused(t *testing.T) {
	var d dlpack.Description
	wild := wildColumns{}
	err := Matrix(&d, wild, 2, 1, &allocator{most: 1 << 10})
	if err == nil || !strings.Contains(err.Error(), "unreadable: address=0x1000000000000000") {
		t.Error(err)
	}
}

type wildColumns struct{}

func (wildColumns) Rows() (int64, error) { return 4, nil }

func (wildColumns) DescribeColumn(_ int, _ int64, d *dlpack.Description, t *dlpack.Tensor) error {
	*d = dlpack.Description{Item: dlpack.Item{DataType: dlpack.DataType{Code: dlpack.Int, Bits: 32, Lanes: 1}},
		Device: dlpack.Device{Type: dlpack.CPU}, Span: -1, NDim: 1, Data: 1 << 60}
	d.Shape[0] = 4
	return d.Validate(t)
}

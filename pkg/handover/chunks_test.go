package handover

import (
	"testing"

	"dlpack/pkg/dlpack"
)

// recounted are chunks of a table, each with columns of these lengths, but other rows were counted before.
type recounted struct {
	lengths []int64
	rows    int64
}

func (c recounted) Rows() (int64, error) { return c.rows, nil }

func (c recounted) Describe(_ int, d *dlpack.Description) error {
	*d = *described(shape(c.lengths[0]))
	return nil
}

func (c recounted) DescribeColumn(_ int, column int64, d *dlpack.Description, t *dlpack.Tensor) error {
	*d = *described(shape(c.lengths[column]))
	return d.Validate(t)
}

func TestChunksThatChangeWhileTheyAreJoinedAreRefused(t *testing.T) {
	var d dlpack.Description
	for _, rows := range []int64{3, 5, 7} {
		memory := allocator{most: 1 << 10}
		refused(t, Join(&d, recounted{[]int64{3}, rows}, 2, &memory), dlpack.ErrMalformed, "chunks-changed")
		memory.contents(t)
	}
	for _, table := range []recounted{{[]int64{2, 2}, 1}, {[]int64{2, 2}, 3}, {[]int64{2, 3}, 2}} {
		memory := allocator{most: 1 << 10}
		refused(t, Matrix(&d, table, 2, 1, &memory), dlpack.ErrMalformed, "chunks-changed")
		memory.contents(t)
	}
}

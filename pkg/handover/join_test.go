package handover

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"dlpack/pkg/dlpack"
)

// pieces are chunks of a column.
type pieces []*dlpack.Description

func (p pieces) Rows() (int64, error) {
	rows := int64(0)
	for _, piece := range p {
		rows += piece.Shape[0]
	}
	if rows < 0 {
		return 0, errors.New("too many rows")
	}
	return rows, nil
}

func (p pieces) Describe(chunk int, d *dlpack.Description) error {
	*d = *p[chunk]
	return nil
}

func TestChunksAreJoinedWhateverTheirLayout(t *testing.T) {
	var want []byte
	joined := pieces{described(), described(reversed), described(misaligned), described(swapped)}
	for _, piece := range joined {
		var alone dlpack.Tensor
		memory := allocator{most: 1 << 10}
		if _, err := Prepare(piece, &alone, &Terms{MayCopy: true, MustCopy: true}, &memory); err != nil {
			t.Fatal(err)
		}
		want = append(want, memory.contents(t)...)
	}
	var d dlpack.Description
	memory := allocator{most: 1 << 10}
	if err := Join(&d, joined, len(joined), &memory); err != nil {
		t.Fatal(err)
	}
	var tensor dlpack.Tensor
	if err := d.Validate(&tensor); err != nil || tensor.Flags != dlpack.IsCopied {
		t.Errorf("flags %d, %v", tensor.Flags, err)
	}
	if shape := tensor.Shape[:tensor.NDim]; !bytes.Equal(memory.contents(t), want) || !slices.Equal(shape, []int64{11}) {
		t.Errorf("%v of shape %v; want %v of shape [11]", memory.copied, shape, want)
	}
}

func TestChunksThatCannotBeJoinedAreRefused(t *testing.T) {
	var d dlpack.Description
	many := shape(1 << 62)
	err := Join(&d, pieces{described(many), described(many)}, 2, &allocator{})
	if err == nil || err.Error() != "too many rows" {
		t.Errorf("%v", err)
	}
	refused(t, Join(&d, pieces{described(), described()}, 2, &allocator{most: 1}), dlpack.ErrOutOfMemory, "no-memory-for: bytes=12")
	nulls := func(d *dlpack.Description) { d.Nulls = 1 }
	refused(t, Join(&d, pieces{described(), described(nulls)}, 2, &allocator{most: 1 << 10}), dlpack.ErrUnsupported, "null")
	nowhere := func(d *dlpack.Description) { d.Data = 64 }
	refused(t, Join(&d, pieces{described(), described(nowhere)}, 2, &allocator{most: 1 << 10}), dlpack.ErrUnsupported,
		"unreadable: address=0x40")
}

// changing are chunks that have other rows than when these were counted.
type changing struct {
	pieces
	rows int64
}

func (c changing) Rows() (int64, error) { return c.rows, nil }

func TestChunksThatChangeWhileTheyAreJoinedAreRefused(t *testing.T) {
	one := described()
	for _, rows := range []int64{one.Shape[0], 2*one.Shape[0] - 1, 2*one.Shape[0] + 1} {
		var d dlpack.Description
		memory := allocator{most: 1 << 10}
		err := Join(&d, changing{pieces{one, one}, rows}, 2, &memory)
		refused(t, err, dlpack.ErrMalformed, "chunks-changed")
		memory.contents(t)
	}
}

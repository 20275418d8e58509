package cuda

import (
	"dlpack/pkg/dlpack"
	"dlpack/pkg/strided"
)

// mostCalls limits the driver's calls for one copy. Each takes microseconds.
const mostCalls = 1024

type dim = strided.Dim[int64]

// A plan splits a copy to compact, row-major memory into the driver's calls. They copy equal blocks, each of slices of
// rows of bytes.
type plan struct {
	width        int64 // bytes of a row
	rows, slices dim
	loops        [dlpack.MaxNDim]dim // over the blocks, innermost first
	depth        int                 // number of loops
}

// make plans a copy, and reports whether it could. It can't if items lie apart one by one, or in too many blocks.
func (p *plan) make(source *Source, maxPitch int64) bool {
	dims := p.merge(source)
	if len(dims) > 0 && p.width == int64(source.ItemSize) {
		return false
	}
	p.rows, p.slices = dim{N: 1}, dim{N: 1}
	row, slice := p.choose(dims, maxPitch)
	calls := int64(1)
	p.depth = 0
	for k, d := range dims {
		switch k {
		case row:
			p.rows = d
		case slice:
			p.slices = d
		default:
			if d.N > mostCalls/calls {
				return false
			}
			calls *= d.N
			p.loops[p.depth] = d // dims and loops share memory; depth <= k, so no dimension is lost
			p.depth++
		}
	}
	return true
}

// merge returns the dimensions outside of a row, innermost first, and sets the row's width.
func (p *plan) merge(source *Source) []dim {
	dims, bytes := p.loops[:0], int64(source.ItemSize)
	p.width = bytes
	for k := len(source.Shape) - 1; k >= 0; k-- {
		if n := source.Shape[k]; n != 1 {
			dims = append(dims, dim{N: n, Dst: bytes, Src: source.Strides[k]})
			bytes *= n
		}
	}
	dims = strided.Merge(dims)
	if len(dims) > 0 && dims[0].Src == p.width {
		p.width *= dims[0].N
		dims = dims[1:]
	}
	return dims
}

// choose returns the two dimensions of the largest block that cuMemcpy3D accepts, or -1 for none. Its rules: neither
// rows nor slices overlap, a slice begins at a multiple of the rows' pitch, and no pitch exceeds the device's limit.
func (p *plan) choose(dims []dim, maxPitch int64) (row, slice int) {
	row, slice = -1, -1
	most := int64(1)
	for i, r := range dims {
		if r.Src < p.width || r.Src > maxPitch || r.Dst > maxPitch {
			continue
		}
		if r.N > most {
			row, slice, most = i, -1, r.N
		}
		for j := i + 1; j < len(dims); j++ { // the compact destination's slices can be any dimension further out
			if s := dims[j]; s.Src%r.Src == 0 && s.Src/r.Src >= r.N && r.N*s.N > most {
				row, slice, most = i, j, r.N*s.N
			}
		}
	}
	return row, slice
}

// isCompact reports whether the source is one contiguous row, as the destination is.
func (p *plan) isCompact() bool {
	return p.rows.N == 1 && p.depth == 0
}

// each calls f for each block, with its addresses in the destination and the source.
func (p *plan) each(dst, src uint64, f func(dst, src uint64) error) error {
	return p.loop(p.depth, dst, src, f)
}

func (p *plan) loop(depth int, dst, src uint64, f func(dst, src uint64) error) error {
	if depth == 0 {
		return f(dst, src)
	}
	d := p.loops[depth-1]
	for i := range d.N {
		if err := p.loop(depth-1, dst+uint64(i*d.Dst), src+uint64(i*d.Src), f); err != nil {
			return err
		}
	}
	return nil
}

// block returns one block of the plan, from src to dst, which is memory of dstType.
func (p *plan) block(dstType memoryType, dst, src uint64) block {
	b := block{
		dstType: dstType, dst: dst, src: src,
		dstPitch: p.rows.Dst, srcPitch: p.rows.Src,
		dstHeight: p.rows.N, srcHeight: p.rows.N,
		width: p.width, rows: p.rows.N, slices: p.slices.N,
	}
	if p.slices.N > 1 {
		b.dstHeight, b.srcHeight = p.slices.Dst/p.rows.Dst, p.slices.Src/p.rows.Src
	}
	return b
}

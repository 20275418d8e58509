package arrow

import (
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"dlpack/pkg/dlpack"
)

// released stands for the address of a release function, which nothing here calls.
const released = 1 << 20

// addresses makes addresses, and keeps what lies there: the garbage collector does not see them.
type addresses struct{ kept []any }

func addressOf[T any](a *addresses, values ...T) uint64 {
	values = append(slices.Clone(values), *new(T)) // what is empty has an address too
	a.kept = append(a.kept, values)
	return uint64(uintptr(unsafe.Pointer(&values[0])))
}

func (a *addresses) text(text string) uint64 {
	return addressOf(a, []byte(text)...) // and a NUL
}

// metadata lays pairs of texts out as the C data interface does.
func (a *addresses) metadata(texts ...string) uint64 {
	layout := binary.NativeEndian.AppendUint32(nil, uint32(len(texts)/2))
	for _, text := range texts {
		layout = binary.NativeEndian.AppendUint32(layout, uint32(len(text)))
		layout = append(layout, text...)
	}
	return addressOf(a, layout...)
}

// A column is a schema and an array, with its child's.
type column struct {
	Schema
	Array
}

// items makes a column of items that lie at an address.
func (a *addresses) items(format string, length int64, data uint64) *column {
	return &column{
		Schema{Format: a.text(format), Release: released},
		Array{Length: length, NBuffers: 2, Buffers: addressOf(a, 0, data), Release: released},
	}
}

// around makes a column of lists, or a table, around another column.
func (a *addresses) around(format string, length int64, child *column) *column {
	schema, array := addressOf(a, child.Schema), addressOf(a, child.Array)
	return &column{
		Schema{Format: a.text(format), NChildren: 1, Children: addressOf(a, schema), Release: released},
		Array{Length: length, NBuffers: 1, Buffers: addressOf(a, uint64(0)), NChildren: 1, Children: addressOf(a, array),
			Release: released},
	}
}

func (a *addresses) source(columns ...*column) *Source {
	var arrays []Array
	for _, column := range columns {
		arrays = append(arrays, column.Array)
	}
	return &Source{Protocol: "exporter", Schema: addressOf(a, columns[0].Schema), Arrays: addressOf(a, arrays...),
		Count: len(arrays), Device: dlpack.Device{Type: dlpack.CPU}}
}

func (a *addresses) tensor(size, length int64, json string) *column {
	lists := a.around("+w:"+strconv.FormatInt(size, 10), length, a.items("i", size*length, 1<<20))
	lists.Metadata = a.metadata("ARROW:extension:name", "arrow.fixed_shape_tensor", "ARROW:extension:metadata", json)
	return lists
}

func TestDescribeAllocatesNothing(t *testing.T) {
	var a addresses
	booleans := a.items("c", 7, 1<<20)
	booleans.Metadata = a.metadata("other", "key", "ARROW:extension:name", "arrow.bool8")
	for _, column := range []*column{
		a.items("g", 12, 1<<20), booleans, a.around("+w:3", 2, a.around("+w:2", 6, a.items("g", 12, 1<<20))),
		a.tensor(6, 2, `{"shape": [2, 3], "permutation": [1, 0]}`),
	} {
		source := a.source(column)
		if n := testing.AllocsPerRun(10, func() {
			var d dlpack.Description
			if err := source.Describe(0, &d); err != nil {
				t.Error(err)
			}
		}); n != 0 {
			t.Errorf("%v: %v allocations", column, n)
		}
	}
}

func TestColumnsThatContradictThemselvesAreRefused(t *testing.T) {
	var a addresses
	bad := func(format string, change func(*column)) *column {
		c := a.items(format, 12, 1<<20)
		if strings.HasPrefix(format, "+") {
			c = a.around(format, 4, a.items("i", 12, 1<<20))
		}
		change(c)
		return c
	}
	for _, test := range []struct {
		column *column
		kind   dlpack.Kind
		want   string
	}{
		{bad("i", func(c *column) { c.Format = 0 }), dlpack.ErrMalformed,
			"arrow-null: field=ArrowSchema.format, expected=text-of-format"},
		{bad("i", func(c *column) { c.Schema.Release = 0 }), dlpack.ErrMalformed, "released: field=ArrowSchema.release, what=schema"},
		{bad("i", func(c *column) { c.Array.Release = 0 }), dlpack.ErrMalformed, "released: field=ArrowArray.release, what=array"},
		{bad("i", func(c *column) { c.Length = -3 }), dlpack.ErrMalformed,
			`arrow-value: field=ArrowArray.length, format="i", value=-3, expected=not-negative`},
		{bad("i", func(c *column) { c.Offset = -1 }), dlpack.ErrMalformed, "ArrowArray.offset"},
		{bad("i", func(c *column) { c.Offset = 1<<63 - 5 }), dlpack.ErrMalformed, "arrow-too-large: protocol=exporter"},
		{bad("l", func(c *column) { c.Offset = 1 << 61 }), dlpack.ErrMalformed, "arrow-offset: offset=2305843009213693952"},
		{bad("i", func(c *column) { c.NBuffers = 3 }), dlpack.ErrMalformed,
			`arrow-value: field=ArrowArray.n_buffers, format="i", value=3, expected=two-buffers`},
		{bad("+w:3", func(c *column) { c.NBuffers = 2 }), dlpack.ErrMalformed, `arrow-value: field=ArrowArray.n_buffers, format="+w:3", value=2, expected=one-buffer`},
		{bad("i", func(c *column) { c.Buffers = 0 }), dlpack.ErrMalformed, "arrow-null: field=ArrowArray.buffers, expected=buffer-pointers"},
		{bad("i", func(c *column) { c.NullCount = -2 }), dlpack.ErrMalformed, "ArrowArray.null_count"},
		{bad("i", func(c *column) { c.NullCount = 2 }), dlpack.ErrMalformed, `arrow-value: field=ArrowArray.null_count, format="i", value=2, expected=none-without-bitmap`},
		{bad("i", func(c *column) { c.Schema.NChildren = -1 }), dlpack.ErrMalformed, "ArrowSchema.n_children"},
		{bad("i", func(c *column) { c.Array.NChildren = 1 }), dlpack.ErrMalformed, `arrow-value: field=ArrowArray.n_children, format="i", value=1, expected=schema-children`},
		{bad("+w:3", func(c *column) { c.Schema.Children = 0 }), dlpack.ErrMalformed, "arrow-null: field=ArrowSchema.children, expected=child-schemas"},
		{bad("+w:3", func(c *column) { c.Array.Children = 0 }), dlpack.ErrMalformed, "arrow-null: field=ArrowArray.children, expected=child-arrays"},
		{bad("+w:4", func(*column) {}), dlpack.ErrMalformed, `arrow-length: format="i", length=12, least=16`},
		{bad("+s", func(c *column) { c.Schema.NChildren, c.Array.NChildren = 0, 0 }), dlpack.ErrUnsupported,
			"no-columns: protocol=exporter"},
		{bad("i", func(c *column) { c.Schema.Dictionary = 8 }), dlpack.ErrUnsupported, "dictionary"},
		{bad("+w:3", func(c *column) { c.Schema.Dictionary = 8 }), dlpack.ErrUnsupported, "dictionary"},
		{bad("+w:03", func(*column) {}), dlpack.ErrMalformed, `malformed-list: field=Arrow format, text="+w:03"`},
		{bad("u", func(*column) {}), dlpack.ErrUnsupported, `text: field=Arrow format, text="u"`},
		{bad("c", func(c *column) { c.Metadata = addressOf(&a, int32(-1)) }), dlpack.ErrMalformed, `arrow-pairs: format="c", value=-1`},
		{bad("c", func(c *column) { c.Metadata = addressOf(&a, int32(1), int32(-2)) }), dlpack.ErrMalformed, `arrow-pair: format="c", value=-2`},
		{bad("c", func(c *column) { c.Metadata = 8 }), dlpack.ErrMalformed,
			"arrow-unreadable: field=ArrowSchema.metadata, address=0x8"},
		{bad("c", func(c *column) { c.Format = 7 << 60 }), dlpack.ErrMalformed,
			"arrow-unreadable: field=ArrowSchema.format, address=0x7000000000000000"},
		{a.tensor(6, 2, `{"shape": [2, 4]}`), dlpack.ErrMalformed,
			`tensor-size: found="[2, 4]", items=6`},
	} {
		var d dlpack.Description
		err := a.source(test.column).Describe(0, &d)
		if dlpack.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v; want %q", err, test.want)
		}
	}
	lists := a.items("i", 0, 0)
	for range 64 {
		lists = a.around("+w:1", 0, lists)
	}
	var d dlpack.Description
	if err := a.source(lists).Describe(0, &d); err == nil || !strings.Contains(err.Error(), "arrow-nested: most=64") {
		t.Errorf("%v", err)
	}
}

func TestAListThatIsItsOwnChildIsRefused(t *testing.T) {
	var a addresses
	for _, json := range []string{`{"shape": []}`, `{"shape": [1]}`} {
		source := a.source(a.tensor(1, 1, json))
		(*Schema)(pointerTo(source.Schema)).Children = addressOf(&a, source.Schema)
		(*Array)(pointerTo(source.Arrays)).Children = addressOf(&a, source.Arrays)
		var d dlpack.Description
		err := source.Describe(0, &d)
		if err == nil || !strings.Contains(err.Error(), "most=") {
			t.Errorf("%s: %v", json, err)
		}
	}
}

// table makes a table of columns, named "a", "b" and so on.
func (a *addresses) table(length int64, columns ...*column) *column {
	var schemas, arrays []uint64
	for i, c := range columns {
		c.Name = a.text(string(rune('a' + i)))
		schemas, arrays = append(schemas, addressOf(a, c.Schema)), append(arrays, addressOf(a, c.Array))
	}
	return &column{
		Schema{Format: a.text("+s"), NChildren: int64(len(columns)), Children: addressOf(a, schemas...), Release: released},
		Array{Length: length, NBuffers: 1, Buffers: addressOf(a, uint64(0)), NChildren: int64(len(columns)),
			Children: addressOf(a, arrays...), Release: released},
	}
}

func FuzzTable(f *testing.F) {
	// Each 4 bytes are a column: its format, its length beyond the table's, its offset and its validity.
	f.Add([]byte{0, 0, 0, 0, 0, 1, 2, 0}, uint8(5), uint8(1), uint16(0), uint64(0))
	f.Add([]byte{4, 0, 0, 0, 4, 0, 3, 0, 3, 9, 0, 0}, uint8(5), uint8(0), uint16(0), uint64(0))
	f.Add([]byte{0, 0, 0, 0, 1, 0, 0, 0}, uint8(5), uint8(0), uint16(0), uint64(0))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 7}, uint8(5), uint8(0), uint16(0), uint64(0))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0}, uint8(5), uint8(0), uint16(6), uint64(1<<62))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0}, uint8(5), uint8(0), uint16(7), uint64(8))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 0, 0}, uint8(5), uint8(0), uint16(31), uint64(7<<60))
	formats, sizes := []string{"i", "s", "l", "c", "b"}, []uint64{32, 16, 64, 8, 1}
	f.Fuzz(func(t *testing.T, layout []byte, length, offset uint8, poked uint16, value uint64) {
		var a addresses
		var columns []*column
		var at []uint64 // in bits, from 1<<20 on
		kinds := 0      // a bit for each data type
		hasNulls := false
		used := int64(length) + int64(offset)
		for rest := layout; len(rest) >= 4 && len(columns) < 9; rest = rest[4:] {
			kind := int(rest[0]) % len(formats)
			c := a.items(formats[kind], used+int64(rest[1]), 1<<20)
			c.Offset = int64(rest[2])
			if rest[3] != 0 {
				c.NullCount = -1
				c.Buffers = addressOf(&a, addressOf(&a, slices.Repeat([]byte{rest[3]}, 1<<8)...), 1<<20)
				for i := range int64(length) {
					bit := i + int64(offset) + c.Offset
					hasNulls = hasNulls || rest[3]>>(bit%8)&1 == 0
				}
			}
			columns = append(columns, c)
			at = append(at, (uint64(offset)+uint64(c.Offset))*sizes[kind])
			kinds |= 1 << kind
		}
		if len(columns) < 2 {
			return
		}
		made := a.table(int64(length), columns...)
		made.Offset = int64(offset)
		source := a.source(made)
		child := (*[1]uint64)(pointerTo((*Array)(pointerTo(source.Arrays)).Children))[0]
		switch poke := int(poked) % 40; {
		case poke == 0:
		case poke <= 9:
			(*[9]uint64)(pointerTo(source.Schema))[poke-1] = value
		case poke <= 19:
			(*[10]uint64)(pointerTo(source.Arrays))[poke-10] = value
		case poke <= 29:
			(*[10]uint64)(pointerTo(child))[poke-20] = value
		}
		count, err := source.Columns()
		isPoked := int(poked)%40 != 0 && int(poked)%40 <= 29
		if err == nil && count == 1 && isPoked {
			return
		}
		table := Table{Source: *source}
		for i := int64(0); err == nil && i < count; i++ {
			var d dlpack.Description
			var tensor dlpack.Tensor
			if err = table.DescribeColumn(0, i, &d, &tensor); err != nil || isPoked || length == 0 {
				continue
			}
			if got := (d.Data+d.Offset-1<<20)*8 + uint64(d.FirstBit); got != at[i] || tensor.Size != int64(length) {
				t.Fatalf("column %d: %d items from bit %d; want %d from %d", i, tensor.Size, got, length, at[i])
			}
		}
		if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Fatalf("%q", err)
		}
		if good := kinds&(kinds-1) == 0 && !hasNulls; !isPoked && good != (err == nil) {
			t.Fatalf("%v: kinds %b, nulls %v", err, kinds, hasNulls)
		}
	})
}

// A plainLevel is an array in a chain of lists, each element as often as a list has some.
type plainLevel struct {
	format   string
	size     int64 // elements of the child for each of these
	turned   int64 // > 1: each list is a transposed tensor; this is its number of rows
	offset   int64
	validity byte // every other byte of the bitmap, and inverted those between; 0: null_count is 0, and says that of all
}

// plainly is the items that each element stands for, in order, and the nulls of the outermost array that has any.
func plainly(levels []plainLevel, length int64) (items []int64, nulls int64) {
	used := []int64{}
	for i := range length {
		used = append(used, i)
	}
	for _, level := range levels {
		var inner []int64
		zeros := int64(0)
		for i := range used {
			used[i] += level.offset
			if bits := level.validity ^ byte(-(used[i] / 8 % 2)); level.validity != 0 && bits>>(used[i]%8)&1 == 0 {
				zeros++
			}
			for k := range level.size {
				if n := level.turned; n > 1 {
					k = k%(level.size/n)*n + k/(level.size/n)
				}
				inner = append(inner, used[i]*level.size+k)
			}
		}
		if nulls == 0 {
			nulls = zeros
		}
		if len(inner) > 0 {
			nulls *= level.size
		}
		used = inner
	}
	return used, nulls
}

func FuzzDescribe(f *testing.F) {
	// Each 4 bytes are a level: what it is, its offset, the list's size, and validity.
	f.Add([]byte{0, 1, 3, 0}, int8(5), int8(0), uint16(0), uint64(0))
	f.Add([]byte{16, 2, 1, 255, 1, 1, 3, 0, 2, 0, 6, 77, 1, 5, 1, 200}, int8(2), int8(2), uint16(0), uint64(0))
	f.Add([]byte{2, 1, 6, 0, 3, 3, 1, 0}, int8(3), int8(0), uint16(0), uint64(0))
	f.Add([]byte{1, 1, 4, 0, 4, 3, 1, 0}, int8(3), int8(-1), uint16(0), uint64(0))
	f.Add([]byte{0, 1, 0, 49, 0, 1, 3, 0, 0, 0, 1, 0}, int8(5), int8(0), uint16(0), uint64(0))
	f.Add([]byte{16, 8, 1, 49, 0, 0, 1, 0}, int8(2), int8(0), uint16(0), uint64(0))
	f.Add([]byte{0, 1, 3, 7}, int8(5), int8(0), uint16(258), uint64(8))
	f.Add([]byte{1, 1, 3, 7, 0, 1, 1, 1}, int8(5), int8(0), uint16(6), uint64(7<<60))
	formats := []string{"i", "s", "l", "c", "b"}
	bytes := []int64{4, 2, 8, 1, 1}
	f.Fuzz(func(t *testing.T, layout []byte, length, spare int8, poked uint16, value uint64) {
		var levels []plainLevel
		for rest := layout; len(rest) >= 4 && len(levels) < 5; rest = rest[4:] {
			last := len(rest) < 8 || len(levels) == 4
			level := plainLevel{size: int64(rest[2] % 7), offset: int64(rest[1] % 20), validity: rest[3]}
			switch kind := rest[0]; {
			case last:
				level.format, level.size = formats[int(kind)%len(formats)], 1
			case kind == 16 && len(levels) == 0:
				level.format, level.size = "+s", 1
			default:
				level.format = "+w:" + strconv.Itoa(int(level.size))
				if kind == 2 && level.size%2 == 0 && level.size > 0 {
					level.turned = 2
				}
			}
			levels = append(levels, level)
		}
		if len(levels) == 0 || length < 0 {
			return
		}
		// The lengths from the outside in, of which the innermost may have too few elements.
		lengths := []int64{int64(length)}
		for i, level := range levels[1:] {
			parent := levels[i]
			lengths = append(lengths, (lengths[i]+parent.offset)*parent.size)
			if lengths[i+1]+level.offset > 1<<12 {
				return
			}
		}
		innermost := len(levels) - 1
		short := false
		if innermost > 0 {
			changed := max(lengths[innermost]+int64(spare)%3, 0)
			short = changed < lengths[innermost]
			lengths[innermost] = changed
		}

		var a addresses
		var made *column
		for i := len(levels) - 1; i >= 0; i-- {
			level := levels[i]
			if made == nil {
				made = a.items(level.format, lengths[i], 1<<20)
			} else {
				made = a.around(level.format, lengths[i], made)
			}
			made.Offset = level.offset
			made.Buffers = addressOf(&a, addressOf(&a, slices.Repeat([]byte{level.validity, ^level.validity}, 1<<8)...), 1<<20)
			if level.validity != 0 {
				made.NullCount = -1
			}
			if n := level.turned; n > 1 {
				made.Metadata = a.metadata("ARROW:extension:name", "arrow.fixed_shape_tensor", "ARROW:extension:metadata",
					`{"permutation":[1,0],"shape":[`+strconv.FormatInt(level.size/n, 10)+`,2]}`)
			}
		}
		source := a.source(made)
		poke := int(poked) % 20
		switch {
		case poke == 0:
		case poke <= 9:
			(*[9]uint64)(pointerTo(source.Schema))[poke-1] = value
		default:
			(*[10]uint64)(pointerTo(source.Arrays))[poke-10] = value
		}
		var d dlpack.Description
		err := source.Describe(0, &d)
		if err != nil {
			isText := !strings.ContainsFunc(err.Error(), func(r rune) bool { return r < ' ' || r > '~' })
			if kind := dlpack.KindOf(err); kind != dlpack.ErrMalformed && kind != dlpack.ErrUnsupported || !isText {
				t.Fatalf("%q", err)
			}
		}
		if poke != 0 {
			return
		}
		_, outermost := plainly(levels[:1], lengths[0])
		want := short || levels[0].format == "+s" && outermost > 0
		if (err != nil) != want {
			t.Fatalf("%+v, %v: %v; want an error: %v", levels, lengths, err, want)
		}
		if err != nil {
			return
		}
		items, nulls := plainly(levels, lengths[0])
		leaf := slices.Index(formats, levels[len(levels)-1].format)
		var tensor dlpack.Tensor
		checked := d
		checked.Nulls = 0
		if err := checked.Validate(&tensor); err != nil && tensor.Size != int64(len(items)) {
			t.Fatalf("%+v: %v", levels, err)
		}
		strides := d.Strides[:d.NDim]
		if !d.HasStrides {
			for i, stride := d.NDim-1, int64(1); i >= 0; i-- {
				strides[i] = stride
				stride *= d.Shape[i]
			}
		}
		var got []int64
		index := make([]int64, d.NDim)
		for range items {
			at := int64(d.Offset) / bytes[leaf]
			if d.BitPacked {
				at = int64(d.Offset)*8 + int64(d.FirstBit)
			}
			for i, k := range index {
				at += k * strides[i]
			}
			got = append(got, at)
			for i := d.NDim - 1; i >= 0; i-- {
				if index[i]++; index[i] < d.Shape[i] {
					break
				}
				index[i] = 0
			}
		}
		if !slices.Equal(got, items) || d.Nulls != nulls {
			t.Fatalf("%+v, %v: items %v, %d nulls; want %v, %d", levels, lengths, got, d.Nulls, items, nulls)
		}
	})
}

// pointerTo is what addressOf was given.
func pointerTo(address uint64) unsafe.Pointer {
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

// Package arrow reads columns of numbers from the Arrow C data interface: a schema and arrays, which are C structures
// that other libraries filled in.
//
// [Source.Describe] follows them from a table or a column down to the items. It trusts nothing in them: structures that
// contradict themselves are an error, and so is an address that can't be read. The package releases, keeps and copies
// nothing.
package arrow

import (
	"math/bits"
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/protocol"
)

// Schema is C's struct ArrowSchema. Pointers are addresses here, since they point to C's memory, not to Go's.
type Schema struct {
	Format, Name, Metadata uint64
	Flags, NChildren       int64
	Children, Dictionary   uint64
	Release, PrivateData   uint64
}

// Array is C's struct ArrowArray.
type Array struct {
	Length, NullCount, Offset, NBuffers, NChildren int64
	Buffers, Children, Dictionary                  uint64
	Release, PrivateData                           uint64
}

// A Source is what an exporter returned: a schema, and one array for each chunk of a column. The arrays are adjacent in
// memory.
type Source struct {
	Protocol       string // the exporter's method, for errors
	Schema, Arrays uint64
	Count          int  // number of arrays
	Binary         bool // items of a fixed number of bytes are arrays of uint8, not refused
	Device         dlpack.Device
	SyncEvent      uint64 // of an array on a device; on CUDA the address of an event's handle, 0 for none
}

// Producer returns the event that completes the memory in the place of a stream, or dlpack.UnknownStream.
func (s *Source) Producer() (producer int64, err error) {
	if s.SyncEvent == 0 || s.Device.Type == dlpack.CPU {
		return dlpack.UnknownStream, nil
	}
	handle := s.SyncEvent // other devices have events of other kinds, which nobody waits for
	m := memory{protocol: s.Protocol}
	err = m.touch(func() error {
		if s.Device.Type.OfCUDA() {
			handle = load[uint64](&m, syncEvent, s.SyncEvent)
		}
		if producer = dlpack.Event(handle); producer == dlpack.UnknownStream {
			return m.refuse(dlpack.NoEvent, dlpack.Address("address", handle))
		}
		return nil
	})
	return producer, err
}

// Metadata keys, and the extension types whose items DLPack can express.
const (
	extensionName     = "ARROW:extension:name"
	extensionMetadata = "ARROW:extension:metadata"

	bool8Extension    = "arrow.bool8"
	tensorExtension   = "arrow.fixed_shape_tensor"
	bfloat16Extension = "lance.bfloat16"
)

// A node is a schema and its array: the outermost pair, or a child's pair.
type node struct {
	schema   Schema
	format   string // the schema's, not copied from C's memory
	array    Array
	hasArray bool // false for a stream without chunks
}

// A reader descends from the outermost node to the items. Each fixed-size list on the way is a dimension.
type reader struct {
	memory
	d            *dlpack.Description
	first, count int64 // the range of the node's elements in use, relative to the array's offset
	nulls        int64 // null items, counted in the outermost array that has nulls; null lists if lists are empty
	lists        int   // number of lists so far
	permuted     bool

	binary  bool  // as Source.Binary
	ofTable bool  // the outermost node has several columns, of which one is read
	column  int64 // that column
}

// Describe describes a chunk, or an empty column if the source has no chunks. d.Text points to C's memory.
func (s *Source) Describe(chunk int, d *dlpack.Description) error {
	r := reader{memory: memory{protocol: s.Protocol}, d: d, binary: s.Binary}
	return r.touch(func() error { return s.describe(&r, chunk) })
}

func (s *Source) describe(r *reader, chunk int) error {
	r.d.Device, r.d.Span = s.Device, -1
	if r.d.Device.ID == -1 && r.d.Device.Type != dlpack.CUDA {
		r.d.Device.ID = 0 // -1 means that devices of this type have no ids
	}
	array := uint64(0)
	if chunk < s.Count {
		array = s.chunk(chunk)
	}
	return r.read(s.Schema, array)
}

// Rows returns the number of rows of all chunks together.
func (s *Source) Rows() (rows int64, err error) {
	m := memory{protocol: s.Protocol}
	err = m.touch(func() error {
		total := int64(0)
		for i := range s.Count {
			length := load[Array](&m, "ArrowArray", s.chunk(i)).Length
			if length < 0 {
				return s.Describe(i, new(dlpack.Description)) // returns the error for that length
			}
			if total += length; total < 0 {
				return m.tooLarge()
			}
		}
		rows = total
		return nil
	})
	return rows, err
}

func (s *Source) chunk(i int) uint64 {
	return s.Arrays + uint64(i)*uint64(unsafe.Sizeof(Array{}))
}

func (r *reader) read(schema, array uint64) error {
	d := r.d
	d.NDim, d.Strides[0], d.ElementStrides = 1, 1, true
	var n node
	for outermost := true; ; outermost = false {
		if err := r.load(&n, schema, array); err != nil {
			return err
		}
		if outermost {
			r.count, d.Shape[0] = n.array.Length, n.array.Length
		}
		size, isList := protocol.ParseArrowList(n.format)
		var err error
		switch {
		case outermost && n.format == protocol.ArrowTable:
			err = r.checkColumn(&n)
			size = 1
		case isList && n.schema.NChildren == 1 && n.schema.Dictionary == 0:
			if r.ofTable {
				return dlpack.Unsupported(dlpack.ListColumn, dlpack.Number("length", size))
			}
			err = r.list(&n, size)
		default:
			return r.items(&n)
		}
		if err != nil {
			return err
		}
		column := int64(0)
		if outermost {
			column = r.column
		}
		if schema, array, err = r.child(&n, column, size); err != nil {
			return err
		}
	}
}

// load reads a node's schema and array, and checks the rules that all nodes share. If an address can't be read, the
// error names the field "children", since the outermost structures are always readable.
func (r *reader) load(n *node, schema, array uint64) error {
	n.schema = load[Schema](&r.memory, "ArrowSchema.children", schema)
	switch s := &n.schema; {
	case s.Release == 0:
		return r.released("ArrowSchema.release", dlpack.Schema)
	case s.Format == 0:
		return r.isNull("ArrowSchema.format", dlpack.TextOfFormat)
	}
	n.format = r.text("ArrowSchema.format", n.schema.Format)
	if n.schema.NChildren < 0 {
		return r.malformed(n, "ArrowSchema.n_children", n.schema.NChildren, dlpack.NotNegative)
	}
	if n.hasArray = array != 0; !n.hasArray {
		return nil
	}
	n.array = load[Array](&r.memory, "ArrowArray.children", array)
	a := &n.array
	switch {
	case a.Release == 0:
		return r.released("ArrowArray.release", dlpack.Array)
	case a.Length < 0:
		return r.malformed(n, "ArrowArray.length", a.Length, dlpack.NotNegative)
	case a.Offset < 0:
		return r.malformed(n, "ArrowArray.offset", a.Offset, dlpack.NotNegative)
	case a.Offset+a.Length < 0:
		return r.tooLarge()
	case a.Length < r.first+r.count:
		return r.refuse(dlpack.ArrowLength, dlpack.Quoted("format", n.format), dlpack.Number("length", a.Length),
			dlpack.Number("least", r.first+r.count))
	case a.NChildren != n.schema.NChildren:
		return r.malformed(n, "ArrowArray.n_children", a.NChildren, dlpack.SchemaChildren)
	}
	return nil
}

// buffers checks the array's buffers and counts its nulls. `which` says how many buffers are expected; the first is the
// validity bitmap. NullCount doesn't help: it counts the whole array, and may be unknown. buffers returns the address of
// the last buffer.
func (r *reader) buffers(n *node, expected int64, which dlpack.Word) (last uint64, err error) {
	a := &n.array
	switch {
	case a.NBuffers != expected:
		return 0, r.malformed(n, "ArrowArray.n_buffers", a.NBuffers, which)
	case a.Buffers == 0:
		return 0, r.isNull(buffers, dlpack.BufferPointers)
	case a.NullCount < -1:
		return 0, r.malformed(n, "ArrowArray.null_count", a.NullCount, dlpack.UnknownOrMore)
	}
	validity := load[uint64](&r.memory, buffers, a.Buffers)
	if validity == 0 && a.NullCount > 0 {
		return 0, r.malformed(n, "ArrowArray.null_count", a.NullCount, dlpack.NoneWithoutBitmap)
	}
	if r.nulls == 0 && a.NullCount != 0 && validity != 0 {
		if r.d.Device.Type != dlpack.CPU {
			return 0, dlpack.Unsupported(dlpack.NullsOnDevice, dlpack.Text("protocol", r.protocol),
				dlpack.Number("nulls", a.NullCount), dlpack.Text("device", r.d.Device.String())).Cured(dlpack.FillNulls)
		}
		r.nulls = r.count - r.countBits(bitmap, validity, a.Offset+r.first, r.count)
	}
	return load[uint64](&r.memory, buffers, a.Buffers+8*uint64(expected-1)), nil
}

// checkColumn checks a table, a record batch or a column of structures. If it has one column and no nulls, it is read
// as that column. A [Table] reads several.
func (r *reader) checkColumn(n *node) error {
	if n.schema.NChildren != 1 && !r.ofTable {
		if n.schema.NChildren == 0 {
			return dlpack.Unsupported(dlpack.NoColumns, dlpack.Text("protocol", r.protocol))
		}
		return r.refuseColumns(n, dlpack.Columns, dlpack.Number("columns", n.schema.NChildren))
	}
	if !n.hasArray {
		return nil
	}
	_, err := r.buffers(n, 1, dlpack.OneBuffer)
	if err == nil && r.nulls != 0 {
		err = r.refuseColumns(n, dlpack.NullStructures, dlpack.Number("nulls", r.nulls), dlpack.Number("items", r.count))
	}
	return err
}

func (r *reader) refuseColumns(n *node, saying dlpack.Saying, values ...dlpack.Value) error {
	const most = 3
	names := ""
	for i := range min(n.schema.NChildren, most) {
		if i > 0 {
			names += ", "
		}
		names += dlpack.Quoted("", r.name(&n.schema, i)).String()
	}
	if n.schema.NChildren > most {
		names += ", ..."
	}
	values = append(values, dlpack.Text("protocol", r.protocol), dlpack.Text("names", names))
	return dlpack.Unsupported(saying, values...)
}

// name returns the name of a child, without copying it. The name is "" if there is none.
func (m *memory) name(parent *Schema, child int64) string {
	if parent.Children == 0 {
		return ""
	}
	schema := load[uint64](m, "ArrowSchema.children", parent.Children+8*uint64(child))
	if schema == 0 {
		return ""
	}
	name := load[Schema](m, "ArrowSchema.children", schema).Name
	if name == 0 {
		return ""
	}
	return m.text("ArrowSchema.name", name)
}

// list adds the dimension of lists of `size` elements, or the dimensions of tensors of `size` elements.
func (r *reader) list(n *node, size int64) error {
	if n.hasArray {
		if _, err := r.buffers(n, 1, dlpack.OneBuffer); err != nil {
			return err
		}
	}
	t := tensor{ndim: 1}
	t.lengths[0] = size
	isTensor, err := r.isExtension(n, tensorExtension)
	if err != nil {
		return err
	}
	if isTensor {
		text, err := r.metadata(n, extensionMetadata)
		if err != nil {
			return err
		}
		if err := parseTensor(text, size, dlpack.MaxNDim-r.d.NDim, &t); err != nil {
			return err
		}
	}
	return r.addDims(size, &t)
}

// addDims appends the dimensions of t, whose lengths multiply to `size`.
func (r *reader) addDims(size int64, t *tensor) error {
	d := r.d
	// The number of lists is limited as well, since a tensor may have no dimensions and a malformed list may be its own
	// child.
	if r.lists++; r.lists == dlpack.MaxNDim || d.NDim+t.ndim > dlpack.MaxNDim {
		return r.refuse(dlpack.ArrowNested, dlpack.Number("most", dlpack.MaxNDim))
	}
	fits := true
	for i := range d.NDim {
		d.Strides[i] = multiply(d.Strides[i], size, &fits)
	}
	var strides [dlpack.MaxNDim]int64
	stride := int64(1)
	for i := t.ndim - 1; i >= 0; i-- {
		strides[i] = stride
		stride = multiply(stride, t.lengths[i], &fits)
	}
	for i, from := range t.order[:t.ndim] {
		d.Shape[d.NDim], d.Strides[d.NDim] = t.lengths[from], strides[from]
		d.NDim++
		r.permuted = r.permuted || from != int64(i)
	}
	if !fits {
		return r.tooLarge()
	}
	return nil
}

// child returns the addresses of a child's schema and array. Each element of the node is `size` elements of the child.
func (r *reader) child(n *node, index, size int64) (schema, array uint64, err error) {
	if n.schema.Children != 0 {
		schema = load[uint64](&r.memory, "ArrowSchema.children", n.schema.Children+8*uint64(index))
	}
	if schema == 0 {
		return 0, 0, r.isNull("ArrowSchema.children", dlpack.ChildSchemas)
	}
	if !n.hasArray {
		return schema, 0, nil
	}
	if n.array.Children != 0 {
		array = load[uint64](&r.memory, "ArrowArray.children", n.array.Children+8*uint64(index))
	}
	if array == 0 {
		return 0, 0, r.isNull("ArrowArray.children", dlpack.ChildArrays)
	}
	fits := true
	r.first += n.array.Offset
	multiply(r.first+r.count, size, &fits)
	if !fits {
		return 0, 0, r.tooLarge()
	}
	r.first *= size
	r.count *= size
	if r.count > 0 { // else the lists are empty, and null lists are counted
		r.nulls *= size
	}
	return schema, array, nil
}

// items reads the innermost node: its data type, and the address of its items.
func (r *reader) items(n *node) error {
	d := r.d
	d.Field, d.Text, d.HasStrides, d.Nulls = "Arrow format", n.format, r.permuted, r.nulls
	if err := r.extend(n); err != nil {
		return err
	}
	if n.schema.Dictionary != 0 {
		return dlpack.Unsupported(dlpack.Dictionary, dlpack.Text("field", d.Field), dlpack.Quoted("text", d.Text))
	}
	width, isBytes := int64(1), false
	if r.binary {
		width, isBytes = protocol.ParseArrowBytes(d.Text)
	}
	var err error
	if isBytes {
		d.DataType = dlpack.DataType{Code: dlpack.UInt, Bits: 8, Lanes: 1}
		err = r.addDims(width, &tensor{ndim: 1, lengths: [dlpack.MaxNDim]int64{width}})
	} else {
		d.Item, err = protocol.ParseArrow(d.Text)
	}
	if err != nil || !n.hasArray {
		return err
	}
	if d.Data, err = r.buffers(n, 2, dlpack.TwoBuffers); err != nil {
		return err
	}
	d.Nulls = r.nulls
	if isBytes && r.nulls != 0 && r.count > 0 { // counts rows, not their bytes
		return dlpack.Unsupported(dlpack.NullItems, dlpack.Text("field", d.Field), dlpack.Quoted("text", d.Text),
			dlpack.Number("nulls", r.nulls), dlpack.Number("items", r.count))
	}
	offset := uint64(n.array.Offset + r.first)
	if d.BitPacked && !d.Device.Type.OnCPU() {
		return dlpack.Unsupported(dlpack.BitsOnDevice, dlpack.Text("field", d.Field), dlpack.Quoted("text", d.Text),
			dlpack.Text("device", d.Device.String())).Cured(dlpack.CastWithLibrary)
	}
	if d.BitPacked {
		d.Offset, d.FirstBit = offset/8, uint8(offset%8)
		return nil
	}
	high, low := bits.Mul64(offset, uint64(d.DataType.ItemSize()*width))
	if high != 0 {
		return dlpack.Malformed(dlpack.ArrowOffset, dlpack.Number("offset", offset))
	}
	d.Offset = low
	return nil
}

// extend adds the extension type to the text of the items' format, if it gives the items another meaning.
func (r *reader) extend(n *node) error {
	known := [...]struct{ format, extension, text string }{
		{protocol.ArrowByte, bool8Extension, protocol.ArrowBool8},
		{protocol.ArrowTwoBytes, bfloat16Extension, protocol.ArrowBFloat16},
	}
	for i := range known {
		if n.format != known[i].format {
			continue
		}
		is, err := r.isExtension(n, known[i].extension)
		if err != nil {
			return err
		}
		if is {
			r.d.Text = known[i].text
		}
	}
	return nil
}

func (r *reader) isExtension(n *node, extension string) (bool, error) {
	name, err := r.metadata(n, extensionName)
	return name == extension, err
}

// metadata returns the value of a key in the schema's metadata, or "" if the key is missing. The value stays in C's
// memory. The metadata are the number of pairs, then each key and each value after its length; numbers are int32.
func (r *reader) metadata(n *node, key string) (value string, err error) {
	const field = "ArrowSchema.metadata"
	at := n.schema.Metadata
	if at == 0 {
		return "", nil
	}
	pairs := load[int32](&r.memory, field, at)
	at += 4
	if pairs < 0 {
		return "", r.refuse(dlpack.ArrowPairs, dlpack.Quoted("format", n.format), dlpack.Number("value", pairs))
	}
	for range pairs {
		var pair [2]string
		for i := range pair {
			length := load[int32](&r.memory, field, at)
			if length < 0 {
				return "", r.refuse(dlpack.ArrowPair, dlpack.Quoted("format", n.format), dlpack.Number("value", length))
			}
			pair[i] = r.bytes(field, at+4, uint64(length))
			at += 4 + uint64(length)
		}
		if pair[0] == key {
			return pair[1], nil
		}
	}
	return "", nil
}

// multiply returns a * b, for a and b that are not negative. It clears fits if the product needs more than 63 bits.
func multiply(a, b int64, fits *bool) int64 {
	high, low := bits.Mul64(uint64(a), uint64(b))
	*fits = *fits && high == 0 && int64(low) >= 0
	return int64(low)
}

func (m *memory) refuse(saying dlpack.Saying, values ...dlpack.Value) error {
	return dlpack.Malformed(saying, append(values, dlpack.Text("protocol", m.protocol))...)
}

func (m *memory) malformed(n *node, field string, value int64, expected dlpack.Word) error {
	return m.refuse(dlpack.ArrowValue, dlpack.Text("field", field), dlpack.Quoted("format", n.format),
		dlpack.Number("value", value), dlpack.Worded("expected", expected))
}

func (m *memory) isNull(field string, expected dlpack.Word) error {
	return m.refuse(dlpack.ArrowNull, dlpack.Text("field", field), dlpack.Worded("expected", expected))
}

func (m *memory) released(field string, what dlpack.Word) error {
	return m.refuse(dlpack.Released, dlpack.Text("field", field), dlpack.Worded("what", what))
}

func (m *memory) tooLarge() error {
	return m.refuse(dlpack.ArrowTooLarge)
}

package handover

import (
	"strings"
	"unsafe"

	"dlpack/pkg/cuda"
	"dlpack/pkg/dlpack"
	"dlpack/pkg/foreign"
	"dlpack/pkg/protocol"
	"dlpack/pkg/strided"
)

// A Place is memory that [CopyInto] reads or writes.
type Place struct {
	dlpack.Description
	Producer int64 // work on this stream may still use the memory; or dlpack.UnknownStream

	tensor dlpack.Tensor
}

// CopyInto copies the items of the source into the target, after the work queued on both, and returns when the copy is
// complete. Shapes and data types must be equal, except that items smaller than a byte may be stored in another way on
// each side: packed, in lanes of larger items (two of 4 bits in each), or, on the CPU, padded to a byte. Lanes divide the
// last dimension. The target must be writable, and on a CUDA device compact and row-major. If the two overlap, the target
// gets the source's items from before the copy.
func CopyInto(source, target *Place, allocator Allocator) error {
	if err := source.validate(); err != nil {
		return dlpack.AddSubject(dlpack.OfSource, err)
	}
	if err := target.validate(); err != nil {
		return RefuseTarget(err)
	}
	if err := checkAlike(source, target); err != nil {
		return err
	}
	if target.tensor.Size == 0 {
		return nil
	}
	if err := target.checkOwnItems(); err != nil {
		return err
	}
	if single, laned := byLanes(source, target); laned != nil && !isPadded(&single.tensor) {
		single.countAs(laned)
	}
	onCUDA := func(p *Place) bool { return p.tensor.Device.Type == dlpack.CUDA }
	switch fromCPU, toCPU := source.tensor.Device.Type.OnCPU(), target.tensor.Device.Type.OnCPU(); {
	case fromCPU && toCPU:
		return copyOnHost(source, target, allocator)
	case fromCPU && onCUDA(target):
		return write(source, target, allocator)
	case onCUDA(source) && toCPU:
		return fetch(source, target, allocator)
	case onCUDA(source) && onCUDA(target):
		return copyOnDevices(source, target)
	}
	return dlpack.Unsupported(dlpack.NoCopyBetween, dlpack.Text("source", source.tensor.Device.String()),
		dlpack.Text("target", target.tensor.Device.String())).Cured(dlpack.CopyWithLibraries)
}

// RefuseTarget returns err as an error about the target. A cure that copies the target is replaced: the items would go
// into that copy alone. Python's about_side does the same for a target that asdlpack refuses.
func RefuseTarget(err error) error {
	err = dlpack.AddSubject(dlpack.OfTarget, err)
	if r, ok := err.(*dlpack.Refusal); ok && r.Cure.Copies() {
		return r.Cured(dlpack.CopyByOwner)
	}
	return err
}

// validate also accepts memory that can be exported only as a copy, since CopyInto copies it anyway.
func (p *Place) validate() error {
	if err := p.Validate(&p.tensor); err != nil && dlpack.KindOf(err) != dlpack.ErrNeedsCopy {
		return err
	}
	return nil
}

func checkAlike(source, target *Place) error {
	s, t := &source.tensor, &target.tensor
	values := func() []dlpack.Value {
		return []dlpack.Value{
			dlpack.Text("source_dtype", typeOf(s)), dlpack.Text("source_shape", shapeText(s)),
			dlpack.Text("target_dtype", typeOf(t)), dlpack.Text("target_shape", shapeText(t)),
		}
	}
	single, laned := byLanes(source, target)
	switch {
	case s.DataType != t.DataType && laned == nil:
		saying := dlpack.TypesDiffer
		if s.DataType.Bits < 8 && t.DataType.Bits < 8 {
			saying = dlpack.SmallTypesDiffer
		}
		return cureTypes(dlpack.Malformed(saying, values()...), source, target)
	case isPadded(s) != isPadded(t) && !(s.Device.Type.OnCPU() && t.Device.Type.OnCPU()):
		return dlpack.Malformed(dlpack.TypesDiffer, values()...).Cured(dlpack.Repack)
	case laned != nil && !single.hasLanesOf(laned):
		return refuseLanes(values(), source, target, single, laned)
	case laned == nil && (s.NDim != t.NDim || s.Shape != t.Shape):
		return cureShapes(dlpack.Malformed(dlpack.ShapesDiffer, values()...), source, target)
	}
	return nil
}

// cureTypes adds a cure if the bytes of one side are the items of the other. It reinterprets the source, since a copy
// of the source, if one is needed, does as well. Python adds how the source's library converts numbers.
func cureTypes(r *dlpack.Refusal, source, target *Place) error {
	s, t := &source.tensor, &target.tensor
	if s.Size == t.Size && s.ItemSize == t.ItemSize && !isOneInBytes(s.DataType, t.DataType) {
		return r
	}
	if isByte(s) && isPadded(t) && s.NBytes == packedBytes(t) {
		return r.Cured(dlpack.Reinterpret, asItems(bytesOf(source), packed(t), t.Shape[:t.NDim], false, false)...)
	}
	if isByte(t) && isPadded(s) && t.NBytes == packedBytes(s) && t.Compact {
		return r.Cured(dlpack.Reinterpret, asItems(dlpack.Target, packed(s), s.Shape[:s.NDim], false, false)...)
	}
	if !isByte(s) && !isByte(t) || s.NBytes != t.NBytes {
		return r
	}
	misaligned := isByte(s) && s.Compact && (source.Data+s.Offset)%t.DataType.Alignment() != 0
	return r.Cured(dlpack.Reinterpret, asItems(bytesOf(source), t, t.Shape[:t.NDim], target.Swapped, misaligned)...)
}

// isOneInBytes reports whether one of two types of the same size is uint8, for bytes, and the other the type of items in
// these bytes. Numbers need a conversion instead if a side is int8, the source padded, or the target bool.
func isOneInBytes(source, target dlpack.DataType) bool {
	bytes := dlpack.DataType{Code: dlpack.UInt, Bits: 8, Lanes: 1}
	if source == bytes {
		return target.Code != dlpack.Bool && (target.Code != dlpack.Int || target.Bits < 8)
	}
	return target == bytes && source.Bits == 8 && source.Code != dlpack.Int
}

// bytesOf returns the source as frombuffer reads its bytes.
func bytesOf(source *Place) dlpack.Word {
	switch t := &source.tensor; {
	case source.Swapped && !t.Compact:
		return dlpack.SourceBytes
	case !t.Compact || t.Flags&dlpack.IsCopied != 0: // frombuffer would have to copy these
		return dlpack.SourceCopy
	}
	return dlpack.Source
}

// cureShapes adds a cure if shapes differ: how to reshape, repeat or leave out items.
func cureShapes(r *dlpack.Refusal, source, target *Place) error {
	s, t := &source.tensor, &target.tensor
	if s.Size == t.Size {
		return r.Cured(dlpack.Reinterpret, asItems(dlpack.SourceCopy, s, t.Shape[:t.NDim], false, false)...)
	}
	if broadcasts(s.Shape[:s.NDim], t.Shape[:t.NDim]) && s.Device.Type.OnCPU() && protocol.NamesElsewhere(s.DataType).Typestr != "" {
		return r.Cured(dlpack.Broadcast, shapeOf(t.Shape[:t.NDim]))
	}
	if s.NDim != 1 || t.NDim != 1 {
		return r
	}
	if s.Size > t.Size {
		return r.Cured(dlpack.FirstItems, asItems(dlpack.SourceCopy, s, t.Shape[:1], false, false)...)
	}
	if !t.Compact || target.Swapped {
		return r
	}
	return r.Cured(dlpack.FirstItems, asItems(dlpack.Target, t, s.Shape[:1], false, false)...)
}

// broadcasts reports whether numpy can broadcast `shape` to the shape `to`.
func broadcasts(shape, to []int64) bool {
	missing := len(to) - len(shape)
	for i, n := range shape {
		if missing < 0 || n != 1 && n != to[missing+i] {
			return false
		}
	}
	return missing >= 0
}

// asItems returns the values of a cure that reads an object's bytes as items of this type and shape. swapped: the items
// are big-endian. misaligned: the object must be copied first.
func asItems(object dlpack.Word, items *dlpack.Tensor, shape []int64, swapped, misaligned bool) []dlpack.Value {
	name, converted := nameOf(items.DataType), dlpack.Nothing
	if misaligned {
		converted = dlpack.MayCopy
	}
	if typestr := protocol.NamesElsewhere(items.DataType).Typestr; swapped && typestr != "" && typestr[0] == '<' {
		name, converted = ">"+typestr[1:], dlpack.MayCopy
	}
	if items.Flags&dlpack.SubbyteTypePadded != 0 {
		name = protocol.HiddenTypestr("|", items.DataType)
	}
	return []dlpack.Value{dlpack.Worded("object", object), dlpack.Text("dtype", name), shapeOf(shape),
		dlpack.Worded("converted", converted)}
}

// shapeOf returns the value "shape" of a cure: the shape, or the target's if it is long.
func shapeOf(shape []int64) dlpack.Value {
	if text := dlpack.ShapeText(shape); !strings.Contains(text, "...") {
		return dlpack.Text("shape", text)
	}
	return dlpack.Worded("shape", dlpack.TargetShape)
}

func nameOf(t dlpack.DataType) string {
	var memory [32]byte
	return string(protocol.AppendName(memory[:0], t))
}

func isByte(t *dlpack.Tensor) bool {
	d := t.DataType
	return (d.Code == dlpack.Int || d.Code == dlpack.UInt) && d.Bits == 8 && d.Lanes == 1
}

// typeOf returns the name of the data type for refusals. Types of less than a byte differ if their items are padded.
func typeOf(t *dlpack.Tensor) string {
	if t.Flags&dlpack.SubbyteTypePadded != 0 && !t.DataType.WholeBytes() {
		return nameOf(t.DataType) + " (padded)"
	}
	return nameOf(t.DataType)
}

func shapeText(t *dlpack.Tensor) string {
	return dlpack.ShapeText(t.Shape[:t.NDim])
}

// checkOwnItems refuses a target in which several items are the same memory, or may overlap.
func (p *Place) checkOwnItems() error {
	strides, shape := p.ByteStrides(&p.tensor), p.tensor.Shape[:p.tensor.NDim]
	i, reach := dlpack.Overlapping(shape, strides[:len(shape)], p.tensor.ItemSize)
	if i < 0 {
		return nil
	}
	dimension := dlpack.Number("dimension", i)
	if strides[i] == 0 {
		first := dlpack.Text("first", strings.Repeat(":, ", i)+":1")
		return dlpack.AddSubject(dlpack.OfTarget, dlpack.Unsupported(dlpack.RepeatedItems, dimension,
			dlpack.Number("items", shape[i])).Cured(dlpack.OneItem, first))
	}
	return dlpack.AddSubject(dlpack.OfTarget, dlpack.Unsupported(dlpack.OverlappingItems, dimension,
		dlpack.Number("stride", strides[i]), dlpack.Number("reach", reach)).Cured(dlpack.CopyByOwner))
}

func (p *Place) finish() error {
	return finish(&p.Description, &p.tensor, queuedOn(p.Producer, &p.tensor))
}

// isPlain reports whether the items are compact, row-major and in native byte order.
func (p *Place) isPlain() bool {
	return p.tensor.Compact && wordSize(&p.Description) <= 1
}

// extent returns the lowest address of the items, and the bytes from there to their end.
func (p *Place) extent() (lowest, bytes uint64) {
	return p.Data + p.tensor.Offset - p.tensor.Below, p.tensor.Below + p.tensor.Above
}

// overlaps reports whether p and q share addresses, whatever their devices: managed memory may be the host's for one
// side and a device's for the other.
func (p *Place) overlaps(q *Place) bool {
	from, fromBytes := p.extent()
	to, toBytes := q.extent()
	return from < to+toBytes && to < from+fromBytes
}

// layout returns the shape, the strides in bytes and the size of the items. For packed items it returns those of their
// bytes.
func (p *Place) layout() (shape, strides [dlpack.MaxNDim]int64, ndim, itemSize int) {
	t := &p.tensor
	if t.Packed() {
		shape[0], strides[0] = t.NBytes, 1
		return shape, strides, 1, 1
	}
	return t.Shape, p.ByteStrides(t), t.NDim, int(t.ItemSize)
}

// spareBits returns a mask of the last byte's bits that belong to no packed item. A copy leaves these bits unchanged.
func (p *Place) spareBits() byte {
	if !p.tensor.Packed() {
		return 0
	}
	d := p.tensor.DataType
	used := p.tensor.Size * int64(d.Bits) * int64(d.Lanes) % 8
	if used == 0 {
		return 0
	}
	return 0xFF << used
}

// plain describes compact CPU memory for the items of p.
func (p *Place) plain(memory unsafe.Pointer) *Place {
	q := &Place{Description: p.Description, tensor: p.tensor}
	q.Data, q.Offset, q.HasStrides, q.Swapped = uint64(uintptr(memory)), 0, false, false
	q.Device = dlpack.Device{Type: dlpack.CPU}
	q.tensor.Device = q.Device
	q.tensor.MakeCompact()
	return q
}

// copyOnHost copies between memory that the CPU can read and memory that it can write.
func copyOnHost(source, target *Place, allocator Allocator) error {
	if err := source.finish(); err != nil {
		return err
	}
	if err := target.finish(); err != nil {
		return err
	}
	overlap := source.overlaps(target)
	repack := repacking(&source.tensor, &target.tensor)
	if repack == nil && (!overlap || source.isPlain() && target.isPlain()) {
		return copyTo(source, target, overlap)
	}
	bytes := max(source.tensor.NBytes, target.tensor.NBytes)
	return copyThroughScratch(target, bytes, allocator, func(memory unsafe.Pointer) error {
		err := copyItems(memory, &source.Description, &source.tensor)
		if err == nil && repack != nil {
			items := max(source.tensor.Size, target.tensor.Size) // of the padded side, which has no lanes
			repack(memory, int(items), int(source.tensor.DataType.Bits))
		}
		return dlpack.AddSubject(dlpack.OfSource, err)
	})
}

// repacking returns the function that packs or pads the source's items, if exactly one side is padded. Otherwise it
// returns nil.
func repacking(source, target *dlpack.Tensor) func(memory unsafe.Pointer, n, bits int) {
	switch {
	case isPadded(source) == isPadded(target):
		return nil
	case isPadded(source):
		return strided.Pack
	}
	return strided.Pad
}

// copyThroughScratch has f write the items to scratch memory of `bytes` bytes, and copies them from there to the
// target.
func copyThroughScratch(target *Place, bytes int64, allocator Allocator, f func(memory unsafe.Pointer) error) error {
	memory := allocator.Scratch(bytes)
	if memory == nil {
		return noMemory(bytes)
	}
	defer allocator.Free(memory)
	if err := f(memory); err != nil {
		return err
	}
	return copyTo(target.plain(memory), target, false)
}

// copyTo copies within CPU memory, and turns a fault into an error. If overlap is true, both sides are plain.
func copyTo(source, target *Place, overlap bool) error {
	from, fromBytes := source.extent()
	to, toBytes := target.extent()
	address, faulted := foreign.Touch(func() {
		foreign.At(from, fromBytes)
		foreign.At(to, toBytes)
		source.copyTo(target, overlap)
	})
	if address-from >= fromBytes && address-to >= toBytes { // no address was reported, so it is the higher one
		address = max(from, to)
	}
	switch {
	case faulted && address-to < toBytes:
		return unwritable(address)
	case faulted:
		return dlpack.AddSubject(dlpack.OfSource, unreadable(address))
	}
	return nil
}

// copyTo copies to memory that doesn't overlap, unless overlap is true and both sides are plain.
func (source *Place) copyTo(target *Place, overlap bool) {
	dst := memoryOf(&target.Description, &target.tensor).Pointer()
	src := memoryOf(&source.Description, &source.tensor).Pointer()
	if spare := target.spareBits(); spare != 0 {
		last := (*byte)(unsafe.Add(dst, target.tensor.NBytes-1))
		before := *last
		defer func() { *last = *last&^spare | before&spare }()
	}
	if overlap {
		bytes := target.tensor.NBytes
		copy(unsafe.Slice((*byte)(dst), bytes), unsafe.Slice((*byte)(src), bytes))
		return
	}
	swap := 0
	if source.Swapped != target.Swapped {
		swap = int(target.tensor.DataType.Alignment())
	}
	shape, dstStrides, ndim, itemSize := target.layout()
	_, srcStrides, _, _ := source.layout()
	strided.Into(dst, src, shape[:ndim], dstStrides[:ndim], srcStrides[:ndim], itemSize, swap)
}

func unwritable(address uint64) error {
	return dlpack.AddSubject(dlpack.OfTarget, dlpack.Unsupported(dlpack.Unwritable, dlpack.Address("address", address)))
}

// fetch copies from a device to memory that the CPU can write.
func fetch(source, target *Place, allocator Allocator) error {
	driver, err := cuda.Running()
	if err != nil {
		return noDriver(err, &source.tensor, target.tensor.Device)
	}
	if err := target.finish(); err != nil {
		return err
	}
	from := sourceOf(&source.Description, &source.tensor, queuedOn(source.Producer, &source.tensor))
	if !target.isPlain() || target.spareBits() != 0 || source.overlaps(target) {
		return copyThroughScratch(target, target.tensor.NBytes, allocator, func(memory unsafe.Pointer) error {
			return driver.ToHost(memory, from)
		})
	}
	to := memoryOf(&target.Description, &target.tensor)
	if !cuda.Writable(to.Address, target.tensor.NBytes) {
		return unwritable(to.Address)
	}
	return driver.ToHost(to.Pointer(), from)
}

// write copies from memory that the CPU can read to a device.
func write(source, target *Place, allocator Allocator) error {
	driver, err := target.driver(source)
	if err != nil {
		return err
	}
	if err := source.finish(); err != nil {
		return err
	}
	src, done, err := hostItems(&source.Description, &source.tensor, source.overlaps(target), allocator)
	if err != nil {
		return dlpack.AddSubject(dlpack.OfSource, err)
	}
	defer done()
	return driver.Write(target.onDevice(), src, source.tensor.NBytes)
}

// copyOnDevices copies between devices, or within one.
func copyOnDevices(source, target *Place) error {
	driver, err := target.driver(source)
	if err != nil {
		return err
	}
	from := sourceOf(&source.Description, &source.tensor, queuedOn(source.Producer, &source.tensor))
	return driver.CopyInto(target.onDevice(), from)
}

// driver returns the driver for a copy to a target on a device. The target must be compact there, and end with a whole
// byte.
func (p *Place) driver(source *Place) (*cuda.Driver, error) {
	if !p.isPlain() {
		return nil, p.notThere(dlpack.NotCompact, dlpack.CompactByOwner)
	}
	if p.spareBits() != 0 {
		return nil, p.notThere(dlpack.PartOfByte, dlpack.FillByte)
	}
	driver, err := cuda.Running()
	if err != nil {
		return nil, noDriver(err, &source.tensor, p.tensor.Device)
	}
	return driver, nil
}

// notThere refuses a target that is fine on the CPU.
func (p *Place) notThere(saying dlpack.Saying, cure dlpack.Cure) error {
	return dlpack.AddSubject(dlpack.OfTarget, dlpack.Unsupported(saying, dlpack.Text("dtype", typeOf(&p.tensor)),
		dlpack.Text("shape", shapeText(&p.tensor)), dlpack.Text("device", p.tensor.Device.String())).Cured(cure))
}

func (p *Place) onDevice() cuda.Target {
	return cuda.Target{Memory: memoryOf(&p.Description, &p.tensor), Stream: queuedOn(p.Producer, &p.tensor)}
}

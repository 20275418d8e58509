package handover

import (
	"strconv"
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
	Producer int64 // work queued on this stream may still use the memory; or dlpack.UnknownStream

	tensor dlpack.Tensor
}

// CopyInto copies the items of the source into the target, which has the same shape and data type, once the work on
// both is done, and returns when they are there. Where the two overlap, the target gets what the source was before. The
// target has to be writable, and on a device of CUDA compact and row-major. On the CPU, items of less than a byte may be
// packed on one side and padded on the other.
func CopyInto(source, target *Place, allocator Allocator) error {
	if err := source.validate(); err != nil {
		return dlpack.Of("source", err)
	}
	if err := target.validate(); err != nil {
		return OfTarget(err)
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
	onCUDA := func(p *Place) bool { return p.tensor.Device.Type == dlpack.CUDA }
	switch fromCPU, toCPU := source.tensor.Device.Type.OnCPU(), target.tensor.Device.Type.OnCPU(); {
	case fromCPU && toCPU:
		return copyOver(source, target, allocator)
	case fromCPU && onCUDA(target):
		return write(source, target, allocator)
	case onCUDA(source) && toCPU:
		return fetch(source, target, allocator)
	case onCUDA(source) && onCUDA(target):
		return replace(source, target)
	}
	return dlpack.Unsupported("source is on " + source.tensor.Device.String() + ", target on " +
		target.tensor.Device.String() + "; expected both on the CPU or on CUDA (copy with the library that owns them)")
}

// byItsOwner is the way out that every target has.
const byItsOwner = " (copy into a new array, and from there by the library that owns the target)"

// OfTarget makes an error that is about the target. A way out that copies the target would lose what is copied into it:
// there is another one. What asdlpack refuses before gets it in Python, by about_side.
func OfTarget(err error) error {
	text := err.Error()
	if cut := strings.LastIndex(text, " ("); cut >= 0 {
		wayOut := text[cut+2:]
		if strings.HasPrefix(wayOut, "pass ") || strings.HasPrefix(wayOut, "copy ") {
			err = dlpack.Unsupported(text[:cut] + byItsOwner)
		}
	}
	return dlpack.Of("target", err)
}

// validate takes what a copy would cure, too: it is cured on the way, or was asked for.
func (p *Place) validate() error {
	if err := p.Validate(&p.tensor); err != nil && dlpack.KindOf(err) != dlpack.KindNeedsCopy {
		return err
	}
	return nil
}

func checkAlike(source, target *Place) error {
	s, t := &source.tensor, &target.tensor
	expected := ""
	switch {
	case s.DataType != t.DataType || s.Packed() != t.Packed() && !(s.Device.Type.OnCPU() && t.Device.Type.OnCPU()):
		expected = "one data type, since nothing is converted" + toOneType(source, target)
	case s.NDim != t.NDim || s.Shape != t.Shape:
		expected = "one shape, since nothing is repeated" + toOneShape(source, target)
	default:
		return nil
	}
	return dlpack.Malformed("source is " + text(s) + ", target is " + text(t) + "; expected " + expected)
}

// compactSource is the source's items side by side, in native byte order.
const compactSource = "dlpack.asdlpack(source, copy=True)"

// toOneType is the hint if one side has the bytes of the other's items: the source is reinterpreted, since a copy of it,
// which may be needed, is as good. Python adds how the source converts numbers.
func toOneType(source, target *Place) string {
	s, t := &source.tensor, &target.tensor
	if s.DataType == t.DataType {
		return " (pack or pad the items on the CPU, by copy_into there)"
	}
	if !isByte(s) && !isByte(t) || s.NBytes != t.NBytes {
		return ""
	}
	object := "source"
	switch {
	case source.Swapped && !s.Compact:
		object = "memoryview(source).tobytes()"
	case !s.Compact || s.Flags&dlpack.IsCopied != 0: // of which frombuffer takes a copy alone
		object = compactSource
	}
	misaligned := isByte(s) && s.Compact && (source.Data+s.Offset)%t.DataType.Alignment() != 0
	return " (pass " + asItems(object, t, t.Shape[:t.NDim], target.Swapped, misaligned) + ")"
}

// toOneShape is the way out where items have to be repeated, or left out.
func toOneShape(source, target *Place) string {
	s, t := &source.tensor, &target.tensor
	if s.Size == t.Size {
		return " (pass " + asItems(compactSource, s, t.Shape[:t.NDim], false, false) + ")"
	}
	if broadcasts(s.Shape[:s.NDim], t.Shape[:t.NDim]) && s.Device.Type.OnCPU() && protocol.NamesElsewhere(s.DataType).Typestr != "" {
		return " (pass numpy.broadcast_to(numpy.asarray(dlpack.asdlpack(source, copy=None)), " + shapeOf(t.Shape[:t.NDim]) + "))"
	}
	if s.NDim != 1 || t.NDim != 1 {
		return ""
	}
	if s.Size > t.Size {
		return " (pass the first items: " + asItems(compactSource, s, t.Shape[:1], false, false) + ")"
	}
	if !t.Compact || target.Swapped {
		return ""
	}
	return " (pass the first items: " + asItems("target", t, s.Shape[:1], false, false) + ")"
}

// broadcasts tells whether memory of one shape can be repeated to another, as numpy does it.
func broadcasts(shape, to []int64) bool {
	missing := len(to) - len(shape)
	for i, n := range shape {
		if missing < 0 || n != 1 && n != to[missing+i] {
			return false
		}
	}
	return missing >= 0
}

// asItems is the call that takes the bytes of some object for such items, which may be big-endian, of a shape.
func asItems(object string, items *dlpack.Tensor, shape []int64, swapped, misaligned bool) string {
	var memory [32]byte
	name, convert := string(protocol.AppendName(memory[:0], items.DataType)), ""
	if misaligned {
		convert = ", copy=None"
	}
	if typestr := protocol.NamesElsewhere(items.DataType).Typestr; swapped && typestr != "" && typestr[0] == '<' {
		name, convert = ">"+typestr[1:], ", copy=None"
	}
	if items.Flags&dlpack.SubbyteTypePadded != 0 {
		name = "|V1 " + name // as the arrays of ml_dtypes have it
	}
	return "dlpack.frombuffer(" + object + ", '" + name + "', " + shapeOf(shape) + convert + ")"
}

// shapeOf is a target's shape as Python has it.
func shapeOf(shape []int64) string {
	if text := dlpack.ShapeText(shape); !strings.Contains(text, "...") {
		return text
	}
	return "target.shape"
}

func isByte(t *dlpack.Tensor) bool {
	d := t.DataType
	return (d.Code == dlpack.Int || d.Code == dlpack.UInt) && d.Bits == 8 && d.Lanes == 1
}

// text is the data type and the shape.
func text(t *dlpack.Tensor) string {
	var memory [32]byte
	padded := ""
	if t.Flags&dlpack.SubbyteTypePadded != 0 && !t.DataType.WholeBytes() {
		padded = " (padded)"
	}
	return string(protocol.AppendName(memory[:0], t.DataType)) + padded + " " + dlpack.ShapeText(t.Shape[:t.NDim])
}

// checkOwnItems refuses a target of which several items are one, or may overlap.
func (p *Place) checkOwnItems() error {
	strides, shape := p.ByteStrides(&p.tensor), p.tensor.Shape[:p.tensor.NDim]
	i, reach := dlpack.Overlapping(shape, strides[:len(shape)], p.tensor.ItemSize)
	if i < 0 {
		return nil
	}
	found := "target: strides dimension " + strconv.Itoa(i) + " is "
	if strides[i] == 0 {
		return dlpack.Unsupported(found + "0: its " + strconv.FormatInt(shape[i], 10) + " items are one; expected memory " +
			"for each (pass one of them, target[" + strings.Repeat(":, ", i) + ":1], and as much of the source)")
	}
	return dlpack.Unsupported(found + strconv.FormatInt(strides[i], 10) + " bytes, where items and smaller steps reach " +
		"over " + strconv.FormatUint(reach, 10) + ": items may overlap; expected memory for each" + byItsOwner)
}

func (p *Place) finish() error {
	return finish(&p.Description, &p.tensor, queuedOn(p.Producer, &p.tensor))
}

// isPlain tells whether the items lie compactly, row-major and in native byte order.
func (p *Place) isPlain() bool {
	return p.tensor.Compact && wordSize(&p.Description) <= 1
}

// extent is the lowest address of the items, and the bytes from there to their end.
func (p *Place) extent() (lowest, bytes uint64) {
	return p.Data + p.tensor.Offset - p.tensor.Below, p.tensor.Below + p.tensor.Above
}

// overlaps also tells managed memory that is one side's as the host's and the other's as a device's.
func (p *Place) overlaps(q *Place) bool {
	from, fromBytes := p.extent()
	to, toBytes := q.extent()
	return from < to+toBytes && to < from+fromBytes
}

// layout is the shape and the strides in bytes of items that have so many bytes; of packed ones, of their bytes.
func (p *Place) layout() (shape, strides [dlpack.MaxNDim]int64, ndim, itemSize int) {
	t := &p.tensor
	if t.Packed() {
		shape[0], strides[0] = t.NBytes, 1
		return shape, strides, 1, 1
	}
	return t.Shape, p.ByteStrides(t), t.NDim, int(t.ItemSize)
}

// spareBits masks those of the last byte that are no packed item's: they stay as they are.
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

// plain is compact memory with the items of p.
func (p *Place) plain(memory unsafe.Pointer) *Place {
	q := &Place{Description: p.Description, tensor: p.tensor}
	q.Data, q.Offset, q.HasStrides, q.Swapped = uint64(uintptr(memory)), 0, false, false
	q.Device = dlpack.Device{Type: dlpack.CPU}
	q.tensor.Device = q.Device
	q.tensor.MakeCompact()
	return q
}

// copyOver copies where the CPU reads and writes.
func copyOver(source, target *Place, allocator Allocator) error {
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
	return through(target, bytes, allocator, func(memory unsafe.Pointer) error {
		err := copyItems(memory, &source.Description, &source.tensor)
		if err == nil && repack != nil {
			repack(memory, int(source.tensor.Size), int(source.tensor.DataType.Bits))
		}
		return dlpack.Of("source", err)
	})
}

// repacking is what makes the target's items of the source's where those of one side alone share bytes; else nil.
func repacking(source, target *dlpack.Tensor) func(memory unsafe.Pointer, n, bits int) {
	switch {
	case source.Packed() == target.Packed():
		return nil
	case target.Packed():
		return strided.Pack
	}
	return strided.Pad
}

// through has f write the items to so many bytes of memory, and copies them to the target from there.
func through(target *Place, bytes int64, allocator Allocator, f func(memory unsafe.Pointer) error) error {
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

// copyTo copies what overlaps only where both are plain.
func copyTo(source, target *Place, overlap bool) error {
	from, fromBytes := source.extent()
	to, toBytes := target.extent()
	address, faulted := foreign.Touch(func() {
		foreign.At(from, fromBytes)
		foreign.At(to, toBytes)
		source.copyTo(target, overlap)
	})
	if address-from >= fromBytes && address-to >= toBytes { // of an address that no memory can have, the higher one
		address = max(from, to)
	}
	switch {
	case faulted && address-to < toBytes:
		return unwritable(address)
	case faulted:
		return dlpack.Of("source", unreadable(address))
	}
	return nil
}

// copyTo copies to memory that does not overlap, or is plain.
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
	return dlpack.Unsupported("target: the memory at 0x" + strconv.FormatUint(address, 16) +
		" can't be written; expected an address that is mapped, and writable")
}

// fetch copies from a device to where the CPU writes.
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
		return through(target, target.tensor.NBytes, allocator, func(memory unsafe.Pointer) error {
			return driver.ToHost(memory, from)
		})
	}
	to := memoryOf(&target.Description, &target.tensor)
	if !cuda.Writable(to.Address, target.tensor.NBytes) {
		return unwritable(to.Address)
	}
	return driver.ToHost(to.Pointer(), from)
}

// write copies from where the CPU reads to a device.
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
		return dlpack.Of("source", err)
	}
	defer done()
	return driver.Write(target.onDevice(), src, source.tensor.NBytes)
}

// replace copies between devices.
func replace(source, target *Place) error {
	driver, err := target.driver(source)
	if err != nil {
		return err
	}
	from := sourceOf(&source.Description, &source.tensor, queuedOn(source.Producer, &source.tensor))
	return driver.Replace(target.onDevice(), from)
}

// driver is that of a target on a device, which has to be compact.
func (p *Place) driver(source *Place) (*cuda.Driver, error) {
	if !p.isPlain() {
		return nil, dlpack.Unsupported("target: " + text(&p.tensor) + " on " + p.tensor.Device.String() +
			" is not compact, row-major; expected such memory there (copy to a compact one, and have the library " +
			"that owns the target move it, as target.copy_(compact) does in torch)")
	}
	if p.spareBits() != 0 {
		return nil, dlpack.Unsupported("target: " + text(&p.tensor) + " on " + p.tensor.Device.String() +
			" ends within a byte; expected whole bytes there (pass as many items as fill the last byte)")
	}
	driver, err := cuda.Running()
	if err != nil {
		return nil, noDriver(err, &source.tensor, p.tensor.Device)
	}
	return driver, nil
}

func (p *Place) onDevice() cuda.Target {
	return cuda.Target{Memory: memoryOf(&p.Description, &p.tensor), Stream: queuedOn(p.Producer, &p.tensor)}
}

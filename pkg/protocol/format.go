package protocol

import (
	"math"
	"math/bits"
	"strings"

	"dlpack/pkg/dlpack"
)

// ParseFormat reads a format of the buffer protocol (PEP 3118) for items of itemsize bytes: the codes of module struct,
// complex numbers (Ze, Zf, Zd; F and D as in Python 3.14), and sub-arrays, "(2,3)d" or "3B". "c" is a byte, uint8.
//
// It writes the dimensions of a sub-array to shape and returns their number, ndim. They follow the buffer's dimensions.
func ParseFormat(text string, itemsize int64, shape *[dlpack.MaxNDim]int64) (item dlpack.Item, ndim int, err error) {
	return NativeLong.ParseFormat(text, itemsize, shape)
}

// ParseFormat is the function [ParseFormat] for a system whose C has a long of this size.
func (long Long) ParseFormat(text string, itemsize int64, shape *[dlpack.MaxNDim]int64) (item dlpack.Item, ndim int,
	err error) {
	r := formatReader{text: text, rest: text, order: '@', nativeLong: long}
	f := format{shape: shape}
	if err := r.item(&f); err != nil {
		return f.item, 0, err
	}
	return f.item, f.ndim, r.fit(&f, itemsize)
}

// FormatOrders are the letters of a format for its byte order, alignment and sizes.
const FormatOrders = "<@=^>!"

// formatReader reads a format from left to right.
type formatReader struct {
	text, rest string
	order      byte // byte order in force
	nativeLong Long
	long       bool // the item is an "l" or "L" of standard size
}

// format is the reader's result. As a field of the reader it would count as escaping, and the caller's shape would be
// allocated.
type format struct {
	item  dlpack.Item
	shape *[dlpack.MaxNDim]int64 // of the sub-array
	ndim  int
}

// A formatCode is the meaning of a letter: a type, or the reason why DLPack has none for it.
type formatCode struct {
	code           dlpack.TypeCode
	bytes          uint8 // except for a long in native mode, "@" or "^"
	isLong         bool
	whyUnsupported dlpack.Saying
}

// formatCodes maps each letter to its code. A letter with neither bytes nor a reason is unknown.
var formatCodes = [256]formatCode{
	'?': {code: dlpack.Bool, bytes: 1},
	'b': {code: dlpack.Int, bytes: 1},
	'c': {code: dlpack.UInt, bytes: 1},
	'B': {code: dlpack.UInt, bytes: 1},
	'h': {code: dlpack.Int, bytes: 2},
	'H': {code: dlpack.UInt, bytes: 2},
	'i': {code: dlpack.Int, bytes: 4},
	'I': {code: dlpack.UInt, bytes: 4},
	'l': {code: dlpack.Int, bytes: 4, isLong: true},
	'L': {code: dlpack.UInt, bytes: 4, isLong: true},
	'q': {code: dlpack.Int, bytes: 8},
	'Q': {code: dlpack.UInt, bytes: 8},
	'n': {code: dlpack.Int, bytes: 8},
	'N': {code: dlpack.UInt, bytes: 8},
	'e': {code: dlpack.Float, bytes: 2},
	'f': {code: dlpack.Float, bytes: 4},
	'd': {code: dlpack.Float, bytes: 8},
	'F': {code: dlpack.Complex, bytes: 8},
	'D': {code: dlpack.Complex, bytes: 16},

	'g': {whyUnsupported: dlpack.LongDouble},
	'G': {whyUnsupported: dlpack.LongComplex},
	's': {whyUnsupported: dlpack.TextItems},
	'p': {whyUnsupported: dlpack.TextItems},
	'u': {whyUnsupported: dlpack.TextItems},
	'w': {whyUnsupported: dlpack.TextItems},
	'O': {whyUnsupported: dlpack.Objects},
	'P': {whyUnsupported: dlpack.Pointers},
	'&': {whyUnsupported: dlpack.Pointers},
	'X': {whyUnsupported: dlpack.Pointers},
	'z': {whyUnsupported: dlpack.Pointers},
	'T': {whyUnsupported: dlpack.Structure},
	'x': {whyUnsupported: dlpack.Padding},
	't': {whyUnsupported: dlpack.BitField},
}

// item reads the byte order, shape, count and code of one item.
func (r *formatReader) item(f *format) error {
	for ordered := false; ; {
		r.skipSpace()
		switch next := r.peek(); {
		case !ordered && strings.IndexByte(FormatOrders, next) >= 0:
			r.order, ordered = next, true
			r.rest = r.rest[1:]
		case next == '(':
			r.rest = r.rest[1:]
			if err := r.dimensions(f); err != nil {
				return err
			}
		case '0' <= next && next <= '9':
			n, err := r.number()
			if err != nil {
				return err
			}
			// As in numpy, a count of 1 adds no dimension.
			if n != 1 {
				if err := r.addDimension(f, n); err != nil {
					return err
				}
			}
			return r.code(f)
		default:
			return r.code(f)
		}
	}
}

// dimensions reads the dimensions of a sub-array, after its "(".
func (r *formatReader) dimensions(f *format) error {
	for {
		r.skipSpace()
		n, err := r.number()
		if err != nil {
			return err
		}
		if err := r.addDimension(f, n); err != nil {
			return err
		}
		r.skipSpace()
		switch r.next() {
		case ',':
		case ')':
			return nil
		default:
			return r.malformed(dlpack.SubArrayDimension)
		}
	}
}

func (r *formatReader) addDimension(f *format, n int64) error {
	if f.ndim == dlpack.MaxNDim {
		return r.malformed(dlpack.SubArrayDimensions, dlpack.Number("most", dlpack.MaxNDim))
	}
	f.shape[f.ndim] = n
	f.ndim++
	return nil
}

// code reads the code of an item, with a "Z" before it if there is one.
func (r *formatReader) code(f *format) error {
	letter := r.next()
	isComplex := letter == 'Z'
	if isComplex {
		if r.rest == "" {
			return r.unsupported(dlpack.Pointers) // ctypes' c_wchar_p
		}
		letter = r.next()
		if strings.IndexByte("efdg", letter) < 0 {
			return r.malformed(dlpack.UnknownComplex)
		}
		if letter == 'g' {
			letter = 'G'
		}
	}
	code := &formatCodes[letter]
	if code.bytes == 0 && code.whyUnsupported != "" {
		return r.unsupported(code.whyUnsupported)
	}
	if code.bytes == 0 {
		return r.malformed(dlpack.UnknownLetter)
	}
	bytes := code.bytes
	native := r.order == '@' || r.order == '^'
	r.long = code.isLong && !native
	if code.isLong && native {
		bytes = uint8(r.nativeLong)
	}
	f.item.DataType = dlpack.DataType{Code: code.code, Bits: 8 * bytes, Lanes: 1}
	if isComplex {
		f.item.DataType = dlpack.DataType{Code: dlpack.Complex, Bits: 16 * bytes, Lanes: 1}
	}
	f.item.Swapped = (r.order == '>' || r.order == '!') && f.item.DataType.Alignment() > 1
	return nil
}

// fit checks that the format ends after its first item, and that the item has itemsize bytes.
func (r *formatReader) fit(f *format, itemsize int64) error {
	if r.skipSpace(); r.rest != "" {
		return r.severalItems(f)
	}
	if r.long && f.size(8) == itemsize {
		// "l" has 4 bytes in standard mode, but ctypes writes "<l" for a native one of 8.
		f.item.DataType.Bits = 64
	}
	if r.text == "B" && itemsize > 1 {
		return r.unsupported(dlpack.Structure) // ctypes describes every union and packed structure by "B"
	}
	if size := f.size(f.item.DataType.ItemSize()); size < 0 || size != itemsize {
		saying := dlpack.FormatSize
		if size < 0 {
			saying, size = dlpack.FormatTooLarge, math.MaxInt64
		}
		return r.malformed(saying, dlpack.Number("size", size), dlpack.Number("itemsize", itemsize))
	}
	return nil
}

// size returns the bytes of an item whose elements have elementSize bytes, or -1 if they exceed int64. For that limit,
// an empty dimension counts as 1, as in dlpack.Description.Validate.
func (f *format) size(elementSize int64) int64 {
	size, empty := uint64(elementSize), false
	for _, n := range f.shape[:f.ndim] {
		empty = empty || n == 0
		high, low := bits.Mul64(size, uint64(max(n, 1)))
		if high != 0 || low > math.MaxInt64 {
			return -1
		}
		size = low
	}
	if empty {
		return 0
	}
	return int64(size)
}

// severalItems refuses a format of several items. If one of them is malformed, the error says that; otherwise it says
// that they are a structure.
func (r *formatReader) severalItems(f *format) error {
	for ; r.rest != ""; r.skipSpace() {
		f.ndim = 0
		if err := r.item(f); err != nil {
			return err
		}
	}
	return r.unsupported(dlpack.Structure)
}

func (r *formatReader) number() (int64, error) {
	n, rest, ok := readNumber(r.rest, math.MaxInt64)
	if !ok {
		return 0, r.malformed(dlpack.SubArrayNumber)
	}
	r.rest = rest
	return int64(n), nil
}

func (r *formatReader) skipSpace() {
	r.rest = strings.TrimLeft(r.rest, " \t\n\v\f\r")
}

// peek returns the next byte without reading it, or 0 at the end.
func (r *formatReader) peek() byte {
	if r.rest == "" {
		return 0
	}
	return r.rest[0]
}

// next reads the next byte, or 0 at the end.
func (r *formatReader) next() byte {
	next := r.peek()
	if r.rest != "" {
		r.rest = r.rest[1:]
	}
	return next
}

func (r *formatReader) malformed(saying dlpack.Saying, values ...dlpack.Value) error {
	return malformed("format", r.text, saying, values...)
}

func (r *formatReader) unsupported(saying dlpack.Saying) error {
	return unsupported("format", r.text, saying)
}

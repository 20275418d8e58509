package protocol

import (
	"math"
	"math/bits"
	"strconv"
	"strings"

	"dlpack/pkg/dlpack"
)

// Format is what a format of the buffer protocol says of each item.
type Format struct {
	DataType dlpack.DataType
	Swapped  bool                  // big-endian
	NDim     int                   // dimensions of a sub-array, which are behind those of the buffer
	Shape    [dlpack.MaxNDim]int64 // of the sub-array
}

// ParseFormat reads a format of PEP 3118 for items of itemsize bytes: the codes of module struct, complex numbers (Zf,
// Zd; F, D as Python 3.14 has them), and sub-arrays, "(2,3)d" or "3B". A "c" is a byte, uint8.
func ParseFormat(text string, itemsize int64, f *Format) error {
	r := formatReader{text: text, rest: text, order: '@'}
	if err := r.item(f); err != nil {
		return err
	}
	long := r.long
	if r.skipSpace(); r.rest != "" {
		return r.severalItems()
	}
	if long && f.size(8) == itemsize {
		// "l" has 4 bytes in standard mode, but ctypes writes "<l" for a native one of 8.
		f.DataType.Bits = 64
	}
	if text == "B" && itemsize > 1 {
		return r.refuse(noStructure) // what ctypes says of every union and packed structure
	}
	if size := f.size(f.DataType.ItemSize()); size < 0 || size != itemsize {
		bytes := strconv.FormatInt(size, 10)
		if size < 0 {
			bytes = "more than " + strconv.Itoa(math.MaxInt64)
		}
		return r.malformed("size " + bytes + "; expected the itemsize, " + strconv.FormatInt(itemsize, 10))
	}
	return nil
}

// size is the bytes of an item whose elements have elementSize, or -1 if they are no int64. For that limit, an empty
// dimension counts as 1, as in dlpack.Description.Validate.
func (f *Format) size(elementSize int64) int64 {
	size, empty := uint64(elementSize), false
	for _, n := range f.Shape[:f.NDim] {
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

// formatReader reads a format from left to right. A byte order holds until the next one.
type formatReader struct {
	text, rest string
	order      byte
	long       bool // an item was an "l" or "L" of standard size: the codes that have two sizes
}

// item reads byte order, shape, count and code of one item.
func (r *formatReader) item(f *Format) error {
	f.NDim = 0
	for ordered := false; ; {
		r.skipSpace()
		switch next := r.peek(); {
		case !ordered && strings.IndexByte("@^=<>!", next) >= 0:
			r.order, ordered = next, true
			r.rest = r.rest[1:]
		case next == '(':
			r.rest = r.rest[1:]
			if err := r.shape(f); err != nil {
				return err
			}
		case '0' <= next && next <= '9':
			n, err := r.number()
			if err != nil {
				return err
			}
			// As in numpy, a count of 1 is no dimension.
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

// shape reads the dimensions of a sub-array, behind its "(".
func (r *formatReader) shape(f *Format) error {
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
			return r.malformed(`expected "," or ")" behind a dimension of a sub-array`)
		}
	}
}

func (r *formatReader) addDimension(f *Format, n int64) error {
	if f.NDim == dlpack.MaxNDim {
		return r.malformed("too many dimensions; expected at most " + strconv.Itoa(dlpack.MaxNDim))
	}
	f.Shape[f.NDim] = n
	f.NDim++
	return nil
}

// code reads the code of an item, and a "Z" before it.
func (r *formatReader) code(f *Format) error {
	standard := r.order != '@' && r.order != '^'
	code, size := dlpack.Int, int64(0)
	switch letter := r.next(); letter {
	case '?':
		code, size = dlpack.Bool, 1
	case 'b':
		size = 1
	case 'c', 'B':
		code, size = dlpack.UInt, 1
	case 'h':
		size = 2
	case 'H':
		code, size = dlpack.UInt, 2
	case 'i':
		size = 4
	case 'I':
		code, size = dlpack.UInt, 4
	case 'l', 'L':
		size = 8
		if standard {
			size = 4
		}
		if letter == 'L' {
			code = dlpack.UInt
		}
		r.long = standard
	case 'q', 'n':
		size = 8
	case 'Q', 'N':
		code, size = dlpack.UInt, 8
	case 'e':
		code, size = dlpack.Float, 2
	case 'f':
		code, size = dlpack.Float, 4
	case 'd':
		code, size = dlpack.Float, 8
	case 'F':
		code, size = dlpack.Complex, 8
	case 'D':
		code, size = dlpack.Complex, 16
	case 'Z':
		if r.rest == "" {
			return r.refuse(noPointers) // ctypes' c_wchar_p
		}
		switch r.next() {
		case 'f':
			code, size = dlpack.Complex, 8
		case 'd':
			code, size = dlpack.Complex, 16
		case 'g':
			return r.refuse(noLongComplex)
		default:
			return r.malformed("unknown complex number; expected Zf or Zd")
		}
	case 'g':
		return r.refuse(noLongDouble)
	case 'G':
		return r.refuse(noLongComplex)
	case 's', 'p', 'u', 'w':
		return r.refuse(noText)
	case 'O':
		return r.refuse(noObjects)
	case 'P', '&', 'X', 'z':
		return r.refuse(noPointers)
	case 'T':
		return r.refuse(noStructure)
	case 'x':
		return r.refuse(noPadding)
	case 't':
		return r.refuse(noBitField)
	default:
		return r.malformed("unknown or missing code; expected one of ?cbBhHiIlLqQnNefd, Zf or Zd")
	}
	f.DataType = dlpack.DataType{Code: code, Bits: uint8(8 * size), Lanes: 1}
	f.Swapped = r.order == '>' || r.order == '!'
	return nil
}

// severalItems refuses what follows the first item, which is an error of either kind.
func (r *formatReader) severalItems() error {
	var further Format
	for ; r.rest != ""; r.skipSpace() {
		if err := r.item(&further); err != nil {
			return err
		}
	}
	return r.refuse(noStructure)
}

func (r *formatReader) number() (int64, error) {
	n, rest, ok := readNumber(r.rest, math.MaxInt64)
	if !ok {
		return 0, r.malformed("expected a number of elements up to 2^63 - 1")
	}
	r.rest = rest
	return int64(n), nil
}

func (r *formatReader) skipSpace() {
	r.rest = strings.TrimLeft(r.rest, " \t\n\v\f\r")
}

// peek is the next byte, or 0 at the end.
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

func (r *formatReader) malformed(why string) error {
	return malformed("format", r.text, why)
}

func (r *formatReader) refuse(why string) error {
	return unsupported("format", r.text, why)
}

// table writes pyext/ask/type_table.h: how data types are spelled, and what each spelling means to the packages of this
// module. With it, the extension describes ordinary memory without Go. A test fails if the file is older than the
// packages.
package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/protocol"
)

// Constants of core.h. A static assertion in the table compares them.
const (
	dltensor, arrayInterface, buffer, memory = 1, 2, 5, 8

	textSize = 24 // FORMAT_SIZE
)

// longs are the possible sizes of C's long. Some rows of the table differ between them.
var longs = [...]protocol.Long{8, 4}

// A spelling is the text that names an item's type in a protocol: the key of a struct type_spelling.
type spelling struct {
	protocol, padded, itemsize uint8  // itemsize: of a buffer, else 0
	text                       string // for a DLTensor, the bytes of its DLDataType
}

// words returns the key as the 64-bit words that the hash is made of.
func (s *spelling) words() (words [1 + textSize/8]uint64) {
	var text [textSize]byte
	copy(text[:], s.text)
	words[0] = uint64(s.protocol) | uint64(s.padded)<<8 | uint64(s.itemsize)<<16
	for i := 1; i < len(words); i++ {
		words[i] = binary.LittleEndian.Uint64(text[8*(i-1):])
	}
	return words
}

// A meaning is the item that a spelling names. If swapped is true, a copy reverses the bytes of its words. long is the
// size of C's long that the meaning requires, 0 for any.
type meaning struct {
	item    dlpack.Tensor
	swapped bool
	long    protocol.Long
}

// A table holds data types and spellings in the order in which they were found.
type table struct {
	types     []dlpack.DataType
	spellings []spelling
	meanings  map[spelling]meaning
}

// add validates one item of the type with package dlpack, and adds the result. It skips spellings that are refused,
// packed or too long.
func (t *table) add(s spelling, long protocol.Long, item dlpack.Item, err error) {
	var tensor dlpack.Tensor
	d := dlpack.Description{Item: item, Device: dlpack.Device{Type: dlpack.CPU}, Data: 1 << 20, Span: -1}
	if err != nil || len(s.text) >= textSize {
		return
	}
	err = d.Validate(&tensor)
	swapped := dlpack.KindOf(err) == dlpack.ErrNeedsCopy && item.Swapped
	if err != nil && !swapped || tensor.Packed() {
		return
	}

	if !slices.Contains(t.types, item.DataType) {
		t.types = append(t.types, item.DataType)
	}
	before, known := t.meanings[s]
	switch {
	case !known:
		t.spellings = append(t.spellings, s)
		t.meanings[s] = meaning{tensor, swapped, long}
	case before.item != tensor || before.swapped != swapped:
		panic(s.text + " means one type or another")
	case before.long != long:
		t.meanings[s] = meaning{tensor, swapped, 0}
	}
}

// dataTypes returns the valid data types with 1, 2 or 4 lanes that fill whole bytes, and those with one lane that may
// be padded.
func dataTypes() (types []dlpack.DataType) {
	for code := range dlpack.TypeCodeCount {
		for bits := range 256 {
			for _, lanes := range []uint16{1, 2, 4} {
				dtype := dlpack.DataType{Code: code, Bits: uint8(bits), Lanes: lanes}
				if dtype.Validate() == nil && (lanes == 1 || dtype.WholeBytes()) {
					types = append(types, dtype)
				}
			}
		}
	}
	return types
}

func (t *table) addTensors() {
	for _, dtype := range dataTypes() {
		text := string([]byte{byte(dtype.Code), dtype.Bits, byte(dtype.Lanes)})
		t.add(spelling{protocol: dltensor, text: text}, 0, dlpack.Item{DataType: dtype}, nil)
		if !dtype.WholeBytes() {
			item := dlpack.Item{DataType: dtype, Flags: dlpack.SubbyteTypePadded}
			t.add(spelling{protocol: dltensor, padded: 1, text: text}, 0, item, nil)
		}
	}
}

func (t *table) addFormats() {
	for _, order := range append([]string{""}, strings.Split(protocol.FormatOrders, "")...) {
		for _, complex := range []string{"", "Z"} {
			for letter := byte('?'); letter <= 'z'; letter++ {
				for size := int64(1); size <= 16; size *= 2 {
					for _, long := range longs {
						var shape [dlpack.MaxNDim]int64
						text := order + complex + string(letter)
						item, _, err := long.ParseFormat(text, size, &shape)
						t.add(spelling{protocol: buffer, itemsize: uint8(size), text: text}, long, item, err)
					}
				}
			}
		}
	}
}

// addTypestr adds a typestr for the array interfaces, frombuffer and from_pointer, which share their rows in C.
func (t *table) addTypestr(text string) {
	item, err := protocol.ParseTypestr("typestr", text)
	t.add(spelling{protocol: arrayInterface, text: text}, 0, item, err)
}

func (t *table) addTypestrs() {
	for _, order := range strings.Split(protocol.TypestrOrders, "") {
		for kind := byte('a'); kind <= 'z'; kind++ {
			for size := 1; size <= 16; size *= 2 {
				t.addTypestr(fmt.Sprintf("%s%c%d", order, kind, size))
			}
		}
		for _, dtype := range dataTypes() { // typestrs of ml_dtypes
			if dtype.Lanes > 1 || dtype.Code == dlpack.OpaqueHandle || protocol.NamesElsewhere(dtype).Typestr != "" {
				continue
			}
			t.addTypestr(protocol.HiddenTypestr(order, dtype))
			if dtype.Bits == 8 {
				t.addTypestr(fmt.Sprintf("%sf1 %s", order, protocol.AppendName(nil, dtype)))
			}
		}
	}
}

func (t *table) addName(text string) {
	dtype, err := protocol.ParseAnyName(text)
	t.add(spelling{protocol: memory, text: text}, 0, dlpack.Item{DataType: dtype}, err)
}

func (t *table) addNames() {
	for _, dtype := range dataTypes() {
		if dtype.Lanes == 1 || dtype.ItemSize() == 1 {
			name := string(protocol.AppendName(nil, dtype))
			t.addName(name)
			t.addName("torch." + name)
			t.addName(fmt.Sprintf("(%d, %d, %d)", dtype.Code, dtype.Bits, dtype.Lanes))
		}
	}
	for text := range protocol.Spellings {
		t.addName(text)
		t.addName(strings.ToUpper(text))
		t.addName(strings.ToUpper(text[:1]) + text[1:])
	}
}

// mostTried is the largest number of places that a lookup tries.
const mostTried = 6

// place finds factors of a hash. Each spelling lies at its hash, a fraction of all places, or at one of the next
// places. places[i] is the index of the spelling there, or -1. Shorter spellings lie nearer to their hash.
func (t *table) place() (places []int, factors [1 + textSize/8]uint64) {
	count := 2 * len(t.spellings)
	shortFirst := make([]int, len(t.spellings))
	for i := range shortFirst {
		shortFirst[i] = i
	}
	slices.SortStableFunc(shortFirst, func(i, j int) int { return len(t.spellings[i].text) - len(t.spellings[j].text) })
	for state := uint64(0); places == nil; {
		for i := range factors { // splitmix64
			state += 0x9E3779B97F4A7C15
			z := (state ^ state>>30) * 0xBF58476D1CE4E5B9
			z = (z ^ z>>27) * 0x94D049BB133111EB
			factors[i] = z ^ z>>31 | 1
		}
		places = t.placeBy(&factors, count, shortFirst)
	}
	return places, factors
}

// placeBy is place with these factors, in this order. It returns nil if a spelling would lie too far from its hash.
func (t *table) placeBy(factors *[1 + textSize/8]uint64, count int, order []int) []int {
	places := slices.Repeat([]int{-1}, count+mostTried)
	for _, i := range order {
		hash := uint64(0)
		for j, word := range t.spellings[i].words() {
			hash += word * factors[j]
		}
		at := int(hash >> 32 * uint64(count) >> 32)
		free := slices.Index(places[at:at+mostTried], -1)
		if free < 0 {
			return nil
		}
		places[at+free] = i
	}
	return places
}

// write writes the table as C source.
func (t *table) write(w io.Writer) {
	places, factors := t.place()
	fmt.Fprintf(w, "/* type_table.h: written by pkg/table (go run ./pkg/table > pyext/ask/type_table.h). */\n/* clang-format off */\n")
	fmt.Fprintf(w, "_Static_assert(PROTOCOL_DLTENSOR == %d && PROTOCOL_ARRAY_INTERFACE == %d && PROTOCOL_BUFFER == %d && "+
		"PROTOCOL_MEMORY == %d && FORMAT_SIZE == %d, \"pkg/table has other numbers\");\n\n",
		dltensor, arrayInterface, buffer, memory, textSize)
	fmt.Fprintf(w, "static const struct known_type known_types[] = {\n")
	for _, dtype := range t.types {
		writeType(w, dtype)
	}
	fmt.Fprintf(w, "};\n\nenum { TYPE_PLACES = %d, PLACES_BEHIND = %d };\n", len(places)-mostTried, mostTried)
	fmt.Fprintf(w, "static const uint64_t type_factors[] = {%#xu, %#xu, %#xu, %#xu};\n", factors[0], factors[1],
		factors[2], factors[3])
	fmt.Fprintf(w, "static const struct type_spelling type_spellings[TYPE_PLACES + PLACES_BEHIND] = {\n")
	for place, index := range places {
		if index < 0 {
			continue
		}
		it := &t.spellings[index]
		means := t.meanings[*it]
		row := fmt.Sprintf("    [%d] = {%d, %d, %d, %d, %d, %d, %t, %t, %d, \"%s\"},\n", place, it.protocol, it.padded, it.itemsize,
			means.item.ItemSize, means.item.DataType.Alignment(), means.item.Flags, means.item.VersionedOnly, means.swapped,
			slices.Index(t.types, means.item.DataType), literal(it.text))
		if means.long != 0 {
			row = forLong(means.long, row)
		}
		fmt.Fprint(w, row)
	}
	fmt.Fprintf(w, "};\n")
}

// literal returns the text with octal escapes in place of characters that can't be printed.
func literal(text string) (escaped string) {
	for _, letter := range []byte(text) {
		if ' ' <= letter && letter <= '~' && letter != '"' && letter != '\\' && text[0] >= ' ' {
			escaped += string(letter)
		} else {
			escaped += fmt.Sprintf("\\%03o", letter)
		}
	}
	return escaped
}

func writeType(w io.Writer, dtype dlpack.DataType) {
	var rows [len(longs)]string
	for i, long := range longs {
		names := long.NamesElsewhere(dtype)
		rows[i] = fmt.Sprintf("    {{%d, %d, %d}, {%q, %q, %q, %q}},\n", dtype.Code, dtype.Bits, dtype.Lanes,
			protocol.AppendName(nil, dtype), names.Format, names.Arrow, names.Typestr)
	}
	if rows[0] == rows[1] {
		fmt.Fprint(w, rows[0])
		return
	}
	for i, long := range longs {
		fmt.Fprint(w, forLong(long, rows[i]))
	}
}

func forLong(long protocol.Long, row string) string {
	return fmt.Sprintf("#if __SIZEOF_LONG__ == %d\n%s#endif\n", long, row)
}

// writeTable makes the table and writes it.
func writeTable(w io.Writer) {
	t := table{meanings: map[spelling]meaning{}}
	t.addTensors()
	t.addFormats()
	t.addTypestrs()
	t.addNames()
	t.write(w)
}

func main() {
	w := bufio.NewWriter(os.Stdout)
	writeTable(w)
	if err := w.Flush(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

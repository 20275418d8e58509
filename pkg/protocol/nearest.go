package protocol

import (
	"slices"
	"strconv"
	"strings"

	"dlpack/pkg/dlpack"
)

// words lists other words for data types, and the names that each may mean.
var words = [...]struct {
	word  string
	names []string
}{
	{"boolean", []string{"bool"}},
	{"byte", []string{"uint8", "int8"}},
	{"short", []string{"int16"}},
	{"int", []string{"int32", "int64"}},
	{"integer", []string{"int32", "int64"}},
	{"long", []string{"int64"}},
	{"uint", []string{"uint32", "uint64"}},
	{"half", []string{"float16"}},
	{"bfloat", []string{"bfloat16"}},
	{"bf16", []string{"bfloat16"}},
	{"bcomplex", []string{"bcomplex32"}},
	{"float", []string{"float32", "float64"}},
	{"single", []string{"float32"}},
	{"double", []string{"float64"}},
	{"complex", []string{"complex64", "complex128"}},
	{"float8", []string{"float8_e4m3fn", "float8_e5m2"}},
	{"fp8", []string{"float8_e4m3fn", "float8_e5m2"}},
	{"f8_e4m3", []string{"float8_e4m3fn"}}, // these three are safetensors' words
	{"f8_e5m2", []string{"float8_e5m2"}},
	{"f8_e8m0", []string{"float8_e8m0fnu"}},
	{"float6", []string{"float6_e2m3fn", "float6_e3m2fn"}},
	{"float4", []string{"float4_e2m1fn"}},
	{"fp4", []string{"float4_e2m1fn"}},
	{"ushort", []string{"uint16"}},
	{"ulong", []string{"uint64"}},
	{"chalf", []string{"complex32"}},
	{"csingle", []string{"complex64"}},
	{"cfloat", []string{"complex64", "complex128"}}, // torch's and numpy's
	{"cdouble", []string{"complex128"}},
	{"i128", []string{"int128"}},
	{"u128", []string{"uint128"}},
	{"f6_e2m3", []string{"float6_e2m3fn"}}, // these two are safetensors' words
	{"f6_e3m2", []string{"float6_e3m2fn"}},
	{"float4_e2m1fn_x2", []string{"float4_e2m1fnx2"}}, // torch's word
}

// Spellings yields spellings of data types in lower case, each with a name that it may mean: the words above, the names
// themselves, and codes with bytes ("f4", as in numpy) or bits ("f32", "fp32").
func Spellings(yield func(spelling, name string) bool) {
	for _, known := range words {
		for _, name := range known.names {
			if !yield(known.word, name) {
				return
			}
		}
	}
	for code := range dlpack.TypeCodeCount {
		for _, bits := range []uint8{64, 32, 16, 8, 128, 6, 4, 2, 1} { // the usual ones first
			if !code.HasBits(bits) {
				continue
			}
			t := dlpack.DataType{Code: code, Bits: bits, Lanes: 1}
			name := string(AppendName(nil, t))
			spellings := []string{name}
			if typestr := NamesElsewhere(t).Typestr; typestr != "" {
				spellings = append(spellings, typestr[1:], typestr[1:2]+strconv.Itoa(int(bits)))
				if code == dlpack.Float {
					spellings = append(spellings, "fp"+strconv.Itoa(int(bits)))
				}
			}
			for _, spelling := range spellings {
				if !yield(spelling, name) {
					return
				}
			}
		}
	}
}

// nearestNames returns at most three names of data types that a wrong name may mean. exact is true if the wrong name is
// one of Spellings. Otherwise they are the nearest spellings, at an edit distance of at most a third of the wrong
// name's length. Case and a module before a dot don't matter.
func nearestNames(wrong string) (found []string, exact bool) {
	const most = 3
	wrong = strings.ToLower(wrong[strings.LastIndexByte(wrong, '.')+1:])
	add := func(name string) {
		if len(found) < most && !slices.Contains(found, name) {
			found = append(found, name)
		}
	}
	for spelling, name := range Spellings {
		if spelling == wrong {
			add(name)
		}
	}
	if found != nil {
		return found, true
	}
	least := len(wrong) / 3
	for spelling, name := range Spellings {
		distance := editDistance(wrong, spelling, least)
		if distance < least {
			least, found = distance, nil
		}
		if distance <= least {
			add(name)
		}
	}
	return found, false
}

// editDistance returns how many bytes must be inserted, deleted, replaced or swapped with a neighbour to turn a into b
// (Levenshtein's distance with transpositions). If that exceeds `most`, it returns any number above `most`.
func editDistance(a, b string, most int) int {
	if max(len(a)-len(b), len(b)-len(a)) > most {
		return most + 1
	}
	// rows[i%3][j] is the distance of the first i bytes of a and the first j of b.
	var rows [3][]int
	for i := range rows {
		rows[i] = make([]int, len(b)+1)
	}
	for i := range len(a) + 1 {
		row, above, before := rows[i%3], rows[(i+2)%3], rows[(i+1)%3]
		for j := range row {
			switch {
			case i == 0:
				row[j] = j
			case j == 0:
				row[j] = i
			case a[i-1] == b[j-1]:
				row[j] = above[j-1]
			default:
				row[j] = 1 + min(above[j-1], above[j], row[j-1])
				if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
					row[j] = min(row[j], 1+before[j-2])
				}
			}
		}
	}
	return rows[len(a)%3][len(b)]
}

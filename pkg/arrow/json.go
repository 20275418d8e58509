package arrow

import (
	"strconv"
	"strings"
)

// mostNested limits the depth of nested JSON. A tensor's metadata are two levels deep.
const mostNested = 64

// A jsonReader reads JSON (RFC 8259) from the front of its text. Unlike encoding/json, it needs no reflection.
type jsonReader struct{ rest string }

// isObject reports whether text is one JSON object and nothing else.
func isObject(text string) bool {
	r := jsonReader{text}
	value, ok := r.value(0)
	r.skipSpace()
	return ok && r.rest == "" && value[0] == '{'
}

// member returns the value of an object's member, or "" if it has none of this name. If several have the name, the last
// one counts. The loop ends even for malformed text, since C's memory may change after a check.
func member(object, name string) (value string) {
	r := jsonReader{object}
	r.take('{')
	for {
		key, v, ok := r.member(0)
		if !ok {
			return value
		}
		if isName(key, name) {
			value = v
		}
		r.take(',')
	}
}

// integers reads an array of integers that are not negative. count is their number, or len(into) + 1 if there is no
// room for all.
func integers(array string, into []int64) (count int, ok bool) {
	r := jsonReader{array}
	if !r.take('[') {
		return 0, false
	}
	for ; count <= len(into) && !r.take(']'); count++ {
		text, _ := r.value(0)
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || text[0] == '-' {
			return 0, false
		}
		if count < len(into) {
			into[count] = n
		}
		r.take(',')
	}
	return count, true
}

// isName compares the text between the quotes of a JSON string with a name in ASCII. Any letter of text may be escaped.
func isName(text, name string) bool {
	for ; name != ""; name = name[1:] {
		if len(text) >= 6 && strings.HasPrefix(text, `\u`) {
			letter, _ := strconv.ParseUint(text[2:6], 16, 16)
			if letter != uint64(name[0]) {
				return false
			}
			text = text[6:]
			continue
		}
		if text == "" || text[0] != name[0] {
			return false
		}
		text = text[1:]
	}
	return text == ""
}

// value reads a value. ok is false if there is none, or if it is nested too deep.
func (r *jsonReader) value(depth int) (text string, ok bool) {
	r.skipSpace()
	before := r.rest
	if before == "" || depth >= mostNested {
		return "", false
	}
	switch before[0] {
	case '{':
		r.rest = before[1:]
		ok = r.take('}') || r.members(depth+1)
	case '[':
		r.rest = before[1:]
		ok = r.take(']') || r.elements(depth+1)
	case '"':
		_, ok = r.text()
	case 'n':
		ok = r.word("null")
	case 't':
		ok = r.word("true")
	case 'f':
		ok = r.word("false")
	default:
		ok = r.number()
	}
	return before[:len(before)-len(r.rest)], ok
}

func (r *jsonReader) word(word string) bool {
	rest, found := strings.CutPrefix(r.rest, word)
	r.rest = rest
	return found
}

// members reads the members of an object and its closing brace.
func (r *jsonReader) members(depth int) bool {
	for {
		if _, _, ok := r.member(depth); !ok {
			return false
		}
		if !r.take(',') {
			return r.take('}')
		}
	}
}

func (r *jsonReader) member(depth int) (name, value string, ok bool) {
	if name, ok = r.text(); !ok || !r.take(':') {
		return "", "", false
	}
	value, ok = r.value(depth)
	return name, value, ok
}

// elements reads the elements of an array and its closing bracket.
func (r *jsonReader) elements(depth int) bool {
	for {
		if _, ok := r.value(depth); !ok {
			return false
		}
		if !r.take(',') {
			return r.take(']')
		}
	}
}

// text reads a string and returns the text between its quotes, with its escapes.
func (r *jsonReader) text() (text string, ok bool) {
	if !r.take('"') {
		return "", false
	}
	s := r.rest
	for i := 0; i < len(s) && s[i] >= ' '; i++ {
		switch s[i] {
		case '"':
			r.rest = s[i+1:]
			return s[:i], true
		case '\\':
			i++
			switch {
			case i == len(s):
				return "", false
			case s[i] == 'u':
				if i+4 >= len(s) || !isHex(s[i+1:i+5]) {
					return "", false
				}
				i += 4
			case strings.IndexByte(`"\/bfnrt`, s[i]) < 0:
				return "", false
			}
		}
	}
	return "", false
}

func isHex(text string) bool {
	for _, c := range []byte(text) {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
	return true
}

// number reads a number. A leading 0 must be the only digit before a point or an exponent.
func (r *jsonReader) number() bool {
	r.takeOf("-")
	if !r.takeOf("0") && !r.digits() {
		return false
	}
	if r.takeOf(".") && !r.digits() {
		return false
	}
	if r.takeOf("eE") {
		r.takeOf("+-")
		return r.digits()
	}
	return true
}

// digits reads one digit or more.
func (r *jsonReader) digits() bool {
	i := 0
	for i < len(r.rest) && '0' <= r.rest[i] && r.rest[i] <= '9' {
		i++
	}
	r.rest = r.rest[i:]
	return i > 0
}

// takeOf reads the next character if it is one of these.
func (r *jsonReader) takeOf(characters string) bool {
	if r.rest == "" || strings.IndexByte(characters, r.rest[0]) < 0 {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

// take skips space, and reads the next character if it is this one.
func (r *jsonReader) take(character byte) bool {
	r.skipSpace()
	if r.rest == "" || r.rest[0] != character {
		return false
	}
	r.rest = r.rest[1:]
	return true
}

func (r *jsonReader) skipSpace() {
	for r.rest != "" && strings.IndexByte(" \t\n\r", r.rest[0]) >= 0 {
		r.rest = r.rest[1:]
	}
}

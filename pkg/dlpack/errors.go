package dlpack

import (
	"slices"
	"strconv"
	"strings"
)

// Kind classifies refusals for a caller that decides what to do next. A [Refusal] wraps its kind, for errors.Is.
type Kind string

// The kinds of refusals. [KindOf] returns "" for all other errors.
const (
	ErrMalformed   Kind = "malformed"     // a description or a request contradicts itself or the standard
	ErrUnsupported Kind = "unsupported"   // the input is valid, but can't be exported or done
	ErrNeedsCopy   Kind = "needs a copy"  // the memory can't be exported as it is, but a copy can
	ErrOutOfMemory Kind = "out of memory" // no memory is left for a copy
)

func (k Kind) Error() string { return string(k) }

// A Refusal is the type of all errors of this package, as data: what is wrong, with which values, and what helps. Its
// words are in Python, in dlpack._sayings.
type Refusal struct {
	Kind    Kind
	Subject Subject // stands before the saying; "" for none
	Saying  Saying
	Values  []Value // include those of Subject
	Cure    Cure    // "" for none
	With    []Value // needed by the cure alone
}

// Error returns the refusal for a developer: its keys and values.
func (r *Refusal) Error() string {
	var text strings.Builder
	if r.Subject != "" {
		text.WriteString(string(r.Subject) + ": ")
	}
	text.WriteString(string(r.Saying))
	write := func(values []Value) {
		for i, v := range values {
			separator := ", "
			if i == 0 {
				separator = ": "
			}
			text.WriteString(separator + v.Name + "=" + v.String())
		}
	}
	write(r.Values)
	if r.Cure != "" {
		text.WriteString(" (" + string(r.Cure))
		write(r.With)
		text.WriteString(")")
	}
	return text.String()
}

// Unwrap returns the kind.
func (r *Refusal) Unwrap() error { return r.Kind }

// Cured sets what helps, and the values that only this needs, and returns r.
func (r *Refusal) Cured(cure Cure, with ...Value) *Refusal {
	r.Cure, r.With = cure, with
	return r
}

// KindOf returns the kind of a refusal. It returns "" for nil and for other errors.
func KindOf(err error) Kind {
	if r, ok := err.(*Refusal); ok {
		return r.Kind
	}
	return ""
}

// Malformed makes a refusal of kind ErrMalformed.
func Malformed(saying Saying, values ...Value) *Refusal {
	return &Refusal{Kind: ErrMalformed, Saying: saying, Values: values}
}

// Unsupported makes a refusal of kind ErrUnsupported.
func Unsupported(saying Saying, values ...Value) *Refusal {
	return &Refusal{Kind: ErrUnsupported, Saying: saying, Values: values}
}

// NeedsCopy makes a refusal of kind ErrNeedsCopy.
func NeedsCopy(saying Saying, values ...Value) *Refusal {
	return &Refusal{Kind: ErrNeedsCopy, Saying: saying, Values: values}
}

// OutOfMemory makes a refusal of kind ErrOutOfMemory.
func OutOfMemory(saying Saying, values ...Value) *Refusal {
	return &Refusal{Kind: ErrOutOfMemory, Saying: saying, Values: values}
}

// AddSubject returns a refusal with a subject and the values that this needs. It returns another error unchanged.
func AddSubject(subject Subject, err error, values ...Value) error {
	if r, ok := err.(*Refusal); ok {
		about := *r
		about.Subject, about.Values = subject, append(slices.Clip(r.Values), values...)
		return &about
	}
	return err
}

// A Value is a named value of a refusal.
type Value struct {
	Name string
	Form Form
	Text string
}

// Form says what the text of a value is, and so how Python shows it.
type Form byte

// The forms of values. Python shows numbers and names as they are.
const (
	FormInt    Form = '#'  // a number, decimal or after 0x hexadecimal
	FormText   Form = '\'' // a name, a shape and the like
	FormQuoted Form = '"'  // text from outside, escaped: in quotes
	FormCut    Form = '~'  // the beginning of such a text: in quotes, then "..."
	FormWord   Form = '='  // a Word: as what it stands for
	FormList   Form = ','  // alternatives, separated by spaces: "a, b or c"
	FormNames  Form = '|'  // alternatives, separated by spaces: `"a" or "b"`
)

// String returns the value for a developer.
func (v Value) String() string {
	switch v.Form {
	case FormQuoted:
		return `"` + v.Text + `"`
	case FormCut:
		return `"` + v.Text + `"...`
	}
	return v.Text
}

// Number makes a value of FormInt.
func Number[N ~int | ~int32 | ~int64 | ~uint8 | ~uint16 | ~uint64](name string, n N) Value {
	if n < 0 {
		return Value{name, FormInt, strconv.FormatInt(int64(n), 10)}
	}
	return Value{name, FormInt, strconv.FormatUint(uint64(n), 10)}
}

// Address makes a value of FormInt that is shown in hexadecimal digits.
func Address(name string, address uint64) Value {
	return Value{name, FormInt, "0x" + strconv.FormatUint(address, 16)}
}

// Text makes a value of FormText. It copies the text, else what the text is a field of would be allocated.
func Text(name, text string) Value { return Value{name, FormText, strings.Clone(text)} }

// Quoted makes a value of text from outside, which it copies: escaped to ASCII, and cut after 60 bytes.
func Quoted(name, text string) Value {
	const most = 60
	form := FormQuoted
	if len(text) > most {
		text, form = text[:most], FormCut
	}
	quoted := strconv.QuoteToASCII(text)
	return Value{name, form, quoted[1 : len(quoted)-1]}
}

// Worded makes a value of FormWord.
func Worded(name string, word Word) Value { return Value{name, FormWord, string(word)} }

// List makes a value of FormList.
func List(name, items string) Value { return Value{name, FormList, items} }

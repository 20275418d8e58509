package dlpack

import "strconv"

// Kind says what is wrong, for a caller that decides by it what to do next. The text of an error is for people.
type Kind uint8

// The kinds of errors. 0 is none of them: see [KindOf].
const (
	KindMalformed   Kind = 1 + iota // a description or a wish contradicts itself or the standard
	KindUnsupported                 // it is well formed, but can't be exported or done
	KindNeedsCopy                   // the memory can't be exported as it is, but a copy of it can
	KindOutOfMemory                 // there is no memory for a copy
)

// failure is the only type of this package's errors. Its message names the field that is wrong, its value, what was
// expected and the way out.
type failure struct {
	kind    Kind
	message string
}

func (f *failure) Error() string {
	return f.message
}

// KindOf tells what kind an error is, and 0 for nil and for errors that no function below made.
func KindOf(err error) Kind {
	if f, ok := err.(*failure); ok {
		return f.kind
	}
	return 0
}

// Malformed makes an error of KindMalformed.
func Malformed(message string) error {
	return &failure{KindMalformed, message}
}

// Unsupported makes an error of KindUnsupported.
func Unsupported(message string) error {
	return &failure{KindUnsupported, message}
}

// NeedsCopy makes an error of KindNeedsCopy.
func NeedsCopy(message string) error {
	return &failure{KindNeedsCopy, message}
}

// OutOfMemory makes an error of KindOutOfMemory.
func OutOfMemory(message string) error {
	return &failure{KindOutOfMemory, message}
}

// Of makes an error of the same kind, whose text says first what it is about. Another package's error stays as it is.
func Of(what string, err error) error {
	if f, ok := err.(*failure); ok {
		return &failure{f.kind, what + ": " + f.message}
	}
	return err
}

// Quote puts text from outside into quotes, as error messages show it: escaped to ASCII, and shortened if it is long.
func Quote(text string) string {
	const most = 60
	if len(text) > most {
		return strconv.QuoteToASCII(text[:most]) + "..."
	}
	return strconv.QuoteToASCII(text)
}

func number(n int64) string {
	return strconv.FormatInt(n, 10)
}

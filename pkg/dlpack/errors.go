package dlpack

import "strconv"

// Kind classifies errors for a caller that decides what to do next. The text of an error is for people.
type Kind uint8

// The kinds of errors. [KindOf] returns 0 for all others.
const (
	KindMalformed   Kind = 1 + iota // a description or a request contradicts itself or the standard
	KindUnsupported                 // the input is valid, but can't be exported or done
	KindNeedsCopy                   // the memory can't be exported as it is, but a copy can
	KindOutOfMemory                 // no memory is left for a copy
)

// failure is the type of all errors of this package. Its message names the wrong field, its value, what was expected
// and a fix.
type failure struct {
	kind    Kind
	message string
}

func (f *failure) Error() string {
	return f.message
}

// KindOf returns the kind of an error. It returns 0 for nil, and for errors that no function below made.
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

// Of returns err with its subject, `what`, before its text. The kind stays. Another package's error is returned
// unchanged.
func Of(what string, err error) error {
	if f, ok := err.(*failure); ok {
		return &failure{f.kind, what + ": " + f.message}
	}
	return err
}

// Quote returns outside text in quotes for an error message: escaped to ASCII, and cut after 60 bytes.
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

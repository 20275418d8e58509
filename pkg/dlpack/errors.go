package dlpack

import "strconv"

// Kind is the class of an [Error]: the exception that it becomes.
type Kind uint8

// The kinds of errors.
const (
	ValueError  Kind = iota // the description contradicts itself
	BufferError             // the memory can't be exported, or not as the consumer asks
	CopyError               // a BufferError that a copy cures
	MemoryError             // no memory for a copy
)

// Error says which field was wrong, its value, what was expected and the way out.
type Error struct {
	Kind    Kind
	Message string
}

func (e *Error) Error() string {
	return e.Message
}

// Quote is text from outside as messages show it: in quotes, escaped to ASCII, and shortened if long.
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

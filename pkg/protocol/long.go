package protocol

// Long is the size in bytes of C's long, the type of the formats "l" and "L": 4 on Windows, 8 elsewhere.
type Long uint8

// letter translates a format for a long of 8 bytes to the format of the same type for a long of this size.
func (long Long) letter(format string) string {
	if long == 8 {
		return format
	}
	switch format {
	case "l":
		return "q"
	case "L":
		return "Q"
	}
	return format
}

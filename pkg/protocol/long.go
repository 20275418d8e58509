package protocol

// Long is the bytes of C's long, which the formats "l" and "L" mean: 4 on Windows, 8 elsewhere.
type Long uint8

// letter translates a format of this long to the format of the same type with a long of 8 bytes.
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

package protocol

// Long is the bytes of C's long, which the formats "l" and "L" mean: 4 on Windows, 8 elsewhere.
type Long uint8

// letter returns the format of the type that `format` is where a long has 8 bytes.
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

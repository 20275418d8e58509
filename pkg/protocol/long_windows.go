package protocol

// C's long has 4 bytes, so a 64-bit integer is a long long.
const (
	longBytes                 = 4
	int64Letter, uint64Letter = "q", "Q"
)

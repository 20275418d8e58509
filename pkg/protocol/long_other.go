//go:build !windows

package protocol

const (
	longBytes                 = 8
	int64Letter, uint64Letter = "l", "L"
)

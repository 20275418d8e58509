package strided

import "testing"

func TestCopyOnAProcessorWithoutSSSE3(t *testing.T) {
	defer func(can bool) { canShuffle = can }(canShuffle)
	canShuffle = false
	TestCopy(t)
}

package strided

import "testing"

func TestCopyOnAProcessorWithoutSSSE3(t *testing.T) {
	defer func(can func() bool) { canShuffle = can }(canShuffle)
	canShuffle = func() bool { return false }
	TestCopy(t)
}

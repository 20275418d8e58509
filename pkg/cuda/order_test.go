package cuda

import (
	"testing"

	"dlpack/pkg/dlpack"
)

// tests/cuda tests what the package does, with a driver in C.

func TestOrderAllocatesNothing(t *testing.T) {
	d := &Driver{silent{}}
	m := Memory{dlpack.Device{Type: dlpack.CUDA}, 64}
	for _, do := range []func() error{
		func() error { return d.order(m, 1, 2) },
		func() error { return d.finish(m, 1) },
		func() error { _, err := d.Locate(64); return err },
	} {
		if n := testing.AllocsPerRun(10, func() {
			if err := do(); err != nil {
				t.Fatal(err)
			}
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}

// silent is a driver that allocates nothing itself.
type silent struct{ api }

func (silent) pointerGetAttributes(uint64) (attributes, error) {
	return attributes{context: 1, memoryType: deviceMemory}, nil
}
func (silent) ctxPushCurrent(context) error                    { return nil }
func (silent) ctxPopCurrent() error                            { return nil }
func (silent) streamIsCapturing(stream) (captureStatus, error) { return notCapturing, nil }
func (silent) streamSynchronize(stream) error                  { return nil }
func (silent) streamWaitEvent(stream, event) error             { return nil }
func (silent) eventCreate() (event, error)                     { return 1, nil }
func (silent) eventRecord(event, stream) error                 { return nil }
func (silent) eventDestroy(event) error                        { return nil }
func (silent) threadExchangeStreamCaptureMode(m captureMode) (captureMode, error) {
	return m, nil
}

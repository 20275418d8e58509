package cuda

import (
	"testing"

	"dlpack/pkg/dlpack"
)

func TestTheDriverOfThisProcessIsNotRunning(t *testing.T) {
	d, err := Running() // there is none, or this process has not initialised it
	if kindOf(t, err, "no-driver: why=") != dlpack.ErrUnsupported || d != nil {
		t.Error(d, err)
	}
}

func TestADriverThatIsNotInitialisedIsNotRunning(t *testing.T) {
	f, d := newFake(t)
	if err := d.running(); err != nil {
		t.Error(err)
	}
	f.failAt, f.result = 2, notInitialized
	err := explainState(d.running())
	words := []string{"driver-not-running", "cuCtxGetCurrent", "CUDA_ERROR_3", "why=call-forked"}
	if kindOf(t, err, words...) != dlpack.ErrUnsupported {
		t.Error(err)
	}
}

package cuda

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"

	"dlpack/pkg/dlpack"
)

// An operation is one of the package's, on a fresh driver.
type operation struct {
	name string
	do   func(t *testing.T) (*fake, func() error)
}

func operations() []operation {
	order := func(owner context, producer, consumer int64) func(*testing.T) (*fake, func() error) {
		return func(t *testing.T) (*fake, func() error) {
			f, d, _, number := scene(t)
			m := f.add(attributes{owner, deviceMemory, false, 1}, 1)
			return f, func() error { return d.order(m, number(producer), number(consumer)) }
		}
	}
	copied := func(owner context, shape, strides ints, swap int, target int32) func(*testing.T) (*fake, func() error) {
		return func(t *testing.T) (*fake, func() error) {
			f, d, _, number := scene(t)
			l := layoutOf(shape, strides, swap)
			source := l.on(f, attributes{owner, deviceMemory, false, 1}, number(handle2))
			if target < 0 {
				dst := make([]byte, l.bytes())
				return f, func() error { return d.ToHost(unsafe.Pointer(&dst[0]), source) }
			}
			return f, func() error { return kept(d.ToDevice(cudaDevice(target), source)) }
		}
	}
	return []operation{
		{"locate", func(t *testing.T) (*fake, func() error) {
			f, d, m, _ := scene(t)
			return f, func() error { _, err := d.Locate(m.Address); return err }
		}},
		{"order two handles", order(primary(1), handleA, handle2)},
		{"order the default streams", order(primary(1), 1, 2)},
		{"order the default streams of a pool's memory", order(0, 1, 2)},
		{"order in one capture", func(t *testing.T) (*fake, func() error) {
			f, d, m, number := scene(t)
			for _, handle := range []int64{handleA, handleB} {
				f.streams[stream(number(handle))].capture = capture{capturing, 5}
			}
			return f, func() error { return d.order(m, number(handleA), number(handleB)) }
		}},
		{"finish", func(t *testing.T) (*fake, func() error) {
			f, d, _, _ := scene(t)
			m := f.add(attributes{0, deviceMemory, false, 1}, 1)
			return f, func() error { return d.finish(m, 1) }
		}},
		{"order after an event", func(t *testing.T) (*fake, func() error) {
			f, d, m, number := scene(t)
			return f, func() error { return d.order(m, theirs(f), number(handleA)) }
		}},
		{"finish by an event", func(t *testing.T) (*fake, func() error) {
			f, d, m, _ := scene(t)
			return f, func() error { return d.finish(m, theirs(f)) }
		}},
		{"copy to the host", copied(primary(1), ints{3, 5}, ints{5, 1}, 0, -1)},
		{"copy rows to the host", copied(0, ints{3, 5}, ints{50, 1}, 0, -1)},
		{"copy reversed rows to the host", copied(0, ints{3, 5}, ints{-5, 1}, 0, -1)},
		{"copy through the host's memory", copied(0, ints{3, 5}, ints{1, 3}, 4, -1)},
		{"copy on the device", copied(other, ints{3, 5}, ints{5, 1}, 0, 1)},
		{"copy on the device of a pool", copied(0, ints{2, 3, 5}, ints{-90, 9, 1}, 0, 1)},
		{"copy to another device", copied(primary(1), ints{3, 5}, ints{5, 1}, 0, 2)},
		{"copy rows to another device", copied(0, ints{3, 5}, ints{50, 1}, 0, 2)},
		{"copy from the host", func(t *testing.T) (*fake, func() error) {
			f, d, _, _ := scene(t)
			src := make([]byte, 9)
			return f, func() error { return kept(d.FromHost(cudaDevice(2), 9, given(src))) }
		}},
	}
}

// kept drops the allocation, which must be empty if there is an error.
func kept(a Allocation, err error) error {
	if err != nil && a != (Allocation{Retained: -1}) {
		panic("an allocation beside an error")
	}
	return err
}

func TestWhateverFailsIsNamedAndLeavesNothing(t *testing.T) {
	for _, operation := range operations() {
		t.Run(operation.name, func(t *testing.T) {
			f, do := operation.do(t)
			if err := do(); err != nil {
				t.Fatal(err)
			}
			calls := f.calls
			for at := 1; at <= calls; at++ {
				for _, r := range []result{1, outOfMemory, notInitialized, 4, 100, invalidContext, invalidHandle, 700,
					contextIsDestroyed, 719, 801, 900, streamCaptureImplicit, 999} {
					f, do := operation.do(t)
					f.failAt, f.result = at, r
					memory := len(f.memory)
					err := do()
					if err == nil {
						t.Fatalf("call %d of %d fails without an error\n%s", at, calls, strings.Join(f.log, "\n"))
					}
					failed := slices.IndexFunc(f.log, func(line string) bool { return strings.HasSuffix(line, " fails") })
					function := strings.TrimSuffix(f.log[failed], " fails")
					expected := dlpack.ErrUnsupported
					words := []string{function, "CUDA_ERROR_" + strconv.Itoa(int(r))}
					switch {
					case r == outOfMemory:
						expected = dlpack.ErrOutOfMemory
					case function == "cuStreamGetCtx" && slices.Contains([]result{201, 400, 709}, r):
						expected = dlpack.ErrMalformed
					case function == "cuStreamIsCapturing" && r == streamCaptureImplicit:
						words = []string{"capturing"}
					case r == notInitialized:
						words = append(words, "why=call-forked")
					}
					if kind := kindOf(t, err, words...); kind != expected {
						t.Errorf("kind %q: %v", kind, err)
					}
					if function == "cuCtxPushCurrent_v2" && slices.Contains(f.log[:failed], "PeerAsync 60") {
						memory++ // nobody can free memory of a context that can't be made current
					}
					f.balanced(4, 0, memory)
				}
			}
		})
	}
}

func TestAFunctionThatTheDriverLacksIsNamed(t *testing.T) {
	optional := []string{"cuStreamIsCapturing", "cuThreadExchangeStreamCaptureMode"}
	for _, operation := range operations() {
		t.Run(operation.name, func(t *testing.T) {
			for _, function := range names {
				f, do := operation.do(t)
				f.lacks = function
				memory := len(f.memory)
				err := do()
				switch {
				case !f.lacked || slices.Contains(optional, function):
					if err != nil {
						t.Errorf("without %s: %v", function, err)
					}
					continue
				case function == "cuStreamGetCaptureInfo_v2":
					if kindOf(t, err, "capturing") != dlpack.ErrUnsupported {
						t.Error(err)
					}
				case kindOf(t, err, "call="+function, "why=call-missing") !=
					dlpack.ErrUnsupported:
					t.Error(err)
				}
				f.balanced(4, 0, memory)
			}
		})
	}
}

package strided

import (
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// MostWorkers is the largest number of goroutines that share a copy. More would only wait for the memory.
const MostWorkers = 16

const (
	workerBytes  = 4 << 20 // a smaller copy is done before another worker wakes up
	pieceBytes   = 2 << 20 // a huge page: two workers that write to the same new page would both clear it
	workerPieces = 8       // lower bound of a large copy's pieces for each worker: a slow worker does fewer than others
)

// A job is a copy in pieces, which several workers share.
type job struct {
	copyPiece func(int)
	pieces    int64
	next      atomic.Int64 // the first piece that no worker has begun
	done      sync.WaitGroup
	cause     atomic.Pointer[any] // the first panic's value
}

// A cut is a copy by strides, cut into pieces.
type cut struct {
	copier
	dst, src unsafe.Pointer
	steps    []int // a piece's steps along each dimension
}

// workers returns the number of goroutines for a copy of `bytes` bytes. A tiled copy takes several times as long, so it
// counts as a larger one.
func (c *copier) workers(bytes int) int {
	if c.tiled {
		bytes *= 4
	}
	if bytes <= 2*workerBytes {
		return 1
	}
	return min(cpus(), bytes/workerBytes)
}

// helpers counts the goroutines that help callers now. Each occupies a thread, even while it waits for a processor.
// There are always fewer helpers than processors (GOMAXPROCS), and the core has started threads for all processors: the
// runtime ends the process if it needs another thread and can't start it.
var helpers atomic.Int64

// share copies in pieces of `bytes` bytes with at most `workers` workers.
func (c *copier) share(dst, src unsafe.Pointer, workers, bytes int) {
	cut := &cut{copier: copier{slices.Clone(c.dims), c.size, c.run, c.swapped, c.tiled}, dst: dst, src: src}
	share(cut.plan(bytes), workers, cut.copyPiece)
}

// share calls copyPiece for each piece, with at most `workers` workers. One of them is the caller's goroutine.
func share(pieces int64, workers int, copyPiece func(int)) {
	j := &job{copyPiece: copyPiece, pieces: pieces}
	for range workers - 1 {
		if helpers.Add(1) >= int64(runtime.GOMAXPROCS(0)) {
			helpers.Add(-1)
			break
		}
		j.done.Add(1)
		go func() {
			defer helpers.Add(-1)
			defer j.done.Done()
			j.work()
		}()
	}
	j.work()
	j.done.Wait()
	if cause := j.cause.Load(); cause != nil {
		panic(*cause)
	}
}

// plan plans pieces of at most `bytes` bytes, and returns their number. Pieces cut no tile. In a copy without tiles, a
// piece is contiguous if the destination is.
func (c *cut) plan(bytes int) (pieces int64) {
	rows := 1
	if c.tiled {
		rows = c.tileRows()
	}
	pieces = 1
	size := c.size * rows
	for k, d := range c.dims {
		step := max(1, min(d.N, bytes/size))
		switch {
		case k == 0:
			size = c.size
		case k == 1 && step < d.N:
			step = max(rows, step-step%rows)
		}
		size *= step
		c.steps = append(c.steps, step)
		pieces *= int64((d.N + step - 1) / step)
	}
	return pieces
}

// work copies pieces until none is left. A panic ends the work of all workers.
func (j *job) work() {
	defer func() {
		if cause := recover(); cause != nil {
			j.cause.CompareAndSwap(nil, &cause)
			j.next.Store(j.pieces)
		}
	}()
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	for i := j.next.Add(1) - 1; i < j.pieces; i = j.next.Add(1) - 1 {
		j.copyPiece(int(i))
	}
}

func (cut *cut) copyPiece(i int) {
	var memory [maxDims]dim
	c, dst, src := cut.copier, cut.dst, cut.src
	c.dims = append(memory[:0], cut.dims...)
	for k, step := range cut.steps {
		d := &c.dims[k]
		count := (d.N + step - 1) / step
		at := i % count * step
		i /= count
		dst, src = unsafe.Add(dst, at*d.Dst), unsafe.Add(src, at*d.Src)
		d.N = min(step, d.N-at)
	}
	c.copy(dst, src)
}

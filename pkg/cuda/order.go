package cuda

import (
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/foreign"
)

// Order makes the consumer's stream wait for the work on the producer's stream, and returns at once. It does nothing
// and needs no driver if the memory isn't CUDA's, if the producer's stream is unknown, if both streams are the same, or
// if the consumer asks for no order (dlpack.NoOrder).
func Order(memory Memory, producer, consumer int64) error {
	if !memory.Device.Type.OfCUDA() || producer == dlpack.UnknownStream || producer == consumer ||
		consumer == dlpack.NoOrder {
		return nil
	}
	d, err := Running()
	if err != nil {
		return err
	}
	return d.order(memory, producer, consumer)
}

func (d *Driver) order(memory Memory, producer, consumer int64) error {
	if dlpack.EventOf(producer) != 0 {
		return explain(d.onStream("consumer", consumer, memory, func(to queue) error {
			return d.wait(to, memory, producer)
		}), dlpack.EventNotAwaited)
	}
	err := d.onStream("producer", producer, memory, func(from queue) error {
		return d.onStream("consumer", consumer, memory, func(to queue) error {
			return d.orderQueues(from, to)
		})
	})
	if err != nil {
		err = explain(err, dlpack.NotOrdered, dlpack.Number("consumer", consumer), dlpack.Number("producer", producer))
	}
	return err
}

// Finish waits for the work on the producer's stream of CUDA's memory, or for its event. Without a driver, nothing can
// be queued, so it returns nil. If the driver isn't initialised, it returns nil for the legacy stream, which DLPack
// implies if nobody names one. Any other stream was named by someone, perhaps before a fork: that is an error.
func Finish(memory Memory, producer int64) error {
	if !memory.Device.Type.OfCUDA() || producer == dlpack.UnknownStream {
		return nil
	}
	d, err := open()
	if err != nil {
		return nil
	}
	switch err := d.running(); {
	case resultOf(err) == notInitialized && producer == dlpack.LegacyStream:
		return nil
	case err != nil:
		return explainState(err)
	}
	return d.finish(memory, producer)
}

func (d *Driver) finish(memory Memory, producer int64) error {
	if dlpack.EventOf(producer) != 0 {
		return explain(d.inRelaxedMode(func() error {
			return d.copyFrom(&Source{Memory: memory, Stream: producer}, func(queue) error { return nil })
		}), dlpack.EventNotAwaited)
	}
	err := d.inRelaxedMode(func() error {
		return d.onStream("producer", producer, memory, func(q queue) error {
			if c, err := d.captureOf(q); err != nil || c.status != notCapturing {
				return first(err, captured(q))
			}
			return d.within(q.context, func() error { return d.streamSynchronize(q.stream) })
		})
	})
	if err != nil {
		err = explain(err, dlpack.NotFinished, dlpack.Number("producer", producer))
	}
	return err
}

// A queue is a stream and its context.
type queue struct {
	whose   string
	stream  stream
	context context
}

// values returns what Python needs to name the stream.
func (q queue) values() []dlpack.Value {
	return []dlpack.Value{dlpack.Text("whose", q.whose), dlpack.Number("stream", int64(q.stream))}
}

// onStream calls f with the stream of this number. A handle has its own context. The default streams belong to the
// context of m.
func (d *Driver) onStream(whose string, number int64, m Memory, f func(queue) error) (err error) {
	q := queue{whose: whose, stream: stream(number)}
	if number > dlpack.PerThreadStream || number < 0 {
		if q.context, err = d.contextOf(q); err != nil {
			return err
		}
		return f(q)
	}
	h, err := d.homeOf(m)
	if err != nil {
		return err
	}
	defer func() { err = first(err, d.leave(h.retained)) }()
	q.context = h.context
	return f(q)
}

// contextOf returns the context of a stream that is a handle.
func (d *Driver) contextOf(q queue) (context, error) {
	why := []dlpack.Value{dlpack.Worded("why", dlpack.UnreadableHandle)}
	if Readable(uint64(q.stream), 1) {
		c, err := d.streamGetCtx(q.stream)
		switch resultOf(err) {
		case invalidHandle, invalidContext, contextIsDestroyed:
			why = err.(*failure).why()
		default:
			return c, err
		}
	}
	return 0, dlpack.Malformed(dlpack.NoHandle, append(q.values(), why...)...)
}

// Readable reports whether host memory can be read, by reading a byte of each page. A fault in Go becomes a panic; a
// fault in the driver would end the process.
func Readable(address uint64, bytes int64) bool {
	return touches(address, bytes, peek)
}

func touches(address uint64, bytes int64, touch func(unsafe.Pointer) byte) bool {
	const page = 4096 // bytes; Linux's smallest page
	if bytes <= 0 {
		return true
	}
	_, faulted := foreign.Touch(func() {
		first := foreign.At(address, uint64(bytes))
		for i := int64(0); i < bytes; i += page {
			touch(unsafe.Add(first, i))
		}
		touch(unsafe.Add(first, bytes-1))
	})
	return !faulted
}

//go:noinline
func peek(p unsafe.Pointer) byte {
	return *(*byte)(p)
}

// orderQueues makes the stream `to` wait for the work on `from`. If one of them is in the capture of a graph, the other
// must be in the same capture. Otherwise the order would break the capture, or hold only when the graph runs.
func (d *Driver) orderQueues(from, to queue) error {
	before, err := d.captureOf(from)
	if err != nil {
		return err
	}
	after, err := d.captureOf(to)
	if err != nil {
		return err
	}
	if before != after {
		if before.status == notCapturing {
			return captured(to)
		}
		return captured(from)
	}
	return d.within(from.context, func() (err error) {
		e, err := d.eventCreate()
		if err != nil {
			return err
		}
		defer func() { err = first(err, d.eventDestroy(e)) }()
		if err := d.eventRecord(e, from.stream); err != nil {
			return err
		}
		return d.within(to.context, func() error { return d.streamWaitEvent(to.stream, e) })
	})
}

// waitForEvent makes a stream wait for another library's event. It refuses a stream in the capture of a graph, which the
// wait would break.
func (d *Driver) waitForEvent(to queue, handle uint64) error {
	if !Readable(handle, 1) {
		return dlpack.Malformed(dlpack.EventUnreadable, dlpack.Address("address", handle))
	}
	if c, err := d.captureOf(to); err != nil || c.status != notCapturing {
		return first(err, captured(to))
	}
	return d.within(to.context, func() error { return d.streamWaitEvent(to.stream, event(handle)) })
}

// captureOf returns the capture that a stream is in. Asking breaks no capture.
func (d *Driver) captureOf(q queue) (c capture, err error) {
	err = d.within(q.context, func() error {
		status, err := d.streamIsCapturing(q.stream)
		switch {
		case resultOf(err) == missing: // the driver can't capture
			return nil
		case resultOf(err) == streamCaptureImplicit:
			return captured(q)
		case err != nil || status == notCapturing:
			return err
		case status != capturing:
			return captured(q)
		}
		c, err = d.streamGetCaptureInfo(q.stream)
		if resultOf(err) == missing {
			return captured(q)
		}
		return err
	})
	return c, err
}

func captured(q queue) error {
	return dlpack.Unsupported(dlpack.Capturing, q.values()...).Cured(dlpack.BesideCapture)
}

// inRelaxedMode calls f in the relaxed capture mode: the driver refuses no call because a graph is being captured
// elsewhere, and no call breaks that capture.
func (d *Driver) inRelaxedMode(f func() error) (err error) {
	mode, err := d.threadExchangeStreamCaptureMode(relaxed)
	if resultOf(err) == missing { // the driver can't capture
		return f()
	}
	if err != nil {
		return err
	}
	defer func() {
		_, later := d.threadExchangeStreamCaptureMode(mode)
		err = first(err, later)
	}()
	return f()
}

// The Go core as a C shared library. Its only entry point, dlpack_core, fills struct core.
//
// It knows C but not Python: it reads a C.struct_request and fills a C.struct_answer. The settings of Go's runtime are
// in build.py.
package main

/*
#cgo CFLAGS: -I${SRCDIR}/../../python/dlpack/include
#include "core.h"

extern void dlpackDescribe(struct request *, struct answer *);
extern void dlpackGrow(int32_t);
*/
import "C"

import (
	"errors"
	"runtime"
	"strings"
	"unsafe"

	"dlpack/pkg/dlpack"
	"dlpack/pkg/handover"
	"dlpack/pkg/stack"
	"dlpack/pkg/strided"
)

var version string // the package's version, which build.py sets

// dlpack_core fills core.version, and the functions of core if the extension has the same version. No panic leaves it:
// after one, core.describe stays unset.
//
//export dlpack_core
func dlpack_core(core *C.struct_core) {
	defer func() { recover() }()
	expected := C.GoString(&core.version[0])
	setText(core.version[:], version)
	if expected != version {
		return
	}
	stack.Reserve()
	startRuntime(C.FIRST_CPUS)
	core.describe = (*[0]byte)(C.dlpackDescribe)
	core.grow = (*[0]byte)(C.dlpackGrow)
	core.most_processors = C.int32_t(min(runtime.NumCPU(), C.MOST_CPUS) + C.SPARE_CPUS)
}

// dlpackGrow gives Go the processors that large copies use. The extension prevents forks during the call.
//
//export dlpackGrow
func dlpackGrow(processors C.int32_t) {
	defer func() { recover() }()
	stack.Reserve() // this may be the thread's first call
	strided.ReadGrants()
	useProcessors(int(processors))
}

// dlpackDescribe answers the request. No panic leaves it: a panic becomes an error.
//
//export dlpackDescribe
func dlpackDescribe(request *C.struct_request, answer *C.struct_answer) {
	defer func() {
		if cause := recover(); cause != nil {
			refuse(answer, panicked(cause))
		}
	}()
	stack.Reserve() // C's signal handlers run on this stack, from a thread's second call on
	answer.status = C.STATUS_OK
	if request.plan != nil {
		if !move(request.plan) {
			answer.status = C.STATUS_BUFFER_ERROR // without a message: C then makes a full request
		}
		return
	}
	if err := describe(request, answer); err != nil {
		refuse(answer, err)
	}
}

func describe(request *C.struct_request, answer *C.struct_answer) error {
	if request.into != nil {
		return copyInto(request, answer)
	}
	var description dlpack.Description
	var tensor dlpack.Tensor
	var terms handover.Terms
	if err := read(request, &description, answer); err != nil {
		return err
	}
	if err := readTerms(request, &terms); err != nil {
		return err
	}
	if answer.memory != nil {
		terms.MustCopy = false // the joined chunks are a copy already
	}
	stream, err := handover.Prepare(&description, &tensor, &terms, answerMemory{answer})
	if err != nil {
		return err
	}
	dropJoined(answer)
	write(uint64(request.data), &description, &tensor, stream, answer)
	return nil
}

// move makes a copy that C has described with the table of pkg/table. It returns false if the memory is not as
// described.
func move(plan *C.struct_copy_plan) bool {
	var m handover.Move
	readSide(&m.Source, &plan.source, plan.ndim)
	readSide(&m.Target, &plan.target, plan.ndim)
	m.Shape = unsafe.Slice((*int64)(plan.shape), plan.ndim)
	m.ItemSize, m.Swap = int(plan.itemsize), int(plan.swap)
	return m.Do()
}

func readSide(to *handover.Side, side *C.struct_side, ndim C.int32_t) {
	to.First, to.Below, to.Above = uint64(side.first), uint64(side.below), uint64(side.above)
	if side.strides != nil {
		to.Strides = unsafe.Slice((*int64)(side.strides), ndim)
	}
}

// copyInto copies the memory of the request into the memory of request.into.
func copyInto(request *C.struct_request, answer *C.struct_answer) error {
	var source, target handover.Place
	if err := read(request, &source.Description, answer); err != nil {
		return dlpack.AddSubject(dlpack.OfSource, err)
	}
	if err := read(request.into, &target.Description, answer); err != nil {
		return handover.RefuseTarget(err)
	}
	var err error
	if source.Producer, err = producerOf(request); err != nil {
		return dlpack.AddSubject(dlpack.OfSource, err)
	}
	target.Producer = int64(request.into.producer_stream) // Arrow's memory, which is read-only, is not a target
	return handover.CopyInto(&source, &target, answerMemory{answer})
}

// panicked turns a recovered panic into an error.
func panicked(cause any) error {
	text := "unknown cause"
	switch cause := cause.(type) {
	case error:
		text = cause.Error()
	case string:
		text = cause
	}
	return errors.New(text)
}

// refuse writes an error into the answer, with the status of the Python exception that it becomes. If a copy already
// has memory, the caller frees it. An error other than a refusal is a bug of the core.
func refuse(answer *C.struct_answer, err error) {
	answer.status = C.STATUS_RUNTIME_ERROR
	r, ok := err.(*dlpack.Refusal)
	if !ok {
		r = &dlpack.Refusal{Saying: dlpack.Bug, Values: []dlpack.Value{dlpack.Text("text", err.Error())}}
	}
	switch r.Kind {
	case dlpack.ErrMalformed:
		answer.status = C.STATUS_VALUE_ERROR
	case dlpack.ErrUnsupported, dlpack.ErrNeedsCopy:
		answer.status = C.STATUS_BUFFER_ERROR
	case dlpack.ErrOutOfMemory:
		answer.status = C.STATUS_MEMORY_ERROR
	}
	var memory [C.MESSAGE_SIZE]byte
	message := appendMessage(memory[:0], r, len(memory))
	for most := len(memory) / 2; len(message) >= len(memory); most /= 2 {
		message = appendMessage(memory[:0], r, most)
	}
	setText(answer.message[:], unsafe.String(&message[0], len(message)))
}

// The separators of a message, which are in no value: of its keys (US), and before each value (RS).
const (
	betweenKeys = 0x1f
	beforeValue = 0x1e
)

// appendMessage appends a refusal in the form that core.h describes. It cuts values after `most` bytes.
func appendMessage(to []byte, r *dlpack.Refusal, most int) []byte {
	for _, key := range [...]string{string(r.Subject), string(r.Saying), string(r.Cure)} {
		to = append(append(to, key...), betweenKeys)
	}
	all := [...][]dlpack.Value{r.Values, r.With}
	for i, values := range all {
		if i > 0 && len(values) > 0 {
			to = append(to, '/')
		}
		for _, v := range values {
			to = append(to, byte(v.Form))
		}
	}
	before := byte(betweenKeys)
	for _, values := range all {
		for _, v := range values {
			to = append(append(to, before), v.Name...)
			before = ' '
		}
	}
	for _, values := range all {
		for _, v := range values {
			to = appendText(append(to, beforeValue), v.Text, most)
		}
	}
	return to
}

func appendText(to []byte, text string, most int) []byte {
	dots := ""
	if len(text) > most {
		text, dots = strings.ToValidUTF8(text[:most], ""), "..."
	}
	for i := range len(text) {
		if text[i] == 0 || text[i] == betweenKeys || text[i] == beforeValue {
			to = append(to, ' ')
		} else {
			to = append(to, text[i])
		}
	}
	return append(to, dots...)
}

// setText writes text and a NUL. It cuts text that doesn't fit, but never within a character.
func setText(to []C.char, text string) {
	n := min(len(text), len(to)-1)
	for n < len(text) && n > 0 && text[n]&0xC0 == 0x80 {
		n--
	}
	for i := range n {
		to[i] = C.char(text[i])
	}
	to[n] = 0
}

func main() {}

package main

import (
	"errors"
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

// Types of C can't be named in a test, but inferred.
func arguments[Request, Answer any](func(*Request, *Answer)) (*Request, *Answer) {
	return nil, new(Answer)
}

func TestAPanicBecomesARuntimeErrorThatSaysWhatItWas(t *testing.T) {
	request, answer := arguments(dlpackDescribe) // no request: a nil dereference
	dlpackDescribe(request, answer)
	if answer.status != 4 {
		t.Errorf("status is %d; want 4, STATUS_RUNTIME_ERROR", answer.status)
	}
	var message strings.Builder
	for _, letter := range answer.message {
		if letter == 0 {
			break
		}
		message.WriteByte(byte(letter))
	}
	for _, want := range []string{"bug in dlpack", "please report", "nil pointer"} {
		if !strings.Contains(message.String(), want) {
			t.Errorf("message is %q; want it to contain %q", message.String(), want)
		}
	}
}

type fault struct{ error }

func (fault) Addr() uintptr { return 0x1000 }

func TestAFaultOfTheCopiedMemoryIsNoBug(t *testing.T) {
	var refused *dlpack.Error
	if err := panicked(fault{errors.New("")}); !errors.As(err, &refused) || refused.Kind != dlpack.BufferError ||
		!strings.Contains(refused.Message, "0x1000") {
		t.Errorf("got %v; want a BufferError that names 0x1000", err)
	}
}

func TestAPanicOfAnyTypeHasAText(t *testing.T) {
	for _, cause := range []any{errors.New("text"), "text", 5} {
		if text := panicked(cause).Error(); !strings.HasPrefix(text, "bug in dlpack's core") {
			t.Errorf("panic(%v) gives %q", cause, text)
		}
	}
}

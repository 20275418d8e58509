package main

import (
	"errors"
	"strings"
	"testing"
)

// Types of C can't be named in a test, but inferred.
func arguments[Request, Answer any](func(*Request, *Answer)) (*Request, *Answer) {
	return new(Request), new(Answer)
}

// text is what C's letters say up to a NUL.
func text[Letter ~int8 | ~uint8](letters []Letter) string {
	var text strings.Builder
	for _, letter := range letters {
		if letter == 0 {
			break
		}
		text.WriteByte(byte(letter))
	}
	return text.String()
}

func TestAPanicBecomesARuntimeErrorThatSaysWhatItWas(t *testing.T) {
	_, answer := arguments(dlpackDescribe)
	dlpackDescribe(nil, answer) // a nil dereference
	if answer.status != 4 {
		t.Errorf("status is %d; want 4, STATUS_RUNTIME_ERROR", answer.status)
	}
	message := text(answer.message[:])
	for _, want := range []string{"bug in dlpack", "please report", "nil pointer"} {
		if !strings.Contains(message, want) {
			t.Errorf("message is %q; want it to contain %q", message, want)
		}
	}
}

func TestARequestOfAnUnknownProtocolIsABug(t *testing.T) {
	request, answer := arguments(dlpackDescribe)
	request.protocol = 255
	dlpackDescribe(request, answer)
	want := "bug in dlpack's core, please report it: request of an unknown protocol: 255"
	if message := text(answer.message[:]); answer.status != 4 || message != want {
		t.Errorf("status %d, %q; want 4, STATUS_RUNTIME_ERROR, %q", answer.status, message, want)
	}
}

// describeBytes returns a function that describes three bytes by the buffer protocol.
func describeBytes(t testing.TB) func() {
	request, answer := arguments(dlpackDescribe)
	request.protocol = 5 // PROTOCOL_BUFFER
	request.device.device_type = 1
	request.ndim, request.dims[0] = 1, 3
	request.format[0], request.format_length, request.itemsize = 'B', 1, 1
	request.data = 1 << 20
	dlpackDescribe(request, answer)
	if answer.status != 0 || answer.ndim != 1 || answer.dims[0] != 3 {
		t.Fatalf("status %d, ndim %d, shape %d", answer.status, answer.ndim, answer.dims[0])
	}
	return func() { dlpackDescribe(request, answer) }
}

func TestAGoodRequestAllocatesNothing(t *testing.T) {
	if allocations := testing.AllocsPerRun(100, describeBytes(t)); allocations != 0 {
		t.Errorf("%v allocations; want 0", allocations)
	}
}

func BenchmarkDescribe(b *testing.B) {
	describe := describeBytes(b)
	b.ReportAllocs()
	for b.Loop() {
		describe()
	}
}

func TestAPanicOfAnyTypeHasAText(t *testing.T) {
	for _, cause := range []any{errors.New("text"), "text", 5} {
		if text := panicked(cause).Error(); !strings.HasPrefix(text, "bug in dlpack's core") {
			t.Errorf("panic(%v) gives %q", cause, text)
		}
	}
}

func TestALongTextIsCutBetweenCharacters(t *testing.T) {
	_, answer := arguments(dlpackDescribe)
	to := answer.names.typestr[:] // 8 letters, one of them the NUL
	for whole, want := range map[string]string{
		"1234567":      "1234567",
		"12345678":     "1234567",
		"123456\u00e9": "123456",
		"12345\u20ac":  "12345",
		"1234\u20ac":   "1234\u20ac",
		"1234\u20ac5":  "1234\u20ac",
		"\u20ac":       "\u20ac",
	} {
		setText(to, whole)
		if got := text(to); got != want {
			t.Errorf("%q: %q; want %q", whole, got, want)
		}
	}
}

package main

import (
	"errors"
	"strings"
	"testing"

	"dlpack/pkg/dlpack"
)

// Types of C can't be named in a test, but inferred.
func arguments[Request, Answer any](func(*Request, *Answer)) (*Request, *Answer) {
	return new(Request), new(Answer)
}

// said is an answer's message, in which "|" separates the texts.
func said[Letter ~int8 | ~uint8](message []Letter) string {
	return strings.NewReplacer("\x1f", "|", "\x1e", "|").Replace(text(message))
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
	if message := said(answer.message[:]); !strings.HasPrefix(message, "|bug||'|text|") ||
		!strings.Contains(message, "nil pointer") {
		t.Errorf("message is %q", message)
	}
}

func TestARequestOfAnUnknownProtocolIsABug(t *testing.T) {
	request, answer := arguments(dlpackDescribe)
	request.protocol = 255
	dlpackDescribe(request, answer)
	want := "|bug||'|text|request of an unknown protocol: 255"
	if message := said(answer.message[:]); answer.status != 4 || message != want {
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
	for cause, want := range map[any]string{errors.New("an error"): "an error", "a text": "a text", 5: "unknown cause"} {
		if text := panicked(cause).Error(); text != want {
			t.Errorf("panic(%v) gives %q", cause, text)
		}
	}
}

func TestAMessageFitsWhateverItsValues(t *testing.T) {
	long := strings.Repeat("\u00e9", 999)
	r := dlpack.Unsupported(dlpack.ScatteredOnDevice, dlpack.Text("strides", long), dlpack.Text("device", "a\x00b\x1f\x1ec"),
		dlpack.Number("most", 7)).Cured(dlpack.Nearest, dlpack.Text("names", long))
	_, answer := arguments(dlpackDescribe)
	refuse(answer, r)
	cut := long[:256] + "..."
	want := "|scattered-on-device|nearest|''#/'|strides device most names|" + cut + "|a b  c|7|" + cut
	if got := said(answer.message[:]); got != want {
		t.Errorf("%q; want %q", got, want)
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

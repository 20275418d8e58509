/* buffer.c: reads the buffer protocol (PEP 3118).
 *
 * It is C because a Py_buffer is a C structure, and its release must work without Go. */
#include "read/read.h"

static int get_buffer(PyObject *exporter, Py_buffer *view, int flags)
{
    if (PyObject_GetBuffer(exporter, view, flags) < 0) {
        if (PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_IndexError)) {
            check_in_python(python.buffer_error, Py_BuildValue("(ON)", exporter, take_exception()));
        }
        return -1;
    }
    Py_ssize_t length = view->len;
    if (length < 0) {
        PyBuffer_Release(view); /* before the exception: the exporter is foreign code */
        return check_in_python(python.refuse_in_words, Py_BuildValue("(sn)", "negative-length", length));
    }
    bool too_deep = view->ndim > MAX_NDIM, has_shape = view->ndim >= 0 && view->shape != NULL;
    if (flags == PyBUF_STRIDES && (too_deep || (has_shape && !PyBuffer_IsContiguous(view, 'C')))) {
        PyBuffer_Release(view);
        return check_in_python(python.refuse_in_words, Py_BuildValue("(s)", "not-contiguous"));
    }
    return 0;
}

/* Lets the hold own the exporter's buffer, locked, and returns a view to read: the hold's, or the scratch. NULL: error.
 *
 * A memoryview in a garbage cycle is cleared even if it is exported, and releasing the export after that crashes
 * (CPython's memory_clear). So for a memoryview, the hold owns a private one, which also locks the memory, and no
 * export. */
static const Py_buffer *hold_view(struct reading *reading, PyObject *exporter, Py_buffer *scratch, int flags)
{
    struct hold *hold = reading->hold;
    Py_buffer *view = scratch;
    if (PyMemoryView_Check(exporter)) {
        PyObject *own = PyMemoryView_FromObject(exporter);
        if (own == NULL || get_buffer(own, view, flags) < 0) {
            Py_XDECREF(own);
            return NULL;
        }
        PyBuffer_Release(view);
        hold->object = own;
        hold->holding = HOLDS_OBJECT;
    }
    else {
        view = &hold->view;
        if (get_buffer(exporter, view, flags) < 0) {
            return NULL;
        }
        hold->holding = HOLDS_VIEW;
    }
    reading->readonly = reading->readonly || view->readonly;
    return view;
}

int read_bytes(struct reading *reading, PyObject *exporter)
{
    Py_buffer scratch;
    /* Some exporters, such as mlx, return strided memory for PyBUF_SIMPLE. */
    const Py_buffer *view = hold_view(reading, exporter, &scratch, PyBUF_STRIDES);
    if (view == NULL) {
        return -1;
    }
    reading->request.data = (uint64_t)(uintptr_t)view->buf;
    reading->request.span = view->len;
    reading->request.facts |= FACT_SPAN;
    return 0;
}

int try_bytes(struct reading *reading, PyObject *exporter)
{
    if (read_bytes(reading, exporter) == 0) {
        return 1;
    }
    if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_ValueError)) {
        return -1;
    }
    PyErr_Clear();
    return 0;
}

/* Refuses a len too small for the shape, since consumers read by the shape. Go refuses an overflow. -1: error. */
static int check_length(const Py_buffer *view)
{
    Py_ssize_t bytes = view->itemsize;
    if (view->ndim > MAX_NDIM) {
        return 0; /* Go refuses it without its shape, which may be absent */
    }
    for (int i = 0; i < view->ndim && view->shape != NULL; i++) {
        if (__builtin_mul_overflow(bytes, view->shape[i], &bytes)) {
            return 0;
        }
    }
    if (bytes <= view->len) {
        return 0;
    }
    return check_in_python(python.refuse_in_words, Py_BuildValue("(snn)", "short-length", view->len, bytes));
}

int check_mask(PyObject *obj)
{
    PyObject *method;
    if (PyType_HasFeature(Py_TYPE(obj), Py_TPFLAGS_IMMUTABLETYPE) || !PyObject_CheckBuffer(obj)) {
        return 0;
    }
    int found = optional_attribute(obj, names.harden_mask, &method); /* only masked arrays have it; many have "mask" */
    if (found <= 0) {
        return found;
    }
    Py_DECREF(method);
    return check_in_python(python.refuse_mask, PyTuple_Pack(1, obj));
}

int read_buffer(struct reading *reading, PyObject *Py_UNUSED(ignored))
{
    return PyObject_CheckBuffer(reading->obj) ? lock_buffer(reading) : 0;
}

HOT int lock_buffer(struct reading *reading)
{
    return lock_exporter(reading, reading->obj);
}

HOT int lock_exporter(struct reading *reading, PyObject *exporter)
{
    Py_buffer scratch;
    struct request *request = &reading->request;
    reading->protocol = "buffer";
    const Py_buffer *view = hold_view(reading, exporter, &scratch, PyBUF_FULL_RO);
    if (view == NULL || check_length(view) < 0) {
        return -1;
    }
    request_init(request, PROTOCOL_BUFFER);
    request->data = (uint64_t)(uintptr_t)view->buf;
    request->owned = PyBytes_CheckExact(exporter) || PyByteArray_CheckExact(exporter);
    request->itemsize = view->itemsize;
    request->ndim = view->ndim;
    request_dims(request, view->shape, view->strides, view->itemsize);
    request_format(request, view->format == NULL ? "B" : view->format);
    for (int i = 0; view->ndim <= MAX_NDIM && i < view->ndim && view->suboffsets != NULL; i++) {
        if (view->suboffsets[i] >= 0) {
            request->facts |= FACT_INDIRECT;
        }
    }
    return 1;
}

/* export_buffer.c: gives a DLPackObject's memory by the buffer protocol (PEP 3118).
 *
 * It is C because a Py_buffer is a C structure, and its release must work without Go. */
#include "out/out.h"

#include <stdlib.h>

static bool asks_for(int flags, int what)
{
    return (flags & what) == what;
}

/* Whether a buffer can say the memory as the flags ask. */
static int check_flags(const DLPackObject *self, int flags)
{
    if (asks_for(flags, PyBUF_WRITABLE) && self->flags & DLPACK_FLAG_BITMASK_READ_ONLY) {
        return object_refuse(self, "read-only");
    }
    if (asks_for(flags, PyBUF_ND) && object_is_packed(self)) {
        return object_refuse(self, "packed");
    }
    if (asks_for(flags, PyBUF_ND | PyBUF_FORMAT) && self->names.format[0] == '\0') {
        return object_refuse(self, "no format");
    }
    bool row_major = object_is_compact(self, 'C'), column_major = object_is_compact(self, 'F');
    if (!row_major && (!asks_for(flags, PyBUF_STRIDES) || asks_for(flags, PyBUF_C_CONTIGUOUS) ||
                       (!column_major && asks_for(flags, PyBUF_ANY_CONTIGUOUS)))) {
        return object_refuse(self, "not row-major");
    }
    if (!column_major && asks_for(flags, PyBUF_F_CONTIGUOUS)) {
        return object_refuse(self, "not column-major");
    }
    return 0;
}

/* The strides in bytes: view->internal where they are in no other place. NULL: error. */
static Py_ssize_t *byte_strides(DLPackObject *self, Py_buffer *view)
{
    if (self->itemsize == 1) {
        return self->tensor.strides;
    }
    Py_ssize_t *strides = malloc((size_t)view->ndim * sizeof *strides);
    if (strides == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (int i = 0; i < view->ndim; i++) {
        strides[i] = self->tensor.strides[i] * self->itemsize;
    }
    view->internal = strides;
    return strides;
}

static int fill_view(DLPackObject *self, Py_buffer *view, int flags)
{
    bool readonly = self->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
    if (!asks_for(flags, PyBUF_ND)) {
        return PyBuffer_FillInfo(view, (PyObject *)self, object_address(self), object_nbytes(self), readonly, flags);
    }
    *view = (Py_buffer){
        .buf = object_address(self),
        .len = object_nbytes(self),
        .itemsize = self->itemsize,
        .readonly = readonly,
        .ndim = self->tensor.ndim,
        .format = asks_for(flags, PyBUF_FORMAT) ? self->names.format : NULL,
    };
    if (view->ndim > 0) {
        view->shape = self->tensor.shape;
        if (asks_for(flags, PyBUF_STRIDES) && (view->strides = byte_strides(self, view)) == NULL) {
            return -1;
        }
    }
    view->obj = Py_NewRef((PyObject *)self);
    return 0;
}

/* The buffer is one of the object with the tensor, which a delegate is not: it locks what has the memory. */
int object_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    view->obj = NULL;
    DLPackObject *holder = cpu_tensor_of((DLPackObject *)self);
    return holder == NULL || check_flags(holder, flags) < 0 ? -1 : fill_view(holder, view, flags);
}

void object_release_buffer(PyObject *Py_UNUSED(self), Py_buffer *view)
{
    free(view->internal);
}

/* bytes(x) would ask for a buffer with a format, which not every data type has. */
PyObject *object_bytes(PyObject *self, PyObject *Py_UNUSED(ignored))
{
    DLPackObject *holder = cpu_tensor_of((DLPackObject *)self);
    Py_buffer view;
    if (holder == NULL ||
        PyObject_GetBuffer((PyObject *)holder, &view, object_is_packed(holder) ? PyBUF_SIMPLE : PyBUF_STRIDED_RO) < 0) {
        return NULL;
    }
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, view.len);
    if (bytes != NULL && PyBuffer_ToContiguous(PyBytes_AsString(bytes), &view, view.len, 'C') < 0) {
        Py_CLEAR(bytes);
    }
    PyBuffer_Release(&view);
    return bytes;
}

/* export_buffer.c: exports a DLPackObject's memory by the buffer protocol (PEP 3118).
 *
 * It is C because a Py_buffer is a C structure. */
#include "give/give.h"

static bool asks_for(int flags, int what)
{
    return (flags & what) == what;
}

/* Returns the refusal's name if a buffer can't describe the memory as the flags ask. NULL: it can. */
static const char *refusal_of(const struct memory *self, int flags)
{
    bool row_major = object_is_compact(self, 'C'), column_major = object_is_compact(self, 'F');
    if (asks_for(flags, PyBUF_WRITABLE) && self->flags & DLPACK_FLAG_BITMASK_READ_ONLY) {
        return "read-only";
    }
    if (asks_for(flags, PyBUF_ND) && object_is_packed(self)) {
        return "packed-for-buffer";
    }
    if (asks_for(flags, PyBUF_ND | PyBUF_FORMAT) && self->names.format[0] == '\0') {
        return "no-format";
    }
    if (!row_major && (!asks_for(flags, PyBUF_STRIDES) || asks_for(flags, PyBUF_C_CONTIGUOUS) ||
                       (!column_major && asks_for(flags, PyBUF_ANY_CONTIGUOUS)))) {
        return "not-row-major";
    }
    return !column_major && asks_for(flags, PyBUF_F_CONTIGUOUS) ? "not-column-major" : NULL;
}

/* Exports the object with the tensor, not the delegate: the buffer has to keep the memory alive and locked. */
int object_get_buffer(PyObject *self, Py_buffer *view, int flags)
{
    view->obj = NULL;
    struct memory *holder = cpu_tensor_of((DLPackObject *)self);
    const char *refusal = holder == NULL ? NULL : refusal_of(holder, flags);
    if (holder == NULL || refusal != NULL) {
        return holder == NULL ? -1 : object_refuse(holder, refusal);
    }
    bool has_shape = asks_for(flags, PyBUF_ND);
    int ndim = holder->tensor.ndim;
    *view = (Py_buffer){
        .buf = object_address(holder),
        .len = object_nbytes(holder),
        .itemsize = has_shape ? holder->itemsize : 1,
        .readonly = (holder->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0,
        .ndim = has_shape ? ndim : 1,
        .format = asks_for(flags, PyBUF_FORMAT) ? (has_shape ? holder->names.format : "B") : NULL,
        .shape = has_shape && ndim > 0 ? holder->tensor.shape : NULL,
        .strides = asks_for(flags, PyBUF_STRIDES) && ndim > 0 ? byte_strides(holder) : NULL,
        .obj = Py_NewRef((PyObject *)holder),
    };
    return 0;
}

/* layout.c: sizes, strides, contiguity and address of a DLPackObject's tensor.
 *
 * It is C because attributes and exports ask for them each time, and need no Go. */
#include "object/object.h"

int64_t size_of(const DLTensor *tensor)
{
    int64_t size = 1;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        size *= tensor->shape[i];
    }
    return size;
}

int64_t *byte_strides(const DLPackObject *self)
{
    return self->tensor.strides + self->tensor.ndim;
}

bool object_is_packed(const DLPackObject *self)
{
    DLDataType dtype = self->tensor.dtype;
    return dtype.bits * dtype.lanes % 8 != 0 && (self->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) == 0;
}

int64_t object_nbytes(const DLPackObject *self)
{
    int64_t size = size_of(&self->tensor), bits = self->tensor.dtype.bits * self->tensor.dtype.lanes;
    return object_is_packed(self) ? size / 8 * bits + (size % 8 * bits + 7) / 8 : size * self->itemsize;
}

bool object_is_compact(const DLPackObject *self, char order)
{
    const DLTensor *tensor = &self->tensor;
    int64_t following = 1;
    bool compact = true;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        int32_t dimension = order == 'C' ? tensor->ndim - 1 - i : i;
        int64_t length = tensor->shape[dimension];
        if (length == 0) {
            return true;
        }
        compact = compact && (length == 1 || tensor->strides[dimension] == following);
        following *= length;
    }
    return compact;
}

void *object_address(DLPackObject *self)
{
    return self->tensor.data == NULL ? self->dims : self->tensor.data;
}

int object_refuse(const DLPackObject *self, const char *refusal)
{
    return check_in_python(python.refuse, Py_BuildValue("(OsO)", self, refusal, PyExc_BufferError));
}

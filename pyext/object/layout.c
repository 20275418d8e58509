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

int64_t *byte_strides(const struct memory *self)
{
    return self->tensor.strides + self->tensor.ndim;
}

bool object_is_packed(const struct memory *self)
{
    DLDataType dtype = self->tensor.dtype;
    return dtype.bits * dtype.lanes % 8 != 0 && (self->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED) == 0;
}

int64_t object_nbytes(const struct memory *self)
{
    int64_t size = size_of(&self->tensor), bits = self->tensor.dtype.bits * self->tensor.dtype.lanes;
    return object_is_packed(self) ? size / 8 * bits + (size % 8 * bits + 7) / 8 : size * self->itemsize;
}

bool object_is_compact(const struct memory *self, char order)
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

void *object_address(struct memory *self)
{
    return self->tensor.data == NULL ? self->dims : self->tensor.data;
}

bool same_device(DLDevice one, DLDevice other)
{
    return one.device_type == other.device_type && (one.device_id == other.device_id || one.device_type == kDLCPU);
}

int object_refuse(const struct memory *self, const char *refusal)
{
    return check_in_python(python.refuse, Py_BuildValue("(OsO)", self, refusal, PyExc_BufferError));
}

/* request.c: writes what was read of an object into a struct request.
 *
 * It is C because the values come from C structures, and Go may not see Python objects. */
#include "ask/ask.h"

#include <string.h>

void request_init(struct request *request, enum protocol protocol)
{
    memset(request, 0, offsetof(struct request, dims));
    memset(&request->data, 0, sizeof *request - offsetof(struct request, data));
    request->protocol = protocol;
    request->device.device_type = kDLCPU;
}

void request_format(struct request *request, const char *format)
{
    size_t length = 0;
    uint64_t first = 0; /* stored as one word, since table.c reads it as one: after eight stores that read waits 4 ns */
    for (; length < sizeof first && format[length] != 0; length++) {
        first |= (uint64_t)(unsigned char)format[length] << 8 * length;
    }
    memcpy(request->format, &first, sizeof first);
    while (length < FORMAT_SIZE - 1 && format[length] != 0) {
        request->format[length] = format[length];
        length++;
    }
    if (format[length] != 0) {
        length = strlen(format);
        request->long_format = format;
    }
    request->format_length = length;
}

static bool is_row_major(int32_t ndim, const int64_t *shape, const int64_t *strides, int64_t unit)
{
    uint64_t following = (uint64_t)unit;
    bool row_major = shape != NULL && ndim >= 0 && ndim <= MAX_NDIM;
    for (int32_t i = ndim; i > 0 && row_major; i--) {
        row_major = shape[i - 1] > 0 && (uint64_t)strides[i - 1] == following;
        following *= (uint64_t)shape[i - 1];
    }
    return row_major;
}

int64_t *strides_in(struct request *request)
{
    return request->dims + (request->ndim <= MAX_NDIM ? request->ndim : 0);
}

HOT void request_dims(struct request *request, const int64_t *shape, const int64_t *strides, int64_t unit)
{
    if (strides != NULL && is_row_major(request->ndim, shape, strides, unit)) {
        strides = NULL;
    }
    if (shape == NULL && request->ndim > 0) {
        request->facts |= FACT_NO_SHAPE;
    }
    if (strides != NULL) {
        request->facts |= FACT_STRIDES;
        request->stride_count = request->ndim;
    }
    if (request->ndim >= 0 && request->ndim <= MAX_NDIM) {
        size_t bytes = (size_t)request->ndim * sizeof *shape;
        if (shape != NULL) {
            memcpy(request->dims, shape, bytes);
        }
        if (strides != NULL) {
            memcpy(request->dims + request->ndim, strides, bytes);
        }
    }
}

void request_tensor(struct request *request, const DLTensor *tensor, uint64_t flags)
{
    request_init(request, PROTOCOL_DLTENSOR);
    request->ndim = tensor->ndim;
    request->dtype = tensor->dtype;
    request->device = tensor->device;
    request->flags = flags & ~DLPACK_FLAG_BITMASK_READ_ONLY;
    request->offset = tensor->byte_offset;
    request->data = (uint64_t)(uintptr_t)tensor->data;
    request_dims(request, tensor->shape, tensor->strides, 1);
}

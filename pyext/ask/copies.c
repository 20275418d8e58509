/* copies.c: the copies that C makes itself, since they take less time than a call into Go or no more than Go's; and what
 * frees the copies that answers bring.
 *
 * It is C because deleters call what frees. */
#include "ask/ask.h"
#include "platform/platform.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

size_t most_copied(const struct request *buffer)
{
    enum { MOST_COMPACT = 24 << 20, MOST_STRIDED = 8 << 20 }; /* bytes */
    enum { MOST_PARTS = 8 << 10 };                            /* that lie side by side */
    if ((buffer->facts & FACT_STRIDES) == 0) {
        return MOST_COMPACT;
    }
    const int64_t *strides = buffer->dims + buffer->ndim;
    uint64_t part = (uint64_t)buffer->itemsize;
    for (int32_t i = buffer->ndim; i > 0 && i <= MAX_NDIM && (uint64_t)strides[i - 1] == part; i--) {
        part *= (uint64_t)buffer->dims[i - 1];
    }
    return part < MOST_STRIDED / MOST_PARTS ? part * MOST_PARTS : MOST_STRIDED;
}

/* What copy_items does of compact memory, in 15 ns less. memmove, not memcpy, which gcc unrolls (build.py). */
void copy_compact(void *to, const void *from, size_t bytes)
{
    PyThreadState *state = bytes < GIL_BYTES ? NULL : PyEval_SaveThread();
    memmove(to, from, bytes);
    if (state != NULL) {
        PyEval_RestoreThread(state);
    }
}

/* Rows are items whose strides are in bytes. Not inlined: it calls itself, and would be there several times. */
__attribute__((noinline)) static void copy_each(char *to, const char *from, const struct items *rows)
{
/* Unrolled: a tenth of a copy of 4 KiB. */
#define EACH_BY(copy, size)                                                                                            \
    _Pragma("GCC unroll 8") for (int64_t i = 0; i < length; i++)                                                       \
    {                                                                                                                  \
        copy(to + i * step, from + i * source_step, size);                                                             \
    }                                                                                                                  \
    break
    int64_t length = 1, step = 0, source_step = 0;
    if (rows->ndim > 0) {
        length = rows->shape[0];
        step = rows->strides[0];
        source_step = rows->source_strides[0];
    }
    if (rows->ndim > 1) {
        struct items inner = *rows;
        inner.ndim--, inner.shape++, inner.strides++, inner.source_strides++;
        for (int64_t i = 0; i < length; i++) {
            copy_each(to + i * step, from + i * source_step, &inner);
        }
        return;
    }
    switch (rows->itemsize) { /* the compiler knows these; of others it would unroll memcpy (build.py) */
    case 1:
        EACH_BY(memcpy, 1);
    case 2:
        EACH_BY(memcpy, 2);
    case 3:
        EACH_BY(memcpy, 3);
    case 4:
        EACH_BY(memcpy, 4);
    case 6:
        EACH_BY(memcpy, 6);
    case 8:
        EACH_BY(memcpy, 8);
    case 12:
        EACH_BY(memcpy, 12);
    case 16:
        EACH_BY(memcpy, 16);
    default:
        EACH_BY(memmove, (size_t)rows->itemsize);
    }
}

/* In as few dimensions as say the same: those of one item go, what continues another dimension joins it, and what lies
 * side by side becomes one item. It goes up in the source, since processors fetch ahead that way. */
void copy_items(char *to, const char *from, const struct items *items, size_t bytes)
{
    int64_t shape[MAX_NDIM], strides[MAX_NDIM], source_strides[MAX_NDIM];
    struct items rows = {0, items->itemsize, shape, strides, source_strides};
    for (int32_t i = 0; i < items->ndim; i++) {
        int64_t length = items->shape[i], stride = items->strides[i] * items->itemsize,
                source_stride = items->source_strides[i] * items->itemsize;
        int32_t last = rows.ndim - 1;
        if (length == 1) {
            continue;
        }
        if (source_stride < 0) {
            to += (length - 1) * stride, from += (length - 1) * source_stride;
            stride = -stride, source_stride = -source_stride;
        }
        if (last >= 0 && strides[last] == length * stride && source_strides[last] == length * source_stride) {
            shape[last] *= length;
        }
        else {
            last = rows.ndim++;
            shape[last] = length;
        }
        strides[last] = stride;
        source_strides[last] = source_stride;
    }
    int32_t last = rows.ndim - 1;
    if (last >= 0 && strides[last] == rows.itemsize && source_strides[last] == rows.itemsize) {
        rows.itemsize *= shape[last];
        rows.ndim--;
    }
    PyThreadState *state = bytes < GIL_BYTES ? NULL : PyEval_SaveThread();
    copy_each(to, from, &rows);
    if (state != NULL) {
        PyEval_RestoreThread(state);
    }
}

void free_device_memory(struct device_memory *memory)
{
    enum {
        CONTEXT = 1, /* CU_POINTER_ATTRIBUTE_CONTEXT */
        RELAXED = 2, /* CU_STREAM_CAPTURE_MODE_RELAXED: a stream that captures elsewhere is left alone */
    };
    void *context = NULL;
    /* A forked child has no CUDA, and what it inherits is its parent's. */
    if (memory->context != NULL && memory->process == getpid()) {
        Py_BEGIN_ALLOW_THREADS /* it waits for the device, whose callbacks may wait for the GIL */
        int mode = RELAXED;
        /* Who destroyed the context has freed its memory, too, and it must not be named any more. */
        if (memory->pointer_get_attribute(&context, CONTEXT, memory->address) == 0 && context == memory->context &&
            memory->ctx_push_current(context) == 0) {
            bool relaxed = memory->thread_exchange_stream_capture_mode != NULL &&
                           memory->thread_exchange_stream_capture_mode(&mode) == 0;
            memory->mem_free(memory->address);
            if (relaxed) {
                memory->thread_exchange_stream_capture_mode(&mode);
            }
            memory->ctx_pop_current(&context);
        }
        if (memory->retained >= 0) {
            memory->device_primary_ctx_release(memory->retained);
        }
        Py_END_ALLOW_THREADS
    }
    free(memory);
}

void free_copy(const struct answer *answer)
{
    free_aligned(answer->memory);
    if (answer->device_memory != NULL) {
        free_device_memory(answer->device_memory);
    }
}

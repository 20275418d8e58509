/* copies.c: copies memory that Go's table describes.
 *
 * It is C because contiguous copies need no Go. */
#include "ask/ask.h"

#include <string.h>

HOT bool copy_contiguous(uint64_t to, uint64_t from, size_t bytes)
{
    enum { MOST_BYTES = 24 << 20 }; /* above it Go is faster, on several processors */
    if (bytes > MOST_BYTES) {
        return false;
    }
    PyThreadState *state = bytes < GIL_BYTES ? NULL : PyEval_SaveThread();
    /* Not memcpy, which gcc would unroll (build.py). */
    memmove((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes);
    if (state != NULL) {
        PyEval_RestoreThread(state);
    }
    return true;
}

struct side side_of(const struct request *request, const struct answer *answer, int64_t *strides)
{
    for (int32_t i = 0; i < answer->ndim; i++) {
        strides[i] = answer->dims[answer->ndim + i] * answer->itemsize;
    }
    return (struct side){request->data + answer->offset, answer->below, answer->above, strides};
}

__attribute__((noinline)) int copy_known(struct request *request, struct answer *answer)
{
    int64_t strides[MAX_NDIM];
    struct copy_plan plan = {
        .source = side_of(request, answer, strides),
        .shape = answer->dims,
        .itemsize = answer->itemsize,
        .ndim = answer->ndim,
        .swap = answer->swap,
    };
    bool contiguous = request->owned && (request->facts & FACT_STRIDES) == 0 && answer->swap == 0;
    lay_out(request, answer); /* succeeds, as it did in look_up */
    size_t bytes = answer->above;
    void *memory = allocate_aligned(bytes);
    if (memory == NULL) {
        return 0;
    }
    plan.target = (struct side){.first = (uint64_t)(uintptr_t)memory, .above = bytes};
    if (bytes > 0 && !(contiguous && copy_contiguous(plan.target.first, plan.source.first, bytes))) {
        int copied = copy_in_core(&plan, bytes, request, answer);
        if (copied <= 0) {
            free_aligned(memory);
            return copied;
        }
    }
    answer->memory = memory;
    answer->offset = bytes == 0 ? answer->offset : (uint64_t)(uintptr_t)memory - request->data;
    answer->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    return 1;
}

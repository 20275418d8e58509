/* copies.c: frees the copies that answers bring, without Go: deleters call it. */
#include "ask/ask.h"
#include "platform/platform.h"

#include <stdlib.h>
#include <unistd.h>

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

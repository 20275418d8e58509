/* free.c: frees the copies that answers carry.
 *
 * It is C because deleters call it, which never enter Go. */
#include "ask/ask.h"

#include <stdlib.h>
#include <unistd.h>

void free_device_memory(struct device_memory *memory)
{
    enum {
        CONTEXT = 1, /* CU_POINTER_ATTRIBUTE_CONTEXT */
        RELAXED = 2, /* CU_STREAM_CAPTURE_MODE_RELAXED: doesn't disturb streams that capture elsewhere */
    };
    void *context = NULL;
    /* A forked child can't use CUDA, and the memory belongs to its parent. */
    if (memory->context != NULL && memory->process == getpid()) {
        Py_BEGIN_ALLOW_THREADS /* the driver waits for the device, whose callbacks may wait for the GIL */
        int mode = RELAXED;
        /* A destroyed context has freed its memory, and must not be used any more. */
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

/* device_memory.c: frees device memory that Go allocated for a copy.
 *
 * It is C because a deleter must work without Go. */
#include "extension.h"

#include <stdlib.h>
#include <unistd.h>

void free_device_memory(struct device_memory *memory)
{
    enum { RELAXED = 2 /* CU_STREAM_CAPTURE_MODE_RELAXED: a stream that captures elsewhere is left alone */ };
    /* A forked child has no CUDA, and what it inherits is its parent's. */
    if (memory->context != NULL && memory->process == getpid()) {
        Py_BEGIN_ALLOW_THREADS /* it waits for the device, whose callbacks may wait for the GIL */
        int mode = RELAXED;
        if (memory->ctx_push_current(memory->context) == 0) {
            bool relaxed = memory->thread_exchange_stream_capture_mode != NULL &&
                           memory->thread_exchange_stream_capture_mode(&mode) == 0;
            memory->mem_free(memory->address);
            if (relaxed) {
                memory->thread_exchange_stream_capture_mode(&mode);
            }
            void *context;
            memory->ctx_pop_current(&context);
        }
        if (memory->retained >= 0) {
            memory->device_primary_ctx_release(memory->retained);
        }
        Py_END_ALLOW_THREADS
    }
    free(memory);
}

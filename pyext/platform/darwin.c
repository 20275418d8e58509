/* darwin.c: macOS, besides posix.c. Nothing is kept for Go: it ends the process where it gets no memory or no thread.
 *
 * It is C because it must run before there is a Go runtime. */
#include "platform/platform.h"

#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

int usable_cpus(void)
{
    long count = sysconf(_SC_NPROCESSORS_ONLN);
    return count < MOST_CPUS ? (int)count : MOST_CPUS;
}

bool stack_has_space(int nested)
{
    enum { FEW = 50, MOST_FOR_MANY = 4 << 20 };
    pthread_t thread = pthread_self();
    char *here = __builtin_frame_address(0), *end = pthread_get_stackaddr_np(thread);
    size_t used = end - here, size = pthread_get_stacksize_np(thread);
    if (here >= end || used > size) {
        return nested < FEW; /* a stack that a library made */
    }
    return used < size / 2 && (nested < FEW || used < MOST_FOR_MANY);
}

/* dlpack._start makes the copy: a temporary file. */
struct failure open_library_copy(const char *path, unsigned copies, void **entry)
{
    (void)path, (void)copies, (void)entry;
    return (struct failure){.name = "copy", .text = "macOS has no memfd"};
}

struct failure prepare_start(int processors)
{
    (void)processors;
    return (struct failure){0};
}

void end_waiting_threads(void)
{
}

const char *keep_reserve(void)
{
    return NULL;
}

void *map_zeroed_by_fork(size_t bytes)
{
    return calloc(1, bytes);
}

void lend_to(struct core *core)
{
    (void)core;
}

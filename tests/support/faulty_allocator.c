/* An allocator for LD_PRELOAD that faults or raises a signal when it is told to, as on a heap that was overwritten. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdlib.h>

static int somewhere;
int *volatile written = &somewhere;
volatile int raised;

int posix_memalign(void **memory, size_t alignment, size_t bytes)
{
    int (*allocate)(void **, size_t, size_t);
    *(void **)&allocate = dlsym(RTLD_NEXT, "posix_memalign");
    *written = 1;
    if (raised != 0) {
        raise(raised);
    }
    return allocate(memory, alignment, bytes);
}

/* An allocator for LD_PRELOAD that faults or raises a signal when it is told to, as on a heap that was overwritten: for a
 * copy of 1 MiB alone. */
#include <signal.h>
#include <stddef.h>

static int somewhere;
int *volatile written = &somewhere;
volatile int raised;

void *__libc_malloc(size_t bytes);

void *malloc(size_t bytes)
{
    if (bytes == (1 << 20) + 64) {
        *written = 1;
        if (raised != 0) {
            raise(raised);
        }
    }
    return __libc_malloc(bytes);
}

/* darwin.c: macOS, besides posix.c and no_check.c.
 *
 * It is C because it must run before there is a Go runtime. */
#include "platform/platform.h"

#include <errno.h>
#include <pthread.h>
#include <sys/stat.h>

bool measure_stack(size_t *used, size_t *size)
{
    pthread_t thread = pthread_self();
    char *here = __builtin_frame_address(0), *end = pthread_get_stackaddr_np(thread);
    *used = end - here;
    *size = pthread_get_stacksize_np(thread);
    return here < end && *used <= *size; /* else a stack that a library made */
}

bool may_be_loaded(const char *path)
{
    struct stat facts;
    return stat(path, &facts) != 0 || S_ISREG(facts.st_mode);
}

int create_memfd(void)
{
    errno = ENOSYS;
    return -1;
}

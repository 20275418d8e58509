/* no_check.c: on Windows and macOS nothing is tried before Go's start. It ends the process if it gets no memory or no
 * thread.
 *
 * It is C because what it stands for, in linux.c, is. */
#include "platform/platform.h"

#include <stdlib.h>

struct failure check_start(void)
{
    return (struct failure){0};
}

bool may_grow(int processors)
{
    (void)processors;
    return true;
}

void *map_zeroed_by_fork(size_t bytes)
{
    return calloc(1, bytes);
}

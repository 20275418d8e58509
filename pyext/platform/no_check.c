/* no_check.c: tries nothing before Go's start, on Windows and macOS. Go ends the process if it gets no memory or no
 * thread.
 *
 * It is C because its counterpart in linux.c is. */
#include "platform/platform.h"

struct failure check_start(void)
{
    return (struct failure){0};
}

bool may_grow(int processors)
{
    (void)processors;
    return true;
}

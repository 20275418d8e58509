/* no_reserve.c: Windows and macOS, where nothing is kept for Go: it ends the process where it gets no memory or no thread.
 *
 * It is C because what it stands for, in linux.c, is. */
#include "platform/platform.h"

#include <stdlib.h>

struct failure prepare_start(void)
{
    return (struct failure){0};
}

bool prepare_growth(int processors)
{
    (void)processors;
    return true;
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

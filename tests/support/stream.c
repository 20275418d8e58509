/* stream.c: a stream of Arrow data that gives the same chunk again and again, and runs no Python. */
#include "../read/arrow.h"

#include <stddef.h>

static void release(struct ArrowArray *array)
{
    array->release = NULL;
}

int get_next(struct ArrowArrayStream *stream, struct ArrowArray *out)
{
    *out = *(struct ArrowArray *)stream->private_data;
    out->release = release;
    return 0;
}

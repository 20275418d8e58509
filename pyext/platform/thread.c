/* thread.c: what is kept for each thread, and how deep its calls may nest.
 *
 * It is C because it looks at the stack that it runs on. build.py compiles it apart from the other rooms. */
#include "platform/platform.h"

struct thread *this_thread(void)
{
    static _Thread_local struct thread thread;
    return &thread;
}

bool stack_has_space(int nested)
{
    enum { FEW = 50, MOST_FOR_MANY = 4 << 20 };
    size_t used, size;
    if (!measure_stack(&used, &size)) {
        return nested < FEW;
    }
    return used < size / 2 && (nested < FEW || used < MOST_FOR_MANY);
}

bool stack_has_bytes(size_t least)
{
    size_t used, size;
    return stack_is_large() || !measure_stack(&used, &size) || size - used >= least;
}

bool stack_may_hold(int calls)
{
    enum { LEAST = 512 }; /* bytes; measured: 1,250 */
    size_t used, size;
    return !measure_stack(&used, &size) || used / LEAST >= (size_t)calls;
}

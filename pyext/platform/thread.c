/* thread.c: the state of each thread, and how deep its calls may nest.
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
    enum { FRAMES = 1 << 10 }; /* bytes; more than lie between the frames of this function and of a call into Go */
    const struct thread *thread = this_thread();
    char *here = __builtin_frame_address(0);
    size_t used, size, left = (size_t)(here - (char *)thread->stack);
    /* Go keeps the bounds that it found in a thread's first call while they hold. So does this, without a system call. */
    if (is_bound() && thread->stack != NULL && left >= least && left < thread->stack_size) {
        return true;
    }
    if (measure_stack(&used, &size)) {
        return size - used >= least;
    }
    /* Below the stack's end, as a limit gives it, Go assumes 32 KiB instead, unless its call is above that end. */
    return (size_t)((char *)thread->stack - here) > FRAMES;
}

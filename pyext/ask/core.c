/* core.c: calls the Go core.
 *
 * It is C because it releases the GIL meanwhile. */
#include "ask/ask.h"

#include <stdatomic.h>

static atomic_uint_fast64_t calls;

PyObject *core_calls(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLongLong(atomic_load_explicit(&calls, memory_order_relaxed));
}

int raise_answer(const struct answer *answer)
{
    free_copy(answer);
    check_in_python(python.refused, Py_BuildValue("(iy)", (int)answer->status, answer->message));
    return -1;
}

int call_core(struct request *request, struct answer *answer, bool lets_others_run)
{
    /* Go needs less than 5 KiB for a thread's first call, but over 8 if it waits for a processor on its return. */
    if (!stack_has_bytes(16 << 10)) { /* Go would end the process; words from Python need more stack */
        PyErr_SetString(PyExc_MemoryError, "the Go core needs 16 KiB of stack, and this thread has less left "
                                           "(ulimit -s, or threading.stack_size)");
        return -1;
    }
    describe_function *describe = running_core();
    if (describe == NULL) {
        return -1;
    }
    answer->memory = NULL;
    answer->device_memory = NULL;
    if (lets_others_run) {
        grow_core();
        Py_BEGIN_ALLOW_THREADS
        call_describe(describe, request, answer);
        Py_END_ALLOW_THREADS
    }
    else {
        call_describe(describe, request, answer);
    }
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return 0;
}

int copy_in_core(const struct copy_plan *plan, size_t bytes, struct request *request, struct answer *answer)
{
    request->plan = plan;
    int called = call_core(request, answer, bytes + 1 > LARGE_BYTES);
    request->plan = NULL;
    if (called == 0 && answer->status == STATUS_RUNTIME_ERROR) { /* a panic */
        return raise_answer(answer);
    }
    return called < 0 ? -1 : answer->status == STATUS_OK;
}

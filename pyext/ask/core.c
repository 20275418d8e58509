/* core.c: calls the Go core.
 *
 * It is C because signals have to wait during a thread's first call into Go. */
#include "ask/ask.h"
#include "platform/platform.h"

#include <stdatomic.h>

static atomic_uint_fast64_t calls;

PyObject *core_calls(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLongLong(atomic_load_explicit(&calls, memory_order_relaxed));
}

/* Makes a thread's first call into Go, with an empty request, which grows Go's stack for this thread. C signal handlers
 * without SA_ONSTACK run on that stack, which is small before. So signals wait until the call ends, except those that
 * the thread raises itself. Blocking them in every call would double its time. */
static void make_first_call(describe_function *describe, struct answer *answer)
{
    static struct request nothing;
    sigset_t before;
    block_signals(BLOCK_ALL_BUT_FAULTS, &before);
    describe(&nothing, answer);
    answer->status = STATUS_OK;
    restore_signals(&before);
}

static void call_bound(describe_function *describe, struct request *request, struct answer *answer)
{
    sigset_t before;
    if (!is_bound()) {
        make_first_call(describe, answer);
    }
    bool unblocked = unblock_fault_signals(&before);
    describe(request, answer);
    if (unblocked) {
        restore_signals(&before);
    }
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
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
    answer->status = STATUS_OK;
    answer->memory = NULL;
    answer->device_memory = NULL;
    if (lets_others_run) {
        grow_core();
        Py_BEGIN_ALLOW_THREADS
        call_bound(describe, request, answer);
        Py_END_ALLOW_THREADS
    }
    else {
        call_bound(describe, request, answer);
    }
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

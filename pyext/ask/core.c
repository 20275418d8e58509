/* core.c: asks the Go core what to make of a request, unless Go's table says it.
 *
 * It is C because the table needs no Go, and the thread's signals wait for the end of a call into it. */
#include "ask/ask.h"
#include "platform/platform.h"

#include <stdatomic.h>
#include <string.h>

enum { WIDEST_ITEM = 16 }; /* bytes, where only Go can tell the item's size */

#ifdef Py_GIL_DISABLED
enum { LARGE_BYTES = 0 }; /* other threads run in any case, and may copy at once */
#else
enum { LARGE_BYTES = GIL_BYTES };
#endif

static atomic_uint_fast64_t calls;

PyObject *core_calls(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored))
{
    return PyLong_FromUnsignedLongLong(atomic_load_explicit(&calls, memory_order_relaxed));
}

static bool may_copy_much(const struct request *request)
{
    if (request->array_count > 0) {
        return request->terms.copy != COPY_NEVER; /* only Go knows how many items Arrow's arrays have */
    }
    if (request->terms.copy == COPY_NEVER || request->ndim < 0 || request->ndim > MAX_NDIM ||
        request->facts & FACT_NO_SHAPE) {
        return false;
    }
    /* An upper bound of an item's bytes: one of the three says them. */
    double bytes = WIDEST_ITEM + request->itemsize + request->dtype.bits * request->dtype.lanes / 8;
    for (int32_t i = 0; i < request->ndim; i++) {
        bytes *= request->dims[i] == -1 ? request->span : request->dims[i];
    }
    return bytes >= LARGE_BYTES;
}

/* A driver's calls may wait for the device, or for threads that wait for the GIL. */
static bool may_need_driver(const struct request *request)
{
    return request->device.device_type != kDLCPU ||
           (request->terms.has_target && request->terms.target.device_type != kDLCPU);
}

/* false: too little stack is left for Go, which would end the process; the answer says so. */
static bool has_stack(struct answer *answer)
{
    bool enough = stack_has_bytes(GO_STACK);
    if (!enough) {
        static const char message[] = "the Go core needs 16 KiB of stack, and this thread has less left (ulimit -s, or "
                                      "threading.stack_size)";
        _Static_assert(GO_STACK == 16 << 10, "the message names another size");
        answer->status = STATUS_MEMORY_ERROR;
        memcpy(answer->message, message, sizeof message); /* snprintf may take more stack than there is */
    }
    return enough;
}

/* C's signal handlers run on Go's stack unless they say SA_ONSTACK. It is small until a thread's first call has grown it.
 * So the first call asks for nothing, and signals wait until it ends, except those that a thread raises itself. To block
 * them in every call would double its time. */
static void make_first_call(describe_function *describe, struct answer *answer)
{
    static struct request nothing;
    sigset_t before;
    block_signals(BLOCK_ALL_BUT_FAULTS, &before);
    if (has_stack(answer)) {
        describe(&nothing, answer);
        answer->status = STATUS_OK;
    }
    restore_signals(&before);
}

static void call_core(describe_function *describe, struct request *request, struct answer *answer)
{
    sigset_t before;
    if (!is_bound()) {
        make_first_call(describe, answer);
    }
    if (answer->status != STATUS_OK) {
        return;
    }
    bool unblocked = unblock_fault_signals(&before);
    describe(request, answer);
    if (unblocked) {
        restore_signals(&before);
    }
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
}

static int raise_answer(const struct answer *answer)
{
    free_copy(answer);
    PyObject *types[] = {
        [STATUS_VALUE_ERROR] = PyExc_ValueError,
        [STATUS_BUFFER_ERROR] = PyExc_BufferError,
        [STATUS_MEMORY_ERROR] = PyExc_MemoryError,
        [STATUS_RUNTIME_ERROR] = PyExc_RuntimeError,
    };
    PyErr_SetString(types[answer->status], answer->message);
    return -1;
}

/* Gives the answer's shape the strides of row-major memory without gaps. Returns how many bytes that has. */
static size_t compact_strides(struct answer *answer)
{
    int64_t count = 1;
    for (int32_t i = answer->ndim - 1; i >= 0; i--) {
        answer->dims[answer->ndim + i] = count;
        count *= answer->dims[i];
    }
    return (size_t)(count * answer->itemsize);
}

/* The bytes of each number that is to be turned around; 1: none are; 0: Go has to find out. */
static int64_t swapped_bytes(const struct request *request)
{
    char letter = request->format[1];
    bool is_complex = letter == 'Z' || letter == 'F' || letter == 'D'; /* "Zf", or since Python 3.14 "F" */
    if (request->format[0] != '>' && request->format[0] != '!') {
        return 1;
    }
    if (request->protocol != PROTOCOL_BUFFER || request->format_length != 2u + (letter == 'Z')) {
        return 0;
    }
    int64_t bytes = is_complex ? request->itemsize / 2 : request->itemsize;
    return bytes > 8 ? 0 : bytes;
}

/* Turns around the bytes of each number. */
static void swap_numbers(void *numbers, size_t bytes, int64_t size)
{
#define EACH_NUMBER(type, swapped)                                                                                     \
    for (type *number = numbers; (char *)number < (char *)numbers + bytes; number++) {                                 \
        *number = swapped(*number);                                                                                    \
    }                                                                                                                  \
    break
    switch (size) {
    case 2:
        EACH_NUMBER(uint16_t, __builtin_bswap16);
    case 4:
        EACH_NUMBER(uint32_t, __builtin_bswap32);
    case 8:
        EACH_NUMBER(uint64_t, __builtin_bswap64);
    }
}

/* Copies memory that is vouched for, and in Go's table in the CPU's byte order, up to the size from which Go is faster.
 * false: Go has to. */
static bool copy_vouched(struct request *request, struct answer *answer)
{
    enum { MOST_SWAPPED = 8 << 10 }; /* bytes; above, Go is faster */
    int64_t swapped = swapped_bytes(request);
    size_t bytes = (size_t)request->vouched, most = swapped > 1 ? MOST_SWAPPED : most_copied(request);
    if (bytes == 0 || bytes > most || swapped == 0 || request->terms.has_stream || request->terms.has_target) {
        return false;
    }
    char order = request->format[0];
    request->format[0] = swapped > 1 ? '<' : order;
    bool known = look_up(request, answer);
    request->format[0] = order;
    if (!known) {
        return false;
    }
    int64_t strides[MAX_NDIM];
    memcpy(strides, answer->dims + answer->ndim, (size_t)answer->ndim * sizeof *strides);
    if (compact_strides(answer) != bytes) {
        return false; /* the exporter contradicts itself, or items share bytes */
    }
    const char *first = (const char *)(uintptr_t)(request->data + answer->offset);
    answer->memory = allocate_aligned(bytes);
    if (answer->memory == NULL) {
        return false;
    }
    if ((request->facts & FACT_STRIDES) == 0) {
        copy_compact(answer->memory, first, bytes);
    }
    else {
        copy_items(answer->memory, first,
                   &(struct items){.ndim = answer->ndim,
                                   .itemsize = answer->itemsize,
                                   .shape = answer->dims,
                                   .strides = answer->dims + answer->ndim,
                                   .source_strides = strides},
                   bytes);
    }
    swap_numbers(answer->memory, bytes, swapped);
    answer->below = 0;
    answer->above = bytes;
    answer->offset = (uint64_t)(uintptr_t)answer->memory - request->data;
    answer->flags |= DLPACK_FLAG_BITMASK_IS_COPIED;
    return true;
}

HOT int ask(struct request *request, struct answer *answer)
{
    bool copies = request->terms.copy == COPY_ALWAYS;
    bool shares = !copies && !request->terms.has_stream && !request->terms.has_target;
    if ((copies && copy_vouched(request, answer)) || (shares && look_up(request, answer))) {
        return 0;
    }
    describe_function *describe = running_core();
    if (describe == NULL) {
        return -1;
    }
    answer->status = STATUS_OK;
    answer->memory = NULL;
    answer->device_memory = NULL;
    if (may_copy_much(request) || may_need_driver(request)) {
        grow_core();
        Py_BEGIN_ALLOW_THREADS
        call_core(describe, request, answer);
        Py_END_ALLOW_THREADS
    }
    else {
        call_core(describe, request, answer);
    }
    return answer->status == STATUS_OK ? 0 : raise_answer(answer);
}

/* copy_into.c: copy_into(), which fills memory that exists already.
 *
 * It is C because a small copy takes less time than a call into Go. */
#include "module/module.h"

#include <string.h>

/* Reads the tensor that asdlpack makes of the object, and lets the hold own that. -1: error. */
static int read_tensor(struct reading *reading)
{
    PyObject *shared = share(reading->obj, reading->terms.copy, NULL);
    struct memory *holder = shared == NULL ? NULL : ordered_tensor_of((DLPackObject *)shared);
    if (holder != NULL) {
        read_object(reading, holder);
        reading->request.flags |= holds_memory(&holder->hold) ? DLPACK_FLAG_BITMASK_IS_COPIED : 0;
    }
    Py_XDECREF((PyObject *)holder);
    Py_XDECREF(shared);
    return holder == NULL ? -1 : 1;
}

/* Reads obj's memory. -1: error. A buffer can describe more than __dlpack__, such as another byte order. It is read first
 * if obj's type is known to give the same memory by it, else only after asdlpack has refused. */
static int read_side(struct reading *reading, const char *side)
{
    PyObject *obj = reading->obj;
    enum known_type known = known_type(obj);
    bool has_buffer = PyObject_CheckBuffer(obj) && !Py_IS_TYPE(obj, DLPackObject_type);
    bool tried = has_buffer && (known == BUFFER_ALONE || known == HAS_BOTH);
    int read = tried ? lock_buffer(reading) : 0;
    if (read > 0 && reading->request.format[0] == 'T') { /* numpy numbers with fields: __dlpack__ gives the numbers */
        give_back(reading->hold);
        tried = false;
        read = 0;
    }
    if (read == 0 || (read < 0 && is_refusal())) {
        PyErr_Clear();
        give_back(reading->hold);
        read = read_tensor(reading);
    }
    if (read < 0) {
        has_buffer = has_buffer && !tried && PyErr_ExceptionMatches(PyExc_BufferError);
        PyObject *refusal = take_exception();
        has_buffer = has_buffer && check_mask(obj) == 0;
        read = has_buffer ? lock_buffer(reading) : -1;
        /* Flat bytes don't overrule a refusal. */
        if (read > 0 && reading->request.ndim == 1 && reading->request.itemsize == 1) {
            has_buffer = false;
            read = -1;
        }
        if (read < 0 && (!has_buffer || is_refusal())) {
            PyErr_Clear();
            check_in_python(python.about_side, Py_BuildValue("(sO)", side, refusal));
        }
        Py_DECREF(refusal);
    }
    return read;
}

/* Refuses a target that made a copy for this call, since the items written to it would be lost. -1: error. */
static int check_is_no_copy(const struct reading *target)
{
    PyObject *holder = target->hold->holding == HOLDS_OBJECT ? target->hold->object : NULL;
    if (holder == NULL || !Py_IS_TYPE(holder, DLPackObject_type)) {
        return 0;
    }
    bool may_be = ((struct memory *)holder)->producer_copied || strncmp(target->protocol, "__array_", 8) == 0 ||
                  strcmp(target->protocol, "to_dlpack") == 0;
    return may_be ? check_in_python(python.refuse_copy, PyTuple_Pack(2, target->obj, holder)) : 0;
}

/* Copies if Go's table has both data types. Returns as copy_in_core does. */
HOT static int copy_plainly(struct reading *read_source, const struct reading *read_target)
{
    struct request *source = &read_source->request;
    const struct request *target = &read_target->request;
    struct answer from, to;
    if (!look_up(source, &from) || !look_up(target, &to) || from.ndim != to.ndim ||
        memcmp(&from.dtype, &to.dtype, sizeof from.dtype) != 0) {
        return 0;
    }
    int64_t count = 1, strides[2][MAX_NDIM];
    for (int32_t i = 0; i < to.ndim; i++) {
        if (from.dims[i] != to.dims[i]) {
            return 0;
        }
        count *= to.dims[i];
    }
    size_t bytes = (size_t)(count * to.itemsize);
    int32_t swap = from.swap ^ to.swap;
    bool contiguous = source->protocol == PROTOCOL_BUFFER && target->protocol == PROTOCOL_BUFFER && swap == 0 &&
                      ((source->facts | target->facts) & FACT_STRIDES) == 0 && owns_memory(read_source->obj) &&
                      owns_memory(read_target->obj);
    if (bytes == 0 || (contiguous && copy_contiguous(target->data + to.offset, source->data + from.offset, bytes))) {
        return 1;
    }
    struct copy_plan plan = {
        .source = side_of(source, &from, strides[0]),
        .target = side_of(target, &to, strides[1]),
        .shape = to.dims,
        .itemsize = to.itemsize,
        .ndim = to.ndim,
        .swap = swap,
    };
    return copy_in_core(&plan, bytes, source, &from);
}

/* Lets Go copy, or refuse. -1: error. */
static int copy_in_full(struct request *source, struct request *target)
{
    struct answer answer;
    source->into = target;
    source->terms = (struct terms){.copy = COPY_ALWAYS, .has_target = true, .target = target->device};
    return ask(source, &answer);
}

HOT PyObject *copy_into(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct reading from, to;
    struct hold source, target;
    if (nargs != 2 || kwnames != NULL) {
        return read_in_python(python.plain_copy_into, NULL, args, nargs, kwnames);
    }
    reading_init(&from, args[0], COPY_IF_NEEDED, NULL, &source);
    reading_init(&to, args[1], COPY_NEVER, NULL, &target);
    int copied = -1;
    /* The target first: if it is refused, the source's capsule was not consumed. */
    int read = read_side(&to, "target");
    if (read > 0 && to.readonly) {
        check_in_python(python.read_only_target, PyTuple_Pack(2, args[0], args[1]));
    }
    else if (read > 0 && check_is_no_copy(&to) == 0 && read_side(&from, "source") > 0) {
        copied = copy_plainly(&from, &to);
        if (copied == 0) {
            copied = copy_in_full(&from.request, &to.request);
        }
        if (copied < 0) {
            check_in_python(python.sides_were_read, Py_BuildValue("(OON)", args[0], args[1], take_exception()));
        }
    }
    give_back(&source);
    give_back(&target);
    return copied < 0 ? NULL : new_none();
}

/* copy_into.c: copy_into(), which fills memory that is there already.
 *
 * It is C because a small copy takes less time than a call into Go. */
#include "module/module.h"

#include <stdlib.h>
#include <string.h>

/* A new object that holds obj's buffer, which the request describes. NULL: error. */
static DLPackObject *lock(PyObject *obj, struct request *request)
{
    DLPackObject *self = object_new(obj, COPY_NEVER);
    if (self != NULL && lock_buffer(self, request, owns_memory(obj)) < 0) {
        Py_CLEAR(self);
    }
    return self;
}

/* The tensor that asdlpack makes of obj, which the request describes. NULL: error. */
static DLPackObject *read_tensor(PyObject *obj, enum copy copy, struct request *request)
{
    DLPackObject *shared = share(obj, copy, NULL), *holder = shared == NULL ? NULL : ordered_tensor_of(shared);
    if (holder != NULL) {
        request_tensor(request, &holder->tensor,
                       holder->flags | (holds_memory(holder) ? DLPACK_FLAG_BITMASK_IS_COPIED : 0));
        request->producer_stream = producer_stream(holder);
        Py_INCREF((PyObject *)holder);
    }
    Py_XDECREF((PyObject *)shared);
    return holder;
}

/* What holds obj's memory, which the request describes. NULL: error. A buffer says more than __dlpack__ can, such as
 * another byte order. Where obj's type is known to give the same memory by its buffer, that is read first; else only after
 * asdlpack has refused. */
static DLPackObject *read_side(PyObject *obj, const char *side, enum copy copy, struct request *request)
{
    enum known_type known = known_type(obj);
    bool has_buffer = PyObject_CheckBuffer(obj) && !Py_IS_TYPE(obj, DLPackObject_type);
    bool tried = has_buffer && (known == BUFFER_ALONE || known == HAS_BOTH);
    DLPackObject *self = tried ? lock(obj, request) : NULL;
    if (self != NULL && request->format[0] == 'T') { /* a number of numpy's may have fields, too: __dlpack__ gives it */
        Py_CLEAR(self);
        tried = false;
    }
    if (self == NULL && (!PyErr_Occurred() || is_refusal())) {
        PyErr_Clear();
        self = read_tensor(obj, copy, request);
    }
    if (self == NULL) {
        has_buffer = has_buffer && !tried && PyErr_ExceptionMatches(PyExc_BufferError);
        PyObject *refusal = take_exception();
        has_buffer = has_buffer && check_mask(obj) == 0;
        self = has_buffer ? lock(obj, request) : NULL;
        if (self != NULL && request->ndim == 1 && request->itemsize == 1) { /* flat bytes don't overrule a refusal */
            has_buffer = false;
            Py_CLEAR(self);
        }
        if (self == NULL && (!has_buffer || is_refusal())) {
            PyErr_Clear();
            check_in_python(python.about_side, Py_BuildValue("(sO)", side, refusal));
        }
        Py_DECREF(refusal);
    }
    return self;
}

/* Refuses a target that gave a copy to this call alone: what is written there would be lost. -1: error. */
static int check_is_no_copy(PyObject *obj, const DLPackObject *target)
{
    const char *protocol = target->protocol == NULL ? "" : target->protocol;
    bool may_be =
        target->producer_copied || strncmp(protocol, "__array_", 8) == 0 || strcmp(protocol, "to_dlpack") == 0;
    return may_be ? check_in_python(python.refuse_copy, PyTuple_Pack(2, obj, target)) : 0;
}

/* Whether both have the same shape and data type. */
static bool are_alike(const struct answer *source, const struct answer *target, int64_t *bytes)
{
    bool alike = source->ndim == target->ndim && memcmp(&source->dtype, &target->dtype, sizeof source->dtype) == 0;
    *bytes = target->itemsize;
    for (int32_t i = 0; i < target->ndim && alike; i++) {
        alike = source->dims[i] == target->dims[i];
        *bytes *= target->dims[i];
    }
    return alike;
}

/* Whether surely no items overlap: each stride leads beyond what the smaller ones reach. */
static bool items_are_apart(const struct answer *answer)
{
    const int64_t *shape = answer->dims, *strides = answer->dims + answer->ndim;
    bool apart = true;
    for (int32_t i = 0; i < answer->ndim && apart; i++) {
        uint64_t step = (uint64_t)llabs(strides[i]), reach = 1; /* items */
        for (int32_t j = 0; j < answer->ndim; j++) {
            uint64_t other = (uint64_t)llabs(strides[j]);
            bool is_smaller = other < step || (other == step && j > i);
            reach += is_smaller ? other * (uint64_t)(shape[j] - 1) : 0;
        }
        apart = shape[i] == 1 || step >= reach;
    }
    return apart;
}

/* Copies between memory that is vouched for and in Go's table, up to the size from which Go is faster. false: Go has
 * to. */
HOT static bool copy_here(const struct request *source, const struct request *target)
{
    struct answer from, to;
    int64_t bytes;
    if (source->vouched == 0 || target->vouched == 0 || !look_up(source, &from) || !look_up(target, &to)) {
        return false;
    }
    bool compact = ((source->facts | target->facts) & FACT_STRIDES) == 0, alike = are_alike(&from, &to, &bytes);
    if (!alike || bytes == 0 || (size_t)bytes > most_copied(source) || (size_t)bytes > most_copied(target)) {
        return alike && bytes == 0;
    }
    char *first = (char *)(uintptr_t)(target->data + to.offset);
    const char *source_first = (const char *)(uintptr_t)(source->data + from.offset);
    if (compact) {
        copy_compact(first, source_first, (size_t)bytes);
        return true;
    }
    bool overlap = first + to.above > source_first - from.below && source_first + from.above > first - to.below;
    if (overlap || !items_are_apart(&to)) {
        return false;
    }
    copy_items(first, source_first,
               &(struct items){.ndim = to.ndim,
                               .itemsize = to.itemsize,
                               .shape = to.dims,
                               .strides = to.dims + to.ndim,
                               .source_strides = from.dims + from.ndim},
               (size_t)bytes);
    return true;
}

/* Has Go copy, or refuse. -1: error. */
static int copy_in_core(struct request *source, struct request *target)
{
    struct answer answer;
    source->into = target;
    source->terms = (struct terms){.copy = COPY_ALWAYS, .has_target = true, .target = target->device};
    return ask(source, &answer);
}

HOT PyObject *copy_into(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct request from, to;
    if (nargs != 2 || kwnames != NULL) {
        return read_in_python(python.plain_copy_into, NULL, args, nargs, kwnames);
    }
    /* The target first: where it is refused, no capsule was consumed. */
    DLPackObject *source = NULL, *target = read_side(args[1], "target", COPY_NEVER, &to);
    int copied = -1;
    if (target != NULL && target->flags & DLPACK_FLAG_BITMASK_READ_ONLY) {
        check_in_python(python.read_only_target, PyTuple_Pack(2, args[0], args[1]));
    }
    else if (target != NULL && check_is_no_copy(args[1], target) == 0 &&
             (source = read_side(args[0], "source", COPY_IF_NEEDED, &from)) != NULL) {
        copied = copy_here(&from, &to) ? 0 : copy_in_core(&from, &to);
        if (copied < 0) {
            check_in_python(python.sides_were_read, Py_BuildValue("(OON)", args[0], args[1], take_exception()));
        }
    }
    Py_XDECREF((PyObject *)source);
    Py_XDECREF((PyObject *)target);
    return copied < 0 ? NULL : new_none();
}

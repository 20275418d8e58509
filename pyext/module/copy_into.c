/* copy_into.c: copy_into(), which fills memory that exists already.
 *
 * It is C because a small copy takes less time than a call into Go. */
#include "module/module.h"

#include <string.h>

DLPackObject *hold_buffer(PyObject *obj, enum copy copy, struct request *request)
{
    DLPackObject *self = object_new(obj, copy);
    if (self != NULL && lock_buffer(self, request) < 0) {
        Py_CLEAR(self);
    }
    if (self != NULL) {
        self->protocol = "buffer";
    }
    return self;
}

/* Returns the tensor that asdlpack makes of obj, and describes it in the request. NULL: error. */
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

/* Returns the object that holds obj's memory, and describes that in the request. NULL: error. A buffer can describe
 * more than __dlpack__, such as another byte order. It is read first if obj's type is known to give the same memory by
 * it, else only after asdlpack has refused. */
static DLPackObject *read_side(PyObject *obj, const char *side, enum copy copy, struct request *request)
{
    enum known_type known = known_type(obj);
    bool has_buffer = PyObject_CheckBuffer(obj) && !Py_IS_TYPE(obj, DLPackObject_type);
    bool tried = has_buffer && (known == BUFFER_ALONE || known == HAS_BOTH);
    DLPackObject *self = tried ? hold_buffer(obj, COPY_NEVER, request) : NULL;
    if (self != NULL && request->format[0] == 'T') { /* numpy numbers with fields: __dlpack__ gives the numbers */
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
        self = has_buffer ? hold_buffer(obj, COPY_NEVER, request) : NULL;
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

/* Refuses a target that made a copy for this call, since the items written to it would be lost. -1: error. */
static int check_is_no_copy(PyObject *obj, const DLPackObject *target)
{
    const char *protocol = target->protocol == NULL ? "" : target->protocol;
    bool may_be =
        target->producer_copied || strncmp(protocol, "__array_", 8) == 0 || strcmp(protocol, "to_dlpack") == 0;
    return may_be ? check_in_python(python.refuse_copy, PyTuple_Pack(2, obj, target)) : 0;
}

/* Copies if Go's table has both data types. Returns as copy_in_core does. */
HOT static int copy_plainly(PyObject *const objects[2], struct request *source, const struct request *target)
{
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
                      ((source->facts | target->facts) & FACT_STRIDES) == 0 && owns_memory(objects[0]) &&
                      owns_memory(objects[1]);
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
    struct request from, to;
    if (nargs != 2 || kwnames != NULL) {
        return read_in_python(python.plain_copy_into, NULL, args, nargs, kwnames);
    }
    /* The target first: if it is refused, the source's capsule was not consumed. */
    DLPackObject *source = NULL, *target = read_side(args[1], "target", COPY_NEVER, &to);
    int copied = -1;
    if (target != NULL && target->flags & DLPACK_FLAG_BITMASK_READ_ONLY) {
        check_in_python(python.read_only_target, PyTuple_Pack(2, args[0], args[1]));
    }
    else if (target != NULL && check_is_no_copy(args[1], target) == 0 &&
             (source = read_side(args[0], "source", COPY_IF_NEEDED, &from)) != NULL) {
        copied = copy_plainly(args, &from, &to);
        if (copied == 0) {
            copied = copy_in_full(&from, &to);
        }
        if (copied < 0) {
            check_in_python(python.sides_were_read, Py_BuildValue("(OON)", args[0], args[1], take_exception()));
        }
    }
    Py_XDECREF((PyObject *)source);
    Py_XDECREF((PyObject *)target);
    return copied < 0 ? NULL : new_none();
}

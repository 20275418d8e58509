/* memory.c: frombuffer() and from_pointer(), whose callers describe the memory.
 *
 * It is C because it reads Python's arguments; Go decides what they make of the memory. */
#include "module/module.h"

/* Reads an int, or a tuple of them. */
static bool plain_lengths(PyObject *value, int64_t *into, int32_t *count)
{
    *count = 1;
    return plain_int(value, into) || plain_ints(value, into, count);
}

/* Reads the data type's name, which the request borrows, the shape, and the strides (elements). Without a shape, there
 * is one dimension with all the items. false: one of them is not plain. */
static bool plain_layout(PyObject *dtype, PyObject *shape, PyObject *strides, struct request *request)
{
    const char *name;
    if (!plain_text(dtype, &name)) {
        return false;
    }
    request_format(request, name);
    request->ndim = 1;
    request->dims[0] = -1;
    if (shape != Py_None && !plain_lengths(shape, request->dims, &request->ndim)) {
        return false;
    }
    if (strides == Py_None) {
        return true;
    }
    request->facts |= FACT_STRIDES;
    return plain_lengths(strides, strides_in(request), &request->stride_count);
}

/* Reads the bytes of a tensor that asdlpack described. self holds holder's buffer; if the CPU can't read it, holder. */
static int read_described(DLPackObject *self, DLPackObject *holder, struct request *request)
{
    self->protocol = holder->protocol;
    if (!object_is_compact(holder, 'C') || holder->tensor.byte_offset > 0) {
        return object_refuse(holder, holder->tensor.byte_offset > 0 ? "handle" : "not-compact");
    }
    request->device = holder->tensor.device;
    request->producer_stream = producer_stream(holder);
    if (holder->on_cpu) {
        return read_bytes(self, (PyObject *)holder, request);
    }
    self->object = Py_NewRef((PyObject *)holder);
    self->holding = HOLDS_OBJECT;
    self->flags |= holder->flags & DLPACK_FLAG_BITMASK_READ_ONLY;
    request->data = (uint64_t)(uintptr_t)holder->tensor.data;
    request->span = object_nbytes(holder);
    request->facts |= FACT_SPAN;
    return 0;
}

/* Reads the bytes of the tensor that asdlpack makes of the object. */
static int read_tensor(DLPackObject *self, PyObject *obj, struct request *request)
{
    DLPackObject *shared = share(obj, COPY_NEVER, NULL);
    DLPackObject *holder = shared == NULL ? NULL : ordered_tensor_of(shared);
    int read = holder == NULL ? -1 : read_described(self, holder, request);
    Py_XDECREF((PyObject *)shared);
    if (read < 0 && PyErr_ExceptionMatches(PyExc_BufferError)) {
        check_in_python(python.refuse_bytes, Py_BuildValue("(ON)", obj, take_exception()));
    }
    return read;
}

/* Reads the object's bytes: its buffer, of any data type; without one, the tensor that asdlpack makes of it. */
static int read_memory(DLPackObject *self, PyObject *obj, struct request *request)
{
    if (PyCapsule_CheckExact(obj) || structure_reader(obj) != NULL) {
        /* A capsule would be lost if the rest is refused, and a pointer has no length. */
        return check_in_python(python.refuse_tensor, PyTuple_New(0));
    }
    if (PyObject_CheckBuffer(obj) && !Py_IS_TYPE(obj, DLPackObject_type)) {
        self->protocol = "buffer";
        int read = check_mask(obj) < 0 ? -1 : try_bytes(self, obj, request);
        if (read > 0) {
            bool may_be_pointer =
                request->span == sizeof(void *) && !PyBytes_CheckExact(obj) && !PyByteArray_CheckExact(obj);
            return may_be_pointer ? check_in_python(python.refuse_pointer, PyTuple_Pack(1, obj)) : 0;
        }
        if (read < 0) {
            return -1;
        }
    }
    return read_tensor(self, obj, request);
}

PyObject *frombuffer(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const struct parameters parameters = {
        .positional = 3,
        .required = 2,
        .names = {&names.obj, &names.dtype, &names.shape, &names.offset, &names.strides, &names.copy},
    };
    struct {
        PyObject *obj, *dtype, *shape, *offset, *strides, *copy;
    } given = {.shape = Py_None, .strides = Py_None, .copy = Py_False};
    enum copy copy;
    struct request request;
    request_init(&request, PROTOCOL_MEMORY);
    if (!read_arguments(&parameters, &given, args, nargs, kwnames) || !plain_copy(given.copy, &copy) ||
        (given.offset != NULL && !plain_address(given.offset, &request.offset)) ||
        !plain_layout(given.dtype, given.shape, given.strides, &request)) {
        return read_in_python(python.plain_frombuffer, NULL, args, nargs, kwnames);
    }
    DLPackObject *self = object_new(given.obj, copy);
    int read = self == NULL ? -1 : read_memory(self, given.obj, &request);
    if (read == 0 && (read = object_describe(self, &request)) < 0) {
        explain_read_stream(self);
    }
    if (read < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)object_kept(self);
}

PyObject *from_pointer(PyObject *Py_UNUSED(module), PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    static const struct parameters parameters = {
        .positional = 3,
        .required = 3,
        .names = {&names.pointer, &names.shape, &names.dtype, &names.strides, &names.device, &names.readonly,
                  &names.owner, &names.stream},
    };
    struct {
        PyObject *pointer, *shape, *dtype, *strides, *device, *readonly, *owner, *stream;
    } given = {.strides = Py_None, .device = names.cpu, .readonly = Py_False, .owner = Py_None, .stream = Py_None};
    struct request request;
    request_init(&request, PROTOCOL_MEMORY);
    if (!read_arguments(&parameters, &given, args, nargs, kwnames) || !plain_address(given.pointer, &request.data) ||
        given.shape == Py_None || /* a pointer has no length */
        !plain_layout(given.dtype, given.shape, given.strides, &request) || !PyBool_Check(given.readonly) ||
        (given.device != names.cpu && !plain_device(given.device, &request.device)) ||
        (given.stream != Py_None && !plain_int(given.stream, &request.producer_stream))) {
        return read_in_python(python.plain_from_pointer, NULL, args, nargs, kwnames);
    }
    request.facts |= given.stream != Py_None ? FACT_STREAM : 0;
    DLPackObject *self = object_new(given.owner == Py_None ? NULL : given.owner, COPY_NEVER);
    if (self == NULL) {
        return NULL;
    }
    self->protocol = "pointer";
    self->flags = given.readonly == Py_True ? DLPACK_FLAG_BITMASK_READ_ONLY : 0;
    if (object_describe(self, &request) < 0) {
        Py_CLEAR(self);
    }
    return (PyObject *)self;
}

/* memory.c: frombuffer() and from_pointer(), whose callers describe the memory, and what they say of its owner.
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

/* Reads the bytes of a tensor that asdlpack described. */
static int read_described(struct reading *reading, struct memory *holder)
{
    struct request *request = &reading->request;
    reading->protocol = holder->protocol;
    if (!object_is_compact(holder, 'C') || holder->tensor.byte_offset > 0) {
        return object_refuse(holder, holder->tensor.byte_offset > 0 ? "handle" : "not-compact");
    }
    if (holder->on_cpu && cpu_tensor_of((DLPackObject *)holder) == NULL) { /* it waits for work on the memory */
        return -1;
    }
    reading->hold->object = Py_NewRef((PyObject *)holder);
    reading->hold->holding = HOLDS_OBJECT;
    reading->readonly = (holder->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0;
    request->device = holder->tensor.device;
    request->producer_stream = producer_stream(holder);
    request->data = (uint64_t)(uintptr_t)holder->tensor.data;
    request->span = object_nbytes(holder);
    request->facts |= FACT_SPAN;
    return 1;
}

/* Reads the bytes of the tensor that asdlpack makes of the object, or of Arrow items that are bytes. */
static int read_tensor(struct reading *reading)
{
    PyObject *shared = share(reading->obj, COPY_NEVER, NULL);
    struct memory *holder = shared == NULL ? NULL : ordered_tensor_of((DLPackObject *)shared);
    int read = holder == NULL ? -1 : read_described(reading, holder);
    Py_XDECREF((PyObject *)holder);
    Py_XDECREF(shared);
    if (read < 0 && PyErr_ExceptionMatches(PyExc_BufferError) &&
        check_in_python(python.refuse_bytes, Py_BuildValue("(ON)", reading->obj, take_exception())) == 0) {
        struct reading of_bytes;
        enum copy copy = reading->terms.copy == COPY_NEVER ? COPY_NEVER : COPY_IF_NEEDED; /* of chunks */
        holder = object_by(read_fixed_size_binary, &of_bytes, reading->obj, copy, NULL, false);
        read = holder == NULL ? -1 : read_described(reading, holder);
        Py_XDECREF((PyObject *)holder);
        if (read < 0 && !PyErr_Occurred()) { /* it has lost the method that it had */
            check_in_python(python.no_protocol, PyTuple_Pack(1, reading->obj));
        }
    }
    return read;
}

/* Reads the object's bytes: its buffer, of any data type, or a SharedMemory's; without one, the tensor that asdlpack makes
 * of it. */
static int read_memory(struct reading *reading)
{
    PyObject *obj = reading->obj;
    if (PyCapsule_CheckExact(obj) || structure_reader(obj) != NULL) {
        /* A capsule would be lost if the rest is refused, and a pointer has no length. */
        return check_in_python(python.refuse_tensor, PyTuple_New(0));
    }
    bool is_tensor = Py_IS_TYPE(obj, DLPackObject_type);
    if (!is_tensor && PyObject_CheckBuffer(obj)) {
        reading->protocol = "buffer";
        int read = check_mask(obj) < 0 ? -1 : try_bytes(reading, obj);
        bool may_be_pointer = read > 0 && reading->request.span == sizeof(void *) && !PyBytes_CheckExact(obj) &&
                              !PyByteArray_CheckExact(obj);
        if (may_be_pointer && check_in_python(python.refuse_pointer, PyTuple_Pack(1, obj)) < 0) {
            return -1;
        }
        return read != 0 ? read : read_tensor(reading);
    }
    if (is_tensor || known_type(obj) == HAS_DLPACK || known_exchange(obj) != NULL) {
        return read_tensor(reading);
    }
    PyObject *buffer = call_python(python.buffer_in, PyTuple_Pack(1, obj));
    int read = -1;
    if (buffer == Py_None) {
        read = read_tensor(reading);
    }
    else if (buffer != NULL) {
        reading->protocol = "buffer";
        read = read_bytes(reading, buffer) < 0 ? -1 : 1;
    }
    Py_DecRef(buffer);
    return read;
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
    struct reading reading;
    request_init(&reading.request, PROTOCOL_MEMORY);
    if (!read_arguments(&parameters, &given, args, nargs, kwnames) || !plain_copy(given.copy, &copy) ||
        (given.offset != NULL && !plain_address(given.offset, &reading.request.offset)) ||
        !plain_layout(given.dtype, given.shape, given.strides, &reading.request)) {
        return read_in_python(python.plain_frombuffer, NULL, args, nargs, kwnames);
    }
    struct memory *begun = object_begin(&reading, given.obj, copy, NULL);
    int read = begun == NULL ? -1 : read_memory(&reading);
    struct memory *self = object_of(read, begun, &reading);
    if (self == NULL && read > 0) {
        check_in_python(python.stream_failed, Py_BuildValue("(OsN)", given.obj, reading.protocol, take_exception()));
    }
    return (PyObject *)self;
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
    struct reading reading;
    struct request *request = &reading.request;
    request_init(request, PROTOCOL_MEMORY);
    if (!read_arguments(&parameters, &given, args, nargs, kwnames) || !plain_address(given.pointer, &request->data) ||
        given.shape == Py_None || /* a pointer has no length */
        !plain_layout(given.dtype, given.shape, given.strides, request) || !PyBool_Check(given.readonly) ||
        (given.device != names.cpu && !plain_device(given.device, &request->device)) ||
        (given.stream != Py_None && !plain_int(given.stream, &request->producer_stream))) {
        return read_in_python(python.plain_from_pointer, NULL, args, nargs, kwnames);
    }
    request->facts |= given.stream != Py_None ? FACT_STREAM : 0;
    struct memory *begun = object_begin(&reading, given.owner == Py_None ? NULL : given.owner, COPY_NEVER, NULL);
    reading.protocol = "pointer";
    reading.readonly = given.readonly == Py_True;
    return (PyObject *)object_of(1, begun, &reading);
}

PyObject *keep(PyObject *Py_UNUSED(module), PyObject *args)
{
    DLPackObject *x;
    PyObject *obj;
    int readonly;
    if (!PyArg_ParseTuple(args, "O!Op", DLPackObject_type, &x, &obj, &readonly)) {
        return NULL;
    }
    struct reading reading;
    struct memory *tensor = tensor_of(x);
    struct memory *begun =
        tensor == NULL ? NULL : object_begin(&reading, obj == Py_None ? NULL : obj, COPY_NEVER, NULL);
    if (begun == NULL) {
        return NULL;
    }
    read_object(&reading, tensor);
    reading.readonly = reading.readonly || readonly;
    return (PyObject *)object_of(1, begun, &reading);
}

/* interface.c: reads __array_interface__, __array_struct__ and __cuda_array_interface__.
 *
 * It is C because that is one pass over Python objects. What the values mean is decided in Go; here they only have
 * to be of the types that the protocols name. */
#include "read/array_struct.h"
#include "read/read.h"

#include <stdio.h>
#include <string.h>

/* The fields of an interface dict, in use: new references, NULL where absent or None. */
struct fields {
    const char *protocol;
    PyObject *typestr, *shape, *strides, *data, *offset, *mask, *version, *stream;
};

static void drop_fields(struct fields *fields)
{
    Py_XDECREF(fields->typestr);
    Py_XDECREF(fields->shape);
    Py_XDECREF(fields->strides);
    Py_XDECREF(fields->data);
    Py_XDECREF(fields->offset);
    Py_XDECREF(fields->mask);
    Py_XDECREF(fields->version);
    Py_XDECREF(fields->stream);
}

static int wrong(const char *protocol, const char *field, const char *expected, PyObject *value)
{
    if (value == NULL) {
        PyErr_Format(PyExc_ValueError, "%s: no '%s'; expected %s", protocol, field, expected);
        return -1;
    }
    PyObject *repr = short_repr(value);
    if (repr != NULL) {
        PyErr_Format(PyExc_ValueError, "%s['%s']: expected %s, got %U", protocol, field, expected, repr);
        Py_DECREF(repr);
    }
    return -1;
}

static int take_field(PyObject *dict, PyObject *name, PyObject **value)
{
    int found = dict_item(dict, name, value);
    if (*value == Py_None) {
        Py_CLEAR(*value);
    }
    return found < 0 ? -1 : 0;
}

static int take_fields(PyObject *dict, struct fields *fields)
{
    if (!PyDict_Check(dict)) {
        PyObject *repr = short_repr(dict);
        if (repr != NULL) {
            PyErr_Format(PyExc_ValueError, "%s: expected a dict, got %U", fields->protocol, repr);
            Py_DECREF(repr);
        }
        return -1;
    }
    if (take_field(dict, names.typestr, &fields->typestr) < 0 || take_field(dict, names.shape, &fields->shape) < 0 ||
        take_field(dict, names.strides, &fields->strides) < 0 || take_field(dict, names.data, &fields->data) < 0 ||
        take_field(dict, names.offset, &fields->offset) < 0 || take_field(dict, names.mask, &fields->mask) < 0 ||
        take_field(dict, names.version, &fields->version) < 0) {
        return -1;
    }
    return 0;
}

static int read_dims(const char *protocol, const char *field, PyObject *value, int64_t *dims, int32_t *count)
{
    int read = value == NULL ? 0 : read_ints(value, dims, count);
    return read == 0 ? wrong(protocol, field, "a tuple of ints of 64 bits", value) : read;
}

static int read_layout(const struct fields *fields, struct request *request)
{
    int64_t strides[MAX_NDIM];
    if (read_dims(fields->protocol, "shape", fields->shape, request->dims, &request->ndim) < 0) {
        return -1;
    }
    if (fields->strides != NULL) {
        if (read_dims(fields->protocol, "strides", fields->strides, strides, &request->stride_count) < 0) {
            return -1;
        }
        request->facts |= FACT_STRIDES;
        if (request->stride_count == request->ndim && request->ndim <= MAX_NDIM) {
            memcpy(request->dims + request->ndim, strides, (size_t)request->ndim * sizeof *strides);
        }
    }
    return 0;
}

/* ml_dtypes hides its types behind "V1", "V2", "W4" and "f1": there obj.dtype.name says what the items are. 0: also
 * where obj has no such name. */
static int read_hidden_name(PyObject *obj, PyObject **name)
{
    PyObject *dtype;
    *name = NULL;
    int found = optional_attribute(obj, names.dtype, &dtype);
    if (found > 0) {
        found = optional_attribute(dtype, names.name, name);
        Py_DECREF(dtype);
    }
    return found < 0 ? -1 : 0;
}

/* The typestr becomes the request's format, and where it may hide the type, the type's name behind it. */
static int read_typestr(DLPackObject *self, struct request *request, const char *typestr)
{
    bool hides = strlen(typestr) > 2 && (typestr[1] == 'V' || typestr[1] == 'W' || strcmp(typestr + 1, "f1") == 0);
    if (!hides) {
        request_format(request, typestr);
        return 0;
    }
    PyObject *name;
    if (read_hidden_name(self->obj, &name) < 0) {
        return -1;
    }
    const char *text;
    char both[FORMAT_SIZE];
    int read = read_text(name, &text);
    bool fits = read > 0 && snprintf(both, sizeof both, "%s %s", typestr, text) < (int)sizeof both;
    request_format(request, fits ? both : typestr);
    Py_XDECREF(name);
    return read < 0 ? -1 : 0;
}

/* (address, readonly) */
static int read_address(DLPackObject *self, const struct fields *fields, struct request *request)
{
    static const char expected[] = "(address, readonly) with an address of 64 bits";
    PyObject *data = fields->data;
    if (data == NULL || !PyTuple_Check(data) || PyTuple_Size(data) != 2) {
        return wrong(fields->protocol, "data", expected, data);
    }
    int read = read_int(PyTuple_GetItem(data, 0), false, &request->data);
    if (read <= 0) {
        return read < 0 ? -1 : wrong(fields->protocol, "data", expected, data);
    }
    int readonly = PyObject_IsTrue(PyTuple_GetItem(data, 1));
    if (readonly > 0) {
        self->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    }
    return readonly < 0 ? -1 : 0;
}

/* The interface of a numpy scalar has the address of a temporary array, which is gone already; its buffer is itself. */
static bool is_scalar_with_buffer(PyObject *obj, const struct request *request)
{
    return request->ndim == 0 && PyObject_CheckBuffer(obj);
}

/* data as an address, as an object with a buffer, or absent: then the object itself has the buffer. */
static int read_data(DLPackObject *self, const struct fields *fields, struct request *request)
{
    if (fields->offset != NULL) {
        int read = read_int(fields->offset, false, &request->offset);
        if (read <= 0) {
            return read < 0 ? -1 : wrong(fields->protocol, "offset", "a number of bytes", fields->offset);
        }
    }
    if (fields->data != NULL && PyTuple_Check(fields->data)) {
        if (is_scalar_with_buffer(self->obj, request)) {
            if (read_bytes(self, self->obj, request) == 0) {
                return 0;
            }
            if (!PyErr_ExceptionMatches(PyExc_BufferError) && !PyErr_ExceptionMatches(PyExc_ValueError)) {
                return -1;
            }
            PyErr_Clear(); /* a 0-d array of a type that buffers can't say has an address that is its own */
        }
        return read_address(self, fields, request);
    }
    PyObject *exporter = fields->data == NULL ? self->obj : fields->data;
    if (!PyObject_CheckBuffer(exporter)) {
        return wrong(fields->protocol, "data",
                     "(address, readonly), an object with a buffer, or nothing where the object itself has a buffer",
                     fields->data);
    }
    return read_bytes(self, exporter, request);
}

static int read_version(const struct fields *fields, struct request *request, uint16_t otherwise)
{
    uint64_t version = otherwise;
    if (fields->version != NULL) {
        int read = read_int(fields->version, false, &version);
        if (read <= 0) {
            return read < 0 ? -1 : wrong(fields->protocol, "version", "an int from 0 on", fields->version);
        }
    }
    request->version = version > UINT16_MAX ? UINT16_MAX : (uint16_t)version;
    return 0;
}

static int read_interface(DLPackObject *self, struct request *request, PyObject *attribute, enum protocol protocol,
                          struct fields *fields)
{
    PyObject *dict;
    int found = optional_attribute(self->obj, attribute, &dict);
    if (found <= 0) {
        return found;
    }
    if (dict == Py_None) {
        Py_DecRef(dict);
        return 0;
    }
    request_init(request, protocol);
    int taken = take_fields(dict, fields);
    if (taken == 0 && protocol == PROTOCOL_CUDA_ARRAY_INTERFACE) {
        taken = take_field(dict, names.stream, &fields->stream);
    }
    Py_DECREF(dict);
    if (taken < 0) {
        return -1;
    }
    const char *typestr;
    int read = read_text(fields->typestr, &typestr);
    if (read == 0 || (read > 0 && strchr(typestr, ' ') != NULL)) {
        return wrong(fields->protocol, "typestr", "a str such as '<f4'", fields->typestr);
    }
    if (read < 0) {
        return -1;
    }
    if (read_typestr(self, request, typestr) < 0 || read_layout(fields, request) < 0) {
        return -1;
    }
    request->long_format = NULL; /* the dict goes; Go sees the beginning and the length of what is no typestr anyway */
    if (fields->mask != NULL) {
        request->facts |= FACT_MASK;
    }
    return 1;
}

int read_array_interface(DLPackObject *self, struct request *request)
{
    struct fields fields = {.protocol = self->protocol};
    int found = read_interface(self, request, names.array_interface, PROTOCOL_ARRAY_INTERFACE, &fields);
    if (found > 0 && (read_data(self, &fields, request) < 0 || read_version(&fields, request, 3) < 0)) {
        found = -1;
    }
    drop_fields(&fields);
    return found;
}

int read_cuda_array_interface(DLPackObject *self, struct request *request)
{
    struct fields fields = {.protocol = self->protocol};
    int found = read_interface(self, request, names.cuda_array_interface, PROTOCOL_CUDA_ARRAY_INTERFACE, &fields);
    if (found > 0) {
        request->device = (DLDevice){kDLCUDA, 0};
        if (fields.stream != NULL) {
            request->facts |= FACT_STREAM;
            int read = read_int(fields.stream, true, &request->producer_stream);
            found = read == 0 ? wrong(fields.protocol, "stream", "None or an int of 64 bits", fields.stream) : read;
        }
    }
    if (found > 0 && (read_address(self, &fields, request) < 0 || read_version(&fields, request, 0) < 0)) {
        found = -1;
    }
    drop_fields(&fields);
    return found;
}

static int read_array_struct_capsule(DLPackObject *self, PyObject *capsule, struct request *request)
{
    if (!PyCapsule_CheckExact(capsule) || !PyCapsule_IsValid(capsule, NULL)) {
        raise_unexpected(PyExc_ValueError, "__array_struct__: expected a capsule without a name", capsule);
        return -1;
    }
    const PyArrayInterface *array = PyCapsule_GetPointer(capsule, NULL);
    if (array->two != 2) {
        PyErr_Format(PyExc_ValueError, "__array_struct__: its field two is %d, expected 2", array->two);
        return -1;
    }
    char typestr[16];
    snprintf(typestr, sizeof typestr, "%c%c%d", array->flags & ARRAY_NOTSWAPPED ? '<' : '>', array->typekind,
             array->itemsize);
    request_init(request, PROTOCOL_ARRAY_STRUCT);
    request->ndim = array->nd;
    request->data = (uint64_t)(uintptr_t)array->data;
    request_dims(request, array->shape, array->strides, array->itemsize);
    if (!(array->flags & ARRAY_WRITEABLE)) {
        self->flags |= DLPACK_FLAG_BITMASK_READ_ONLY;
    }
    return read_typestr(self, request, typestr);
}

int read_array_struct(DLPackObject *self, struct request *request)
{
    PyObject *capsule;
    int found = optional_attribute(self->obj, names.array_struct, &capsule);
    if (found <= 0) {
        return found;
    }
    if (capsule == Py_None) {
        Py_DecRef(capsule);
        return 0;
    }
    /* The capsule is held, since its memory may be its own. */
    self->object = capsule;
    self->holding = HOLDS_OBJECT;
    return read_array_struct_capsule(self, capsule, request) < 0 ? -1 : 1;
}

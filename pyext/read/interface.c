/* interface.c: reads __array_interface__, __array_struct__ and __cuda_array_interface__.
 *
 * It is C because that is one pass over Python objects. What the values mean is decided in Go; here they only have
 * to be of the types that the protocols name. */
#include "read/array_struct.h"
#include "read/read.h"

#include <stdio.h>
#include <string.h>

/* The fields of an interface dict, in use. Only the CUDA array interface has a stream. */
enum field { TYPESTR, SHAPE, STRIDES, DATA, OFFSET, MASK, VERSION, STREAM, FIELDS };

static PyObject *const *const field_names[FIELDS] = {
    &names.typestr, &names.shape, &names.strides, &names.data,
    &names.offset,  &names.mask,  &names.version, &names.stream,
};

struct fields {
    const char *protocol;
    PyObject *values[FIELDS]; /* new references, NULL where absent or None */
};

static void drop_fields(struct fields *fields)
{
    for (int i = 0; i < FIELDS; i++) {
        Py_XDECREF(fields->values[i]);
    }
}

/* Raises ValueError for a field that is absent or not what was expected. -1. */
static int wrong(const struct fields *fields, enum field field, const char *expected)
{
    PyObject *value = fields->values[field], *name = *field_names[field];
    raise_text(PyExc_ValueError, PYTHON_WRONG_FIELD,
               Py_BuildValue(value == NULL ? "(sOs)" : "(sOsO)", fields->protocol, name, expected, value));
    return -1;
}

static int take_fields(PyObject *dict, struct fields *fields, enum field count)
{
    if (!PyDict_Check(dict)) {
        raise_text(PyExc_ValueError, PYTHON_UNEXPECTED,
                   Py_BuildValue("(NO)", PyUnicode_FromFormat("%s: expected a dict", fields->protocol), dict));
        return -1;
    }
    for (enum field i = 0; i < count; i++) {
        PyObject **value = &fields->values[i];
        if (dict_item(dict, *field_names[i], value) < 0) {
            return -1;
        }
        if (*value == Py_None) {
            Py_CLEAR(*value);
        }
    }
    return 0;
}

static int read_number(const struct fields *fields, enum field field, bool is_signed, void *into, const char *expected)
{
    int read = read_int(fields->values[field], is_signed, into);
    return read == 0 ? wrong(fields, field, expected) : read;
}

static int read_dims(const struct fields *fields, enum field field, int64_t *dims, int32_t *count)
{
    PyObject *value = fields->values[field];
    int read = value == NULL ? 0 : read_ints(value, dims, count);
    return read == 0 ? wrong(fields, field, "a tuple of ints of 64 bits") : read;
}

static int read_layout(const struct fields *fields, struct request *request)
{
    if (read_dims(fields, SHAPE, request->dims, &request->ndim) < 0) {
        return -1;
    }
    if (fields->values[STRIDES] == NULL) {
        return 0;
    }
    request->facts |= FACT_STRIDES;
    int64_t *strides = request->dims + (request->ndim <= MAX_NDIM ? request->ndim : 0);
    return read_dims(fields, STRIDES, strides, &request->stride_count);
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
    PyObject *data = fields->values[DATA];
    int read = 0;
    if (data != NULL && PyTuple_Check(data) && PyTuple_Size(data) == 2) {
        read = read_int(PyTuple_GetItem(data, 0), false, &request->data);
    }
    if (read <= 0) {
        return read < 0 ? -1 : wrong(fields, DATA, "(address, readonly) with an address of 64 bits");
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
    PyObject *data = fields->values[DATA];
    if (fields->values[OFFSET] != NULL &&
        read_number(fields, OFFSET, false, &request->offset, "a number of bytes") < 0) {
        return -1;
    }
    if (data != NULL && PyTuple_Check(data)) {
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
    PyObject *exporter = data == NULL ? self->obj : data;
    if (!PyObject_CheckBuffer(exporter)) {
        return wrong(fields, DATA,
                     "(address, readonly), an object with a buffer, or nothing where the object itself has a buffer");
    }
    return read_bytes(self, exporter, request);
}

static int read_version(const struct fields *fields, struct request *request, uint16_t otherwise)
{
    uint64_t version = otherwise;
    if (fields->values[VERSION] != NULL && read_number(fields, VERSION, false, &version, "an int from 0 on") < 0) {
        return -1;
    }
    request->version = version > UINT16_MAX ? UINT16_MAX : (uint16_t)version;
    return 0;
}

/* What the interfaces have in common, but for where the data are: typestr, shape, strides, mask. */
static int read_items(DLPackObject *self, const struct fields *fields, struct request *request)
{
    const char *typestr;
    int read = read_text(fields->values[TYPESTR], &typestr);
    if (read < 0) {
        return -1;
    }
    if (read == 0 || strchr(typestr, ' ') != NULL) {
        return wrong(fields, TYPESTR, "a str such as '<f4'");
    }
    if (read_typestr(self, request, typestr) < 0 || read_layout(fields, request) < 0) {
        return -1;
    }
    request->long_format = NULL; /* the dict goes; Go sees the beginning and the length of what is no typestr anyway */
    if (fields->values[MASK] != NULL) {
        request->facts |= FACT_MASK;
    }
    return 0;
}

static int read_stream(const struct fields *fields, struct request *request)
{
    if (fields->values[STREAM] == NULL) {
        return 0;
    }
    request->facts |= FACT_STREAM;
    return read_number(fields, STREAM, true, &request->producer_stream, "None or an int of 64 bits");
}

/* The attribute's dict; what it leads to is read while the dict and its fields are held. 1: read; 0: absent or None; -1:
 * error. */
static int read_interface(DLPackObject *self, struct request *request, PyObject *attribute, enum protocol protocol)
{
    bool of_cuda = protocol == PROTOCOL_CUDA_ARRAY_INTERFACE;
    struct fields fields = {.protocol = self->protocol};
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
    if (take_fields(dict, &fields, of_cuda ? FIELDS : STREAM) < 0 || read_items(self, &fields, request) < 0) {
        found = -1;
    }
    else if (of_cuda) {
        request->device = (DLDevice){kDLCUDA, 0};
        if (read_stream(&fields, request) < 0 || read_address(self, &fields, request) < 0 ||
            read_version(&fields, request, 0) < 0) {
            found = -1;
        }
    }
    else if (read_data(self, &fields, request) < 0 || read_version(&fields, request, 3) < 0) {
        found = -1;
    }
    Py_DECREF(dict);
    drop_fields(&fields);
    return found;
}

int read_array_interface(DLPackObject *self, struct request *request)
{
    return read_interface(self, request, names.array_interface, PROTOCOL_ARRAY_INTERFACE);
}

int read_cuda_array_interface(DLPackObject *self, struct request *request)
{
    return read_interface(self, request, names.cuda_array_interface, PROTOCOL_CUDA_ARRAY_INTERFACE);
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

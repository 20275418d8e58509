/* interface.c: reads __array_interface__, __array_struct__ and __cuda_array_interface__.
 *
 * It is C because it is one pass over Python objects. It checks only the types of the values; Go decides what they
 * mean. */
#include "read/array_struct.h"
#include "read/read.h"

#include <stdio.h>
#include <string.h>

/* The fields of an interface dict that are read. Only the CUDA array interface has the last one. */
enum field { TYPESTR, SHAPE, STRIDES, DATA, OFFSET, MASK, VERSION, STREAM, FIELDS };

static PyObject *const *const field_names[FIELDS] = {
    &names.typestr, &names.shape, &names.strides, &names.data,
    &names.offset,  &names.mask,  &names.version, &names.stream,
};

/* Gets dict[key]. 1: *value is a new reference; 0: absent, *value is NULL; -1: error. */
HOT static int dict_item(PyObject *dict, PyObject *key, PyObject **value)
{
#ifdef Py_GIL_DISABLED
    return PyDict_GetItemRef(dict, key, value);
#else
    *value = Py_XNewRef(PyDict_GetItemWithError(dict, key));
    return *value != NULL ? 1 : PyErr_Occurred() ? -1 : 0;
#endif
}

/* Stores new references, or NULL for a field that is absent or None. -1: error. */
HOT static int take_fields(PyObject *dict, PyObject **fields, int count)
{
    for (int i = 0; i < count; i++) {
        if (dict_item(dict, *field_names[i], &fields[i]) < 0) {
            return -1;
        }
        if (fields[i] == Py_None) {
            Py_CLEAR(fields[i]);
        }
    }
    return 0;
}

/* Makes the typestr the request's format. ml_dtypes hides its types behind "V1", "V2", "W4" and "f1": for these, Python
 * adds obj.dtype.name. No valid typestr is long; of a long one Go quotes the beginning. */
HOT static int read_typestr(struct reading *reading, const char *typestr)
{
    struct request *request = &reading->request;
    request_format(request, typestr);
    request->long_format = NULL;
    if (strlen(typestr) < 3 || (typestr[1] != 'V' && typestr[1] != 'W' && strcmp(typestr + 1, "f1") != 0)) {
        return 0;
    }
    PyObject *named = call_python(python.name_hidden, Py_BuildValue("(Os)", reading->obj, typestr));
    if (named != NULL && PyBytes_Size(named) < FORMAT_SIZE) {
        request_format(request, PyBytes_AsString(named));
    }
    Py_XDECREF(named);
    return named == NULL ? -1 : 0;
}

/* Reads (address, readonly). */
HOT static bool plain_data(PyObject *data, uint64_t *address)
{
    return PyTuple_Size(data) == 2 && plain_address(PyTuple_GetItem(data, 0), address) &&
           PyBool_Check(PyTuple_GetItem(data, 1));
}

/* false: a required field is absent, or one is not plain. */
HOT static bool plain_fields(PyObject *const *fields, bool of_cuda, const char **typestr, struct request *request)
{
    uint64_t version = of_cuda ? 0 : 3;
    PyObject *data = fields[DATA], *stream = fields[STREAM], *offset = of_cuda ? NULL : fields[OFFSET];
    if (fields[TYPESTR] == NULL || !plain_text(fields[TYPESTR], typestr) || strchr(*typestr, ' ') != NULL ||
        fields[SHAPE] == NULL || !plain_ints(fields[SHAPE], request->dims, &request->ndim) ||
        (fields[STRIDES] != NULL && !plain_ints(fields[STRIDES], strides_in(request), &request->stride_count)) ||
        (fields[VERSION] != NULL && !plain_address(fields[VERSION], &version)) ||
        (stream != NULL && !plain_int(stream, &request->producer_stream)) ||
        (offset != NULL && !plain_address(offset, &request->offset))) {
        return false;
    }
    request->version = version > UINT16_MAX ? UINT16_MAX : (uint16_t)version;
    request->device.device_type = of_cuda ? kDLCUDA : kDLCPU;
    request->facts |= fields[MASK] == NULL ? 0 : FACT_MASK;
    request->facts |= fields[STRIDES] == NULL ? 0 : FACT_STRIDES;
    request->facts |= stream == NULL ? 0 : FACT_STREAM;
    return data == NULL || !PyTuple_Check(data) ? !of_cuda : plain_data(data, &request->data);
}

/* Reads a numpy scalar by its buffer, since its interface has the address of a temporary array, which is gone already.
 * 1: read; 0: not a scalar, or of a type that buffers can't describe, whose address is its own; -1: error. */
__attribute__((cold)) static int read_scalar(struct reading *reading)
{
    PyObject *is_scalar = call_python(python.is_numpy_scalar, PyTuple_Pack(1, reading->obj));
    int read = is_scalar == Py_True ? try_bytes(reading, reading->obj) : is_scalar == NULL ? -1 : 0;
    Py_XDECREF(is_scalar);
    return read;
}

/* Reads data: an address, an object with a buffer, or absent, if the object itself has the buffer. */
HOT static int read_data(struct reading *reading, PyObject *data)
{
    if (data == NULL || !PyTuple_Check(data)) {
        PyObject *exporter = data == NULL ? reading->obj : data;
        if (PyObject_CheckBuffer(exporter)) {
            return read_bytes(reading, exporter);
        }
        return check_in_python(python.no_buffer, Py_BuildValue("(sO)", reading->protocol, data ? data : Py_None));
    }
    const struct request *request = &reading->request;
    bool may_be_scalar = request->protocol == PROTOCOL_ARRAY_INTERFACE && request->ndim == 0;
    int read = may_be_scalar && PyObject_CheckBuffer(reading->obj) ? read_scalar(reading) : 0;
    if (read == 0) {
        reading->readonly = PyTuple_GetItem(data, 1) == Py_True;
    }
    return read < 0 ? -1 : 0;
}

/* Reads the fields of a dict, and holds them meanwhile. 1: read; 0: they are not plain; -1: error. */
HOT static int read_plain(struct reading *reading, PyObject *dict)
{
    PyObject *fields[FIELDS] = {NULL};
    const char *typestr;
    bool of_cuda = reading->request.protocol == PROTOCOL_CUDA_ARRAY_INTERFACE;
    int count = of_cuda ? FIELDS : STREAM;
    int read = take_fields(dict, fields, count) < 0 ? -1 : plain_fields(fields, of_cuda, &typestr, &reading->request);
    if (read > 0 && (read_typestr(reading, typestr) < 0 || read_data(reading, fields[DATA]) < 0)) {
        read = -1;
    }
    struct pending pending; /* an exception, which the end of a field must not lose */
    set_aside(&pending);
    for (int i = 0; i < count; i++) {
        Py_XDECREF(fields[i]);
    }
    put_back(&pending);
    return read;
}

/* Python makes the dict plain if it is not. */
HOT int read_interface(struct reading *reading, PyObject *dict)
{
    int read = PyDict_Check(dict) ? read_plain(reading, dict) : 0;
    if (read == 0) {
        PyObject *plain = call_python(python.plain_interface, Py_BuildValue("(sO)", reading->protocol, dict));
        request_init(&reading->request, reading->request.protocol);
        read = plain == NULL ? -1 : read_plain(reading, plain);
        Py_XDECREF(plain);
        if (read == 0) { /* no memory for the UTF-8 of its typestr */
            PyErr_NoMemory();
            read = -1;
        }
    }
    return read;
}

/* True if the struct has no strides, and its flags say column-major. Then fills in the strides. */
static bool flags_say_column_major(const PyArrayInterface *array, int64_t *strides)
{
    int order = array->flags & (ARRAY_C_CONTIGUOUS | ARRAY_F_CONTIGUOUS);
    if (array->strides != NULL || order != ARRAY_F_CONTIGUOUS || array->shape == NULL || array->nd > MAX_NDIM) {
        return false;
    }
    uint64_t following = (uint64_t)array->itemsize;
    for (int i = 0; i < array->nd; i++) {
        strides[i] = (int64_t)following;
        following *= (uint64_t)array->shape[i];
    }
    return true;
}

int read_array_struct(struct reading *reading, PyObject *capsule)
{
    struct request *request = &reading->request;
    reading->hold->object = Py_NewRef(capsule); /* it may own the memory */
    reading->hold->holding = HOLDS_OBJECT;
    if (!PyCapsule_IsValid(capsule, NULL)) {
        return check_in_python(python.refuse_in_words, Py_BuildValue("(sO)", "no-array-struct", capsule));
    }
    const PyArrayInterface *array = PyCapsule_GetPointer(capsule, NULL);
    if (array->two != 2) {
        return check_in_python(python.refuse_in_words, Py_BuildValue("(si)", "not-two", array->two));
    }
    char typestr[16];
    snprintf(typestr, sizeof typestr, "%c%c%d", array->flags & ARRAY_NOTSWAPPED ? '<' : '>', array->typekind,
             array->itemsize);
    request->ndim = array->nd;
    request->data = (uint64_t)(uintptr_t)array->data;
    int64_t strides[MAX_NDIM];
    bool column_major = flags_say_column_major(array, strides);
    request_dims(request, array->shape, column_major ? strides : array->strides, array->itemsize);
    reading->readonly = !(array->flags & ARRAY_WRITEABLE);
    return read_typestr(reading, typestr) < 0 ? -1 : 1;
}

/* object.c: DLPackObject, which holds one piece of memory and says what it is.
 *
 * It is C because its slots and the release of what it holds must work without Go. */
#include "extension.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <structmember.h>

PyTypeObject *DLPackObject_type;

static PyObject *DLDeviceType; /* the enum of dlpack._device */

/* Ownership: what a DLPackObject holds, taken and given back. */

DLPackObject *object_new(PyObject *obj, enum copy copy)
{
    DLPackObject *self = PyObject_GC_New(DLPackObject, DLPackObject_type);
    if (self == NULL) {
        return NULL;
    }
    memset((char *)self + offsetof(DLPackObject, weakrefs), 0, sizeof *self - offsetof(DLPackObject, weakrefs));
    self->obj = Py_XNewRef(obj);
    self->copy = copy;
    return self;
}

void delete_managed(void *managed, bool versioned)
{
    if (versioned) {
        DLManagedTensorVersioned *tensor = managed;
        if (tensor->deleter != NULL) {
            tensor->deleter(tensor);
        }
    }
    else {
        DLManagedTensor *tensor = managed;
        if (tensor->deleter != NULL) {
            tensor->deleter(tensor);
        }
    }
}

void object_hold_managed(DLPackObject *self, void *managed, bool versioned)
{
    if (self->holding == HOLDS_MEMORY) {
        delete_managed(managed, versioned);
    }
    else {
        self->holding = versioned ? HOLDS_VERSIONED : HOLDS_LEGACY;
        self->managed = managed;
    }
}

/* Exporters and deleters are foreign code: an exception that is pending meanwhile must outlive it. */
static void give_back(DLPackObject *self)
{
    enum holding held = self->holding;
    PyObject *type, *value, *traceback;
    self->holding = HOLDS_NOTHING;
    PyErr_Fetch(&type, &value, &traceback);
    switch (held) {
    case HOLDS_NOTHING:
        break;
    case HOLDS_VIEW:
        PyBuffer_Release(&self->view);
        break;
    case HOLDS_OBJECT:
        Py_CLEAR(self->object);
        break;
    case HOLDS_LEGACY:
    case HOLDS_VERSIONED:
        delete_managed(self->managed, held == HOLDS_VERSIONED);
        break;
    case HOLDS_MEMORY:
        free(self->memory);
        break;
    }
    Py_CLEAR(self->obj);
    PyErr_Restore(type, value, traceback);
}

/* ctypes frees a structure, and the function that is its deleter, when the collector clears them, which may be before
 * this object is cleared: so the pointer that they live by isn't shown to it. */
static int object_traverse(DLPackObject *self, visitproc visit, void *arg)
{
    Py_VISIT(Py_TYPE((PyObject *)self));
    if (!holds_structure(self)) {
        Py_VISIT(self->obj);
    }
    Py_VISIT(self->imported);
    if (self->holding == HOLDS_VIEW) {
        Py_VISIT(self->view.obj);
    }
    else if (self->holding == HOLDS_OBJECT) {
        Py_VISIT(self->object);
    }
    return 0;
}

/* A finaliser of the same garbage may still reach this object, and finds it unusable. Where it may still reach the
 * memory, by a memoryview of the same garbage, the memory stays until that is released, which breaks the cycle too. */
static int object_clear(DLPackObject *self)
{
    if (self->exports > 0) {
        return 0;
    }
    self->protocol = NULL;
    give_back(self);
    Py_CLEAR(self->imported);
    return 0;
}

static void object_free(DLPackObject *self)
{
    PyTypeObject *type = Py_TYPE((PyObject *)self);
    give_back(self);
    Py_CLEAR(self->imported);
    if (self->tensor.shape != self->dims) {
        free(self->tensor.shape);
    }
    PyObject_GC_Del(self);
    Py_DECREF((PyObject *)type);
}

/* What an object gives back may be the last reference to another, and so on: a long chain would overflow the stack, so
 * behind the first ones the rest waits until these are gone. */
static void object_dealloc(DLPackObject *self)
{
    enum { MOST = 50 };
    static _Thread_local int depth;
    static _Thread_local DLPackObject *waiting; /* linked by weakrefs, of which none are left */
    PyObject_GC_UnTrack(self);
    if (self->weakrefs != NULL) {
        PyObject_ClearWeakRefs((PyObject *)self);
    }
    if (depth == MOST) {
        self->weakrefs = (PyObject *)waiting;
        waiting = self;
        return;
    }
    depth++;
    object_free(self);
    while (depth == 1 && waiting != NULL) {
        DLPackObject *next = waiting;
        waiting = (DLPackObject *)next->weakrefs;
        object_free(next);
    }
    depth--;
}

/* Description: from the request to the tensor. */

int object_describe(DLPackObject *self, struct request *request)
{
    struct answer answer;
    request->copy = self->copy;
    if (ask(request, &answer) < 0) {
        return -1;
    }
    int64_t *dims = self->dims;
    size_t bytes = 2 * (size_t)answer.ndim * sizeof *dims;
    if (answer.ndim > INLINE_NDIM && (dims = malloc(bytes)) == NULL) {
        free(answer.memory);
        PyErr_NoMemory();
        return -1;
    }
    memcpy(dims, answer.dims, bytes);
    self->tensor = (DLTensor){
        .data = (void *)(uintptr_t)(request->data + answer.offset),
        .device = answer.device,
        .ndim = answer.ndim,
        .dtype = answer.dtype,
        .shape = dims,
        .strides = dims + answer.ndim,
        .byte_offset = answer.byte_offset,
    };
    self->flags = answer.flags | (self->flags & DLPACK_FLAG_BITMASK_READ_ONLY);
    self->itemsize = answer.itemsize;
    self->versioned_only = answer.versioned_only;
    self->on_cpu = answer.on_cpu;
    memcpy(self->dtype_name, answer.name, sizeof self->dtype_name);
    memcpy(self->format, answer.format, sizeof self->format);
    memcpy(self->arrow, answer.arrow, sizeof self->arrow);
    memcpy(self->typestr, answer.typestr, sizeof self->typestr);
    if (answer.memory != NULL) {
        give_back(self);
        self->memory = answer.memory;
        self->holding = HOLDS_MEMORY;
        self->flags &= ~DLPACK_FLAG_BITMASK_READ_ONLY;
    }
    PyObject_GC_Track(self);
    return 0;
}

DLPackObject *object_under(DLPackObject *self, const struct request *conditions)
{
    DLPackObject *other = object_new(NULL, conditions->copy);
    if (other == NULL) {
        return NULL;
    }
    other->protocol = self->protocol;
    struct request request;
    request_tensor(&request, &self->tensor, self->flags);
    request.stream = conditions->stream;
    request.target = conditions->target;
    request.has_stream = conditions->has_stream;
    request.has_target = conditions->has_target;
    if (object_describe(other, &request) < 0) {
        Py_DECREF((PyObject *)other);
        return NULL;
    }
    if (other->holding != HOLDS_MEMORY) {
        Py_DECREF((PyObject *)other);
        return (DLPackObject *)Py_NewRef((PyObject *)self);
    }
    return other;
}

PyObject *object_copy(DLPackObject *self)
{
    struct request conditions;
    DLPackObject *tensor = tensor_of(self);
    if (tensor == NULL) {
        return NULL;
    }
    request_init(&conditions, PROTOCOL_DLTENSOR);
    conditions.copy = COPY_ALWAYS;
    return (PyObject *)object_under(tensor, &conditions);
}

int object_check(DLPackObject *self)
{
    if (self->protocol == NULL) {
        PyErr_SetString(PyExc_ValueError,
                        "this DLPackObject is no longer usable: the garbage collector took its memory away");
        return -1;
    }
    return 0;
}

/* A producer's memory may be said to be that of a DLPackObject, and so on in a circle: Python counts the calls of its
 * own functions, and none need be among these. */
static DLPackObject *import_nested(DLPackObject *self)
{
    enum { MOST = 50 };
    static _Thread_local int depth;
    if (depth == MOST) {
        PyErr_Format(PyExc_RecursionError,
                     "asdlpack: a producer's memory is another's, and so on %d times; expected memory at the end",
                     MOST);
        return NULL;
    }
    depth++;
    DLPackObject *imported = delegate_import(self);
    depth--;
    return imported;
}

DLPackObject *tensor_of(DLPackObject *self)
{
    if (object_check(self) < 0) {
        return NULL;
    }
    if (!self->delegate) {
        return self;
    }
    if (self->imported == NULL) {
        DLPackObject *imported = import_nested(self);
        if (imported == NULL) {
            return NULL;
        }
        if (self->imported == NULL) {
            self->imported = imported;
        }
        else {
            Py_DECREF((PyObject *)imported); /* the producer came back here, and the first import stays */
        }
    }
    return self->imported;
}

/* Attributes. */

PyObject *tuple_of(const int64_t *values, int32_t count, int64_t unit)
{
    PyObject *tuple = PyTuple_New(count);
    for (int32_t i = 0; i < count && tuple != NULL; i++) {
        PyObject *value = PyLong_FromLongLong(values[i] * unit);
        if (value == NULL || PyTuple_SetItem(tuple, i, value) < 0) {
            Py_CLEAR(tuple);
        }
    }
    return tuple;
}

static int64_t size_of(const DLTensor *tensor)
{
    int64_t size = 1;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        size *= tensor->shape[i];
    }
    return size;
}

static int64_t bits_of(const DLPackObject *self)
{
    return self->tensor.dtype.bits * self->tensor.dtype.lanes;
}

bool object_is_packed(const DLPackObject *self)
{
    return bits_of(self) % 8 != 0 && !(self->flags & DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED);
}

int64_t object_nbytes(const DLPackObject *self)
{
    int64_t size = size_of(&self->tensor), bits = bits_of(self);
    return object_is_packed(self) ? size / 8 * bits + (size % 8 * bits + 7) / 8 : size * self->itemsize;
}

bool object_is_compact(const DLPackObject *self, char order)
{
    const DLTensor *tensor = &self->tensor;
    int64_t following = 1;
    bool compact = true;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        int32_t dimension = order == 'C' ? tensor->ndim - 1 - i : i;
        int64_t length = tensor->shape[dimension];
        if (length == 0) {
            return true;
        }
        compact = compact && (length == 1 || tensor->strides[dimension] == following);
        following *= length;
    }
    return compact;
}

static PyObject *device_of(const DLTensor *tensor)
{
    PyObject *type = PyObject_CallFunction(DLDeviceType, "i", (int)tensor->device.device_type);
    return type == NULL ? NULL : Py_BuildValue("(Ni)", type, (int)tensor->device.device_id);
}

void *object_address(DLPackObject *self)
{
    return self->tensor.data == NULL ? self->dims : self->tensor.data;
}

/* "kDLCUDA:0" */
static PyObject *device_text(const DLTensor *tensor)
{
    PyObject *device = device_of(tensor), *text = NULL;
    PyObject *name = device == NULL ? NULL : PyObject_GetAttr(PyTuple_GetItem(device, 0), names.name);
    if (name != NULL) {
        text = PyUnicode_FromFormat("%S:%d", name, (int)tensor->device.device_id);
    }
    Py_XDECREF(device);
    Py_XDECREF(name);
    return text;
}

void object_refuse_device(const DLPackObject *self, const char *reason)
{
    PyObject *device = device_text(&self->tensor);
    if (device != NULL) {
        PyErr_Format(PyExc_BufferError, "device %U: %s", device, reason);
        Py_DECREF(device);
    }
}

int object_check_cpu(const DLPackObject *self)
{
    if (!self->on_cpu) {
        object_refuse_device(self,
                             "the CPU can't read this memory (copy it to the host with the library that owns it)");
    }
    return self->on_cpu ? 0 : -1;
}

void object_refuse_strides(const DLPackObject *self, const char *expected)
{
    const DLTensor *tensor = &self->tensor;
    PyObject *shape = tuple_of(tensor->shape, tensor->ndim, 1);
    PyObject *strides = shape == NULL ? NULL : tuple_of(tensor->strides, tensor->ndim, 1);
    if (strides != NULL) {
        PyErr_Format(PyExc_BufferError, "strides %R of shape %R: expected %s", strides, shape, expected);
        Py_DECREF(strides);
    }
    Py_XDECREF(shape);
}

enum attribute {
    IS_SHAPE,
    IS_STRIDES,
    IS_NDIM,
    IS_SIZE,
    IS_ITEMSIZE,
    IS_NBYTES,
    IS_DTYPE,
    IS_DEVICE,
    IS_READONLY,
    IS_POINTER
};

static PyObject *get_attribute(DLPackObject *self, void *which)
{
    DLPackObject *holder = tensor_of(self);
    if (holder == NULL) {
        return NULL;
    }
    const DLTensor *tensor = &holder->tensor;
    switch ((enum attribute)(intptr_t)which) {
    case IS_SHAPE:
        return tuple_of(tensor->shape, tensor->ndim, 1);
    case IS_STRIDES:
        return tuple_of(tensor->strides, tensor->ndim, 1);
    case IS_NDIM:
        return PyLong_FromLong(tensor->ndim);
    case IS_SIZE:
        return PyLong_FromLongLong(size_of(tensor));
    case IS_ITEMSIZE:
        return PyLong_FromLongLong(holder->itemsize);
    case IS_NBYTES:
        return PyLong_FromLongLong(object_nbytes(holder));
    case IS_DTYPE:
        return PyUnicode_FromString(holder->dtype_name);
    case IS_DEVICE:
        return device_of(tensor);
    case IS_READONLY:
        return PyBool_FromLong((holder->flags & DLPACK_FLAG_BITMASK_READ_ONLY) != 0);
    case IS_POINTER:
        return PyLong_FromVoidPtr(tensor->data);
    }
    Py_UNREACHABLE();
}

static PyObject *get_protocol(DLPackObject *self, void *Py_UNUSED(closure))
{
    return object_check(self) < 0 ? NULL : PyUnicode_FromString(self->protocol);
}

static PyObject *get_obj(DLPackObject *self, void *Py_UNUSED(closure))
{
    return Py_NewRef(self->obj == NULL ? Py_None : self->obj);
}

/* "float32[2, 3] at 0x7f0123456780, 24 bytes on kDLCPU:0, read-only" */
static PyObject *tensor_text(DLPackObject *holder)
{
    PyObject *shape = tuple_of(holder->tensor.shape, holder->tensor.ndim, 1), *list = NULL, *device = NULL,
             *text = NULL;
    char address[20];
    snprintf(address, sizeof address, "0x%llx", (unsigned long long)(uintptr_t)holder->tensor.data);
    if (shape != NULL && (list = PySequence_List(shape)) != NULL && (device = device_text(&holder->tensor)) != NULL) {
        text = PyUnicode_FromFormat("%s%S at %s, %lld bytes on %U%s%s", holder->dtype_name, list, address,
                                    (long long)object_nbytes(holder), device,
                                    holder->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? ", read-only" : "",
                                    holder->holding == HOLDS_MEMORY ? ", a copy" : "");
    }
    Py_XDECREF(shape);
    Py_XDECREF(list);
    Py_XDECREF(device);
    return text;
}

/* A delegate whose producer refuses still has a repr, which says so. */
static PyObject *object_repr(DLPackObject *self)
{
    DLPackObject *holder = tensor_of(self);
    PyObject *text = NULL, *type = NULL, *repr = NULL;
    if (holder != NULL) {
        text = tensor_text(holder);
    }
    else if (PyErr_ExceptionMatches(PyExc_Exception)) {
        text = take_exception_text();
    }
    if (text != NULL) {
        const char *protocol = holder == NULL ? self->protocol : holder->protocol;
        if (protocol == NULL) {
            repr = PyUnicode_FromFormat("<dlpack.DLPackObject: %U>", text);
        }
        else if (self->obj == NULL) {
            repr = PyUnicode_FromFormat("<dlpack.DLPackObject: %U, by %s>", text, protocol);
        }
        else if ((type = type_name(self->obj)) != NULL) {
            repr = PyUnicode_FromFormat("<dlpack.DLPackObject: %U, from %U by %s>", text, type, protocol);
        }
    }
    Py_XDECREF(text);
    Py_XDECREF(type);
    return repr;
}

/* Methods. */

static PyObject *object_dlpack_device(DLPackObject *self, PyObject *Py_UNUSED(ignored))
{
    DLDevice device = self->tensor.device;
    if (object_check(self) < 0 || (self->delegate && delegate_device(self, &device) < 0)) {
        return NULL;
    }
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

static PyObject *object_reduce(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    PyErr_SetString(
        PyExc_TypeError,
        "a DLPackObject can't be pickled or copied: it shares memory of this process (pickle the object it was "
        "made from; for a copy of the memory: asdlpack(obj, copy=True))");
    return NULL;
}

static PyMethodDef object_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))object_dlpack, METH_FASTCALL | METH_KEYWORDS,
     "__dlpack__($self, stream=None, *, max_version=None, dl_device=None, copy=None)\n"
     "--\n\n"
     "A capsule with this memory, as the array API standard says.\n\n"
     "\"dltensor_versioned\" where max_version is (1, 0) or later, otherwise \"dltensor\". The capsule keeps the memory\n"
     "alive until its consumer calls the deleter. Raises BufferError for a device or copy that can't be served, and\n"
     "ValueError for a stream that the device does not have."},
    {"__dlpack_device__", (PyCFunction)object_dlpack_device, METH_NOARGS,
     "__dlpack_device__($self)\n"
     "--\n\n"
     "(device type, device id) as ints."},
    {"__bytes__", object_bytes, METH_NOARGS,
     "__bytes__($self)\n"
     "--\n\n"
     "A copy of the items' bytes in row-major order, of any data type."},
    {"__array__", (PyCFunction)(void (*)(void))object_array, METH_FASTCALL | METH_KEYWORDS,
     "__array__($self, dtype=None, *, copy=None)\n"
     "--\n\n"
     "This memory as a numpy array; of types that numpy lacks, one of ml_dtypes, where that is installed.\n\n"
     "Shares the memory unless dtype or copy ask for other. Raises BufferError where the CPU can't read the memory or\n"
     "no such array can say its type."},
    {"__arrow_c_array__", (PyCFunction)(void (*)(void))object_arrow_c_array, METH_FASTCALL | METH_KEYWORDS,
     "__arrow_c_array__($self, requested_schema=None)\n"
     "--\n\n"
     "(schema capsule, array capsule) of the Arrow PyCapsule interface, for compact memory of the CPU.\n\n"
     "More than one dimension goes out as arrow.fixed_shape_tensor, bool as arrow.bool8. requested_schema is ignored,\n"
     "as the interface allows. Raises BufferError where Arrow can't say the memory."},
    {"__reduce__", object_reduce, METH_NOARGS, "Raises TypeError: memory can't be pickled."},
    {NULL, NULL, 0, NULL},
};

#define ATTRIBUTE(name, which, doc) {name, (getter)get_attribute, NULL, doc, (void *)(intptr_t)which}

static PyGetSetDef object_attributes[] = {
    ATTRIBUTE("shape", IS_SHAPE, "Length of each dimension, in elements."),
    ATTRIBUTE("strides", IS_STRIDES, "Distance of neighbours in each dimension, in elements."),
    ATTRIBUTE("ndim", IS_NDIM, "Number of dimensions."),
    ATTRIBUTE("size", IS_SIZE, "Number of elements."),
    ATTRIBUTE("itemsize", IS_ITEMSIZE, "Bytes of one element; 1 for packed sub-byte types, which share bytes."),
    ATTRIBUTE("nbytes", IS_NBYTES, "Bytes of all elements."),
    ATTRIBUTE("dtype", IS_DTYPE, "Name of the data type: \"float32\", \"bfloat16\", \"float4_e2m1fnx2\"."),
    ATTRIBUTE("device", IS_DEVICE, "(DLDeviceType, device id)."),
    ATTRIBUTE("readonly", IS_READONLY, "Whether the memory must not be written."),
    ATTRIBUTE("pointer", IS_POINTER, "Address of the first element; 0 where there is none."),
    {"protocol", (getter)get_protocol, NULL,
     "The protocol that was found: \"buffer\", \"__dlpack__\", a capsule's or a structure's name, \"pointer\". What\n"
     "has __dlpack__ is asked at each export, and where it refuses, its other protocols serve: the repr says which.",
     NULL},
    {"obj", (getter)get_obj, NULL, "The object that was given, of from_pointer the owner; None for a copy.", NULL},
    {"__array_interface__", get_array_interface, NULL,
     "Version 3, of memory that the CPU can read; absent where it does not apply.", NULL},
    {"__array_struct__", get_array_struct, NULL, "The same as a C structure in a capsule.", NULL},
    {"__cuda_array_interface__", get_cuda_array_interface, NULL, "Version 3, of memory of CUDA; absent elsewhere.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef object_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(DLPackObject, weakrefs), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot object_slots[] = {
    {Py_tp_doc,
     "Memory of another object, to be taken by any from_dlpack, and by what knows buffers, array interfaces or Arrow.\n"
     "Made by asdlpack, frombuffer and from_pointer.\n\n"
     "It holds one reference that keeps the memory alive and locked; each capsule made from it holds one to it."},
    {Py_tp_dealloc, object_dealloc},
    {Py_tp_traverse, object_traverse},
    {Py_tp_clear, object_clear},
    {Py_tp_repr, object_repr},
    {Py_tp_methods, object_methods},
    {Py_tp_getset, object_attributes},
    {Py_tp_members, object_members},
    {Py_bf_getbuffer, object_get_buffer},
    {Py_bf_releasebuffer, object_release_buffer},
    {0, NULL},
};

static PyType_Spec object_spec = {
    .name = "dlpack.DLPackObject",
    .basicsize = sizeof(DLPackObject),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = object_slots,
};

int object_init(PyObject *module)
{
    if (DLPackObject_type == NULL) {
        PyObject *devices = PyImport_ImportModule("dlpack._device");
        if (devices == NULL) {
            return -1;
        }
        DLDeviceType = PyObject_GetAttrString(devices, "DLDeviceType");
        Py_DECREF(devices);
        if (DLDeviceType == NULL) {
            return -1;
        }
        DLPackObject_type = (PyTypeObject *)PyType_FromSpec(&object_spec);
        if (DLPackObject_type == NULL) {
            return -1;
        }
    }
    return PyModule_AddType(module, DLPackObject_type);
}

/* type.c: the type DLPackObject: its attributes, methods and slots, and what they say of the tensor.
 *
 * It is C because only C can define a type of CPython's stable ABI. */
#include "out/out.h"

#include <structmember.h>

/* Attributes. */

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
        return tuple_of(tensor->shape, tensor->ndim);
    case IS_STRIDES:
        return tuple_of(tensor->strides, tensor->ndim);
    case IS_NDIM:
        return PyLong_FromLong(tensor->ndim);
    case IS_SIZE:
        return PyLong_FromLongLong(size_of(tensor));
    case IS_ITEMSIZE:
        return PyLong_FromLongLong(holder->itemsize);
    case IS_NBYTES:
        return PyLong_FromLongLong(object_nbytes(holder));
    case IS_DTYPE:
        return PyUnicode_FromString(holder->names.dtype);
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
    return PyUnicode_FromString(self->protocol);
}

static PyObject *get_obj(DLPackObject *self, void *Py_UNUSED(closure))
{
    return self->obj == NULL ? new_none() : Py_NewRef(self->obj);
}

/* A delegate whose producer refuses still has a repr, which says so. */
static PyObject *object_repr(DLPackObject *self)
{
    DLPackObject *holder = tensor_of(self);
    if (holder != NULL) {
        PyObject *is_copy = holds_memory(holder) ? Py_True : Py_False;
        return call_python(PYTHON_REPR, Py_BuildValue("(OzOO)", self, holder->protocol, holder, is_copy));
    }
    PyObject *refusal = PyErr_ExceptionMatches(PyExc_Exception) ? take_exception_text() : NULL;
    return refusal == NULL ? NULL : call_python(PYTHON_REPR, Py_BuildValue("(OzN)", self, self->protocol, refusal));
}

/* Methods. */

HOT static PyObject *object_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    struct export_arguments arguments = {0};
    const struct parameter parameters[] = {
        {names.stream, &arguments.stream},
        {names.max_version, &arguments.max_version},
        {names.dl_device, &arguments.dl_device},
        {names.copy, &arguments.copy},
    };
    enum { COUNT = sizeof parameters / sizeof *parameters };
    if (read_arguments("__dlpack__", parameters, COUNT, 1, 0, args, nargs, kwnames) < 0) {
        return NULL;
    }
    for (int i = 0; i < COUNT; i++) {
        if (*parameters[i].value == Py_None) {
            *parameters[i].value = NULL;
        }
    }
    DLPackObject *object = (DLPackObject *)self;
    return object->delegate ? delegate_export(object, &arguments) : export_tensor(object, &arguments);
}

static PyObject *object_dlpack_device(DLPackObject *self, PyObject *Py_UNUSED(ignored))
{
    DLDevice device = self->tensor.device;
    if (self->delegate && delegate_device(self, &device) < 0) {
        return NULL;
    }
    if (device.device_type == kDLCPU && device.device_id == 0) {
        return Py_NewRef(constants.cpu);
    }
    return Py_BuildValue("(ii)", (int)device.device_type, (int)device.device_id);
}

static PyObject *object_reduce(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored))
{
    return call_python(PYTHON_NO_PICKLE, PyTuple_New(0));
}

static PyMethodDef object_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))object_dlpack, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"__dlpack_device__", (PyCFunction)object_dlpack_device, METH_NOARGS, NULL},
    {"__bytes__", object_bytes, METH_NOARGS, NULL},
    {"__array__", (PyCFunction)(void (*)(void))object_array, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"__arrow_c_array__", (PyCFunction)(void (*)(void))object_arrow_c_array, METH_FASTCALL | METH_KEYWORDS, NULL},
    {"__reduce__", object_reduce, METH_NOARGS, NULL},
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
     "has __dlpack__ is asked at each export, and where it refuses, its other protocols serve: the repr says which. Of\n"
     "what a C library gave: \"__dlpack_c_exchange_api__\".",
     NULL},
    {"obj", (getter)get_obj, NULL,
     "The object that was given, of from_pointer the owner; None for a copy or a C library's tensor.", NULL},
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
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = object_slots,
};

int type_init(PyObject *module)
{
    if (add_docs(object_methods) < 0) {
        return -1;
    }
    if (DLPackObject_type == NULL) {
        DLPackObject_type = (PyTypeObject *)PyType_FromSpec(&object_spec);
        if (DLPackObject_type == NULL) {
            return -1;
        }
#ifdef Py_GIL_DISABLED
        /* Each object takes a reference to its type. Threads that count them in one place wait for each other: two wrap
         * less than one. What Python can't count is immortal; the module keeps the type for ever anyway. */
        Py_SET_REFCNT((PyObject *)DLPackObject_type, PY_SSIZE_T_MAX);
#endif
    }
    return exchange_api_init() < 0 ? -1 : PyModule_AddType(module, DLPackObject_type);
}

/* export_interface.c: gives a DLPackObject's memory by the array interfaces, and to numpy by __array__.
 *
 * It is C because these are attributes of a C type, and a capsule's structure must be released without Go. */
#include "out/out.h"
#include "read/array_struct.h"

#include <stdlib.h>

/* hasattr(x, ...) must be able to say no: what can't be had is absent, and only what broke passes as it is. */
static void become_absent(const char *attribute)
{
    if (!PyErr_ExceptionMatches(PyExc_Exception) || PyErr_ExceptionMatches(PyExc_MemoryError)) {
        return;
    }
    PyObject *reason = take_exception_text();
    if (reason != NULL) {
        PyErr_Format(PyExc_AttributeError, "%s: %U", attribute, reason);
        Py_DECREF(reason);
    }
}

static int check_typestr(const DLPackObject *holder)
{
    return holder->names.typestr[0] != '\0' ? 0 : object_refuse(holder, "no typestr");
}

/* The object with the tensor, where the array interface can say it; NULL: the attribute is absent. */
static DLPackObject *holder_for(PyObject *self, const char *attribute)
{
    DLPackObject *holder = cpu_tensor_of((DLPackObject *)self);
    if (holder == NULL || check_typestr(holder) < 0) {
        become_absent(attribute);
        return NULL;
    }
    return holder;
}

/* The dict, which Python's side makes. */
static PyObject *make_interface(const DLPackObject *holder, void *data)
{
    return call_python(PYTHON_INTERFACE,
                       Py_BuildValue("(OsNN)", holder, holder->names.typestr,
                                     PyBool_FromLong(object_is_compact(holder, 'C')), PyLong_FromVoidPtr(data)));
}

PyObject *get_array_interface(PyObject *self, void *Py_UNUSED(closure))
{
    DLPackObject *holder = holder_for(self, "__array_interface__");
    return holder == NULL ? NULL : make_interface(holder, object_address(holder));
}

/* An __array_struct__: what its capsule holds, with the strides behind it. The reference to the owner keeps the memory
 * and the shape. */
struct interface_block {
    PyArrayInterface array;
    PyObject *owner;
    Py_ssize_t strides[];
};

static void destroy_array_struct(PyObject *capsule)
{
    struct interface_block *block = PyCapsule_GetPointer(capsule, NULL);
    Py_DECREF(block->owner);
    free(block);
}

PyObject *get_array_struct(PyObject *self, void *Py_UNUSED(closure))
{
    DLPackObject *holder = holder_for(self, "__array_struct__");
    if (holder == NULL) {
        return NULL;
    }
    const DLTensor *tensor = &holder->tensor;
    struct interface_block *block = malloc(sizeof *block + (size_t)tensor->ndim * sizeof *block->strides);
    if (block == NULL) {
        return PyErr_NoMemory();
    }
    block->owner = (PyObject *)holder;
    block->array = (PyArrayInterface){
        .two = 2,
        .nd = tensor->ndim,
        .typekind = holder->names.typestr[1],
        .itemsize = (int)holder->itemsize,
        .flags = ARRAY_ALIGNED | ARRAY_NOTSWAPPED,
        .shape = tensor->shape,
        .strides = block->strides,
        .data = object_address(holder),
    };
    block->array.flags |= object_is_compact(holder, 'C') ? ARRAY_C_CONTIGUOUS : 0;
    block->array.flags |= object_is_compact(holder, 'F') ? ARRAY_F_CONTIGUOUS : 0;
    block->array.flags |= holder->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? 0 : ARRAY_WRITEABLE;
    for (int32_t i = 0; i < tensor->ndim; i++) {
        block->strides[i] = tensor->strides[i] * holder->itemsize;
    }
    PyObject *capsule = PyCapsule_New(block, NULL, destroy_array_struct);
    if (capsule == NULL) {
        free(block);
        return NULL;
    }
    Py_INCREF(block->owner);
    return capsule;
}

PyObject *get_cuda_array_interface(PyObject *self, void *Py_UNUSED(closure))
{
    const DLPackObject *holder = tensor_of((DLPackObject *)self);
    if (holder != NULL && holder->tensor.device.device_type != kDLCUDA &&
        holder->tensor.device.device_type != kDLCUDAManaged) {
        raise_text(PyExc_AttributeError, PYTHON_REFUSAL, Py_BuildValue("(Os)", holder, "not on CUDA"));
        return NULL;
    }
    if (holder == NULL || check_typestr(holder) < 0 || ordered_tensor_of((DLPackObject *)self) == NULL) {
        become_absent("__cuda_array_interface__");
        return NULL;
    }
    PyObject *interface = make_interface(holder, holder->tensor.data); /* 0: no items */
    return call_python(PYTHON_ADD_STREAM, Py_BuildValue("(NL)", interface, (long long)producer_stream(holder)));
}

PyObject *object_array(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *kwnames)
{
    PyObject *dtype = Py_None, *copy = Py_None;
    const struct parameter parameters[] = {{names.dtype, &dtype}, {names.copy, &copy}};
    if (read_arguments("__array__", parameters, 2, 1, 0, args, nargs, kwnames) < 0) {
        return NULL;
    }
    DLPackObject *holder = cpu_tensor_of((DLPackObject *)self);
    if (holder == NULL) {
        return NULL;
    }
    PyObject *interface = make_interface(holder, object_address(holder));
    PyObject *is_packed = object_is_packed(holder) ? Py_True : Py_False;
    return call_python(PYTHON_TO_NUMPY, Py_BuildValue("(ONOOO)", self, interface, is_packed, dtype, copy));
}

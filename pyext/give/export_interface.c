/* export_interface.c: exports a DLPackObject's memory by the array interfaces.
 *
 * It is C because these are attributes of a C type, and a capsule's structure must be released without Go. */
#include "give/give.h"
#include "read/array_struct.h"

#include <stdlib.h>
#include <string.h>

/* The capsule's context is the object with the memory, the shape and the strides. */
static void destroy_array_struct(PyObject *capsule)
{
    Py_DECREF((PyObject *)PyCapsule_GetContext(capsule));
    free(PyCapsule_GetPointer(capsule, NULL));
}

static PyObject *make_array_struct(struct memory *self)
{
    PyArrayInterface *array = malloc(sizeof *array);
    if (array == NULL) {
        return PyErr_NoMemory();
    }
    *array = (PyArrayInterface){
        .two = 2,
        .nd = self->tensor.ndim,
        .typekind = self->names.typestr[1],
        .itemsize = (int)self->itemsize,
        .flags = ARRAY_ALIGNED | ARRAY_NOTSWAPPED | (object_is_compact(self, 'C') ? ARRAY_C_CONTIGUOUS : 0) |
                 (object_is_compact(self, 'F') ? ARRAY_F_CONTIGUOUS : 0) |
                 (self->flags & DLPACK_FLAG_BITMASK_READ_ONLY ? 0 : ARRAY_WRITEABLE),
        .shape = self->tensor.shape,
        .strides = byte_strides(self),
        .data = object_address(self),
    };
    PyObject *capsule = PyCapsule_New(array, NULL, destroy_array_struct);
    if (capsule == NULL) {
        free(array);
        return NULL;
    }
    PyCapsule_SetContext(capsule, Py_NewRef((PyObject *)self));
    return capsule;
}

static PyObject *make_interface(DLPackObject *self, const char *attribute)
{
    bool of_cuda = strcmp(attribute, "__cuda_array_interface__") == 0;
    struct memory *holder = of_cuda ? tensor_of(self) : cpu_tensor_of(self);
    if (holder == NULL) {
        return NULL;
    }
    int32_t device = holder->tensor.device.device_type;
    if (of_cuda && device != kDLCUDA && device != kDLCUDAManaged) {
        check_in_python(python.refuse, Py_BuildValue("(OsO)", holder, "not-on-cuda", PyExc_AttributeError));
        return NULL;
    }
    if (holder->names.typestr[0] == '\0') {
        object_refuse(holder, "no-typestr");
        return NULL;
    }
    if (strcmp(attribute, "__array_struct__") == 0) {
        return make_array_struct(holder);
    }
    if (!of_cuda) {
        return call_python(python.interface, PyTuple_Pack(1, holder));
    }
    struct memory *ordered = ordered_tensor_of(self);
    if (ordered == NULL) {
        return NULL;
    }
    long long stream = producer_stream(ordered);
    if (stream < 0) { /* an event; the interface has only streams */
        stream = STREAM_LEGACY;
        if (order_before_default_stream(ordered) < 0) {
            Py_DECREF((PyObject *)ordered);
            return NULL;
        }
    }
    return call_python(python.interface, Py_BuildValue("(NL)", ordered, stream));
}

/* Turns a refusal into an AttributeError; other errors pass unchanged. */
PyObject *get_interface(PyObject *self, void *attribute)
{
    PyObject *interface = make_interface((DLPackObject *)self, attribute);
    if (interface == NULL && is_refusal()) {
        check_in_python(python.absent, Py_BuildValue("(sN)", attribute, take_exception()));
    }
    return interface;
}
